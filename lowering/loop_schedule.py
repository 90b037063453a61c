"""loop (kernels) to loop (scheduled kernels): grid, blocks, vectors, and how memory is touched.

Before: kernels as fusion made them, with every parallel dim in the grid or one plain loop. After: grid points of some
thousand elements, a `loop.for` whose vector dim has unit stride, `grain` for the launch. What is computed does not
change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ..dialects.hints import size_hints
from ..dialects.loop import KernelOp, LaunchOp
from .fuse_cost import Hints, Machine
from .host_devices import on_gpu
from .schedule_access import collapse
from .schedule_kernel import schedule_kernel
from .schedule_parts import write_parts_out
from .schedule_unroll import write_out
from .schedule_updates import spread
from .vectors import Vectors


@dataclass(frozen=True)
class LoopSchedule(ModulePass):
    """Choose loops, vectors and grain of every kernel for the CPU.

    `bits` is the width of vectors, `registers` how many of them there are, `l1`, `l2`, `l3` are cache sizes in bytes,
    `threads` is how many a launch should keep busy, `busy` how many will run it (all where it is 0): blocks of products
    are made for these, on which no sum depends. `amx`: whether there are matrix units, `blocks`:
    whether products of f32 are made in blocks without them. `pairs`: whether pairs of
    products of 16 bits are added by one instruction. `parts`: whether the order of a product's sums may depend on its
    sizes. `runs`: of how many rows sums of columns are made at a time where few long runs of memory are read faster
    than many short ones; 0 where not.
    """

    name = "loop-schedule"

    bits: int = 512
    registers: int = 32
    l1: int = 48 << 10
    l2: int = 2 << 20
    l3: int = 32 << 20
    threads: int = 16
    busy: int = 0
    amx: bool = False
    blocks: bool = False
    pairs: bool = False
    parts: bool = True
    runs: int = 0
    statistics: dict[str, int] = field(default_factory=dict[str, int], init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        whole = Hints(size_hints(op))
        kernels = {k.sym_name.data: k for k in op.ops if isinstance(k, KernelOp) and not on_gpu(k)}
        seen: dict[str, Hints] = {}
        for launch in op.walk():
            # the largest launch tells what the kernel's own symbols are like
            if isinstance(launch, LaunchOp) and launch.callee in kernels and len(launch.sizes):
                names = (s.name for s in kernels[launch.callee].sizes)
                sizes = Hints(dict(zip(names, map(whole.size, launch.sizes), strict=True)))
                before = seen.get(launch.callee)
                if before is None or prod(before.values.values()) < prod(sizes.values.values()):
                    seen[launch.callee] = sizes
        machine = Machine(self.l1, self.l2, self.l3, self.threads, parts=self.parts, runs=self.runs)
        vectors = Vectors(
            self.bits, self.registers, self.amx, self.pairs, self.busy or self.threads, self.amx or self.blocks
        )
        for name, kernel in kernels.items():
            known_sizes = seen.get(name, whole)
            write_parts_out(kernel)
            collapse(kernel, known_sizes)
            write_out(kernel, known_sizes)
            spread(kernel, machine, known_sizes)
            schedule_kernel(kernel, vectors, machine, known_sizes)
        self.statistics["kernels"] = len(kernels)
