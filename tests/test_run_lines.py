"""The runner of RUN lines fails when it should: a test of tests."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

MODULE = "func.func @f() {\n  func.return\n}\n"


@pytest.fixture(scope="module")
def runner() -> ModuleType:
    spec = importlib.util.spec_from_file_location("run_lines", Path(__file__).parent / "conftest.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def run(runner: ModuleType, tmp_path: Path) -> Callable[[str, str], None]:
    def run(line: str, text: str) -> None:
        (tmp_path / "x.mlir").write_text(text)
        runner.run_line(line, tmp_path / "x.mlir", tmp_path / "t")

    return run


PASSES = {
    "match": ("lamella-opt %s | filecheck %s", MODULE + "// CHECK: func.func @f"),
    "prefix": ("lamella-opt %s | filecheck %s --check-prefix=A", MODULE + "// A: func.func @f\n// CHECK: no"),
    "prefixes": ("lamella-opt %s | filecheck %s --check-prefixes=A,B", MODULE + "// A: func.func @f\n// B: return"),
    "not": ("not lamella-opt %s 2>&1 | filecheck %s", "// CHECK: unknown operation 'x.y'\nx.y"),
    "pipe of tools": ("lamella-opt %s --generic | lamella-opt | filecheck %s", MODULE + "// CHECK: func.func @f"),
    "standard input": ("lamella-opt %s | lamella-opt - -p cse | filecheck %s", MODULE + "// CHECK: func.func @f"),
    "quoted argument": ("lamella-opt %s -p 'cse, dce' | filecheck %s", MODULE + "// CHECK: func.func @f"),
    "temporary file": ("lamella-opt %s -o %t", MODULE),
}
FAILS = {
    "no match": ("lamella-opt %s | filecheck %s", MODULE + "// CHECK: func.func @g"),
    "negative match": ("lamella-opt %s | filecheck %s", MODULE + "// CHECK-NOT: func.func @f"),
    "wrong order": ("lamella-opt %s | filecheck %s", MODULE + "// CHECK: return\n// CHECK: func.func @f"),
    "tool fails": ("lamella-opt %s | filecheck %s", "x.y\n// CHECK: x"),
    "tool fails in the middle": ("lamella-opt %s | lamella-opt -p none | filecheck %s", MODULE + "// CHECK: f"),
    "not fails": ("not lamella-opt %s", MODULE),
    "not is no crash": ("not --crash lamella-opt %s", "x.y"),
    "no checks at all": ("lamella-opt %s | filecheck %s", MODULE),
    "unknown prefix": ("lamella-opt %s | filecheck %s --check-prefix=NONE", MODULE + "// CHECK: func.func @f"),
    "unknown tool": ("mlir-opt %s", MODULE),
}


@pytest.mark.parametrize(("line", "text"), PASSES.values(), ids=PASSES)
def test_passes(run: Callable[[str, str], None], line: str, text: str) -> None:
    run(line, text)


@pytest.mark.parametrize(("line", "text"), FAILS.values(), ids=FAILS)
def test_fails(run: Callable[[str, str], None], runner: ModuleType, line: str, text: str) -> None:
    with pytest.raises(runner.RunLineFailed, match="RUN: " if "mlir-opt" not in line else "not a tool"):
        run(line, text)


def test_golden_compares_and_updates(golden: Callable[[str, str], None], request: pytest.FixtureRequest) -> None:
    """The file beside this test holds `text`; another text fails, unless golden files are being rewritten."""
    golden("run_lines.txt", "text\n")
    if not request.config.getoption("--update-golden"):
        with pytest.raises(AssertionError, match="--update-golden rewrites it"):
            golden("run_lines.txt", "other\n")
        with pytest.raises(AssertionError, match="does not exist"):
            golden("no_such_file.txt", "")


def test_threads_are_set(threads: Callable[[int], None]) -> None:
    import torch

    threads(1)
    assert torch.get_num_threads() == 1
