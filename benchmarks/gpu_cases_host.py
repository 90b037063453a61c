"""Checks of calls on a GPU: sizes, streams, threads, memory, several GPUs; part of `gpu_check.py`."""

from __future__ import annotations

import threading
from typing import Any

import torch
from gpu_cases import GPU, Skip, agree, check, compiled, rand, same


@check("host/dynamic sizes")
def _(_: Any) -> str:
    def program(x: torch.Tensor) -> Any:
        return (x.softmax(-1) * 2).sum(0), x.t().contiguous()

    fast = compiled(program, dynamic=True)
    for n, m in ((7, 13), (128, 64), (1, 5), (33, 2000), (0, 4)):
        x = rand(n, m)
        same(fast(x), program(x), program(x.double()))
    return ""


@check("host/misaligned inputs")
def _(_: Any) -> str:
    fast = compiled(lambda x, y: (x * 2 + y).relu())
    base = rand(4100)
    for offset in (0, 1, 2, 3, 4):
        x, y = base[offset : offset + 4096], base[:4096]
        same(fast(x, y), (x * 2 + y).relu(), (x.double() * 2 + y.double()).relu())
    return ""


@check("host/strided inputs")
def _(_: Any) -> str:
    x = rand(64, 128)
    details = [agree(lambda x: x.exp() + 1, v) for v in (x.t(), x[:, ::2], x[::3], x[:1].expand(8, 128))]
    return details[-1]


@check("host/changed inputs")
def _(_: Any) -> str:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        y[3:5] = 0
        return x * y

    a, b = rand(100), rand(100)
    c, d = a.clone(), b.clone()
    same((compiled(program)(a, b), a, b), (program(c, d), c, d), (c * d, c, d))
    return ""


@check("host/aliases")
def _(_: Any) -> str:
    x = rand(10, 20)
    found = compiled(lambda x: (x.view(200), x.t(), x + 1, x))(x)
    assert found[0].data_ptr() == x.data_ptr() and found[1].data_ptr() == x.data_ptr() and found[3] is x
    return ""


@check("host/streams")
def _(_: Any) -> str:
    """Kernels run on the stream that is current: behind a long wait there, and not before."""
    fast = compiled(lambda x: x * 2 + 1)
    x = torch.zeros(1 << 20, device=GPU)
    fast(x)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)
        x.fill_(3.0)
        y = fast(x)
        done = torch.cuda.Event()
        done.record()
    early = done.query()
    torch.cuda.current_stream().wait_stream(side)
    assert not early and bool((y == 7).all())
    return ""


@check("host/threads")
def _(_: Any) -> str:
    """A thread that has not used CUDA yet, and several at once."""
    fast = compiled(lambda x: (x.sin() * 2).sum(-1))
    x = rand(100, 100)
    want = fast(x)
    wrong: list[str] = []

    def call() -> None:
        try:
            for _ in range(50):
                if not torch.equal(fast(x), want):
                    wrong.append("another result")
        except Exception as error:
            wrong.append(str(error))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[0]
    return ""


@check("host/cpu and gpu")
def _(_: Any) -> str:
    """Tensors of both, numbers in CPU tensors, and transfers."""
    x, y = rand(50, 60), torch.randn(50, 60)

    def program(x: torch.Tensor, y: torch.Tensor, s: torch.Tensor) -> Any:
        return x * s + 1, y.exp() * 2, (y * 2).to(x.device) + x, x.cpu() + y

    return agree(program, x, y, torch.tensor(2.5))


@check("host/inference mode")
def _(_: Any) -> str:
    fast, x = compiled(lambda x: (x * 2, x.view(-1))), rand(10, 10)
    with torch.inference_mode():
        same(fast(x)[0], x * 2, x.double() * 2)
    with torch.no_grad():
        same(fast(x)[0], x * 2, x.double() * 2)
    return ""


@check("host/many gradients at once")
def _(_: Any) -> str:
    """A backward in torch's own vmap, in the thread in which torch computes derivatives on a GPU."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return (x.sin() * x).softmax(0)

    fast = compiled(program)
    x = rand(5).requires_grad_()

    def rows(f: Any, x: torch.Tensor) -> torch.Tensor:
        eye = torch.eye(5, device=x.device, dtype=x.dtype)
        return torch.autograd.grad(f(x), x, eye, is_grads_batched=True)[0]

    for _ in range(4):
        same(rows(fast, x), rows(program, x), rows(program, x.detach().double().requires_grad_()))
    return ""


@check("host/no inputs and no kernels")
def _(_: Any) -> str:
    fast = compiled(lambda: torch.randint(0, 10, (64,), device=GPU), options={"random": "eager"})
    torch.manual_seed(0)
    found = fast()
    torch.manual_seed(0)
    assert torch.equal(found, torch.randint(0, 10, (64,), device=GPU))
    return ""


@check("host/wrong inputs")
def _(_: Any) -> str:
    from lamella.codegen.runtime import NativeGraph

    graphs: list[NativeGraph] = []
    init = NativeGraph.__init__

    def noted(self: NativeGraph, *given: Any) -> None:
        init(self, *given)
        graphs.append(self)

    NativeGraph.__init__ = noted  # type: ignore[method-assign]
    try:
        compiled(lambda x: x * 2)(rand(10))
    finally:
        NativeGraph.__init__ = init  # type: ignore[method-assign]
    for wrong in (torch.randn(10), rand(11), rand(10).double()):
        try:
            graphs[0]([wrong])
        except (TypeError, ValueError):
            continue
        raise AssertionError("a wrong input was taken")
    return ""


@check("host/memory")
def _(_: Any) -> str:
    """Calls leave nothing behind."""
    fast, x = compiled(lambda x: ((x.sin() @ x.t()).softmax(-1) @ x).sum(-1)), rand(512, 512)
    for _ in range(20):  # recordings keep what they need
        fast(x)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(100):
        fast(x)
    torch.cuda.synchronize()
    after = torch.cuda.memory_allocated()
    assert after <= before, f"{after - before} bytes more after 100 calls"
    return ""


@check("host/several gpus")
def _(_: Any) -> str:
    if torch.cuda.device_count() < 2:
        raise Skip("one GPU here")
    x, y = torch.randn(100, device="cuda:0"), torch.randn(100, device="cuda:1")

    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x * 2, y.exp() + 1, x.to(y.device) + y, x.sin()

    before = torch.cuda.current_device()
    detail = agree(program, x, y)
    assert torch.cuda.current_device() == before
    with torch.cuda.device(1):
        agree(program, x, y)
    return detail
