"""Matrix products that are kernels: no further from the exact result than eager's are, whatever the layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

EVERY: dict[str, Any] = {"products": "all", "strict": True}


def check(f: Callable[..., Any], args: Sequence[Any], options: dict[str, Any] = EVERY, times: float = 2) -> None:
    """f as kernels has eager's types and strides, and at most `times` the error of eager's, and a rounding."""
    torch._dynamo.reset()
    got, eager = torch.compile(f, backend="lamella", options=options)(*args), f(*args)
    exact = f(*(a.double() if isinstance(a, Tensor) and a.is_floating_point() else a for a in args))
    if isinstance(got, Tensor):
        got, eager, exact = (got,), (eager,), (exact,)
    for g, e, right in zip(got, eager, exact, strict=True):
        assert g.dtype == e.dtype and g.shape == e.shape and g.stride() == e.stride()
        if not g.numel():
            continue
        if not g.dtype.is_floating_point:
            assert torch.equal(g, e)
            continue
        known = right.isfinite()
        torch.testing.assert_close(g[~known].double(), right[~known], equal_nan=True)
        if not known.any():
            continue
        right, g, e = right[known], g[known].double(), e[known].double()
        allowed = times * (e - right).abs().max() + torch.finfo(eager[0].dtype).eps * right.abs().max()
        assert (g - right).abs().max() <= allowed


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("columns_in_one_piece", [True, False])
@pytest.mark.parametrize("size,columns", [(300, 70), (1, 5), (0, 5), (64, 1)])
def test_a_row_is_as_exact_as_eager(dtype: torch.dtype, columns_in_one_piece: bool, size: int, columns: int) -> None:
    torch.manual_seed(0)
    x, bias = torch.randn(1, size).to(dtype), torch.randn(columns).to(dtype)
    w = torch.randn(columns, size).to(dtype).t() if columns_in_one_piece else torch.randn(size, columns).to(dtype)

    def f(x: Tensor, w: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        return x @ w, torch.addmm(bias, x, w, beta=0.5, alpha=2)

    check(f, (x, w, bias), {"strict": True}, times=1.5)


def test_f64_within_the_bound_of_any_order() -> None:
    """|error| <= n * eps * sum(|x| * |w|): nothing more exact is at hand to compare with."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    x, w = torch.randn(1, 300, dtype=torch.float64), torch.randn(70, 300, dtype=torch.float64).t()
    got = torch.compile(lambda x, w: x @ w, backend="lamella")(x, w)
    bound = 2 * 300 * torch.finfo(torch.float64).eps * (x.abs() @ w.abs())
    assert ((got - x @ w).abs() <= bound).all()


@pytest.mark.parametrize("m", [1, 3])
def test_bias_is_not_read_where_beta_is_0(m: int) -> None:
    torch._dynamo.reset()
    x, w, bias = torch.ones(m, 4), torch.ones(3, 4).t(), torch.full((3,), float("nan"))
    f = torch.compile(lambda b, x, w: torch.addmm(b, x, w, beta=0), backend="lamella", options=EVERY)
    assert torch.equal(f(bias, x, w), torch.full((m, 3), 4.0))


SIZES = st.sampled_from([0, 1, 2, 3, 4, 7, 8, 13, 16, 24, 31, 33, 48, 64, 100])


