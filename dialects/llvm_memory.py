"""The memory ops of `llvm_ext.py`: addresses, loads and stores with their hints, atomics, masked accesses."""

from collections.abc import Iterable, Sequence
from typing import ClassVar, cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    I1,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    UnitAttr,
    VectorType,
    i32,
    i64,
)
from xdsl.dialects.llvm import LLVMPointerType
from xdsl.dialects.utils import parse_dynamic_index_list_without_types, print_dynamic_index_list
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from .llvm_types import INTEGERS, POINTERS, PTR, vector_of, width_of


@irdl_op_definition
class GEPOp(IRDLOperation):
    """`ptr + indices`, in elements of `elem_type`; a vector of indices gives a vector of pointers."""

    name = "llvm.getelementptr"
    ptr = operand_def(POINTERS)
    ssa_indices = var_operand_def(INTEGERS)
    result = result_def(POINTERS)
    elem_type = prop_def()
    noWrapFlags = prop_def(IntegerAttr.constr(base(IntegerType)), default_value=IntegerAttr(0, i32))
    rawConstantIndices = prop_def(DenseArrayBase.constr(i32))
    inbounds = opt_prop_def(UnitAttr)
    traits = traits_def(Pure())

    def __init__(
        self,
        ptr: SSAValue,
        indices: Sequence[int],
        pointee_type: Attribute,
        ssa_indices: Sequence[SSAValue] = (),
        result_type: Attribute | None = None,
        inbounds: bool = False,
    ):
        width = max(width_of(v.type) for v in (ptr, *ssa_indices))
        super().__init__(
            operands=[ptr, ssa_indices],
            result_types=[result_type or vector_of(PTR, width)],
            properties={
                "rawConstantIndices": DenseArrayBase.from_list(i32, indices),
                "elem_type": pointee_type,
                "noWrapFlags": IntegerAttr(0, i32),
                "inbounds": UnitAttr() if inbounds else None,
            },
        )

    def verify_(self) -> None:
        dynamic = sum(i == llvm.GEP_USE_SSA_VAL for i in self.rawConstantIndices.iter_values())
        if dynamic != len(self.ssa_indices):
            raise VerifyException(f"llvm.getelementptr: {dynamic} dynamic indices, {len(self.ssa_indices)} operands")

    def print(self, printer: Printer) -> None:
        printer.print_string(" inbounds " if self.inbounds is not None else " ")
        printer.print_ssa_value(self.ptr)
        constants = cast(Iterable[int], self.rawConstantIndices.iter_values())
        print_dynamic_index_list(printer, llvm.GEP_USE_SSA_VAL, self.ssa_indices, constants)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_function_type([v.type for v in self.operands], [self.result.type])
        printer.print_string(", ")
        printer.print_attribute(self.elem_type)

    @classmethod
    def parse(cls, parser: Parser) -> "GEPOp":
        inbounds = parser.parse_optional_keyword("inbounds") is not None
        ptr = parser.parse_unresolved_operand()
        dynamic, indices = parse_dynamic_index_list_without_types(parser, llvm.GEP_USE_SSA_VAL)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parser.parse_function_type()
        parser.parse_punctuation(",")
        element = parser.parse_type()
        operands = parser.resolve_operands([ptr, *dynamic], type.inputs.data, parser.pos)
        op = cls(operands[0], list(indices), element, operands[1:], type.outputs.data[0], inbounds)
        op.attributes |= attributes
        return op


