"""The backward of max pooling on a GPU, where each element looks for itself in its windows: by the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch._inductor.inductor_prims as inductor_prims

from lamella import driver
from lamella.codegen.cuda_interpreted import InterpretedGpu
from lamella.dialects.text import parse_module
from lamella.lowering.options import Options

CASES: list[tuple[list[int], list[int], list[int], list[int], list[int], bool]] = [
    ([2, 3, 8, 8], [3, 3], [2, 2], [1, 1], [1, 1], False),
    ([2, 3, 9, 7], [3, 3], [2, 2], [1, 1], [1, 1], True),
    ([2, 3, 9, 7], [2, 2], [2, 2], [0, 0], [1, 1], False),
    ([1, 2, 10, 10], [3, 3], [1, 1], [1, 1], [1, 1], False),
    ([1, 2, 10, 11], [3, 2], [2, 1], [1, 0], [2, 1], True),
    ([1, 2, 6, 6], [2, 2], [3, 3], [0, 0], [1, 1], False),
    ([1, 2, 12, 13], [5, 5], [2, 2], [2, 2], [1, 1], False),
    ([1, 1, 12, 12], [5, 5], [1, 1], [0, 0], [1, 1], False),
    ([0, 3, 8, 8], [3, 3], [2, 2], [1, 1], [1, 1], False),
]


@pytest.mark.parametrize(("shape", "kernel", "stride", "padding", "dilation", "ceil"), CASES)
def test_gradients(shape: list[int], kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool) -> None:
    """From indices, as ATen gives them, and from places within windows. Elements that several windows have found the
    largest get what all of these give.
    """
    x, prims = torch.randn(shape), inductor_prims
    windows = kernel, stride, padding, dilation
    y, indices = torch.ops.aten.max_pool2d_with_indices(x, *windows, ceil)
    _, offsets = prims._low_memory_max_pool_with_offsets(x, *windows, ceil)  # type: ignore[operator]
    grad = torch.randn_like(y)
    wanted = torch.ops.aten.max_pool2d_with_indices_backward(grad, x, *windows, ceil, indices)

    def t(shape: Sequence[int], dtype: str) -> str:
        return f"!sym.t<{list(shape)}, {dtype}, device=cuda:0>"

    at, by, i64, i8 = t(shape, "f32"), t(y.shape, "f32"), t(y.shape, "i64"), t(y.shape, "i8")
    settings = f"{kernel}, {stride}, {padding}, {dilation}"
    pool = f"{settings}, {str(ceil).lower()}"
    text = f"""
    func.func @main(%x: {at}, %g: {by}, %o: {i8}, %i: {i64}) -> ({at}, {at}, {by}, {i8}) {{
      %j = torch_prims._low_memory_max_pool_offsets_to_indices(%o, {kernel}, {shape[2:]}, {stride}, {padding}, {dilation})
        : ({i8}) -> {i64}
      %y = aten.max_pool2d_with_indices_backward(%g, %x, {pool}, %j) : ({by}, {at}, {i64}) -> {at}
      %z = aten.max_pool2d_with_indices_backward(%g, %x, {pool}, %i) : ({by}, {at}, {i64}) -> {at}
      %v, %w = torch_prims._low_memory_max_pool_with_offsets(%x, {pool}) : ({at}) -> ({by}, {i8})
      func.return %y, %z, %v, %w : {at}, {at}, {by}, {i8}
    }}"""
    gpu = InterpretedGpu()
    with gpu.used():
        graph = driver.compile_module(parse_module(text), Options(target="sm_90", cache=False)).graph
        found = gpu.run(graph, [x, grad, offsets, indices])
    for f, e in zip(found, (wanted, wanted, y, offsets), strict=True):
        torch.testing.assert_close(f, e)
