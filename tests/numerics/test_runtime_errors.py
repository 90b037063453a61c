"""What kernels raise of what data asks for: eager's types, and words of its text."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import lamella

Program = Callable[[Tensor, Tensor], Tensor]

ROWS: dict[str, Program] = {
    "index": lambda x, i: x[i],
    "index_put": lambda x, i: x.index_put((i,), x[0]),
    "index_select": lambda x, i: x.index_select(0, i),
    "index_select of columns": lambda x, i: x.index_select(1, i),
    "index_add": lambda x, i: x.index_add(0, i, x[:2]),
    "index_add at i32": lambda x, i: x.index_add(0, i.int(), x[:2]),
    "index_add of products": lambda x, i: x.index_add(0, i, x[:2], alpha=2),
    "index_copy": lambda x, i: x.index_copy(0, i, x[:2]),
    "index_fill": lambda x, i: x.index_fill(0, i, 1.0),
    "index_reduce": lambda x, i: x.index_reduce(0, i, x[:2], "amax"),
    "take": lambda x, i: x.take(i),
    "put": lambda x, i: x.put(i, x[0, :2]),
    "gather": lambda x, i: x.gather(0, i[:, None]),
    "scatter": lambda x, i: x.scatter(0, i[:, None], x),
    "scatter of a number": lambda x, i: x.scatter(1, i[:, None], 1.0),
    "scatter_add": lambda x, i: x.scatter_add(0, i[:, None], x),
    "scatter_reduce": lambda x, i: x.scatter_reduce(0, i[:, None], x, "amax"),
    "embedding": lambda x, i: F.embedding(i, x),
    "nll_loss": lambda x, i: F.nll_loss(x[:2], i),
    "max_unpool": lambda x, i: F.max_unpool1d(x[:1, :2], i[None], [2]),
    "searchsorted": lambda x, i: torch.searchsorted(x[0, :2], x[0], sorter=i),
    "index of a vector": lambda x, i: x[0].index_add(0, i, x[0, :2]),
}
MASKED: dict[str, Program] = {
    "masked_scatter": lambda x, i: x.masked_scatter(x > 0, i.float()),
    "index_put at a mask": lambda x, i: x.index_put((x > 0,), i.float()),
}


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield


@pytest.mark.parametrize("name", [*ROWS, *MASKED])
def test_types_are_eagers(name: str) -> None:
    """Of kernels: there is a right call first."""
    f = ROWS.get(name) or MASKED[name]
    x, right, wrong = torch.arange(12.0).view(3, 4), torch.tensor([0, 1]), torch.tensor([0, 50])
    if name in MASKED:
        x, right = x - 9, torch.tensor([3, 4])
    compiled = lamella.compile(f, fullgraph=True)
    assert compiled(x, right).shape == f(x, right).shape
    given = (x + 5, right) if name in MASKED else (x, wrong)
    with pytest.raises((IndexError, RuntimeError)) as theirs:
        f(*given)
    with pytest.raises((IndexError, RuntimeError)) as ours:
        compiled(*given)
    assert type(ours.value) is type(theirs.value)
    assert {"of", "range", "bounds", "sorter", "max", "Number", "shape"} & set(str(ours.value).replace(":", "").split())


def test_the_size_of_the_dim_is_told() -> None:
    compiled = lamella.compile(lambda x, i: x.gather(1, i), dynamic=False)
    with pytest.raises(RuntimeError, match=r"^index is out of bounds for dimension 1 with size 4$"):
        compiled(torch.zeros(3, 4), torch.tensor([[4]]))


DIVISIONS: dict[str, Program] = {
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
    "fmod": torch.fmod,
    "trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "of a number": lambda x, y: 7 // y,
    "remainder of a number": lambda x, y: 7 % y,
    "read in part": lambda x, y: (x // y)[:2] * 2,
    "summed up": lambda x, y: (x % y).sum(0),
    "not chosen": lambda x, y: torch.where(y == 0, 0, x // y),
    "by a number": lambda x, y: x // y[-1].item(),
}


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int64])
@pytest.mark.parametrize("name", DIVISIONS)
def test_divisions_by_zero(name: str, dtype: torch.dtype) -> None:
    f = DIVISIONS[name]
    x, y = torch.arange(1, 101).to(dtype), torch.arange(1, 101).to(dtype)
    compiled = lamella.compile(f)
    assert torch.equal(compiled(x, y), f(x, y))
    y[-1] = 0
    for call in (f, compiled):
        with pytest.raises(RuntimeError, match=r"ZeroDivisionError"):
            call(x, y)


def test_divisions_by_the_number_zero() -> None:
    x = torch.tensor([1, 2], dtype=torch.uint8)
    for number in (0, 256):
        with pytest.raises(RuntimeError, match=r"ZeroDivisionError"):
            lamella.compile(lambda x, n=number: x // n, fullgraph=True)(x)


def test_nothing_is_divided_by_zero() -> None:
    """Where there is no element, none of ATen's kernels compares the divisor."""
    compiled = lamella.compile(lambda x, y: (x // y, (x % y).sum(0)), fullgraph=True)
    x, y = torch.zeros(0, 3, dtype=torch.int64), torch.tensor(0)
    assert [r.tolist() for r in compiled(x, y)] == [[], [0, 0, 0]]


def test_nothing_that_is_seen_twice_is_divided_by_zero() -> None:
    """Results whose memory is seen are not replaced by other empties; what is divided is nothing either way."""

    def halves(x: Tensor) -> tuple[Tensor, Tensor]:
        y = 9 // (x.abs() + 1)
        return y[y.shape[0] // 2 :], y

    compiled = lamella.compile(halves, fullgraph=True)
    assert [r.tolist() for r in compiled(torch.zeros(0, 3, dtype=torch.int64))] == [[], []]


def test_what_is_checked_in_loops_of_sizes_that_kernels_name_themselves() -> None:
    """A kernel's sizes have names of its own; the extents that say whether there is anything to check are in these."""

    def f(x: Tensor) -> Tensor:
        y = torch.cumulative_trapezoid(x, dim=0)
        return y.square().index_copy_(1, torch.arange(15, -1, -1), y)

    x = torch.randn(3, 16, 5).permute(2, 1, 0)
    torch.testing.assert_close(lamella.compile(f, dynamic=True, fullgraph=True, options={"strict": True})(x), f(x))


@pytest.mark.parametrize("name", ["a sum of columns", "a sum of all"])
def test_places_that_data_has_not_are_not_divided(name: str) -> None:
    """A divisor that is the same everywhere is compared before the loops, which may turn out to be empty."""
    dims = {"a sum of columns": (0,), "a sum of all": (0, 1)}[name]

    def f(x: Tensor, y: Tensor) -> Tensor:
        return (x.nonzero() // y).sum(dims)

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = lamella.compile(f, fullgraph=True)
        nothing, something, zero = torch.zeros(3, 2), torch.ones(3, 2), torch.tensor(0)
        assert torch.equal(compiled(something, torch.tensor(2)), f(something, torch.tensor(2)))
        assert torch.equal(compiled(nothing, zero), f(nothing, zero))
        with pytest.raises(RuntimeError, match=r"ZeroDivisionError"):
            compiled(something, zero)


NUMBERS: dict[str, tuple[Callable[[Tensor], Tensor], float]] = {
    "bernoulli": (torch.bernoulli, 1.5),
    "bernoulli of nan": (torch.bernoulli, float("nan")),
    "bernoulli_": (lambda x: torch.empty(100).bernoulli_(x), -0.5),
    "normal": (lambda x: torch.normal(0.0, x), -0.5),
    "normal around numbers": (lambda x: torch.normal(x, x.unsqueeze(1)), float("nan")),
    "binary_cross_entropy": (lambda x: F.binary_cross_entropy(x, x), 1.5),
    "one_hot": (lambda x: F.one_hot(x.long(), 1), 1.0),
    "one_hot below": (lambda x: F.one_hot(x.long(), 1) * 2, -1.0),
    "a part": (lambda x: torch.bernoulli(x)[:2], -1.0),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_are_none_of_it(name: str) -> None:
    f, wrong = NUMBERS[name]
    compiled, x = lamella.compile(f, fullgraph=True), torch.full((100,), 0.25)
    assert compiled(x).shape == f(x).shape
    x[-1] = wrong
    for call in (f, compiled):
        with pytest.raises(RuntimeError):
            call(x)
