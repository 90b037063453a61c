"""The pictures of the documents, from the tables that stand in them.

    python benchmarks/plots.py           # writes docs/plots/*.svg
    python benchmarks/plots.py --check   # says which are not of the tables of today, and draws nothing

A picture is what a plot of `PLOTS` reads from places of a document (`tables.py`): numbers of columns, or of the
sentence over a table. They stand in the file, too, as its description, so that a picture that is old is found without
drawing. Files are the same byte for byte, for one release of matplotlib.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from lamella.tools import places

DOCS = Path(__file__).resolve().parent.parent / "docs"
FOLDER = DOCS / "plots"

EAGER, INDUCTOR = "over eager", "over TorchInductor"
COLOURS = {
    **{EAGER: "#9ecae1", INDUCTOR: "#08519c"},
    **{"native": "#31a354", "calls": "#a1d99b", "eager": "#9ecae1", "torch": "#bdbdbd", "refused": "#e6e6e6"},
    **{"wrong": "#de2d26", "error": "#fc9272"},
}
"""Of series."""

Data = dict[str, Any]
"""What is drawn: `kind`, and `panels` with a title, a sentence and numbers by series and case. JSON."""


@dataclass(frozen=True)
class Panel:
    """A table, and its columns by the series that they become; of several, the first that the table has."""

    title: str
    table: str
    columns: Mapping[str, Sequence[str]]
    note: str = ""

    def read(self, document: str) -> Data:
        sentence, header, rows = read(document, self.table)
        at = {s: header.index(next(c for c in columns if c in header)) for s, columns in self.columns.items()}
        series = {s: {row[0]: number(row[i]) for row in rows} for s, i in at.items()}
        return {"title": self.title, "sentence": f"{sentence}{self.note}", "series": series}


RATIOS = {EAGER: ["over eager", "Lamella over eager"], INDUCTOR: ["over Inductor", "over the better mode"]}
STATUSES = ("native", "calls", "eager", "torch", "refused", "wrong", "error")


@cache
def text(document: str) -> str:
    return (DOCS / document).read_text(encoding="utf-8")


def read(document: str, table: str) -> tuple[str, list[str], list[list[str]]]:
    """The first sentence over a table, its header and its rows."""
    before, bar, after = places.places(text(document))[table].partition("|")
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in f"{bar}{after}".strip().splitlines()]
    return before.strip().partition(". ")[0].rstrip("."), lines[0], lines[2:]


def number(cell: str) -> float | None:
    return float(cell) if re.fullmatch(r"\d+(\.\d+)?", cell) else None


def panels(document: str, *chosen: Panel) -> Callable[[], Data]:
    return lambda: {"kind": "ratios", "panels": [panel.read(document) for panel in chosen]}


def means(document: str, *chosen: Panel) -> Callable[[], Data]:
    """The geometric means that stand over tables: a case for each."""

    def made() -> Data:
        series: dict[str, dict[str, float | None]] = {s: {} for s in RATIOS}
        for panel in chosen:
            sentence, _, _ = read(document, panel.table)
            for name, columns in RATIOS.items():
                found = re.search(rf"([\d.]+) {columns[0]}\b", sentence)
                series[name][panel.title] = float(found[1]) if found else None
        sentence = "times as fast as eager and as TorchInductor; geometric means of docs/performance.md"
        panel = {"title": "Lamella's speed", "sentence": sentence, "series": series}
        return {"kind": "ratios", "panels": [panel]}

    return made


def outcomes(document: str, table: str) -> Callable[[], Data]:
    def made() -> Data:
        panel = Panel("Operators of torch's database", table, {s: [s] for s in STATUSES}).read(document)
        counts = {s: int(sum(panel["series"][s].values())) for s in STATUSES}
        told = f"{sum(counts.values()):,} outcomes, {counts['wrong']} wrong, {counts['error']} errors"
        return {"kind": "shares", "panels": [{**panel, "sentence": told}]}

    return made


PERFORMANCE, COVERAGE = "performance.md", "coverage.md"
KERNELS = {
    "kernels-cpu-f32": Panel("Kernels, f32, CPU (2 cores, AVX-512)", "kernels, infer, f32, cpu", RATIOS),
    "kernels-cpu-bf16": Panel("Kernels, bf16, CPU (2 cores, AMX)", "kernels, infer, bf16, cpu", RATIOS),
    "kernels-h200-bf16": Panel("Kernels, bf16, H200", "kernels, infer, bf16, cuda", RATIOS),
    "kernels-h200-f32": Panel("Kernels, f32, H200", "kernels, infer, f32, cuda", RATIOS),
}
MODELS = (
    Panel("Models, f32, CPU (2 cores)", "models, infer, f32, cpu", RATIOS),
    Panel("Models, bf16, CPU (2 cores, AMX)", "models, infer, bf16, cpu", RATIOS),
    Panel("Models, bf16, H200", "models, infer, bf16, cuda", RATIOS, "; bars: over the better of Inductor's modes"),
    Panel("Training steps, AMP, H200", "models, train, amp, cuda", RATIOS),
)
PLOTS: dict[str, Callable[[], Data]] = {
    "summary": means(PERFORMANCE, *KERNELS.values(), *MODELS),
    **{name: panels(PERFORMANCE, panel) for name, panel in KERNELS.items()},
    "models": panels(PERFORMANCE, *MODELS),
    "coverage": outcomes(COVERAGE, "dtype and mode"),
}
"""What each picture shows."""


def ratios(axes: Any, panel: Data) -> None:
    """A group of bars for each case, the one that gains least at the bottom; log scale."""
    series: dict[str, dict[str, float | None]] = panel["series"]
    known = {case: [v for s in series.values() if (v := s[case]) is not None] for case in next(iter(series.values()))}
    cases = sorted(known, key=lambda case: min(known[case]))
    height = 0.8 / len(series)
    for i, (name, values) in enumerate(series.items()):
        for place, case in enumerate(cases):
            if (value := values[case]) is not None:
                at = place + 0.4 - height * (i + 0.5)
                axes.barh(at, value - 1, height, left=1, color=COLOURS[name], label=name if place == 0 else "_")
                side, move = ("left", 3) if value >= 1 else ("right", -3)
                where = dict(textcoords="offset points", va="center", ha=side, fontsize=7)
                axes.annotate(f"{value:.2f}", (value, at), (move, 0), **where)
    most = max(max(values) for values in known.values())
    least = min(min(values) for values in known.values())
    axes.set_xscale("log")
    axes.set_xlim(min(0.97, least / 1.3), max(most * 1.35, 2.5))
    ticks = [t for t in (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64) if axes.get_xlim()[0] <= t <= axes.get_xlim()[1]]
    axes.set_xticks(ticks, [f"{t:g}x" for t in ticks])
    axes.minorticks_off()
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(range(len(cases)), cases)
    axes.set_ylim(-0.6, len(cases) - 0.4)
    said(axes, panel)


def shares(axes: Any, panel: Data) -> None:
    """A stacked bar for each case, in percent of its sum."""
    series: dict[str, dict[str, float]] = panel["series"]
    cases = list(next(iter(series.values())))
    sums = {case: sum(values[case] for values in series.values()) for case in cases}
    left = dict.fromkeys(cases, 0.0)
    for name, values in series.items():
        if any(values.values()):
            widths = [100 * values[case] / sums[case] for case in cases]
            axes.barh(range(len(cases)), widths, 0.8, left=list(left.values()), color=COLOURS[name], label=name)
            left = {case: left[case] + width for case, width in zip(cases, widths, strict=True)}
    axes.set_yticks(range(len(cases)), [f"{case} ({sums[case]:.0f})" for case in cases])
    axes.set_ylim(len(cases) - 0.4, -0.6)
    axes.set_xlim(0, 100)
    axes.set_xticks(range(0, 101, 20), [f"{t} %" for t in range(0, 101, 20)])
    said(axes, panel)


def said(axes: Any, panel: Data) -> None:
    lines = textwrap.wrap(panel["sentence"], 58)
    axes.set_title(panel["title"], fontsize=10, loc="left", fontweight="bold", pad=6 + 10 * len(lines))
    for i, line in enumerate(reversed(lines)):
        place = dict(xycoords="axes fraction", textcoords="offset points", fontsize=8, color="#444444")
        axes.annotate(line, (0, 1), (0, 5 + 10 * i), **place)
    axes.tick_params(labelsize=8, length=0)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)


DRAWN = {"ratios": ratios, "shares": shares}


def figure(data: Data) -> Any:
    from matplotlib.figure import Figure

    count = len(data["panels"])
    cases = max(len(next(iter(panel["series"].values()))) for panel in data["panels"])
    columns = 1 if count == 1 else 2
    rows = -(-count // columns)
    bar = 0.2 if data["kind"] == "shares" else 0.32
    made: Any = Figure(figsize=(8 if columns == 1 else 10, rows * (bar * cases + 0.6) + 0.5), layout="constrained")
    for axes, panel in zip(made.subplots(rows, columns, squeeze=False).flat, data["panels"], strict=False):
        DRAWN[data["kind"]](axes, panel)
    handles, labels = made.axes[0].get_legend_handles_labels()
    made.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=8, frameon=False)
    return made


def draw(data: Data, path: Path) -> None:
    import matplotlib

    settings: Any = {"svg.hashsalt": "lamella", "svg.fonttype": "path", "font.family": "DejaVu Sans"}
    with matplotlib.rc_context(settings):
        kept = {"Date": None, "Creator": None, "Description": json.dumps(data)}
        figure(data).savefig(path, format="svg", facecolor="white", metadata=kept)
    # as small as it may be: hundredths of a point, no spaces at the ends of lines
    before, metadata, picture = path.read_text(encoding="utf-8").partition("</metadata>")
    picture = re.sub(r"[1-9]\d*\.\d{3,}", lambda found: f"{float(found[0]):.2f}", picture)
    lines = f"{before}{metadata}{picture}".splitlines()
    path.write_text("".join(f"{line.rstrip()}\n" for line in lines), encoding="utf-8")


def kept(path: Path) -> Data | None:
    """What a picture was drawn from."""
    found = re.search(r"<dc:description>(.*?)</dc:description>", path.read_text(encoding="utf-8"), re.DOTALL)
    return json.loads(html.unescape(found[1])) if found else None


def stale(folder: Path) -> list[str]:
    """The pictures that are missing, or are not of the tables of today."""
    paths = {name: folder / f"{name}.svg" for name in PLOTS}
    return [name for name, path in paths.items() if not path.exists() or kept(path) != PLOTS[name]()]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="draw nothing: exit code 1 where a picture is old")
    parser.add_argument("--out", type=Path, default=FOLDER, help="the folder of the pictures")
    options = parser.parse_args(argv)
    if options.check:
        old = stale(options.out)
        print("\n".join(f"{name}.svg is not of the tables of today: python benchmarks/plots.py" for name in old))
        return int(bool(old))
    options.out.mkdir(parents=True, exist_ok=True)
    for name, data in PLOTS.items():
        draw(data(), options.out / f"{name}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
