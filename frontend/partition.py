"""Forward and backward from AOTAutograd's joint graph: what is saved and what is computed again.

The choice is a minimum cut. A node lies on the forward side (its value is made there) or on the backward side (it is
computed again); an edge out of the forward side is a value that is saved, with what it costs to write and read it. A
node on the backward side costs what computing it again takes. Values that are free or cannot be saved, and nodes that
cannot be computed again, have infinite edges. Costs are bytes of memory traffic, as in the fusion model.

Sources: Chen et al. 2016 (arXiv 1604.06174) for recomputation under a budget; the formulation as a cut is that of
torch's `min_cut_rematerialization_partition`, whose classification and extraction of graphs are used here.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import networkx
from torch.fx import GraphModule, Node

from .joint_graph import JointGraph, symbol_like
from .partition_cost import Costs, Kind, size_in_bytes

log = logging.getLogger("lamella")

INFINITE = 1 << 60


class NoPartition(Exception):
    """Why no set of values can be saved."""


@dataclass(frozen=True)
class Choice:
    """What a partition decided."""

    saved: list[Node]
    """Values that the forward gives to the backward, inputs of the program included, in order."""
    recomputed: list[Node]
    """Forward nodes that the backward computes again, views aside."""
    budget: float

    @property
    def saved_bytes(self) -> int:
        """Bytes of the saved values that are not inputs."""
        return sum(size_in_bytes(n) for n in self.saved if n.op != "placeholder")

    def lines(self) -> list[str]:
        """What `explain` prints."""
        from ..lowering.report_page import count

        made = [n for n in self.saved if n.op != "placeholder" and not symbol_like(n)]
        rows = [f"saved for backward: {self.saved_bytes} bytes in {count(len(made), 'value')}"]
        rows += [f"  {_name(n)}: {size_in_bytes(n)} bytes" for n in made]
        rows.append(f"computed again in backward: {count(len(self.recomputed), 'operator')}")
        again = Counter(map(_name, self.recomputed))
        rows += [f"  {name} x{times}" for name, times in again.items()]
        return rows


def partitioner(
    budget: float | None = None,
    tell: Callable[[Choice], None] | None = None,
    rounds_as_eager: bool = False,
    eagers_numbers: bool = False,
) -> Callable[..., tuple[GraphModule, GraphModule]]:
    """A `partition_fn` for AOTAutograd. `budget`, between 0 and 1, is the share of the bytes that the fastest choice
    saves which may be saved; None takes torch's `activation_memory_budget`. `tell` is given the choice.
    `rounds_as_eager`: operators are left as they are; `eagers_numbers`: so are those that draw random numbers.
    """

    def partition(joint: GraphModule, inputs: Sequence[Any], **settings: Any) -> tuple[GraphModule, GraphModule]:
        graph = JointGraph(joint, inputs, settings, rounds_as_eager, eagers_numbers)
        if not graph.has_backward:
            return graph.split_by_position()
        share = graph.budget if budget is None else budget
        try:
            choice = choose(graph, share)
        except NoPartition as reason:
            log.warning("the joint graph is split as it stands: %s", reason)
            return graph.split_by_position()
        if tell is not None:
            tell(choice)
        return graph.split(choice.saved)

    return partition


def choose(joint: JointGraph, budget: float) -> Choice:
    """The values to save. Raises ValueError for a budget outside [0, 1], NoPartition."""
    if not 0 <= budget <= 1:
        raise ValueError(f"an activation memory budget lies between 0 and 1, got {budget}")
    costs = Costs(joint)
    saved = cut(joint, costs, frozenset())
    if budget < 1:
        saved = _within(joint, costs, saved, budget)
    kept = set(saved)
    return Choice(saved, [n for n in _computed_again(joint, kept) if costs.kind(n) is not Kind.VIEW], budget)


def cut(joint: JointGraph, costs: Costs, allowed: frozenset[Node]) -> list[Node]:
    """The cheapest set of values to save, in the order of the graph. `allowed` nodes may be computed again at no
    cost. Raises NoPartition.
    """
    network = networkx.DiGraph()
    for node in joint.graph.nodes:
        if node.op == "output":
            continue
        if node in joint.backward:
            if node in joint.needs_tangents:
                network.add_edge((node, "in"), "backward", capacity=INFINITE)
                continue
            network.add_edge((node, "out"), "backward", capacity=INFINITE)
        if joint.must_recompute(node):
            network.add_edge((node, "in"), "backward", capacity=INFINITE)
        elif node.op == "placeholder" or (again := costs.recompute(node, allowed)) is None:
            network.add_edge("forward", (node, "in"), capacity=INFINITE)
        elif again and node in joint.forward:
            network.add_edge("forward", (node, "in"), capacity=again)
        save = costs.save(node)
        network.add_edge((node, "in"), (node, "out"), capacity=INFINITE if save is None else save)
        for user in node.users:
            network.add_edge((node, "out"), (user, "in"), capacity=INFINITE)
    if "forward" not in network or "backward" not in network:
        return []
    value, (reached, _) = networkx.minimum_cut(
        network, "forward", "backward", flow_func=networkx.algorithms.flow.boykov_kolmogorov
    )
    if value >= INFINITE:
        raise NoPartition("a value is needed that can be neither saved nor computed again")
    return [
        n for n in joint.graph.nodes
        if (n, "in") in reached and (n, "out") in network and (n, "out") not in reached
    ]  # fmt: skip


def _within(joint: JointGraph, costs: Costs, saved: list[Node], budget: float) -> list[Node]:
    """A choice that saves at most `budget` of what `saved` does, by computing again what is cheapest for its bytes; the
    smallest there is if none is small enough.
    """
    most = budget * _made_bytes(saved)
    expensive = sorted(
        (n for n in joint.graph.nodes if n in joint.forward and costs.may_be_allowed(n)),
        key=lambda n: costs.expense(n) / max(1, size_in_bytes(n)),
    )

    def allowing(count: int) -> list[Node]:
        return cut(joint, costs, frozenset(expensive[:count]))

    low, high = 0, len(expensive)
    best = allowing(high)
    if _made_bytes(best) > most:
        return min((saved, best), key=_made_bytes)
    while low < high:  # the fewest operators that get within the budget
        middle = (low + high) // 2
        candidate = allowing(middle)
        if _made_bytes(candidate) <= most:
            best, high = candidate, middle
        else:
            low = middle + 1
    return best


def _made_bytes(saved: Sequence[Node]) -> int:
    return sum(size_in_bytes(n) for n in saved if n.op != "placeholder")


def _computed_again(joint: JointGraph, saved: set[Node]) -> list[Node]:
    """Forward nodes that the backward needs and does not get."""
    again: set[Node] = set()
    stack = [n for n in joint.graph.nodes if n in joint.needs_tangents and n.op != "output"]
    seen: set[Node] = set()
    while stack:
        node = stack.pop()
        for source in node.all_input_nodes:
            if source in seen or source in saved or source.op == "placeholder":
                continue
            seen.add(source)
            stack.append(source)
            if source in joint.forward:
                again.add(source)
    return [n for n in joint.graph.nodes if n in again]


def _name(node: Node) -> str:
    """The operator that makes a value."""
    target = node.target
    if node.op == "call_function" and getattr(target, "__name__", "") == "getitem":
        source = node.args[0]
        assert isinstance(source, Node)
        return f"{_name(source)}[{node.args[1]}]"
    return str(target)
