"""Elementwise ops of `prims`: operands and results have one shape, nothing is broadcast or promoted.

Floats follow IEEE 754 in the dtype of the operands; integers wrap around. Unless a docstring says
otherwise, the result has the dtype of the operands.
"""

from __future__ import annotations

from abc import ABC
from typing import ClassVar, Self

from xdsl.dialects.builtin import StringAttr, UnitAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from .prims_base import FLAG, SCALAR, STRING, PrimsOp, Scalar
from .tensor import HALVES, TensorType, is_complex, is_float, is_integer, itemsize

FLOAT, INTEGER, BOOL, NUMBER, ANY = "floats", "integers", "i1", "numbers", "any dtype"


def _accepts(kind: str, dtype: str) -> bool:
    if kind == FLOAT:
        return is_float(dtype)
    if kind == INTEGER:
        return is_integer(dtype) or dtype == "i1"
    if kind == NUMBER:
        return is_float(dtype) or is_integer(dtype)
    return not is_complex(dtype)


class ElementwiseOp(PrimsOp, ABC):
    """All operands and the result have one shape."""

    ACCEPTS: ClassVar[str] = NUMBER
    """The dtypes it is defined for."""

    def verify_(self) -> None:
        self.verify_elementwise(self._operands)
        result, first = self.tensor(self.results[0]), self.tensor(self._operands[0])
        self.expect_dtype("a result", result, first.dtype)

    def verify_elementwise(self, operands: tuple[SSAValue, ...]) -> None:
        """Operands have one dtype that the op accepts, and the shape of the result."""
        result = self.tensor(self.results[0])
        first = self.tensor(operands[0])
        if not _accepts(self.ACCEPTS, first.dtype):
            self.reject(f"is defined for {self.ACCEPTS}, got {first.dtype}")
        for v in operands:
            t = self.tensor(v)
            self.expect_dtype("operands of one dtype, all", t, first.dtype)
            self.expect_shape("an operand", t, result.shape)


class UnaryOp(ElementwiseOp, ABC):
    operand = operand_def(TensorType)
    result = result_def(TensorType)

    @classmethod
    def make(cls, operand: SSAValue, result_type: TensorType | None = None) -> Self:
        return cls.create(operands=(operand,), result_types=(result_type or operand.type,))


class FloatUnaryOp(UnaryOp, ABC):
    ACCEPTS: ClassVar[str] = FLOAT


class BinaryOp(ElementwiseOp, ABC):
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)

    @classmethod
    def make(cls, lhs: SSAValue, rhs: SSAValue, result_type: TensorType | None = None) -> Self:
        return cls.create(operands=(lhs, rhs), result_types=(result_type or lhs.type,))


class FloatBinaryOp(BinaryOp, ABC):
    ACCEPTS: ClassVar[str] = FLOAT


class IntegerBinaryOp(BinaryOp, ABC):
    ACCEPTS: ClassVar[str] = INTEGER


class CompareOp(BinaryOp, ABC):
    """The result is i1; a comparison with NaN is false, except `ne`. `i1` operands order as false < true."""

    ACCEPTS: ClassVar[str] = ANY

    def verify_(self) -> None:
        self.verify_elementwise(self._operands)
        self.expect_dtype("a result", self.tensor(self.results[0]), "i1")

    @classmethod
    def make(cls, lhs: SSAValue, rhs: SSAValue, result_type: TensorType | None = None) -> Self:
        assert isinstance(lhs.type, TensorType)
        return cls.create(operands=(lhs, rhs), result_types=(result_type or lhs.type.with_(dtype="i1"),))


class PredicateOp(FloatUnaryOp, ABC):
    """The result is i1."""

    def verify_(self) -> None:
        self.verify_elementwise(self._operands)
        self.expect_dtype("a result", self.tensor(self.results[0]), "i1")

    @classmethod
    def make(cls, operand: SSAValue, result_type: TensorType | None = None) -> Self:
        assert isinstance(operand.type, TensorType)
        return cls.create(operands=(operand,), result_types=(result_type or operand.type.with_(dtype="i1"),))


@irdl_op_definition
class SelectOp(ElementwiseOp):
    """result = condition ? a : b; the condition is i1."""

    name = "prims.select"
    ACCEPTS: ClassVar[str] = ANY
    condition = operand_def(TensorType)
    on_true = operand_def(TensorType)
    on_false = operand_def(TensorType)
    result = result_def(TensorType)

    def verify_(self) -> None:
        condition = self.tensor(self._operands[0])
        result = self.tensor(self.results[0])
        self.expect_dtype("a condition", condition, "i1")
        self.expect_shape("a condition", condition, result.shape)
        self.verify_elementwise(self._operands[1:])
        self.expect_dtype("a result", result, self.tensor(self._operands[1]).dtype)

    @classmethod
    def make(
        cls, condition: SSAValue, on_true: SSAValue, on_false: SSAValue, result_type: TensorType | None = None
    ) -> Self:
        return cls.create(operands=(condition, on_true, on_false), result_types=(result_type or on_true.type,))


