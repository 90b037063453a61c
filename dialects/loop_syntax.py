"""Text and checks that the loop ops share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import AnyFloat, ArrayAttr, IntegerType, StringAttr, i64
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from . import expr
from .errors import LamellaVerifyError
from .loop_attrs import DimsAttr, IndexAttr, PredAttr
from .symbol_kinds import PROGRAM, Kind, symbol_kind
from .tensor import TensorType

# kind -> results for one yielded value
COMBINE_RESULTS: dict[str, int] = {
    "add": 1, "mul": 1, "max": 1, "min": 1, "and": 1, "or": 1, "xor": 1, "argmax": 1, "argmin": 1, "welford": 2,
    "expsum": 2,
}  # fmt: skip
OF_FLOATS = frozenset({"welford", "expsum", "logaddexp"})
OF_INTEGERS = frozenset({"and", "or", "xor"})
SCAN_KINDS = ("add", "mul", "max", "min", "logaddexp")
STORE_KINDS = ("add", "mul", "max", "min")
SORT = "sort"
ALONG = ("loop.scan", "loop.sort")
"""Ops that carry something along a dim of the loop around them."""


def kinds(names: Sequence[str]) -> ArrayAttr[StringAttr]:
    """The attribute for a list of combine kinds."""
    return ArrayAttr(StringAttr(n) for n in names)


def parse_kinds(p: Parser) -> ArrayAttr[StringAttr]:
    return kinds(p.parse_comma_separated_list(Parser.Delimiter.SQUARE, p.parse_identifier))


def kinds_text(a: ArrayAttr[StringAttr]) -> str:
    return f"[{', '.join(k.data for k in a.data)}]"


def parse_types(p: Parser) -> list[Attribute]:
    types: list[Attribute] = []
    if p.parse_optional_punctuation(":") is not None:
        types.append(p.parse_type())
        while p.parse_optional_punctuation(",") is not None:
            types.append(p.parse_type())
    return types


def print_types(p: Printer, values: Sequence[SSAValue]) -> None:
    if values:
        p.print_string(" : ")
        p.print_list(values, lambda v: p.print_attribute(v.type))


def print_region(p: Printer, r: Region) -> None:
    p.print_string(" ")
    p.print_region(r, print_entry_block_args=False, print_empty_block=False)


def parse_operands(p: Parser) -> list[SSAValue]:
    """`(%i, %j)`, i64 values bound to v0, v1, …; or nothing."""
    unresolved = p.parse_optional_comma_separated_list(Parser.Delimiter.PAREN, p.parse_unresolved_operand)
    return [p.resolve_operand(u, i64) for u in unresolved or ()]


def print_operands(p: Printer, values: Sequence[SSAValue]) -> None:
    if values:
        p.print_string("(")
        p.print_list(values, p.print_ssa_value)
        p.print_string(")")


def check_kinds(given: ArrayAttr[StringAttr], known: Any) -> None:
    for k in given.data:
        if k.data not in known:
            raise VerifyException(f"unknown combine kind {k.data!r}; known: {', '.join(known)}")


def body_ops(region: Region) -> Iterator[Operation]:
    """Every op below a region, in order."""
    for block in region.blocks:
        for op in block.ops:
            yield op
            for inner in op.regions:
                yield from body_ops(inner)


def op_symbols(op: Operation) -> set[str]:
    """Names of the symbols an op's own attributes use (v0, v1, … excluded)."""
    return {n for n in _symbols(op) if symbol_kind(n) is not Kind.INDEX}


def _symbols(op: Operation) -> set[str]:
    names: set[str] = set()
    for a in op.properties.values():
        if isinstance(a, (IndexAttr, PredAttr)):
            for e in a:
                names.update(s.name for s in expr.symbols(e))
        elif isinstance(a, DimsAttr):
            for d in a:
                names.update(s.name for s in expr.symbols(d.lo) | expr.symbols(d.hi))
    return names


