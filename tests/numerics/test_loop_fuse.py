"""loop-fuse and loop-schedule keep the answer: nests and their kernels, both interpreted, give the same bits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, UnknownLoc

from lamella.codegen.interpreter import run_module
from lamella.dialects.context import make_context
from lamella.dialects.text import parse_module, print_module
from lamella.dialects.verify import verify
from lamella.driver import native, run_passes
from lamella.lowering import fuse_split, fuse_strips, schedule_columns, schedule_kernel, schedule_tiles
from lamella.lowering.loop_fuse import LoopFuse
from lamella.lowering.loop_schedule import LoopSchedule
from lamella.lowering.prims_to_loop import PrimsToLoop
from lamella.lowering.target import CpuTarget

from .test_prims_to_loop import programs

FUSERS = {
    "as usual": LoopFuse(),
    "no caches": LoopFuse(l1=64, l2=64, l3=64),
    "many threads": LoopFuse(threads=1 << 20),
}


def check(module: ModuleOp, inputs: list[torch.Tensor], fuse: LoopFuse) -> ModuleOp:
    """Run the nests, the fused kernels and the scheduled kernels, and compare bit by bit."""
    nests = print_module(module)
    wanted = run_module(module, [x.clone() for x in inputs])
    for step in (fuse, LoopSchedule()):
        step.apply(make_context(), module)
        verify(module)
        text = print_module(module)
        assert print_module(parse_module(text)) == text
        assert "loop.nest" not in text
        assert not [op.name for op in module.walk() if isinstance(op.location, UnknownLoc) and op is not module]
        got = run_module(module, [x.clone() for x in inputs])
        for k, (g, w) in enumerate(zip(got, wanted, strict=True)):
            assert g.dtype == w.dtype and g.shape == w.shape and g.stride() == w.stride()
            same = (g == w) | ((g != g) & (w != w))
            assert bool(same.all()), f"result {k} after {step.name}: {g} is not {w}\n{nests}\n{text}"
    return module


def lowered(drawn: Any) -> tuple[ModuleOp, list[torch.Tensor]]:
    program, results = drawn
    module = program.module(results)
    PrimsToLoop().apply(make_context(), module)
    for op in module.walk():
        if isinstance(op, func.FuncOp):
            op.location = program.block.last_op.location
    return module, program.inputs


@settings(max_examples=150)
@given(programs(), st.sampled_from(sorted(FUSERS)))
def test_random_programs(drawn: Any, machine: str) -> None:
    check(*lowered(drawn), FUSERS[machine])


@settings(max_examples=60)
@given(programs(), st.sampled_from([LoopFuse(), LoopFuse(rows=1, strips=0, threads=528)]))
def test_random_programs_with_every_reduction_in_parts(drawn: Any, fuser: LoopFuse) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fuse_split, "LEAST", 4)
        patch.setattr(fuse_split, "CHUNK", 2)
        patch.setattr(fuse_split, "ROWS", 1)
        check(*lowered(drawn), fuser)


@settings(max_examples=100)
@given(programs())
def test_random_programs_in_small_blocks(drawn: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"BLOCK": 3, "SHORT": 2, "LONG": 2}.items():
            patch.setattr(schedule_kernel, name, value)
        for name, value in {"LEAST": 2, "MOST": 4}.items():
            patch.setattr(schedule_columns, name, value)
        for name, value in {"LINE": 16, "COLUMNS": 3}.items():
            patch.setattr(schedule_tiles, name, value)
        check(*lowered(drawn), LoopFuse())


ROWS_AND_COLUMNS = """
func.func @main(%x: !sym.t<[{b}, {s}, {c}], f32>, %w: !sym.t<[{c}], f32>) -> ({types}) {{
  %v = prims.broadcast %w {{dims = [2]}} : !sym.t<[{c}], f32> -> !sym.t<[{b}, {s}, {c}], f32>
  %g = prims.mul %x, %v : !sym.t<[{b}, {s}, {c}], f32>
  %m = prims.reduce %g {{kind = sum, dims = [2]}} : !sym.t<[{b}, {s}, {c}], f32> -> !sym.t<[{b}, {s}], f32>
  %n = prims.broadcast %m {{dims = [0, 1]}} : !sym.t<[{b}, {s}], f32> -> !sym.t<[{b}, {s}, {c}], f32>
  %y = prims.sub %g, %n : !sym.t<[{b}, {s}, {c}], f32>
  %p = prims.reduce %y {{kind = sum, dims = [0, 1]}} : !sym.t<[{b}, {s}, {c}], f32> -> !sym.t<[{c}], f32>
  %q = prims.reduce %x {{kind = sum, dims = [0, 1]}} : !sym.t<[{b}, {s}, {c}], f32> -> !sym.t<[{c}], f32>
  %u = prims.reduce %g {{kind = sum, dims = [0, 1]}} : !sym.t<[{b}, {s}, {c}], f32> -> !sym.t<[{c}], f32>
  %r = prims.reduce %y {{kind = max, dims = [2]}} : !sym.t<[{b}, {s}, {c}], f32> -> !sym.t<[{b}, {s}], f32>
  %t = prims.reduce %y {{kind = max, dims = [0, 1]}} : !sym.t<[{b}, {s}, {c}], f32> -> !sym.t<[{c}], f32>
  func.return {results} : {types}
}}
"""
"""A norm's backward and more: sums of rows and of columns, of what is read and of what is made after the sums of rows;
sums of columns alone, of what is stored.
"""


@settings(max_examples=60)
@given(
    st.tuples(st.integers(1, 5), st.integers(1, 9), st.integers(1, 20)),
    st.lists(st.sampled_from("gypqurtm"), min_size=2, max_size=5, unique=True),
    st.integers(1, 4),
    st.integers(1, 3),
)
def test_rows_in_turn(sizes: tuple[int, int, int], results: list[str], strips: int, least: int) -> None:
    b, s, c = sizes
    shapes = dict.fromkeys("gy", f"{b}, {s}, {c}") | dict.fromkeys("rm", f"{b}, {s}") | dict.fromkeys("pqut", f"{c}")
    types = ", ".join(f"!sym.t<[{shapes[r]}], f32>" for r in results)
    text = ROWS_AND_COLUMNS.format(b=b, s=s, c=c, types=types, results=", ".join(f"%{r}" for r in results))
    inputs = [torch.randint(-9, 9, shape).float() for shape in (sizes, (c,))]
    module = parse_module(text)
    PrimsToLoop().apply(make_context(), module)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fuse_split, "LEAST", 4)
        patch.setattr(fuse_strips, "LEAST", least)
        patch.setattr(fuse_strips, "WIDE", 1)
        wanted = run_module(module, [x.clone() for x in inputs])
        run_passes(module, f"loop-fuse{{strips={strips}}},loop-schedule")
        seen = run_module(module, [x.clone() for x in inputs])
        run_passes(module, "bufferize,kernel-to-llvm,host-to-llvm")
    got = native(module, CpuTarget.host())([x.clone() for x in inputs])
    for g, k, w in zip(got, seen, wanted, strict=True):
        assert torch.equal(g, w) and torch.equal(k, w)


@settings(max_examples=12)
@given(programs())
def test_random_programs_in_native_code(drawn: Any) -> None:
    """Vectors, unrolling and parts of loops mean what the interpreter says the kernels mean."""
    module, inputs = lowered(drawn)
    wanted = run_module(module, [x.clone() for x in inputs])
    run_passes(module, "loop-fuse,loop-schedule,bufferize,kernel-to-llvm,host-to-llvm")
    got = native(module, CpuTarget.host())([x.clone() for x in inputs])
    for g, w in zip(got, wanted, strict=True):
        assert g.dtype == w.dtype and g.shape == w.shape
        assert bool(((g == w) | ((g != g) & (w != w))).all())
