"""Attention among nests: two products of matrices, with a softmax between them, that become one kernel.

    s[b, q, k] = sum over d of query[b, q, d] key[b, k, d]          scores, and what is done with them point by point
    m, l = max, sum over k of …                                     statistics of their rows
    o[b, q, e] = sum over k of p(s, m, l)[b, q, k] value[b, k, e]

A grid point of that kernel is a row of scores, which is never in memory. How a CPU does it well, block of rows by block
of rows, is up to `schedule_attention`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xdsl.ir import SSAValue

from .fuse_graph import Node, tensor_type
from .fuse_plan import Group

_KINDS = frozenset({"add", "max", "min", "and", "or"})
"""What rows of scores are reduced to: statistics, and whether a row sees anything."""

Attentions = dict[Node, frozenset[Node]]
"""For each nest of an attention, all of them."""


def attentions(nodes: Sequence[Node], readers: Mapping[SSAValue, set[Node]]) -> Attentions:
    """The attentions among nests, each of which has its own."""
    producer = {r: n for n in nodes for r in n.results}
    found: Attentions = {}
    for last in (n for n in nodes if n.contraction and tensor_type(n.results[0]).device == "cpu"):
        for first, members in _candidates(last, producer, readers):
            if not any(n in found for n in members) and _is_attention(first, last, members, readers):
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


def _is_attention(first: Node, last: Node, members: Sequence[Node], readers: Mapping[SSAValue, set[Node]]) -> bool:
    """Whether nests are one, of sizes that have tiles."""
    from .fuse_groups import merge_groups
    from .fuse_plan import single

    group: Group | None = single(first)
    for n in members[1:]:
        if not (n is last or n.pointwise or (n.combine and set(n.combine) <= _KINDS)):
            return False
        group = None if group is None else merge_groups(group, single(n))
    if group is None or not any(n.combine for n in members if n not in (first, last)):
        return False
    if not all(tensor_type(n.results[0]).dtype == "f32" for n in (first, last)):
        return False
    if not all(isinstance(d.extent, int) for n in (first, last) for d in (*n.dims[-2:], *n.reduce)):
        return False
    inner, reduced = group.inner(first), group.reduced(last)
    if len(inner) != 1 or reduced != inner or len(group.inner(last)) != 1:
        return False
    if any(n.reduce and group.reduced(n) != inner for n in members[1:]):
        return False
    scores = [n for n in members if n is not last and set(inner) & set(group.axes[n][: len(n.dims)])]
    return not any(n.escapes or not readers.get(r, set()) <= set(members) for n in scores for r in n.results)


def is_kernel(group: Group, members: frozenset[Node]) -> bool:
    """Whether a group that has nests of an attention has beside them only what is computed at the points of its rows,
    or of its result.
    """
    products = [n for n in group.members if n.contraction]
    if not all(n in members for n in products):
        return False
    last = max((n for n in members if n.contraction), key=lambda n: n.number)
    points = set(group.axes[last][: len(last.dims)]) if last in group.axes else set(group.grid)
    rows = set(group.grid)
    others = [n for n in group.members if n not in members]
    return all(n.pointwise and rows <= set(group.axes[n]) <= points for n in others)
