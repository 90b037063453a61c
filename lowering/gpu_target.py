"""What the compiler knows about a GPU: one frozen record, passed in."""

from __future__ import annotations

from dataclasses import dataclass

from ..dialects.user_error import LamellaError
from .tile_held import SCRATCH

BYTES_PER_OP = 0.25
"""Memory traffic in the time of an add of one element. Of a product alone it is 0.15, but few ops are without moves."""


@dataclass(frozen=True)
class GpuTarget:
    """A GPU to generate code for. Sizes are in bytes, `bandwidth` is of its memory in bytes per microsecond."""

    name: str
    sm: int
    """Compute capability, 90 for sm_90."""
    processors: int
    """Streaming multiprocessors, which run programs side by side."""
    l2: int
    bandwidth: float
    l2_bandwidth: float
    """Of the L2 cache, as programs read tiles of products from it."""
    tensor_flops: float
    """Floating point operations per microsecond of tensor cores on 16-bit floats."""
    vector_flops: float
    """The same of 32-bit floats without them."""
    shared: int = 228 << 10
    """Shared memory of a processor."""
    threads: int = 2048
    """That a processor holds at a time."""
    reuse: int = 64
    """Rows or columns of a product that use an element of the other factor once it is at hand."""

    @property
    def key(self) -> str:
        """What machine code depends on; for cache keys."""
        return f"sm_{self.sm}|{self.processors}"

    def flops(self, element: str, precision: str) -> float:
        """Operations per microsecond of products; `precision` (`ieee`, `bf16x3`, `bf16x6`) is that of f32."""
        if element == "f32" and precision != "ieee":
            return self.tensor_flops / {"bf16x3": 3, "bf16x6": 6}[precision]
        if element in ("f32", "f64"):
            return self.vector_flops if element == "f32" else self.vector_flops / 2
        return self.tensor_flops * {"bf16": 1.0, "f16": 1.0}.get(element, 2.0)

    @property
    def programs(self) -> int:
        """How many programs of a few warps a launch needs to keep the machine busy."""
        return 4 * self.processors

    @property
    def machine(self) -> str:
        """Options of `loop-fuse`. A row longer than what a program holds is read again, mostly from the L2 cache."""
        caches = f"l1={64 << 10} l2={self.l2 // 16} l3={self.l2} hold={4 * SCRATCH}"
        times = f"launch=3.0 fork=0.0 speed={self.bandwidth / self.programs} op={BYTES_PER_OP}"
        sums = f"rows=512 strips={self.programs} sums=4096 one_pass=true"
        return f"{caches} threads={self.programs} {sums} reuse={self.reuse} {times}"

    @staticmethod
    def from_name(name: str) -> GpuTarget:
        """The data centre card of a compute capability: `sm_80` (A100), `sm_90` (H200) or `sm_100` (B200)."""
        if name not in _NAMED:
            raise LamellaError(f"unknown GPU {name!r}; there are {', '.join(_NAMED)}")
        return _NAMED[name]


_NAMED = {
    "sm_80": GpuTarget("sm_80", 80, 108, 40 << 20, 1.9e6, 4.0e6, 312e6, 19.5e6, shared=164 << 10),
    "sm_90": GpuTarget("sm_90", 90, 132, 50 << 20, 4.8e6, 9.6e6, 989e6, 67e6),
    "sm_100": GpuTarget("sm_100", 100, 148, 126 << 20, 8.0e6, 14.0e6, 2250e6, 80e6),
}
NAMES = tuple(_NAMED)
