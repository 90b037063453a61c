"""What fusion sees of a function: one node per nest, what it reads and where, and what one point of it costs."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias, cast

import sympy
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import SORT, AssertOp, FnOp, LoadOp, LoopDim, NestOp, ScatterOp, YieldAtOp
from ..dialects.symbol_kinds import Kind, symbol_kind
from ..dialects.tensor import TensorType
from .contraction import contraction_of_nest

Index: TypeAlias = tuple[Dim, ...]
Binding: TypeAlias = dict[sympy.Symbol, Any]
"""Dims of a nest to the expressions that stand for them elsewhere."""

SORTING = 64
"""What putting an element in its place costs."""

_HEAVY = {
    "math.exp": 8, "math.exp2": 8, "math.expm1": 12, "math.log": 10, "math.log2": 10, "math.log10": 10,
    "math.log1p": 12, "math.erf": 16, "math.tanh": 12, "math.sin": 14, "math.cos": 14, "math.tan": 20, "math.powf": 24,
    "math.atan2": 24, "math.sqrt": 4, "math.rsqrt": 5, "arith.divf": 4, "arith.divsi": 12, "arith.divui": 12,
    "math.fma": 2,
    "arith.remsi": 12, "arith.remui": 12, "arith.remf": 20, "arith.floordivsi": 14, "arith.ceildivsi": 14,
    "loop.sort": SORTING,
}  # fmt: skip
"""Cost of one element in units of an add; what is not here costs 1, other math 15."""

_FUNCTIONS = {"philox": 80, "philox32": 80}
"""Cost of functions, other than 15: random bits take ten rounds, each on vectors of twice the width."""

_FREE = frozenset(
    {
        "arith.constant", "arith.extf", "arith.extui", "arith.extsi", "loop.index", "loop.yield", "loop.yield_at",
        "loop.load", "loop.pred",
    }
)  # fmt: skip
_TRAPS = frozenset({"arith.divsi", "arith.divui", "arith.remsi", "arith.remui", "arith.floordivsi", "arith.ceildivsi"})


def op_cost(op: Operation) -> int:
    """What `op` costs per element, in units of an add."""
    name = op.name
    if name in _FREE:
        return 0
    known = _HEAVY.get(name)
    if known is not None:
        return known
    if isinstance(op, FnOp):
        return _FUNCTIONS.get(op.fn.data, 15)
    return 15 if name.startswith("math.") else 1


def is_index_operand(s: sympy.Symbol) -> bool:
    """Whether a symbol stands for an index that is read from memory (`v0`, `v1`, …)."""
    return symbol_kind(s.name) is Kind.INDEX


@dataclass(frozen=True, slots=True)
class Read:
    """A load of `source` at `index`, over the reader's dims; `whole` if no mask and no index operand decides where."""

    source: SSAValue
    index: Index
    whole: bool

    def at(self, binding: Binding, whole: bool = True) -> Read:
        """The same load seen by a reader whose dims are bound by `binding`."""
        if not binding:
            return self if whole else Read(self.source, self.index, False)
        return Read(self.source, tuple(expr.substitute(e, binding) for e in self.index), self.whole and whole)


