"""What torch's fake kernels do not check of numbers among the arguments: that they fit the dtype eager makes them.

Eager raises where a number leaves the range of that dtype. Which one it is differs: the input's, the result's, or, for
what is computed in f32, that of the computation. Numbers that become tensors (`x + 1e308`) are converted unchecked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import torch
from torch import _prims_common as _prims
from torch.fx.experimental.symbolic_shapes import guard_or_true

_aten: Any = torch.ops.aten
_HALVES = (torch.bfloat16, torch.float16)
_kinds: Any = _prims.ELEMENTWISE_TYPE_PROMOTION_KIND

DtypeOf: TypeAlias = Callable[[dict[str, Any]], torch.dtype]
"""The dtype that a number is converted to, by the arguments of its call."""


def fits(value: Any, dtype: torch.dtype) -> bool:
    """Whether a conversion that is checked takes a number: infinities and NaN are floats, and of an unsigned integer
    its negative is one too, which wraps around. A guard, where the number is an argument.
    """
    if dtype is torch.bool or isinstance(value, (bool, torch.SymBool)):
        return True
    if isinstance(value, complex):
        parts = dtype.to_real() if dtype.is_complex else dtype
        return (dtype.is_complex or value.imag == 0) and fits(value.real, parts) and fits(value.imag, parts)
    is_float = isinstance(value, (float, torch.SymFloat))
    if dtype.is_floating_point or dtype.is_complex:
        most = torch.finfo(dtype).max
        return dtype.itemsize >= 8 * (1 + dtype.is_complex) or _is_within(value, -most, most, is_float)
    limits = torch.iinfo(dtype)
    least = -limits.max if limits.min == 0 and not is_float else limits.min
    if is_float:
        return _is_within(value, float(least), float(limits.max), False)
    return (least <= -(2**63) and limits.max >= 2**63 - 1) or _is_within(value, least, limits.max, False)


def _is_within(value: Any, least: float, most: float, or_infinite: bool) -> bool:
    if isinstance(value, float) and value != value:
        return or_infinite
    if guard_or_true(value <= most) and guard_or_true(value >= least):
        return True
    return or_infinite and (guard_or_true(value == float("inf")) or guard_or_true(value == -float("inf")))


# Dtypes


def _own(given: dict[str, Any]) -> torch.dtype:
    return given["self"].dtype


def _computed(given: dict[str, Any]) -> torch.dtype:
    """Halves are computed in f32."""
    return torch.float32 if given["self"].dtype in _HALVES else given["self"].dtype


def _promoted(*names: str) -> DtypeOf:
    def dtype_of(given: dict[str, Any]) -> torch.dtype:
        operands = [x for name in names if (x := given.get(name)) is not None]
        return _prims.elementwise_dtypes(*operands, type_promotion_kind=_kinds.DEFAULT)[1]

    return dtype_of


def _made(name: str) -> DtypeOf:
    """Of a new tensor: the dtype that is asked for, the input's, or that of the number."""

    def dtype_of(given: dict[str, Any]) -> torch.dtype:
        if (dtype := given.get("dtype")) is not None:
            return dtype
        return given["self"].dtype if "self" in given else _promoted(name)(given)

    return dtype_of


def _exponent(given: dict[str, Any]) -> torch.dtype:
    """Of integers to a whole power, and of halves; else it stays what it is."""
    x, exponent = given["self"], given["exponent"]
    numbers = exponent if isinstance(exponent, (list, tuple)) else (exponent,)
    is_whole = not any(isinstance(n, (float, torch.SymFloat)) for n in numbers)
    if x.dtype in _HALVES or (is_whole and not x.dtype.is_floating_point):
        return x.dtype
    return torch.float64


# Checks


def _check_made(given: dict[str, Any]) -> None:
    """ATen makes tensors of numbers itself (`where`, writes by an index); halves by way of f64. `torch.tensor(number)`
    is traced as the same operator, asks for memory in pages that are not pinned, and does not raise.
    """
    if "pin_memory" not in given and given.get("dtype") not in _HALVES:
        _in(_made("s"), "s")(given)


def _in(dtype_of: DtypeOf, *names: str) -> Callable[[dict[str, Any]], None]:
    def check(given: dict[str, Any]) -> None:
        for name in names:
            value = given.get(name)
            for number in value if isinstance(value, (list, tuple)) else (value,):
                if _is_number(number) and not fits(number, dtype := dtype_of(given)):
                    raise RuntimeError(f"value cannot be converted to type {dtype} without overflow")

    return check


