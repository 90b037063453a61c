"""torch's own decompositions, for ops that the table has no rule for and whose sizes are all known.

The decomposition is traced once for the types and literals of a call, into calls that the table does have rules for.
Where one of them has none, the op stays one call: several calls would be slower.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Sequence
from functools import cache, lru_cache
from typing import Any, Final, cast

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from xdsl.dialects.builtin import NoneType
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

from ..dialects.aten import AtenOp, op_class, op_name
from ..dialects.literal import HOLE
from ..dialects.schema import Argument, normalize
from ..dialects.tensor import DTYPE_OF_TORCH, TORCH_DTYPES, TensorType, is_float
from .decomposition import RULES, decompose, finish
from .decompositions_complex import COMPLEX
from .margin_losses import MARGIN_LOSSES
from .prims_builder import Builder, Value
from .promotion import COMPUTE_DTYPES

KEPT: Final = frozenset(
    {
        "aten.mm",
        "aten.bmm",
        "aten.addmm",
        "aten.baddbmm",
        "aten.addbmm",
        "aten.mv",
        "aten.addmv",
        "aten.dot",
        "aten.vdot",
    }
    | {"aten.convolution", "aten.convolution_backward", "aten.item"}
    | {"aten._scaled_dot_product_flash_attention_for_cpu", "aten._scaled_dot_product_flash_attention_for_cpu_backward"}
)
"""Better as one call: what libraries do best, and tensors of all pairs. Not even traced, which takes tens of
milliseconds.
"""

KEPT_OF_INTEGERS: Final = frozenset({"aten.upsample_bicubic2d"})
"""ATen rounds otherwise: its weights of pixels have another precision."""


def decompose_by_reference(b: Builder, op: AtenOp, value_of: Callable[[SSAValue], Value]) -> list[SSAValue] | None:
    """As `decompose`, by torch's decomposition of `op`; None where there is none, or a call in it has no rule."""
    ops = None if op.name in RULES else reference(op, COMPUTE_DTYPES)
    if ops is None:
        return None
    mark, constants = len(b.ops), b.constants
    results = _lower(b, ops, value_of, op)
    if results is None:
        b.rewind(mark, constants)
    for made in reversed(ops):
        made.erase()
    return results


def reference(op: AtenOp, dtypes: Container[str]) -> list[Operation] | None:
    """The calls of torch's decomposition of `op`, on its operands, and a `func.return` of what stands for its results.
    None where there is none, or a tensor has another dtype than these. The caller erases them.
    """
    if op.name in KEPT or not op.schema.is_pure or op.overload not in _table():
        return None
    if op.name in KEPT_OF_INTEGERS and not is_float(cast(TensorType, op.operands[0].type).dtype):
        return None
    signature = _signature(op, dtypes)
    graph = None if signature is None else _traced(op.overload, *signature)
    return None if graph is None else _import(graph, op)


@cache
def _table() -> dict[Any, Callable[..., Any]]:
    from torch._decomp import decomposition_table

    return decomposition_table | MARGIN_LOSSES


def _signature(op: AtenOp, dtypes: Container[str]) -> tuple[tuple[TensorType, ...], tuple[Any, ...]] | None:
    """What the trace depends on: types of the operands, and the arguments with `HOLE` for these. None where a size is a
    symbol, or a dtype is another.
    """
    types: list[TensorType] = []
    for v in (*op.operands, *op.results):
        t = v.type
        if isinstance(t, NoneType):
            continue
        if not isinstance(t, TensorType) or t.dtype not in dtypes:
            return None
        if not all(isinstance(d, int) for d in (*t.shape, *t.strides)):
            return None
        types.append(t)
    return tuple(types[: len(op.operands)]), tuple(op.templates())


@lru_cache(maxsize=256)
def _traced(overload: Any, types: tuple[TensorType, ...], templates: tuple[Any, ...]) -> GraphModule | None:
    """The ATen calls of torch's decomposition on tensors of these types; None where it wants values or a call has no
    rule.
    """
    arguments = op_class(overload).schema.args
    with FakeTensorMode(allow_non_fake_inputs=True):
        fakes = [_fake(t) for t in types]

        def run(*tensors: torch.Tensor) -> Any:
            operands = iter(tensors)
            values = [_to_torch(t, a, operands) for t, a in zip(templates, arguments, strict=True)]
            positional = [v for v, a in zip(values, arguments, strict=True) if not a.kwarg_only]
            keywords = {a.name: v for v, a in zip(values, arguments, strict=True) if a.kwarg_only}
            return _table()[overload](*positional, **keywords)

        try:
            graph = make_fx(run)(*fakes)
        except (RuntimeError, TypeError, ValueError, NotImplementedError, IndexError):
            return None
    calls = [node.target for node in graph.graph.nodes if node.op == "call_function"]
    return graph if all(target is operator.getitem or _has_rule(target) for target in calls) else None


