"""Backwards that are given no gradient of some results, because nobody has used them."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from lamella import driver
from lamella.frontend import absent_gradients
from lamella.frontend.absent_gradients import Layout
from lamella.frontend.backend import Backend, Event
from lamella.lowering.options import Options

Grads = list[Tensor | None]


class Model(nn.Module):
    """A loss beside what it is made of, a view of that, and a branch of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.pool = nn.Linear(8, 16), nn.Linear(16, 4), nn.Linear(16, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        hidden = torch.tanh(self.first(x))
        logits = self.second(hidden)
        return logits.square().sum(), logits, logits.view(4, 2, 2).transpose(0, 1), self.pool(hidden).tanh(), x


def gradients(model: Callable[[Tensor], Sequence[Tensor]], of: nn.Module, x: Tensor, used: Sequence[int]) -> Grads:
    """What using some results gives, of parameters and of the input."""
    x = x.clone().requires_grad_()
    of.zero_grad()
    results = model(x)
    torch.stack([results[i].sum() for i in used]).sum().backward()
    return [x.grad, *(p.grad for p in of.parameters())]


def assert_same(expected: Grads, found: Grads) -> None:
    """As eager's, where what it has none of is zeros or none."""
    for e, f in zip(expected, found, strict=True):
        if e is None:
            assert f is None or not f.count_nonzero()
        else:
            torch.testing.assert_close(f, e)


@pytest.fixture
def zeros(monkeypatch: pytest.MonkeyPatch) -> list[Layout]:
    """The zeros that are made for gradients."""
    made: list[Layout] = []

    def noted(self: Layout) -> Tensor:
        made.append(self)
        return torch.zeros(self.sizes, dtype=self.dtype, device=self.device)

    monkeypatch.setattr(Layout, "zeros", noted)
    torch._dynamo.reset()
    return made


USES = ([0], [0, 1], [1], [2], [3], [0, 3], [0, 1, 2, 3, 4], [4, 0], [0])


@pytest.mark.parametrize("first", USES, ids=str)
def test_whatever_is_used_first(first: list[int], zeros: list[Layout]) -> None:
    torch.manual_seed(0)
    model, x = Model(), torch.randn(4, 8)
    compiled = torch.compile(model, backend="lamella")
    for used in (first, first, *USES):
        assert_same(gradients(model, model, x, used), gradients(compiled, model, x, used))


def test_no_zeros_are_made(zeros: list[Layout]) -> None:
    model, x = Model(), torch.randn(4, 8)
    compiled = torch.compile(model, backend="lamella")
    for _ in range(2):
        gradients(compiled, model, x, [0])
    assert not zeros
    gradients(compiled, model, x, [0, 1])
    assert (4, 6) in [z.sizes for z in zeros]


def test_what_is_passed_on(zeros: list[Layout]) -> None:
    """A gradient that is one of a result, as it is, is zeros."""

    def f(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x.square().sum(), y + 1

    x, y = torch.randn(3, requires_grad=True), torch.randn(5, requires_grad=True)
    torch.compile(f, backend="lamella")(x, y)[0].backward()
    torch.testing.assert_close(x.grad, 2 * x.detach())
    assert y.grad is not None and y.grad.tolist() == [0.0] * 5
    assert not zeros


def test_what_explain_tells() -> None:
    """What a backward does without is among the decisions of its graph."""
    model, x = Model(), torch.randn(4, 8)
    events: list[Event] = []
    backend = Backend(Options(cache=False), driver.compile_module, watch=events.append)
    torch._dynamo.reset()
    torch.compile(model, backend=backend)(x)[0].backward()
    lines = [line for e in events if e.kind == "backward" and e.compilation for line in e.compilation.decisions]
    assert "gradients that are not given: 2, zeros of 160 B that are not made" in lines


def test_compiled_once_more_at_most(zeros: list[Layout]) -> None:
    model, x = Model(), torch.randn(4, 8)
    compiled = torch.compile(model, backend="lamella")
    made = absent_gradients.Whole._made  # pyright: ignore[reportPrivateUsage]
    times = 0

    def counted(self: Any) -> Any:
        nonlocal times
        times += 1
        return made(self)

    with patch.object(absent_gradients.Whole, "_made", counted):
        for used in (*USES, *USES):
            gradients(compiled, model, x, used)
    assert times == 1


def test_infinite_values_stay_out_of_what_is_not_used() -> None:
    """As eager, which multiplies no zeros."""

    def f(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        return x.square().sum(), (x * w).exp()

    w = torch.tensor([1.0, float("inf"), float("nan")])
    x = torch.ones(3, requires_grad=True)
    torch.compile(f, backend="lamella")(x, w)[0].backward()
    assert x.grad is not None and x.grad.tolist() == [2.0, 2.0, 2.0]


def test_hidden_dims(zeros: list[Layout]) -> None:
    """`is_grads_batched` of one result of two."""

    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.sin(x)
        return y * 2, y.exp()

    x = torch.randn(3, requires_grad=True)
    rows = torch.eye(3)
    (expected,) = torch.autograd.grad(f(x)[0], x, rows, is_grads_batched=True)
    y = torch.compile(f, backend="lamella")(x)[0]
    (found,) = torch.autograd.grad(y, x, rows, is_grads_batched=True)
    torch.testing.assert_close(found, expected)


def test_second_derivatives(zeros: list[Layout]) -> None:
    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.sin(x)
        return (y * y).sum(), y.exp()

    def second(f: Callable[[Tensor], Sequence[Tensor]]) -> Tensor:
        x = torch.linspace(-1, 1, 5, requires_grad=True)
        (g,) = torch.autograd.grad(f(x)[0], x, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), x)
        return h

    torch.testing.assert_close(second(torch.compile(f, backend="lamella")), second(f))


def test_a_graph_that_is_kept(zeros: list[Layout]) -> None:
    model, x = Model(), torch.randn(4, 8)
    compiled = torch.compile(model, backend="lamella")

    def twice(run: Callable[[Tensor], Sequence[Tensor]]) -> Grads:
        model.zero_grad()
        results = run(x)
        results[0].backward(retain_graph=True)
        (results[0] + results[1].sum()).backward()
        return [p.grad for p in model.parameters()]

    assert_same(twice(model), twice(compiled))


def test_compiled_autograd(zeros: list[Layout]) -> None:
    """It has the backward's graph in its own, for which there are zeros."""
    model, x = Model(), torch.randn(4, 8)
    compiled = torch.compile(model, backend="lamella")
    for used in ([0], [0], [0, 1], [3]):
        expected = gradients(model, model, x, used)

        def enabled(graph: Any) -> Any:
            return torch.compile(graph, backend="lamella")

        x_ = x.clone().requires_grad_()
        model.zero_grad()
        results = compiled(x_)
        with torch._dynamo.compiled_autograd._enable(enabled):
            torch.stack([results[i].sum() for i in used]).sum().backward()
        assert_same(expected, [x_.grad, *(p.grad for p in model.parameters())])
    torch._dynamo.reset()


def test_sizes_that_vary() -> None:
    """What autograd is to give has no size of its own then, and is made by it."""
    model = Model()
    compiled = torch.compile(lambda x: (model.first(x).square().sum(), model.first(x)), backend="lamella", dynamic=True)
    for n in (3, 5, 7):
        x = torch.randn(n, 8)
        expected = gradients(lambda x: (model.first(x).square().sum(),), model, x, [0])
        assert_same(expected, gradients(compiled, model, x, [0]))


def test_a_graph_that_runs_eagerly(zeros: list[Layout]) -> None:
    """One that is not compiled gets zeros."""

    def f(x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.sin(x)
        return y.sum(), y * 2

    from lamella.frontend import import_fx
    from lamella.frontend.graph_parts import UnsupportedGraph

    def refuse(*_: Any) -> Any:
        raise UnsupportedGraph("not today")

    x = torch.randn(3, requires_grad=True)
    y = torch.compile(f, backend="lamella", options={"cache": False})(x)[0]
    with patch.object(import_fx, "import_graph", refuse):
        y.backward()
    torch.testing.assert_close(x.grad, torch.cos(x.detach()))
    assert [z.sizes for z in zeros] == [(3,)]


def test_a_bug_of_ours_where_it_is_compiled_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """There is no graph of torch's left: its text runs eagerly."""
    torch._dynamo.reset()
    monkeypatch.setenv("LAMELLA_STRICT", "0")
    model, x = Model(), torch.randn(4, 8)
    compiled = torch.compile(model, backend="lamella")
    gradients(compiled, model, x, [0])
    with patch.object(driver, "compile_module", side_effect=ValueError("broken")):
        for used in ([0, 1], [3], [0]):
            assert_same(gradients(model, model, x, used), gradients(compiled, model, x, used))
    assert "a graph runs eagerly: a bug of Lamella's: ValueError: broken" in caplog.text


def test_threads_that_use_different_results() -> None:
    torch._dynamo.reset()
    model, x = Model(), torch.randn(4, 8)
    copies = [copy.deepcopy(model) for _ in range(8)]
    compiled = torch.compile(lambda m, x: m(x), backend="lamella")

    def work(k: int) -> None:
        m, used = copies[k], USES[k % len(USES)]
        for _ in range(5):
            expected = gradients(m, m, x, used)
            assert_same(expected, gradients(lambda x: compiled(m, x), m, x, used))

    work(0)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(8)))


PROGRAM = """
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

torch.manual_seed(0)
model = nn.Linear(8, 4)
f = torch.compile(lambda x: (model(x).square().sum(), model(x)), backend="lamella")
x = torch.randn(3, 8)
for used in ([0], [0, 1], [1], [0]):
    model.zero_grad()
    y = f(x)
    sum(y[i].sum() for i in used).backward()
    print([round(v, 3) for v in model.bias.grad.tolist()])
import torch._dynamo.utils
print(torch._dynamo.utils.counters["aot_autograd"]["autograd_cache_hit"])
"""


def test_in_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What AOTAutograd keeps is for the gradients of the process that made it, and can be compiled for all."""
    monkeypatch.setenv("LAMELLA_CACHE_DIR", str(tmp_path / "lamella"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torch"))
    runs = [subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True) for _ in range(2)]
    first, second = (r.stdout.splitlines() for r in runs)
    assert len(first) == 5 and first[:4] == second[:4], [r.stderr for r in runs]
    assert (first[4], second[4]) == ("0", "1")
    assert first[0] == first[3] != first[1]


STEPS: list[Callable[[Tensor, Tensor, Tensor], Tensor]] = [
    lambda a, b, w: a @ w,
    lambda a, b, w: a + b,
    lambda a, b, w: a * b - b,
    lambda a, b, w: torch.tanh(a),
    lambda a, b, w: torch.relu(a) / 3,
    lambda a, b, w: torch.softmax(a, -1),
    lambda a, b, w: nn.functional.layer_norm(a, (6,), w[0], w[1]),
    lambda a, b, w: a.t().reshape(4, 6),
    lambda a, b, w: nn.functional.pad(a[:, 1:5], (1, 1)),
    lambda a, b, w: torch.cat([a[:2], b[2:]]),
    lambda a, b, w: a.sum(0, keepdim=True).expand(4, 6),
    lambda a, b, w: (a.view(2, 2, 6).transpose(0, 1) @ w).reshape(4, 6),
    lambda a, b, w: torch.where(a > b, a, b.neg()),
    lambda a, b, w: a.clamp(min=0).mul(2),
]


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.integers(0, len(STEPS) - 1), st.integers(0, 9), st.integers(0, 9)), min_size=3, max_size=9),
    st.data(),
)
def test_random_programs(steps: list[tuple[int, int, int]], data: st.DataObject) -> None:
    """Whatever is a result, and whichever of them are used."""
    count = len(steps) + 1
    which = data.draw(st.lists(st.integers(1, count - 1), min_size=2, max_size=4, unique=True))
    uses = data.draw(st.lists(st.sets(st.integers(0, len(which) - 1), min_size=1), min_size=2, max_size=2))

    def program(x: Tensor, w: Tensor) -> list[Tensor]:
        values = [x]
        for op, i, j in steps:
            values.append(STEPS[op](values[i % len(values)], values[j % len(values)], w))
        return [values[i] if i % 3 else values[i].t() for i in which]

    def found(program: Callable[[Tensor, Tensor], list[Tensor]], used: set[int]) -> Grads:
        torch.manual_seed(0)
        x, w = (torch.randn(n, 6, dtype=torch.float64, requires_grad=True) for n in (4, 6))
        results = program(x, w)
        torch.stack([results[i].sin().sum() for i in sorted(used)]).sum().backward()
        return [x.grad, w.grad]

    torch._dynamo.reset()
    compiled = torch.compile(program, backend="lamella")
    for used in uses:
        assert_same(found(program, used), found(compiled, used))
