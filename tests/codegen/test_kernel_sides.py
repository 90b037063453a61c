"""Rows two at a time: any number of them, in place, in several dims of a grid, on any number of threads."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import lamella
from lamella.tests.codegen.kernels import run

DTYPES = [torch.bfloat16, torch.float32, torch.float16]


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 5, 64, 301])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_softmax(rows: int, dtype: torch.dtype) -> None:
    x = torch.randn(rows, 7, 512).to(dtype)[:, :, 3:260].transpose(0, 1)
    x[..., 0].fill_(float("-inf"))
    if rows > 2:
        x[1, 1, 5], x[2, 2, 5] = float("nan"), float("inf")
    torch._dynamo.reset()
    result = lamella.compile(lambda x: F.softmax(x, -1), fullgraph=True)(x)
    exact, eager = F.softmax(x.double(), -1), F.softmax(x, -1)
    assert torch.equal(result.isnan(), eager.isnan())
    off, allowed = ((y.double() - exact).nan_to_num().abs().sum() for y in (result, eager))
    assert off <= 1.1 * allowed + 1e-7 * rows


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_in_place_on_threads(threads: int) -> None:
    x = torch.randn(1025, 500).bfloat16()

    def f(x: Tensor) -> Tensor:
        return x.copy_(F.softmax(x, -1))

    first, before = x.clone(), torch.get_num_threads()
    lamella.compile(f, fullgraph=True)(first)
    try:
        torch.set_num_threads(threads)
        lamella.compile(f, fullgraph=True)(x)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(x, first)
    torch.testing.assert_close(x.sum(-1), torch.ones(1025).bfloat16(), atol=0.02, rtol=0)


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (2, 4), (7, 1), (0, 3)])
def test_points_of_two_dims(shape: tuple[int, int]) -> None:
    text = """
loop.kernel @k(%x: !sym.t<[s0, s1, 20], f32>) outs(%y: !sym.t<[s1, s0, 20], f32>) sizes [s0, s1] grid [d0 = s0, d1 = s1] attributes {sides = 2 : i64} {
  %t = loop.scratch : !sym.t<[20], f32>
  %s = loop.for [d2 = 20] reduce [add] attributes {vector = "d2", lanes = 8 : i64, unroll = 2 : i64} {
    %1 = loop.load %x[d0, d1, d2] : !sym.t<[s0, s1, 20], f32>
    loop.store %1, %t[d2] : !sym.t<[20], f32>
    loop.yield %1 : f32
  } : f32
  loop.for [d2 = 20] attributes {vector = "d2", lanes = 8 : i64, unroll = 1 : i64} {
    %1 = loop.load %t[d2] : !sym.t<[20], f32>
    %2 = arith.addf %1, %s : f32
    loop.store %2, %y[d1, d0, d2] : !sym.t<[s1, s0, 20], f32>
    loop.yield
  }
  loop.end
}"""
    x = torch.randint(-99, 99, (*shape, 20)).float()
    y = torch.empty(shape[1], shape[0], 20)
    assert run(text, [x, y], list(shape)) == 0
    assert torch.equal(y, (x + x.sum(-1, keepdim=True)).transpose(0, 1))


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (2, 4), (7, 1), (0, 3)])
def test_rows_that_are_asked_for(sides: int, shape: tuple[int, int]) -> None:
    """The next point's row is asked for, also where that is of another dim, or not there."""
    text = f"""
loop.kernel @k(%x: !sym.t<[s0, s1, 20], f32>, %p: !sym.t<[s1, 20], f32>) outs(%y: !sym.t<[s0, s1, 20], f32>) sizes [s0, s1] grid [d1 = s1, d0 = s0] attributes {{sides = {sides} : i64}} {{
  %s = loop.for [d2 = 20] reduce [add] attributes {{vector = "d2", lanes = 8 : i64, unroll = 2 : i64}} {{
    %1 = loop.load %x[d0, d1, d2] : !sym.t<[s0, s1, 20], f32>
    loop.yield %1 : f32
  }} : f32
  loop.for [d2 = 20] attributes {{vector = "d2", lanes = 8 : i64, unroll = 1 : i64}} {{
    %1 = loop.load %x[d0, d1, d2] attributes {{next}} : !sym.t<[s0, s1, 20], f32>
    %2 = loop.load %p[d1, d2] attributes {{next}} : !sym.t<[s1, 20], f32>
    %3 = arith.addf %1, %2 : f32
    %4 = arith.addf %3, %s : f32
    loop.store %4, %y[d0, d1, d2] : !sym.t<[s0, s1, 20], f32>
    loop.yield
  }}
  loop.end
}}
"""
    x, p = (torch.randint(-99, 99, (*sizes, 20)).float() for sizes in (shape, shape[1:]))
    y = torch.empty(*shape, 20)
    assert run(text, [x, p, y], list(shape)) == 0
    assert torch.equal(y, x + p + x.sum(-1, keepdim=True))
