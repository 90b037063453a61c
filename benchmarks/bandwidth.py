"""Kernels that memory bounds, against a copy of as many bytes: which share of its bandwidth they reach.

    python benchmarks/bandwidth.py [--dtypes f32,bf16] [--times 1] [--rounds 15] [--cpu-clock] [--out results.json]

The bytes of a case are those of its arguments and results, each once. The copy is torch's, of half as many bytes into
memory that is there already; what only reads is compared with a sum of as many bytes. All in turns, in one process.
Where the last cache holds these tensors, memory does not bound them: `--times 8` gives them eight times the rows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from cases import rms_norm
from harness import interleaved, median_ratio, results, table
from torch import Tensor

import lamella

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def swiglu(x: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return F.silu(a) * b


CASES: dict[str, tuple[Callable[..., Any], Callable[[int], list[Tensor]]]] = {
    "softmax": (lambda x: F.softmax(x, -1), lambda k: [torch.randn(2048 * k, 1024)]),
    "layer_norm_residual": (
        lambda x, r, w, b: F.layer_norm(x + r, x.shape[-1:], w, b),
        lambda k: [torch.randn(2048 * k, 1024), torch.randn(2048 * k, 1024), torch.randn(1024), torch.randn(1024)],
    ),
    "rms_norm": (rms_norm, lambda k: [torch.randn(2048 * k, 1024), torch.randn(1024)]),
    "swiglu": (swiglu, lambda k: [torch.randn(1024 * k, 2048)]),
    "add": (lambda x, y: x + y, lambda k: [torch.randn(2048 * k, 1024), torch.randn(2048 * k, 1024)]),
    "transpose_add": (lambda x, y: x.t() + y, lambda k: [torch.randn(1024, 2048 * k), torch.randn(2048 * k, 1024)]),
    "embedding_add": (
        lambda i, w, p: F.embedding(i, w) + p,
        lambda k: [torch.randint(0, 8192 * k, (4 * k, 256)), torch.randn(8192 * k, 768), torch.randn(256, 768)],
    ),
    "sum_dim0": (lambda x: x.sum(0), lambda k: [torch.randn(4096 * k, 1024)]),
    "sum_dim1": (lambda x: x.sum(1), lambda k: [torch.randn(4096 * k, 1024)]),
}
"""Name to a function and what makes its arguments, with as many times the rows."""


def measure(name: str, dtype: str, times_rows: int, rounds: int, clock: Callable[[], float]) -> dict[str, Any]:
    function, make = CASES[name]
    torch.manual_seed(0)
    args = [a.to(DTYPES[dtype]) if a.is_floating_point() else a for a in make(times_rows)]
    call = partial(lamella.compile(function, fullgraph=True), *args)
    result = call()
    # of a table only the rows that are looked up
    given = sum(min(a.nbytes, result.nbytes) if name == "embedding_add" else a.nbytes for a in args)
    moved = given + result.nbytes
    if name.startswith("sum"):
        other = partial(torch.sum, torch.randn(moved // 4))
    else:
        source, target = torch.randn(moved // 8), torch.randn(moved // 8)
        other = partial(target.copy_, source)
    times = interleaved({"copy": other, "kernel": call}, rounds=rounds, block_ms=30, clock=clock)
    least = min(times["kernel"])
    share = median_ratio(times["copy"], times["kernel"])
    return {
        "case": name,
        "dtype": dtype,
        "MB": moved / 1e6,
        "us": least * 1e6,
        "GB/s": moved / least / 1e9,
        "of a copy": share,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--times", type=int, default=1, help="as many times the rows")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--cpu-clock", action="store_true", help="CPU time of one thread: others use the machine")
    parser.add_argument("--out", help="file for the results")
    options = parser.parse_args()
    if options.cpu_clock:
        torch.set_num_threads(1)
    clock = time.thread_time if options.cpu_clock else time.perf_counter
    with torch.no_grad():
        rows = [measure(n, d, options.times, options.rounds, clock) for d in options.dtypes.split(",") for n in CASES]
    print(shown(rows))
    results(options.out, "bandwidth", rows)


def shown(rows: list[dict[str, Any]]) -> str:
    """The rows as a table."""

    def text(name: str, value: Any) -> str:
        return value if isinstance(value, str) else f"{value:.0%}" if name == "of a copy" else f"{value:.1f}"

    return table(list(rows[0]), [[text(k, v) for k, v in row.items()] for row in rows])


if __name__ == "__main__":
    main()
