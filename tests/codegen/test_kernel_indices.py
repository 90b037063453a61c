"""Kernels whose loads and stores are at any index: strides, layouts, masks, grids."""

from collections.abc import Callable

import pytest
import torch

from lamella.codegen.llvm_text import emit
from lamella.dialects import expr
from lamella.dialects.context import make_context
from lamella.dialects.loop import PredAttr
from lamella.dialects.text import parse_module
from lamella.lowering.kernel_to_llvm import KernelToLlvm
from lamella.tests.codegen.kernels import DTYPES, TARGETS, grid_kernel, run, sample, vector


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
def test_index_forms(index: str, expected: Callable[[torch.Tensor], torch.Tensor], lanes: int, target: str) -> None:
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
def test_strided_vectors_at_the_ends_of_a_row(
    dtype: str, step: int, target: str, guarded: Callable[[torch.Tensor], torch.Tensor]
) -> None:
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
