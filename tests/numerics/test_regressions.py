"""Faults that torch's operator database has found, each natively against eager: values, strides, inputs, aliases."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import lamella
from lamella.tools.op_check import check, check_call, name_of, operators

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    # parts of rows, the last one shorter: lanes cannot be parts
    "sum in parts": (lambda x: x.sum(), (torch.ones(1000, 333),)),
    # a scalar beside a vector in a call of an LLVM intrinsic
    "copysign of a constant": (lambda x: torch.copysign(x, -3.14), (torch.tensor([1.0, -2.0, 0.0, 4.0, 5.0]),)),
    # the only use of a number read from data is a size
    "narrow from a tensor": (
        lambda x, start: torch.narrow(x, 1, start, 2),
        (torch.randn(3, 5), torch.tensor(1)),
    ),
    # sizes that only the slice itself gives, and offsets that only checks use
    "split at a tensor": (lambda x, at: torch.tensor_split(x, at, 1), (torch.randn(3, 5), torch.tensor([1, 2, 4]))),
    # AOTAutograd orders the check of the input by tokens
    "inverse, which may raise": (torch.linalg.inv, (torch.eye(3) + torch.rand(3, 3),)),
    # the forward graph returns a size that its own result has
    "derivative of a selection": (
        torch.masked_select,
        (torch.randn(3, 5, requires_grad=True), torch.tensor([True, False, True, True, False])),
    ),
    # one truth value for all elements
    "derivative of a scattering under a mask of one element": (
        torch.masked_scatter,
        (torch.randn(3, 4, requires_grad=True), torch.tensor(True), torch.randn(4, 4, requires_grad=True)),
    ),
    # results that nobody uses, of other sizes than torch's tracing says
    "bags of bf16": (
        lambda w, i, o, p: torch.nn.functional.embedding_bag(i, w, o, mode="sum", per_sample_weights=p),
        (
            torch.randn(10, 5, dtype=torch.bfloat16),
            torch.tensor([3, 1, 4, 1, 5]),
            torch.tensor([0, 3]),
            torch.randn(5, dtype=torch.bfloat16),
        ),
    ),
    # one number in a list stands for all dims, as one without a list does
    "mean of windows of one number": (
        lambda x: torch.ops.aten.avg_pool2d(x, [3], [2], [1]),
        (torch.randn(1, 2, 8, 8),),
    ),
    "mean of windows, one number of three": (
        lambda x: torch.nn.functional.avg_pool3d(x, [2], [1], [0]),
        (torch.randn(2, 4, 5, 6),),
    ),
    "largest of windows of one number": (
        lambda x: torch.nn.functional.max_pool2d(x, [3], [2], [1], return_indices=True),
        (torch.randn(1, 2, 8, 8),),
    ),
    "derivative of means of windows of one number": (
        lambda x: torch.nn.functional.avg_pool2d(x, [3], [2], [1], count_include_pad=False),
        (torch.randn(1, 2, 8, 8, requires_grad=True),),
    ),
    "convolution by lists of one number": (
        lambda x, w: torch.nn.functional.conv2d(x, w, None, [2], [1], [1], 4),
        (torch.randn(1, 4, 8, 8), torch.randn(4, 1, 3, 3)),
    ),
    # without elements there is nothing to read, though the index is known
    "unfold of an empty batch": (lambda x: -torch.nn.functional.unfold(-x, (2, 2)), (torch.zeros(0, 1, 5, 5),)),
    "repeat of nothing": (lambda x: -(-x).repeat(2, 0, 3), (torch.randn(2, 3),)),
    "expand of nothing": (lambda x: (-x).expand(0, 3).clone(), (torch.randn(3),)),
    "part of nothing set to zero": (lambda x: x.clone().narrow(1, 0, 0).zero_(), (torch.ones(17, 0),)),
    "functions of nothing": (
        lambda x: (x.bfloat16().reshape([0]).abs() + 1).log1p().cos(),
        (torch.zeros(1, 0, 5, dtype=torch.int8),),
    ),
    # addresses that do not differ between lanes
    "picked from what is expanded": (
        lambda x: x.index_select(2, torch.tensor([6, 5, 6, 2])),
        (torch.arange(66, dtype=torch.uint8).reshape(1, 33, 2).expand(7, 33, 2).permute(2, 1, 0),),
    ),
    # what is put together is new, also where one operand is all that is read
    "part of a stack": (lambda x: torch.stack([x > 1, x], 0)[1::3, :], (torch.tensor([1, 2]),)),
    "part of a row of two": (lambda x: torch.cat([x * 2, x])[2:], (torch.tensor([1.0, 2.0]),)),
    "padded by less than nothing": (lambda x: torch.nn.functional.pad(x, (-1, 0)), (torch.randn(4),)),
    # the update itself is for nobody
    "update whose indices are checked": (
        lambda x, i: x.index_add(0, i, x).narrow(0, 0, 3).zero_(),
        (torch.ones(3, 2), torch.tensor([2, 0, 1])),
    ),
    # what is made of a tensor that is repeated has a place for each element
    "updates of what is expanded": (
        lambda x: x.bfloat16().expand([4]).index_add(0, torch.tensor([2, 0, 3, 1]), x.bfloat16().expand([4])),
        (torch.tensor(3),),
    ),
    "largest number of a narrow dtype": (
        lambda x: (x.nan_to_num(), x.half().nan_to_num(), x.nan_to_num().round() != x.round()),
        (torch.tensor([float("inf"), float("-inf"), float("nan"), 1.5], dtype=torch.bfloat16),),
    ),
    "flip of one element": (lambda x: x.reshape([-1]).flip(-1), (torch.tensor(3),)),
    "flip of what has no dims": (lambda x: (x + 1).flip(0), (torch.tensor(3.0),)),
    # which way atan2 goes; a rounding that one of two has and the other has not
    "zeros that keep their sign": (
        lambda x: torch.stack(
            [torch.atan2(y, y) for y in (x.relu(), x.clamp(-0.5, 0.5), x.clamp(0.0), x.clamp_max(0))]
        ),
        (torch.tensor([-0.0, 0.0, -0.25, 2.0, float("nan")]),),
    ),
    "less its choice": (
        lambda x: x.tanh() - torch.maximum(x.tanh().clamp_min(0.5), x.tanh()),
        (torch.linspace(0.6, 4, 66, dtype=torch.bfloat16),),
    ),
    "memory with overlaps": (lambda: torch.empty_strided((5, 5), (0, 1), dtype=torch.int64).expand(2, 5, 5) * 0, ()),
    "poles of derivatives of digamma": (
        lambda x: [torch.polygamma(n, x) for n in range(5)],
        (torch.tensor([0, -1, -5, -7, 2, 9, 3, -128], dtype=torch.int8),),
    ),
    "atan2 of a constant": (lambda x: torch.atan2(torch.full_like(x, 2.5), x), (torch.randn(19),)),
}

FLOATS: dict[str, Callable[..., Any]] = {
    "a factor": lambda x, y: x * y.item(),
    "an expression": lambda x, y: x.add(x, alpha=2 * y.item() ** 2 + 1),
    "a slope": lambda x, y: torch.nn.functional.leaky_relu(x, y.item()),
    "a comparison of integers": lambda x, y: (x * 5).int() > y.item(),
    "a bound": lambda x, y: x.clamp(min=y.item()),
    "a filler and a result": lambda x, y: (torch.full((3,), y.item()) + x.sum(), y.item()),
    "what kernels do not compute": lambda x, y: x.renorm(2, 0, y.item() + 1),
}
"""What programs do with a float that is read from a tensor."""

DYNAMIC: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    # the divisors in the index of a nest that is fused into another are sizes too
    "repeated weights": (
        lambda x, mean, weight: torch.nn.functional.instance_norm(x, mean, mean, weight, weight, True, 0.5, 0.6),
        (torch.randn(5, 5, 5), torch.randn(5), torch.randn(5)),
    ),
    # half of a size, exactly
    "glu": (lambda x: torch.nn.functional.glu(x, 0), (torch.randn(6),)),
    # a size that is 1 by a guard, though its expression does not say so
    "broadcast of a third of a size": (
        lambda x: torch.fmax(x[2::3].sum((0, 1)).exp().unsqueeze(0)[: x.shape[0] // 3], x),
        (torch.rand(3, 3, 8),),
    ),
    "rows of a third of a size": (
        lambda x, y: (x[2::3] + y, torch.where(y > 0, x[2::3], y)),
        (torch.rand(3, 8), torch.randn(5, 8)),
    ),
    "attention over symbolic heads": (
        lambda q, k: torch.nn.functional.scaled_dot_product_attention(q, k, k),
        (torch.randn(4, 3, 8), torch.randn(4, 6, 8)),
    ),
}


REAL: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "interpolate to a size": (lambda x: torch.nn.functional.interpolate(-x, [3]), (torch.randn(2, 3, 4),)),
    "interpolate to the size of another": (
        lambda x, y: torch.nn.functional.interpolate(x, y.shape, mode="bicubic", align_corners=True),
        (torch.randn(2, 3, 4, 5), torch.empty(7, 9)),
    ),
    "interpolate by a factor": (
        lambda x: -torch.nn.functional.interpolate(-x, None, 0.6, "linear", None, True),
        (torch.randn(2, 3, 7),),
    ),
    "interpolate by another factor": (
        lambda x: torch.nn.functional.interpolate(x, scale_factor=(1.7, 2.3), mode="nearest"),
        (torch.randn(2, 3, 7, 4),),
    ),
    "mean of places of different sizes": (
        lambda x, y: torch.nn.functional.adaptive_avg_pool2d(x, y.shape),
        (torch.randn(2, 3, 7, 5, requires_grad=True), torch.empty(3, 4)),
    ),
    "largest of places of different sizes": (
        lambda x: torch.nn.functional.adaptive_max_pool2d(x, (3, 4), return_indices=True),
        (torch.randn(2, 3, 7, 5),),
    ),
}
"""Sizes and numbers that are quotients of sizes, or products of sizes and floats."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", REAL, ids=str)
@pytest.mark.parametrize("device", ["cpu", "interpreted"])
def test_real_numbers_of_sizes(case: str, device: str) -> None:
    f, args = REAL[case]
    assert check_call(f, args, mode="dynamic", device=device) == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", DYNAMIC, ids=str)
