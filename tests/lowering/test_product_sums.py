"""Products on a CPU stay products, whatever their factors are made of: what they add up is one dim, and every dim is one
of a factor.
"""

from __future__ import annotations

from collections.abc import Callable

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


def repeated(x: Tensor, w: Tensor) -> Tensor:
    """Each row several times, with another beginning of its columns."""
    x = x.unsqueeze(1).expand(64, 8, 512).reshape(512, 512)
    return torch.cat([x[:, 100:], x[:, :100]], 1) @ w


def inner_sizes(f: Callable[..., Tensor], name: str, *inputs: Tensor) -> list[object]:
    """Of the one product of packed factors: the sizes of what it adds up."""
    target = CpuTarget.from_name(name)
    module = capture(f, *inputs).module
    passes = driver.pipeline(driver.Options(target=name), target)
    driver.run_passes(module, passes[: passes.index(",launch-together")], verify=False)
    loops = [o for k in module.ops if isinstance(k, KernelOp) for o in k.walk() if isinstance(o, ForOp)]
    (product,) = (o for o in loops if "split" in o.attributes)
    (inner,) = (o for o in product.body.block.ops if isinstance(o, ForOp))
    return [d.extent for d in inner.dims]


@pytest.mark.parametrize("name", ["zen4", "amx"])
def test_heads_that_are_joined(name: str) -> None:
    """627 ms, when each product looked up a number of each column: eager took 48."""
    x = torch.randn(4, 8, 128, 64)
    assert inner_sizes(joined, name, x, x + 1, torch.randn(1024, 512)) == [1024]


@pytest.mark.parametrize("name", ["zen4", "amx"])
def test_rows_that_repeat(name: str) -> None:
    """297 ms, when what counts the repetitions was a dim of neither factor: eager took 3."""
    assert inner_sizes(repeated, name, torch.randn(64, 512), torch.randn(512, 512)) == [512]


@pytest.mark.parametrize(
    ("f", "shapes"),
    [(joined, [(4, 8, 128, 64), (4, 8, 128, 64), (1024, 512)]), (repeated, [(64, 512), (512, 512)])],
    ids=["joined", "repeated"],
)
def test_numbers(f: Callable[..., Tensor], shapes: list[tuple[int, ...]]) -> None:
    torch.manual_seed(0)
    inputs = [torch.randn(shape) for shape in shapes]
    exact = f(*(x.double() for x in inputs))
    error = (f(*inputs) - exact).abs().max()
    ours = driver.compile(f, fullgraph=True, dynamic=False)(*inputs)
    assert (ours - exact).abs().max() <= 2 * error
