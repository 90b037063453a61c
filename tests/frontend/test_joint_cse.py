"""Common subexpressions of joint graphs: what is the same is computed once, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from lamella.frontend.joint_cse import eliminate_common_subexpressions


def reduced(f: Callable[..., Any], *inputs: Tensor) -> tuple[GraphModule, Counter[str]]:
    graph: GraphModule = make_fx(f, tracing_mode="symbolic")(*inputs)
    eliminate_common_subexpressions(graph.graph)
    graph.graph.lint()
    graph.recompile()
    return graph, Counter(str(n.target) for n in graph.graph.nodes if n.op == "call_function")


def test_a_value_is_computed_once() -> None:
    x = torch.randn(4, 3)
    graph, counts = reduced(lambda x: (x.t().sin() * 2).sum(0) + (x.t().sin() * 2).sum(0), x)
    assert counts["aten.sin.default"] == counts["aten.t.default"] == counts["aten.sum.dim_IntList"] == 1
    torch.testing.assert_close(graph(x), (x.t().sin() * 2).sum(0) * 2)


def test_numbers_that_compare_equal_are_told_apart() -> None:
    x = torch.tensor([2, 3])
    _, counts = reduced(lambda x: (x * 1).sum() + (x * 1.0).sum() + (x * True).sum(), x)
    assert counts["aten.mul.Tensor"] == 3
    _, counts = reduced(lambda x: (x + 0.0).sum() + (x + -0.0).sum() + (x + 0.0).sum(), torch.randn(2))
    assert counts["aten.add.Tensor"] == 2 + 2


def test_random_numbers_are_drawn_as_often_as_was_said() -> None:
    _, counts = reduced(lambda x: (torch.rand_like(x) - torch.rand_like(x)).sum(), torch.randn(3))
    assert counts["aten.rand_like.default"] == 2


def test_results_keep_memory_of_their_own() -> None:
    """Neither of two results is the other, nor what the graph uses itself."""
    _, counts = reduced(lambda x: (x.sin(), x.sin(), x.sin().cos() + x.sin()), torch.randn(3))
    assert counts["aten.sin.default"] == 3


def test_a_mutation_is_not_looked_past() -> None:
    def f(x: Tensor) -> Tensor:
        before = x.sin()
        x.add_(1)
        return before + x.sin()

    graph, counts = reduced(f, torch.zeros(3))
    assert counts["aten.sin.default"] == 2
    torch.testing.assert_close(graph(torch.zeros(3)), torch.ones(3).sin())


def test_sizes_that_data_decide_stay() -> None:
    """Two calls bind two sizes, and what is made of each is said with its own."""
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        _, counts = reduced(lambda x: x.nonzero().sum() + x.nonzero().sum(), torch.tensor([0.0, 1.0]))
    assert counts["aten.nonzero.default"] == 2


def test_training_imports_no_code_generator_of_torchs() -> None:
    program = """
import sys, torch
x = torch.randn(4, requires_grad=True)
torch.compile(lambda x: x.sin(), backend="lamella", options={"cache": False})(x).sum().backward()
assert x.grad is not None
print(*(m for m in ("torch._inductor.lowering", "torch._inductor.pattern_matcher") if m in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
