"""First calls in fresh processes: with empty caches, of a second function, and of a second process with warm caches.

    python benchmarks/first_call.py [--cases small,bert,gpt2] [--backends lamella,lamella.compile,inductor,eager]
                                    [--rounds 1]

Each round starts two processes per backend over one folder of caches, empty for the first. A process imports torch and
calls eagerly, then measures the first call of the case and that of another function. Seconds of wall time, CPU seconds
of the process and its children in brackets; medians. The ratios are those of the wall times, round by round. The
backend `eager` compiles nothing: what it takes is torch's own, TorchDynamo for the greater part. `lamella.compile` is
that function in place of `torch.compile`. The package is compiled to bytecode before, as an installed one is.

    python benchmarks/first_call.py --bench bench.py --device cuda --dtype bf16 --cases hf/bert,hf/gpt2 [--shard 0/2]

measures cases of bench.py, suite/name, as its compile_s: after a trivial function was compiled (in brackets here, too),
three calls less three later ones. The backend `aot_eager` is torch's own part. With --shard every n-th case from the
i-th is run.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from harness import median_ratio, results, table

PACKAGE = Path(__file__).resolve().parent.parent
MEASURES = ("first", "later", "warm first", "warm later")


def child(name: str, backend: str) -> dict[str, tuple[float, float]]:
    """Seconds (wall, CPU) of the first call of the case, and of the next function."""
    x = torch.randn(64, 256)
    program, arguments = _case(name, x)
    found: dict[str, tuple[float, float]] = {}
    with torch.no_grad():
        program(**arguments)
        later(x)
        found["first"] = _measured(lambda: _compiled(program, backend)(**arguments))
        found["later"] = _measured(lambda: _compiled(later, backend)(x))
    return found


def _compiled(program: Callable[..., Any], backend: str) -> Callable[..., Any]:
    if backend == "lamella.compile":
        import lamella

        return lamella.compile(program)
    return torch.compile(program, backend=backend)


def bench_child(options: argparse.Namespace) -> dict[str, tuple[float, float]]:
    """The same of a case of bench.py, without a second function."""
    from together import load

    bench = load(options.bench)
    size = "gpu" if options.device == "cuda" else "cpu"
    suite, name = options.cases.split("/")
    spec = dict(
        suite=suite, name=name, mode="infer", dtype=options.dtype, dynamic=False, device=options.device, size=size
    )
    given = dict(threads=None, cpu_clock=False, no_tf32=False, imports=[], inference_mode=False)
    job = bench.Job(spec, options.child, given)
    job.build()
    cpu = sum(os.times()[:4])
    wall = job.compile(None)["compile_s"]
    return {"first": (wall, sum(os.times()[:4]) - cpu)}


def small(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(x * 2 + 1)


def later(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x.sin() + 1, -1)


def _case(name: str, x: torch.Tensor) -> tuple[Callable[..., Any], dict[str, Any]]:
    if name == "small":
        return small, {"x": x}
    from lamella.tools import zoo

    case = zoo.load(name, "small")
    return case.model, case.inputs(0)


def _measured(call: Callable[[], Any]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), sum(os.times()[:4])
    call()
    return time.perf_counter() - wall, sum(os.times()[:4]) - cpu


def measure(name: str, backend: str, options: argparse.Namespace) -> dict[str, tuple[float, float]]:
    """What two processes measure over one folder of caches."""
    found: dict[str, tuple[float, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {
            "LAMELLA_CACHE_DIR": f"{folder}/l", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/i", "TMPDIR": folder,
            "TRITON_CACHE_DIR": f"{folder}/t",
        }  # fmt: skip
        command = [sys.executable, __file__, "--child", backend, "--cases", name]
        if options.bench:
            command += ["--bench", options.bench, "--device", options.device, "--dtype", options.dtype]
        for prefix in ("", "warm "):
            done = subprocess.run(command, env=env, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(f"{name} with {backend} failed:\n{done.stderr[-2000:]}")
            times = json.loads(done.stdout.splitlines()[-1])
            found |= {prefix + key: tuple(value) for key, value in times.items()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="small,bert")
    parser.add_argument("--backends", default="lamella,inductor")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--bench", help="bench.py, whose cases are meant")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="of bench.py's cases")
    parser.add_argument("--dtype", default="f32", help="of bench.py's cases")
    parser.add_argument("--shard", default="0/1", help="i/n: every n-th case from the i-th")
    parser.add_argument("--out", help="file for the results")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(bench_child(options) if options.bench else child(options.cases, options.child)))
        return
    for folder in (PACKAGE, *(path.parent for path in PACKAGE.glob("*/__init__.py"))):
        compileall.compile_dir(folder, maxlevels=0, quiet=2)
    backends = options.backends.split(",")
    rows: list[dict[str, Any]] = []
    first, every = map(int, options.shard.split("/"))
    for name in options.cases.split(",")[first::every]:
        times: dict[str, list[dict[str, tuple[float, float]]]] = {b: [] for b in backends}
        for k in range(options.rounds):
            for backend in backends[:: 1 if k % 2 == 0 else -1]:
                times[backend].append(measure(name, backend, options))
        for what in (m for m in MEASURES if m in times[backends[0]][0]):
            row: dict[str, Any] = {"case": name, "call": what, "seconds": {}, "ratios": {}}
            for b in backends:
                row["seconds"][b] = [statistics.median(t[what][i] for t in times[b]) for i in (0, 1)]
            for b in backends[1:]:
                base, own = ([t[what][0] for t in times[x]] for x in (b, backends[0]))
                row["ratios"][f"{b} / {backends[0]}"] = median_ratio(base, own)
            rows.append(row)
            print(json.dumps(row), flush=True)
    print(shown(rows))
    results(options.out, "first_call", rows)


def shown(rows: list[dict[str, Any]]) -> str:
    """The rows as a table."""
    header = ["case", "call", *(f"{b}, s (CPU)" for b in rows[0]["seconds"]), *rows[0]["ratios"]]
    lines = [
        [r["case"], r["call"], *(f"{w:.2f} ({c:.2f})" for w, c in r["seconds"].values())]
        + [f"{ratio:.1f}" for ratio in r["ratios"].values()]
        for r in rows
    ]
    return table(header, lines)


if __name__ == "__main__":
    main()
