"""Products of one row with a matrix, which are kernels: no further from the exact result than eager's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("columns_in_one_piece", [True, False])
@pytest.mark.parametrize("size,columns", [(300, 70), (1, 5), (0, 5), (64, 1)])
def test_is_as_exact_as_eager(dtype: torch.dtype, columns_in_one_piece: bool, size: int, columns: int) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    x, bias = torch.randn(1, size).to(dtype), torch.randn(columns).to(dtype)
    w = torch.randn(columns, size).to(dtype).t() if columns_in_one_piece else torch.randn(size, columns).to(dtype)

    def f(x: Tensor, w: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        return x @ w, torch.addmm(bias, x, w, beta=0.5, alpha=2)

    got, eager = torch.compile(f, backend="lamella")(x, w, bias), f(x, w, bias)
    exact = f(x.double(), w.double(), bias.double())
    for g, e, right in zip(got, eager, exact, strict=True):
        assert g.dtype == e.dtype and g.shape == e.shape and g.stride() == e.stride()
        allowed = 1.5 * (e.double() - right).abs().max() + torch.finfo(dtype).eps * right.abs().max()
        assert (g.double() - right).abs().max() <= allowed


def test_f64_within_the_bound_of_any_order() -> None:
    """|error| <= n * eps * sum(|x| * |w|): nothing more exact is at hand to compare with."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    x, w = torch.randn(1, 300, dtype=torch.float64), torch.randn(70, 300, dtype=torch.float64).t()
    got = torch.compile(lambda x, w: x @ w, backend="lamella")(x, w)
    bound = 2 * 300 * torch.finfo(torch.float64).eps * (x.abs() @ w.abs())
    assert ((got - x @ w).abs() <= bound).all()


def test_bias_is_not_read_where_beta_is_0() -> None:
    torch._dynamo.reset()
    x, w, bias = torch.ones(1, 4), torch.ones(3, 4).t(), torch.full((3,), float("nan"))
    got = torch.compile(lambda b, x, w: torch.addmm(b, x, w, beta=0), backend="lamella")(bias, x, w)
    assert torch.equal(got, torch.full((1, 3), 4.0))
