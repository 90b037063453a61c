"""What ops with regions are made of: arguments that are values and literals, regions of one block, their text.

%y = flow.if(%p, 2, %x) : (!sym.t<[], i1>, !sym.t<[s0], f32>) -> !sym.t<[s0], f32>
then (%a: !sym.t<[s0], f32>) {
  …
  flow.yield(%0, u3 + 1) : !sym.t<[s0], f32>
} else (…) { … }
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

import sympy
from sympy.logic.boolalg import Boolean
from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def, traits_def, var_operand_def
from xdsl.parser import Parser
from xdsl.parser.core import UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from .literal import HOLE, Literal, Value, holes, parse_value, text
from .tensor import SymType, TensorType


class WithArguments(IRDLOperation):
    """An op whose arguments are values and literals: `arguments` is a list with a hole for each operand."""

    arguments = prop_def(Literal)
    inputs = var_operand_def()

    def args(self) -> list[Value]:
        """The arguments in order, SSA values and literals."""
        operands = iter(self.operands)
        return [next(operands) if value is HOLE else value for value in self.arguments.value]

    def verify_arguments(self) -> None:
        values = self.arguments.value
        if not isinstance(values, tuple):
            raise VerifyException("the arguments are a list")
        for value in values:
            if not (value is HOLE or isinstance(value, (bool, int, float, sympy.Basic))):
                raise VerifyException(f"{text(value)} is neither a value nor a number")
        if holes(values) != len(self.operands):
            raise VerifyException(f"{holes(values)} arguments are values, but there are {len(self.operands)} operands")

    def print_arguments(self, printer: Printer) -> None:
        printer.print_string("(")
        for i, value in enumerate(self.args()):
            printer.print_string(", " if i else "")
            if isinstance(value, SSAValue):
                printer.print_ssa_value(value)
            else:
                printer.print_string(text(value))
        printer.print_string(")")


def template(args: Sequence[Value]) -> tuple[Literal, list[SSAValue]]:
    """The literal with holes and the operands that say `args`."""
    operands = [v for v in args if isinstance(v, SSAValue)]
    return Literal.get(tuple(HOLE if isinstance(v, SSAValue) else v for v in args)), operands


def parse_arguments(parser: Parser) -> tuple[Literal, list[UnresolvedOperand]]:
    unresolved: list[UnresolvedOperand] = []
    values = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, lambda: parse_value(parser, unresolved))
    return Literal.get(tuple(values)), unresolved


@irdl_op_definition
class YieldOp(WithArguments):
    """`flow.yield(%a, s0 + 1) : T`: what a region gives; the types are those of the values."""

    name = "flow.yield"
    arguments = prop_def(Literal)
    inputs = var_operand_def()
    traits = traits_def(IsTerminator())

    @staticmethod
    def make(args: Sequence[Value], location: LocationAttr | None = None) -> YieldOp:
        arguments, operands = template(args)
        return YieldOp.create(operands=operands, properties={"arguments": arguments}, location=location)

    def verify_(self) -> None:
        self.verify_arguments()

    @classmethod
    def parse(cls, parser: Parser) -> YieldOp:
        arguments, unresolved = parse_arguments(parser)
        types: list[Attribute] = []
        start = parser.pos
        if unresolved:
            parser.parse_punctuation(":")
            types = parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_type)
        operands = parser.resolve_operands(unresolved, types, start)
        return cls.create(operands=operands, properties={"arguments": arguments})

    def print(self, printer: Printer) -> None:
        self.print_arguments(printer)
        if self.operands:
            printer.print_string(" : ")
            printer.print_list(self.operands, lambda v: printer.print_attribute(v.type))


class FlowOp(WithArguments):
    """An op with regions."""

    REGIONS: ClassVar[tuple[str, ...]]
    """The word before each."""
    COUNTS: ClassVar[tuple[str, ...]] = ()
    """Integers in the text after the arguments: `carried 1`."""

    @classmethod
    def make(
        cls,
        args: Sequence[Value],
        regions: Sequence[Region],
        result_types: Sequence[Attribute],
        location: LocationAttr | None = None,
        **counts: int,
    ) -> Any:
        """The op over `regions`."""
        arguments, operands = template(args)
        properties: dict[str, Attribute] = {"arguments": arguments}
        properties |= {name: Literal.get(n) for name, n in counts.items()}
        return cls.create(
            operands=operands, properties=properties, result_types=result_types, regions=regions, location=location
        )

    def rebuilt(self, operands: Sequence[SSAValue]) -> Any:
        """The op on other operands. Its regions move there, so that this op can only be erased."""
        return type(self).create(
            operands=operands,
            result_types=[r.type for r in self.results],
            properties=self.properties,
            attributes=self.attributes,
            regions=[self.detach_region(r) for r in list(self.regions)],
            location=self.location,
        )

    def verify_(self) -> None:
        self.verify_arguments()
        for word, region in zip(self.REGIONS, self.regions, strict=True):
            _verify_isolated(word, region)
        self._verify_types()

    def _verify_types(self) -> None:
        raise NotImplementedError

    def expect(self, word: str, region: Region, args: Sequence[Any], results: Sequence[Any]) -> None:
        """Check what a region takes and gives against values, literals and types."""
        given = region.block.args
        if len(given) != len(args):
            raise VerifyException(f"'{word}' has {len(given)} arguments, but {len(args)} are given")
        for i, (argument, value) in enumerate(zip(given, args, strict=True)):
            if (problem := _unlike(type_of(value), argument.type)) is not None:
                raise VerifyException(f"argument #{i} of '{word}' is {argument.type}, given is {problem}")
        values = cast(YieldOp, region.block.last_op).args()
        if len(values) != len(results):
            raise VerifyException(f"'{word}' yields {len(values)} values, {len(results)} are expected")
        for i, (value, result) in enumerate(zip(values, results, strict=True)):
            if (problem := _unlike(type_of(value), type_of(result))) is not None:
                raise VerifyException(f"'{word}' yields {problem} as #{i}, {type_of(result)} is expected")

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        arguments, unresolved = parse_arguments(parser)
        properties: dict[str, Attribute] = {"arguments": arguments}
        for word in cls.COUNTS:
            parser.parse_keyword(word)
            properties[word] = Literal.get(parser.parse_integer(allow_boolean=False, allow_negative=False))
        attributes = parser.parse_optional_attr_dict_with_keyword()
        parser.parse_punctuation(":")
        start = parser.pos
        signature = parser.parse_function_type()
        operands = parser.resolve_operands(unresolved, signature.inputs.data, start)
        regions: list[Region] = []
        for word in cls.REGIONS:
            parser.parse_keyword(word)
            args = parser.parse_comma_separated_list(Parser.Delimiter.PAREN, parser.parse_argument)
            regions.append(parser.parse_region(args))
        return cls.create(
            operands=operands,
            result_types=signature.outputs.data,
            properties=properties,
            attributes=attributes.data if attributes else {},
            regions=regions,
        )

    def print(self, printer: Printer) -> None:
        self.print_arguments(printer)
        for word in self.COUNTS:
            printer.print_string(f" {word} {cast(Literal, self.properties[word]).data.text}")
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" : ")
        printer.print_function_type(self.operand_types, self.result_types)
        for i, (word, region) in enumerate(zip(self.REGIONS, self.regions, strict=True)):
            printer.print_string(f" {word} (" if i else f"\n{word} (")
            printer.print_list(region.block.args, printer.print_block_argument)
            printer.print_string(") ")
            printer.print_region(region, print_entry_block_args=False, print_empty_block=False)


def _verify_isolated(word: str, region: Region) -> None:
    block = region.first_block
    if block is None or block is not region.last_block or not isinstance(block.last_op, YieldOp):
        raise VerifyException(f"'{word}' is one block that ends with flow.yield")
    known: set[SSAValue] = set(block.args)
    for op in region.walk():
        known.update(op.results)
        known.update(a for inner in op.regions for b in inner.blocks for a in b.args)
    for op in region.walk():
        for value in op.operands:
            if value not in known:
                name = f" (%{value.name_hint})" if value.name_hint else ""
                raise VerifyException(f"'{word}' uses a value from outside{name}: it must be an argument")


def type_of(value: Any) -> Any:
    """The type of a value or a literal; a type is itself."""
    if isinstance(value, SSAValue):
        return value.type
    if isinstance(value, Attribute):
        return value
    if isinstance(value, (bool, Boolean)):
        return SymType.get(int(value) if isinstance(value, bool) else value, "i1")
    return SymType.get(sympy.Float(value) if isinstance(value, float) else value, "f64" if _is_float(value) else "i64")


def _is_float(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, sympy.Basic) and not value.is_integer)


def _unlike(given: Attribute, wanted: Attribute) -> str | None:
    """What is given, if it cannot be what is wanted: another kind, dtype, device, rank, or another fixed size."""
    if isinstance(given, TensorType) and isinstance(wanted, TensorType):
        same = given.dtype == wanted.dtype and given.device == wanted.device and given.rank == wanted.rank
        if same and not any(
            isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(given.shape, wanted.shape, strict=True)
        ):
            return None
    elif isinstance(given, SymType) and isinstance(wanted, SymType):
        if given.dtype == wanted.dtype:
            return None
    elif given == wanted:
        return None
    return str(given)
