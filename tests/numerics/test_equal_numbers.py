"""Norms of equal numbers: the mean is that number, as eager's is, so that no rounding is divided by sqrt(eps)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import lamella

NORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "layer": lambda x: F.layer_norm(x, x.shape[1:]),
    "layer, of columns": lambda x: F.layer_norm(x.T.contiguous().T, x.shape[1:]),
    "layer, of a sum": lambda x: F.layer_norm(x + x.flip(0), x.shape[1:]),
    "group": lambda x: F.group_norm(x[None], len(x)),
    "instance": lambda x: F.instance_norm(x[None]),
    "batch": lambda x: F.batch_norm(x.T, None, None, training=True),
}


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("n", [2, 7, 100, 300])
def test_equal_numbers_give_zero(name: str, n: int) -> None:
    torch._dynamo.reset()
    compiled = lamella.compile(NORMS[name], dynamic=False)
    for number in (0.1, -1.7, 1234.567, 3e-3):
        x = torch.full((3, n), number)
        assert compiled(x).abs().max() <= NORMS[name](x).abs().max()


@pytest.mark.parametrize("n", [5, 100, 300])
def test_nearly_equal_numbers(n: int) -> None:
    """And one that is far off: no further from numbers in f64 than eager, or than a few roundings."""
    torch.manual_seed(0)
    compiled = lamella.compile(NORMS["layer"], dynamic=False)
    for x in (
        torch.full((8, n), 100.0) + torch.randn(8, n) * 1e-3,
        torch.randn(8, n).index_fill(1, torch.tensor(0), 1e6),
    ):
        exact = F.layer_norm(x.double(), [n])
        ours, eagers = ((y.double() - exact).abs().max() for y in (compiled(x), NORMS["layer"](x)))
        assert ours <= 2 * eagers + 1e-6
