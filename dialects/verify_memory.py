"""Whether everything that a host program reads is still there: its bytes are written before, nobody has written others
over them, and what they are part of is not dropped.

A walk over the program knows, of each arena and tensor, which buffer the bytes were written through last. Where sizes
are symbols, the program is walked for several sizes, those seen when compiling first. Not seen: what a kernel or a call
does within the tensors it is given, and that a tensor written in place was to be read before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from xdsl.ir import Attribute, Block, Operation, SSAValue

from . import expr, flow, host
from .errors import LamellaVerifyError
from .tensor import SymType, TensorType, itemsize

UNSEEN = 64
"""Stands for a size of which none was seen."""
ROUNDS = 3
"""Walks where sizes are symbols."""

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Place:
    """Bytes `lo` to `hi` of the memory of `root`, which are those of the buffer `owner`."""

    root: SSAValue
    lo: int
    hi: int
    owner: SSAValue

    def meets(self, other: Place) -> bool:
        return self.root is other.root and max(self.lo, other.lo) < min(self.hi, other.hi)


def verify_memory(function: Operation, names: Iterable[str], hints: Sizes) -> None:
    """Walk a `host.func`, in whose ops the sizes `names` occur. Raises LamellaVerifyError for what reads lost bytes."""
    for sizes in _rounds(sorted(names), hints):
        _Walk(sizes).body(function.regions[0].block)


def _rounds(names: Sequence[str], hints: Sizes) -> Iterator[Sizes]:
    """Multiples of the sizes that were seen: what divides those divides them."""
    for k in range(ROUNDS if names else 1):
        yield {name: hints.get(name, UNSEEN) * (1 + (i + k) * (k > 0) % ROUNDS) for i, name in enumerate(names)}


class _Walk:
    """One body, in order."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.places: dict[SSAValue, list[Place]] = {}
        """Where each tensor lies or may lie, and each arena."""
        self.written: dict[SSAValue, list[Place]] = {}
        """For each root the bytes that were written, in pieces that do not meet."""
        self.part_of: dict[SSAValue, SSAValue] = {}
        """What an address is one in."""
        self.dropped: set[SSAValue] = set()

    def body(self, block: Block) -> None:
        for a in block.args:
            if isinstance(a.type, TensorType):
                self._make(a, full=True)
        for op in block.ops:
            self._op(op)

    def _op(self, op: Operation) -> None:
        for operand in op.operands:
            self._expect_there(op, operand)
        match op:
            case host.ArenaOp():
                self._make(op.res, full=False, size=self._number(op.bytes[0]))
            case host.LendOp():
                self.part_of[op.res] = op.source
                self.places[op.res] = self.places[op.source]
            case host.SlotOp():
                self.part_of[op.res] = op.arena
                lo = self._number(op.offset[0])
                hi = lo + self._bytes(op.res.type)
                self.places[op.res] = [Place(p.root, lo, hi, op.res) for p in self.places[op.arena]]
            case host.EmptyOp():
                self._make(op.res, full=False)
                if op.over is not None:
                    size = self._bytes(op.res.type)
                    there = [Place(p.root, p.lo, p.lo + size, op.res) for p in self.places[op.over]]
                    self.places[op.res] = [*self.places[op.res], *there]
            case host.ViewOp():
                self.part_of[op.res] = op.source
                start = self._number(op.offset[0]) * itemsize(op.res.type.dtype)
                size = self._bytes(op.res.type)
                self.places[op.res] = [
                    replace(p, lo=p.lo + start, hi=p.lo + start + size) for p in self.places[op.source]
                ]
            case host.LaunchOp():
                self._launches([op])
            case host.TogetherOp():
                for launch in op.launches:
                    for operand in launch.operands:
                        self._expect_there(launch, operand)
                self._launches(op.launches)
            case host.DropOp():
                self.dropped.update(op.values)
            case host.CheckOp() | host.SizeOp():
                pass
            case host.ReturnOp() | flow.YieldOp():
                self._read(op, op.operands)
            case _:
                self._call(op)

    def _launches(self, launches: Sequence[host.LaunchOp]) -> None:
        for launch in launches:
            self._read(launch, launch.ins)
        for launch in launches:
            self._write(launch, launch.outs, launch.ins)

    def _call(self, op: Operation) -> None:
        """A call of ATen, or control flow."""
        from .aliasing import sources, tensors  # here, as they bring torch, which other text does not need
        from .aten import AtenOp

        mutated: list[SSAValue] = []
        if isinstance(op, AtenOp):
            args = zip(op.schema.args, op.args(), strict=True)
            mutated = [v for a, value in args if a.mutated for v in tensors(value)]
        self._read(op, [v for v in op.operands if v not in mutated])
        self._write(op, mutated, ())
        for region in op.regions:
            _Walk(self.sizes).body(region.block)
        for i, result in enumerate(op.results):
            if not isinstance(result.type, TensorType):
                continue
            certain, possible = sources(op, i)
            if not certain:
                self._make(result, full=True)
            places = [p for v in (*certain, *possible) for p in self.places[v]]
            self.places[result] = [*self.places.get(result, ()), *places]
            for v in (*certain, *possible):
                self._stay_with(result, v)

    def _stay_with(self, result: SSAValue, source: SSAValue) -> None:
        """A tensor made of one in an arena lasts as long as that; of any other it holds the memory itself."""
        while (whole := self.part_of.get(source)) is not None:
            if whole.type == host.ARENA:
                self.part_of[result] = whole
                return
            source = whole

    # ---------------------------------------------------------------------------------------------------------- memory

    def _make(self, value: SSAValue, *, full: bool, size: int | None = None) -> None:
        size = self._bytes(cast(TensorType, value.type)) if size is None else size
        place = Place(value, 0, size, value)
        self.places[value] = [place]
        self.written[value] = [place] if full else []

    def _read(self, op: Operation, values: Iterable[SSAValue]) -> None:
        for value in values:
            for place in self.places.get(value, ()):
                self._expect_written(op, value, place)

    def _expect_there(self, op: Operation, value: SSAValue) -> None:
        at: SSAValue | None = value
        while at is not None:
            if at in self.dropped:
                part = "" if at is value else f", which is part of {_name(at)}"
                raise LamellaVerifyError(op, f"uses {_name(value)}{part}, after host.drop")
            at = self.part_of.get(at)

    def _expect_written(self, op: Operation, value: SSAValue, place: Place) -> None:
        at = place.lo
        for piece in sorted((p for p in self.written[place.root] if p.meets(place)), key=lambda p: p.lo):
            if piece.lo > at:
                break
            if piece.owner is not place.owner:
                lo, hi = max(piece.lo, place.lo), min(piece.hi, place.hi)
                raise LamellaVerifyError(
                    op,
                    f"reads {_name(value)}, but bytes {lo} to {hi} of {_name(place.root)} hold {_name(piece.owner)} "
                    f"now{self._where()}",
                )
            at = piece.hi
        if at < place.hi:
            raise LamellaVerifyError(
                op,
                f"reads {_name(value)}, of which nothing has written byte {at} of {_name(place.root)}{self._where()}",
            )

    def _write(self, op: Operation, values: Iterable[SSAValue], read: Iterable[SSAValue]) -> None:
        new = [place for v in values for place in self.places.get(v, ())]
        for i, place in enumerate(new):
            if other := next((p for p in new[:i] if p.meets(place) and p.owner is not place.owner), None):
                raise LamellaVerifyError(op, f"writes {_name(place.owner)} and {_name(other.owner)} to the same bytes")
            for v in read:
                for p in self.places[v]:
                    if p.meets(place) and p.owner is not place.owner and (p.lo, p.hi) != (place.lo, place.hi):
                        raise LamellaVerifyError(
                            op, f"reads {_name(v)} while it writes {_name(place.owner)} over a part of it"
                        )
        for place in new:
            pieces = [piece for old in self.written[place.root] for piece in _without(old, place)]
            self.written[place.root] = _joined([*pieces, place])

    def _where(self) -> str:
        """The sizes, where they are symbols."""
        return f" ({', '.join(f'{k} = {v}' for k, v in self.sizes.items())})" if self.sizes else ""

    def _number(self, size: Any) -> int:
        return size if isinstance(size, int) else int(expr.evaluate(size, self.sizes))

    def _bytes(self, type: TensorType) -> int:
        """Bytes from a tensor's first element to the end of its last."""
        shape = [self._number(n) for n in type.shape]
        if 0 in shape:
            return 0
        strides = (self._number(s) for s in type.strides)
        return (1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))) * itemsize(type.dtype)


def _without(old: Place, new: Place) -> list[Place]:
    """What is left of bytes that were written when others are written."""
    if not old.meets(new):
        return [old]
    left = replace(old, hi=new.lo), replace(old, lo=new.hi)
    return [p for p in left if p.lo < p.hi]


def _joined(places: list[Place]) -> list[Place]:
    """Pieces of one buffer that follow one another become one."""
    found: list[Place] = []
    for p in sorted((p for p in places if p.lo < p.hi), key=lambda p: p.lo):
        if found and found[-1].hi == p.lo and found[-1].owner is p.owner:
            found[-1] = replace(found[-1], hi=p.hi)
        else:
            found.append(p)
    return found


def _name(value: SSAValue) -> str:
    return f"%{value.name_hint}" if value.name_hint else f"a {_kind(value.type)}"


def _kind(type: Attribute) -> str:
    return "buffer" if isinstance(type, TensorType) else "number" if isinstance(type, SymType) else "arena"
