"""Results of a graph that are views: of its inputs, or of other results.

AOTAutograd makes them anew after each call: it replays the views where it knew all numbers in them, else it goes by
the sizes, strides and offset of what the graph returns. But its graphs are functional: after a write, what they return
is a view of a new value, which lies elsewhere and in another way than the argument that is written in the end. So in
such a place a tensor is returned that lies in the argument as eager's view does; what the graph computed is for nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch._guards import detect_fake_mode
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves, tree_map

from .marks import Marks, marked_results, views_operand
from .outputs import Binding, Output, symbols_of
from .overlap import overlaps_itself
from .torch_compat import (
    ALIASES_OF_RESULTS,
    OutputType,
    forward_metadata,
    is_marked,
    replayed,
)

if TYPE_CHECKING:
    import sympy


class NotFunctional(Exception):
    """A program whose aliases AOTAutograd loses. The message says what it does; it is to run eagerly as a whole."""


@dataclass(frozen=True)
class View:
    """An output of a graph that lies in the memory of an input, or of another output."""

    base: Node
    of_input: bool
    position: int
    """Of the base, among inputs or outputs."""
    value: torch.Tensor
    """A fake tensor that lies as eager's view does."""
    relative: bool
    """Whether its offset depends on where its base begins."""
    steps: Sequence[tuple[OpOverload, tuple[Any, ...], int | None]] = ()
    """The views that it is of its base: operator, arguments, and which of several results; () where that is not known,
    or a view as another dtype is none to autograd.
    Derivatives go through these: those of `as_strided` are others where elements share memory.
    """

    counted: bool = False
    """Whether its writes count with those of all results in its base's memory: nobody makes it anew."""
    apart: bool = False
    """Whether it is the one tensor in its base's memory, and no view to autograd."""

    @property
    def numbers(self) -> tuple[tuple[Any, ...], tuple[Any, ...], Any]:
        """Sizes, strides, and the offset from the base, or from the beginning of memory if it is not `relative`."""
        t = self.value
        offset = t.storage_offset() - (self.base.meta["val"].storage_offset() if self.relative else 0)
        return tuple(map(expression, t.shape)), tuple(map(expression, t.stride())), expression(offset)

    @property
    def symbols(self) -> set[Any]:
        sizes, strides, offset = self.numbers
        values = tree_leaves([args for _, args, _ in self.steps])
        return {s for n in (*sizes, *strides, offset, *map(expression, values)) for s in symbols_of(n)}


@dataclass(frozen=True)
class Views:
    """The outputs of a graph that are described, not computed."""

    found: Mapping[int, View]
    known: Mapping[sympy.Symbol, Binding]
    """The symbols that inputs bind."""
    read: Mapping[sympy.Symbol, int]
    """Outputs that were added to the graph, by the other symbols, which they are the values of."""
    count: int
    """How many outputs the graph had before."""

    def outputs(self, made: Sequence[Output]) -> list[Output]:
        """The outputs of the graph as it was, of those which it has now."""
        values = {symbol: made[i].source for symbol, i in self.read.items()}
        kept = list(made[: self.count])
        for i, view in self.found.items():
            base = f"a[{view.position}]" if view.of_input else made[view.position].source
            if view.counted and (before := made[view.position].beside) is not None:
                base = f"viewed({base}, r[{before}])"
            steps = [(op, tree_map(expression, args), part) for op, args, part in view.steps]
            numbers, anew = view.numbers, not view.counted
            made_of = Output.view(base, view.value, numbers, view.relative, self.known, values, steps, anew)
            kept[i] = Output(f"{made_of.source}.data") if view.apart else made_of
        return kept


