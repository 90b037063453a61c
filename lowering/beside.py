"""What a program holds, at each step, beside outputs that are recycled: their pool (`codegen/runtime_outputs.py`) is
told, as it keeps no more than what was in use at once with that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

from xdsl.ir import Operation, SSAValue

from ..dialects.tensor import TensorType
from .arena_plan import Request, estimate
from .buffer_lifetimes import Memory
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


def until_next(alive: Sequence[int], at: Sequence[int]) -> list[int]:
    """The most bytes before the first of the steps `at`, and from each of these until the next."""
    spans = zip((0, *at), (*at, len(alive)), strict=True)
    return [max(alive[a : max(a + 1, b)], default=0) for a, b in spans]
