"""Several launches of a GPU's kernel as one: programs are counted through all launches, and each finds its own.

    tt.func public @k_together(%x0 … %x3, %y0 … %y3: pointers, %s0 … %s3: sizes, %p0 … %p3: i32)

takes the arguments of four launches; %p<i> is the number of programs of those before launch i. Which launch a program
is of is decided by a tree of branches, which gives it that launch's arguments: they are in the constant memory of the
launch itself, so nothing is read, and a CUDA graph has them too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp, i1
from xdsl.ir import Block, Region, SSAValue

from ..dialects import host
from ..dialects.loop import KernelOp
from .tt_builder import TtBuilder

MOST = 64
"""Addresses that a function takes at most. Machine code loads all of them before it branches: 64 take 74 registers in a
step of AdamW, where one launch takes 35, and 128 take 144.
"""


def segments_of(module: ModuleOp, kernels: Mapping[str, KernelOp]) -> dict[str, int]:
    """For how many launches each kernel that stands in groups should have a function: a power of two."""
    found: dict[str, int] = {}
    for op in module.walk():
        if isinstance(op, host.TogetherOp):
            counts: dict[str, int] = {}
            for launch in op.launches:
                counts[launch.callee] = counts.get(launch.callee, 0) + 1
            for name, n in counts.items():
                if name in kernels and n > 1:
                    found[name] = max(found.get(name, 0), min(1 << (n - 1).bit_length(), most_of(kernels[name])))
    return {name: n for name, n in found.items() if n > 1}


def most_of(kernel: KernelOp) -> int:
    """Of how many launches a function takes the arguments: a power of two."""
    return 1 << max(0, (MOST // len(kernel.body.block.args)).bit_length() - 1)


def choose(
    b: TtBuilder, program: SSAValue, first: Sequence[SSAValue], sets: Sequence[Sequence[SSAValue]]
) -> list[SSAValue]:
    """Of `sets`, that of the last launch whose `first` program is not after `program`."""
    if len(sets) == 1:
        return list(sets[0])
    middle = len(sets) // 2
    after = b.compare("sge", program, first[middle])
    regions: list[Region] = []
    for part in (slice(middle, None), slice(middle)):
        block = Block()
        with b.scope(block):
            b.effect(scf.YieldOp, choose(b, program, first[part], sets[part]))
        regions.append(Region(block))
    assert after.type == i1
    return list(b.effect(scf.IfOp, [after], [v.type for v in sets[0]], {}, regions).results)
