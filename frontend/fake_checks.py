"""What torch's fake kernels do not check of arguments: sizes (`fake_size_checks`), numbers, and here dtypes of what is
written at a part or an index, of indices, and operands, parameters and inputs of dtypes that ATen has no kernel for.

A program that fails a check runs eagerly, and raises what eager does: by a RuntimeError AOTAutograd says that it does
not take a program. A check that is too strict costs a program its compilation, never its result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

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
from .fake_size_checks import CHANNEL_NORMS, SIZE_CHECKS, Check
from .fake_strides import has_no_elements

_aten: Any = torch.ops.aten

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
    mixed = not dtypes <= {x.dtype} and (x.dtype not in _HALVES or dtypes != {torch.float32})
    if x.device.type == "cpu" and mixed:
        raise RuntimeError("mixed dtype (CPU): expected parameters of the input's dtype, or of float32")


def _check_normalized(given: dict[str, Any]) -> None:
    _check_parameters(given)
    _not(is_integer, "input")(given)


def _not(what: Callable[[torch.dtype], bool], *names: str) -> Check:
    """Checks that operands are not all of dtypes that there are no kernels for."""

    def check(given: dict[str, Any]) -> None:
        dtypes = [x.dtype for x in _tensors(given, names)]
        if all(map(what, dtypes)):
            found = ", ".join(map(str, dict.fromkeys(dtypes)))
            raise RuntimeError(f"not implemented for {', '.join(names)} of {found}")

    return check


def _check_exponents(given: dict[str, Any]) -> None:
    if given["self"].is_floating_point():
        _not(is_bool, "other")(given)


def _none(what: Callable[[torch.dtype], bool], *names: str) -> Check:
    """Checks that no operand is of a dtype whose promotion there are no kernels for."""

    def check(given: dict[str, Any]) -> None:
        for x in _tensors(given, names):
            if what(x.dtype):
                raise RuntimeError(f"not implemented for {x.dtype}")

    return check


def _check_promotion(given: dict[str, Any]) -> None:
    """Compared are numbers of one dtype, which some unsigned ones have with no other."""
    torch.result_type(given["self"], given["other"])


def _check_rounded(given: dict[str, Any]) -> None:
    if given.get("rounding_mode") is not None:
        _not(is_bool, "self", "other")(given)


def _where(holds: Callable[[torch.Tensor], bool], check: Check) -> Check:
    """A check where that holds of the first tensor, in whose place torch takes a number, too."""

    def where_it_holds(given: dict[str, Any]) -> None:
        if isinstance(first := given["self"], torch.Tensor) and holds(first):
            check(given)

    return where_it_holds


def _on_cpus(check: Check) -> Check:
    """A check of what ATen has kernels for on GPUs."""
    return _where(lambda x: x.device.type == "cpu", check)


def _on_gpus(check: Check) -> Check:
    """A check of what ATen has kernels for on CPUs."""
    return _where(lambda x: x.device.type == "cuda", check)


_TARGET = _index("target", torch.int64, torch.uint8)

_DTYPES: dict[Any, Check] = {
    _aten.mm.default: _alike("self", "mat2"),
    _aten.addmm.default: _alike("self", "mat1", "mat2"),
    _aten.mv.default: _alike("self", "vec"),
    _aten.addmv.default: _alike("self", "mat", "vec"),
    _aten.addbmm.default: _alike("self", "batch1", "batch2"),
    _aten.linalg_cross.default: _alike("self", "other"),
    _aten.linear.default: _alike("input", "weight", "bias"),
    _aten.grid_sampler_2d.default: _all(_alike("input", "grid"), _not(is_integer, "input")),
    _aten.grid_sampler_3d.default: _all(_alike("input", "grid"), _not(is_integer, "input")),
    _aten.heaviside.default: _alike("self", "values"),
    _aten.huber_loss.default: _alike("self", "target"),
    **dict.fromkeys(
        (_aten.binary_cross_entropy.default, _aten.soft_margin_loss.default),
        _all(_alike("self", "target"), _not(is_integer, "self")),
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
    _aten.native_layer_norm.default: _check_parameters,
    **dict.fromkeys(CHANNEL_NORMS, _check_normalized),
    **dict.fromkeys(
        (
            _aten.relu.default,
            _aten.threshold.default,
            _aten.topk.default,
            _aten.median.default,
            _aten.median.dim,
            _aten.reflection_pad1d.default,
            _aten.reflection_pad2d.default,
            _aten.reflection_pad3d.default,
        ),
        _not(is_bool, "self"),
    ),
    **dict.fromkeys(
        (_aten.max_pool2d_with_indices.default, _aten.max_pool3d_with_indices.default),
        _all(_not(is_bool, "self"), _on_gpus(_not(is_integer, "self"))),
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
    **dict.fromkeys(
        (_aten.bitwise_and.Tensor, _aten.bitwise_or.Tensor, _aten.bitwise_xor.Tensor), _none(is_float, "self", "other")
    ),
    _aten.bitwise_not.default: _not(is_float, "self"),
    **dict.fromkeys(
        (getattr(_aten, name).Tensor for name in ("eq", "ne", "lt", "le", "gt", "ge")),
        _check_promotion,
    ),
    _aten.div.Tensor_mode: _on_cpus(_check_rounded),
    _aten.bucketize.Tensor: _not(is_bool, "self", "boundaries"),
    **dict.fromkeys(
        (
            _aten.ceil.default,
            _aten.floor.default,
            _aten.trunc.default,
            _aten.round.default,
        ),
        _not(is_bool, "self"),
    ),
    **dict.fromkeys(
        (
            _aten.trace.default,
            _aten.kthvalue.default,
            _aten.nanmedian.default,
            _aten.nanmedian.dim,
            _aten.abs.default,
        ),
        _on_cpus(_not(is_bool, "self")),
    ),
    **dict.fromkeys(
        (
            _aten.lerp.Scalar,
            _aten.lerp.Tensor,
            _aten.frac.default,
            _aten._pdist_forward.default,
            _aten.logcumsumexp.default,
            _aten.hardsigmoid.default,
            _aten.hardswish.default,
            _aten.softplus.default,
            _aten.mish.default,
            _aten.glu.default,
            _aten.silu.default,
            _aten.log_sigmoid_forward.default,
            _aten._safe_softmax.default,
        ),
        _on_cpus(_not(is_integer, "self")),
    ),
    **dict.fromkeys((_aten.im2col.default, _aten.col2im.default), _not(is_integer_but_bool, "self")),
    _aten.normal.Tensor_Tensor: _not(is_integer, "mean"),
    _aten.normal.Tensor_float: _not(is_integer, "mean"),
    **dict.fromkeys(
        (
            _aten.gelu.default,
            _aten.rrelu_with_noise_functional.default,
            _aten._prelu_kernel.default,
            _aten.adaptive_max_pool2d.default,
            _aten.adaptive_max_pool3d.default,
            _aten.hardshrink.default,
        ),
        _not(is_integer, "self"),
    ),
    **dict.fromkeys((_aten.bernoulli.p, _aten.native_dropout.default), check_probability),
    _aten.uniform.default: check_range,
    _aten.smooth_l1_loss.default: check_beta,
    _aten.mvlgamma.default: check_order,
    _aten.celu.default: _all(check_alpha, _on_cpus(_not(is_integer, "self"))),
    _aten.roll.default: check_shifts,
    **dict.fromkeys((_aten.arange.default, _aten.arange.start, _aten.arange.start_step), check_steps),
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
    **dict.fromkeys(
        (_aten.avg_pool2d.default, _aten.avg_pool3d.default),
        _all(_not(is_neither_float_nor_long, "self"), _on_gpus(_not(is_integer, "self"))),
    ),
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

_TABLES = (SIZE_CHECKS, _DTYPES, _AT_AN_INDEX, SCALAR_CHECKS)
CHECKS: dict[Any, Check] = {
    operator: _all(*(table[operator] for table in _TABLES if operator in table))
    for operator in dict.fromkeys(operator for table in _TABLES for operator in table)
}
