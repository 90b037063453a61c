"""Checks of CUDA graphs on a GPU: what is replayed, and that it is right; part of `gpu_check.py`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from gpu_cases import GPU, Skip, check, compiled, rand, same
from gpu_cases_models import Block
from torch import nn


@check("host/graph capture")
def _(_: Any) -> str:
    fast, x = compiled(lambda x: (x.softmax(-1) @ x.t()).relu()), rand(64, 64)
    fast(x)
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        fast(x)
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph):
        y = fast(x)
    x.copy_(rand(64, 64))
    graph.replay()
    same(y, fast(x), (x.double().softmax(-1) @ x.double().t()).relu())
    return ""


def recorded(program: Callable[..., Any]) -> Any:
    """Compiled, with CUDA graphs."""
    from lamella.driver import lamella

    return torch.compile(program, backend=lamella, options={"cuda_graphs": True})


@contextmanager
def replays() -> Generator[list[str]]:
    """A list with a word for each replay meanwhile; after it, an error that says why there are fewer than expected."""
    from lamella.frontend.cuda_graphs import GraphedCall
    from lamella.frontend.cuda_recording import Recording

    found: list[str] = []
    run, give_up = Recording.run, GraphedCall._give_up

    def noted(self: Any, inputs: Any) -> Any:
        found.append("replay")
        return run(self, inputs)

    def reason(self: Any, known: Any, why: str) -> None:
        raise AssertionError(f"not recorded: {why}")

    Recording.run, GraphedCall._give_up = noted, reason  # type: ignore[method-assign]
    try:
        yield found
    finally:
        Recording.run, GraphedCall._give_up = run, give_up  # type: ignore[method-assign]


@check("host/cuda graphs")
def _(_: Any) -> str:
    """A block of a transformer with new inputs at each call, whose earlier results stay as they are."""
    model = Block().to(GPU)
    fast, kept = recorded(model), []
    with replays() as found, torch.no_grad():
        for _ in range(8):
            x = rand(2, 32, 128)
            kept.append((fast(x), model(x), copy.deepcopy(model).double()(x.double())))
            model.up.weight.mul_(1.01)
        for ours, eager, reference in kept:
            same(ours, eager, reference, factor=3.0)
    assert len(found) >= 6, f"{len(found)} of 8 calls were replayed"
    return f"{len(found)} of 8 calls were replayed"


@check("host/cuda graphs, random and changed")
def _(_: Any) -> str:
    """Random numbers differ from replay to replay, and a buffer of the caller's is changed each time."""
    total = torch.zeros(1000, device=GPU)

    def program(x: torch.Tensor) -> torch.Tensor:
        total.add_(1)
        return F.dropout(x, 0.5)

    fast, x = recorded(program), torch.ones(1000, device=GPU)
    with replays() as times, torch.no_grad():
        found = [fast(x) for _ in range(6)]
    assert len(times) == 5, f"{len(times)} of 6 calls were replayed"
    assert all(not torch.equal(a, b) for a, b in pairwise(found)), "the same numbers again"
    assert all(set(y.unique().tolist()) == {0.0, 2.0} for y in found), "not a dropout"
    assert bool((total == 6).all()), f"changed {float(total[0]):g} times, not 6"
    return ""


@check("host/cuda graphs, seeds")
def _(_: Any) -> str:
    """A seed gives the same numbers again, replayed; the generator goes on behind a replay."""
    fast, x = recorded(lambda x: F.dropout(x, 0.5)), torch.ones(1000, device=GPU)
    with replays(), torch.no_grad():
        for _ in range(4):
            fast(x)
        found = []
        for _ in range(2):
            torch.manual_seed(7)
            found.append((fast(x), torch.rand(8, device=GPU), fast(x), torch.rand(8, device=GPU)))
    (a, b, c, d), again = found
    assert all(torch.equal(p, q) for p, q in zip((a, b, c, d), again, strict=True)), "other numbers for the same seed"
    assert not torch.equal(a, c) and not torch.equal(b, d)
    return ""


