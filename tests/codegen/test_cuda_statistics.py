"""Statistics of channels on a GPU that is not there: kernels are interpreted on the CPU's memory."""

from __future__ import annotations

import pytest
import torch

from lamella.codegen.cuda_interpreted import InterpretedGpu

from .test_cuda_programs import compiled, type_of


@pytest.fixture
def gpu() -> InterpretedGpu:
    return InterpretedGpu()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(8, 24, 9, 7), (4, 64, 28, 28), (2, 40, 70, 33), (64, 33, 7, 7), (3, 5, 260, 100)])
def test_statistics_of_channels_side_by_side(gpu: InterpretedGpu, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Read once, in parts, in tiles that are whole or not; far from 0."""
    x = (torch.randn(shape) * (0.1 + torch.rand(shape[1]).view(-1, 1, 1)) + 50).to(dtype)
    x = x.contiguous(memory_format=torch.channels_last)
    t, c = type_of(x), type_of(torch.empty(shape[1]))
    graph = compiled(
        gpu,
        f"""
        func.func @main(%x: {t}) -> ({c}, {c}) {{
          %y, %mean, %rstd = aten._native_batch_norm_legit.no_stats(%x, none, none, true, 0.1, 0.0)
            : ({t}) -> ({t}, {c}, {c})
          func.return %mean, %rstd : {c}, {c}
        }}
        """,
    )
    mean, rstd = gpu.run(graph, [x])
    exact = x.double().transpose(0, 1).flatten(1)
    torch.testing.assert_close(mean.double(), exact.mean(1), rtol=2e-7, atol=0)
    torch.testing.assert_close(rstd.double(), exact.var(1, correction=0).rsqrt(), rtol=2e-5, atol=0)
