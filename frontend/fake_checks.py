"""What torch's fake kernels do not check of arguments: sizes and dtypes of what is written at a part or an index,
dtypes of indices, and operands, parameters and inputs of dtypes that ATen has no kernel for.

A program that fails a check runs eagerly, and raises what eager does: by a RuntimeError AOTAutograd says that it does
not take a program. A check that is too strict costs a program its compilation, never its result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, guard_or_true

from .dtype_kinds import (
    is_bool,
    is_float,
    is_half,
    is_integer,
    is_integer_but_bool,
    is_neither_float_nor_long,
    is_not_integer,
    is_unindexed,
    is_wide_unsigned,
)
from .fake_number_checks import (
    check_alpha,
    check_beta,
    check_difference,
    check_limits,
    check_order,
    check_power,
    check_probability,
    check_range,
    check_scale,
    check_shifts,
    check_steps,
    check_summed,
)
from .fake_scalar_checks import SCALAR_CHECKS
from .fake_strides import has_no_elements

_aten: Any = torch.ops.aten
Check = Callable[[dict[str, Any]], None]
"""It is told the arguments by their names, and may take some of them out."""


def _is_equal(a: Any, b: Any) -> bool:
    return guard_or_true(a == b)


def _part_by(view: Any) -> Check:
    """Checks that the part of x which is written, a view of it, has the sizes of what is written there."""

    def check(given: dict[str, Any]) -> None:
        x, source = given.pop("self"), given.pop("src")
        if free_unbacked_symbols((x.shape, source.shape, *given.values())):
            return
        try:
            part = view(x, **given).shape
        except IndexError as error:
            raise RuntimeError(str(error)) from error
        if len(part) != source.dim() or not all(map(_is_equal, part, source.shape)):
            raise RuntimeError(
                f"expected src to have the sizes of the part of self that it is written to, {list(part)}"
            )

    return check


def _check_copied(given: dict[str, Any]) -> None:
    x, source, index = given["self"], given["source"], given["index"]
    if x.dtype != source.dtype or index.dtype != torch.int64:
        raise RuntimeError("index_copy_(): expected self and source of one dtype, and an index of int64")
    ours, theirs = list(x.shape), list(source.shape)
    if ours and theirs and len(ours) != len(theirs):
        raise RuntimeError("index_copy_(): expected self and source of as many dims")
    places = theirs.pop(given["dim"]) if theirs else 1
    if ours:
        del ours[given["dim"]]
    if len(ours) != len(theirs) or not all(map(_is_equal, (*ours, places), (*theirs, index.numel()))):
        raise RuntimeError("index_copy_(): expected source to have the sizes of self, but as many as index along dim")


def _check_added(given: dict[str, Any]) -> None:
    x, source, index = given["self"], given["source"], given["index"]
    if x.dtype != source.dtype or index.dtype not in (torch.int32, torch.int64):
        raise RuntimeError("expected self and source of one dtype, and an index of int32 or int64")
    if given.get("reduce", "prod") not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError("expected reduce to be prod, mean, amax or amin")
    ours, theirs = list(x.shape), list(source.shape)
    if ours and theirs:
        del ours[given["dim"]], theirs[given["dim"]]
    if len(ours) != len(theirs) or not all(map(_is_equal, ours, theirs)):
        raise RuntimeError("expected self and source of the same sizes, but along dim")


def _check_dim(given: dict[str, Any]) -> None:
    rank, dim = max(given["self"].dim(), 1), given.get("dim", -1)
    if not -rank <= dim < rank:
        raise RuntimeError(f"Dimension out of range, but got {dim}")


def _check_padding(given: dict[str, Any]) -> None:
    """Sides are not cut by more than there is: what is padded at the other one does not count."""
    sides = iter(given["pad"])
    for size, low, high in zip(reversed(given["self"].shape), sides, sides, strict=False):
        if not guard_or_true(size + _cut(low) + _cut(high) >= 0):
            raise RuntimeError("narrow(): length must be non-negative.")


def _cut(side: int) -> int:
    return 0 if guard_or_true(side >= 0) else side


def _check_steps(given: dict[str, Any]) -> None:
    for name in ("stride", "dilation"):
        if not all(guard_or_true(step > 0) for step in given[name]):
            raise RuntimeError(f"{name} should be greater than zero, but got {given[name]}")


def _check_convolution(given: dict[str, Any]) -> None:
    _check_steps(given)
    if given["transposed"]:
        for extra, stride, dilation in zip(given["output_padding"], given["stride"], given["dilation"], strict=False):
            if not (guard_or_true(extra < stride) or guard_or_true(extra < dilation)):
                raise RuntimeError(f"output padding must be smaller than stride or dilation, but got {extra}")


def _check_exponents(given: dict[str, Any]) -> None:
    if given["self"].is_floating_point():
        _not(is_bool, "other")(given)


def _check_boundaries(given: dict[str, Any]) -> None:
    if given["boundaries"].dim() != 1:
        raise RuntimeError("boundaries tensor must be 1 dimension")


_SIZES: dict[Any, Check] = {
    **dict.fromkeys(
        (
            _aten._softmax.default,
            _aten._log_softmax.default,
            _aten.sort.default,
            _aten.sort.stable,
            _aten.select.int,
        ),
        _check_dim,
    ),
    _aten.constant_pad_nd.default: _check_padding,
    _aten.convolution.default: _check_convolution,
    _aten.slice_scatter.default: _part_by(_aten.slice.Tensor),
    _aten.select_scatter.default: _part_by(_aten.select.int),
    _aten.diagonal_scatter.default: _part_by(_aten.diagonal.default),
    _aten.as_strided_scatter.default: _part_by(_aten.as_strided.default),
    _aten.index_copy.default: _check_copied,
    _aten.index_add.default: _check_added,
    _aten.index_reduce.default: _check_added,
}


# Dtypes

_HALVES = (torch.bfloat16, torch.float16)
_ANY_INDEX = (torch.int64, torch.int32, torch.uint8, torch.bool)


def _tensors(given: dict[str, Any], names: Sequence[str]) -> list[torch.Tensor]:
    return [x for name in names if isinstance(x := given.get(name), torch.Tensor)]


def _alike(*names: str) -> Check:
    """Checks that operands have one dtype."""

    def check(given: dict[str, Any]) -> None:
        dtypes = {x.dtype for x in _tensors(given, names)}
        if len(dtypes) > 1:
            raise RuntimeError(f"expected {', '.join(names)} to have one dtype")

    return check


def _index(name: str, *dtypes: torch.dtype) -> Check:
    """Checks the dtype of an index, or of each that a list has."""

    def check(given: dict[str, Any]) -> None:
        indices = given.get(name)
        for index in indices if isinstance(indices, (list, tuple)) else (indices,):
            if isinstance(index, torch.Tensor) and index.dtype not in dtypes:
                raise RuntimeError(f"expected {name} not to be of {index.dtype}")

    return check


def _all(*checks: Check) -> Check:
    def check(given: dict[str, Any]) -> None:
        for each in checks:
            each(given)

    return check


def _check_parameters(given: dict[str, Any]) -> None:
    """Those of a norm have its input's dtype, or on CPUs are of f32 beside an input of bf16 or f16."""
    x = given["input"]
    dtypes = {t.dtype for t in _tensors(given, ("weight", "bias", "running_mean", "running_var"))}
    if x.device.type != "cpu" or dtypes <= {x.dtype} or (x.dtype in _HALVES and dtypes == {torch.float32}):
        return
    raise RuntimeError("mixed dtype (CPU): expected parameters of the input's dtype, or of float32")


