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

KERNEL = """
func.func @main(%x: !sym.t<[4], f32>) {
  lamella.triton_kernel("nowhere:add", ["out"], [%x], [], [], grid = [1, 1, 1], constants = []) : (!sym.t<[4], f32>) -> ()
  func.return
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
        (["-"], "func.func private @main(!sym.t<[4], f32>) -> ()", "@main is declared, and has no body to run"),
        (["-"], "func.func @main(%x: i32) {\n  func.return\n}", "@main takes 'x' of type i32: only tensors and"),
        (["-"], "llvm.func @main(%x: i32) {\n  llvm.return\n}", "@main has no 'lamella.arguments' beside it"),
        (["-"], KERNEL, "no Triton kernel nowhere:add can be imported: No module named 'nowhere'"),
        (["-", "--size", "s0"], TEXT, "--size s0: expected a name and a number"),
        (["-", "-i", "nowhere.pt"], TEXT, "cannot read inputs from nowhere.pt"),
        (["-", "--nope"], TEXT, "unrecognized arguments: --nope"),
        (["-", "--size", "s9=3"], TEXT, "--size s9: no input has such a symbol; they are s0"),
        (["-", "--size", "s0=999999999999999"], TEXT, "cannot make a random input 'x'"),
        (["-", "--high", "0"], TEXT, "--high must be at least 1"),
        (["-", "-i", __file__], TEXT, "this is not a file of torch.save"),
        (["-", "-i", "/"], TEXT, "cannot read inputs from /: Is a directory"),
        (["-", "--tolerance", "nan"], TEXT, "argument --tolerance: 'nan' is not a number from 0 on"),
        (
            ["-"],
            TEXT.replace("aten.exp(%x)", "aten.exp(%z)"),
            "<stdin>:3:17: error: value %z is used but never defined",
        ),
        (["-"], TEXT.replace("aten.exp(%x)", "aten.exp(%a)"), "<stdin>:3:3: error: 'aten.exp' op operand #0 (%a)"),
        (
            ["-"],
            TEXT.replace("aten.exp", "aten.sum.dim_IntList").replace("(%x)", "(%x, [7])"),
            "<stdin>:3:3: error: 'aten.sum",
        ),
    ],
)
def test_errors(arguments: list[str], text: str, message: str) -> None:
    code, out, err = call(*arguments, text=text)
    assert code == run.USER_ERROR and message in err and not out and "Traceback" not in err


@pytest.mark.parametrize("arguments", [["--native"], ["--compare-levels"]])
def test_a_wrong_setting_in_the_environment(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMELLA_TIMING", "maybe")
    code, out, err = call("-", *arguments, text=TEXT)
    assert code == run.USER_ERROR and not out.startswith("output")
    assert err == "lamella-run: error: LAMELLA_TIMING is 'maybe': set it to 1 or 0, or unset it\n"


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


WRONG = {
    "sizes": (torch.zeros(3, 5), "input 'x': expected sizes [s0 = 3, 4], got [3, 5]"),
    "rank": (torch.zeros(3), "input 'x': expected 2 dimensions, got shape (3,)"),
    "dtype": (torch.zeros(3, 4).double(), "input 'x': expected dtype float32, got float64"),
    "strides": (torch.zeros(4, 3).t(), "input 'x': expected contiguous strides [4, 1], got [1, 3]"),
    "a number": (1.5, "input 'x': expected a tensor, got float"),
    "a word": ("three", "input 'x': expected a tensor, got str"),
}


@pytest.mark.parametrize("native", [[], ["--native"]])
@pytest.mark.parametrize(("value", "message"), WRONG.values(), ids=list(WRONG))
def test_inputs_of_other_types(value: object, message: str, native: list[str], tmp_path: Path) -> None:
    torch.save([value], tmp_path / "in.pt")
    code, out, err = call("-", "-i", str(tmp_path / "in.pt"), *native)
    assert (code, out, err) == (run.USER_ERROR, "", f"lamella-run: error: {message}\n")


@pytest.mark.parametrize("native", [[], ["--native"]])
def test_an_index_from_data_that_is_out_of_bounds(native: list[str], tmp_path: Path) -> None:
    text = """
    func.func @main(%x: !sym.t<[4], f32>, %i: !sym.t<[2], i64>) -> !sym.t<[2], f32> {
      %a = aten.index_select(%x, 0, %i) : (!sym.t<[4], f32>, !sym.t<[2], i64>) -> !sym.t<[2], f32>
      func.return %a : !sym.t<[2], f32>
    }
    """
    torch.save([torch.zeros(4), torch.tensor([0, 9])], tmp_path / "in.pt")
    code, _, err = call("-", "-i", str(tmp_path / "in.pt"), *native, text=text)
    assert code == run.USER_ERROR and "out of" in err and "internal" not in err


@pytest.mark.parametrize("strides", ["[1, s0]", "[8, 2]", "[0, 1]", "[4, 1]"])
@pytest.mark.parametrize("native", [[], ["--native"]])
def test_random_inputs_have_the_strides_of_their_type(strides: str, native: list[str], tmp_path: Path) -> None:
    """Elements may be skipped, or be one place of memory."""
    text = TEXT.replace("%x: !sym.t<[s0, 4], f32>", f"%x: !sym.t<[s0, 4], f32, strides={strides}>")
    text = text.replace("(!sym.t<[s0, 4], f32>)", f"(!sym.t<[s0, 4], f32, strides={strides}>)")
    code, out, err = call("-", *native, "--size", "s0=3", text=text)
    assert code == 0 and "float32[3, 4]" in out, err


def test_random_inputs_follow_the_seed_and_sizes() -> None:
    first, again, other = (call("-", "--size", "s0=6", "--seed", seed)[1] for seed in ("1", "1", "2"))
    assert first == again != other and "float32[6, 4]" in first


def test_programs_beside_main(tmp_path: Path) -> None:
    """Each has tables and calls of its own; @main is what runs."""
    other = TEXT.replace("@main", "@other").replace("aten.exp", "aten.erfinv").replace("f32", "f64")
    taken = "  %b = aten.cumsum(%x, 0) : (!sym.t<[s0, 4], f64>) -> !sym.t<[s0, 4], f64>\n  func.return"
    other = other.replace("  func.return", taken).replace("return %a", "return %b")
    x, given, made = torch.randn(3, 4), tmp_path / "in.pt", tmp_path / "out.pt"
    torch.save([x], given)
    for text in (TEXT + other, other + TEXT):
        assert call("-", "--native", "-i", str(given), "-o", str(made), text=text)[0] == 0
        torch.testing.assert_close(torch.load(made)[0], x.exp())
