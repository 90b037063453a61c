"""Kernels and models of bench.py on one device, all backends of a case in one process, timed in turns.

    python benchmarks/together.py --bench bench.py --suites kernels --dtypes bf16 --backends inductor,lamella

The cases, the references in float64 and the rule of correctness are those of bench.py, whose own processes, one for
each case and backend, take several times as long. A case that fails or does not end before `--limit` is reported as
such; what ran is in OUT.jsonl after each case, in rows that `tables.py --bench` takes. `over` are medians of paired
ratios: eager's time over the backend's, in the same round.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from harness import geometric_mean, table


def load(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench", path)
    assert spec is not None and spec.loader is not None
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    return bench


def specs(bench: ModuleType, o: argparse.Namespace) -> list[dict[str, Any]]:
    size = "gpu" if o.device == "cuda" else "cpu"
    fixed = dict(modes=["infer"], shapes=["static"], quick=False, shard="0/1", size=size)
    asked = dict(suites=o.suites.split(","), dtypes=o.dtypes.split(","), filter=o.filter, device=o.device)
    return [spec for spec in bench.plan(SimpleNamespace(**fixed, **asked)) if spec["mode"] == "infer"]


OVER = {"eager": "speedup", "inductor": "vs_inductor"}
"""What bench.py calls ratios."""


def run(bench: ModuleType, spec: dict[str, Any], o: argparse.Namespace, folder: str) -> list[dict[str, Any]]:
    """A row for each backend, eager first."""
    given = dict(threads=None, cpu_clock=False, no_tf32=False, imports=[], inference_mode=False)
    path = f"{folder}/reference.pt"
    jobs: dict[str, Any] = {}
    rows: dict[str, dict[str, Any]] = {}
    for backend in ("eager", *o.backends.split(",")):
        row = rows[backend] = {**spec, "backend": backend, "ok": backend == "eager"}
        try:
            job = bench.Job(spec, backend, given)
            job.build()
            if backend == "eager":
                job.reference(path)
            row |= job.compile(path)
            job.timed_steps(o.warm)
            jobs[backend] = job
        except Exception as e:
            row["error"] = f"{type(e).__name__}: {' '.join(str(e).split())[:300]}"
    times: dict[str, list[float]] = {backend: [] for backend in jobs}
    steps = {backend: max(3, int(o.block_ms / 1e3 / job.block(0))) for backend, job in jobs.items()}
    for i in range(o.rounds):
        for backend in list(jobs)[:: 1 if i % 2 == 0 else -1]:
            times[backend].append(jobs[backend].block(steps[backend]))
    for backend in jobs:
        rows[backend]["ms"] = statistics.median(times[backend]) * 1e3
        rows[backend]["least"] = min(times[backend]) * 1e3
        for other in jobs:
            pairs = zip(times[other], times[backend], strict=True)
            rows[backend][OVER.get(other, f"over {other}")] = statistics.median(a / b for a, b in pairs)
    return list(rows.values())


def report(rows: list[dict[str, Any]], backends: list[str]) -> str:
    """Times, and what Lamella is over the best of the others and eager, with geometric means."""
    cells, means = list[list[str]](), {b: list[float]() for b in ("eager", *backends)}
    best, of = list[float](), dict[tuple[str, str], dict[str, dict[str, Any]]]()
    for row in rows:
        of.setdefault((row["name"], row["dtype"]), {})[row["backend"]] = row
    for (case, dtype), by in of.items():
        ours = by.get("lamella", {})
        right = bool(ours.get("ok")) and "ms" in ours
        times = [f"{by[b]['ms'] * 1e3:.1f}" if "ms" in by.get(b, {}) else "-" for b in ("eager", *backends)]
        over = [ours.get(OVER.get(b, f"over {b}")) if right else None for b in means]
        for b, ratio in zip(means, over, strict=True):
            means[b] += [ratio] if ratio and b != "lamella" else []
        others = [r for b, r in zip(means, over, strict=True) if r and b != "lamella"]
        best += [min(others)] if others else []
        shown = [f"{r:.2f}" if r else "-" for b, r in zip(means, over, strict=True) if b != "lamella"]
        seconds = ", ".join(f"{by[b]['compile_s']:.1f}" if "compile_s" in by.get(b, {}) else "-" for b in backends)
        cells.append([case, dtype, *times, *shown, f"{min(others):.2f}" if others else "-", seconds])
    names = ["eager", *backends]
    header = ["case", "dtype", *(f"{b}, us" for b in names), *(f"over {b}" for b in names if b != "lamella")]
    lines = [table([*header, "over the best", f"compile in one process, s: {', '.join(backends)}"], cells)]
    for b, ratios in (*means.items(), ("the best", best)):
        if ratios and b != "lamella":
            lines.append(f"over {b}: {geometric_mean(ratios):.3f} of {len(ratios)}, least {min(ratios):.2f}")
    for row in rows:
        if row.get("error") or row.get("why"):
            lines.append(f"{row['name']} {row['dtype']} {row['backend']}: {row.get('error') or row['why']}"[:300])
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True, help="bench.py")
    parser.add_argument("--suites", default="kernels", help="of kernels, hf, gpt, timm")
    parser.add_argument("--dtypes", default="bf16")
    parser.add_argument("--backends", default="inductor,lamella")
    parser.add_argument("--filter", default="", help="a regular expression over suite/name/infer/dtype/static")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--block-ms", type=float, default=12)
    parser.add_argument("--warm", type=int, default=60, help="calls before: what is decided as a program runs is then")
    parser.add_argument("--limit", type=float, default=300, help="seconds after which no case is begun")
    parser.add_argument("--out", default="together", help="prefix of OUT.jsonl")
    o = parser.parse_args()
    start, rows = time.perf_counter(), list[dict[str, Any]]()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "LAMELLA_CACHE_DIR"):
            os.environ[name] = f"{folder}/{name}"
        bench = load(o.bench)
        for spec in specs(bench, o):
            if time.perf_counter() - start > o.limit:
                print(f"not begun: {spec['id']}", flush=True)
                continue
            bench.torch.compiler.reset()
            try:
                found = run(bench, spec, o, folder)
            except Exception as e:
                found = [{**spec, "backend": "all", "error": repr(e)[:300]}]
            rows += found
            print(spec["id"], *(f"{r['backend']} {r.get('ms', 0) * 1e3:.1f}" for r in found), flush=True)
            Path(f"{o.out}.jsonl").write_text("".join(json.dumps(r, default=str) + "\n" for r in rows))
            bench.gc.collect()
            if o.device == "cuda":
                bench.torch.cuda.empty_cache()
        print(report(rows, o.backends.split(",")), flush=True)


if __name__ == "__main__":
    main()
