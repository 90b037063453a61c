"""Operators whose results torch 2.11 traces with the dtype of the input: what follows them has theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch._subclasses import fake_impls

KERNELS: dict[Any, Callable[..., Any]] = fake_impls.op_implementations_dict  # pyright: ignore
aten: Any = torch.ops.aten


def as_in_2_11(operator: Any) -> Callable[..., Any]:
    kernel = KERNELS[operator]

    def run(mode: Any, function: Any, x: torch.Tensor, *args: Any, **keywords: Any) -> Any:
        def wrong(t: torch.Tensor) -> torch.Tensor:
            return t.new_empty(t.shape, dtype=x.dtype)

        results = kernel(mode, function, x, *args, **keywords)
        return wrong(results) if isinstance(results, torch.Tensor) else tuple(map(wrong, results))

    return run


@pytest.mark.parametrize("dtype", [torch.float32, torch.int8])
@pytest.mark.parametrize(
    ("operator", "program"),
    [
        (aten.unique_consecutive.default, lambda x: torch.unique_consecutive(x, return_inverse=True)),
        (aten.unique_consecutive.default, lambda x: torch.unique_consecutive(x, return_counts=True)[1] * 3),
        (aten._unique2.default, lambda x: torch.unique(x, return_inverse=True)[1] * 100),
        (aten.unique_dim.default, lambda x: torch.unique(x, return_inverse=True, return_counts=True, dim=0)),
        (aten.bincount.default, lambda x: torch.bincount(x.to(torch.int8)) * 100),
        (aten.bincount.default, lambda x: torch.bincount(x.to(torch.int8), x.float() / 2) * 3),
        (aten.bincount.default, lambda x: torch.bincount(x.to(torch.int8), x.half() / 2) * 3),
        (aten.bincount.default, lambda x: torch.bincount(x.to(torch.int8), x) * 3),
    ],
)
def test_indices(operator: Any, program: Callable[[Any], Any], dtype: torch.dtype) -> None:
    torch._dynamo.reset()
    x = torch.tensor([1, 1, 2, 2, 2, 3, 1]).to(dtype)
    with (
        patch.dict(KERNELS, {operator: as_in_2_11(operator)}),
        torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True),
    ):
        found = torch.compile(program, backend="lamella", fullgraph=True)(x)
    torch.testing.assert_close(found, program(x), rtol=0, atol=0)


def test_a_size_that_depends_on_data() -> None:
    """torch 2.11 has no fake kernel of `_unique`: the derivative of `index_fill` would have the size that zeros give."""

    def f(x: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return (x.index_fill(0, torch.tensor([1, 3, 1]), value) * x).sum()

    x, value = torch.arange(12.0).reshape(4, 3).requires_grad_(), torch.tensor(2.0, requires_grad=True)
    expected = torch.autograd.grad(f(x, value), [x, value])
    torch._dynamo.reset()
    with patch.dict(KERNELS):
        KERNELS.pop(aten._unique.default, None)
        found = torch.autograd.grad(torch.compile(f, backend="lamella", fullgraph=True)(x, value), [x, value])
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("shape", [[1], [2, 1], [1, 3]])
def test_norm_along_a_dim_of_one_element(shape: list[int]) -> None:
    """torch 2.11 keeps that dim where it is counted from the end."""
    torch._dynamo.reset()
    x = torch.randn(shape)

    def f(x: torch.Tensor) -> Any:
        return x.norm(dim=-1), torch.linalg.vector_norm(x, float("inf"), [-1, 0][: x.dim()])

    torch.testing.assert_close(torch.compile(f, backend="lamella", fullgraph=True)(x), f(x))


def test_a_transposed_view_that_is_zeroed() -> None:
    """torch 2.11 says that `zero` of it were contiguous."""
    torch._dynamo.reset()

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        y.transpose(0, 1).zero_()
        return y

    x = torch.randn(7, 4)
    found, expected = torch.compile(f, backend="lamella", fullgraph=True)(x), f(x)
    assert found.stride() == expected.stride()
    torch.testing.assert_close(found, expected)
