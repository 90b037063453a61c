"""Masks of attention that hide nothing, or just the future, are taken out of graphs; all others stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from lamella.frontend.attention_masks import ATTENTION, without_needless_masks

Q = torch.randn(2, 3, 8, 4, generator=torch.Generator().manual_seed(0))


def calls(function: Callable[..., Any], *args: Any, dynamic: bool = False) -> list[dict[str, Any]]:
    """The keywords of each call of attention after the change; the result is compared with eager's."""
    found: list[dict[str, Any]] = []

    def backend(graph: Any, inputs: Any) -> Any:
        without_needless_masks(graph)
        for node in graph.graph.nodes:
            if node.target is ATTENTION:
                masked = len(node.args) > 3 or node.kwargs.get("attn_mask") is not None
                found.append({"masked": masked, "causal": bool(node.kwargs.get("is_causal"))})
        return graph.forward

    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(function, backend=backend, dynamic=dynamic)(*args), function(*args))
    return found


def test_a_mask_that_hides_nothing_goes() -> None:
    def model(q: Tensor) -> Tensor:
        positions = torch.arange(q.shape[2]) + 0
        mask = (positions[None, None, :, None] >= 0).expand(q.shape[0], 1, -1, q.shape[2])
        return F.scaled_dot_product_attention(q, q, q, attn_mask=mask)

    assert calls(model, Q) == [{"masked": False, "causal": False}]


def test_a_float_mask_of_zeros_goes() -> None:
    model = lambda q: F.scaled_dot_product_attention(q, q, q, torch.zeros(8, 8), 0.0, False)  # noqa: E731
    assert calls(model, Q) == [{"masked": False, "causal": False}]


@pytest.mark.parametrize("boolean", [True, False])
def test_a_lower_triangle_is_causal(boolean: bool) -> None:
    def model(q: Tensor) -> Tensor:
        mask = torch.arange(8)[:, None] >= torch.arange(8)[None, :]
        if not boolean:
            mask = torch.zeros(8, 8).masked_fill(~mask, -torch.inf)
        return F.scaled_dot_product_attention(q, q, q, mask, scale=0.3)

    assert calls(model, Q) == [{"masked": False, "causal": True}]


@pytest.mark.parametrize(
    "mask",
    [
        lambda q: torch.arange(8)[:, None] > torch.arange(8)[None, :] - 2,  # a window
        lambda q: q[0, 0, :, :1] > -9.0,  # from an input
        lambda q: torch.zeros(8, 8).masked_fill(torch.ones(8, 8).triu(1) > 0, -1.0),  # hides half only
        lambda q: torch.rand(8, 8) > -1.0,  # random numbers move the generator
    ],
)
def test_other_masks_stay(mask: Callable[[Tensor], Tensor]) -> None:
    model = lambda q: F.scaled_dot_product_attention(q, q, q, mask(q).expand(8, 8))  # noqa: E731
    assert calls(model, Q) == [{"masked": True, "causal": False}]


@pytest.mark.parametrize(
    "write",
    [
        lambda mask, q: mask.__setitem__((slice(None), 0), q[0, 0, :, 0]),
        lambda mask, q: mask[0].fill_(-1.0),  # through a view
        lambda mask, q: torch.mul(q[0, 0] @ q[0, 0].T, 0.1, out=mask),
    ],
)
def test_a_mask_that_is_written_stays(write: Callable[[Tensor, Tensor], Any]) -> None:
    def model(q: Tensor) -> Tensor:
        mask = torch.zeros(8, 8)
        write(mask, q)
        return F.scaled_dot_product_attention(q, q, q, mask)

    assert calls(model, Q) == [{"masked": True, "causal": False}]


def test_a_causal_rectangle_stays() -> None:
    """torch's `is_causal` of fewer queries than keys counts from the first key, a mask for a cache from the last."""

    def model(q: Tensor) -> Tensor:
        mask = torch.arange(8)[None, :] <= torch.arange(4)[:, None] + 4
        return F.scaled_dot_product_attention(q[:, :, :4], q, q, mask)

    assert calls(model, Q) == [{"masked": True, "causal": False}]


def test_sizes_that_are_symbols_leave_the_mask() -> None:
    def model(q: Tensor) -> Tensor:
        mask = (torch.arange(q.shape[2]) >= 0)[None, :].expand(q.shape[2], -1)
        return F.scaled_dot_product_attention(q, q, q, mask)

    assert calls(model, Q, dynamic=True) == [{"masked": True, "causal": False}]


def test_compiled_results_are_eagers() -> None:
    def model(q: Tensor) -> Tensor:
        mask = torch.arange(8)[:, None] >= torch.arange(8)[None, :]
        return F.scaled_dot_product_attention(q, q, q, mask)

    q = Q.clone().requires_grad_()
    out = torch.compile(model, backend="lamella")(q)
    torch.testing.assert_close(out, model(Q))
    (got,), (want,) = torch.autograd.grad(out.sum(), q), torch.autograd.grad(model(q).sum(), q)
    torch.testing.assert_close(got, want)
