"""Wrong answers that come from TorchDynamo and AOTAutograd, whatever the backend. Each test fails once torch is mended:
then drop it, and the line in the list of known differences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def under(backend: Any, f: Callable[..., Any]) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(f, backend=backend)


def test_update_in_place_of_a_double_scalar_is_lost(recorder: Any) -> None:
    def f(x: Tensor) -> Tensor:
        x.add_(1)
        return x * 2

    x = torch.zeros((), dtype=torch.float64)
    assert under("aot_eager", f)(x) == 0 and x == 0  # 2 and 1 in eager
    x = torch.zeros((), dtype=torch.float64)
    assert under(recorder.backend, f)(x) == 2 and x == 1  # the pass of torch that loses it is left out here


def test_linear_interpolation_of_infinities(recorder: Any) -> None:
    def f(x: Tensor) -> Tensor:
        return torch.nn.functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)

    x = torch.tensor([[[[1.0, float("inf")], [2.0, 3.0]]]])
    torchs, ours = under("aot_eager", f)(x), under(recorder.backend, f)(x)
    assert torchs.isnan().sum() > f(x).isnan().sum()
    torch.testing.assert_close(ours, torchs, equal_nan=True)
