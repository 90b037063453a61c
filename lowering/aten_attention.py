"""aten to aten: keys and values of ATen's attention on the CPU come without the repetition of their heads.

    attention(q, k.repeat_interleave(n, 1), v.repeat_interleave(n, 1)) = attention(q, k, v)

The kernel shares heads itself; the repeated ones were copies.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ..dialects import expr
from ..dialects.aten import AtenOp
from ..dialects.tensor import TensorType
from .attention_call import FLASH

_VIEWS: Final = frozenset({"aten.view", "aten._unsafe_view", "aten.reshape"})


@dataclass(frozen=True)
class AtenAttention(ModulePass):
    """Share keys and values among heads."""

    name = "aten-attention"
    statistics: dict[str, int] = field(default_factory=dict[str, int], init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.statistics["calls"] = sum(
            _share_heads(o)
            for f in op.ops
            if isinstance(f, FuncOp) and not f.is_declaration
            for o in f.body.block.ops
            if isinstance(o, AtenOp) and o.name == FLASH
        )


def _share_heads(op: AtenOp) -> bool:
    """Take the keys and values before their heads were repeated, if both were. A backward that follows reads those that
    were repeated, of which it gives gradients: they are made for it alone.
    """
    key, value = (_before_repeating(cast(SSAValue, op.arg(name))) for name in ("key", "value"))
    if key is None or value is None or _type(key).shape != _type(value).shape:
        return False
    op.operands[1], op.operands[2] = key, value
    return True


def _before_repeating(v: SSAValue) -> SSAValue | None:
    """The k of k.unsqueeze(2).expand(batch, groups, times, …).reshape(batch, groups * times, …)."""
    view = v.owner
    if not isinstance(view, AtenOp) or view.name not in _VIEWS:
        return None
    wide = view.operands[0].owner
    if isinstance(wide, AtenOp) and wide.name == "aten.clone":
        wide = wide.operands[0].owner
    if not isinstance(wide, AtenOp) or wide.name != "aten.expand":
        return None
    thin = wide.operands[0].owner
    if not isinstance(thin, AtenOp) or thin.name != "aten.unsqueeze" or thin.arg("dim") not in (2, -3):
        return None
    k = thin.operands[0]
    if _type(k).rank != 4 or _type(v).rank != 4 or _type(v).dtype != _type(k).dtype:
        return None
    batch, groups, times, *rest = _type(wide.results[0]).shape
    repeated = (batch, expr.normal(groups * times), *rest)  # pyright: ignore[reportOperatorIssue]
    return k if _type(v).shape == repeated and _type(k).shape == (batch, groups, *rest) else None


def _type(v: SSAValue) -> TensorType:
    return cast(TensorType, v.type)
