"""How long the IR work takes against the number of layers: import and every pass, for GPT-2, without code generation.

    python benchmarks/ir_time.py [--layers 1,4,12,24] [--repeat 3]

Each figure is the minimum of `--repeat` runs in one process, after one run that warms the tables.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch
import transformers
from harness import table

from lamella import driver


def graph_of(layers: int) -> Any:
    """The FX graph that torch.compile hands over for a GPT-2 of that depth, symbolic in batch and length."""
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
    compiled = torch.compile(model, backend=aot_autograd(fw_compiler=keep), dynamic=True)
    with torch.no_grad():
        compiled(input_ids=torch.randint(0, 256, (2, 16)))
    return graphs[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", default="1,4,12,24")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    from lamella.codegen.llvm_text import emit
    from lamella.frontend.import_fx import import_graph

    target = driver.target_of(driver.Options())
    passes = driver.pipeline(driver.Options(), target)
    rows: list[list[str]] = []
    for layers in map(int, options.layers.split(",")):
        graph = graph_of(layers)
        best: dict[str, float] = {}
        ops = 0
        for _ in range(options.repeat + 1):
            start = time.perf_counter()
            module = import_graph(graph).module
            times = {"import": (time.perf_counter() - start) * 1e3}
            ops = sum(1 for _ in module.walk())
            times |= {r.name: r.apply_ms for r in driver.run_passes(module, passes, verify=False)}
            start = time.perf_counter()
            emit(module)
            times["emit"] = (time.perf_counter() - start) * 1e3
            best = times if not best else {k: min(v, times[k]) for k, v in best.items()}
        rows.append([str(layers), str(ops), f"{sum(best.values()):.0f}", *(f"{v:.0f}" for v in best.values())])
        header = ["layers", "aten ops", "all, ms", *best]
    print(table(header, rows))


if __name__ == "__main__":
    main()
