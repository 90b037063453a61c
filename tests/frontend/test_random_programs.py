"""Random programs of ATen calls: imported, printed, parsed and run, they give eager's bits at sizes not traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from lamella.codegen.interpreter import run_module
from lamella.dialects.text import parse_module, print_module
from lamella.dialects.verify import verify
from lamella.frontend.import_fx import import_graph

# Each takes a tensor of shape [n, 4] and another like it, and gives one of that shape again.
STEPS: list[Callable[[Tensor, Tensor], Tensor]] = [
    lambda x, y: x + 2 * y,
    lambda x, y: torch.where(x > y, x, y.sin()),
    lambda x, y: x.softmax(-1).to(torch.bfloat16).float(),
    lambda x, y: torch.cat([x, y], 1)[:, 2:6],
    lambda x, y: x.flip(0) - y.mean(0, keepdim=True),
    lambda x, y: x.reshape(-1).reshape(x.shape[0], 4) * x.shape[0],
    lambda x, y: x.t().contiguous().t(),
    lambda x, y: torch.stack(x.unbind(1)[::-1], 1),
    lambda x, y: x.cumsum(0) / (y.abs().sum() + 1.0),
    lambda x, y: x.view(x.shape[0], 2, 2).transpose(1, 2).reshape(-1, 4),
    lambda x, y: x.masked_fill(y < 0, -1e30).clamp(min=-2.5),
    lambda x, y: x[torch.arange(x.shape[0] - 1, -1, -1)],
    lambda x, y: torch.nn.functional.pad(x, (1, -1)) @ torch.eye(4),
    lambda x, y: x.new_full((x.shape[0], 4), float("inf")).minimum(y.expand(x.shape[0], 4)),
    lambda x, y: x.clone().mul_(y),
    lambda x, y: torch.var_mean(x, 1, keepdim=True)[0].expand_as(y),
]
chains = st.lists(
    st.tuples(st.integers(0, len(STEPS) - 1), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6
)


def program(chain: list[tuple[int, int, int]]) -> Callable[..., Any]:
    def run(x: Tensor, y: Tensor) -> Any:
        values = [x, y]
        for step, i, j in chain:
            values.append(STEPS[step](values[i % len(values)], values[j % len(values)]))
        return values[-1], values[-1].sum(), x.shape[0] * 2

    return run


@settings(max_examples=40)
@given(chains, st.integers(2, 7))
def test_import_print_parse_run(chain: list[tuple[int, int, int]], n: int) -> None:
    f = program(chain)
    traced = torch.randn(5, 4), torch.randn(5, 4)
    graph = make_fx(torch.func.functionalize(f), tracing_mode="symbolic", _allow_non_fake_inputs=True)(*traced)
    imported = import_graph(graph)
    verify(imported.module)
    text = print_module(imported.module, locations=True)
    module = parse_module(text)
    assert print_module(module, locations=True) == text
    x, y = torch.randn(n, 4), torch.randn(n, 4)
    want = f(x, y)
    got = imported.wrap(lambda inputs: run_module(module, inputs, check=True))([x, y])
    for w, g in zip(want, got, strict=True):
        torch.testing.assert_close(g, w, rtol=0, atol=0, equal_nan=True)