def _not(what: Callable[[torch.dtype], bool], *names: str) -> Check:
    """Checks that operands are not all of dtypes that there are no kernels for."""

    def check(given: dict[str, Any]) -> None:
        if all(what(x.dtype) for x in _tensors(given, names)):
            raise RuntimeError("not implemented for a dtype")

    return check


def _where(holds: Callable[[torch.Tensor], bool], check: Check) -> Check:
    def where_it_holds(given: dict[str, Any]) -> None:
        if holds(given["self"]):
            check(given)

    return where_it_holds


def _on_cpus(check: Check) -> Check:
    """A check of what ATen has kernels for on GPUs."""
    return _where(lambda x: x.device.type == "cpu", check)


_TARGET = _index("target", torch.int64, torch.uint8)

_DTYPES: dict[Any, Check] = {
    _aten.mm.default: _alike("self", "mat2"),
    _aten.addmm.default: _alike("self", "mat1", "mat2"),
    _aten.mv.default: _alike("self", "vec"),
    _aten.addmv.default: _alike("self", "mat", "vec"),
    _aten.linear.default: _alike("input", "weight", "bias"),
    _aten.grid_sampler_2d.default: _all(_alike("input", "grid"), _not(is_integer, "input")),
    _aten.grid_sampler_3d.default: _all(_alike("input", "grid"), _not(is_integer, "input")),
    _aten.heaviside.default: _alike("self", "values"),
    **dict.fromkeys(
        (_aten.binary_cross_entropy.default, _aten.huber_loss.default, _aten.soft_margin_loss.default),
        _alike("self", "target"),
    ),
    _aten.index_put.default: _all(_alike("self", "values"), _index("indices", *_ANY_INDEX)),
    _aten.put.default: _all(_alike("self", "source"), _index("index", torch.int64)),
    _aten.index_select.default: _index("index", torch.int64, torch.int32),
    _aten.index_fill.int_Scalar: _index("index", torch.int64),
    _aten.index_fill.int_Tensor: _index("index", torch.int64),
    _aten.searchsorted.Tensor: _all(_index("sorter", torch.int64), _not(is_bool, "sorted_sequence", "self")),
    _aten.searchsorted.Scalar: _index("sorter", torch.int64),
    _aten.nll_loss_forward.default: _all(_alike("self", "weight"), _TARGET),
    _aten.nll_loss2d_forward.default: _all(_alike("self", "weight"), _TARGET),
    **dict.fromkeys(
        (
            _aten.native_layer_norm.default,
            _aten.native_group_norm.default,
            _aten.native_batch_norm.default,
            _aten._native_batch_norm_legit.default,
            _aten._native_batch_norm_legit.no_stats,
            _aten._native_batch_norm_legit_no_training.default,
            _aten._batch_norm_with_update.default,
            _aten._batch_norm_no_update.default,
        ),
        _check_parameters,
    ),
    **dict.fromkeys(
        (
            _aten.relu.default,
            _aten.silu.default,
            _aten.glu.default,
            _aten.threshold.default,
            _aten.topk.default,
            _aten.median.default,
            _aten.median.dim,
            _aten.max_pool2d_with_indices.default,
            _aten.max_pool3d_with_indices.default,
            _aten.reflection_pad1d.default,
            _aten.reflection_pad2d.default,
            _aten.reflection_pad3d.default,
        ),
        _not(is_bool, "self"),
    ),
    _aten.pow.Tensor_Tensor: _not(is_bool, "self", "exponent"),
    _aten.pow.Tensor_Scalar: check_power,
    _aten.addcmul.default: _not(is_bool, "self", "tensor1", "tensor2"),
    _aten.addcdiv.default: _not(is_integer, "tensor1", "tensor2"),
    _aten.add.Tensor: check_scale,
    _aten.sub.Tensor: _all(check_scale, check_difference),
    _aten.add.Scalar: check_scale,
    **dict.fromkeys((_aten.sub.Scalar, _aten.rsub.Tensor, _aten.rsub.Scalar), _all(check_scale, check_difference)),
    **dict.fromkeys(
        (_aten.special_zeta.default, _aten.special_zeta.self_scalar, _aten.special_zeta.other_scalar),
        _not(is_half, "self", "other"),
    ),
    _aten.ldexp.Tensor: _on_cpus(_check_exponents),
    **dict.fromkeys((_aten.bitwise_and.Tensor, _aten.bitwise_or.Tensor), _not(is_float, "self", "other")),
    _aten.bucketize.Tensor: _all(_not(is_bool, "self", "boundaries"), _check_boundaries),
    **dict.fromkeys(
        (
            _aten.ceil.default,
            _aten.floor.default,
            _aten.trunc.default,
            _aten.round.default,
            _aten.trace.default,
            _aten.kthvalue.default,
            _aten.nanmedian.default,
            _aten.nanmedian.dim,
            _aten.hardswish.default,
            _aten.hardsigmoid.default,
            _aten.abs.default,
        ),
        _on_cpus(_not(is_bool, "self")),
    ),
    **dict.fromkeys(
        (
            _aten.lerp.Scalar,
            _aten.lerp.Tensor,
            _aten._prelu_kernel.default,
            _aten.frac.default,
            _aten.logcumsumexp.default,
            _aten.adaptive_max_pool2d.default,
            _aten.adaptive_max_pool3d.default,
        ),
        _on_cpus(_not(is_integer, "self")),
    ),
    **dict.fromkeys((_aten.im2col.default, _aten.col2im.default), _on_cpus(_not(is_integer_but_bool, "self"))),
    _aten.normal.Tensor_Tensor: _not(is_integer, "mean"),
    _aten.normal.Tensor_float: _not(is_integer, "mean"),
    **dict.fromkeys(
        (_aten.gelu.default, _aten.rrelu_with_noise_functional.default),
        _not(is_integer, "self"),
    ),
    **dict.fromkeys((_aten.bernoulli.p, _aten.native_dropout.default), check_probability),
    _aten.uniform.default: check_range,
    _aten.smooth_l1_loss.default: check_beta,
    _aten.mvlgamma.default: check_order,
    _aten.roll.default: check_shifts,
    **dict.fromkeys((_aten.arange.default, _aten.arange.start, _aten.arange.start_step), check_steps),
    _aten.celu.default: check_alpha,
    **dict.fromkeys(
        (
            _aten.clamp.default,
            _aten.clamp.Tensor,
            _aten.clamp_min.default,
            _aten.clamp_max.default,
        ),
        _on_cpus(check_limits),
    ),
    **dict.fromkeys((_aten.cumsum.default, _aten.cumprod.default), check_summed),
    **dict.fromkeys((_aten.argmax.default, _aten.argmin.default), _not(is_bool, "self")),
    **dict.fromkeys(
        (
            _aten.igamma.default,
            _aten.igammac.default,
            _aten.hypot.default,
            _aten.logaddexp.default,
            _aten.logaddexp2.default,
            _aten.nextafter.default,
        ),
        _not(is_integer, "self", "other"),
    ),
    _aten.gcd.default: _not(is_not_integer, "self"),
    _aten.lcm.default: _not(is_not_integer, "self"),
    **dict.fromkeys((_aten.avg_pool2d.default, _aten.avg_pool3d.default), _not(is_neither_float_nor_long, "self")),
}


