"""Products of f32 as three bf16 in matrix units, which are emulated: sizes, layouts, ends, and numbers of all kinds."""

import ctypes

import pytest
import torch
from torch import Tensor

from lamella.tests.codegen.tiles import compiled


def kernel(m: int | str, n: int, k: int, left: str, right: str) -> str:
    """y[d0, d1] = sum of x * w, where x lies along "k" or "m" and w along "k" or "n". `m` may be the symbol s0."""
    x, at_x = (f"[{m}, {k}]", "d0, r0") if left == "k" else (f"[{k}, {m}]", "r0, d0")
    w, at_w = (f"[{n}, {k}]", "d1, r0") if right == "k" else (f"[{k}, {n}]", "r0, d1")
    x, w, y = (f"!sym.t<{shape}, f32>" for shape in (x, w, f"[{m}, {n}]"))
    return f"""
loop.kernel @k(%x: {x}, %w: {w}) outs(%y: {y}) sizes [{"s0" if m == "s0" else ""}] grid [d0 = {m}, d1 = {n}] {{
  %s = loop.for [r0 = {k}] reduce [add] {{
    %a = loop.load %x[{at_x}] : {x}
    %b = loop.load %w[{at_w}] : {w}
    %p = arith.mulf %a, %b : f32
    loop.yield %p : f32
  }} : f32
  loop.store %s, %y[d0, d1] : {y}
  loop.end
}}"""


def product(
    x: Tensor, w: Tensor, left: str = "k", right: str = "n", text: str | None = None, threads: int = 2
) -> Tensor:
    """x @ w, as the kernel, or that of a text, makes it; blocks are made for `threads`."""
    (m, k), n = x.shape, w.shape[1]
    given = [x.contiguous() if left == "k" else x.T.contiguous(), w.contiguous() if right == "n" else w.T.contiguous()]
    y = torch.full((m, n), 7.0)
    code = compiled(kernel(m, n, k, left, right) if text is None else text, threads)
    types = [*[ctypes.c_void_p] * 3, *[ctypes.c_int64] * (text is not None and "s0" in text)]
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(code["k"])
    assert function(*(t.data_ptr() for t in (*given, y)), *[m] * (len(types) - 3)) == 0
    return y


def error(y: Tensor, x: Tensor, w: Tensor) -> float:
    """Of a sum, in units of the sum of absolute products."""
    exact = x.double() @ w.double()
    return float(((y.double() - exact).abs() / (x.double().abs() @ w.double().abs())).max())


@pytest.mark.parametrize("left", ["k", "m"])
@pytest.mark.parametrize("right", ["k", "n"])
@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 512), (150, 75, 301), (33, 1000, 64)])
def test_sizes_and_layouts(m: int, n: int, k: int, left: str, right: str) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(m, k), torch.randn(k, n) * torch.logspace(-3, 3, n)
    y = product(x, w, left, right)
    assert error(y, x, w) <= error(x @ w, x, w) + 2**-24


@pytest.mark.parametrize("m", [1, 40, 300])
def test_any_number_of_rows(m: int) -> None:
    torch.manual_seed(0)
    x, w, text = torch.randn(m, 70), torch.randn(70, 640), kernel("s0", 640, 70, "k", "n")
    y = product(x, w, text=f"builtin.module attributes {{lamella.hints = {{s0 = 100 : i64}}}} {{{text}}}")
    assert error(y, x, w) <= error(x @ w, x, w) + 2**-24


def test_blocks_for_any_number_of_threads() -> None:
    """What a block has beside a sum is nothing to it, unless numbers are so small that sums are added up again."""
    torch.manual_seed(0)
    x, w = torch.randn(100, 70), torch.randn(70, 320)
    y = product(x, w, threads=1)
    assert all(torch.equal(product(x, w, threads=n), y) for n in (2, 3, 16))


def test_columns_come_first_in_the_product() -> None:
    torch.manual_seed(0)
    x, w = torch.randn(64, 300), torch.randn(300, 128)
    y = product(x, w, text=kernel(64, 128, 300, "k", "n").replace("arith.mulf %a, %b", "arith.mulf %b, %a"))
    assert error(y, x, w) <= error(x @ w, x, w) + 2**-24


