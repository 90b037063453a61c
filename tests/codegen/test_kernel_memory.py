"""Kernels and memory: transposes, streaming stores, scratch, and nothing outside of tensors touched."""

from collections.abc import Callable

import pytest
import torch

from lamella.tests.codegen.kernels import (
    DTYPES,
    SELF_SUM,
    TARGETS,
    grid_kernel,
    pointwise,
    row_reduction,
    run,
    sample,
    vector,
)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "i8", "i1"])
@pytest.mark.parametrize("block", [8, 16])
def test_transposes(dtype: str, block: int, target: str, guarded: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Tiles with rows and columns exchanged, whole ones and what is left on both sides; nothing else is read."""
    t, u = f"!sym.t<[s1, s0], {dtype}>", f"!sym.t<[s0, s1], {dtype}>"
    text = grid_kernel(
        f"%x: {t}", f"%y: {u}",
        f"""%t = loop.scratch : !sym.t<[32, 64], {dtype}>
        loop.for [d1 = 64*b1 : min(s1, 64*b1 + 64), d0 = 32*b0 : min(s0, 32*b0 + 32)] attributes {{transpose = {block} : i64}} {{
          %0 = loop.load %x[d1, d0] : {t}
          loop.store %0, %t[-32*b0 + d0, -64*b1 + d1] : !sym.t<[32, 64], {dtype}>
          loop.yield
        }}
        loop.for [d0 = 32*b0 : min(s0, 32*b0 + 32), d1 = 64*b1 : min(s1, 64*b1 + 64)] {vector("d1", 16)} {{
          %0 = loop.load %t[-32*b0 + d0, -64*b1 + d1] : !sym.t<[32, 64], {dtype}>
          loop.store %0, %y[d0, d1] : {u}
          loop.yield
        }}""",
        "s0, s1", "b0 = floordiv(s0 + 31, 32), b1 = floordiv(s1 + 63, 64)",
    )  # fmt: skip
    for rows, columns in ((64, 128), (1, 1), (31, 65), (33, 200), (0, 5)):
        x, y = sample(dtype, columns, rows), torch.zeros(rows, columns, dtype=DTYPES[dtype])
        assert run(text, [guarded(x) if x.numel() else x, y], [rows, columns], target) == 0
        assert torch.equal(y, x.T)


@pytest.mark.parametrize("offset", [0, 4])
def test_streaming_stores(offset: int) -> None:
    """Nontemporal stores into aligned and unaligned buffers, with prefetch; the last rows are written as the first."""
    t = "!sym.t<[s0, 64], f32>"
    text = grid_kernel(
        f"%x: {t}", f"%y: {t}",
        f"""loop.for [d1 = 64] {vector("d1", 16, 2)} {{
          %0 = loop.load %x[d0, d1] attributes {{prefetch = 4096 : i64}} : {t}
          loop.store %0, %y[d0, d1] attributes {{nontemporal}} : {t}
          loop.yield
        }}""",
        "s0", "d0 = s0", 1,
    )  # fmt: skip
    x, room = torch.randn(20, 64), torch.zeros(20 * 64 + 64)
    y = room[offset : offset + 20 * 64].view(20, 64)
    assert run(text, [x, y], [20]) == 0
    assert torch.equal(x, y) and room[-32:].eq(0).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_large_scratch(threads: int) -> None:
    """A scratch buffer of symbolic size is each thread's own."""
    torch.set_num_threads(threads)
    t, e = "!sym.t<[s0, s1], f32>", "!sym.t<[s1], f32>"
    text = grid_kernel(
        f"%x: {t}", f"%y: {t}",
        f"""%e = loop.scratch : {e}
        loop.for [d1 = s1] {vector("d1", 16)} {{
          %0 = loop.load %x[d0, d1] : {t}
          loop.store %0, %e[s1 - 1 - d1] : {e}
          loop.yield
        }}
        loop.for [d1 = s1] {vector("d1", 16)} {{
          %0 = loop.load %e[d1] : {e}
          loop.store %0, %y[d0, d1] : {t}
          loop.yield
        }}""",
        "s0, s1", "d0 = s0", 1,
    )  # fmt: skip
    for n in (1, 100, 300_000):
        x, y = torch.randn(6, n), torch.zeros(6, n)
        assert run(text, [x, y], [6, n]) == 0
        assert torch.equal(y, x.flip(1))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8", "i64"])
def test_nothing_outside_is_touched(dtype: str, target: str, guarded: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Remainders, strides and sums at the end of memory."""
    for n in (1, 7, 16, 45):
        x, y = guarded(sample(dtype, n)), guarded(torch.zeros(n, dtype=DTYPES[dtype]))
        assert run(pointwise(dtype, SELF_SUM[dtype], 8), [x, y], [n], target) == 0
        assert torch.equal(y, x + x)
    for step in (2, 3, 4):
        x_type, y_type = f"!sym.t<[{44 * step + 1}], {dtype}>", f"!sym.t<[45], {dtype}>"
        text = grid_kernel(
            f"%x: {x_type}",
            f"%y: {y_type}",
            f"""loop.for [d0 = 45] {vector("d0", 8, 2)} {{
              %0 = loop.load %x[{step}*d0] : {x_type}
              loop.store %0, %y[44 - d0] : {y_type}
              loop.yield
            }}""",
        )
        x, y = guarded(sample(dtype, 44 * step + 1)), guarded(torch.zeros(45, dtype=DTYPES[dtype]))
        assert run(text, [x, y], (), target) == 0
        assert torch.equal(y, x[::step].flip(0))
    x, y = guarded(sample(dtype, 3, 37)), guarded(torch.zeros(3, dtype=DTYPES[dtype]))
    assert run(row_reduction("max", dtype, "s1", 8, 2), [x, y], [3, 37], target) == 0
    assert torch.equal(y, x.amax(1))
