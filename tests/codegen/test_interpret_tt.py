"""What is checked: the interpreter of kernels against torch, and that it finds what no program may do."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor
from xdsl.dialects.math import Math
from xdsl.traits import IsTerminator

from lamella.codegen.interpret_tt import CONTROL, KernelError, interpret, launch
from lamella.codegen.interpret_tt_access import ACCESS
from lamella.codegen.interpret_tt_libdevice import LIBDEVICE
from lamella.codegen.interpret_tt_ops import OPS
from lamella.dialects.arith_tensors import ARITH
from lamella.dialects.text import parse_module
from lamella.dialects.tt import TT, ElementwiseInlineAsmOp, FuncOp
from lamella.dialects.tt_libdevice import FLOAT_FUNCTIONS
from lamella.dialects.tt_rules import ON_SCALARS_ONLY
from lamella.dialects.verify import verify


def _kernel(text: str) -> FuncOp:
    module = parse_module(text)
    verify(module)
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    return next(f for f in functions if f.sym_visibility is None or f.sym_visibility.data == "public")


def _run(text: str, grid: Sequence[int], *args: Tensor | float | None) -> None:
    interpret(_kernel(text), grid, args)


_TYPES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int8: "i8",
    torch.float8_e4m3fn: "f8E4M3FN",
    torch.float8_e5m2: "f8E5M2",
}


def _pointwise(body: str, result: torch.dtype, *inputs: Tensor) -> Tensor:
    """Run `body`, which makes %y of %x0, %x1, …: tensors of 8."""
    types = [*(_TYPES[x.dtype] for x in inputs), _TYPES[result]]
    parameters = ", ".join(f"%p{i}: !tt.ptr<{t}>" for i, t in enumerate(types))
    lines = ["%r = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>"]
    for i, t in enumerate(types):
        lines += [
            f"%s{i} = tt.splat %p{i} : !tt.ptr<{t}> -> tensor<8x!tt.ptr<{t}>>",
            f"%a{i} = tt.addptr %s{i}, %r : tensor<8x!tt.ptr<{t}>>, tensor<8xi32>",
        ]
        if i < len(inputs):
            lines.append(f"%x{i} = tt.load %a{i} : tensor<8x!tt.ptr<{t}>>")
    n = len(inputs)
    lines += [body, f"tt.store %a{n}, %y : tensor<8x!tt.ptr<{types[n]}>>", "tt.return"]
    out = torch.zeros(8, dtype=result)
    _run(f"tt.func public @k({parameters}) {{\n" + "\n".join(lines) + "\n}", (1,), *inputs, out)
    return out


F = torch.tensor([0.0, -0.0, 1.5, -2.5, torch.inf, -torch.inf, torch.nan, 1e-3])
G = torch.tensor([1.0, 2.0, -1.5, 0.5, torch.nan, 3.0, 1.0, 1e3])
K = torch.tensor([0, 1, -1, 7, -8, 2**31 - 1, -(2**31), 5], dtype=torch.int32)
J = torch.tensor([3, -1, 2, -2, 5, 2, 3, 31], dtype=torch.int32)


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("arith.addf", torch.add),
        ("arith.divf", torch.div),
        ("arith.remf", torch.fmod),
        ("arith.maximumf", torch.maximum),
        ("arith.minnumf", torch.fmin),
        ("tt.precise_divf", torch.div),
    ],
)
def test_floats(op: str, expected: Callable[[Tensor, Tensor], Tensor]) -> None:
    result = _pointwise(f"%y = {op} %x0, %x1 : tensor<8xf32>", torch.float32, F, G)
    torch.testing.assert_close(result, expected(F, G), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("arith.addi", torch.add),
        ("arith.muli", torch.mul),
        ("arith.divsi", lambda x, y: torch.div(x, y, rounding_mode="trunc")),
        ("arith.remsi", torch.fmod),
        ("arith.maxsi", torch.maximum),
        ("arith.xori", torch.bitwise_xor),
        ("tt.mulhiui", lambda x, y: ((_u(x) * _u(y)) >> 32).to(torch.int32)),
        ("arith.minui", lambda x, y: torch.where(_u(x) < _u(y), x, y)),
    ],
)
def test_integers(op: str, expected: Callable[[Tensor, Tensor], Tensor]) -> None:
    x = torch.where((K == -(2**31)) & (J == -1), 0, K)
    result = _pointwise(f"%y = {op} %x0, %x1 : tensor<8xi32>", torch.int32, x, J)
    assert torch.equal(result, expected(x, J))


def _u(x: Tensor) -> Tensor:
    return x.long() & 0xFFFFFFFF


@pytest.mark.parametrize("symbol", ["tanh", "erfc", "expm1", "log1p", "round", "rint", "cbrt", "fmod", "nextafter"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_libdevice(symbol: str, dtype: torch.dtype) -> None:
    t, suffix = _TYPES[dtype], "f" if dtype is torch.float32 else ""
    two = symbol in ("fmod", "nextafter")
    operands, types = ("%x0, %x1", f"tensor<8x{t}>, tensor<8x{t}>") if two else ("%x0", f"tensor<8x{t}>")
    body = (
        f'%y = tt.extern_elementwise {operands} {{libname = "", libpath = "", pure = true, '
        f'symbol = "__nv_{symbol}{suffix}"}} : ({types}) -> tensor<8x{t}>'
    )
    x, z = F.to(dtype), G.to(dtype)
    expected = {
        "round": lambda: torch.tensor([0.0, -0.0, 2.0, -3.0, torch.inf, -torch.inf, torch.nan, 0.0], dtype=dtype),
        "rint": lambda: torch.round(x),
        "cbrt": lambda: torch.sign(x) * x.abs() ** (1 / 3),
        "fmod": lambda: torch.fmod(x, z),
        "nextafter": lambda: torch.nextafter(x, z),
    }.get(symbol, lambda: getattr(torch, symbol)(x))()
    inputs = (x, z) if two else (x,)
    torch.testing.assert_close(_pointwise(body, dtype, *inputs), expected, equal_nan=True)


def test_all_names_are_known() -> None:
    assert {f"__nv_{name}" for name in FLOAT_FUNCTIONS} <= LIBDEVICE.keys()


def test_compare_select_cast() -> None:
    body = """
    %c = arith.cmpf ult, %x0, %x1 : tensor<8xf32>
    %s = arith.select %c, %x0, %x1 : tensor<8xi1>, tensor<8xf32>
    %w = arith.extui %c : tensor<8xi1> to tensor<8xi32>
    %f = arith.sitofp %w : tensor<8xi32> to tensor<8xf32>
    %t = arith.addf %s, %f : tensor<8xf32>
    %y = arith.truncf %t : tensor<8xf32> to tensor<8xbf16>"""
    less = (F < G) | F.isnan() | G.isnan()
    expected = (torch.where(less, F, G) + less).to(torch.bfloat16)
    torch.testing.assert_close(_pointwise(body, torch.bfloat16, F, G), expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_f8_saturates(dtype: torch.dtype) -> None:
    t = _TYPES[dtype]
    body = f"""
    %h = tt.fp_to_fp %x0, rounding = rtne : tensor<8xf32> -> tensor<8x{t}>
    %y = tt.fp_to_fp %h : tensor<8x{t}> -> tensor<8xf32>"""
    x = torch.tensor([0.1, -3.7, 1e9, -1e9, torch.inf, torch.nan, 448.0, 2**-9])
    most = torch.finfo(dtype).max
    torch.testing.assert_close(
        _pointwise(body, torch.float32, x), x.clamp(-most, most).to(dtype).float(), equal_nan=True
    )


def test_f8_in_memory() -> None:
    x = torch.randn(8).to(torch.float8_e4m3fn)
    result = _pointwise("%y = tt.fp_to_fp %x0 : tensor<8xf8E4M3FN> -> tensor<8xf32>", torch.float32, x)
    assert torch.equal(result, x.float())


def test_clamp() -> None:
    body = "%y = tt.clampf %x0, %x1, %x2, propagateNan = {} : tensor<8xf32>"
    low, high = torch.full((8,), -1.0), torch.full((8,), 2.0)
    assert torch.equal(_pointwise(body.format("all"), torch.float32, F, low, high).isnan(), F.isnan())
    assert not _pointwise(body.format("none"), torch.float32, F, low, high).isnan().any()


def test_shapes() -> None:
    """y = x + xᵀ of a tensor<4x4>, with every op that changes a shape on the way."""
    text = """
    tt.func public @k(%p: !tt.ptr<i32>, %q: !tt.ptr<i32>) {
      %r = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
      %s = tt.splat %p : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
      %a = tt.addptr %s, %r : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
      %f = tt.load %a : tensor<16x!tt.ptr<i32>>
      %x = tt.reshape %f : tensor<16xi32> -> tensor<4x4xi32>
      %t = tt.trans %x {order = array<i32: 1, 0>} : tensor<4x4xi32> -> tensor<4x4xi32>
      %j = tt.join %x, %t : tensor<4x4xi32> -> tensor<4x4x2xi32>
      %l, %m = tt.split %j : tensor<4x4x2xi32> -> tensor<4x4xi32>
      %row = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
      %e = tt.expand_dims %row {axis = 1 : i32} : tensor<4xi32> -> tensor<4x1xi32>
      %b = tt.broadcast %e : tensor<4x1xi32> -> tensor<4x4xi32>
      %g = tt.gather %l[%b] {axis = 1 : i32} : (tensor<4x4xi32>, tensor<4x4xi32>) -> tensor<4x4xi32>
      %u = arith.addi %g, %m : tensor<4x4xi32>
      %v = tt.reshape %u : tensor<4x4xi32> -> tensor<16xi32>
      %o = tt.splat %q : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
      %c = tt.addptr %o, %r : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
      tt.store %c, %v : tensor<16x!tt.ptr<i32>>
      tt.return
    }"""
    x, y = torch.randint(-9, 9, (4, 4), dtype=torch.int32), torch.zeros(4, 4, dtype=torch.int32)
    _run(text, (1,), x, y)
    assert torch.equal(y, x.diag()[:, None] + x.T)


ROWS = """
tt.func public @k(%x: !tt.ptr<f32>, %y: !tt.ptr<{type}>, %n: i32) {{
  %pid = tt.get_program_id x : i32
  %start = arith.muli %pid, %n : i32
  %at = tt.make_range {{end = 8 : i32, start = 0 : i32}} : tensor<8xi32>
  %bound = tt.splat %n : i32 -> tensor<8xi32>
  %mask = arith.cmpi slt, %at, %bound : tensor<8xi32>
  %p = tt.addptr %x, %start : !tt.ptr<f32>, i32
  %ps = tt.splat %p : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
  %pa = tt.addptr %ps, %at : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
  %other = arith.constant dense<{other}> : tensor<8xf32>
  %v = tt.load %pa, %mask, %other : tensor<8x!tt.ptr<f32>>
  {body}
  tt.return
}}"""

STORE_ROW = """
  %q = tt.addptr %y, %start : !tt.ptr<f32>, i32
  %qs = tt.splat %q : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
  %qa = tt.addptr %qs, %at : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
  tt.store %qa, %w, %mask : tensor<8x!tt.ptr<f32>>"""


def test_reduction_of_several_values() -> None:
    """The first of the largest, by value and position."""
    body = """
  %best, %where = "tt.reduce"(%v, %at) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %i: i32, %b: f32, %j: i32):
    %more = arith.cmpf ogt, %a, %b : f32
    %same = arith.cmpf oeq, %a, %b : f32
    %first = arith.cmpi slt, %i, %j : i32
    %tie = arith.andi %same, %first : i1
    %left = arith.ori %more, %tie : i1
    %value = arith.select %left, %a, %b : f32
    %index = arith.select %left, %i, %j : i32
    tt.reduce.return %value, %index : f32, i32
  }) : (tensor<8xf32>, tensor<8xi32>) -> (f32, i32)
  %q = tt.addptr %y, %pid : !tt.ptr<i32>, i32
  tt.store %q, %where : !tt.ptr<i32>"""
    x = torch.tensor([[1.0, 5.0, 2.0, 5.0, 0.0], [-1.0, -3.0, -2.0, -1.0, -9.0]])
    y = torch.zeros(2, dtype=torch.int32)
    _run(ROWS.format(type="i32", other="0xFF800000", body=body), (2,), x, y, 5)
    assert y.tolist() == [1, 0]


@pytest.mark.parametrize("reverse", [False, True])
def test_scan(reverse: bool) -> None:
    """A recurrence, which is associative but not commutative: (a, b) then (c, d) is (a*c, b*c + d)."""
    body = (
        """
  %c, %w = "tt.scan"(%v, %v) <{axis = 0 : i32, reverse = REVERSE}> ({
  ^bb0(%a: f32, %b: f32, %d: f32, %e: f32):
    %f = arith.mulf %a, %d : f32
    %g = arith.mulf %b, %d : f32
    %h = arith.addf %g, %e : f32
    tt.scan.return %f, %h : f32, f32
  }) : (tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)""".replace("REVERSE", str(reverse).lower())
        + STORE_ROW
    )
    x, y = torch.randn(3, 8), torch.zeros(3, 8)
    _run(ROWS.format(type="f32", other="0.0", body=body), (3,), x, y, 8)
    rows = x.flip(1) if reverse else x
    expected, state = torch.empty(3, 8), torch.zeros(3)
    for i in range(8):
        state = state * rows[:, i] + rows[:, i]
        expected[:, i] = state
    torch.testing.assert_close(y, expected.flip(1) if reverse else expected)


def test_loops_and_branches() -> None:
    """y = the sum of k < n from a for; then doubled while below 100; negated if n is odd."""
    text = """
    tt.func private @negated(%x: i32) -> i32 attributes {noinline = true} {
      %zero = arith.constant 0 : i32
      %y = arith.subi %zero, %x : i32
      tt.return %y : i32
    }
    tt.func public @k(%y: !tt.ptr<i32>, %n: i32) {
      %zero = arith.constant 0 : i32
      %one = arith.constant 1 : i32
      %hundred = arith.constant 100 : i32
      %sum = scf.for %i = %zero to %n step %one iter_args(%s = %zero) -> (i32) : i32 {
        %t = arith.addi %s, %i : i32
        scf.yield %t : i32
      }
      %large = scf.while (%s = %sum) : (i32) -> i32 {
        %again = arith.cmpi slt, %s, %hundred : i32
        scf.condition(%again) %s : i32
      } do {
      ^bb0(%s2: i32):
        %d = arith.addi %s2, %s2 : i32
        scf.yield %d : i32
      }
      %odd = arith.trunci %n : i32 to i1
      %r = scf.if %odd -> (i32) {
        %m = tt.call @negated(%large) : (i32) -> i32
        scf.yield %m : i32
      } else {
        scf.yield %large : i32
      }
      tt.store %y, %r : !tt.ptr<i32>
      tt.return
    }"""
    for n, expected in ((5, -160), (8, 112), (20, 190)):
        y = torch.zeros(1, dtype=torch.int32)
        _run(text, (1,), y, n)
        assert y.item() == expected


def test_blocks() -> None:
    text = """
    tt.func private @sign(%x: i32) -> i32 attributes {noinline = true} {
      %zero = arith.constant 0 : i32
      %less = arith.cmpi slt, %x, %zero : i32
      cf.cond_br %less, ^bb1, ^bb2(%x : i32)
    ^bb1:
      %minus = arith.constant -1 : i32
      cf.br ^bb2(%minus : i32)
    ^bb2(%r: i32):
      tt.return %r : i32
    }
    tt.func public @k(%y: !tt.ptr<i32>, %n: i32) {
      %r = tt.call @sign(%n) : (i32) -> i32
      tt.store %y, %r : !tt.ptr<i32>
      tt.return
    }"""
    for n, expected in ((-7, -1), (7, 7)):
        y = torch.zeros(1, dtype=torch.int32)
        _run(text, (1,), y, n)
        assert y.item() == expected


def test_grid_in_three_dimensions() -> None:
    text = """
    tt.func public @k(%y: !tt.ptr<i32>) {
      %x = tt.get_program_id x : i32
      %w = tt.get_program_id y : i32
      %z = tt.get_program_id z : i32
      %nx = tt.get_num_programs x : i32
      %ny = tt.get_num_programs y : i32
      %a = arith.muli %z, %ny : i32
      %b = arith.addi %a, %w : i32
      %c = arith.muli %b, %nx : i32
      %d = arith.addi %c, %x : i32
      %p = tt.addptr %y, %d : !tt.ptr<i32>, i32
      tt.store %p, %d : !tt.ptr<i32>
      tt.return
    }"""
    y = torch.full((24,), -1, dtype=torch.int32)
    _run(text, (2, 3, 4), y)
    assert torch.equal(y, torch.arange(24, dtype=torch.int32))


ATOMIC = """
tt.func public @k(%p: !tt.ptr<i32>, %x: !tt.ptr<i32>, %y: !tt.ptr<i32>) {{
  %r = tt.make_range {{end = 8 : i32, start = 0 : i32}} : tensor<8xi32>
  %s = tt.splat %x : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
  %a = tt.addptr %s, %r : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
  %v = tt.load %a : tensor<8x!tt.ptr<i32>>
  %two = arith.constant dense<2> : tensor<8xi32>
  %i = arith.remui %r, %two : tensor<8xi32>
  %q = tt.splat %p : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
  %b = tt.addptr %q, %i : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
  %old = tt.atomic_rmw {kind}, relaxed, gpu, %b, %v : (tensor<8x!tt.ptr<i32>>, tensor<8xi32>) -> tensor<8xi32>
  %o = tt.splat %y : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
  %c = tt.addptr %o, %r : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
  tt.store %c, %old : tensor<8x!tt.ptr<i32>>
  tt.return
}}"""


@pytest.mark.parametrize(
    ("kind", "combine"),
    [
        ("add", lambda a, b: a + b),
        ("max", max),
        ("umin", lambda a, b: min(a, b, key=lambda v: v & 0xFFFFFFFF)),
        ("exch", lambda a, b: b),
        ("xor", lambda a, b: a ^ b),
    ],
)
def test_atomics_of_one_address(kind: str, combine: Callable[[int, int], int]) -> None:
    p = torch.tensor([3, -5], dtype=torch.int32)
    x = torch.tensor([1, -2, 9, 4, -7, 0, 2, -1], dtype=torch.int32)
    y = torch.zeros(8, dtype=torch.int32)
    state, old = p.tolist(), list[int]()
    for i, v in enumerate(x.tolist()):
        old.append(state[i % 2])
        state[i % 2] = combine(state[i % 2], v)
    _run(ATOMIC.format(kind=kind), (1,), p, x, y)
    assert (p.tolist(), y.tolist()) == (state, old)


def test_compare_and_swap() -> None:
    text = """
    tt.func public @k(%p: !tt.ptr<i32>, %y: !tt.ptr<i32>) {
      %pid = tt.get_program_id x : i32
      %one = arith.constant 1 : i32
      %next = arith.addi %pid, %one : i32
      %old = tt.atomic_cas acq_rel, gpu, %p, %pid, %next : (!tt.ptr<i32>, i32, i32) -> i32
      %q = tt.addptr %y, %pid : !tt.ptr<i32>, i32
      tt.store %q, %old : !tt.ptr<i32>
      tt.return
    }"""
    p, y = torch.tensor([1], dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    _run(text, (4,), p, y)
    assert (p.item(), y.tolist()) == (4, [1, 1, 2, 3])


@pytest.mark.parametrize("precision", ["ieee", "tf32"])
def test_dot(precision: str) -> None:
    """f32 products lose bits with tf32, and only then."""
    text = f"""
    tt.func public @k(%a: !tt.tensordesc<tensor<16x32xf32>>, %b: !tt.tensordesc<tensor<32x16xf32>>, %c: !tt.tensordesc<tensor<16x16xf32>>) {{
      %i = arith.constant 0 : i32
      %x = tt.descriptor_load %a[%i, %i] : !tt.tensordesc<tensor<16x32xf32>> -> tensor<16x32xf32>
      %y = tt.descriptor_load %b[%i, %i] : !tt.tensordesc<tensor<32x16xf32>> -> tensor<32x16xf32>
      %z = tt.descriptor_load %c[%i, %i] : !tt.tensordesc<tensor<16x16xf32>> -> tensor<16x16xf32>
      %d = tt.dot %x, %y, %z, inputPrecision = {precision} : tensor<16x32xf32> * tensor<32x16xf32> -> tensor<16x16xf32>
      tt.descriptor_store %c[%i, %i], %d : !tt.tensordesc<tensor<16x16xf32>>, tensor<16x16xf32>
      tt.return
    }}"""
    a, b, c = torch.randn(16, 32), torch.randn(32, 16), torch.randn(16, 16)
    expected = (a.double() @ b.double() + c.double()).float()
    _run(text, (1,), a, b, c)
    error = (c - expected).abs().max().item()
    assert error < 1e-5 if precision == "ieee" else 1e-4 < error < 5e-2


def test_descriptor_bounds() -> None:
    """What lies outside of the tensor reads as 0 and is not written."""
    text = """
    tt.func public @k(%x: !tt.tensordesc<tensor<4x4xi32>>, %y: !tt.tensordesc<tensor<4x4xi32>>) {
      %i = arith.constant 2 : i32
      %j = arith.constant -1 : i32
      %v = tt.descriptor_load %x[%i, %j] : !tt.tensordesc<tensor<4x4xi32>> -> tensor<4x4xi32>
      tt.descriptor_store %y[%i, %i], %v : !tt.tensordesc<tensor<4x4xi32>>, tensor<4x4xi32>
      tt.return
    }"""
    x, y = torch.arange(1, 13, dtype=torch.int32).view(3, 4), torch.zeros(5, 5, dtype=torch.int32)
    _run(text, (1,), x, y)
    expected = torch.zeros(5, 5, dtype=torch.int32)
    expected[2, 2:5] = torch.tensor([0, 9, 10])
    assert torch.equal(y, expected)


def test_pointers_of_several_tensors() -> None:
    """A pointer may be chosen, and go through an integer."""
    text = """
    tt.func public @k(%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %y: !tt.ptr<f32>) {
      %i = tt.make_range {end = 2 : i32, start = 0 : i32} : tensor<2xi32>
      %zero = arith.constant dense<0> : tensor<2xi32>
      %c = arith.cmpi eq, %i, %zero : tensor<2xi32>
      %s = tt.splat %a : !tt.ptr<f32> -> tensor<2x!tt.ptr<f32>>
      %t = tt.splat %b : !tt.ptr<f32> -> tensor<2x!tt.ptr<f32>>
      %u = arith.select %c, %s, %t : tensor<2xi1>, tensor<2x!tt.ptr<f32>>
      %n = tt.ptr_to_int %u : tensor<2x!tt.ptr<f32>> -> tensor<2xi64>
      %four = arith.constant dense<4> : tensor<2xi64>
      %m = arith.addi %n, %four : tensor<2xi64>
      %p = tt.int_to_ptr %m : tensor<2xi64> -> tensor<2x!tt.ptr<f32>>
      %v = tt.load %p : tensor<2x!tt.ptr<f32>>
      %o = tt.splat %y : !tt.ptr<f32> -> tensor<2x!tt.ptr<f32>>
      %q = tt.addptr %o, %i : tensor<2x!tt.ptr<f32>>, tensor<2xi32>
      tt.store %q, %v : tensor<2x!tt.ptr<f32>>
      tt.return
    }"""
    y = torch.zeros(2)
    _run(text, (1,), torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), y)
    assert y.tolist() == [2.0, 4.0]


def test_two_arguments_of_one_storage() -> None:
    text = """
    tt.func public @k(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>) {
      %v = tt.load %x : !tt.ptr<f32>
      %w = arith.addf %v, %v : f32
      tt.store %y, %w : !tt.ptr<f32>
      %u = tt.load %x : !tt.ptr<f32>
      tt.store %y, %u : !tt.ptr<f32>
      tt.return
    }"""
    x = torch.tensor([1.0, 3.0])
    _run(text, (1,), x[1:], x[1:])
    assert x.tolist() == [1.0, 6.0]


# What no program may do

LOAD = """
tt.func public @k(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i32) {{
  %r = tt.make_range {{end = 8 : i32, start = 0 : i32}} : tensor<8xi32>
  %b = tt.splat %n : i32 -> tensor<8xi32>
  %mask = arith.cmpi slt, %r, %b : tensor<8xi32>
  %s = tt.splat %x : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
  %a = tt.addptr %s, %r : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
  %v = tt.load %a{load} : tensor<8x!tt.ptr<f32>> loc("model.py":12:3)
  %o = tt.splat %y : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
  %c = tt.addptr %o, %r : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
  tt.store %c, %v{store} : tensor<8x!tt.ptr<f32>>
  tt.return
}}"""


def test_masks_keep_accesses_inside() -> None:
    x, y = torch.randn(5), torch.zeros(5)
    _run(LOAD.format(load=", %mask", store=", %mask"), (1,), x, y, 5)
    assert torch.equal(x, y)


def test_undefined_lanes_are_nan() -> None:
    x, y = torch.randn(5), torch.zeros(8)
    _run(LOAD.format(load=", %mask", store=""), (1,), x, y, 5)
    assert torch.equal(y[:5], x) and y[5:].isnan().all()


def test_load_outside() -> None:
    with pytest.raises(
        KernelError, match=r"'tt.load' at model.py:12:3 in program \(0, 0, 0\): element 7 of a tensor of 5"
    ):
        _run(LOAD.format(load="", store=", %mask"), (1,), torch.randn(5), torch.zeros(8), 5)


def test_store_outside() -> None:
    y = torch.zeros(9)
    with pytest.raises(KernelError, match=r"'tt.store' in program .*: element 7 of a tensor of 5 \(argument 1\)"):
        _run(LOAD.format(load="", store=""), (1,), torch.randn(8), y[:5], 8)
    assert not y.any(), "a view of a larger tensor is as large as the view"


def test_empty_tensor() -> None:
    _run(LOAD.format(load=", %mask", store=", %mask"), (1,), torch.randn(0), torch.zeros(0), 0)
    with pytest.raises(KernelError, match="element 0 of a tensor of 0"):
        _run(LOAD.format(load=", %mask", store=", %mask"), (1,), torch.randn(0), torch.zeros(1), 1)


def test_null_pointer() -> None:
    with pytest.raises(KernelError, match=r"'tt\.load'"):
        _run(LOAD.format(load=", %mask", store=", %mask"), (1,), None, torch.zeros(1), 1)


def test_assertion() -> None:
    text = """
    tt.func public @k(%n: i32) {
      %c = arith.constant 3 : i32
      %ok = arith.cmpi slt, %n, %c : i32
      tt.assert %ok, "index out of range" : i1
      tt.return
    }"""
    _run(text, (1,), 2)
    with pytest.raises(KernelError, match="index out of range"):
        _run(text, (1,), 3)


def test_unaligned_descriptor() -> None:
    text = """
    tt.func public @k(%x: !tt.ptr<f32>, %n: i32, %s: i64) {
      %one = arith.constant 1 : i64
      %d = tt.make_tensor_descriptor %x, [%n, %n], [%s, %one] : !tt.ptr<f32>, !tt.tensordesc<tensor<4x4xf32>>
      tt.return
    }"""
    x = torch.zeros(64)
    _run(text, (1,), x, 4, 4)
    with pytest.raises(KernelError, match="multiples of 16 bytes"):
        _run(text, (1,), x, 4, 5)
    with pytest.raises(KernelError, match="multiples of 16 bytes"):
        _run(text, (1,), x[1:], 4, 4)


def test_not_interpreted() -> None:
    body = (
        '%y = tt.elementwise_inline_asm "mov.b32 $0, $1;" {constraints = "=r,r", packed_element = 1 : i32, pure = true} '
        "%x0 : tensor<8xi32> -> tensor<8xi32>"
    )
    with pytest.raises(KernelError, match="this op is not interpreted"):
        _pointwise(body, torch.int32, K)


def test_every_op() -> None:
    """Whatever the dialect has, and what Triton's text has of arith and math, is interpreted; assembly is not."""
    known = OPS.keys() | ACCESS.keys() | CONTROL.keys()
    left = {op for op in TT.operations if op not in known and not op.has_trait(IsTerminator)}
    assert left == {FuncOp, ElementwiseInlineAsmOp}
    text = [*ARITH.operations, *Math.operations]
    assert {op.name for op in text if op not in known} <= ON_SCALARS_ONLY.keys() | RARE