def check_scope(region: Region, dims: frozenset[str], sizes: frozenset[str] | None) -> None:
    """Every symbol in the body is a dim in scope or a size; `sizes` None admits every s<n>, u<n>."""
    for block in region.blocks:
        for op in block.ops:
            inner = dims
            if op.name == "loop.for":
                own: DimsAttr = cast(Any, op).dims
                check_extents(own, "loop.for", dims, sizes, nested=True)
                inner = dims | frozenset(own.names)
                clash = dims & frozenset(own.names)
                if clash:
                    raise VerifyException(f"loop.for redefines dim {sorted(clash)[0]} of an enclosing loop")
            else:
                operands = {f"v{i}" for i in range(len(getattr(op, "indices", ())))}
                for n in _symbols(op):
                    if n not in operands and not _known(n, inner, sizes):
                        raise VerifyException(f"{op.name}: symbol {n} is no dim in scope, no size and no index operand")
            for r in op.regions:
                check_scope(r, inner, sizes)


def check_extents(
    dims: DimsAttr, owner: str, outer: frozenset[str], sizes: frozenset[str] | None, *, nested: bool = False
) -> None:
    """Names are distinct, and bounds are said in sizes and in dims of enclosing loops; `nested`: or in dims before."""
    if len(set(dims.names)) != len(dims):
        raise VerifyException(f"{owner} names a dim twice: {', '.join(dims.names)}")
    for d in dims:
        for e in (d.lo, d.hi):
            check_symbols(f"the extent {d} of {owner}", e, outer, sizes)
            if not isinstance(e, int) and e.is_integer is False:
                raise VerifyException(f"the extent {d} of {owner} is no integer")
        if nested:
            outer |= {d.name}


def check_symbols(what: str, e: Any, dims: frozenset[str], sizes: frozenset[str] | None) -> None:
    """The symbols of an expression are sizes or in `dims`."""
    for n in sorted(s.name for s in expr.symbols(e)):
        if not _known(n, dims, sizes):
            raise VerifyException(f"{what} uses {n}, which is no size and no dim in scope")


def check_results(owner: str, kinds: Sequence[str], values: Sequence[SSAValue], results: Sequence[SSAValue]) -> None:
    """Results have the scalar types that `values`, combined by `kinds` (none: as they are), give."""
    expected: list[Attribute] = []
    for kind, value in zip(kinds or [""] * len(values), values, strict=True):
        if (kind in OF_FLOATS and not isinstance(value.type, AnyFloat)) or (
            kind in OF_INTEGERS and not isinstance(value.type, IntegerType)
        ):
            raise VerifyException(f"{owner} combines {value.type} with {kind}, which is of other numbers")
        expected += [i64 if kind in ("argmax", "argmin") else value.type] * COMBINE_RESULTS.get(kind, 1)
    if len(results) != len(expected):
        raise VerifyException(f"{owner} has {len(results)} results, its body gives {len(expected)}")
    for i, (result, type) in enumerate(zip(results, expected, strict=True)):
        element = result.type.element if isinstance(result.type, TensorType) else result.type
        if element != type:
            raise VerifyException(f"result #{i} of {owner} holds {element}, its body gives {type}")


def check_values(owner: str, region: Region) -> None:
    """The body of a nest computes with its own values: of those around it, it reads elements of tensors."""
    inside = {region.block, *region.block.ops}
    for op in region.block.ops:
        for operand in op.operands[op.name == "loop.load" :]:
            if operand.owner not in inside:
                raise LamellaVerifyError(op, f"computes with a value from outside of {owner}: loop.load reads elements")


def _known(name: str, dims: frozenset[str], sizes: frozenset[str] | None) -> bool:
    return name in dims or (name in sizes if sizes is not None else symbol_kind(name) in PROGRAM)


def terminator(region: Region, what: type[Operation], owner: str) -> Any:
    last = region.block.last_op
    if not isinstance(last, what):
        raise VerifyException(f"the body of {owner} must end with {what.name}")
    return last
