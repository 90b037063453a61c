"""Numbers that data says, of which the program says what they are: they are read, and compared with that."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import sympy
import torch
from torch.fx import Node
from xdsl.ir import SSAValue

from ..dialects import expr
from ..dialects.aten import AtenOp, op_class
from ..dialects.literal import Value
from ..dialects.schema import normalize
from ..dialects.tensor import SymType, TensorType
from .graph_parts import UnsupportedGraph, UnsupportedWhole
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


def check_products(importer: Importer, node: Node, number: sympy.Expr, products: Iterable[sympy.Expr]) -> None:
    """An assertion that products of integers that are read, as parts of a number, have 64 bits, as Python's may not.
    What is below that by the dtypes that are read is not looked at.
    """
    for product in products:
        if product in importer.checked or product.is_integer is not True or not _may_be_large(importer, product):
            continue
        if any(type(f).__name__ in ("Mod", "PythonMod") and f.has(product) for f in number.atoms(sympy.Function)):
            raise UnsupportedGraph(f"node {node.name}: the remainder of a number that may have more than 64 bits")
        importer.checked.add(product)
        fits = sympy.And(sympy.Lt(product, 2**63), sympy.Ge(product, -(2**63)))
        message = f"a product of integers of data has more than 64 bits: {expr.text(product)}"
        importer.block.add_op(op_class(aten._assert_scalar.default).call([fits, message], [], location(node)))


def _may_be_large(importer: Importer, product: sympy.Expr) -> bool:
    """Whether a number that is read is a factor, and the dtypes read do not say that it is below 2^63."""
    coefficient, factors = product.as_coeff_Mul()
    bits = int(abs(coefficient)).bit_length()
    read = {s: _bits_read(importer.scalars.get(s)) for s in expr.symbols(product)}
    for base, power in factors.as_powers_dict().items():
        if not isinstance(power, sympy.Integer):
            return any(read.values())
        bits += (read.get(cast(sympy.Symbol, base), 0) or _SIZE_BITS) * int(power)
    return any(read.values()) and bits >= 64


_SIZE_BITS = 31
"""Of a size, or of what is made of some."""
_BITS = {"i1": 1, "i8": 7, "u8": 8, "i16": 15, "u16": 16, "i32": 31, "u32": 32}


def _bits_read(number: SSAValue | None) -> int:
    """How many bits a number has that is read from a tensor; 0 for one that is no such number."""
    op = number.owner if number is not None else None
    if not isinstance(op, AtenOp) or op.name != "aten._local_scalar_dense":
        return 0
    return _BITS.get(cast(TensorType, op.operands[0].type).dtype, 63)


def _compare(importer: Importer, read: AtenOp, told: Value) -> None:
    same = sympy.Eq(cast(SymType, read.results[0].type).expr, told)  # pyright: ignore[reportArgumentType]
    message = f"Runtime assertion failed for expression {same}"
    assertion = op_class(aten._assert_scalar.default).call([same, message], [], read.location)
    importer.block.add_ops([read, assertion])
