"""Whether the arguments of a call share memory that the call writes.

AOTAutograd's graphs are for arguments that lie apart, and TorchDynamo guards only that no two are one tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from operator import itemgetter
from typing import Any

import torch

data_ptr = torch.Tensor.data_ptr


def unless_overlapping(
    run: Callable[..., Any], otherwise: Callable[..., Any], written: Collection[int], examples: Sequence[Any]
) -> Callable[..., Any]:
    """`run`, which writes the inputs at the positions `written`; `otherwise` where one of these shares memory with
    another input. `examples` are inputs (fake tensors).
    """
    places = [i for i, x in enumerate(examples) if isinstance(x, torch.Tensor) and x.layout is torch.strided]
    if len(places) < 2 or not written:
        return run
    take = itemgetter(*places)
    kept = [i in written for i in places]
    changed = [k for k, i in enumerate(places) if i in written]
    reaches = [extent(examples[i]) if _is_fixed(examples[i]) else 0 for i in places]
    sized = [k for k, i in enumerate(places) if not _is_fixed(examples[i])]
    last: tuple[list[int], list[int]] | None = None

    def call(*inputs: Any) -> Any:
        nonlocal last
        tensors = take(inputs)
        try:
            begins = list(map(data_ptr, tensors))
        except RuntimeError:  # without memory: fake tensors, some subclasses
            return run(*inputs)
        sizes = [extent(tensors[k]) for k in sized]
        if (begins, sizes) != last:
            if sized or last is None or not _are_apart(begins, last[0], reaches, changed):
                now = list(reaches)
                for k, size in zip(sized, sizes, strict=True):
                    now[k] = size
                if any_overlap(tensors, begins, now, kept):
                    return otherwise(*inputs)
            last = begins, sizes
        return run(*inputs)

    return call


def _are_apart(begins: Sequence[int], before: Sequence[int], reaches: Sequence[int], written: Sequence[int]) -> bool:
    """Whether inputs that lie elsewhere than `before` are few, are read only and lie apart from those that are written:
    a token is another tensor at each call, the cache that it goes into is not.
    """
    moved = [k for k, begin in enumerate(before) if begin != begins[k]]
    if len(moved) > 4:
        return False
    for k in moved:
        begin, reach = begins[k], reaches[k]
        if k in written or not reach:
            return False
        for w in written:
            if begin < begins[w] + reaches[w] and begins[w] < begin + reach:
                return False
    return True


def _is_fixed(t: Any) -> bool:
    return all(isinstance(n, int) for n in (*t.shape, *t.stride()))


def any_overlap(
    tensors: Sequence[torch.Tensor], begins: Sequence[int], reaches: Sequence[int], written: Sequence[bool]
) -> bool:
    """Whether a tensor that is `written` shares memory with another one. `reaches`: their extents."""
    spans = sorted((b, b + r, i) for i, (b, r) in enumerate(zip(begins, reaches, strict=True)) if b and r)
    if all(spans[k][1] <= spans[k + 1][0] for k in range(len(spans) - 1)):
        return False
    open_: list[tuple[int, int, int]] = []
    for begin, end, i in spans:
        open_ = [o for o in open_ if o[1] > begin]
        for _, _, k in open_:
            if (written[i] or written[k]) and overlap(tensors[i], tensors[k]):
                return True
        open_.append((begin, end, i))
    return False


def extent(t: torch.Tensor) -> int:
    """How many bytes after its beginning a tensor ends."""
    reach = 1
    for n, s in zip(t.shape, t.stride(), strict=True):
        if n == 0:
            return 0
        reach += (n - 1) * s
    return reach * t.itemsize


def overlap(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether there is a byte that belongs to an element of both.

    An element of x at sum(i*s) and one of y at sum(j*t) bytes share one if the distance between both is less than
    their size: sum(i*s) - sum(j*t) + u = y's beginning - x's. A stride that both have is one number of a wider range.
    """
    if x.device != y.device or x.numel() == 0 or y.numel() == 0:
        return False
    ranges: dict[int, tuple[int, int]] = {1: (1 - y.itemsize, x.itemsize - 1)}
    for t, sign in ((x, 1), (y, -1)):
        for n, s in zip(t.shape, t.stride(), strict=True):
            low, high = ranges.get(step := s * t.itemsize, (0, 0))
            reach = n - 1
            ranges[step] = (low, high + reach) if sign > 0 else (low - reach, high)
    steps = sorted(((s, *r) for s, r in ranges.items() if s), reverse=True)
    return _reaches(steps, y.data_ptr() - x.data_ptr())


def _reaches(steps: Sequence[tuple[int, int, int]], distance: int) -> bool:
    """Whether `distance` is a sum of multiples of the steps, each by a number of its range."""
    if not steps:
        return distance == 0
    (step, low, high), rest = steps[0], steps[1:]
    least, most = sum(s * a for s, a, _ in rest), sum(s * b for s, _, b in rest)
    first, last = max(low, -((most - distance) // step)), min(high, (distance - least) // step)
    return any(_reaches(rest, distance - step * k) for k in range(first, last + 1))


def overlaps_itself(t: torch.Tensor) -> bool:
    """Whether two elements share memory, as far as strides that are known say it; repeated ones (stride 0) aside. A
    symbolic size is at least 2.
    """
    reach = 1
    dims: list[tuple[Any, Any]] = [(s, n) for n, s in zip(t.shape, t.stride(), strict=True) if type(s) is int and s]
    for s, n in sorted((s, n if type(n) is int else 2) for s, n in dims if type(n) is not int or n > 1):
        if s < reach:
            return True
        reach += (n - 1) * s
    return False
