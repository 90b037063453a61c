"""Products of bf16 in matrix units, which are emulated: strips that overlap, parts of the inner dim, both layouts."""

import ctypes

import pytest
import torch

from lamella.tests.codegen.tiles import compiled


@pytest.mark.parametrize("right", ["k", "n"])
@pytest.mark.parametrize("k", [64, 320])
def test_products_of_bf16(k: int, right: str) -> None:
    torch.manual_seed(0)
    x, w, y = torch.randn(40, k).bfloat16(), torch.randn(k, 64).bfloat16(), torch.full((40, 64), 7.0)
    shape, at = (f"[64, {k}]", "d1, r0") if right == "k" else (f"[{k}, 64]", "r0, d1")
    code = compiled(f"""
loop.kernel @k(%x: !sym.t<[40, {k}], bf16>, %w: !sym.t<{shape}, bf16>) outs(%y: !sym.t<[40, 64], f32>) sizes [] grid [d0 = 40, d1 = 64] {{
  %s = loop.for [r0 = {k}] reduce [add] {{
    %0 = loop.load %x[d0, r0] : !sym.t<[40, {k}], bf16>
    %1 = arith.extf %0 : bf16 to f32
    %2 = loop.load %w[{at}] : !sym.t<{shape}, bf16>
    %3 = arith.extf %2 : bf16 to f32
    %4 = arith.mulf %1, %3 : f32
    loop.yield %4 : f32
  }} : f32
  loop.store %s, %y[d0, d1] : !sym.t<[40, 64], f32>
  loop.end
}}""")
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3)(code["k"])
    given = w if right == "n" else w.T.contiguous()
    assert function(*(t.data_ptr() for t in (x, given, y))) == 0
    torch.testing.assert_close(y, (x.double() @ w.double()).float(), rtol=1e-5, atol=1e-5)
