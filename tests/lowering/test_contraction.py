"""Which reductions are products of matrices."""

from __future__ import annotations

import pytest

from lamella.dialects.loop import ForOp, KernelOp, NestOp
from lamella.dialects.text import parse_module
from lamella.lowering.contraction import contraction_of_loop, contraction_of_nest

X, Y = "!sym.t<[4, 6, 8], f32>", "!sym.t<[8, 6, 5], f32>"


def nest(dims: str, x: str, y: str, reduce: str = "[r0 = 8]", op: str = "mulf", kind: str = "add") -> NestOp:
    """The nest over `dims` that combines x[…] op y[…]."""
    shape = [part.split("=")[1].strip() for part in dims.strip("[]").split(",")]
    module = parse_module(f"""
      func.func @main(%x: {X}, %y: {Y}) -> !sym.t<[{", ".join(shape)}], f32> {{
        %0 = loop.nest {dims} reduce {reduce} combine [{kind}] {{
          %1 = loop.load %x{x} : {X}
          %2 = loop.load %y{y} : {Y}
          %3 = arith.{op} %1, %2 : f32
          loop.yield %3 : f32
        }} : !sym.t<[{", ".join(shape)}], f32>
        func.return %0 : !sym.t<[{", ".join(shape)}], f32>
      }}""")
    (found,) = (op for op in module.walk() if isinstance(op, NestOp))
    return found


def test_rows_columns_and_batches() -> None:
    found = contraction_of_nest(nest("[d0 = 6, d1 = 4, d2 = 5]", "[d1, d0, r0]", "[r0, d0, d2]"))
    assert found is not None
    dims = [[d.name for d in part] for part in (found.batch, found.rows, found.columns, found.reduce)]
    assert dims == [["d0"], ["d1"], ["d2"], ["r0"]]


def test_the_left_factor_is_that_of_the_first_dim() -> None:
    found = contraction_of_nest(nest("[d0 = 5, d1 = 4]", "[d1, 0, r0]", "[r0, 0, d0]"))
    assert found is not None
    assert [d.name for d in found.rows] == ["d0"] and found.left.owner.operands[0].name_hint == "y"  # pyright: ignore


@pytest.mark.parametrize(
    "other",
    [
        nest("[d0 = 4, d1 = 6]", "[d0, d1, r0]", "[r0, d1, d0]"),  # a dot for each point
        nest("[d0 = 4, d1 = 6]", "[d0, d1, r0]", "[r0, 0, 0]"),  # a matrix times a vector
        nest("[d0 = 4, d1 = 5]", "[d0, 0, 0]", "[r0, 0, d1]"),  # a factor of the sum
        nest("[d0 = 4, d1 = 5]", "[d0, 0, r0]", "[r0, 0, d1]", op="addf"),
        nest("[d0 = 4, d1 = 5]", "[d0, 0, r0]", "[r0, 0, d1]", kind="max"),
        nest("[d0 = 4, d1 = 5, d2 = 3]", "[d0, 0, r0]", "[r0, 0, d1]"),  # repeated
    ],
)
def test_other_reductions(other: NestOp) -> None:
    assert contraction_of_nest(other) is None


def test_a_loop_of_a_kernel_with_a_factor_from_before_it() -> None:
    module = parse_module("""
      loop.kernel @k(%x0: !sym.t<[4, 8], f32>, %x1: !sym.t<[8, 5], bf16>) outs(%y0: !sym.t<[4, 5], f32>) sizes [] grid [d0 = 4, d1 = 5] {
        %c = arith.constant 2.0 : f32
        %0 = loop.for [r0 = 8] reduce [add] {
          %1 = loop.load %x0[d0, r0] : !sym.t<[4, 8], f32>
          %2 = arith.mulf %1, %c : f32
          %3 = loop.load %x1[r0, d1] : !sym.t<[8, 5], bf16>
          %4 = arith.extf %3 : bf16 to f32
          %5 = arith.mulf %2, %4 : f32
          loop.yield %5 : f32
        } : f32
        loop.store %0, %y0[d0, d1] : !sym.t<[4, 5], f32>
        loop.end
      }""")
    (kernel,) = (op for op in module.walk() if isinstance(op, KernelOp))
    (loop,) = (op for op in kernel.body.block.ops if isinstance(op, ForOp))
    found = contraction_of_loop(loop, tuple(kernel.grid))
    assert found is not None
    assert ([d.name for d in found.rows], [d.name for d in found.columns]) == (["d0"], ["d1"])
    assert found.left.owner.name == "arith.mulf" and found.right.owner.name == "arith.extf"  # pyright: ignore
