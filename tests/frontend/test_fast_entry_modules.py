"""`lamella.compile(module, fullgraph=True)`: calls enter the code of `forward` directly, unless anything stands between."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules import module as nn_module

import lamella


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.norm, self.drop = nn.Linear(4, 4), nn.LayerNorm(4), nn.Dropout(0.5)
        self.register_buffer("offset", torch.ones(4))
        self.factor = 2.0

    def forward(self, x: torch.Tensor, *, shift: float = 0.0) -> torch.Tensor:
        return self.drop(self.norm(self.fc(x)) * self.factor + self.offset) + shift


@pytest.fixture
def net() -> Net:
    return Net().eval()


def whole(model: Any) -> Any:
    return lamella.compile(model, fullgraph=True)


def agree(compiled: Any, model: nn.Module, x: torch.Tensor, **named: Any) -> None:
    torch.testing.assert_close(compiled(x, **named), model(x, **named))


def test_forward_is_entered_directly(slow: list[int], net: Net) -> None:
    g, x = whole(net), torch.randn(3, 4)
    assert isinstance(g, torch._dynamo.OptimizedModule) and g._orig_mod is net
    with torch.no_grad():
        for _ in range(4):
            agree(g, net, x)
            agree(g, net, x, shift=1.0)
        assert slow[0] == 2
        with pytest.raises(TypeError, match=r"Net\.forward\(\)"):
            g()
        with pytest.raises(TypeError, match="unexpected keyword"):
            g(x, other=1)


def test_what_forward_reads_of_the_module(slow: list[int], net: Net) -> None:
    g, x = whole(net), torch.randn(3, 4)
    with torch.no_grad():
        agree(g, net, x)
        net.fc.weight.mul_(2)  # values are not guarded: they are inputs
        net.offset += 1
        agree(g, net, x)
        assert slow[0] == 1
        net.fc.weight = nn.Parameter(torch.randn(4, 4))
        agree(g, net, x)
        net.offset = torch.full((4,), 3.0)
        agree(g, net, x)
        net.load_state_dict(Net().state_dict())
        agree(g, net, x)
        before = slow[0]
        net.factor = 3.0
        agree(g, net, x)
        net.fc = nn.Linear(4, 4, bias=False)
        agree(g, net, x)
        net.norm = nn.Identity()  # pyright: ignore[reportAttributeAccessIssue]
        agree(g, net, x)
        assert slow[0] == before + 3
        net.train()
        assert (g(x) == 0).any()
        net.eval()
        agree(g, net, x)
        net.double()
        agree(g, net, x.double())


def test_another_forward(slow: list[int], net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `forward` that the module or its class got later is what is called."""
    g, x = whole(net), torch.randn(3, 4)
    with torch.no_grad():
        for _ in range(2):
            agree(g, net, x)
        assert slow[0] == 1
        net.forward = lambda x: x + 1  # pyright: ignore[reportAttributeAccessIssue]
        torch.testing.assert_close(g(x), x + 1)
        del net.forward
        agree(g, net, x)
        monkeypatch.setattr(Net, "forward", lambda self, x: x - 1)
        torch.testing.assert_close(g(x), x - 1)
        monkeypatch.undo()
        agree(g, net, x)
        net.__class__ = type("Other", (Net,), {"forward": lambda self, x: x * 7})
        torch.testing.assert_close(g(x), x * 7)


@pytest.mark.parametrize("where", ["module", "compiled", "everywhere"])
@pytest.mark.parametrize("kind", ["forward_pre", "forward"])
def test_hooks(where: str, kind: str, slow: list[int], net: Net) -> None:
    """A hook is called as often as torch.compile calls it, from the call after it was registered until it is removed."""
    g, x = whole(net), torch.randn(3, 4)
    seen: list[Any] = []
    register: Any
    if where == "everywhere":
        register = getattr(nn_module, f"register_module_{kind}_hook")
    else:
        register = getattr(net if where == "module" else g, f"register_{kind}_hook")
    with torch.no_grad(), pytest.warns() if where == "everywhere" else _nothing():
        agree(g, net, x)
        agree(g, net, x)
        assert slow[0] == 1
        handle = register(lambda module, *_: seen.append(type(module).__name__))
        try:
            expected = net(x)
            seen.clear()
            torch.testing.assert_close(g(x), expected)
            assert ("OptimizedModule" if where == "compiled" else "Net") in seen
        finally:
            handle.remove()
        seen.clear()
        agree(g, net, x)
        assert seen == []


