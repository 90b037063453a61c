"""Numbers that data says, of which the program says what they are: they are read, and compared with that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import sympy
import torch
from torch.fx import Node

from ..dialects import expr
from ..dialects.aten import AtenOp, op_class
from ..dialects.literal import Value
from ..dialects.schema import normalize
from ..dialects.tensor import SymType
from .graph_parts import UnsupportedWhole
from .locations import location

if TYPE_CHECKING:
    from .import_fx import Importer

aten = torch.ops.aten
UNBACKED = ("u", "zuf")
"""How torch names symbols whose value is read from data."""


def add_known_item(importer: Importer, node: Node, value: Any) -> None:
    """An `item` that is known to be `value`."""
    symbol = getattr(getattr(value, "node", None), "_expr", None)
    if isinstance(symbol, sympy.Symbol) and isinstance(value, torch.SymInt):
        read = SymType.get(expr.symbol(symbol.name), "i64")
        tensor = importer.resolve(node.args[0])
        number = op_class(aten._local_scalar_dense.default).call([tensor], [read], location(node))
        _compare(importer, number, normalize(value))
        importer.name_results(node, number)


def check_item(node: Node) -> None:
    """Raises UnsupportedWhole for numbers that may be larger than 64 bits with a sign hold: those of u64."""
    operand = node.args[0]
    if isinstance(operand, Node) and getattr(operand.meta.get("val"), "dtype", None) is torch.uint64:
        raise UnsupportedWhole(f"node {node.name}: a number of uint64 may be 2^63 or more")


def add_known_sizes(importer: Importer, node: Node, op: AtenOp, value: Any) -> None:
    """Sizes of a result that are known, also of one that nobody uses.

    A slice up to a number of data is of such a size with torch 2.11, which asserts of it no more than that 3 is 3.
    """
    for symbol, path in node.meta.get("unbacked_bindings", {}).items():
        if len(path) not in (2, 3) or getattr(path[-2], "name", None) != "size":
            continue
        *of, _, place = path
        number, dim = (of[0].idx if of else 0), place.idx
        result = value[number] if of else value
        if not isinstance(result, torch.Tensor):
            continue
        told = normalize(result.shape[dim])
        if isinstance(told, int) or not any(s.name.startswith(UNBACKED) for s in expr.symbols(told)):  # pyright: ignore
            read = SymType.get(expr.symbol(symbol.name), "i64")
            size = op_class(aten.sym_size.int).call([op.results[number], dim], [read], location(node))
            _compare(importer, size, told)


def _compare(importer: Importer, read: AtenOp, told: Value) -> None:
    same = sympy.Eq(cast(SymType, read.results[0].type).expr, told)  # pyright: ignore[reportArgumentType]
    message = f"Runtime assertion failed for expression {same}"
    assertion = op_class(aten._assert_scalar.default).call([same, message], [], read.location)
    importer.block.add_ops([read, assertion])