def take_views(graph: GraphModule, inference: bool, marks: Marks = ()) -> Views | None:
    """Have None in the place of each output that AOTAutograd makes anew by how what is there lies, and of those marked
    as conjugates or negatives of what lies in memory; None if there is no such output. `graph` is one for inference, or
    a forward; `marks` are those of the program's results.

    Raises NotFunctional where nothing says how eager's view lies.
    """
    found = _views(graph)
    node = graph.graph.output_node()
    outputs: list[Any] = tree_leaves(node.args[0])
    bases: list[Node] = []
    for i, (base, steps, value) in marked_results(graph, marks, found, inference).items():
        if not inference and (base in outputs or base in bases):  # a backward may need what lies there as it is
            if (copy := _copied(base)) is None:
                continue
            base = copy
        if base not in outputs and base not in bases:
            bases.append(base)
        position = outputs.index(base) if base in outputs else len(outputs) + bases.index(base)
        found[i] = View(base, False, position, value, True, steps, counted=inference, apart=not inference)
    if not found:
        return None
    known = _bindings([n for n in graph.graph.nodes if n.op == "placeholder"])
    numbers = {expression(n.meta.get("val")): n for n in graph.graph.nodes if _is_number(n)}
    for i, view in list(found.items()):
        if lost := view.symbols - set(known) - set(numbers):
            # A view by numbers of data. What is a view in the graph, of memory that nothing writes, is one natively.
            if not is_marked(view.value) and not _is_view(outputs[i], view.base):
                raise NotFunctional(f"it returns a view by {lost.pop()}, a number of data, of what it writes")
            del found[i]
    values = [*(None if i in found else n for i, n in enumerate(outputs)), *bases]
    read: dict[Any, int] = {}
    for symbol in sorted(set[Any]().union(*(view.symbols for view in found.values())) - set(known), key=str):
        read[symbol] = len(values)
        values.append(numbers[symbol])
    node.args = (tuple(values),)
    return Views(found, known, read, len(outputs))


def written_inputs(graph: GraphModule) -> tuple[int, ...]:
    """Which inputs of TorchDynamo's graph are written, of the forward or the graph for inference."""
    meta = forward_metadata()
    inputs = _inputs(graph, meta)
    written = _written(inputs, meta) if meta else ()
    return tuple(i for n in written if (i := _position(n.meta["desc"])) is not None)


def _written(inputs: Sequence[Node], meta: Any) -> list[Node]:
    return [n for n, info in zip(inputs, meta.input_info, strict=False) if info.mutates_data]


def _position(desc: Any) -> int | None:
    """Where TorchDynamo's graph has what an input of AOTAutograd's graph is, or is a part of (a subclass's tensor);
    None for what belongs to that graph, its parameters and buffers.
    """
    while not hasattr(desc, "idx"):
        if (desc := getattr(desc, "base", None)) is None:
            return None
    return desc.idx


def _inputs(graph: GraphModule, meta: Any) -> list[Node]:
    return [n for n in graph.graph.nodes if n.op == "placeholder"][len(meta.tokens) if meta else 0 :]


