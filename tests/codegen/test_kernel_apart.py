"""Loops whose vectors hold every other bf16: every number and NaN, what is rounded twice, f32 beside, ends of rows."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import lamella
from lamella.tests.codegen.kernels import HOST, TARGETS, run

ALL = [*TARGETS, *(["amx"] if HOST.has_amx else [])]
LANES = {"avx2": 8, "baseline": 4}


def apart(target: str, unroll: int = 4, dim: str = "d0") -> str:
    return f'attributes {{vector = "{dim}", lanes = {LANES.get(target, 16)} : i64, unroll = {unroll} : i64, apart}}'


def every() -> Tensor:
    return torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)


def same(result: Tensor, expected: Tensor) -> None:
    """Bit by bit, but that of NaN only what they are is asked."""
    assert torch.equal(result.isnan(), expected.isnan())
    assert torch.equal(result.view(torch.int16)[~result.isnan()], expected.view(torch.int16)[~expected.isnan()])


def strange() -> Tensor:
    """f32 around every number and every middle of two of bf16, NaN with all digits set among them."""
    high = torch.arange(1 << 16, dtype=torch.int64) << 16
    low = torch.tensor([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF])
    return (high[:, None] + low).flatten().to(torch.int32).view(torch.float32)


@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("n", [1 << 16, 33, 131, 7])
def test_numbers_of_bf16(target: str, n: int) -> None:
    text = f"""
loop.kernel @k(%a: !sym.t<[s0], bf16>, %w: !sym.t<[s0], bf16>) outs(%b: !sym.t<[s0], bf16>) sizes [s0] grid [] {{
  loop.for [d0 = s0] {apart(target)} {{
    %x = loop.load %a[d0] : !sym.t<[s0], bf16>
    %v = loop.load %w[d0] : !sym.t<[s0], bf16>
    %0 = arith.extf %x : bf16 to f32
    %1 = arith.extf %v : bf16 to f32
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.truncf %2 : f32 to bf16
    %4 = arith.addf %3, %v : bf16
    loop.store %4, %b[d0] : !sym.t<[s0], bf16>
    loop.yield
  }}
  loop.end
}}"""
    x = every()[:n] if n < 1 << 16 else every()
    for w in (x.flip(0).contiguous(), torch.full_like(x, 1.0), torch.full_like(x, 2.0**-120), torch.full_like(x, 3.3)):
        result = torch.empty_like(x)
        assert run(text, [x, w, result], [n], target) == 0
        same(result, (x * w) + w)


@pytest.mark.parametrize("target", ALL)
def test_rounding_of_f32(target: str) -> None:
    text = f"""
loop.kernel @k(%a: !sym.t<[s0], f32>) outs(%b: !sym.t<[s0], bf16>, %c: !sym.t<[s0], f32>) sizes [s0] grid [] {{
  loop.for [d0 = s0] {apart(target, 2)} {{
    %x = loop.load %a[d0] : !sym.t<[s0], f32>
    %0 = arith.truncf %x : f32 to bf16
    %1 = arith.extf %0 : bf16 to f32
    loop.store %0, %b[d0] : !sym.t<[s0], bf16>
    loop.store %1, %c[d0] : !sym.t<[s0], f32>
    loop.yield
  }}
  loop.end
}}"""
    x = strange()
    for n in (len(x), 45):
        halves, floats = torch.zeros(n, dtype=torch.bfloat16), torch.zeros(n)
        assert run(text, [x, halves, floats], [n], target) == 0
        same(halves, x[:n].bfloat16())
        same(floats.bfloat16(), halves)
        assert torch.equal(floats.nan_to_num(), halves.float().nan_to_num())


@pytest.mark.parametrize("target", ALL)
def test_bits_are_there_where_they_are_asked_for(target: str) -> None:
    text = f"""
loop.kernel @k(%a: !sym.t<[s0], bf16>, %s: !sym.t<[], bf16>) outs(%b: !sym.t<[s0], bf16>) sizes [s0] grid [] {{
  %s0 = loop.load %s[] : !sym.t<[], bf16>
  loop.for [d0 = s0] {apart(target)} {{
    %x = loop.load %a[d0] : !sym.t<[s0], bf16>
    %0 = arith.bitcast %x : bf16 to i16
    %1 = arith.constant 1 : i16
    %2 = arith.xori %0, %1 : i16
    %3 = arith.bitcast %2 : i16 to bf16
    %4 = arith.cmpf olt, %x, %s0 : bf16
    %5 = arith.select %4, %3, %s0 : bf16
    loop.store %5, %b[d0] : !sym.t<[s0], bf16>
    loop.yield
  }}
  loop.end
}}"""
    x, s = every(), torch.tensor(1.5, dtype=torch.bfloat16)
    result = torch.empty_like(x)
    assert run(text, [x, s, result], [len(x)], target) == 0
    expected = torch.where(x < s, (x.view(torch.int16) ^ 1).view(torch.bfloat16), s)
    assert torch.equal(result.view(torch.int16), expected.view(torch.int16))


@pytest.mark.parametrize("target", ALL)
def test_a_dim_of_stride_0_is_what_all_lanes_share(target: str) -> None:
    text = f"""
