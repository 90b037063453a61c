"""What a forward has made for its backward alone is written over by that, and by nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._dynamo.utils import counters

from lamella import driver
from lamella.dialects.text import print_module
from lamella.frontend.backend import Backend
from lamella.lowering.memory_plan import DONATED, PASSED
from lamella.lowering.options import Options


def compiled(program: Any, texts: list[str]) -> Any:
    """A program whose modules become `texts`."""

    def compile(module: Any, options: Options) -> Any:
        texts.append(print_module(module))
        return driver.compile_module(module, options)

    torch._dynamo.reset()
    return torch.compile(program, backend=Backend(Options(cache=False), compile))


def loss(x: Tensor, w: Tensor, t: Tensor) -> Tensor:
    return F.cross_entropy(F.gelu(x @ w), t)


def test_gradients_are_eagers() -> None:
    texts: list[str] = []
    fast, t = compiled(loss, texts), torch.randint(0, 90, (70,))
    for i in range(3):
        torch.manual_seed(i)
        x, w = (torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in ((70, 80), (80, 90)))
        ours = torch.autograd.grad(fast(x, w, t), (x, w))
        torch.testing.assert_close(ours, torch.autograd.grad(loss(x, w, t), (x, w)))
    assert [DONATED in text for text in texts] == [False, True]


def test_gradients_that_are_given() -> None:
    """What AOTAutograd makes contiguous is written over, what the caller gives is not."""

    def program(x: Tensor) -> Tensor:
        return x.exp() * 2 + x

    texts: list[str] = []
    fast, x = compiled(program, texts), torch.randn(70, 80, dtype=torch.float64, requires_grad=True)
    wanted = 2 * x.detach().exp() + 1
    for kept in (True, False):
        y = fast(x)
        if kept:
            torch.testing.assert_close(torch.autograd.grad(y.sum(), x, retain_graph=True)[0], wanted)
        torch.testing.assert_close(torch.autograd.grad(y.mean(), x, retain_graph=kept)[0], wanted / 5600)
    for g in (torch.randn(70, 80, dtype=torch.float64), torch.randn(80, 70, dtype=torch.float64).t()):
        before, seen = g.clone(), list[Tensor]()
        y = fast(x)
        y.register_hook(seen.append)
        torch.testing.assert_close(torch.autograd.grad(y, x, g)[0], wanted * g)
        assert torch.equal(g, before) and torch.equal(seen[0], before)
    assert [PASSED in text for text in texts] == [False, True]


def test_what_the_program_has_too_is_not_written() -> None:
    texts: list[str] = []

    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.exp()
        return y, y.sin()

    fast, x = compiled(program, texts), torch.randn(3000, dtype=torch.float64, requires_grad=True)
    y, z = fast(x)
    seen = y.detach().clone()
    (g,) = torch.autograd.grad(z.sum(), x, retain_graph=True)
    torch.testing.assert_close(g, x.exp().cos() * x.exp())
    assert torch.equal(y, seen) and DONATED not in texts[1]


@pytest.mark.parametrize("before", [False, True], ids=["kept at first", "freed at first"])
def test_a_second_backward(before: bool) -> None:
    """A graph that is kept is given copies of what its backward writes over, whatever the first one asked for."""
    x, w = (torch.randn(64, 64, dtype=torch.float64, requires_grad=True) for _ in range(2))
    t, texts = torch.randint(0, 64, (64,)), list[str]()
    wanted = torch.autograd.grad(loss(x, w, t), (x, w))
    fast = compiled(loss, texts)
    if before:
        fast(x, w, t).backward()
        assert DONATED in texts[1]
    value = fast(x, w, t)
    for kept in ({"retain_graph": True}, {"create_graph": True}, {}):
        torch.testing.assert_close(torch.autograd.grad(value, (x, w), **kept), wanted)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(value, (x, w))


def test_a_second_backward_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AOTAutograd's, where such a backward is found with what it may write over."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    x, w = (torch.randn(64, 64, dtype=torch.float64, requires_grad=True) for _ in range(2))
    t = torch.randint(0, 64, (64,))
    wanted = torch.autograd.grad(loss(x, w, t), (x, w))
    for kept in (False, True):
        torch._dynamo.reset()
        counters.clear()
        value: Any = torch.compile(loss, backend="lamella")(x, w, t)
        for retain in (kept, False)[not kept :]:
            torch.testing.assert_close(torch.autograd.grad(value, (x, w), retain_graph=retain), wanted)
    assert counters["aot_autograd"]["autograd_cache_hit"] == 1


def test_where_torch_is_told_not_to() -> None:
    with torch._functorch.config.patch(donated_buffer=False):  # type: ignore[attr-defined]
        texts: list[str] = []
        x, w = (torch.randn(64, 64, requires_grad=True) for _ in range(2))
        t = torch.randint(0, 64, (64,))
        value = compiled(loss, texts)(x, w, t)
        found = [torch.autograd.grad(value, (x, w), retain_graph=True) for _ in range(2)]
    torch.testing.assert_close(found[0], torch.autograd.grad(loss(x, w, t), (x, w)), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(found[1], found[0], rtol=0, atol=0)
    assert not any(DONATED in text for text in texts)
