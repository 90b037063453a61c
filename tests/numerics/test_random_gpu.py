"""Random bits on a GPU are those of a CPU, whether neighbours in a tile share a counter or each has its own."""

from __future__ import annotations

import pytest
import torch

from lamella import driver
from lamella.codegen.cuda_interpreted import InterpretedGpu
from lamella.dialects import tt
from lamella.dialects.text import parse_module
from lamella.lowering.options import Options
from lamella.lowering.philox import philox32

OPTIONS = Options(target="sm_90", cache=False)
TARGET, GPU = driver.target_of(OPTIONS), driver.gpu_of(OPTIONS)
KEY = 0x13198A2E_00000007

CASES: dict[str, tuple[list[int], list[int], bool]] = {
    "a vector": ([1000], [1], True),
    "rows of even length": ([37, 66], [66, 1], True),
    "rows of odd length": ([37, 65], [65, 1], False),
    "columns": ([64, 96], [1, 64], True),
    "rows of rows": ([3, 5, 8], [80, 16, 1], True),
    "one": ([1], [1], False),
}
"""Shapes, strides of the result, and whether neighbours share."""


def program(shape: list[int], strides: list[int]) -> str:
    count = torch.Size(shape).numel()
    t, r = f"!sym.t<{shape}, i64, device=cuda:0>", f"!sym.t<{shape}, i64, strides={strides}, device=cuda:0>"
    scalar, flat = "!sym.t<[], i64, device=cuda:0>", f"!sym.t<[{count}], i64, device=cuda:0>"
    return (
        f"func.func @main(%k: {scalar}) -> {r} {{ %0 = prims.broadcast %k {{dims = []}} : {scalar} -> {t} "
        f"%1 = prims.iota {{dim = 0}} : {flat} %2 = prims.reshape %1 : {flat} -> {t} "
        f"%3 = prims.philox32 %0, %2 : {t} %4 = prims.convert %3 : {t} -> {r} func.return %4 : {r} }}"
    )


@pytest.mark.parametrize("name", CASES)
def test_bits(name: str) -> None:
    shape, strides, shared = CASES[name]
    module = parse_module(program(shape, strides))
    driver.run_passes(module, driver.pipeline(OPTIONS, TARGET, GPU))
    assert any(isinstance(op, tt.JoinOp) for op in module.walk()) == shared
    gpu = InterpretedGpu()
    with gpu.used():
        graph = driver.native(module, TARGET, GPU)
        graph.function()
    (got,) = gpu.run(graph, [torch.tensor(KEY)])
    places = torch.arange(torch.Size(shape).numel()).reshape(shape)
    assert torch.equal(got, philox32(torch.tensor(KEY), places)) and got.stride() == tuple(strides)
