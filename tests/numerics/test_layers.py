"""Layers that torch calls as one operator for inference: compiled as what they are made of, as exact as eager's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import lamella

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def calls(model: Any, *args: Any, **options: Any) -> list[str]:
    with torch.no_grad():
        graphs = lamella.explain(model, *args, options=options).graphs
    return [call.name for graph in graphs for call in graph.calls]


def check(model: nn.Module, *args: Tensor, **options: Any) -> None:
    """No further from float64 than eager is, and laid out as its."""
    torch.compiler.reset()
    with torch.no_grad():
        found = lamella.compile(model, options={"strict": True, **options})(*args)
        eager = model(*args)
        exact = model.double()(*(a.double() for a in args))
    for got, theirs, wanted in zip(*map(tensors, (found, eager, exact)), strict=True):
        assert (got.dtype, got.shape, got.stride()) == (theirs.dtype, theirs.shape, theirs.stride())
        error, its = ((y.double() - wanted).abs().max() for y in (got, theirs))
        assert error <= 2 * its + 16 * torch.finfo(got.dtype).eps


def tensors(value: Any) -> list[Tensor]:
    return [v for v in value if v is not None] if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder_layer(activation: str, first: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(64, 4, 96, batch_first=True, activation=activation, norm_first=first)
    check(layer.eval().to(dtype), torch.randn(3, 17, 64, dtype=dtype))


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_attention(dtype: torch.dtype, weights: bool, average: bool) -> None:
    torch.manual_seed(0)

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.MultiheadAttention(48, 3, batch_first=True)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
            return self.inner(x, x, x, need_weights=weights, average_attn_weights=average)

    check(Attention().eval().to(dtype), torch.randn(2, 20, 48, dtype=dtype))


@pytest.mark.parametrize("options", [{}, {"freezing": True}, {"products": "all"}, {"deterministic": True}], ids=str)
def test_no_layer_is_called(options: dict[str, Any]) -> None:
    layer, x = nn.TransformerEncoderLayer(64, 4, 96, batch_first=True).eval(), torch.randn(3, 17, 64)
    assert not [name for name in calls(layer, x, **options) if "encoder" in name or "multi_head" in name]
    check(layer, x, **options)


def test_any_number_of_rows() -> None:
    layer = nn.TransformerEncoderLayer(64, 4, 96, batch_first=True).eval()
    run = torch.compile(layer, backend="lamella", dynamic=True, fullgraph=True, options={"strict": True})
    with torch.no_grad():
        for batch, length in ((3, 17), (1, 40), (5, 2)):
            x = torch.randn(batch, length, 64)
            torch.testing.assert_close(run(x), layer(x), rtol=1e-4, atol=1e-5)


def test_what_stays_a_call() -> None:
    """Attention with a mask, where queries that see nothing have ATen's results; and what is to round as eager does."""
    layer, x = nn.TransformerEncoderLayer(64, 4, 96, batch_first=True).eval(), torch.randn(3, 17, 64)
    name = "aten._transformer_encoder_layer_fwd"
    mask = torch.ones(17, 17).triu(1).bool()
    assert name in calls(lambda x: layer(x, src_mask=mask), x)
    assert name in calls(layer, x, numerics="eager")