loop.kernel @k(%a: !sym.t<[3, 64], bf16, strides=[1, 0]>) outs(%b: !sym.t<[3, 64], bf16>) sizes [] grid [d0 = 3] {{
  loop.for [d1 = 64] {apart(target, dim="d1")} {{
    %x = loop.load %a[d0, d1] : !sym.t<[3, 64], bf16, strides=[1, 0]>
    %0 = arith.addf %x, %x : bf16
    loop.store %0, %b[d0, d1] : !sym.t<[3, 64], bf16>
    loop.yield
  }}
  loop.end
}}"""
    x, result = torch.tensor([1.0, -2.5, 3.0]).bfloat16()[:, None].expand(3, 64), torch.empty(3, 64).bfloat16()
    assert run(text, [x, result], [], target) == 0
    assert torch.equal(result, x + x)


# of those that are called NaN may be of ones alone, which must not be rounded to 0
NOT_NUMBERS = ("sin", "cos", "tan", "sinh", "cosh", "atanh", "sinc", "erfinv", "lgamma", "asin", "exp", "log", "tanh")


@pytest.mark.parametrize("target", ["", "avx2"] if HOST.vector_bits >= 256 else [""])
@pytest.mark.parametrize("name", NOT_NUMBERS)
def test_nan_of_functions(name: str, target: str) -> None:
    torch._dynamo.reset()
    x = torch.tensor([torch.nan, torch.inf, -torch.inf, 2.0, -2.0, 0.5, 0.0, -0.0]).bfloat16().repeat(16)
    f = getattr(torch, name)
    result = lamella.compile(lambda x: f(x), fullgraph=True, options={"target": target} if target else {})(x)
    assert torch.equal(result.isnan(), f(x).isnan())


def rms(x: Tensor, w: Tensor) -> Tensor:
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w


PROGRAMS = {
    "softmax": lambda x, w: F.softmax(x, -1),
    "log_softmax": lambda x, w: F.log_softmax(x, -1),
    "rms_norm": rms,
    "layer_norm": lambda x, w: F.layer_norm(x + w, x.shape[-1:], w, w),
    "scaled": lambda x, w: F.gelu(x) * w + x,
    "float weight": lambda x, w: (x * w.float()).bfloat16() + w,
    "columns": lambda x, w: (x * w).sum(0),
    "rows": lambda x, w: (x * w).sum(1),
    "turned": lambda x, w: x.t() + (x * w).t().contiguous(),
    "picked": lambda x, w: F.embedding(torch.tensor([[1, 0], [2, 1]]), x) + w,
}


@pytest.mark.parametrize("target", ["", "avx2"] if HOST.vector_bits >= 256 else [""])
@pytest.mark.parametrize("n", [1, 31, 32, 64, 96, 100, 1000, 1024])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, n: int, target: str) -> None:
    f = PROGRAMS[name]
    torch.manual_seed(n)
    x = torch.randn(37, n + 3).bfloat16()[:, :n]
    w = torch.randn(n).bfloat16()
    exact, eager = f(x.double(), w.double()) if name != "float weight" else f(x, w).double(), f(x, w)
    options = {"target": target} if target else {}
    result = lamella.compile(f, fullgraph=True, options=options)(x, w)
    assert result.dtype == eager.dtype and (n == 1 or result.stride() == eager.stride())
    off, allowed = (result.double() - exact).abs().max(), (eager.double() - exact).abs().max()
    assert off <= 1.1 * allowed + 2**-8 * exact.abs().max() * 0.05


@pytest.mark.parametrize("name", ["softmax", "rms_norm", "rows", "columns"])
def test_threads_do_not_change_bits(name: str) -> None:
    x, w = torch.randn(300, 1024).bfloat16(), torch.randn(1024).bfloat16()
    call = lamella.compile(PROGRAMS[name], fullgraph=True)
    threads = torch.get_num_threads()
    try:
        results = []
        for n in (1, 2, 3):
            torch.set_num_threads(n)
            results.append(call(x, w))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(r, results[0]) for r in results)


def test_large_results_bypass_the_caches() -> None:
    x = torch.randn(5000, 8200).bfloat16()
    assert torch.equal(lamella.compile(lambda x: x * 3 + x, fullgraph=True)(x), x * 3 + x)


def test_nan_of_a_float_with_all_digits() -> None:
    x = torch.tensor([0x7FFFFFFF, -1, 0x7FFF8000, -0x8000], dtype=torch.int32).view(torch.float32).repeat(64)
    h = torch.ones(256, dtype=torch.bfloat16)
    assert lamella.compile(lambda x, h: x.to(h.dtype) * h + h, fullgraph=True)(x, h).isnan().all()
