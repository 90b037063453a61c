"""Addresses, loads, stores and atomics of the tt dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeVar

from xdsl.dialects.builtin import I1, I32, DenseArrayBase, IntegerAttr, IntegerType, LocationAttr, TensorType, i1
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    VarConstraint,
    base,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from .tt_enums import CACHE, EVICT, PADDING, RMW, SCOPE, SEMANTIC
from .tt_pointwise import INTEGERS, POINTERS, same_shapes
from .tt_rules import check_in_memory
from .tt_syntax import parse_hints, parse_operands, parse_pointers, print_hints
from .tt_types import bits_of, bool_attr, element_of, i32_array, mask_of, pointee_of

MASKS = base(I1) | TensorType.constr(base(I1))


@irdl_op_definition
class AddPtrOp(IRDLOperation):
    """`ptr` moved on by `offset` elements."""

    name = "tt.addptr"
    T: ClassVar = VarConstraint("T", POINTERS)
    ptr = operand_def(T)
    offset = operand_def(INTEGERS)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$ptr `,` $offset attr-dict `:` type($result) `,` type($offset)"

    @classmethod
    def make(cls, ptr: SSAValue, offset: SSAValue, location: LocationAttr | None = None) -> AddPtrOp:
        return cls.create(operands=[ptr, offset], result_types=[ptr.type], location=location)

    def verify_(self) -> None:
        same_shapes(self)


@irdl_op_definition
class LoadOp(IRDLOperation):
    """What `ptr` points to; `other` where `mask` is false, and undefined there without `other`.

    A false mask reads no memory. `cache` and `evict` are hints, `isVolatile` forbids to merge or move the load; ptxas
    takes one of the three at a time.
    """

    name = "tt.load"
    ptr = operand_def(POINTERS)
    mask = opt_operand_def(MASKS)
    other = opt_operand_def()
    boundaryCheck = opt_prop_def(DenseArrayBase[I32])
    padding = opt_prop_def(IntegerAttr[I32])
    cache = opt_prop_def(IntegerAttr[I32])
    evict = opt_prop_def(IntegerAttr[I32])
    isVolatile = opt_prop_def(IntegerAttr.constr(i1))
    result = result_def()
    traits = traits_def(MemoryReadEffect())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @classmethod
    def make(
        cls,
        ptr: SSAValue,
        mask: SSAValue | None = None,
        other: SSAValue | None = None,
        *,
        cache: str = "none",
        evict: str = "evict_normal",
        volatile: bool = False,
        location: LocationAttr | None = None,
    ) -> LoadOp:
        operands = [v for v in (ptr, mask, other) if v is not None]
        return cls.create(
            operands=operands,
            result_types=[pointee_of(ptr.type)],
            properties=cls.properties_of(len(operands), {"cache": CACHE[cache], "evict": EVICT[evict]}, volatile),
            location=location,
        )

    @staticmethod
    def properties_of(operands: int, hints: Mapping[str, Attribute], volatile: bool = False) -> dict[str, Attribute]:
        """All properties of a load with that many operands: a mask comes second, `other` third."""
        return {
            "boundaryCheck": i32_array(),
            **hints,
            "isVolatile": bool_attr(volatile),
            "operandSegmentSizes": i32_array(1, int(operands > 1), int(operands > 2)),
        }

    def verify_(self) -> None:
        check_in_memory(element_of(self.result.type))
        expect(self.result.type, pointee_of(self.ptr.type), "a load through", self.ptr.type)
        if self.mask is not None:
            expect(self.mask.type, mask_of(self.ptr.type), "the mask for", self.ptr.type)
        if self.other is not None:
            if self.mask is None:
                raise VerifyException("other is what a mask leaves out: it needs a mask")
            expect(self.other.type, pointee_of(self.ptr.type), "other for", self.ptr.type)
        _check_words(self)

    @classmethod
    def parse(cls, parser: Parser) -> LoadOp:
        operands = parse_operands(parser)
        hints, attributes = parse_hints(parser)
        parser.parse_punctuation(":")
        ptr = parse_pointers(parser)
        types = [ptr, mask_of(ptr), pointee_of(ptr)]
        if len(operands) > len(types):
            parser.raise_error("tt.load takes a pointer, a mask and other")
        properties = cls.properties_of(len(operands), hints)
        properties |= {name: attributes.pop(name) for name in _LOAD_PROPERTIES if name in attributes}
        return cls.create(
            operands=[parser.resolve_operand(v, t) for v, t in zip(operands, types, strict=False)],
            result_types=[pointee_of(ptr)],
            properties=properties,
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        _print_hints(self, printer)


_LOAD_PROPERTIES = ("boundaryCheck", "padding", "isVolatile")


@irdl_op_definition
class StoreOp(IRDLOperation):
    """Writes `value` where `ptr` points and `mask` is true. Of several values for one address any one stays."""

    name = "tt.store"
    ptr = operand_def(POINTERS)
    value = operand_def()
    mask = opt_operand_def(MASKS)
    boundaryCheck = opt_prop_def(DenseArrayBase[I32])
    cache = opt_prop_def(IntegerAttr[I32])
    evict = opt_prop_def(IntegerAttr[I32])
    traits = traits_def(MemoryWriteEffect())

    @classmethod
    def make(
        cls,
        ptr: SSAValue,
        value: SSAValue,
        mask: SSAValue | None = None,
        *,
        cache: str = "none",
        evict: str = "evict_normal",
        location: LocationAttr | None = None,
    ) -> StoreOp:
        return cls.create(
            operands=[ptr, value] if mask is None else [ptr, value, mask],
            properties={"boundaryCheck": i32_array(), "cache": CACHE[cache], "evict": EVICT[evict]},
            location=location,
        )

    def verify_(self) -> None:
        check_in_memory(element_of(self.value.type))
        expect(self.value.type, pointee_of(self.ptr.type), "a store through", self.ptr.type)
        if self.mask is not None:
            expect(self.mask.type, mask_of(self.ptr.type), "the mask for", self.ptr.type)
        _check_words(self)

    @classmethod
    def parse(cls, parser: Parser) -> StoreOp:
        operands = parse_operands(parser)
        hints, attributes = parse_hints(parser)
        parser.parse_punctuation(":")
        ptr = parse_pointers(parser)
        types = [ptr, pointee_of(ptr), mask_of(ptr)]
        if not 2 <= len(operands) <= len(types):
            parser.raise_error("tt.store takes a pointer, a value and a mask")
        return cls.create(
            operands=[parser.resolve_operand(v, t) for v, t in zip(operands, types, strict=False)],
            properties={"boundaryCheck": attributes.pop("boundaryCheck", i32_array()), **hints},
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        _print_hints(self, printer)


def expect(found: Attribute, wanted: Attribute, what: str, type: Attribute) -> None:
    """Raise `VerifyException` unless `found` is the type `wanted`."""
    if found != wanted:
        raise VerifyException(f"{what} {type} is a {wanted}, not {found}")


def _check_words(op: LoadOp | StoreOp) -> None:
    for words, attribute in ((CACHE, op.cache), (EVICT, op.evict)):
        if attribute is not None:
            words.of(attribute)
    if isinstance(op, LoadOp) and op.padding is not None:
        PADDING.of(op.padding)


def _print_hints(op: LoadOp | StoreOp, printer: Printer) -> None:
    print_hints(printer, op.properties)
    left = {name: value for name in _LOAD_PROPERTIES if (value := op.properties.get(name)) is not None}
    for name, default in (("boundaryCheck", i32_array()), ("isVolatile", bool_attr(False))):
        if left.get(name) == default:
            del left[name]
    printer.print_op_attributes({**left, **op.attributes})
    printer.print_string(" : ")
    printer.print_attribute(op.ptr.type)


@irdl_op_definition
class AtomicRMWOp(IRDLOperation):
    """`*ptr = atomic_rmw_op(*ptr, val)` at once; the result is the old value, undefined where `mask` is false.

    Integers: and or xor add max min umax umin exch; floats: fadd exch (max and min of floats are those of their bits).
    """

    name = "tt.atomic_rmw"
    ptr = operand_def(POINTERS)
    val = operand_def()
    mask = opt_operand_def(MASKS)
    atomic_rmw_op = prop_def(IntegerAttr[I32])
    sem = prop_def(IntegerAttr[I32])
    scope = prop_def(IntegerAttr[I32])
    result = result_def()
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    @classmethod
    def make(
        cls,
        kind: str,
        ptr: SSAValue,
        val: SSAValue,
        mask: SSAValue | None = None,
        *,
        sem: str = "relaxed",
        scope: str = "gpu",
        location: LocationAttr | None = None,
    ) -> AtomicRMWOp:
        return cls.create(
            operands=[ptr, val] if mask is None else [ptr, val, mask],
            result_types=[val.type],
            properties={"atomic_rmw_op": RMW[kind], "sem": SEMANTIC[sem], "scope": SCOPE[scope]},
            location=location,
        )

    def verify_(self) -> None:
        kind = RMW.of(self.atomic_rmw_op)
        SEMANTIC.of(self.sem)
        SCOPE.of(self.scope)
        expect(self.val.type, pointee_of(self.ptr.type), "an atomic through", self.ptr.type)
        expect(self.result.type, self.val.type, "the old value of", self.val.type)
        if self.mask is not None:
            expect(self.mask.type, mask_of(self.ptr.type), "the mask for", self.ptr.type)
        element = element_of(self.val.type)
        if kind != "exch" and isinstance(element, IntegerType) == (kind == "fadd"):
            raise VerifyException(f"{kind} of {element}: floats take fadd and exch, integers all but fadd")
        if bits_of(element) not in ((16, 32, 64) if kind == "fadd" else (32, 64)):
            raise VerifyException(f"there is no {kind} of {element}")

    @classmethod
    def parse(cls, parser: Parser) -> AtomicRMWOp:
        properties: dict[str, Attribute] = {}
        for name, words in (("atomic_rmw_op", RMW), ("sem", SEMANTIC), ("scope", SCOPE)):
            properties[name] = words.parse(parser)
            parser.parse_punctuation(",")
        return _parse_functional(cls, parser, properties)

    def print(self, printer: Printer) -> None:
        words = (RMW.of(self.atomic_rmw_op), SEMANTIC.of(self.sem), SCOPE.of(self.scope))
        _print_functional(self, printer, words)


@irdl_op_definition
class AtomicCASOp(IRDLOperation):
    """If `*ptr == cmp` then `*ptr = val`, at once; the result is the old value."""

    name = "tt.atomic_cas"
    ptr = operand_def(POINTERS)
    cmp = operand_def()
    val = operand_def()
    sem = prop_def(IntegerAttr[I32])
    scope = prop_def(IntegerAttr[I32])
    result = result_def()
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    @classmethod
    def make(
        cls,
        ptr: SSAValue,
        cmp: SSAValue,
        val: SSAValue,
        *,
        sem: str = "relaxed",
        scope: str = "gpu",
        location: LocationAttr | None = None,
    ) -> AtomicCASOp:
        properties = {"sem": SEMANTIC[sem], "scope": SCOPE[scope]}
        return cls.create(operands=[ptr, cmp, val], result_types=[val.type], properties=properties, location=location)

    def verify_(self) -> None:
        SEMANTIC.of(self.sem)
        SCOPE.of(self.scope)
        if bits_of(element_of(self.val.type)) not in (16, 32, 64):
            raise VerifyException(f"there is no compare and swap of {element_of(self.val.type)}")
        for value in (self.cmp, self.val, self.result):
            expect(value.type, pointee_of(self.ptr.type), "an atomic through", self.ptr.type)

    @classmethod
    def parse(cls, parser: Parser) -> AtomicCASOp:
        properties: dict[str, Attribute] = {}
        for name, words in (("sem", SEMANTIC), ("scope", SCOPE)):
            properties[name] = words.parse(parser)
            parser.parse_punctuation(",")
        return _parse_functional(cls, parser, properties)

    def print(self, printer: Printer) -> None:
        _print_functional(self, printer, (SEMANTIC.of(self.sem), SCOPE.of(self.scope)))


_Op = TypeVar("_Op", bound=IRDLOperation)


def _parse_functional(cls: type[_Op], parser: Parser, properties: dict[str, Attribute]) -> _Op:
    start = parser.pos
    operands = parse_operands(parser)
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    type = parser.parse_function_type()
    return cls.create(
        operands=parser.resolve_operands(operands, type.inputs.data, start),
        result_types=type.outputs.data,
        properties=properties,
        attributes=attributes,
    )


def _print_functional(op: IRDLOperation, printer: Printer, words: Sequence[str]) -> None:
    printer.print_string(f" {', '.join(words)}, ")
    printer.print_list(op.operands, printer.print_ssa_value)
    printer.print_op_attributes(op.attributes)
    printer.print_string(" : ")
    printer.print_operation_type(op)
