"""How the elements of results lie. torch's fake tensors say other strides than kernels give: those of dims of size one
or zero, and all of some operators whose kernels go another way than what torch says of them.

Most kernels leave it to ATen's TensorIterator (`iterated`). Others give what `empty_like` gives for an input, or
contiguous memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import torch
from torch._ops import OpOverload
from torch._prims_common import (
    is_channels_last_contiguous_or_false_2d,
    is_contiguous_or_false,
    is_non_overlapping_and_dense_or_false,
    suggest_memory_format,
)
from torch.fx.experimental.symbolic_shapes import guard_or_false, statically_known_true

Given: TypeAlias = Mapping[str, Any]
"""The arguments of a call by name; a number may stand for a tensor without dims."""
Strides: TypeAlias = Sequence[Any]
Layout: TypeAlias = Callable[[Any, Given], Strides]
"""The strides of a result, of which only sizes and device matter."""


def layout_of(operator: Any, result: Any) -> Layout | None:
    """The layout of the results of a call of this operator, where what torch says, `result`, may be wrong."""
    if not isinstance(operator, OpOverload):
        return None
    layout, is_certain = _layout_of(operator)
    return layout if is_certain or (layout is not None and _is_doubtful(result)) else None


def _is_doubtful(result: Any) -> bool:
    if isinstance(result, (tuple, list)):
        return any(map(_is_doubtful, result))  # pyright: ignore
    return isinstance(result, torch.Tensor) and any(type(n) is int and n < 2 for n in result.shape)


def has_no_elements(t: torch.Tensor) -> bool:
    return any(is_same(n, 0) for n in t.shape)


def laid_out(operator: Any, result: Any, layout: Layout, given: Given) -> Any:
    """The results of an operator with this layout; views stay views."""
    if isinstance(result, (tuple, list)):
        return tuple(laid_out(operator, t, layout, given) for t in result)  # pyright: ignore
    if not isinstance(result, torch.Tensor) or not result.dim():
        return result  # a loss, for one, whose operator has a result of each element too
    if any(isinstance(t, torch.Tensor) and t.layout is not torch.strided for t in (result, *given.values())):
        return result
    strides = layout(result, given)
    if not operator.is_view:
        return with_strides(result, strides)
    same = all(map(is_same, result.stride(), strides))
    return result if same else result.as_strided(result.shape, strides, result.storage_offset())


def with_strides(result: torch.Tensor, strides: Strides) -> torch.Tensor:
    """`result`, or a tensor like it with these strides: a result may have numbers that are known."""
    same = len(strides) == result.dim() and all(map(is_same, result.stride(), strides))
    return result if same else result.new_empty_strided(result.shape, strides)


def same_strides(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dim() == b.dim() and all(map(is_same, a.stride(), b.stride()))


def is_same(a: Any, b: Any) -> bool:
    return a == b if type(a) is int and type(b) is int else statically_known_true(a == b)


def iterated(shape: Sequence[Any], operands: Sequence[Any]) -> Strides:
    """The strides of a result of this shape that TensorIterator computes element by element from these: tensors, and
    numbers, which are tensors without dims to it.
    """
    tensors = [t for t in operands if isinstance(t, torch.Tensor) and t.dim()]
    if tensors and len(tensors) == len(operands) and all(_has_shape(t, shape) for t in tensors):
        if all(map(is_contiguous_or_false, tensors)):
            return in_order(shape)
        if all(map(is_channels_last_contiguous_or_false_2d, tensors)):
            return _dense(shape, (1, 3, 2, 0), least=1)
        first = tensors[0].stride()
        alike = all(all(map(is_same, first, t.stride())) for t in tensors[1:])
        if alike and is_non_overlapping_and_dense_or_false(tensors[0]):
            return first
    return _ordered(shape, [_along(shape, t) for t in tensors])


def _dense(shape: Sequence[Any], order: Sequence[int], least: int) -> Strides:
    """One element after the other along these dims, the fastest first; a size counts as `least` at least."""
    strides: list[Any] = [0] * len(shape)
    step: Any = 1
    for d in order:
        strides[d] = step
        step = step * (max(shape[d], least) if type(shape[d]) is int else shape[d])
    return strides


def in_order(shape: Sequence[Any]) -> Strides:
    return _dense(shape, range(len(shape) - 1, -1, -1), least=1)


def _has_shape(t: Any, shape: Sequence[Any]) -> bool:
    return isinstance(t, torch.Tensor) and t.dim() == len(shape) and all(map(is_same, t.shape, shape))


def _along(shape: Sequence[Any], t: torch.Tensor) -> Strides:
    """The strides of an operand along the dims of the result: 0 where it is repeated."""
    new = len(shape) - t.dim()
    dims = zip(t.shape, t.stride(), shape[new:], strict=True)
    return [0] * new + [0 if is_same(n, 1) and not is_same(m, 1) else s for n, s, m in dims]


def _ordered(shape: Sequence[Any], operands: Sequence[Strides]) -> Strides:
    """The order of the dims is that of the first operand which has one."""

    def after(a: int, b: int) -> int:
        """1 if dim `a` is to be slower than `b`, -1 if not, 0 if no operand says it."""
        for strides in operands:
            x, y = strides[a], strides[b]
            if is_same(x, 0) or is_same(y, 0):
                continue
            if not is_same(x, y):
                return -1 if _is_less(x, y) else 1
            if guard_or_false(shape[a] > shape[b]):
                return 1
        return 0

    backwards = [*reversed(range(len(shape)))]
    order = [*backwards]
    for i in range(1, len(shape)):
        place = i
        for before in reversed(range(i)):
            where = after(order[before], order[place])
            if where < 0:
                break
            if where > 0:
                order[before], order[place] = order[place], order[before]
                place = before
    return _dense(shape, order, least=1 if order == backwards else 0)


def _is_less(x: Any, y: Any) -> bool:
    return guard_or_false(x < y) or (not guard_or_false(x > y) and guard_or_false(y % x == 0))


def _of(*names: str) -> Layout:
    """Of these arguments, by TensorIterator."""
    return lambda result, given: iterated(result.shape, [given[n] for n in names if given.get(n) is not None])


def _as(name: str) -> Layout:
    """As `empty_like` of an argument, if that has the sizes of the result."""

    def layout(result: Any, given: Given) -> Strides:
        x, order = given[name], given.get("memory_format")
        if order not in (None, torch.preserve_format) or not _has_shape(x, result.shape):
            return result.stride()
        return like(x)

    return layout


def like(x: torch.Tensor) -> Strides:
    return x.stride() if is_non_overlapping_and_dense_or_false(x) else _ordered(x.shape, [x.stride()])


def _viewed(result: Any, given: Given) -> Strides:
    """As ATen's `computeStride`: dims that lie one after the other are one, and dims of size one are slower than all
    before them.
    """
    x, shape = given["self"], result.shape
    if not x.dim():
        return [1] * len(shape)
    if has_no_elements(x):
        return x.stride() if _has_shape(x, shape) else in_order(shape)
    strides: list[Any] = [None] * len(shape)
    d = len(shape) - 1
    base, count, made = x.stride(-1), 1, 1
    for at in reversed(range(x.dim())):
        count = count * x.shape[at]
        if at and (is_same(x.shape[at - 1], 1) or is_same(x.stride(at - 1), count * base)):
            continue
        while d >= 0 and (not at or is_same(shape[d], 1) or not is_same(made, count)):
            strides[d] = made * base
            made = made * shape[d]
            d -= 1
        if at and not is_same(made, count):
            return result.stride()
        if at:
            base, count, made = x.stride(at - 1), 1, 1
    return strides


def _expanded(result: Any, given: Given) -> Strides:
    """As ATen's `inferExpandGeometry`: what a new dim of size one has does not come from x."""
    x, shape = given["self"], result.shape
    new = len(shape) - x.dim()
    strides: list[Any] = [0] * len(shape)
    for d in reversed(range(len(shape) if x.dim() else 0)):
        if d >= new:
            strides[d] = x.stride(d - new) if is_same(x.shape[d - new], shape[d]) else 0
        elif is_same(shape[d], 1):
            strides[d] = shape[d + 1] * strides[d + 1]
    return strides


