"""Math functions against float64, through the JIT: accuracy over all exponents, and special values."""

import ctypes
from functools import cache

import numpy as np
import pytest
import torch
from xdsl.dialects import llvm
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, IntegerAttr, ModuleOp, StringAttr, f32, f64, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from lamella.codegen.jit import LoadedObject, compile_object, load_object
from lamella.codegen.llvm_text import emit
from lamella.dialects import llvm_ext
from lamella.dialects.llvm_ext import PTR, vector_of
from lamella.lowering.target import CpuTarget
from lamella.lowering.vector_math import MATH, VectorMath, undeclared_callees
from lamella.lowering.vector_math_calls import SPECIAL


def kernel(name: str, arity: int, element: Attribute, width: int, target: CpuTarget) -> ModuleOp:
    """`@k(inputs..., output, count)`: output[i] = name(inputs[i]...), `width` elements at a time."""
    type = vector_of(element, width)
    entry = Block(arg_types=[PTR] * (arity + 1) + [i64])
    loop, done = Block(arg_types=[i64]), Block()

    def adder(block: Block):
        def emit(op: Operation) -> SSAValue:
            block.add_op(op)
            return op.results[0] if op.results else None

        return emit

    zero = adder(entry)(llvm_ext.ConstantOp(IntegerAttr(0, i64), i64))
    entry.add_op(llvm.BrOp(loop, zero))
    add = adder(loop)
    index = loop.args[0]

    def at(pointer: SSAValue) -> SSAValue:
        return add(llvm_ext.GEPOp(pointer, [llvm.GEP_USE_SSA_VAL], element, [index]))

    inputs = [add(llvm_ext.LoadOp(at(p), type, alignment=4)) for p in entry.args[:arity]]
    result = VectorMath(add, target)(name, *inputs)
    add(llvm_ext.StoreOp(result, at(entry.args[arity]), alignment=4))
    step = add(llvm_ext.ConstantOp(IntegerAttr(width, i64), i64))
    following = add(llvm.AddOp(index, step))
    more = add(llvm_ext.ICmpOp(following, entry.args[arity + 1], "slt"))
    add(llvm.CondBrOp(more, loop, [following], done, []))
    done.add_op(llvm.ReturnOp())
    signature = llvm.LLVMFunctionType([PTR] * (arity + 1) + [i64])
    func = llvm.FuncOp("k", signature, linkage=llvm.LinkageAttr("external"), body=Region([entry, loop, done]))
    module = ModuleOp([func])
    functions = [f for f in module.ops if isinstance(f, llvm.FuncOp)]
    module.body.block.add_ops(undeclared_callees(functions, set()))
    return module


@cache
def compiled(name: str, arity: int, element: Attribute, width: int, target: CpuTarget) -> LoadedObject:
    module = kernel(name, arity, element, width, target)
    module.verify()
    return load_object(compile_object(emit(module), target), ["k"])


def run(name: str, *inputs: np.ndarray, width: int = 16, target: CpuTarget | None = None) -> np.ndarray:
    """`name` of float32 or float64 arrays, whose length is padded to a multiple of `width`."""
    count = len(inputs[0])
    padded = [np.concatenate([x, np.ones(-count % width, x.dtype)]) for x in inputs]
    out = np.empty_like(padded[0])
    element = f32 if out.dtype == np.float32 else f64
    code = compiled(name, len(inputs), element, width, target or CpuTarget.host())
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (len(inputs) + 1), ctypes.c_int64)(code["k"])
    function(*(x.ctypes.data for x in padded), out.ctypes.data, len(out))
    return out[:count]


