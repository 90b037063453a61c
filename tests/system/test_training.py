"""Whole training steps as a user writes them: losses, gradients, parameters and buffers are eager's."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.usefixtures("fresh")

Compile = Callable[..., Any]
Program = Callable[[Compile], Any]


def lamella(f: Any) -> Any:
    return torch.compile(f, backend="lamella", options={"cache": False})


def check(program: Program, rtol: float | None = None, atol: float | None = None) -> Any:
    """Run a program as it is and with what it compiles compiled; the results, which are equal."""
    results: list[Any] = []
    for compile in (lambda f: f, lamella):
        torch.manual_seed(0)
        results.append(program(compile))
    torch.testing.assert_close(results[1], results[0], rtol=rtol, atol=atol)
    return results[1]


def state(module: nn.Module) -> dict[str, Any]:
    """Parameters, buffers and gradients."""
    gradients = {f"grad of {n}": None if p.grad is None else p.grad.clone() for n, p in module.named_parameters()}
    return copy.deepcopy(dict(module.state_dict())) | {n: g for n, g in gradients.items() if g is not None}


class Block(nn.Module):
    """A transformer's block: a fused product for queries, keys and values, causal attention, an MLP."""

    def __init__(self, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (z.unflatten(-1, (4, -1)).transpose(1, 2) for z in self.qkv(self.n1(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2))
        return x + F.dropout(self.down(F.gelu(self.up(self.n2(x)))), self.dropout)


class GPT(nn.Module):
    """Embeddings, one block, a norm, and a head that shares the embedding's weight where `tied`."""

    def __init__(self, tied: bool = False) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(17, 32), nn.Embedding(12, 32)
        self.block, self.norm, self.head = Block(32), nn.LayerNorm(32), nn.Linear(32, 17, bias=False)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, index: Tensor) -> Tensor:
        x = self.tokens(index) + self.places(torch.arange(index.shape[1]))
        logits = self.head(self.norm(self.block(x)))
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), index[:, 1:].flatten())


def batches(count: int = 3) -> Iterator[Tensor]:
    for _ in range(count):
        yield torch.randint(17, (4, 12))


def steps(model: nn.Module, run: Callable[..., Tensor], optimizer: torch.optim.Optimizer) -> list[Any]:
    """Losses and states of a few steps."""
    seen: list[Any] = []
    for batch in batches():
        optimizer.zero_grad()
        loss = run(batch)
        loss.backward()
        optimizer.step()
        seen.append((loss.detach(), state(model)))
    return seen


@pytest.mark.parametrize("tied", [False, True])
def test_gpt(tied: bool) -> None:
    def program(compile: Compile) -> Any:
        model = GPT(tied)
        return steps(model, compile(model), torch.optim.SGD(model.parameters(), lr=0.1))

    check(program)


def test_a_model_in_bf16() -> None:
    """Loss and gradients are as near to those in f64 as eager's are."""
    model, (batch,) = GPT().double(), batches(1)

    def gradients(dtype: torch.dtype, compile: Compile) -> list[Tensor]:
        mine = copy.deepcopy(model).to(dtype)
        loss = compile(mine)(batch)
        loss.backward()
        return [loss.detach(), *(p.grad for p in mine.parameters() if p.grad is not None)]

    true = gradients(torch.float64, lambda f: f)
    eager, ours = (gradients(torch.bfloat16, compile) for compile in (lambda f: f, lamella))
    assert len(true) == len(ours) == 1 + len(list(model.parameters()))
    for a, b, t in zip(ours, eager, true, strict=True):
        assert a.dtype == torch.bfloat16
        far, allowed = ((x.double() - t).square().mean().sqrt() for x in (a, b))
        assert far <= 2 * allowed + 1e-3 * t.abs().max()


def test_autocast_to_bf16() -> None:
    def program(compile: Compile) -> Any:
        model = GPT()
        compiled = compile(model)

        def run(batch: Tensor) -> Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                return compiled(batch)

        return steps(model, run, torch.optim.SGD(model.parameters(), lr=0.1))

    check(program, rtol=0.03, atol=0.01)


def test_autocast_inside_what_is_compiled() -> None:
    def program(compile: Compile) -> Any:
        model = GPT()

        @compile
        def run(batch: Tensor) -> Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                return model(batch)

        return steps(model, run, torch.optim.SGD(model.parameters(), lr=0.1))

    check(program, rtol=0.03, atol=0.01)


def test_autocast_to_f16_with_scaled_gradients() -> None:
    """The second step's gradients overflow: it is skipped, and the scale is halved."""

    def program(compile: Compile) -> Any:
        model = GPT()
        compiled, optimizer = compile(model), torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2)
        seen: list[Any] = []
        for k, batch in enumerate(batches(4)):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                loss = compiled(batch)
            scaler.scale(loss * (1e30 if k == 1 else 1.0)).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            parameters = [p.detach().clone() for p in model.parameters()]
            seen.append((loss.detach(), parameters, scaler.get_scale()))
        return seen

    scales = [scale for *_, scale in check(program, rtol=0.01, atol=0.002)]
    assert scales == [1024.0, 512.0, 512.0, 1024.0]


class Convolutional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.Conv2d(8, 8, 3, stride=2)
        self.n1, self.n2 = nn.BatchNorm2d(8), nn.BatchNorm2d(8, momentum=None)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.n1(self.first(x))), 2)
        return self.head(F.relu(self.n2(self.second(x))).mean((2, 3)))


