"""aten to aten: batch norm for inference becomes part of the convolution before it, where all parameters are frozen.

    norm(conv(x, w, b)) = conv(x, w * f, (b - mean) * f + beta),  f = gamma / sqrt(var + eps)

What is made here depends on parameters alone: `aten-freeze` has it computed once. Products are made in f32 for f16 and
bf16, and the weight is rounded once more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from ..dialects.aten import AtenOp, lookup
from ..dialects.tensor import TensorType
from .aten_frozen import frozen_values
from .promotion import opmath

NORMS: Final = frozenset({"aten._native_batch_norm_legit_no_training", "aten._batch_norm_no_update"})


@dataclass(frozen=True)
class AtenFoldBatchNorm(ModulePass):
    """Fold batch norms of frozen parameters into convolutions."""

    name = "aten-fold-batch-norm"
    statistics: dict[str, int] = field(default_factory=dict[str, int], init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.statistics["batch norms"] = sum(
            _fold_all(f) for f in op.ops if isinstance(f, FuncOp) and not f.is_declaration
        )


def _fold_all(function: FuncOp) -> int:
    frozen = frozen_values(function)
    norms = [op for op in function.body.block.ops if isinstance(op, AtenOp) and op.name in NORMS]
    folded = [op for op in norms if _is_foldable(op, frozen)]
    for op in folded:
        _fold(op)
    return len(folded)


def _is_foldable(norm: AtenOp, frozen: dict[SSAValue, frozenset[SSAValue]]) -> bool:
    x, *parameters = norm.args()[:5]
    conv = cast(SSAValue, x).owner
    if not isinstance(conv, AtenOp) or conv.name != "aten.convolution" or conv.arg("transposed") is not False:
        return False
    if len(list(conv.results[0].uses)) != 1 or any(r.first_use is not None for r in norm.results[1:]):
        return False
    if conv.results[0].type != norm.results[0].type or parameters[2] is None or parameters[3] is None:
        return False
    return all(v is None or v in frozen for v in (*conv.args()[1:3], *parameters))


def _fold(norm: AtenOp) -> None:
    x, gamma, beta, mean, var, _, eps = norm.args()[:7]
    conv = cast(AtenOp, x.owner)
    image, weight, bias, *rest = conv.args()
    dtype = opmath(weight.type.dtype)

    def call(name: str, t: TensorType, *args: Any) -> SSAValue:
        cls = lookup(name)
        assert cls is not None
        made = cls.call(args, [t], norm.location)
        _insert(made, norm)
        return made.results[0]

    def cast_to(v: SSAValue, dtype: str) -> SSAValue:
        t = cast(TensorType, v.type)
        return v if t.dtype == dtype else call("aten._to_copy", t.with_(dtype=dtype), v, dtype)

    row = cast(TensorType, mean.type).with_(dtype=dtype)
    factor = call("aten.rsqrt", row, call("aten.add.Scalar", row, cast_to(var, dtype), eps))
    if gamma is not None:
        factor = call("aten.mul.Tensor", row, factor, cast_to(gamma, dtype))
    shift = cast_to(mean, dtype)
    if bias is not None:
        shift = call("aten.sub.Tensor", row, shift, cast_to(bias, dtype))
    shift = call("aten.mul.Tensor", row, shift, factor)
    new_bias = (
        call("aten.neg", row, shift) if beta is None else call("aten.sub.Tensor", row, cast_to(beta, dtype), shift)
    )
    (channels,) = row.shape
    ones = (1,) * (weight.type.rank - 1)
    column = call("aten.view", row.with_(shape=(channels, *ones), strides=None), factor, (channels, *ones))
    wide = weight.type.with_(dtype=dtype)
    scaled = call("aten.mul.Tensor", wide, cast_to(weight, dtype), column)
    given = [image, cast_to(scaled, weight.type.dtype), cast_to(new_bias, weight.type.dtype), *rest]
    made = type(conv).call(given, [norm.results[0].type], conv.location)
    _insert(made, norm)
    made.results[0].name_hint = norm.results[0].name_hint
    norm.results[0].replace_all_uses_with(made.results[0])
    for op in (norm, conv):
        op.detach()
        op.erase()


def _insert(made: Operation, before: Operation) -> None:
    block = before.parent
    assert block is not None
    block.insert_op_before(made, before)
