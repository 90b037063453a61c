"""Scheduled kernels, written by hand, run natively and compared with eager torch."""

import ctypes
import mmap
from collections.abc import Sequence
from functools import cache

import pytest
import torch

from lamella.codegen.jit import LoadedObject, compile_object, load_object
from lamella.codegen.llvm_text import emit
from lamella.codegen.target import CpuTarget
from lamella.dialects import expr
from lamella.dialects.context import make_context
from lamella.dialects.loop import PredAttr
from lamella.dialects.text import parse_module, print_module
from lamella.dialects.verify import verify
from lamella.lowering.kernel_to_llvm import KernelToLlvm

HOST = CpuTarget.host()
TARGETS = [
    name
    for name, runs in (("avx512", HOST.has_avx512), ("avx2", HOST.vector_bits >= 256), ("baseline", True))
    if runs and HOST.triple.startswith("x86_64")
] or ["host"]


@cache
def compiled(text: str, target: str) -> LoadedObject:
    module = parse_module(text)
    verify(module)
    KernelToLlvm(target=target).apply(make_context(), module)
    verify(module)
    again = parse_module(print_module(module))
    assert print_module(again) == print_module(module)
    machine = HOST if target == "host" else CpuTarget.from_name(target)
    return load_object(compile_object(emit(module), machine), ["k"])


def run(text: str, tensors: Sequence[torch.Tensor], sizes: Sequence[int] = (), target: str = "host") -> int:
    """Call kernel @k of the text; gives what it returns."""
    code = compiled(text, target)
    types = [ctypes.c_void_p] * len(tensors) + [ctypes.c_int64] * len(sizes)
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(code["k"])
    return function(*(t.data_ptr() for t in tensors), *sizes)


def vector(dim: str, lanes: int, unroll: int = 1) -> str:
    return f'attributes {{vector = "{dim}", lanes = {lanes} : i64, unroll = {unroll} : i64}}' if lanes > 1 else ""


def pointwise(dtype: str, body: str, lanes: int, unroll: int = 2, result: str | None = None) -> str:
    """y = body(x) over one dim of symbolic size; %x is the element, %y what is stored."""
    x, y = f"!sym.t<[s0], {dtype}>", f"!sym.t<[s0], {result or dtype}>"
    return f"""
loop.kernel @k(%a: {x}) outs(%b: {y}) sizes [s0] grid [] {{
  loop.for [d0 = s0] {vector("d0", lanes, unroll)} {{
    %x = loop.load %a[d0] : {x}
    {body}
    loop.store %y, %b[d0] : {y}
    loop.yield
  }}
  loop.end
}}"""


SIZES = (0, 1, 15, 16, 17, 1000)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("lanes", [1, 8, 16])
def test_pointwise_tails(target: str, lanes: int) -> None:
    """Every element is computed once, whatever is left over after whole vectors; nothing beyond the end is written."""
    body = "%h = arith.constant 3.0 : f32\n%y = arith.mulf %h, %x : f32"
    text = pointwise("f32", body, lanes)
    for n in SIZES:
        x, y = torch.randn(n), torch.full((n + 32,), 7.0)
        assert run(text, [x, y], [n], target) == 0
        assert torch.equal(y[:n], x * 3.0)
        assert (y[n:] == 7.0).all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("result", ["bf16", "i8", "i16", "i32"])
def test_one_element_left_of_a_narrowed_vector(result: str, target: str) -> None:
    """A known tail of one: nothing beyond it is written."""
    wide = {"bf16": "f32", "i32": "i64"}.get(result, "i32")
    body = f"%y = arith.{'truncf' if result == 'bf16' else 'trunci'} %x : {wide} to {result}"
    text = (
        pointwise(wide, body, 16, result=result)
        .replace("s0]", "17]")
        .replace("= s0", "= 17")
        .replace("sizes [17]", "sizes []")
    )
    x, y = sample(wide, 17), torch.full((40,), 7).to(DTYPES[result])
    assert run(text, [x, y], target=target) == 0
    assert torch.equal(y[:17], x.to(DTYPES[result]))
    assert (y[17:] == 7).all()


DTYPES = {
    "f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16, "i64": torch.int64,
    "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "i1": torch.bool,
}  # fmt: skip


def sample(dtype: str, *shape: int) -> torch.Tensor:
    torch.manual_seed(0)
    type = DTYPES[dtype]
    if type.is_floating_point:
        return torch.randn(shape).to(type)
    return torch.randint(0, 2 if dtype == "i1" else 100, shape).to(type)


def close(actual: torch.Tensor, expected: torch.Tensor, rtol: float = 2e-6, atol: float = 1e-6) -> None:
    torch.testing.assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=True)


