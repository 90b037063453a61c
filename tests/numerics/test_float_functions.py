"""Functions of Python's `math` of numbers that a program reads: kernels compute them, and nothing else is called."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from lamella.driver import Compilation, compile_module
from lamella.frontend.backend import Backend
from lamella.lowering.options import Options
from lamella.lowering.report import READ

NUMBER = 3.0
"""With symbolic sizes TorchDynamo makes an argument of it."""


@pytest.mark.parametrize("name", ["sqrt", "log2", "sin", "cos", "tanh"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_of_a_number(name: str, dtype: torch.dtype) -> None:
    function: Callable[[float], float] = getattr(math, name)

    def scaled(x: Tensor) -> Tensor:
        return x * function(2.0 / NUMBER) + 1.0

    made: list[Compilation] = []

    def compile(*args: object) -> Compilation:
        made.append(compile_module(*args))  # type: ignore[arg-type]
        return made[-1]

    torch._dynamo.reset()
    x = torch.linspace(-3, 3, 35, dtype=dtype).view(5, 7)
    backend = Backend(Options(cache=False, numerics="eager", strict=True), compile)
    result = torch.compile(scaled, backend=backend, dynamic=True)(x)
    torch.testing.assert_close(result, scaled(x))
    assert [c for m in made for c in m.calls if c.reason != READ] == []
    torch._dynamo.reset()
