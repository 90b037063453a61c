"""The interpreter: inputs are checked, symbols read off them, results compared with their types."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from lamella.codegen.interpreter import InterpreterError, run_module
from lamella.dialects.text import parse_module

X = "!sym.t<[s0, 2*s0], f32>"
MODULE = f"""
func.func @main(%x: {X}, %n: !sym.int<s1>) -> ({X}, !sym.int<u0>) {{
  %0 = aten.full([s0, 2*s0], floordiv(s1, 2), dtype = f32) : () -> {X}
  %1 = aten.add.Tensor(%x, %0, alpha = s1) : ({X}, {X}) -> {X}
  %2 = aten.sum(%1) : ({X}) -> !sym.t<[], f32>
  %3 = aten._to_copy(%2, dtype = i64) : (!sym.t<[], f32>) -> !sym.t<[], i64>
  %4 = aten._local_scalar_dense(%3) : (!sym.t<[], i64>) -> !sym.int<u0>
  func.return %1, %4 : {X}, !sym.int<u0>
}}"""


def test_symbols_are_read_off_the_inputs() -> None:
    y, total = run_module(parse_module(MODULE), [torch.zeros(3, 6), 5], check=True)
    assert torch.equal(y, torch.full((3, 6), 10.0)) and total == 180


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([torch.zeros(3, 6)], "@main takes 2 inputs, got 1"),
        ([3, 5], "input #0 must be a tensor, got int"),
        ([torch.zeros(3), 5], "input #0 has rank 1"),
        ([torch.zeros(3, 6).double(), 5], "input #0 has dtype float64"),
        ([torch.zeros(3, 5), 5], r"input #0 has shape \[3, 5\], but .* says \[3, 6\]"),
        ([torch.zeros(3, 6), torch.zeros(1)], "input #1 must be a number, got Tensor"),
    ],
)
def test_wrong_inputs(inputs: list[Any], message: str) -> None:
    with pytest.raises(InterpreterError, match=message):
        run_module(parse_module(MODULE), inputs)


@pytest.mark.parametrize(
    ("type_", "seen"),
    [
        ("[4, 3], f32", r"sizes \[3, 4\]"),
        ("[3, 4], f64", "dtype float32"),
        ("[3, 4], f32, strides=[1, 3]", r"strides \[4, 1\]"),
    ],
)
def test_results_that_are_not_what_their_type_says(type_: str, seen: str) -> None:
    text = f"func.func @main() {{ %0 = aten.full([3, 4], 1.0) : () -> !sym.t<{type_}> func.return }}"
    run_module(parse_module(text), [])
    with pytest.raises(InterpreterError, match=f"aten.full gave a tensor of .*{seen}"):
        run_module(parse_module(text), [], check=True)


def test_what_has_no_meaning_is_named() -> None:
    with pytest.raises(InterpreterError, match=r"cannot run test\.op"):
        run_module(parse_module('func.func @main() { "test.op"() : () -> () func.return }'), [])
    with pytest.raises(InterpreterError, match=r"no func\.func @main"):
        run_module(parse_module("func.func @other() { func.return }"), [])
