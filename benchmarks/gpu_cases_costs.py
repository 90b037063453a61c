"""What calls and compiling cost on a GPU; part of `gpu_check.py`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from gpu_cases import GPU, Skip, check, compiled, rand
from gpu_cases_models import Block
from torch import nn


def microseconds(f: Callable[[], Any], calls: int = 200, rounds: int = 11) -> float:
    """Of the calling thread: the GPU is waited for between rounds only."""
    for _ in range(20):
        f()
    torch.cuda.synchronize()
    times: list[float] = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            f()
        times.append((time.perf_counter() - start) / calls * 1e6)
        torch.cuda.synchronize()
    return statistics.median(times)


LAUNCHES = 100
_TYPE = "!sym.t<[1024], f32, device=cuda:0>"


def launch_program(launches: int) -> str:
    """A host program that launches a kernel once, and so many times more, from one buffer to another and back."""
    lines = [
        f"host.launch @step(%{'ab'[i % 2]}) outs(%{'ba'[i % 2]}) sizes [] : {_TYPE}, {_TYPE}" for i in range(launches)
    ]
    body = "\n".join(lines)
    return f"""
        loop.kernel @step(%x: {_TYPE}) outs(%y: {_TYPE}) sizes [] grid [d0 = 1024] {{
          %c = arith.constant 1.0 : f32
          %v = loop.load %x[d0] : {_TYPE}
          %w = arith.addf %v, %c : f32
          loop.store %w, %y[d0] : {_TYPE}
          loop.end
        }}
        host.func @main(%x: {_TYPE}) -> {_TYPE} {{
          host.check %x "x" : {_TYPE}
          %a = host.empty : {_TYPE}
          %b = host.empty : {_TYPE}
          host.launch @step(%x) outs(%a) sizes [] : {_TYPE}, {_TYPE}
          {body}
          host.return %a : {_TYPE}
        }}
        """


@check("cost/launch of a kernel")
def _(_: Any) -> str:
    from lamella import driver
    from lamella.dialects.text import parse_module

    options = driver.Options()
    target, gpu = driver.target_of(options), driver.gpu_of(options)
    passes = driver.pipeline(options, target, gpu).split(",")
    x, times = torch.zeros(1024, device=GPU), {}
    for launches in (0, LAUNCHES):
        module = parse_module(launch_program(launches))
        driver.run_passes(module, ",".join(passes[passes.index("bufferize") + 1 :]))
        function = driver.native(module, target, gpu).function()
        times[launches] = microseconds(lambda function=function: function([x]), calls=20)
    each = (times[LAUNCHES] - times[0]) / LAUNCHES
    assert each < 8, f"{each:.2f} us"
    return f"{each:.2f} us each; a call that allocates two tensors and launches once {times[0]:.1f} us"


@check("cost/call of a small graph")
def _(_: Any) -> str:
    x = rand(1024)
    fast = compiled(lambda x: (x * 2 + 1).relu())
    return f"compiled {microseconds(lambda: fast(x)):.1f} us, eager {microseconds(lambda: (x * 2 + 1).relu()):.1f} us"


@check("cost/cuda graphs")
def _(_: Any) -> str:
    """A forward of a small model of many kernels."""
    model, x = nn.Sequential(*(Block() for _ in range(6))).to(GPU).eval(), rand(1, 16, 128)
    with torch.no_grad():
        plain, graphs = compiled(model), compiled(model, options={"cuda_graphs": True})
        texts = [f"{name} {microseconds(lambda f=f: f(x), calls=30):.0f} us"
                 for name, f in (("eager", model), ("compiled", plain), ("recorded", graphs))]  # fmt: skip
    return ", ".join(texts)


@check("cost/call of a small graph, inductor")
def _(arguments: Any) -> str:
    if not arguments.inductor:
        raise Skip("without --inductor")
    x = rand(1024)
    fast = torch.compile(lambda x: (x * 2 + 1).relu())
    return f"{microseconds(lambda: fast(x)):.1f} us"


@check("cost/matmul through the shim")
def _(_: Any) -> str:
    x, y = rand(64, 64), rand(64, 64)
    fast, out = compiled(lambda x, y: x @ y @ y @ y @ y), torch.empty(64, 64, device=GPU)

    def eager() -> None:
        for _ in range(4):
            torch.mm(x, y, out=out)

    ours, theirs = microseconds(lambda: fast(x, y)), microseconds(eager)
    return f"four in a graph {ours:.1f} us, four of eager's mm(out=) {theirs:.1f} us"


@check("cost/compiling")
def _(_: Any) -> str:
    """A block of a transformer: from nothing, and from the cache on disk."""
    model, x = Block().to(GPU), rand(2, 32, 128)
    times: list[float] = []
    with torch.no_grad():
        for _ in range(2):
            torch._dynamo.reset()
            start = time.perf_counter()
            compiled(model)(x)
            torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
    return f"cold {times[0]:.2f} s, warm {times[1]:.2f} s"
