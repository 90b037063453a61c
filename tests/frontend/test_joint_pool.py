"""Max pooling of training steps on a GPU: the backward gets places within windows, one byte each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

from lamella.frontend import joint_pool

CASES: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "overlapping": (lambda x: F.max_pool2d(x, 3, 2, 1), (2, 3, 9, 8)),
    "apart": (lambda x: F.max_pool2d(x, 2), (2, 3, 8, 8)),
    "ceil": (lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), (3, 8, 10)),
    "dilated": (lambda x: F.max_pool2d(x, (3, 2), (2, 1), (1, 0), (2, 1)), (1, 2, 10, 11)),
    "3d": (lambda x: F.max_pool3d(x, 2, 1), (1, 2, 4, 5, 4)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_rewritten_graph(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It computes what it did before, bit for bit, and has the indices from numbers of 8 bits."""
    f, shape = CASES[name]

    def step(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = f(x.requires_grad_())
        return y, *torch.autograd.grad(y.sin().sum(), x)

    x = torch.randn(shape)
    module = make_fx(step, tracing_mode="fake")(x)
    expected = module(x.clone())
    joint_pool.narrow_indices(module.graph)
    assert "offsets" not in str(module.graph)  # nothing of the CPU is
    monkeypatch.setattr(joint_pool, "_is_on_gpu", lambda _: True)
    joint_pool.narrow_indices(module.graph)
    module.graph.lint()
    module.recompile()
    assert "_with_indices.default" not in module.code
    (offsets,) = (n.args[0] for n in module.graph.nodes if "offsets_to_indices" in str(n.target))
    assert offsets.meta["val"].dtype == torch.int8  # type: ignore[union-attr]
    for found, wanted in zip(module(x.clone()), expected, strict=True):
        assert torch.equal(found, wanted)


def test_indices_that_the_program_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    """These stay."""
    monkeypatch.setattr(joint_pool, "_is_on_gpu", lambda _: True)

    def step(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y, indices = F.max_pool2d(x.requires_grad_(), 3, return_indices=True)
        return indices, *torch.autograd.grad(y.sum(), x)

    module = make_fx(step, tracing_mode="fake")(torch.randn(1, 2, 9, 9))
    joint_pool.narrow_indices(module.graph)
    assert "offsets" not in str(module.graph)
