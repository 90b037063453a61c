"""The tables of docs/performance.md, from results: measured now, or earlier.

    python benchmarks/tables.py --run all   # `make performance`; or call,memory,layers,first_call,decode,…
    python benchmarks/tables.py --bench kernels.jsonl models.jsonl

`--run` measures and keeps results in `--results` (build/performance, a file per measure), `--bench` takes results of
comparisons with eager and TorchInductor: a JSON object per line and case and backend, with `suite`, `name`, `mode`,
`dtype`, `device`, `backend`, `ms`, `speedup` (over eager), `vs_inductor`, `compile_s`, `ok`. A table stands between
`<!-- table: NAME -->` and `<!-- end -->`; one whose results are not there stays as it is, and so does all other text.
One that has no place yet gets it, under a heading, before `<!-- further tables -->`. `plots.py` draws pictures of them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import bandwidth
import call
import decode
import first_call
import layers
import memory
import targets
from harness import geometric_mean, table

from lamella.tools import places

HERE = Path(__file__).resolve().parent
DOCUMENT = HERE.parent / "docs" / "performance.md"

MEASURES: dict[str, Callable[[list[dict[str, Any]]], str]] = {
    "first_call": first_call.shown,
    "layers": layers.shown,
    "call": call.shown,
    "memory": memory.shown,
    "decode": decode.shown,
    "bandwidth": bandwidth.shown,
    "targets": targets.shown,
}
"""Name of a script here to what makes a table of its rows."""

FURTHER = "<!-- further tables -->\n"


def filled(document: str, tables: dict[str, str]) -> str:
    """The document with the tables in their places."""
    new = [
        f"### {name}\n\n<!-- table: {name} -->\n<!-- end -->\n\n"
        for name in sorted(set(tables) - places.places(document).keys())
    ]
    return places.filled(document.replace(FURTHER, "".join([*new, FURTHER])), tables)


def measured(folder: Path) -> dict[str, str]:
    """The tables of all results in a folder."""
    found: dict[str, str] = {}
    for name, shown in MEASURES.items():
        if (path := folder / f"{name}.json").exists():
            kept = json.loads(path.read_text())
            found[name] = f"{_machine(kept)}\n\n{shown(kept['rows'])}"
    return found


def _machine(kept: dict[str, Any]) -> str:
    threads = f"{kept['threads']} thread{'s' * (kept['threads'] != 1)}"
    return f"{kept['cores']} cores, {threads}, torch {kept['torch']}, commit {kept['commit']}:"


def compared(rows: Iterable[dict[str, Any]]) -> dict[str, str]:
    """A table for the kernels and one for the models of each mode, dtype and device: `kernels, infer, f32, cpu`."""
    latest = {(r["id"], r["backend"]): r for r in rows}
    groups: dict[str, dict[str, dict[str, Any]]] = {}
    for row in latest.values():
        kind = "kernels" if row["suite"] == "kernels" else "models"
        dynamic = ["dynamic sizes"] if row.get("dynamic") else []
        group = ", ".join([kind, row["mode"], row["dtype"], row["device"], *dynamic])
        groups.setdefault(group, {}).setdefault(row["name"], {})[row["backend"]] = row
    return {group: comparison(cases) for group, cases in groups.items()}


def comparison(cases: dict[str, dict[str, Any]]) -> str:
    """Eager, TorchInductor and Lamella side by side, under what they come to."""
    lines: list[list[str]] = []
    ratios: dict[str, list[tuple[str, float]]] = {"eager": [], "Inductor": [], "the better": []}
    failed: list[str] = []
    for name, by_backend in cases.items():
        eager, inductor, ours = (by_backend.get(b, {}) for b in ("eager", "inductor", "lamella"))
        if not ours.get("ok") or "speedup" not in ours:
            failed.append(name)
            continue
        over: dict[str, float | None] = {"eager": ours["speedup"], "Inductor": _over_inductor(ours, inductor)}
        known = [v for v in over.values() if v is not None]
        for base, ratio in {**over, "the better": min(known)}.items():
            if ratio is not None:
                ratios[base].append((name, ratio))
        seconds = [f"{r['compile_s']:.1f}" if "compile_s" in r else "-" for r in (inductor, ours)]
        times = [f"{r['ms']:.3f}" if "ms" in r else "-" for r in (eager, inductor, ours)]
        lines.append([name, *times, *(f"{v:.2f}" if v is not None else "-" for v in over.values()), *seconds])
    means = ", ".join(
        f"{geometric_mean([r for _, r in found]):.2f} over {base}" for base, found in ratios.items() if found
    )
    summary = [f"{len(lines)} cases, geometric mean {means}."]
    if behind := [f"{name} ({ratio:.2f})" for name, ratio in ratios["the better"] if ratio < 0.95]:
        summary.append(f"Below 0.95 of the better: {', '.join(behind)}.")
    if failed:
        summary.append(f"Not right, or not run: {', '.join(failed)}.")
    times = [f"{name}, ms" for name in ("eager", "TorchInductor", "Lamella")]
    header = ["case", *times, "over eager", "over Inductor", "first calls, s: Inductor", "Lamella"]
    return f"{' '.join(summary)}\n\n{table(header, lines)}"


def _over_inductor(ours: dict[str, Any], inductor: dict[str, Any]) -> float | None:
    return ours.get("vs_inductor") if inductor.get("ok") else None


def run(names: Sequence[str], folder: Path) -> None:
    """Measures, one process after the other."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        print(f"{name} …", flush=True)
        subprocess.run([sys.executable, HERE / f"{name}.py", "--out", folder / f"{name}.json"], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", default="", help=f"what to measure: all, or of {','.join(MEASURES)}")
    parser.add_argument("--results", type=Path, default=HERE.parent / "build" / "performance")
    parser.add_argument("--bench", nargs="*", type=Path, default=[], help="results of comparisons, .jsonl")
    parser.add_argument("--document", type=Path, default=DOCUMENT)
    options = parser.parse_args()
    run(list(MEASURES) if options.run == "all" else [n for n in options.run.split(",") if n], options.results)
    lines = [line for path in options.bench for line in path.read_text().splitlines()]
    tables = measured(options.results) | compared(map(json.loads, lines))
    text = filled(options.document.read_text(encoding="utf-8"), tables)
    options.document.write_text(text, encoding="utf-8")
    print(f"written to {options.document}: {'; '.join(tables) or 'nothing'}")


if __name__ == "__main__":
    main()
