"""Math functions as llvm-dialect ops, on f32 and f64, scalars and vectors of any width.

`VectorMath(emit, target)("exp", x)` appends the ops of one function and gives its result. Special values (NaN, inf,
-0.0, denormals) and accuracy follow torch's eager kernels. f32 functions with a polynomial are written out
(`vector_math_poly`), the others are calls (`vector_math_calls`): after building functions, `undeclared_callees`.
"""

from collections.abc import Callable, Mapping

from xdsl.ir import SSAValue

from . import vector_math_derived as derived
from . import vector_math_poly as poly
from . import vector_math_table as table
from .philox import philox, philox32
from .vector_math_calls import FUNCTIONS, call, undeclared_callees
from .vector_value import Builder, Emit, MathTarget, Value

__all__ = ["MATH", "Emit", "MathTarget", "VectorMath", "undeclared_callees"]

Function = Callable[..., Value]


def _called(name: str) -> Function:
    return lambda *operands: call(name, *operands)


def _intrinsic(name: str) -> Function:
    return lambda *operands: operands[0].b.intrinsic(name, *operands)


def _written(name: str) -> Function:
    """The polynomial for f32, a call for f64."""
    single: Function = getattr(poly, name)
    return lambda x: call(name, x) if x.is_double else single(x)


def _hyperbolic(name: str) -> Function:
    return lambda x: derived.hyperbolic(x, lambda y: call(name, y))


def _erf(x: Value) -> Value:
    if x.is_double:
        return call("erf", x)
    return table.erf(x) if table.has_tables(x) else poly.erf(x)


_WRITTEN = {name: _written(name) for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "tanh")}


def _erfinv(y: Value) -> Value:
    return derived.erfinv(y, call) if y.is_double else derived.erfinv_single(y, poly.log, poly.exp, call)


MATH: Mapping[str, Function] = {
    **{name: _called(name) for name in FUNCTIONS},
    **_WRITTEN,
    "exp_bf16": lambda x: call("exp", x) if x.is_double else poly.exp_bf16(x),
    "exp_f16": lambda x: call("exp", x) if x.is_double else poly.exp_f16(x),
    "exp2_bf16": lambda x: call("exp2", x) if x.is_double else poly.exp2_bf16(x),
    "exp2_f16": lambda x: call("exp2", x) if x.is_double else poly.exp2_f16(x),
    "erf": _erf,
    **{name: _intrinsic(name) for name in ("sqrt", "floor", "ceil", "trunc", "roundeven", "fabs", "copysign")},
    "rsqrt": lambda x: 1.0 / x.sqrt(),
    "sigmoid": lambda x: 1.0 / (_WRITTEN["exp"](-x) + 1.0),
    **{name: _hyperbolic(name) for name in ("sinh", "cosh")},
    "asinh": lambda x: derived.asinh(x, _WRITTEN["log1p"]),
    "acosh": lambda x: derived.acosh(x, _WRITTEN["log1p"]),
    "erfinv": _erfinv,
    "philox": philox,
    "philox32": philox32,
    "digamma": derived.in_double(lambda x: derived.digamma(x, call)),
}
"""Every function there is, on `Value`s of one type."""

CALLED = frozenset(FUNCTIONS) - {*_WRITTEN, "erf", "asinh", "acosh"} | {"erfinv", "digamma"}
"""Functions that calls are made for in f32 too: their NaN may have any bits."""


class VectorMath:
    """Math functions, written where `emit` appends ops. `target` decides on FMA, AVX-512 and the width of calls."""

    def __init__(self, emit: Emit, target: MathTarget):
        self.emit = emit
        self.target = target

    def __call__(self, name: str, *operands: SSAValue) -> SSAValue:
        """`MATH[name]` of scalars or vectors of f32 or f64, all of one type. KeyError for a name that is not there."""
        builder = Builder(self.emit, self.target)
        return MATH[name](*(Value(builder, operand) for operand in operands)).ssa
