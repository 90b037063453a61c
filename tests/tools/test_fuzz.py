"""Whatever a module says, the tools answer with a result or with one error that has a place: never a traceback.

Modules of every level are changed as people change them: a line lost, moved or doubled, a name, number or type of
another place. What still verifies goes through all the passes below, and runs where running it is interpretation;
programs with wrong addresses in native code are beyond what can be caught.
"""

from __future__ import annotations

import functools
import io
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lamella import driver
from lamella.dialects.context import DIALECTS, load_object
from lamella.dialects.text import parse_module, print_module
from lamella.tools import opt, run

PROGRAMS = (
    """
func.func @main(%x: !sym.t<[s0, 16], f32>, %w: !sym.t<[16, 8], f32>, %i: !sym.t<[s1], i64>) -> (!sym.t<[s0, 8], f32>, !sym.t<[s1, 16], f32>) {
  %a = aten.add.Tensor(%x, %x, alpha = 2) : (!sym.t<[s0, 16], f32>, !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32> loc("layers.0"("model.py":3:4))
  %b = aten._softmax(%a, -1, false) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32> loc("layers.1"("model.py":5:4))
  %c = aten.mm(%b, %w) : (!sym.t<[s0, 16], f32>, !sym.t<[16, 8], f32>) -> !sym.t<[s0, 8], f32> loc("model.py":6:4)
  %d = aten.relu(%c) : (!sym.t<[s0, 8], f32>) -> !sym.t<[s0, 8], f32> loc("model.py":7:4)
  %e = aten.index_select(%x, 0, %i) : (!sym.t<[s0, 16], f32>, !sym.t<[s1], i64>) -> !sym.t<[s1, 16], f32> loc("model.py":8:4)
  func.return %d, %e : !sym.t<[s0, 8], f32>, !sym.t<[s1, 16], f32> loc("model.py":9:0)
} loc("model.py":1:0)
""",
    """
func.func @main(%x: !sym.t<[4, 6], bf16>, %m: !sym.t<[4, 6], i1>) -> (!sym.t<[6, 4], bf16>, !sym.t<[4], i64>, !sym.t<[8, 6], bf16>) {
  %a = aten.where.ScalarOther(%m, %x, 0) : (!sym.t<[4, 6], i1>, !sym.t<[4, 6], bf16>) -> !sym.t<[4, 6], bf16>
  %b = aten.permute(%a, [1, 0]) : (!sym.t<[4, 6], bf16>) -> !sym.t<[6, 4], bf16, strides=[1, 6]>
  %c = aten.clone(%b, memory_format = contiguous_format) : (!sym.t<[6, 4], bf16, strides=[1, 6]>) -> !sym.t<[6, 4], bf16>
  %d = aten.argmax(%a, 1) : (!sym.t<[4, 6], bf16>) -> !sym.t<[4], i64>
  %e = aten.cat([%x, %a], 0) : (!sym.t<[4, 6], bf16>, !sym.t<[4, 6], bf16>) -> !sym.t<[8, 6], bf16>
  func.return %c, %d, %e : !sym.t<[6, 4], bf16>, !sym.t<[4], i64>, !sym.t<[8, 6], bf16>
}
""",
)
PASSES = driver.pipeline(driver.Options(), driver.target_of(driver.Options(target="avx2"))).split(",")
INTERPRETED = 6
"""Of the stages, how many are interpreted: from aten to loop-schedule."""
OPERATION = re.compile(r"\b(?:prims|loop|arith|math|host|aten|llvm)\.[a-z_]\w*")
TOKEN = re.compile(r"%\w+|@\w+|![\w.]+<[^>]*>|#[\w.]+|\"[^\"\n]*\"|\[[^\]\n]*\]|-?\d+(?:\.\d+)?|[\w.]+|[^\s\w]")


NAMES = [
    *(
        op.name
        for d in ("prims", "loop", "arith", "math", "host", "llvm")
        for op in load_object(DIALECTS[d]).operations
    ),
    *("aten.neg", "aten.exp", "aten.relu", "aten.sum", "aten.t", "aten.add.Tensor", "aten.mul.Tensor", "aten.mm"),
]