SELF_SUM = {
    "f32": "%y = arith.addf %x, %x : f32",
    "f64": "%y = arith.addf %x, %x : f64",
    "bf16": "%w = arith.extf %x : bf16 to f32\n%z = arith.addf %w, %w : f32\n%y = arith.truncf %z : f32 to bf16",
    "f16": "%w = arith.extf %x : f16 to f32\n%z = arith.addf %w, %w : f32\n%y = arith.truncf %z : f32 to f16",
    **{t: f"%y = arith.addi %x, %x : {t}" for t in ("i64", "i32", "i16", "i8")},
    "u8": "%y = arith.addi %x, %x : i8",
    "i1": "%y = arith.ori %x, %x : i1",
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_pointwise_dtypes(dtype: str, target: str) -> None:
    """x + x in every dtype, with whole vectors and a remainder."""
    text = pointwise(dtype, SELF_SUM[dtype], 8)
    for n in (3, 45):
        x = sample(dtype, n)
        y = torch.zeros(n, dtype=x.dtype)
        assert run(text, [x, y], [n], target) == 0
        assert torch.equal(y, x | x if dtype == "i1" else x + x)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize(("op", "expected"), [
    ("%z = arith.constant 0.0 : DTYPE\n%y = arith.maximumf %x, %z : DTYPE", torch.relu),
    ("%y = arith.negf %x : DTYPE", torch.neg),
    ("%y = math.absf %x : DTYPE", torch.abs),
])  # fmt: skip
def test_half_floats_that_are_not_rounded(op: str, expected, dtype: str, target: str) -> None:
    """Of all 65536 bit patterns one comes out as it is, up to its sign; NaN stays NaN."""
    x = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(DTYPES[dtype])
    y = torch.empty_like(x)
    assert run(pointwise(dtype, op.replace("DTYPE", dtype), 8), [x, y], [x.numel()], target) == 0
    wanted = expected(x)
    assert torch.equal(y.isnan(), wanted.isnan())
    assert torch.equal(y[~y.isnan()], wanted[~y.isnan()])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_every_half_float_survives(dtype: str, target: str) -> None:
    """All 65536 bit patterns to f32 and back, denormals, infinities and NaN included."""
    x = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(DTYPES[dtype])
    wide, back = torch.empty(x.numel()), torch.empty_like(x)
    assert (
        run(pointwise(dtype, f"%y = arith.extf %x : {dtype} to f32", 8, result="f32"), [x, wide], [x.numel()], target)
        == 0
    )
    assert torch.equal(wide.nan_to_num(7), x.float().nan_to_num(7)) and torch.equal(wide.isnan(), x.isnan())
    assert (
        run(
            pointwise("f32", f"%y = arith.truncf %x : f32 to {dtype}", 8, result=dtype),
            [wide, back],
            [x.numel()],
            target,
        )
        == 0
    )
    assert torch.equal(back.isnan(), x.isnan())
    kept = ~x.isnan()
    assert torch.equal(back.view(torch.int16)[kept], x.view(torch.int16)[kept])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_half_floats_round_to_even(dtype: str, target: str) -> None:
    """f32 values around and between neighbouring half floats, overflow and denormals, round as torch rounds."""
    bits = torch.randint(-(2**31), 2**31, (20000,), dtype=torch.int64).to(torch.int32)
    edges = torch.tensor(
        [65504.0, 65519.9, 65520.0, 65536.0, 1e-8, 2.9802322e-8, 5.9604645e-8, 6.1e-5, 3.4028235e38, 1e-40]
    )
    ties = (torch.arange(0, 2**15, 7, dtype=torch.int16).view(DTYPES[dtype]).float() * (1 + 2.0**-9)).float()
    x = torch.cat([bits.view(torch.float32), edges, -edges, ties])
    y = torch.empty(x.numel(), dtype=DTYPES[dtype])
    text = pointwise("f32", f"%y = arith.truncf %x : f32 to {dtype}", 16, result=dtype)
    assert run(text, [x, y], [x.numel()], target) == 0
    expected = x.to(DTYPES[dtype])
    assert torch.equal(y.isnan(), expected.isnan())
    assert torch.equal(y.nan_to_num(0, 9, -9), expected.nan_to_num(0, 9, -9))


def grid_kernel(ins: str, outs: str, body: str, sizes: str = "", grid: str = "", grain: int = 0) -> str:
    kept = f"attributes {{grain = {grain} : i64}}" if grain else ""
    return f"loop.kernel @k({ins}) outs({outs}) sizes [{sizes}] grid [{grid}] {kept} {{\n{body}\nloop.end\n}}"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ("[d0, d1]", lambda x: x),
        ("[d0, 36 - d1]", lambda x: x.flip(1)),
        ("[d0, 0]", lambda x: x[:, :1].expand(-1, 37)),
        ("[d1, d0]", lambda x: x[:, :37].T[:37]),
        ("[d0, mod(2*d1, 37)]", lambda x: x[:, [2 * i % 37 for i in range(37)]]),
        ("[d0, floordiv(d1, 3)]", lambda x: x[:, [i // 3 for i in range(37)]]),
    ],
)
def test_index_forms(index: str, expected, lanes: int, target: str) -> None:
    """Loads whose lanes are neighbours, reversed, equal, strided, or anywhere."""
    t = "!sym.t<[37, 37], f32>"
    text = grid_kernel(
        f"%x: {t}", f"%y: {t}",
        f"""loop.for [d1 = 37] {vector("d1", lanes, 2)} {{
          %0 = loop.load %x{index} : {t}
          loop.store %0, %y[d0, d1] : {t}
          loop.yield
        }}""",
        grid="d0 = 37",
    )  # fmt: skip
    x, y = sample("f32", 37, 37), torch.zeros(37, 37)
    assert run(text, [x, y], (), target) == 0
    assert torch.equal(y, expected(x))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("step", [2, 3, 4, 5])
@pytest.mark.parametrize("dtype", ["f32", "i8", "bf16", "i1"])
def test_strided_loads(dtype: str, step: int, target: str) -> None:
    """Every few elements, in whole vectors and what is left."""
    n = 71
    x_type, y_type = f"!sym.t<[{(n - 1) * step + 1}], {dtype}>", f"!sym.t<[{n}], {dtype}>"
    text = grid_kernel(
        f"%x: {x_type}",
        f"%y: {y_type}",
        f"""loop.for [d0 = {n}] {vector("d0", 8, 2)} {{
          %0 = loop.load %x[{step}*d0] : {x_type}
          loop.store %0, %y[d0] : {y_type}
          loop.yield
        }}""",
    )
    x, y = sample(dtype, (n - 1) * step + 1), torch.zeros(n, dtype=DTYPES[dtype])
    assert run(text, [x, y], (), target) == 0
    assert torch.equal(y, x[::step])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("step", [1, 2, 4])
@pytest.mark.parametrize("dtype", ["f32", "i8", "bf16", "i1"])
def test_vectors_that_a_mask_leaves_out(dtype: str, step: int, target: str) -> None:
    """Rows before the first are `other` as a whole, in whole vectors and what is left."""
    n = 45
    x_type, y_type = f"!sym.t<[3, {(n - 1) * step + 1}], {dtype}>", f"!sym.t<[3, {n}], {dtype}>"
    other = {"f32": "3.0 : f32", "bf16": "3.0 : bf16", "i8": "3 : i8", "i1": "true"}[dtype]
    text = grid_kernel(
        f"%x: {x_type}",
        f"%y: {y_type}",
        f"""loop.for [d1 = {n}] {vector("d1", 16, 2)} {{
          %0 = loop.load %x[d0 - 1, {step}*d1] mask [ge(d0, 1)] other {other} : {x_type}
          loop.store %0, %y[d0, d1] : {y_type}
          loop.yield
        }}""",
        grid="d0 = 3",
    )
    x, y = sample(dtype, 3, (n - 1) * step + 1), torch.zeros(3, n, dtype=DTYPES[dtype])
    assert run(text, [x, y], (), target) == 0
    first = torch.full((1, n), 3).to(y.dtype)
    assert torch.equal(y, torch.cat([first, x[:2, ::step]]))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("step", [2, 3])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "i1"])
def test_strided_vectors_at_the_ends_of_a_row(dtype: str, step: int, target: str, guarded) -> None:
    """The first and the last lanes are left out, and nothing behind the row is read."""
    x_type, y_type = f"!sym.t<[s0], {dtype}>", f"!sym.t<[s1], {dtype}>"
    text = grid_kernel(
        f"%x: {x_type}",
        f"%y: {y_type}",
        f"""loop.for [d0 = s1] {vector("d0", 16, 2)} {{
          %0 = loop.load %x[{step}*d0 - 4] mask [ge({step}*d0, 4), lt({step}*d0, s0 + 4)] : {x_type}
          loop.store %0, %y[d0] : {y_type}
          loop.yield
        }}""",
        sizes="s0, s1",
    )
    for n in (1, 40, 250):
        x = sample(dtype, n)
        padded = torch.cat([torch.zeros(4, dtype=x.dtype), x, torch.zeros(step * 40, dtype=x.dtype)])[::step]
        y = torch.ones(len(padded), dtype=x.dtype)
        assert run(text, [guarded(x), y], [n, len(y)], target) == 0
        assert torch.equal(y, padded)


@pytest.mark.parametrize("lanes", [1, 16])
def test_layouts(lanes: int) -> None:
    """Strides of the types are followed, on loads and on stores, symbolic ones too."""
    a, b = "!sym.t<[s0, s1], f32, strides=[1, s0]>", "!sym.t<[s0, s1], f32, strides=[2*s1, 2]>"
    text = grid_kernel(
        f"%x: {a}", f"%y: {b}",
        f"""loop.for [d1 = s1] {vector("d1", lanes, 2)} {{
          %0 = loop.load %x[d0, d1] : {a}
          loop.store %0, %y[d0, d1] : {b}
          loop.yield
        }}""",
        "s0, s1", "d0 = s0",
    )  # fmt: skip
    x, y = torch.randn(37, 5).T, torch.zeros(5, 74)[:, ::2]
    assert run(text, [x, y], [5, 37]) == 0
    assert torch.equal(y, x)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("mask", ["lt(d1, 20)", "ge(d1, 3), lt(d1, d0 + 9)", "le(30, d1)", "ne(d1, 5)", "lt(36 - d1, 9)", "lt(d0, 3)",
                                  "lt(mod(d1, 5), 2)"])  # fmt: skip