def test_regression_with_symbolic_sizes(case: str) -> None:
    f, args = DYNAMIC[case]
    check_call(f, args, mode="dynamic")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_regression(case: str) -> None:
    f, args = CASES[case]
    mode = "gradient" if any(t.requires_grad for t in args) else "forward"
    calls = check_call(f, args, mode=mode)
    assert [c for c in calls if c.startswith("eager: ")] == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", FLOATS, ids=str)
def test_float_of_a_tensor(case: str) -> None:
    calls = check_call(FLOATS[case], (torch.randn(4, 5), torch.tensor(0.75)))
    assert set(calls) <= ({"aten._assert_scalar", "aten.renorm"} if case.startswith("what") else set())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("device", ["cpu", "interpreted"])
def test_hash_of_long_rows(device: str) -> None:
    """Bits of many elements by xor: in lanes, in parts, along columns."""
    x = torch.randn(3, 1111)
    assert check_call(lambda x: (torch.hash_tensor(x), torch.hash_tensor(x, 1), torch.hash_tensor(x.T, 1)), (x,),
                      device=device) == []  # fmt: skip
    y = torch.arange(70001)
    assert check_call(torch.hash_tensor, (y if device == "cpu" else y[:4001],), device=device) == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64"])
def test_numbers_are_read_from_memory(dtype: str) -> None:
    """Of an argument and of what a kernel made, at its place in memory, with its sign; without a call but of torch's checks."""
    for number in (1, 200 if dtype == "uint8" else -3, 0):
        x = torch.tensor([0, number]).to(getattr(torch, dtype))
        calls = check_call(lambda x: (x[1].item(), (x | x if dtype == "bool" else x + x)[1].item()), (x,))
        assert set(calls) <= {"aten._assert_scalar"}


