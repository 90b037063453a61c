"""AOTAutograd's own record of its graphs: it prints each as Python with all types, whether or not anybody reads that.

Where torch's logs of these graphs go nowhere, it is left out: 2 % of what compiling a step of training takes.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from torch._functorch._aot_autograd import graph_compile as _graph_compile
from torch._logging import _internal

graph_compile: Any = _graph_compile
_PRINTS = {"_log_joint_graph": None, "_log_inference_graph": None, "_log_fw_bw_graphs": (None, None)}
"""Functions that print graphs into logs, and what they return for a graph that is not printed."""


def are_read() -> bool:
    """Whether somebody reads AOTAutograd's graphs: TORCH_TRACE, or TORCH_LOGS with a log of them."""
    logs = (graph_compile.aot_joint_log, graph_compile.aot_graphs_log)
    return bool(_internal.trace_log.handlers) or any(log.isEnabledFor(logging.INFO) for log in logs)


@contextmanager
def printed_if_read() -> Generator[None]:
    """A context in which AOTAutograd prints graphs only for somebody to read."""
    with ExitStack() as changed:
        if not are_read():
            for name, nothing in _PRINTS.items():
                changed.enter_context(patch.object(graph_compile, name, lambda *_, nothing=nothing: nothing))
        yield
