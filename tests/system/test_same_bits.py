"""The same bits: for any number of threads, from run to run, and, where it is asked for, whatever rows are beside a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

F = torch.nn.functional

THREADED: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "sum": (lambda x: x.sum(), (torch.randn(1000, 333),)),
    "rows": (lambda x: (x.softmax(-1), x.var(-1), x.cumsum(-1)), (torch.randn(300, 1000),)),
    "columns": (lambda x: (x.sum(0), x.mean(0), x.cumsum(0)), (torch.randn(3000, 100),)),
    "norm": (lambda x, w: F.layer_norm(x, [512], w), (torch.randn(500, 512), torch.randn(512))),
    "norm backward": (
        lambda x, w, g: torch.ops.aten.native_layer_norm_backward(
            g, x, [512], x.mean(-1, True), x.std(-1, keepdim=True), w, w, [True] * 3
        ),
        (torch.randn(500, 512), torch.randn(512), torch.randn(500, 512)),
    ),
    "updates": (
        lambda x, i, s: x.index_add(0, i, s),
        (torch.zeros(50, 64), torch.randint(0, 50, (4000,)), torch.randn(4000, 64)),
    ),
    "rows of a table": (
        lambda w, i: F.embedding(i, w).sum(1),
        (torch.randn(100, 64), torch.randint(0, 100, (200, 30))),
    ),
    "product": (lambda x, w: F.gelu(x @ w), (torch.randn(200, 128), torch.randn(128, 96))),
    "windows": (lambda x: F.avg_pool2d(x, 3, 2, 1), (torch.randn(4, 16, 40, 40),)),
}


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.compiler.reset()
    yield
    torch.set_num_threads(before)
    torch.use_deterministic_algorithms(False)


def leaves(value: Any) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else list(value)


def compiled(f: Callable[..., Any], dynamic: bool = False, **options: Any) -> Callable[..., Any]:
    return torch.compile(f, backend="lamella", dynamic=dynamic, options={"strict": True, **options})


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("case", THREADED)
def test_any_number_of_threads(case: str, deterministic: bool) -> None:
    f, args = THREADED[case]
    torch.use_deterministic_algorithms(deterministic)
    run = compiled(f, products="all")
    torch.set_num_threads(1)
    wanted = leaves(run(*args))
    for count in (2, 4, 4, 1):
        torch.set_num_threads(count)
        assert all(map(torch.equal, leaves(run(*args)), wanted)), count


def network(x: Tensor, w: Tensor, b: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    h = F.gelu(F.linear(x, w, b))
    y = F.layer_norm(F.linear(h, v) + x, [x.shape[-1]])
    return y.softmax(-1), h, y.cumsum(-1), (y * 3 + h.amax(-1, keepdim=True)).exp().sum(-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("width", [24, 320])
def test_rows_of_a_network(width: int, dtype: torch.dtype) -> None:
    g = torch.Generator().manual_seed(0)
    w, v = (torch.randn(*s, generator=g).div(8).to(dtype) for s in ((2 * width, width), (width, 2 * width)))
    b, x = torch.randn(2 * width, generator=g).to(dtype), torch.randn(70, width, generator=g).to(dtype)
    wanted = compiled(network, batch_invariant=True)(x, w, b, v)
    for n in (1, 2, 5, 16, 33):
        torch.compiler.reset()
        found = compiled(network, batch_invariant=True)(x[:n], w, b, v)
        assert all(torch.equal(a, e[:n]) for a, e in zip(found, wanted, strict=True)), n
    many = compiled(network, dynamic=True, batch_invariant=True)
    for n in (3, 40, 70):
        assert all(torch.equal(a, e[:n]) for a, e in zip(many(x[:n], w, b, v), wanted, strict=True)), n


def test_long_rows() -> None:
    """A single long row is summed in one piece, as one of many is."""

    def f(x: Tensor) -> tuple[Tensor, ...]:
        return x.sum(-1), x.reshape(x.shape[0], -1, 10).mean((1, 2)), x.logsumexp(-1), x.norm(dim=-1)

    x = torch.randn(20, 100_000)
    wanted = compiled(f, batch_invariant=True)(x)
    torch.compiler.reset()
    found = compiled(f, batch_invariant=True)(x[:1])
    assert all(torch.equal(a, e[:1]) for a, e in zip(found, wanted, strict=True))
    torch.compiler.reset()
    parts = compiled(f)(x[:1])
    assert not all(torch.equal(a, e[:1]) for a, e in zip(parts, wanted, strict=True))  # else there is nothing to test


def test_batches_of_products() -> None:
    x, y = torch.randn(6, 5, 64), torch.randn(6, 64, 40)
    wanted = compiled(lambda x, y: (x @ y) * 2, batch_invariant=True)(x, y)
    for n, rows in ((1, 5), (3, 1), (6, 1)):
        torch.compiler.reset()
        found = compiled(lambda x, y: (x @ y) * 2, batch_invariant=True)(x[:n, :rows], y[:n])
        assert torch.equal(found, wanted[:n, :rows]), (n, rows)


BATCHES: dict[str, tuple[Callable[..., Tensor], tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]] = {
    "conv1d": (F.conv1d, ((9, 16, 200),), ((8, 16, 5), (8,))),
    "conv2d": (lambda x, w: F.conv2d(x, w, padding=1).relu() + 1, ((9, 16, 32, 32),), ((32, 16, 3, 3),)),
    "channels last": (
        lambda x, w: F.conv2d(x.contiguous(memory_format=torch.channels_last), w, stride=2),
        *(((9, 16, 32, 32),), ((32, 16, 3, 3),)),
    ),
    "depthwise": (lambda x, w: F.conv2d(x, w, groups=32), ((9, 32, 20, 20),), ((32, 1, 3, 3),)),
    "conv3d": (F.conv3d, ((9, 4, 8, 8, 8),), ((6, 4, 3, 3, 3),)),
    "conv_transpose2d": (lambda x, w: F.conv_transpose2d(x, w, stride=2), ((9, 16, 16, 16),), ((16, 8, 3, 3),)),
    "mv": (torch.mv, ((9, 1000),), ((1000,),)),
    "attention": (F.scaled_dot_product_attention, ((9, 4, 60, 64), (9, 4, 50, 64), (9, 4, 50, 64)), ()),
    "values of other sizes": (F.scaled_dot_product_attention, ((9, 4, 60, 64), (9, 4, 50, 64), (9, 4, 50, 32)), ()),
    "a query": (F.scaled_dot_product_attention, ((9, 4, 1, 64), (9, 4, 50, 64), (9, 4, 50, 64)), ()),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dynamic", [False, None, True])
@pytest.mark.parametrize("case", BATCHES)
def test_batches_of_calls(case: str, dynamic: bool | None, dtype: torch.dtype) -> None:
    """Images, and what attends to each other, with others beside them or alone; their gradients, too."""
    f, batched, others = BATCHES[case]
    g = torch.Generator().manual_seed(0)
    batch, rest = ([torch.randn(s, generator=g).to(dtype) for s in shapes] for shapes in (batched, others))
    program = torch.compile(f, backend="lamella", dynamic=dynamic, options={"strict": True, "batch_invariant": True})

    def run(begin: int, end: int) -> list[Tensor]:
        given = [x[begin:end].clone().requires_grad_() for x in batch]
        weights = [w.clone().requires_grad_() for w in rest]
        result = program(*given, *weights)
        torch.testing.assert_close(result, f(*given, *weights), rtol=2e-2, atol=0.2 if dtype != torch.float32 else 1e-3)
        return [result, *torch.autograd.grad(result, given, result.detach())]

    wanted = run(0, 9)
    for begin, end in ((2, 7), (0, 3), (3, 4)):
        found = run(begin, end)
        assert all(torch.equal(a, e[begin:end]) for a, e in zip(found, wanted, strict=True)), (begin, end)


NOT_DETERMINISTIC = {
    "max_unpool2d": lambda x, i: torch.nn.functional.max_unpool2d(x, i, (2, 2)),
    "max_unpool3d": lambda x, i: torch.nn.functional.max_unpool3d(x[None], i[None], (1, 2, 2)),
    "put": lambda x, i: x.put(i, x),
}


@pytest.mark.parametrize("name", NOT_DETERMINISTIC)
def test_what_has_no_deterministic_kernel(name: str) -> None:
    """Raises where eager does, and only there."""
    torch._dynamo.reset()
    f = NOT_DETERMINISTIC[name]
    compiled = torch.compile(f, backend="lamella", options={"cache": False})
    x, i = torch.randn(1, 1, 2, 2), torch.tensor([[[[0, 3], [2, 1]]]])
    torch.testing.assert_close(compiled(x, i), f(x, i), rtol=0, atol=0)
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    try:
        for g in (f, compiled):
            with pytest.raises(RuntimeError, match="does not have a deterministic implementation"):
                g(x, i)
        added = torch.compile(lambda x, i: x.put(i, x, accumulate=True), backend="lamella")
        torch.testing.assert_close(added(x, i), x.put(i, x, accumulate=True))
    finally:
        torch.use_deterministic_algorithms(before)