RARE = {
    *("arith.addui_extended", "arith.mulsi_extended", "arith.mului_extended"),
    *("arith.ceildivsi", "arith.ceildivui", "math.cttz", "math.fpowi"),
}
"""Ops that neither Triton's front end nor ours writes."""


def test_launch() -> None:
    text = """
    tt.func public @k(%y: !tt.ptr<i32>, %n: i32) attributes {noinline = false, lamella.grid = #loop.index<[floordiv(s3 + 3, 4)]>, lamella.sizes = #loop.index<[s3]>} {
      %pid = tt.get_program_id x : i32
      %p = tt.addptr %y, %pid : !tt.ptr<i32>, i32
      tt.store %p, %n : !tt.ptr<i32>
      tt.return
    }"""
    y = torch.zeros(4, dtype=torch.int32)
    launch(_kernel(text), [y], [10])
    assert y.tolist() == [10, 10, 10, 0]


# Races: what depends on the order of programs or threads

TWO = """
tt.func public @k(%x: !tt.ptr<i32>) {{
  %pid = tt.get_program_id x : i32
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %first = arith.cmpi eq, %pid, %zero : i32
  %q = tt.addptr %x, %pid : !tt.ptr<i32>, i32
  {body}
  tt.return
}}"""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("tt.store %x, %pid : !tt.ptr<i32>", "element 0 is written by two programs"),
        (
            "scf.if %first {\n  tt.store %x, %one : !tt.ptr<i32>\n} else {\n  %v = tt.load %x : !tt.ptr<i32>\n}",
            "element 0 is read, and written by another program",
        ),
        (
            "scf.if %first {\n  %v = tt.load %x : !tt.ptr<i32>\n} else {\n  tt.store %x, %one : !tt.ptr<i32>\n}",
            "element 0 is written, and read by another program",
        ),
        (
            "scf.if %first {\n  tt.store %x, %one : !tt.ptr<i32>\n} else {\n"
            "  %o = tt.atomic_rmw add, relaxed, gpu, %x, %one : (!tt.ptr<i32>, i32) -> i32\n}",
            "element 0 is written by two programs",
        ),
    ],
)
def test_races_of_programs(body: str, message: str) -> None:
    with pytest.raises(KernelError, match=rf"in program \(1, 0, 0\): {message}"):
        _run(TWO.format(body=body), (2,), torch.zeros(2, dtype=torch.int32))


