"""Images resized: of bytes eager's numbers, which it mixes with weights of fixed point; of floats beside infinity."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import lamella

RESIZED: dict[str, Callable[[Tensor], Tensor]] = {
    "bilinear": lambda x: F.interpolate(x, size=(31, 40), mode="bilinear"),
    "bilinear, by a factor": lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"),
    "bilinear, smaller": lambda x: F.interpolate(x, size=(9, 11), mode="bilinear", align_corners=True),
    "bilinear, antialiased": lambda x: F.interpolate(x, size=(9, 11), mode="bilinear", antialias=True),
    "bilinear, of a size": lambda x: torch.ops.aten.upsample_bilinear2d(x, [31, 40], False),
    "bicubic": lambda x: F.interpolate(x, size=(31, 40), mode="bicubic"),
    "bicubic, aligned": lambda x: F.interpolate(x, size=(17, 50), mode="bicubic", align_corners=True),
    "nearest": lambda x: F.interpolate(x, size=(31, 40), mode="nearest-exact"),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", RESIZED)
def test_bytes_are_eagers(name: str, dynamic: bool) -> None:
    f = RESIZED[name]
    torch.manual_seed(0)
    x = torch.randint(0, 256, (2, 3, 17, 23), dtype=torch.uint8)
    torch._dynamo.reset()
    compiled = lamella.compile(f, fullgraph=True, dynamic=dynamic)
    for image in (x, x.to(memory_format=torch.channels_last)):
        ours, theirs = compiled(image), f(image)
        assert torch.equal(ours, theirs)
        assert ours.stride() == theirs.stride()


LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("n", LINEAR)
def test_neighbours_are_weighted(n: int, align_corners: bool, dynamic: bool, dtype: torch.dtype) -> None:
    """Where one is infinite the mixture is, but where its weight is 0."""

    def f(x: Tensor) -> Tensor:
        return F.interpolate(x, scale_factor=1.7, mode=LINEAR[n], align_corners=align_corners)

    torch.manual_seed(0)
    x = torch.rand(2, 3, *(5, 6, 4)[:n]).to(dtype)
    x[0, 1, 2], x[1, 0, ..., 3] = math.inf, -math.inf
    torch._dynamo.reset()
    ours, theirs = lamella.compile(f, fullgraph=True, dynamic=dynamic)(x), f(x)
    torch.testing.assert_close(ours, theirs, equal_nan=True)
    assert ours.stride() == theirs.stride()
