"""Order along a dim natively against eager: every dtype, ties, NaN, zeros of both signs, strides, sizes, derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from lamella.tools.op_check import check_call

FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]

CHOICES: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "topk": (torch.topk, (5,)),
    "kthvalue": (torch.kthvalue, (4,)),
    "median": (torch.median, ()),
    "nanmedian": (torch.nanmedian, ()),
    "mode": (torch.mode, ()),
}
"""Operators that may take any of equal elements, and their arguments before the dim."""


def numbers(shape: tuple[int, ...], dtype: torch.dtype, ties: bool, special: bool = True) -> Tensor:
    """Numbers of the whole range, or many equal ones; floats with everything special among them."""
    generator = torch.Generator().manual_seed(0)
    if dtype is torch.bool:
        return torch.rand(shape, generator=generator) > 0.5
    if not dtype.is_floating_point:
        i = torch.iinfo(dtype)
        low, high = (max(i.min, -3), 3) if ties else (i.min, i.max)
        x = torch.randint(low, high, shape, generator=generator).to(dtype)
        x.view(-1)[:2] = torch.tensor([i.max, i.min])
        return x
    x = torch.randn(shape, dtype=torch.float64, generator=generator)
    x = x.round().to(dtype) if ties else (x * 1e3).to(dtype)
    for first, value in enumerate((torch.nan, -0.0, 0.0, torch.inf, -torch.inf, -torch.nan) if special else ()):
        x.view(-1)[first::13] = value
    return x


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, torch.bool], ids=str)
def test_stable_sort(dtype: torch.dtype, ties: bool) -> None:
    for shape, mode in (((3, 130), "forward"), ((1100, 2), "dynamic")):
        x = numbers(shape, dtype, ties)
        for dim in range(2):
            keywords = {"dim": dim, "descending": dim == 1, "stable": True}
            assert check_call(torch.sort, (x,), keywords, mode, verify=False, name="sort") == []


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=str)
def test_choices(dtype: torch.dtype, name: str) -> None:
    operator, arguments = CHOICES[name]
    for ties in (False, True):
        # the mode of a row with NaN depends on what eager's sort leaves where
        x = numbers((3, 200, 7), dtype, ties, special=name != "mode")
        for dim, mode in ((1, "forward"), (2, "dynamic")):
            assert check_call(operator, (x, *arguments, dim), {}, mode, verify=False, name=name) == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("k", [1, 60, 400])
def test_topk_of_long_rows(dtype: torch.dtype, k: int) -> None:
    for largest in (False, True):
        x = numbers((2, 3001), dtype, ties=largest)
        assert check_call(torch.topk, (x, k, 1, largest), {}, verify=False, name="topk") == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.int16], ids=str)
def test_rows_that_are_merged(dtype: torch.dtype) -> None:
    x = numbers((2, 70_001), dtype, ties=False)
    assert check_call(torch.sort, (x,), {"stable": True}, verify=False, name="sort") == []


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (0, 3), (1, 1)], ids=str)
@pytest.mark.parametrize("mode", ["forward", "dynamic"])
def test_small(shape: tuple[int, ...], mode: str) -> None:
    x = torch.randn(shape)
    assert check_call(torch.sort, (x,), {"stable": True}, mode, verify=False) == []
    assert check_call(torch.topk, (x, 0), {}, mode, verify=False) == []
    if x.numel():
        for name, (operator, arguments) in CHOICES.items():
            assert check_call(operator, (x, *(1 for _ in arguments)), {}, mode, verify=False, name=name) == []


STRIDED: dict[str, Callable[[Tensor], Tensor]] = {
    "transposed": lambda x: x.transpose(0, 1),
    "every other": lambda x: x[:, ::2],
    "flipped": lambda x: x.flip(1),
    "expanded": lambda x: x[:, :1].expand(-1, 40),
    "joined": lambda x: torch.cat([x, -x], 1),
    "reshaped": lambda x: x.t().reshape(20, 15),
}


@pytest.mark.parametrize("name", STRIDED)
def test_views(name: str) -> None:
    view, x = STRIDED[name], torch.randn(6, 50)
    for dim in range(2):
        assert check_call(lambda x, d=dim: view(x).sort(dim=d, stable=True), (x,), verify=False) == []


def around(x: Tensor) -> Any:
    """Something to fuse before and after, the row itself again, and its places as an index of another tensor."""
    y = x.relu() - 0.5
    values, places = y.topk(6)
    return (
        values.softmax(-1),
        places,
        y - y.sort(dim=-1, stable=True).values,
        torch.arange(50)[places],
        x.quantile(0.3, -1),
    )


_NO_QUANTILE = pytest.mark.skipif(torch.__version__ < "2.13", reason="torch 2.11 has no quantile of symbolic sizes")


@pytest.mark.parametrize("mode", ["forward", pytest.param("dynamic", marks=_NO_QUANTILE)])
def test_with_what_surrounds_it(mode: str) -> None:
    # no two are equal and above 0
    x = torch.randperm(300).reshape(6, 50) / 100.0 + 0.01
    assert check_call(around, (x,), {}, mode, verify=False) == []


def total(x: Tensor) -> Tensor:
    weights = torch.arange(50.0)
    values = (x.topk(5).values ** 2, x.sort(-1, descending=True).values * weights, x.median(-1).values)
    return sum((v.sum() for v in (*values, x.kthvalue(7).values, x.nanmedian())), torch.zeros(()))


@pytest.mark.parametrize("dynamic", [False, True])
def test_derivatives(dynamic: bool) -> None:
    torch._dynamo.reset()
    ours, theirs = (torch.randn(6, 50, generator=torch.Generator().manual_seed(1)).requires_grad_() for _ in range(2))
    torch.compile(total, backend="lamella", dynamic=dynamic)(ours).backward()
    total(theirs).backward()
    torch.testing.assert_close(ours.grad, theirs.grad)
