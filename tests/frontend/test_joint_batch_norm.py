"""Batch norm of training steps: the backward gets two numbers a channel, running statistics are made where they stay,
and results are eager's.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import lamella
from lamella.frontend.partition import Choice

NORM = "aten._native_batch_norm_legit_functional.default"


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(6, 5), (4, 5, 7), (3, 5, 6, 7), (2, 5, 3, 2, 4)])
def test_gradients_are_eagers(shape: tuple[int, ...], dtype: torch.dtype, affine: bool) -> None:
    torch._dynamo.reset()
    kinds: Any = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}
    norm = kinds[len(shape)](5, affine=affine).to(dtype)
    other, x = copy.deepcopy(norm), torch.randn(shape).to(dtype)
    fast = torch.compile(lambda x: norm(x).relu().sin(), backend="lamella", options={"cache": False})
    found = []
    for f, module in ((fast, norm), (lambda x: other(x).relu().sin(), other)):
        a = x.clone().requires_grad_()
        y = f(a)
        y.sum().backward()
        found.append((y, a.grad, dict(module.named_buffers()), [p.grad for p in module.parameters()]))
    torch.testing.assert_close(*found, **({"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {}))


def test_statistics_are_saved(choices: list[Choice]) -> None:
    """The input is not summed up again for the mask of a relu; in eager's numerics the operator stays as it is."""
    for numerics, again in (("fast", False), ("eager", True)):
        torch._dynamo.reset()
        norm, x = nn.BatchNorm2d(5), torch.randn(3, 5, 6, 7, requires_grad=True)
        options = {"cache": False} | ({"numerics": numerics} if again else {})
        torch.compile(lambda x, norm=norm: norm(x).relu().sin(), backend="lamella", options=options)(x)
        saved = [str(n.args[0]) for n in choices[-1].saved if "getitem" in str(n.target)]
        recomputed = [str(n.target) for n in choices[-1].recomputed]
        assert (NORM in recomputed) is again
        assert again or sum("batch_norm" in s for s in saved) == 2


@pytest.mark.parametrize("numerics", ["fast", "eager"])
def test_running_statistics_are_made_where_they_stay(numerics: str) -> None:
    """None is copied there, nor kept for the backward, which does not read them."""
    torch._dynamo.reset()
    norm = nn.BatchNorm2d(5)
    text = str(lamella.explain(norm, torch.randn(3, 5, 6, 7, requires_grad=True), options={"numerics": numerics}))
    assert "_native_batch_norm_legit_functional" in text
    assert "aten.copy_" not in text
    assert "_legit_functional.default[3]" not in text
