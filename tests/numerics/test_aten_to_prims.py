"""Every decomposition against eager: torch's own sample inputs, call by call.

A sample of an operator is run in eager, with its derivative, while every ATen call is recorded with its inputs and
outputs. Each recorded call that the table has a rule for becomes a module of one op, is lowered to prims,
canonicalized and interpreted; the outputs must be eager's within the tolerances of torch.testing, or no further from
float64 than 1.5 times eager's own.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import binary_ufuncs, op_db, unary_ufuncs
from xdsl.context import Context

from lamella.codegen.interpreter import run_module
from lamella.dialects.aten import lookup, op_name
from lamella.dialects.text import parse_module, print_module
from lamella.lowering.aten_to_prims import AtenToPrims
from lamella.lowering.decomposition import RULES

from .recorded_calls import Recorded, call_of, check, f, i, is_covered, module_of, record

DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool)

SAMPLES = 2
"""Sample inputs taken of each operator and dtype."""


# torch's samples

SKIPPED = ("fft.", "linalg.", "sparse.", "masked.", "jiterator", "signal.", "ops.nvprims", "to_sparse", "special.")
"""Operators whose calls have no rules, or that are many of the same calls."""
OPERATORS = [op for op in op_db if not op.name.startswith(SKIPPED)]
ENOUGH = 8
"""Checks of one ATen op and dtype: many operators make the same calls."""
checked: Counter[tuple[str, torch.dtype]] = Counter()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "operator", OPERATORS, ids=lambda op: f"{op.name}{op.variant_test_name and '-' + op.variant_test_name}"
)
def test_samples(operator: Any) -> None:
    """Calls of sample inputs and their derivatives; in inference mode composite operators are calls of their own."""
    for dtype in DTYPES:
        if not operator.supports_dtype(dtype, "cpu"):
            continue
        grad = dtype.is_floating_point and operator.supports_autograd
        for sample in itertools.islice(operator.sample_inputs("cpu", dtype, requires_grad=grad), SAMPLES):
            for inference in (False, True):
                with torch.inference_mode(inference):
                    calls = record(lambda s=sample: operator.op(s.input, *s.args, **s.kwargs))
                for call in calls:
                    name = op_name(call.overload)
                    if is_covered(call) and checked[name, dtype] < ENOUGH:
                        checked[name, dtype] += check(call, f"{operator.name} {dtype}")


# Inputs that samples leave out


SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40, -1e-40, 1e30, -1e30, 0.5, -0.5, 1.0, -1.0, 2.5, -2.5, 88.0]
ELEMENTWISE = [op for op in unary_ufuncs + binary_ufuncs if not op.name.startswith(("special.", "jiterator"))]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
@pytest.mark.parametrize("operator", ELEMENTWISE, ids=lambda op: op.name)
def test_special_values(operator: Any, dtype: torch.dtype) -> None:
    """NaN, infinities, zeros with signs, denormals and halves; transposed, with one element, and with none."""
    if not operator.supports_dtype(dtype, "cpu"):
        pytest.skip(f"no {dtype}")
    unary = operator in unary_ufuncs
    # Binary ones without denormals: eager's vectorized fmod gives NaN for such divisors, its scalar one does not.
    x = torch.tensor([v if unary or abs(v) != 1e-40 else 3.0 for v in SPECIAL]).to(dtype)
    grid = x.reshape(4, 4).t() if unary else x[:, None].expand(16, 16)
    other = () if unary else (x[None].expand(16, 16),)
    for inputs in ((grid, *other), tuple(t[:1, :1] for t in (grid, *other)), tuple(t[:0] for t in (grid, *other))):
        try:
            calls = record(lambda inputs=inputs: operator.op(*inputs))
        except (RuntimeError, TypeError):
            continue  # the operator wants other arguments
        for call in filter(is_covered, calls):
            check(call, f"{operator.name} of special values")


BN = (f(3), f(3), f(3), f(3).abs() + 0.5)
CASES: list[tuple[Any, ...]] = [
    ("aten.__and__.Tensor", i(9, 4), i(9, 4)),
    ("aten.__lshift__.Scalar", i(9, 4), 2),
    ("aten.__rshift__.Tensor", i(9, 4), i(3, 4)),
    ("aten.__xor__.Scalar", i(9, 4), 5),
    ("aten._adaptive_avg_pool2d", f(2, 3, 8, 6), [4, 2]),
    ("aten._adaptive_avg_pool2d", f(2, 3, 7, 7), [1, 1]),
    ("aten._adaptive_avg_pool2d_backward", f(2, 3, 4, 2), f(2, 3, 8, 6)),
    ("aten._batch_norm_no_update", f(2, 3, 5), *BN, 0.1, 1e-5),
    ("aten._batch_norm_with_update_functional", f(2, 3, 5), *BN, 0.1, 1e-5),
    ("aten._fused_rms_norm", f(4, 8), [8], f(8), 1e-6),
    ("aten._fused_rms_norm", f(4, 8, dtype=torch.bfloat16), [8], f(8, dtype=torch.bfloat16), None),
    ("aten._native_batch_norm_legit.no_stats", f(2, 3, 4, 5), f(3), f(3), True, 0.1, 1e-5),
    ("aten._native_batch_norm_legit_functional", f(2, 3, 4, 5), *BN, True, 0.1, 1e-5),
    ("aten._native_batch_norm_legit_functional", f(2, 3, 4, 5), *BN, False, 0.1, 1e-5),
    ("aten._native_batch_norm_legit_no_training", f(2, 3, 4, 5), *BN, 0.1, 1e-5),
    ("aten._native_batch_norm_legit_no_training", f(2, 3, 4, 5, dtype=torch.bfloat16), *BN, 0.1, 1e-5),
    ("aten._unsafe_index.Tensor", f(5, 6), [None, i(6, 4)]),
    ("aten._unsafe_index_put", f(5, 6), [i(5, 4)], f(4, 6), False),
    ("aten._upsample_nearest_exact2d", f(1, 2, 5, 6), [7, 9], None, None),
    ("aten.all.dims", i(2, 3, 4).bool(), [0, 1], True),
    ("aten.any.dims", i(2, 3, 4), [1], False),
    ("aten.arange.start_step", 0.5, 4.0, 0.25, torch.float32),
    ("aten.arange.start_step", 7, -3, -2, torch.int64),
    ("aten.avg_pool2d", f(1, 2, 7, 8), [3, 2], [2, 2], [1, 0], True, False),
    ("aten.avg_pool2d", f(1, 2, 7, 8), [3, 3], [], [0, 0], False, True, 5),
    ("aten.bitwise_and.Scalar_Tensor", 6, i(9, 4)),
    ("aten.bitwise_right_shift.Tensor_Scalar", i(99, 4) - 50, 2),
    ("aten.adaptive_max_pool3d", f(2, 3, 5, 4, 7), [2, 3, 4]),
    ("aten._adaptive_avg_pool2d", f(2, 3, 7, 5), [3, 4]),
    ("aten._adaptive_avg_pool2d_backward", f(2, 3, 3, 4), f(2, 3, 7, 5)),
    ("aten.cat", [f(0), f(2, 3), f(1, 3)], 0),
    ("aten.cat", [f(2, 3), i(5, 2, 1)], 1),
    ("aten.clamp_max", f(4), 0.1),
    ("aten.clip.Tensor", f(4), f(1), None),
    ("aten.contiguous", f(3, 4).t()),
    ("aten.copy", f(3, 4), i(5, 4)),
    ("aten.copysign.Scalar", f(4), -1.0),
    ("aten.count_nonzero.dim_IntList", i(2, 3, 4), [1]),
    ("aten.div.Scalar_mode", i(99, 6) - 50, 7, "floor"),
    ("aten.div.Scalar_mode", i(99, 6) - 50, 7, "trunc"),
    ("aten.embedding_dense_backward", f(4, 3), i(5, 4), 5, 2, False),
    ("aten.embedding_dense_backward", f(4, 3, 5).bfloat16(), i(6, 4, 3), 40, 2, False),
    ("aten.embedding_dense_backward", f(8, 5).half(), i(4, 8).int(), 16, -1, False),
    ("aten.cummin", torch.tensor([3.0, 1.0, 1.0, math.nan, 0.0, math.nan, 2.0]), 0),
    ("aten.cummax", f(3, 0), 1),
    ("aten.bucketize.Tensor", torch.tensor([0.5, 1.0, math.nan, 9.0]), torch.tensor([1.0, 1.0, 2.0, 5.0, 8.0])),
    ("aten.bucketize.Tensor", f(3, 4), f(0)),
    ("aten.searchsorted.Tensor", f(3, 5).sort().values, f(3, 2), True, True),
    ("aten.searchsorted.Tensor", f(3, 5), f(3, 2), False, False, None, f(3, 5).argsort()),
    ("aten.scatter_reduce.two", f(4, 5), 0, i(4, 6, 5), f(6, 5), "mean", False),
    ("aten.scatter_reduce.two", i(9, 6).bool(), 0, i(6, 4), i(2, 4).bool(), "prod", False),
    ("aten.index_reduce", i(99, 5, 3) - 50, 0, i(5, 4), i(9, 4, 3), "mean", True),
    ("aten.put", i(2, 3, 4).bool(), i(12, 5) - 12, i(2, 5).bool(), True),
    ("aten.diag_embed", f(2, 3), -1, 2, 0),
    ("aten.frexp.Tensor", torch.tensor([0.0, -0.0, 1.0, -3.5, 1e-40, -1e-45, 3e38, math.inf, -math.inf, math.nan])),
    ("aten.frexp.Tensor", torch.tensor([5e-324, 1e-310, -7.0, 1e300, 0.5], dtype=torch.float64)),
    ("aten.frexp.Tensor", f(9, dtype=torch.bfloat16)),
    ("aten.linalg_cross", f(3, 4), f(3, 1), 0),
    ("aten.isin.Tensor_Tensor", i(9, 3, 4), i(9, 5), False, True),
    ("aten.masked_scatter", f(3, 4), i(2, 4).bool(), f(12)),
    ("aten.reflection_pad2d", f(2, 5, 6), [-1, 2, 3, -2]),
    ("aten.replication_pad1d", f(2, 6), [-2, 3]),
    ("aten.fill.Tensor", f(4), torch.tensor(2)),
    ("aten.floor_divide.Scalar", i(99, 6) - 50, 7),
    ("aten.floor_divide", f(40) * 9, f(41)[:40]),
    ("aten.fmod.Scalar", f(4) * 9, 2.5),
    ("aten.group_norm", f(2, 6, 5), 3, f(6), f(6), 1e-5, True),
    ("aten.index.Tensor", f(4, 5, 6), [i(4, 3), None, i(6, 3)]),
    ("aten.index.Tensor", f(4, 5, 6), [None, i(5, 3) - 5, i(6, 2, 1)]),
    ("aten.index.Tensor", f(4, 5), [i(4, 3).int()]),
    ("aten.index_put", f(4, 5), [i(2, 4, 5).bool()], torch.tensor(3.0), False),
    ("aten.index_put", f(4, 5), [i(4, 6), i(5, 6)], f(6), True),
    ("aten.isin.Tensor_Scalar", i(3, 6), 2),
    ("aten.lerp.Tensor", f(3, 4), f(4), f(3, 1)),
    ("aten.linspace", -1.0, 3.0, 7, torch.float32),
    ("aten.max_pool2d", f(1, 2, 7, 8), [3, 3], [2, 2], [1, 1], [1, 2], True),
    ("aten.movedim.int", f(2, 3, 4), 0, -1),
    ("aten.native_dropout", f(3, 4), 0.5, False),
    ("aten.new_full", f(2), [3, 2], 7, torch.int64),
    ("aten.norm.ScalarOpt_dim_dtype", f(3, 4, dtype=torch.bfloat16), 3, [1], True, torch.float32),
    ("aten.reflection_pad2d", f(2, 5, 6), [1, 2, 3, 0]),
    ("aten.replication_pad2d", f(2, 5, 6), [1, 2, 3, 0]),
    ("aten.remainder.Scalar_Tensor", 7, i(5, 4) + 1),
    ("aten.repeat_interleave.self_int", f(3, 4), 2, 1),
    ("aten.scatter.value_reduce", f(3, 5), 1, i(5, 3, 1), 2.0),
    ("aten.slice_copy.Tensor", f(7, 3), 0, -5, -1, 2),
    ("aten.slice_scatter", f(7, 3), f(3, 3), 0, 1, 7, 2),
    ("aten.special_softmax", f(3, 4), -1),
    ("aten.to.dtype_layout", f(4), torch.bfloat16),
    ("aten.tensor_split.sections", f(7, 3), 3, 0),
    ("aten.upsample_nearest2d", f(1, 2, 5, 6), [7, 9], None, None),
    ("aten.upsample_nearest2d", f(1, 2, 5, 6), [10, 12], 2.0, 2.0),
    ("aten.upsample_nearest2d_backward", f(1, 2, 10, 12), [10, 12], [1, 2, 5, 6], 2.0, 2.0),
    ("aten.upsample_bilinear2d.vec", f(1, 2, 5, 6), [9, 7], False, None),
    ("aten.where.ScalarOther", i(2, 4).bool(), f(4), 2.0),
    ("aten.where.ScalarSelf", i(2, 4).bool(), 2.0, f(4)),
    ("aten.xlogy.Scalar_Other", f(4), 2.0),
    ("aten.xlogy.Scalar_Self", 2.0, f(4).abs()),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_cases(case: tuple[Any, ...]) -> None:
    """Calls that no sample makes, each decomposed and equal to eager."""
    name, *args = case
    if name == "aten.scatter.value_reduce":
        args.append("multiply")
    assert check(call_of(name, *args), "a case"), f"{name} was left as a call"


def test_rms_norm_backward() -> None:
    """The CPU has no kernel for it, so the derivative of rms_norm stands for eager."""
    x, weight, grad = f(4, 8).requires_grad_(), f(8).requires_grad_(), f(4, 8)
    y = torch.nn.functional.rms_norm(x, [8], weight, 1e-6)
    outputs = list(torch.autograd.grad(y, (x, weight), grad))
    rstd = (x.detach().square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    overload = torch.ops.aten._fused_rms_norm_backward.default
    args = (grad, x.detach(), [8], rstd, weight.detach(), [True, True])
    assert check(Recorded(overload, args, outputs), "a case")


def test_symbolic_sizes_are_not_traced() -> None:
    """torch's decompositions are traced for numbers only: with symbols the op stays a call."""
    module = parse_module(
        "func.func @main(%x: !sym.t<[s0, 4], f32>) -> !sym.t<[s0], f32> {"
        "%r = aten.pairwise_distance(%x, %x) : (!sym.t<[s0, 4], f32>, !sym.t<[s0, 4], f32>) -> !sym.t<[s0], f32>"
        "func.return %r : !sym.t<[s0], f32> }"
    )
    AtenToPrims().apply(Context(), module)
    assert "aten.pairwise_distance" in print_module(module)


def test_index_out_of_range_raises() -> None:
    """As in eager: IndexError, for rows of an embedding that do not exist."""
    call = call_of("aten.embedding", f(5, 3), i(5, 4))
    module, (weight, indices) = module_of(call)
    AtenToPrims().apply(Context(), module)
    with pytest.raises(IndexError, match="index out of range in self"):
        run_module(module, [weight, indices + 5])


def test_every_rule_names_an_op() -> None:
    assert [name for name in RULES if lookup(name) is None] == []