@irdl_op_definition
class LoadOp(IRDLOperation):
    """`*ptr`; `alignment` in bytes, `nontemporal` bypasses the caches, `invariant` says nobody writes it meanwhile."""

    name = "llvm.load"
    ptr = operand_def(LLVMPointerType)
    dereferenced_value = result_def(AnyAttr())
    alignment = opt_prop_def(IntegerAttr.constr(base(IntegerType)))
    ordering = prop_def(IntegerAttr.constr(base(IntegerType)), default_value=IntegerAttr(0, i64))
    volatile_ = opt_prop_def(UnitAttr)
    nontemporal = opt_prop_def(UnitAttr)
    invariant = opt_prop_def(UnitAttr)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$ptr attr-dict `:` type($ptr) `->` type($dereferenced_value)"

    def __init__(
        self,
        ptr: SSAValue,
        result_type: Attribute,
        alignment: int | None = None,
        ordering: int = 0,
        nontemporal: bool = False,
        invariant: bool = False,
    ):
        super().__init__(
            operands=[ptr],
            result_types=[result_type],
            properties={
                "ordering": IntegerAttr(ordering, i64),
                "alignment": None if alignment is None else IntegerAttr(alignment, i64),
                "nontemporal": UnitAttr() if nontemporal else None,
                "invariant": UnitAttr() if invariant else None,
            },
        )


@irdl_op_definition
class StoreOp(IRDLOperation):
    """`*ptr = value`; a `nontemporal` vector store wants an alignment of its own size."""

    name = "llvm.store"
    value = operand_def(AnyAttr())
    ptr = operand_def(LLVMPointerType)
    alignment = opt_prop_def(IntegerAttr.constr(base(IntegerType)))
    ordering = prop_def(IntegerAttr.constr(base(IntegerType)), default_value=IntegerAttr(0, i64))
    volatile_ = opt_prop_def(UnitAttr)
    nontemporal = opt_prop_def(UnitAttr)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$value `,` $ptr attr-dict `:` type($value) `,` type($ptr)"

    def __init__(
        self,
        value: SSAValue,
        ptr: SSAValue,
        alignment: int | None = None,
        ordering: int = 0,
        volatile: bool = False,
        nontemporal: bool = False,
    ):
        super().__init__(
            operands=[value, ptr],
            properties={
                "ordering": IntegerAttr(ordering, i64),
                "alignment": None if alignment is None else IntegerAttr(alignment, i64),
                "volatile_": UnitAttr() if volatile else None,
                "nontemporal": UnitAttr() if nontemporal else None,
            },
        )


ATOMIC_BINARY = (
    *("xchg", "add", "sub", "_and", "nand", "_or", "_xor", "max", "min", "umax", "umin"),
    *("fadd", "fsub", "fmax", "fmin"),
)
"""MLIR's names of `bin_op`, by number."""