def test_masks(mask: str, lanes: int, target: str) -> None:
    """Masked loads give `other`; masked stores leave what is there; loop.pred is the same mask as a value."""
    t = "!sym.t<[6, 37], f32>"
    text = grid_kernel(
        f"%x: {t}", f"%y: {t}, %z: {t}, %p: !sym.t<[6, 37], i1>",
        f"""loop.for [d1 = 37] {vector("d1", lanes, 2)} {{
          %0 = loop.load %x[d0, d1] mask [{mask}] other -1.0 : f32 : {t}
          loop.store %0, %y[d0, d1] : {t}
          %1 = loop.load %x[d0, d1] : {t}
          loop.store %1, %z[d0, d1] mask [{mask}] : {t}
          %2 = loop.pred [{mask}]
          loop.store %2, %p[d0, d1] : !sym.t<[6, 37], i1>
          loop.yield
        }}""",
        grid="d0 = 6",
    )  # fmt: skip
    relations = PredAttr.from_text(mask)
    on = torch.tensor(
        [[all(expr.evaluate(r, {"d0": i, "d1": j}) for r in relations) for j in range(37)] for i in range(6)]
    )
    x, y, z, p = sample("f32", 6, 37), torch.zeros(6, 37), torch.zeros(6, 37), torch.zeros(6, 37, dtype=torch.bool)
    assert run(text, [x, y, z, p], (), target) == 0
    assert torch.equal(p, on)
    assert torch.equal(y, torch.where(on, x, -1.0))
    assert torch.equal(z, torch.where(on, x, 0.0))


def test_masked_loads_touch_no_memory() -> None:
    """A masked-out load at an address far outside must not be made, by scalars or vectors."""
    t = "!sym.t<[40], f32>"
    for lanes in (1, 16):
        text = grid_kernel(
            f"%x: {t}", f"%y: {t}",
            f"""loop.for [d1 = 40] {vector("d1", lanes)} {{
              %0 = loop.load %x[d1 - 1000000000] mask [lt(1000000, d1)] other 5.0 : f32 : {t}
              %1 = loop.load %x[1000000000 + 3*d1] mask [lt(d1, 0)] other 1.0 : f32 : {t}
              %2 = arith.addf %0, %1 : f32
              %3 = loop.load %x[1000000000 + d1] mask [lt(d0, 0)] other 1.0 : f32 : {t}
              %4 = arith.addf %2, %3 : f32
              loop.store %4, %y[d1] : {t}
              loop.yield
            }}""",
            grid="d0 = 2",
        )  # fmt: skip
        x, y = torch.zeros(40), torch.zeros(40)
        assert run(text, [x, y]) == 0
        assert (y == 7.0).all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_quotients_by_what_all_lanes_share(dtype: str, target: str) -> None:
    """A row over its divisor: as a division rounds, with infinities, NaN, zeros and their signs, and denormals."""
    n = 61
    x_type, y_type = f"!sym.t<[s0, {n}], {dtype}>", f"!sym.t<[s0], {dtype}>"
    text = grid_kernel(
        f"%x: {x_type}, %d: {y_type}",
        f"%y: {x_type}",
        f"""%1 = loop.load %d[d0] : {y_type}
        loop.for [d1 = {n}] {vector("d1", 8, 2)} {{
          %0 = loop.load %x[d0, d1] : {x_type}
          %2 = arith.divf %0, %1 : {dtype}
          loop.store %2, %y[d0, d1] : {x_type}
          loop.yield
        }}""",
        sizes="s0",
        grid="d0 = s0",
    )
    type = DTYPES[dtype]
    info = torch.finfo(type)
    special = torch.tensor([0.0, -0.0, 1.0, -3.0, float("inf"), float("-inf"), float("nan")], dtype=type)
    special = torch.cat([special, torch.tensor([info.max, info.tiny, info.tiny / 8, -info.tiny / 1024], dtype=type)])
    torch.manual_seed(0)
    size = torch.randint(-60, 60, (n - len(special),)).to(type)
    x = torch.cat([special, torch.randn(n - len(special), dtype=type) * 2**size])
    y = torch.empty(n, n, dtype=type)
    assert run(text, [x.expand(n, n).contiguous(), x, y], [n], target) == 0
    expected = x[None] / x[:, None]
    bad = (y != expected) & ~(y.isnan() & expected.isnan())
    assert not bad.any(), [
        (float(x[j]), float(x[i]), float(y[i, j]), float(expected[i, j])) for i, j in bad.nonzero().tolist()
    ]
    assert torch.equal(y.signbit()[~y.isnan()], expected.signbit()[~y.isnan()])


def row_reduction(kind: str, dtype: str, n: str, lanes: int, unroll: int, result: str | None = None) -> str:
    """y[d0] = reduce(x[d0, :])."""
    x, y = f"!sym.t<[s0, {n}], {dtype}>", f"!sym.t<[s0], {result or dtype}>"
    scalar = {"u8": "i8"}.get(dtype, dtype)
    reduced = {"argmax": "i64", "argmin": "i64"}.get(kind, scalar)
    return grid_kernel(
        f"%x: {x}", f"%y: {y}",
        f"""%r = loop.for [r0 = {n}] reduce [{kind}] {vector("r0", lanes, unroll)} {{
          %0 = loop.load %x[d0, r0] : {x}
          loop.yield %0 : {scalar}
        }} : {reduced}
        loop.store %r, %y[d0] : {y}""",
        "s0, s1", "d0 = s0",
    )  # fmt: skip


FOLDS = {
    "add": lambda x: x.sum(1, dtype=x.dtype),
    "mul": lambda x: x.prod(1, dtype=x.dtype),
    "max": lambda x: x.amax(1),
    "min": lambda x: x.amin(1),
    "argmax": lambda x: x.argmax(1),
    "argmin": lambda x: x.argmin(1),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", FOLDS)
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "i64", "i32", "i8", "i1"])
def test_row_reductions(dtype: str, kind: str, target: str) -> None:
    """Every kind on every dtype it has, scalar and vector, static and symbolic lengths with remainders."""
    if dtype == "i1" and kind in ("add", "mul"):
        pytest.skip("sums of bools are sums of integers")
    for n in (1, 5, 16, 83):
        x = sample(dtype, 3, n)
        if kind == "mul":
            x = x % 3 + 1 if not x.is_floating_point() else (x.float() * 0.1 + 1).to(x.dtype)
        expected = FOLDS[kind](x.float() if dtype == "bf16" else x.int() if dtype == "i1" else x)
        for lanes, extent in ((1, "s1"), (8, "s1"), (8, "83"))[: 3 if n == 83 else 2]:
            y = torch.zeros(3, dtype=torch.int64 if kind.startswith("arg") else x.dtype)
            text = row_reduction(kind, dtype, extent, lanes, 2, "i64" if kind.startswith("arg") else None)
            assert run(text, [x, y], [3, n], target) == 0
            if x.is_floating_point() and kind in ("add", "mul"):
                close(y.double(), expected.double(), *((1e-2, 1e-2) if dtype == "bf16" else (1e-5, 1e-5)))
            else:
                assert torch.equal(y, expected.to(y.dtype)), (n, lanes, extent)


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("kind", ["max", "min", "argmax", "argmin", "add"])
def test_nan_and_ties(kind: str, lanes: int) -> None:
    """NaN wins wherever it stands, the first one for positions; the first of equal values wins; -inf rows have a position."""
    text = row_reduction(kind, "f32", "s1", lanes, 2, "i64" if kind.startswith("arg") else None)
    rows = []
    for at in ((), (0,), (3,), (49,), (20, 40), (41, 47)):
        row = torch.randn(50)
        row[list(at)] = float("nan")
        rows.append(row)
    rows += [torch.zeros(50), torch.full((50,), float("-inf")), torch.full((50,), float("inf"))]
    rows.append(torch.tensor([1.0, 2.0] * 25))
    x = torch.stack(rows)
    y = torch.zeros(len(rows), dtype=torch.int64 if kind.startswith("arg") else torch.float32)
    assert run(text, [x, y], [len(rows), 50]) == 0
    close(y, FOLDS[kind](x), 1e-5, 1e-5)


