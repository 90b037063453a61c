"""Shared by all tests: `.mlir` files with RUN lines, golden files, and the number of threads.

A RUN line is a pipe of `lamella-opt`, `lamella-run`, `lamella`, `not` and `filecheck`, run in this process; `%s` is the
file, `%t` a temporary path of its own, `2>&1` joins the error stream. A pipe passes when every command of it does;
`not` wants exit code 1 (the user's error), `not --crash` wants 2 (ours).
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import random
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

# Set before torch is first imported: tests share the machine, and pytest-xdist runs several of them at once.
os.environ.setdefault("OMP_NUM_THREADS", "2")
# A graph that runs eagerly because a pass failed would hide the failure.
os.environ.setdefault("LAMELLA_STRICT", "1")

hypothesis.settings.register_profile("lamella", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=2000, print_blob=True)
hypothesis.settings.load_profile("lamella")


@pytest.fixture(autouse=True)
def _compiled_anew() -> None:
    """Nothing is compiled yet, and a function that TorchDynamo would run eagerly as it was compiled too often fails: the
    cases of a test may share their functions.
    """
    import torch._dynamo

    torch._dynamo.reset()
    torch._dynamo.config.fail_on_recompile_limit_hit = True


TOOLS = {
    "lamella": "lamella.tools.cli",
    "lamella-opt": "lamella.tools.opt",
    "lamella-run": "lamella.tools.run",
}
RUN_LINE = re.compile(r"^\s*//\s*RUN:\s*(.*)$", re.MULTILINE)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files with what the tests produce")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix == ".mlir" and RUN_LINE.search(file_path.read_text(encoding="utf-8")):
        return MlirFile.from_parent(parent, path=file_path)
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("gpu") is not None]
    if marked and not _has_gpu():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="needs a GPU"))


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


class MlirFile(pytest.File):
    def collect(self) -> Iterator[pytest.Item]:
        yield MlirItem.from_parent(self, name=self.path.name)


class RunLineFailed(Exception):
    """A command of a RUN line went another way than it should; the message shows all it said."""


class MlirItem(pytest.Item):
    """One file: its RUN lines, in order."""

    def runtest(self) -> None:
        text = self.path.read_text(encoding="utf-8").replace("\\\n", " ")
        # A backslash at the end of a RUN line continues it on the next, which starts with a comment sign of its own.
        lines = [re.sub(r"\s+//\s*(?:RUN:)?\s*", " ", line) for line in RUN_LINE.findall(text)]
        factory = self.config._tmp_path_factory  # pyright: ignore[reportAttributeAccessIssue]
        temporary = factory.mktemp(self.path.stem) / "t"
        for line in lines:
            run_line(line, self.path, temporary)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
        if isinstance(excinfo.value, RunLineFailed):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"{self.path.name}"


def run_line(line: str, path: Path, temporary: Path) -> None:
    """Run one RUN line. Raises `RunLineFailed`."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|")
    lexer.whitespace_split = True
    words = [w.replace("%s", str(path)).replace("%t", str(temporary)) for w in lexer]
    piped, log = "", ""
    for command in _split(words, "|"):
        wanted, command = _expected_code(command)
        code, piped, errors = run_command(command, piped)
        log += errors
        if code != wanted:
            shown = f"$ {shlex.join(command)}\nexit code {code}, expected {wanted}"
            raise RunLineFailed(f"{path}: RUN: {line}\n{shown}\n{log}\n--- output\n{piped}")


def _split(words: list[str], separator: str) -> Iterator[list[str]]:
    while separator in words:
        end = words.index(separator)
        yield words[:end]
        words = words[end + 1 :]
    yield words


def _expected_code(command: list[str]) -> tuple[int, list[str]]:
    if command[:2] == ["not", "--crash"]:
        return 2, command[2:]
    if command[:1] == ["not"]:
        return 1, command[1:]
    return 0, command


def run_command(command: list[str], stdin: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command, run in this process."""
    out = io.StringIO()
    err = out if "2>&1" in command else io.StringIO()
    name, *arguments = [word for word in command if word != "2>&1"]
    stream = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    old_stdin, sys.stdin = sys.stdin, stream
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = _filecheck(arguments, stdin) if name == "filecheck" else _tool(name, arguments)
    finally:
        sys.stdin = old_stdin
    return code, out.getvalue(), "" if err is out else err.getvalue()


def _tool(name: str, arguments: list[str]) -> int:
    if name not in TOOLS:
        raise RunLineFailed(f"'{name}' is not a tool for RUN lines; they are {', '.join(TOOLS)}, not and filecheck")
    try:
        return importlib.import_module(TOOLS[name]).main(arguments) or 0
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else int(left.code is not None)


def _filecheck(arguments: list[str], text: str) -> int:
    from filecheck.error import CheckError, ParseError
    from filecheck.finput import FInput
    from filecheck.matcher import Matcher
    from filecheck.options import parse_argv_options
    from filecheck.parser import Parser

    options = parse_argv_options(["filecheck", *arguments])
    try:
        parser = Parser.from_opts(options)
        return Matcher(options, FInput("<output>", text), parser).run()
    except (CheckError, ParseError) as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1


@pytest.fixture(autouse=True)
def seeds() -> None:
    """Every test starts from the same random numbers, whichever ran before: what fails by them fails again.

    torch's own generator starts from a fixed seed, so a test that imports it first needs no more.
    """
    random.seed(0)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(0)
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(0)


@pytest.fixture(autouse=True)
def frames() -> Iterator[None]:
    """TorchDynamo compiles inner frames in every test.

    torch 2.11 no longer does after a function with `fullgraph` was refused, or called as it is, while something traced.
    Nor does it make sizes and numbers that change symbols once several threads at a time have called what was compiled
    with `dynamic=False`: that is a setting of the process there, which each call sets and puts back.
    """
    yield
    config: Any = sys.modules.get("torch._dynamo.config")
    if config is not None:
        config.automatic_dynamic_shapes = config.assume_static_by_default = True
    if (module := sys.modules.get("torch._dynamo.eval_frame")) is not None and hasattr(module, "_EvalFrameOverride"):
        module.set_eval_frame_override(module._EvalFrameOverride.NONE)


@pytest.fixture
def runnable(request: pytest.FixtureRequest) -> None:
    """Skips a test for a parameter `target` whose code this machine cannot run."""
    from lamella.codegen.target import CpuTarget

    name = request.getfixturevalue("target")
    if name != "host" and (lacking := CpuTarget.from_name(name).lacking):
        pytest.skip(f"this machine has no {' and no '.join(lacking)}")


@pytest.fixture
def traces_at_once() -> Iterator[Callable[[], None]]:
    """For tests whose threads call what is compiled while others compile: each thread calls this first.

    torch knows that something is traced, not in which thread. In all of them it raises an error where compiled
    functions are called meanwhile, or, which this asks for, runs them as they are. The setting is the process's with
    torch 2.11, and the thread's later.
    """
    from torch._dynamo import config

    def allow() -> None:
        config.error_on_nested_fx_trace = False

    with config.patch(error_on_nested_fx_trace=False):
        yield allow


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)` compares `text` with `golden/<name>` beside the test; `--update-golden` writes it there."""
    folder = request.path.parent / "golden"
    update = bool(request.config.getoption("--update-golden"))

    def check(name: str, text: str) -> None:
        path = folder / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path} does not exist; run pytest --update-golden to make it"
        assert text == path.read_text(encoding="utf-8"), f"{path} differs; --update-golden rewrites it"

    return check


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    """`threads(n)` sets the number of torch's threads; the old number comes back after the test."""
    import torch

    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)
