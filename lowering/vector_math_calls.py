"""Math functions that are calls: to the vector SLEEF functions libtorch_cpu exports, or lane by lane to libm or to
what `codegen/special_runtime.py` has.

A call of SLEEF has the width of a register. Wider values are split, narrower ones (scalars too) are repeated to fill
one: a value has one result whatever the width of the code around it. x86 without AVX, and other machines, call libm.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import llvm
from xdsl.dialects.builtin import DenseArrayBase, SymbolRefAttr, i32, i64
from xdsl.ir import Attribute

from ..dialects import llvm_ext
from ..dialects.llvm_ext import element_of, vector_of
from .vector_value import MathTarget, Value


@dataclass(frozen=True)
class Function:
    """One function: SLEEF's name, "" where it has none, and accuracy suffix, and the name of the scalar function
    (without the f of float).
    """

    sleef: str
    suffix: str
    libm: str


def _same(*names: str, suffix: str = "_u10") -> dict[str, Function]:
    return {name: Function(name, suffix, name) for name in names}


SPECIAL = ("igamma", "igammac", "hermite_h", "hermite_he", "laguerre", "legendre")
"""Functions with loops."""

FUNCTIONS: dict[str, Function] = {
    **_same("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan"),
    **_same("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "atan2", "pow", "erf", "lgamma"),
    **_same("erfc", suffix="_u15"),
    **_same("hypot", suffix="_u05"),
    **_same("nextafter", suffix=""),
    "fmod": Function("fmod", "", "fmod"),
    **{name: Function("", "", f"lamella_special_{name}") for name in SPECIAL},
}


def sleef_widths(target: MathTarget, element_bits: int) -> tuple[int, ...]:
    """Lanes of the vector functions there are, widest first."""
    if not target.triple.startswith("x86_64") or target.vector_bits < 256:
        return ()
    widest = 512 if target.has_avx512 else 256
    return tuple(bits // element_bits for bits in (512, 256) if bits <= widest)


def call(name: str, *operands: Value) -> Value:
    """`name` of f32 or f64 scalars or vectors, all of one type."""
    function, first = FUNCTIONS[name], operands[0]
    widths = sleef_widths(first.b.target, 64 if first.is_double else 32)
    if not widths or not function.sleef:
        return _by_lanes(function, operands)
    width = next((w for w in reversed(widths) if w >= first.width), widths[0])
    symbol = f"Sleef_{function.sleef}{'d' if first.is_double else 'f'}{width}{function.suffix}"
    if first.width <= width:
        return resize(_call(symbol, [resize(v, width) for v in operands]), first.width)
    parts = [
        _call(symbol, [lanes_of_value(v, range(start, start + width)) for v in operands])
        for start in range(0, first.width, width)
    ]
    return concatenate(parts)


def _by_lanes(function: Function, operands: Sequence[Value]) -> Value:
    first = operands[0]
    symbol = function.libm if first.is_double else f"{function.libm}f"
    if first.width == 1:
        return _call(symbol, operands)
    b, result = first.b, first
    for lane in range(first.width):
        index = b.constant(lane, i64)
        scalars = [Value(b, b.emit(llvm_ext.ExtractElementOp(v.ssa, index.ssa))) for v in operands]
        value = _call(symbol, scalars)
        result = Value(b, b.emit(llvm.InsertElementOp(result.ssa, value.ssa, index.ssa)))
    return result


def _call(symbol: str, operands: Sequence[Value]) -> Value:
    b, type = operands[0].b, operands[0].type
    properties: dict[str, Attribute] = {
        "callee": SymbolRefAttr(symbol),
        "operandSegmentSizes": llvm_ext.segments(len(operands), 0),
        **_CALL_PROPERTIES,
    }
    op = llvm.CallOp.create(operands=[v.ssa for v in operands], result_types=[type], properties=properties)
    return Value(b, b.emit(op))


_CALL_PROPERTIES: dict[str, Attribute] = {
    "fastmathFlags": llvm.FastMathAttr(None),
    "CConv": llvm.CallingConventionAttr("ccc"),
    "op_bundle_sizes": llvm_ext.segments(),
    "TailCallKind": llvm.TailCallKindAttr(llvm.TailCallKind.NONE),
}


def lanes_of_value(value: Value, lanes: Sequence[int]) -> Value:
    """The lanes with these numbers."""
    return _shuffle(value, value, lanes)


def _shuffle(left: Value, right: Value, lanes: Sequence[int]) -> Value:
    b, type = left.b, vector_of(element_of(left.type), len(lanes))
    op = llvm.ShuffleVectorOp.create(
        operands=[left.ssa, right.ssa],
        result_types=[type],
        properties={"mask": DenseArrayBase.from_list(i32, list(lanes))},
    )
    return Value(b, b.emit(op))


def resize(value: Value, width: int) -> Value:
    """The first `width` lanes, or the lanes repeated to fill `width`."""
    b = value.b
    if value.width == width:
        return value
    if width == 1:
        return Value(b, b.emit(llvm_ext.ExtractElementOp(value.ssa, b.constant(0, i64).ssa)))
    if value.width == 1:
        poison = b.emit(llvm_ext.PoisonOp(vector_of(value.type, width)))
        first = Value(b, b.emit(llvm.InsertElementOp(poison, value.ssa, b.constant(0, i64).ssa)))
        return lanes_of_value(first, [0] * width)
    return lanes_of_value(value, [i % value.width for i in range(width)])


def concatenate(parts: Sequence[Value]) -> Value:
    """The lanes of all parts, which have one width, one after the other."""
    while len(parts) > 1:
        parts = [_shuffle(a, b, range(2 * a.width)) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def undeclared_callees(functions: Sequence[llvm.FuncOp], known: set[str]) -> list[llvm.FuncOp]:
    """An external `llvm.func` for each symbol that functions call, and that neither they nor `known` are. Their symbols
    are known then.
    """
    known |= {f.sym_name.data for f in functions}
    found: list[llvm.FuncOp] = []
    for op in (op for f in functions for block in f.body.blocks for op in block.ops):
        if op.__class__ is not llvm.CallOp:
            continue
        assert isinstance(op, llvm.CallOp)
        if op.callee is None or (name := op.callee.string_value()) in known:
            continue
        known.add(name)
        inputs = [v.type for v in op.args]
        output = op.returned.type if op.returned is not None else llvm.LLVMVoidType()
        type = llvm.LLVMFunctionType(inputs, output)
        found.append(llvm.FuncOp(name, type, linkage=llvm.LinkageAttr("external")))
    return found