@pytest.mark.parametrize("lanes", [1, 16])
def test_empty_reductions(lanes: int) -> None:
    """A reduction of nothing gives its identity."""
    for kind, expected in (("add", 0.0), ("mul", 1.0), ("max", float("-inf")), ("min", float("inf"))):
        y = torch.zeros(2)
        assert run(row_reduction(kind, "f32", "s1", lanes, 2), [torch.empty(2, 0), y], [2, 0]) == 0
        assert (y == expected).all()


@pytest.mark.parametrize("lanes", [1, 8])
def test_and_or(lanes: int) -> None:
    """all and any."""
    for kind, eager in (("and", torch.all), ("or", torch.any)):
        x = torch.stack([torch.ones(37), torch.zeros(37), torch.arange(37) == 36, torch.arange(37) != 20]).bool()
        y = torch.zeros(4, dtype=torch.bool)
        assert run(row_reduction(kind, "i1", "s1", lanes, 2), [x, y], [4, 37]) == 0
        assert torch.equal(y, eager(x, 1))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("lanes", "unroll"), [(1, 1), (8, 1), (16, 4)])
def test_welford(lanes: int, unroll: int, target: str) -> None:
    """Mean and sum of squared deviations of values far from 0, as good as eager's; nothing but zeros of nothing."""
    x_type, y_type = "!sym.t<[s0, s1], f32>", "!sym.t<[s0], f32>"
    text = grid_kernel(
        f"%x: {x_type}", f"%m: {y_type}, %v: {y_type}",
        f"""%a, %b = loop.for [r0 = s1] reduce [welford] {vector("r0", lanes, unroll)} {{
          %0 = loop.load %x[d0, r0] : {x_type}
          loop.yield %0 : f32
        }} : f32, f32
        loop.store %a, %m[d0] : {y_type}
        loop.store %b, %v[d0] : {y_type}""",
        "s0, s1", "d0 = s0",
    )  # fmt: skip
    for n in (0, 1, 7, 64, 83, 1000):
        x = torch.randn(4, n) * 3 + 10
        mean, m2 = torch.ones(4), torch.ones(4)
        assert run(text, [x, mean, m2], [4, n], target) == 0
        exact = x.double()
        if n == 0:
            assert (mean == 0).all() and (m2 == 0).all()
            continue
        close(mean.double(), exact.mean(1), 5e-7)
        close(m2.double(), ((exact - exact.mean(1, keepdim=True)) ** 2).sum(1), 2e-6, 2e-6)


def _columns(n: int, kind: str) -> torch.Tensor:
    """[n, 37]: integers for sums, which are exact in any order then."""
    return torch.randint(-9, 10, (n, 37)).float() if kind == "add" else torch.randn(n, 37)


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("kind", ["add", "max", "argmax", "welford"])
def test_column_reductions(kind: str, lanes: int) -> None:
    """The vector dim outside of the reduction: every lane has its own."""
    x_type = "!sym.t<[s0, 37], f32>"
    y_type = f"!sym.t<[37], {'i64' if kind == 'argmax' else 'f32'}>"
    results = "%r, %s" if kind == "welford" else "%r"
    types = {"welford": "f32, f32", "argmax": "i64"}.get(kind, "f32")
    text = grid_kernel(
        f"%x: {x_type}", f"%y: {y_type}",
        f"""loop.for [d1 = 37] {vector("d1", lanes, 2)} {{
          {results} = loop.for [r0 = s0] reduce [{kind}] {{
            %0 = loop.load %x[r0, d1] : {x_type}
            loop.yield %0 : f32
          }} : {types}
          loop.store %r, %y[d1] : {y_type}
          loop.yield
        }}""",
        "s0",
    )  # fmt: skip
    eager = {
        "add": lambda x: x.sum(0),
        "max": lambda x: x.amax(0),
        "argmax": lambda x: x.argmax(0),
        "welford": lambda x: x.mean(0),
    }
    for n in (1, 30, 700):
        x, y = _columns(n, kind), torch.zeros(37, dtype=torch.int64 if kind == "argmax" else torch.float32)
        assert run(text, [x, y], [n]) == 0
        close(y, eager[kind](x), 1e-5, 1e-5)


@pytest.mark.parametrize("inner", [3, 40])
@pytest.mark.parametrize("kind", ["add", "argmax", "welford"])
def test_reductions_over_two_dims(kind: str, inner: int) -> None:
    """Several reduce dims, the inner one vectorized; positions count row-major over all of them."""
    x_type, y_type = f"!sym.t<[4, s0, {inner}], f32>", f"!sym.t<[4], {'i64' if kind == 'argmax' else 'f32'}>"
    results = "%r, %s" if kind == "welford" else "%r"
    types = {"welford": "f32, f32", "argmax": "i64"}.get(kind, "f32")
    text = grid_kernel(
        f"%x: {x_type}", f"%y: {y_type}",
        f"""{results} = loop.for [r0 = s0, r1 = {inner}] reduce [{kind}] {vector("r1", 8, 2)} {{
            %0 = loop.load %x[d0, r0, r1] : {x_type}
            loop.yield %0 : f32
          }} : {types}
          loop.store %r, %y[d0] : {y_type}""",
        "s0", "d0 = 4",
    )  # fmt: skip
    x, y = torch.randn(4, 31, inner), torch.zeros(4, dtype=torch.int64 if kind == "argmax" else torch.float32)
    assert run(text, [x, y], [31]) == 0
    flat = x.reshape(4, -1)
    close(y, {"add": flat.sum(1), "argmax": flat.argmax(1), "welford": flat.mean(1)}[kind], 1e-5, 1e-5)


@pytest.mark.parametrize("lanes", [1, 16])
def test_long_sums_are_as_exact_as_eager(lanes: int) -> None:
    """Sums of a million floats: over eight of them, the error is of the size of eager's, or of half a unit."""
    kernel, ours, eager, half = row_reduction("add", "f32", "s1", lanes, 4), 0.0, 0.0, 0.0
    for _ in range(8):
        x, y = torch.rand(1, 1 << 20), torch.zeros(1)
        assert run(kernel, [x, y], [1, x.numel()]) == 0
        exact = x.double().sum().item()
        ours += (y.item() - exact) ** 2
        eager += (x.sum().item() - exact) ** 2
        half += (2**-24 * exact) ** 2
    assert ours <= 4 * max(eager, half)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("n", [5, 48, 1000])
