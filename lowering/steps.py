"""Steps within one operator whose results eager's kernels round to the dtype of the result, f16 or bf16."""

from __future__ import annotations

from .prims_builder import Value


def rounded(x: Value, dtype: str) -> Value:
    """x with the digits that `dtype` has, in the dtype that it is computed in."""
    return x.to(dtype).to(x.dtype)


def step(x: Value, dtype: str) -> Value:
    """`rounded` where a digit more does no harm: only `numerics="eager"` keeps it."""
    return x.to(dtype, rounding=True).to(x.dtype)


def step_in(x: Value, dtype: str, where: str = "") -> Value:
    """`step` of an operator whose kernel on CPUs takes it in one half dtype, `where`, and computes the other in f32; on
    GPUs in both.
    """
    return step(x, dtype) if dtype == where or x.type.device != "cpu" else x
