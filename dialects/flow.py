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

from xdsl.dialects.builtin import LocationAttr, ModuleOp, SymbolRefAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Dialect, Operation, Region, SSAValue
from xdsl.irdl import irdl_op_definition, prop_def, region_def, traits_def, var_operand_def, var_result_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from .flow_op import FlowOp, YieldOp, parse_arguments, template, type_of
from .literal import Literal
from .tensor import SymType, TensorType


def _is_condition(value: Any) -> bool:
    t = type_of(value)
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
            self.expect(word, region, args[1:], self.results)


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
        self.expect("while", self.test, args, condition)
        self.expect("do", self.body, args, self.carried())

    def carried(self) -> Sequence[Any]:
        """What `do` yields: values or types."""
        return list(self.results)


@irdl_op_definition
class WhileStackOp(WhileOp):
    """The same, and the results are all that `do` has yielded, stacked along a new first dim; where it has yielded
    nothing, what the loop begins with. The gradient of a loop goes back along them.
    """

    name = "flow.while_stack"
    arguments = prop_def(Literal)
    inputs = var_operand_def()
    res = var_result_def()
    test = region_def("single_block")
    body = region_def("single_block")
    traits = traits_def()

    def carried(self) -> Sequence[Any]:
        stacked = [_sliced(r) for r in self.results]
        if not all(isinstance(type_of(v), TensorType) for v in self.args()[: len(stacked)]):
            raise VerifyException("what is stacked is a tensor")
        if len({t.shape[0] for t in stacked}) > 1:
            raise VerifyException("stacks as many slices for each result")
        return [slice_type(t) for t in stacked]


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
        self.expect("do", self.body, [*args[:carried], *slices, *rest], [*results[:carried], *stacked])


def _sliced(value: Any) -> TensorType:
    t = type_of(value)
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
        arguments, unresolved = parse_arguments(parser)
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
        self.print_arguments(printer)
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


FLOW = Dialect("flow", [IfOp, WhileOp, WhileStackOp, ScanOp, CallOp, YieldOp], [])