def test_softmax(n: int, target: str) -> None:
    """Three loops over a row with a scratch buffer between, rows spread over threads."""
    t, e = f"!sym.t<[s0, {n}], f32>", f"!sym.t<[{n}], f32>"
    v = vector("r", 16, 4)
    text = grid_kernel(
        f"%x: {t}", f"%y: {t}",
        f"""%e = loop.scratch : {e}
        %m = loop.for [r = {n}] reduce [max] {v} {{
          %0 = loop.load %x[d0, r] : {t}
          loop.yield %0 : f32
        }} : f32
        %s = loop.for [r = {n}] reduce [add] {v} {{
          %0 = loop.load %x[d0, r] : {t}
          %1 = arith.subf %0, %m : f32
          %2 = math.exp %1 : f32
          loop.store %2, %e[r] : {e}
          loop.yield %2 : f32
        }} : f32
        loop.for [r = {n}] {v} {{
          %0 = loop.load %e[r] : {e}
          %1 = arith.divf %0, %s : f32
          loop.store %1, %y[d0, r] : {t}
          loop.yield
        }}""",
        "s0", "d0 = s0", 2,
    )  # fmt: skip
    for rows in (1, 7):
        x, y = torch.randn(rows, n) * 5, torch.zeros(rows, n)
        for threads in (1, 2):
            torch.set_num_threads(threads)
            y.zero_()
            assert run(text, [x, y], [rows], target) == 0
            close(y, x.softmax(1))


def many(
    dtype: str, calls: Sequence[str], inputs: Sequence[torch.Tensor], lanes: int, result: str = "", target: str = "host"
):
    """Each call's results on %x (and %y), from one kernel."""
    t, r = f"!sym.t<[s0], {dtype}>", f"!sym.t<[s0], {result or dtype}>"
    names = "xy"[: len(inputs)]
    loads = "\n".join(f"%{n} = loop.load %in_{n}[d0] : {t}" for n in names)
    body = "\n".join(f"%r{i} = {call}\nloop.store %r{i}, %out{i}[d0] : {r}" for i, call in enumerate(calls))
    text = grid_kernel(
        ", ".join(f"%in_{n}: {t}" for n in names),
        ", ".join(f"%out{i}: {r}" for i in range(len(calls))),
        f"loop.for [d0 = s0] {vector('d0', lanes)} {{\n{loads}\n{body}\nloop.yield\n}}",
        "s0",
    )
    outs = [torch.zeros(inputs[0].numel(), dtype=DTYPES[result or dtype]) for _ in calls]
    assert run(text, [*inputs, *outs], [inputs[0].numel()], target) == 0
    return outs


