"""Kernels that run as one: each does what it does by itself, on any number of threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import torch

from lamella import driver
from lamella.codegen import runtime_together
from lamella.codegen.runtime import NativeGraph
from lamella.dialects.text import parse_module
from lamella.lowering import parallel

TARGET = driver.target_of(driver.Options())

KERNELS = """
loop.kernel @neg(%x: !sym.t<[s0], f32>) outs(%y: !sym.t<[s0], f32>) sizes [s0] grid [d0 = s0] GRAIN {
  %0 = loop.load %x[d0] : !sym.t<[s0], f32>
  %1 = arith.negf %0 : f32
  loop.store %1, %y[d0] : !sym.t<[s0], f32>
  loop.end
}
loop.kernel @sums(%x: !sym.t<[s0, s1], f32>) outs(%y: !sym.t<[s0], f32>) sizes [s0, s1] grid [d0 = s0] GRAIN {
  %s = loop.for [r0 = s1] reduce [add] {
    %0 = loop.load %x[d0, r0] : !sym.t<[s0, s1], f32>
    loop.yield %0 : f32
  } : f32
  loop.store %s, %y[d0] : !sym.t<[s0], f32>
  loop.end
}
"""


@pytest.fixture(params=[1, 2, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def native(text: str, passes: str, grain: int = 8) -> NativeGraph:
    marked = KERNELS.replace("GRAIN", f"attributes {{grain = {grain} : i64}}" if grain else "")
    module = parse_module(marked + text)
    driver.run_passes(module, passes)
    return driver.native(module, TARGET)


def t(*shape: int | str) -> str:
    return f"!sym.t<[{', '.join(map(str, shape))}], f32>"


def test_what_a_thread_is_worth() -> None:
    assert runtime_together.UNIT == parallel.UNIT


@pytest.mark.parametrize("grain", [0, 1, 8])
def test_kernels_of_all_sizes(threads: int, grain: int) -> None:
    """Large ones, of which threads take parts, small ones, and none; those without a grain are not shared."""
    x, y, z, r = t("s0"), t(64), t(0), t("s0", 8)
    graph = native(
        f"""
        host.func @main(%x: {x}, %y: {y}, %z: {z}, %r: {r}) -> ({x}, {y}, {z}, {x}) {{
          %a = host.empty : {x}
          %b = host.empty : {y}
          %c = host.empty : {z}
          %d = host.empty : {x}
          host.together {{
            host.launch @neg(%z) outs(%c) sizes [0] : {z}, {z}
            host.launch @neg(%x) outs(%a) sizes [s0] : {x}, {x}
            host.launch @neg(%y) outs(%b) sizes [64] : {y}, {y}
            host.launch @sums(%r) outs(%d) sizes [s0, 8] : {r}, {x}
          }}
          host.return %a, %b, %c, %d : {x}, {y}, {z}, {x}
        }}
        """,
        "kernel-to-llvm,host-to-llvm",
        grain,
    )
    for n in (1, 5, 1000, 100_003):
        given = [torch.randn(n), torch.randn(64), torch.randn(0), torch.randn(n, 8)]
        a, b, c, d = graph(list(given))
        assert torch.equal(a, -given[0]) and torch.equal(b, -given[1]) and c.shape == (0,)
        torch.testing.assert_close(d, given[3].sum(1))


def chain(count: int, steps: int) -> str:
    """`count` chains of negations, one after the other."""
    names = [f"x{i}" for i in range(count)]
    sizes = [16 + 7 * i for i in range(count)]
    lines: list[str] = []
    for i, n in enumerate(sizes):
        for k in range(steps):
            source = f"x{i}" if k == 0 else f"v{i}of{k - 1}"
            lines.append(f"%v{i}of{k} = loop.launch @neg(%{source}) sizes [{n}] : ({t(n)}) -> {t(n)}")
    results = ", ".join(t(n) for n in sizes)
    returned = ", ".join(f"%v{i}of{steps - 1}" for i in range(count))
    arguments = ", ".join(f"%{name}: {t(n)}" for name, n in zip(names, sizes, strict=True))
    body = "\n".join(lines)
    return f"func.func @main({arguments}) -> ({results}) {{\n{body}\nfunc.return {returned} : {results}\n}}"


def test_chains(threads: int) -> None:
    """Buffers of the arena in turn."""
    check_chains(20, 3)


def test_more_launches_than_a_group_holds() -> None:
    check_chains(520, 1)


def check_chains(count: int, steps: int) -> None:
    graph = native(chain(count, steps), "launch-together,bufferize,kernel-to-llvm,host-to-llvm")
    given = [torch.randn(16 + 7 * i) for i in range(count)]
    for result, x in zip(graph(list(given)), given, strict=True):
        assert torch.equal(result, -x)  # an odd number of steps


def test_updates_of_arguments(threads: int) -> None:
    x, y = t(3000), t(50)
    copies: Sequence[str] = [
        f"%{name}_new = loop.launch @neg(%{name}) sizes [{n}] : ({t(n)}) -> {t(n)}\n"
        f"%{name}_copy = aten.copy_(%{name}, %{name}_new) : ({t(n)}, {t(n)}) -> {t(n)}"
        for name, n in (("x", 3000), ("y", 50))
    ]
    graph = native(
        f"func.func @main(%x: {x}, %y: {y}) {{\n" + "\n".join(copies) + "\nfunc.return\n}",
        "launch-together,bufferize,kernel-to-llvm,host-to-llvm",
    )
    a, b = torch.randn(3000), torch.randn(50)
    before = a.clone(), b.clone()
    graph([a, b])
    assert torch.equal(a, -before[0]) and torch.equal(b, -before[1])
