"""Kernels of one loop: what is left over after whole vectors, dtypes, half floats, locations."""

from collections.abc import Callable

import pytest
import torch

from lamella.dialects.context import make_context
from lamella.dialects.text import parse_module
from lamella.lowering.kernel_to_llvm import KernelToLlvm
from lamella.tests.codegen.kernels import DTYPES, SELF_SUM, TARGETS, pointwise, run, sample

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
def test_half_floats_that_are_not_rounded(
    op: str, expected: Callable[[torch.Tensor], torch.Tensor], dtype: str, target: str
) -> None:
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


@pytest.mark.parametrize("target", dict.fromkeys([*TARGETS, "host"]))
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_half_floats_round_to_even(dtype: str, target: str) -> None:
    """f32 values around and between neighbouring half floats, overflow and denormals, round as torch rounds."""
    bits = torch.randint(-(2**31), 2**31, (20000,), dtype=torch.int64).to(torch.int32)
    edges = torch.tensor(
        [65504.0, 65519.9, 65520.0, 65536.0, 1e-8, 2.9802322e-8, 5.9604645e-8, 6.1e-5, 3.4028235e38, 1e-40]
    )
    ties = (torch.arange(0, 2**15, 7, dtype=torch.int16).view(DTYPES[dtype]).float() * (1 + 2.0**-9)).float()
    denormals = torch.arange(1, 2**23, 997, dtype=torch.int32).view(torch.float32)
    x = torch.cat([bits.view(torch.float32), edges, -edges, ties, denormals, -denormals, ties, denormals])
    y = torch.empty(x.numel(), dtype=DTYPES[dtype])
    text = pointwise("f32", f"%y = arith.truncf %x : f32 to {dtype}", 16, result=dtype)
    assert run(text, [x, y], [x.numel()], target) == 0
    expected = x.to(DTYPES[dtype])
    assert torch.equal(y.isnan(), expected.isnan())
    kept = ~y.isnan()
    assert torch.equal(y[kept].view(torch.int16), expected[kept].view(torch.int16))


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
    kernel = module.body.block.first_op
    assert kernel is not None
    lost = [op.name for op in kernel.walk() if "model.py" not in str(op.location)]
    assert not lost
