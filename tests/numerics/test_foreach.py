"""Operators on lists of tensors, `aten._foreach_*`, against eager: torch's own sample inputs, call by call.

Calls are recorded, lowered, interpreted and compared as those of `test_aten_to_prims.py` (`recorded_calls.py`).
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import (
    foreach_binary_op_db,
    foreach_other_op_db,
    foreach_pointwise_op_db,
    foreach_unary_op_db,
)

from lamella.dialects.aten import op_name

from .recorded_calls import Recorder, call_of, check, f, is_covered

OPERATORS = [*foreach_unary_op_db, *foreach_binary_op_db, *foreach_pointwise_op_db, *foreach_other_op_db]
DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool)
LENGTH = 3
"""Tensors taken of each list: the samples' are of sizes 20 x 20, 19 x 19, …"""

LEFT = {"aten._foreach_addcdiv.Tensor", "aten._foreach_addcmul.Tensor", "aten._foreach_mm"}
"""What has no rule: a tensor of which each list takes one number; what libraries do best."""


def shortened(value: Any) -> Any:
    return value[:LENGTH] if isinstance(value, (list, tuple)) else value


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda op: op.name)
def test_samples(operator: Any, dtype: torch.dtype) -> None:
    """All samples that eager takes are decomposed, and give what it gives."""
    if operator.method_variant is None or not operator.supports_dtype(dtype, "cpu"):
        pytest.skip(f"no {dtype}")
    with Recorder(lambda name: name.startswith("aten._foreach_")) as recorder:
        for sample in operator.sample_inputs("cpu", dtype, noncontiguous=False, allow_higher_dtype_scalars=True):
            # What eager refuses (a subtraction of bools, a power of integers by floats) is no call.
            try:
                operator.op(shortened(sample.input), *map(shortened, sample.args), **sample.kwargs)
            except RuntimeError:
                continue
    for call in filter(is_covered, recorder.calls):
        name = op_name(call.overload)
        assert check(call, f"{operator.name} {dtype}") != (name in LEFT), f"{name} of {dtype} was left"


LIST, OTHER = [f(4, 5), f(3).bfloat16(), f(2, 2).long()], [f(4, 5).abs(), f(3) + 2, f(2, 2) + 1]
FLOATS, WEIGHTS = [f(4, 5), f(3), f(2, 2).double()], [f(4, 5) + 1, f(3) + 2, f(2, 2).double() + 1]
CASES: list[tuple[Any, ...]] = [
    ("aten._foreach_add.Tensor", LIST, torch.tensor(1.5), 2),
    ("aten._foreach_addcdiv.ScalarList", FLOATS, WEIGHTS, WEIGHTS, [0.5, 2, -1.25]),
    ("aten._foreach_addcdiv.Tensor", FLOATS[:2], WEIGHTS[:2], WEIGHTS[:2], torch.tensor([0.5, 2.0])),
    ("aten._foreach_addcmul.ScalarList", FLOATS, WEIGHTS, WEIGHTS, [0.5, 2, -1.25]),
    ("aten._foreach_addcmul.Tensor", FLOATS[:2], WEIGHTS[:2], WEIGHTS[:2], torch.tensor([0.5, 2.0])),
    ("aten._foreach_copy", LIST, OTHER),
    ("aten._foreach_div.List", LIST, OTHER),
    ("aten._foreach_max", LIST),
    ("aten._foreach_mul.ScalarList", LIST, [2, 0.5, 1.5]),
    ("aten._foreach_pow.ScalarAndTensor", 2.5, LIST),
    ("aten._foreach_zero", LIST),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_cases(case: tuple[Any, ...]) -> None:
    """Overloads that samples leave out, and lists of tensors of several dtypes."""
    assert check(call_of(*case), "a case") != (case[0] in LEFT), f"{case[0]} was left"
