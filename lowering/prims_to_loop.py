"""From prims to loop, first form: a nest for each elementwise op, reduction, scan, product, gather; views fold into
loads.

Legal afterwards: func, loop, arith, math, and whatever was no prims op (aten calls). Assumes that the function has one
block. A view becomes a tensor only where it leaves, into a result or an operand of another op: as a `loop.view` if
strides can say it, else by a nest that copies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region
from xdsl.passes import ModulePass

from ..dialects import prims
from ..dialects.aliasing import written
from ..dialects.errors import LamellaVerifyError
from ..dialects.flow import TERMINATORS, bodies
from ..dialects.tensor import TensorType, itemsize
from .prims_memory import leaves, shared_memory
from .prims_to_loop_access import repeated, tensor_type, used_dims, without_dims
from .prims_to_loop_body import Body
from .prims_to_loop_dot import dot
from .prims_to_loop_indexing import gather, scatter
from .prims_to_loop_rebuild import Rebuild
from .prims_to_loop_reduce import reduce, scan, sort, var_mean
from .prims_to_loop_scalar import scalar
from .prims_to_loop_views import VIEWS

NESTS: dict[type[prims.PrimsOp], Callable[[Rebuild, Any], None]] = {
    prims.ReduceOp: reduce,
    prims.VarMeanOp: var_mean,
    prims.ScanOp: scan,
    prims.SortOp: sort,
    prims.DotOp: dot,
    prims.GatherOp: gather,
    prims.ScatterOp: scatter,
}
"""How each op that is neither elementwise nor a view becomes nests."""

MANY = 16
"""Parts of parts that are read without a buffer: more, as of a tensor whose rows a loop writes one after another, are
put together first, or each step would go through the parts of all before it.
"""


@dataclass(frozen=True)
class PrimsToLoop(ModulePass):
    """Lower prims ops to loop nests, with views folded into the loads of their users.

    `split` splits dims of nests whose loads need floordiv and mod (`index_split`).
    """

    name = "prims-to-loop"
    split: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for body in bodies(op):
            _rebuild(body, self.split)


def _rebuild(body: Region, split: bool) -> None:
    old = body.block
    new = Block(arg_types=[a.type for a in old.args])
    to = Rebuild(split, {v: i for i, op in enumerate(old.ops) for v in op.operands})
    for a, b in zip(old.args, new.args, strict=True):
        b.location = a.location
        to.define(a, b)
    shared = shared_memory(list(old.ops))
    for to.position, op in enumerate(old.ops):
        _lower(to, op)
        for result in op.results if shared else ():
            if result in shared:
                to.value(result, op, fresh=True)
    new.add_ops(to.ops)
    body.detach_block(old)
    body.add_block(new)


def _lower(to: Rebuild, op: Operation) -> None:
    kind = type(op)
    if (view := VIEWS.get(cast(Any, kind))) is not None:
        operands = [to.access(v) for v in op.operands]
        access = view(op, *operands)
        to.define_access(op.results[0], access)
        if isinstance(op, prims.ReshapeOp):
            to.merge(op)
        elif len(access.cases) > max(MANY, len(operands)) and access.copied:
            to.copied(op.results[0], op)
    elif isinstance(op, prims.ElementwiseOp):
        _elementwise(to, op)
    elif kind in NESTS:
        NESTS[cast(Any, kind)](to, op)
    elif isinstance(op, prims.PrimsOp):
        raise LamellaVerifyError(op, "has no loop form")
    else:
        _other(to, op)


def _elementwise(to: Rebuild, op: prims.ElementwiseOp) -> None:
    result = op.results[0]
    t = tensor_type(result)
    if isinstance(op, prims.ConvertOp) and tensor_type(op.operand).dtype == t.dtype:
        # a copy: it matters where it leaves
        to.define_access(result, to.access(op.operand)._replace(copied=True))
        if _is_returned(op):
            to.copied(result, op)
        return
    operands = [to.access(v) for v in op.operands]
    used = used_dims(operands)
    body = Body(op)
    if used is None:
        value = scalar(body, op, [body.element(x) for x in operands])
        to.define(result, to.nest(body, (value,), (t,))[0])
        return
    # what all operands repeat is computed once
    value = scalar(body, op, [body.element(without_dims(x, used)) for x in operands])
    (once,) = to.nest(body, (value,), (TensorType.get([t.shape[k] for k in used], t.dtype, None, t.device),))
    to.define_access(result, repeated(once, used, t.shape))


def _is_returned(op: prims.ElementwiseOp) -> bool:
    """Whether a copy in another layout, all that is read of what was rounded, is a result: it is made at once, so that
    what is wider does not wait.
    """
    (source,) = op.operands
    rounded = source.owner
    if not isinstance(rounded, prims.ConvertOp) or [use.operation for use in source.uses] != [op]:
        return False
    before, t = tensor_type(rounded.operand), tensor_type(op.results[0])
    other = tensor_type(source).strides != t.strides and itemsize(before.dtype) > itemsize(t.dtype)
    return other and any(isinstance(use.operation, TERMINATORS) for use in op.results[0].uses)


def _other(to: Rebuild, op: Operation) -> None:
    """An op of another level: on tensors, as they are.

    Where one writes into an operand, what was there is copied before, for views that must keep it.
    """
    changed = written(op)
    if not changed:
        fresh = leaves(op)
        to.copy_op(op, [to.value(v, op, fresh=fresh) for v in op.operands])
        return
    operands = {v: to.value(v, op, fresh=True) for v in changed}
    for v, new in operands.items():
        to.define(v, new)
    for v in to.used_views(operands.values()):
        if v not in operands:
            to.copied(v, op)
    to.copy_op(op, [operands[v] if v in operands else to.value(v, op) for v in op.operands])
