"""What a kernel for a GPU is like before it has tiles: its loops, and how its buffers lie along its dims."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.ir import SSAValue

from ..dialects import expr
from ..dialects.loop import ForOp, KernelOp, LoadOp, LoopDim, ScratchOp, body_ops
from ..dialects.tensor import itemsize
from .fuse_cost import Hints
from .gpu_target import GpuTarget
from .schedule_access import Access, accesses, buffer_of, stride, type_of
from .tile_extent import at_most
from .tile_phases import ordered_dims
from .tile_turns import turns_of

_STATE = {"argmax": 2, "argmin": 2, "welford": 3}
"""Values that reductions carry for each lane; one where nothing is said."""


class KernelShape:
    """The dims, loops and accesses of one kernel."""

    def __init__(self, kernel: KernelOp, target: GpuTarget, hints: Hints) -> None:
        self.kernel, self.target, self.hints = kernel, target, hints
        self.grid = list(kernel.grid)
        self.turns = turns_of(kernel)
        """Whose points a program takes one by one; what is in it is tiled as in a kernel of one of its points."""
        self.loops = [o for o in body_ops(kernel.body) if isinstance(o, ForOp) and o is not self.turns]
        self.found = accesses(body_ops(kernel.body))
        self.tiles: dict[str, int] = {d.name: 1 for d in self.grid}
        self.loop_tiles: dict[ForOp, dict[str, int]] = {o: {} for o in self.loops}
        bounds = [d for o in body_ops(kernel.body) if isinstance(o, ForOp) for d in o.dims]
        self.pinned = {s.name for d in bounds for s in expr.symbols(d.lo) | expr.symbols(d.hi)}
        self.pinned |= ordered_dims(kernel)
        self.kept = {
            s.name
            for a in self.found
            if isinstance(buffer_of(a).owner, ScratchOp)
            for e in a.index
            for s in expr.symbols(e)
        }

    def _outer(self) -> list[ForOp]:
        blocks = [self.kernel.body.block, *([self.turns.body.block] if self.turns is not None else ())]
        return [o for block in blocks for o in block.ops if isinstance(o, ForOp) and o is not self.turns]

    def _chains(self) -> list[list[tuple[ForOp, LoopDim]]]:
        """The dims of nested loops, from the outermost in."""
        chains: list[list[tuple[ForOp, LoopDim]]] = []

        def visit(o: ForOp, before: list[tuple[ForOp, LoopDim]]) -> None:
            chain = [*before, *((o, d) for d in o.dims)]
            nested = [i for i in o.body.block.ops if isinstance(i, ForOp)]
            for i in nested:
                visit(i, chain)
            if not nested:
                chains.append(chain)

        for o in self._outer():
            visit(o, [])
        return chains

    def _size(self, d: LoopDim) -> int:
        most = at_most(d)
        return most if most is not None else self.hints.size(d.extent)

    def _programs(self) -> int:
        n = 1
        for d in self.grid:
            n *= -(-self._size(d) // self.tiles[d.name])
        return n

    def _weight(self, d: LoopDim, found: Iterable[Access]) -> int:
        """Bytes that are neighbours along `d`."""
        return sum(self._bytes(a) for a in found if stride(a, d.symbol) == 1)

    def _bytes(self, a: Access) -> int:
        """Bytes of the elements that an access touches, each once."""
        moving = {s.name for e in a.index for s in expr.symbols(e)}
        points = itemsize(type_of(a).dtype)
        turns = () if self.turns is None else tuple(self.turns.dims)
        moving |= {s.name for d in turns if d.name in moving for s in expr.symbols(d.lo)}
        for d in (*self.grid, *turns, *(d for o in self.loops for d in o.dims)):
            points *= self._size(d) if d.name in moving or a.indices else 1
        return points

    def _best(self, dims: Sequence[LoopDim], found: Sequence[Access]) -> LoopDim | None:
        free = [d for d in dims if d.name not in self.pinned]
        ranked = [(self._weight(d, found), self._size(d) >= 8, i, d) for i, d in enumerate(free)]
        return max(ranked, key=lambda r: (r[1] and r[0], r[0], r[2]))[3] if ranked else None

    def _most(self, vector: LoopDim) -> int:
        """Bytes of the largest access along `vector`."""
        return max((self._bytes(a) for a in self.found if stride(a, vector.symbol) == 1), default=0)

    def _narrow(self, vector: LoopDim) -> int:
        """Bytes of the smallest elements that are read or written along `vector` in numbers."""
        found = [a for a in self.found if stride(a, vector.symbol) == 1]
        most = self._most(vector)
        return min((itemsize(type_of(a).dtype) for a in found if 8 * self._bytes(a) >= most), default=4)

    def _transposed(self, vector: LoopDim) -> LoopDim | None:
        """Another dim along which something is contiguous that jumps along the vector dim, if both are long."""
        for d in self.grid:
            if d is vector or d.name in self.pinned or min(self._size(d), self._size(vector)) < 16:
                continue
            jumps = (a for a in self.found if stride(a, d.symbol) == 1)
            if any(stride(a, vector.symbol) not in (0, 1) for a in jumps):
                return d
        return None

    def _read_again(self) -> int:
        """How many buffers that are not small several loops read."""
        times: dict[SSAValue, int] = {}
        for o in self._outer():
            for buffer in {buffer_of(a) for a in accesses(body_ops(o.body)) if isinstance(a, LoadOp)}:
                times[buffer] = times.get(buffer, 0) + (self.hints.bytes(buffer) > self.target.l2 // 4)
        return sum(n > 1 for n in times.values())

    def _again(self) -> bool:
        """Whether several loops read one buffer."""
        read = [{buffer_of(a) for a in accesses([*body_ops(o.body)]) if isinstance(a, LoadOp)} for o in self._outer()]
        return sum(map(len, read)) > len(set[SSAValue]().union(*read))

    def _carried(self) -> int:
        """Values that a loop carries for each lane, at most."""
        return max((sum(_STATE.get(k.data, 1) for k in o.reduce.data) for o in self.loops), default=1)
