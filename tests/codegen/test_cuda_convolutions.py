"""Convolutions of GPUs, on a GPU that is not there: windows side by side are products, a bias is added by a kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from xdsl.dialects.func import FuncOp

from lamella import driver
from lamella.codegen.cuda_interpreted import InterpretedGpu
from lamella.codegen.runtime import NativeGraph
from lamella.dialects.aten import AtenOp
from lamella.dialects.tensor import TensorType
from lamella.dialects.text import parse_module, print_module
from lamella.frontend.capture import capture
from lamella.lowering.options import Options
from lamella.lowering.pattern_match import terminator

CONVOLVED: Any = (None, F.conv1d, F.conv2d, F.conv3d)


def on_gpu(
    f: Callable[..., Any], args: Sequence[Tensor], options: Options
) -> tuple[NativeGraph, list[str], list[TensorType]]:
    """A program for a GPU, the calls of ATen that the passes before kernels leave of it, and the types of its results."""
    target, gpu = driver.target_of(options), driver.gpu_of(options)
    text = print_module(capture(f, *(a.to("meta") for a in args)).module)
    module = parse_module(text.replace("device=meta", "device=cuda:0").replace('"meta"', '"cuda:0"'))
    before, _, after = driver.pipeline(options, target, gpu).partition(",aten-to-prims")
    driver.run_passes(module, before)
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    types = [cast(TensorType, v.type) for v in terminator(function.body.block).operands]
    calls = [op.name for op in module.walk() if isinstance(op, AtenOp)]
    driver.run_passes(module, f"aten-to-prims{after}")
    graph = driver.native(module, target, gpu)
    graph.function()
    return graph, calls, types


def check(f: Callable[..., Any], args: Sequence[Tensor], numerics: str = "fast") -> list[str]:
    """As close to float64 as eager is; the calls of ATen."""
    gpu = InterpretedGpu()
    with gpu.used():
        graph, calls, types = on_gpu(f, args, Options(target="sm_90", cache=False, numerics=numerics))
    exact, eager, got = f(*(a.double() for a in args)), f(*args), gpu.run(graph, list(args))
    for right, e, g, t in zip(exact, eager, got, types, strict=True):
        assert g.dtype == e.dtype and g.shape == e.shape and g.stride() == t.strides
        error = (e.double() - right).abs().max() + torch.finfo(e.dtype).eps * right.abs().max()
        assert (g.double() - right).abs().max() <= 2 * error
    return calls


def images(n: int, dtype: torch.dtype, last: bool) -> list[Tensor]:
    """Two images of three channels and 4, 6 or 8 places of 2 or 3 in each dim, a weight and a bias of five channels."""
    sizes, kernel = (8, 6, 12)[:n], (2, 3, 3)[:n]
    x, w = torch.randn(2, 3, *sizes), torch.randn(5, 3, *kernel)
    if last:
        x, w = (t.to(memory_format=(torch.channels_last, torch.channels_last_3d)[n - 2]) for t in (x, w))
    return [x.to(dtype), w.to(dtype), torch.randn(5).to(dtype)]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("n,last", [(1, False), (2, False), (2, True), (3, False), (3, True)])
def test_windows_side_by_side(n: int, last: bool, dtype: torch.dtype) -> None:
    """With a bias and without, and the three gradients: no convolution is left."""
    torch.manual_seed(0)
    x, w, b = images(n, dtype, last)
    kernel = w.shape[2:]

    def forward(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return CONVOLVED[n](x, w, b, kernel), CONVOLVED[n](x, w, None, kernel).relu()

    def backward(g: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        rest: Any = ([5], kernel, [0] * n, [1] * n, False, [0] * n, 1, [True, True, True])
        return torch.ops.aten.convolution_backward(g, x, w, *rest)

    assert "aten.convolution" not in check(forward, (x, w, b))
    g = torch.randn_like(CONVOLVED[n](x, w, b, kernel))
    calls = check(backward, (g, x, w))
    assert "aten.convolution_backward" not in calls and calls.count("aten.mm") == 2


def test_what_is_not_read_is_not_made() -> None:
    """The gradient of images, which an embedding of patches has not."""
    x, w, _ = images(2, torch.bfloat16, False)

    def backward(g: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        rest: Any = ([5], w.shape[2:], [0, 0], [1, 1], False, [0, 0], 1, [False, True, False])
        return (torch.ops.aten.convolution_backward(g, x, w, *rest)[1],)

    assert check(backward, (torch.randn(2, 5, 4, 2).bfloat16(), x, w)).count("aten.mm") == 1


@pytest.mark.parametrize("numerics", ["fast", "eager"])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_bias(groups: int, numerics: str) -> None:
    """What ATen would add in a kernel of its own is added where the result is read; of depthwise ones it adds it itself."""
    torch.manual_seed(0)
    x, w, b = torch.randn(2, 4, 9, 9), torch.randn(8, 4 // groups, 3, 3), torch.randn(8)

    def f(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        return (
            F.gelu(F.conv2d(x, w, b, 1, 1, groups=groups)),
            F.conv_transpose2d(x, w.view(4, -1, 3, 3), b[: 8 // groups]),
        )

    check(f, (x, w, b), numerics)