def _contiguous(result: Any, given: Given) -> Strides:
    return in_order(result.shape)


def _in_format(result: Any, given: Given) -> Strides:
    """Of images whose channels are the fastest on CPUs, so are the results; all else is contiguous."""
    x = given.get("input", given.get("self"))
    if result.device.type != "cpu":
        return result.stride()
    if x.dim() != result.dim():
        return in_order(result.shape)
    order = {torch.channels_last: (1, 3, 2, 0), torch.channels_last_3d: (1, 4, 3, 2, 0)}.get(suggest_memory_format(x))
    return in_order(result.shape) if order is None else _dense(result.shape, order, least=1)


def _by(function: Callable[[Given], torch.Tensor]) -> Layout:
    """As a call of other operators, of which the kernel is made."""
    return lambda result, given: function(given).stride()


def _if_complex(complex_layout: Layout) -> Layout:
    """Another one for complex numbers than TensorIterator's."""

    def layout(result: Any, given: Given) -> Strides:
        x = given["self"]
        return complex_layout(result, given) if x.dtype.is_complex else iterated(result.shape, [x])

    return layout


def _turned(given: Given) -> torch.Tensor:
    x, k, dims = given["self"], given.get("k", 1) % 4, given.get("dims", (0, 1))
    if not k:
        return x.clone(memory_format=torch.contiguous_format)
    turned = x.flip(dims if k == 2 else [dims[k % 3]])
    return turned if k == 2 else turned.transpose(*dims)


