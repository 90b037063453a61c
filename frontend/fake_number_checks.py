"""What torch's fake kernels do not check of numbers among the arguments: probabilities, powers, factors, limits."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import guard_or_true

from .dtype_kinds import is_integer


def check_power(given: dict[str, Any]) -> None:
    x, exponent = given["self"], given["exponent"]
    if is_integer(x.dtype) and isinstance(exponent, int | torch.SymInt) and not guard_or_true(exponent >= 0):
        raise RuntimeError("Integers to negative integer powers are not allowed.")


def _is_whole(number: Any) -> bool:
    return isinstance(number, (int, torch.SymInt, torch.SymBool))


def _is_truth(x: Any) -> bool:
    return isinstance(x, (bool, torch.SymBool)) or getattr(x, "dtype", None) is torch.bool


def check_scale(given: dict[str, Any]) -> None:
    """A number by which bools or integers are multiplied is none with a fraction; a truth value is one of bools."""
    operands = given["self"], given["other"]
    if isinstance(given.get("alpha"), (bool, torch.SymBool)) and not all(map(_is_truth, operands)):
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    is_whole = all(is_integer(x.dtype) if isinstance(x, torch.Tensor) else _is_whole(x) for x in operands)
    if is_whole and isinstance(given.get("alpha"), (float, torch.SymFloat)):
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")


def check_difference(given: dict[str, Any]) -> None:
    """Truth values are not subtracted, nor is anything from them."""
    for x in (given["self"], given["other"]):
        if _is_truth(x):
            raise RuntimeError("Subtraction, the `-` operator, with a bool tensor is not supported.")


def check_probability(given: dict[str, Any]) -> None:
    p = given["p"]
    if isinstance(p, int | float | torch.SymFloat) and not (guard_or_true(p >= 0) and guard_or_true(p <= 1)):
        raise RuntimeError(f"expected p to be in [0, 1], but got p={p}")


def check_range(given: dict[str, Any]) -> None:
    x, low, high = given["self"], given.get("from", 0.0), given.get("to", 1.0)
    if isinstance(low, float) and isinstance(high, float) and not 0 <= high - low <= torch.finfo(x.dtype).max:
        raise RuntimeError(f"uniform_ expects a range [from, to), but got from={low} and to={high}")


def check_beta(given: dict[str, Any]) -> None:
    if not guard_or_true(given.get("beta", 1.0) >= 0):
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")


def check_alpha(given: dict[str, Any]) -> None:
    if not guard_or_true(given.get("alpha", 1.0) != 0):
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")


def check_order(given: dict[str, Any]) -> None:
    if not guard_or_true(given["p"] >= 1):
        raise RuntimeError("p has to be greater than or equal to 1")


def check_summed(given: dict[str, Any]) -> None:
    """Sums along a dim are of numbers."""
    if given.get("dtype") is torch.bool:
        raise RuntimeError("not implemented for 'Bool'")


def check_limits(given: dict[str, Any]) -> None:
    """Truth values have no limits that are truth values; a limit that is a tensor alone is a maximum or minimum."""
    limits = [x for name in ("min", "max") if (x := given.get(name)) is not None]
    if len(limits) == 1 and isinstance(limits[0], torch.Tensor):
        return
    if all(isinstance(x, bool) or getattr(x, "dtype", None) is torch.bool for x in (given["self"], *limits)):
        raise RuntimeError("not implemented for 'Bool'")


_LEAST_WITH_SIZES = -(2**62)
"""The least integer that ATen takes in a list which may hold sizes that are symbols."""


def check_shifts(given: dict[str, Any]) -> None:
    if not all(guard_or_true(shift >= _LEAST_WITH_SIZES) for shift in given["shifts"]):
        raise RuntimeError("SymIntArrayRef expected to contain only concrete integers")


def check_steps(given: dict[str, Any]) -> None:
    """Integers from start to end are counted in 64 bits, where a difference may wrap around."""
    numbers = start, end, step = given.get("start", 0), given["end"], given.get("step", 1)
    if not all(isinstance(n, int) for n in numbers) or given.get("dtype", torch.int64) not in (None, torch.int64):
        return
    if abs(end - start) + abs(step) >= 2**63:
        raise RuntimeError("invalid size, possible overflow?")
