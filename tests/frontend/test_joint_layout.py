"""Training steps of images: channels last where that pays, and to the caller as eager's."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lamella.frontend import joint_graph
from lamella.frontend.joint_layout import with_channels_last


@pytest.fixture
def layouts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Whether each joint graph was changed."""
    seen: list[bool] = []

    def noting(graph: torch.fx.Graph) -> torch.fx.Graph:
        made = with_channels_last(graph)
        made.lint()
        seen.append(made is not graph)
        return made

    monkeypatch.setattr(joint_graph, "with_channels_last", noting)
    torch._dynamo.reset()
    yield seen


class Images(nn.Module):
    """Strides, groups, a kernel of one pixel, a bias, pooling, a residual, and an end that `end` is."""

    def __init__(self, end: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.second = nn.Conv2d(16, 16, 3, stride=2, padding=1)
        self.third = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.fourth = nn.Conv2d(16, 16, 1, bias=False)
        self.n1, self.n2 = nn.BatchNorm2d(16), nn.BatchNorm2d(16)
        self.end = end

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.n1(self.first(x))), 3, 2, 1)
        x = F.gelu(self.second(x))
        return self.end(x + F.silu(self.n2(self.fourth(self.third(x)))))


ENDS: dict[str, Callable[[Tensor], Tensor]] = {
    "an image": lambda x: x,
    "its mean": lambda x: x.mean((2, 3)),
    "tokens": lambda x: x.flatten(2).transpose(1, 2).softmax(-1),
    "a view of all": lambda x: x.flatten(1),
    "strides": lambda x: x.as_strided((2, 3), (5, 1), 7),
    "a part": lambda x: x[:, 1:3, ::2],
    "other sizes": lambda x: F.interpolate(F.adaptive_avg_pool2d(x, 2), scale_factor=2),
}


def step(model: nn.Module, run: Callable[..., Tensor], x: Tensor) -> dict[str, Any]:
    y = run(x)
    (y.square().sum() if y.requires_grad else y).backward()
    assert x.grad is not None
    gradients = {f"grad of {n}": p.grad for n, p in model.named_parameters()}
    return {"y": y.detach(), "grad": x.grad, **gradients, **dict(model.named_buffers())}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("last", [False, True])
def test_a_step_is_eagers(end: str, last: bool, layouts: list[bool]) -> None:
    torch.manual_seed(0)
    results: list[dict[str, Any]] = []
    model = Images(ENDS[end]).double()
    for compiled in (False, True):
        mine = copy.deepcopy(model)
        run: Any = torch.compile(mine, backend="lamella", options={"cache": False}) if compiled else mine
        torch.manual_seed(1)
        x = torch.randn(2, 3, 16, 16, dtype=torch.float64)
        x = x.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format).requires_grad_()
        results.append(step(mine, run, x))
    torch.testing.assert_close(results[1], results[0])
    for name, value in results[0].items():
        if name.startswith("grad of") or not last:
            assert results[1][name].stride() == value.stride(), name
    assert len(layouts) == 1


def test_images_between_convolutions_are_channels_last(layouts: list[bool]) -> None:
    model = nn.Sequential(*(nn.Sequential(nn.Conv2d(c, 16, 3, padding=1), nn.ReLU()) for c in (3, 16, 16)))
    compiled = torch.compile(model, backend="lamella", options={"cache": False})
    assert compiled(torch.randn(2, 3, 16, 16)).stride() == (4096, 256, 16, 1)
    assert layouts == [True]


def test_gradients_of_weights_are_copied_where_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[bool] = []

    def noting(graph: torch.fx.Graph) -> torch.fx.Graph:
        made = with_channels_last(graph)
        returned = [n for n in made.nodes if n.target is torch.ops.aten.clone.default and _is_returned(n)]
        copied.extend(n.prev is n.args[0] for n in returned)
        return made

    monkeypatch.setattr(joint_graph, "with_channels_last", noting)
    torch._dynamo.reset()
    model = nn.Sequential(*(nn.Sequential(nn.Conv2d(c, 16, 3, padding=1), nn.ReLU()) for c in (3, 16, 16)))
    torch.compile(model, backend="lamella", options={"cache": False})(torch.randn(2, 3, 16, 16)).sum().backward()
    assert len(copied) >= 3 and all(copied)


def _is_returned(node: torch.fx.Node) -> bool:
    """Whether it is a copy that alone is returned of what it is of."""
    return len(node.all_input_nodes[0].users) == 1 and all(user.op == "output" for user in node.users)


def test_one_convolution_is_left_as_it_is(layouts: list[bool]) -> None:
    x, w = torch.randn(2, 8, 16, 16, requires_grad=True), torch.randn(8, 8, 3, 3, requires_grad=True)
    torch.compile(F.conv2d, backend="lamella", options={"cache": False})(x, w).sum().backward()
    assert layouts == [False]


def test_symbolic_sizes(layouts: list[bool]) -> None:
    model = Images(ENDS["its mean"]).double()
    compiled = torch.compile(model, backend="lamella", options={"cache": False}, dynamic=True)
    for n in (2, 3):
        x = torch.randn(n, 3, 16, 16, dtype=torch.float64)
        torch.testing.assert_close(compiled(x), copy.deepcopy(model)(x))
    assert not any(layouts)
