"""Updates of tensors at indices from data, in place or not: what they leave behind is what eager leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

Case = Callable[[Tensor, Tensor, Tensor], Any]


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


def base_used_later(x: Tensor, i: Tensor, v: Tensor) -> Any:
    old = x.clone()
    x.index_add_(1, i, v)
    return old * 2 + x


def base_read_by_the_update(x: Tensor, i: Tensor, v: Tensor) -> Any:
    x.index_add_(1, i, x[:, i.flip(0)] * v)
    return x.sum()


def base_is_kept(x: Tensor, i: Tensor, v: Tensor) -> Any:
    return x.index_add(1, i, v)


def two_in_a_row(x: Tensor, i: Tensor, v: Tensor) -> Any:
    x.index_add_(1, i, v)
    x.index_add_(1, i.flip(0), v * 3)
    return x.exp()


def one_base_twice(x: Tensor, i: Tensor, v: Tensor) -> Any:
    return x.index_add(1, i, v), x.index_add(1, i, -v)


def into_a_view(x: Tensor, i: Tensor, v: Tensor) -> Any:
    x[1:3].index_add_(1, i, v[1:3])
    x[:, :, 2].index_add_(1, i, v[:, :, 2])
    return x.mean()


def into_a_transposed_view(x: Tensor, i: Tensor, v: Tensor) -> Any:
    x.transpose(0, 1).index_add_(0, i, v.transpose(0, 1))


def into_something_computed(x: Tensor, i: Tensor, v: Tensor) -> Any:
    return torch.zeros_like(x).index_add(1, i, v), (x * 2).index_add(1, i, v)


def overwritten(x: Tensor, i: Tensor, v: Tensor) -> Any:
    """What meets is equal, as eager does not say which wins."""
    x[:, i] = v[:, :1]
    return x.amax(1)


def several_indices(x: Tensor, i: Tensor, v: Tensor) -> Any:
    x.index_put_((torch.arange(4)[:, None], i[None]), v, accumulate=True)


def elements(x: Tensor, i: Tensor, v: Tensor) -> Any:
    x.scatter_add_(1, i[None, :, None].expand_as(v), v)
    return x.scatter_reduce(2, i[None, :5, None].expand(4, 5, 3) % 16, v[:, :5, :3], "amax")


CASES: list[Case] = [
    base_used_later, base_read_by_the_update, base_is_kept, two_in_a_row, one_base_twice, into_a_view,
    into_a_transposed_view, into_something_computed, overwritten, several_indices, elements,
]  # fmt: skip


def inputs(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    x, v = torch.randn(4, 40, 16).to(dtype), torch.randn(4, 9, 16).to(dtype)
    return x, torch.tensor([3, 39, 0, 3, 7, 3, 21, 0, 5]), v


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.__name__)
def test_agrees_with_eager(case: Case, dynamic: bool, dtype: torch.dtype) -> None:
    """In bf16 each is no further from float64's than eager's, which rounds after each addition, and a rounding."""
    wanted, got = inputs(dtype), inputs(dtype)
    expected = case(*wanted)
    actual = torch.compile(case, backend="lamella", dynamic=dynamic)(*got)
    if dtype is torch.float32:
        torch.testing.assert_close((got, actual), (wanted, expected), rtol=1e-5, atol=1e-5)
        return
    x, i, v = inputs(dtype)
    wide = x.double(), i, v.double()
    exact = case(*wide)
    leaves = ([t for t in tree_leaves(r) if t is not None] for r in ((got, actual), (wanted, expected), (wide, exact)))
    for g, e, right in zip(*leaves, strict=True):
        assert g.dtype is e.dtype and g.shape == e.shape
        off, theirs = (((y - right).abs() / right.abs().clamp(min=1)).max() for y in (g, e))
        assert off <= theirs + torch.finfo(dtype).eps, f"{off} from float64's, eager's is {theirs}"


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_do_not_change_the_result(threads: int) -> None:
    """Columns of one sum of many rows: each is added up in the order of the rows."""
    before = torch.get_num_threads()
    torch.manual_seed(0)
    x, v, i = torch.randn(64, 512), torch.randn(5000, 512), torch.randint(0, 64, (5000,))
    wanted = x.clone()
    for k, row in zip(i.tolist(), v, strict=True):
        wanted[k] += row
    torch.set_num_threads(threads)
    try:
        got = torch.compile(lambda x, i, v: x.index_add(0, i, v), backend="lamella")(x, i, v)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(got, wanted)


def test_index_out_of_range_writes_nothing_outside() -> None:
    """The rows before it may be updated; the memory around the target never is."""
    memory = torch.zeros(12, 8)

    def update(x: Tensor, i: Tensor, v: Tensor) -> None:
        x.index_add_(0, i, v)

    compiled = torch.compile(update, backend="lamella")
    compiled(memory[4:8], torch.tensor([0, 3]), torch.ones(2, 8))
    for wrong in (4, -1, 2**40):
        with pytest.raises(RuntimeError, match="out of bounds"):
            compiled(memory[4:8], torch.tensor([1, wrong]), torch.ones(2, 8))
    assert not memory[:4].any() and not memory[8:].any()


@pytest.mark.parametrize("repeats", [16, 48, 80, 3])
def test_vectors_side_by_side_share_nothing(repeats: int) -> None:
    """What all lanes of a vector share (a number that is repeated, a condition on a row) the next vector need not."""
    x, rows = torch.arange(33.0 * repeats), torch.arange(33.0)

    def repeated(x: Tensor, rows: Tensor) -> Tensor:
        y = rows.view(33, 1).expand(33, repeats).reshape(-1) * x
        y[1::3] += 1
        return y

    def chosen(x: Tensor, rows: Tensor) -> Tensor:
        y = x.view(33, repeats)
        y = torch.cat([y[:1], -y[1:]]).neg().view(-1)
        y[1::3] += 1
        return y

    for f in (repeated, chosen):
        assert torch.equal(torch.compile(f, backend="lamella")(x, rows), f(x, rows))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("step", [1, 2])
def test_what_was_read_before_complex_numbers_are_written(step: int, dynamic: bool) -> None:
    """Through the view of their parts, which is a value of its own: a copy of that is made before the write."""

    def f(x: Tensor) -> Tensor:
        old = x.contiguous() if step == 2 else x.clone()
        x.index_copy_(0, torch.arange(x.shape[0] - 1, -1, -1), old)
        return torch.view_as_real(old).reshape(2, -1)

    x, y = (torch.arange(48.0).view(3, 16).to(torch.complex64)[:, ::step] for _ in range(2))
    assert torch.equal(torch.compile(f, backend="lamella", dynamic=dynamic)(x), f(y)) and torch.equal(x, y)
