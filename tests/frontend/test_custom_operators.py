"""Operators of the user's: they stay calls in a compiled graph; those that write write to copies where it matters."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import lamella

pytestmark = pytest.mark.usefixtures("compiled")


@torch.library.custom_op("lamella_test_operators::scale", mutates_args=())
def scale(x: Tensor, factor: float) -> Tensor:
    return x * factor


scale.register_fake(lambda x, factor: torch.empty_like(x))
scale.register_autograd(
    lambda ctx, gradient: (gradient * ctx.factor, None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "factor", inputs[1]),
)


@torch.library.custom_op("lamella_test_operators::add_", mutates_args={"x"})
def add_(x: Tensor, y: Tensor) -> None:
    x.add_(y)


@torch.library.custom_op("lamella_test_operators::both_", mutates_args={"a", "b"})
def both_(a: Tensor, b: Tensor, value: float) -> Tensor:
    a.fill_(value)
    b.mul_(value)
    return a + b


both_.register_fake(lambda a, b, value: torch.empty_like(a))


@torch.library.custom_op("lamella_test_operators::each", mutates_args=())
def each(xs: list[Tensor], k: int) -> list[Tensor]:
    return [x + k for x in xs]


each.register_fake(lambda xs, k: [torch.empty_like(x) for x in xs])


@torch.library.custom_op("lamella_test_operators::each_", mutates_args={"xs"})
def each_(xs: list[Tensor], k: int) -> None:
    for x in xs:
        x.add_(k)


@torch.library.custom_op("lamella_test_operators::maybe_", mutates_args={"x"})
def maybe_(x: Tensor | None, y: Tensor) -> Tensor:
    if x is not None:
        x.add_(1)
    return y * 2


maybe_.register_fake(lambda x, y: torch.empty_like(y))


def argument(x: Tensor, y: Tensor) -> Tensor:
    add_(x, y)
    return x * 2


def view_of_argument(x: Tensor, y: Tensor) -> Tensor:
    add_(x[1], y[0])
    return x * 2


def intermediate(x: Tensor, y: Tensor) -> Tensor:
    t = x * 2
    add_(t, y)
    return t.sin()


def copy_of_argument(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    t = x.clone()
    add_(t, y)
    return t, x * 2


def equal_values(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    a, b = torch.zeros_like(x), torch.zeros_like(x)
    add_(a, y)
    return a, x + b


def read_before_and_after(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    t = x * 2
    before = t.sin()
    add_(t, y)
    return t, before, t.view(-1)


def views(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    t = x * 2
    add_(t[1:3], y[1:3])
    add_(t[0], t[3])
    return t, t.sum()


def parts_one_after_another(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The second call writes to a copy of all that the first has written a part of."""
    t = x * 2
    for i in range(3):
        add_(t[i], t[i + 1])
        add_(t[:, i], y[:, i])
    return t, t.t()


