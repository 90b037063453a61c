"""An FX graph of ATen calls, as AOTAutograd and torch.export make it, to a module at the aten level.

Types come from `node.meta["val"]`. Arithmetic on sizes disappears into the symbolic expressions of types and
literals; a graph output that is such an expression, a number or None is made on the Python side by
`ImportedGraph.wrap`, the module returns tensors.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import sympy
import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import is_nested_int
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    LocationAttr,
    ModuleOp,
    NoneType,
    StringAttr,
    UnitAttr,
    UnknownLoc,
    i64,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from ..dialects import expr
from ..dialects.aten import AtenOp, op_class
from ..dialects.literal import HOLE, Value
from ..dialects.schema import normalize, symbolic
from ..dialects.symbol_kinds import Kind, symbol_kind
from ..dialects.tensor import SymType
from .bindings import bindings
from .donated import GRADIENT
from .expand_hops import expanded
from .graph_parts import UnsupportedGraph, UnsupportedWhole, held_constants, parts_of
from .import_flow import Function, add_flow
from .import_known import UNBACKED, add_known_item, add_known_sizes, check_item, check_products
from .import_outputs import add_return
from .import_storage import OF_STORAGE, of_storage
from .locations import location
from .outputs import Output, OutputRecipe
from .torch_compat import is_marked, is_plain_tensor, symbol_hints, with_effects
from .traced_types import NoType, TracedTypes

aten = torch.ops.aten


Bound: TypeAlias = "Value | SSAValue"
"""What an FX node stands for: an SSA value, a literal value, or a tuple of such for several results."""


@dataclass
class ImportedGraph:
    """A module with what its caller needs beside it."""

    module: ModuleOp
    constants: list[torch.Tensor]
    """Values of the trailing arguments of `@main`: tensors that the graph holds."""
    outputs: list[Output]
    """How each output of the FX graph is made from inputs and results of `@main`."""
    input_names: list[str]
    """FX names of the inputs, which are followed by `constants`."""
    devices: set[str]
    """Devices of all tensors."""

    def wrap(self, compiled: Callable[[list[Any]], Sequence[Any]]) -> Callable[[list[Any]], Sequence[Any]]:
        """The boxed callable of the FX graph, given one of `@main`."""
        return OutputRecipe(self.outputs).wrap(compiled, self.constants)


def import_graph(graph: GraphModule, names: Mapping[str, str] | None = None) -> ImportedGraph:
    """Import `graph`. `names` gives the `lamella.name` of placeholders by their FX name (parameters, buffers).

    Raises UnsupportedGraph, never another error, for a graph that is valid for torch.
    """
    return Importer(expanded(graph), names or {}).run()


class Importer:
    """One graph, or, with `outer`, a graph that a call in another graph takes."""

    def __init__(self, graph: GraphModule, names: Mapping[str, str], outer: Importer | None = None) -> None:
        self.graph = graph
        self.names = names
        self.held = parts_of(graph).held
        self.block = Block()
        self.env: dict[Node, Bound] = {}
        self.types = TracedTypes() if outer is None else outer.types
        self.classes: dict[Any, type[AtenOp]] = {} if outer is None else outer.classes
        self.constants: dict[Node, torch.Tensor] = {}
        """Tensors that the graph holds, and graphs in it."""
        self.root: dict[SSAValue, SSAValue] = {}
        self.mutated: set[SSAValue] = set()
        self.functions: dict[GraphModule, Function | None] = {} if outer is None else outer.functions
        """What becomes of graphs that are called several times: a function, or None where calls stand in place."""
        self.scalars: dict[sympy.Symbol, SSAValue] = {}
        self.checked: set[sympy.Expr] = set()
        """Products of data that are known to have 64 bits."""

    def run(self) -> ImportedGraph:
        parts = parts_of(self.graph)
        self.constants = held_constants(self.graph)
        placeholders = parts.placeholders
        self.add_arguments([*placeholders, *self.constants])
        for node in parts.calls:
            self.add_call(node)
        results, outputs = add_return(self, parts.output)
        self.check_symbols()
        attributes = [self.argument_attributes(n, a) for n, a in zip(self.env, self.block.args, strict=False)]
        function = func.FuncOp(
            "main",
            ([a.type for a in self.block.args], [r.type for r in results]),
            Region(self.block),
            arg_attrs=ArrayAttr(attributes) if any(a.data for a in attributes) else None,
        )
        function.location = self.add_missing_locations()
        return ImportedGraph(
            ModuleOp(
                [function, *(f.op for f in self.functions.values() if f is not None)],
                attributes=self.module_attributes(),
            ),
            list(self.constants.values()),
            outputs,
            [node.name for node in placeholders],
            self.types.devices,
        )

    def add_missing_locations(self) -> LocationAttr:
        """Nodes that AOTAutograd made without a trace, and the return, are of the line before them, an argument is
        of the line that uses it first. Returns the first line.
        """
        places = (op.location for op in self.block.ops if not isinstance(op.location, UnknownLoc))
        first = place = next(places, UNKNOWN_LOC)
        for op in self.block.ops:
            if isinstance(op.location, UnknownLoc):
                op.location = place
            place = op.location
            for operand in op.operands:
                if isinstance(operand, BlockArgument) and isinstance(operand.location, UnknownLoc):
                    operand.location = place
        for argument in self.block.args:
            if isinstance(argument.location, UnknownLoc):
                argument.location = first
        return first

    def value_type(self, node: Node) -> Attribute:
        value = node.meta.get("val")
        marked = isinstance(value, torch.Tensor) and is_plain_tensor(value) and is_marked(value)
        if marked and not node.name.startswith(GRADIENT):  # of which only the numbers matter
            raise UnsupportedGraph(f"node {node.name}: a conjugate or negative view has no type here")
        try:
            return self.types.of(value)
        except NoType as error:
            raise UnsupportedGraph(f"node {node.name}: {error}") from None

    def add_arguments(self, nodes: list[Node]) -> None:
        self.block = Block(arg_types=[NoneType() if _is_nobodys(node) else self.value_type(node) for node in nodes])
        for node, argument in zip(nodes, self.block.args, strict=True):
            argument.name_hint = node.name
            if not isinstance(place := location(node), UnknownLoc):
                argument.location = place
            self.env[node] = argument

    def add_call(self, node: Node) -> None:
        target, value = node.target, node.meta.get("val")
        if target is with_effects:
            self.add_effect(node)
            return
        if isinstance(target, HigherOrderOperator):
            if not add_flow(self, node):
                raise UnsupportedGraph(f"node {node.name}: higher-order operator {target}")
            return
        if target is operator.getitem:
            source = self.resolve(node.args[0])
            if isinstance(source, tuple):
                self.env[node] = source[node.args[1]]  # pyright: ignore
                return
        if target is aten._local_scalar_dense.default:
            check_item(node)
        if isinstance(value, _SCALARS) and not self.reads_data(target, value):
            if target is aten._local_scalar_dense.default:
                add_known_item(self, node, value)
            self.env[node] = normalize(value)
            return
        if not isinstance(target, OpOverload):
            raise UnsupportedGraph(f"node {node.name}: {_describe(target)} is not an ATen operator")
        self.add_operator(node, target, node.args, value)

    def inner(self, graph: GraphModule) -> Importer:
        """An importer of a graph that a call in this one takes."""
        return Importer(graph, {}, self)

    def add_effect(self, node: Node) -> None:
        """A call with a token that orders it after the one that gave the token: here all calls are in order."""
        token, target, *args = node.args
        assert isinstance(target, OpOverload)
        returns, results = len(target._schema.returns), node.meta["val"][1:]
        self.add_operator(node, target, args, results if returns > 1 else results[0] if returns else None)
        bound = self.env[node]
        self.env[node] = (self.resolve(token), *(bound if isinstance(bound, tuple) else (bound,)))

    def add_operator(self, node: Node, target: OpOverload, arguments: Sequence[Any], value: Any) -> None:
        """A call of `target`, which was traced to `value`; keyword arguments are those of `node`."""
        if target in _MARKS and isinstance(of := arguments[0], Node) and of.target is target:
            self.env[node] = self.env[of.args[0]]  # pyright: ignore[reportArgumentType]
            return
        if target.overloadpacket.__name__ in _QUANTIZERS or target.namespace == "quantized":
            raise UnsupportedWhole(f"node {node.name}: a quantized tensor has no type here")
        if target is _TO_COPY and isinstance(arguments[0], (int, float)):  # a number where a tensor is meant
            target = aten.scalar_tensor.default
        cls = self.classes.get(target)
        if cls is None:
            cls = self.classes[target] = op_class(_SAME_AS.get(target, target))
        args = self.arguments(node, cls, arguments)
        if target is _ATTENTION and not args[_NEED_WEIGHTS]:
            raise UnsupportedGraph(f"node {node.name}: a result is no tensor where no weights are asked for")
        if target in OF_STORAGE:
            of_storage(self, node, args)
        try:
            op = cls.call(args, list(self.types.flat(value)), location(node))
        except (NoType, TypeError) as error:
            raise UnsupportedGraph(f"node {node.name}: {cls.name}: {error}") from None
        self.block.add_op(op)
        self.bind_results(node, op, value)
        add_known_sizes(self, node, op, value)
        if cls.schema.mutates or cls.schema.is_view:
            self.track_aliases(op, args)
        elif target is _UNSAFE_VIEW:
            self.root[op.results[0]] = self.root.get(op.operands[0], op.operands[0])

    def reads_data(self, target: Any, value: Any) -> bool:
        """Whether a scalar is the result of an operator on data, and not known from sizes."""
        if not isinstance(target, OpOverload) or isinstance(value, (int, float)):
            return False
        if target in _SIZE_OPS and not (target is _STORAGE_OFFSET and isinstance(symbolic(value), sympy.Symbol)):
            return False  # types say it
        return any(s.name.startswith((*UNBACKED, _FLOAT)) for s in expr.symbols(symbolic(value)))

    def arguments(self, node: Node, cls: type[AtenOp], args: Sequence[Any]) -> list[Bound]:
        """The arguments of the call in the order of the schema."""
        kwargs = node.kwargs
        out: list[Bound] = []
        for i, a in enumerate(cls.schema.args):
            if i < len(args):
                value = self.resolve(args[i], a.element)
            elif a.name in kwargs:
                value = self.resolve(kwargs[a.name], a.element)
            elif a.default is HOLE:
                raise UnsupportedGraph(f"node {node.name}: {cls.name} lacks argument {a.name}")
            else:
                value = a.default
            out.append(value)
        return out

    def resolve(self, value: Any, element: str = "") -> Bound:
        """An FX argument as SSA values and literal values."""
        if isinstance(value, Node):
            bound = self.env[value]
            number = bound.type.expr if isinstance(bound, SSAValue) and isinstance(bound.type, SymType) else bound
            if isinstance(number, sympy.Basic) and any(map(_divides_floats, number.atoms(sympy.Function))):
                raise UnsupportedGraph(f"node {value.name}: torch has no number for a remainder of floats")
            products = number.atoms(sympy.Mul, sympy.Pow) if isinstance(number, sympy.Basic) else ()
            if any(_is_large(p) or not _fits(p, value.meta.get("val")) for p in products):
                raise UnsupportedGraph(f"node {value.name}: a number of Python's may have more than 64 bits")
            check_products(self, value, number, products)  # pyright: ignore[reportArgumentType]
            if isinstance(bound, SSAValue):
                if isinstance(bound.type, SymType):
                    return bound.type.expr
                if isinstance(bound.type, NoneType):
                    return None
            return bound
        if isinstance(value, (list, tuple)):
            return tuple(self.resolve(v, element) for v in value)
        try:
            return normalize(value, element)
        except KeyError:
            raise UnsupportedGraph(f"dtype {value} has no name at the aten level") from None

    def bind_results(self, node: Node, op: Operation, value: Any) -> None:
        results = iter(op.results)
        self.env[node] = self.bind(value, results)
        self.name_results(node, op)

    def name_results(self, node: Node, op: Operation) -> None:
        """The results are called as the node is, and the symbols in them are known from there on."""
        for result in op.results:
            result.name_hint = node.name
            if isinstance(result.type, SymType):
                for symbol in expr.symbols(result.type.expr):
                    self.scalars.setdefault(symbol, result)

    def bind(self, value: Any, results: Iterator[SSAValue]) -> Bound:
        if isinstance(value, (list, tuple)):
            return tuple(self.bind(v, results) for v in value)
        return next(results, None)

    def track_aliases(self, op: AtenOp, args: list[Bound]) -> None:
        """Note which function arguments the op writes, directly or through views."""
        schema = op.schema
        for a, value in zip(schema.args, args, strict=True):
            if a.mutated:
                for v in value if isinstance(value, tuple) else (value,):
                    if isinstance(v, SSAValue):
                        self.mutated.add(self.root.get(v, v))
        for i, declared in enumerate(schema.returns):
            sources = [args[k] for k in schema.aliases(i) if isinstance(args[k], SSAValue)]
            if sources:
                for result in op.results if declared.is_list else op.results[i : i + 1]:
                    self.root[result] = self.root.get(sources[0], sources[0])

    def check_symbols(self) -> None:
        """Each symbol of a type must be given by an argument or made by an op."""
        known = set(bindings([a.type for a in self.block.args])) | set(self.scalars)
        for symbol in self.types.symbols - known:
            if not symbol.name.startswith(UNBACKED):
                raise UnsupportedGraph(f"no input has {symbol.name} as its value, a size or a stride")

    def argument_attributes(self, node: Node, argument: SSAValue) -> DictionaryAttr:
        attributes: dict[str, Attribute] = {}
        if node in self.constants:
            attributes["lamella.constant"] = StringAttr(str(node.target))
        elif (name := self.names.get(node.name)) is not None:
            attributes["lamella.name"] = StringAttr(name)
        if argument in self.mutated:
            attributes["lamella.mutated"] = UnitAttr()
        return DictionaryAttr(attributes)

    def module_attributes(self) -> dict[str, Attribute]:
        if not self.types.shape_envs:
            return {}
        hints: dict[str, int] = {}
        for shape_env in self.types.shape_envs.values():
            hints |= symbol_hints(shape_env)
        used = {s.name for s in self.types.symbols}
        table = {name: IntegerAttr(hints[name], i64) for name in sorted(used) if name in hints}
        return {"lamella.hints": DictionaryAttr(table)} if table else {}


_SCALARS = (torch.SymInt, torch.SymFloat, torch.SymBool, int, float)
_FLOAT = "zf"
"""How it names a float of the program, which is read from a tensor that TorchDynamo passes it in."""
_STORAGE_OFFSET = aten.sym_storage_offset.default
_SIZE_OPS = frozenset(
    overload
    for packet in (aten.sym_size, aten.sym_stride, aten.sym_numel, aten.sym_storage_offset)
    for overload in (getattr(packet, name) for name in packet.overloads())
)


_TO_COPY = aten._to_copy.default
_UNSAFE_VIEW = aten._unsafe_view.default
"""How AOTAutograd writes a view of what nobody else sees; here it is its operand, or the same memory."""
_MARKS = (aten._conj.default, aten._neg_view.default)
"""Views that are marked: one of another one is what that one is of."""
_ATTENTION = aten._native_multi_head_attention.default  # without weights it is traced to a tensor without elements
_NEED_WEIGHTS = [a.name for a in _ATTENTION._schema.arguments].index("need_weights")
_QUANTIZERS = frozenset(
    {
        *("quantize_per_tensor", "quantize_per_tensor_dynamic", "quantize_per_channel"),
        *("_make_per_tensor_quantized_tensor", "_make_per_channel_quantized_tensor"),
        *("_empty_affine_quantized", "_empty_per_channel_affine_quantized"),
    }
)
"""Operators of whose results torch's tracing says that they are floats."""
_SAME_AS: dict[Any, Any] = {
    torch.ops.prims.convert_element_type.default: aten._to_copy.default,
    aten._conj.default: aten._conj_physical.default,
    aten._neg_view.default: aten.neg.default,
}
"""Operators by the ATen operator with the same first arguments and numbers: of torch's own prims those that AOTAutograd
inserts, and views that are marked as conjugate or negative, which no type says.
"""


