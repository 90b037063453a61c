"""Calls of operators that write their result into memory given to them."""

from __future__ import annotations

from xdsl.ir import Operation

from ..dialects.aten import AtenOp, lookup
from ..dialects.tensor import TensorType

OUT_VARIANTS: dict[str, str] = {
    "aten.mm": "aten.mm.out",
    "aten.addmm": "aten.addmm.out",
    "aten.bmm": "aten.bmm.out",
    "aten.baddbmm": "aten.baddbmm.out",
    "aten.randint.low": "aten.randint.low_out",
}
"""Operators that write into memory they are given. Their result is contiguous, as eager's is."""


def out_variant(op: Operation) -> type[AtenOp] | None:
    """The overload of this call that writes into memory it is given; None where there is none, or the layout
    differs.
    """
    name = OUT_VARIANTS.get(op.name)
    if name is None:
        return None
    type = op.results[0].type
    fits = isinstance(type, TensorType) and type.is_contiguous and type.device.startswith(("cpu", "cuda"))
    return lookup(name) if fits else None
