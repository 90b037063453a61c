"""Operators whose rules are seldom needed: each by its samples, all of it kernels."""

from __future__ import annotations

import pytest
import torch

from lamella.tools.op_check import check, check_call, name_of, operators, supports

NATIVE = {
    "polygamma-polygamma_n_1": ("float32",),
    "polygamma-polygamma_n_4": ("float32", "int64"),
    "special.zeta": ("float32",),
    "gcd": ("int64", "uint8"),
    "lcm": ("int32",),
    "nextafter": ("bfloat16", "float64"),
    "index_put": ("float32", "bool"),
    "scatter_add": ("bool",),
    "index_add": ("bool",),
    "linspace": ("int64",),
    "nn.functional.avg_pool2d": ("int64",),
    "cdist": ("float32",),
    "addr": ("float32", "bool"),
    "as_strided_copy": ("int64",),
    "_unsafe_masked_index_put_accumulate": ("float32",),
}
OPERATORS = {name_of(op): op for op in operators() if name_of(op) in NATIVE}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "dtype"), [(name, dtype) for name, dtypes in NATIVE.items() for dtype in dtypes])
def test_native(name: str, dtype: str) -> None:
    outcome = check(OPERATORS[name], getattr(torch, dtype), 2, "forward")
    assert outcome.status == "native", f"{outcome.status}: {outcome.reason} {outcome.calls}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", ["nn.functional.pad-replicate", "masked_scatter", "sgn", "digamma", "cdist", "nn.functional.pdist"]
)
def test_native_derivatives(name: str) -> None:
    op = next(op for op in operators() if name_of(op) == name)
    assert supports(op, torch.float32, "gradient")
    outcome = check(op, torch.float32, 2, "gradient")
    assert outcome.status == "native", f"{outcome.status}: {outcome.reason} {outcome.calls}"


@pytest.mark.parametrize("accumulate", [False, True])
def test_values_in_order(accumulate: bool) -> None:
    """At a mask, the next value for each place that is set; a whole slice where the mask has fewer dims."""
    x, mask = torch.randn(3, 4, 2), torch.rand(3, 4) > 0.5
    values = torch.randn(int(mask.sum()), 2)
    f = torch.ops.aten.index_put.default
    assert check_call(lambda x, mask, values: f(x, [mask], values, accumulate), (x, mask, values)) == []
    assert check_call(lambda x, mask, values: f(x, [mask], values[:1], accumulate), (x, mask, values)) == []
    assert check_call(lambda x, mask, values: f(x, [mask], values[0, 0], accumulate), (x, mask, values)) == []
    with pytest.raises(RuntimeError, match="value tensor cannot be broadcast to indexing result"):
        torch.compile(lambda x, v: f(x, [x[..., 0] == x[..., 0]], v), backend="lamella")(x, torch.ones(3, 2))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int16, torch.uint8], ids=str)
def test_divisors(dtype: torch.dtype) -> None:
    """Of the numbers that take Euclid the longest, of the least number, and of 0."""
    info = torch.iinfo(dtype)
    fibonacci = [1, 1]
    while fibonacci[-1] + fibonacci[-2] <= info.max:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
    a = torch.tensor([*fibonacci[1:], 0, info.max, info.min, 12], dtype=dtype)
    b = torch.tensor([*fibonacci[:-1], 0, info.max - 1, 0, 18], dtype=dtype)
    assert check_call(lambda a, b: (torch.gcd(a, b), torch.lcm(a, b)), (a, b)) == []


def test_rows_and_blocks_of_symbolic_sizes() -> None:
    x, y = torch.randn(3, 4), torch.randn(5)
    assert check_call(lambda x, y: torch.block_diag(x, y, x.t()), (x, y), mode="dynamic") == []
    assert check_call(lambda x: torch.renorm(x, 2, 0, 0.5), (x,), mode="dynamic") == []
    assert check_call(lambda x: torch.dist(x, x.flip(0)), (x,), mode="dynamic") == []
    assert check_call(lambda x: torch.isin(x, x[0]), (x,), mode="dynamic") == []
    z = torch.randn(2, 6, 3, 5)
    assert check_call(lambda z: torch.nn.functional.channel_shuffle(z, 3), (z,), mode="dynamic") == []
