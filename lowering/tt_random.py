"""Random bits of tiles. Two neighbours share a counter, so half a tile of counters gives a tile of 32 bits each:

%c = half of the first place + make_range(0, 512)    %w0, %w1 = words(%key, %c)    reshape(join(%w1, %w0))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import Operation, SSAValue

from ..dialects import expr, tt
from ..dialects.expr import Dim
from ..dialects.loop import FnOp, IndexOp
from ..dialects.tt_types import shape_of, tensor
from .philox import philox, philox32, words
from .tt_builder import TtBuilder
from .tt_index import Number, known

if TYPE_CHECKING:
    from .tt_body import KernelBody


class _Bits:
    """An i64 with the operators of `philox.Int64`."""

    def __init__(self, b: TtBuilder, value: SSAValue) -> None:
        self.b, self.value = b, value

    def _with(self, cls: type[Operation], other: int | _Bits) -> _Bits:
        y = other.value if isinstance(other, _Bits) else self.b.constant(other, i64)
        return _Bits(self.b, self.b.integer(cls, self.value, y))

    def __add__(self, other: int) -> _Bits:
        return self._with(arith.AddiOp, other)

    def __mul__(self, other: int) -> _Bits:
        return self._with(arith.MuliOp, other)

    def __and__(self, other: int | _Bits) -> _Bits:
        return self._with(arith.AndIOp, other)

    def __or__(self, other: _Bits) -> _Bits:
        return self._with(arith.OrIOp, other)

    def __xor__(self, other: _Bits) -> _Bits:
        return self._with(arith.XOrIOp, other)

    def __lshift__(self, other: int) -> _Bits:
        return self._with(arith.ShLIOp, other)

    def __rshift__(self, other: int) -> _Bits:
        return self._with(arith.ShRSIOp, other)


def _each(function: Callable[[_Bits, _Bits], _Bits]) -> Callable[..., SSAValue]:
    return lambda b, key, counter: function(_Bits(b, key), _Bits(b, counter)).value


RANDOM: Mapping[str, Callable[..., SSAValue]] = {"philox": _each(philox), "philox32": _each(philox32)}
"""By the names of `loop.fn`: what each lane computes for itself."""


def of_neighbours(body: KernelBody, op: FnOp) -> SSAValue | None:
    """`philox32` of a tile, of which neighbours along an axis are even places and the next ones; None elsewhere."""
    if op.fn.data != "philox32":
        return None
    key, counter = op.args
    if not isinstance(counter.owner, IndexOp) or shape_of(body.values[key].type):
        return None
    places = counter.owner.value[0]
    found = ((i, _pairs(body, i, places)) for i in reversed(range(len(body.axes))))
    axis, half = next(((i, half) for i, half in found if half is not None), (0, None))
    if half is None:
        return None
    b = body.b
    second, first = words(_Bits(b, body.values[key]), _Bits(b, b.resize(half, i64, signed=False)))
    even, odd = (b.cast(arith.TruncIOp, w.value, i32) for w in (first, second))
    shape = shape_of(even.type)
    pairs = b.pure(tt.JoinOp, (even, odd), tensor(i32, (*shape, 2)))
    last = len(shape)
    pairs = b.reorder(pairs, [*range(axis + 1), last, *range(axis + 1, last)], last + 1)
    whole = (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :])
    return b.resize(b.pure(tt.ReshapeOp, (pairs,), tensor(i32, whole)), i64, signed=False)


def _pairs(body: KernelBody, axis: int, places: Dim) -> SSAValue | None:
    """Half of the places at the even lanes of an axis, where these are even and the next lane's is the next place."""
    symbol, size = body.axes[axis].symbol, body.axes[axis].size
    rest, index, place = expr.normal(places - symbol), body.index(), body.env[symbol]
    if size == 1 or symbol in expr.symbols(rest) or max(place.multiple, place.base.multiple) % 2:
        return None
    base, lane = index.split(rest)
    if base.multiple % 2 or (lane is not None and lane.multiple % 2):
        return None
    halves = [index.divide(n, known(2)) for n in (index.add(base, place.base), lane) if n is not None]
    half = Number(body.b.lanes(size // 2, axis), size // 2 - 1)
    for n in halves:
        half = index.add(n, half)
    return index.ssa(half)
