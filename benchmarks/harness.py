"""Interleaved timing: machines are shared, so only ratios within one run count."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any


def interleaved(
    functions: Mapping[str, Callable[[], Any]],
    *,
    rounds: int = 9,
    block_ms: float = 60,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds per call of each function, one figure per round; rounds alternate their order (A B, B A, …)."""
    counts: dict[str, int] = {}
    for name, f in functions.items():
        f()
        start = clock()
        f()
        counts[name] = max(1, int(block_ms / 1e3 / max(clock() - start, 1e-7)))
    times: dict[str, list[float]] = {name: [] for name in functions}
    for r in range(rounds):
        for name in list(functions)[:: 1 if r % 2 == 0 else -1]:
            f, n = functions[name], counts[name]
            start = clock()
            for _ in range(n):
                f()
            times[name].append((clock() - start) / n)
    return times


def median_ratio(base: Sequence[float], other: Sequence[float]) -> float:
    """How many times faster `other` is: the median of the rounds' paired ratios."""
    return statistics.median(a / b for a, b in zip(base, other, strict=True))


def geometric_mean(values: Sequence[float]) -> float:
    return statistics.geometric_mean(values) if values else float("nan")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def results(path: str | None, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Keeps the rows of a benchmark in a file, with what a reader of its table must know, if `path` says where."""
    if path is None:
        return
    import torch

    where = {"cores": os.cpu_count(), "threads": torch.get_num_threads(), "torch": torch.__version__}
    kept = {"benchmark": name, **where, "commit": _commit(), "rows": rows}
    Path(path).write_text(json.dumps(kept, indent=1))


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