class _nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def test_a_hook_that_changes_the_result(net: Net) -> None:
    g, x = whole(net), torch.randn(3, 4)
    with torch.no_grad():
        agree(g, net, x)
        handle = net.register_forward_hook(lambda module, args, result: result + 5)
        agree(g, net, x)
        handle.remove()
        agree(g, net, x)


def test_gradients_and_modes(slow: list[int], net: Net) -> None:
    g, x = whole(net), torch.randn(3, 4)
    for _ in range(3):
        net.zero_grad()
        net(x).exp().sum().backward()
        expected = [p.grad.clone() for p in net.parameters() if p.grad is not None]
        net.zero_grad()
        g(x).exp().sum().backward()
        torch.testing.assert_close([p.grad for p in net.parameters()], expected)
        with torch.no_grad():
            assert not g(x).requires_grad
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert g(x).dtype == net(x).dtype
    assert slow[0] <= 4
    net.requires_grad_(False)
    assert not g(x).requires_grad
    net.fc.weight.requires_grad_(True)
    assert g(x).requires_grad


def test_two_of_a_class(slow: list[int]) -> None:
    """Code is kept by the code of `forward`, which all modules of a class share; each is computed with its own."""
    nets = [Net().eval() for _ in range(3)]
    nets[2].factor = 5.0
    compiled, x = [whole(n) for n in nets], torch.randn(3, 4)
    with torch.no_grad():
        for _ in range(3):
            for g, n in zip(compiled, nets, strict=True):
                agree(g, n, x)


def test_modules_of_torch(slow: list[int]) -> None:
    """`forward` of torch's own modules is compiled through a frame around them."""
    x = torch.randn(3, 4)
    with torch.no_grad():
        for net in (nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.GELU())):
            g = whole(net)
            for _ in range(3):
                agree(g, net, x)
    assert slow[0] == 2


def test_bound_methods(slow: list[int]) -> None:
    class Model:
        factor = 3.0

        def predict(self, x: torch.Tensor, y: float = 1.0) -> torch.Tensor:
            return x * self.factor + y

        @torch.no_grad()
        def decorated(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.factor

    model, x = Model(), torch.randn(3)
    g, d = whole(model.predict), whole(model.decorated)
    for _ in range(3):
        torch.testing.assert_close([g(x), g(x, y=2.0)], [x * 3 + 1, x * 3 + 2])
        torch.testing.assert_close(d(x), x * 3)
    model.factor = 4.0
    torch.testing.assert_close(g(x), x * 4 + 1)
    torch.testing.assert_close(d(x), x * 4)


def test_lazy_modules() -> None:
    net = nn.LazyLinear(3)
    g, x = whole(net), torch.randn(2, 5)
    with torch.no_grad():
        first = g(x)
        torch.testing.assert_close(first, net(x))
        torch.testing.assert_close(g(x), first)


def test_copies_and_nesting(net: Net) -> None:
    g, x = whole(net), torch.randn(3, 4)
    with torch.no_grad():
        agree(g, net, x)
        other = copy.deepcopy(g)
        with torch.no_grad():
            other.fc.weight.zero_()
        agree(other, other._orig_mod, x)
        agree(g, net, x)
        outer = torch.compile(lambda x: g(x).relu(), backend="eager", fullgraph=True)
        torch.testing.assert_close(outer(x), net(x).relu())
        torch.testing.assert_close(g.state_dict()["_orig_mod.fc.weight"], net.fc.weight)


def test_nothing_keeps_the_module_alive() -> None:
    """Without a search for cycles of references: parameters may be all the memory there is."""
    net = Net().eval()
    g, gone = whole(net), weakref.ref(net.fc.weight)
    with torch.no_grad():
        for _ in range(2):
            g(torch.randn(3, 4))
    torch._dynamo.reset()
    gc.collect()
    gc.disable()
    try:
        del g, net
        assert gone() is None
    finally:
        gc.enable()
