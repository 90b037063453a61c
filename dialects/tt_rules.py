"""What Triton's compiler does not take, though its parser does: sizes, types and ops of a whole function.

Some of it ends Triton's process, the rest gives errors without a place. Found by compiling each with Triton 3.6.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType, TensorType
from xdsl.ir import Attribute, Operation, Region
from xdsl.utils.exceptions import VerifyException

from .errors import LamellaVerifyError
from .tt_types import MAX_ELEMENTS, PtrType, bits_of, element_of, shape_of

_LIBDEVICE = "tt.extern_elementwise of __nv_"

ON_SCALARS_ONLY: dict[str, str] = {
    "arith.negf": "arith.subf from -0.0",
    "arith.bitcast": "tt.bitcast",
    "math.cbrt": f"{_LIBDEVICE}cbrt",
    "math.copysign": f"{_LIBDEVICE}copysign",
    "math.ctlz": f"{_LIBDEVICE}clz",
    "math.ctpop": f"{_LIBDEVICE}popc",
    "math.isinf": "arith.cmpf of math.absf",
    "math.isnan": "arith.cmpf uno",
    "math.powf": f"{_LIBDEVICE}pow",
    "math.round": f"{_LIBDEVICE}round",
    "math.roundeven": f"{_LIBDEVICE}rint",
    "math.trunc": f"{_LIBDEVICE}trunc",
    **{
        f"math.{name}": f"{_LIBDEVICE}{name}"
        for name in (
            *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cosh", "erfc", "expm1", "log10", "log1p"),
            *("sinh", "tan", "tanh"),
        )
    },
}
"""Ops without code for tensors, and what there is instead."""


def check_function(body: Region) -> None:
    """Check the ops of a function. Raises `LamellaVerifyError` for the first that breaks a rule."""
    known: set[Attribute] = set()
    for op in _ops(body):
        for type in op.result_types:
            if type not in known:
                if (wrong := wrong_size(type)) is not None:
                    raise LamellaVerifyError(op, wrong)
                known.add(type)
        if (wrong := _wrong_op(op)) is not None:
            raise LamellaVerifyError(op, wrong)


def _ops(region: Region) -> Iterator[Operation]:
    for block in region.blocks:
        for op in block.ops:
            yield op
            for inner in op.regions:
                yield from _ops(inner)


def wrong_size(type: Attribute) -> str | None:
    """Why a tensor of this type cannot be, if so."""
    count = 1
    for size in shape_of(type):
        if size <= 0 or size & (size - 1):
            return f"sizes of tensors are powers of two, not {type}"
        count *= size
    if count > MAX_ELEMENTS:
        return f"a tensor has at most {MAX_ELEMENTS} elements, not {count}: {type}"
    return None


def _wrong_op(op: Operation) -> str | None:
    dialect = op.name.partition(".")[0]
    if dialect not in ("arith", "math") or not op.results:
        return None
    operand = op.operands[0].type if op.operands else op.results[0].type
    element = element_of(operand)
    same = op.name == "arith.bitcast" and operand == op.results[0].type  # Triton leaves those out
    if isinstance(operand, TensorType) and op.name in ON_SCALARS_ONLY and not same:
        return f"has no code for tensors; there is {ON_SCALARS_ONLY[op.name]}"
    if op.name == "arith.divf" and bits_of(element) == 16:
        return f"has no code for {element}; divide in f32"
    small = next((e for t in (operand, op.results[0].type) if _is_f8(e := element_of(t))), None)
    if small is not None and op.name not in ("arith.constant", "arith.select"):
        return f"has no code for {small}; tt.fp_to_fp converts it"
    return None


def _is_f8(element: Attribute) -> bool:
    return isinstance(element, AnyFloat) and element.bitwidth == 8


def check_in_memory(element: Attribute) -> None:
    """Raise `VerifyException` if no pointer may be followed to `element`."""
    if isinstance(element, IntegerType):
        if element.width.data == 1:
            raise VerifyException("a bool is an i8 in memory: Triton aborts on pointers to i1 that are followed")
        if element.width.data not in (8, 16, 32, 64):
            raise VerifyException(f"no memory holds {element}")
    elif isinstance(element, PtrType):
        raise VerifyException("pointers in memory are i64: Triton aborts on pointers to pointers")
    elif isinstance(element, IndexType) or not isinstance(element, AnyFloat):
        raise VerifyException(f"no memory holds {element}")
