"""lamella-run's answers to wrong input: one message, exit code 1, no traceback."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch

from lamella.tools import run

TEXT = """
func.func @main(%x: !sym.t<[s0, 4], f32>) -> !sym.t<[s0, 4], f32> {
  %a = aten.exp(%x) : (!sym.t<[s0, 4], f32>) -> !sym.t<[s0, 4], f32>
  func.return %a : !sym.t<[s0, 4], f32>
}
"""


def call(*arguments: str, text: str = TEXT) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    return run.main(arguments, io.StringIO(text), out, err), out.getvalue(), err.getvalue()


@pytest.mark.parametrize(
    ("arguments", "text", "message"),
    [
        (["nowhere.mlir"], TEXT, "cannot read 'nowhere.mlir': No such file"),
        (["-"], "func.func @main(", "<stdin>:1:"),
        (["-"], "builtin.module {}", "the module has no function @main to run"),
        (["-", "--size", "s0"], TEXT, "--size s0: expected a name and a number"),
        (["-", "-i", "nowhere.pt"], TEXT, "cannot read inputs from nowhere.pt"),
        (["-", "--nope"], TEXT, "unrecognized arguments: --nope"),
    ],
)
def test_errors(arguments: list[str], text: str, message: str) -> None:
    code, out, err = call(*arguments, text=text)
    assert code == run.USER_ERROR and message in err and not out and "Traceback" not in err


@pytest.mark.parametrize("native", [[], ["--native"]])
def test_inputs_and_outputs(native: list[str], tmp_path: Path) -> None:
    """By position and by name; the file is not changed; a wrong number of inputs is an error."""
    x = torch.randn(3, 4)
    given, made = tmp_path / "in.pt", tmp_path / "out.pt"
    for stored in ([x], {"x": x}):
        torch.save(stored, given)
        assert call("-", "-i", str(given), "-o", str(made), *native)[0] == 0
        torch.testing.assert_close(torch.load(made)[0], x.exp())
    torch.save([x, x], given)
    code, _, err = call("-", "-i", str(given), *native)
    assert code == run.USER_ERROR and "has 2 inputs, @main takes 1" in err


def test_random_inputs_follow_the_seed_and_sizes() -> None:
    first, again, other = (call("-", "--size", "s0=6", "--seed", seed)[1] for seed in ("1", "1", "2"))
    assert first == again != other and "float32[6, 4]" in first
