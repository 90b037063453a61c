"""What the GPU that is not there knows of memory."""

from __future__ import annotations

import pytest
import torch

from lamella import driver
from lamella.codegen.cuda_interpreted import InterpretedGpu
from lamella.codegen.runtime import NativeGraph
from lamella.dialects.text import parse_module
from lamella.lowering.options import Options

OPTIONS = Options(target="sm_90", cache=False)
F32 = torch.float32


@pytest.fixture
def gpu() -> InterpretedGpu:
    return InterpretedGpu()


def neg(gpu: InterpretedGpu, n: int) -> NativeGraph:
    t, target, for_gpu = f"!sym.t<[{n}], f32, device=cuda:0>", driver.target_of(OPTIONS), driver.gpu_of(OPTIONS)
    module = parse_module(
        f"func.func @main(%x: {t}) -> {t} {{ %y = aten.neg(%x) : ({t}) -> {t} func.return %y : {t} }}"
    )
    driver.run_passes(module, driver.pipeline(OPTIONS, target, for_gpu))
    with gpu.used():
        graph = driver.native(module, target, for_gpu)
        graph.function()
    return graph


def known(gpu: InterpretedGpu, address: int) -> int:
    """Numbers from an address to the end of what lies there. (A tensor that is given away would be printed.)"""
    return gpu._buffer(address, F32).numel()


def test_a_place_that_is_given_again(gpu: InterpretedGpu) -> None:
    """The size of a tensor that is gone says nothing of the next one in its place, of which nobody told."""
    memory = bytearray(4 * 64)
    small = torch.frombuffer(memory, dtype=F32, count=32)
    gpu.run(neg(gpu, 32), [small])
    at = small.data_ptr()
    assert known(gpu, at) == 32
    del small
    large = torch.frombuffer(memory, dtype=F32)
    assert large.data_ptr() == at
    large.copy_(torch.arange(64.0))
    (found,) = neg(gpu, 64)([large])
    assert torch.equal(found, -torch.arange(64.0))


def test_a_storage_that_is_resized(gpu: InterpretedGpu) -> None:
    x = torch.randn(32)
    gpu.run(neg(gpu, 32), [x])
    before = x.data_ptr()
    x.resize_(1 << 16)
    assert known(gpu, x.data_ptr()) == 1 << 16
    assert x.data_ptr() == before or known(gpu, before) != 32


def test_buffers_that_programs_make(gpu: InterpretedGpu) -> None:
    """They count from the call on, as long as somebody holds them."""
    (y,) = neg(gpu, 32)([torch.randn(32)])
    made = (y.data_ptr(), 32 * 4)
    assert made in gpu._ranges()
    view = y[3:]
    del y
    assert made in gpu._ranges()
    del view
    driver.release_memory()
    assert gpu._ranges() == []
