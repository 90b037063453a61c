"""Arguments that are written, that share memory, and results that are views: as eager has them, call after call."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils import _pytree as pytree

import lamella
from lamella.frontend.overlap import any_overlap, extent, overlap

Program = Callable[..., Any]
Arguments = Callable[[Tensor], tuple[Tensor, ...]]
"""Arguments in the memory of 100 numbers."""


def _both(x: Tensor, y: Tensor) -> Any:
    x.add_(1)
    y.mul_(2)
    return x + 0, y + 0


def _both_seen(x: Tensor, y: Tensor) -> Any:
    x.add_(1)
    y.mul_(2)
    return x[3:], y[:4]


def _seen_through_another(x: Tensor, y: Tensor) -> Any:
    x.add_(1)
    return y.reshape(-1)[2:], x.view(-1)


def _base(x: Tensor, y: Tensor) -> Any:
    y.zero_()
    return x.sum(), x[1], y.view(-1)


def _as_integers(x: Tensor, y: Tensor) -> Any:
    y.mul_(2)
    return x.add(1), y.select(0, 0)


def _transposed(x: Tensor) -> Any:
    x.t_()
    x.add_(1)
    return x, x[1]


def _three(x: Tensor, y: Tensor, z: Tensor) -> Any:
    return x.add_(1), y.add_(2), z * 1


def _part(begin: int) -> Arguments:
    return lambda b: (b[begin : begin + 20],)


def _windows(x: int, y: int) -> Arguments:
    return lambda b: (b[x : x + 17], b[y : y + 17])


CASES: dict[str, tuple[Program, list[Arguments]]] = {
    "merged dims": (
        lambda x: x.reshape(-1).narrow(0, 5, 7).add_(2),
        [lambda b: (b[:96].reshape(4, 3, 8)[..., ::2],), lambda b: (b[:96].reshape(4, 3, 8)[1:, :, ::2],)],
    ),
    "written through another view": (
        lambda x: (x[1:].t().mul_(3), x.reshape(-1)[2:].view(-1, 1))[::-1],
        [lambda b: (b[:96].view(8, 12),), lambda b: (b[9:99].view(9, 10),), lambda b: (b[:96].view(8, 12)[::2],)],
    ),
    "split": (lambda x: (x.add_(1), *x.split([3, 17])), [_part(0), _part(4)]),
    "windows": (_both, [_windows(3, 5), _windows(4, 6), _windows(4, 8), _windows(40, 0)]),
    "windows that lie apart at first": (_both, [_windows(40, 0), _windows(4, 8), _windows(0, 40)]),
    "memories of their own at first": (
        _both,
        [lambda b: (b[:17], b[:17].clone()), _windows(4, 8), lambda b: (b[:17], b[:17])],
    ),
    "columns that lie side by side": (
        _both,
        [lambda b: (b.view(10, 10)[:, ::2], b.view(10, 10)[:, 1::2]), lambda b: (b.view(10, 10)[:, ::2],) * 2],
    ),
    "views of windows": (_both_seen, [lambda b: (b[3:20], b[5:40:2]), lambda b: (b[4:21], b[6:41:2])]),
    "view of what is written through another argument": (
        _seen_through_another,
        [
            lambda b: (b[2:18].view(4, 4), b[:20].view(4, 5)[:, :4]),
            lambda b: (b[3:19].view(4, 4), b[:20].view(4, 5)[:, :4]),
        ],
    ),
    "an argument and a part of it": (
        _base,
        [lambda b: (x := b[:30].view(5, 6), x[1]), lambda b: (x := b[:30].view(5, 6), x[3])],
    ),
    "memory as integers": (_as_integers, [lambda b: (b[:30].view(5, 6), b[:30].view(5, 6).view(torch.int32))]),
    "three, two of which are returned": (_three, [lambda b: (b[0:10], b[5:15], b[8:18])]),
    "memory around an argument": (lambda x: x.as_strided((3,), (10,), 0).add_(1), [lambda b: (b[:4],)]),
    "memory at a place": (lambda x: x.as_strided((3,), (2,), 3).add_(1), [_part(0), _part(4)]),
    "written and transposed": (
        _transposed,
        [lambda b: (b[:20].view(4, 5),), lambda b: (b[10:30].view(4, 5),), lambda b: (b[:80].view(8, 10)[2:, ::2],)],
    ),
    "transposed": (lambda x: (x.t_(), x[1])[1], [lambda b: (b[:20].view(4, 5),), lambda b: (b[10:30].view(4, 5),)]),
}


def _described(memory: Tensor, args: tuple[Tensor, ...], results: Any) -> Any:
    """How the results lie, after which tensor in the same memory, and which of them are arguments."""
    first: dict[int, tuple[int, Any]] = {memory.untyped_storage().data_ptr(): (-1, 0)}

    def described(i: int, t: Tensor) -> Any:
        owner, begin = first.setdefault(t.untyped_storage().data_ptr(), (i, t.storage_offset()))
        return t.shape, t.stride(), t.dtype, owner, t.storage_offset() - begin, [t is x for x in args]

    return [described(i, t) for i, t in enumerate(pytree.tree_leaves(results))]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_aliases(case: str, dynamic: bool) -> None:
    """Numbers, sizes, strides, offsets, memory shared, and all numbers around the arguments."""
    torch._dynamo.reset()
    f, calls = CASES[case]
    compiled = torch.compile(f, backend="lamella", dynamic=dynamic, options={"cache": False})
    for arguments in calls:
        theirs, ours = torch.arange(100.0), torch.arange(100.0)
        given, taken = arguments(theirs), arguments(ours)
        expected, found = f(*given), compiled(*taken)
        assert _described(ours, taken, found) == _described(theirs, given, expected)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(ours, theirs)
        for t in pytree.tree_leaves((expected, found)):
            t.add_(1)
        torch.testing.assert_close(ours, theirs)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dynamic", [False, True])
def test_gradients_through_a_view_of_what_is_written(dynamic: bool) -> None:
    def f(x: Tensor, w: Tensor) -> Any:
        y = x.clone() * w
        y.reshape(-1)[1:5].mul_(2)
        x.reshape(-1).narrow(0, 2, 3).add_(w.sum())
        return x.t()[1:].reshape(-1), y[1:]

    def gradient(f: Program) -> list[Tensor]:
        x, w = torch.arange(24.0).view(4, 6)[:, ::2], torch.arange(3.0, requires_grad=True)
        a, b = f(x, w)
        (a.square().sum() + b.square().sum() + x.sum()).backward()
        assert w.grad is not None
        return [w.grad, x, a, b]

    torch._dynamo.reset()
    compiled = torch.compile(f, backend="lamella", dynamic=dynamic, options={"cache": False})
    for _ in range(2):
        torch.testing.assert_close(gradient(compiled), gradient(f))


def _read_then_written(x: Tensor, w: Tensor) -> Any:
    y = x.clone() * w
    x.add_(1)
    return y


def _computed_then_written(x: Tensor, w: Tensor) -> Any:
    y = x.sin() * w
    x.add_(w.sum())
    return y, x * 2


def _averaged(x: Tensor, w: Tensor) -> Any:
    y = (x * 2).exp() * w
    x.mul_(0.5).add_(y.detach().sum(0))
    return y + x


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("f", [_read_then_written, _computed_then_written, _averaged])
def test_gradients_of_what_an_argument_was(f: Program, dynamic: bool) -> None:
    """AOTAutograd saves the argument, and the forward writes it: gradients were those of the next step."""

    def gradient(f: Program) -> list[Tensor]:
        x, w = torch.arange(12.0).view(4, 3) / 9, torch.arange(3.0, requires_grad=True)
        results = pytree.tree_leaves(f(x, w))
        torch.stack([t.square().sum() for t in results]).sum().backward()
        assert w.grad is not None
        return [w.grad, x, *results]

    torch._dynamo.reset()
    compiled = torch.compile(f, backend="lamella", dynamic=dynamic, options={"cache": False})
    for _ in range(2):
        torch.testing.assert_close(gradient(compiled), gradient(f))


def test_written_subclasses() -> None:
    """Each tensor of a subclass is an input of the graph; the wrappers have no memory, so that none shares any."""

    def f(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        x.mul_(2)
        y.add_(x)
        z.mul_(3)
        return x + y + z

    compiled = torch.compile(f, backend="lamella", fullgraph=True)
    for _ in range(2):
        ours, theirs = ([TwoTensor(torch.ones(3), torch.full((3,), 2.0)) for _ in "xy"] for _ in range(2))
        ours, theirs = [*ours, torch.ones(3)], [*theirs, torch.ones(3)]
        for a, b in zip((compiled(*ours), *ours), (f(*theirs), *theirs), strict=True):
            assert str(a) == str(b)
        assert not any_overlap(ours, [t.data_ptr() for t in ours], [extent(t) for t in ours], [True] * 3)


def test_gradient_of_a_result_whose_elements_overlap() -> None:
    """torch 2.13 gives the gradient such strides, and copies it into that."""

    def gradient(f: Program) -> Tensor:
        x = torch.arange(6.0).requires_grad_()
        (f(x) * torch.arange(12.0).view(4, 3)).sum().backward()
        assert x.grad is not None
        return x.grad

    torch._dynamo.reset()
    f = lambda x: (x * 2).unfold(0, 3, 1)  # noqa: E731
    assert torch.equal(gradient(torch.compile(f, backend="lamella", options={"cache": False})), gradient(f))


def test_why_it_runs_eagerly() -> None:
    x = torch.arange(40.0)
    said = str(lamella.explain(_both, x[3:20], x[5:22]))
    assert "it writes an argument that shares memory with another one" in said


def test_as_strided_scatter_of_an_argument_that_is_not_written() -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        return torch.as_strided_scatter(x, y, (2, 2), (3, 1), 1) * 2

    x, y = torch.arange(10.0), torch.randn(2, 2)
    assert "1 kernel, 1 call into ATen" in str(lamella.explain(f, x, y))
    assert torch.equal(lamella.compile(f)(x, y), f(x, y))


def test_overlap() -> None:
    """As sets of bytes say it."""
    g, memory = random.Random(0), torch.zeros(256, dtype=torch.uint8).untyped_storage()
    counts = {True: 0, False: 0}

    def tensor() -> Tensor:
        while True:
            rank, begin = g.randrange(4), g.randrange(20)
            sizes = [g.choice((1, 2, 3, 4, 0)) if k else g.randrange(1, 5) for k in range(rank)]
            strides = [g.choice((0, 1, 2, 3, 6, 8)) for _ in range(rank)]
            made = torch.empty(0, dtype=g.choice((torch.uint8, torch.int16, torch.float32)))
            if (begin + 1 + sum(n * s for n, s in zip(sizes, strides, strict=True))) * made.itemsize <= 256:
                return made.set_(memory, begin, sizes, strides)

    def bytes_of(t: Tensor) -> set[int]:
        at = torch.tensor([t.storage_offset()])
        for n, s in zip(t.shape, t.stride(), strict=True):
            at = (at[:, None] + s * torch.arange(n)).flatten()
        return {int(i) * t.itemsize + k for i in at for k in range(t.itemsize)}

    for _ in range(600):
        x, y = tensor(), tensor()
        expected = bool(bytes_of(x) & bytes_of(y))
        found = any_overlap([x, y], [x.data_ptr(), y.data_ptr()], [extent(x), extent(y)], [False, True])
        assert overlap(x, y) == overlap(y, x) == found == expected
        counts[expected] += 1
    assert min(counts.values()) > 50


def test_read_arguments_that_lie_elsewhere_at_each_call() -> None:
    """Those that come to lie in what is written, too; and autograd is told of what is written."""

    def f(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        x.copy_(x + y[:, None])
        return x * z

    compiled = torch.compile(f, backend="lamella", fullgraph=True, options={"cache": False})
    ours, theirs = torch.zeros(1100), torch.zeros(1100)
    kept: list[Tensor] = []
    for begin in (None, None, 512, None, 40, 0, None, 1024, None):
        version = ours._version
        given = [(torch.ones(32) if begin is None else x[begin : begin + 32]) for x in (ours, theirs)]
        kept += given
        z = torch.arange(1024.0)
        results = [
            g(x[:1024].view(32, 32), y, z.view(32, 32))
            for g, x, y in zip((compiled, f), (ours, theirs), given, strict=True)
        ]
        assert torch.equal(*results) and torch.equal(ours, theirs)
        assert ours._version > version


@pytest.mark.parametrize("dynamic", [False, True])
def test_results_that_are_one_tensor_seen_twice(dynamic: bool) -> None:
    """They share memory, not sizes; what is returned twice is one tensor."""
    torch._dynamo.reset()
    f = lambda x: (y := x + 1, y.view_as(y), y.t().t(), y)  # noqa: E731
    compiled = torch.compile(f, backend="lamella", dynamic=dynamic, options={"cache": False})
    for _ in range(2):
        a, b, c, d = compiled(torch.arange(6.0).view(2, 3))
        assert a is d and len({id(t) for t in (a, b, c)}) == 3
        assert a.data_ptr() == b.data_ptr() == c.data_ptr()
        a.unsqueeze_(0).zero_()
        assert b.shape == c.shape == (2, 3) and not b.any() and not c.any()


@pytest.mark.parametrize("make", [lambda x: x.roll(3), lambda x: x.flatten().view(x.shape), lambda x: x.cumsum(0)])
def test_results_whose_strides_torch_says_in_quotients(make: Callable[[Tensor], Tensor]) -> None:
    """They share memory also where torch has `s0**2 * s1 // s0` for `s0 * s1`."""
    torch._dynamo.reset()
    f = lambda x: (y := make(x + 1), y.permute(2, 1, 0))  # noqa: E731
    x = torch.randn(5, 5, 2)
    (a, b), expected = torch.compile(f, backend="lamella", dynamic=True)(x), f(x)
    assert torch.equal(a, expected[0]) and torch.equal(b, expected[1])
    assert b.stride() == expected[1].stride() and a.data_ptr() == b.data_ptr()


@pytest.mark.parametrize("view", [lambda y: y.view(1, -1), lambda y: y.view(12, -1), lambda y: y.view(6, -1)])
def test_a_result_and_its_view_whose_sizes_are_guarded(view: Callable[[Tensor], Tensor]) -> None:
    """No expression over the sizes says that rows of every other column follow one another: a guard does."""
    torch._dynamo.reset()

    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.nn.functional.pad(x, (1, 1))[..., ::2]
        return y, view(y)

    x = torch.randn(3, 6)
    found, expected = torch.compile(f, backend="lamella", dynamic=True, options={"cache": False})(x), f(x)
    assert found[0].data_ptr() == found[1].data_ptr()
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a, b) and a.stride() == b.stride()


def _negated(x: Tensor) -> Any:
    y = x.t().reshape(-1)
    return y.neg_(), y.movedim(0, -1)


def _seen_before(x: Tensor) -> Any:
    y = x.t().reshape(-1)
    z = y.movedim(0, -1)
    return y.neg_(), z, z, y.view_as(y)


@pytest.mark.parametrize("f", [_negated, _seen_before])
def test_what_is_written_in_place_and_its_views_are_tensors_of_their_own(f: Callable[[Tensor], Any]) -> None:
    """AOTAutograd writes these views as `_unsafe_view`."""
    x = torch.randn(3, 4)
    expected, found = f(x), lamella.compile(f, options={"cache": False})(x)
    for results in (expected, found):
        assert len({t.data_ptr() for t in results}) == 1
    for i, j in itertools.product(range(len(expected)), repeat=2):
        assert (expected[i] is expected[j]) == (found[i] is found[j])
    torch.testing.assert_close(found, expected)
    found[0].unsqueeze_(0)
    assert found[1].shape == expected[1].shape


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("part", [lambda x: x[2:4], lambda x: x.select(1, 2), lambda x: x.diagonal()])
def test_as_strided_sees_the_memory_around_what_was_written(part: Callable[..., Any], dynamic: bool) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return part(x).mul_(3).as_strided((2, 3), (1, 2), 1) + 1

    x = torch.arange(36.0).view(6, 6)
    y = x.clone()
    assert torch.equal(torch.compile(f, backend="lamella", dynamic=dynamic)(x), f(y)) and torch.equal(x, y)


def test_as_strided_of_one_of_several_views() -> None:
    """Of what was computed: by the memory that they are views of."""

    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x * 2
        return y.split(2)[-1].view(-1).neg_().as_strided((1, 4), (9, 1), 20) + 1, y

    x = torch.arange(24.0).view(4, 6)
    for found, expected in zip(torch.compile(f, backend="lamella")(x), f(x), strict=True):
        assert torch.equal(found, expected)


def test_data_of_an_argument_is_set() -> None:
    """torch cannot say whether that is the same in another process: its check raises."""

    def f(x: Tensor, y: Tensor) -> Tensor:
        x.data = y * 2
        return x + 1

    x, y, z = torch.ones(3), torch.ones(3), torch.arange(3.0)
    torch.testing.assert_close(torch.compile(f, backend="lamella")(x, z), f(y, z))
    torch.testing.assert_close(x, y)
