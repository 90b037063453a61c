"""Training steps of whole models on one GPU against TorchInductor's modes: processes side by side, timed one at a time.

    python benchmarks/gpu_training.py --bench bench.py --models hf/bert,timm/resnet50 --limit 320

The cases, the references in float64 and the rule of correctness are those of bench.py (`--modes train+opt --dtypes
amp`). All backends of all models compile at once, in a process each with empty caches; what has not compiled in time is
left out. Then each has as many steps to settle in (what records, tunes or warms up by itself does it there), and blocks
of steps are interleaved, model by model, with the optimizer and without it. `over` are medians of paired ratios.
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

MODES = {"train+opt": "block", "train": "train_block"}

SETTLING = 40
"""Steps of each before its first block."""


def load(path: str) -> ModuleType:
    """bench.py, with two more commands for its workers."""
    spec = importlib.util.spec_from_file_location("bench", path)
    assert spec is not None and spec.loader is not None
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)

    def train_block(self: Any, n: int) -> float:
        """Seconds of a step without its optimizer."""
        step, self.opt_step = self.opt_step, None
        try:
            return self.block(n)
        finally:
            self.opt_step = step

    def memory(self: Any) -> dict[str, tuple[float, float]]:
        """MiB of tensors at the peak of a step, and of the GPU's memory that the process has then, by mode. What is
        recorded has memory in which torch counts no tensors."""
        torch, found = bench.torch, dict[str, tuple[float, float]]()
        for mode in MODES if self.cuda else ():
            step = self.opt_step
            self.opt_step = step if mode == "train+opt" else None
            self.clean()
            torch.cuda.reset_peak_memory_stats()
            self.timed_steps(1)
            found[mode] = torch.cuda.max_memory_allocated() / 2**20, torch.cuda.max_memory_reserved() / 2**20
            self.opt_step = step
        return found

    call = bench.Job.call

    def marked(self: Any, *given: Any, **named: Any) -> Any:
        """A call that says that a step begins, else torch takes a compiled optimizer for the next step, whose graph
        gets what the recorded gradients have (`torch._inductor.cudagraph_trees`)."""
        if "mode" in self.kw:
            bench.torch.compiler.cudagraph_mark_step_begin()
        return call(self, *given, **named)

    bench.Job.train_block, bench.Job.memory, bench.Job.call = train_block, memory, marked
    return bench


class Group:
    """Some models with all backends."""

    def __init__(
        self, bench: ModuleType, models: list[str], backends: list[str], out: str, limit: float, device: str
    ) -> None:
        self.start, self.limit = time.perf_counter(), limit
        fields = dict(start="fork", threads=None, imports=[], cpu_clock=False, no_tf32=False, inference_mode=False)
        options = SimpleNamespace(**fields, cache_env=["LAMELLA_CACHE_DIR"], out=out)
        self.tmp = tempfile.mkdtemp(prefix="training_")
        os.makedirs(f"{out}.logs", exist_ok=True)
        self.rows: dict[tuple[str, str], dict[str, Any]] = {}
        self.workers: dict[tuple[str, str], Any] = {}
        for model in models:
            suite, _, name = model.partition("/")
            size = "gpu" if device == "cuda" else "cpu"
            about = dict(suite=suite, name=name, mode="train+opt", dtype="amp", dynamic=False, device=device, size=size)
            for backend in ("eager", *backends):
                spec = {**about, "id": f"{suite}/{name}/train+opt/amp/static"}
                self.rows[name, backend] = {"model": name, "backend": backend}
                cache = f"{self.tmp}/{name}_{backend}"
                self.workers[name, backend] = bench.Worker(spec, backend, cache, options)

    def left(self) -> float:
        return max(1.0, self.limit - (time.perf_counter() - self.start))

    def ask(self, which: list[tuple[str, str]], command: str, *given: Any, spare: float = 0.0) -> dict[Any, Any]:
        """The answers of workers that run a command side by side; one that fails is out."""
        which = [w for w in which if w in self.workers]
        for w in which:
            self.workers[w].send(command, *(a(w) if callable(a) else a for a in given))
        found: dict[Any, Any] = {}
        for w in which:
            value = self.workers[w].recv(max(1.0, self.left() - spare))
            if self.workers[w].error:
                self.rows[w]["error"] = self.workers.pop(w).error
            else:
                found[w] = value
        return found

    def run(self) -> None:
        every = list(self.workers)
        self.ask(every, "build", spare=100)
        path: Any = lambda w: f"{self.tmp}/{w[0]}.pt"  # noqa: E731
        self.ask([w for w in every if w[1] == "eager"], "reference", path, spare=100)
        print(f"built after {self.limit - self.left():.0f} s", flush=True)
        for w, about in self.ask(every, "compile", path, spare=60).items():
            self.rows[w] |= about
        print(f"compiled after {self.limit - self.left():.0f} s", flush=True)
        for name in dict.fromkeys(w[0] for w in every):
            mine = [w for w in self.workers if w[0] == name]
            for mode, command in MODES.items():
                self.time(mine, mode, command)
            for w in mine:
                for mode, peak in self.ask([w], "memory").get(w, {}).items():
                    self.rows[w][f"{mode} peak"] = peak
        for worker in self.workers.values():
            worker.stop()

    def time(self, mine: list[tuple[str, str]], mode: str, command: str, rounds: int = 5) -> None:
        times: dict[Any, list[float]] = {w: [] for w in mine}
        settled = {w: self.ask([w], command, SETTLING).get(w) for w in mine}
        steps = {w: max(2, int(0.12 / t)) for w, s in settled.items() if s and (t := self.ask([w], command, 0).get(w))}
        for i in range(rounds):
            for w in list(steps)[:: 1 if i % 2 == 0 else -1]:
                times[w] += [t for t in self.ask([w], command, steps[w]).values() if t]
        eager = times.get((mine[0][0], "eager")) if mine else None
        for w in mine:
            if len(times[w]) == rounds and eager and len(eager) == rounds:
                ratios = [a / b for a, b in zip(eager, times[w], strict=True)]
                self.rows[w][mode] = statistics.median(times[w]) * 1e3
                self.rows[w][f"{mode} over"] = statistics.median(ratios)


def report(rows: dict[tuple[str, str], dict[str, Any]], backends: list[str]) -> str:
    ours, lines = [b for b in backends if b.startswith("lamella")], list[str]()
    for mode in MODES:
        cells, ratios, peaks = list[list[str]](), {b: list[float]() for b in ours}, {b: list[float]() for b in ours}
        for name in dict.fromkeys(model for model, _ in rows):
            of = {b: rows[name, b] for b in ("eager", *backends)}
            over = {b: r[f"{mode} over"] for b, r in of.items() if f"{mode} over" in r and r.get("ok", b == "eager")}
            best = max((over[b] for b in backends if b in over and b not in ours), default=0.0)
            memory = {b: r[f"{mode} peak"] for b, r in of.items() if f"{mode} peak" in r}
            least = min((m[0] for b, m in memory.items() if b != "eager" and b not in ours), default=0.0)
            for b in ours:
                ratios[b] += [over[b] / best] if best and b in over else []
                peaks[b] += [memory[b][0] / least] if least and b in memory else []
            times = [f"{r['compile_s']:.0f}" if "compile_s" in r else "-" for b, r in of.items() if b != "eager"]
            cells.append([name, f"{of['eager'].get(mode, 0):.2f}",
                          *(f"{over[b]:.2f}" if b in over else "-" for b in backends),
                          *(f"{over[b] / best:.2f}" if b in over and best else "-" for b in ours),
                          *(", ".join(f"{memory[b][i]:.0f}" if b in memory else "-" for b in of) for i in (0, 1)),
                          ", ".join(times)])  # fmt: skip
        names = ", ".join(backends)
        header = ["case", "eager, ms", *(f"{b} over eager" for b in backends), *(f"{b} over the best" for b in ours)]
        header += [f"peak, MiB: eager, {names}", "reserved, MiB", f"compile side by side, s: {names}"]
        lines += [f"\n{mode}", table(header, cells)]
        for b in ours:
            if ratios[b]:
                lines.append(f"{b} over the best {geometric_mean(ratios[b]):.3f}, least {min(ratios[b]):.2f}")
            if peaks[b]:
                lines.append(f"{b}: peak over the smallest {geometric_mean(peaks[b]):.3f}, most {max(peaks[b]):.2f}")
    lines += [
        f"{m} {b}: {r.get('error') or r['why']}"[:300] for (m, b), r in rows.items() if r.get("error") or r.get("why")
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True, help="bench.py")
    parser.add_argument("--models", required=True)
    parser.add_argument("--backends", default="inductor,reduce-overhead,lamella")
    parser.add_argument("--limit", type=float, default=320, help="seconds for all")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--out", default="training", help="prefix of OUT.jsonl and OUT.logs")
    options = parser.parse_args()
    bench, backends = load(options.bench), options.backends.split(",")
    for module in ("transformers", "timm"):
        if importlib.util.find_spec(module):
            importlib.import_module(module)
    out = os.path.abspath(options.out)
    group = Group(bench, options.models.split(","), backends, out, options.limit, options.device)
    try:
        group.run()
    finally:
        Path(f"{out}.jsonl").write_text("".join(json.dumps(r, default=str) + "\n" for r in group.rows.values()))
        print(report(group.rows, backends), flush=True)


if __name__ == "__main__":
    main()
