"""Faults in where tensors lie: strides, offsets, views and results that lend their memory, natively against eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import lamella
from lamella.tools.op_check import check_call


def through_results(x: torch.Tensor, w: torch.Tensor) -> Any:
    """Products and rows before two results of 256 kB, the second over what it is made of."""
    h = torch.softmax(torch.softmax(x @ w, -1) @ w, -1)
    y = h @ w
    return y.exp(), (y - h).cumsum(0) * 2


@pytest.mark.filterwarnings("ignore")
def test_buffers_that_lie_in_results() -> None:
    """What ATen's calls write there and what kernels do, call after call, also where a result is held."""
    x, w = torch.randn(256, 256), torch.randn(256, 256)
    check_call(through_results, (x, w))
    compiled = torch.compile(through_results, backend="lamella", options={"cache": False})
    assert "host.lend" in str(lamella.lower(lamella.capture(through_results, x, w), "host"))
    held = [compiled(x + i, w) for i in range(3)]
    for i, results in enumerate(held):
        torch.testing.assert_close(results, through_results(x + i, w), rtol=1e-4, atol=1e-4)


def test_strides_that_overlap() -> None:
    torch._dynamo.reset()
    made = torch.compile(lambda: torch.empty_strided((5, 5), (0, 1)), backend="lamella", options={"cache": False})()
    assert made.stride() == (0, 1)


def test_symbolic_strides_that_are_kept() -> None:
    """Of memory with more between rows than their elements, which sizes do not say."""

    def written(x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_strided(x.size(), x.stride())
        y[:] = x + x
        return y

    torch._dynamo.reset()
    x = torch.randn(16, 16)[:, :8]
    made = torch.compile(written, backend="lamella", options={"cache": False}, dynamic=True)(x)
    assert made.stride() == (16, 1)
    torch.testing.assert_close(made, written(x))


@torch.library.custom_op("lamella_test::row_apart", mutates_args=())
def row_apart(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided((1,), (int(x.item()),))


@row_apart.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided((1,), (torch.library.get_ctx().new_dynamic_size(),))


@torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True)
def test_a_number_that_only_a_stride_says() -> None:
    """Of a result that nobody else reads."""
    torch._dynamo.reset()
    options = {"cache": False, "strict": True}
    compiled = torch.compile(
        lambda x: torch.ones(row_apart(x).stride(0)), backend="lamella", fullgraph=True, options=options
    )
    assert compiled(torch.tensor([3])).tolist() == [1, 1, 1]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("strides", [(7, 3, 2, 1), (1, 1, 1, 1), (20, 5, 1, 1), (3, 1, 12, 4)], ids=str)
def test_values_between_have_a_place_for_each_element(strides: tuple[int, ...], dynamic: bool) -> None:
    torch._dynamo.reset()
    x = torch.randn(200).as_strided((2, 3, 4, 5), strides)

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, 1) + (x * 2).cumsum(2)

    torch.testing.assert_close(torch.compile(f, backend="lamella", dynamic=dynamic)(x), f(x))


def _strided_and_written(x: torch.Tensor) -> torch.Tensor:
    y = (x * 2).cumsum(0)
    seen = y.as_strided((2, 2), (1, 1), 1).exp()
    x.copy_(y)
    return seen


def _all_scattered(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Into new memory, which is read in the same order and in others, and into the argument's."""
    y = x.view(2, 4, 2)
    made = torch.as_strided_scatter(torch.empty_like(y), y, (2, 4, 2), (8, 1, 4))
    summed = torch.as_strided_scatter(x + 1, y.permute(1, 2, 0), (4, 2, 2), (1, 4, 8), 0)
    return made.as_strided((2, 4, 2), (8, 1, 4)), made.exp(), summed, torch.as_strided_scatter(x, x[:2], (2,), (3,))


OF_STORAGE: dict[str, Callable[[torch.Tensor], Any]] = {
    "strided": lambda x: x.cumsum(0).as_strided((2, 2), (1, 1), 0) @ x.flip(0).cumsum(0).as_strided((2, 2), (1, 1), 1),
    "strided of a part": lambda x: x.flip(0).cumsum(0) + x.cumsum(0)[2:6].as_strided((2, 1), (1, 1), 0).sum(),
    "copied": lambda x: (
        torch.as_strided_copy(x.cumsum(0), (2, 2), (2, 1), 1)
        + torch.as_strided_copy(x.cumsum(0).cumsum(0), (2, 2), (2, 1), 1)
    ),
    "scattered": lambda x: (
        torch.as_strided_scatter(x.cumsum(0), x[:2], (2,), (2,), 3)
        + torch.as_strided_scatter(x.cumsum(0).cumsum(0), x[:2], (2,), (2,), 3)
    ),
    "all scattered": _all_scattered,
    "written to an input": _strided_and_written,
}


@pytest.mark.parametrize("offset", [0, 5])
@pytest.mark.parametrize("case", OF_STORAGE)
def test_offsets_in_storages(case: str, offset: int) -> None:
    """They are counted from the beginning of a tensor's own, not of memory that it lies in."""
    torch._dynamo.reset()
    f = OF_STORAGE[case]
    x, y = (t[offset : offset + 16] for t in (torch.arange(32.0) / 9, torch.arange(32.0) / 9))
    compiled = torch.compile(f, backend="lamella", options={"cache": False})
    torch.testing.assert_close((compiled(x), x), (f(y), y))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "run", [lambda x: x.chunk(2, 0)[0].unfold(0, 1, 2), lambda x: x.unflatten(0, (3, 11)).diagonal()]
)
def test_view_of_symbolic_sizes_of_a_part(run: Any) -> None:
    """AOTAutograd makes the alias where the graph's result begins."""
    check_call(run, (torch.arange(35.0)[1:-1],), mode="dynamic")


@pytest.mark.filterwarnings("ignore")
def test_view_of_merged_symbolic_dims() -> None:
    x = torch.arange(8.0 * 2 * 7 * 14).reshape(8, 2, 7, 14)[..., ::2]
    check_call(lambda x: x.reshape(-1).narrow(0, 533, 127).add_(2), (x,), mode="dynamic")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("run", [lambda x: x[:, 4::3] > 0, lambda x: (x[:, 4::2] * 2).sin()])
def test_a_grid_without_points(run: Any) -> None:
    """Of symbolic sizes: the places of its points were found by a division by zero, which ends the process."""
    check_call(run, (torch.randn(3, 8).double()[..., ::2],), mode="dynamic")


@pytest.mark.filterwarnings("ignore")
def test_updates_of_what_has_a_symbolic_stride() -> None:
    """Its stride is known in the kernel that copies it only to update it: compiling failed."""
    index = torch.arange(33).flip(0)
    run = lambda x: x.index_add(0, index % 7, x.index_copy(0, index, x))  # noqa: E731
    check_call(run, (torch.arange(66, dtype=torch.int32)[::2],), mode="dynamic")
