"""`lamella-opt` as its users meet it: what it prints, every error it can give, and its exit codes."""

from __future__ import annotations

import io
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from lamella.dialects.verify import MAX_NESTING
from lamella.lowering.registry import PASSES, passes_to
from lamella.tools.opt import main

GOOD = """builtin.module {
  func.func @f() -> i32 {
    %a = arith.constant 1 : i32
    %b = arith.constant 1 : i32
    %c = arith.addi %a, %b : i32 loc("model.py":3:4)
    func.return %c : i32
  }
}
"""
PLAIN = GOOD.replace(' loc("model.py":3:4)', "")


@dataclass(frozen=True)
class Crash(ModulePass):
    """Fail."""

    name = "crash"
    statistics: dict[str, int] = field(default_factory=dict, init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise KeyError("lost")


@dataclass(frozen=True)
class Count(ModulePass):
    """Count ops."""

    name = "count"
    statistics: dict[str, int] = field(default_factory=dict, init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.statistics["ops"] = len(list(op.walk()))


@pytest.fixture(autouse=True)
def test_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("lamella_test_passes")
    module.__dict__.update(Crash=Crash, Count=Count)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(PASSES, "crash", "lamella_test_passes:Crash")
    monkeypatch.setitem(PASSES, "count", "lamella_test_passes:Count")


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


def opt(arguments: str, stdin: str | bytes = GOOD) -> Outcome:
    """The tool run in process on a command line as the shell would split it."""
    source = io.TextIOWrapper(io.BytesIO(stdin if isinstance(stdin, bytes) else stdin.encode()))
    out, err = io.StringIO(), io.StringIO()
    return Outcome(main(shlex.split(arguments), source, out, err), out.getvalue(), err.getvalue())


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """`file(text)` writes `in.mlir` in a folder of the test's own, which is the current one."""
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> str:
        (tmp_path / "in.mlir").write_text(text)
        return "in.mlir"

    return write


def test_prints_what_it_reads() -> None:
    assert opt("") == (0, PLAIN, "")
    assert opt("-") == (0, PLAIN, "")


def test_reads_and_writes_files(file: Callable[[str], str]) -> None:
    assert opt(f"{file(GOOD)} -o out.mlir") == (0, "", "")
    assert Path("out.mlir").read_text() == PLAIN


def test_locations_and_generic_form() -> None:
    assert opt("--print-locations").out == GOOD
    generic = opt("--generic --print-locations").out
    assert '"func.return"(%c) : (i32) -> ()' in generic
    assert opt("--print-locations", generic).out == GOOD


def test_runs_a_pipeline() -> None:
    assert "%c = arith.addi %a, %a : i32" in opt("-p cse").out
    assert "arith.constant 2" in opt("--passes 'canonicalize, dce'").out


def test_prints_around_passes() -> None:
    err = opt("-p cse,dce --print-ir-before --print-ir-after=dce").err
    assert [line for line in err.splitlines() if line.startswith("//")] == [
        f"// -----// IR {where} //----- //" for where in ("before cse", "before dce", "after dce")
    ]


def test_option_without_names_does_not_swallow_the_file(file: Callable[[str], str]) -> None:
    assert "IR after cse" in opt(f"-p cse --print-ir-after {file(GOOD)}", "").err


def test_prints_after_change_only() -> None:
    err = opt("-p cse,dce --print-ir-after-change").err
    assert "// -----// IR after cse //----- //\nbuiltin.module {" in err
    assert "// -----// IR after dce: no change //----- //" in err


def test_printed_ir_has_locations_when_asked() -> None:
    assert 'loc("model.py":3:4)' in opt("-p cse --print-ir-after --print-locations").err
    assert 'loc("model.py":3:4)' not in opt("-p cse --print-ir-after").err


def test_timing_and_statistics() -> None:
    err = opt("-p cse,count --timing --statistics").err.splitlines()
    assert err[0].split() == ["pass", "apply", "ms", "verify", "ms", "ops", "before", "ops", "after"]
    assert err[1].split()[0] == "cse" and err[1].split()[-2:] == ["6", "5"]
    assert err[3].split()[0] == "total"
    assert err[4].split() == ["count", "5", "ops"]


def test_lists_passes_with_options_and_levels() -> None:
    code, out, _ = opt("--list-passes")
    assert code == 0
    assert "\ncse: Replace an op by an equal one" in out
    assert "\ncount: Count ops.\n" in out
    assert f"\n--to prims: {','.join(passes_to('prims'))}\n" in out


def test_help() -> None:
    code, out, _ = opt("--help")
    assert code == 0 and "--print-ir-after" in out


def test_splits_the_input() -> None:
    text = "// header only\n// -----\nfunc.func @a() { func.return }\n// -----\nfunc.func @b() { func.return }\n"
    code, out, err = opt("--split-input-file", text)
    assert (code, err) == (0, "")
    first, second = out.split("// -----\n")
    assert "@a" in first and "@b" in second


def test_error_in_one_part_does_not_stop_the_others() -> None:
    text = "func.func @a() { func.return }\n// -----\nnonsense\n// -----\nfunc.func @c() { func.return }\n"
    code, out, err = opt("--split-input-file", text)
    assert code == 1
    assert "@a" in out and "@c" in out
    assert err.startswith("<stdin>:3:1: error: unknown operation 'nonsense'")


# Errors of the user: exit code 1, one message, no traceback.

ERRORS = {
    "--no-such-option": "lamella-opt: error: unrecognized arguments: --no-such-option; --help shows the options",
    "--passes": "lamella-opt: error: argument -p/--passes: expected one argument; --help shows the options",
    "one.mlir two.mlir": "lamella-opt: error: unrecognized arguments: two.mlir; --help shows the options",
    "nowhere.mlir": "lamella-opt: error: cannot read 'nowhere.mlir': No such file or directory",
    "/": "lamella-opt: error: cannot read '/': Is a directory",
    "-o /nowhere/x.mlir": "lamella-opt: error: cannot write '/nowhere/x.mlir': No such file or directory",
    "-p no-such-pass": "lamella-opt: error: unknown pass 'no-such-pass'; the passes are",
    "-p cs": "lamella-opt: error: unknown pass 'cs'; did you mean cse?",
    "-p cse{x=1}": "lamella-opt: error: pass 'cse' has no option 'x' (it has none)",
    "-p cse{": "lamella-opt: error: expected an option or '}' in the pipeline\n  cse{\n      ^\n",
    "--to moon": "lamella-opt: error: unknown level 'moon'; the levels are aten, prims, loop, kernel, host, tt, llvm",
    "--target gpu": "lamella-opt: error: unknown target 'gpu'; the targets are cpu",
    "-p cse --to loop": "lamella-opt: error: -p gives the whole pipeline; leave out --to and --target",
    "-p cse --print-ir-after=dce": "lamella-opt: error: --print-ir-after: 'dce' is not in the pipeline (cse)",
    "--print-ir-before=x": "lamella-opt: error: --print-ir-before: 'x' is not in the pipeline (empty)",
}


@pytest.mark.parametrize(("arguments", "message"), ERRORS.items(), ids=list(ERRORS))
def test_error_in_the_command(arguments: str, message: str) -> None:
    code, out, err = opt(arguments)
    assert (code, out) == (1, "")
    assert err.startswith(message)
    assert err.endswith("\n") and "Traceback" not in err


BAD_INPUTS: dict[str | bytes, str] = {
    "": "<stdin>:1:1: error: empty file: expected a module\n",
    "import torch\n": "<stdin>:1:1: error: unknown operation 'import'\n  import torch\n  ^\n",
    b"\x89PNG\r\n\x1a\n": "<stdin>:1:1: error: byte 0x89 is not UTF-8 text\n",
    b"builtin.module {}\0": "<stdin>:1:18: error: NUL character: this is not a text file\n",
    "func.func @f() {\n  %a = arith.constant 1 : i32\n}\n": "<stdin>:2:3: error: 'arith.constant' op is the last of its "
    "block in 'func.func' but is not a terminator\n    %a = arith.constant 1 : i32\n    ^\n",
    'func.func @f() {\n  "test.op"(%a) : (i32) -> ()\n  %a = arith.constant 1 : i32\n  func.return\n}\n': "<stdin>:2:3: "
    "error: 'test.op' op operand #0 (%a) does not dominate this use\n",
    "func.func @f() -> i32 {\n  func.return\n}\n": "<stdin>:2:3: error: 'func.return' op ",
    '"test.op"() ({' * (MAX_NESTING + 1): f"error: regions are nested deeper than {MAX_NESTING}",
}


@pytest.mark.parametrize(("text", "message"), BAD_INPUTS.items(), ids=[repr(t)[:30] for t in BAD_INPUTS])
def test_error_in_the_input(text: str | bytes, message: str) -> None:
    code, out, err = opt("-p cse", text)
    assert (code, out) == (1, "")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize("command", ["--to prims", "--target cpu --to aten"])
def test_passes_only_go_down(command: str) -> None:
    text = opt(
        "--to loop",
        "func.func @main(%x: !sym.t<[3], f32>) -> !sym.t<[3], f32> {\n"
        "  %y = aten.exp(%x) : (!sym.t<[3], f32>) -> !sym.t<[3], f32>\n  func.return %y : !sym.t<[3], f32>\n}\n",
    )[1]
    code, out, err = opt(command, text)
    assert (code, out) == (1, "") and "<stdin>: error: the module is at level 'loop' already, below '" in err


def test_error_names_the_python_line_too() -> None:
    text = 'func.func @f() {\n  "test.op"(%a) : (i32) -> () loc("model.py":7:8)\n  %a = arith.constant 1 : i32\n  func.return\n}'
    assert (
        "<stdin>:2:3: error: 'test.op' op operand #0 (%a) does not dominate this use (model.py:7:8)\n"
        in opt("", text).err
    )


def test_unverified_input_goes_through_when_told() -> None:
    assert opt("--no-verify", "func.func @f() -> i32 {\n  func.return\n}\n").code == 0


def test_what_is_wrong_with_unverified_input_is_said_where_a_pass_fails(tmp_path: Path) -> None:
    path = tmp_path / "self.mlir"
    t = "!sym.t<[4], f32>"
    path.write_text(f"func.func @main() -> ({t}) {{\n  %r = aten.gelu(%r) : ({t}) -> {t}\n  func.return %r : {t}\n}}\n")
    code, _, err = opt(f"{path} --no-verify -p aten-to-prims")
    assert code == 1 and f"{path}:2:3: error: 'aten.gelu' op operand #0 (%r) does not dominate this use" in err
    assert list(tmp_path.iterdir()) == [path]


# Bugs of ours: exit code 2, a message, a reproducer.


def test_failing_pass_leaves_a_reproducer_beside_the_input(file: Callable[[str], str]) -> None:
    code, out, err = opt(f"{file(GOOD)} -p cse,crash,dce")
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        "lamella-opt: internal error: pass 'crash' raised KeyError: 'lost'",
        "  reproducer: in.reproducer.mlir (its first line is the command)",
        "  --debug shows the traceback",
    ]
    reproducer = Path("in.reproducer.mlir").read_text()
    assert reproducer.startswith("// RUN: lamella-opt %s -p crash,dce\n// raised KeyError: 'lost'\nbuiltin.module {")
    assert "%c = arith.addi %a, %a : i32 loc(" in reproducer, "the module after cse, with its locations"


def test_reproducer_fails_the_same_way(file: Callable[[str], str]) -> None:
    opt(f"{file(GOOD)} -p cse,crash")
    command = Path("in.reproducer.mlir").read_text().splitlines()[0].removeprefix("// RUN: lamella-opt ")
    again = opt(command.replace("%s", "in.reproducer.mlir"))
    assert again.code == 2
    assert "pass 'crash' raised KeyError: 'lost'" in again.err


def test_reproducer_goes_where_it_is_told(file: Callable[[str], str]) -> None:
    file(GOOD)
    opt("-p crash --crash-reproducer=elsewhere/r.mlir")
    assert Path("elsewhere/r.mlir").read_text().startswith("// RUN: lamella-opt %s -p crash\n")
    opt("-p crash")
    assert Path("lamella-opt.reproducer.mlir").exists()


def test_traceback_only_with_debug(file: Callable[[str], str]) -> None:
    file(GOOD)
    assert "Traceback" not in opt("-p crash").err
    assert "KeyError: 'lost'\n" in opt("-p crash --debug").err.split("Traceback")[1]


# Expected diagnostics.

EXPECTED = {
    "on the line": "x.y // expected-error {{unknown operation}}",
    "below": "// expected-error@+1 {{unknown operation 'x.y'}}\nx.y",
    "in words": "// expected-error@below {{unknown operation}}\nx.y",
    "above": "x.y\n// expected-error@above {{unknown operation}}",
    "minus": "x.y\n\n// expected-error@-2 {{unknown operation}}",
    "of the verifier": "func.func @f() -> i32 {\n  // expected-error@+1 {{'func.return' op}}\n  func.return\n}",
    "anywhere": "// expected-error@unknown {{unknown operation}}\n\nx.y",
    "none": "func.func @f() {\n  func.return\n}",
}


@pytest.mark.parametrize("text", EXPECTED.values(), ids=EXPECTED)
def test_expected_errors_come(text: str) -> None:
    code, _, err = opt("--verify-diagnostics", text)
    assert (code, err) == (0, "")


def test_expected_errors_in_parts() -> None:
    text = "\n// -----\n".join(EXPECTED.values())
    assert opt("--verify-diagnostics --split-input-file", text)[::2] == (0, "")


UNEXPECTED = {
    "x.y": "unexpected: <stdin>:1:1: error: unknown operation 'x.y'",
    "x.y // expected-error {{something else}}": "unexpected: <stdin>:1:1: error: unknown operation 'x.y'",
    "// expected-error {{unknown}}\nx.y": "unexpected: <stdin>:2:1: error: unknown operation",
    "func.func @f() { func.return } // expected-error {{bad}}": "<stdin>:1: error: expected error did not come: 'bad'",
    "x.y // expected-error {{x.y}}\n// expected-error@-1 {{x}}": "<stdin>:2: error: expected error did not come: 'x'",
    "x.y // expected-error unknown": "<stdin>:1:8: error: expected 'expected-error {{text}}'",
    "x.y // expected-warning {{unknown}}": "<stdin>:1:8: error: expected 'expected-error {{text}}'",
}


@pytest.mark.parametrize(("text", "message"), UNEXPECTED.items(), ids=list(UNEXPECTED))
def test_unexpected_or_missing_errors_fail(text: str, message: str) -> None:
    code, _, err = opt("--verify-diagnostics", text)
    assert code == 1
    assert message in err


def test_runs_as_a_program(tmp_path: Path) -> None:
    """Exit code and streams of the real program."""
    command = [sys.executable, "-m", "lamella.tools.opt", "-p", "cse"]
    done = subprocess.run(command, input=GOOD.encode(), capture_output=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    done = subprocess.run(command, input=b"\xff", capture_output=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"<stdin>:1:1: error: byte 0xff is not UTF-8 text\n"


def test_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    """As in `lamella-opt … | head -1`."""
    text = "".join(f"func.func @f{i}() {{\n  func.return\n}}\n" for i in range(5000))
    (tmp_path / "in.mlir").write_text(text)
    program = subprocess.Popen(
        [sys.executable, "-m", "lamella.tools.opt", str(tmp_path / "in.mlir")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert program.stdout is not None and program.stderr is not None
    assert program.stdout.readline() == b"builtin.module {\n"
    program.stdout.close()
    assert program.stderr.read() == b""
    assert program.wait() == 0
