"""Windows of a block that do the same to other values, as the layers of a model do.

What is equal is what ops are and how they use each other; what a window takes from outside of it may be anything of the
same type. Windows begin where fusion ends in any case: before a product, attention or convolution that stays a call, or
a product whose kernel finds a factor in memory (`in_memory`). One that is widened takes what has been converted
before (`widened.convert_factors`), and rounds in what follows it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Block, Operation, SSAValue

from ..dialects.aten import AtenOp
from ..dialects.tensor import TensorType
from .aten_canonicalize import introduces_sizes
from .aten_cse import is_function
from .complex_value import PARTS
from .in_memory import is_view, readers, root, stays, takes_memory
from .products import BIASED, is_widened

CALLS = 128
"""Calls of a window at most: the search takes that many times the calls of a block."""

TRIES = 4
"""Windows that others are compared with, of those in a row."""


@dataclass(frozen=True)
class Group:
    """Windows that do the same: where they begin, and how many ops each has."""

    starts: list[int]
    length: int
    given: list[dict[SSAValue, SSAValue]]
    """Of each window, what it takes from outside by what the first one does; no views."""
    views: list[Operation]
    """What the first window takes as views of that."""
    made: list[tuple[int, int]]
    """The results in a window that are used outside: their ops, counted from its beginning, and which of these."""


class Repeats:
    """The ops of a block, as many as repeat themselves in windows of at least `least`."""

    def __init__(
        self,
        block: Block,
        least: int,
        staying: Collection[Operation],
        factors: Mapping[Operation, Sequence[SSAValue]],
    ) -> None:
        """`staying` are the ops of the block that are known to stay calls, `factors` what kernels of products find in
        memory (`in_memory.computed_factors`).
        """
        self.ops = [op for op in block.ops if op is not block.last_op]
        self.least = least
        self.position = {op: i for i, op in enumerate(self.ops)}
        self.made: dict[SSAValue, tuple[int, int]] = {
            r: (i, k) for i, op in enumerate(self.ops) for k, r in enumerate(op.results)
        }
        self.keys: list[int] = []
        """Equal for ops that do the same; negative for those that no window may have."""
        numbers: dict[Any, int] = {}
        for i, op in enumerate(self.ops):
            number = -1
            if isinstance(op, AtenOp) and not _gives_others(op) and (number := numbers.get(key := _key(op), i)) == i:
                number = numbers[key] = i if _is_fit(op) else -1  # that of all with this key
            self.keys.append(number if number >= 0 else -1 - i)
        self.views: list[int] = []
        """How many views stand right before each op, which may be what it takes."""
        before = 0
        for op in self.ops:
            self.views.append(before)
            before = before + 1 if is_view(op) else 0
        self.used = bytearray(len(self.ops))
        """Set for the ops that windows have, and for the views that these make themselves."""
        self.factors = factors
        self.calls = [i for i, op in enumerate(self.ops) if op in staying or op in factors]
        """What may begin a window: calls, and kernels that find in memory what others make."""
        self.stage: dict[SSAValue, int] = {}
        """How many of these follow one another before a value can be there."""
        for op in self.ops:
            held = factors.get(op, ())
            stage = max((self.stage.get(v, 0) + (root(v) in held) for v in op.operands), default=0) + (op in staying)
            for r in op.results:
                self.stage[r] = stage

    def groups(self) -> Iterator[Group]:
        """Groups of windows, none of which overlap."""
        used = self.used
        for first, period, count in self._runs():
            calls = self.calls[first : first + period]
            if used[calls[0]] and used[calls[-1]]:
                continue
            length = self.calls[first + period] - calls[0]
            for call in calls:
                begin = call - min(self.views[call : len(self.ops) : length][:count])
                starts = list(range(begin, len(self.ops), length)[:count])
                starts = [s for s in starts if s + length <= len(self.ops) and not any(used[s : s + length])]
                if len(starts) < 2 or not all(self._is_cut(s, s + length) for s in starts[:2]):
                    continue
                found = list(self._equal(starts, length))
                for group in found:
                    for start in group.starts:
                        used[start : start + length] = b"\1" * length
                    for op in group.views:
                        used[self.position[op]] = 1
                    yield group
                if found:
                    break

    def _runs(self) -> list[tuple[int, int, int]]:
        """Where calls repeat themselves: the first of them, how many there are before they do, and how often; those
        that save most first.
        """
        calls, keys = self.calls, [self.keys[i] for i in self.calls]
        found: list[tuple[int, int, int, int]] = []
        for period in range(1, min(CALLS, len(calls) // 2) + 1):
            begin = 0
            for i in range(len(calls) - period + 1):
                n = calls[i + period] - calls[i] if i + period < len(calls) else 0
                same = n >= self.least and keys[i] == keys[i + period] >= 0
                if same and (i == begin or n == calls[begin + period] - calls[begin]):
                    continue
                if i - begin >= period:
                    length = calls[begin + period] - calls[begin]
                    found.append((length * ((i - begin) // period), begin, period, (i - begin) // period + 1))
                begin = i if same else i + 1
        return [(first, period, count) for _, first, period, count in sorted(found, key=lambda f: (-f[0], f[2]))]

    def _is_cut(self, start: int, end: int) -> bool:
        """Whether all that goes into a window and comes out of it is in memory in any case."""
        for op in self.ops[start:end]:
            for v in op.operands if not is_view(op) else ():
                v = root(v)
                if v in self.made and self.made[v][0] < start and not self._is_apart(v, op, 0, start):
                    return False
            for r in op.results if not is_view(op) else ():
                outside = (u for u in readers(r) if not start <= self.position.get(u, end) < end)
                if not all(self._is_apart(r, u, start, end) for u in outside):
                    return False
        return True

    def _is_apart(self, value: SSAValue, reader: Operation, start: int, end: int) -> bool:
        """Whether no kernel has both what a window (or what is before it) makes, and a reader on the other side."""
        made = self.ops[self.made[value][0]]
        unfinished = made.name in BIASED or is_widened(made)
        if unfinished and not any(self._finds(u, value) for u in readers(value)):
            return False  # the bias, and what rounds sums of f32, go into the readers
        if self._finds(reader, value):
            return True
        if max((self.stage.get(v, 0) for v in reader.operands), default=0) > self.stage[value]:
            return True
        beside = (u for u in readers(value) if start <= self.position.get(u, -1) < end)
        return stays(made) and not is_widened(made) and all(self._finds(u, value) for u in beside)

    def _finds(self, op: Operation, value: SSAValue) -> bool:
        """Whether an op takes a value, or views of it, from memory."""
        if takes_memory(op):
            return True
        held = self.factors.get(op, ())
        return value in held and list(map(root, op.operands)).count(value) == held.count(value)

    def _equal(self, starts: Sequence[int], length: int) -> Iterator[Group]:
        """Groups of the windows that begin there."""
        left = list(starts)
        above = starts[0]
        for _ in range(TRIES):
            if len(left) < 2:
                return
            first, made = left[0], self._made(left[0], length)
            group = Group([], length, [], self._views(first, length, above), made)
            for start in left:
                given = self._given(first, start, length, above)
                if given is not None and self._made(start, length) == made:
                    group.starts.append(start)
                    group.given.append(given)
            left = [s for s in left if s not in group.starts] if group.starts else left[1:]
            if len(group.starts) > 1:
                yield group

    def _given(self, first: int, start: int, length: int, above: int) -> dict[SSAValue, SSAValue] | None:
        """What a window takes from outside, by what the first one does; None where they do not do the same. `above` is
        where the first of all begins.
        """
        found: dict[SSAValue, SSAValue] = {}
        shift = start - first
        for i in range(first, first + length):
            if self.keys[i] != self.keys[i + shift] or self.keys[i] < 0:
                return None
            for v, w in zip(self.ops[i].operands, self.ops[i + shift].operands, strict=True):
                here, there = self.made.get(v, (-1, 0)), self.made.get(w, (-1, 0))
                if here[0] >= first:
                    if there != (here[0] + shift, here[1]):
                        return None
                elif there[0] >= start or not self._pair(v, w, above, found):
                    return None
        return found

    def _pair(self, v: SSAValue, w: SSAValue, above: int, found: dict[SSAValue, SSAValue]) -> bool:
        """Note that one value stands for another, or that what they are views of does, if they are equal views."""
        (i, k), (j, n) = self.made.get(v, (-1, 0)), self.made.get(w, (-1, 0))
        if not self._is_sunk(i, above):
            return found.setdefault(v, w) is w
        if not self._is_sunk(j, above) or (self.keys[i], k) != (self.keys[j], n):
            return False
        pairs = zip(self.ops[i].operands, self.ops[j].operands, strict=True)
        return all(self._pair(a, b, above, found) for a, b in pairs)

    def _is_sunk(self, i: int, above: int) -> bool:
        """Whether the op is a view that the windows below make themselves."""
        return 0 <= i < above and self.keys[i] >= 0 and not self.used[i] and is_view(self.ops[i])

    def _views(self, start: int, length: int, above: int) -> list[Operation]:
        found: set[int] = set()
        stack = [v for op in self.ops[start : start + length] for v in op.operands]
        while stack:
            i = self.made.get(stack.pop(), (-1, 0))[0]
            if self._is_sunk(i, above) and i not in found:
                found.add(i)
                stack += self.ops[i].operands
        return [self.ops[i] for i in sorted(found)]

    def _made(self, start: int, length: int) -> list[tuple[int, int]]:
        def is_outside(op: Operation) -> bool:
            return not start <= self.position.get(op, -1) < start + length

        window = enumerate(self.ops[start : start + length])
        return [
            (i, k) for i, op in window for k, r in enumerate(op.results) if any(is_outside(u.operation) for u in r.uses)
        ]


def _is_fit(op: AtenOp) -> bool:
    """Whether an op does the same wherever it stands, to what it is given."""
    if not is_function(op) or introduces_sizes(op):
        return False
    types = (v.type for v in (*op.operands, *(r for r in op.results if isinstance(r.type, TensorType))))
    return all(isinstance(t, TensorType) and t.dtype not in PARTS for t in types)


def _gives_others(op: Operation) -> bool:
    """Whether results are used that are no tensors, as the sizes are that attention on GPUs gives."""
    return any(r.uses for r in op.results if not isinstance(r.type, TensorType))


def _key(op: Operation) -> Any:
    types = (tuple(v.type for v in op.operands), tuple(r.type for r in op.results))
    return type(op), types, tuple(op.properties.items()), tuple(op.attributes.items())
