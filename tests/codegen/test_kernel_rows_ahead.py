"""Rows of a large table, of which the next one is asked for: first and last points, bad and negative indices, threads."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import lamella

DTYPES = [torch.bfloat16, torch.float32, torch.int8]


def picked(i: Tensor, w: Tensor) -> Tensor:
    return F.embedding(i, w) + 1


def indexed(i: Tensor, w: Tensor) -> Tensor:
    return w[i - 5] * 2


def twice(i: Tensor, w: Tensor) -> Tensor:
    return w[i] + w[i.flip(0)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(0,), (1,), (2, 1), (3, 7), (1, 64), (5, 1, 33)], ids=str)
@pytest.mark.parametrize("f", [picked, indexed, twice])
def test_any_number_of_rows(f: Callable[[Tensor, Tensor], Tensor], shape: tuple[int, ...], dtype: torch.dtype) -> None:
    torch._dynamo.reset()
    w = torch.randint(-50, 50, (9000, 700)).to(dtype)[:, :610]
    i = torch.randint(0, 9000, shape)
    assert torch.equal(lamella.compile(f, fullgraph=True, dynamic=False)(i, w), f(i, w))


@pytest.mark.parametrize("bad", [0, 3, 199])
@pytest.mark.parametrize("value", [9000, -1, 1 << 62, -(1 << 62)])
def test_bad_rows_are_errors(bad: int, value: int) -> None:
    w, i = torch.randn(9000, 600), torch.randint(0, 9000, (200,))
    call = lamella.compile(picked, fullgraph=True)
    assert torch.equal(call(i, w), picked(i, w))
    i[bad] = value
    with pytest.raises(IndexError):
        call(i, w)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads(threads: int) -> None:
    w, i = torch.randn(9000, 600), torch.randint(0, 9000, (401, 3))
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        assert torch.equal(lamella.compile(picked, fullgraph=True)(i, w), picked(i, w))
    finally:
        torch.set_num_threads(before)
