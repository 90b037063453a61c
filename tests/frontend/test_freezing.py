"""Graphs with `freezing`: what depends on parameters alone is made once, and anew when a parameter changes."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lamella.codegen.frozen import FrozenGraph
from lamella.driver import lamella

OPTIONS = {"freezing": True}


class Net(nn.Module):
    """Convolutions with what may follow them, of images that become channels last."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.second = nn.Conv2d(16, 16, 3, padding=1, bias=False)
        self.plain = nn.BatchNorm2d(16, affine=False)
        self.third = nn.Conv2d(16, 8, 1, groups=2)
        for norm in (self.norm, self.plain):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.first(x)).relu()
        x = (self.plain(self.second(x)) + x).relu()
        return F.hardswish(self.third(x))


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[FrozenGraph]:
    """The frozen graphs that are made."""
    found: list[FrozenGraph] = []
    original = FrozenGraph.__init__

    def note(self: FrozenGraph, *args: Any) -> None:
        original(self, *args)
        found.append(self)

    monkeypatch.setattr(FrozenGraph, "__init__", note)
    torch._dynamo.reset()
    return found


def matches(ours: Tensor, model: nn.Module, x: Tensor) -> None:
    """Compares with float64."""
    expected = copy.deepcopy(model).double()(x.double())
    torch.testing.assert_close(ours.double(), expected, rtol=2e-5, atol=2e-5)


@torch.no_grad()
def test_what_parameters_make_is_made_once(graphs: list[FrozenGraph]) -> None:
    torch.manual_seed(0)
    model = Net().eval()
    run = torch.compile(model, backend=lamella, options=OPTIONS)
    for _ in range(3):
        x = torch.randn(2, 3, 16, 16)
        matches(run(x), model, x)
    (graph,) = graphs
    assert graph.made == 1


@torch.no_grad()
@pytest.mark.parametrize("change", ["in place", "data", "buffer", "other tensor", "state dict"])
def test_a_changed_parameter_is_noticed(graphs: list[FrozenGraph], change: str) -> None:
    torch.manual_seed(0)
    model = Net().eval()
    run = torch.compile(model, backend=lamella, options=OPTIONS)
    x = torch.randn(2, 3, 16, 16)
    matches(run(x), model, x)
    match change:
        case "in place":
            model.second.weight.mul_(2)
        case "data":
            model.second.weight.data = torch.randn_like(model.second.weight)
        case "buffer":
            model.norm.running_var.add_(1)
        case "other tensor":
            model.second.weight = nn.Parameter(torch.randn_like(model.second.weight))
        case _:
            model.load_state_dict(Net().state_dict())
    matches(run(x), model, x)
    assert sum(g.made for g in graphs) == 2


@torch.no_grad()
def test_two_models_with_one_graph(graphs: list[FrozenGraph]) -> None:
    torch.manual_seed(0)
    models = [Net().eval() for _ in range(2)]
    x = torch.randn(2, 3, 16, 16)
    runs = [torch.compile(m, backend=lamella, options=OPTIONS) for m in models]
    for _ in range(2):
        for m, run in zip(models, runs, strict=True):
            matches(run(x), m, x)


def test_inference_mode_and_its_tensors(graphs: list[FrozenGraph]) -> None:
    torch.manual_seed(0)
    with torch.inference_mode():
        model = Net().eval()
        run = torch.compile(model, backend=lamella, options=OPTIONS)
        for _ in range(2):
            x = torch.randn(2, 3, 16, 16)
            ours = run(x)
            model.second.weight.mul_(1.5)
            model.second.weight.div_(1.5)
        theirs = model(x)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_training_is_not_frozen(graphs: list[FrozenGraph]) -> None:
    torch.manual_seed(0)
    model = Net()
    expected = copy.deepcopy(model)
    x = torch.randn(2, 3, 16, 16)
    torch.compile(model, backend=lamella, options=OPTIONS)(x).sum().backward()
    expected(x).sum().backward()
    for a, b in zip(model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-3, atol=1e-3)
    assert graphs == []


@torch.no_grad()
def test_a_buffer_that_is_written_is_no_constant(graphs: list[FrozenGraph]) -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(8, 8))
            self.register_buffer("count", torch.zeros(8))

        def forward(self, x: Tensor) -> Tensor:
            self.count += 1
            return x @ (self.weight * 2).exp() + self.count * 3

    model, x = Counting(), torch.randn(4, 8)
    run = torch.compile(model, backend=lamella, options=OPTIONS)
    for _ in range(3):
        before = copy.deepcopy(model)
        torch.testing.assert_close(run(x), before(x))
    assert [g.made for g in graphs] == [1]


@torch.no_grad()
def test_results_are_the_callers_own(graphs: list[FrozenGraph]) -> None:
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(8, 8))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            doubled = self.weight * 2
            return doubled, x @ doubled.t()

    model, x = Table(), torch.randn(4, 8)
    run = torch.compile(model, backend=lamella, options=OPTIONS)
    for _ in range(2):
        table, product = run(x)
        torch.testing.assert_close((table, product), model(x))
        table.zero_()


@torch.no_grad()
def test_a_frozen_graph_pickles(graphs: list[FrozenGraph]) -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).eval()
    x = torch.randn(1, 3, 8, 8)
    seen: list[list[Any]] = []
    original = FrozenGraph.__call__
    FrozenGraph.__call__ = lambda self, inputs: (seen.append(list(inputs)), original(self, inputs))[1]  # type: ignore
    try:
        matches(torch.compile(model, backend=lamella, options=OPTIONS)(x), model, x)
    finally:
        FrozenGraph.__call__ = original
    again = pickle.loads(pickle.dumps(graphs[0]))
    matches(again(list(seen[0]))[0], model, x)


FUNCTIONS: dict[str, Any] = {
    **{f.__name__: f for f in (torch.relu, torch.sigmoid, torch.tanh, F.silu, F.hardswish, F.hardsigmoid, F.hardtanh)},
    **{"gelu": F.gelu, "gelu tanh": lambda x: F.gelu(x, approximate="tanh"), "leaky": lambda x: F.leaky_relu(x, 0.1)},
}


@torch.no_grad()
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_follows_convolutions_has_eagers_nan_and_inf(graphs: list[FrozenGraph], name: str, dtype: Any) -> None:
    class Chain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = (nn.Conv2d(8, 8, 1, groups=8) for _ in range(2))

        def forward(self, x: Tensor) -> Tensor:
            x = self.first(x)
            return self.second(FUNCTIONS[name](self.second(FUNCTIONS[name](x) + x) + x))

    torch.manual_seed(0)
    model = Chain().eval().to(dtype)
    x = torch.randn(1, 8, 6, 6, dtype=dtype) * 8
    x[0, 0, 0, :3] = torch.tensor([torch.nan, torch.inf, -torch.inf])
    x[0, 1] = 1e30
    x = x.contiguous(memory_format=torch.channels_last)
    tolerance = 1e-5 if dtype is torch.float32 else 3e-2
    got, wanted = torch.compile(model, backend=lamella, options=OPTIONS)(x), model(x)
    torch.testing.assert_close(got, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)