def _dropped(result: Any, given: Given) -> Strides:
    """A mask is as the input, which is multiplied by it; in inference there is none."""
    x = given["input"]
    kept = torch.empty_like(x).as_strided(x.shape, like(x))
    return kept.stride() if result.dtype == torch.bool else iterated(x.shape, [x, kept])


def _log_sigmoid(result: Any, given: Given) -> Strides:
    if result.device.type == "cpu":
        return in_order(result.shape)
    return iterated(result.shape, [given["self"]]) if result.dim() == given["self"].dim() else result.stride()


def _of_all(operator: Any) -> Layout:
    """Of the tensors among the arguments and, but for kernels that take them as they are, numbers."""
    schema = operator._schema
    numbers = "calar" in schema.overload_name and operator not in (_aten.pow.Tensor_Scalar, _aten.lerp.Scalar)
    kinds = ("Tensor", "Optional[Tensor]", *(("number",) if numbers else ()))
    return _of(*(a.name for a in schema.arguments if str(a.type) in kinds))


@cache
def _layout_of(operator: Any) -> tuple[Layout | None, bool]:
    """The layout of an operator's results, and whether it says more than those of dims of size one or zero."""
    name = operator._schema.name.removeprefix("aten::")
    for key in (f"{name}.{operator._schema.overload_name}", name):
        if key in _LAYOUTS:
            return _LAYOUTS[key], True
        if key in _OF_ALL:
            return _of_all(operator), True
    if operator in _DOUBTFUL:
        return _DOUBTFUL[operator], False
    if torch.Tag.pointwise in operator.tags and name not in _OF_OTHERS:
        return _of_all(operator), False
    return None, False