@pytest.mark.parametrize("correction", [0.5, 1.3, 9.5])
def test_variance_with_a_part_of_a_number_fewer(correction: float) -> None:
    """Of as many numbers as are known when it runs; 0 is left of 9, by which 0 or more is infinite."""
    check_call(lambda x: torch.var(x, -1, correction=correction), (torch.randn(2, 9),), mode="dynamic")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_alpha_is_rounded_as_eager_rounds_it(dtype: torch.dtype) -> None:
    torch._dynamo.reset()
    x, y = torch.randn(64, 64).to(dtype), torch.randn(64, 64).to(dtype)

    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.add(x, y, alpha=0.3), torch.sub(x, y, alpha=0.3), torch.rsub(x, y, alpha=0.3)

    for ours, eagers in zip(torch.compile(f, backend="lamella")(x, y), f(x, y), strict=True):
        assert torch.equal(ours, eagers)


def test_quotients_that_are_too_large() -> None:
    torch._dynamo.reset()
    v = torch.tensor([0.0, -0.0, 1, -1, math.inf, -math.inf, math.nan, 3e38, -3e38, 0.5, -2.5])
    x, y = (t.reshape(-1) for t in torch.meshgrid(v, v, indexing="ij"))
    ours = torch.compile(torch.floor_divide, backend="lamella")(x, y)
    torch.testing.assert_close(ours, torch.floor_divide(x, y), rtol=0, atol=0, equal_nan=True)


