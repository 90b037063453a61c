"""Kernels whose programs go backwards: what the launch before has touched last is still in the L2 cache.

A tensor larger than the cache that is read from its beginning on finds nothing of itself there, though it has just been
written or read; from its end on, it finds as much as the cache holds.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import SSAValue

from ..dialects.host import LaunchOp
from ..dialects.loop import KernelOp
from .fuse_cost import Hints
from .gpu_target import GpuTarget

REVERSE = "reverse"
"""The attribute of a kernel whose first program takes the last tile."""


def order_programs(module: Any, kernels: dict[str, KernelOp], target: GpuTarget, hints: Hints) -> int:
    """Give kernels the attribute where it pays; how many have it."""
    backwards: dict[SSAValue, bool] = {}
    decided: dict[str, bool] = {}
    for launch in module.walk():
        if not isinstance(launch, LaunchOp) or launch.callee not in kernels:
            continue
        kernel = kernels[launch.callee]
        touched = {v: hints.bytes(v) for v in (*launch.ins, *launch.outs)}
        large = {v for v, n in touched.items() if n > target.l2 // 4}
        if not large:
            continue
        if launch.callee not in decided:
            seen = [backwards[v] for v in launch.ins if v in large and v in backwards]
            decided[launch.callee] = any(not b for b in seen) and "group" not in kernel.attributes
            if decided[launch.callee]:
                kernel.attributes[REVERSE] = UnitAttr()
        backwards = dict.fromkeys(large, decided[launch.callee])
    return sum(decided.values())
