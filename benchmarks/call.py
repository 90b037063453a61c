"""What a call of a compiled function costs beside the work: a tiny function and a tiny module, in microseconds.

    python benchmarks/call.py [--rounds 21] [--out results.json]

Interleaved blocks in one process, medians of CPU time: nothing here runs in threads, and others may use the machine.
`graph` is a backend of torch.compile that gives back the graph it is given, `AOTAutograd` one that does so behind
AOTAutograd: what torch.compile costs by itself. `whole` is `lamella.compile(…, fullgraph=True)`. `guards` asks the
guards of the whole function or module and does no more.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from harness import interleaved, median_ratio, results, table
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func

import lamella
from lamella.frontend.fast_entry import Ways


def graph(module: Any, _inputs: Any) -> Any:
    return module.forward


aot = aot_autograd(fw_compiler=lambda module, _inputs: make_boxed_func(module.forward))


def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y


class Module(nn.Module):
    """A few layers: what guards cost grows with them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.LayerNorm(4) for _ in range(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def ways_of(call: Callable[[], Any]) -> list[Ways]:
    """What is known of code that `call` has torch.compile look for."""
    found: list[Ways] = []
    through = Ways.through

    def noted(self: Ways, *args: Any, **kwargs: Any) -> Any:
        found.append(self)
        return through(self, *args, **kwargs)

    Ways.through = noted
    try:
        call()
    finally:
        Ways.through = through
    return found


def measure(program: Callable[..., Any], arguments: dict[str, Any], rounds: int) -> dict[str, list[float]]:
    """Microseconds of each kind of call, a figure per round."""
    calls: dict[str, Callable[[], Any]] = {"eager": partial(program, *arguments.values())}
    whole = partial(lamella.compile(program, fullgraph=True), *arguments.values())
    (ways,) = ways_of(whole)
    calls["whole"] = whole
    values = {**({"self": program} if isinstance(program, nn.Module) else {}), **arguments}
    calls["guards"] = partial(ways.ways[0][1], values)
    for name, backend in (("Lamella", "lamella"), ("AOTAutograd", aot), ("graph", graph)):
        # Each has code of its own: torch.compile looks through all that was compiled of one function.
        calls[name] = partial(torch.compile(again(program), backend=backend), *arguments.values())
    assert calls["guards"]()
    times = interleaved(calls, rounds=rounds, block_ms=20, clock=time.process_time)
    return {name: [t * 1e6 for t in series] for name, series in times.items()}


def again(program: Any) -> Any:
    """A program that does the same by code of its own."""
    if isinstance(program, nn.Module):
        kind = type("Module", (Module,), {"forward": again(Module.forward)})
        return kind().eval()
    from types import FunctionType

    return FunctionType(program.__code__.replace(co_name=program.__name__), program.__globals__, program.__name__)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--out", help="file for the results")
    options = parser.parse_args()
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    rows: list[dict[str, Any]] = []
    with torch.no_grad():
        for name, program, arguments in (
            ("function", function, {"x": x, "y": y}),
            ("module", Module().eval(), {"x": x}),
        ):
            times = measure(program, arguments, options.rounds)
            row: dict[str, Any] = {"case": name, **{k: statistics.median(t) for k, t in times.items()}}
            row |= {f"Lamella over {b}": 1 / median_ratio(times[b], times["Lamella"]) for b in ("AOTAutograd", "graph")}
            rows.append(row | {"whole over eager": 1 / median_ratio(times["eager"], times["whole"])})
    print(shown(rows))
    results(options.out, "call", rows)


def shown(rows: list[dict[str, Any]]) -> str:
    """The rows as a table."""
    return table(
        ["case", *(f"{k}, us" if " over " not in k else k for k in list(rows[0])[1:])],
        [[row["case"], *(f"{v:.2f}" for k, v in row.items() if k != "case")] for row in rows],
    )


if __name__ == "__main__":
    main()