@irdl_op_definition
class AtomicRMWOp(IRDLOperation):
    """`old = *ptr; *ptr = bin_op(old, val)` in one step; `bin_op` indexes `ATOMIC_BINARY`, ordering 2 is relaxed."""

    name = "llvm.atomicrmw"
    T: ClassVar = VarConstraint("T", AnyAttr())
    ptr = operand_def(LLVMPointerType)
    val = operand_def(T)
    res = result_def(T)
    bin_op = prop_def(IntegerAttr.constr(base(IntegerType)))
    ordering = prop_def(IntegerAttr.constr(base(IntegerType)))

    def __init__(self, bin_op: str, ptr: SSAValue, val: SSAValue, ordering: int = 2):
        super().__init__(
            operands=[ptr, val],
            result_types=[val.type],
            properties={
                "bin_op": IntegerAttr(ATOMIC_BINARY.index(bin_op), i64),
                "ordering": IntegerAttr(ordering, i64),
            },
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {ATOMIC_BINARY[self.bin_op.value.data]} ")
        printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_string(f" {llvm.ATOMIC_ORDERING_KEYWORDS[self.ordering.value.data]} : ")
        printer.print_list([v.type for v in self.operands], printer.print_attribute)

    @classmethod
    def parse(cls, parser: Parser) -> "AtomicRMWOp":
        bin_op = parser.parse_identifier()
        if bin_op not in ATOMIC_BINARY:
            parser.raise_error(f"unknown atomic operation '{bin_op}'")
        ptr = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        val = parser.parse_unresolved_operand()
        keyword = parser.parse_identifier()
        orderings = {k: n for n, k in llvm.ATOMIC_ORDERING_KEYWORDS.items()}
        if keyword not in orderings:
            parser.raise_error(f"unknown atomic ordering '{keyword}'")
        parser.parse_punctuation(":")
        ptr_type = parser.parse_type()
        parser.parse_punctuation(",")
        val_type = parser.parse_type()
        ptr, val = parser.resolve_operand(ptr, ptr_type), parser.resolve_operand(val, val_type)
        return cls(bin_op, ptr, val, orderings[keyword])


class _MaskedOp(IRDLOperation):
    """Base of the masked memory ops: `alignment` is that of the whole access (load, store) or of a lane."""

    alignment = prop_def(IntegerAttr.constr(base(IntegerType)), default_value=IntegerAttr(1, i32))
    irdl_options = (ParsePropInAttrDict(),)


@irdl_op_definition
class MaskedLoadOp(_MaskedOp):
    """Lanes of `*data` where `mask`, else of `pass_thru`."""

    name = "llvm.intr.masked.load"
    T: ClassVar = VarConstraint("T", base(VectorType))
    data = operand_def(LLVMPointerType)
    mask = operand_def(VectorType.constr(base(I1)))
    pass_thru = operand_def(T)
    res = result_def(T)
    assembly_format = "operands attr-dict `:` functional-type(operands, results)"

    def __init__(self, data: SSAValue, mask: SSAValue, pass_thru: SSAValue, alignment: int = 1):
        super().__init__(
            operands=[data, mask, pass_thru],
            result_types=[pass_thru.type],
            properties={"alignment": IntegerAttr(alignment, i32)},
        )


@irdl_op_definition
class MaskedStoreOp(_MaskedOp):
    """Stores the lanes of `value` where `mask`."""

    name = "llvm.intr.masked.store"
    value = operand_def(base(VectorType))
    data = operand_def(LLVMPointerType)
    mask = operand_def(VectorType.constr(base(I1)))
    assembly_format = "$value `,` $data `,` $mask attr-dict `:` type($value) `,` type($mask) `into` type($data)"

    def __init__(self, value: SSAValue, data: SSAValue, mask: SSAValue, alignment: int = 1):
        super().__init__(operands=[value, data, mask], properties={"alignment": IntegerAttr(alignment, i32)})


@irdl_op_definition
class GatherOp(_MaskedOp):
    """Lane i is `*ptrs[i]` where `mask`, else `pass_thru[i]`."""

    name = "llvm.intr.masked.gather"
    T: ClassVar = VarConstraint("T", base(VectorType))
    ptrs = operand_def(VectorType.constr(base(LLVMPointerType)))
    mask = operand_def(VectorType.constr(base(I1)))
    pass_thru = operand_def(T)
    res = result_def(T)
    assembly_format = "operands attr-dict `:` functional-type(operands, results)"

    def __init__(self, ptrs: SSAValue, mask: SSAValue, pass_thru: SSAValue, alignment: int = 1):
        super().__init__(
            operands=[ptrs, mask, pass_thru],
            result_types=[pass_thru.type],
            properties={"alignment": IntegerAttr(alignment, i32)},
        )


@irdl_op_definition
class ScatterOp(_MaskedOp):
    """`*ptrs[i] = value[i]` where `mask`, in the order of the lanes."""

    name = "llvm.intr.masked.scatter"
    value = operand_def(base(VectorType))
    ptrs = operand_def(VectorType.constr(base(LLVMPointerType)))
    mask = operand_def(VectorType.constr(base(I1)))
    assembly_format = "$value `,` $ptrs `,` $mask attr-dict `:` type($value) `,` type($mask) `into` type($ptrs)"

    def __init__(self, value: SSAValue, ptrs: SSAValue, mask: SSAValue, alignment: int = 1):
        super().__init__(operands=[value, ptrs, mask], properties={"alignment": IntegerAttr(alignment, i32)})
