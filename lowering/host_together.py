"""Kernels that run as one in a host program: a constant table says which, and where their arguments are.

The words that the table means are those of the caller's tensors, which are there from the start, then what a group has
besides: kernels, buffers of the program's own, and sizes that are not numbers. So what a group costs in code does not
grow with its launches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i64
from xdsl.ir import Block, SSAValue

from ..dialects import host
from ..dialects.llvm_ext import PTR
from .host_frame import Frame
from .host_gil import released
from .llvm_properties import address_of

HEADER = 4
"""Words of a context before the kernel's arguments."""


class Together:
    """The groups of one host program."""

    def __init__(self, frame: Frame, block: Block) -> None:
        self.frame = frame
        self.arguments: dict[SSAValue, int] = {a: i for i, a in enumerate(block.args)}
        groups = [op.launches for op in block.ops if isinstance(op, host.TogetherOp)]
        self.others = max((len(self._others(launches)) for launches in groups), default=0)
        """Words that a group has at most besides those of arguments."""
        self.room = max((sum(map(_words, launches)) for launches in groups), default=0)
        """Words that the contexts of a group take at most."""

    def enter(self, count: int) -> SSAValue:
        """The words of `count` arguments, which the caller fills, with those of groups behind them."""
        self.words = self.frame.words(count + self.others)
        self.contexts = self.frame.words(self.room) if self.room else None
        return self.words

    def launch(self, launches: Sequence[host.LaunchOp], data: Callable[[SSAValue], SSAValue]) -> SSAValue:
        """Runs kernels of the CPU, whose buffers lie where `data` says; the code of the kernel that failed, or 0."""
        frame, b = self.frame, self.frame.b
        assert self.contexts is not None
        places = {key: len(self.arguments) + i for i, key in enumerate(self._others(launches))}
        for key, place in places.items():
            frame.store(self._word(key, data), b.gep(self.words, place, i64))
        table: list[int] = []
        for op in launches:
            table += (places[op.callee], len(op.operands) + len(op.sizes))
            table += (2 * self.arguments.get(v, places.get(v, 0)) for v in op.operands)
            table += (2 * e + 1 if isinstance(e, int) else 2 * places[e] for e in op.sizes)
        operands = (frame.table(table), b.constant(len(launches), i64), self.words, self.contexts)
        with released(frame, (t for op in launches for t in op.operand_types)):
            code = frame.get("lamella_together", *operands)
        return code

    def _others(self, launches: Iterable[host.LaunchOp]) -> list[Any]:
        """What has no word yet: names of kernels, buffers, sizes."""
        found: dict[Any, None] = {}
        for op in launches:
            found[op.callee] = None
            found.update((v, None) for v in op.operands if v not in self.arguments)
            found.update((e, None) for e in op.sizes if not isinstance(e, int))
        return list(found)

    def _word(self, key: Any, data: Callable[[SSAValue], SSAValue]) -> SSAValue:
        if isinstance(key, SSAValue):
            return data(key)
        if isinstance(key, str):
            name = f"{key}.prepare"
            return self.frame.b.pure(llvm.AddressOfOp, (), PTR, address_of(name))
        return self.frame.number(key)


def _words(op: host.LaunchOp) -> int:
    return HEADER + len(op.operands) + len(op.sizes)
