"""A kernel of one reduction per point in blocks: its sums are kept in a buffer, and a loop of vectors does the rest.

grid [d0 = M, d1 = N]: %s = for [r0] reduce [add] {…}; store f(%s), %y[d0, d1]

grid [t1, t0]:
  for [d0 block, d1 block] { %s = for [r0] reduce [add] {…}; store %s, %t[…] }
  for [d0 block, d1 block] { store f(load %t[…]), %y[d0, d1] }
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Operation, SSAValue

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import DimsAttr, EndOp, ForOp, IndexAttr, KernelOp, LoadOp, LoopDim, ScratchOp, StoreOp, YieldOp
from ..dialects.tensor import TensorType
from .fuse_emit import drop_unused
from .schedule_dims import blocked


class Blocks:
    """The new body of a kernel whose dims `rows`, if there are any, and `columns` become blocks of that many points."""

    def __init__(
        self, kernel: KernelOp, loop: ForOp, batch: Sequence[LoopDim], sides: Sequence[tuple[LoopDim, int]]
    ) -> None:
        """`sides`: rows, if there are any, and columns, with the points of a block."""
        self.kernel, self.loop = kernel, loop
        self.ops: list[Operation] = []
        outer: list[LoopDim] = []
        self.dims: list[LoopDim] = []
        for i, (d, n) in enumerate(sides):
            blocks, dim = blocked(d, f"t{i}", n)
            outer = [*blocks, *outer]
            self.dims.append(dim)
        self.shape = [n for _, n in sides]
        self.grid = [*batch, *outer]

    @property
    def place(self) -> list[Dim]:
        """The point within its block."""
        return [within(d) for d in self.dims]

    def scratch(self, shape: Sequence[int], dtype: str) -> SSAValue:
        """A buffer of a block."""
        op = ScratchOp.create(result_types=[TensorType.get(shape, dtype)], location=self.loop.location)
        self.ops.append(op)
        return op.res

    def load(self, source: SSAValue, index: Sequence[Dim]) -> LoadOp:
        return LoadOp.make(source, IndexAttr.get(index), location=self.loop.location)

    def keep(self, value: SSAValue, target: SSAValue, index: Sequence[Dim]) -> StoreOp:
        return StoreOp.make(value, target, IndexAttr.get(index), location=self.loop.location)

    def over(self, dims: Sequence[LoopDim], ops: Sequence[Operation]) -> ForOp:
        """A loop over dims."""
        body = Block([*ops, YieldOp.create(location=self.loop.location)])
        return ForOp.make(DimsAttr.get(dims), body, location=self.kernel.location)

    def rest(self, sums: SSAValue) -> ForOp:
        """What the kernel does with the sums, point by point."""
        load = self.load(sums, self.place)
        values: dict[SSAValue, SSAValue] = {self.loop.results[0]: load.res}
        ops: list[Operation] = [load]
        for op in self.kernel.body.block.ops:
            if not isinstance(op, EndOp | ScratchOp) and op is not self.loop:
                ops.append(clone(op, values))
        loop = self.over(self.dims, ops)
        drop_unused(loop.body.block)
        return loop

    def replace(self) -> None:
        """Put the new body in place."""
        old = self.kernel.body.block
        for op in reversed(list(old.ops)):
            op.detach()
            op.erase(safe_erase=False)
        old.add_ops([*self.ops, EndOp.create(location=self.kernel.location)])
        drop_unused(old)
        self.kernel.properties["grid"] = DimsAttr.get(self.grid)


def within(d: LoopDim) -> Dim:
    """How far a dim is from where it begins."""
    return expr.normal(d.symbol - d.lo)  # pyright: ignore[reportOperatorIssue]


def copied(v: SSAValue, values: dict[SSAValue, SSAValue], block: Block | None = None) -> list[Operation]:
    """Copies of all ops that a value is made by, or of those that stand in a block, its own last."""
    owner = v.owner
    if not isinstance(owner, Operation) or v in values or (block is not None and owner.parent is not block):
        return []
    ops = [op for o in owner.operands for op in copied(o, values, block)]
    return [*ops, clone(owner, values)]


def clone(op: Operation, values: dict[SSAValue, SSAValue]) -> Operation:
    """A copy of an op on the mapped operands; its results enter the mapping."""
    copy = type(op).create(
        operands=[values.get(v, v) for v in op.operands],
        result_types=op.result_types,
        properties=dict(op.properties),
        attributes=dict(op.attributes),
        location=op.location,
    )
    values.update(zip(op.results, copy.results, strict=True))
    return copy