def test_numbers_that_a_dtype_has_not() -> None:
    torch._dynamo.reset()
    x = torch.arange(5.0)

    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x == 3j, x != 3 + 0j, x.half().clamp(max=1e4) < 7e4, torch.where(x.half() > 1, x.half(), math.inf)

    g = torch.compile(f, backend="lamella", options={"strict": True})
    torch.testing.assert_close(g(x), f(x))


@pytest.mark.parametrize("shape", [(3, 1, 8), (1, 1, 1), (2, 1)])
@pytest.mark.parametrize("order", [2, 1, 3.5, float("inf"), 0])
def test_the_norm_of_one_element(shape: tuple[int, ...], order: float) -> None:
    """Its magnitude, also where its square is 0 or infinite."""
    for number in (1e-30, 1e30, -2.0, 0.0):
        check_call(lambda x: torch.linalg.vector_norm(x, order, 1), (torch.full(shape, number),))


@pytest.mark.filterwarnings("ignore")
def test_inner_sizes_in_other_words() -> None:
    """A product whose inner dims are equal by a guard."""
    (op,) = (op for op in operators() if name_of(op) == "nn.functional.multi_head_attention_forward")
    outcome = check(op, torch.float32, 2, "dynamic")
    assert outcome.status in ("native", "calls"), outcome.reason


@pytest.mark.skipif(torch.__version__ < "2.13", reason="torch 2.11 leaves the check out of what it traces")
@pytest.mark.parametrize("cache", [False, True])
def test_singular_matrix_raises(cache: bool) -> None:
    """Checks are ordered by tokens, without which AOTAutograd calls what it has put in its cache."""
    torch._dynamo.reset()
    inverse = torch.compile(torch.linalg.inv, backend="lamella", options={"cache": cache})
    x = torch.eye(3) * 4
    torch.testing.assert_close(inverse(x), torch.linalg.inv(x))
    with pytest.raises(torch._C._LinAlgError, match="singular"):
        inverse(torch.zeros(3, 3))


@pytest.mark.skipif(torch.__version__ < "2.13", reason="torch 2.11 leaves the check out of what it traces")
def test_derivative_that_checks_a_matrix() -> None:
    """Its token is an argument of the backward that is no tensor."""
    torch._dynamo.reset()
    x = torch.randn(5, 5, requires_grad=True)
    options: dict[str, Any] = {"cache": False, "strict": True}
    values = torch.compile(torch.linalg.eigvals, backend="lamella", fullgraph=True, options=options)
    ours, eagers = (torch.autograd.grad(f(x).abs().sum(), x)[0] for f in (values, torch.linalg.eigvals))
    torch.testing.assert_close(ours, eagers)


def test_sums_of_negative_zeros() -> None:
    """As eager's, that begin at 0.0: also of a few rows, which are added without a loop."""
    torch._dynamo.reset()
    sums = torch.compile(lambda x: x.sum(0), backend="lamella")
    for dtype in (torch.float32, torch.bfloat16):
        assert not sums(-torch.zeros(16, 80, dtype=dtype)).signbit().any()


@pytest.mark.parametrize("f", [torch.copysign, torch.xlogy, torch.special.xlog1py, torch.logaddexp, torch.heaviside])
def test_laid_out_as_sums_are(f: Callable[..., torch.Tensor]) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, y: f(x, y), backend="lamella")
    for x, y in ((torch.randn(5, 3).t(), torch.randn(3, 5)), (torch.randn(5), torch.randn(5, 3).t())):
        assert compiled(x, y).stride() == f(x, y).stride() == (1, 3)


def test_the_difference_of_equal_products_is_zero() -> None:
    """A softmax over one number: what is scaled before is read twice, and the two products are alike in all lanes."""
    torch._dynamo.reset()
    x = torch.randint(-4, 6, (2, 2, 17, 10), dtype=torch.int32)[..., ::2]

    def program(x: torch.Tensor) -> torch.Tensor:
        rows = (x / (x.abs() + 1)).reshape(4, 85).log_softmax(0)
        return (rows.narrow(0, 2, 1) * 3).log_softmax(-2)

    assert not lamella.compile(program, fullgraph=True)(x).any()
