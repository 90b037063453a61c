"""uint16, uint32 and uint64, with which eager does little: all of that in kernels, wrapping around."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from lamella.tools.op_check import check_call

FUNCTIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mul": lambda x, y: x * y,
    "bits": lambda x, y: (x & y) ^ (x | y),
    "eq": lambda x, y: (x == y) | (x != x),
    "sum": lambda x, y: x.sum(),
    "to f32": lambda x, y: x.float() * 0.5,
    "to f64": lambda x, y: x.double() * 0.5,
    "to bf16": lambda x, y: x.bfloat16(),
    "to narrower": lambda x, y: x.to(torch.uint8) + y.to(torch.int8),
    "to wider": lambda x, y: x.long() + y.long(),
    "to bool": lambda x, y: x.bool() ^ y.bool(),
    "from f32": lambda x, y: (x.float() * 0.25).to(x.dtype),
    "from i64": lambda x, y: (x.long() - y.long()).to(x.dtype),
    "gather": lambda x, y: x[y.long() % 5],
    "cat": lambda x, y: torch.cat([x, y, x * y]),
    "layout": lambda x, y: (x * y).reshape(1, -1).t().contiguous(),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", (torch.uint16, torch.uint32, torch.uint64), ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name: str, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randint(0, 1 << min(8 * dtype.itemsize, 62), (2, 37), generator=generator)
    x[:3], y[:3] = torch.tensor([0, 1, -1]), torch.tensor([-1, 1, 5])  # -1 is the largest
    assert check_call(FUNCTIONS[name], (x.to(dtype), y.to(dtype))) == []


OUTSIDE = [-1.0, -3e9, 3e9, 1e19, -1e19, 2.0**63, 1e30, -1e30, math.inf, -math.inf, math.nan, 0.9, -0.9, 70000.0]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other instructions, other numbers")
@pytest.mark.parametrize("source", (torch.float32, torch.float64, torch.bfloat16), ids=str)
@pytest.mark.parametrize("dtype", (torch.uint8, torch.uint16, torch.uint64, torch.int16, torch.int64), ids=str)
def test_floats_that_are_out_of_range(dtype: torch.dtype, source: torch.dtype) -> None:
    """Undefined in C, but the same in eager for every element and dtype here, on x86."""
    x = torch.tensor(OUTSIDE, dtype=source).repeat_interleave(40)
    torch._dynamo.reset()
    got = torch.compile(lambda x: x.to(dtype), backend="lamella", options={"cache": False})(x)
    assert got.tolist() == x.to(dtype).tolist()
