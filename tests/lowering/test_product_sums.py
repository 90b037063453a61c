"""What a product adds up stays one dim on a CPU, whatever its factors are made of: its tiles know no others."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lamella import driver
from lamella.codegen.target import CpuTarget
from lamella.dialects.loop import ForOp, KernelOp
from lamella.frontend.capture import capture


def rows(x: Tensor) -> Tensor:
    """Heads side by side."""
    return x.transpose(1, 2).reshape(512, 512)


def joined(x: Tensor, y: Tensor, w: Tensor) -> Tensor:
    return torch.cat([rows(x), rows(y)], 1) @ w


@pytest.mark.parametrize("name", ["zen4", "amx"])
def test_heads_that_are_joined(name: str) -> None:
    """627 ms, in turns with eager's 48, when each product looked up a number of each column."""
    target = CpuTarget.from_name(name)
    x = torch.randn(4, 8, 128, 64)
    module = capture(joined, x, x + 1, torch.randn(1024, 512)).module
    passes = driver.pipeline(driver.Options(target=name), target)
    driver.run_passes(module, passes[: passes.index(",launch-together")], verify=False)
    loops = [o for k in module.ops if isinstance(k, KernelOp) for o in k.walk() if isinstance(o, ForOp)]
    (product,) = (o for o in loops if "split" in o.attributes)
    (inner,) = (o for o in product.body.block.ops if isinstance(o, ForOp))
    assert [d.extent for d in inner.dims] == [1024]


def test_numbers() -> None:
    torch.manual_seed(0)
    x, y, w = torch.randn(4, 8, 128, 64), torch.randn(4, 8, 128, 64), torch.randn(1024, 512)
    exact = joined(x.double(), y.double(), w.double())
    error = (joined(x, y, w) - exact).abs().max()
    ours = driver.compile(joined, fullgraph=True, dynamic=False)(x, y, w)
    assert (ours - exact).abs().max() <= 2 * error
