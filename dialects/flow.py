"""Control flow: ops whose regions are programs of their own. They stand at every level, and what is in their regions
comes down with the rest.

    %y = flow.if(%p, %x) : (!sym.t<[], i1>, !sym.t<[s0], f32>) -> !sym.t<[s0], f32>
    then (%a: !sym.t<[s0], f32>) {
      %0 = aten.sin(%a) : (!sym.t<[s0], f32>) -> !sym.t<[s0], f32>
      flow.yield(%0) : !sym.t<[s0], f32>
    } else (%a: !sym.t<[s0], f32>) {
      …
    }

A region has one block. It sees the arguments of that block and the sizes of the function around it, no other value;
it ends in `flow.yield`. As in calls of ATen, what is no tensor may stand literally among the arguments: `flow.if(
gt(s0, 4), %x)`, `flow.yield(%0, u3 + 1)`. A number that a region takes is an argument of type `!sym.int<u3>`, and
names that symbol there; symbols that a region introduces mean nothing outside of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, cast

import sympy
from sympy.logic.boolalg import Boolean
from xdsl.dialects.builtin import LocationAttr, ModuleOp, SymbolRefAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
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

    def _verify_arguments(self) -> None:
        values = self.arguments.value
        if not isinstance(values, tuple):
            raise VerifyException("the arguments are a list")
        for value in values:
            if not (value is HOLE or isinstance(value, (bool, int, float, sympy.Basic))):
                raise VerifyException(f"{text(value)} is neither a value nor a number")
        if holes(values) != len(self.operands):
            raise VerifyException(f"{holes(values)} arguments are values, but there are {len(self.operands)} operands")

    def _print_arguments(self, printer: Printer) -> None:
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


def _parse_arguments(parser: Parser) -> tuple[Literal, list[UnresolvedOperand]]:
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
        self._verify_arguments()

    @classmethod
    def parse(cls, parser: Parser) -> YieldOp:
        arguments, unresolved = _parse_arguments(parser)
        types: list[Attribute] = []
        start = parser.pos
        if unresolved:
            parser.parse_punctuation(":")
            types = parser.parse_comma_separated_list(Parser.Delimiter.NONE, parser.parse_type)
        operands = parser.resolve_operands(unresolved, types, start)
        return cls.create(operands=operands, properties={"arguments": arguments})

    def print(self, printer: Printer) -> None:
        self._print_arguments(printer)
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
        self._verify_arguments()
        for word, region in zip(self.REGIONS, self.regions, strict=True):
            _verify_isolated(word, region)
        self._verify_types()

    def _verify_types(self) -> None:
        raise NotImplementedError

    def _expect(self, word: str, region: Region, args: Sequence[Any], results: Sequence[Any]) -> None:
        """Check what a region takes and gives against values, literals and types."""
        given = region.block.args
        if len(given) != len(args):
            raise VerifyException(f"'{word}' has {len(given)} arguments, but {len(args)} are given")
        for i, (argument, value) in enumerate(zip(given, args, strict=True)):
            if (problem := _unlike(_type(value), argument.type)) is not None:
                raise VerifyException(f"argument #{i} of '{word}' is {argument.type}, given is {problem}")
        values = cast(YieldOp, region.block.last_op).args()
        if len(values) != len(results):
            raise VerifyException(f"'{word}' yields {len(values)} values, {len(results)} are expected")
        for i, (value, result) in enumerate(zip(values, results, strict=True)):
            if (problem := _unlike(_type(value), _type(result))) is not None:
                raise VerifyException(f"'{word}' yields {problem} as #{i}, {_type(result)} is expected")

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        arguments, unresolved = _parse_arguments(parser)
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
        self._print_arguments(printer)
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


def _type(value: Any) -> Any:
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


def _is_condition(value: Any) -> bool:
    t = _type(value)
    return t.dtype == "i1" and (isinstance(t, SymType) or t.numel == 1)


@irdl_op_definition
class IfOp(FlowOp):
    """results = then(args) where the condition (the first argument: a bool tensor of one element, or a truth value of
    sizes) holds, else else(args). A result whose size differs between the regions has a symbol of its own.
    """

    name = "flow.if"
    arguments = prop_def(Literal)
    inputs = var_operand_def()
    res = var_result_def()
    then = region_def("single_block")
    otherwise = region_def("single_block")
    traits = traits_def()
    REGIONS: ClassVar[tuple[str, ...]] = ("then", "else")

    def _verify_types(self) -> None:
        args = self.args()
        if not args or not _is_condition(args[0]):
            raise VerifyException("the first argument is the condition: a bool tensor of one element, or a truth value")
        for word, region in zip(self.REGIONS, self.regions, strict=True):
            self._expect(word, region, args[1:], self.results)


@irdl_op_definition
class WhileOp(FlowOp):
    """The first arguments, as many as there are results, are replaced by what `do` yields for all arguments as long as
    `while` yields true for them; then they are the results.
    """

    name = "flow.while"
    arguments = prop_def(Literal)
    inputs = var_operand_def()
    res = var_result_def()
    test = region_def("single_block")
    body = region_def("single_block")
    traits = traits_def()
    REGIONS: ClassVar[tuple[str, ...]] = ("while", "do")

    def _verify_types(self) -> None:
        args = self.args()
        if len(args) < len(self.results):
            raise VerifyException(f"has {len(self.results)} results, but {len(args)} arguments")
        condition = cast(YieldOp, self.test.block.last_op).args()
        if len(condition) != 1 or not _is_condition(condition[0]):
            raise VerifyException("'while' yields one truth value, or a bool tensor of one element")
        self._expect("while", self.test, args, condition)
        self._expect("do", self.body, args, self.results)


@irdl_op_definition
class ScanOp(FlowOp):
    """Goes along the first dim of arguments `carried … carried + over`, of which `do` takes a slice at a time:
    `do(carried…, slices…, rest…)` yields the next carried values, then slices of the other results.

    The results are the last carried values (the first ones, where the dim is empty), and the slices stacked.
    """

    name = "flow.scan"
    arguments = prop_def(Literal)
    inputs = var_operand_def()
    carried = prop_def(Literal)
    over = prop_def(Literal)
    res = var_result_def()
    body = region_def("single_block")
    traits = traits_def()
    REGIONS: ClassVar[tuple[str, ...]] = ("do",)
    COUNTS: ClassVar[tuple[str, ...]] = ("carried", "over")

    @property
    def counts(self) -> tuple[int, int]:
        return self.carried.value, self.over.value

    def _verify_types(self) -> None:
        carried, over = self.counts
        args, results = self.args(), list(self.results)
        if not over or carried + over > len(args) or carried > len(results):
            raise VerifyException(f"carried {carried} over {over} does not fit {len(args)} arguments")
        extents = {t.shape[0] for t in map(_sliced, args[carried : carried + over])}
        if len(extents) > 1:
            raise VerifyException(f"goes over {' and '.join(sorted(map(str, extents)))} slices")
        slices = [slice_type(t) for t in map(_sliced, args[carried : carried + over])]
        stacked = [slice_type(t) for t in map(_sliced, results[carried:])]
        if any(t.shape[0] not in extents for t in map(_sliced, results[carried:])):
            raise VerifyException(f"stacks as many slices as it goes over: {extents.pop()}")
        rest = args[carried + over :]
        self._expect("do", self.body, [*args[:carried], *slices, *rest], [*results[:carried], *stacked])


def _sliced(value: Any) -> TensorType:
    t = _type(value)
    if not isinstance(t, TensorType) or not t.rank:
        raise VerifyException(f"{t} has no dim to go along")
    return t


def slice_type(t: TensorType) -> TensorType:
    """The type of `x[i]` for an `x` of type `t`."""
    return TensorType.get(t.shape[1:], t.dtype, t.strides[1:], t.device)


@irdl_op_definition
class CallOp(FlowOp):
    """`%y = flow.call(%x, %w) callee @layer : (T, U) -> T`: what the function `@layer` of the module returns for the
    arguments, all of them values, in memory of its own. Sizes have the same symbols on both sides.
    """

    name = "flow.call"
    arguments = prop_def(Literal)
    inputs = var_operand_def()
    callee = prop_def(SymbolRefAttr)
    res = var_result_def()
    traits = traits_def()
    REGIONS: ClassVar[tuple[str, ...]] = ()

    @staticmethod
    def to(callee: str, args: Sequence[SSAValue], result_types: Sequence[Attribute], location: LocationAttr) -> CallOp:
        """A call of the function of that name."""
        arguments, operands = template(args)
        properties: dict[str, Attribute] = {"arguments": arguments, "callee": SymbolRefAttr(callee)}
        return CallOp.create(operands=operands, properties=properties, result_types=result_types, location=location)

    def function(self, symbols: Mapping[str, Operation]) -> FuncOp:
        """What is called, among the symbols of the module. Raises VerifyException."""
        name = self.callee.root_reference.data
        found = symbols.get(name)
        if not isinstance(found, FuncOp) or found.is_declaration:
            raise VerifyException(f"there is no function @{name}")
        given = found.function_type
        if tuple(given.inputs) != self.operand_types or tuple(given.outputs) != self.result_types:
            raise VerifyException(f"@{name} is a {given}")
        return found

    def _verify_types(self) -> None:
        if len(self.operands) != len(self.args()):
            raise VerifyException("numbers are no arguments of a call")

    @classmethod
    def parse(cls, parser: Parser) -> Any:
        arguments, unresolved = _parse_arguments(parser)
        parser.parse_keyword("callee")
        callee = parser.parse_symbol_name().data
        attributes = parser.parse_optional_attr_dict_with_keyword()
        parser.parse_punctuation(":")
        start = parser.pos
        signature = parser.parse_function_type()
        return cls.create(
            operands=parser.resolve_operands(unresolved, signature.inputs.data, start),
            result_types=signature.outputs.data,
            properties={"arguments": arguments, "callee": SymbolRefAttr(callee)},
            attributes=attributes.data if attributes else {},
        )

    def print(self, printer: Printer) -> None:
        self._print_arguments(printer)
        printer.print_string(" callee ")
        printer.print_symbol_name(self.callee.root_reference.data)
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" : ")
        printer.print_function_type(self.operand_types, self.result_types)


TERMINATORS = (ReturnOp, YieldOp)
"""What ends a body: its operands leave."""


def bodies(module: ModuleOp) -> list[Region]:
    """The bodies of the functions of `module`, and the regions of their control flow, inner ones first: what a pass
    lowers one by one. Each has one block.
    """
    found: list[Region] = []
    for op in module.ops:
        if isinstance(op, FuncOp) and op.body.first_block is not None:
            found += [*_inner(op.body), op.body]
    return found


def _inner(body: Region) -> Iterator[Region]:
    for op in body.block.ops:
        if isinstance(op, FlowOp):
            for region in op.regions:
                yield from _inner(region)
                yield region


def all_ops(block: Block) -> Iterator[Operation]:
    """The ops of a block and of the control flow in it, in order; those of kernels and other regions are left out."""
    for op in block.ops:
        yield op
        if isinstance(op, FlowOp):
            for region in op.regions:
                yield from all_ops(region.block)


FLOW = Dialect("flow", [IfOp, WhileOp, ScanOp, CallOp, YieldOp], [])