def _has_rule(target: Any) -> bool:
    return isinstance(target, torch._ops.OpOverload) and (
        op_name(target) in RULES or op_name(target) in COMPLEX or target in _table()
    )


def _fake(t: TensorType) -> torch.Tensor:
    shape: Any = t.shape
    strides: Any = t.strides
    return torch.empty_strided(shape, strides, dtype=getattr(torch, TORCH_DTYPES[t.dtype]), device=t.device)


def _to_torch(template: Any, a: Argument, operands: Any) -> Any:
    if template is HOLE:
        return next(operands)
    if type(template) is tuple:
        return [_to_torch(t, a, operands) for t in template]
    if type(template) is str:
        match a.element:
            case "ScalarType":
                return getattr(torch, TORCH_DTYPES[template])
            case "Layout" | "MemoryFormat":
                return getattr(torch, template)
            case "Device":
                return torch.device(template)
            case _:
                pass
    return template


def _import(graph: GraphModule, op: AtenOp) -> list[Operation] | None:
    """As `reference`; None where the graph holds more than calls."""
    values: dict[Node, Any] = {}
    operands = iter(op.operands)
    ops: list[Operation] = []
    for node in graph.graph.nodes:
        if node.op == "placeholder":
            values[node] = next(operands)
        elif node.op == "output":
            results = node.args[0] if isinstance(node.args[0], (list, tuple)) else (node.args[0],)
            returned = [values[r] for r in results if isinstance(r, Node)]
            if len(returned) != len(results) or len(results) != len(op.results):
                return None
            ops.append(ReturnOp(*returned))
        elif node.op == "call_function" and node.target is operator.getitem:
            values[node] = values[node.args[0]][node.args[1]]
        elif node.op == "call_function":
            ops.append(call := _call(node, values))
            many = isinstance(node.meta["val"], (list, tuple))
            values[node] = tuple(call.results) if many else call.results[0]
        else:
            return None
    return ops


def _call(node: Node, values: dict[Node, Any]) -> AtenOp:
    cls = op_class(node.target)

    def bound(value: Any, element: str) -> Any:
        if isinstance(value, Node):
            return values[value]
        if isinstance(value, (list, tuple)):
            return tuple(bound(v, element) for v in value)
        return normalize(value, element)

    positional = iter(node.args)
    args: list[Any] = []
    for a in cls.schema.args:
        if a.name in node.kwargs:
            args.append(bound(node.kwargs[a.name], a.element))
        else:
            given = None if a.kwarg_only else next(positional, _MISSING)
            args.append(a.default if a.kwarg_only or given is _MISSING else bound(given, a.element))
    out = node.meta["val"]
    return cls.call(args, [_type_of(t) for t in (out if isinstance(out, (list, tuple)) else (out,))])


_MISSING: Final = object()


def _type_of(value: Any) -> Attribute:
    if value is None:
        return NoneType()
    dtype = DTYPE_OF_TORCH[str(value.dtype)[6:]]
    return TensorType.get(tuple(value.shape), dtype, tuple(value.stride()), str(value.device))


def _lower(
    b: Builder, ops: Sequence[Operation], value_of: Callable[[SSAValue], Value], op: AtenOp
) -> list[SSAValue] | None:
    """Decompose the traced calls; the values of the results of `op`, or None where a call has no rule."""
    known = {v: value_of(v) for v in op.operands}
    mark = len(b.ops)
    *calls, last = ops
    for call in calls:
        assert isinstance(call, AtenOp)
        replaced = decompose(b, call, known.__getitem__) or decompose_by_reference(b, call, known.__getitem__)
        if replaced is None:
            return None
        known.update((r, Value(b, v)) for r, v in zip(call.results, replaced, strict=True))
    new = set(b.ops[mark:])
    finished: list[SSAValue] = []
    for r, v in zip(op.results, last.operands, strict=True):
        finished.append(r if isinstance(r.type, NoneType) else finish(known[v], cast(TensorType, r.type), new, False))
    return finished