def _check_celu(given: dict[str, Any]) -> None:
    """It is computed with the inverse."""
    alpha = given.get("alpha", 1.0)
    for value in (alpha, 1 / alpha if guard_or_true(alpha != 0) else alpha):
        _in(_computed, "alpha")({**given, "alpha": value})


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, complex, torch.SymInt, torch.SymFloat))


def _of_each(check: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    """For lists of tensors, of which a number or each of a list of numbers is checked."""

    def check_each(given: dict[str, Any]) -> None:
        for dtype in {x.dtype: x for x in given["self"]}.values():
            check({**given, "self": dtype})

    return check_each


def _check_differences(given: dict[str, Any]) -> None:
    for number in (given.get("scalar"), *given.get("scalars", ())):
        if isinstance(number, (bool, torch.SymBool)):
            raise RuntimeError("Subtraction, the `-` operator, with a bool tensor is not supported.")


def _overloads(names: Iterable[str], check: Callable[[dict[str, Any]], None]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for name in names:
        packet, _, overload = name.partition(".")
        if hasattr(_aten, packet) and hasattr(getattr(_aten, packet), overload or "default"):
            found[getattr(getattr(_aten, packet), overload or "default")] = check
    return found


_FOREACH: dict[str, Sequence[str]] = {
    name: [f"_foreach_{name}.{overload}" for overload in ("Scalar", "ScalarList")]
    for name in ("addcmul", "addcdiv", "lerp", "clamp_min", "clamp_max", "maximum", "minimum", "pow", "sub")
}

SCALAR_CHECKS: dict[Any, Callable[[dict[str, Any]], None]] = {
    **_overloads(("fill.Scalar", "masked_fill.Scalar", "index_fill.int_Scalar"), _in(_own, "value")),
    **_overloads(("scatter.value", "scatter.value_reduce", "constant_pad_nd"), _in(_own, "value")),
    **_overloads(("full", "full_like", "new_full"), _in(_made("fill_value"), "fill_value")),
    **_overloads(("linspace", "logspace"), _in(_made("start"), "start", "end")),
    **_overloads(("hardtanh",), _in(_own, "min_val", "max_val")),
    **_overloads(("hardshrink", "hardshrink_backward", "softshrink", "softshrink_backward"), _in(_own, "lambd")),
    **_overloads(("threshold",), _in(_own, "threshold", "value")),
    **_overloads(("threshold_backward",), _in(_computed, "threshold")),
    **_overloads(("histc",), _in(_own, "min", "max")),
    **_overloads(("index_add",), _in(_own, "alpha")),
    **_overloads(("addmv", "addr"), _in(_own, "beta", "alpha")),
    **_overloads(("addmm", "addbmm", "baddbmm"), _in(_computed, "beta", "alpha")),
    **_overloads(("addcmul", "addcdiv"), _in(_computed, "value")),
    **_overloads(("lerp.Scalar",), _in(_computed, "weight")),
    **_overloads(("elu",), _in(_computed, "alpha", "scale", "input_scale")),
    **_overloads(("celu",), _check_celu),
    **_overloads(("logit",), _in(_own, "eps")),
    **_overloads(("leaky_relu", "leaky_relu_backward"), _in(_computed, "negative_slope")),
    **_overloads(("softplus", "softplus_backward"), _in(_computed, "beta", "threshold")),
    **_overloads(("hardtanh_backward",), _in(_computed, "min_val", "max_val")),
    **_overloads(("clamp", "clamp_min", "clamp_max"), _in(_promoted("self", "min", "max"), "min", "max")),
    **_overloads(("add.Tensor", "sub.Tensor", "rsub.Tensor"), _in(_promoted("self", "other"), "alpha")),
    **_overloads(("add.Scalar", "sub.Scalar", "rsub.Scalar"), _in(_promoted("self", "other"), "alpha")),
    **_overloads(("pow.Tensor_Scalar",), _in(_exponent, "exponent")),
    **_overloads(_FOREACH["pow"], _of_each(_in(_exponent, "exponent"))),
    **_overloads(_FOREACH["sub"], _check_differences),
    **_overloads(("scalar_tensor",), _check_made),
    **_overloads(
        (name for of in ("addcmul", "addcdiv", "lerp") for name in _FOREACH[of]),
        _of_each(_in(_computed, "value", "scalars", "weight")),
    ),
    **_overloads(
        (name for of in ("clamp_min", "clamp_max", "maximum", "minimum") for name in _FOREACH[of]),
        _of_each(_in(_promoted("self", "scalar"), "scalar", "scalars")),
    ),
}
"""By operator, for those of which eager checks a number; it is told the arguments by their names."""
