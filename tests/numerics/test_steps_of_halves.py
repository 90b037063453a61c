"""Steps within one operator that eager rounds to f16 or bf16: always where a digit more would make another whole number,
with `numerics="eager"` also where it would not matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

Function = Callable[[Tensor, Tensor], Tensor]

QUOTIENTS: dict[str, Function] = {
    "trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "operator": lambda a, b: a // b,
    "of a number": lambda a, b: -1.5 // b,
    "by a number": lambda a, b: torch.div(a, 0.3, rounding_mode="trunc"),
    "by an element": lambda a, b: torch.div(a, b[200], rounding_mode="trunc"),
}
STEPS: dict[str, Function] = {
    "logit": lambda a, b: torch.logit(a),
    "logit of what is clamped": lambda a, b: torch.logit(a, 0.1),
    "xlogy": torch.xlogy,
    "xlogy of a number": lambda a, b: torch.xlogy(0.3, b),
    "xlog1py": torch.special.xlog1py,
    "entr": lambda a, b: torch.special.entr(a),
    "lerp": lambda a, b: torch.lerp(a, b, 0.7),
    "lerp by tensors": lambda a, b: torch.lerp(a, b, a),
    "addcmul": lambda a, b: torch.addcmul(a, b, b, value=0.3),
    "square of an inverse": lambda a, b: a**-2,
    "cube": lambda a, b: a**3,
    "mse_loss": lambda a, b: F.mse_loss(a, b, reduction="none"),
    "mse_loss_backward": lambda a, b: torch.ops.aten.mse_loss_backward(b[7], a, b, 1),
    "smooth_l1_loss": lambda a, b: F.smooth_l1_loss(a, b, reduction="none", beta=0.3),
    "smooth_l1_loss_backward": lambda a, b: torch.ops.aten.smooth_l1_loss_backward(b[300], a, b, 1, 0.3),
    "huber_loss": lambda a, b: F.huber_loss(a, b, reduction="none", delta=0.3),
    "huber_loss_backward": lambda a, b: torch.ops.aten.huber_loss_backward(b[300], a, b, 1, 0.3),
    "soft_margin_loss_backward": lambda a, b: torch.ops.aten.soft_margin_loss_backward(b, a, b, 1),
    "sigmoid_backward": lambda a, b: torch.ops.aten.sigmoid_backward(a, b),
    "soft_margin_loss": lambda a, b: F.soft_margin_loss(a, b, reduction="none"),
    "binary_cross_entropy_with_logits": lambda a, b: F.binary_cross_entropy_with_logits(
        a, b, a + 1, reduction="none", pos_weight=b
    ),
    "logit_backward": lambda a, b: torch.ops.aten.logit_backward(b, a),
    "logit_backward of what is clamped": lambda a, b: torch.ops.aten.logit_backward(b, a, 0.1),
    "binary_cross_entropy_backward": lambda a, b: torch.ops.aten.binary_cross_entropy_backward(b, a.sigmoid(), a, b, 1),
    "glu_backward": lambda a, b: torch.ops.aten.glu_backward(a[:1024], b, 0),
    "log_sigmoid_backward": lambda a, b: torch.ops.aten.log_sigmoid_backward(a, b, torch.exp(-b.abs())),
}


def operands(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """All pairs of some numbers, and numbers at random, in whole vectors."""
    torch.manual_seed(0)
    largest = torch.finfo(dtype).max
    ends = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.3,
        -0.7,
        7.0,
        -20.0,
        0.84765625,
        math.inf,
        -math.inf,
        math.nan,
        largest,
        0.6 * largest,
    ]
    a, b = torch.cartesian_prod(*[torch.tensor(ends, dtype=torch.float64)] * 2).T
    random = torch.randn(2, 2048 - len(a), dtype=torch.float64)
    return torch.cat([a, random[0] * 100]).to(dtype), torch.cat([b, random[1]]).to(dtype)


def assert_same(functions: dict[str, Function], dtype: torch.dtype, numerics: str, signs: bool = True) -> None:
    def program(a: Tensor, b: Tensor) -> list[Tensor]:
        return [f(a, b) for f in functions.values()]

    torch._dynamo.reset()
    options: dict[str, Any] = {"cache": False, "strict": True, "numerics": numerics}
    a, b = operands(dtype)
    ours = torch.compile(program, backend="lamella", fullgraph=True, options=options)(a, b)
    for name, x, y in zip(functions, ours, program(a, b), strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=0, equal_nan=True, msg=lambda m, n=name: f"{n}: {m}")
        assert not signs or torch.equal(x.signbit()[~x.isnan()], y.signbit()[~y.isnan()]), name


@pytest.mark.parametrize("numerics", ["fast", "eager"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_whole_numbers(dtype: torch.dtype, numerics: str) -> None:
    assert_same(QUOTIENTS, dtype, numerics)


@pytest.mark.parametrize("numerics", ["fast", "eager"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_softshrink_takes_its_number_as_it_is(dtype: torch.dtype, numerics: str) -> None:
    """Which 0 it gives for -0.0 is not the same in eager's vectors and what is left over."""
    assert_same({f"{v}": lambda a, b, v=v: F.softshrink(a, v) for v in (0.7, 0.1)}, dtype, numerics, signs=False)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_eagers_digits(dtype: torch.dtype) -> None:
    assert_same(STEPS, dtype, "eager")
