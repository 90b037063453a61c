"""Attention that is written out, whatever stands between its products: biases, masks, caps, dropout.

    bmm(f(softmax(g(bmm(q, k^T)))), v)        f, g point by point

What is found here becomes one kernel of ours; nothing that is as long as queries times keys is ever stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from xdsl.ir import Operation, SSAValue

from ..dialects import expr
from ..dialects.aten import AtenOp
from ..dialects.expr import Dim
from ..dialects.tensor import TensorType
from .attention_call import is_large
from .gpu_target import GpuTarget
from .product_part import is_pointwise
from .target import CpuTarget

_SOFTMAX: Final = frozenset({"aten._softmax", "aten._safe_softmax", "aten.softmax.int"})
_REDUCTIONS: Final = frozenset({"aten.amax", "aten.sum.dim_IntList", "aten.logsumexp", "aten.all.dim", "aten.any.dim"})
_COPIES: Final = frozenset({"aten.clone", "aten._unsafe_view", "aten.expand"})

ROWS = 8
"""Queries from which on a kernel is faster than calls."""


def written_out_on_gpu(first: AtenOp, gpu: GpuTarget, size: Callable[[Dim], int]) -> AtenOp | None:
    """The same on a GPU, of 16-bit floats."""
    scores = _type(first.results[0])
    inner = _type(first.operands[0]).shape[2]
    halves = {_before_widening(v).dtype for v in first.operands}
    if gpu.sm < 80 or halves not in ({"bf16"}, {"f16"}, {"f32"}) or not scores.device.startswith("cuda"):
        return None
    if not all(isinstance(n, int) for n in (*scores.shape[1:], inner)):
        return None
    last = _end(first, (*halves, "f32"))
    columns = None if last is None else _type(last.results[0]).shape[2]
    if last is None or not isinstance(columns, int) or {_before_widening(last.operands[1]).dtype} != halves:
        return None
    if not _is_narrowed(last.results[0], *halves):
        return None
    batch, queries, keys, most = (size(n) for n in (*scores.shape, max(cast(int, inner), columns)))
    (dtype,) = halves
    return last if is_large(dtype, batch, 1, 1, queries, keys, most) else None


def written_out(first: AtenOp, target: CpuTarget, size: Callable[[Dim], int]) -> AtenOp | None:
    """The second product of the attention whose first one this is, where one kernel is faster; else None."""
    scores = _type(first.results[0])
    inner = _type(first.operands[0]).shape[2]
    if target.vector_bits < 256 or scores.dtype != "f32" or not scores.device.startswith("cpu"):
        return None
    if not all(isinstance(n, int) for n in (*scores.shape[1:], inner)) or size(scores.shape[1]) < ROWS:
        return None
    last = _end(first, ("f32",))
    return last if last is not None and isinstance(_type(last.results[0]).shape[2], int) else None


def _end(first: AtenOp, dtypes: tuple[str, ...]) -> AtenOp | None:
    """The product that reads what becomes of the scores, if all else that reads any of it is gone through, in these
    dtypes.
    """
    scores = _type(first.results[0])
    points, keys = expr.product(scores.shape), scores.shape[-1]
    last: AtenOp | None = None
    normal = False
    waiting: list[SSAValue] = [first.results[0]]
    seen: set[Operation] = set()
    while waiting:
        v = waiting.pop()
        for op in [use.operation for use in v.uses]:
            if op in seen:
                continue
            seen.add(op)
            if not isinstance(op, AtenOp) or op.parent is not first.parent:
                return None
            if op.name == "aten.bmm":
                if last is not None or op.operands[0] is not v or _type(v).shape[1:] != scores.shape[1:]:
                    return None
                last = op
                continue
            along_keys = _type(v).shape[-1] == keys and op.name in _SOFTMAX | _REDUCTIONS and _is_last(op)
            normal |= along_keys
            if op.name in _REDUCTIONS and along_keys:
                continue
            if not (along_keys or op.name in _COPIES or is_pointwise(op)) or _type(op.results[0]).dtype not in dtypes:
                return None
            if expr.product(_type(op.results[0]).shape) != points:
                return None
            waiting.append(op.results[0])
    return last if normal else None


def _is_last(op: AtenOp) -> bool:
    dim, rank = op.arg("dim"), _type(op.operands[0]).rank
    dims = tuple(dim) if isinstance(dim, tuple | list) else (dim,)
    return len(dims) == 1 and dims[0] in (-1, rank - 1)


def _type(v: SSAValue) -> TensorType:
    return cast(TensorType, v.type)


def _before_widening(v: SSAValue) -> TensorType:
    """The type of what a value is, before it was converted to f32, scaled, and seen in other ways."""
    while isinstance(op := v.owner, AtenOp) and _type(v).dtype == "f32":
        scaled = op.name in ("aten.mul.Scalar", "aten.mul.Tensor") and len(op.operands) == 1
        if not (scaled or op.name in _COPIES or op.name == "aten._to_copy" or op.schema.is_view):
            break
        v = op.operands[0]
    return _type(v)


def _is_narrowed(v: SSAValue, dtype: str) -> bool:
    """Whether nothing but values of that type is made of a result, in whatever views."""
    if _type(v).dtype == dtype:
        return True
    for op in [use.operation for use in v.uses]:
        moved = isinstance(op, AtenOp) and (op.name in _COPIES or op.name == "aten._to_copy" or op.schema.is_view)
        if not moved or not _is_narrowed(op.results[0], dtype):
            return False
    return True
