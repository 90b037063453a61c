"""Calls of ATen's attention as a choice: what names their kind, and when a kernel of ours is faster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from xdsl.ir import Operation, SSAValue

from ..dialects.aten import AtenOp
from ..dialects.expr import Dim
from ..dialects.tensor import HALVES, TensorType
from .gpu_target import GpuTarget
from .schedule_matrix import SIDE
from .target import F32_ALONE, CpuTarget

FLASH: Final = "aten._scaled_dot_product_flash_attention_for_cpu"

EFFICIENT: Final = "aten._scaled_dot_product_efficient_attention"
"""What a GPU is called with where there is a mask."""

FUSED: Final = "aten.scaled_dot_product_attention"
"""What chooses among the kernels of a GPU when it is called."""


@dataclass(frozen=True)
class AttentionCall:
    """batch x heads x [queries, keys], `size` elements of each; `groups` are heads of keys."""

    op: AtenOp
    batch: Dim
    heads: Dim
    groups: Dim
    queries: Dim
    keys: Dim
    size: Dim
    dtype: str
    device: str
    mask: str

    @property
    def stored(self) -> str:
        return self.dtype

    def sizes(self, size: Callable[[Dim], int]) -> tuple[int, ...]:
        """All sizes as `size` gives them."""
        return tuple(map(size, (self.batch, self.heads, self.groups, self.queries, self.keys, self.size)))

    @property
    def is_static(self) -> bool:
        return all(isinstance(d, int) for d in (self.batch, self.heads, self.queries, self.keys, self.size))

    def kind(self, size: Callable[[Dim], int]) -> str:
        """What a measurement is remembered by, next to the machine."""
        b, h, g, q, k, d = self.sizes(size)
        return f"{self.dtype} {b}x{h}x{q}x{k}x{d}{f' groups {g}' if g != h else ''}{self.mask}"


MOST_HALVES = 1 << 19
"""Elements of keys up to which a kernel of one query is faster in f16 and bf16 where oneDNN multiplies these without
converting them.
"""

MOST_KEYS = 1 << 11
"""Keys up to which a kernel that computes in f32 is faster in bf16 where oneDNN multiplies that by vectors. Of the time
of ATen's, with one and two threads: 0.36 to 0.87 up to 1024 keys, 0.85 and 0.90 at 2048, 0.93 to 1.19 beyond.
"""


def attention_of(op: Operation) -> AttentionCall | None:
    """What a call of attention is; None where it is none, or no choice: of one query it is a kernel in f32."""
    if not isinstance(op, AtenOp) or op.name not in (FLASH, EFFICIENT):
        return None
    query, key, value = (cast(TensorType, cast(SSAValue, op.arg(n)).type) for n in ("query", "key", "value"))
    batch, heads, queries, size = query.shape
    if queries == 1 and (op.name != FLASH or query.dtype not in HALVES):
        return None
    if op.arg("dropout_p") != 0 or key.shape != value.shape or key.shape[3] != size:
        return None
    mask = op.arg("attn_mask" if op.name == FLASH else "attn_bias")
    parts = [" causal"] if op.arg("is_causal") else []
    if isinstance(mask, SSAValue):
        t = cast(TensorType, mask.type)
        parts.append(f" mask {'x'.join('1' if n == 1 else 'n' for n in t.shape)}")
    return AttentionCall(
        op, batch, heads, key.shape[1], queries, key.shape[2], size, query.dtype, query.device, "".join(parts)
    )


def reason_to_widen(call: AttentionCall, target: CpuTarget) -> str | None:
    """Why a kernel of ours that computes in f32 is faster than ATen's of halves."""
    known = call.queries == 1 or all(isinstance(n, int) for n in (call.queries, call.keys, call.size))
    if not known or target.vector_bits < 256 or call.dtype not in HALVES or target.multiplies(call.dtype):
        return None
    return F32_ALONE if call.op.name == FLASH else None


def reason_to_generate(call: AttentionCall, target: CpuTarget, size: Callable[[Dim], int]) -> str | None:
    """Why a kernel of ours is faster, in words; None where ATen's is as good or nobody knows."""
    if call.queries == 1:
        batch, heads, groups, _, keys, elements = call.sizes(size)
        few = groups == heads and batch * groups * keys * elements <= MOST_HALVES
        return "keys of one query are read sooner than ATen has begun" if few else None
    known = all(isinstance(n, int) for n in (call.queries, call.keys, call.size))
    if not known or target.vector_bits < 256 or not call.device.startswith("cpu"):
        return None
    if call.dtype == "bf16" and target.has_amx:
        whole = all(cast(int, n) % SIDE == 0 for n in (call.keys, call.size))
        return "matrix units multiply, and blocks of scores stay in a cache" if whole else None
    if call.dtype == "bf16" and target.has_bf16_vectors:
        return "blocks of scores stay in a cache, in f32" if size(call.keys) <= MOST_KEYS else None
    if call.dtype != "f32":
        return None
    return "blocks of scores stay in a cache, and larger tiles in registers"


GPU_SIDE, GPU_SCORES = 64, 1 << 20
"""On a GPU: queries and keys, and scores at least."""

GPU_SIZE = {"bf16": 256, "f16": 256, "f32": 128}
"""Elements of a key or a value at most."""


def reason_on_gpu(call: AttentionCall, gpu: GpuTarget) -> str | None:
    """The same on a GPU, where ATen's kernels without a mask are faster."""
    if not call.is_static or call.op.name != EFFICIENT or (" mask" not in call.mask and call.dtype != "f32"):
        return None
    sizes = call.sizes(lambda d: cast(int, d))
    if gpu.sm < 80 or call.groups != call.heads or not is_large(call.dtype, *sizes):
        return None
    return "a mask is read where scores are made"


def is_large(dtype: str, batch: int, heads: int, groups: int, queries: int, keys: int, size: int) -> bool:
    """Whether attention on a GPU is worth a kernel that goes over the keys once."""
    scores = batch * heads * queries * keys
    return min(queries, keys) >= GPU_SIDE and size <= GPU_SIZE.get(dtype, 0) and scores >= GPU_SCORES


def is_torchs(gpu: GpuTarget, dtype: str, queries: int, keys: int, size: int) -> bool:
    """Whether attention without a mask is faster by torch's kernel than by one of ours."""
    long = queries >= 1024 and keys >= (1024 if size > 64 else 8192)
    return gpu.sm >= 90 and dtype in HALVES and size <= GPU_SIZE[dtype] and long
