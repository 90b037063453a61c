"""The points of a loop body: index tensors per dim, index expressions, and access to memory at every point at once.

Axis k of a value is the k-th dim in scope; values of an outer loop have fewer axes and are repeated along the inner.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import sympy
import torch
from torch import Tensor
from xdsl.ir import SSAValue

from ..dialects import expr
from ..dialects.errors import LamellaError
from ..dialects.loop import LoopDim


class OutOfBounds(LamellaError):
    """A load or store outside of its tensor that no mask guards: the module is wrong."""


def _aligned(x: Tensor, rank: int) -> Tensor:
    """`x` with axes of size 1 appended up to `rank`."""
    return x if x.dim() == rank else x.reshape(*x.shape, *[1] * (rank - x.dim()))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Add": lambda *args: reduce(lambda a, b: a + b, args),
    "Mul": lambda *args: reduce(lambda a, b: a * b, args),
    "Pow": lambda a, b: a**b,
    "FloorDiv": lambda a, b: a // b,
    "Mod": lambda a, b: a % b,
    "PythonMod": lambda a, b: a % b,
    "CleanDiv": lambda a, b: a // b,
    "CeilDiv": lambda a, b: -(-a // b),
    "ModularIndexing": lambda a, b, c: a // b % c,
    "ToFloat": float,
    "IntTrueDiv": lambda a, b: a / b,
    "TruncToInt": math.trunc,
    "FloorToInt": math.floor,
    "CeilToInt": math.ceil,
    "Max": lambda *args: reduce(lambda a, b: _extremum(torch.maximum, max, a, b), args),
    "Min": lambda *args: reduce(lambda a, b: _extremum(torch.minimum, min, a, b), args),
    "Equality": lambda a, b: a == b,
    "Unequality": lambda a, b: a != b,
    "StrictLessThan": lambda a, b: a < b,
    "LessThan": lambda a, b: a <= b,
    "StrictGreaterThan": lambda a, b: a > b,
    "GreaterThan": lambda a, b: a >= b,
    "And": lambda *args: reduce(lambda a, b: a & b, args),
    "Or": lambda *args: reduce(lambda a, b: a | b, args),
    "Not": lambda a: ~a if isinstance(a, Tensor) else not a,
}
"""sympy class name to its meaning on ints and i64 tensors."""


def _extremum(on_tensors: Any, on_ints: Any, a: Any, b: Any) -> Any:
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return on_tensors(torch.as_tensor(a), torch.as_tensor(b))
    return on_ints(a, b)


def _evaluate(e: Any, symbols: Mapping[str, Any]) -> Any:
    """The value of an expression or relation: an int or bool, or a tensor where it depends on a dim."""
    if isinstance(e, int):
        return e
    if isinstance(e, sympy.Symbol):
        return symbols[e.name]
    if isinstance(e, sympy.Integer):
        return int(e)
    if isinstance(e, sympy.Float):
        return float(e)
    if isinstance(e, sympy.logic.boolalg.BooleanAtom):
        return bool(e)
    f = _FUNCTIONS.get(type(e).__name__)
    if f is None:
        raise LamellaError(f"cannot evaluate {expr.text(e)} at the points of a loop")
    return f(*(_evaluate(a, symbols) for a in e.args))


@dataclass
class Memory:
    """A tensor that bodies read and write; a scratch has one copy per point of the first `axes` axes."""

    data: Tensor
    axes: int = 0


@dataclass
class Points:
    """Every point of the loops in scope."""

    symbols: dict[str, Any]
    """Sizes as ints, dims as i64 tensors."""
    sizes: tuple[int, ...] = ()
    """Extent of each axis."""
    names: tuple[str, ...] = ()
    active: Tensor | None = None
    """Which points exist, where an extent depends on outer dims; None for all."""
    values: MutableMapping[SSAValue, Any] = field(default_factory=dict)

    @property
    def rank(self) -> int:
        return len(self.sizes)

    def align(self, x: Tensor) -> Tensor:
        return _aligned(x, self.rank)

    def full(self, x: Tensor) -> Tensor:
        """`x` at every point, with all axes."""
        return self.align(x).expand(self.sizes)

    def inside(self, dims: Sequence[LoopDim]) -> Points:
        """The points of further loops, in each of these. Their values live in the same table."""
        points = self
        for d in dims:
            points = points._along(d)
        return points

    def _along(self, d: LoopDim) -> Points:
        lo: Any = _evaluate(d.lo, self.symbols)
        hi: Any = _evaluate(d.hi, self.symbols)
        ragged = isinstance(lo, Tensor) or isinstance(hi, Tensor)
        lengths = torch.as_tensor(hi - lo)
        extent = max(0, int(lengths.max())) if lengths.numel() else 0
        rank = self.rank + 1
        steps = torch.arange(extent).reshape(*[1] * self.rank, extent)
        symbols = {n: _aligned(v, rank) if isinstance(v, Tensor) else v for n, v in self.symbols.items()}
        index = steps + (_aligned(lo, rank) if isinstance(lo, Tensor) else lo)
        symbols[d.name] = index
        active = None if self.active is None else _aligned(self.active, rank)
        if ragged:
            exists = index < (_aligned(hi, rank) if isinstance(hi, Tensor) else hi)
            active = exists if active is None else active & exists
        return replace(self, symbols=symbols, sizes=(*self.sizes, extent), names=(*self.names, d.name), active=active)

    # Expressions

    def index(self, e: Any, vs: Sequence[Tensor] = ()) -> Any:
        """An index expression over dims, sizes and v0, v1, …: an int or an i64 tensor."""
        if not vs:
            return _evaluate(e, self.symbols)
        return _evaluate(e, self.symbols | {f"v{k}": self.align(v) for k, v in enumerate(vs)})

    def holds(self, relations: Sequence[Any]) -> Tensor:
        """Whether all relations hold."""
        result = torch.ones((1,) * self.rank, dtype=torch.bool)
        for r in relations:
            result = result & _evaluate(r, self.symbols)
        return result

    def where(self, mask: Sequence[Any] | None, ok: Tensor | None) -> Tensor | None:
        """Which points take part in an access; None for all."""
        parts = [self.active, None if mask is None else self.holds(mask), None if ok is None else self.align(ok)]
        found = [p for p in parts if p is not None]
        return reduce(lambda a, b: a & b, found) if found else None

    # Memory

    def address(
        self, memory: Memory, index: Sequence[Any], vs: Sequence[Tensor], where: Tensor | None, what: str
    ) -> tuple[Tensor, ...]:
        """An index tensor per axis of the memory; 0 where the point takes no part. Raises OutOfBounds."""
        copies = [torch.arange(n).reshape(*[1] * k, n, *[1] * (self.rank - k - 1))
                  for k, n in enumerate(self.sizes[: memory.axes])]  # fmt: skip
        found = [*copies]
        sizes = memory.data.shape[memory.axes :]
        for e, size in zip(index, sizes, strict=True):
            i = self.align(torch.as_tensor(self.index(e, vs)))
            if where is not None:
                i = torch.where(where, i, 0)
            inside = (i >= 0) & (i < size)
            if where is not None:
                inside = inside | ~where
            if not bool(inside.all()) and 0 not in self.sizes:
                raise OutOfBounds(f"{what} at {expr.text(e)} leaves a dim of size {size}")
            found.append(i)
        return tuple(found)

    def load(
        self, memory: Memory, index: Sequence[Any], vs: Sequence[Tensor], where: Tensor | None, other: Tensor | None
    ) -> Tensor:
        """The elements at `index`, and `other` (or 0) where a point takes no part."""
        data = memory.data
        default = torch.zeros((), dtype=data.dtype) if other is None else other
        if data.numel() == 0 or 0 in self.sizes:
            if where is None or not bool(where.any()) or 0 in self.sizes:
                return default.expand(self.sizes)
            raise OutOfBounds("load of a tensor without elements")
        at = self.address(memory, index, vs, where, "load")
        value = data[at] if at else data.reshape((1,) * self.rank)
        value = self.align(value) if value.dim() < self.rank else value
        return value if where is None else torch.where(where, value, default)

    def store(
        self,
        memory: Memory,
        index: Sequence[Any],
        vs: Sequence[Tensor],
        where: Tensor | None,
        value: Tensor,
        combine: str | None,
    ) -> None:
        """Write in lexicographic order of the points: the last one wins, or all are combined."""
        if 0 in self.sizes or memory.data.numel() == 0:
            return
        at = self.address(memory, index, vs, where, "store")
        flat = torch.zeros((1,) * self.rank, dtype=torch.int64)
        for i, size in zip(at, memory.data.shape, strict=True):
            flat = flat * size + i
        flat, values = self.full(flat).reshape(-1), self.full(value).reshape(-1)
        if where is not None:
            chosen = self.full(where).reshape(-1)
            flat, values = flat[chosen], values[chosen]
        data = memory.data.contiguous().reshape(-1)
        if data.data_ptr() == memory.data.data_ptr():
            data = data.clone()
        memory.data.copy_(_written(data, flat, values, combine).reshape(memory.data.shape))


_COMBINE = {"mul": "prod", "max": "amax", "min": "amin"}


def _written(data: Tensor, flat: Tensor, values: Tensor, combine: str | None) -> Tensor:
    if combine == "add":
        return data.index_add(0, flat, values)
    if combine in _COMBINE:
        return data.scatter_reduce(0, flat, values, _COMBINE[combine], include_self=True)
    order = torch.arange(len(flat))
    last = torch.full((len(data),), -1).scatter_reduce(0, flat, order, "amax", include_self=True)
    wins = last[flat] == order
    data[flat[wins]] = values[wins]
    return data
