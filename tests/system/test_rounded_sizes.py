"""Sizes that programs make of real numbers are computed by the native program: no call of Python is left."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import lamella


def _power(x: Tensor) -> Tensor:
    side = int(x.shape[0] ** 0.5)
    return x.sin().view(side, x.shape[0] // side, 4).transpose(0, 1).contiguous()


def _root(x: Tensor) -> Tensor:
    return x[: int(math.sqrt(x.shape[0]))] + 1


def _floor(x: Tensor) -> Tensor:
    return x[: math.floor(x.shape[0] * 0.7)] + 1


def _ceil(x: Tensor) -> Tensor:
    return x[: math.ceil(x.shape[0] * 0.7)] + 1


@pytest.mark.parametrize("function", [_power, _root, _floor, _ceil])
def test_sizes(function: Callable[[Tensor], Tensor]) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="lamella", dynamic=True, fullgraph=True, options={"cache": False})
    with torch.no_grad():
        for n in (36, 64, 25, 49):
            x = torch.randn(n, 4)
            torch.testing.assert_close(compiled(x), function(x))


@pytest.mark.parametrize("real", ["FloatPow(ToFloat(s0), 0.5)", "OpaqueUnaryFn_sqrt(ToFloat(s0))", "0.7*ToFloat(s0)"])
@pytest.mark.parametrize("rounded", ["TruncToInt", "FloorToInt", "CeilToInt"])
def test_no_call_of_python(rounded: str, real: str) -> None:
    size = f"{rounded}({real})"
    text = f"""builtin.module {{
      func.func @main(%x: !sym.t<[s0], f32>) -> !sym.t<[{size}], f32> {{
        %0 = aten.slice.Tensor(%x, 0, 0, {size}, 1) : (!sym.t<[s0], f32>) -> !sym.t<[{size}], f32>
        %1 = aten.add.Scalar(%0, 1) : (!sym.t<[{size}], f32>) -> !sym.t<[{size}], f32>
        func.return %1 : !sym.t<[{size}], f32>
      }}
    }}"""
    lowered = str(lamella.lower(text, "llvm"))
    assert "fptosi" in lowered and "expression" not in lowered
