"""What a program holds, at each step, beside outputs that are recycled: their pool (`codegen/runtime_outputs.py`) is
told, as it keeps no more than what was in use at once with that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

from xdsl.ir import Operation

from ..dialects.tensor import TensorType
from .arena_plan import Request, estimate
from .buffer_lifetimes import Memory
from .lent_memory import profile
from .storage import storage_bytes

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
        requests += [Request(at, at, storage_bytes(t)) for op in step for t in _reordered(op)]
    return profile([(r.first, r.last, estimate(r.size, hints)) for r in requests], end + 1)


def _reordered(op: Operation) -> list[TensorType]:
    """What oneDNN copies to have it in its own layout: weights, and images that are not channels last."""
    if op.name != "aten.convolution":
        return []
    image, weight = (cast(TensorType, v.type) for v in op.operands[:2])
    copied = [weight, image] if image.is_contiguous else [weight]
    return copied if image.device == "cpu" else []


def until_next(alive: Sequence[int], at: Sequence[int]) -> list[int]:
    """The most bytes before the first of the steps `at`, and from each of these until the next."""
    spans = zip((0, *at), (*at, len(alive)), strict=True)
    return [max(alive[a : max(a + 1, b)], default=0) for a, b in spans]
