"""Infinite numbers, NaN and the largest numbers where it matters in which steps something is computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def assert_same(program: Callable[..., Sequence[Tensor]], *args: Tensor, exact: bool = True) -> None:
    """The same numbers, of the same sign."""
    torch._dynamo.reset()
    asked: dict[str, Any] = {"cache": False, "strict": True}
    ours = torch.compile(program, backend="lamella", fullgraph=True, options=asked)(*args)
    for i, (x, y) in enumerate(zip(ours, program(*args), strict=True)):
        near: dict[str, Any] = {"rtol": 0, "atol": 0} if exact else {}
        torch.testing.assert_close(x, y, equal_nan=True, msg=lambda m, n=i: f"{n}: {m}", **near)
        if exact:
            assert torch.equal(x.signbit()[~x.isnan()], y.signbit()[~y.isnan()]), i


@pytest.mark.parametrize("dtype", FLOATS[:2], ids=str)
def test_sums_of_multiples_are_rounded_once(dtype: torch.dtype) -> None:
    """A multiple that no number is may have a sum that one is."""

    def program(a: Tensor, b: Tensor) -> list[Tensor]:
        sums = [f(a, b, alpha=v) for f in (torch.add, torch.sub, torch.rsub) for v in (2, -2, 1.7)]
        return [*sums, torch.lerp(a, b, 0.7), torch.lerp(a, b, -1.0), torch.lerp(a, b, a), torch.addcmul(a, b, a)]

    largest = torch.finfo(dtype).max
    ends = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.3, math.inf, -math.inf, math.nan], dtype=dtype)
    values = torch.cat([ends, largest * torch.tensor([1.0, -1.0, 0.9, -0.6], dtype=dtype), torch.randn(9, dtype=dtype)])
    a, b = torch.cartesian_prod(values, values).T.contiguous()
    assert_same(program, a, b)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_means_of_rows_without_a_variance(dtype: torch.dtype) -> None:
    """Not that of a batch norm, which is a sum."""

    def program(x: Tensor) -> list[Tensor]:
        n = x.shape[1]
        return [
            *(torch.var_mean(x, 1)[1], torch.std_mean(x, 1, correction=0)[1], torch.var_mean(x, 0)[1]),
            torch.native_layer_norm(x, (n,), None, None, 1e-5)[1],
            torch.native_group_norm(x[:, None], None, None, 4, 1, n, 1, 1e-5)[1],
        ]

    x = torch.ones(4, 40, dtype=dtype)
    x[0, 3], x[1, 17], x[2, 5] = math.inf, -math.inf, math.nan
    assert_same(program, x, exact=False)


@pytest.mark.parametrize("width", [5, 40])
def test_distances_of_what_is_no_number(width: int) -> None:
    def program(a: Tensor, b: Tensor) -> list[Tensor]:
        return [
            *(torch.cdist(a, b, p) for p in (0.0, math.inf, 1e39, 2.0)),
            torch.pdist(a, 0.0),
            torch.pdist(a, math.inf),
        ]

    a, b = torch.randn(6, width), torch.randn(7, width)
    a[0, 1], a[1, 2], b[2, 2], b[3, 1], a[4], b[4, -1] = math.nan, math.inf, math.inf, -math.inf, 0.0, math.nan
    assert_same(program, a, b, exact=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32], ids=str)
def test_what_is_summed_as_halves_is_converted_first(dtype: torch.dtype) -> None:
    def program(x: Tensor) -> list[Tensor]:
        f16 = torch.float16
        return [
            x.sum(1, dtype=f16),
            x.cumsum(1, dtype=f16),
            *([x.nansum(1, dtype=f16)] if x.is_floating_point() else []),
        ]

    x = torch.tensor([[70000, -70000, 1], [1, 2, 3], [2049, -2048, 0], [80000, 0, 1]]).to(dtype)
    assert_same(program, x)


def test_hardsigmoids_sixth_of_f64() -> None:
    assert_same(lambda g, x: [torch.ops.aten.hardsigmoid_backward(g, x)], *torch.randn(2, 40, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_powers_and_roots_of_nan_beside_infinity(dtype: torch.dtype) -> None:
    """Products of C's are infinite where a factor is."""

    def program(a: Tensor, b: Tensor) -> list[Tensor]:
        return [a**b, a**2.5, 2**b, 0**b, a ** (2 + 1j), a.sqrt(), a**-0.5]

    parts = [0.0, -0.0, 1.0, -1.0, 1.5, math.inf, -math.inf, math.nan]
    z = torch.tensor([complex(x, y) for x in parts for y in parts], dtype=dtype)
    assert_same(
        lambda a, b: [torch.view_as_real(x) for x in program(a, b)], z.repeat_interleave(64), z.repeat(64), exact=False
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_losses_of_what_is_no_number(dtype: torch.dtype) -> None:
    """A margin that is NaN is not above 0, one of smooth L1 is neither within beta nor beyond."""
    aten = torch.ops.aten

    def program(x: Tensor, y: Tensor, classes: Tensor) -> list[Tensor]:
        return [
            F.multi_margin_loss(x, classes, reduction="none"),
            F.multi_margin_loss(x, classes, p=2, weight=y[0]),
            *(aten.smooth_l1_loss(x, y, 0, 0.5), aten.smooth_l1_loss_backward(y, x, y, 0, 0.5)),
            *(aten.huber_loss(x, y, 0, 0.5), aten.huber_loss_backward(y, x, y, 0, 0.5)),
            *(aten.soft_margin_loss(x, y, 0), aten.soft_margin_loss_backward(y, x, y, 0)),
        ]

    x = torch.randn(6, 4, dtype=dtype)
    x[0, 1], x[1, 2], x[2, 0], x[3, 3], x[4, 1] = math.nan, math.inf, -math.inf, math.nan, -0.0
    assert_same(program, x, torch.randn(6, 4, dtype=dtype), torch.tensor([1, 0, 3, 0, 2, 3]), exact=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("dim", [0, 1])
def test_running_products_go_from_one_to_the_next(dtype: torch.dtype, dim: int) -> None:
    """In a vector at a time two that vanish together would, after a large one or infinity."""
    small, large = (1e-300, 1e300) if dtype == torch.float64 else (1e-38, 1e38)
    x = torch.ones(37, 41, dtype=dtype)
    x[3::7, 2::5], x[4::7, 3::5], x[5::7, 4::5] = large, small, small
    x[20, 1], x[1, 20] = math.inf, math.inf
    assert_same(lambda x: [torch.cumprod(x, dim)], x.contiguous(), exact=False)


DERIVATIVES: dict[str, Sequence[Any]] = {
    "elu": (1.0, 1.0, 1.0, False),
    "elu of results": (1.0, 1.0, 1.0, True),
    **dict.fromkeys(("hardshrink", "softshrink", "threshold"), (0.5,)),
    **dict.fromkeys(("hardsigmoid", "hardswish", "gelu", "silu", "mish", "sigmoid", "tanh", "logit"), ()),
    "hardtanh": (-1.0, 1.0),
    "leaky_relu": (0.1, False),
    "softplus": (1.0, 20.0),
}
"""With what they are given beside the derivative and their argument, or result."""


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_derivatives_of_activations(dtype: torch.dtype) -> None:
    """Where they jump, and of NaN: on which side it is counted differs from one to the next, and from CPU to GPU."""

    def derivative(name: str, grad: Tensor, x: Tensor) -> Tensor:
        operator = getattr(torch.ops.aten, f"{name.split()[0]}_backward")
        more = DERIVATIVES[name]
        return operator(grad, *more, x) if operator.__name__ == "elu_backward" else operator(grad, x, *more)

    ends = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 3.0, -3.0, 20.0, -20.0, math.inf, -math.inf, math.nan]
    pairs = torch.cartesian_prod(*[torch.tensor(ends, dtype=torch.float64)] * 2).T.to(dtype)
    grad, x = pairs.repeat(1, 2)[:, :320].contiguous()  # whole vectors: what is left over eager compares otherwise
    assert_same(lambda grad, x: [derivative(name, grad, x) for name in DERIVATIVES], grad, x, exact=False)