def _views(graph: GraphModule) -> dict[int, View]:
    meta = forward_metadata()
    if meta is None:
        return {}
    outputs: Any = graph.graph.output_node().args[0]
    inputs = _inputs(graph, meta)
    if any(type(n.meta.get("desc")).__name__ in MERGED for n in inputs):
        raise NotFunctional("it writes an argument that shares memory with another one")
    written = _written(inputs, meta)
    if any(n.target is _SCATTERED and _root(n) in written for n in graph.graph.nodes):
        raise NotFunctional("it writes memory that its argument lies in, by as_strided")
    if any(overlaps_itself(n.meta["val"]) for n in written if isinstance(n.meta["val"], torch.Tensor)):
        # what is written at one element would be written over by the old value of another
        raise NotFunctional("it writes an argument whose elements overlap in memory")
    found: dict[int, View] = {}
    aliases: dict[int, View] = {}
    # What lies as another output does and has no derivatives. The views that AOTAutograd would replay from there are
    # those from the memory that both lie in: without them it goes by what is returned.
    detached: dict[int, int] = {}
    at = len(meta.tokens)
    for i in meta.mutated_inp_runtime_indices:
        info = meta.input_info[i]
        if info.mutates_metadata and info.mutates_data:
            raise NotFunctional("it writes an argument and changes its sizes or strides in place")
        if info.mutates_metadata and not info.mutates_storage_metadata:
            found[at] = _seen(inputs[i], True, i + len(meta.tokens), outputs[at])
        at += 1
    for k, info in enumerate(meta.output_info):
        place, sequence = at + k, info.view_meta_sequence
        of_input = info.output_type is OutputType.alias_of_input
        if not of_input and info.output_type not in ALIASES_OF_RESULTS:
            continue
        if of_input:
            position, base = info.base_idx + len(meta.tokens), inputs[info.base_idx]
        else:
            behind = info.output_type is not OutputType.alias_of_intermediate_base_is_user_output
            position = at + info.base_idx + behind * len(meta.output_info)
            base = outputs[position]
        if info.output_type is OutputType.alias_of_intermediate_base_is_user_output and not info.requires_grad:
            detached[place] = position
            meta.output_info[k] = replace(info, view_meta_sequence=None)
        elif sequence is None:
            found[place] = _seen(base, True, position, outputs[place])
        else:
            steps = _since_detached(sequence.sequence) if info.requires_grad and not of_input else sequence.sequence
            ours = any(step.has_symbolic_inputs for step in steps) or len(steps) < len(sequence.sequence)
            lost = any(type(step).__name__ == _SIZES_LOST for step in steps)
            if not lost:
                aliases[place] = _replayed(base, of_input, position, steps)
            if ours:
                found[place] = _seen(base, of_input, position, outputs[place]) if lost else aliases[place]
            if ours or lost:
                meta.output_info[k] = replace(info, view_meta_sequence=None)
    for place, of in detached.items():
        if of in aliases:
            found[place] = found[of] = aliases[of]
        else:
            found[place] = View(outputs[of], False, of, outputs[of].meta["val"], True, _DETACHED)
    for view in found.values():
        if not view.steps:
            _check_dtypes(view)
    return found


def _since_detached(sequence: Sequence[Any]) -> Sequence[Any]:
    """The views that derivatives go through: what is detached and written is what autograd has as their base."""
    cuts = [i for i, step in enumerate(sequence) if type(step).__name__.startswith("detach")]
    return sequence[cuts[-1] + 1 :] if cuts else sequence


def _replayed(base: Node, of_input: bool, position: int, sequence: Sequence[Any]) -> View:
    """A view as functionalization noted it."""
    value = base.meta["val"]
    with detect_fake_mode([value]):  # pyright: ignore
        lies = replayed(value, sequence)
    steps = _steps(sequence)
    absolute = any(op is _STRIDED and args[-1] is not None for op, args, _ in steps)
    cast = any(op is torch.ops.aten.view.dtype for op, _, _ in steps)
    return View(base, of_input, position, lies, not absolute, () if cast else steps)


def _steps(sequence: Sequence[Any]) -> list[tuple[OpOverload, tuple[Any, ...], int | None]]:
    """The views that functionalization noted: operator, arguments after the tensor, and which of several results."""
    found: list[tuple[OpOverload, tuple[Any, ...], int | None]] = []
    for step in sequence:
        values, name = step.as_tuple(), type(step).__name__.removesuffix("_ViewMeta")
        begin = 1 + next(i for i, v in enumerate(values) if type(v).__name__ == "InverseReturnMode")
        packet, overload = getattr(torch.ops.aten, name, None), "default"
        if packet is None:
            name, _, overload = name.rpartition("_")
            packet = getattr(torch.ops.aten, name)
        found.append((getattr(packet, overload), values[begin:], values[1] if begin == 4 else None))
    return found