def ulps(result: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """|result - exact| in units of the last place of a float32 at `exact`; 0 where both are one NaN, inf or float."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
        spacing = np.maximum(np.abs(np.spacing(rounded.astype(np.float32))).astype(np.float64), 2.0**-149)
        error = np.abs(result.astype(np.float64) - exact) / spacing
    same = (result == rounded) | (np.isnan(result) & np.isnan(exact))
    return np.where(same, np.minimum(np.nan_to_num(error, nan=0.0, posinf=0.0), 0.5), np.nan_to_num(error, nan=np.inf))


def sample() -> np.ndarray:
    """Floats of every exponent, denormals and specials among them, and more of the usual range."""
    every = np.arange(0, 2**32, 6151, dtype=np.uint64).astype(np.uint32).view(np.float32)
    uniform = np.random.default_rng(0).uniform
    ranges = [uniform(low, high, 100_000) for low, high in ((-1, 1), (0.5, 2), (-10, 10), (-110, 110))]
    return np.concatenate([every, *(r.astype(np.float32) for r in ranges), SPECIALS])


SPECIALS = np.array(
    [
        *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 10.0, 1e-40, -1e-40, 1.4e-45, 1.17549435e-38, 3.4e38),
        *(
            -3.4e38,
            np.inf,
            -np.inf,
            np.nan,
            88.7,
            88.73,
            89.0,
            -87.4,
            -103.9,
            -104.0,
            127.9,
            128.0,
            -149.5,
            -150.5,
            1e10,
        ),
    ],
    np.float32,
)

# The bound in ulp, and the function in float64.
UNARY = {
    **{"exp": (0.95, torch.exp), "exp2": (1.1, torch.exp2), "expm1": (1.6, torch.expm1), "log": (1.0, torch.log)},
    **{"log2": (1.2, torch.log2), "log10": (1.1, torch.log10), "log1p": (1.2, torch.log1p), "tanh": (1.5, torch.tanh)},
    **{"erf": (1.1, torch.erf), "erfc": (1.6, torch.erfc), "erfinv": (0.6, torch.erfinv), "sin": (1.0, torch.sin)},
    **{"cos": (1.0, torch.cos), "tan": (1.0, torch.tan), "asin": (1.0, torch.asin), "acos": (1.0, torch.acos)},
    **{
        "atan": (1.0, torch.atan),
        "asinh": (2.0, torch.asinh),
        "acosh": (2.1, torch.acosh),
        "atanh": (1.1, torch.atanh),
    },
    **{"digamma": (0.6, torch.digamma), "rsqrt": (1.6, torch.rsqrt), "sqrt": (0.51, torch.sqrt)},
    **{"floor": (0, torch.floor), "ceil": (0, torch.ceil), "trunc": (0, torch.trunc), "roundeven": (0, torch.round)},
    "sigmoid": (2.5, torch.sigmoid),
    **{"sinh": (1.1, torch.sinh), "cosh": (1.1, torch.cosh), "lgamma": (1.1, torch.lgamma)},
}

# Eager overflows before float32 does, or loses digits near a root, and so do the same SLEEF functions here.
DOMAIN = {"sigmoid": (-87.0, np.inf), "sinh": (-88.0, 88.0), "cosh": (-88.0, 88.0), "lgamma": (0.0, 1e36)}


@pytest.mark.parametrize("name", UNARY)
def test_accuracy(name: str):
    """Each function against float64, on this machine's widest vectors; signs of zero included."""
    x = sample()
    low, high = DOMAIN.get(name, (-np.inf, np.inf))
    x = x[~((x < low) | (x > high))]
    bound, function = UNARY[name]
    exact = function(torch.from_numpy(x).double()).numpy()
    result = run(name, x, width=CpuTarget.host().lanes(32))
    error = ulps(result, exact)
    worst = int(error.argmax())
    assert error[worst] <= bound, f"{name}({x[worst]!r}) = {result[worst]!r}, exactly {exact[worst]!r}"
    wrong_sign = (np.signbit(result) != np.signbit(exact)) & ~np.isnan(exact)
    assert not wrong_sign.any(), f"sign of {name}({x[wrong_sign][0]!r})"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["sinh", "cosh"])
def test_hyperbolic_functions_far_out(name: str, dtype: type[np.floating]):
    """They are finite where e**|x| is not any more."""
    edge = np.log(np.finfo(dtype).max) + np.log(2.0)
    x = np.concatenate([np.linspace(edge - 2, edge - 1e-5, 10_001), np.linspace(edge + 1e-4, edge + 2, 101)])
    x = np.concatenate([x, -x, [np.inf, -np.inf, np.nan]]).astype(dtype)
    wide = x.astype(np.longdouble)
    with np.errstate(all="ignore"):
        exact = getattr(np, name)(wide)
        want = exact.astype(dtype)
        error = np.abs(run(name, x, width=CpuTarget.host().lanes(32)) - exact) / np.spacing(np.abs(want))
    result = run(name, x, width=1)
    finite = np.isfinite(want)
    assert finite.sum() == 20_002 and error[finite].max() <= 1.6
    assert np.array_equal(result[~finite], want[~finite], equal_nan=True)


