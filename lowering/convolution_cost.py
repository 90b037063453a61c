"""Which convolutions are generated on a CPU, by what was measured against oneDNN with AVX-512.

Depthwise ones read each element as often as a window has points and compute little: a kernel of vectors along a row or
along the channels took 0.2 to 0.6 of oneDNN's time with windows of 9 points, 0.7 to 0.9 with 25. oneDNN needs 5 to 60
microseconds to begin; small ones of any kind are done before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import cast

from xdsl.ir import Operation, SSAValue

from ..dialects.aten import AtenOp
from ..dialects.expr import Dim
from ..dialects.tensor import HALVES, TensorType, is_float, is_integer
from .target import F32_ALONE, CpuTarget

NAMES = frozenset({"aten.convolution", "aten.convolution_backward"})

SMALL, SMALL_HALVES = 1 << 14, 1 << 16
"""Products of numbers up to which oneDNN has not begun; the second for halves, and where a window is a point."""

UNKNOWN = 1 << 12
"""The same where a size is not known."""

POINTS, MORE_POINTS = 16, 25
"""Points of the window of a depthwise convolution: of any, and of f32 with many neighbours."""

ROW, LONG_ROW = 14, 32
"""Points of a row of the result at least, where rows are what is side by side in memory."""


@dataclass(frozen=True)
class Convolution:
    """[batch, channels, places…] of images, windows and groups, as the op has them."""

    op: AtenOp
    x: TensorType
    weight: TensorType
    result: TensorType

    def kind(self, size: Callable[[Dim], int]) -> str:
        """What is told of it."""
        shapes = ("x".join(str(size(d)) for d in t.shape) for t in (self.x, self.weight))
        groups = self.op.arg("groups")
        return f"{self.x.dtype} {' * '.join(shapes)}{f' in {groups} groups' if groups != 1 else ''}"


def convolution_of(op: Operation) -> Convolution | None:
    """What a call convolves; None where it is none."""
    if not isinstance(op, AtenOp) or op.name not in NAMES:
        return None
    values = (op.arg("input"), op.arg("weight"))
    x, weight = (cast(TensorType, cast(SSAValue, v).type) for v in values)
    result = op.results[0] if op.name == "aten.convolution" else cast(SSAValue, op.arg("grad_output"))
    t = cast(TensorType, result.type)
    return Convolution(op, x, weight, t) if x.rank == t.rank == weight.rank and x.rank > 2 else None


def reason_to_widen(c: Convolution, target: CpuTarget) -> str | None:
    """Why a call with images and weights of f32 is faster than one with halves."""
    dtypes = {c.x.dtype, c.weight.dtype, c.result.dtype}
    if c.x.device != "cpu" or len(dtypes) > 1 or c.x.dtype not in HALVES or target.multiplies(c.x.dtype):
        return None
    return F32_ALONE


def reason_to_convolve(c: Convolution, target: CpuTarget, size: Callable[[Dim], int]) -> str | None:
    """Why a kernel of ours is faster, in words; None where oneDNN's is as good or nobody knows."""
    kernel = c.weight.shape[2:]
    if c.x.device != "cpu" or not (is_float(c.x.dtype) or is_integer(c.x.dtype)) or c.x.dtype != c.weight.dtype:
        return None
    if not all(isinstance(k, int) and k > 0 for k in (*kernel, *c.weight.shape[:2])):
        return None
    at = c.x if c.op.arg("transposed") else c.result
    work = prod(map(size, at.shape)) * prod(map(size, c.weight.shape[1:]))
    if c.op.name != "aten.convolution":
        return "a call costs more than the work" if work <= UNKNOWN else None
    known = all(isinstance(d, int) for d in (*c.x.shape, *c.result.shape))
    half = c.x.dtype in HALVES
    most = SMALL_HALVES if half or is_integer(c.x.dtype) or prod(map(size, kernel)) == 1 else SMALL
    if work <= (most if known and not c.op.arg("transposed") else UNKNOWN):
        return "a call costs more than the work"
    depthwise = c.op.arg("groups") == c.x.shape[1] == c.weight.shape[0] and not c.op.arg("transposed")
    if depthwise and known and target.vector_bits >= 256 and c.x.dtype in ("f32", "bf16", "f16"):
        return _depthwise(c, cast(Sequence[int], kernel), half and target.multiplies(c.x.dtype))
    return None


def _depthwise(c: Convolution, kernel: Sequence[int], multiplied: bool) -> str | None:
    """`multiplied`: of halves that oneDNN has instructions for."""
    points, row = prod(kernel), cast(int, c.result.shape[-1])
    if c.x.strides[1] == 1 and c.x.shape[1] != 1:
        good = points <= MORE_POINTS and not multiplied
        return "a channel at a time for each lane reads images as they lie" if good else None
    good = row >= ROW if points <= POINTS else row >= LONG_ROW and points <= MORE_POINTS
    plain = c.x.is_contiguous and c.op.arg("stride") in ((1,) * len(kernel), (2,) * len(kernel), (1,), (2,))
    strided = any(s != 1 for s in cast("tuple[int, ...]", c.op.arg("stride")))
    return "a row at a time reads images as they lie" if good and plain and (row >= 2 * ROW or not strided) else None
