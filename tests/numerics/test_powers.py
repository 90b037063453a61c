"""Powers of infinities, zeros, NaN, negative and other numbers: each is eager's, sign of zero included."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

BASES = [math.inf, -math.inf, 0.0, -0.0, math.nan, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 65504.0, 1e-5]
HALVES = [0.5, -0.5, 1.5, -1.5, 2.5, 1 / 3]
WHOLE = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 4.0, 5.0]
INTS = [0, 1, 2, 3, 4, -1, -2, -3]
EXPONENTS = [*HALVES, *WHOLE, *INTS, math.inf, -math.inf, math.nan]
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def _compiled(function: object, *args: Tensor) -> list[Tensor]:
    torch._dynamo.reset()
    return torch.compile(function, backend="lamella", fullgraph=True)(*args)  # type: ignore[call-overload]


def _compare(got: list[Tensor], wanted: list[Tensor], names: list[float] | list[int]) -> None:
    for g, w, name in zip(got, wanted, names, strict=True):
        torch.testing.assert_close(g, w, equal_nan=True, msg=lambda text, name=name: f"{name}: {text}")
        known = ~w.isnan()
        assert torch.equal(g.signbit()[known], w.signbit()[known]), name


@pytest.mark.parametrize("times", [1, 3], ids=["short", "vectors"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_numbers_as_exponents(dtype: torch.dtype, times: int) -> None:
    x = torch.tensor(BASES * times, dtype=dtype)

    def powers(x: Tensor) -> list[Tensor]:
        return [x**e for e in EXPONENTS]

    _compare(_compiled(powers, x), powers(x), EXPONENTS)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_numbers_as_bases(dtype: torch.dtype) -> None:
    x = torch.tensor(EXPONENTS, dtype=dtype)

    def powers(x: Tensor) -> list[Tensor]:
        return [b**x for b in BASES]

    _compare(_compiled(powers, x), powers(x), BASES)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors(dtype: torch.dtype) -> None:
    bases, exponents = torch.tensor(list(itertools.product(BASES, EXPONENTS)), dtype=dtype).unbind(1)
    bases, exponents = bases.contiguous(), exponents.contiguous()
    _compare([_compiled(torch.pow, bases, exponents)], [bases**exponents], [0])  # type: ignore[list-item]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_in_float64(dtype: torch.dtype) -> None:
    x = torch.tensor(BASES, dtype=dtype)

    def powers(x: Tensor) -> list[Tensor]:
        return [torch.float_power(x, e) for e in EXPONENTS]

    _compare(_compiled(powers, x), powers(x), EXPONENTS)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_whole_exponents_of_two(dtype: torch.dtype) -> None:
    """Also where the power alone is out of range."""
    known = torch.finfo(dtype)
    numbers = [1.0, -1.7, 0.0, -0.0, known.max, known.tiny, 1.5 * known.tiny, math.inf, math.nan]
    exponents = [
        0,
        1,
        -1,
        10,
        -10,
        24,
        127,
        128,
        150,
        -126,
        -127,
        -149,
        -150,
        277,
        -277,
        1023,
        1024,
        -1074,
        2100,
        -2100,
    ]
    x, n = (t.contiguous() for t in torch.tensor(list(itertools.product(numbers, exponents)), dtype=torch.float64).T)
    x, n = x.to(dtype), n.long()
    wanted = [
        v if v == 0 or not math.isfinite(v) else _times(v, k) for v, k in zip(x.tolist(), n.tolist(), strict=True)
    ]
    _compare(
        _compiled(lambda x, n: [torch.ldexp(x, n)], x, n), [torch.tensor(wanted, dtype=torch.float64).to(dtype)], [2]
    )


def _times(x: float, power: int) -> float:
    try:
        return math.ldexp(x, power)
    except OverflowError:
        return math.copysign(math.inf, x)


PARTS = [0.0, 1.0, -2.5, math.inf, -math.inf]


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_complex_zeros_and_infinities(dtype: torch.dtype) -> None:
    """As C has them: NaN where the logarithm of 0 meets a factor of 0, none where it makes a power of -inf."""
    z = torch.tensor([complex(a, b) for a, b in itertools.product(PARTS, PARTS)], dtype=dtype)
    exponents: list[complex] = [2j, -1j, 2 + 1j, -2 + 1j, 2.5, -3, 5]

    def powers(z: Tensor) -> list[Tensor]:
        return [
            *(z**e for e in exponents),
            *(e ** z[:3] for e in (0, 1, 0j, 2)),
            1**z,
            *((z.abs() > 1) ** e for e in (2j, 2 + 1j)),
            z[:, None] ** z[:3],
            z.exp(),
        ]

    for found, expected in zip(_compiled(powers, z), powers(z), strict=True):
        parts, wanted = torch.view_as_real(found), torch.view_as_real(expected)
        torch.testing.assert_close(parts, wanted, rtol=1e-5, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.int64], ids=str)
def test_whole_numbers_times_powers_of_two(dtype: torch.dtype) -> None:
    """The power is one of f32, which is infinite where the product with 0 would not be; a power of truth is one."""
    x = torch.tensor([[0], [1], [3]]).to(dtype)
    for n in (torch.tensor([0, 2, 127, 128, -149, -150, 2**31, -(2**31) - 1, 2**40]), torch.tensor([True, False])):
        torch._dynamo.reset()
        compiled = torch.compile(torch.ldexp, backend="lamella", options={"strict": True})
        _compare([compiled(x, n)], [torch.ldexp(x, n)], [0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("order", [1e39, -1e39, 1e-46, 1e308])
def test_norms_by_orders_that_the_dtype_does_not_have(order: float, dtype: torch.dtype) -> None:
    """An order that is infinite in the dtype that powers are computed in is still one of powers: 0 < |x| < 1 gives 1."""
    rows = [[2.0, 0.5, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.5, 0.5, 0.25], [math.nan, 2.0, 3.0], [3.0, 4.0, 5.0]]

    def norms(x: torch.Tensor) -> list[torch.Tensor]:
        return [torch.linalg.vector_norm(x, order, dim=1), torch.norm(x, order, dim=0), torch.dist(x[5], x[0], order)]

    x = torch.tensor(rows, dtype=dtype)
    torch._dynamo.reset()
    found = torch.compile(norms, backend="lamella", fullgraph=True)(x)
    torch.testing.assert_close(found, norms(x), equal_nan=True)
