"""A product of matrices with what is computed from it at its own points, as a program of its own: what is measured.

%c = aten.addmm(%b, %x, %w)  %d = aten.gelu(%c)  …      func @main(%b, %x, %w) { addmm, gelu, return }
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue

from ..dialects import expr
from ..dialects.aten import AtenOp
from ..dialects.tensor import TensorType
from .aten_to_prims import AtenToPrims
from .attention_call import AttentionCall
from .decomposition import RULES
from .products import CONVERSIONS, Product, is_product

MOST = 16
"""Operators in such a program."""

assert AtenToPrims  # its module fills the table of rules


def part_of(product: Product | AttentionCall) -> ModuleOp | None:
    """The program; None where a size in it is not known."""
    ops = _ops(product)
    inside = {r for o in ops for r in o.results}
    args = list(dict.fromkeys(v for o in ops for v in o.operands if v not in inside))
    results = [r for o in ops for r in o.results if any(u.operation not in ops for u in r.uses)]
    results = results or list(ops[-1].results[:1])
    values = [*args, *inside]
    if not all(isinstance(v.type, TensorType) and _is_known(v.type) for v in values):
        return None
    block = Block(arg_types=[v.type for v in args])
    mapped: dict[SSAValue, SSAValue] = dict(zip(args, block.args, strict=True))
    for o in ops:
        copy = o.clone(mapped)
        copy.attributes.clear()
        block.add_op(copy)
    block.add_op(func.ReturnOp(*(mapped[r] for r in results)))
    types = [v.type for v in args], [r.type for r in results]
    return ModuleOp([func.FuncOp("main", types, Region(block))])


def _ops(product: Product | AttentionCall) -> list[Operation]:
    """The product and the operators of its points that read it, in order."""
    ops: list[Operation] = [product.op]
    waiting: list[Operation] = [product.op]
    block = product.op.parent_block()
    while waiting:
        for use in [u for r in waiting.pop().results for u in r.uses]:
            user = use.operation
            if user not in ops and len(ops) < MOST and user.parent_block() is block and is_pointwise(user):
                ops.append(user)
                waiting.append(user)
    order = {o: i for i, o in enumerate(block.ops)} if block is not None else {}
    return _closed(sorted(ops, key=lambda o: order[o]), order)


def _closed(ops: list[Operation], order: dict[Operation, int]) -> list[Operation]:
    """Without operators that read what comes from the others by a way around."""
    kept: list[Operation] = []
    behind: set[Operation] = set()
    last = max(order[o] for o in ops)
    for o in order:
        if order[o] > last:
            break
        makers = {v.owner for v in o.operands}
        if o in ops and not makers & behind:
            kept.append(o)
        elif makers & (behind | set(kept)):
            behind.add(o)
    return kept


def is_pointwise(op: Operation) -> bool:
    """Whether an operator becomes what is computed point by point, or a view."""
    entry = RULES.get(op.name)
    if not isinstance(op, AtenOp) or entry is None or is_product(op):
        return False
    return "pointwise" in op.schema.tags or op.name in CONVERSIONS or entry.alias


def _is_known(t: TensorType) -> bool:
    return not any(expr.symbols(cast(int, d)) for d in (*t.shape, *t.strides))