SPECIAL = [0.0, -0.0, 1.0, -1.0, 1.5, -2.5, 0.5, 3.0, 1e30, -1e30, float("inf"), float("-inf"), float("nan"), 1e-40]
FLOAT_BINARY = {
    "arith.addf": torch.add, "arith.subf": torch.sub, "arith.mulf": torch.mul, "arith.divf": torch.div,
    "arith.maximumf": torch.maximum, "arith.minimumf": torch.minimum, "arith.maxnumf": torch.fmax,
    "arith.minnumf": torch.fmin, "math.powf": torch.pow, "math.atan2": torch.atan2, "math.copysign": torch.copysign,
    "loop.fn fmod": torch.fmod, "loop.fn nextafter": torch.nextafter,
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("lanes", [1, 8])
def test_float_binary(lanes: int, target: str) -> None:
    """Every pair of special values, and ordinary ones, as eager computes them."""
    calls = [f"{n}(%x, %y) : f32" if n.startswith("loop") else f"{n} %x, %y : f32" for n in FLOAT_BINARY]
    pairs = torch.cartesian_prod(torch.tensor(SPECIAL), torch.tensor(SPECIAL))
    x, y = (torch.cat([pairs[:, i], torch.randn(101)]).contiguous() for i in (0, 1))
    for actual, eager in zip(many("f32", calls, [x, y], lanes, target=target), FLOAT_BINARY.values(), strict=True):
        expected = eager(x, y)
        if eager is torch.fmod:
            # Eager's vectors give NaN for denormal divisors, libm does not.
            expected = torch.where(y.abs() == 1e-40, actual, expected)
        close(actual, expected)


@pytest.mark.parametrize("lanes", [1, 8])
def test_float_compares(lanes: int) -> None:
    """All predicates on all pairs of special values."""
    pairs = torch.cartesian_prod(torch.tensor(SPECIAL), torch.tensor(SPECIAL))
    x, y = pairs[:, 0].contiguous(), pairs[:, 1].contiguous()
    nan = x.isnan() | y.isnan()
    ordered = {"eq": x == y, "gt": x > y, "ge": x >= y, "lt": x < y, "le": x <= y, "ne": (x != y) & ~nan, "rd": ~nan}
    predicates = [prefix + name for name in ("eq", "gt", "ge", "lt", "le", "ne") for prefix in "ou"] + ["ord", "uno"]
    results = many("f32", [f"arith.cmpf {p}, %x, %y : f32" for p in predicates], [x, y], lanes, "i1")
    for predicate, actual in zip(predicates, results, strict=True):
        expected = nan if predicate == "uno" else ordered[predicate[1:]] | (nan & (predicate[0] == "u"))
        assert torch.equal(actual, expected), predicate


INT_BINARY = {
    "arith.addi": torch.add, "arith.subi": torch.sub, "arith.muli": torch.mul,
    "arith.andi": torch.bitwise_and, "arith.ori": torch.bitwise_or, "arith.xori": torch.bitwise_xor,
    "arith.maxsi": torch.maximum, "arith.minsi": torch.minimum,
    "arith.divsi": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "arith.floordivsi": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "arith.ceildivsi": lambda x, y: -torch.div(-x.long(), y.long(), rounding_mode="floor").to(x.dtype),
    "arith.remsi": torch.fmod, "math.ipowi": torch.pow,
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", ["i64", "i32", "i8"])
def test_int_binary(dtype: str, lanes: int, target: str) -> None:
    """Signed integers, negative ones too."""
    type = DTYPES[dtype]
    x, y = torch.randint(-50, 50, (203,)).to(type), torch.randint(-9, 9, (203,)).to(type)
    y[y == 0] = 7
    names = [n for n in INT_BINARY if n != "math.ipowi"]
    calls = [f"{n} %x, %y : {dtype}" for n in names]
    for name, actual in zip(names, many(dtype, calls, [x, y], lanes, target=target), strict=True):
        assert torch.equal(actual, INT_BINARY[name](x, y)), name
    power = y.abs() % 4
    assert torch.equal(many(dtype, [f"math.ipowi %x, %y : {dtype}"], [x, power], lanes, target=target)[0], x**power)


@pytest.mark.parametrize("lanes", [1, 8])
def test_integer_division_never_traps(lanes: int) -> None:
    """Division by zero and of the least integer by -1 end the process if they are made."""
    least = -(2**31)
    x = torch.tensor([5, least, least, 0, -7] * 7, dtype=torch.int32)
    y = torch.tensor([0, -1, 0, 0, -1] * 7, dtype=torch.int32)
    names = ("arith.divsi", "arith.floordivsi", "arith.remsi", "arith.divui", "arith.remui")
    quotient = many("i32", [f"{n} %x, %y : i32" for n in names], [x, y], lanes)[0]
    assert quotient[1] == least and quotient[4] == 7


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["i64", "i32", "i16", "i8", "u8"])
def test_float_to_integer(dtype: str, target: str) -> None:
    """Towards zero, and low bits kept in narrow types; out of range and NaN as eager's instructions give it."""
    x = torch.tensor(
        [0.0, 0.9, -0.9, 1.5, -1.5, 100.7, 127.0, 200.0, -100.2, 255.0, 256.0, 300.0, 40000.0, 70000.0, -33000.0]
    )
    if dtype in ("i64", "i32"):
        x = torch.cat([x, torch.tensor([float("nan"), float("inf"), -float("inf"), 3e9 if dtype == "i32" else 1e19])])
    signless = "i8" if dtype == "u8" else dtype
    cast = f"arith.fpto{'ui' if dtype == 'u8' else 'si'}"
    if dtype == "u8":
        x = x.abs()
    for lanes in (1, 8):
        y = torch.zeros(x.numel(), dtype=DTYPES[dtype])
        text = pointwise("f32", f"%y = {cast} %x : f32 to {signless}", lanes, result=dtype)
        assert run(text, [x, y], [x.numel()], target) == 0
        assert torch.equal(y, x.to(DTYPES[dtype]))


UNARY = {
    name: getattr(torch, name)
    for name in (
        *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos"),
        *("atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "floor", "ceil", "trunc"),
    )
} | {"absf": torch.abs, "roundeven": torch.round}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_float_unary(dtype: str, lanes: int, target: str) -> None:
    """Every function of `math`, special values included, scalar and vector."""
    x = torch.cat([torch.tensor(SPECIAL), torch.randn(40) * 3, torch.rand(40)]).to(DTYPES[dtype])
    rtol, atol = (1e-6, 1e-7) if dtype == "f32" else (1e-14, 1e-15)
    results = many(dtype, [f"math.{name} %x : {dtype}" for name in UNARY], [x], lanes, target=target)
    for name, y in zip(UNARY, results, strict=True):
        eager, expected = UNARY[name](x), UNARY[name](x.double())
        same = (y == eager) | (y.isnan() & eager.isnan())
        torch.testing.assert_close(
            y[~same].double(), expected[~same], rtol=rtol, atol=atol, msg=lambda m, n=name: f"{n}: {m}"
        )


GATHER = """
loop.kernel @k(%w: !sym.t<[s0, 24], f32>, %i: !sym.t<[s1], i64>) outs(%y: !sym.t<[s1, 24], f32>)
    sizes [s0, s1] grid [d0 = s1] attributes {grain = 2 : i64} {
  %0 = loop.load %i[d0] : !sym.t<[s1], i64>
  %n = loop.index [s0]
  %zero = arith.constant 0 : i64
  %low = arith.cmpi sge, %0, %zero : i64
  loop.assert %low, "negative index"
  %high = arith.cmpi slt, %0, %n : i64
  loop.assert %high, "index out of range"
  loop.for [d1 = 24] VECTOR {
    %1 = loop.load %w[v0, d1](%0) : !sym.t<[s0, 24], f32>
    loop.store %1, %y[d0, d1] : !sym.t<[s1, 24], f32>
    loop.yield
  }
  loop.end
}"""


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("threads", [1, 2])
def test_embedding(threads: int, lanes: int) -> None:
    """Rows by index, bounds checked before they are read: a bad index gives the number of its message."""
    torch.set_num_threads(threads)
    text = GATHER.replace("VECTOR", vector("d1", lanes))
    w, i, y = torch.randn(50, 24), torch.randint(0, 50, (33,)), torch.zeros(33, 24)
    assert run(text, [w, i, y], [50, 33]) == 0
    assert torch.equal(y, w[i])
    for bad, code in ((-1, 1), (50, 2), (1 << 60, 2)):
        i[17] = bad
        assert run(text, [w, i, y], [50, 33]) == code


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("lanes", [1, 8, 16])
def test_gather_of_elements(lanes: int, target: str) -> None:
    """x[i[d1]] with the vector dim in the index tensor, checked lane by lane; a masked-out index is not followed."""
    text = grid_kernel(
        "%x: !sym.t<[s0], f32>, %i: !sym.t<[s1], i64>, %ok: !sym.t<[s1], i1>", "%y: !sym.t<[s1], f32>, %z: !sym.t<[s1], f32>",
        f"""loop.for [d1 = s1] {vector("d1", lanes, 2)} {{
          %0 = loop.load %i[d1] : !sym.t<[s1], i64>
          %o = loop.load %ok[d1] : !sym.t<[s1], i1>
          %1 = loop.load %x[v0](%0) if %o other 3.0 : f32 : !sym.t<[s0], f32>
          loop.store %1, %y[d1] : !sym.t<[s1], f32>
          loop.store %1, %z[d1] if %o : !sym.t<[s1], f32>
          %n = loop.index [s0]
          %high = arith.cmpi slt, %0, %n : i64
          %t = arith.constant true
          %off = arith.xori %o, %t : i1
          %fine = arith.ori %high, %off : i1
          loop.assert %fine, "out of range"
          loop.yield
        }}""",
        "s0, s1",
    )  # fmt: skip
    for n in (5, 53):
        x, i, ok = torch.randn(50), torch.randint(0, 50, (n,)), torch.rand(n) < 0.7
        i[~ok] = 1 << 40
        y, z = torch.zeros(n), torch.zeros(n)
        assert run(text, [x, i, ok, y, z], [50, n], target) == 0
        assert torch.equal(y, torch.where(ok, x[i.clamp(max=49)], 3.0))
        assert torch.equal(z, torch.where(ok, y, 0.0))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("dtype", ["f32", "i64", "bf16"])
def test_scatter_add(dtype: str, lanes: int, target: str) -> None:
    """Updates that meet on one element are all made, in order; along rows they are vectors."""
    t, n = f"!sym.t<[10, 24], {dtype}>", f"!sym.t<[40, 24], {dtype}>"
    rows = grid_kernel(
        f"%s: {n}, %i: !sym.t<[40], i64>", f"%y: {t}",
        f"""loop.for [d0 = 40] {{
          %0 = loop.load %i[d0] : !sym.t<[40], i64>
          loop.for [d1 = 24] {vector("d1", lanes)} {{
            %1 = loop.load %s[d0, d1] : {n}
            loop.store %1, %y[v0, d1](%0) combine add : {t}
            loop.yield
          }}
          loop.yield
        }}""",
    )  # fmt: skip
    s, i, y = sample(dtype, 40, 24), torch.randint(0, 10, (40,)), torch.zeros(10, 24, dtype=DTYPES[dtype])
    assert run(rows, [s, i, y], (), target) == 0
    expected = torch.zeros_like(y)
    for k in range(40):
        expected[i[k]] += s[k]
    assert torch.equal(y, expected)
    if dtype == "bf16":
        return
    one, many = f"!sym.t<[10], {dtype}>", f"!sym.t<[40], {dtype}>"
    for atomic in ("", " atomic"):
        elements = grid_kernel(
            f"%s: {many}, %i: !sym.t<[40], i64>", f"%y: {one}",
            f"""loop.for [d0 = 40] {vector("d0", lanes)} {{
              %0 = loop.load %i[d0] : !sym.t<[40], i64>
              %1 = loop.load %s[d0] : {many}
              loop.store %1, %y[v0](%0) combine add{atomic} : {one}
              loop.yield
            }}""",
        )  # fmt: skip
        y = torch.zeros(10, dtype=DTYPES[dtype])
        assert run(elements, [s[:, 0].contiguous(), i, y], (), target) == 0
        close(y, torch.zeros_like(y).index_add(0, i, s[:, 0]), 1e-5, 1e-5)


SCANS = {
    "add": torch.cumsum, "mul": torch.cumprod, "max": lambda x, d: x.cummax(d).values,
    "min": lambda x, d: x.cummin(d).values, "logaddexp": torch.logcumsumexp,
}  # fmt: skip


@pytest.mark.parametrize("kind", SCANS)
@pytest.mark.parametrize("lanes", [1, 16])
def test_scans(kind: str, lanes: int) -> None:
    """Running values along rows and, with the other dim as vector, along columns."""
    t = "!sym.t<[s0, 37], f32>"
    for dim, grid, dims in ((1, "d0 = s0", "d1 = 37"), (0, "", "d0 = s0, d1 = 37")):
        text = grid_kernel(
            f"%x: {t}", f"%y: {t}",
            f"""loop.for [{dims}] {vector("d1", lanes, 2)} {{
              %0 = loop.load %x[d0, d1] : {t}
              %1 = loop.scan {kind} %0 along d{dim} : f32
              loop.store %1, %y[d0, d1] : {t}
              loop.yield
            }}""",
            "s0", grid,
        )  # fmt: skip
        x = torch.randn(9, 37)
        x[4, 5] = float("nan")
        x[2, 3] = float("-inf")
        y = torch.zeros(9, 37)
        assert run(text, [x, y], [9]) == 0
        close(y, SCANS[kind](x, dim), 1e-5, 1e-5)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64", "i32", "i64"])
def test_running_sums_of_long_rows(dtype: str, target: str) -> None:
    """Along the lanes, with whole vectors, what is left and nothing at all; floats round once, as eager's do."""
    t = f"!sym.t<[s0, s1], {dtype}>"
    text = grid_kernel(
        f"%x: {t}", f"%y: {t}",
        f"""loop.for [d1 = s1] {vector("d1", 8, 2)} {{
          %0 = loop.load %x[d0, d1] : {t}
          %1 = loop.scan add %0 along d1 : {dtype}
          loop.store %1, %y[d0, d1] : {t}
          loop.yield
        }}""",
        "s0, s1", "d0 = s0",
    )  # fmt: skip
    for n in (0, 1, 8, 31, 1000):
        x, y = sample(dtype, 3, n), torch.zeros(3, n, dtype=DTYPES[dtype])
        assert run(text, [x, y], [3, n], target) == 0
        exact = x.double() if x.is_floating_point() else x
        close(y, exact.cumsum(1).to(x.dtype), 1e-7 if dtype == "f32" else 0.01 if dtype == "bf16" else 1e-12, 1e-12)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "i8", "i1"])
