"""aten to aten: `flex.attention` and its gradient become what they are defined as.

    scores = where(mask_mod(b, h, i, j), score_mod(scale * query @ key^T, b, h, i, j), -inf)
    out, lse, max = softmax(scores) @ value, log2(sum(exp(scores))), max(scores) / ln(2)

Their regions stand in place. What becomes one kernel of it is found later, by the passes that find attention that is
written out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.flex import AttentionBackwardOp, AttentionOp, Flex
from ..dialects.flow import bodies
from ..dialects.flow_op import YieldOp
from ..dialects.tensor import TensorType
from .aten_builder import AtenBuilder, type_of
from .decisions import decide
from .inline_calls import copy_locations
from .origins import lines

LN2: Final = math.log(2)


@dataclass(frozen=True)
class AtenInlineFlex(ModulePass):
    """Write attention with regions as products, a softmax and the ops of the regions."""

    name = "aten-inline-flex"
    statistics: dict[str, int] = field(default_factory=dict[str, int], init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        found = [o for body in bodies(op) for o in body.block.ops if isinstance(o, Flex)]
        for o in found:
            results = _Backward(o).run() if isinstance(o, AttentionBackwardOp) else _Forward(o).run()
            for before, after in zip(o.results, results, strict=True):
                if after is not None:
                    after.name_hint = before.name_hint
                    before.replace_all_uses_with(after)
            o.detach()
            o.erase()
        self.statistics["attention"] = len(found)
        if found:
            decide(op, _told(found))


def _told(found: Sequence[Flex]) -> list[str]:
    names = {AttentionOp.name: "flex_attention", AttentionBackwardOp.name: "the gradient of flex_attention"}
    places = [(names[o.name], next(iter(lines(o.location)), "")) for o in found]
    return [f"{name}{f' at {line}' if line else ''} is written out" for name, line in dict.fromkeys(places)]


class _Definition:
    """What the op and its gradient share."""

    def __init__(self, op: Flex) -> None:
        self.op = op
        self.b = AtenBuilder(op)
        self.sizes = op.sizes
        self.dtype = type_of(op.tensors[0]).dtype
        self.numbers = [self.b.arange(n) for n in self.sizes.scores]
        self.query, key, _ = op.tensors[:3]
        self.key = self.repeated(key)

    @cached_property
    def value(self) -> SSAValue:
        """The values; repeated where they are first needed, for their memory."""
        return self.repeated(self.op.tensors[2])

    def repeated(self, x: SSAValue) -> SSAValue:
        """Keys or values for each batch and head of the queries."""
        b, (_, groups, keys, size), s = self.b, type_of(x).shape, self.sizes
        x = b.expand(x, (s.batch, groups, keys, size))
        if groups == s.heads:
            return x
        wide = b.expand(b.unsqueeze(x, 2), (s.batch, groups, self.times, keys, size))
        return b.view(b.plain(wide, type_of(x).dtype), (s.batch, s.heads, keys, size))

    @property
    def times(self) -> Dim:
        """How many heads of queries share one of keys."""
        return expr.floordiv(self.sizes.heads, self.sizes.groups)

    def region(self, region: Region, *args: SSAValue) -> list[SSAValue]:
        """The ops of a region, in place; what it yields."""
        values: dict[SSAValue, SSAValue] = dict(zip(region.block.args, args, strict=True))
        for op in region.block.ops:
            if not isinstance(op, YieldOp):
                copy_locations(op, copy := op.clone(values))
                cast(Block, self.op.parent).insert_op_before(copy, self.op)
        last = cast(YieldOp, region.block.last_op)
        return [values[v] for v in last.operands]

    def scores(self) -> tuple[SSAValue, SSAValue, SSAValue]:
        """The scores, the mask, and what both regions make of them."""
        b, w = self.b, self.op.precision
        product = b.matmul(b.converted(self.query, w), b.transpose(b.converted(self.key, w)))
        scores = b.same("aten.mul.Scalar", product, self.op.scale)
        (mask,) = self.region(self.op.regions[1], *self.numbers, *self.op.taken("mask"))
        (modified,) = self.region(self.op.regions[0], scores, *self.numbers, *self.op.taken("score"))
        t = b.new(self.sizes.scores, self.op.modified)
        return scores, mask, b.call("aten.where.self", t, mask, modified, b.number(-math.inf, w))

    def logsumexp(self, final: SSAValue) -> SSAValue:
        """Of the scores of each query; -inf where it sees nothing."""
        b, t = self.b, type_of(final)
        rows = t.shape[:3]
        least = b.same("aten.eq.Scalar", final, -math.inf, dtype="i1")
        blind = b.call("aten.all.dim", b.new(rows, "i1"), least, -1, False)
        sums = b.call("aten.logsumexp", b.new(rows, t.dtype), final, (-1,), False)
        return b.call("aten.where.self", b.new(rows, t.dtype), blind, b.number(-math.inf, t.dtype), sums)


class _Forward(_Definition):
    def run(self) -> list[SSAValue | None]:
        """The results; None for those that nobody uses."""
        b, op, (_, _, final) = self.b, self.op, self.scores()
        weights = b.same("aten._safe_softmax", final, -1)
        out = b.matmul(b.plain(weights, self.dtype), b.converted(self.value, self.dtype))
        made: list[SSAValue | None] = [b.laid_out(out, cast(TensorType, op.results[0].type)), None, None]
        for i, rows in ((1, self.logsumexp), (2, self.largest)):
            if op.results[i].first_use is not None:
                base2 = b.same("aten.div.Scalar", rows(final), LN2)
                made[i] = b.laid_out(base2, cast(TensorType, op.results[i].type))
        return made

    def largest(self, final: SSAValue) -> SSAValue:
        rows = type_of(final).shape[:3]
        types = [self.b.new(rows, type_of(final).dtype), self.b.new(rows, "i64")]
        return self.b.calls("aten.max.dim", types, final, -1, False)[0]


class _Backward(_Definition):
    def run(self) -> list[SSAValue | None]:
        """The gradients."""
        b, op = self.b, cast(AttentionBackwardOp, self.op)
        out, logsumexp, grad_out, grad_logsumexp = op.tensors[3:]
        scores, mask, final = self.scores()
        w = type_of(final).dtype
        full = type_of(final)
        # in f32 it would be less than the scores are
        logs = self.logsumexp(final) if w == "f64" else b.same("aten.mul.Scalar", b.plain(logsumexp, w), LN2)
        blind = b.unsqueeze(b.same("aten.eq.Scalar", logs, -math.inf, dtype="i1"), 3)
        weights = b.same("aten.exp", b.same("aten.sub.Tensor", final, b.unsqueeze(logs, 3)))
        weights = b.call("aten.where.self", full, blind, b.number(0.0, w), weights)
        narrow = b.converted(grad_out, self.dtype)
        grad_value = b.matmul(b.transpose(b.plain(weights, self.dtype)), narrow)
        wide = b.plain(grad_out, w)
        grad_weights = b.matmul(wide, b.transpose(b.converted(self.value, w)))
        products = b.same("aten.mul.Tensor", b.plain(out, w), wide)
        sums = b.call("aten.sum.dim_IntList", b.new((*self.sizes.scores[:3], 1), w), products, (-1,), True)
        shifts = b.unsqueeze(b.same("aten.div.Scalar", b.plain(grad_logsumexp, w), LN2), 3)
        change = b.same("aten.add.Tensor", b.same("aten.sub.Tensor", grad_weights, sums), shifts)
        change = b.same("aten.mul.Tensor", weights, change)
        grad_scores, *captured = self.region(op.joint, scores, *self.numbers, change, *op.taken("score"))
        scaled = b.plain(b.same("aten.mul.Scalar", grad_scores, op.scale), self.dtype)
        seen = b.new(self.sizes.scores, self.dtype)
        grad = b.call("aten.where.self", seen, mask, scaled, b.number(0.0, self.dtype))
        grad_key = b.matmul(b.transpose(grad), self.query)
        made = [b.matmul(grad, self.key), self.shared(grad_key), self.shared(grad_value), *captured]
        return [b.laid_out(v, cast(TensorType, r.type)) for v, r in zip(made, op.results, strict=True)]

    def shared(self, x: SSAValue) -> SSAValue:
        """The gradient of keys or values, whose heads and batches were repeated."""
        b, s, (*_, keys, size) = self.b, self.sizes, type_of(x).shape
        if s.groups != s.heads:
            parts = b.view(x, (s.batch, s.groups, self.times, keys, size))
            x = self.sum(parts, 2, (s.batch, s.groups, keys, size), False)
        if s.batch != (batch := type_of(self.op.tensors[1]).shape[0]) and batch == 1:
            x = self.sum(x, 0, (1, s.groups, keys, size), True)
        return x

    def sum(self, x: SSAValue, dim: int, sizes: Sequence[Dim], keep: bool) -> SSAValue:
        t = self.b.new(sizes, type_of(x).dtype)
        return self.b.call("aten.sum.dim_IntList", t, x, (dim,), keep)
