"""Small programs whose kernels are run by an emulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, randint, randn


def attention(q: Tensor, k: Tensor, v: Tensor, b: Tensor) -> Tensor:
    return ((q @ k.transpose(-1, -2)) * 0.125 + b).softmax(-1) @ v


def bytes_(*shape: int) -> Tensor:
    return randint(-128, 128, shape, dtype=torch.int8)


def last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


def functions(x: Tensor) -> tuple[Tensor, ...]:
    y = x.abs() + 0.1
    return (
        x.exp(), y.log(), x.sin(), x.cos(), x.tanh(), x.erf(), y.rsqrt(), y.log1p(), x.expm1(), x.atan(),
        torch.pow(y, 1.3), x.sigmoid(), x.sinh(), torch.atan2(x, y), y.lgamma(), x.round(), x.floor(),
    )  # fmt: skip


CASES: dict[str, tuple[Callable[..., Any], Callable[[], list[Any]]]] = {
    "functions": (functions, lambda: [randn(37, 29) * 3]),
    "gelu_affine": (lambda x, a, b: F.gelu(x * a + b), lambda: [randn(37, 67), randn(67), randn(67)]),
    "softmax": (lambda x: F.softmax(x, -1), lambda: [randn(37, 131)]),
    "layer_norm": (lambda x, r, w, b: F.layer_norm(x + r, (67,), w, b), lambda: [
        randn(37, 67), randn(37, 67), randn(67), randn(67)
    ]),
    "sum_dim0": (lambda x: x.sum(0), lambda: [randn(131, 67)]),
    "sum_dim1": (lambda x: x.sum(1), lambda: [randn(131, 67)]),
    "var_mean": (lambda x: torch.var_mean(x, 1), lambda: [randn(31, 267)]),
    "transpose_add": (lambda x, y: x.t() + y, lambda: [randn(67, 131), randn(131, 67)]),
    "embedding": (lambda i, w: F.embedding(i, w) * 2, lambda: [randint(0, 50, (4, 9)), randn(50, 67)]),
    "linear": (lambda x, w, b: F.gelu(F.linear(x, w, b)), lambda: [randn(19, 70), randn(45, 70) / 8, randn(45)]),
    "linear_tiles": (lambda x, w, b: F.relu(F.linear(x, w, b)), lambda: [randn(24, 64), randn(48, 64) / 8, randn(48)]),
    "linear_1_row": (lambda x, w: F.linear(x, w), lambda: [randn(1, 200), randn(64, 200) / 14]),
    "mm_columns": (lambda x, w: x @ w, lambda: [randn(13, 40), randn(40, 100) / 6]),
    "bmm": (lambda x, w: x @ w, lambda: [randn(3, 13, 24), randn(3, 24, 31) / 5]),
    "int8_weight": (lambda x, w, s: F.linear(x, w.to(x.dtype)) * s, lambda: [randn(7, 64), bytes_(48, 64), randn(48)]),
    "int_mm": (lambda x, w: x.int() @ w.int().t(), lambda: [bytes_(20, 64), bytes_(32, 64)]),
    "sdpa": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda: [randn(1, 2, 70, 32) for _ in range(3)],
    ),
    "attention": (attention, lambda: [*(randn(1, 2, 50, 32) for _ in range(3)), randn(2, 50, 50)]),
    "depthwise": (lambda x, w: F.conv2d(x, w, padding=1, groups=8), lambda: [randn(1, 8, 20, 20), randn(8, 1, 3, 3)]),
    "depthwise_last": (
        lambda x, w: F.conv2d(x, w, padding=1, groups=16), lambda: [last(randn(1, 16, 12, 12)), randn(16, 1, 3, 3)]
    ),
    "cumsum": (lambda x: x.cumsum(-1), lambda: [randn(9, 131)]),
    "argmax": (lambda x: x.argmax(-1), lambda: [randn(9, 131)]),
    "topk": (lambda x: x.topk(8, -1)[0], lambda: [randn(9, 256)]),
    "sort": (lambda x: x.sort(dim=-1, stable=True), lambda: [randn(9, 100)]),
    "scatter_add": (
        lambda a, x, i: a.scatter_add(0, i[:, None].expand_as(x), x),
        lambda: [randn(20, 33), randn(50, 33), randint(0, 20, (50,))],
    ),
    "max_pool": (lambda x: F.max_pool2d(F.relu(x), 3, 2, 1), lambda: [randn(1, 3, 21, 23)]),
    "where": (lambda x, y: torch.where(x > 0, x * y, (x / y).to(x.dtype)), lambda: [randn(67), randn(67)]),
    "whole_numbers": (lambda x: (x * 3 // 2, x % 7, x >> 1, x.float()), lambda: [randint(-100, 100, (131,))]),
}  # fmt: skip