@pytest.mark.parametrize(
    "body",
    [
        "tt.store %x, %one : !tt.ptr<i32>",
        "%v = tt.load %q : !tt.ptr<i32>\n%w = arith.addi %v, %one : i32\ntt.store %q, %w : !tt.ptr<i32>",
        "%o = tt.atomic_rmw add, relaxed, gpu, %x, %one : (!tt.ptr<i32>, i32) -> i32",
        # the last of the programs reads what the others left
        "tt.store %q, %pid : !tt.ptr<i32>\n%o = tt.atomic_rmw add, acq_rel, gpu, %x, %zero : (!tt.ptr<i32>, i32) -> i32\n"
        "%v = tt.load %x : !tt.ptr<i32>",
    ],
    ids=["the same value", "its own element", "atomics", "acquired"],
)
def test_no_races_of_programs(body: str) -> None:
    _run(TWO.format(body=body), (2,), torch.zeros(2, dtype=torch.int32))


def test_races_through_two_arguments() -> None:
    text = """
    tt.func public @k(%x: !tt.ptr<i32>, %y: !tt.ptr<i32>) {
      %pid = tt.get_program_id x : i32
      %v = tt.load %x : !tt.ptr<i32>
      %q = tt.addptr %y, %pid : !tt.ptr<i32>, i32
      tt.store %q, %pid : !tt.ptr<i32>
      tt.return
    }"""
    x = torch.full((3,), 7, dtype=torch.int32)
    with pytest.raises(KernelError, match="element 1 is written, and read by another program"):
        _run(text, (2,), x[1:], x)


