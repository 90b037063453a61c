"""What random programs found: no elements, strides that overlap, memory around a tensor, numbers past 2^63."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor


def compiled(f: Callable[..., Any], dynamic: bool | None = None, **options: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    asked: dict[str, Any] = {"cache": False, "strict": True, **options}
    return torch.compile(f, backend="lamella", dynamic=dynamic, options=asked)


@pytest.fixture
def sizes_of_data() -> Iterator[None]:
    with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        yield


@pytest.mark.parametrize("place", ["argument", "inside"])
def test_a_conjugate_of_an_expanded_tensor(place: str) -> None:
    def f(z: Tensor) -> Tensor:
        return (z if place == "argument" else z.expand(4, 3)).conj()

    z = torch.randn(3, dtype=torch.complex64)
    z = z.expand(4, 3) if place == "argument" else z
    found, expected = compiled(f)(z), f(z)
    assert found.stride() == expected.stride() == (0, 1)
    torch.testing.assert_close(found.resolve_conj(), expected.resolve_conj())


@pytest.mark.usefixtures("sizes_of_data")
@pytest.mark.parametrize("shape", [(0, 0, 3), (5,)])
def test_a_size_of_data_beside_no_elements(shape: tuple[int, ...]) -> None:
    """The mask is known to be empty, the size of what it is expanded to is read."""

    def f(x: Tensor) -> Tensor:
        y = torch.masked_select(x.float(), x).relu()
        return y.masked_scatter(x[x], y.flip(0))

    x = torch.ones(shape, dtype=torch.bool)
    assert torch.equal(compiled(f)(x), f(x))


@pytest.mark.parametrize("rows", [0, 4])
def test_indices_of_no_rows(rows: int) -> None:
    def f(x: Tensor) -> Tensor:
        return x[torch.randperm(x.shape[0])].sum(0)

    x = torch.randn(rows, 2)
    torch.testing.assert_close(compiled(f)(x), f(x))


@pytest.mark.parametrize("dynamic", [False, True])
def test_dropout_of_nothing_with_eagers_numbers(dynamic: bool) -> None:
    """ATen's mask has the dtype of the operand then."""
    f = compiled(lambda x: F.dropout(x, 0.5) * 2, dynamic, random="eager")
    for rows in (4, 0):
        x = torch.ones(rows, 3, requires_grad=True)
        y = f(x)
        assert y.shape == (rows, 3) and y.dtype == torch.float32
        (gradient,) = torch.autograd.grad(y.sum(), x)
        assert torch.equal(gradient, y)


