"""Attention among nests: two products of matrices, with a softmax between them, that become one kernel.

    s[b, q, k] = sum over d of query[b, q, d] key[b, k, d]          scores, and what is done with them point by point
    m, l = max, sum over k of …                                     statistics of their rows
    o[b, q, e] = sum over k of p(s, m, l)[b, q, k] value[b, k, e]

A grid point of that kernel is a row of scores, which is never in memory. How a CPU does it well, block of rows by block
of rows, is up to `schedule_attention`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import cast

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue

from ..dialects.expr import Dim
from ..dialects.loop import LoadOp, NestOp, YieldOp, op_symbols
from .attention_limit import Source
from .attention_plan import factor_of, most_of, through, weight_of
from .contraction import contraction_of_nest
from .fuse_cost import Machine
from .fuse_graph import Node, tensor_type
from .fuse_plan import Group

_KINDS = frozenset({"add", "max", "min", "and", "or"})
"""What rows of scores are reduced to: statistics, and whether a row sees anything."""

Attentions = dict[Node, frozenset[Node]]
"""For each nest of an attention, all of them."""


def attentions(nodes: Sequence[Node], readers: Mapping[SSAValue, set[Node]], machine: Machine) -> Attentions:
    """The attentions among nests, each of which has its own; those of a GPU only where sums may be made in parts, as
    weights are rounded there before they are divided by their sum.
    """
    producer = {r: n for n in nodes for r in n.results}
    found: Attentions = {}
    for last in (n for n in nodes if n.contraction and (machine.parts or tensor_type(n.results[0]).device == "cpu")):
        for first, members in _candidates(last, producer, readers):
            if not any(n in found for n in members) and _is_attention(first, last, members, readers, machine):
                found |= dict.fromkeys(members, frozenset(members))
                break
    return found


def _candidates(
    last: Node, producer: Mapping[SSAValue, Node], readers: Mapping[SSAValue, set[Node]]
) -> Iterable[tuple[Node, list[Node]]]:
    """The products that a product needs through other nests, each with the nests between them in order, both ends and
    other reductions of what is between included.
    """
    between: dict[Node, None] = {}
    first: dict[Node, None] = {}
    stack = [last]
    while stack:
        for r in stack.pop().reads:
            p = producer.get(r.source)
            if p is None or p in between or p in first:
                continue
            if p.contraction:
                first[p] = None
            else:
                between[p] = None
                stack.append(p)
    for start in first:
        inside = {start}
        for n in sorted(between, key=lambda n: n.number):
            if any(producer.get(r.source) in inside for r in n.reads):
                inside.add(n)
        inside.add(last)
        beside = {m for n in inside for r in n.results if n is not last for m in readers.get(r, ()) if m.reduce}
        yield start, sorted(inside | {m for m in beside if not m.contraction}, key=lambda n: n.number)


def _is_attention(
    first: Node, last: Node, members: Sequence[Node], readers: Mapping[SSAValue, set[Node]], machine: Machine
) -> bool:
    """Whether nests are one, of sizes that have tiles."""
    from .fuse_merge import merge_groups
    from .fuse_plan import single

    between = [n for n in members if n is not first and n is not last]
    if not all(n.pointwise or (n.combine and set(n.combine) <= _KINDS) for n in between):
        return False
    if not any(n.combine for n in between) or _is_read_outside(first, members, readers):
        return False
    if tensor_type(first.results[0]).device.startswith("cuda"):
        if not _has_one_loop(first, last, members):
            return False
    elif not all(tensor_type(n.results[0]).dtype == "f32" for n in (first, last)):
        return False
    if not all(isinstance(d.extent, int) for n in (first, last) for d in (*n.dims[-2:], *n.reduce)):
        return False
    keys = {d.extent for d in first.dims}  # how many there may be: all reductions go over them
    for n in members[1:]:
        if n.reduce:
            keys &= {d.extent for d in n.reduce}
    if not keys or (tensor_type(first.results[0]).device == "cpu" and _is_layers(first, last, keys, machine)):
        return False
    group: Group | None = single(first)
    for n in members[1:]:  # what costs most is last: a model has hundreds of pairs of products that are none
        group = None if group is None else merge_groups(group, single(n))
    if group is None:
        return False
    inner, reduced = group.inner(first), group.reduced(last)
    if len(inner) != 1 or reduced != inner or len(group.inner(last)) != 1:
        return False
    if any(n.reduce and group.reduced(n) != inner for n in members[1:]):
        return False
    scores = [n for n in members if n is not last and set(inner) & set(group.axes[n][: len(n.dims)])]
    return not any(_is_read_outside(n, members, readers) for n in scores)


def _is_layers(first: Node, last: Node, keys: Collection[Dim], machine: Machine) -> bool:
    """Whether products are rather two layers with a norm between them, as the last ones of a model: rows of scores are
    shorter than what they are made of and what is made of them, and no cache holds keys and values, which each block of
    rows would put in order anew.
    """
    each = math.prod(cast(int, d.extent) for d in first.reduce) + cast(int, last.dims[-1].extent)
    most = max(cast(int, n) for n in keys)
    return most < each and 4 * most * each > machine.l2


def _is_read_outside(n: Node, members: Sequence[Node], readers: Mapping[SSAValue, set[Node]]) -> bool:
    """Whether anything but some nests needs what one makes."""
    return n.escapes or any(not readers.get(r, set()) <= set(members) for r in n.results)


def _has_one_loop(first: Node, last: Node, members: Sequence[Node]) -> bool:
    """Whether a GPU goes over the keys once: products are of one type, weights are exp(score - most) times what is of
    the row (see attention_plan).
    """
    if any(n.asserts for n in members):
        return False
    pairs = [contraction_of_nest(cast(NestOp, n.op)) for n in (first, last)]

    def source(load: LoadOp) -> SSAValue | None:
        n = load.source.owner
        plain = isinstance(n, NestOp) and not n.combine.data and load.mask is None and not load.indices
        return cast(YieldOp, n.body.block.last_op).values[0] if isinstance(n, NestOp) and plain else None

    def of_row(v: SSAValue) -> bool:
        op = v.owner
        if not isinstance(op, Operation):
            return False
        nest = op.parent_op()
        if not isinstance(nest, NestOp) or op.regions:
            return False
        key = (tuple(nest.reduce) or tuple(nest.dims))[-1].name
        return key not in op_symbols(op) and all(
            map(of_row, op.operands[1:] if isinstance(op, LoadOp) else op.operands)
        )

    scores, sums = pairs
    if scores is None or sums is None:
        return False
    types = {factor_of(v, source)[0].type for v in (scores.left, scores.right)}
    for left, right in ((sums.left, sums.right), (sums.right, sums.left)):
        found = weight_of(left, source, of_row)
        values, scale = factor_of(right, source)
        if found is not None and scale == 1 and types == {values.type}:
            below = through(found[0].owner.operands[0], source).owner  # pyright: ignore
            if not isinstance(below, arith.SubfOp) or _is_rounded(below.lhs, source):
                return False
            most = most_of(below.rhs, source)
            load = None if most is None else most.owner
            return isinstance(load, LoadOp) and any(load.source in n.results and n.combine == ("max",) for n in members)
    return False


def _is_rounded(v: SSAValue, source: Source) -> bool:
    """Whether a score is rounded to 16 bits, as eager does (`numerics=eager`): then so are weights, by their sum."""
    op = v.owner
    if not isinstance(op, Operation):
        return False
    if isinstance(op, LoadOp):
        found = source(op)
        return found is not None and _is_rounded(found, source)
    return isinstance(op, arith.TruncFOp) or any(_is_rounded(o, source) for o in op.operands)


def is_kernel(group: Group, members: frozenset[Node]) -> bool:
    """Whether a group that has nests of an attention has beside them only what is computed at the points of its rows,
    or of its result.
    """
    products = [n for n in group.members if n.contraction]
    if not all(n in members for n in products):
        return False
    last = max((n for n in members if n.contraction), key=lambda n: n.number)
    points = set(group.axes[last][: len(last.dims)]) if last in group.axes else set(group.grid)
    rows = {x for x in group.grid if group.extent(x) != 1}
    others = [n for n in group.members if n not in members]
    return all(n.pointwise and rows <= set(group.axes[n]) <= points for n in others)
