"""The interpreter of the loop level against torch: kernels with scratch, tiles, scans and atomic stores; checks of accesses."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lamella.codegen.interpret_points import OutOfBounds
from lamella.codegen.interpreter import run_module
from lamella.dialects.text import parse_module
from lamella.dialects.verify import verify


def run(text: str, *inputs: Tensor) -> list[Tensor]:
    module = parse_module(text)
    verify(module)
    return run_module(module, inputs)


SOFTMAX = """
loop.kernel @softmax(%x: !sym.t<[s0, s1], f32>) outs(%y: !sym.t<[s0, s1], f32>) sizes [s0, s1] grid [d0 = s0] {
  %m = loop.for [r0 = s1] reduce [max] {
    %0 = loop.load %x[d0, r0] : !sym.t<[s0, s1], f32>
    loop.yield %0 : f32
  } : f32
  %e = loop.scratch : !sym.t<[s1], f32>
  %s = loop.for [r0 = s1] reduce [add] {
    %0 = loop.load %x[d0, r0] : !sym.t<[s0, s1], f32>
    %1 = arith.subf %0, %m : f32
    %2 = math.exp %1 : f32
    loop.store %2, %e[r0] : !sym.t<[s1], f32>
    loop.yield %2 : f32
  } : f32
  loop.for [d1 = s1] {
    %0 = loop.load %e[d1] : !sym.t<[s1], f32>
    %1 = arith.divf %0, %s : f32
    loop.store %1, %y[d0, d1] : !sym.t<[s0, s1], f32>
    loop.yield
  }
  loop.end
}
func.func @main(%x: !sym.t<[s3, s7], f32>) -> !sym.t<[s3, s7], f32> {
  %y = loop.launch @softmax(%x) sizes [s3, s7] : (!sym.t<[s3, s7], f32>) -> !sym.t<[s3, s7], f32>
  func.return %y : !sym.t<[s3, s7], f32>
}
"""


@pytest.mark.parametrize("shape", [(3, 5), (1, 1), (7, 64)])
def test_softmax(shape: tuple[int, int]) -> None:
    x = torch.randn(shape)
    torch.testing.assert_close(run(SOFTMAX, x)[0], x.softmax(-1))


TILED = """
loop.kernel @tiled(%x: !sym.t<[s0, s1], f32>) outs(%y: !sym.t<[s0], f32>, %z: !sym.t<[s0, s1], f32>) sizes [s0, s1]
    grid [d0 = s0] {
  %s = loop.for [b = floordiv(s1 + 3, 4), r0 = 4*b : min(s1, 4*b + 4)] reduce [add] {
    %0 = loop.load %x[d0, r0] : !sym.t<[s0, s1], f32>
    loop.yield %0 : f32
  } : f32
  loop.store %s, %y[d0] : !sym.t<[s0], f32>
  loop.for [b = floordiv(s1 + 3, 4)] {
    loop.for [d1 = 4*b : min(s1, 4*b + 4)] {
      %0 = loop.load %x[d0, d1] : !sym.t<[s0, s1], f32>
      %1 = loop.scan add %0 along d1 : f32
      loop.store %1, %z[d0, d1] : !sym.t<[s0, s1], f32>
      loop.yield
    }
    loop.yield
  }
  loop.end
}
func.func @main(%x: !sym.t<[s0, s1], f32>) -> (!sym.t<[s0], f32>, !sym.t<[s0, s1], f32>) {
  %y, %z = loop.launch @tiled(%x) sizes [s0, s1] : (!sym.t<[s0, s1], f32>) -> (!sym.t<[s0], f32>, !sym.t<[s0, s1], f32>)
  func.return %y, %z : !sym.t<[s0], f32>, !sym.t<[s0, s1], f32>
}
""".replace("]\n    grid", "] grid")


@pytest.mark.parametrize("n", [1, 4, 6, 11])
def test_tiles_that_do_not_divide(n: int) -> None:
    x = torch.randint(-5, 5, (3, n)).float()
    total, running = run(TILED, x)
    assert torch.equal(total, x.sum(1))
    assert torch.equal(running, torch.cat([t.cumsum(1) for t in x.split(4, 1)], 1))


HISTOGRAM = """
loop.kernel @histogram(%i: !sym.t<[s0], i64>) outs(%y: !sym.t<[8], i32>) sizes [s0] grid [] {
  %0 = arith.constant 0 : i32
  %1 = arith.constant 1 : i32
  loop.for [d0 = 8] {
    loop.store %0, %y[d0] : !sym.t<[8], i32>
    loop.yield
  }
  loop.for [d0 = s0] {
    %v = loop.load %i[d0] : !sym.t<[s0], i64>
    %n = loop.index [8]
    %ok = arith.cmpi ult, %v, %n : i64
    loop.store %1, %y[v0](%v) if %ok combine add atomic : !sym.t<[8], i32>
    loop.yield
  }
  loop.end
}
func.func @main(%i: !sym.t<[s0], i64>) -> !sym.t<[8], i32> {
  %y = loop.launch @histogram(%i) sizes [s0] : (!sym.t<[s0], i64>) -> !sym.t<[8], i32>
  func.return %y : !sym.t<[8], i32>
}
"""


def test_atomic_stores_under_a_mask() -> None:
    i = torch.tensor([0, 3, 3, 7, 9, -1, 0, 3])
    assert run(HISTOGRAM, i)[0].tolist() == [2, 0, 0, 3, 0, 0, 0, 1]


def test_access_outside_of_a_tensor() -> None:
    text = """
    func.func @main(%x: !sym.t<[s0], f32>) -> !sym.t<[s0], f32> {
      %y = loop.nest [d0 = s0] {
        %0 = loop.load %x[d0 + 1] : !sym.t<[s0], f32>
        loop.yield %0 : f32
      } : !sym.t<[s0], f32>
      func.return %y : !sym.t<[s0], f32>
    }"""
    with pytest.raises(OutOfBounds, match=r"load at d0 \+ 1 leaves a dim of size 3"):
        run(text, torch.zeros(3))
    masked = text.replace("[d0 + 1] :", "[d0 + 1] mask [lt(d0, s0 - 1)] other 9.0 : f32 :")
    assert run(masked, torch.tensor([1.0, 2.0, 3.0]))[0].tolist() == [2.0, 3.0, 9.0]


def test_later_updates_of_a_scatter_win() -> None:
    text = """
    func.func @main(%x: !sym.t<[4], i64>, %i: !sym.t<[s0], i64>) -> !sym.t<[4], i64> {
      %y = loop.scatter %x [d0 = s0] combine none {
        %0 = loop.load %i[d0] : !sym.t<[s0], i64>
        %1 = loop.index [d0]
        loop.yield_at %1[v0](%0) : i64
      } : !sym.t<[4], i64> -> !sym.t<[4], i64>
      func.return %y : !sym.t<[4], i64>
    }"""
    assert run(text, torch.full((4,), -1), torch.tensor([2, 0, 2, 0, 2]))[0].tolist() == [3, -1, 4, -1]
