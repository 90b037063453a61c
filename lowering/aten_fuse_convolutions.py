"""aten to aten: convolutions on the CPU do what follows them while the result is in registers, through oneDNN.

    silu(conv(x, w, b)) = mkldnn._convolution_pointwise(x, w, b, …, "swish")
    conv(x, w, b) + y = mkldnn._convolution_pointwise.binary(x, y, w, b, …, "add")

A frozen weight is reordered into the layout that oneDNN computes in: `aten-freeze` has that done once.
Only channels-last images are fused (`aten-channels-last`): of others the result would be reordered back.

Source: torch.ops.mkldnn, oneDNN's post-ops.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import Any, Final, cast

import torch
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass

from ..dialects.aten import AtenOp, lookup
from ..dialects.tensor import PACKED, TensorType
from .aten_channels_last import channels_last
from .aten_frozen import frozen_values

DTYPES: Final = frozenset({"f32", "bf16"})

PostOp = tuple[str, tuple[Any, ...], str]
"""oneDNN's name of a function, its numbers, and which algorithm computes it."""


def _named(name: str, *arguments: str) -> Callable[[AtenOp], PostOp]:
    return lambda op: (name, tuple(op.arg(a) for a in arguments), "")


UNARY: Final[dict[str, Callable[[AtenOp], PostOp]]] = {
    "aten.sigmoid": _named("sigmoid"),
    "aten.tanh": _named("tanh"),
    "aten.silu": _named("swish"),
    "aten.hardswish": _named("hardswish"),
    "aten.leaky_relu": _named("leaky_relu", "negative_slope"),
}
"""What oneDNN computes on the result of a convolution as eager does. Its relu, hardtanh and hardsigmoid make numbers of
NaN, its gelu NaN of inf: those stay kernels.
"""

NOTHING: Final[PostOp] = ("none", (), "")


@dataclass(frozen=True)
class AtenFuseConvolutions(ModulePass):
    """Fuse what follows convolutions into them, through oneDNN. `bf16`: it has kernels for bf16 on the machine."""

    name = "aten-fuse-convolutions"
    bf16: bool = True
    statistics: dict[str, int] = field(default_factory=dict[str, int], init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = [f for f in op.ops if isinstance(f, FuncOp) and not f.is_declaration]
        dtypes = DTYPES if self.bf16 else DTYPES - {"bf16"}
        self.statistics["convolutions"] = sum(_fuse_all(f, dtypes) for f in functions)


def _fuse_all(function: FuncOp, dtypes: Container[str]) -> int:
    frozen = frozen_values(function)
    fused = 0
    for op in list(function.body.block.ops):
        if isinstance(op, AtenOp) and _is_convolution(op, dtypes):
            fused += _Fusion(op, frozen).run()
    return fused


def _is_convolution(op: AtenOp, dtypes: Container[str]) -> bool:
    """Whether it is one of channels-last images that oneDNN computes."""
    if op.name != "aten.convolution" or op.arg("transposed") is not False or not _has_mkldnn():
        return False
    types = [v.type for v in (*op.operands, *op.results)]
    t = cast(TensorType, op.results[0].type)
    if any(not isinstance(u, TensorType) or u.device != "cpu" or u.dtype != t.dtype for u in types):
        return False
    return t.dtype in dtypes and t.rank == 4 and t == channels_last(t)


def _has_mkldnn() -> bool:
    return torch.backends.mkldnn.is_available()


class _Fusion:
    """One convolution, and what is to become of it."""

    def __init__(self, op: AtenOp, frozen: dict[SSAValue, frozenset[SSAValue]]) -> None:
        self.op, self.frozen = op, frozen
        self.last = op
        """The op whose result the convolution will give."""
        self.added: SSAValue | None = None
        self.unary = NOTHING

    def run(self) -> bool:
        """Whether it was changed."""
        self._take()
        packed = self.frozen.get(cast(SSAValue, self.op.arg("weight")))
        if self.last is self.op and not packed:
            return False
        self._replace(bool(packed))
        return True

    def _only_reader(self) -> AtenOp | None:
        """What alone reads the result so far, and gives one of the same type."""
        result = self.last.results[0]
        users = [use.operation for use in result.uses]
        if len(users) != 1 or not isinstance(users[0], AtenOp) or len(users[0].results) != 1:
            return None
        return users[0] if users[0].results[0].type == result.type else None

    def _take(self) -> None:
        """A sum or a function. (Of a sum oneDNN gives no function but its relu.)"""
        reader = self._only_reader()
        if reader is None:
            return
        if (post := UNARY.get(reader.name)) is not None:
            self.unary, self.last = post(reader), reader
        elif reader.name == "aten.add.Tensor" and reader.arg("alpha") == 1 and len(reader.operands) == 2:
            other = next((v for v in reader.operands if v is not self.op.results[0]), None)
            if other is not None and other.type == reader.results[0].type:
                self.added, self.last = other, reader

    def _replace(self, pack: bool) -> None:
        op = self.op
        x, weight, bias, stride, padding, dilation, *_, groups = op.args()
        if pack:
            sizes = tuple(x.type.shape) if all(type(n) is int for n in x.type.shape) else ()
            packed = TensorType.get(weight.type.shape, weight.type.dtype, None, PACKED)
            arguments = (weight, padding, stride, dilation, groups, sizes or None)
            weight = self._call("mkldnn._reorder_convolution_weight", arguments, packed)
        t = cast(TensorType, self.last.results[0].type)
        name, numbers, algorithm = self.unary
        if self.added is None:
            given: tuple[Any, ...] = (x, weight, bias, padding, stride, dilation, groups, name, numbers, algorithm)
            made = self._call("mkldnn._convolution_pointwise", given, t)
        else:
            given = (x, self.added, weight, bias, padding, stride, dilation, groups, "add", 1.0, None, (), None)
            made = self._call("mkldnn._convolution_pointwise.binary", given, t)
        made.name_hint = self.last.results[0].name_hint
        self.last.results[0].replace_all_uses_with(made)
        for done in dict.fromkeys((self.last, op)):
            done.detach()
            done.erase()

    def _call(self, name: str, arguments: tuple[Any, ...], t: TensorType) -> SSAValue:
        cls = lookup(name)
        assert cls is not None
        made = cls.call(arguments, [t], self.last.location)
        cast(Block, self.last.parent).insert_op_before(made, self.last)
        return made.results[0]
