"""aten to aten: what ATen has as one operator for inference is said by its parts, which are compiled.

    _native_multi_head_attention(x, x, x, …)[0] = linear(attention(linear(x, qkv_weight, qkv_bias)), proj_weight, …)
    _transformer_encoder_layer_fwd(x, …) = norm(x + …) of that, then of two products

`nn.MultiheadAttention` and `nn.TransformerEncoderLayer` call these where no gradient is asked for (their fast path,
torch/csrc and ATen/native/transformers). With a mask they stay calls: what a query gives that sees nothing is ATen's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, Final, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from ..dialects import expr
from ..dialects.aten import AtenOp
from ..dialects.expr import Dim
from ..dialects.flow import bodies
from ..dialects.tensor import HALVES, TensorType
from .aten_builder import AtenBuilder, shape, type_of
from .attention_call import FLASH
from .decisions import decide
from .origins import lines


@dataclass(frozen=True)
class AtenInlineLayers(ModulePass):
    """Say layers that are one operator, as torch calls them for inference, by what they compute."""

    name = "aten-inline-layers"
    statistics: dict[str, int] = field(default_factory=dict[str, int], init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        layers = [o for body in bodies(op) for o in body.block.ops if isinstance(o, AtenOp) and o.name in _MAKERS]
        found = [layer for layer in layers if _is_plain(layer)]
        self.statistics["layers"] = len(found)
        for layer in found:
            line = next(iter(lines(layer.location)), "")
            decide(op, [f"{layer.name} is compiled as what it is made of{f' ({line})' if line else ''}"])
            for result, made in zip(layer.results, _MAKERS[layer.name](layer), strict=True):
                if made is not None and result.first_use is not None:
                    t = cast(TensorType, result.type)
                    made = made if type_of(made) == t else AtenBuilder(layer).laid_out(made, t)
                    made.name_hint = result.name_hint
                    result.replace_all_uses_with(made)
            layer.detach()
            layer.erase()


def _is_plain(op: AtenOp) -> bool:
    """Whether one batch of floats attends to itself, without a mask."""
    tensors = [type_of(v) for v in op.operands]
    x = tensors[0]
    if op.arg("mask") is not None or {(t.dtype, t.device) for t in tensors} != {(x.dtype, x.device)}:
        return False
    if x.dtype not in ("f32", "f64", *HALVES) or x.rank != 3 or any(n == 0 for t in tensors for n in t.shape):
        return False
    if op.name == _ATTENTION:
        if len({op.arg(name) for name in ("query", "key", "value")}) > 1:
            return False
        if not op.arg("need_weights") and op.results[1].first_use is not None:  # it has none
            return False
    size, heads = (cast(int, op.arg(n)) for n in ("embed_dim", "num_head" if op.name == _ATTENTION else "num_heads"))
    whole = type_of(cast(SSAValue, op.arg("qkv_weight"))).shape == (3 * size, size)  # else the call says what is wrong
    return x.shape[2] == size and whole and size % heads == 0


class _Parts(AtenBuilder):
    """The parts of a layer, of [batch, length, features]."""

    def __init__(self, op: AtenOp) -> None:
        super().__init__(op)
        self.op = op

    def given(self, name: str) -> SSAValue:
        return cast(SSAValue, self.op.arg(name))

    def linear(self, x: SSAValue, name: str) -> SSAValue:
        """With the weight and the bias whose names begin with this; `{}` is where they differ."""
        weight, bias = self.given(name.format("weight")), self.given(name.format("bias"))
        (*outer, k), n, dtype = shape(x), shape(weight)[0], type_of(x).dtype
        rows = expr.normal(expr.product(outer))
        factors = self.view(self.plain(x, dtype), (rows, k)), self.transpose(weight)
        return self.view(self.call("aten.addmm", self.new((rows, n), dtype), bias, *factors), (*outer, n))

    def norm(self, x: SSAValue, which: int) -> SSAValue:
        t, args = type_of(x), [self.given(f"norm_{what}_{which}") for what in ("weight", "bias")]
        rows = self.new((*t.shape[:-1], 1), "f32" if t.dtype in HALVES and t.device != "cpu" else t.dtype)
        size, eps = (t.shape[-1],), self.op.arg("eps")
        return self.calls("aten.native_layer_norm", [t, rows, rows], x, size, *args, eps)[0]

    def attention(self, x: SSAValue, heads: int, weights: bool) -> tuple[SSAValue, SSAValue | None]:
        """What goes into the last product, and, where they are wanted, the weights [batch, heads, length, length]."""
        (batch, length, features), dtype = shape(x), type_of(x).dtype
        size = cast(int, features) // heads
        qkv = self.view(self.linear(x, "qkv_{}"), (batch, length, 3, heads, size))
        query, key, value = (self._part(qkv, i) for i in range(3))
        made: SSAValue | None = None
        if weights or self.device != "cpu":
            scores = self.same("aten.mul.Scalar", self.matmul(query, self.transpose(key)), 1 / sqrt(size))
            made = self.same("aten._softmax", scores, -1, False)
            result = self._exchanged(self.matmul(made, value))
        else:
            rows: Any = expr.normal(cast(Any, length) * features)
            t = self.new((batch, heads, length, size), dtype).with_(strides=(rows, size, features, 1))
            sums = self.new((batch, heads, length), "f64" if dtype == "f64" else "f32")
            sums = sums.with_(strides=(expr.normal(cast(Any, length) * heads), 1, heads))
            result = self._exchanged(self.calls(FLASH, [t, sums], query, key, value, 0.0, False, None, None)[0])
        return self.view(self.plain(result, dtype), (batch, length, features)), made

    def _part(self, qkv: SSAValue, i: int) -> SSAValue:
        """[batch, heads, length, size] of one of the three."""
        t = type_of(qkv)
        one = t.with_(shape=(*t.shape[:2], *t.shape[3:]), strides=(*t.strides[:2], *t.strides[3:]))
        return self._exchanged(self.call("aten.select.int", one, qkv, 2, i))

    def _exchanged(self, x: SSAValue) -> SSAValue:
        """With the second and the third dim exchanged."""
        t = type_of(x)
        (a, b, c, d), (p, q, r, s) = t.shape, t.strides
        return self.call("aten.transpose.int", t.with_(shape=(a, c, b, d), strides=(p, r, q, s)), x, 1, 2)


def _attention(op: AtenOp) -> list[SSAValue | None]:
    b, wanted = _Parts(op), op.results[1].first_use is not None
    x, weights = b.attention(b.given("query"), cast(int, op.arg("num_head")), wanted)
    if weights is not None and op.arg("average_attn_weights"):
        batch, _, *scores = shape(weights)
        average: tuple[Dim, ...] = (batch, *scores)
        weights = b.call("aten.mean.dim", b.new(average, type_of(weights).dtype), weights, (1,), False, None)
    return [b.linear(x, "proj_{}"), weights]


def _layer(op: AtenOp) -> list[SSAValue | None]:
    b, x = _Parts(op), cast(SSAValue, op.arg("src"))
    first, gelu = bool(op.arg("norm_first")), bool(op.arg("use_gelu"))

    def attend(x: SSAValue) -> SSAValue:
        return b.linear(b.attention(x, cast(int, op.arg("num_heads")), False)[0], "proj_{}")

    def feed(x: SSAValue) -> SSAValue:
        y = b.linear(x, "ffn_{}_1")
        return b.linear(b.same("aten.gelu", y) if gelu else b.same("aten.relu", y), "ffn_{}_2")

    x = b.plain(x, type_of(x).dtype)
    for which, part in enumerate((attend, feed), 1):
        y = b.same("aten.add.Tensor", part(b.norm(x, which) if first else x), x)
        x = y if first else b.norm(y, which)
    return [x]


_ATTENTION: Final = "aten._native_multi_head_attention"
_MAKERS: Final[dict[str, Callable[[AtenOp], list[SSAValue | None]]]] = {
    _ATTENTION: _attention,
    "aten._transformer_encoder_layer_fwd": _layer,
}
