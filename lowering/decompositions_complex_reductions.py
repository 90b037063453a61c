"""Reductions and scans of complex numbers, and updates that are sums."""

from __future__ import annotations

from typing import Any, Final

from .complex_value import Pair, with_real
from .decomposition import Call
from .decompositions_complex import complex_rule
from .decompositions_indexing import index_rows
from .decompositions_reductions import dims_in, divide_by_count, sum_over
from .decompositions_reductions import var as var_of_reals
from .decompositions_reductions import vector_norm as norm_of_reals
from .decompositions_scatter_reduce import scatter_value_reduce as scatter_of_reals
from .prims_builder import Value
from .promotion import opmath

MANY: Final = 64
"""Numbers up to which products are made in steps by which they double: several kernels in place of a call."""


@complex_rule("aten.any", "aten.any.dim", "aten.any.dims", "aten.all", "aten.all.dim", "aten.all.dims")
def truth(call: Call, x: Pair, dims: Any = None, keepdim: bool = False) -> Value:
    over = dims_in(x.re, dims) if dims != () else []
    y = ~x.is_zero()
    return y.reduce(call.op.name.split(".")[1], over, keepdim=keepdim) if over else y


@complex_rule("aten.count_nonzero", "aten.count_nonzero.dim_IntList")
def count_nonzero(call: Call, x: Pair, dims: Any = None) -> Value:
    over = dims_in(x.re, dims)
    y = (~x.is_zero()).to("i64")
    return y.reduce("sum", over) if over else y


@complex_rule("aten.linalg_vector_norm")
def vector_norm(call: Call, x: Pair, *rest: Any) -> Any:
    """That of the magnitudes, which are computed in the dtype of the result."""
    return norm_of_reals(call, x.to(opmath(call.type.dtype)).magnitude(), *rest)


@complex_rule("aten.var.correction", "aten.std.correction")
def var(call: Call, x: Pair, dims: Any, correction: Any, keepdim: bool) -> Any:
    """That of the real parts and that of the imaginary parts, added."""
    y = var_of_reals(call, x.re, dims, correction, keepdim) + var_of_reals(call, x.im, dims, correction, keepdim)
    return y.sqrt() if "std" in call.op.name else y


@complex_rule("aten.var_mean.correction", "aten.std_mean.correction")
def var_mean(call: Call, x: Pair, dims: Any, correction: Any, keepdim: bool) -> Any:
    over = dims_in(x.re, dims)
    mean = Pair(*(divide_by_count(sum_over(part, over, keepdim), part.count(over)) for part in x))
    return var(call, x, dims, correction, keepdim), mean


@complex_rule("aten.prod", "aten.prod.dim_int")
def prod(call: Call, x: Pair, dim: int | None = None, keepdim: bool = False, *rest: Any) -> Any:
    """Of the first half by the second, again and again."""
    over = dims_in(x.re, dim)
    n = x.re.count(over)
    if not isinstance(n, int) or not 0 < n <= MANY:
        return NotImplemented
    kept = [d for d in range(x.rank) if d not in over]
    shape = [*(x.shape[d] for d in kept), n]
    x = x.times(1.0)  # as ATen begins: what is infinite has a part that is NaN
    y = x.each(lambda part: part.transpose([*kept, *over]).reshape(shape) if over else part.reshape(shape))
    along = len(kept)
    while n > 1:
        first, second = _halves(y, along, n)
        both = first.times(second)
        y = both if n % 2 == 0 else both.where(_index(first, along) < n // 2, first)
        n = (n + 1) // 2
    return y.each(lambda part: part.reshape(call.type.shape))


def _halves(x: Pair, dim: int, n: int) -> tuple[Pair, Pair]:
    """Of n numbers along dim; the second half has a zero more where n is odd."""
    half = (n + 1) // 2
    first = x.each(lambda part: part.slice(dim, 0, half))
    return first, x.each(lambda part: _moved(part.slice(dim, half, n - half), dim, 0, 2 * half - n))


@complex_rule("aten.cumprod")
def cumprod(call: Call, x: Pair, dim: int, dtype: str | None) -> Any:
    """Each times what lies 1, 2, 4, … before it."""
    if not x.rank:
        return x
    dim %= x.rank
    n = x.shape[dim]
    if not isinstance(n, int) or n > MANY:
        return NotImplemented
    x, step = x.times(1.0), 1
    while step < n:
        before = x.each(lambda part, step=step: _moved(part, dim, step, -step))
        x = before.times(x).where(_index(x, dim) >= step, x)
        step *= 2
    return x


def _moved(part: Value, dim: int, low: int, high: int) -> Value:
    """With so many zeros before and after along dim."""
    lows, highs = ([n if d == dim else 0 for d in range(part.rank)] for n in (low, high))
    return part.pad(lows, highs, 0) if low or high else part


def _index(x: Pair, dim: int) -> Value:
    return x.re.b.iota(dim, x.re.type.with_(dtype="i64"))


@complex_rule("aten.index_add")
def index_add(call: Call, x: Pair, dim: int, index: Value, source: Any, alpha: complex) -> Pair:
    source = with_real(source, x.re.dtype).times(alpha)
    return Pair(*(index_rows(a, dim, index, b, "add") for a, b in zip(x, source, strict=True)))


@complex_rule("aten.scatter.value_reduce")
def scatter_value_reduce(call: Call, x: Pair, dim: int, index: Value, value: complex, reduce: str) -> Any:
    """Sums part by part; there are no products."""
    if reduce != "add":
        return NotImplemented
    value = complex(value)
    parts = ((x.re, value.real), (x.im, value.imag))
    return Pair(*(scatter_of_reals(call, part, dim, index, number, reduce) for part, number in parts))
