"""Checks of kernels on a GPU, a function each; part of `gpu_check.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from gpu_cases import GPU, Case, agree, check, compiled, ints, rand


def _images(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    return rand(*shape, dtype=dtype).to(memory_format=torch.channels_last)


KERNELS: dict[str, Case] = {
    "add": (lambda x, y: x + y, lambda t: (rand(1000, dtype=t), rand(1000, dtype=t))),
    "gelu": (lambda x: F.gelu(x * 1.5 + 0.5), lambda t: (rand(257, 129, dtype=t),)),
    "silu mul": (lambda x, y: F.silu(x) * y, lambda t: (rand(64, 1024, dtype=t), rand(64, 1024, dtype=t))),
    "unary": (
        lambda x: (x.exp(), x.sin(), x.cos(), x.tanh(), x.sigmoid(), x.abs().log1p(), x.abs().sqrt(), x.erf()),
        lambda t: (rand(4096, dtype=t),),
    ),
    "more unary": (
        lambda x: (x.expm1(), x.abs().rsqrt(), x.floor(), x.round(), x.atan(), x.asinh(), x.sinh(), x.tan(), x.exp2()),
        lambda t: (rand(4096, dtype=t),),
    ),
    "binary": (
        lambda x, y: (x / y, x.abs().pow(y), torch.maximum(x, y), torch.atan2(x, y), torch.fmod(x, y), x.copysign(y)),
        lambda t: (rand(4096, dtype=t), rand(4096, dtype=t)),
    ),
    "special values": (
        lambda x: (x.exp(), x.log(), x.sqrt(), x.tanh(), x.relu(), x.clamp(-1, 1), x.isnan(), x > 0, x.sigmoid()),
        lambda t: (
            torch.tensor([0.0, -0.0, 1, -1, 1e30, -1e30, float("inf"), -float("inf"), float("nan")] * 9).to(GPU, t),
        ),
    ),
    "broadcast": (lambda x, y: x * y + y, lambda t: (rand(33, 1, 65, dtype=t), rand(17, 1, dtype=t))),
    "where": (lambda x, y: torch.where(x > y, x, y * 2), lambda t: (rand(100, 100, dtype=t), rand(100, dtype=t))),
    "convert": (
        lambda x: (x.to(torch.int32), x.to(torch.float64), x.bool(), x.to(torch.float16), x.to(torch.uint8)),
        lambda t: (rand(1000, dtype=t).abs() * 20,),
    ),
    "softmax": (lambda x: x.softmax(-1), lambda t: (rand(128, 1000, dtype=t),)),
    "softmax long": (lambda x: x.softmax(-1), lambda t: (rand(4, 100_000, dtype=t),)),
    "softmax dim 0": (lambda x: x.softmax(0), lambda t: (rand(300, 70, dtype=t),)),
    "log_softmax": (lambda x: x.log_softmax(-1), lambda t: (rand(60, 513, dtype=t),)),
    "layer_norm": (
        lambda x, w, b: F.layer_norm(x, (768,), w, b),
        lambda t: (rand(200, 768, dtype=t), rand(768, dtype=t), rand(768, dtype=t)),
    ),
    "rms_norm": (
        lambda x, w: x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(x.dtype) * w,
        lambda t: (rand(200, 1024, dtype=t), rand(1024, dtype=t)),
    ),
    "group_norm": (lambda x: F.group_norm(x, 4), lambda t: (rand(3, 16, 9, 9, dtype=t),)),
    "batch_norm": (
        lambda x, m, v: F.batch_norm(x, m, v),
        lambda t: (rand(4, 8, 7, 7, dtype=t), rand(8), rand(8).abs()),
    ),
    "sum all": (lambda x: x.sum(), lambda t: (rand(1000, 333, dtype=t),)),
    "sum rows": (lambda x: x.sum(-1), lambda t: (rand(500, 3000, dtype=t),)),
    "sum columns": (lambda x: x.sum(0), lambda t: (rand(3000, 500, dtype=t),)),
    "sum middle": (lambda x: x.sum(1), lambda t: (rand(10, 300, 70, dtype=t),)),
    "sum of images": (
        lambda x, y, m: (x.sum((0, 2, 3)), (x * (y > 0)).sum((0, 2, 3)), ((x - m) * x).sum((0, 2, 3))),
        lambda t: (_images(64, 96, 28, 28, dtype=t), _images(64, 96, 28, 28, dtype=t), rand(64, 1, 1, 1, dtype=t)),
    ),
    "var of images": (
        lambda x, y: (torch.var_mean(x, (0, 2, 3)), torch.var_mean(y, (0, 2, 3))),
        lambda t: (_images(64, 48, 50, 53, dtype=t), _images(64, 512, 7, 7, dtype=t) + 10),
    ),
    "sum columns beside rows": (
        lambda x, y, m: (((x - m) * y).sum(0), y.sum(0)),
        lambda t: (rand(12345, 264, dtype=t), rand(12345, 264, dtype=t), rand(12345, 1, dtype=t)),
    ),
    "max min": (lambda x: (x.amax(-1), x.amin(0), x.max()), lambda t: (rand(100, 300, dtype=t),)),
    "argmax": (lambda x: (x.argmax(-1), x.argmin(0), x.max(-1)), lambda t: (rand(100, 300, dtype=t),)),
    "var std": (lambda x: (x.var(-1), x.std(0), torch.var_mean(x, 1)), lambda t: (rand(100, 300, dtype=t) + 10,)),
    "prod any all": (lambda x: (x.prod(-1), (x > 2).any(-1), (x > -4).all(0)), lambda t: (rand(50, 20, dtype=t),)),
    "cumsum": (lambda x: (x.cumsum(-1), x.cumsum(0)), lambda t: (rand(100, 300, dtype=t),)),
    "transpose": (lambda x, y: x.t() + y, lambda t: (rand(300, 200, dtype=t), rand(200, 300, dtype=t))),
    "permute": (lambda x: x.permute(2, 0, 1).contiguous() * 2, lambda t: (rand(30, 40, 50, dtype=t),)),
    "cat": (lambda x, y: torch.cat([x, y * 2, x[:, :5]], 1), lambda t: (rand(30, 70, dtype=t), rand(30, 20, dtype=t))),
    "pad": (lambda x: F.pad(x, (1, 2, 3, 4), value=0.5) + 1, lambda t: (rand(30, 40, dtype=t),)),
    "slices": (lambda x: x[::2, 1:] + x[1::2, :-1], lambda t: (rand(100, 80, dtype=t),)),
    "flip roll": (lambda x: x.flip(0) + x.roll(3, 1), lambda t: (rand(30, 40, dtype=t),)),
    "embedding": (lambda w, i: F.embedding(i, w) * 2, lambda t: (rand(1000, 64, dtype=t), ints(1000, 7, 33))),
    "index": (lambda x, i: x[i] + x[:, None, 0][i], lambda t: (rand(100, 30, dtype=t), ints(100, 50))),
    "gather": (lambda x, i: x.gather(1, i), lambda t: (rand(100, 30, dtype=t), ints(30, 100, 7))),
    "scatter_add": (
        lambda x, i, s: x.scatter_add(0, i, s),
        lambda t: (rand(10, 30, dtype=t), ints(10, 100, 30), rand(100, 30, dtype=t)),
    ),
    "index_add": (
        lambda x, i, s: x.index_add(0, i, s),
        lambda t: (rand(50, 30, dtype=t), ints(50, 1000), rand(1000, 30, dtype=t)),
    ),
    "scatter": (
        lambda x, i, s: x.scatter(1, i, s),
        lambda t: (
            rand(20, 64, dtype=t),
            torch.stack([torch.randperm(64)[:9] for _ in range(20)]).to(GPU),
            rand(20, 9, dtype=t),
        ),
    ),
    "triu": (lambda x: (x.triu(1), x.tril(-2)), lambda t: (rand(70, 80, dtype=t),)),
    "cross_entropy": (lambda x, i: F.cross_entropy(x, i), lambda t: (rand(200, 1000, dtype=t), ints(1000, 200))),
    "interpolate": (lambda x: F.interpolate(x, scale_factor=2.0), lambda t: (rand(2, 3, 17, 19, dtype=t),)),
    "arange full": (
        lambda x: x + torch.arange(64, device=x.device) + torch.full((64,), 3.0, device=x.device).to(x.dtype),
        lambda t: (rand(10, 64, dtype=t),),
    ),
    "zero sizes": (lambda x: (x * 2, x.sum(0), x.sum(1)), lambda t: (rand(0, 5, dtype=t),)),
    "scalars": (lambda x: (x * 2 + 1, x.sum()), lambda t: (rand(dtype=t),)),
    "mm bias gelu": (
        lambda x, w, b: F.gelu(F.linear(x, w, b)),
        lambda t: (rand(64, 256, dtype=t), rand(128, 256, dtype=t) / 16, rand(128, dtype=t)),
    ),
    "bmm": (lambda x, y: torch.bmm(x, y) + 1, lambda t: (rand(4, 33, 65, dtype=t), rand(4, 65, 20, dtype=t))),
    "conv2d relu": (
        lambda x, w, b: F.conv2d(x, w, b, padding=1).relu(),
        lambda t: (rand(2, 8, 20, 20, dtype=t), rand(16, 8, 3, 3, dtype=t) / 8, rand(16, dtype=t)),
    ),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda t: (rand(2, 4, 64, 64, dtype=t), rand(2, 4, 64, 64, dtype=t), rand(2, 4, 64, 64, dtype=t)),
    ),
    "sort topk": (lambda x: (x.sort(-1)[0] + 1, x.topk(3, -1)[0]), lambda t: (rand(20, 64, dtype=t),)),
    "max_pool": (lambda x: F.max_pool2d(x, 2) + F.avg_pool2d(x, 2), lambda t: (rand(2, 3, 20, 20, dtype=t),)),
}


def _kernel(name: str, dtype: torch.dtype) -> Callable[[Any], str]:
    program, make = KERNELS[name]
    return lambda _: agree(program, *make(dtype))


for _name in KERNELS:
    for _dtype, _short in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
        check(f"kernels/{_name} {_short}")(_kernel(_name, _dtype))


@check("kernels/integers")
def _(_: Any) -> str:
    x, y = ints(1000, 5000) - 500, ints(50, 5000) + 1
    return agree(lambda x, y: (x + y, x * y, x // y, x % y, x & y, x << 2, x.sum(), x.max(), x > y), x, y)


@check("kernels/f16")
def _(_: Any) -> str:
    return agree(lambda x: (F.gelu(x), x.softmax(-1), x.sum(0)), rand(100, 200, dtype=torch.float16))


@check("kernels/f64")
def _(_: Any) -> str:
    return agree(lambda x: (x.exp(), x.softmax(-1), x.sum(0), x.tanh()), rand(100, 200, dtype=torch.float64))


@check("kernels/transforms")
def _(_: Any) -> str:
    """Fourier transforms whose dims are not in order, or more than cuFFT takes at once, lie as eager's."""

    def program(x: torch.Tensor) -> Any:
        few, many = torch.fft.fft2(x, dim=(1, 0)), torch.fft.irfftn(torch.fft.fftn(x))
        return few.real * 2, few.abs().sum(0), many

    x = rand(4, 5, 6, 4, 3)
    fast = compiled(lambda x: (torch.fft.fft2(x, dim=(1, 0)), torch.fft.rfft2(x, dim=(1, 0)), torch.fft.fftn(x)))
    eager = torch.fft.fft2(x, dim=(1, 0)), torch.fft.rfft2(x, dim=(1, 0)), torch.fft.fftn(x)
    assert [y.stride() for y in fast(x)] == [y.stride() for y in eager]
    return agree(program, x)