@check("host/cuda graphs, training")
def _(_: Any) -> str:
    """Steps of an optimizer, with two backwards a step now and then, are as eager's."""
    eager = Block().to(GPU)
    model = copy.deepcopy(eager)
    fast = recorded(model)
    optimizers = [torch.optim.SGD(m.parameters(), 0.05) for m in (eager, model)]
    with replays() as found:
        for i in range(16):
            x = rand(2, 32, 128)
            for program, optimizer in zip((eager, fast), optimizers, strict=True):
                for part in (x, x * 0.5)[: 1 + (i % 4 == 3)]:
                    program(part).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
    for a, b in zip(eager.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert len(found) >= 20, f"{len(found)} of 40 calls were replayed"
    return f"{len(found)} of 40 calls were replayed"


@check("host/cuda graphs, other orders")
def _(_: Any) -> str:
    """What a graph gives away is not written by another one, in whatever order they are replayed: gradients of two
    forwards are added up, and forwards of two models wait for their backwards.
    """

    def mlp() -> nn.Module:
        return nn.Sequential(nn.Linear(64, 4096), nn.GELU(), nn.Linear(4096, 4096), nn.GELU(), nn.Linear(4096, 64)).to(
            GPU
        )

    eager = [mlp(), mlp()]
    ours = copy.deepcopy(eager)
    fast = []
    for model in ours:
        torch._dynamo.reset()  # each is a graph of its own
        fast.append(recorded(model))
    with replays() as found:
        for i in range(12):
            x, order = rand(512, 64), (0, 1) if i < 6 else (1, 0)
            for models, runs in ((eager, eager), (ours, fast)):
                for model in models:
                    model.zero_grad()
                for _ in range(1 + i % 2):
                    losses = [runs[k](x).square().mean() for k in order]
                    for loss in losses if i % 3 else reversed(losses):
                        loss.backward()
            for a, b in zip(eager, ours, strict=True):
                for p, q in zip(a.parameters(), b.parameters(), strict=True):
                    torch.testing.assert_close(q.grad, p.grad, rtol=1e-3, atol=1e-5)
    assert len(found) >= 20, f"{len(found)} of 72 calls were replayed"
    return f"{len(found)} of 72 calls were replayed"


@check("host/cuda graphs, what a backward has read")
def _(_: Any) -> str:
    """Its memory is free for what is recorded later: twelve layers, of two batches, need no more than eager for one.
    Where a graph is retained, or the other batch comes in between, gradients are eager's.
    """
    eager = nn.Sequential(*(Block() for _ in range(12))).to(GPU)
    model = copy.deepcopy(eager)
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    fast, peak = recorded(model), 0
    with replays() as found:
        for i in range(24):
            x = rand(64 if i % 5 != 4 else 48, 128, 128)
            for program in (eager, fast):
                program.zero_grad()
                loss = program(x).square().mean()
                loss.backward(retain_graph=i % 3 == 2)
                if i % 3 == 2:
                    loss.backward()
            for p, q in zip(eager.parameters(), model.parameters(), strict=True):
                torch.testing.assert_close(q.grad, p.grad, rtol=1e-2, atol=1e-4)
            del loss
        for program in (eager, fast):
            program.zero_grad()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            program(rand(64, 128, 128)).square().mean().backward()
            grown = torch.cuda.max_memory_reserved() - before
            peak = peak or grown
    assert len(found) >= 20, f"{len(found)} of 56 calls were replayed"
    assert grown <= peak, f"{grown >> 20} MiB, eager {peak >> 20}"
    return f"{len(found)} of 56 calls were replayed; {grown >> 20} MiB, eager {peak >> 20}"


@check("host/cuda graphs, training by default")
def _(_: Any) -> str:
    """Steps that nobody has asked to record, with an optimizer that is compiled too, are as eager's."""
    eager = nn.Sequential(*(Block() for _ in range(4))).to(GPU)
    model = copy.deepcopy(eager)
    fast = compiled(model)
    optimizers = [torch.optim.AdamW(m.parameters(), 1e-3, capturable=GPU == "cuda") for m in (eager, model)]
    steps = [optimizers[0].step, compiled(optimizers[1].step)]
    from lamella.frontend.cuda_recording import Recording

    count, run = [0], Recording.run

    def noted(self: Any, inputs: Any) -> Any:
        count[0] += 1
        return run(self, inputs)

    Recording.run = noted  # type: ignore[method-assign]
    try:
        for _ in range(24):
            x = rand(2, 32, 128)
            losses = []
            for program, step, optimizer in zip((eager, fast), steps, optimizers, strict=True):
                loss = program(x).square().mean()
                loss.backward()
                step()
                optimizer.zero_grad()
                losses.append(loss.detach())
            torch.testing.assert_close(losses[1], losses[0], rtol=1e-2, atol=1e-4)
    finally:
        Recording.run = run  # type: ignore[method-assign]
    for a, b in zip(eager.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-2, atol=1e-2)
    assert count[0] >= 24, f"{count[0]} of 72 calls were replayed"
    return f"{count[0]} of 72 calls were replayed"


def in_use() -> int:
    """Bytes of the GPU's memory that stay, but for workspaces of cuBLAS."""
    torch.cuda.synchronize()
    torch._C._cuda_clearCublasWorkspaces()  # type: ignore[attr-defined]
    torch.cuda.empty_cache()
    return torch.cuda.memory_reserved()


@check("host/cuda graphs, one pool")
def _(_: Any) -> str:
    """Recordings of several graphs have their intermediate values in the same memory, larger here than elsewhere."""
    wide = 1 << 18
    models = [nn.Sequential(nn.Linear(64, wide), nn.GELU(), nn.Linear(wide, 64)).to(GPU) for _ in range(3)]
    x, y, grown = rand(256, 64), None, list[int]()
    with replays() as found, torch.no_grad():
        for model in models:
            torch._dynamo.reset()  # each is a graph of its own
            fast = recorded(model)
            before = in_use()
            for _ in range(5):
                y = fast(x)
            grown.append(in_use() - before)
            torch.testing.assert_close(y, model(x), rtol=1e-3, atol=1e-3)
    assert len(found) == 12, f"{len(found)} of 15 calls were replayed"
    inside = 256 * wide * 4
    assert grown[0] >= inside, f"{grown[0]} bytes for the first"
    assert max(grown[1:]) <= inside // 8, f"{grown[1:]} bytes more for each of the others"
    return f"{grown[0] >> 20} MiB for the first, {max(grown[1:]) >> 20} for others"


@check("host/cuda graphs, what stays")
def _(_: Any) -> str:
    """Parameters are read where they are: only the input is copied."""
    from lamella.frontend.cuda_recording import Recording

    model, found, run = Block().to(GPU), list[Any](), Recording.run

    def noted(self: Any, inputs: Any) -> Any:
        found.append(self)
        return run(self, inputs)

    Recording.run = noted  # type: ignore[method-assign]
    try:
        with torch.no_grad():
            fast = recorded(model)
            for _ in range(5):
                fast(rand(2, 32, 128))
    finally:
        Recording.run = run  # type: ignore[method-assign]
    assert found and len(found[-1].buffers) <= 1, f"{[len(r.buffers) for r in found]} inputs are copied"
    assert len(found[-1].fixed) >= len(list(model.parameters())) - 1
    return f"{len(found[-1].fixed)} inputs stay"


@check("host/cuda graphs, reasons")
def _(_: Any) -> str:
    """`explain` says why a graph is not recorded."""
    import lamella

    def waits(x: torch.Tensor) -> torch.Tensor:
        return x[x > 0].sum() * 2

    def mixed(x: torch.Tensor) -> Any:
        return x * 2, torch.ones(3) + 1

    said: list[str] = []
    for program, word in ((waits, "waits for the GPU"), (mixed, "CPU")):
        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
            text = str(lamella.explain(program, rand(64)))
        lines = [line.strip() for line in text.splitlines() if word in line]
        assert lines, text
        said.append(lines[0][:60])
    return "; ".join(said)


@check("host/cuda graphs, whole step")
def _(_: Any) -> str:
    """Forward, loss, backward and optimizer as one function: all replayed, gradients where they were, as eager's."""
    eager = Block().to(GPU)
    model = copy.deepcopy(eager)
    optimizers = [torch.optim.AdamW(m.parameters(), 1e-2, capturable=GPU == "cuda") for m in (eager, model)]

    def step(model: nn.Module, optimizer: Any, x: torch.Tensor) -> torch.Tensor:
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        return loss

    fast = recorded(step)
    places: list[set[int]] = []
    with replays() as found:
        for _ in range(12):
            x = rand(2, 32, 128)
            wanted, loss = step(eager, optimizers[0], x), fast(model, optimizers[1], x)
            torch.testing.assert_close(loss, wanted, rtol=1e-3, atol=1e-5)
            places.append({p.grad.data_ptr() for p in model.parameters() if p.grad is not None})
    for a, b in zip(eager.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)
    assert all(p == places[-1] and p for p in places[1:]), "gradients moved"
    return f"{len(found)} replays in 12 steps"


@check("host/cuda graphs, step as one graph")
def _(_: Any) -> str:
    """The same with torch.func: one graph, parameters written where they are."""
    model = Block().to(GPU)
    weights = {k: v.detach().clone() for k, v in model.named_parameters()}
    ours = {k: v.clone() for k, v in weights.items()}

    def step(weights: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        def loss(w: dict[str, torch.Tensor]) -> torch.Tensor:
            return torch.func.functional_call(model, w, (x,)).square().mean()

        grads, value = torch.func.grad_and_value(loss)(weights)
        for k, w in weights.items():
            w.sub_(grads[k], alpha=0.05)
        return value

    fast = recorded(step)
    with replays() as found, torch.no_grad():
        for _ in range(8):
            x = rand(2, 32, 128)
            torch.testing.assert_close(fast(ours, x), step(weights, x), rtol=1e-3, atol=1e-5)
    for k, w in weights.items():
        torch.testing.assert_close(ours[k], w, rtol=1e-3, atol=1e-4)
    assert len(found) == 7, f"{len(found)} of 8 calls were replayed"
    return f"{len(found)} of 8 calls were replayed"


@check("host/cuda graphs, workspaces that others drop")
def _(_: Any) -> str:
    """As Inductor does before it records; then nothing, or other tensors, would lie where products have them."""
    from lamella.frontend.cuda_recorder import recorder_of

    x, w = rand(64, 16384, dtype=torch.bfloat16), rand(16384, 64, dtype=torch.bfloat16)
    recorder = recorder_of(torch.cuda.current_device())
    for asked in (False, True):
        replay, (y,), _ = recorder.record(lambda inputs: (inputs[0] @ w,), [x], own=True, asked=asked)
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()
        replay()
        others = [torch.zeros(1 << 20, device=GPU) for _ in range(256)]
        for _ in range(4):
            y.zero_()
            replay()
            same(y, x @ w, x.double() @ w.double())
        assert not any(t.any() for t in others), "a product has written elsewhere"
    return ""


@check("host/several gpus, graphs")
def _(_: Any) -> str:
    """Recordings of each GPU, whichever is current; a training step on the second; one graph on both."""
    if torch.cuda.device_count() < 2:
        raise Skip("one GPU here")
    models = [Block().to(f"cuda:{i}") for i in range(2)]
    fast = [recorded(m) for m in models]
    with replays() as found, torch.no_grad():
        for turn in range(8):
            for i in (0, 1):
                with torch.cuda.device(turn % 2):
                    x = torch.randn(2, 32, 128, device=f"cuda:{i}")
                    torch.testing.assert_close(fast[i](x), models[i](x), rtol=1e-4, atol=1e-5)
    assert len(found) >= 10, f"{len(found)} of 16 calls were replayed"
    eager = copy.deepcopy(models[1])
    steps = [(m, torch.optim.AdamW(m.parameters(), 1e-2)) for m in (eager, models[1])]
    run = compiled(models[1])
    for _ in range(3):
        x = torch.randn(2, 32, 128, device="cuda:1")
        for (_, optimizer), program in zip(steps, (eager, run), strict=True):
            program(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    for a, b in zip(eager.parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)

    def both(x: torch.Tensor, w: torch.Tensor) -> Any:
        y = (x.sin() @ x).softmax(-1)
        return y, (y.to(w.device) @ w).relu().sum(-1), w.to(x.device) + y

    x, w = torch.randn(64, 64, device="cuda:0"), torch.randn(64, 64, device="cuda:1")
    for a, e in zip(compiled(both)(x, w), both(x, w), strict=True):
        assert a.device == e.device
        torch.testing.assert_close(a, e, rtol=1e-4, atol=1e-4)
    return f"{len(found)} of 16 calls were replayed"
