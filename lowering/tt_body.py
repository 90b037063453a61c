"""The body of a kernel at tiles: loops and scalar ops of `loop` as ops on the points of a tile at once.

Every dim of the grid and of the loops around is a scalar or an axis of the tile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sympy
from xdsl.dialects import arith
from xdsl.dialects.builtin import i1, i32, i64
from xdsl.ir import Block, Operation, SSAValue

from ..dialects import tt
from ..dialects.loop import (
    AssertOp,
    FnOp,
    ForOp,
    IndexOp,
    KernelOp,
    PredOp,
    ScanOp,
    ScratchOp,
)
from ..dialects.tt_types import shape_of
from . import tt_rounded
from .llvm_properties import KernelError
from .rounded import Softmax
from .tt_access import Accesses
from .tt_attention import ATTENTION, AttentionBody
from .tt_builder import TtBuilder
from .tt_contraction import DOT, ContractionLoop
from .tt_index import MOST, Env
from .tt_loops import TileLoop
from .tt_narrow import narrow, remember
from .tt_random import of_neighbours
from .tt_scalar import ROUNDED, SOFTMAX, emit


class KernelBody(Accesses):
    """Appends a kernel's ops to a function."""

    def __init__(self, b: TtBuilder, buffers: Mapping[SSAValue, SSAValue], sizes: Env) -> None:
        super().__init__(b, buffers, sizes)
        self.messages: dict[str, None] = {}
        self.scans: dict[ScanOp, SSAValue] = {}
        self.limits: dict[sympy.Symbol, int] = {}
        """Sizes that are at most so large: see tt_forms."""
        self.threads = 128
        """Of a program."""
        self.rounded: frozenset[Operation] = frozenset()
        """Ops that may be a few units of f32 off."""
        self.softmax = Softmax()
        """Those of them that belong to one."""

    # Ops

    def block(self, block: Block) -> None:
        """Every op of a block but its terminator."""
        around = block.parent_op()
        if isinstance(around, KernelOp) and ATTENTION in around.attributes:
            AttentionBody(self, around).run()
            return
        for op in block.ops:
            if op.next_op is None:
                return
            self.op(op)

    def op(self, op: Operation) -> None:
        """One op whose operands are there."""
        self.b.location = op.location
        rule = _RULES.get(op.name)
        if rule is not None:
            rule(self, op)
        else:
            operands = [self.values[v] for v in op.operands]
            small = narrow(self.b, op, operands)
            first = SOFTMAX if op in self.softmax.ops else ROUNDED if op in self.rounded else {}
            self.values[op.results[0]] = emit(self.b, op, operands, first) if small is None else small

    def _function(self, op: FnOp) -> None:
        value = of_neighbours(self, op)
        self.values[op.res] = emit(self.b, op, [self.values[v] for v in op.args]) if value is None else value

    # Indices and conditions

    def _index(self, op: IndexOp) -> None:
        index = self.index()
        number = index.full(op.value[0])
        wide = self.values[op.res] = index.ssa(number, i64)
        if number.bound <= MOST and not isinstance(number.value, int):
            remember(self.b, wide, index.ssa(number, i32), number.bound)

    def _pred(self, op: PredOp) -> None:
        value = self.index().conjunction(list(op.value))
        self.values[op.res] = self.b.constant(1, i1) if value is None else value

    def _assert(self, op: AssertOp) -> None:
        b, ok = self.b, self.values[op.ok]
        valid = self.valid(shape_of(ok.type))
        if valid is not None:
            ok = b.integer(arith.OrIOp, ok, b.invert(valid))
        self.messages[op.message.data] = None
        b.insert(tt.AssertOp.make(ok, op.message.data))

    def _scratch(self, op: ScratchOp) -> None:
        """Its elements are kept as values."""

    # Loops

    def _for(self, op: ForOp) -> None:
        loop = ContractionLoop(self, op) if DOT in op.attributes else TileLoop(self, op)
        # what a loop that never runs would read may have no value
        values = loop.nothing() if any(d.extent == 0 for d in op.dims) else loop.run()
        for result, value in zip(op.res, values, strict=True):
            self.values[result] = tt_rounded.weights(self.b, value) if result in self.softmax.sums else value

    def _scan(self, op: ScanOp) -> None:
        if op not in self.scans:
            raise KernelError(f"loop.scan along {op.dim.data}, which is not a dim of the loop around it")
        self.scans[op], self.values[op.res] = self.scanner(op)

    scanner: Callable[[ScanOp], tuple[SSAValue, SSAValue]]


_RULES: dict[str, Callable[[KernelBody, Any], None]] = {
    "loop.load": Accesses.load,
    "loop.store": Accesses.store,
    "loop.index": KernelBody._index,
    "loop.pred": KernelBody._pred,
    "loop.assert": KernelBody._assert,
    "loop.scratch": KernelBody._scratch,
    "loop.for": KernelBody._for,
    "loop.scan": KernelBody._scan,
    "loop.fn": KernelBody._function,
}
