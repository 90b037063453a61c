"""What is told of kernels and calls: operators with their lines, and why an operator stays a call."""

from __future__ import annotations

import pytest

from lamella import driver
from lamella.dialects.text import parse_module
from lamella.lowering import report
from lamella.lowering.kernel_story import StoryTeller
from lamella.lowering.origins import Origin, lines, origins

T = "!sym.t<[4, 4], f32>"
M = "!sym.t<[256, 256], f32>"
CALLS = {
    f"aten.mm(%x, %x) : ({T}, {T}) -> {T}": "matrix product",
    f"aten.sort(%x) : ({T}) -> ({T}, !sym.t<[4, 4], i64>)": "sorting",
    f"aten.nonzero(%x) : ({T}) -> !sym.t<[u0, 2], i64>": "depends on the data",
    f"aten.copy_(%x, %x) : ({T}, {T}) -> {T}": "writes into an argument",
    f"aten.bernoulli(%x) : ({T}) -> {T}": "random numbers",
    f"aten.geqrf(%x) : ({T}) -> ({T}, !sym.t<[4], f32>)": "it has no lowering",
    'mkldnn._convolution_pointwise(%i, %i, none, [0, 0], [1, 1], [1, 1], 1, "tanh", [], "") : '
    "(!sym.t<[4, 4, 1, 1], f32>, !sym.t<[4, 4, 1, 1], f32>) -> !sym.t<[4, 4, 1, 1], f32>": "oneDNN is called",
    "aten.exp(%c) : (!sym.t<[4], c64>) -> !sym.t<[4], c64>": "kernels do not compute with c64",
}


@pytest.mark.parametrize(("call", "reason"), CALLS.items(), ids=[c.partition("(")[0] for c in CALLS])
def test_why_an_operator_stays_a_call(call: str, reason: str) -> None:
    results = "%a, %b = " if ") -> (" in call else "%a = "
    text = f'func.func @main(%x: {T}, %c: !sym.t<[4], c64>, %i: !sym.t<[4, 4, 1, 1], f32>) {{\n  {results}{call} loc("m.py":3:0)\n  func.return\n}}'
    (found,) = report.calls(parse_module(text))
    assert found.line == "m.py:3" and reason in found.reason


def test_origins() -> None:
    text = 'func.func @main() loc(fused["aten.exp"("layers.0"("a.py":1:2)), callsite("b.py":3:4 at "c.py":5:6), "layers.1"(unknown)])'
    (function,) = parse_module(text.replace("@main()", "private @main()")).ops
    expected = [Origin("aten.exp", "layers.0", "a.py", 1), Origin("", "", "b.py", 3), Origin("", "layers.1", "", 0)]
    assert list(origins(function.location)) == expected and lines(function.location) == ["a.py:1", "b.py:3"]


def test_a_story_holds_what_became_the_kernel() -> None:
    """Of one line: the norm and the activation are kernels of their own around a call, and each story has its own ops."""
    text = f"""
    func.func @main(%x: {M}, %w: {M}) -> {M} {{
      %a = aten.exp(%x) : ({M}) -> {M} loc("m"("m.py":3:0))
      %b = aten.mm(%a, %w) : ({M}, {M}) -> {M} loc("m"("m.py":3:0))
      %c = aten.sin(%b) : ({M}) -> {M} loc("m"("m.py":3:0))
      func.return %c : {M} loc("m.py":4:0)
    }} loc("m.py":1:0)
    """
    module = parse_module(text)
    teller = StoryTeller(module)
    options = driver.Options(target="avx2")
    driver.run_passes(module, driver.pipeline(options, driver.target_of(options)), after=[teller.after])
    first, second = teller.stories()
    for story, own, other in ((first, "exp", "sin"), (second, "sin", "exp")):
        levels = dict(story.levels)
        assert story.source == ["m.py:3 (m)"] and list(levels) == ["aten", "prims", "loop", "kernel", "llvm"]
        assert (
            f"aten.{own}(" in levels["aten"] and f"prims.{own} " in levels["prims"] and f"math.{own}" in levels["loop"]
        )
        assert f"loop.kernel @{story.name}(" in levels["kernel"] and f"@{story.name}.body" in levels["llvm"]
        assert not any(f".{other}" in text or "aten.mm" in text for text in levels.values())


def test_a_story_has_the_functions_that_a_kernel_shares() -> None:
    text = f"""
    func.func @main(%x: {M}, %w: {M}) -> {M} {{
      %a = aten.mm(%x, %w) : ({M}, {M}) -> {M} loc("m"("m.py":3:0))
      func.return %a : {M} loc("m.py":4:0)
    }}"""
    module = parse_module(text)
    teller, options = StoryTeller(module), driver.Options(target="amx", products="all")
    driver.run_passes(module, driver.pipeline(options, driver.target_of(options)), after=[teller.after])
    (story,) = teller.stories()
    code = dict(story.levels)["llvm"]
    assert "llvm.func @lamella.tiles(" in code and "llvm.call @lamella.tiles(" in code
