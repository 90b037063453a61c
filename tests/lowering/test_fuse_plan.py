"""What a kernel's plan costs to make: steps over the same rows, one after another, are looked at once each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from lamella.codegen.interpreter import run_module
from lamella.dialects.text import parse_module
from lamella.driver import lower
from lamella.lowering import fuse_plan

ROWS, SUMS = "!sym.t<[512, 64], f32>", "!sym.t<[512], f32>"


def steps(count: int) -> str:
    """Each step adds to a tensor the one before it, less the sums of its rows and from right to left."""
    lines: list[str] = []
    last, before = "%y", "%x"
    for i in range(count):
        lines.append(f"%s{i} = prims.reduce {before} {{kind = sum, dims = [1]}} : {ROWS} -> {SUMS}")
        lines.append(f"%b{i} = prims.broadcast %s{i} {{dims = [0]}} : {SUMS} -> {ROWS}")
        lines.append(f"%d{i} = prims.sub {before}, %b{i} : {ROWS}")
        lines.append(f"%f{i} = prims.flip %d{i} {{dims = [1]}} : {ROWS}")
        lines.append(f"%a{i} = prims.add {last}, %f{i} : {ROWS}")
        last, before = f"%a{i}", last
    text = "\n".join(lines)
    return f"func.func @main(%x: {ROWS}, %y: {ROWS}) -> {ROWS} {{\n{text}\nfunc.return {last} : {ROWS}\n}}"


def test_costs_are_counted_as_often_as_there_are_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    cost_again: Callable[..., float] = fuse_plan._cost_again
    calls = 0

    def counted(*arguments: Any) -> float:
        nonlocal calls
        calls += 1
        return cost_again(*arguments)

    def counts(count: int) -> int:
        nonlocal calls
        calls = 0
        lower(steps(count), "prims-to-loop,loop-fuse")
        return calls

    monkeypatch.setattr(fuse_plan, "_cost_again", counted)
    assert 0 < counts(16) < 3 * counts(8)


def test_values() -> None:
    x, y = torch.randn(2, 512, 64) / 1024
    (want,) = run_module(parse_module(steps(4)), [x, y])
    (got,) = run_module(lower(steps(4), "prims-to-loop,loop-fuse"), [x, y])
    torch.testing.assert_close(got, want)
