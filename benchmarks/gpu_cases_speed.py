"""How fast kernels are on a GPU, beside a copy, eager and TorchInductor; part of `gpu_check.py`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from gpu_cases import GPU, Case, check, compiled, flat, ints, rand


def gpu_microseconds(f: Callable[[], Any], rounds: int = 15) -> float:
    """Of the GPU, with work queued ahead so that it never waits for the caller."""
    for _ in range(3):
        f()
    torch.cuda.synchronize()
    start = time.perf_counter()
    f()
    torch.cuda.synchronize()
    calls = max(5, min(200, int(0.02 / max(time.perf_counter() - start, 1e-6))))
    times: list[float] = []
    for _ in range(rounds):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(4_000_000)
        a.record()
        for _ in range(calls):
            f()
        b.record()
        torch.cuda.synchronize()
        times.append(a.elapsed_time(b) / calls * 1e3)
    return statistics.median(times)


def bandwidth() -> float:
    """TB/s of a copy."""
    source = torch.empty(1 << 28, dtype=torch.uint8, device=GPU)
    target = torch.empty_like(source)
    return 2 * source.numel() / gpu_microseconds(lambda: target.copy_(source)) / 1e6


def _bytes(*tensors: Any) -> int:
    return sum(t.numel() * t.element_size() for t in flat(tensors))


SPEED: dict[str, Case] = {
    "add 64M": (lambda x, y: x + y, lambda t: (rand(1 << 26, dtype=t), rand(1 << 26, dtype=t))),
    "gelu 64M": (lambda x: F.gelu(x * 1.5 + 0.5), lambda t: (rand(1 << 26, dtype=t),)),
    "softmax 16384x1008": (lambda x: x.softmax(-1), lambda t: (rand(16384, 1008, dtype=t),)),
    "softmax 16384x4096": (lambda x: x.softmax(-1), lambda t: (rand(16384, 4096, dtype=t),)),
    "layer_norm 16384x4096": (
        lambda x, w, b: F.layer_norm(x, (4096,), w, b),
        lambda t: (rand(16384, 4096, dtype=t), rand(4096, dtype=t), rand(4096, dtype=t)),
    ),
    "sum rows 16384x4096": (lambda x: x.sum(-1), lambda t: (rand(16384, 4096, dtype=t),)),
    "sum columns 16384x4096": (lambda x: x.sum(0), lambda t: (rand(16384, 4096, dtype=t),)),
    "sum all 64M": (lambda x: x.sum(), lambda t: (rand(1 << 26, dtype=t),)),
    "transpose 8192": (lambda x, y: x.t() + y, lambda t: (rand(8192, 8192, dtype=t), rand(8192, 8192, dtype=t))),
    "embedding 64Kx1024": (
        lambda w, i: F.embedding(i, w) * 2,
        lambda t: (rand(50000, 1024, dtype=t), ints(50000, 65536)),
    ),
    "cumsum 16384x1024": (lambda x: x.cumsum(-1), lambda t: (rand(16384, 1024, dtype=t),)),
}


def _speed(name: str, dtype: torch.dtype) -> Callable[[Any], str]:
    def run(arguments: Any) -> str:
        program, make = SPEED[name]
        inputs = make(dtype)
        copy_rate = bandwidth()
        fast = compiled(program, dynamic=False)
        results = fast(*inputs)
        read = [i for i in inputs if i.shape[0] != 50000]
        moved = _bytes(*read, results) + (_bytes(results) if len(read) < len(inputs) else 0)
        ours, eager = gpu_microseconds(lambda: fast(*inputs)), gpu_microseconds(lambda: program(*inputs))
        text = f"{ours:.1f} us, {moved / ours / 1e6:.2f} of {copy_rate:.2f} TB/s; eager {eager / ours:.2f}x"
        if arguments.inductor:
            other = torch.compile(program, dynamic=False)
            text += f", inductor {gpu_microseconds(lambda: other(*inputs)) / ours:.2f}x"
        return text

    return run


for _name in SPEED:
    for _dtype, _short in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
        check(f"speed/{_name} {_short}")(_speed(_name, _dtype))