def test_a_complex_number_and_u64() -> None:
    def f(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        return a * b, b * a, a + b

    a, b = torch.tensor(2 - 3j), torch.tensor([1, 2**40], dtype=torch.uint64)
    torch.testing.assert_close(compiled(f)(a, b), f(a, b))


@pytest.mark.usefixtures("sizes_of_data")
def test_numbers_past_2_63() -> None:
    def f(x: Tensor) -> Tensor:
        return torch.ones(2, dtype=torch.float64) * (x * -1)[0].item()

    for first in (3, 2**63 + 5):
        x = torch.tensor([first, 4], dtype=torch.int64 if first < 2**63 else torch.uint64)
        torch.testing.assert_close(compiled(f)(x), f(x))


def _around(x: Tensor) -> tuple[Tensor, ...]:
    y = x.narrow(0, 2, 1).add_(3)
    return y.as_strided((2, 2), (3, 1), 25).prod(-1), y


def _around_another(x: Tensor) -> tuple[Tensor, ...]:
    y = (x * 2).clone()
    part = y.narrow(0, 1, 2).fill_(1).transpose(0, -1).clamp_(-1, 3)
    return part.as_strided((3, 2), (0, 1), 20), part


@pytest.mark.parametrize("f", [_around, _around_another])
def test_memory_around_what_was_written(f: Callable[[Tensor], Any]) -> None:
    for first in (1, 0):  # of the first, no guard says where in its memory it lies
        theirs, ours = torch.arange(60.0).view(5, 3, 4)[first : first + 4], torch.arange(60.0).view(5, 3, 4)
        torch.testing.assert_close(compiled(f)(ours[first : first + 4]), f(theirs))
    function = compiled(f)
    for first in (1, 0):
        theirs, ours = torch.arange(60.0).view(5, 3, 4)[first : first + 4], torch.arange(60.0).view(5, 3, 4)
        torch.testing.assert_close(function(ours[first : first + 4]), f(theirs))


@pytest.mark.usefixtures("sizes_of_data")
def test_strides_of_a_gradient_without_elements() -> None:
    """They say nothing, whatever was traced."""

    def f(x: Tensor, k: Tensor) -> Tensor:
        n = int(k.item())
        torch._check(n >= 0)
        torch._check(n <= x.shape[0])
        return ((x[:n] * 1).abs() + 1).lgamma()[..., ::2]

    x = torch.randn(3, 5, 6, requires_grad=True)
    g = compiled(f, True)
    for n in (2, 0, 1):
        y, expected = g(x, torch.tensor(n)), f(x, torch.tensor(n))
        w = torch.randn(3, 5, 6)[:n, :, ::2] if n == 0 else torch.randn_like(expected)
        torch.testing.assert_close(torch.autograd.grad(y, x, w), torch.autograd.grad(expected, x, w))


@pytest.mark.parametrize("f", [torch.float_power, torch.special.zeta], ids=["float_power", "zeta"])
def test_a_row_that_jumps_and_is_made_wider(f: Callable[..., Tensor]) -> None:
    x, y = 1 + 3 * torch.rand(5, 10, 10)[:, :, ::2], 0.5 + 3 * torch.rand(10, 10)[:, ::2]
    torch.testing.assert_close(compiled(f)(x, y), f(x, y))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_sums_of_truth_values(dtype: torch.dtype) -> None:
    """They are true where any is, of whatever number."""

    def f(x: Tensor) -> tuple[Tensor, ...]:
        return torch.sum(x, dtype=torch.bool), torch.sum(x, 1, dtype=torch.bool)

    x = torch.tensor([[1, 0, 1, 0], [0, 0, 0, 0], [0, 1, 1, 1]]).to(dtype)
    assert all(map(torch.equal, compiled(f)(x), f(x)))


_NO_NANSUM = pytest.mark.skipif(torch.__version__ < "2.13", reason="torch 2.11 has no nansum of floats to truth values")


@pytest.mark.parametrize("dtype", [pytest.param(torch.float32, marks=_NO_NANSUM), torch.int64, torch.bool])
def test_a_sum_of_truth_values_beside_nan(dtype: torch.dtype) -> None:
    x = torch.tensor([[1, 0, 1, 0], [0, 0, 0, 0], [0, 1, 1, 1]]).to(dtype)
    if dtype.is_floating_point:
        x[1, 0] = math.nan

    def f(x: Tensor) -> Tensor:
        return torch.nansum(x, 0, dtype=torch.bool)

    assert torch.equal(compiled(f)(x), f(x))


def test_zeta_of_what_is_no_number() -> None:
    numbers = [1.0, 2.5, 3.0, 0.5, float("inf"), -float("inf"), float("nan"), 0.0, -1.0, -2.5, -0.5]
    s, q = torch.cartesian_prod(*[torch.tensor(numbers, dtype=torch.float64)] * 2).T.contiguous()
    torch.testing.assert_close(compiled(torch.special.zeta)(s, q), torch.special.zeta(s, q), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("f", [torch.remainder, torch.fmod, torch.floor_divide], ids=lambda f: f.__name__)
def test_numbers_beside_halves_are_halves(f: Callable[..., Tensor], dtype: torch.dtype) -> None:
    """What is left of a division by 0.1 is another number than by the half next to it."""

    def both(x: Tensor, v: float) -> tuple[Tensor, Tensor]:
        return f(x, v) if f is not torch.floor_divide else x + 0, f(torch.tensor(v), x)

    x = torch.tensor([0.1, -0.1, 1.0, 2.0, 3.0, 7.5, 100.0, 257.0, 1000.0]).to(dtype)
    program = compiled(both)
    for value in (0.1, 0.3, 1e5, 257.0):
        constant = compiled(lambda x, v=value: both(x, v))
        expected = both(x, value)
        assert_equal(program(x, value), expected)
        assert_equal(constant(x), expected)


def assert_equal(found: tuple[Tensor, ...], expected: tuple[Tensor, ...]) -> None:
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_the_first_of_zeros_is_the_extreme(dtype: torch.dtype) -> None:
    """Of rows that are written out, as eager finds it there; of long rows and columns eager's answers differ."""

    def f(x: Tensor) -> tuple[Tensor, ...]:
        pooled = F.max_pool1d(x[None], 2)[0]
        return x.amax(1), x.amin(1), x.max(1).values, x.min(1).values, pooled

    x = torch.tensor([[0.0, -0.0], [-0.0, 0.0], [-0.0, -0.0], [0.0, 0.0]]).repeat(20, 1).to(dtype)
    for a, b in zip(compiled(f)(x), f(x), strict=True):
        assert torch.equal(a.signbit(), b.signbit())


@pytest.mark.parametrize("f", [torch.var, torch.std, torch.var_mean, torch.std_mean], ids=lambda f: f.__name__)
def test_spread_of_large_bf16(f: Callable[..., Any]) -> None:
    """Squares are beyond f32, their root is not."""
    x = torch.tensor([[1.0, -2.0, 3.0, 0.5], [2.0, 2.0, 2.0, 2.0]], dtype=torch.bfloat16)
    for size in (1.0, 1e19, 1e30):
        y = x * size
        torch.testing.assert_close(compiled(lambda x: f(x, 1))(y), f(y, 1))


@pytest.mark.parametrize("size", [3e-39, 1e-30, 1.0, 1e19, 3e35])
def test_spread_of_long_rows(size: float) -> None:
    """Squares of all sizes; rows that are one number, whose numbers are next to each other, far from 0, or of many sizes,
    and rows with one that is infinite or none.
    """
    generator = torch.Generator().manual_seed(0)
    numbers = torch.randn(8, 384, generator=generator, dtype=torch.float64)
    near = 1 + torch.randint(0, 2, (8, 384), generator=generator) * 2.0**-23
    rows = [
        numbers,
        numbers[:, :1].expand(8, 384),
        near,
        numbers + 300,
        numbers * 1e-4 + 300,
        (numbers * 6).exp() / 1e7,
    ]
    x = (torch.cat([*rows, torch.zeros(3, 384)]) * size).float()
    x[-1, 5], x[-2, 9] = math.inf, math.nan

    def f(x: Tensor) -> tuple[Tensor, ...]:
        return *torch.var_mean(x, 1), x.std(1, correction=0)

    exact = f(x.double())
    for a, b, r in zip(compiled(f)(x), f(x), exact, strict=True):
        torch.testing.assert_close(a.isnan(), b.isnan() | exact[0].isnan())
        here = a.isfinite()
        assert torch.equal(here, b.isfinite() & r.isfinite())
        error = (a.double() - r)[here].abs() / r[here].abs().clamp(torch.finfo(torch.float32).smallest_normal)
        assert error.max() < 2.5e-7


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("size", [3e-39, 1e-30, 1.0, 1e19, 3e35])
def test_spread_of_rows_and_columns_of_bf16(size: float, dim: int) -> None:
    """Squares of all sizes; rows that are one number, nearly one, zeros, or of numbers of many sizes."""

    def f(x: Tensor) -> tuple[Tensor, ...]:
        return *torch.std_mean(x, dim), x.var(dim, correction=0)

    numbers = torch.randn(8, 96, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows = [numbers, numbers[:, :1].expand(8, 96), numbers + 300, (numbers * 20).exp() / 1e26, torch.zeros(1, 96)]
    x = (torch.cat(rows) * size).bfloat16()
    x[8, 3] *= 1.0078125
    x = x if dim == 1 else x.t().contiguous()
    for a, b in zip(compiled(f)(x), f(x), strict=True):
        torch.testing.assert_close(a, b, rtol=8e-3, atol=0.0)


@pytest.mark.parametrize("dynamic", [False, True])
def test_spread_of_many_nearly_equal_bf16(dynamic: bool) -> None:
    """One number alone varies by nothing, and one in 2^17 that is the next is seen, in rows and columns."""
    x = torch.full((2, 1 << 17), 1.0078125, dtype=torch.bfloat16)
    x[1, 77] = 1.015625
    for y, dim in ((x, 1), (x.t().contiguous(), 0), (x[1], 0)):
        found = compiled(lambda y, dim=dim: torch.var_mean(y, dim), dynamic=dynamic)(y)
        for a, b in zip(found, torch.var_mean(y, dim), strict=True):
            torch.testing.assert_close(a, b, rtol=8e-3, atol=0.0)


@pytest.mark.parametrize("order", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, math.inf])
def test_derivatives_of_distances(order: float) -> None:
    """Rows that are the same, and elements that are, have none where eager has none; batches are expanded."""

    def f(a: Tensor, b: Tensor) -> Tensor:
        return (
            torch.cdist(a, b, p=order, compute_mode="donot_use_mm_for_euclid_dist").cos().sum()
            + F.pdist(b, p=order).sin().sum()
        ) * 2

    generator = torch.Generator().manual_seed(0)
    a = torch.randn(3, 4, 5, generator=generator, dtype=torch.float64)
    b = torch.randn(6, 5, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        b[3] = b[1]
        b[2, 0] = b[0, 0]
        a[0, 0] = b[0]
    ours, eager = ([t.clone().requires_grad_() for t in (a, b)] for _ in range(2))
    compiled(f)(*ours).backward()
    f(*eager).backward()
    for x, y in zip(ours, eager, strict=True):
        torch.testing.assert_close(x.grad, y.grad)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("order", [1e30, 1e308])
def test_distances_of_a_large_order(order: float, dtype: torch.dtype) -> None:
    """An order that f32 does not hold is infinite there."""

    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.cdist(x, x + 1, p=order), F.pdist(x, p=order)

    x = torch.randn(5, 4, dtype=dtype, generator=torch.Generator().manual_seed(0))
    for a, b in zip(compiled(f)(x), f(x), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("decimals", [-(2**31), -309, -40, 40, 308, 309, 2**31 - 1])
def test_decimals_beyond_those_of_floats(decimals: int) -> None:
    """A power of ten that is infinite makes NaN."""

    def f(x: Tensor) -> tuple[Tensor, ...]:
        return tuple(torch.round(t, decimals=decimals) for t in (x, x.double(), x.bfloat16()))

    x = torch.tensor([0.0, 1.5, -2.0, math.inf, math.nan, 123.456])
    torch.testing.assert_close(compiled(f)(x), f(x), equal_nan=True, rtol=0, atol=0)


def test_a_sum_of_many_terms_is_a_call() -> None:
    def f(x: Tensor) -> Tensor:
        return torch.special.multigammaln(x, 5000)

    x = torch.rand(3, dtype=torch.float64) + 5000
    torch.testing.assert_close(compiled(f)(x), f(x))


def test_a_mask_of_more_than_is_indexed() -> None:
    """The elements are repeated along dims that only the mask has."""

    def f(x: Tensor, mask: Tensor, i: Tensor) -> Tensor:
        return torch.ops.aten._unsafe_masked_index(x, mask, [i[:, None], i[0]], -2.5)

    x, mask, i = torch.randn(5, 5), torch.rand(4, 6) > 0.5, torch.tensor([0, 3, 1, 4])
    torch.testing.assert_close(compiled(f)(x, mask, i), f(x, mask, i))