@pytest.mark.parametrize(
    ("name", "bound"), [("exp_bf16", 1.1e-4), ("exp_f16", 1e-5), ("exp2_bf16", 1.1e-4), ("exp2_f16", 1e-5)]
)
@pytest.mark.parametrize(("target", "width"), [("host", 16), ("avx512", 8), ("avx2", 8), ("avx2", 1), ("baseline", 4)])
def test_short_exponentials(name: str, bound: float, target: str, width: int):
    """Against float64, relative to the result or, below the least one that is normal, to that; exact where e**x is."""
    function, none = (np.exp2, -151) if name.startswith("exp2") else (np.exp, -104)
    machine = CpuTarget.host() if target == "host" else CpuTarget.from_name(target)
    if width > machine.lanes(32) or machine.vector_bits > CpuTarget.host().vector_bits:
        pytest.skip("this machine has no such vectors")
    x = sample()
    with np.errstate(all="ignore"):
        exact = function(x.astype(np.float64))
        result = run(name, x, width=width, target=machine).astype(np.float64)
        edge = float(np.finfo(np.float32).max)
        finite = exact <= edge * (1 - bound)
        error = np.abs(result - exact)[finite] / np.maximum(exact[finite], 2.0**-126)
    assert error.max() <= bound
    assert (result[exact > edge * (1 + bound)] == np.inf).all()
    assert np.array_equal(np.isnan(result), np.isnan(x))
    assert (result[x == 0] == 1).all() and (result[x < none] == 0).all() and (result[x == np.inf] == np.inf).all()


def pairs() -> tuple[np.ndarray, np.ndarray]:
    """Every pair of special values, random bits, and a usual range."""
    x, y = (np.ravel(v) for v in np.meshgrid(SPECIALS, SPECIALS))
    random = np.random.default_rng(1)
    bits = random.integers(0, 2**32, (2, 100_000), dtype=np.uint64).astype(np.uint32).view(np.float32)
    low = random.uniform(0, 100, 50_000).astype(np.float32), random.uniform(-10, 10, 50_000).astype(np.float32)
    return np.concatenate([x, bits[0], low[0]]), np.concatenate([y, bits[1], low[1]])


BINARY = {
    **{"pow": (0.6, torch.pow), "atan2": (1.0, torch.atan2), "hypot": (1.0, torch.hypot)},
    **{"fmod": (0, torch.fmod), "copysign": (0, torch.copysign)},
}


@pytest.mark.parametrize("name", BINARY)
def test_accuracy_of_two_operands(name: str):
    """Against float64. fmod where eager is right too: SLEEF gives NaN for quotients beyond about 2**100."""
    x, y = pairs()
    bound, function = BINARY[name]
    left, right = torch.from_numpy(x), torch.from_numpy(y)
    if name == "fmod":
        with np.errstate(all="ignore"):
            sane = (np.abs(x / 1e15) < np.abs(y)) & (np.abs(y) > 1.2e-38)
        left, right = left[torch.from_numpy(sane)], right[torch.from_numpy(sane)]
    exact = function(left.double(), right.double()).numpy()
    result = run(name, left.numpy(), right.numpy(), width=CpuTarget.host().lanes(32))
    error = ulps(result, exact)
    worst = int(error.argmax())
    assert error[worst] <= bound, f"{name}({left[worst]}, {right[worst]}) = {result[worst]!r}, not {exact[worst]!r}"
    assert not ((np.signbit(result) != np.signbit(exact)) & ~np.isnan(exact)).any()


def test_nextafter():
    """Bit for bit as torch."""
    x, y = pairs()
    want = torch.nextafter(torch.from_numpy(x), torch.from_numpy(y)).numpy()
    assert np.array_equal(run("nextafter", x, y), want, equal_nan=True)


