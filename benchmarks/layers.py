"""What compiling costs against the number of layers, for GPT-2: import, every pass, LLVM text and machine code.

    python benchmarks/layers.py [--layers 1,4,16,64] [--repeat 1] [--static] [--cpu-clock] [--out results.json]

Milliseconds, the minimum of `--repeat` runs in one process, after one that warms the tables. `ours` is the sum of the
steps, `per layer` what each layer costs that the row has more than the one before, `IR` all but the machine code. Apart
from that, once each: `first call` of the model with empty caches, and `torch` of it, all but what is made of the graph
that AOTAutograd hands over. A row takes about as long as 1.5 of its first calls; rows are printed as they are done, and
none is begun after `--seconds`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
import transformers
from harness import results, table

from lamella import driver
from lamella.codegen import jit
from lamella.codegen.llvm_parts import emit_parts
from lamella.dialects.collection import without_collection
from lamella.frontend.backend import Backend
from lamella.frontend.import_fx import import_graph

Clock = Callable[[], float]


def model_of(layers: int) -> torch.nn.Module:
    config = transformers.GPT2Config(
        n_layer=layers, n_embd=128, n_head=4, vocab_size=256, use_cache=False, bos_token_id=1, eos_token_id=2
    )
    return transformers.GPT2LMHeadModel(config).eval()


class Timed(Backend):
    """The backend without its cache. It keeps the graph it is given, and how long it takes with it."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(driver.Options(cache=False), driver.compile_module)
        self.clock = clock
        self.taken = 0.0
        self.given: Any = None

    def compile_graph(self, graph: Any, *others: Any, **named: Any) -> Any:
        start = self.clock()
        self.given = graph
        compiled = super().compile_graph(graph, *others, **named)
        self.taken += (self.clock() - start) * 1e3
        return compiled


def first_call(model: torch.nn.Module, dynamic: bool, clock: Clock, backend: Any) -> float:
    """Milliseconds of compiling and calling `model` once, symbolic in batch and length where `dynamic`."""
    torch._dynamo.reset()
    compiled = torch.compile(model, dynamic=dynamic, backend=backend)
    ids = torch.randint(0, 256, (2, 16))
    with torch.no_grad():
        start = clock()
        compiled(input_ids=ids)
        return (clock() - start) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", default="1,4,16,64")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--static", action="store_true", help="sizes are numbers")
    parser.add_argument("--cpu-clock", action="store_true", help="CPU time of the process instead of wall time")
    parser.add_argument("--seconds", type=float, default=120, help="begin no row after so many")
    parser.add_argument("--out", help="file for the results")
    options = parser.parse_args()
    clock = time.process_time if options.cpu_clock else time.perf_counter
    target = driver.target_of(driver.Options())
    passes = driver.pipeline(driver.Options(), target)
    rows: list[dict[str, Any]] = []
    dynamic = not options.static
    for warm in ("eager", Timed(clock)):
        first_call(model_of(1), dynamic, clock, warm)
    began = time.monotonic()
    for layers in map(int, options.layers.split(",")):
        if time.monotonic() - began > options.seconds:
            print(f"{layers} layers: no time left", flush=True)
            continue
        backend = Timed(clock)
        whole = first_call(model_of(layers), dynamic, clock, backend)
        runs = [compile_times(backend.given, target, passes, clock) for _ in range(options.repeat + 1)][1:]
        steps = {k: min(r[k] for _, r in runs) for k in runs[0][1]}
        taken = {"first call": whole, "torch": whole - backend.taken}
        rows.append({"layers": layers, "ops": runs[0][0], **taken, "steps": steps})
        print(*rows[-1].values(), flush=True)
    print(shown(rows))
    results(options.out, "layers", rows)


def shown(rows: list[dict[str, Any]]) -> str:
    """The rows as a table."""
    header = ["layers", "aten ops", "first call", "torch", "ours", "per layer", "IR", *rows[0]["steps"]]
    lines: list[list[str]] = []
    before = (0, 0.0)
    for row in rows:
        ours = sum(row["steps"].values())
        added = (ours - before[1]) / (row["layers"] - before[0])
        before = (row["layers"], ours)
        figures = [row["first call"], row["torch"], ours, added, ours - row["steps"]["code"], *row["steps"].values()]
        lines.append([str(row["layers"]), str(row["ops"]), *(f"{v:.0f}" for v in figures)])
    return table(header, lines)


def compile_times(graph: Any, target: Any, passes: str, clock: Clock) -> tuple[int, dict[str, float]]:
    """ATen ops of the graph, and milliseconds by step."""
    with without_collection():
        start = clock()
        module = import_graph(graph).module
        times = {"import": (clock() - start) * 1e3}
        ops = sum(1 for _ in module.walk())
        marks = [clock()]
        records = driver.run_passes(module, passes, verify=False, after=[lambda *_: marks.append(clock())])
        times |= {r.name: (b - a) * 1e3 for r, (a, b) in zip(records, pairwise(marks), strict=True)}
        start = clock()
        texts = emit_parts(module, target.cores)
        times["text"] = (clock() - start) * 1e3
        start = clock()
        jit.compile_objects(texts, target)
        times["code"] = (clock() - start) * 1e3
    return ops, times


if __name__ == "__main__":
    main()
