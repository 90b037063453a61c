"""What compiling costs against the number of layers, for GPT-2: import, every pass, LLVM text and machine code.

    python benchmarks/layers.py [--layers 1,4,16,64] [--repeat 3] [--static] [--cpu-clock]

Milliseconds, the minimum of `--repeat` runs in one process, after one that warms the tables. `IR` is all but the
machine code; `per layer` is what each layer costs that the row has more than the one before.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
import transformers
from harness import table

from lamella import driver
from lamella.codegen.jit import compile_object
from lamella.codegen.llvm_text import emit
from lamella.dialects.collection import without_collection
from lamella.frontend.import_fx import import_graph


def graph_of(layers: int, dynamic: bool) -> Any:
    """The FX graph that torch.compile hands over for a GPT-2 of that depth; `dynamic`: symbolic in batch and length."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func

    config = transformers.GPT2Config(
        n_layer=layers, n_embd=128, n_head=4, vocab_size=256, use_cache=False, bos_token_id=1, eos_token_id=2
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    graphs: list[Any] = []

    def keep(graph: Any, _inputs: Any) -> Any:
        graphs.append(graph)
        return make_boxed_func(graph.forward)

    torch._dynamo.reset()
    compiled = torch.compile(model, backend=aot_autograd(fw_compiler=keep), dynamic=dynamic)
    with torch.no_grad():
        compiled(input_ids=torch.randint(0, 256, (2, 16)))
    return graphs[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", default="1,4,16,64")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--static", action="store_true", help="sizes are numbers")
    parser.add_argument("--cpu-clock", action="store_true", help="CPU time of the process instead of wall time")
    options = parser.parse_args()
    clock = time.process_time if options.cpu_clock else time.perf_counter
    target = driver.target_of(driver.Options())
    passes = driver.pipeline(driver.Options(), target)
    header: list[str] = []
    rows: list[list[str]] = []
    before = (0, 0.0)
    for layers in map(int, options.layers.split(",")):
        graph = graph_of(layers, not options.static)
        runs = [compile_times(graph, target, passes, clock) for _ in range(options.repeat + 1)][1:]
        best = {k: min(r[k] for _, r in runs) for k in runs[0][1]}
        ir, total = sum(best.values()) - best["code"], sum(best.values())
        per_layer = (total - before[1]) / (layers - before[0])
        before = (layers, total)
        rows.append(
            [str(v) for v in (layers, runs[0][0])] + [f"{v:.0f}" for v in (total, per_layer, ir, *best.values())]
        )
        header = ["layers", "aten ops", "all", "per layer", "IR", *best]
        print(" ".join(rows[-1]), flush=True)
    print(table(header, rows))


def compile_times(graph: Any, target: Any, passes: str, clock: Callable[[], float]) -> tuple[int, dict[str, float]]:
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
        text = emit(module)
        times["text"] = (clock() - start) * 1e3
        start = clock()
        compile_object(text, target)
        times["code"] = (clock() - start) * 1e3
    return ops, times


if __name__ == "__main__":
    main()
