"""aten to aten: a matrix product of one row is one of two rows, the second zeros, computed as a product of many is.

    %c = aten.mm(%a, %b) : [1, k] x [k, n]  ->  the first row of aten.mm(constant_pad_nd(%a, [0, 0, 0, 1]), %b)

With every product a kernel, reductions whole and rounding where eager rounds (`driver.pipeline` asks for these too),
an element of a result depends on its row alone: all forms of a product of two rows and more add in one order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ..dialects.aten import AtenOp, lookup
from ..dialects.flow import bodies
from ..dialects.tensor import TensorType

ROWS: Final = {"aten.mm": "self", "aten.addmm": "mat1", "aten.bmm": "self", "aten.baddbmm": "batch1"}
"""The factor that has the rows of each product."""


@dataclass(frozen=True)
class AtenBatchInvariant(ModulePass):
    """Make products of one row as products of two."""

    name = "aten-batch-invariant"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for body in bodies(op):
            for o in list(body.block.ops):
                if isinstance(o, AtenOp) and o.name in ROWS and cast(TensorType, o.results[0].type).shape[-2] == 1:
                    _two_rows(o)


def _two_rows(op: AtenOp) -> None:
    t = cast(TensorType, op.results[0].type)
    factor = cast(SSAValue, op.arg(ROWS[op.name]))
    two = (*t.shape[:-2], 2, t.shape[-1])

    def before(name: str, args: list[object], type: TensorType) -> SSAValue:
        cls = lookup(name)
        assert cls is not None
        return _insert(op, cls.call(args, [type], op.location))

    rows = cast(TensorType, factor.type)
    more = rows.with_(shape=(*rows.shape[:-2], 2, rows.shape[-1]))
    padded = before("aten.constant_pad_nd", [factor, (0, 0, 0, 1)], more)
    given = {ROWS[op.name]: padded}
    bias = op.arg("self") if "add" in op.name else None
    if isinstance(bias, SSAValue) and len(cast(TensorType, bias.type).shape) > 1:
        # a bias of one row is repeated as it is
        b = cast(TensorType, bias.type)
        wide = (*b.shape[:-2], 2, b.shape[-1])
        repeated = b.with_(shape=wide, strides=(*b.strides[:-2], 0, b.strides[-1]))
        given["self"] = before("aten.expand", [bias, wide], repeated)
    arguments = [given.get(a.name, v) for a, v in zip(op.schema.args, op.args(), strict=True)]
    product = _insert(op, type(op).call(arguments, [t.with_(shape=two)], op.location))
    made = cast(TensorType, product.type)
    first = before("aten.slice.Tensor", [product, len(two) - 2, 0, 1], t.with_(shape=t.shape, strides=made.strides))
    value = before("aten.clone", [first, "contiguous_format"], t)
    value.name_hint = op.results[0].name_hint
    op.results[0].replace_all_uses_with(value)
    op.detach()
    op.erase()


def _insert(op: AtenOp, new: Operation) -> SSAValue:
    block = op.parent_block()
    assert block is not None
    block.insert_op_before(new, op)
    return new.results[0]
