"""Random programs of kernels, calls, views and mutations: memory that is shared too early would show in the numbers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lamella.codegen.target import CpuTarget
from lamella.dialects.text import parse_module
from lamella.driver import native, run_passes

KERNELS = """
loop.kernel @half(%x: !sym.t<[s0], f32>) outs(%y: !sym.t<[s0], f32>) sizes [s0] grid [d0 = s0] {
  %h = arith.constant 0.5 : f32
  %0 = loop.load %x[d0] : !sym.t<[s0], f32>
  %1 = arith.mulf %0, %h : f32
  loop.store %1, %y[d0] : !sym.t<[s0], f32>
  loop.end
}
loop.kernel @reverse(%x: !sym.t<[s0], f32>) outs(%y: !sym.t<[s0], f32>) sizes [s0] grid [d0 = s0] {
  %0 = loop.load %x[s0 - d0 - 1] : !sym.t<[s0], f32>
  loop.store %0, %y[d0] : !sym.t<[s0], f32>
  loop.end
}
loop.kernel @add(%x: !sym.t<[s0], f32>, %z: !sym.t<[s0], f32>) outs(%y: !sym.t<[s0], f32>) sizes [s0] grid [d0 = s0] {
  %0 = loop.load %x[d0] : !sym.t<[s0], f32>
  %1 = loop.load %z[d0] : !sym.t<[s0], f32>
  %2 = arith.addf %0, %1 : f32
  loop.store %2, %y[d0] : !sym.t<[s0], f32>
  loop.end
}
loop.kernel @cross(%x: !sym.t<[s0], f32>, %z: !sym.t<[s0], f32>) outs(%y: !sym.t<[s0], f32>, %w: !sym.t<[s0], f32>)
    sizes [s0] grid [d0 = s0] {
  %0 = loop.load %x[d0] : !sym.t<[s0], f32>
  %1 = loop.load %z[s0 - d0 - 1] : !sym.t<[s0], f32>
  %2 = arith.addf %0, %1 : f32
  %3 = arith.subf %0, %1 : f32
  loop.store %2, %y[d0] : !sym.t<[s0], f32>
  loop.store %3, %w[d0] : !sym.t<[s0], f32>
  loop.end
}
"""
T, M = "!sym.t<[4*s0], f32>", "!sym.t<[s0, 4], f32>"
ARGUMENTS = 3


@dataclass
class Step:
    """One operator: the numbers of its operands and of its first result. `cross` has two results."""

    kind: str
    ins: list[int]
    result: int

    def text(self) -> str:
        first, n = [f"%v{i}" for i in self.ins], self.result
        match self.kind:
            case "mm":
                return f"""
                  %m{n} = loop.view {first[0]} offset [0] : {T} -> {M}
                  %n{n} = aten.mm(%m{n}, %w) : ({M}, !sym.t<[4, 4], f32>) -> {M}
                  %v{n} = loop.view %n{n} offset [0] : {M} -> {T}"""
            case "relu":
                return f"%v{n} = aten.relu({first[0]}) : ({T}) -> {T}"
            case "view":
                return f"%v{n} = aten.view({first[0]}, [4*s0]) : ({T}) -> {T}"
            case _:
                outs = [f"%v{n}", f"%v{n + 1}"][: 2 if self.kind == "cross" else 1]
                types = f"({', '.join([T] * len(first))}) -> ({', '.join([T] * len(outs))})"
                return f"{', '.join(outs)} = loop.launch @{self.kind}({', '.join(first)}) sizes [4*s0] : {types}"

    def run(self, values: dict[int, torch.Tensor], w: torch.Tensor) -> None:
        x, n = values[self.ins[0]], self.result
        match self.kind:
            case "cross":
                z = values[self.ins[1]].flip(0)
                values[n], values[n + 1] = x + z, x - z
            case "add":
                values[n] = x + values[self.ins[1]]
            case "half":
                values[n] = x * 0.5
            case "reverse":
                values[n] = x.flip(0)
            case "mm":
                values[n] = (x.view(-1, 4) @ w).view(-1)
            case "relu":
                values[n] = x.relu()
            case _:
                values[n] = x


@dataclass
class Program:
    """Steps, then copies (argument, value), then the values returned."""

    steps: list[Step]
    copies: list[tuple[int, int]]
    returned: list[int]

    def text(self) -> str:
        body = [step.text() for step in self.steps]
        body += [f"%c{a} = aten.copy_(%v{a}, %v{v}) : ({T}, {T}) -> {T}" for a, v in self.copies]
        names, types = ", ".join(f"%v{i}" for i in self.returned), ", ".join([T] * len(self.returned))
        lines = "\n".join(body)
        return f"""{KERNELS}
            func.func @main(%v0: {T}, %v1: {T}, %v2: {T}, %w: !sym.t<[4, 4], f32>, %n: !sym.int<s0>) -> ({types}) {{
              {lines}
              func.return {names} : {types}
            }}"""

    def run(self, inputs: list[torch.Tensor], w: torch.Tensor) -> dict[int, torch.Tensor]:
        """All values after the program, those of the arguments too."""
        values = dict(enumerate(t.clone() for t in inputs))
        for step in self.steps:
            step.run(values, w)
        for argument, value in self.copies:
            old, new = values[argument], values[value]
            # views of the argument are the same tensor, and change with it
            for i in [i for i, v in values.items() if v is old]:
                values[i] = new
        return values


@st.composite
def programs(draw: st.DrawFn) -> Program:
    steps: list[Step] = []
    count = ARGUMENTS
    for _ in range(draw(st.integers(1, 9))):
        kind = draw(st.sampled_from(["half", "reverse", "add", "cross", "mm", "relu", "view"]))
        recent = st.integers(max(0, count - 4), count - 1)  # so that others die
        ins = [draw(recent) for _ in range(2 if kind in ("add", "cross") else 1)]
        steps.append(Step(kind, ins, count))
        count += 2 if kind == "cross" else 1
    returned = draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=3))
    mutated = draw(st.sampled_from([[], [0], [1], [0, 1]]))
    return Program(steps, [(a, draw(st.integers(ARGUMENTS, count - 1))) for a in mutated], returned)


@settings(max_examples=40)
@given(programs(), st.sampled_from([1, 7, 40]))
def test_random_program(program: Program, rows: int) -> None:
    module = parse_module(program.text())
    run_passes(module, "bufferize,kernel-to-llvm,host-to-llvm")
    graph = native(module, CpuTarget.host())
    g = torch.Generator().manual_seed(rows)
    inputs = [torch.randn(4 * rows, generator=g) for _ in range(ARGUMENTS)]
    w = torch.randn(4, 4, generator=g)
    values = program.run(inputs, w)
    results = graph([*inputs, w, rows])
    for i, got in zip(program.returned, results, strict=True):
        torch.testing.assert_close(got, values[i])
    for argument, _ in program.copies:
        torch.testing.assert_close(inputs[argument], values[argument])