# Elements that are looked up or written at an index, of dtypes that ATen's CPU kernels leave out


def _check_reduced(given: dict[str, Any]) -> None:
    """Without the element that was there, truth values have none to begin with."""
    if given["self"].dtype is torch.bool and not given.get("include_self", True):
        raise RuntimeError("not implemented for 'Bool'")


_AT_AN_INDEX: dict[Any, Check] = {
    **dict.fromkeys(
        (
            _aten.gather.default,
            _aten.scatter.src,
            _aten.take.default,
            _aten.index_copy.default,
        ),
        _on_cpus(_not(is_unindexed, "self")),
    ),
    **dict.fromkeys(
        (
            *(getattr(_aten.scatter, overload) for overload in ("value", "reduce", "value_reduce")),
            *(_aten.scatter_add.default, _aten.scatter_reduce.two, _aten.index_add.default, _aten.index_put.default),
            *(_aten.index_fill.int_Scalar, _aten.index_fill.int_Tensor, _aten.masked_scatter.default),
            *(_aten.masked_fill.Scalar, _aten.masked_fill.Tensor, _aten.put.default),
        ),
        _on_cpus(_not(is_wide_unsigned, "self")),
    ),
    **dict.fromkeys(  # which look for a kernel only where there are elements
        (_aten.tril.default, _aten.triu.default),
        _where(lambda x: not has_no_elements(x), _on_cpus(_not(is_wide_unsigned, "self"))),
    ),
    _aten.index_reduce.default: _on_cpus(_all(_not(is_wide_unsigned, "self"), _check_reduced)),
}

_TABLES = (_SIZES, _DTYPES, _AT_AN_INDEX, SCALAR_CHECKS)
CHECKS: dict[Any, Check] = {
    operator: _all(*(table[operator] for table in _TABLES if operator in table))
    for operator in dict.fromkeys(operator for table in _TABLES for operator in table)
}
