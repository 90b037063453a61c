"""Calls into torch that add up in one order, whatever number of threads torch is to use (option `deterministic`).

ATen, oneDNN and MKL give each thread a share of what is added, so that the bits depend on their number. With one
thread they do not. Kernels of ours have shares that do not depend on it.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from ..dialects.aten import AtenOp
from ..dialects.tensor import TensorType

if TYPE_CHECKING:
    from .host_to_llvm import HostLowering

ADDING_NOTHING: Final = frozenset(
    {"aten.copy_", "aten.cat", "aten.nonzero", "aten.sort", "aten.sort.stable", "aten.topk"}
    | {"aten.max_pool2d_with_indices", "aten.sym_size.int", "aten._assert_scalar"}
)
"""Calls that move or compare elements, or make none: any number of threads gives the same."""


@contextmanager
def one_thread(host: HostLowering, op: AtenOp) -> Generator[None]:
    """What is written in the context, which does not leave, runs with one thread where the order of sums matters."""
    types = (v.type for v in (*op.operands, *op.results))
    on_cpu = any(isinstance(t, TensorType) and t.device == "cpu" for t in types)
    if not host.deterministic or not on_cpu or op.schema.is_view or op.name in ADDING_NOTHING:
        yield
        return
    before = host.frame.get("lamella_one_thread")
    yield
    host.frame.call("lamella_threads_restore", before)