def _seen(base: Node, of_input: bool, position: int, output: Node) -> View:
    """A view as the graph makes it."""
    if not _is_view(output, base):
        what = "an argument that it writes and whose sizes or strides it changes" if of_input else "what it detaches"
        raise NotFunctional(f"it returns a view of {what}")
    absolute, node = False, output
    while node is not base:
        absolute |= node.target is _STRIDED and len(node.args) > 3
        node = node.all_input_nodes[0]
    return View(base, of_input, position, output.meta["val"], not absolute)


def _is_view(node: Node, base: Node) -> bool:
    """Whether it is `base` seen through views alone."""
    while node is not base:
        if not node.all_input_nodes or not (views_operand(node) or node.target is _UNSAFE):
            return False
        node = node.all_input_nodes[0]
    return True


def _copied(node: Node) -> Node | None:
    """A copy of a result that lies as it does; None if none would."""
    value: torch.Tensor = node.meta["val"]
    with detect_fake_mode([value]):  # pyright: ignore
        copied = value.clone()
    if copied.stride() != value.stride():
        return None
    with node.graph.inserting_after(node):
        copy = node.graph.call_function(torch.ops.aten.clone.default, (node,))
    copy.meta = {**node.meta, "val": copied}
    return copy


def _is_number(node: Node) -> bool:
    return node.op == "call_function" and isinstance(node.meta.get("val"), torch.SymInt)


def _check_dtypes(view: View) -> None:
    """AOTAutograd counts elements of the base, or of its parts for a complex one, and casts at the end."""
    base, value = view.base.meta["val"], view.value
    size = base.itemsize // 2 if base.is_complex() and not value.is_complex() else base.itemsize
    if value.is_complex() and not base.is_complex():
        size = 2 * base.itemsize
    if size != value.itemsize:
        raise NotFunctional(f"it returns a view of {base.dtype} as {value.dtype}, of sizes that are symbolic")


MERGED = ("SyntheticBaseAOTInput", "ViewBaseAOTInput")
"""Inputs that are the memory of several arguments, which AOTAutograd replaces by it. Its offsets are not guarded."""
_DETACHED = ((torch.ops.aten.detach.default, (), None),)
_STRIDED = torch.ops.aten.as_strided.default
_UNSAFE = torch.ops.aten._unsafe_view.default
_SIZES_LOST = "_unsafe_view_ViewMeta"
"""What torch (2.13) notes of a call of `_unsafe_view`: the sizes are in memory that is gone, and to replay them ends
the process. AOTAutograd replays no views unless asked to.
"""
_SCATTERED = torch.ops.aten.as_strided_scatter.default


def _root(node: Node) -> Node:
    """What it is a view of, or what was there before a part of it was written."""
    while node.op == "call_function" and node.all_input_nodes and (views_operand(node) or node.target in SCATTERS):
        node = node.all_input_nodes[0]
    return node


SCATTERS = {
    getattr(torch.ops.aten, name).default
    for name in ("as_strided_scatter", "slice_scatter", "select_scatter", "diagonal_scatter")
}


def expression(value: Any) -> Any:
    return value.node.expr if isinstance(value, torch.SymInt) else value


def _bindings(placeholders: Sequence[Node]) -> dict[Any, Binding]:
    """Where the value of each symbol is that stands alone."""
    found: dict[Any, Binding] = {}

    def bind(value: Any, binding: Binding) -> None:
        if getattr(e := expression(value), "is_Symbol", False):
            found.setdefault(e, binding)

    for i, node in enumerate(placeholders):
        bind(node.meta.get("val"), ("value", i, 0))
    for i, node in enumerate(placeholders):
        if isinstance(value := node.meta.get("val"), torch.Tensor) and value.layout is torch.strided:
            for k in range(value.dim()):
                bind(value.shape[k], ("size", i, k))
                bind(value.stride(k), ("stride", i, k))
            bind(value.storage_offset(), ("offset", i, 0))
    return found