@functools.cache
def stages(program: int) -> tuple[str, ...]:
    """The text of a program at the aten level and after each pass."""
    module = parse_module(PROGRAMS[program])
    texts = [print_module(module, locations=True)]
    driver.run_passes(module, ",".join(PASSES), after=[lambda _i, _p, m: texts.append(print_module(m, locations=True))])
    return tuple(texts)


@st.composite
def changed(draw: st.DrawFn) -> tuple[int, str]:
    """A stage, and its text with one to three changes."""
    program = draw(st.integers(0, len(PROGRAMS) - 1))
    stage = draw(st.integers(0, len(PASSES)))
    text = stages(program)[stage]
    if draw(st.booleans()):
        text = re.sub(r" loc\([^\n]*\)$", "", text, flags=re.MULTILINE)
    for _ in range(draw(st.sampled_from((1, 1, 1, 2, 3)))):
        text = draw(st.sampled_from((_lines, _tokens, _operations, _operations, _values, _numbers)))(draw, text)
    return stage, text


def _lines(draw: st.DrawFn, text: str) -> str:
    lines = text.split("\n")
    at, to = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    match draw(st.sampled_from(("drop", "double", "swap"))):
        case "drop":
            del lines[at]
        case "double":
            lines.insert(to, lines[at])
        case _:
            lines[at], lines[to] = lines[to], lines[at]
    return "\n".join(lines)


def _tokens(draw: st.DrawFn, text: str) -> str:
    """One token takes the place of another, or of none."""
    found = list(TOKEN.finditer(text))
    old, new = (found[draw(st.integers(0, len(found) - 1))] for _ in range(2))
    alike = [m[0] for m in found if m[0][0] == old[0][0] and m[0] != old[0]]
    other = draw(st.sampled_from(alike)) if alike and draw(st.booleans()) else new[0]
    return text[: old.start()] + draw(st.sampled_from((other, other, other, ""))) + text[old.end() :]


def _operations(draw: st.DrawFn, text: str) -> str:
    """An operation becomes another of its dialect."""
    found = list(OPERATION.finditer(text))
    if not found:
        return text
    old = found[draw(st.integers(0, len(found) - 1))]
    new = draw(st.sampled_from([name for name in NAMES if name.partition(".")[0] == old[0].partition(".")[0]]))
    return text[: old.start()] + new + text[old.end() :]


def _values(draw: st.DrawFn, text: str) -> str:
    """A use of a value becomes one of another."""
    found = list(re.finditer(r"%\w+(?! =)", text))
    old, new = (found[draw(st.integers(0, len(found) - 1))] for _ in range(2))
    return text[: old.start()] + new[0] + text[old.end() :]


def _numbers(draw: st.DrawFn, text: str) -> str:
    found = list(re.finditer(r"\d+", text))
    old = found[draw(st.integers(0, len(found) - 1))]
    new = draw(st.sampled_from(("0", "1", "2", "3", "7", "-1", "64", "1.5", "s0", "s9", "d0", "9" * 19, "1e400")))
    return text[: old.start()] + new + text[old.end() :]


def answer(tool: object, *arguments: str, text: str) -> int:
    """The exit code of a tool, after a look at what it said."""
    out, err = io.StringIO(), io.StringIO()
    code = tool.main(arguments, io.StringIO(text), out, err)  # pyright: ignore
    said = err.getvalue()
    assert code in (0, 1), f"{said}\n{text}"
    assert "Traceback" not in said and bool(said) == (code == 1), said
    if code == 1 and "lamella-" not in said.split(":")[0]:
        assert re.match(r"<stdin>:\d+:\d+: error: .", said) or said.startswith("<stdin>: error: "), said
    return code


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reproducers of failures are left in the current folder."""
    monkeypatch.chdir(tmp_path)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(changed())
def test_changed_modules(module: tuple[int, str]) -> None:
    stage, text = module
    code = answer(opt, "-", "-p", ",".join(PASSES[stage:]), text=text)
    if stage < INTERPRETED:
        assert answer(run, "-", text=text) <= 1
    assert code in (0, 1)
