"""Attention with regions by torch, as `dialects/flex.py` defines it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor
from xdsl.ir import Operation

from ..dialects import flex
from ..dialects.tensor import TensorType
from .interpret_flow import run_region
from .interpreter import Environment, arguments, torch_dtype


class _Attention:
    """The scores of an op, by its operands."""

    def __init__(self, op: flex.Flex, operands: Sequence[Any], env: Environment) -> None:
        self.op, self.env = op, env
        args = arguments(op, operands, env)
        values = dict(zip(op.operands, operands, strict=True))
        self.query, self.key, self.value = args[:3]
        self.rest: list[Tensor] = args[3 : len(op.TENSORS)]
        self.scale = float(args[len(op.TENSORS)])
        self.taken = {kind: [values[v] for v in op.taken(kind)] for kind in ("score", "mask")}
        self.dtype = torch.float64 if op.precision == "f64" else torch.float32
        self.key, self.value = self.repeated(self.key), self.repeated(self.value)
        scores = self.query.to(self.dtype) @ self.key.to(self.dtype).mT * self.scale
        self.scores = scores
        self.numbers = [torch.arange(n, device=scores.device) for n in scores.shape]
        (self.mask,) = run_region(op.regions[1], [*self.numbers, *self.taken["mask"]], env)
        (modified,) = run_region(op.regions[0], [scores, *self.numbers, *self.taken["score"]], env)
        self.final = torch.where(self.mask, modified, torch.tensor(-math.inf, dtype=self.dtype))

    def repeated(self, x: Tensor) -> Tensor:
        batch, heads = self.query.shape[:2]
        return x.repeat_interleave(heads // x.shape[1], 1).expand(batch, -1, -1, -1)

    def shared(self, x: Tensor, like: Tensor) -> Tensor:
        """The gradient of keys or values whose heads and batches were repeated."""
        x = x.unflatten(1, (like.shape[1], -1)).sum(2)
        return x if x.shape[0] == like.shape[0] else x.sum(0, keepdim=True)


def _forward(op: flex.AttentionOp, operands: Sequence[Any], env: Environment) -> tuple[Any, ...]:
    a = _Attention(op, operands, env)
    blind = (a.final == -math.inf).all(-1)
    logs = torch.where(blind, -math.inf, a.final.logsumexp(-1))
    weights = torch.where(blind[..., None], 0.0, a.final.softmax(-1))
    out = weights.to(a.query.dtype) @ a.value.to(a.query.dtype)
    rows = [logs / math.log(2), a.final.amax(-1) / math.log(2)]
    return _typed(op, [out, *rows], env)


def _backward(op: flex.AttentionBackwardOp, operands: Sequence[Any], env: Environment) -> tuple[Any, ...]:
    a = _Attention(op, operands, env)
    out, logs, grad, grad_logs = a.rest
    logs = logs * math.log(2) if a.dtype is torch.float32 else a.final.logsumexp(-1)
    weights = torch.where(logs[..., None] == -math.inf, 0.0, (a.final - logs[..., None]).exp())
    wide = grad.to(weights.dtype)
    change = wide @ a.value.to(weights.dtype).mT - (out.to(weights.dtype) * wide).sum(-1, keepdim=True)
    change = weights * (change + grad_logs[..., None] / math.log(2))
    gradient, *captured = run_region(op.joint, [a.scores, *a.numbers, change, *a.taken["score"]], env)
    dtype = a.query.dtype
    scores = torch.where(a.mask, (gradient * a.scale).to(dtype), 0.0)
    key, value = operands[1:3]
    grad_key = a.shared(scores.mT @ a.query, key)
    grad_value = a.shared(weights.to(dtype).mT @ grad.to(dtype), value)
    return _typed(op, [scores @ a.key, grad_key, grad_value, *captured], env)


def _typed(op: Operation, values: Sequence[Tensor], env: Environment) -> tuple[Tensor, ...]:
    """With the dtypes and strides of the results."""
    types = [cast(TensorType, r.type) for r in op.results]
    return tuple(
        torch.empty_strided(v.shape, [env.evaluate(s) for s in t.strides], dtype=torch_dtype(t)).copy_(v)
        for v, t in zip(values, types, strict=True)
    )


HANDLERS: dict[type[Operation], Callable[..., tuple[Any, ...]]] = {
    flex.AttentionOp: _forward,
    flex.AttentionBackwardOp: _backward,
}
