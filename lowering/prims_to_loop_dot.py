"""Matrix products of prims as nests: a sum over the inner dim, one point for each element of the result.

    %c = prims.dot %a, %b
    %c = loop.nest [d0 = M, d1 = N] reduce [r0 = K] combine [add] { yield load %a[d0, r0] * load %b[r0, d1] }

Everything below sees an ordinary reduction; `contraction` recognises it again from its structure. Rows of one point are
kept, so that what follows has the same points.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from ..dialects import expr, prims
from ..dialects.expr import Dim
from ..dialects.loop import DimsAttr
from ..dialects.tensor import is_float
from .index_simplify import Facts, facts
from .prims_to_loop_access import Access, compose, tensor_type
from .prims_to_loop_body import Body, is_computable
from .prims_to_loop_rebuild import Rebuild


def dot(to: Rebuild, op: prims.DotOp) -> None:
    lhs, rhs, t = to.access(op.lhs), to.access(op.rhs), tensor_type(op.result)
    body = Body(op)
    for dtype in (lhs.dtype, t.dtype):
        if not is_computable(dtype):
            body.reject(dtype)
    dims = DimsAttr.get((f"d{k}", n) for k, n in enumerate(t.shape))
    reduce = DimsAttr.get((("r0", lhs.shape[-1]),))
    places: list[Dim] = [d.symbol for d in dims]
    r = expr.symbol("r0")
    *batch, row, column = places
    known = facts((*dims, *reduce))
    factors = (
        _element(body, lhs, (*batch, row, r), known, t.dtype),
        _element(body, rhs, (*batch, r, column), known, t.dtype),
    )
    value = body.add(arith.MulfOp if is_float(t.dtype) else arith.MuliOp, *factors)
    (result,) = to.nest(body, (value,), (t,), dims=dims, reduce=reduce, combine=("add",))
    to.define(op.result, result)


def _element(body: Body, access: Access, index: tuple[Dim, ...], known: Facts, dtype: str) -> SSAValue:
    """The element at `index`, in the dtype of the sum. Where there are no points, any will do."""
    cases = compose(access, index, known)
    return body.convert(body.element(access._replace(cases=cases) if cases else access), access.dtype, dtype)
