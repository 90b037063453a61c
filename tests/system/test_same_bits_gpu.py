"""Programs for a GPU with `batch_invariant`: kernels of one row and of many add up rows alike, to the last instruction."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from lamella import driver
from lamella.codegen.cuda_interpreted import InterpretedGpu
from lamella.dialects.loop import ForOp, KernelOp
from lamella.dialects.text import parse_module, print_module
from lamella.frontend.capture import capture
from lamella.lowering.options import Options

OPTIONS = Options(target="sm_90", cache=False, batch_invariant=True)
CPU, GPU = driver.target_of(OPTIONS), driver.gpu_of(OPTIONS)
ORDERED = {"add", "mul", "welford", "expsum"}
"""Reductions whose result depends on their order."""


def network(x: Tensor, w: Tensor, b: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    h = F.gelu(F.linear(x, w, b))
    y = F.layer_norm(F.linear(h, v) + x, [x.shape[-1]])
    return y.softmax(-1), h, y.cumsum(-1), (y * 3 + h.amax(-1, keepdim=True)).exp().sum(-1)


def rows(x: Tensor, *_: Tensor) -> tuple[Tensor, ...]:
    parts = x.reshape(x.shape[0], -1, 10).mean((1, 2))
    return x.sum(-1), parts, x.logsumexp(-1), x.norm(dim=-1), F.rms_norm(x, [x.shape[-1]]), x.cumsum(-1), x.var(-1)


def sums(program: Any, *inputs: Tensor) -> set[Any]:
    """How each ordered reduction of the program is shared out: its tile, warps, and whether buffers are aligned."""
    text = print_module(capture(program, *inputs).module).replace("device=meta", "device=cuda:0")
    module = parse_module(text)
    driver.run_passes(module, driver.pipeline(OPTIONS, CPU, GPU).partition(",kernel-to-llvm")[0])
    assert not any(o.name.startswith(("aten.mm", "aten.addmm")) for o in module.walk())
    found: set[Any] = set()
    for kernel in (k for k in module.ops if isinstance(k, KernelOp)):
        for loop in (o for o in kernel.walk() if isinstance(o, ForOp)):
            kinds = tuple(k.data for k in loop.reduce.data if k.data in ORDERED)
            if kinds:
                product = "dot" in loop.attributes
                shared = [loop.attributes.get("tile"), kernel.attributes["warps"], "unaligned" in kernel.attributes]
                grid = str(kernel.attributes.get("tile")) if product else ""
                tile = [n.value.data for n in getattr(shared[0], "data", {}).values()]
                extents = tuple(str(d.extent) for d in loop.dims)
                found |= {(kind, extents, tuple(tile), str(shared[1]), shared[2], product, grid) for kind in kinds}
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("width", [24, 30, 320, 20_000])
def test_sums_of_rows(width: int, dtype: torch.dtype) -> None:
    def inputs(n: int) -> list[Tensor]:
        w, v = (torch.empty(s, dtype=dtype, device="meta") for s in ((2 * width, width), (width, 2 * width)))
        b, x = (torch.empty(s, dtype=dtype, device="meta") for s in ((2 * width,), (n, width)))
        return [x, w, b, v] if width < 1000 else [x]

    for program in (network, rows) if width % 10 == 0 and width < 1000 else (network,) if width < 1000 else (rows,):
        wanted = sums(program, *inputs(70))
        assert wanted
        for n in (1, 2, 33, 1000, 20_000):
            assert sums(program, *inputs(n)) == wanted, n


@pytest.mark.parametrize("n", [1, 3])
def test_numbers(n: int) -> None:
    """The same on a GPU that is not there: tiles are larger than what they hold."""
    torch.manual_seed(0)
    x, w, b, v = torch.randn(n, 24), torch.randn(48, 24) / 8, torch.randn(48), torch.randn(24, 48) / 8
    module = capture(network, x, w, b, v).module
    text = re.sub(r"(!sym\.t<\[[^\]]*\], \w+(?:, strides=\[[^\]]*\])?)>", r"\1, device=cuda:0>", print_module(module))
    gpu = InterpretedGpu()
    with gpu.used():
        graph = driver.compile_module(parse_module(text.replace('"cpu"', '"cuda:0"')), OPTIONS).graph
        found = gpu.run(graph, [x, w, b, v])
    for a, e in zip(found, network(x, w, b, v), strict=True):
        torch.testing.assert_close(a, e)
