"""Bytes that programs plan to hold at once."""

from __future__ import annotations

from typing import Any, cast

import pytest
from xdsl.dialects.builtin import ModuleOp

from lamella.dialects import host
from lamella.dialects.aten import AtenOp
from lamella.dialects.tensor import TensorType
from lamella.dialects.text import parse_module
from lamella.lowering.options import Options
from lamella.lowering.pipeline import pipeline, run_passes
from lamella.lowering.storage import storage_bytes
from lamella.lowering.target import CpuTarget

MIB = 2**20


def lowered(text: str) -> ModuleOp:
    """The host program of a module, on a machine with AVX-512 and no matrix units."""
    module = parse_module(text)
    passes = pipeline(Options(target="avx512"), CpuTarget.from_name("avx512")).split(",kernel-to-llvm")[0]
    run_passes(module, passes)
    return module


def planned(module: ModuleOp) -> int:
    """The most bytes at once of arenas, of tensors that it makes and of results of calls."""
    alive: dict[Any, int] = {}
    most = 0
    for op in next(o for o in module.ops if isinstance(o, host.FuncOp)).body.block.ops:
        if isinstance(op, host.ArenaOp):
            alive[op.res] = int(op.bytes[0])
        is_call = isinstance(op, AtenOp) and not op.schema.mutates and not op.schema.is_view
        if isinstance(op, host.EmptyOp) or (is_call and not op.name.endswith("out")):
            alive |= {r: int(cast(Any, storage_bytes(r.type))) for r in op.results if isinstance(r.type, TensorType)}
        most = max(most, sum(alive.values()))
        for value in op.values if isinstance(op, host.DropOp) else ():
            alive.pop(value, None)
    return most


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_few_rows_are_not_added_up_in_f32_over_all_of_a_table(dtype: str) -> None:
    grad, table = f"!sym.t<[2, 128, 512], {dtype}>", f"!sym.t<[8192, 512], {dtype}>"
    module = lowered(f"""
    func.func @main(%g: {grad}, %i: !sym.t<[2, 128], i64>) -> {table} {{
      %r = aten.embedding_dense_backward(%g, %i, 8192, -1, false) : ({grad}, !sym.t<[2, 128], i64>) -> {table}
      func.return %r : {table}
    }}""")
    # the result, and 256 rows; 24 MiB with a table of f32
    assert 8 * MIB < planned(module) <= 9 * MIB


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_gradients_of_patches_are_products(dtype: str) -> None:
    grad, image, weight = (
        f"!sym.t<{n}, {dtype}>" for n in ("[2, 768, 14, 14]", "[2, 3, 224, 224]", "[768, 3, 16, 16]")
    )
    numbers = "[768], [16, 16], [0, 0], [1, 1], false, [0, 0], 1, [false, true, false]"
    module = lowered(f"""
    func.func @main(%g: {grad}, %x: {image}, %w: {weight}) -> {weight} {{
      %0, %1, %2 = aten.convolution_backward(%g, %x, %w, {numbers}) : ({grad}, {image}, {weight})
        -> ({image}, {weight}, !sym.t<[768], {dtype}>)
      func.return %1 : {weight}
    }}""")
    # oneDNN's call takes eight copies of the result on two threads, which no plan tells
    assert not any(o.name.startswith("aten.convolution") for o in module.walk())
    # patches, the gradient with channels last and the result, of 2.25 MiB in f32
    assert planned(module) <= 6 * MIB
