"""What is rounded to f16 and bf16: exponentials with fewer digits, conversions, over every number of 16 bits."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import lamella

TARGETS = ["host", "avx512", "avx2", "baseline"]
HALVES = [torch.bfloat16, torch.float16]

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "exp": torch.exp,
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "shares": partial(F.softmax, dim=-1),
    "swiglu": lambda x: F.silu(x) * 0.75,
    "sum": lambda x: x.exp().sum(-1),
}


def every(dtype: torch.dtype, count: int) -> Tensor:
    """Every number of 16 bits, in no order, in rows of `count` (and what is left as it comes)."""
    torch.manual_seed(0)
    bits = torch.randperm(1 << 16) - (1 << 15)
    rows = (1 << 16) // count
    return bits.to(torch.int16).view(dtype)[: rows * count].view(rows, count)


def off(result: Tensor, exact: Tensor) -> Tensor:
    """|result - exact| in units of the last place of the result's dtype; 0 where both are one NaN or infinity."""
    info = torch.finfo(result.dtype)
    near = exact.abs().clamp(min=info.tiny)
    unit = torch.exp2(near.log2().floor()) * info.eps
    error = (result.double() - exact).abs() / unit
    same = (result.double() == exact) | (result.isnan() & exact.isnan())
    return torch.where(same, 0.0, error.nan_to_num(nan=torch.inf))


def compiled(function: Callable[[Tensor], Tensor], target: str) -> Callable[[Tensor], Tensor]:
    torch._dynamo.reset()
    return lamella.compile(function, fullgraph=True, options={"target": target, "cache": False, "strict": True})


@pytest.mark.usefixtures("runnable")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", ["exp", "silu", "sigmoid", "swiglu"])
def test_every_number(name: str, dtype: torch.dtype, target: str) -> None:
    """Against float64: half a unit, which is the rounding, and a little; rows with a rest of vectors."""
    x = every(dtype, 77)
    function = FUNCTIONS[name]
    with torch.no_grad():
        result = compiled(function, target)(x)
    exact = function(x.double())
    if name in ("silu", "swiglu"):  # the quotient of infinities, as eager's
        exact = torch.where(x == -torch.inf, torch.nan, exact)
    exact = torch.where(exact.abs() > torch.finfo(dtype).max, exact.to(dtype).double(), exact)
    # e^-x overflows f32 before a sigmoid is no bf16 any more, in eager too
    gone = (x < -88) if name != "exp" else torch.zeros_like(x, dtype=torch.bool)
    error = off(result, exact)
    error[gone & (result.double().abs() < 1e-35)] = 0.0
    worst = int(error.argmax())
    assert error.view(-1)[worst] <= 0.54, f"{name}({x.view(-1)[worst]}) = {result.view(-1)[worst]}"


@pytest.mark.usefixtures("runnable")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("count", [1, 16, 45, 1024])
def test_shares(count: int, dtype: torch.dtype, target: str) -> None:
    """Softmax of numbers, of rows with -inf, NaN and inf, and of rows of one."""
    torch.manual_seed(0)
    x = (torch.randn(64, count) * 4).to(dtype)
    x[1, ::2], x[2, 0], x[3, -1], x[4], x[5, 0] = -torch.inf, torch.nan, torch.inf, -torch.inf, -torch.nan
    x[6] = torch.finfo(dtype).max
    with torch.no_grad():
        result = compiled(FUNCTIONS["shares"], target)(x)
    exact = F.softmax(x.double(), -1)
    assert off(result, exact).max() <= (0.6 if dtype == torch.bfloat16 else 0.54)
    assert torch.equal(result == 0, exact.to(dtype) == 0), "what is masked is exactly 0"


@pytest.mark.usefixtures("runnable")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_sums_of_exponentials(dtype: torch.dtype, target: str) -> None:
    torch.manual_seed(0)
    x = (torch.randn(33, 301) * 2).to(dtype)
    with torch.no_grad():
        result = compiled(FUNCTIONS["sum"], target)(x)
    exact = x.double().exp().sum(-1)
    # eager rounds each exponential
    assert (off(result, exact) <= 1.1).all()


@pytest.mark.usefixtures("runnable")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("count", [5, 16, 32, 45, 96])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_numbers_stay_what_they_are(dtype: torch.dtype, count: int, target: str) -> None:
    """To f32 and back by arithmetic that changes nothing: denormals, signs of zeros, infinities and NaN."""
    x = every(dtype, count)
    with torch.no_grad():
        same, wide = (compiled(f, target)(x) for f in (lambda v: v * 1.0 - 0.0, lambda v: v.float() * 2.0))
    number = ~x.isnan()
    assert torch.equal(same.view(torch.int16)[number], x.view(torch.int16)[number])
    assert same[~number].isnan().all()
    assert torch.equal(wide[number], x[number].float() * 2.0)
    assert torch.equal(wide[number].signbit(), x[number].signbit())
