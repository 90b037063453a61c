"""Size symbols of a kernel, and their names in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdsl.ir import SSAValue

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import IndexAttr, LoadOp, PredAttr, ScatterOp
from ..dialects.symbol_kinds import PROGRAM, symbol_kind
from .fuse_graph import Binding, Node, tensor_type
from .fuse_plan import Plan


def symbols_of(plan: Plan, absorbed: Mapping[SSAValue, Node]) -> list[Any]:
    """Size symbols of a kernel in order of appearance: domains, types, bodies."""
    found: dict[Any, None] = {}

    def add(*dims: Dim) -> None:
        for d in dims:
            if not isinstance(d, int):
                names = sorted(expr.symbols(d), key=lambda s: (s.name[0], len(s.name), s.name))
                found.update((s, None) for s in names if symbol_kind(s.name) in PROGRAM)

    seen: set[Node] = set()

    def visit(n: Node) -> None:
        if n in seen:
            return
        seen.add(n)
        for d in n.domain:
            add(d.lo, d.hi)
        for r in n.results:
            add(*tensor_type(r).shape, *tensor_type(r).strides)
        for op in n.op.body.block.ops:
            if isinstance(op, LoadOp):
                read(op.operands[0])
            for a in op.properties.values():
                if isinstance(a, (IndexAttr, PredAttr)):
                    add(*a)
        if isinstance(n.op, ScatterOp):
            read(n.op.base)

    def read(source: SSAValue) -> None:
        producer = absorbed.get(source)
        if producer is not None:
            visit(producer)
        t = tensor_type(source)
        add(*t.shape, *t.strides)

    for n in plan.group.members:
        visit(n)
    return list(found)


def canonical_sizes(symbols: list[Any]) -> Binding:
    """Symbols of the function to the kernel's own; empty if they have the same names or there are none."""
    renamed: Binding = {}
    counts: dict[str, int] = {}
    for s in symbols:
        kind = symbol_kind(s.name).value
        renamed[s] = expr.symbol(f"{kind}{counts.get(kind, 0)}")
        counts[kind] = counts.get(kind, 0) + 1
    return renamed if any(a is not b for a, b in renamed.items()) else {}
