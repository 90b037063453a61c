"""What the tools write into documents: tables in their places, reasons in a line, and people's text as it was."""

from __future__ import annotations

from pathlib import Path

from lamella.tools import coverage_report, places
from lamella.tools.op_check import Outcome

OUTCOMES = [
    Outcome("abs", "float32"),
    Outcome("abs", "int64"),
    Outcome("cholesky", "float32", status="calls", calls=["aten.cholesky"]),
    Outcome("acos", "float32"),
    Outcome("acos", "int64", "inplace", status="refused", reason="eager takes none of the samples"),
    Outcome("asin", "int64", "inplace", status="refused", reason="eager takes none of the samples"),
    Outcome("to_sparse", "float32", status="eager", reason="no type <here>"),
    Outcome("cov", "float32", status="torch", reason="Outer: Inner: no `u0`\n for ['float32[2, 3]'] {'x': 1}"),
]


def test_tables() -> None:
    made = coverage_report.parts(OUTCOMES, 3)
    assert made["run"].startswith(f"torch {OUTCOMES[0].torch}, CPU: 8 outcomes, 3 samples of an entry")
    assert "3 of 3 outcomes (100.0%) are native" in made["run"]
    lines = made["dtype and mode"].splitlines()
    assert lines[2].startswith("| float32 | 5 | 2 | 1 | 1 | 0 | 0 | 1 | 0 | ")
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| float32", "| int64", "| int64 inplace"]
    assert "| pointwise | 5 | 3 | 0 | 0 | 0 | 0 | 0 | 2 |" in made["operators"]
    assert made["faults"] == "None."
    assert made["each operator"].splitlines() == [
        "Native in all columns that eager takes, 3 of 6: abs, acos, asin.",
        "",
        "| operator | native | with calls | other | calls into ATen |",
        "|---|---|---|---|---|",
        "| cholesky | 0 of 1 | all |  | aten.cholesky |",
        "| cov | 0 of 1 |  | torch: all |  |",
        "| to_sparse | 0 of 1 |  | eager: all |  |",
    ]


def test_a_reason_is_one_line() -> None:
    made = coverage_report.parts(OUTCOMES, 3)
    assert made["others"].splitlines() == [
        "- eager, `no type <here>`: to_sparse (float32)",
        "- torch, `Inner: no 'u0'`: cov (float32)",
        "- refused, `eager takes none of the samples`: acos, asin (int64 inplace)",
    ]
    many = [Outcome("cov", dtype, status="torch", reason="no") for dtype in coverage_report.DTYPES[:9]]
    assert coverage_report.reasons(many) == "- torch, `no`: cov (float32, bfloat16, float16, float64 and 5 more)"
    long = coverage_report.readable("Unsupported: " + "of symbols FakeTensor(..., size=(u0, 2)) and " * 9)
    assert long == "Unsupported: of symbols a fake tensor"
    assert len(coverage_report.readable("word " * 99)) <= 120


def test_text_of_people_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "coverage.md"
    made = coverage_report.parts(OUTCOMES, 3)
    places.write(path, coverage_report.TEMPLATE, made)
    written = path.read_text()
    assert places.places(written) == {name: f"{text}\n" for name, text in made.items()}
    path.write_text(f"{written.replace('## Each operator', '## All of them')}\nA remark.\n")
    again = coverage_report.parts(OUTCOMES[:2], 3)
    places.write(path, coverage_report.TEMPLATE, again)
    kept = path.read_text()
    assert "## All of them" in kept and kept.endswith("\nA remark.\n") and "cholesky" not in kept
    assert places.places(kept) == {name: f"{text}\n" for name, text in again.items()}


def test_a_file_without_places_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "table.md"
    path.write_text("old\n")
    places.write(path, "<!-- table: a -->\n<!-- end -->\n", {"a": "new"})
    assert path.read_text() == "<!-- table: a -->\nnew\n<!-- end -->\n"