def _divides_floats(f: Any) -> bool:
    """Whether a function of torch's is one of integers, and has other arguments."""
    return type(f).__name__ in ("Mod", "PythonMod", "FloorDiv", "CleanDiv") and not all(a.is_integer for a in f.args)


def _is_large(e: Any) -> bool:
    """Whether a product or power may have more than 64 bits where its symbols have 31, as no size has."""
    power = e.exp if isinstance(e, sympy.Pow) else sympy.Integer(0)
    large = abs(e.as_coeff_Mul()[0]) >= 2**32 or (power.is_Integer is True and power > 6)
    return large and e.is_integer is True


def _fits(product: Any, value: Any) -> bool:
    """Whether a product of integers that are arguments has 64 bits, as a guard on each that it is small enough."""
    coefficient, _ = product.as_coeff_Mul()
    powers = product.as_powers_dict()
    numbers = {
        s.name: n for s, n in powers.items() if isinstance(s, sympy.Symbol) and symbol_kind(s.name) is Kind.NUMBER
    }
    if not numbers or not isinstance(value, torch.SymInt) or not all(n.is_Integer for n in numbers.values()):
        return True
    sizes = any(symbol_kind(s.name) is Kind.SIZE for s in product.free_symbols)
    bits = (62 - int(abs(coefficient)).bit_length() - 31 * sizes) // int(sum(numbers.values()))
    env = value.node.shape_env
    given = [s for s in value.node.expr.free_symbols if expr.number_name(s.name) in numbers or s.name in numbers]
    return all(env.evaluate_expr(sympy.And(s < 2**bits, s > -(2**bits))) for s in given)


def _describe(target: Any) -> str:
    return getattr(target, "__name__", None) or str(target)


def _is_nobodys(node: Node) -> bool:
    """Whether no operator takes the input: a token, or what stands for the sizes of a nested tensor."""
    return is_nested_int(node.meta.get("val")) or _is_token(node)  # pyright: ignore[reportArgumentType]


def _is_token(node: Node) -> bool:
    """Whether the input orders calls that have effects: AOTAutograd traces a tensor and calls with None."""
    return any(user.target is with_effects and user.args[0] is node for user in node.users)
