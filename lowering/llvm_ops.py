"""Appends llvm ops: pure ones at the outermost loop that has their operands, each only once; others at the end.

LLVM's mid-level passes are not run on kernels, so loop-invariant code is placed outside as it is built: a scope per
loop keeps the block in front of it open until the loop is closed, and a pure op goes to the scope of its innermost
operand. Branches stop that movement: what is inside is not computed where the branch is not taken. Loads also stay
within loops that may not run at all, behind their guard.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    UnitAttr,
    VectorType,
    i1,
    i8,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..dialects import llvm_ext
from ..dialects.llvm_ext import PTR
from .llvm_properties import (
    CONTRACT,
    FCMP,
    ICMP,
    NO_FLAGS,
    NOTHING,
    WRAP,
    Properties,
    bits_of,
    element_of,
    float_attribute,
    function_call,
    gep_index,
    integer_attribute,
    intern,
    intrinsic_call,
    lanes_of,
    memory_access,
    shuffle_mask,
    streaming_access,
    vector,
)

Num: TypeAlias = "int | SSAValue"
"""An i64 that is known (an int) or not; also a vector of i64."""


class Scope:
    """A place where ops go: the block that is open, and the pure ops that are there already."""

    __slots__ = ("block", "known")

    def __init__(self, block: Block):
        self.block = block
        self.known: dict[Any, SSAValue] = {}


class OpBuilder:
    """The ops of a function under construction. Scope 0 is the function; each loop or branch that is open adds one."""

    def __init__(self, entry: Block, first: Block, contract: bool):
        self.entry = entry
        self.scopes = [Scope(first)]
        self.location: LocationAttr = UNKNOWN_LOC
        self.levels: dict[SSAValue, int] = {}
        self.constants: dict[Any, SSAValue] = {}
        self.float_flags = CONTRACT if contract else NO_FLAGS
        self.floor = 0
        self.load_floor = 0

    # ------------------------------------------------------------------------------------------------------- placing

    def level(self, value: Num) -> int:
        """The scope a value belongs to: 0 is outside of all loops, -1 a known number."""
        return -1 if isinstance(value, int) else self.levels.get(value, 0)

    def pure(
        self,
        cls: type[Operation],
        operands: Sequence[SSAValue],
        type: Attribute,
        properties: Properties = NOTHING,
        key: Any = None,
        floor: int | None = None,
    ) -> SSAValue:
        """The result of an op without effects, at the outermost place it can stand; made once for equal operands.

        `properties` are shared objects, or `key` tells them apart. It stays within scope `floor`.
        """
        levels, scopes = self.levels, self.scopes
        level = max([levels.get(v, 0) for v in operands], default=0)
        full = (cls, id(type), id(properties) if key is None else key, *operands)
        for at in range(level, len(scopes)):
            known = scopes[at].known.get(full)
            if known is not None:
                return known
        level = max(level, self.floor if floor is None else floor)
        op = cls.create(operands=operands, result_types=[type], properties=properties, location=self.location)
        scopes[level].block.add_op(op)
        result = op.results[0]
        if level:
            levels[result] = level
        scopes[level].known[full] = result
        return result

    def place(self, op: Operation) -> SSAValue:
        """Puts an op without effects that somebody else made where `pure` would, and gives its result."""
        op.location = self.location
        if isinstance(op, llvm_ext.ConstantOp):
            self.entry.add_op(op)
            return op.results[0]
        level = max([self.levels.get(v, 0) for v in op.operands], default=0)
        level = max(level, self.floor)
        self.scopes[level].block.add_op(op)
        result = op.results[0]
        if level:
            self.levels[result] = level
        return result

    def effect(
        self,
        cls: type[Operation],
        operands: Sequence[SSAValue],
        types: Sequence[Attribute] = (),
        properties: Properties = NOTHING,
        successors: Sequence[Block] = (),
    ) -> Operation:
        """An op that stays where the code is being written."""
        op = cls.create(
            operands=operands,
            result_types=types,
            properties=properties,
            successors=successors,
            location=self.location,
        )
        self.scopes[-1].block.add_op(op)
        level = len(self.scopes) - 1
        if level:
            for result in op.results:
                self.levels[result] = level
        return op

    def at_entry(self, cls: type[Operation], operands: Sequence[SSAValue], properties: Properties = NOTHING) -> None:
        """An op that runs once, on constants and slots of the stack."""
        self.entry.add_op(cls.create(operands=operands, properties=properties, location=self.location))

    # ------------------------------------------------------------------------------------------------------ constants

    def constant(self, value: float | int, type: Attribute) -> SSAValue:
        """`value` in every lane of `type`, which comes from `vector` or is a scalar type."""
        key = (id(type), value.__class__, repr(value))
        known = self.constants.get(key)
        if known is None:
            element = cast(VectorType[Attribute], type).element_type if isinstance(type, VectorType) else type
            if isinstance(element, IntegerType):
                attribute: Attribute = integer_attribute(int(value), element.width.data)
            else:
                attribute = float_attribute(repr(float(value)), element)
            known = self.constants[key] = self._constant(attribute, type)
        return known

    def _constant(self, attribute: Attribute, type: Attribute) -> SSAValue:
        op = llvm_ext.ConstantOp.create(properties={"value": attribute}, result_types=[type], location=self.location)
        self.entry.add_op(op)
        return op.results[0]

    def dense(self, values: Sequence[int], element: IntegerType) -> SSAValue:
        """A vector of integers."""
        key = ("dense", element.width.data, tuple(values))
        known = self.constants.get(key)
        if known is None:
            type = vector(element, len(values))
            attribute = DenseIntOrFPElementsAttr.from_list(cast(Any, type), list(values))
            known = self.constants[key] = self._constant(attribute, type)
        return known

    def iota(self, lanes: int, element: IntegerType = i64) -> SSAValue:
        """<0, 1, 2, …>."""
        return self.dense(range(lanes), element)

    def opaque(self, values: Sequence[int], element: IntegerType) -> SSAValue:
        """A vector of integers that LLVM takes for unknown ones; it is read from the stack when the function begins."""
        key = ("opaque", element.width.data, tuple(values))
        known = self.constants.get(key)
        if known is None:
            value = self.dense(values, element)
            slot = self.alloca(len(values) * element.width.data // 8)
            self.at_entry(llvm_ext.StoreOp, (value, slot), memory_access(64))
            read = llvm_ext.LoadOp.create(
                operands=[slot],
                result_types=[value.type],
                properties={**memory_access(64), "volatile_": UnitAttr()},
                location=self.location,
            )
            self.entry.add_op(read)
            known = self.constants[key] = read.results[0]
        return known

    def poison(self, type: Attribute) -> SSAValue:
        key = ("poison", id(type))
        known = self.constants.get(key)
        if known is None:
            op = llvm_ext.PoisonOp.create(result_types=[type], location=self.location)
            self.entry.add_op(op)
            known = self.constants[key] = op.results[0]
        return known

    def is_constant(self, value: SSAValue) -> bool:
        return isinstance(value.owner, llvm_ext.ConstantOp)

    def literal(self, value: Num) -> int | None:
        """The number that a scalar integer value is known to be."""
        if isinstance(value, int):
            return value
        if isinstance(value.owner, llvm_ext.ConstantOp) and isinstance(value.owner.value, IntegerAttr):
            return cast("IntegerAttr[IntegerType]", value.owner.value).value.data
        return None

    def number(self, value: Num, type: Attribute = i64) -> SSAValue:
        """An index as a value."""
        return self.constant(value, type) if isinstance(value, int) else value

    # ----------------------------------------------------------------------------------------------------- arithmetic

    def binary(self, cls: type[Operation], a: SSAValue, b: SSAValue, properties: Properties = NOTHING) -> SSAValue:
        """An op of two operands and a result of one type; a scalar beside a vector is repeated."""
        a, b = self.same_lanes(a, b)
        return self.pure(cls, (a, b), a.type, properties)

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.binary(llvm.AddOp, a, b, WRAP)

    def sub(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.binary(llvm.SubOp, a, b, WRAP)

    def mul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.binary(llvm.MulOp, a, b, WRAP)

    def shl(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.binary(llvm.ShlOp, a, b, WRAP)

    def fadd(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.binary(llvm.FAddOp, a, b, self.float_flags)

    def fsub(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.binary(llvm.FSubOp, a, b, self.float_flags)

    def fmul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.binary(llvm.FMulOp, a, b, self.float_flags)

    def fdiv(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.binary(llvm.FDivOp, a, b, NO_FLAGS)

    def icmp(self, predicate: str, a: SSAValue, b: SSAValue) -> SSAValue:
        a, b = self.same_lanes(a, b)
        return self.pure(llvm_ext.ICmpOp, (a, b), vector(i1, lanes_of(a)), ICMP[predicate])

    def fcmp(self, predicate: str, a: SSAValue, b: SSAValue) -> SSAValue:
        a, b = self.same_lanes(a, b)
        return self.pure(llvm_ext.FCmpOp, (a, b), vector(i1, lanes_of(a)), FCMP[predicate])

    def select(self, cond: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        a, b = self.same_lanes(a, b)
        if lanes_of(cond) > lanes_of(a):
            a, b = self.splat(a, lanes_of(cond)), self.splat(b, lanes_of(cond))
        return self.pure(llvm_ext.SelectOp, (cond, a, b), a.type, NO_FLAGS)

    def cast(self, cls: type[Operation], value: SSAValue, element: Attribute) -> SSAValue:
        """A conversion of every lane."""
        return self.pure(cls, (value,), vector(element, lanes_of(value)))

    def resize(self, value: SSAValue, element: IntegerType, signed: bool = True) -> SSAValue:
        """An integer of another width."""
        have, want = bits_of(value), element.width.data
        if have == want:
            return value
        return self.cast(llvm.TruncOp if have > want else llvm.SExtOp if signed else llvm.ZExtOp, value, element)

    def intrinsic(
        self, name: str, operands: Sequence[SSAValue], type: Attribute, flags: Properties = NO_FLAGS
    ) -> SSAValue:
        """A call of `llvm.name`, which has no effects."""
        return self.pure(llvm.CallIntrinsicOp, operands, type, intrinsic_call(name, len(operands), id(flags), flags))

    def effect_intrinsic(self, name: str, operands: Sequence[SSAValue]) -> None:
        self.effect(llvm.CallIntrinsicOp, operands, (), intrinsic_call(name, len(operands), id(NO_FLAGS), NO_FLAGS))

    def call(self, name: str | None, operands: Sequence[SSAValue], type: Attribute | None = None) -> SSAValue | None:
        """A call of a function, with effects; without a name, of the one whose address is the first operand."""
        op = self.effect(llvm.CallOp, operands, () if type is None else (type,), function_call(name, len(operands)))
        return op.results[0] if type is not None else None

    # ---------------------------------------------------------------------------------------------------------- lanes

    def splat(self, value: SSAValue, lanes: int) -> SSAValue:
        """A scalar in every lane."""
        if lanes == 1 or isinstance(value.type, VectorType):
            return value
        type = vector(value.type, lanes)
        owner = value.owner
        if isinstance(owner, llvm_ext.ConstantOp):
            key = (id(type), "splat", value)
            known = self.constants.get(key)
            if known is None:
                known = self.constants[key] = self._constant(owner.value, type)
            return known
        first = self.insert(self.poison(type), value, 0)
        return self.pure(llvm.ShuffleVectorOp, (first, first), type, shuffle_mask((0,) * lanes))

    def same_lanes(self, a: SSAValue, b: SSAValue) -> tuple[SSAValue, SSAValue]:
        """Two values with one number of lanes: a scalar is repeated beside a vector."""
        if isinstance(a.type, VectorType):
            return a, self.splat(b, lanes_of(a))
        if isinstance(b.type, VectorType):
            return self.splat(a, lanes_of(b)), b
        return a, b

    def insert(self, into: SSAValue, value: SSAValue, lane: int) -> SSAValue:
        return self.pure(llvm.InsertElementOp, (into, value, self.constant(lane, i64)), into.type)

    def extract(self, value: SSAValue, lane: int) -> SSAValue:
        return self.pure(llvm_ext.ExtractElementOp, (value, self.constant(lane, i64)), intern(element_of(value)))

    def shuffle(self, a: SSAValue, b: SSAValue, lanes: Sequence[int]) -> SSAValue:
        """Lanes picked from `a` followed by `b`."""
        return self.pure(llvm.ShuffleVectorOp, (a, b), vector(element_of(a), len(lanes)), shuffle_mask(tuple(lanes)))

    # ---------------------------------------------------------------------------------------------------------- index

    def index_add(self, a: Num, b: Num) -> Num:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0:
            return b
        if b == 0:
            return a
        return self.add(self.number(a), self.number(b))

    def index_sub(self, a: Num, b: Num) -> Num:
        if isinstance(b, int):
            return self.index_add(a, -b)
        return self.sub(self.number(a), b)

    def index_mul(self, a: Num, b: Num) -> Num:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        for one, other in ((a, b), (b, a)):
            if isinstance(one, int) and one in (0, 1):
                return one and other
        return self.mul(self.number(a), self.number(b))

    def index_min(self, a: Num, b: Num) -> Num:
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        x, y = self.number(a), self.number(b)
        return self.select(self.icmp("slt", x, y), x, y)

    # --------------------------------------------------------------------------------------------------------- memory

    def gep(self, pointer: SSAValue, offset: Num, element: Attribute) -> SSAValue:
        """The address `offset` elements on; a vector of offsets gives a vector of addresses."""
        if isinstance(offset, int) and offset == 0:
            return pointer
        element = intern(element)
        if isinstance(offset, int) and -(2**31) <= offset < 2**31 and offset != llvm.GEP_USE_SSA_VAL:
            return self.pure(llvm_ext.GEPOp, (pointer,), pointer.type, gep_index(offset, element))
        value = self.number(offset)
        type = vector(PTR, max(lanes_of(pointer), lanes_of(value)))
        return self.pure(llvm_ext.GEPOp, (pointer, value), type, gep_index(llvm.GEP_USE_SSA_VAL, element))

    def load(self, pointer: SSAValue, type: Attribute, alignment: int, invariant: bool = False) -> SSAValue:
        """`invariant`: nobody writes there while the function runs, so that it may be read earlier."""
        properties = memory_access(alignment)
        if invariant:
            return self.pure(llvm_ext.LoadOp, (pointer,), type, properties, floor=self.load_floor)
        return self.effect(llvm_ext.LoadOp, (pointer,), (type,), properties).results[0]

    def store(self, value: SSAValue, pointer: SSAValue, alignment: int, nontemporal: bool = False) -> None:
        properties = streaming_access(alignment) if nontemporal else memory_access(alignment)
        self.effect(llvm_ext.StoreOp, (value, pointer), (), properties)

    def alloca(self, size: int, alignment: int = 64) -> SSAValue:
        """`size` bytes of the stack frame."""
        op = llvm.AllocaOp.create(
            operands=[self.constant(size, i64)],
            result_types=[PTR],
            properties={"alignment": IntegerAttr(alignment, i64), "elem_type": i8},
            location=self.location,
        )
        self.entry.add_op(op)
        return op.results[0]
