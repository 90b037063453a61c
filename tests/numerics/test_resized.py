"""Images of bytes resized: eager's numbers, which it mixes with weights of fixed point."""

from __future__ import annotations

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
