"""Functions of the tt dialect, program ids, and the ops of one program that are not about tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import (
    I1,
    I32,
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FlatSymbolRefAttrConstr,
    FunctionType,
    IntegerAttr,
    LocationAttr,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    TensorType,
    i1,
    i32,
)
from xdsl.dialects.utils import parse_func_op_like, print_func_op_like
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    base,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    CallableOpInterface,
    IsolatedFromAbove,
    IsTerminator,
    Pure,
    SymbolOpInterface,
    SymbolTable,
)
from xdsl.utils.exceptions import VerifyException

from .tt_enums import AXIS
from .tt_rules import check_function
from .tt_types import bool_attr, i32_array

_OWN = ("sym_name", "function_type", "sym_visibility", "arg_attrs", "res_attrs")


class _Callable(CallableOpInterface):
    @classmethod
    def get_callable_region(cls, op: Operation) -> Region:
        return cast(FuncOp, op).body

    @classmethod
    def get_argument_types(cls, op: Operation) -> tuple[Attribute, ...]:
        return cast(FuncOp, op).function_type.inputs.data

    @classmethod
    def get_result_types(cls, op: Operation) -> tuple[Attribute, ...]:
        return cast(FuncOp, op).function_type.outputs.data


@irdl_op_definition
class FuncOp(IRDLOperation):
    """A kernel (public, no results) or a function that kernels call.

    What is known of an argument is in its `arg_attrs`: `tt.divisibility = 16 : i32` (bytes of a pointer, value of an
    integer), `tt.contiguity`, `tt.constancy`.
    """

    name = "tt.func"
    body = region_def()
    sym_name = prop_def(SymbolNameConstraint())
    function_type = prop_def(FunctionType)
    sym_visibility = opt_prop_def(StringAttr)
    arg_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    res_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface(), _Callable())

    @classmethod
    def make(
        cls,
        name: str,
        inputs: Sequence[Attribute],
        outputs: Sequence[Attribute] = (),
        *,
        visibility: str | None = "public",
        arg_attrs: Sequence[Mapping[str, Attribute]] | None = None,
        attributes: Mapping[str, Attribute] = {},
        body: Region | None = None,
        location: LocationAttr | None = None,
    ) -> FuncOp:
        """A function with an entry block of its arguments, unless `body` is given."""
        properties: dict[str, Attribute] = {
            "sym_name": StringAttr(name),
            "function_type": FunctionType.from_lists(inputs, outputs),
        }
        if visibility is not None:
            properties["sym_visibility"] = StringAttr(visibility)
        if arg_attrs is not None and any(arg_attrs):
            properties["arg_attrs"] = ArrayAttr([DictionaryAttr(attrs) for attrs in arg_attrs])
        return cls.create(
            properties=properties,
            attributes={"noinline": bool_attr(False), **attributes},
            regions=[Region(Block(arg_types=inputs)) if body is None else body],
            location=location,
        )

    def verify_(self) -> None:
        inputs = self.function_type.inputs.data
        if self.arg_attrs is not None and len(self.arg_attrs) != len(inputs):
            raise VerifyException(f"{len(self.arg_attrs)} arg_attrs for {len(inputs)} arguments")
        entry = self.body.first_block
        if entry is not None and tuple(entry.arg_types) != inputs:
            raise VerifyException("the arguments of the entry block are not those of the function type")
        if self.is_kernel:
            if self.function_type.outputs.data:
                raise VerifyException("a kernel, which is a public function, returns nothing")
            if any(isinstance(t, TensorType) for t in inputs):
                raise VerifyException("a kernel, which is a public function, takes no tensors")
        check_function(self.body)

    @property
    def is_kernel(self) -> bool:
        """Whether programs of a grid may start here, and nothing calls it."""
        return self.sym_visibility is None or self.sym_visibility.data == "public"

    @classmethod
    def parse(cls, parser: Parser) -> FuncOp:
        visibility = parser.parse_optional_visibility_keyword()
        name, inputs, outputs, body, extra, arg_attrs, res_attrs = parse_func_op_like(parser, reserved_attr_names=_OWN)
        properties: dict[str, Attribute] = {
            "sym_name": StringAttr(name),
            "function_type": FunctionType.from_lists(inputs, outputs),
        }
        optional = {"sym_visibility": visibility, "arg_attrs": arg_attrs, "res_attrs": res_attrs}
        properties |= {name: value for name, value in optional.items() if value is not None}
        return cls.create(properties=properties, attributes=extra.data if extra else {}, regions=[body])

    def print(self, printer: Printer) -> None:
        if self.sym_visibility is not None:
            printer.print_string(f" {self.sym_visibility.data}")
        print_func_op_like(
            printer,
            self.sym_name,
            self.function_type,
            self.body,
            self.attributes,
            arg_attrs=self.arg_attrs,
            res_attrs=self.res_attrs,
            reserved_attr_names=_OWN,
        )


@irdl_op_definition
class ReturnOp(IRDLOperation):
    name = "tt.return"
    srcs = var_operand_def()
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "attr-dict ($srcs^ `:` type($srcs))?"

    @classmethod
    def make(cls, srcs: Sequence[SSAValue] = (), location: LocationAttr | None = None) -> ReturnOp:
        return cls.create(operands=srcs, location=location)

    def verify_(self) -> None:
        func = self.parent_op()
        if isinstance(func, FuncOp) and func.function_type.outputs.data != tuple(self.operand_types):
            raise VerifyException(f"the types returned are not those of @{func.sym_name.data}")


@irdl_op_definition
class CallOp(IRDLOperation):
    name = "tt.call"
    arguments = var_operand_def()
    callee = prop_def(FlatSymbolRefAttrConstr)
    arg_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    res_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    res = var_result_def()
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$callee `(` $arguments `)` attr-dict `:` functional-type($arguments, $res)"

    @classmethod
    def make(
        cls,
        callee: str,
        arguments: Sequence[SSAValue],
        results: Sequence[Attribute] = (),
        location: LocationAttr | None = None,
    ) -> CallOp:
        properties = {"callee": SymbolRefAttr(callee)}
        return cls.create(operands=arguments, result_types=results, properties=properties, location=location)

    def verify_(self) -> None:
        name, callee = self.callee.string_value(), SymbolTable.lookup_symbol(self, self.callee)
        if not isinstance(callee, FuncOp):
            raise VerifyException(f"calls @{name}, which is no function of its module")
        found = (tuple(self.operand_types), tuple(self.result_types))
        if found != (callee.function_type.inputs.data, callee.function_type.outputs.data):
            raise VerifyException(f"@{name} is {callee.function_type}")


class _AxisOp(IRDLOperation):
    """`tt.get_program_id x : i32`."""

    axis = prop_def(IntegerAttr[I32])
    result = result_def(i32)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser):
        properties = {"axis": AXIS.parse(parser)}
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        return cls.create(result_types=[parser.parse_type()], properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {AXIS.of(self.axis)}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    def verify_(self) -> None:
        AXIS.of(self.axis)


@irdl_op_definition
class GetProgramIdOp(_AxisOp):
    """The number of this program along an axis of the grid."""

    name = "tt.get_program_id"

    @classmethod
    def make(cls, axis: int, location: LocationAttr | None = None) -> GetProgramIdOp:
        return cls.create(result_types=[i32], properties={"axis": AXIS["xyz"[axis]]}, location=location)


@irdl_op_definition
class GetNumProgramsOp(_AxisOp):
    """Programs along an axis of the grid."""

    name = "tt.get_num_programs"

    @classmethod
    def make(cls, axis: int, location: LocationAttr | None = None) -> GetNumProgramsOp:
        return cls.create(result_types=[i32], properties={"axis": AXIS["xyz"[axis]]}, location=location)


@irdl_op_definition
class AssertOp(IRDLOperation):
    """Stops the kernel with a message if the condition is false anywhere, when Triton compiles for debugging."""

    name = "tt.assert"
    condition = operand_def(base(I1) | TensorType.constr(base(I1)))
    message = prop_def(StringAttr)
    traits = traits_def()
    assembly_format = "$condition `,` $message attr-dict `:` type($condition)"

    @classmethod
    def make(cls, condition: SSAValue, message: str, location: LocationAttr | None = None) -> AssertOp:
        return cls.create(operands=[condition], properties={"message": StringAttr(message)}, location=location)


@irdl_op_definition
class PrintOp(IRDLOperation):
    """Prints `prefix` and the values, from every thread."""

    name = "tt.print"
    args = var_operand_def()
    prefix = prop_def(StringAttr)
    hex = prop_def(IntegerAttr.constr(i1))
    isSigned = prop_def(DenseArrayBase[I32])
    traits = traits_def()
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$prefix attr-dict (`:` $args^ `:` type($args))?"

    @classmethod
    def make(
        cls, prefix: str, args: Sequence[SSAValue], *, hex: bool = False, location: LocationAttr | None = None
    ) -> PrintOp:
        properties: dict[str, Attribute] = {
            "prefix": StringAttr(prefix),
            "hex": bool_attr(hex),
            "isSigned": i32_array(*(1 for _ in args)),
        }
        return cls.create(operands=args, properties=properties, location=location)

    def verify_(self) -> None:
        if len(self.isSigned) != len(self.args):
            raise VerifyException(f"isSigned says {len(self.isSigned)} times for {len(self.args)} values")