@st.composite
def matrices(draw: st.DrawFn, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """A tensor of a shape: contiguous, with dims exchanged, a part of a larger one, every second element, or expanded."""
    layout = draw(st.sampled_from(["plain", "plain", "turned", "part", "strided", "expanded"]))
    n = len(shape)
    if layout == "turned" and n > 1:
        order = [*range(n - 2), n - 1, n - 2]
        return torch.randn([shape[k] for k in order]).to(dtype).permute(order)
    if layout == "part":
        return torch.randn([k + 3 for k in shape]).to(dtype)[tuple(slice(2, k + 2) for k in shape)]
    if layout == "strided":
        return torch.randn([*shape[:-1], 2 * shape[-1]]).to(dtype)[..., ::2]
    if layout == "expanded":
        return torch.randn([*shape[:-2], 1, shape[-1]][-n:]).to(dtype).expand(shape)
    return torch.randn(shape).to(dtype)


@settings(max_examples=25, deadline=None)
@given(st.data(), SIZES, SIZES, SIZES, st.sampled_from([torch.float32, torch.bfloat16, torch.float16]))
def test_shapes_and_layouts(data: st.DataObject, m: int, n: int, k: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x, w, bias = (data.draw(matrices(s, dtype)) for s in ([m, k], [k, n], [n]))
    residual = data.draw(matrices([m, n], torch.float32))
    check(lambda x, w, b, r: F.silu(torch.addmm(b, x, w)) + r, (x, w, bias, residual))


@settings(max_examples=12, deadline=None)
@given(st.data(), st.sampled_from([0, 1, 3]), SIZES, SIZES, SIZES)
def test_batches(data: st.DataObject, b: int, m: int, n: int, k: int) -> None:
    torch.manual_seed(0)
    x, y = data.draw(matrices([b, m, k], torch.float32)), data.draw(matrices([b, k, n], torch.float32))
    c = data.draw(matrices([b, m, n], torch.float32))
    check(lambda c, x, y: torch.baddbmm(c, x, y, beta=2.0, alpha=0.5), (c, x, y))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("m", [1, 4, 16])
def test_a_weight_of_bytes_is_converted_where_it_is_read(dtype: torch.dtype, m: int) -> None:
    torch.manual_seed(0)
    x, scale = torch.randn(m, 96).to(dtype), torch.rand(80).to(dtype)
    w = torch.randint(-128, 128, (80, 96), dtype=torch.int8)
    check(lambda x, w, s: F.linear(x, w.to(x.dtype)) * s, (x, w, scale))


@pytest.mark.parametrize("m", [5, 16, 17, 31, 32, 33, 50, 600])
@pytest.mark.parametrize("k,n", [(32, 32), (64, 96), (800, 160)])
@pytest.mark.parametrize("layout", ["kk", "kn", "mn"])
def test_sizes_of_matrix_units(m: int, k: int, n: int, layout: str) -> None:
    """bf16, where the machine has them; else as any other."""
    torch.manual_seed(0)
    x = torch.randn(m, k).bfloat16() if layout[0] == "k" else torch.randn(k, m).bfloat16().t()
    w = torch.randn(n, k).bfloat16().t() if layout[1] == "k" else torch.randn(k, n).bfloat16()
    check(lambda x, w, b: F.gelu(torch.addmm(b, x, w)), (x, w, torch.randn(n).bfloat16()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_heads_beside_each_other_and_a_sum_that_lies_otherwise(dtype: torch.dtype) -> None:
    """As behind attention: the inner dim is two of memory, and rows of the result are two that are not one."""
    torch.manual_seed(0)
    heads, w, b = (torch.randn(s).to(dtype) for s in ((2, 4, 50, 16), (64, 64), (64,)))
    kept = torch.randn(2, 64, 50).to(dtype).transpose(1, 2)
    check(lambda h, w, b, r: r + F.linear(h.transpose(1, 2).reshape(2, 50, 64), w, b), (heads, w, b, kept))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_stays_in_its_row_and_column(value: float) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(6, 40), torch.randn(40, 20)
    x[2, 7], w[5, 3] = value, value
    check(torch.mm, (x, w))
    check(lambda x, w: F.linear(x, w), (x, w.t().contiguous()))
    x, w = torch.randn(6, 64).bfloat16(), torch.randn(64, 32).bfloat16()
    x[2, 7], w[5, 3] = value, value
    check(torch.mm, (x, w))


@pytest.mark.usefixtures("runnable")
@pytest.mark.parametrize("target", ["baseline", "avx2", "avx512"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("layout", ["kk", "kn", "mk"])
def test_tiles_of_other_machines(target: str, dtype: torch.dtype, layout: str) -> None:
    """Registers of other sizes, and other numbers of them."""
    torch.manual_seed(0)
    options = {**EVERY, "target": target}
    for m, k, n in ((1, 70, 33), (5, 200, 64), (16, 96, 80), (37, 40, 200)):
        x = torch.randn(m, k) if layout[0] == "k" else torch.randn(k, m).t()
        w = torch.randn(n, k).t() if layout[1] == "k" else torch.randn(k, n)
        bias = torch.randn(n).to(dtype)
        check(lambda x, w, b: F.gelu(torch.addmm(b, x, w)), (x.to(dtype), w.to(dtype), bias), options)


def test_a_sequence_of_rows_keeps_its_dims_and_results_may_be_views() -> None:
    torch.manual_seed(0)
    w, b = torch.randn(40, 48), torch.randn(40)
    check(lambda x, w, b: F.gelu(F.linear(x, w, b)).transpose(0, 1), (torch.randn(2, 5, 48), w, b))


@pytest.mark.usefixtures("runnable")
@pytest.mark.parametrize("target", ["host", "avx512", "avx2", "baseline"])
@pytest.mark.parametrize("layout", ["kk", "kn", "mk"])
@pytest.mark.parametrize("signs", ["ii", "iu", "ui", "uu"])
def test_sums_of_bytes_are_exact(target: str, layout: str, signs: str) -> None:
    """In tiles, in vectors and in loops; the largest and the smallest numbers too."""
    torch.manual_seed(0)
    kinds = {"i": (torch.int8, -128), "u": (torch.uint8, 0)}
    options = {**EVERY, "target": target}

    def drawn(kind: str, plain: bool, rows: int, columns: int) -> Tensor:
        dtype, least = kinds[kind]
        x = torch.randint(least, least + 256, (rows, columns) if plain else (columns, rows), dtype=dtype)
        x[:3] = least or 255
        return x if plain else x.t()

    for m, k, n in ((5, 64, 32), (100, 192, 160), (16, 33, 17)):
        x, w = drawn(signs[0], layout[0] == "k", m, k), drawn(signs[1], layout[1] == "n", k, n)
        check(lambda x, w: x.int() @ w.int(), (x, w), options)


def test_integers() -> None:
    x, w = torch.randint(-128, 128, (5, 33), dtype=torch.int8), torch.randint(-128, 128, (33, 16), dtype=torch.int8)
    check(
        lambda x, w: (
            torch.mm(x.long(), w.long()),
            torch._int_mm(  # pyright: ignore[reportPrivateImportUsage]
                x[:, :32].contiguous(), w[:32].contiguous()
            ),
        ),
        (x, w),
    )


def test_bytes_and_what_becomes_of_their_sums() -> None:
    torch.manual_seed(0)
    x, w = (torch.randint(-128, 128, shape, dtype=torch.int8) for shape in ((40, 128), (96, 128)))
    check(
        lambda x, w, s, t: torch._int_mm(x, w.t()).float() * s * t,  # pyright: ignore[reportPrivateImportUsage]
        (x, w, torch.rand(40, 1), torch.rand(96)),
    )


DTYPES = (torch.float64, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


@settings(max_examples=25, deadline=None)
@given(st.data(), SIZES, SIZES, SIZES, st.sampled_from(DTYPES))
def test_dtypes_that_have_no_library(data: st.DataObject, m: int, n: int, k: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)

    def drawn(*shape: int) -> Tensor:
        return (data.draw(matrices(shape, torch.float32)) * 100).to(torch.int16).to(dtype)

    x, w, v, batch, c = drawn(m, k), drawn(k, n), drawn(k), drawn(3, k, n), drawn(m, n)
    check(
        lambda x, w, v, batch, c: (
            x @ w,
            torch.addmm(c, x, w, beta=2, alpha=3),
            x @ v,
            torch.dot(v, v),
            torch.addbmm(c, x.expand(3, -1, -1), batch),
        ),
        (x, w, v, batch, c),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("layout", ["kk", "kn", "mk", "mn"])
def test_any_number_of_rows_in_blocks(dtype: torch.dtype, layout: str) -> None:
    """Several blocks of rows, the last one smaller, and rows that make up no tile; columns in blocks."""
    torch.manual_seed(0)
    for m, n, k in ((331, 300, 24), (1009, 13, 40)):
        x = torch.randn(m, k) if layout[0] == "k" else torch.randn(k, m).t()
        w = torch.randn(n, k).t() if layout[1] == "k" else torch.randn(k, n)
        check(lambda x, w, r: torch.tanh(x @ w) + r, (x.to(dtype), w.to(dtype), torch.randn(m, n).to(dtype)))


BLOCKS = st.sampled_from([32, 33, 63, 64, 100, 144, 256, 257, 300])


@pytest.mark.usefixtures("runnable")
@pytest.mark.parametrize("target", ["zen4"])
@settings(max_examples=25, deadline=None)
@given(data=st.data(), m=BLOCKS, n=BLOCKS, k=st.sampled_from([64, 65, 100, 256, 257, 600, 1030]))
def test_packed_factors(target: str, data: st.DataObject, m: int, n: int, k: int) -> None:
    """Blocks of f32 for vectors: parts of the inner dim, tiles that end elsewhere, factors of any layout and dtype, or
    computed where they are packed, several products of matrices, and several dims of rows.
    """
    torch.manual_seed(0)
    options = {**EVERY, "target": target}
    dtypes = st.sampled_from([torch.float32, torch.float32, torch.float16])
    x, w = (data.draw(matrices(s, data.draw(dtypes))) for s in ([m, k], [k, n]))
    ways: dict[str, Callable[..., Tensor]] = {
        "plain": lambda x, w, b: torch.addmm(b, x.to(b), w.to(b)).relu(),
        "computed": lambda x, w, b: (x.to(b) * x.to(b) + 1) @ (w.to(b) - b),
        "batch": lambda x, w, b: torch.stack([x, -x]).to(b) @ torch.stack([w, w]).to(b),
        "rows": lambda x, w, b: x.to(b).unflatten(0, (-1, 1)).expand(-1, 2, -1).transpose(0, 1) @ w.to(b),
    }
    check(ways[data.draw(st.sampled_from([*ways]))], (x, w, torch.randn(n)), options)


@pytest.mark.usefixtures("runnable")
@pytest.mark.parametrize("target", ["zen4"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 3e38])
def test_what_is_not_finite_in_packed_factors(target: str, value: float) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(64, 300), torch.randn(300, 64)
    x[2, 7], w[290, 3] = value, value
    check(torch.mm, (x, w), {**EVERY, "target": target})
    check(lambda x, w: F.linear(x, w), (x, w.t().contiguous()), {**EVERY, "target": target})


def test_a_result_over_its_own_operand() -> None:
    torch.manual_seed(0)

    def f(x: Tensor, w: Tensor) -> Tensor:
        y = x.clone()
        y.copy_(y @ w + y)
        return y

    check(f, (torch.randn(8, 8), torch.randn(8, 8)))


def test_sizes_that_change() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    f = torch.compile(lambda x, w: torch.relu(x @ w.t()), backend="lamella", options=EVERY, dynamic=True)
    g = torch.compile(lambda x, w: torch.relu(x @ w), backend="lamella", options=EVERY, dynamic=True)
    for m, k in ((3, 20), (5, 64), (64, 33), (2, 5), (1001, 7)):
        x, w = torch.randn(m, k), torch.randn(24, k)
        torch.testing.assert_close(f(x, w), torch.relu(x @ w.t()), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(g(x, w.t().contiguous()), torch.relu(x @ w.t()), rtol=1e-5, atol=1e-5)


def test_threads_do_not_matter() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    x, w = torch.randn(8, 512), torch.randn(768, 512)
    f = torch.compile(lambda x, w: F.gelu(F.linear(x, w)), backend="lamella", options=EVERY)
    threads = torch.get_num_threads()
    results: list[Tensor] = []
    try:
        for n in (1, 2, 3):
            torch.set_num_threads(n)
            results.append(f(x, w))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("n", [1, 33])
def test_factors_that_are_computed_from_places_alone(dtype: torch.dtype, n: int) -> None:
    def f() -> tuple[Tensor, Tensor]:
        unit, few = torch.eye(n, dtype=dtype), torch.ones(n, 5, dtype=dtype)
        return unit.mT @ (unit * 2), few @ torch.full((5, n), 3, dtype=dtype)

    torch._dynamo.reset()
    for found, expected in zip(torch.compile(f, backend="lamella", options=EVERY)(), f(), strict=True):
        assert found.dtype == expected.dtype and torch.equal(found, expected)  # small whole numbers
