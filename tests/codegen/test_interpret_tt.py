"""The interpreter of kernels against torch: shapes, reductions, control flow, products, programs."""

import pytest
import torch

from lamella.codegen.interpret_tt import launch
from lamella.tests.codegen.interpreted_tt import kernel_of, run


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
    run(text, (1,), x, y)
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
    run(ROWS.format(type="i32", other="0xFF800000", body=body), (2,), x, y, 5)
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
    run(ROWS.format(type="f32", other="0.0", body=body), (3,), x, y, 8)
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
        run(text, (1,), y, n)
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
        run(text, (1,), y, n)
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
    run(text, (2, 3, 4), y)
    assert torch.equal(y, torch.arange(24, dtype=torch.int32))


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
    run(text, (1,), a, b, c)
    error = (c - expected).abs().max().item()
    assert error < 1e-5 if precision == "ieee" else 1e-4 < error < 5e-2


def test_launch() -> None:
    text = """
    tt.func public @k(%y: !tt.ptr<i32>, %n: i32) attributes {noinline = false, lamella.grid = #loop.index<[floordiv(s3 + 3, 4)]>, lamella.sizes = #loop.index<[s3]>} {
      %pid = tt.get_program_id x : i32
      %p = tt.addptr %y, %pid : !tt.ptr<i32>, i32
      tt.store %p, %n : !tt.ptr<i32>
      tt.return
    }"""
    y = torch.zeros(4, dtype=torch.int32)
    launch(kernel_of(text), [y], [10])
    assert y.tolist() == [10, 10, 10, 0]
