"""`mode="max-autotune-no-cudagraphs"` on one GPU: what it chooses for products of small models, what that brings.

    python benchmarks/gpu_autotune.py

Each model is compiled without and with it; times are of calls in a CUDA graph, errors against float64 beside eager's.
The second compilation finds the measurements on disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from gpu_kernels import error, microseconds
from torch import nn

import lamella


class Gated(nn.Module):
    """The feed-forward part of a Llama layer."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Any) -> Any:
        return x + self.down(F.silu(self.gate(x)) * self.up(x))


class Perceptron(nn.Module):
    """Layers with bias and gelu."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = F.gelu(layer(x))
        return x


CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "gated, 1 row": (lambda: Gated(4096, 14336), (1, 1, 4096)),
    "gated, 8 rows": (lambda: Gated(4096, 14336), (8, 1, 4096)),
    "perceptron 512": (lambda: Perceptron(512, 6), (512, 512)),
    "perceptron 768": (lambda: Perceptron(768, 4), (4096, 768)),
}


def run(name: str, make: Callable[[], nn.Module], shape: tuple[int, ...]) -> str:
    """A line of the table."""
    torch.manual_seed(0)
    model, x = make().cuda().bfloat16().eval(), torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    eager, microseconds_eager = model(x), microseconds(lambda: model(x))
    reference = model.double()(x.double())
    model.bfloat16()
    row = [f"{name:16} eager {microseconds_eager:.1f} us, error {error([eager], [reference]):.1e}"]
    for mode in ("default", *["max-autotune-no-cudagraphs"] * 2):
        torch._dynamo.reset()
        compiled: Any = lamella.compile(model, mode=mode)
        start = time.perf_counter()
        got = compiled(x)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        us = microseconds(partial(compiled, x))
        row.append(f"{mode} {us:.1f} us, error {error([got], [reference]):.1e}, compiled in {seconds:.1f} s")
    return "; ".join(row)


def main() -> None:
    torch.set_grad_enabled(False)
    for name, (make, shape) in CASES.items():
        print(run(name, make, shape), flush=True)
    torch._dynamo.reset()
    x = torch.randn(512, 512, device="cuda").bfloat16()
    report = lamella.explain(Perceptron(512, 2).cuda().bfloat16().eval(), x)
    print("\n".join(line for line in str(report).splitlines() if "->bf16" in line))


if __name__ == "__main__":
    main()
