"""Programs around graphs: graph breaks, re-entrance, threads, data-dependent values, results and inputs of every kind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils import _pytree as pytree

pytestmark = pytest.mark.usefixtures("fresh")


def assert_same(got: Any, want: Any) -> None:
    """Equal structure, and equal values, dtypes and strides of the leaves."""
    leaves, spec = pytree.tree_flatten(got)
    expected, expected_spec = pytree.tree_flatten(want)
    assert spec == expected_spec
    for g, e in zip(leaves, expected, strict=True):
        assert type(g) is type(e), (g, e)
        if isinstance(e, Tensor):
            torch.testing.assert_close(g, e, equal_nan=True)
            assert g.stride() == e.stride()
        else:
            assert g == e


def check(f: Callable[..., Any], *calls: tuple[Any, ...], dynamic: bool | None = None) -> Callable[..., Any]:
    """`f` compiled, right on every call, its effects on the arguments included."""
    compiled = torch.compile(f, backend="lamella", dynamic=dynamic)
    for args in calls:
        copies = pytree.tree_map(lambda t: t.clone() if isinstance(t, Tensor) else t, args)
        want = f(*copies)
        assert_same(compiled(*args), want)
        assert_same(args, copies)
    return compiled


# Graph breaks


def test_a_print_breaks_the_graph(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Tensor) -> Tensor:
        y = torch.softmax(x, -1)
        print("between")
        return y * 2 + x

    counter = CompileCounterWithBackend("lamella")
    x = torch.randn(3, 8)
    torch.testing.assert_close(torch.compile(f, backend=counter)(x), f(x))
    assert counter.frame_count == 2 and capsys.readouterr().out == "between\nbetween\n"


def test_a_branch_on_data() -> None:
    def f(x: Tensor) -> Tensor:
        y = x.sin()
        return y + 1 if y.sum() > 0 else y.exp() * 2

    check(f, (torch.ones(5),), (-torch.ones(5),), (torch.ones(5) * 0.5,))


def test_a_model_of_several_graphs() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
            self.calls = 0

        def forward(self, x: Tensor) -> tuple[Tensor, list[float]]:
            seen: list[float] = []
            for layer in self.layers:
                x = torch.relu(layer(x))
                torch._dynamo.graph_break()
                seen.append(float(x.shape[0]))
            return x, seen

    net = Net().eval()
    with torch.no_grad():
        check(net, (torch.randn(4, 8),), (torch.randn(6, 8),), (torch.randn(1, 8),))


def test_a_compiled_function_inside_another() -> None:
    inner = torch.compile(lambda x: (x * 2).cos(), backend="lamella")

    @torch._dynamo.disable
    def outside(x: Tensor) -> Tensor:
        return inner(x) + 1

    def f(x: Tensor) -> Tensor:
        return outside(x + 1) * outside(x - 1)

    x = torch.randn(7)
    torch.testing.assert_close(
        torch.compile(f, backend="lamella")(x), ((x + 1) * 2).cos().add(1) * ((x - 1) * 2).cos().add(1)
    )


def test_reentrance_through_an_operator() -> None:
    """A custom operator, called by the native program, calls the same compiled function again."""
    depth: list[int] = []

    @torch.library.custom_op("lamella_tests::again", mutates_args=())
    def again(x: Tensor) -> Tensor:
        depth.append(1)
        return compiled(x - 1) if len(depth) < 4 else x.clone()

    @again.register_fake
    def _(x: Tensor) -> Tensor:
        return torch.empty_like(x)

    def f(x: Tensor) -> Tensor:
        y = torch.softmax(x * 2, -1)
        return torch.ops.lamella_tests.again(x) + y

    compiled = torch.compile(f, backend="lamella")
    x = torch.randn(3, 40)
    want = sum((torch.softmax((x - i) * 2, -1) for i in range(4)), x - 3)
    torch.testing.assert_close(compiled(x), want)
    assert len(depth) == 4


# Threads


def test_eight_threads_call_one_function(traces_at_once: Callable[[], None]) -> None:
    def f(x: Tensor, w: Tensor) -> Tensor:
        return torch.softmax((x @ w).tanh() + x, -1) * x.sum(-1, keepdim=True)

    w = torch.randn(64, 64)
    compiled = torch.compile(f, backend="lamella", dynamic=True)
    compiled(torch.randn(5, 64), w)
    wrong: list[BaseException] = []

    def work(seed: int) -> None:
        traces_at_once()
        try:
            generator = torch.Generator().manual_seed(seed)
            for i in range(30):
                x = torch.randn(3 + (seed + i) % 9, 64, generator=generator)
                torch.testing.assert_close(compiled(x, w), f(x, w), rtol=1e-4, atol=1e-4)
        except BaseException as error:  # what a thread raises is lost otherwise
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong, wrong[0]


def test_threads_compile_at_once(traces_at_once: Callable[[], None]) -> None:
    def f(x: Tensor, k: int) -> Tensor:
        return torch.layer_norm(x * k, (16,)) + k

    compiled = torch.compile(f, backend="lamella", dynamic=False)
    x = torch.randn(4, 16)
    with ThreadPoolExecutor(6, initializer=traces_at_once) as pool:
        for k, got in enumerate(pool.map(lambda k: compiled(x, k), range(2, 8)), 2):
            torch.testing.assert_close(got, f(x, k))


def test_the_number_of_threads_is_followed(threads: Callable[[int], None]) -> None:
    """The same bits with one thread and with two, in any order."""

    def f(x: Tensor) -> Tensor:
        return torch.softmax(x, -1) + x.exp().log1p()

    x = torch.randn(512, 512)
    compiled = torch.compile(f, backend="lamella")
    results: list[Tensor] = []
    for n in (1, 2, 1, 2):
        threads(n)
        results.append(compiled(x))
    torch.testing.assert_close(results[0], f(x))
    assert all(torch.equal(r, results[0]) for r in results)


# Values that depend on data


def test_item() -> None:
    def f(x: Tensor, n: Tensor) -> tuple[Tensor, int]:
        k = n.item()
        return x * k + 1, k

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = check(f, (torch.randn(4), torch.tensor(3)), (torch.randn(4), torch.tensor(5)))
        counter = CompileCounterWithBackend("lamella")
        torch.compile(f, backend=counter, fullgraph=True)(torch.randn(4), torch.tensor(3))
        assert counter.frame_count == 1 and compiled is not None


def test_item_of_a_float() -> None:
    def f(x: Tensor, a: Tensor) -> tuple[Tensor, float]:
        v = a.item()
        return x * v, v

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        check(f, (torch.randn(4), torch.tensor(0.5)), (torch.randn(4), torch.tensor(-2.25)))


def test_sizes_from_data() -> None:
    def f(x: Tensor, n: Tensor) -> Tensor:
        k = n.item()
        torch._check(k >= 2)
        torch._check(k <= 100)
        return torch.arange(k, dtype=x.dtype).sin() + x.sum()

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        check(f, (torch.randn(4), torch.tensor(3)), (torch.randn(4), torch.tensor(9)))


def test_nonzero() -> None:
    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        i = torch.nonzero(x > 0).squeeze(-1)
        return i * 2, x[i].exp()

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        check(f, (torch.randn(20),), (torch.randn(20),), (torch.ones(20),))


# What comes back


RESULTS: dict[str, Callable[[Tensor], Any]] = {
    "views": lambda x: (x.t(), x[1:], x.view(-1)[::2], (x + 1).t()),
    "the input": lambda x: (x, x + 1),
    "the input twice": lambda x: (x, x, x * 2),
    "a result twice": lambda x: (lambda y: (y, y, [y]))(x.exp()),
    "a result and a view of it": lambda x: (lambda y: (y, y.t(), y[0]))(x.exp()),
    "None and constants": lambda x: (None, x * 2, 3, 2.5, True, "text"),
    "sizes": lambda x: (x.shape[0], x.shape[1] * 2 + 1, x.numel(), x.sum()),
    "a dict": lambda x: {"a": x.sin(), "b": {"c": x.shape}},
    "a constant tensor": lambda x: (torch.tensor([1.0, 2.0]), torch.arange(3), x.neg()),
    "only an expand": lambda x: x.sum(0, keepdim=True).expand(4, -1),
    "a detached input": lambda x: (x.detach(), x.detach() + 1),
    "nothing computed": lambda x: x.shape[0] + 1,
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", RESULTS)
def test_results(name: str, dynamic: bool) -> None:
    check(RESULTS[name], (torch.randn(3, 4),), (torch.randn(5, 6),), dynamic=dynamic)


def test_results_alias_what_eagers_alias() -> None:
    def f(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = x + 1
        return x[1:], y, y.t()

    x = torch.randn(3, 3)
    view, y, transposed = torch.compile(f, backend="lamella")(x)
    x.zero_()
    y.zero_()
    assert not view.any() and not transposed.any()


MADE: dict[str, Callable[[Tensor], Tensor]] = {
    "copy": lambda x: x.clone(),
    "transposed copy": lambda x: x.t().contiguous(),
    "conversion": lambda x: x.to(torch.float32, copy=True),
    "constants": lambda x: torch.full_like(x, 2.0),
    "indices": lambda x: torch.arange(9.0).view(3, 3),
    "joined": lambda x: torch.cat([x, x]),
    "padded": lambda x: torch.nn.functional.pad(x, (1, 1)),
    "repeated": lambda x: x.repeat(2, 1),
    "reversed": lambda x: x.flip(0),
    "rolled": lambda x: x.roll(1, 0),
    "written": lambda x: torch.slice_scatter(x, x[:1] + 1, 0, 1, 2),
    "computed": lambda x: x.sin(),
}


@pytest.mark.parametrize("name", MADE)
def test_parts_of_a_result_lie_in_it(name: str) -> None:
    """And what equals a part lies elsewhere."""

    def f(x: Tensor) -> tuple[Tensor, ...]:
        y = MADE[name](x)
        part = y[1]
        return part * 1, y, part, y.t(), y.view(-1), y.view_as(y)

    equal, y, *parts = torch.compile(f, backend="lamella", fullgraph=True)(torch.rand(3, 3))
    assert all(p.untyped_storage().data_ptr() == y.untyped_storage().data_ptr() for p in parts)
    assert parts[0].storage_offset() == y.stride(0)
    kept = equal.clone()
    y.fill_(-1.0)
    assert all(bool((p == -1).all()) for p in parts) and torch.equal(equal, kept)


# Writes


def _add_to_both(x: Tensor, y: Tensor) -> Tensor:
    x.add_(1)
    y[1:].mul_(2)
    return x + y


WRITES: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "in place": _add_to_both,
    "copy": lambda x, y: x.copy_(y * 2).sum(),
    "through a view": lambda x, y: x.t()[0].fill_(3.0) + y.sum(),
    "a slice": lambda x, y: (x[1:, ::2].zero_(), y)[1] + 1,
    "out": lambda x, y: torch.add(x, y, out=x) * 2,
    "index_put": lambda x, y: x.index_put_((torch.tensor([0, 2]),), y[:2], accumulate=True),
    "the result is the input": lambda x, y: x.mul_(y),
    "twice": lambda x, y: x.mul_(y).add_(x.sin()).t(),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", WRITES)
def test_writes_to_inputs(name: str, dynamic: bool) -> None:
    calls = [(torch.randn(n, n), torch.randn(n, n)) for n in (3, 5)]
    with torch.no_grad():
        check(WRITES[name], *calls, dynamic=dynamic)


def test_writes_to_inputs_that_overlap() -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1)
        return x + y

    for compiled in (f, torch.compile(f, backend="lamella")):
        base = torch.arange(12.0)
        got = compiled(base[:8], base[4:])
        torch.testing.assert_close(got, torch.arange(8.0) + 1 + base[4:])


def test_writes_to_buffers() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
            self.register_buffer("mean", torch.zeros(4))

        def forward(self, x: Tensor) -> Tensor:
            self.seen += x.shape[0]
            self.mean.lerp_(x.mean(0), 0.1)
            return x - self.mean

    plain, other = Counter(), Counter()
    compiled = torch.compile(other, backend="lamella")
    with torch.no_grad():
        for n in (3, 5, 3):
            x = torch.randn(n, 4)
            torch.testing.assert_close(compiled(x), plain(x))
    assert_same(dict(other.named_buffers()), dict(plain.named_buffers()))


def test_batch_norm_in_training() -> None:
    plain, other = (nn.BatchNorm2d(3) for _ in range(2))
    compiled = torch.compile(other, backend="lamella")
    for _ in range(3):
        x = torch.randn(2, 3, 5, 5)
        torch.testing.assert_close(compiled(x), plain(x))
    for g, e in zip(other.buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(g, e)


# Sizes 0 and 1


@pytest.mark.parametrize("dynamic", [None, False, True])
def test_empty_and_single_batches(dynamic: bool | None) -> None:
    layer = nn.Linear(8, 5)

    def f(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        y = torch.softmax(layer(x), -1)
        return y, y.sum(0), torch.layer_norm(x, (8,)).flatten(), torch.cat((x, x * 2))

    with torch.no_grad():
        check(f, *((torch.randn(n, 8),) for n in (4, 0, 1, 7, 0)), dynamic=dynamic)


@pytest.mark.parametrize("shape", [(0,), (0, 4), (4, 0), (1,), (1, 1), ()])
def test_small_shapes(shape: tuple[int, ...]) -> None:
    def f(x: Tensor) -> tuple[Tensor, ...]:
        return x.exp() * 2, x.sum(), x.mean(), (x > 0).any(), x.sum(-1) if x.dim() else x

    check(f, (torch.randn(shape),))
    torch._dynamo.reset()
    check(f, (torch.randn(shape),), dynamic=True)


def test_errors_of_the_program_are_eagers() -> None:
    compiled = torch.compile(lambda x, i: x[i] + 1, backend="lamella")
    x = torch.randn(4)
    torch.testing.assert_close(compiled(x, torch.tensor([0, 3])), x[[0, 3]] + 1)
    with pytest.raises(IndexError, match=r"out of (range|bounds)"):
        compiled(x, torch.tensor([0, 4]))
    torch.testing.assert_close(compiled(x, torch.tensor([-1, 1])), x[[-1, 1]] + 1)
