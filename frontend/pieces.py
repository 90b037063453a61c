"""Graphs with calls that this compiler cannot express: what lies between is compiled, they run as torch runs them.

Such are higher-order operators without a form of their own (user-written Triton kernels, calls that restore the state
of a generator), and whatever takes or gives a value that no type describes. The graph is cut into pieces that follow
one another, by turns compiled and not: a call is in the first piece of its kind that all it needs is known in.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import GraphModule, Node
from torch.fx.passes.split_module import split_module
from torch.utils import _pytree as pytree

from .compiled import without_marks
from .expand_hops import expanded
from .graph_parts import UnsupportedGraph, UnsupportedWhole, held_by, parts_of
from .import_fx import Importer
from .traced_types import NoType


@dataclass(frozen=True)
class Pieces:
    """A graph whose calls are calls of pieces."""

    graph: GraphModule
    native: dict[str, GraphModule]
    """The pieces that are to be compiled, by their names in `graph`."""
    eager: list[GraphModule]
    reasons: list[str]
    """Why the calls of `eager` are not compiled."""

    def replace(self, name: str, run: Callable[[list[Any]], Sequence[Any]]) -> None:
        """Have `run`, which takes a list of inputs, in place of a piece."""
        output = self.native[name].graph.output_node().args[0]
        setattr(self.graph, name, _Native(run, isinstance(output, (list, tuple))))


class _Native(torch.nn.Module):
    """A compiled piece. A graph with one output that is no tuple gives it by itself."""

    def __init__(self, run: Callable[[list[Any]], Sequence[Any]], several: bool) -> None:
        super().__init__()
        self.run = run
        self.several = several

    def forward(self, *args: Any) -> Any:
        # what runs eagerly may mark a conjugate that was none when it was traced
        results = self.run(without_marks(args) or list(args))
        return results if self.several else results[0]


def in_pieces(graph: GraphModule) -> Pieces | None:
    """Cut a graph; None where nothing of it can be compiled."""
    try:
        graph = expanded(graph)
        reasons = _eager_calls(graph)
    except UnsupportedGraph:
        return None
    calls = parts_of(graph).calls
    if all(n in reasons or n.target is operator.getitem for n in calls):
        return None
    turns = _turns(calls, reasons)
    for node in sorted(calls, key=turns.__getitem__):  # the order of the pieces is that of their first calls
        graph.graph.output_node().prepend(node)
    split = _split(graph, turns)
    named = {n: m for n, m in split.named_children() if isinstance(m, GraphModule) and n.startswith("submod_")}
    native = {n: m for n, m in named.items() if int(n.removeprefix("submod_")) % 2 == 0}
    eager = [m for n, m in named.items() if n not in native]
    return Pieces(split, native, eager, list(dict.fromkeys(r for r in reasons.values() if r)))


def _split(graph: GraphModule, turns: dict[Node, int]) -> GraphModule:
    """The graph as calls of its pieces. What it holds and gives back as it is, is in no piece, and `split_module` has
    not got it.
    """
    output = graph.graph.output_node()
    given = output.args[0]
    output.args = (pytree.tree_map(lambda value: None if _is_held(value) else value, given),)
    split = split_module(graph, torch.nn.Module(), turns.__getitem__, keep_original_order=True)
    output = split.graph.output_node()
    with split.graph.inserting_before(output):
        output.args = (pytree.tree_map(lambda old, new: _held_too(split, graph, old, new), given, output.args[0]),)
    split.recompile()
    return split


def _is_held(value: Any) -> bool:
    return isinstance(value, Node) and value.op == "get_attr"


def _held_too(split: GraphModule, graph: GraphModule, old: Any, new: Any) -> Any:
    """An output of `split`: one that `graph` holds is held by `split`, too."""
    if not _is_held(old):
        return new
    setattr(split, str(old.target), getattr(graph, str(old.target)))
    return split.graph.create_node("get_attr", str(old.target))  # `Graph.get_attr` takes parameters alone


def _eager_calls(graph: GraphModule) -> dict[Node, str]:
    """The calls that cannot be compiled, each with the reason; "" for parts of results. Raises UnsupportedGraph."""
    importer = Importer(graph, {})
    parts = parts_of(graph)
    constants, opaque = held_by(graph)
    untyped = {n for n in parts.placeholders if not _has_type(importer, n)} | opaque.keys()
    importer.add_arguments([n for n in (*parts.placeholders, *constants) if n not in untyped])
    reasons: dict[Node, str] = {}
    for node in parts.calls:
        if node.target is operator.getitem and node.args[0] in reasons:
            reasons[node] = ""
        elif any(n in untyped for n in node.all_input_nodes):
            reasons[node] = f"node {node.name}: it takes a value that has no type here"
        else:
            try:
                importer.add_call(node)
                continue
            except UnsupportedWhole:
                raise
            except UnsupportedGraph as error:
                reasons[node] = str(error)
        if not _take_results(importer, node):
            untyped.add(node)
    return reasons


def _has_type(importer: Importer, node: Node) -> bool:
    try:
        importer.value_type(node)
    except UnsupportedGraph:
        return False
    return True


def _take_results(importer: Importer, node: Node) -> bool:
    """The results of a call as arguments, as they come from outside; False where they have no type."""
    try:
        flat, spec = pytree.tree_flatten(node.meta.get("val"))
        types = [None if v is None else importer.types.of(v) for v in flat]
    except NoType:
        return False
    block = importer.block
    values = [None if t is None else block.insert_arg(t, len(block.args)) for t in types]
    bound = pytree.tree_unflatten(values, spec)
    importer.env[node] = tuple(bound) if isinstance(bound, list) else bound
    return True


def _turns(calls: Sequence[Node], reasons: dict[Node, str]) -> dict[Node, int]:
    """The number of the piece that each call is in: even ones are compiled.

    Calls that write, and those that draw random numbers or do what else has to stay in order, follow all before them.
    """
    turns: dict[Node, int] = {}
    last = 0
    for node in calls:
        if node.target is operator.getitem and node.args[0] in turns:
            turns[node] = turns[node.args[0]]  # pyright: ignore[reportArgumentType]
            continue
        kind = int(node in reasons)
        turn = max((turns[n] for n in node.all_input_nodes if n in turns), default=0)
        if _keeps_order(node):
            turn = max(turn, last, *turns.values()) if turns else last
            last = turn
        turn += (turn - kind) % 2
        turns[node] = turn
        last = max(last, turn) if _keeps_order(node) else last
    return turns


def _keeps_order(node: Node) -> bool:
    if isinstance(node.target, HigherOrderOperator):
        return True
    if not isinstance(node.target, OpOverload):
        return False
    return node.target._schema.is_mutable or torch.Tag.nondeterministic_seeded in node.target.tags