@dataclass(eq=False, slots=True)
class Node:
    """A nest or scatter, with what fusion asks about it. `reads` grow as producers are absorbed into it."""

    op: NestOp | ScatterOp
    number: int
    dims: tuple[LoopDim, ...]
    reduce: tuple[LoopDim, ...]
    combine: tuple[str, ...]
    scan: str | None
    index: Index
    """Where the value of a point goes in the results."""
    reads: list[Read]
    cost: float
    """Of a point, in units of an add; what inner loops leave alone is counted for the points that it is computed at."""
    asserts: bool
    traps: bool
    """Whether it divides integers, which must not happen where nothing was loaded."""
    size: int
    """Ops of the body."""
    tensors: tuple[SSAValue, ...]
    """What the op itself reads, absorbed ones among them."""
    escapes: bool = False
    """Whether something besides nests uses a result."""
    absorbed: bool = False
    """Computed where it is read, never by itself."""
    depth: int = 0
    """Length of the chain of absorbed producers."""
    contraction: bool = False
    """Whether it multiplies matrices."""
    early: bool = False
    """Whether it is computed no later than it may be, as it takes less memory than what it is computed from."""
    pointwise: bool = field(init=False)
    sorts: bool = field(init=False)
    domain: tuple[LoopDim, ...] = field(init=False)
    """Parallel dims, then reduce dims."""
    runs: tuple[LoopDim, ...] = field(init=False)
    """Those over which the body runs: not over the places of an order."""
    results: tuple[SSAValue, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.pointwise = not self.combine and type(self.op) is NestOp
        self.sorts = self.combine == (SORT,)
        self.domain = self.dims + self.reduce
        self.runs = tuple(d for d in self.domain if not self.sorts or d.name != self.scan)
        self.results = tuple(self.op.results)


@cache
def _segments(sizes: Attribute) -> tuple[int, ...]:
    return tuple(sizes.get_values())  # pyright: ignore


def load_parts(op: LoadOp) -> tuple[SSAValue, tuple[SSAValue, ...], SSAValue | None]:
    """Source, index operands and condition of a load; faster than its accessors, which look at segments each time."""
    operands = op.operands
    if len(operands) == 1:
        return operands[0], (), None
    _, n, has_ok = _segments(op.properties["operandSegmentSizes"])
    return operands[0], tuple(operands[1 : 1 + n]), operands[-1] if has_ok else None


def body_key(op: NestOp | ScatterOp) -> tuple[Any, ...]:
    """What two nests have in common when they compute the same of other tensors; these are numbered by first use."""
    numbers: dict[SSAValue, int] = {}
    sources: dict[SSAValue, int] = {}
    parts: list[Any] = [type(op), *op.properties.values()]
    for inner in op.body.block.ops:
        operands: Sequence[SSAValue] = inner.operands
        if type(inner) is LoadOp:
            parts.append(sources.setdefault(operands[0], len(sources)))
            operands = operands[1:]
        parts.append((type(inner), *inner.properties.values(), *(numbers[v] for v in operands)))
        for r in inner.results:
            numbers[r] = len(numbers)
            parts.append(r.type)
    return tuple(parts)


def make_node(op: NestOp | ScatterOp, number: int) -> Node:
    """Read the body of a nest or scatter once."""
    reads: dict[Read, None] = {}
    tensors: dict[SSAValue, None] = {}
    cost, size, asserts, traps = 0, 0, False, False
    for inner in op.body.block.ops:
        size += 1
        # asking for the type itself: ops are of an abstract class, of which isinstance is slow
        if type(inner) is LoadOp:
            # an index operand or a mask decides where memory is touched
            operands, properties = inner.operands, inner.properties
            whole = "mask" not in properties and len(operands) == 1
            reads[Read(operands[0], properties["index"].data.items, whole)] = None  # pyright: ignore
            tensors[operands[0]] = None
        else:
            cost += op_cost(inner)
            asserts |= type(inner) is AssertOp
            traps |= inner.name in _TRAPS
    dims = cast("tuple[LoopDim, ...]", op.dims.data.items)
    combine: tuple[str, ...]
    if isinstance(op, ScatterOp):
        # the base is read once, over dims of its own
        reads[Read(op.base, tuple(expr.symbol(f"b{i}") for i in range(tensor_type(op.base).rank)), False)] = None
        tensors[op.base] = None
        reduce, combine, scan = (), (op.combine.data,), None
        index: Index = tuple(cast(YieldAtOp, op.body.block.last_op).index)
    else:
        reduce, combine = op.reduce.data.items, tuple(k.data for k in op.combine.data)
        scan = op.scan.data if op.scan is not None else None
        index = op.out.data.items if op.out is not None else tuple(d.symbol for d in dims)
    cost += SORTING * (combine == (SORT,))
    node = Node(op, number, dims, reduce, combine, scan, index, list(reads), cost, asserts, traps, size, tuple(tensors))
    node.contraction = isinstance(op, NestOp) and contraction_of_nest(op) is not None
    return node


def tensor_type(v: SSAValue) -> TensorType:
    return cast(TensorType, v.type)


def outermost(op: Operation, ops: Container[Operation]) -> Operation:
    """The one of `ops` that an op is, or is in."""
    while op not in ops:
        around = op.parent_op()
        assert around is not None
        op = around
    return op
