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
from .index_bounds import is_plain
from .index_simplify import Facts, facts
from .prims_to_loop_access import Access, compose, dim_symbols, layout, tensor_type
from .prims_to_loop_body import Body, is_computable
from .prims_to_loop_rebuild import Rebuild


def dot(to: Rebuild, op: prims.DotOp) -> None:
    t = tensor_type(op.result)
    lhs, rhs = _factor(to, op, op.lhs, -1), _factor(to, op, op.rhs, -2)
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


def _factor(to: Rebuild, op: prims.DotOp, factor: SSAValue, inner: int) -> Access:
    """A factor as it lies, or copied where its inner dim is several of memory that no step connects (heads beside each
    other, say): each of its elements is read for many points, and tiles of a CPU's kernels go along one dim.
    """
    access = to.access(factor)
    rank = len(access.shape)
    r = dim_symbols(rank)[rank + inner]
    parted = access.load is not None and any(r in expr.symbols(e) and not is_plain(e) for e in access.load.at)
    if parted and tensor_type(op.result).device == "cpu" and layout(access) is None:
        to.copied(factor, op)
    return to.access(factor)


def _element(body: Body, access: Access, index: tuple[Dim, ...], known: Facts, dtype: str) -> SSAValue:
    """The element at `index`, in the dtype of the sum. Where there are no points, any will do."""
    cases = compose(access, index, known)
    return body.convert(body.element(access._replace(cases=cases) if cases else access), access.dtype, dtype)
