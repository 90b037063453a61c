"""What a program holds, at each step, beside outputs that are recycled: their pool (`codegen/runtime_outputs.py`) is
told, as it keeps no more than what was in use at once with that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import cast

from xdsl.ir import Operation, SSAValue

from ..dialects.loop import LaunchOp
from ..dialects.tensor import TensorType
from .arena_plan import Request, estimate
from .buffer_lifetimes import Lifetimes, Memory
from .fuse_cost import Hints
from .lent_memory import profile
from .storage import storage_bytes

RELAID = "lamella.contiguous"
"""The attribute of a convolution of halves whose images are contiguous in eager, and channels last here."""

RECYCLED = 1 << 20
"""Bytes from which on an output is recycled, and anything worth telling of."""


def beside(
    memories: Iterable[Memory],
    given: Callable[[Memory], bool],
    steps: Sequence[Sequence[Operation]],
    hints: Mapping[str, int],
) -> list[int]:
    """Bytes at each step of `memories` (those with memory of their own) and of what convolutions take.

    `given` says of an argument whether it is gone after its last use. Sizes that are symbols are as they were seen when
    compiling.
    """
    end = len(steps) - 1
    requests: list[Request] = []
    for m in memories:
        stays = m.returned or (m.first < 0 and not given(m))
        requests.append(Request(m.first, end if stays else m.last, storage_bytes(cast(TensorType, m.value.type))))
    for at, step in enumerate(steps):
        requests += [Request(at, at, storage_bytes(cast(TensorType, v.type))) for op in step for v in reordered(op)]
    return profile([(r.first, r.last, estimate(r.size, hints)) for r in requests], end + 1)


def spans(lifetimes: Lifetimes, given: Set[SSAValue], hints: Hints) -> list[tuple[int, int, int]]:
    """First and last step, and bytes, of what a block makes and of the arguments `given`, gone after their last use."""
    end = len(lifetimes.steps) - 1
    return [
        (m.first, end if m.returned else m.last, hints.bytes(m.value))
        for m in lifetimes.memories
        if m.first >= 0 or m.value in given
    ]


def held(lifetimes: Lifetimes, given: Set[SSAValue], hints: Hints) -> list[int]:
    """Bytes at each step of these and of what convolutions take, where a launch writes over what it reads last."""
    made = spans(lifetimes, given, hints)
    taken = [sum(hints.bytes(v) for op in step for v in reordered(op)) for step in lifetimes.steps]
    begin: dict[int, Counter[int]] = {}
    gone: dict[int, Counter[int]] = {}
    for first, last, size in made:
        begin.setdefault(first, Counter())[size] += 1
        if first < last:
            gone.setdefault(last, Counter())[size] += 1
    for at, step in enumerate(lifetimes.steps):
        if isinstance(step[0], LaunchOp):
            over = begin.get(at, Counter()) & gone.get(at, Counter())
            taken[at] -= sum(size * n for size, n in over.items())
    return [*map(int.__add__, profile(made, len(lifetimes.steps)), taken)]


def reordered(op: Operation, *, in_eager: bool = False) -> list[SSAValue]:
    """What oneDNN has in its own layout for a call, beside what it is given: weights, images that are not channels
    last and what it makes of these. `in_eager`: for what eager calls in the place of `op`.
    """
    if op.name != "aten.convolution":
        return []
    image, weight = op.operands[:2]
    t = cast(TensorType, image.type)
    copied = t.is_contiguous or (in_eager and RELAID in op.attributes)
    found = [weight, image, op.results[0]] if copied else [weight]
    return found if t.device == "cpu" else []


def rooms(
    alive: Sequence[int], outputs: Sequence[tuple[int, int | None, int]]
) -> tuple[int, list[int], dict[int, int]]:
    """The most of the bytes `alive` before the first of some outputs that are recycled, from each of these on, and from
    where some of them go on, each time until the next of these places.

    An output is the step at which it is made, the last one before it goes, and its bytes. Where it goes counts if more
    would be there, with the memory of all that has gone, than at the peak.
    """
    end = len(alive) - 1
    spans = [(first, end if last is None else last, size) for first, last, size in outputs]
    total = [*map(int.__add__, alive, profile(spans, len(alive)))]
    made = [(first, 1, k) for k, (first, _, _) in enumerate(outputs)]
    gone = [(last + 1, 0, k) for k, (_, last, _) in enumerate(outputs) if last is not None and last < end]
    places = sorted([*made, *gone])
    found: dict[tuple[int, int], int] = {(1, -1): max(alive[: places[0][0] or 1] if places else alive, default=0)}
    kept, idle = (1, -1), 0
    for i, (at, is_made, k) in enumerate(places):
        until = max(at + 1, places[i + 1][0] if i + 1 < len(places) else end + 1)
        room = max(total) - max(total[at:until])
        idle += 0 if is_made else outputs[k][2]
        if is_made or idle > room:
            kept, idle = (is_made, k), min(idle, room)
        found[kept] = max(found.get(kept, 0), *alive[at:until])
    return found[1, -1], [found[1, k] for k in range(len(outputs))], {k: n for (m, k), n in found.items() if not m}