_aten: Any = torch.ops.aten
_LAYOUTS: dict[str, Layout] = {
    **dict.fromkeys(("deg2rad", "rad2deg", "frexp", "hardtanh", "nan_to_num", "fill", "zero", "flip"), _as("self")),
    **dict.fromkeys(("index_fill", "index_put"), _as("self")),
    **dict.fromkeys(("index_add", "index_copy"), _contiguous),
    "angle": _if_complex(_contiguous),
    **dict.fromkeys(
        ("relu6", "sort", "put", "_to_copy", "empty_like", "zeros_like", "ones_like", "full_like"), _as("self")
    ),
    **dict.fromkeys(("rand_like", "randn_like", "randint_like", "binary_cross_entropy"), _as("self")),
    **dict.fromkeys(("binary_cross_entropy_backward", "huber_loss", "_prelu_kernel"), _as("self")),
    **dict.fromkeys(("log_sigmoid_backward",), _as("grad_output")),
    **dict.fromkeys(("_log_softmax", "masked_fill", "renorm", "tril", "triu", "diag_embed", "pow.Scalar"), _contiguous),
    **dict.fromkeys(("grid_sampler_2d", "grid_sampler_3d"), _contiguous),
    **dict.fromkeys(("native_batch_norm", "_native_batch_norm_legit", "native_group_norm"), _in_format),
    **dict.fromkeys(("_batch_norm_with_update", "_native_batch_norm_legit_no_training"), _in_format),
    **dict.fromkeys(("max_unpool2d", "replication_pad3d"), _in_format),
    **dict.fromkeys(("native_layer_norm", "normal.Tensor_Tensor", "normal.Tensor_float"), _contiguous),
    **dict.fromkeys(("normal.float_Tensor",), _contiguous),
    **dict.fromkeys(("amax", "amin", "sum.dim_IntList", "prod.dim_int", "linalg_vector_norm"), _contiguous),
    **dict.fromkeys(("var.correction", "var_mean.correction", "norm.ScalarOpt_dim"), _contiguous),
    **dict.fromkeys(("mse_loss_backward", "smooth_l1_loss_backward", "huber_loss_backward"), _contiguous),
    "leaky_relu_backward": _of("self", "grad_output"),
    "threshold_backward": _of("self", "grad_output"),
    "_prelu_kernel_backward": _of("self", "weight", "grad_output"),
    "rsub.Tensor": _of("other", "self"),
    "native_dropout": _dropped,
    "log_sigmoid_forward": _log_sigmoid,
    "glu": _by(lambda g: torch.mul(*g["self"].chunk(2, g.get("dim", -1)))),
    "rot90": _by(_turned),
    "addr": lambda result, g: iterated(
        result.shape, [g["self"].expand(result.shape), g["vec1"].unsqueeze(-1), g["vec2"]]
    ),
    "ldexp": _by(lambda g: torch.mul(g["self"], torch.pow(2.0, g["other"]))),
    "native_dropout_backward": _by(lambda g: g["grad_output"] * g["mask"] * 2.0),
    "isinf": _by(lambda g: torch.abs(g["self"]) == 1.0),
    "binary_cross_entropy_with_logits": _as("target"),
    "soft_margin_loss": _by(lambda g: torch.neg(g["self"])),
    "soft_margin_loss_backward": _by(lambda g: torch.mul(g["target"], torch.mul(torch.neg(g["target"]), g["self"]))),
}
_OF_ALL = frozenset(
    {
        *("_add_relu", "div.Tensor_mode", "floor_divide", "complex", "polar"),
        *("hardswish", "mse_loss", "smooth_l1_loss", "logical_and", "logical_or", "logical_xor"),
        *("copysign.Tensor", "xlogy.Tensor", "special_xlog1py", "logaddexp", "logaddexp2", "heaviside"),
        *("softplus_backward", "hardsigmoid_backward", "hardswish_backward", "hardtanh_backward", "logit_backward"),
        *("elu_backward", "mish_backward"),
    }
)
"""Whose strides torch says wrongly without dims of size one or zero, too."""
_DOUBTFUL: dict[Any, Layout] = {
    **dict.fromkeys((_aten.view.default, _aten._unsafe_view.default, _aten._reshape_alias.default), _viewed),
    _aten.expand.default: _expanded,
    **dict.fromkeys((_aten.clone.default, _aten._conj_physical.default), _as("self")),
    _aten.abs.default: _if_complex(_as("self")),
}
"""Whose strides torch says rightly but of dims of size one or zero."""
_OF_OTHERS = frozenset({"positive", "isfinite", "mvlgamma"})
"""Elementwise operators that torch traces as what their kernels do."""