def test_running_statistics_and_their_use() -> None:
    """Batches of two sizes, the last one smaller, and evaluation after each step."""

    def program(compile: Compile) -> Any:
        model = Convolutional()
        compiled, optimizer = compile(model), torch.optim.SGD(model.parameters(), lr=0.1)
        seen: list[Any] = []
        for n in (6, 6, 4):
            x, y = torch.randn(n, 3, 12, 12), torch.randint(5, (n,))
            optimizer.zero_grad()
            loss = F.cross_entropy(compiled(x), y, label_smoothing=0.1)
            loss.backward()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                seen.append((loss.detach(), compiled(x), state(model)))
            model.train()
        return seen

    check(program, rtol=1e-4, atol=1e-5)


def test_accumulated_and_clipped_gradients() -> None:
    """The whole step compiled: accumulation over two batches, the norm, the clipping."""

    def program(compile: Compile) -> Any:
        model = GPT()
        compiled, optimizer = compile(model), torch.optim.SGD(model.parameters(), lr=0.1)
        clip = compile(lambda: nn.utils.clip_grad_norm_(model.parameters(), 0.5))
        seen: list[Any] = []
        for _ in range(2):
            optimizer.zero_grad(set_to_none=False)
            for batch in batches(2):
                (compiled(batch) / 2).backward()
            norm = clip()
            optimizer.step()
            seen.append((norm, state(model)))
        return seen

    check(program)


def test_clipped_values() -> None:
    def program(compile: Compile) -> Any:
        model = nn.Linear(8, 8)
        clip = compile(lambda: nn.utils.clip_grad_value_(model.parameters(), 0.1))
        model(torch.randn(4, 8)).square().sum().backward()
        clip()
        return state(model)

    check(program)


def test_checkpointed_blocks() -> None:
    def program(compile: Compile) -> Any:
        blocks = nn.ModuleList(Block(32) for _ in range(2))

        @compile
        def run(x: Tensor) -> Tensor:
            for block in blocks:
                x = checkpoint(block, x, use_reentrant=False)
            return x.square().mean()

        loss = run(torch.randn(2, 8, 32))
        loss.backward()
        return loss.detach(), state(blocks)

    check(program)


def test_dropout_in_a_checkpoint_is_the_same_again() -> None:
    """With y = dropout(x ** 2), dy/dx is 2 y / x: the mask of the forward."""

    @lamella
    def f(x: Tensor) -> Tensor:
        return checkpoint(lambda x: F.dropout(x.square(), 0.5), x, use_reentrant=False)

    x = torch.randn(64, 64).requires_grad_()
    for _ in range(2):
        y = f(x)
        (gradient,) = torch.autograd.grad(y.sum(), x)
        torch.testing.assert_close(gradient, 2 * y / x)
        assert 0.4 < (y == 0).float().mean() < 0.6


def test_dropout_in_a_checkpointed_block() -> None:
    """Directional derivatives at one seed: gradients belong to the function that the forward computed."""
    block = Block(32, dropout=0.3).double()
    f = lamella(lambda x: checkpoint(block, x, use_reentrant=False).square().sum())
    x, v = (torch.randn(2, 8, 32, dtype=torch.float64) for _ in range(2))

    def at(x: Tensor) -> Tensor:
        torch.manual_seed(7)
        return f(x)

    x.requires_grad_()
    (gradient,) = torch.autograd.grad(at(x), x)
    h = 1e-6
    numeric = (at((x + h * v).detach().requires_grad_()) - at((x - h * v).detach().requires_grad_())) / (2 * h)
    torch.testing.assert_close((gradient * v).sum(), numeric.detach(), rtol=1e-6, atol=1e-6)


def test_frozen_parameters_get_no_gradients() -> None:
    def program(compile: Compile) -> Any:
        model = GPT()
        model.tokens.requires_grad_(False)
        model.block.up.requires_grad_(False)
        model.block.n1.bias.requires_grad_(False)
        trained = [p for p in model.parameters() if p.requires_grad]
        seen = steps(model, compile(model), torch.optim.SGD(trained, lr=0.1))
        assert model.block.up.weight.grad is None
        return seen

    check(program)


def test_freezing_between_steps() -> None:
    def program(compile: Compile) -> Any:
        model, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)), torch.randn(4, 8)
        compiled, first = compile(model), model[0]
        seen: list[Any] = []
        for frozen in (False, True, False):
            first.requires_grad_(not frozen)
            model.zero_grad()
            compiled(x).sum().backward()
            seen.append(state(model))
        return seen

    check(program)


def test_gradients_into_inputs() -> None:
    """Of a leaf, of a value computed eagerly, of one that is a view, with gradients in other layouts."""

    def program(compile: Compile) -> Any:
        block = Block(32)
        f, scale = compile(block), torch.randn(2, 8, 1)
        x = torch.randn(2, 32, 8, requires_grad=True)
        h = (x * 2).transpose(1, 2)
        h.retain_grad()
        y = f(h)
        (y.transpose(0, 2) * scale.transpose(0, 2)).sum().backward()
        y.detach_()
        assert x.grad is not None and h.grad is not None
        return x.grad, h.grad, y

    check(program, rtol=1e-4, atol=1e-5)


def test_only_some_outputs_have_gradients() -> None:
    def program(compile: Compile) -> Any:
        f = compile(lambda x, w: (x @ w, (x * 2).relu(), x.argmax(-1), w.detach() * 3))
        x, w = torch.randn(4, 6, requires_grad=True), torch.randn(6, 5, requires_grad=True)
        first = torch.autograd.grad(f(x, w)[0].sum(), [x, w])
        second = torch.autograd.grad(f(x, w)[1].sum(), [x, w], allow_unused=True, materialize_grads=True)
        return first, second, f(x, w)[3].requires_grad

    check(program)