@pytest.mark.parametrize("block", [8, 16])
def test_transposes(dtype: str, block: int, target: str, guarded) -> None:
    """Tiles with rows and columns exchanged, whole ones and what is left on both sides; nothing else is read."""
    t, u = f"!sym.t<[s1, s0], {dtype}>", f"!sym.t<[s0, s1], {dtype}>"
    text = grid_kernel(
        f"%x: {t}", f"%y: {u}",
        f"""%t = loop.scratch : !sym.t<[32, 64], {dtype}>
        loop.for [d1 = 64*b1 : min(s1, 64*b1 + 64), d0 = 32*b0 : min(s0, 32*b0 + 32)] attributes {{transpose = {block} : i64}} {{
          %0 = loop.load %x[d1, d0] : {t}
          loop.store %0, %t[-32*b0 + d0, -64*b1 + d1] : !sym.t<[32, 64], {dtype}>
          loop.yield
        }}
        loop.for [d0 = 32*b0 : min(s0, 32*b0 + 32), d1 = 64*b1 : min(s1, 64*b1 + 64)] {vector("d1", 16)} {{
          %0 = loop.load %t[-32*b0 + d0, -64*b1 + d1] : !sym.t<[32, 64], {dtype}>
          loop.store %0, %y[d0, d1] : {u}
          loop.yield
        }}""",
        "s0, s1", "b0 = floordiv(s0 + 31, 32), b1 = floordiv(s1 + 63, 64)",
    )  # fmt: skip
    for rows, columns in ((64, 128), (1, 1), (31, 65), (33, 200), (0, 5)):
        x, y = sample(dtype, columns, rows), torch.zeros(rows, columns, dtype=DTYPES[dtype])
        assert run(text, [guarded(x) if x.numel() else x, y], [rows, columns], target) == 0
        assert torch.equal(y, x.T)


@pytest.mark.parametrize("offset", [0, 4])
def test_streaming_stores(offset: int) -> None:
    """Nontemporal stores into aligned and unaligned buffers, with prefetch; the last rows are written as the first."""
    t = "!sym.t<[s0, 64], f32>"
    text = grid_kernel(
        f"%x: {t}", f"%y: {t}",
        f"""loop.for [d1 = 64] {vector("d1", 16, 2)} {{
          %0 = loop.load %x[d0, d1] attributes {{prefetch = 4096 : i64}} : {t}
          loop.store %0, %y[d0, d1] attributes {{nontemporal}} : {t}
          loop.yield
        }}""",
        "s0", "d0 = s0", 1,
    )  # fmt: skip
    x, room = torch.randn(20, 64), torch.zeros(20 * 64 + 64)
    y = room[offset : offset + 20 * 64].view(20, 64)
    assert run(text, [x, y], [20]) == 0
    assert torch.equal(x, y) and room[-32:].eq(0).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_large_scratch(threads: int) -> None:
    """A scratch buffer of symbolic size is each thread's own."""
    torch.set_num_threads(threads)
    t, e = "!sym.t<[s0, s1], f32>", "!sym.t<[s1], f32>"
    text = grid_kernel(
        f"%x: {t}", f"%y: {t}",
        f"""%e = loop.scratch : {e}
        loop.for [d1 = s1] {vector("d1", 16)} {{
          %0 = loop.load %x[d0, d1] : {t}
          loop.store %0, %e[s1 - 1 - d1] : {e}
          loop.yield
        }}
        loop.for [d1 = s1] {vector("d1", 16)} {{
          %0 = loop.load %e[d1] : {e}
          loop.store %0, %y[d0, d1] : {t}
          loop.yield
        }}""",
        "s0, s1", "d0 = s0", 1,
    )  # fmt: skip
    for n in (1, 100, 300_000):
        x, y = torch.randn(6, n), torch.zeros(6, n)
        assert run(text, [x, y], [6, n]) == 0
        assert torch.equal(y, x.flip(1))


def test_grids_of_three_dims_and_bounds_within_blocks() -> None:
    """Points are counted row-major over several dims, shared by threads; a loop may start and end where the grid says."""
    t = "!sym.t<[s0, 3, s1], f32>"
    text = grid_kernel(
        f"%x: {t}", f"%y: {t}",
        f"""loop.for [d2 = 32*b : min(s1, 32*b + 32)] {vector("d2", 16, 2)} {{
          %0 = loop.load %x[d0, d1, d2] : {t}
          %1 = arith.addf %0, %0 : f32
          loop.store %1, %y[d0, d1, d2] : {t}
          loop.yield
        }}""",
        "s0, s1", "d0 = s0, d1 = 3, b = floordiv(s1 + 31, 32)", 1,
    )  # fmt: skip
    for s0, s1 in ((1, 1), (5, 32), (4, 75), (2, 96)):
        x, y = torch.randn(s0, 3, s1), torch.zeros(s0, 3, s1)
        assert run(text, [x, y], [s0, s1]) == 0
        assert torch.equal(y, x + x)


def test_split_dims_stay_vectors() -> None:
    """Quotients and remainders of the vector dim by multiples of the width are read as neighbours, and rightly."""
    x_type, y_type = "!sym.t<[4, s0, 32], f32>", "!sym.t<[s0, 128], f32>"
    text = grid_kernel(
        f"%x: {x_type}", f"%y: {y_type}",
        f"""loop.for [d1 = 128] {vector("d1", 16, 2)} {{
          %0 = loop.load %x[floordiv(d1, 32), d0, mod(d1, 32)] : {x_type}
          loop.store %0, %y[d0, d1] : {y_type}
          loop.yield
        }}""",
        "s0", "d0 = s0",
    )  # fmt: skip
    module = parse_module(text)
    KernelToLlvm().apply(make_context(), module)
    assert "gather" not in emit(module)
    x, y = torch.randn(4, 7, 32), torch.zeros(7, 128)
    assert run(text, [x, y], [7]) == 0
    assert torch.equal(y, x.permute(1, 0, 2).reshape(7, 128))


