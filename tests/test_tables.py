"""The tables of docs/performance.md: made from results, put into their places, all else left as it is."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def tables() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import tables

        yield tables
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


DOCUMENT = "before\n<!-- table: a b -->\nold\nolder\n<!-- end -->\nbetween\n<!-- table: c -->\n<!-- end -->\nafter\n"


def test_places(tables: ModuleType) -> None:
    text = tables.filled(DOCUMENT, {"a b": "new"})
    assert text == DOCUMENT.replace("old\nolder", "new") == tables.filled(text, {"a b": "new"})
    assert tables.filled(DOCUMENT, {"c": r"\1 | x |"}) == DOCUMENT.replace("c -->\n", "c -->\n\\1 | x |\n")


def test_a_table_without_a_place_gets_one(tables: ModuleType) -> None:
    further = DOCUMENT + tables.FURTHER + "last\n"
    text = tables.filled(further, {"d": "x"})
    made = "### d\n\n<!-- table: d -->\nx\n<!-- end -->\n\n"
    assert text == DOCUMENT + made + tables.FURTHER + "last\n"
    assert tables.filled(text, {"d": "y"}) == text.replace("\nx\n", "\ny\n")


def row(name: str, backend: str, **others: Any) -> dict[str, Any]:
    place = {"suite": "kernels", "mode": "infer", "dtype": "f32", "device": "cpu", "dynamic": False}
    return {"id": f"kernels/{name}", "name": name, "backend": backend, "ok": True, **place, **others}


def test_comparisons(tables: ModuleType) -> None:
    """The last result of a case counts; what is not right is named and not averaged."""
    rows = [
        row("a", "eager", ms=8.0),
        row("a", "inductor", ms=4.0, compile_s=5.0),
        row("a", "lamella", ms=9.0, speedup=0.5, vs_inductor=0.1, compile_s=2.0),
        row("a", "lamella", ms=2.0, speedup=4.0, vs_inductor=2.0, compile_s=1.0),
        row("b", "eager", ms=1.0),
        row("b", "inductor", ok=False, why="wrong"),
        row("b", "lamella", ms=2.0, speedup=0.25, vs_inductor=7.0, compile_s=1.0),
        row("c", "lamella", ok=False, why="wrong"),
    ]
    (name, text), *others = tables.compared(rows).items()
    assert name == "kernels, infer, f32, cpu" and others == []
    summary, _, *lines = text.splitlines()
    assert summary == (
        "2 cases, geometric mean 1.00 over eager, 2.00 over Inductor, 0.71 over the better."
        " Below 0.95 of the better: b (0.25). Not right, or not run: c."
    )
    assert lines[2:] == [
        "| a | 8.000 | 4.000 | 2.000 | 4.00 | 2.00 | 5.0 | 1.0 |",
        "| b | 1.000 | - | 2.000 | 0.25 | - | - | 1.0 |",
    ]


def test_results_of_measures(tables: ModuleType, tmp_path: Path) -> None:
    rows: dict[str, list[dict[str, Any]]] = {
        "memory": [{"case": "x/infer", "dtype": "bf16", "eager tensors": 4.0, "lamella tensors": 2.0, "eager process": 0.0, "lamella process": 1.0}],
        "call": [{"case": "function", "eager": 1.0, "whole": 2.5, "whole over eager": 2.5}],
        "layers": [
            {"layers": 1, "ops": 10, "first call": 50.0, "torch": 30.0, "steps": {"import": 5.0, "code": 15.0}},
            {"layers": 5, "ops": 42, "first call": 90.0, "torch": 60.0, "steps": {"import": 8.0, "code": 20.0}},
        ],
        "first_call": [{"case": "small", "call": "first", "seconds": {"lamella": [1.0, 2.0], "inductor": [4.0, 5.0]}, "ratios": {"inductor / lamella": 4.0}}],
    }  # fmt: skip
    for name, kept in rows.items():
        where = {"benchmark": name, "cores": 2, "threads": 1, "torch": "2.13", "commit": "abc", "rows": kept}
        (tmp_path / f"{name}.json").write_text(json.dumps(where))
    made = tables.measured(tmp_path)
    assert sorted(made) == sorted(rows)
    assert all(text.startswith("2 cores, 1 thread, torch 2.13, commit abc:\n\n|") for text in made.values())
    last = {name: text.splitlines()[-1] for name, text in made.items()}
    assert last == {
        "memory": "| x/infer | bf16 | 4.0 | 2.0 | 0.50 | 0.0 | 1.0 | - |",
        "call": "| function | 1.00 | 2.50 | 2.50 |",
        "layers": "| 5 | 42 | 90 | 60 | 28 | 2 | 8 | 8 | 20 |",
        "first_call": "| small | first | 1.00 (2.00) | 4.00 (5.00) | 4.0 |",
    }


def test_every_measure_has_a_place(tables: ModuleType) -> None:
    text = tables.DOCUMENT.read_text(encoding="utf-8")
    places = re.findall(r"<!-- table: (.+) -->", text)
    assert (
        tables.FURTHER in text
        and set(tables.MEASURES) <= set(places)
        and len(places) == len(set(places)) == text.count("<!-- end -->")
    )
