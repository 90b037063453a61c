"""Several launches of a GPU's kernel as one: programs are counted through all launches, and each finds its own.

    tt.func public @k_together(%x0, %y0 … %x3, %y3, %z: pointers, %s0 … %s3: sizes, %p0 … %p3: i32)

takes the arguments of four launches, but for buffers that all of them have (%z), and those that are another of the same
launch; %p<i> is the number of programs of those before launch i. Which launch a program is of is decided by a tree of
branches, which gives it that launch's arguments: they are in the constant memory of the launch itself, so nothing is
read, and a CUDA graph has them too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp, i1
from xdsl.ir import Block, Region, SSAValue

from ..dialects import host
from ..dialects.loop import KernelOp
from .host_devices import Segments
from .tt_builder import TtBuilder

MOST = 64
"""Addresses that a function takes at most, besides common ones. Machine code loads all of them before it branches: 64
take 74 registers in a step of AdamW, where one launch takes 35, and 128 take 144.
"""


def segments_of(module: ModuleOp, kernels: Mapping[str, KernelOp]) -> dict[str, Segments]:
    """For how many launches each kernel that stands in groups should have a function: a power of two."""
    groups: dict[str, list[list[host.LaunchOp]]] = {}
    for op in module.walk():
        if isinstance(op, host.TogetherOp):
            for name in {launch.callee for launch in op.launches} & kernels.keys():
                groups.setdefault(name, []).append([launch for launch in op.launches if launch.callee == name])
    found: dict[str, Segments] = {}
    for name, launches in groups.items():
        places = _places(launches)
        most = 1 << max(0, (MOST // (max(places) + 1)).bit_length() - 1)
        count = min(1 << (max(map(len, launches)) - 1).bit_length(), most)
        if count > 1:
            found[name] = Segments(count, places)
    return found


def _places(groups: Sequence[Sequence[host.LaunchOp]]) -> tuple[int, ...]:
    """Where the addresses of each buffer come from, alike in all groups."""
    found: list[int] = []
    columns = list(zip(*(launch.operands for group in groups for launch in group), strict=True))
    own = common = 0
    for i, column in enumerate(columns):
        if column in columns[:i]:
            found.append(found[columns.index(column)])
        elif all(len({launch.operands[i] for launch in group}) == 1 for group in groups):
            common += 1
            found.append(-common)
        else:
            found.append(own)
            own += 1
    return tuple(found)


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
