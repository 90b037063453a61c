"""Matrix products of prims as nests: a sum over the inner dim, one point for each element of the result.

    %c = prims.dot %a, %b
    %c = loop.nest [d0 = M, d1 = N] reduce [r0 = K] combine [add] { yield load %a[d0, r0] * load %b[r0, d1] }

Dims of one point are left out, so that the product of a row is the sum of one dim that it is. Everything below sees an
ordinary reduction; `contraction` recognises it again from its structure.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from ..dialects import expr, prims
from ..dialects.expr import Dim
from ..dialects.loop import DimsAttr
from ..dialects.tensor import TensorType, is_float
from .index_simplify import Facts, facts
from .prims_to_loop_access import Access, compose, repeated, tensor_type
from .prims_to_loop_body import Body, is_computable
from .prims_to_loop_rebuild import Rebuild


def dot(to: Rebuild, op: prims.DotOp) -> None:
    lhs, rhs, t = to.access(op.lhs), to.access(op.rhs), tensor_type(op.result)
    body = Body(op)
    for dtype in (lhs.dtype, t.dtype):
        if not is_computable(dtype):
            body.reject(dtype)
    kept = tuple(k for k, n in enumerate(t.shape) if n != 1)
    dims = DimsAttr.get((f"d{i}", t.shape[k]) for i, k in enumerate(kept))
    reduce = DimsAttr.get((("r0", lhs.shape[-1]),))
    places: list[Dim] = [0] * t.rank
    for i, k in enumerate(kept):
        places[k] = expr.symbol(f"d{i}")
    r = expr.symbol("r0")
    *batch, row, column = places
    known = facts((*dims, *reduce))
    factors = (
        _element(body, lhs, (*batch, row, r), known, t.dtype),
        _element(body, rhs, (*batch, r, column), known, t.dtype),
    )
    value = body.add(arith.MulfOp if is_float(t.dtype) else arith.MuliOp, *factors)
    whole = len(kept) == t.rank
    inner = t if whole else TensorType.get([t.shape[k] for k in kept], t.dtype, None, t.device)
    (result,) = to.nest(body, (value,), (inner,), dims=dims, reduce=reduce, combine=("add",))
    if whole:
        to.define(op.result, result)
    else:
        to.define_access(op.result, repeated(result, kept, t.shape))


def _element(body: Body, access: Access, index: tuple[Dim, ...], known: Facts, dtype: str) -> SSAValue:
    """The element at `index`, in the dtype of the sum. Where there are no points, any will do."""
    cases = compose(access, index, known)
    return body.convert(body.element(access._replace(cases=cases) if cases else access), access.dtype, dtype)