THREADS = """
tt.func public @k(%x: !tt.ptr<i32>) {{
  %r = tt.make_range {{end = 8 : i32, start = 0 : i32}} : tensor<8xi32>
  %s = tt.splat %x : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
  %a = tt.addptr %s, %r : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
  tt.store %a, %r : tensor<8x!tt.ptr<i32>>
  {barrier}
  %seven = arith.constant dense<{seven}> : tensor<8xi32>
  %t = arith.xori %r, %seven : tensor<8xi32>
  %b = tt.addptr %s, %t : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
  %v = tt.load %b : tensor<8x!tt.ptr<i32>>
  {second}
  tt.store %a, %v : tensor<8x!tt.ptr<i32>>
  tt.return
}}"""


def test_races_of_threads() -> None:
    x = torch.zeros(8, dtype=torch.int32)
    with pytest.raises(
        KernelError, match=r"'tt\.load' .*: element 7 is read without a barrier after another lane wrote it"
    ):
        _run(THREADS.format(barrier="", second="", seven=7), (1,), x)
    with pytest.raises(KernelError, match=r"'tt\.store' .* is written without a barrier after another lane read it"):
        _run(THREADS.format(barrier="gpu.barrier", second="", seven=7), (1,), x)
    _run(THREADS.format(barrier="gpu.barrier", second="gpu.barrier", seven=7), (1,), x)
    assert x.tolist() == list(range(7, -1, -1))
    _run(THREADS.format(barrier="", second="", seven=0), (1,), x)
    assert x.tolist() == list(range(8)), "a lane reads what it wrote itself"
