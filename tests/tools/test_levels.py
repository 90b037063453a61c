"""From every level the text carries on to the same native program, and every op knows the line it came from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from xdsl.dialects.builtin import ModuleOp, UnknownLoc
from xdsl.ir import Operation

from lamella.dialects.text import parse_module, print_module
from lamella.dialects.verify import verify
from lamella.lowering.pass_manager import PassManager
from lamella.lowering.pipeline_text import parse_passes
from lamella.lowering.registry import LEVELS

PROGRAMS = {
    "softmax": """
func.func @main(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32> {
  %a = aten.add.Tensor(%x, %x, alpha = 2) : (!sym.t<[s0, 16], f32>, !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32> loc("layers.0"("model.py":3:4))
  %b = aten._softmax(%a, -1, false) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32> loc("layers.1"("model.py":5:4))
  func.return %b : !sym.t<[s0, 16], f32> loc("model.py":6:0)
} loc("model.py":1:0)
""",
    "matmul and views": """
func.func @main(%x: !sym.t<[4, s0], bf16>, %w: !sym.t<[s0, 8], bf16>) -> !sym.t<[8, 4], bf16> {
  %a = aten.mm(%x, %w) : (!sym.t<[4, s0], bf16>, !sym.t<[s0, 8], bf16>) -> !sym.t<[4, 8], bf16> loc("model.py":3:4)
  %b = aten.relu(%a) : (!sym.t<[4, 8], bf16>) -> !sym.t<[4, 8], bf16> loc("model.py":4:4)
  %c = aten.t(%b) : (!sym.t<[4, 8], bf16>) -> !sym.t<[8, 4], bf16, strides=[1, 8]> loc("model.py":5:4)
  %d = aten.clone(%c, memory_format = "contiguous_format") : (!sym.t<[8, 4], bf16, strides=[1, 8]>) -> !sym.t<[8, 4], bf16> loc("model.py":6:4)
  func.return %d : !sym.t<[8, 4], bf16> loc("model.py":7:0)
} loc("model.py":1:0)
""",
    "an op that stays a call": """
func.func @main(%x: !sym.t<[s0], f32>) -> (!sym.t<[s0], f32>, !sym.t<[s0], i64>) {
  %a = aten.neg(%x) : (!sym.t<[s0], f32>) -> !sym.t<[s0], f32> loc("model.py":3:4)
  %b, %c = aten.sort(%a, -1, false) : (!sym.t<[s0], f32>) -> (!sym.t<[s0], f32>, !sym.t<[s0], i64>) loc("model.py":4:4)
  func.return %b, %c : !sym.t<[s0], f32>, !sym.t<[s0], i64> loc("model.py":7:0)
} loc("model.py":1:0)
""",
}


def run(module: ModuleOp, *levels: str) -> ModuleOp:
    """`module` after the passes of `levels`, which is changed in place."""
    PassManager(parse_passes(",".join(p for level in levels for p in LEVELS[level])), verify=True).run(module)
    return module


def after(level: str) -> list[str]:
    names = list(LEVELS)
    return names[names.index(level) + 1 :]


def unlocated(module: ModuleOp) -> Iterator[Operation]:
    """Ops without a location. The module has none, and declarations of what the native program calls come from no line."""
    for op in module.walk():
        declares = bool(op.regions) and not any(region.blocks for region in op.regions)
        if isinstance(op.location, UnknownLoc) and op is not module and not declares:
            yield op


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=list(PROGRAMS))
def test_text_of_a_level(program: str, level: str) -> None:
    names = list(LEVELS)
    module = run(parse_module(program), *names[: names.index(level) + 1])
    assert [op.name for op in unlocated(module)] == []
    text = print_module(module, locations=True)
    generic = print_module(module, locations=True, generic=True)
    whole = print_module(run(module, *after(level)), locations=True)
    for source in (text, generic):
        parsed = parse_module(source)
        verify(parsed)
        assert print_module(parsed, locations=True) == text
        assert print_module(run(parsed, *after(level)), locations=True) == whole