@irdl_op_definition
class FmaOp(ElementwiseOp):
    """result = a * b + c of floats, rounded once; twice on machines without such an instruction."""

    name = "prims.fma"
    ACCEPTS: ClassVar[str] = FLOAT
    a = operand_def(TensorType)
    b = operand_def(TensorType)
    c = operand_def(TensorType)
    result = result_def(TensorType)

    def verify_(self) -> None:
        self.verify_elementwise(self._operands)
        self.expect_dtype("a result", self.tensor(self.results[0]), self.tensor(self._operands[0]).dtype)

    @classmethod
    def make(cls, a: SSAValue, b: SSAValue, c: SSAValue) -> Self:
        return cls.create(operands=(a, b, c), result_types=(c.type,))


@irdl_op_definition
class CheckedOp(ElementwiseOp):
    """result = a; raises what `message` says (raised.py) where the condition, which is i1, does not hold."""

    name = "prims.checked"
    ACCEPTS: ClassVar[str] = ANY
    FIELDS: ClassVar = {"message": STRING}
    message = prop_def(StringAttr)
    condition = operand_def(TensorType)
    operand = operand_def(TensorType)
    result = result_def(TensorType)

    def verify_(self) -> None:
        condition, result = self.tensor(self._operands[0]), self.tensor(self.results[0])
        self.expect_dtype("a condition", condition, "i1")
        self.expect_shape("a condition", condition, result.shape)
        self.verify_elementwise(self._operands[1:])
        self.expect_dtype("a result", result, self.tensor(self._operands[1]).dtype)

    @classmethod
    def make(cls, condition: SSAValue, operand: SSAValue, message: str) -> Self:
        properties = {"message": StringAttr(message)}
        return cls.create(operands=(condition, operand), result_types=(operand.type,), properties=properties)


@irdl_op_definition
class ConvertOp(UnaryOp):
    """x in the dtype and layout of the result.

    As C casts: float to integer truncates, to i1 is `x != 0`, wider to narrower integers wrap. With equal dtypes it
    is a copy: a new tensor with the same elements, perhaps in another layout. `rounding` marks a convert to f16/bf16
    that only mirrors eager's rounding of an intermediate result, and that may be dropped with the convert back.
    """

    name = "prims.convert"
    ACCEPTS: ClassVar[str] = ANY
    OPTIONAL: ClassVar[tuple[str, ...]] = ("rounding",)
    rounding = opt_prop_def(UnitAttr)

    def verify_(self) -> None:
        self.verify_elementwise(self._operands)
        result = self.tensor(self.results[0])
        if not _accepts(ANY, result.dtype):
            self.reject(f"is not defined for {result.dtype}")
        if self.rounding is not None and result.dtype not in HALVES:
            self.reject(f"expected 'rounding' on a convert to f16 or bf16, got {result.dtype}")

    @classmethod
    def make(cls, operand: SSAValue, result_type: TensorType | None = None, *, rounding: bool = False) -> Self:
        return cls.create(
            operands=(operand,),
            result_types=(result_type or operand.type,),
            properties={"rounding": FLAG} if rounding else {},
        )


@irdl_op_definition
class BitcastOp(UnaryOp):
    """The bits of x read as another dtype of the same size."""

    name = "prims.bitcast"
    ACCEPTS: ClassVar[str] = ANY

    def verify_(self) -> None:
        self.verify_elementwise(self._operands)
        source, result = self.tensor(self._operands[0]), self.tensor(self.results[0])
        if itemsize(source.dtype) != itemsize(result.dtype):
            self.reject(f"expected dtypes of one size, got {source.dtype} and {result.dtype}")


@irdl_op_definition
class FullOp(PrimsOp):
    """Every element is `value`: a number, or an expression over sizes."""

    name = "prims.full"
    FIELDS: ClassVar = {"value": SCALAR}
    value = prop_def(Scalar)
    result = result_def(TensorType)

    def verify_(self) -> None:
        dtype = self.tensor(self.results[0]).dtype
        value = self.value.value
        if is_complex(dtype):
            self.reject(f"is not defined for {dtype}")
        if isinstance(value, float) and not is_float(dtype):
            self.reject(f"expected an integer value for {dtype}, got {self.value.text}")
        if isinstance(value, bool) != (dtype == "i1"):
            self.reject(f"expected true or false for i1, and for i1 only; got {self.value.text} for {dtype}")

    @classmethod
    def make(cls, value: Scalar, result_type: TensorType) -> Self:
        return cls.create(result_types=(result_type,), properties={"value": value})


@irdl_op_definition
class IotaOp(PrimsOp):
    """result[…, i, …] = i along `dim`. Not for i1."""

    name = "prims.iota"
    FIELDS: ClassVar = {"dim": SCALAR}
    dim = prop_def(Scalar)
    result = result_def(TensorType)

    def verify_(self) -> None:
        t = self.tensor(self.results[0])
        if not _accepts(NUMBER, t.dtype):
            self.reject(f"is defined for {NUMBER}, got {t.dtype}")
        expect_dim(self, t.rank)

    @classmethod
    def make(cls, dim: int, result_type: TensorType) -> Self:
        return cls.create(result_types=(result_type,), properties={"dim": Scalar.get(dim)})


def expect_dim(op: PrimsOp, rank: int) -> int:
    """The attribute `dim` as a dim of a tensor of that rank. Raises VerifyException."""
    attribute = op.properties["dim"]
    dim = attribute.value if isinstance(attribute, Scalar) else None
    if type(dim) is not int or not 0 <= dim < rank:
        raise VerifyException(f"expected 'dim' within 0..{rank - 1}, got {getattr(attribute, 'text', attribute)}")
    return dim
