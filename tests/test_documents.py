"""README.md and docs/ARCHITECTURE.md show what happens: their programs run, and print what stands there.

A block that begins with a line `file: NAME` becomes that file, with that line; Python files run, in order, in a folder of their own, and
a `text` block after one is what it prints. In a `console` block, `$` lines are commands, run in this process, and what
follows is their output. There `…` stands for the rest or a part of a line, and alone for any number of lines.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from lamella.frontend.options import FLAGS
from lamella.lowering.options import Options

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^(?:#|//) file: (\S+)\n")


def run_command(words: list[str]) -> str:
    spec = importlib.util.spec_from_file_location("run_lines", ROOT / "tests" / "conftest.py")
    assert spec is not None and spec.loader is not None
    tools = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tools)
    _, out, errors = tools.run_command(words, "")
    return out + errors


def run_python(path: Path) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        runpy.run_path(str(path))
    return out.getvalue()


def check(shown: str, printed: str) -> None:
    lines = shown.strip().splitlines(keepends=True)
    patterns = [
        r"(?:.*\n)*" if line.strip() == "…" else ".*".join(map(re.escape, line.rstrip("\n").split("…"))) + "\n"
        for line in lines
    ]
    if re.fullmatch("".join(patterns), printed.strip() + "\n") is None:
        pytest.fail(f"shown:\n{shown}\nprinted:\n{printed}", pytrace=False)


def commands(block: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block with its output."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    import torch

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    modules = set(sys.modules)
    torch._dynamo.reset()
    yield tmp_path
    torch._dynamo.reset()
    for name in set(sys.modules) - modules:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.parametrize("document", ["README.md", "docs/ARCHITECTURE.md"])
def test_examples(document: str, folder: Path) -> None:
    blocks = BLOCK.findall((ROOT / document).read_text(encoding="utf-8"))
    assert any(kind == "console" for kind, _ in blocks)
    printed = ""
    for kind, text in blocks:
        if (found := FILE.match(text)) is not None:
            path = folder / found[1]
            path.write_text(text, encoding="utf-8")
            if kind == "python":
                printed = run_python(path).replace(f"{folder}/", "")
        elif kind == "text":
            check(text, printed)
        elif kind == "console":
            for command, output in commands(text):
                check(output, run_command(shlex.split(command)))


def rows(heading: str) -> list[list[str]]:
    """The cells of the README's table with this first column."""
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition(f"| {heading} |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table.splitlines()[2:]]


def test_every_setting_is_in_the_readme() -> None:
    """Options with their defaults, and the environment variables that the source reads."""
    options = {f"`{o.name}`": f"`{o.default!r}`".replace("'", '"') for o in fields(Options)}
    assert {row[0]: row[1] for row in rows("option")} == options
    folders = ("dialects", "lowering", "codegen", "frontend", "tools")
    sources = [ROOT / "driver.py", *(f for folder in folders for f in (ROOT / folder).glob("*.py"))]
    read = {name for f in sources for name in re.findall(r"LAMELLA_[A-Z_]+[A-Z]", f.read_text(encoding="utf-8"))}
    assert {row[0].strip("`") for row in rows("environment variable")} == read | {f"LAMELLA_{x.upper()}" for x in FLAGS}


def test_links_and_files_of_documents_exist() -> None:
    """Relative links lead somewhere, and files that are named in code's type are there."""
    folders = ("dialects", "lowering", "codegen", "frontend", "tools", "tests", "docs", "benchmarks", "examples")
    present = ["driver.py", *(p.relative_to(ROOT).as_posix() for f in folders for p in (ROOT / f).rglob("*.*"))]
    for document in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        text = re.sub(r"^```.*?^```$", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for link in re.findall(r"\]\(([^)#:\s]+)\)", re.sub("`[^`]*`", "", text)):
            assert (document.parent / link).exists(), f"{document.name}: {link}"
        for name in re.findall(r"`([\w/]+\.(?:py|mlir|md))`", text):
            known = "my_pass" in name or any(p == name or p.endswith(f"/{name}") for p in present)
            assert known, f"{document.name}: {name}"


def test_links_to_headings_lead_somewhere() -> None:
    """By the rule that makes anchors of headings: small letters, no signs, dashes for spaces."""
    for document in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        text = re.sub(r"^```.*?^```$", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
        anchors = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
        assert len(set(anchors)) == len(anchors), f"{document.name}: {sorted(anchors)}"
        for link in re.findall(r"\]\(#([^)]+)\)", text):
            assert link in anchors, f"{document.name}: #{link}"


def test_check_sees_a_difference() -> None:
    check("a…c\n…\ne\n", "abc\nd\nd\ne\n")
    for printed in ("abc\n", "abd\nd\ne\n", "abc\nd\nef\n"):
        with pytest.raises(pytest.fail.Exception):
            check("a…c\n…\ne\n", printed)
