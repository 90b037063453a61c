"""What is known of sizes that are data, asked when it is asked for.

torch remembers what `guard_or_false` assumed of such a size, and goes on with that when the size is known. There is at
most one different element among one, and at least one where one is read: still a squeeze would keep the dim, and
`unbind`, which is told as one.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from torch.fx.experimental.symbolic_shapes import ShapeEnv, has_free_unbacked_symbols

_Env: Any = ShapeEnv
_evaluate: Any = _Env.evaluate_sym_node


def _evaluated(env: Any, node: Any, size_oblivious: bool = False, fallback_value: bool | None = None) -> Any:
    answer = _evaluate(env, node, size_oblivious, fallback_value)
    if fallback_value is None or bool(answer) != fallback_value or not has_free_unbacked_symbols(node.expr):
        return answer
    known = env._maybe_evaluate_static(node.expr)
    return answer if known is None else known


@contextmanager
def known_sizes() -> Generator[None]:
    """A context in which nothing is assumed of sizes that are known."""
    with patch.object(ShapeEnv, "evaluate_sym_node", _evaluated):
        yield
