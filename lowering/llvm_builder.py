"""Builds an `llvm.func`: loops, branches and blocks around the ops of `llvm_ops`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager

from xdsl.dialects import llvm
from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute, Block, Region, SSAValue

from .llvm_ops import Num as Num
from .llvm_ops import OpBuilder, Scope
from .llvm_properties import REASSOCIATE as REASSOCIATE
from .llvm_properties import KernelError as KernelError
from .llvm_properties import bits_of as bits_of
from .llvm_properties import branch_segments
from .llvm_properties import element_of as element_of
from .llvm_properties import lanes_of as lanes_of
from .llvm_properties import vector as vector


class FunctionBuilder(OpBuilder):
    """One function under construction. An entry block holds constants and stack slots; code starts in the next."""

    def __init__(self, argument_types: Sequence[Attribute], contract: bool = True):
        self.region = Region()
        super().__init__(self._block(argument_types), self._block(), contract)

    @property
    def arguments(self) -> Sequence[SSAValue]:
        return self.entry.args

    def _block(self, types: Sequence[Attribute] = ()) -> Block:
        block = Block(arg_types=types)
        self.region.add_block(block)
        return block

    # ---------------------------------------------------------------------------------------------------- control flow

    def jump(self, target: Block, arguments: Sequence[SSAValue] = ()) -> None:
        self.effect(llvm.BrOp, arguments, (), {}, (target,))

    def branch(
        self,
        cond: SSAValue,
        then: Block,
        then_arguments: Sequence[SSAValue],
        other: Block,
        other_arguments: Sequence[SSAValue] = (),
    ) -> None:
        operands = (cond, *then_arguments, *other_arguments)
        segments = branch_segments(len(then_arguments), len(other_arguments))
        self.effect(llvm.CondBrOp, operands, (), segments, (then, other))

    def block(self, types: Sequence[Attribute] = ()) -> Block:
        """A new block, whose arguments belong to the scope that is open."""
        block = self._block(types)
        level = len(self.scopes) - 1
        for argument in block.args if level else ():
            self.levels[argument] = level
        return block

    @property
    def at_top(self) -> bool:
        """Whether no loop or branch is open."""
        return len(self.scopes) == 1

    def continue_in(self, block: Block) -> None:
        """Write on in `block`, in the same scope."""
        self.scopes[-1].block = block

    @contextmanager
    def scope(self, block: Block, *, branch: bool = False, guard: bool = False) -> Generator[None]:
        """Write in `block`: a loop, a `branch` of the code, or the `guard` of a loop that may not run."""
        self.scopes.append(Scope(block))
        floors = self.floor, self.load_floor
        level = len(self.scopes) - 1
        for argument in block.args:
            self.levels[argument] = level
        if branch:
            self.floor = level
        if branch or guard:
            self.load_floor = level
        try:
            yield
        finally:
            self.floor, self.load_floor = floors
            self.scopes.pop()

    def loop(
        self,
        lo: Num,
        hi: Num,
        step: int,
        initial: Sequence[SSAValue],
        body: Callable[[Num, Sequence[SSAValue]], Sequence[SSAValue]],
        runs: bool = False,
    ) -> list[SSAValue]:
        """`for i in range(lo, hi, step)`: `body(i, values)` gives the next values; the result is the last ones.

        `runs`: lo < hi is known.
        """
        if isinstance(lo, int) and isinstance(hi, int):
            if lo + step >= hi:
                return list(body(lo, initial) if lo < hi else initial)
            runs = True
        start, end = self.number(lo), self.number(hi)
        outside = self.scopes[-1]
        guard = None if runs else self._block()

        def cycle() -> Block:
            header = self._block((i64, *(v.type for v in initial)))
            with self.scope(header):
                index, *carried = header.args
                results = body(index, carried)
                following = self.add(index, self.constant(step, i64))
                again = self.icmp("slt", following, end)
                after = self._block([v.type for v in results])
                self.branch(again, header, (following, *results), after, results)
            self.jump(header, (start, *initial))
            return after

        if guard is None:
            after = cycle()
        else:
            with self.scope(guard, guard=True):
                after = cycle()
            self.branch(self.icmp("slt", start, end), guard, (), after, initial)
        return self._leave(outside, after)

    def _leave(self, outside: Scope, after: Block) -> list[SSAValue]:
        """Write on in `after`, whose arguments belong to the scope that is open now."""
        outside.block = after
        level = len(self.scopes) - 1
        for argument in after.args if level else ():
            self.levels[argument] = level
        return list(after.args)

    def when(
        self,
        cond: SSAValue,
        then: Callable[[], Sequence[SSAValue]],
        otherwise: Callable[[], Sequence[SSAValue]] | Sequence[SSAValue] = (),
    ) -> list[SSAValue]:
        """`then()` where `cond`, else `otherwise`."""
        outside = self.scopes[-1]
        then_block = self._block()
        with self.scope(then_block, branch=True):
            values = list(then())
            after = self._block([v.type for v in values])
            self.jump(after, values)
        if callable(otherwise):
            other_block = self._block()
            with self.scope(other_block, branch=True):
                self.jump(after, list(otherwise()))
            self.branch(cond, then_block, (), other_block)
        else:
            self.branch(cond, then_block, (), after, otherwise)
        return self._leave(outside, after)

    def finish(
        self, name: str, result: Attribute, linkage: str = "internal", attributes: Mapping[str, Attribute] = {}
    ) -> llvm.FuncOp:
        """The function; the block that is open must have ended in a return."""
        first = next(b for b in self.region.blocks if b is not self.entry)
        self.entry.add_op(llvm.BrOp.create(successors=[first], location=self.location))
        type = llvm.LLVMFunctionType([a.type for a in self.entry.args], result)
        func = llvm.FuncOp(name, type, llvm.LinkageAttr(linkage), body=self.region)
        func.attributes.update(attributes)
        func.location = self.location
        return func

    def ret(self, value: SSAValue | None = None) -> None:
        self.effect(llvm.ReturnOp, () if value is None else (value,))


class Shared:
    """Functions that kernels of a module share: the `names` of those that are there, and those `made` since."""

    def __init__(self, names: set[str]) -> None:
        self.names = names
        self.made: list[llvm.FuncOp] = []

    def use(self, name: str, make: Callable[[str], llvm.FuncOp]) -> str:
        """Its name, with the function there."""
        if name not in self.names:
            self.names.add(name)
            self.made.append(make(name))
        return name

    def taken(self) -> list[llvm.FuncOp]:
        """Those made since it was last asked."""
        made, self.made = self.made, []
        return made
