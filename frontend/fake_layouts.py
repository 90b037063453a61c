"""How the elements of results lie. torch's fake tensors say other strides than kernels give: those of dims of size one
or zero, and all of some operators whose kernels go another way than what torch says of them.

The rules are in `fake_strides` and, for images, `fake_images`; here is which operator follows which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import torch
from torch._ops import OpOverload
from torch.fx.experimental.symbolic_shapes import has_free_unbacked_symbols

from .fake_images import in_format, normalized, pooled
from .fake_strides import (
    Strides,
    converted,
    has_no_elements,
    has_shape,
    in_order,
    is_dense,
    is_same,
    iterated,
    like,
    with_strides,
)
from .fake_transforms import complex_transformed, real_transformed, transformed_to_real

Given: TypeAlias = Mapping[str, Any]
"""The arguments of a call by name; a number may stand for a tensor without dims."""
Layout: TypeAlias = Callable[[Any, Given], Strides]
"""The strides of a result, of which only sizes and device matter."""


def layout_of(operator: Any, result: Any, args: Sequence[Any]) -> Layout | None:
    """The layout of the results of a call of this operator, where what torch says, `result`, may be wrong."""
    if not isinstance(operator, OpOverload):
        return None
    layout, is_certain = _layout_of(operator)
    is_needed = is_certain or (layout is not None and (_is_doubtful(result) or _are_converted(args)))
    return layout if is_needed else None


def _are_converted(args: Sequence[Any]) -> bool:
    """Whether operands have several dtypes and one may lie otherwise once it is converted."""
    tensors = [t for t in args if isinstance(t, torch.Tensor) and t.layout is torch.strided]
    if len({t.dtype for t in tensors}) < 2:
        return False
    return not all(map(is_dense, tensors))


def _is_doubtful(result: Any) -> bool:
    if isinstance(result, (tuple, list)):
        return any(map(_is_doubtful, result))  # pyright: ignore
    return isinstance(result, torch.Tensor) and any(map(_is_doubtful_size, result.shape))


def _is_doubtful_size(n: Any) -> bool:
    return n < 2 if type(n) is int else has_free_unbacked_symbols(n)


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


def _of(*names: str) -> Layout:
    """Of these arguments, by TensorIterator."""

    def layout(result: Any, given: Given) -> Strides:
        operands = [given[n] for n in names if given.get(n) is not None]
        return iterated(result.shape, converted(operands, result))

    return layout


def _as(name: str) -> Layout:
    """As `empty_like` of an argument, if that has the sizes of the result."""

    def layout(result: Any, given: Given) -> Strides:
        x, order = given[name], given.get("memory_format")
        if order not in (None, torch.preserve_format) or not has_shape(x, result.shape):
            return result.stride()
        return like(x)

    return layout


def _viewed(result: Any, given: Given) -> Strides:
    """As ATen's `computeStride`: dims that lie one after the other are one, and dims of size one are slower than all
    before them.
    """
    x, shape = given["self"], result.shape
    if not x.dim():
        return [1] * len(shape)
    if has_no_elements(x):
        return x.stride() if has_shape(x, shape) else in_order(shape)
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


def _scattered(result: Any, given: Given) -> Strides:
    """As ATen's `clone_preserve_strides`, unless elements are repeated."""
    x = given["self"]
    dims = zip(x.shape, x.stride(), strict=True)
    return like(x) if any(is_same(s, 0) and not is_same(n, 1) for n, s in dims) else result.stride()


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
    **dict.fromkeys(("native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update"), normalized),
    **dict.fromkeys(("_native_batch_norm_legit_functional", "_batch_norm_with_update_functional"), normalized),
    **dict.fromkeys(("_batch_norm_no_update", "_native_batch_norm_legit_no_training"), normalized),
    **dict.fromkeys(("native_group_norm", "max_unpool2d", "replication_pad3d", "reflection_pad3d"), in_format),
    **dict.fromkeys(
        ("channel_shuffle", "upsample_bilinear2d", "upsample_bicubic2d", "upsample_trilinear3d"), in_format
    ),
    **dict.fromkeys(("upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact2d"), in_format),
    **dict.fromkeys(("_upsample_nearest_exact3d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"), in_format),
    **dict.fromkeys(("reflection_pad2d", "replication_pad2d"), in_format),
    **dict.fromkeys(("slice_scatter", "select_scatter", "diagonal_scatter"), _scattered),
    "max_pool3d_with_indices": pooled,
    "_fft_c2c": complex_transformed,
    "_fft_r2c": real_transformed,
    "_fft_c2r": transformed_to_real,
    "im2col": _contiguous,
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
    "glu": lambda result, g: iterated(result.shape, [result.new_empty_strided(result.shape, g["self"].stride())] * 2),
    "_safe_softmax": lambda result, g: in_order(result.shape) if has_no_elements(result) else result.stride(),
    **dict.fromkeys(("rrelu_with_noise", "rrelu_with_noise_functional"), _contiguous),
    "rot90": _by(_turned),
    "addr": lambda result, g: iterated(
        result.shape, [g["self"].expand(result.shape), g["vec1"].unsqueeze(-1), g["vec2"]]
    ),
    "ldexp": _by(lambda g: torch.mul(g["self"], torch.pow(2.0, g["other"]))),
    "native_dropout_backward": _by(lambda g: g["grad_output"] * g["mask"] * 2.0),
    "isinf": _by(lambda g: g["self"] == 1.0 if g["self"].dtype == torch.bool else torch.abs(g["self"]) == 1.0),
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
    _aten.leaky_relu.default: _of("self"),
}
"""Whose strides torch says rightly but of dims of size one or zero, or where sizes are data."""
_OF_OTHERS = frozenset({"positive", "isfinite", "mvlgamma"})
"""Elementwise operators that torch traces as what their kernels do."""
