"""Where the tensors of a body lie: in an argument, in a result, in an arena, or in memory of their own.

A result that is copied to an argument and has its layout is written there at once. What leaves no body lies in the
arena of its device, over an operand that dies there where the kernel allows it, or in a result that is written later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, cast

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from ..dialects import expr, host
from ..dialects.aten import AtenOp
from ..dialects.expr import Dim
from ..dialects.loop import KernelOp, LaunchOp
from ..dialects.tensor import SymType, TensorType
from .arena_plan import Request
from .beside import RECYCLED, beside
from .buffer_lifetimes import Lifetimes, Memory
from .in_place import may_overwrite, whole
from .lent_memory import LARGE, Lender, Loans, lend
from .out_variants import is_empty, out_variant
from .own_memory import placed
from .storage import storage_bytes

DONATED = "lamella.donated"
"""The attribute of an argument that nobody needs after the call: it may be written over."""

PASSED = "lamella.passed"
"""The attribute of an argument that may be there for the call alone, as a gradient that was made contiguous for it."""


class MemoryPlan:
    """Of the body of a function, or, with `outer`, of a region of control flow in it.

    `named` are the arguments that are there after the call too, `donated` those that may be written over; what is found
    is added to `counts`.
    """

    def __init__(
        self,
        block: Block,
        kernels: Mapping[str, KernelOp],
        hints: Mapping[str, int],
        named: Set[SSAValue],
        donated: Set[SSAValue],
        counts: dict[str, int],
        outer: MemoryPlan | None = None,
    ):
        self.kernels = kernels
        self.hints = hints
        self.named = named
        self.outer = outer
        self.lifetimes = Lifetimes(block)
        self.written: dict[SSAValue, SSAValue] = {}
        """Results of launches that are written into an argument, or into a tensor that is there already."""
        self.needless: set[Operation] = set()
        """Copies that are not needed for that reason."""
        self.over: dict[SSAValue, int] = {}
        """Results of launches that are written over an operand, with its number."""
        self.slots: dict[Memory, Dim] = {}
        """At which byte of the arena, or of the result that it lies in."""
        self.lenders: dict[Memory, Memory] = {}
        """For a slot's memory, the result that it lies in; in the arena without one."""
        self.arenas: dict[str, Dim] = {}
        """Bytes of the arena of each device."""
        self.counts = counts
        self._allowed: dict[tuple[str, int, int], bool] = {}
        """Whether a kernel may write a result over an operand, by their numbers."""
        self._early = self._early_symbols(block)
        """Symbols that are known before anything of the body has run: those of the arguments."""
        if outer is None:
            self._find_mutations()
            self._find_donations({m for m in self.lifetimes.memories if m.value in donated or self._is_calls_own(m)})
        self._plan()
        self.perhaps: dict[SSAValue, SSAValue] = {} if outer is not None else self._found_passed(passed(block))
        """Results of launches that are written over an argument, where nobody else holds that."""
        self.beside: list[int] = [] if outer is not None else self._beside(donated)
        """Bytes at each step that are not of outputs that are recycled."""

    def _beside(self, donated: Set[SSAValue]) -> list[int]:
        def counts(memory: Memory) -> bool:
            value = memory.value
            if value in self.named or memory in self.slots or value in self.written or device_of(value) != "cpu":
                return False
            made = memory.first < 0 or self._is_ours(memory)
            size = _size(memory)
            return not (made and isinstance(size, int) and size >= RECYCLED)

        memories = [m for m in self.lifetimes.memories if counts(m)]
        return beside(memories, lambda m: m.value in donated, self.lifetimes.steps, self.hints)

    def drops(self) -> dict[int, list[SSAValue]]:
        """After which op nothing of a tensor is needed. What lies in the arena goes with the arena."""
        drops: dict[int, list[SSAValue]] = {}
        end = len(self.lifetimes.steps) - 2  # the last op before the return; releasing there is what the exit does
        for memory in self.lifetimes.memories:
            lies_here = memory in self.slots or memory.value in self.written
            if self.outer is not None and memory.first < 0:
                continue  # whoever gave it drops it
            if not memory.returned and not lies_here and 0 <= memory.last < end:
                drops.setdefault(memory.last, []).extend(dict.fromkeys([memory.value, *memory.aliases]))
        return {position: list(dict.fromkeys(values)) for position, values in drops.items()}

    def _find_mutations(self) -> None:
        """Launches that can write straight into the argument that their result is copied to."""
        copies: dict[Memory, list[tuple[int, AtenOp]]] = {}
        for position, (op, *_) in enumerate(self.lifetimes.steps):
            if isinstance(op, AtenOp) and op.name == "aten.copy_":
                for memory in self.lifetimes.of.get(op.args()[0], ()):
                    copies.setdefault(memory, []).append((position, op))
        for target, found in copies.items():
            if len(found) == 1 and target.first < 0:
                self._find_mutation(target, *found[0])

    def _find_mutation(self, target: Memory, position: int, copy: AtenOp) -> None:
        destination, source = copy.args()[:2]
        result = whole(source) if isinstance(source, SSAValue) else source
        memory = self.lifetimes.own(result) if isinstance(result, SSAValue) else None
        if memory is None or memory.returned or memory.kept or _seen(cast(SSAValue, destination)) is not target.value:
            return
        op = memory.value.owner
        if not isinstance(op, LaunchOp) or source.type != destination.type:
            return
        same = result.type == destination.type
        if not same and not (result.type.is_in_order and destination.type.is_in_order):  # pyright: ignore
            return
        if any(memory.first < use < position for use, _ in target.uses) or target.used_by_others(memory.first, op):
            return
        out = list(op.res).index(cast(Any, result))
        reads = [i for i, v in enumerate(op.args) if target in self.lifetimes.of.get(v, ())]
        for i in reads:
            if whole(op.args[i]) is not destination or not self._may_overwrite(op, i, out, target):
                return
        if result in self.written:
            return
        if reads:
            self.over[result] = reads[0]
        self.written[result] = destination
        target.last = max(target.last, memory.last)
        self.needless.add(copy)
        self.counts["mutated"] += 1

    def _is_calls_own(self, memory: Memory) -> bool:
        """Whether a call of torch's has made it, and nothing else can lie there."""
        op = memory.value.owner
        if not isinstance(op, AtenOp) or not op.name.startswith("aten.") or "unsafe" in op.name:  # undeclared views
            return False
        return not out_variant(op) and self._alone(memory)

    def _alone(self, memory: Memory) -> bool:
        return self.lifetimes.of[memory.value] == (memory,)

    def _find_donations(self, donated: set[Memory]) -> None:
        """Launches that can write over an argument that nobody needs any more, over the tensor that a call has made, or
        over what such a launch has made.
        """
        arguments = {m: m for m in donated if not m.returned and not m.kept and m.value not in self.written.values()}
        for memory in self.lifetimes.memories if arguments else ():
            if memory.returned or memory.kept or memory.value in self.written:
                continue
            before, operand = self._overwrites(memory, set(arguments))
            if before is None:
                continue
            argument = arguments.pop(before)
            self.written[memory.value] = argument.value
            self.over[memory.value] = operand
            argument.last = max(argument.last, memory.last)
            arguments[memory] = argument
            self.counts["in place"] += 1

    def _found_passed(self, arguments: Sequence[SSAValue]) -> dict[SSAValue, SSAValue]:
        may = {a for a in arguments if device_of(a) == "cpu"}
        left = {m for m in self.lifetimes.memories if m.value in may and not m.returned and not m.kept}
        found: dict[SSAValue, SSAValue] = {}
        for memory in self.lifetimes.memories if left else ():
            if memory in self.slots or memory.value in self.written or memory.value in self.over:
                continue
            before, _ = self._overwrites(memory, left)
            if before is not None:
                left.remove(before)
                found[memory.value] = before.value
        return found

    def _plan(self) -> None:
        """Finds the memory that may lie in the arena, and where."""
        planned: dict[str, list[Memory]] = {}
        for memory in self.lifetimes.memories:
            if self._may_share(memory):
                planned.setdefault(device_of(memory.value), []).append(memory)
        for device, memories in planned.items():
            self._plan_arena(device, memories)

    def _plan_arena(self, device: str, planned: list[Memory]) -> None:
        chains = self._chains(planned)
        requests = [Request(c[0].first, c[-1].last, _size(c[0])) for c in chains]
        loans = self._loans(device, chains, requests)
        found = loans.arena
        for i, (chain, offset) in enumerate(zip(chains, found.offsets, strict=True)):
            if i in loans.apart:
                chain[0].last = chain[-1].last
                self.written |= {m.value: chain[0].value for m in chain[1:]}
            elif i not in loans.places:
                self.slots |= dict.fromkeys(chain, offset)
        if len(loans.places) + len(loans.apart) == len(chains):
            return
        self.arenas[device] = found.size
        self.counts["arena bytes"] += found.size if isinstance(found.size, int) else 0

    def _loans(self, device: str, chains: list[list[Memory]], requests: list[Request]) -> Loans:
        """Where the chains lie; those in results are noted as such."""
        results = [m for m in self.lifetimes.memories if self._may_lend(m) and device_of(m.value) == device]
        last = {chain[-1]: i for i, chain in enumerate(chains)}
        lenders: list[Lender] = []
        operands: list[dict[int, int]] = []
        for m in results:
            over = {last[before]: operand for before, operand in self._may_take_over(m, last.keys())}
            lenders.append(Lender(m.first, cast(int, _size(m)), tuple(over)))
            operands.append(over)
        apart = {*results, *(m for chain in chains for m in chain)}
        here = [m for m in self.lifetimes.memories if device_of(m.value) == device and m not in apart]
        end = len(self.lifetimes.steps) - 1
        others = [
            Request(0, end, _size(m)) if m.value in self.named
            else Request(m.first, end if m.returned else m.last, _size(m))
            for m in here if m.value not in self.written  # that is where it is written
        ]  # fmt: skip
        place = placed if self.outer is None else lend
        loans = place(requests, lenders, others, end + 1, self.hints)
        for i, (k, offset) in loans.places.items():
            self.slots |= {m: offset for m in chains[i]}
            self.lenders |= {m: results[k] for m in chains[i]}
            if loans.over.get(k) == i:
                self.over[results[k].value] = operands[k][i]
                self.counts["in place"] += 1
        self.counts["lent"] += len(loans.places)
        self.counts["apart"] += len(loans.apart)
        return loans

    def _may_lend(self, memory: Memory) -> bool:
        """Whether it is a result whose tensor can be made before anything has run."""
        op = memory.value.owner
        if self.outer is not None or not memory.returned or memory.kept or memory.value in self.written:
            return False
        if not (isinstance(op, LaunchOp) or (isinstance(op, Operation) and out_variant(op))):
            return False
        size = _size(memory)
        return isinstance(size, int) and size >= LARGE

    def _may_share(self, memory: Memory) -> bool:
        if memory.returned or memory.kept or memory.value in self.written or not self._is_ours(memory):
            return False
        return expr.symbols(_size(memory)) <= self._early

    @staticmethod
    def _is_ours(memory: Memory) -> bool:
        """Whether it is written where the program says."""
        op = memory.value.owner
        return isinstance(op, LaunchOp) or (isinstance(op, Operation) and bool(out_variant(op) or is_empty(op)))

    def _chains(self, planned: list[Memory]) -> list[list[Memory]]:
        """The memories in groups that follow one another in the same place, each made by a kernel that overwrites the
        last.
        """
        chain_of: dict[Memory, list[Memory]] = {}
        chains: list[list[Memory]] = []
        may = set(planned)
        for memory in planned:
            before, operand = self._overwrites(memory, may)
            if before is not None and chain_of[before][-1] is before:
                chain = chain_of[before]
                self.over[memory.value] = operand
                self.counts["in place"] += 1
            else:
                chain = []
                chains.append(chain)
            chain.append(memory)
            chain_of[memory] = chain
        return chains

    def _overwrites(self, memory: Memory, planned: Set[Memory]) -> tuple[Memory | None, int]:
        """The first of these, or nothing."""
        return next(self._may_take_over(memory, planned), (None, 0))

    def _may_take_over(self, memory: Memory, planned: Set[Memory]) -> Iterator[tuple[Memory, int]]:
        """The memories of inputs that this result of a launch may take over, and the numbers of the inputs.

        The input dies there, and the kernel allows it.
        """
        op = memory.value.owner
        if not isinstance(op, LaunchOp):
            return
        out = list(op.res).index(cast(Any, memory.value))
        size = _size(memory)
        for i, operand in enumerate(op.args):
            before = self.lifetimes.own(whole(operand))
            if before is None or before not in planned or before.last != memory.first:
                continue
            if device_of(before.value) != device_of(memory.value):
                continue
            if before.used_by_others(memory.first, op):
                continue
            if _size(before) == size and self._may_overwrite(op, i, out, before):
                yield before, i

    def _may_overwrite(self, op: LaunchOp, operand: int, out: int, memory: Memory) -> bool:
        """Whether the launch reads `memory` through that operand only, and may write the result over it."""
        others = (v for i, v in enumerate(op.args) if i != operand)
        if any(memory in self.lifetimes.of.get(v, ()) for v in others):
            return False
        key = (op.callee, operand, out)
        if key not in self._allowed:
            self._allowed[key] = may_overwrite(self.kernels[op.callee], operand, out)
        return self._allowed[key]

    def _early_symbols(self, block: Block) -> frozenset[Any]:
        found: set[Any] = set() if self.outer is None else set(self.outer._early)
        for a in block.args:
            if isinstance(a.type, TensorType):
                for d in (*a.type.shape, *a.type.strides):
                    found |= expr.symbols(d)
            elif isinstance(a.type, SymType):
                found |= expr.symbols(a.type.expr)
        return frozenset(found)


def _seen(value: SSAValue) -> SSAValue:
    """The complex tensor of which these are the floats; any other value is itself."""
    owner = value.owner
    return owner.operands[0] if isinstance(owner, AtenOp) and owner.name == "aten.view_as_real" else value


def _size(memory: Memory) -> Dim:
    return storage_bytes(cast(TensorType, memory.value.type))


def donated(block: Block) -> set[SSAValue]:
    """The arguments of a function that may be written over, of its body; a region has none."""
    return set(_marked(block, DONATED))


def passed(block: Block) -> list[SSAValue]:
    """Those that may be written over where nobody else holds them."""
    return _marked(block, PASSED)


def _marked(block: Block, attribute: str) -> list[SSAValue]:
    function = block.parent_op()
    if not isinstance(function, (FuncOp, host.FuncOp)) or function.arg_attrs is None:
        return []
    marked = (a for a, t in zip(block.args, function.arg_attrs.data, strict=False) if attribute in t.data)
    return [a for a in marked if isinstance(a.type, TensorType)]


def device_of(value: SSAValue) -> str:
    return cast(TensorType, value.type).device
