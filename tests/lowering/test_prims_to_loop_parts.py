"""Tensors whose rows a loop writes one after another: each step costs what the one before did."""

from __future__ import annotations

import torch

from lamella.codegen.interpreter import run_module
from lamella.dialects.text import parse_module
from lamella.driver import lower


def steps(count: int) -> str:
    """Each step adds all rows before a row to it, in the tensor that the step before has left."""
    whole = f"!sym.t<[{count}, 4], f32>"
    lines: list[str] = []
    last = "%x"

    def part(name: str, start: int, stop: int) -> tuple[str, str]:
        type = f"!sym.t<[{stop - start}, 4], f32>"
        lines.append(
            f"%{name} = prims.slice {last} {{start = [{start}, 0], stop = [{stop}, 4], step = [1, 1]}} : "
            f"{whole} -> {type}"
        )
        return f"%{name}", type

    for i in range(1, count):
        above, row = part(f"a{i}", 0, i), part(f"r{i}", i, i + 1)
        lines.append(f"%s{i} = prims.reduce {above[0]} {{kind = sum, dims = [0]}} : {above[1]} -> !sym.t<[4], f32>")
        lines.append(f"%b{i} = prims.broadcast %s{i} {{dims = [1]}} : !sym.t<[4], f32> -> {row[1]}")
        lines.append(f"%n{i} = prims.add {row[0]}, %b{i} : {row[1]}")
        parts = [above, (f"%n{i}", row[1]), *([part(f"e{i}", i + 1, count)] if i + 1 < count else [])]
        types = [t for _, t in parts]
        said = types[0] if len(set(types)) == 1 else ", ".join(types)
        lines.append(f"%c{i} = prims.cat {', '.join(n for n, _ in parts)} {{dim = 0}} : {said} -> {whole}")
        last = f"%c{i}"
    text = "\n".join(lines)
    return f"func.func @main(%x: {whole}) -> {whole} {{\n{text}\nfunc.return {last} : {whole}\n}}"


def loads(count: int) -> int:
    module = lower(steps(count), "prims-to-loop")
    return sum(op.name == "loop.load" for op in module.walk())


def test_loads_grow_as_steps_do() -> None:
    assert loads(96) < 2.5 * loads(48)


def test_values() -> None:
    x = torch.randn(40, 4, dtype=torch.float32) / 1024
    (want,) = run_module(parse_module(steps(40)), [x])
    (got,) = run_module(lower(steps(40), "prims-to-loop"), [x])
    torch.testing.assert_close(got, want)
