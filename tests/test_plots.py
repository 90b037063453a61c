"""The pictures of docs/plots: of the numbers that stand in the tables, and drawn with a bar for each."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def plots() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import plots

        yield plots
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


def ratios(**series: dict[str, float | None]) -> dict[str, Any]:
    names = {"eager": "over eager", "inductor": "over TorchInductor"}
    panel = {"title": "t < 1 & more", "sentence": "s", "series": {names[s]: v for s, v in series.items()}}
    return {"kind": "ratios", "panels": [panel]}


def test_pictures_are_of_the_tables(plots: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """What `python benchmarks/plots.py --check` says; documents show each picture, and there are no others."""
    assert plots.main(["--check"]) == 0, capsys.readouterr().out
    assert {p.name for p in plots.FOLDER.iterdir()} == {f"{name}.svg" for name in plots.PLOTS}
    shown = "".join(p.read_text(encoding="utf-8") for p in [ROOT / "README.md", *plots.DOCS.glob("*.md")])
    assert [name for name in plots.PLOTS if f"plots/{name}.svg)" not in shown] == []
    assert max(p.stat().st_size for p in plots.FOLDER.iterdir()) < 150_000


def test_a_table_that_changes_is_noticed(
    plots: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    document, name = plots.text("performance.md"), "kernels, infer, f32, cpu"
    _, header, rows = plots.read("performance.md", name)
    cells = list(rows[0])
    cells[header.index("over eager")] = "123.45"
    place = plots.places.places(document)[name].replace(f"| {' | '.join(rows[0])} |", f"| {' | '.join(cells)} |")
    other = {"performance.md": plots.places.filled(document, {name: place.rstrip()})}
    monkeypatch.setattr(plots, "text", lambda document: other.get(document) or (plots.DOCS / document).read_text())
    assert plots.PLOTS["kernels-cpu-f32"]()["panels"][0]["series"]["over eager"][rows[0][0]] == 123.45
    assert plots.main(["--check"]) == 1
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["kernels-cpu-f32.svg"]


def test_drawn(plots: ModuleType, tmp_path: Path) -> None:
    """The same file each time, with its numbers in it; a bar ends where its number is, and none is drawn for none."""
    pytest.importorskip("matplotlib")
    data = ratios(eager={"a": 2.0, "b": 0.5}, inductor={"a": 1.25, "b": None})
    first, second = tmp_path / "1.svg", tmp_path / "2.svg"
    plots.draw(data, first)
    plots.draw(data, second)
    assert first.read_bytes() == second.read_bytes() and plots.kept(first) == data
    axes = plots.figure(data).axes[0]
    assert sorted(bar.get_x() + bar.get_width() for bar in axes.patches) == [0.5, 1.25, 2.0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["b", "a"]
    shares = {"title": "t", "sentence": "s", "series": {"native": {"x": 3.0}, "calls": {"x": 1.0}, "wrong": {"x": 0.0}}}
    axes = plots.figure({"kind": "shares", "panels": [shares]}).axes[0]
    assert [(bar.get_x(), bar.get_width()) for bar in axes.patches] == [(0.0, 75.0), (75.0, 25.0)]
