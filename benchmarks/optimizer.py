"""Optimizer steps over many parameters, compiled, against eager's own: what compiling costs, and what a step does.

    python benchmarks/optimizer.py [--parameters 10,100,400] [--optimizers adamw,sgd] [--device cpu] [--inductor]

Parameters are those of a transformer of width `--width`, block after block. Times are milliseconds: `compile` is what
Lamella makes of the graph, `first` the whole first call with TorchDynamo and AOTAutograd; steps are medians of
interleaved rounds, ratios medians of paired rounds (over 1: Lamella is faster).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from harness import interleaved, median_ratio, table

from lamella import driver

OPTIMIZERS: dict[str, tuple[type[torch.optim.Optimizer], dict[str, Any]]] = {
    "sgd": (torch.optim.SGD, {"lr": 1e-3, "momentum": 0.9}),
    "adam": (torch.optim.Adam, {"lr": 1e-3}),
    "adamw": (torch.optim.AdamW, {"lr": 1e-3}),
    "rmsprop": (torch.optim.RMSprop, {"lr": 1e-3}),
    "adagrad": (torch.optim.Adagrad, {"lr": 1e-3}),
}

FUSED = ("sgd", "adam", "adamw", "adagrad")
"""Optimizers of which torch has a kernel of its own."""


def parameters(count: int, width: int, device: str) -> list[torch.nn.Parameter]:
    """The first `count` parameters of a GPT of that width, with gradients."""
    d = width
    block = [(d,), (d,), (3 * d, d), (3 * d,), (d, d), (d,), (d,), (d,), (4 * d, d), (4 * d,), (d, 4 * d), (d,)]
    shapes = [(32 * d, d), (1024, d), *(block * (count // len(block) + 1))][:count]
    made = [torch.nn.Parameter(torch.randn(s, device=device)) for s in shapes]
    for p in made:
        p.grad = torch.randn_like(p)
    return made


def step_of(name: str, params: list[torch.nn.Parameter], compiler: str | None, **options: Any) -> Callable[[], Any]:
    """The step of a new optimizer over copies of the parameters."""
    copies = [torch.nn.Parameter(p.detach().clone()) for p in params]
    for c, p in zip(copies, params, strict=True):
        c.grad = p.grad
    kind, settings = OPTIMIZERS[name]
    optimizer = kind(copies, **settings, **options)
    if compiler is None:
        return optimizer.step
    backend: Any = driver.lamella if compiler == "lamella" else compiler
    return torch.compile(optimizer.step, backend=backend)


def first_call(step: Callable[[], Any]) -> tuple[float, float]:
    """Milliseconds of the first call, and of what Lamella does in it."""
    inside = 0.0
    compile_module = driver.compile_module

    def timed(*args: Any, **kwargs: Any) -> Any:
        nonlocal inside
        start = time.process_time()
        made = compile_module(*args, **kwargs)
        inside += time.process_time() - start
        return made

    driver.compile_module = timed
    try:
        start = time.process_time()
        step()
        return (time.process_time() - start) * 1e3, inside * 1e3
    finally:
        driver.compile_module = compile_module


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parameters", default="10,100,400")
    parser.add_argument("--optimizers", default="adamw,sgd")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--inductor", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    rows: list[list[str]] = []
    for name in given.optimizers.split(","):
        for count in map(int, given.parameters.split(",")):
            rows.append(measure(name, parameters(count, given.width, given.device), given))
            print(" ".join(rows[-1]), flush=True)
    header = ["optimizer", "parameters", "compile", "first", "step", "foreach", "fused", "inductor"]
    print(table(header, rows))


def measure(name: str, params: list[torch.nn.Parameter], given: argparse.Namespace) -> list[str]:
    """A row of the table."""
    torch._dynamo.reset()
    steps = {"lamella": step_of(name, params, "lamella"), "foreach": step_of(name, params, None, foreach=True)}
    if name in FUSED:
        steps["fused"] = step_of(name, params, None, fused=True)
    if given.inductor:
        steps["inductor"] = step_of(name, params, "inductor")
    first, inside = first_call(steps["lamella"])
    if given.device != "cpu":
        steps = {k: synchronized(f) for k, f in steps.items()}
    times = interleaved(steps, rounds=given.rounds)
    ms = {k: f"{statistics.median(t) * 1e3:.3f}" for k, t in times.items()}
    shown = [
        f"{ms[k]} ({median_ratio(times[k], times['lamella']):.2f}x)" if k in times else ""
        for k in ("foreach", "fused", "inductor")
    ]
    return [name, str(len(params)), f"{inside:.0f}", f"{first:.0f}", ms["lamella"], *shown]


def synchronized(step: Callable[[], Any]) -> Callable[[], Any]:
    """The step, and everything it has started."""

    def run() -> None:
        step()
        torch.cuda.synchronize()

    return run


if __name__ == "__main__":
    main()