def read_through_other_views(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    t = torch.cat([x, y])
    a, b, kept = t[1], t.t(), t.clone()
    add_(t[0], y[0])
    before = a.sin()
    add_(b, torch.cat([y, x]).t())
    return a, b, before, kept, t.sum(0), a + 1


def empty(x: Tensor, y: Tensor) -> Tensor:
    t = torch.empty_like(x)
    both_(t, y, 2.0)
    return t + 1


def undone(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """What is written looks as if it could be computed from what made it."""
    made = -x, x.half().float(), torch.cat([x, y]), torch.zeros_like(x), x.t().contiguous(), x.clone()
    for t in made:
        each_([t], 3)
    return (-made[0], made[1].half(), made[2][:4], made[3] + 1, made[4].t(), made[5] * 2)


def part_of_a_copy(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    t = -x
    before = t * 2
    add_(t[1:], y[1:])
    return t * 2, before


def two(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    a, b = x * 2, y * 3
    made = both_(a, b, 2.0)
    return a, b, made


def twice(x: Tensor, y: Tensor) -> Tensor:
    add_(x, y)
    add_(x, x * 2)
    return x + 1


def listed(x: Tensor, y: Tensor) -> list[Tensor]:
    a = x * 2
    each_([a, y], 3)
    return each([a, y.sin()], 4)


def optional(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return maybe_(x, y), maybe_(None, y)


def in_a_branch(x: Tensor, y: Tensor) -> Tensor:
    def write(a: Tensor, b: Tensor) -> Tensor:
        t = a * 2
        add_(t, b)
        return t

    return torch.cond(x.sum() > 0, write, lambda a, b: a - b, (x, y))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "f",
    [
        *(argument, view_of_argument, intermediate, copy_of_argument, equal_values, read_before_and_after),
        *(
            views,
            parts_one_after_another,
            read_through_other_views,
            empty,
            undone,
            part_of_a_copy,
            two,
            twice,
            listed,
            optional,
            pytest.param(
                in_a_branch, marks=pytest.mark.eager_part("a graph that a call takes writes to what it is given")
            ),
        ),
    ],
    ids=lambda f: f.__name__,
)
def test_operators_that_write(f: Callable[..., Any], dynamic: bool) -> None:
    g = lamella.compile(f, fullgraph=True, dynamic=dynamic)
    for n in (5, 6):
        ours = (torch.rand(4, n), torch.randn(4, n))
        eagers = copy.deepcopy(ours)
        for _ in range(2):
            torch.testing.assert_close(g(*ours), f(*eagers))
            torch.testing.assert_close(ours, eagers)


def test_gradients_of_operators() -> None:
    def f(x: Tensor) -> Tensor:
        return scale(x.sin(), 0.5).cos().sum()

    x = torch.randn(4, requires_grad=True)
    g = lamella.compile(f, fullgraph=True)
    torch.testing.assert_close(torch.autograd.grad(g(x), x), torch.autograd.grad(f(x), x))


def test_an_argument_is_written_without_copies() -> None:
    explanation = lamella.explain(argument, torch.randn(4), torch.randn(4))
    (graph,) = explanation.graphs
    assert [call.name for call in graph.calls] == ["lamella_test_operators.add_"]


@pytest.mark.parametrize("version", [1, 2])
def test_an_argument_that_gets_another_result_is_copied(version: int) -> None:
    """It keeps what was written to it until the other one is copied there."""
    from torch._higher_order_ops.auto_functionalize import auto_functionalized, auto_functionalized_v2
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx import Graph, GraphModule

    from lamella.frontend.expand_hops import expanded

    target: Any = torch.ops.lamella_test_operators.both_.default
    graph = Graph()
    a, b = graph.placeholder("a"), graph.placeholder("b")
    with FakeTensorMode():
        a.meta["val"], b.meta["val"] = torch.empty(4), torch.empty(4)
    if version == 1:
        call = graph.call_function(auto_functionalized, (target,), {"a": a, "b": b, "value": 2.0})
    else:
        words: Any = {"value": 2.0, "_a_base_index": 0, "_b_base_index": 1, "_all_bases": [a, b]}
        call = graph.call_function(auto_functionalized_v2, (target,), words)
    parts = [graph.call_function(operator.getitem, (call, i)) for i in range(3)]
    graph.call_function(torch.ops.aten.copy_.default, (a, parts[2]))
    graph.output((parts[1], parts[2]))
    run = expanded(GraphModule(torch.nn.Module(), graph))
    assert not any(n.target in (auto_functionalized, auto_functionalized_v2) for n in run.graph.nodes)
    x, y = torch.ones(4), torch.full((4,), 3.0)
    first, second = run(x, y)
    assert torch.equal(first, torch.full((4,), 2.0)) and torch.equal(second, torch.full((4,), 6.0))
    assert torch.equal(x, second)


@torch.library.custom_op("lamella_test_operators::lies", mutates_args=())
def lies(x: Tensor) -> Tensor:
    return x * 2


lies.register_fake(lambda x: x.new_empty_strided(x.shape, (x.shape[0], 1)))


@torch.library.custom_op("lamella_test_operators::nothing", mutates_args=())
def nothing(x: Tensor) -> Tensor:
    return torch.empty(0, 1, dtype=torch.bool)


nothing.register_fake(lambda x: x.new_empty_strided((0, 1), (5, 1)))


def test_no_elements_overlap_where_there_are_none() -> None:
    found = torch.compile(lambda x: nothing(x), backend="lamella")(torch.randn(3))
    assert found.shape == (0, 1) and found.dtype == torch.float32


def test_strides_of_elements_that_overlap() -> None:
    """What the operator gives cannot be put where its fake says; where it can, it is."""
    f = torch.compile(lambda x: lies(x) + 1, backend="lamella", dynamic=False)
    with pytest.raises(RuntimeError, match="lies returned a tensor that lies otherwise"):
        f(torch.randn(4, 5))
    x = torch.randn(5, 4)
    assert torch.equal(f(x), x * 2 + 1)
