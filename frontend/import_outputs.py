"""What a graph gives back: results of its module, arguments, numbers, and expressions over sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy
import torch
from torch.fx import Node
from xdsl.dialects import func
from xdsl.dialects.builtin import NoneType
from xdsl.ir import Attribute, BlockArgument, SSAValue

from ..dialects import expr
from ..dialects.aten import op_class
from ..dialects.schema import normalize
from ..dialects.tensor import SymType, TensorType
from .bindings import bindings
from .graph_parts import UnsupportedGraph
from .outputs import Output

if TYPE_CHECKING:
    from .import_fx import Importer

aten = torch.ops.aten


def add_return(importer: Importer, node: Node) -> tuple[list[SSAValue], list[Output]]:
    """Add the return of a graph: what the module returns, and how each output is made of it."""
    results: list[SSAValue] = []
    outputs: list[Output] = []
    whole: dict[tuple[SSAValue, Attribute], int] = {}
    """Of each memory, the first result of a type."""
    first: dict[SSAValue, int] = {}
    """Of each memory that no argument has, the first result."""
    values = node.args[0]
    for value in values if isinstance(values, (list, tuple)) else (values,):
        bound = importer.env[value] if isinstance(value, Node) else normalize(value)
        if isinstance(bound, BlockArgument) and isinstance(bound.type, (SymType, NoneType)):
            outputs.append(Output.argument(bound.index))
        elif isinstance(bound, SSAValue) and not isinstance(bound.type, NoneType):
            root, at = importer.root.get(bound, bound), len(results)
            before = whole.setdefault((root, bound.type), at)
            beside = at if isinstance(root, BlockArgument) else first.setdefault(root, at)
            once_more = before < at and results[before] is bound
            again = before < at and not once_more
            shared = beside if beside < at and not once_more else None
            outputs.append(Output.seen_again(at, before, shared) if again else Output.result(at, shared))
            results.append(bound)
        elif isinstance(bound, SSAValue) or bound is None:
            outputs.append(Output.constant(None))
        elif isinstance(bound, (bool, int, float, complex, str)):
            outputs.append(Output.constant(bound))
        elif isinstance(bound, sympy.Basic):
            outputs.append(_expression(importer, bound, results))
        else:
            raise UnsupportedGraph(f"output {value} is not a tensor or number")
    importer.block.add_op(func.ReturnOp(*results))
    return results, outputs


def _expression(importer: Importer, e: sympy.Basic, results: list[SSAValue]) -> Output:
    """An output that is an expression over symbols; those which ops introduce are returned by the module too."""
    known = bindings([a.type for a in importer.block.args])
    for i, result in enumerate(results):
        if isinstance(result.type, TensorType):
            for k, d in enumerate(result.type.shape):
                if isinstance(d, sympy.Symbol):
                    known.setdefault(d, ("result size", i, k))
    for symbol in sorted(expr.symbols(e), key=lambda s: s.name):
        if symbol in known:
            continue
        scalar = importer.scalars.get(symbol) or _size_call(importer, symbol)
        if scalar is None or not isinstance(scalar.type, SymType) or scalar.type.expr != symbol:
            raise UnsupportedGraph(f"output {expr.text(e)}: no argument or result gives {symbol.name}")
        known[symbol] = ("result", len(results), 0)
        results.append(scalar)
    return Output.expression(e, known)


def _size_call(importer: Importer, symbol: sympy.Symbol) -> SSAValue | None:
    """A size that only types say, as a value: a call that asks a tensor of that size."""
    for value in importer.env.values():
        for tensor in value if isinstance(value, tuple) else (value,):
            if not isinstance(tensor, SSAValue) or not isinstance(tensor.type, TensorType):
                continue
            if symbol in tensor.type.shape:
                call = op_class(aten.sym_size.int)
                op = call.call([tensor, tensor.type.shape.index(symbol)], [SymType.get(symbol, "i64")])
                importer.block.add_op(op)
                return op.results[0]
    return None