@pytest.mark.parametrize(
    "name", ["exp", "log", "sin", "tanh", "erf", "erfinv", "asinh", "acosh", "log1p", "expm1", "erfc"]
)
def test_double(name: str):
    """f64 to within an ulp and a half of torch, over the usual range and special values."""
    random = np.random.default_rng(2)
    x = np.concatenate([random.uniform(-6, 6, 20_000), random.uniform(-1, 1, 20_000), SPECIALS.astype(np.float64)])
    want = getattr(torch, name)(torch.from_numpy(x)).numpy()
    got = run(name, x, width=CpuTarget.host().lanes(64))
    with np.errstate(all="ignore"):
        close = np.abs(got - want) <= 1.5 * np.abs(np.spacing(want))
    wrong = ~(close | (got == want) | (np.isnan(got) & np.isnan(want)))
    assert not wrong.any(), f"{name}({x[wrong][0]!r}) = {got[wrong][0]!r}, not {want[wrong][0]!r}"


@pytest.mark.parametrize("name", ["exp", "log", "log1p", "erf", "tanh", "sin", "erfinv", "sigmoid"])
@pytest.mark.parametrize("width", [1, 2, 4, 8, 32])
def test_width_does_not_matter(name: str, width: int):
    """Scalars, narrow and over-wide vectors give the bits that full vectors give."""
    x = np.concatenate([SPECIALS, sample()[::500]])
    full, other = run(name, x, width=16), run(name, x, width=width)
    number = ~np.isnan(full)
    assert np.array_equal(number, ~np.isnan(other))
    assert np.array_equal(full[number].view(np.int32), other[number].view(np.int32))


@pytest.mark.parametrize("target", ["avx512", "avx2", "baseline"])
@pytest.mark.parametrize("name", ["exp", "exp2", "expm1", "log", "log1p", "erf", "tanh", "sin", "floor", "roundeven"])
def test_other_targets(name: str, target: str):
    """The forms for CPUs without AVX-512, and without FMA, run here too, exact to 2 ulp."""
    machine = CpuTarget.from_name(target)
    if machine.vector_bits > CpuTarget.host().vector_bits:
        pytest.skip(f"this machine has no {target}")
    x = sample()[::7]
    low, high = DOMAIN.get(name, (-np.inf, np.inf))
    x = x[~((x < low) | (x > high))]
    exact = UNARY[name][1](torch.from_numpy(x).double()).numpy()
    error = ulps(run(name, x, width=machine.lanes(32), target=machine), exact)
    worst = int(error.argmax())
    assert error[worst] <= 2, f"{name}({x[worst]!r})"


@pytest.mark.parametrize("name", MATH)
@pytest.mark.parametrize("target", ["avx512", "avx2", "baseline", "neon"])
def test_everything_compiles(name: str, target: str):
    """Every function, of f32 and f64 or of integers, becomes code for every target, with names that libraries have."""
    machine = CpuTarget.from_name(target)
    for element, bits in ((i64, 64),) if name.startswith("philox") else ((f32, 32), (f64, 64)):
        for width in (1, machine.lanes(bits)):
            module = kernel(
                name,
                2 if name in (*BINARY, *SPECIAL, "nextafter", "philox", "philox32") else 1,
                element,
                width,
                machine,
            )
            assert compile_object(emit(module), machine)


@pytest.mark.parametrize("target", ["avx512", "avx2", "baseline"])
def test_erf_is_one_where_it_rounds_to_it(target: str):
    """Exactly: 1 + erf(-inf) is 0, and what GELU makes of it NaN as in eager."""
    machine = CpuTarget.from_name(target)
    if machine.vector_bits > CpuTarget.host().vector_bits or not CpuTarget.host().triple.startswith("x86_64"):
        pytest.skip("not this machine")
    x = np.array([4.0, 4.1, 4.2, 10.0, 3e38, np.inf], np.float32)
    assert (run("erf", x, target=machine) == 1).all() and (run("erf", -x, target=machine) == -1).all()


def test_locations_are_the_callers():
    """Each op goes through `emit`, so the caller can give all of them one location."""
    place = FileLineColLoc(StringAttr("m.py"), IntAttr(1), IntAttr(2))
    block = Block(arg_types=[f32])

    def emit_located(op: Operation) -> SSAValue:
        op.location = place
        block.add_op(op)
        return op.results[0]

    VectorMath(emit_located, CpuTarget.host())("exp", block.args[0])
    assert {op.location for op in block.ops} == {place}
