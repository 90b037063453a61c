"""Order along a dim: everything here is `prims.sort` of whole numbers that have the element's place as last digits.

So ties are in the order of their places, as a stable sort leaves them; NaN is larger than all else, 0.0 equals -0.0.
Where eager leaves open which of equal elements it takes (topk, kthvalue, median, mode and sorts that are not
stable), it is the first of them, for `mode` the last.

Where there is no code for `prims.sort` (GPUs), a few least elements are found by as many reductions.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ..dialects import expr, prims
from ..dialects.expr import Dim
from ..dialects.tensor import is_float, itemsize
from .decomposition import Call, rule
from .decompositions_views import dims_of
from .prims_builder import Value
from .sorting import CANDIDATES

INFINITY: Final = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF0000000000000}
"""The bits of infinity."""

NARROW: Final = 1 << 16
"""Elements of a row whose places go into 16 bits."""

WIDE: Final = 1 << 31
"""Elements of a row whose places go into 32 bits, with no doubt."""

FEW: Final = 16
"""Elements that are found by reductions."""

HELD: Final = 1 << 14
"""Elements of a row that reductions find at hand again."""


SELECTED: Final = 1 << 14
"""Elements of a row that are sorted to find one of them in the middle; of 64 bits a sixteenth."""


class Order(NamedTuple):
    """The first places of an order along a dim: which element stands there, as i64."""

    x: Value
    dim: int
    places: Value

    def values(self) -> Value:
        """The elements that stand there."""
        return taken(self.x, self.dim, self.places)


def taken(x: Value, dim: int, places: Value) -> Value:
    """The elements of x at `places` along a dim."""
    index: list[Any] = dims_of(x.rank)
    index[dim] = expr.symbol("i0")
    return x.gather([places], index, places.type.with_(dtype=x.dtype))


def key(x: Value, descending: bool) -> Value:
    """Whole numbers in the order of the elements: i32, or i64 where they have 64 bits. NaN is largest.

    The bits of a float without its sign are in order; with a negative sign they count down from 0.
    """
    if is_float(x.dtype):
        bits, inf = 8 * itemsize(x.dtype), INFINITY[x.dtype]
        wide = "i64" if bits == 64 else "i32"
        number = x.bitcast(x.type.with_(dtype=f"i{bits}")).to(wide)
        size = number & ((1 << (bits - 1)) - 1)
        sign = number.binary(prims.ShrOp.make, bits - 1)
        number = (size > inf).where((1 << (bits - 1)) - 1, (size ^ sign) - sign)
    else:
        number = x.to("i64" if itemsize(x.dtype) == 8 else "i32")
    return ~number if descending else number


def ordered(x: Value, dim: int, count: Dim, descending: bool) -> Order | None:
    """The first `count` places of the stable order of x along `dim`; None where there is no code for it."""
    n = x.shape[dim]
    if (isinstance(n, int) and n >= WIDE) or x.dtype in ("u16", "u32", "u64"):
        return None
    number = key(x, descending)
    if number.dtype == "i32":
        narrow = itemsize(x.dtype) <= 2 and isinstance(n, int) and n <= NARROW
        found = least(with_places(number, dim, 16 if narrow else 32), dim, count)
        return None if found is None else Order(x, dim, places_of(found))
    if x.type.device != "cpu":
        return None
    few = isinstance(count, int) and 0 < CANDIDATES * count <= (number.b.hint(n) or 0)
    return Order(x, dim, _least_wide(number, dim, count) if few else _in_halves(number, dim, count))


def _in_halves(number: Value, dim: int, count: Dim) -> Value:
    """The places of i64 in order: by their lower half, then by their upper half, which keeps the first among equals."""
    low = (number ^ (1 << 31)).binary(prims.ShlOp.make, 32) | position(number, dim)
    first = places_of(low.sort(dim, number.shape[dim]))
    high = _upper(taken(number, dim, first))
    second = places_of(with_places(high.to("i32"), dim, 32).sort(dim, count))
    return taken(first, dim, second)


def _least_wide(number: Value, dim: int, count: Dim) -> Value:
    """The places of the `count` least i64 in order. The last upper half among them is a bound: what is below it is one
    of them, of what is equal to it those with the least lower half are.
    """
    high = _upper(number)
    bound = _upper(with_places(high.to("i32"), dim, 32).sort(dim, count).slice(dim, expr.normal(count - 1), 1))  # pyright: ignore
    low = (number & 0xFFFFFFFF) - (1 << 31)
    # 33 bits, and 31 for the place
    rank = (high < bound).where(-(1 << 32), high.eq(bound).where(low, (1 << 32) - 1))
    chosen = (rank.binary(prims.ShlOp.make, 31) | position(number, dim)).sort(dim, count) & (WIDE - 1)
    places = chosen.sort(dim, count)
    return taken(places, dim, _in_halves(taken(number, dim, places), dim, count))


def _upper(number: Value) -> Value:
    return number.binary(prims.ShrOp.make, 32)


def position(x: Value, dim: int) -> Value:
    return x.b.iota(dim, x.type)


def with_places(number: Value, dim: int, bits: int) -> Value:
    """A number of i32 with its place behind it, in `bits` each."""
    number = number.to("i32" if bits == 16 else "i64")
    return number.binary(prims.ShlOp.make, bits) | position(number, dim)


def places_of(numbers: Value) -> Value:
    """The places behind numbers."""
    return (numbers & (0xFFFF if numbers.dtype == "i32" else 0xFFFFFFFF)).to("i64")


def least(numbers: Value, dim: int, count: Dim) -> Value | None:
    """The `count` least of different numbers along a dim, in order."""
    if numbers.type.device == "cpu":
        return numbers.sort(dim, count)
    hint = numbers.b.hint(numbers.shape[dim])
    if not isinstance(count, int) or not 0 < count <= FEW or hint is None or hint > HELD:
        return None
    largest = (1 << (8 * itemsize(numbers.dtype) - 1)) - 1
    found = [numbers.reduce("min", [dim], keepdim=True)]
    while len(found) < count:
        found.append((numbers > found[-1]).where(numbers, largest).reduce("min", [dim], keepdim=True))
    return numbers.b.cat(
        found, dim, numbers.type.with_(shape=[count if d == dim else n for d, n in enumerate(numbers.shape)])
    )


def selected(x: Value, dim: int, count: Dim) -> Order | None:
    """`ordered`, for one element in the place `count`: where that is far and the row long, ATen finds it sooner."""
    size = x.b.hint(x.shape[dim]) or 0
    far = not isinstance(count, int) or CANDIDATES * count > size
    if far and size > (SELECTED >> 4 if itemsize(x.dtype) == 8 else SELECTED):
        return None
    return ordered(x, dim, count, False)


def row(x: Value) -> Value:
    """A number by itself is a row of one."""
    return x if x.rank else x.reshape([1])


def shaped(call: Call, *values: Value) -> tuple[Value, ...]:
    """Results in the shape that the op has."""
    return tuple(v.reshape(t.shape) for v, t in zip(values, call.types, strict=True))


@rule("aten.topk", costly=True)
def topk(call: Call, x: Value, k: Dim, dim: int, largest: bool, sorted: bool) -> Any:
    """In order, asked or not; of a number by itself it is this number, whatever k is."""
    k = k if x.rank else 1
    x = row(x)
    order = ordered(x, dim % x.rank, k, largest)
    return NotImplemented if order is None else shaped(call, order.values(), order.places)


@rule("aten.sort", costly=True)
def sort(call: Call, x: Value, dim: int, descending: bool) -> Any:
    x = row(x)
    order = ordered(x, dim % x.rank, x.shape[dim % x.rank], descending)
    return NotImplemented if order is None else shaped(call, order.values(), order.places)


@rule("aten.sort.stable", costly=True)
def stable_sort(call: Call, x: Value, stable: bool | None, dim: int, descending: bool) -> Any:
    return sort(call, x, dim, descending)


@rule("aten.kthvalue", costly=True)
def kthvalue(call: Call, x: Value, k: Dim, dim: int, keepdim: bool) -> Any:
    x = row(x)
    dim %= x.rank
    order = selected(x, dim, k)
    if order is None:
        return NotImplemented
    last = order._replace(places=order.places.slice(dim, expr.normal(k - 1), 1))  # pyright: ignore
    return shaped(call, last.values(), last.places)


@rule("aten.median.dim", costly=True)
def median(call: Call, x: Value, dim: int, keepdim: bool) -> Any:
    """The lower one of two; the first NaN where there is one."""
    x = row(x)
    found = _median(x, dim % x.rank, False)
    return NotImplemented if found is None else shaped(call, found.values(), found.places)


@rule("aten.nanmedian.dim", costly=True)
def nanmedian(call: Call, x: Value, dim: int, keepdim: bool) -> Any:
    x = row(x)
    found = _median(x, dim % x.rank, True)
    return NotImplemented if found is None else shaped(call, found.values(), found.places)


@rule("aten.median", costly=True)
def median_of_all(call: Call, x: Value) -> Any:
    return _of_all(call, x, False)


@rule("aten.nanmedian", costly=True)
def nanmedian_of_all(call: Call, x: Value) -> Any:
    return _of_all(call, x, True)


def _of_all(call: Call, x: Value, ignores_nan: bool) -> Any:
    n = x.type.numel
    if n == 0 or not isinstance(n, int):  # of nothing it is NaN, which a whole number cannot be
        return NotImplemented
    found = _median(x.reshape([n]), 0, ignores_nan)
    return NotImplemented if found is None else shaped(call, found.values())


def _median(x: Value, dim: int, ignores_nan: bool) -> Order | None:
    n: Any = x.shape[dim]
    middle = expr.floordiv(n - 1, 2)
    order = selected(x, dim, expr.normal(middle + 1))
    if order is None:
        return None
    at = order.places.slice(dim, middle, 1)
    if not is_float(x.dtype):
        return order._replace(places=at)
    nan = x.isnan()
    if ignores_nan:
        # NaN stands last: the middle of the others
        others = (~nan).to("i64").reduce("sum", [dim], keepdim=True)
        place = (others - 1).maximum(0).binary(prims.ShrOp.make, 1)
        return order._replace(places=taken(order.places, dim, place))
    some = nan.reduce("any", [dim], keepdim=True)
    first = nan.to("i32").reduce("argmax", [dim], keepdim=True)
    return order._replace(places=some.where(first, at))


@rule("aten.mode", costly=True)
def mode(call: Call, x: Value, dim: int, keepdim: bool) -> Any:
    """The end of the first longest run of equal elements in order. With NaN, which is equal to nothing, eager's answer
    depends on the order of the elements."""
    x = row(x)
    dim %= x.rank
    n = x.shape[dim]
    order = ordered(x, dim, n, False)
    if order is None:
        return NotImplemented
    values = order.values()
    place = position(order.places, dim)
    before = taken(values, dim, (place - 1).maximum(0))
    starts = values.ne(before).where(place, 0).scan("max", dim)
    end = (place - starts).reduce("argmax", [dim], keepdim=True)
    found = order._replace(places=taken(order.places, dim, end))
    return shaped(call, found.values(), found.places)