def test_numbers_that_are_none() -> None:
    """What is wrong in tiles is added up again: infinities, NaN, what overflows as parts, in rows at the end too."""
    torch.manual_seed(0)
    x, w = torch.randn(150, 301), torch.randn(301, 75)
    x[3, 5], x[149, 300], w[7, 74], w[300, 0] = torch.inf, torch.nan, -torch.inf, torch.finfo(torch.float32).max
    x[20] = 0
    x[20, 300] = 1e-3
    x[40], w[:, 40] = 1e30, 1e-10
    x[50, ::3], w[::5, 50] = 1e-40, -1e-40
    y, exact = product(x, w), x @ w
    torch.testing.assert_close(y, exact, equal_nan=True, rtol=1e-5, atol=1e-4)
    assert y.isnan().any() and y.isinf().any()


def test_rows_of_nan() -> None:
    """They are left as they are: all rows of a step that went wrong would be added up again."""
    torch.manual_seed(0)
    x, w = torch.randn(64, 300), torch.randn(300, 256)
    x[1::3, 299] = torch.nan
    x[1, 0], x[2, 0], w[5, 9] = torch.inf, torch.inf, -torch.inf
    for left in "km":
        torch.testing.assert_close(product(x, w, left), x @ w, equal_nan=True, rtol=1e-5, atol=1e-4)


def test_small_numbers() -> None:
    """Below 2^-80 sums keep their digits, though the unit takes parts for zero; some below 2^-117 become zero."""
    torch.manual_seed(0)
    x, w = torch.randn(64, 512) * 2.0**-60, torch.randn(512, 64) * 2.0**-60
    x[5] = 0
    y = product(x, w)
    assert (y[5] == 0).all()
    exact, size = x.double() @ w.double(), x.double().abs() @ w.double().abs()
    assert ((y - exact).abs() <= torch.where(y == 0, 2.0**-117, 2**-20 * size)).all()
    assert (y == 0).sum() < 80


@pytest.mark.parametrize(
    "text", [kernel(64, 128, 300, "k", "n"), kernel(64, 128, 300, "k", "k").replace("%a, %b", "%n, %b")]
)
def test_large_beside_small_numbers(text: str) -> None:
    """What denormal parts of one factor lose counts where the other has large numbers; infinities are not such."""
    torch.manual_seed(0)
    x, w = torch.randn(64, 300) * 1e-12, torch.randn(300, 128) * 1e-12
    x[:, 7], w[7] = x[:, 7] * 1e-22, 3e30
    x[9, 5] = torch.inf
    x[11] = 0
    x[11, 7] = 1e-40  # nothing else is in this sum
    negated = "%n" in text
    text = text.replace("%b = loop.load", "%n = arith.negf %a : f32\n    %b = loop.load") if negated else text
    y = product(x, w, right="k" if negated else "n", text=text)
    rest = [i for i in range(64) if i != 9]
    assert error(-y[rest] if negated else y[rest], x[rest], w) <= error((x @ w)[rest], x[rest], w) + 2**-24
    assert y[9].isinf().all()


@pytest.mark.parametrize("left", [True, False])
def test_no_neighbours_along_either_dim(left: bool) -> None:
    """A factor that is every second number of its rows is packed, and added up again where it must be."""
    torch.manual_seed(0)
    x, w = torch.randn(64, 300), torch.randn(300, 128)
    x[3, 5], w[7, 100], x[9] = torch.inf, torch.finfo(torch.float32).max, x[9] * 1e-30
    text, (m, n) = kernel(64, 128, 300, "k", "n"), ((64, 300) if left else (300, 128))
    text = text.replace(f"!sym.t<[{m}, {n}], f32>", f"!sym.t<[{m}, {n}], f32, strides=[{2 * n}, 2]>")
    wide = (x if left else w).repeat_interleave(2, 1).contiguous()
    given = {True: (wide, w.contiguous()), False: (x.contiguous(), wide)}[left]
    y = torch.full((64, 128), 7.0)
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3)(compiled(text)["k"])
    assert function(*(t.data_ptr() for t in (*given, y))) == 0
    torch.testing.assert_close(y, x @ w, equal_nan=True, rtol=1e-5, atol=1e-4)
    assert error(y[9:10, :100], x[9:10], w[:, :100]) <= 2**-20  # small sums, one number after the other
