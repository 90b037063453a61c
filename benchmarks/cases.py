"""Functions and models that are measured on a CPU: what is called, and whether it ends in a backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from lamella.tools import zoo

Step = Callable[[Callable[..., Any]], Any]
"""One step of a case, with a program in the place of the case's own: what it returns, or nothing in training."""


def rms_norm(x: Tensor, w: Tensor) -> Tensor:
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v


def adam(p: list[Tensor], g: list[Tensor], m: list[Tensor], v: list[Tensor]) -> None:
    torch._foreach_lerp_(m, g, 0.1)
    torch._foreach_mul_(v, 0.99)
    torch._foreach_addcmul_(v, g, g, 0.01)
    d = torch._foreach_sqrt(v)
    torch._foreach_add_(d, 1e-8)
    torch._foreach_addcdiv_(p, m, d, -1e-3)


KERNELS: dict[str, tuple[Callable[..., Any], Callable[[], list[Any]]]] = {
    "gelu_affine": (
        lambda x, a, b: F.gelu(x * a + b), lambda: [torch.randn(4096, 1024), torch.randn(1024), torch.randn(1024)]
    ),
    "softmax": (lambda x: F.softmax(x, -1), lambda: [torch.randn(4096, 1024)]),
    "layer_norm_residual": (
        lambda x, r, w, b: F.layer_norm(x + r, x.shape[-1:], w, b),
        lambda: [torch.randn(4096, 1024), torch.randn(4096, 1024), torch.randn(1024), torch.randn(1024)],
    ),
    "rms_norm": (rms_norm, lambda: [torch.randn(4096, 1024), torch.randn(1024)]),
    "sum_dim0": (lambda x: x.sum(0), lambda: [torch.randn(4096, 1024)]),
    "transpose_add": (lambda x, y: x.t() + y, lambda: [torch.randn(2048, 2048), torch.randn(2048, 2048)]),
    "cross_entropy": (F.cross_entropy, lambda: [torch.randn(1024, 8192), torch.randint(0, 8192, (1024,))]),
    "dropout": (lambda x: F.dropout(x, 0.1) + x, lambda: [torch.randn(4096, 1024)]),
    "attention": (attention, lambda: [torch.randn(4, 8, 512, 64) for _ in range(3)]),
    "linear_gelu": (
        lambda x, w, b: F.gelu(F.linear(x, w, b)),
        lambda: [torch.randn(1024, 768), torch.randn(3072, 768) * 0.03, torch.randn(3072)],
    ),
    "max_pool": (lambda x: F.max_pool2d(F.relu(x), 3, 2, 1), lambda: [torch.randn(8, 64, 112, 112)]),
    "cumsum": (lambda x: x.cumsum(-1), lambda: [torch.randn(4096, 1024)]),
    "sort": (lambda x: (x * 2).sort(-1), lambda: [torch.randn(2048, 1024)]),
    "adam": (adam, lambda: [[torch.rand(256, 1024) for _ in range(24)] for _ in range(4)]),
}  # fmt: skip
"""Name to a function and what makes its arguments."""

WITHOUT_GRADIENT = ("sort", "adam")


def names() -> list[str]:
    """All cases: `kernel/infer`, `kernel/train`, `model/infer`, `model/train`."""
    trained = [name for name in KERNELS if name not in WITHOUT_GRADIENT]
    return [f"{n}/infer" for n in (*KERNELS, *zoo.NAMES)] + [f"{n}/train" for n in (*trained, *zoo.NAMES)]


def load(name: str, dtype: torch.dtype = torch.float32) -> tuple[Callable[..., Any], Step]:
    """The program of a case (eager; a module or a function) and its step."""
    name, _, mode = name.partition("/")
    if name in KERNELS:
        program, make = KERNELS[name]
        torch.manual_seed(0)
        args, kwargs, leaves = make(), dict[str, Any](), list[Tensor]()
    else:
        case = zoo.load(name, "small")
        program, args, kwargs = case.model.to(dtype), [], case.inputs(0)
        leaves = list[Tensor](case.model.parameters())
    args, kwargs = tree_map_only(Tensor, lambda t: t.to(dtype) if t.is_floating_point() else t, (args, kwargs))
    if mode == "infer":
        return program, lambda f: _infer(f, args, kwargs)
    leaves = leaves or [a for a in args if isinstance(a, Tensor) and a.is_floating_point()]
    for leaf in leaves:
        leaf.requires_grad_()
    if isinstance(program, nn.Module):
        program.train()
    return program, lambda f: _train(f, args, kwargs, leaves)


def _infer(f: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    with torch.no_grad():
        return f(*args, **kwargs)


def _train(f: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], leaves: list[Tensor]) -> None:
    result = f(*args, **kwargs)
    result = getattr(result, "logits", result)
    result.sum().backward()
    for leaf in leaves:
        leaf.grad = None  # gradients are of the step that makes them
