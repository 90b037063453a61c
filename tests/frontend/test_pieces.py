"""Graphs with calls that have no form here: the rest is compiled, the results are eager's."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._higher_order_ops import while_loop

import lamella
from lamella.frontend import import_flow

pytestmark = pytest.mark.usefixtures("strict")


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == "lamella" and r.levelno >= logging.WARNING]


def test_gradients_of_what_has_no_form(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(import_flow.HOPS, "while_loop_stack_output")  # as if it had none

    def f(x: Tensor) -> Tensor:
        y = while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, (a * 1.5).sin()), (torch.tensor(0), x.exp()))[1]
        return (y * 2).sum()

    def unrolled(x: Tensor) -> Tensor:
        x = x.exp()
        for _ in range(3):
            x = (x * 1.5).sin()
        return (x * 2).sum()

    x = torch.randn(4, 5, requires_grad=True)
    (ours,) = torch.autograd.grad(torch.compile(f, backend="lamella", fullgraph=True)(x), x)
    torch.testing.assert_close(ours, torch.autograd.grad(unrolled(x), x)[0])
    assert len(warnings(caplog)) == 1 and "while_loop_stack_output" in warnings(caplog)[0]


def test_explain_tells_the_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.tan(), (x.exp(),)).cos()

    monkeypatch.delitem(import_flow.HOPS, "cond")  # as if it had no form
    x = torch.randn(8)
    explanation = lamella.explain(f, x)
    assert "  runs eagerly: node cond" in str(explanation)
    assert [bool(g.reason) for g in explanation.graphs].count(True) == 1
    assert next(g for g in explanation.graphs if g.reason).operators["cond"] == 1
    names = {name for g in explanation.graphs if not g.reason for name in g.operators}
    assert {"aten.exp.default", "aten.cos.default"} <= names


def test_a_first_call_keeps_conjugates(monkeypatch: pytest.MonkeyPatch) -> None:
    """AOTAutograd has it made in a mode in which they are lost, but outside of it a graph without custom operators."""

    def f(x: Tensor) -> Tensor:
        y = torch.linalg.pinv(x)
        return torch.cond(y.real.sum() > 0, lambda a: a + 1, lambda a: a + 2, (y,))

    monkeypatch.delitem(import_flow.HOPS, "cond")  # as if it had no form
    x = torch.randn(3, 3, dtype=torch.complex128)
    torch.testing.assert_close(torch.compile(f, backend="lamella")(x), f(x))


def test_writes_stay_behind_what_reads() -> None:
    from torch.fx import Graph, GraphModule

    from lamella.frontend.pieces import in_pieces

    def foreign(x: Tensor) -> Any: ...

    graph = Graph()
    value = torch.empty(3, device="meta")
    x = graph.placeholder("x")
    before = graph.call_function(torch.ops.aten.sin.default, (x,))
    call = graph.call_function(foreign, (x,))
    write = graph.call_function(torch.ops.aten.copy_.default, (x, before))
    after = graph.call_function(torch.ops.aten.add.Tensor, (call, before))
    graph.output((after, write))
    for node in (x, before, call, write, after):
        node.meta["val"] = value
    pieces = in_pieces(GraphModule(torch.nn.Module(), graph))
    assert pieces is not None
    found = [
        (
            n.name,
            sorted(
                m.target.__name__ for m in pieces.graph.get_submodule(n.name).graph.nodes if m.op == "call_function"
            ),
        )
        for n in pieces.graph.graph.nodes
        if n.op == "call_module"
    ]
    assert found == [
        ("submod_0", ["sin.default"]),
        ("submod_1", ["foreign"]),
        ("submod_2", ["add.Tensor", "copy_.default"]),
    ]
    assert list(pieces.native) == ["submod_0", "submod_2"]


def test_a_call_that_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Tensor, y: Tensor, p: Tensor) -> Tensor:
        return torch.cond(p, lambda a: a.sin(), lambda a: a.tan(), (x,)) * y.exp()

    monkeypatch.delitem(import_flow.HOPS, "cond")  # as if it had no form
    x, y, p = torch.randn(8), torch.randn(8), torch.tensor(True)
    torch.testing.assert_close(torch.compile(f, backend="lamella", fullgraph=True)(x, y, p), f(x, y, p))


@pytest.mark.usefixtures("compiled")
@pytest.mark.eager_part("node _native_multi_head_attention: a result is no tensor where no weights are asked for")
def test_attention_without_weights() -> None:
    """torch traces the weights to a tensor without elements, and eagerly returns None."""

    def f(x: Tensor, qkv: Tensor, project: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
        a, weights = torch._native_multi_head_attention(
            x.sin(), x, x, 6, 2, qkv, qkv[:, 0], project, project[0], need_weights=False
        )
        return a.relu() + 1, weights, x * 2

    x, qkv, project = torch.randn(1, 3, 6), torch.randn(18, 6), torch.randn(6, 6)
    with torch.no_grad():
        ours, eagers = lamella.compile(f, fullgraph=True)(x, qkv, project), f(x, qkv, project)
    assert ours[1] is None
    torch.testing.assert_close(ours, eagers)


@pytest.mark.usefixtures("compiled")
def test_attention_with_weights() -> None:
    """No part runs eagerly."""

    def f(x: Tensor, qkv: Tensor, project: Tensor) -> tuple[Tensor, Tensor]:
        a, weights = torch._native_multi_head_attention(x.sin(), x, x, 6, 2, qkv, qkv[:, 0], project, project[0])
        return a.relu() + 1, weights * 2

    x, qkv, project = torch.randn(1, 3, 6), torch.randn(18, 6), torch.randn(6, 6)
    with torch.no_grad():
        torch.testing.assert_close(lamella.compile(f, fullgraph=True)(x, qkv, project), f(x, qkv, project))
