"""What compiling costs against the number of layers, for GPT-2: import, every pass, LLVM text and machine code.

    python benchmarks/layers.py [--layers 1,4,16,64] [--repeat 3] [--static] [--cpu-clock] [--out results.json]

Milliseconds, the minimum of `--repeat` runs in one process, after one that warms the tables. `ours` is the sum of the
steps, `per layer` what each layer costs that the row has more than the one before, `IR` all but the machine code. Apart
from that, once each: `first call` of the model with empty caches, and `torch` of it, a first call where nothing is made
of what TorchDynamo and AOTAutograd hand over, driven as they are for Lamella. (torch's own `aot_autograd` traces this
model twice: it makes constants of floats that are symbols, and begins again.)
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
from torch._functorch.aot_autograd import make_boxed_func
from torch._functorch.partitioners import min_cut_rematerialization_partition

from lamella import driver
from lamella.codegen import jit
from lamella.codegen.llvm_parts import emit_parts
from lamella.dialects.collection import without_collection
from lamella.frontend.import_fx import import_graph
from lamella.frontend.torch_compat import aot_compile

Clock = Callable[[], float]


def model_of(layers: int) -> torch.nn.Module:
    config = transformers.GPT2Config(
        n_layer=layers, n_embd=128, n_head=4, vocab_size=256, use_cache=False, bos_token_id=1, eos_token_id=2
    )
    return transformers.GPT2LMHeadModel(config).eval()


def first_call(model: torch.nn.Module, dynamic: bool, clock: Clock, **how: Any) -> float:
    """Milliseconds of compiling and calling `model` once."""
    torch._dynamo.reset()
    compiled = torch.compile(model, dynamic=dynamic, **how)
    ids = torch.randint(0, 256, (2, 16))
    with torch.no_grad():
        start = clock()
        compiled(input_ids=ids)
        return (clock() - start) * 1e3


def graph_of(model: torch.nn.Module, dynamic: bool, clock: Clock) -> tuple[Any, float]:
    """The FX graph that torch.compile hands over, and the milliseconds it took to get there. `dynamic`: symbolic in
    batch and length.
    """
    graphs: list[Any] = []

    def keep(graph: Any, _inputs: Any) -> Any:
        graphs.append(graph)
        return make_boxed_func(graph.forward)

    def backend(graph: Any, inputs: Any) -> Any:
        return aot_compile(graph, inputs, keep, keep, keep, min_cut_rematerialization_partition)

    taken = first_call(model, dynamic, clock, backend=backend)
    return graphs[0], taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", default="1,4,16,64")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--static", action="store_true", help="sizes are numbers")
    parser.add_argument("--cpu-clock", action="store_true", help="CPU time of the process instead of wall time")
    parser.add_argument("--out", help="file for the results")
    options = parser.parse_args()
    clock = time.process_time if options.cpu_clock else time.perf_counter
    target = driver.target_of(driver.Options())
    passes = driver.pipeline(driver.Options(), target)
    rows: list[dict[str, Any]] = []
    dynamic = not options.static
    for warm in ({"backend": "eager"}, {"backend": "lamella", "options": {"cache": False}}):
        first_call(model_of(1), dynamic, clock, **warm)
    for layers in map(int, options.layers.split(",")):
        model = model_of(layers)
        graph, torchs = graph_of(model, dynamic, clock)
        whole = first_call(model, dynamic, clock, backend="lamella", options={"cache": False})
        runs = [compile_times(graph, target, passes, clock) for _ in range(options.repeat + 1)][1:]
        steps = {k: min(r[k] for _, r in runs) for k in runs[0][1]}
        rows.append({"layers": layers, "ops": runs[0][0], "first call": whole, "torch": torchs, "steps": steps})
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