def test_errors_from_threads_are_the_same_every_time() -> None:
    """Two bad rows in the shares of two threads: the code does not depend on who comes first."""
    torch.set_num_threads(2)
    text = GATHER.replace("VECTOR", vector("d1", 16))
    w, i, y = torch.randn(50, 24), torch.zeros(64, dtype=torch.int64), torch.zeros(64, 24)
    i[3], i[60] = -1, 99
    assert {run(text, [w, i, y], [50, 64]) for _ in range(20)} == {2}


def test_locations_are_kept() -> None:
    """Every op knows the line it came from."""
    text = """
#line = loc("model.py":7:3)
loop.kernel @k(%x: !sym.t<[s0], f32>) outs(%y: !sym.t<[s0], f32>) sizes [s0] grid [] {
  loop.for [d0 = s0] attributes {vector = "d0", lanes = 16 : i64, unroll = 2 : i64} {
    %0 = loop.load %x[d0] : !sym.t<[s0], f32> loc(#line)
    %1 = math.exp %0 : f32 loc("model.py":8:3)
    loop.store %1, %y[d0] : !sym.t<[s0], f32> loc(#line)
    loop.yield loc(#line)
  } loc(#line)
  loop.end loc(#line)
} loc("model.py":1:1)"""
    module = parse_module(text)
    KernelToLlvm().apply(make_context(), module)
    lost = [op.name for op in module.body.block.first_op.walk() if "model.py" not in str(op.location)]
    assert not lost


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("predicate", ["eq", "ne", "slt", "sle", "sgt", "sge", "ult"])
def test_an_index_against_a_number(predicate: str, target: str) -> None:
    """One comparison per row with a number from memory, before, within and behind the row."""
    t = "!sym.t<[s0, 45], i1>"
    text = grid_kernel(
        "%x: !sym.t<[s0], i64>", f"%y: {t}",
        f"""%n = loop.load %x[d0] : !sym.t<[s0], i64>
        loop.for [d1 = 45] {vector("d1", 16, 2)} {{
          %0 = loop.index [d1 + 3]
          %1 = arith.cmpi {predicate}, %0, %n : i64
          loop.store %1, %y[d0, d1] : {t}
          loop.yield
        }}""",
        "s0", "d0 = s0",
    )  # fmt: skip
    x = torch.tensor([-(2**63), -1, 0, 3, 18, 19, 47, 48, 2**40, 2**63 - 1])
    y = torch.zeros(len(x), 45, dtype=torch.bool)
    assert run(text, [x, y], [len(x)], target) == 0
    functions = {"eq": torch.eq, "ne": torch.ne, "slt": torch.lt, "sle": torch.le, "sgt": torch.gt, "sge": torch.ge}
    index = torch.arange(3, 48)
    expected = functions.get(predicate, lambda a, b: (b < 0) | (a < b))(index[None], x[:, None])
    assert torch.equal(y, expected)


@pytest.fixture
def guarded():
    """Copies of tensors that end where a page without access begins: to read or write behind them ends the process."""
    page, kept = mmap.PAGESIZE, []
    protect = ctypes.CDLL(None).mprotect

    def place(t: torch.Tensor) -> torch.Tensor:
        size = t.numel() * t.element_size()
        pages = -(-size // page)
        memory = mmap.mmap(-1, (pages + 1) * page)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        assert protect(ctypes.c_void_p(address + pages * page), page, 0) == 0
        copy = torch.frombuffer(memory, dtype=t.dtype, offset=pages * page - size, count=t.numel()).view(t.shape)
        kept.append((memory, copy))
        return copy.copy_(t)

    return place


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8", "i64"])
def test_nothing_outside_is_touched(dtype: str, target: str, guarded) -> None:
    """Remainders, strides and sums at the end of memory."""
    for n in (1, 7, 16, 45):
        x, y = guarded(sample(dtype, n)), guarded(torch.zeros(n, dtype=DTYPES[dtype]))
        assert run(pointwise(dtype, SELF_SUM[dtype], 8), [x, y], [n], target) == 0
        assert torch.equal(y, x + x)
    for step in (2, 3, 4):
        x_type, y_type = f"!sym.t<[{44 * step + 1}], {dtype}>", f"!sym.t<[45], {dtype}>"
        text = grid_kernel(
            f"%x: {x_type}",
            f"%y: {y_type}",
            f"""loop.for [d0 = 45] {vector("d0", 8, 2)} {{
              %0 = loop.load %x[{step}*d0] : {x_type}
              loop.store %0, %y[44 - d0] : {y_type}
              loop.yield
            }}""",
        )
        x, y = guarded(sample(dtype, 44 * step + 1)), guarded(torch.zeros(45, dtype=DTYPES[dtype]))
        assert run(text, [x, y], (), target) == 0
        assert torch.equal(y, x[::step].flip(0))
    x, y = guarded(sample(dtype, 3, 37)), guarded(torch.zeros(3, dtype=DTYPES[dtype]))
    assert run(row_reduction("max", dtype, "s1", 8, 2), [x, y], [3, 37], target) == 0
    assert torch.equal(y, x.amax(1))


@pytest.mark.parametrize("lanes", [1, 8])
def test_loops_that_do_not_run_read_nothing(lanes: int) -> None:
    """A load that is the same in every step stands before its loop, but not where the loop has no steps."""
    text = grid_kernel(
        "%x: !sym.t<[s0], f32>",
        "%y: !sym.t<[8], f32>",
        f"""loop.for [d1 = 0 : min(8, s0 - 1)] {vector("d1", lanes)} {{
          %0 = loop.load %x[s0 - 2000000000] : !sym.t<[s0], f32>
          loop.store %0, %y[d1] : !sym.t<[8], f32>
          loop.yield
        }}""",
        "s0",
    )
    y = torch.zeros(8)
    assert run(text, [torch.zeros(1), y], [1]) == 0
    assert (y == 0).all()


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("dtype", ["f32", "i32"])
def test_a_scalar_beside_a_vector(dtype: str, swapped: bool) -> None:
    """Every binary op with one operand that all lanes share."""
    table = FLOAT_BINARY if dtype == "f32" else {k: v for k, v in INT_BINARY.items() if k != "math.ipowi"}
    t, one = f"!sym.t<[s0], {dtype}>", f"!sym.t<[], {dtype}>"
    operands = "%y, %x" if swapped else "%x, %y"
    calls = [f"{n}({operands}) : {dtype}" if n.startswith("loop") else f"{n} {operands} : {dtype}" for n in table]
    body = "\n".join(f"%r{i} = {call}\nloop.store %r{i}, %out{i}[d0] : {t}" for i, call in enumerate(calls))
    text = grid_kernel(
        f"%a: {t}, %b: {one}",
        ", ".join(f"%out{i}: {t}" for i in range(len(calls))),
        f"""loop.for [d0 = s0] {vector("d0", 8)} {{
          %x = loop.load %a[d0] : {t}
          %y = loop.load %b[] : {one}
          {body}
          loop.yield
        }}""",
        "s0",
    )
    x, y = (torch.rand(21) + 0.5, torch.tensor(1.25)) if dtype == "f32" else (torch.arange(1, 22), torch.tensor(-3))
    x, y = x.to(DTYPES[dtype]), y.to(DTYPES[dtype])
    outs = [torch.zeros_like(x) for _ in calls]
    assert run(text, [x, y, *outs], [21]) == 0
    for actual, eager in zip(outs, table.values(), strict=True):
        close(actual, eager(y.expand(21), x) if swapped else eager(x, y.expand(21)))
