"""The interpreter of kernels: what they read and write, and that it finds what lies outside."""

import pytest
import torch

from lamella.codegen.interpret_tt import KernelError
from lamella.tests.codegen.interpreted_tt import run


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
    run(text, (1,), x, y)
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
    run(text, (1,), torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), y)
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
    run(text, (1,), x[1:], x[1:])
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
    run(LOAD.format(load=", %mask", store=", %mask"), (1,), x, y, 5)
    assert torch.equal(x, y)


def test_undefined_lanes_are_nan() -> None:
    x, y = torch.randn(5), torch.zeros(8)
    run(LOAD.format(load=", %mask", store=""), (1,), x, y, 5)
    assert torch.equal(y[:5], x) and y[5:].isnan().all()


def test_load_outside() -> None:
    with pytest.raises(
        KernelError, match=r"'tt.load' at model.py:12:3 in program \(0, 0, 0\): element 7 of a tensor of 5"
    ):
        run(LOAD.format(load="", store=", %mask"), (1,), torch.randn(5), torch.zeros(8), 5)


def test_store_outside() -> None:
    y = torch.zeros(9)
    with pytest.raises(KernelError, match=r"'tt.store' in program .*: element 7 of a tensor of 5 \(argument 1\)"):
        run(LOAD.format(load="", store=""), (1,), torch.randn(8), y[:5], 8)
    assert not y.any(), "a view of a larger tensor is as large as the view"


def test_empty_tensor() -> None:
    run(LOAD.format(load=", %mask", store=", %mask"), (1,), torch.randn(0), torch.zeros(0), 0)
    with pytest.raises(KernelError, match="element 0 of a tensor of 0"):
        run(LOAD.format(load=", %mask", store=", %mask"), (1,), torch.randn(0), torch.zeros(1), 1)


def test_null_pointer() -> None:
    with pytest.raises(KernelError, match=r"'tt\.load'"):
        run(LOAD.format(load=", %mask", store=", %mask"), (1,), None, torch.zeros(1), 1)


def test_assertion() -> None:
    text = """
    tt.func public @k(%n: i32) {
      %c = arith.constant 3 : i32
      %ok = arith.cmpi slt, %n, %c : i32
      tt.assert %ok, "index out of range" : i1
      tt.return
    }"""
    run(text, (1,), 2)
    with pytest.raises(KernelError, match="index out of range"):
        run(text, (1,), 3)


def test_unaligned_descriptor() -> None:
    text = """
    tt.func public @k(%x: !tt.ptr<f32>, %n: i32, %s: i64) {
      %one = arith.constant 1 : i64
      %d = tt.make_tensor_descriptor %x, [%n, %n], [%s, %one] : !tt.ptr<f32>, !tt.tensordesc<tensor<4x4xf32>>
      tt.return
    }"""
    x = torch.zeros(64)
    run(text, (1,), x, 4, 4)
    with pytest.raises(KernelError, match="multiples of 16 bytes"):
        run(text, (1,), x, 4, 5)
    with pytest.raises(KernelError, match="multiples of 16 bytes"):
        run(text, (1,), x[1:], 4, 4)
