"""What programs hang on a training step: hooks, sparse gradients, checkpoints inside and around what is compiled."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import lamella

from .test_training import Block, Compile, check, state

pytestmark = pytest.mark.usefixtures("fresh")


def mlp() -> Any:
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def halve(p: Tensor) -> None:
    assert p.grad is not None
    p.grad.mul_(0.5)


def test_hooks_of_modules_tensors_and_accumulators() -> None:
    """They change what flows: inputs, results, gradients of a value, of a parameter, and what has been accumulated."""

    def program(compile: Compile) -> Any:
        model, seen = mlp(), list[int]()
        model[0].register_forward_pre_hook(lambda m, given: (given[0] + 1,))
        model[1].register_forward_hook(lambda m, given, made: made * 3)
        model[2].register_full_backward_pre_hook(lambda m, made: (made[0] * 2,))
        model[0].weight.register_hook(lambda g: g + 1)
        model[2].bias.register_post_accumulate_grad_hook(halve)
        accumulator = model[2].weight.view_as(model[2].weight).grad_fn.next_functions[0][0]
        accumulator.register_hook(lambda *_: seen.append(len(seen)))

        def loss(x: Tensor) -> Tensor:
            y = model(x)
            y.register_hook(lambda g: g * 3)
            return y.square().sum()

        run, x = compile(loss), torch.randn(3, 4, requires_grad=True)
        for _ in range(3):
            run(x).backward()
        return x.grad, state(model), seen

    *_, seen = check(program, rtol=1e-4, atol=1e-4)
    assert seen == [0, 1, 2]


def test_an_optimizer_in_hooks() -> None:
    """Each parameter is updated as soon as its gradient is there, and the gradient dropped."""

    def program(compile: Compile) -> Any:
        model = mlp()
        optimizers = {p: torch.optim.SGD([p], 0.1) for p in model.parameters()}

        def update(p: Tensor) -> None:
            optimizers[p].step()
            optimizers[p].zero_grad()

        for p in model.parameters():
            p.register_post_accumulate_grad_hook(update)
        run = compile(model)
        for _ in range(3):
            run(torch.randn(3, 4)).square().sum().backward()
        return state(model)

    check(program)


def test_sparse_gradients_of_an_embedding() -> None:
    def program(compile: Compile) -> Any:
        words, head = nn.Embedding(10, 4, sparse=True), nn.Linear(4, 2)
        run = compile(lambda i: head(words(i)).square().sum())
        optimizer = torch.optim.SparseAdam(words.parameters())
        for _ in range(3):
            words.zero_grad()
            run(torch.tensor([[1, 2, 1], [3, 1, 0]])).backward()
            optimizer.step()
        gradient: Any = words.weight.grad
        assert gradient.is_sparse
        return gradient.to_dense(), words.weight.detach(), state(head)

    check(program)


@pytest.mark.parametrize("around", [False, True], ids=["inside", "around"])
@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints(reentrant: bool, around: bool) -> None:
    """Regions in what is compiled, and compiled blocks in regions."""

    def program(compile: Compile) -> Any:
        blocks = nn.ModuleList(Block(32) for _ in range(2))
        runs = [compile(b) if around else b for b in blocks]

        def loss(x: Tensor) -> Tensor:
            for run in runs:
                x = x + checkpoint(run, x, use_reentrant=reentrant)
            return x.square().mean()

        x = torch.randn(2, 8, 32, requires_grad=True)
        (loss if around else compile(loss))(x).backward()
        return x.grad, state(blocks)

    check(program)


def test_a_policy_says_what_a_checkpoint_saves() -> None:
    def policy(ctx: Any, op: Any, *_: Any, **__: Any) -> CheckpointPolicy:
        saved = op is torch.ops.aten.mm.default
        return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE

    contexts = partial(create_selective_checkpoint_contexts, policy)

    def program(compile: Compile) -> Any:
        x, w = torch.randn(4, 8, requires_grad=True), torch.randn(8, 8, requires_grad=True)

        def region(x: Tensor) -> Tensor:
            return torch.sin(x @ w).exp() @ w

        compile(lambda x: checkpoint(region, x, use_reentrant=False, context_fn=contexts).sum())(x).backward()
        return x.grad, w.grad

    check(program)


def test_one_graph_differentiated_twice() -> None:
    def program(compile: Compile) -> Any:
        w = torch.randn(8, 8, requires_grad=True)
        y = compile(lambda x: (x @ w).sin().exp())(torch.randn(4, 8))
        first = torch.autograd.grad(y.sum(), w, retain_graph=True)
        return first, torch.autograd.grad(y.square().sum(), w)

    check(program)


def test_parameters_that_lie_elsewhere_between_steps() -> None:
    def program(compile: Compile) -> Any:
        model = mlp()
        run, seen = compile(model), list[Any]()
        for _ in range(3):
            model.zero_grad()
            run(torch.ones(3, 4)).square().sum().backward()
            seen.append(state(model))
            model[0].weight.data = model[0].weight.data.clone() * 2
            model[2].bias.data.add_(0.1)
        return seen

    check(program)


def test_a_group_of_parameters_that_comes_later() -> None:
    """And parameters without gradients in some steps, and a state that is loaded."""

    def program(compile: Compile) -> Any:
        model = mlp()
        optimizer = torch.optim.AdamW(model[0].parameters(), 0.1, eps=1e-3)
        step, saved = compile(optimizer.step), dict[str, Any]()
        for k in range(6):
            if k == 2:
                optimizer.add_param_group({"params": model[2].parameters(), "lr": 0.5})
            optimizer.zero_grad()
            (model[0] if k == 4 else model)(torch.ones(3, 4)).square().sum().backward()
            step()
            if k == 3:
                saved = optimizer.state_dict()
            if k == 4:
                optimizer.load_state_dict(saved)
        return state(model)

    check(program, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("budget", [None, 0.5, 0.0])
def test_the_bytes_that_are_held_are_those_that_explain_tells(budget: float | None) -> None:
    torch.manual_seed(0)
    model, x = nn.Sequential(Block(32), Block(32)), torch.randn(2, 64, 32, requires_grad=True)
    options: Any = {"activation_memory_budget": budget, "cache": False}
    y = torch.compile(model, backend="lamella", options=options)(x)
    function: Any = y.grad_fn
    while "Compiled" not in type(function).__name__:
        function = function.next_functions[0][0]
    held = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in function.saved_tensors}
    for t in (x, *model.parameters()):
        held.pop(t.untyped_storage().data_ptr(), None)
    torch._dynamo.reset()
    told = str(lamella.explain(model, x, options=options))
    assert f"saved for backward: {sum(held.values())} bytes" in told
