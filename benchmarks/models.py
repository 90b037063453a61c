"""Whole models on this machine: time per call and first call, Lamella against eager and TorchInductor, interleaved.

    python benchmarks/models.py [--models bert,gpt2] [--dtype f32] [--size small] [--no-inductor]

First calls are measured in fresh processes with empty caches (`--first-call`).
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from typing import Any

import torch
from harness import geometric_mean, interleaved, median_ratio, table

from lamella.tools import zoo

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def compiled(model: torch.nn.Module, backend: str) -> Any:
    return torch.compile(model, backend=backend)


def first_call(name: str, size: str, dtype: str, backend: str) -> float:
    """Seconds of the first call in a fresh process with empty caches."""
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {
            "LAMELLA_CACHE_DIR": f"{folder}/l", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/i", "TMPDIR": folder
        }  # fmt: skip
        command = [sys.executable, __file__, "--child", backend, "--models", name, "--size", size, "--dtype", dtype]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        return float(done.stdout.split()[-1])


def child(name: str, size: str, dtype: str, backend: str) -> None:
    case = zoo.load(name, size)
    model, inputs = case.model.to(DTYPES[dtype]), _inputs(case, dtype)
    with torch.no_grad():
        model(**inputs)
        start = time.perf_counter()
        compiled(model, backend)(**inputs)
        print(time.perf_counter() - start)


def _inputs(case: zoo.Case, dtype: str) -> dict[str, Any]:
    return {k: v.to(DTYPES[dtype]) if v.is_floating_point() else v for k, v in case.inputs(0).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(zoo.NAMES))
    parser.add_argument("--size", default="small", choices=("tiny", "small"))
    parser.add_argument("--dtype", default="f32", choices=DTYPES)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--first-call", action="store_true", help="also measure first calls in fresh processes")
    parser.add_argument("--no-inductor", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.models.split(",")
    if options.child:
        return child(names[0], options.size, options.dtype, options.child)
    backends = ["lamella"] + ([] if options.no_inductor or shutil.which("g++") is None else ["inductor"])
    rows: list[list[str]] = []
    ratios: dict[str, list[float]] = {"eager": [], "inductor": []}
    for name in names:
        case = zoo.load(name, options.size)
        model, inputs = case.model.to(DTYPES[options.dtype]), _inputs(case, options.dtype)
        functions: dict[str, Any] = {"eager": model} | {b: compiled(model, b) for b in backends}
        with torch.no_grad():
            times = interleaved({k: partial(f, **inputs) for k, f in functions.items()}, rounds=options.rounds)
        row = [name, *(f"{statistics.median(t) * 1e3:.2f}" for t in times.values())]
        for base in ("eager", *backends[1:]):
            ratio = median_ratio(times[base], times["lamella"])
            ratios[base].append(ratio)
            row.append(f"{ratio:.2f}")
        if options.first_call:
            row += [f"{first_call(name, options.size, options.dtype, b):.1f}" for b in backends]
        rows.append(row)
        print(" ".join(row), flush=True)
    header = ["model", *(f"{b}, ms" for b in ("eager", *backends)), *(f"over {b}" for b in ("eager", *backends[1:]))]
    if options.first_call:
        header += [f"first call {b}, s" for b in backends]
    print(table(header, rows))
    for base, values in ratios.items():
        if values:
            print(f"geometric mean over {base}: {geometric_mean(values):.3f}")


if __name__ == "__main__":
    main()
