"""Memory at its peak in a step, against eager: bytes of tensors that are alive at once, and of the process.

    python benchmarks/memory.py [--cases REGEX] [--dtypes f32,bf16] [--out results.json]

Each case and backend has a process of its own. `tensors` is the most bytes that torch's allocator had given out at once
during two steps in a row, beyond what parameters, inputs and compiled code hold; what is kept between steps (arenas,
recycled outputs) is let go before and so counted. `process` is how far the resident set rose above where it was before
the steps: memory that libraries allocate for themselves is in it, and pages that nobody touches are not. MiB.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cases
import torch
from harness import results, table

BACKENDS = ("eager", "lamella")
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
STEPS = 2


def child(name: str, dtype: str, backend: str) -> dict[str, float]:
    """MiB at the peak of one case."""
    program, step = cases.load(name, DTYPES[dtype])
    called = program if backend == "eager" else torch.compile(program, backend=backend)
    for _ in range(3):
        step(called)

    def steps() -> None:
        for _ in range(STEPS):
            step(called)

    return {"tensors": tensors(steps, backend), "process": process(steps, backend)}


def settle(backend: str) -> None:
    """Gives back what nobody uses."""
    gc.collect()
    if backend == "lamella":
        from lamella.codegen.runtime_support import release_memory

        release_memory()
    ctypes.CDLL(None).malloc_trim(0)


def tensors(steps: Callable[[], None], backend: str) -> float:
    """The most bytes of torch's allocator alive at once during `steps`, of those that were made in it."""
    settle(backend)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        steps()
    events: Any = profile.profiler.kineto_results.events()
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    alive = peak = 0
    for _, change in changes:
        alive += change
        peak = max(peak, alive)
    return peak / 2**20


def process(steps: Callable[[], None], backend: str) -> float:
    """How far the resident set rises during `steps`."""
    settle(backend)
    Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
    before = _status("VmRSS")
    steps()
    return _status("VmHWM") - before


def _status(key: str) -> float:
    found = re.search(key + r":\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="", help="regular expression")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--out", help="file for the results")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(*options.child)))
        return
    rows: list[dict[str, Any]] = []
    chosen = list(filter(re.compile(options.cases).search, cases.names()))
    for dtype, name in itertools.product(options.dtypes.split(","), chosen):
        row: dict[str, Any] = {"case": name, "dtype": dtype}
        for backend in BACKENDS:
            command = [sys.executable, __file__, "--child", name, dtype, backend]
            done = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=True)
            found = json.loads(done.stdout.splitlines()[-1])
            row |= {f"{backend} {kind}": value for kind, value in found.items()}
        rows.append(row)
        print(" ".join(f"{v:.1f}" if isinstance(v, float) else v for v in row.values()), flush=True)
    print(shown(rows))
    results(options.out, "memory", rows)


def shown(rows: list[dict[str, Any]]) -> str:
    """The rows as a table."""
    header = [
        "case",
        "dtype",
        "eager, MiB of tensors",
        "Lamella",
        "over eager",
        "eager, MiB of the process",
        "Lamella",
        "over eager",
    ]
    lines: list[list[str]] = []
    for row in rows:
        line = [row["case"], row["dtype"]]
        for kind in ("tensors", "process"):
            eager, ours = row[f"eager {kind}"], row[f"lamella {kind}"]
            line += [f"{eager:.1f}", f"{ours:.1f}", f"{ours / eager:.2f}" if eager else "-"]
        lines.append(line)
    return table(header, lines)


if __name__ == "__main__":
    main()
