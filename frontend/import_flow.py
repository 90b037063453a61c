"""Higher-order operators of torch, calls that take graphs, as control flow with regions.

The graphs come from AOTAutograd with types of their own. Tensors that they hold are arguments of the regions, numbers
stand in them literally, but for those that a loop changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Region, SSAValue

from ..dialects import expr
from ..dialects.aten import lookup
from ..dialects.flow import CallOp, IfOp, ScanOp, WhileOp, WhileStackOp, YieldOp, slice_type
from ..dialects.literal import Value
from ..dialects.schema import normalize
from ..dialects.tensor import SymType, TensorType
from .bindings import bindings
from .graph_parts import UnsupportedGraph, held_constants, parts_of
from .import_flex import flex_attention, flex_attention_backward
from .locations import location

if TYPE_CHECKING:
    from .import_fx import Importer


def add_flow(importer: Importer, node: Node) -> bool:
    """Import a call of a higher-order operator; False where it has no form here. Raises UnsupportedGraph."""
    row = HOPS.get(getattr(node.target, "__name__", ""))
    if row is None or node.kwargs:
        return False
    row(importer, node, *node.args)
    return True


def _cond(importer: Importer, node: Node, condition: Any, true: Node, false: Node, operands: Sequence[Any]) -> None:
    args = _resolved(importer, operands)
    regions, given = _regions(importer, [true, false], args)
    made = IfOp.make([importer.resolve(condition), *given], regions, _result_types(importer, node), location(node))
    _bind(importer, node, made)


def _while_loop(
    importer: Importer,
    node: Node,
    test: Node,
    body: Node,
    carried: Sequence[Any],
    additional: Sequence[Any],
    made: type[WhileOp] = WhileOp,
) -> None:
    args = _resolved(importer, [*carried, *additional])
    regions, given = _regions(importer, [test, body], args, changing=len(carried))
    _bind(importer, node, made.make(given, regions, _result_types(importer, node), location(node)))


def _while_loop_stack_output(importer: Importer, node: Node, *args: Any) -> None:
    """What the gradient of a loop needs of it."""
    _while_loop(importer, node, *args, made=WhileStackOp)


def _scan(
    importer: Importer, node: Node, combine: Node, init: Sequence[Any], xs: Sequence[Any], additional: Sequence[Any]
) -> None:
    args = _resolved(importer, [*init, *xs, *additional])
    regions, given = _regions(importer, [combine], args, changing=len(init) + len(xs))
    types = _result_types(importer, node)
    _bind(importer, node, ScanOp.make(given, regions, types, location(node), carried=len(init), over=len(xs)))


def _map(importer: Importer, node: Node, graph: Node, xs: Sequence[Any], additional: Sequence[Any]) -> None:
    """A scan that carries nothing."""
    _scan(importer, node, graph, (), xs, additional)


def _associative_scan(
    importer: Importer, node: Node, combine: Node, xs: Sequence[Any], additional: Sequence[Any]
) -> None:
    """A scan over all slices but the first, with which it begins. What is carried is a slice of the result too."""

    def call(name: str, args: Sequence[Value], type: TensorType) -> SSAValue:
        cls = lookup(name)
        assert cls is not None
        importer.block.add_op(op := cls.call(args, [type], location(node)))
        return op.results[0]

    def part(x: Any, start: int, stop: int | None, extent: Any) -> SSAValue:
        t: TensorType = x.type
        cut = TensorType.get((expr.normal(extent), *t.shape[1:]), t.dtype, t.strides, t.device)
        return call("aten.slice.Tensor", [x, 0, start, stop], cut)

    tensors: list[Any] = _resolved(importer, xs)
    types = [t for t in _result_types(importer, node) if isinstance(t, TensorType)]
    slices = [slice_type(t) for t in types]
    firsts = [call("aten.select.int", [x, 0, 0], slice_type(x.type)) for x in tensors]
    begin = [call("aten.clone", [x, "contiguous_format"], t) for x, t in zip(firsts, slices, strict=True)]
    others: list[Any] = [part(x, 1, None, x.type.shape[0] - 1) for x in tensors]
    args = [*begin, *others, *_resolved(importer, additional)]
    (region,), given = _regions(importer, [combine], args, changing=2 * len(tensors))
    last = region.block.last_op
    assert isinstance(last, YieldOp)
    region.block.add_op(YieldOp.make([*last.args(), *last.args()], last.location))
    region.block.erase_op(last)
    stacked = [TensorType.get(o.type.shape, o.type.dtype, None, o.type.device) for o in others]
    n = len(tensors)
    scan = ScanOp.make(given, [region], [*slices, *stacked], location(node), carried=n, over=n)
    importer.block.add_op(scan)
    whole = [
        call("aten.cat", [(part(x, 0, 1, 1), tail), 0], t)
        for x, tail, t in zip(tensors, scan.results[n:], types, strict=True)
    ]
    importer.env[node] = tuple(whole)


@dataclass(frozen=True)
class Function:
    """A graph that is called several times."""

    op: FuncOp
    constants: list[Node]
    """Tensors that it holds: its last arguments."""
    numbers: dict[Node, Any]
    """Its inputs that are numbers, which stand in it literally."""
    outputs: list[Any]
    """Values in it: what it returns, arguments that the graph gives back, and numbers, which need no call."""


def _invoke_subgraph(importer: Importer, node: Node, graph: Node, _: str, *operands: Any) -> None:
    """A call of a function, where the graph is called several times with arguments of the same types; else the calls of
    the graph, in place.
    """
    held, args = _graph(importer, graph), _resolved(importer, operands)
    if held not in importer.functions:
        taken = (n.args[0] for n in parts_of(importer.graph).calls if n.args)
        uses = sum(isinstance(g, Node) and importer.held.get(g) is held for g in taken)
        importer.functions[held] = _function(importer, held) if uses > 1 else None
    function = importer.functions[held]
    if function is not None and (given := _fitting(importer, function, held, args)) is not None:
        body = function.op.body.block
        last = body.last_op
        assert last is not None
        types = [r.type for r in last.operands]
        importer.block.add_op(call := CallOp.to(function.op.sym_name.data, given, types, location(node)))
        importer.name_results(node, call)
        values = dict(zip((*body.args, *last.operands), (*given, *call.results), strict=True))
        importer.env[node] = tuple(values[v] if isinstance(v, SSAValue) else v for v in function.outputs)
        return
    inner = importer.inner(held)
    inner.block, inner.scalars, inner.root = importer.block, importer.scalars, importer.root
    inner.mutated = importer.mutated
    parts = parts_of(inner.graph)
    inner.env |= {constant: importer.env[constant] for constant in held_constants(inner.graph)}
    inner.env |= dict(zip(parts.placeholders, args, strict=True))
    for call in parts.calls:
        inner.add_call(call)
    importer.env[node] = tuple(inner.resolve(v) for v in _list(parts.output.args[0]))


def _function(importer: Importer, graph: GraphModule) -> Function | None:
    """A function of a graph; None where it gives views of its arguments, writes, or has sizes that no argument says."""
    inner, parts, constants = importer.inner(graph), parts_of(graph), list(held_constants(graph))
    tensors = [n for n in parts.placeholders if isinstance(n.meta.get("val"), torch.Tensor)]
    inner.add_arguments([*tensors, *constants])
    numbers = {n: _literal(n.meta.get("val")) for n in parts.placeholders if n not in tensors}
    inner.env |= numbers
    for call in parts.calls:
        inner.add_call(call)
    outputs = [inner.resolve(v) for v in _list(parts.output.args[0])]
    given = set(inner.block.args)
    results = [v for v in dict.fromkeys(outputs) if isinstance(v, SSAValue) and v not in given]
    known = set(bindings([a.type for a in inner.block.args]))
    said = {s for op in inner.block.ops for r in op.results for s in _symbols(r.type)}
    views = any(inner.root.get(r) in given for r in results)
    if inner.mutated or inner.scalars or not results or views or not said <= known:
        return None
    inner.block.add_op(ReturnOp(*results))
    types = [a.type for a in inner.block.args], [r.type for r in results]
    name = f"region_{sum(f is not None for f in importer.functions.values())}"
    op = FuncOp(name, types, Region(inner.block), visibility="private")
    op.location = inner.add_missing_locations()
    return Function(op, constants, numbers, outputs)


def _fitting(importer: Importer, function: Function, graph: GraphModule, args: Sequence[Any]) -> list[SSAValue] | None:
    """The arguments of a call, with the tensors that the graph holds; None where types or numbers are other ones."""
    given: list[Any] = []
    for node, value in zip(parts_of(graph).placeholders, args, strict=True):
        if node not in function.numbers:
            given.append(value)
        elif type(value) is not type(function.numbers[node]) or value != function.numbers[node]:
            return None
    given += [importer.env[c] for c in function.constants]
    same = all(isinstance(v, SSAValue) for v in given)
    return given if same and [v.type for v in given] == list(function.op.function_type.inputs) else None


def _symbols(type: Attribute) -> set[Any]:
    if isinstance(type, TensorType):
        return {s for d in (*type.shape, *type.strides) for s in expr.symbols(d)}
    return set(expr.symbols(type.expr)) if isinstance(type, SymType) else set()


HOPS: dict[str, Callable[..., None]] = {
    "cond": _cond,
    "while_loop": _while_loop,
    "while_loop_stack_output": _while_loop_stack_output,
    "scan": _scan,
    "map_impl": _map,
    "associative_scan": _associative_scan,
    "invoke_subgraph": _invoke_subgraph,
    "flex_attention": flex_attention,
    "flex_attention_backward": flex_attention_backward,
}
"""Operators by their names. A row takes the importer, the node and its arguments."""


def _graph(importer: Importer, node: Node) -> GraphModule:
    found = importer.held.get(node)
    if not isinstance(found, GraphModule):
        raise UnsupportedGraph(f"node {node}: a graph is expected, not a {type(found).__name__}")
    return found


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _resolved(importer: Importer, values: Sequence[Any]) -> list[Any]:
    return [importer.resolve(v) for v in values]


def _regions(
    importer: Importer, graphs: Sequence[Node], args: Sequence[Any], changing: int = 0
) -> tuple[list[Region], list[Any]]:
    """A region for each graph, and what all of them are given: `args`, and the tensors that the graphs hold.

    Numbers are not given, but those of the first `changing` arguments, and those that have another symbol inside.
    """
    held = [_graph(importer, graph) for graph in graphs]
    constants = list(dict.fromkeys(c for graph in held for c in held_constants(graph)))
    parts = [parts_of(graph) for graph in held]
    rows = list(zip(*(p.placeholders for p in parts), strict=True))
    passed = [i < changing or _is_passed(v, nodes) for i, (v, nodes) in enumerate(zip(args, rows, strict=True))]
    given = [*(v for v, p in zip(args, passed, strict=True) if p), *(importer.env[c] for c in constants)]
    regions: list[Region] = []
    for graph, part in zip(held, parts, strict=True):
        body = importer.inner(graph)
        nodes = [n for n, p in zip(part.placeholders, passed, strict=True) if p]
        body.add_arguments([*nodes, *constants])
        for argument in body.block.args[:changing]:
            argument._type = without_overlap(argument.type)  # pyright: ignore[reportPrivateUsage]
        body.env |= {n: v for n, v, p in zip(part.placeholders, args, passed, strict=True) if not p}
        for call in part.calls:
            body.add_call(call)
        if body.mutated:
            raise UnsupportedGraph("a graph that a call takes writes to what it is given")
        results = [body.resolve(v) for v in _list(part.output.args[0])]
        body.block.add_op(YieldOp.make([v for v in results if v is not None]))
        body.add_missing_locations()
        regions.append(Region(body.block))
    return regions, given


def _is_passed(value: Any, placeholders: Sequence[Node]) -> bool:
    if isinstance(value, SSAValue):
        return True
    return any(_literal(n.meta.get("val", value)) != value for n in placeholders)


def _literal(value: Any) -> Any:
    return normalize(value) if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)) else value


def _result_types(importer: Importer, node: Node) -> list[Attribute]:
    values = [v for v in pytree.tree_leaves(node.meta["val"]) if v is not None]
    return [without_overlap(t) for v in values for t in importer.types.flat(v)]


def without_overlap(t: Attribute) -> Attribute:
    """The type of a tensor that was made: tracing says of some that they are expanded."""
    if isinstance(t, TensorType) and any(s == 0 and n != 1 for n, s in zip(t.shape, t.strides, strict=True)):
        return TensorType.get(t.shape, t.dtype, None, t.device)
    return t


def _bind(importer: Importer, node: Node, made: Any) -> None:
    """The values of the call are the results of the op; None has none."""
    importer.block.add_op(made)
    results = iter(made.results)
    values = [None if v is None else next(results) for v in pytree.tree_leaves(node.meta["val"])]
    importer.env[node] = tuple(values)
    importer.name_results(node, made)
