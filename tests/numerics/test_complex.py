"""Complex tensors through the whole compiler: pairs of floats in kernels, tensors where they are asked for."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import lamella
from lamella.tools.op_check import check, check_call, name_of, operators

NATIVE = {
    *("abs", "add", "angle", "cat", "conj", "conj_physical", "cos", "cosh", "cumsum", "diagonal"),
    *(
        "div-no_rounding_mode",
        "eq",
        "exp",
        "expand",
        "flip",
        "gather",
        "index_select",
        "isfinite",
        "log",
        "masked_fill",
    ),
    *("mean", "mul", "neg", "permute", "pow", "real", "imag", "reciprocal", "rsqrt", "sgn", "sigmoid", "sin", "sinh"),
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "expm1", "log1p", "std_mean"),
    *("index_add", "index_put", "put", "scatter_add", "_unsafe_masked_index", "nn.functional.unfold"),
    *("sqrt", "square", "sub", "sum", "tan", "tanh", "transpose", "tril", "view_as_real", "where"),
}
OPERATORS = {name_of(op): op for op in operators() if name_of(op) in NATIVE}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["fused", "dynamic"])
@pytest.mark.parametrize("name", sorted(NATIVE))
def test_operators(name: str, mode: str) -> None:
    outcome = check(OPERATORS[name], torch.complex64, 2, mode)
    assert outcome.status == "native", f"{outcome.status}: {outcome.reason} {outcome.calls}"


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))


def test_views_leave_as_aliases() -> None:
    """A view of an argument that is returned is one, whatever pairs say."""
    x = numbers(3, 4)
    assert check_call(lambda x: (x.t(), x[1:], x * 2), (x,)) == []
    assert check_call(lambda x: (torch.view_as_real(x)[..., 0], x.imag), (x,)) == []


def test_conjugates() -> None:
    x, y = numbers(3, 4), numbers(3, 4)
    assert check_call(lambda x, y: (x.conj() * y).sum(), (x, y)) == []
    assert check_call(lambda x, y: x @ y.mH, (x, y)) == []
    assert check_call(lambda x, y: torch.fft.ifft(x.conj()) + y, (x, y)) == ["aten._fft_c2c"]


def test_products_by_call_between_kernels() -> None:
    x, y = numbers(30, 40), numbers(40, 30)

    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        z = (x + 1) @ (y * 1j)
        return z.exp(), z.t()

    assert check_call(f, (x, y)) == ["aten.mm"]


def test_small_products() -> None:
    """Kernels: four products of parts, with what is added to them, scaled by complex numbers."""
    x, y, v, b = numbers(3, 7), numbers(7, 5), numbers(7), numbers(5)
    assert check_call(lambda x, y: (x.conj() @ y, x.resolve_conj().mH @ x), (x, y)) == []
    assert check_call(lambda b, x, y: torch.addmm(b, x, y, beta=2j, alpha=1 - 1j), (b, x, y)) == []
    assert check_call(lambda x, v: (x @ v, torch.dot(v, x[0]), torch.vdot(v, x[1])), (x, v)) == []
    assert check_call(lambda b, x: torch.baddbmm(b, x, x.mT, beta=0), (numbers(2, 3, 3), numbers(2, 3, 4))) == []
    inf = torch.complex(torch.full((7,), float("inf")), torch.zeros(7))
    assert check_call(lambda x, v: torch.addmv(x[:, 0], x, v), (x, inf)) == []


def test_written() -> None:
    """In place, and through views of parts."""

    def f(x: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        x.mul_(1j)
        torch.view_as_real(x)[..., 1].add_(r)
        return x.abs()

    check_call(f, (numbers(3, 4), torch.randn(3, 4)))


@pytest.mark.parametrize(
    "z", [complex(0, 0), complex(-0.0, 3), complex(1e30, 1e30), complex(-2, 1e-30), complex(30, 5)]
)
def test_far_numbers(z: complex) -> None:
    """No overflow where the result has none."""
    x = torch.full((5,), z, dtype=torch.complex64)

    def f(x: torch.Tensor) -> Any:
        return x.abs(), x.sqrt(), x.log(), x.tanh(), x / (x + 1), x.reciprocal(), (-x).sqrt()

    torch.testing.assert_close(torch.compile(f, backend="lamella")(x), f(x), equal_nan=True)


INVERSES = (torch.asin, torch.acos, torch.asinh, torch.acosh, torch.atan, torch.atanh, torch.log1p, torch.expm1)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_sides_of_cuts(dtype: torch.dtype) -> None:
    """Near 0 and 1, far out, and on both sides of where functions jump: where the zero of a part has a sign."""
    parts = [0.0, 0.3, 1.0, 1.5, 1e-5, 20.0, 300.0]
    signed = [sign * x for x in parts for sign in (1.0, -1.0)]
    x = torch.tensor([complex(a, b) for a in signed for b in signed], dtype=dtype)
    made = torch.compile(lambda x: [f(x) for f in INVERSES], backend="lamella")(x)
    for f, y in zip(INVERSES, made, strict=True):
        torch.testing.assert_close(y, f(x), equal_nan=True)


TRIGONOMETRIC = (torch.sin, torch.cos, torch.tan, torch.sinh, torch.cosh, torch.tanh)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_infinite_parts(dtype: torch.dtype) -> None:
    """What C's standard says in annex G, which leaves signs open where a part is infinite and none finite."""
    parts = [0.0, -0.0, 0.5, -1.0, 1e30, 88.0, math.inf, -math.inf, math.nan]
    functions = (*TRIGONOMETRIC, *INVERSES[:7])
    x = torch.tensor([complex(a, b) for a in parts for b in parts], dtype=dtype)
    x_parts = torch.view_as_real(x)
    open_ = x_parts.isinf().any(1, keepdim=True) & ~x_parts.isfinite().any(1, keepdim=True)
    made = torch.compile(lambda x: [f(x) for f in functions], backend="lamella")(x)
    for f, y in zip(functions, made, strict=True):
        ours, eagers = map(torch.view_as_real, (y, f(x)))
        ours, eagers = (torch.where(open_, z.abs(), z) for z in (ours, eagers))
        torch.testing.assert_close(ours, eagers, equal_nan=True, msg=f.__name__)


def test_beside_the_poles() -> None:
    """The square of the distance from 1 is 0."""
    x = torch.tensor([complex(sign, y) for sign in (1.0, -1.0) for y in (1e-30, -1e-38, 1e-9, 0.0)])
    made = torch.compile(torch.atanh, backend="lamella")(x)
    torch.testing.assert_close(torch.view_as_real(made), torch.view_as_real(x.atanh()))


@pytest.mark.filterwarnings("ignore")
def test_halves() -> None:
    x, y = (numbers(3, 4).to(torch.complex32) for _ in range(2))
    assert check_call(lambda a, b: (a + b, (a * b).abs(), torch.cat([a, b.mT.mT]), -a.real.chalf()), (x, y)) == []


def test_marked_arguments() -> None:
    """A conjugate view as an argument, and as a result."""
    x = numbers(3, 4).conj()
    f = torch.compile(lambda x: x.t() * 2, backend="lamella")
    torch.testing.assert_close(f(x), x.t() * 2)
    g = torch.compile(lambda x: x.conj(), backend="lamella")
    torch.testing.assert_close(g(numbers(3)).resolve_conj(), numbers(3).conj().resolve_conj())


def test_pairs_in_text() -> None:
    """What is complex at the aten level is floats at prims, between views of them."""
    text = """
func.func @main(%x: !sym.t<[3], c64>, %y: !sym.t<[3], c64>) -> !sym.t<[3], c64> {
  %z = aten.mul.Tensor(%x, %y) : (!sym.t<[3], c64>, !sym.t<[3], c64>) -> !sym.t<[3], c64>
  func.return %z : !sym.t<[3], c64>
}
"""
    prims = str(lamella.driver.lower(text, "prims"))
    assert prims.count("aten.view_as_real(") == 2 and prims.count("aten.view_as_complex(") == 1
    assert "aten.mul" not in prims and prims.count("prims.mul") == 4


def test_copies_of_views_of_arguments() -> None:
    """A copy of what a call sees an argument through is one."""
    assert check_call(lambda x: x.float(), (numbers(),)) == []
    assert check_call(lambda x: torch.as_strided(x, (2, 2), (1, 2)).clone(), (torch.randn(3, 4),)) == []


def test_windows_of_one_for_all() -> None:
    """istft adds up the windows of one row for a batch of them."""
    x = torch.randn(1, 6, 8)
    assert check_call(lambda x: torch.ops.aten.unfold_backward(x, [3, 18], 1, 8, 2), (x,)) == []


BY_REFERENCE = {"addr", "dist", "ldexp", "linalg.cross", "linspace", "logspace", "logsumexp", "renorm", "sinc", "norm"}
OTHERS = {"block_diag", "cumprod", "kron", "logaddexp", "prod", "rand_like", "randn_like", "scatter", "unsafe_split"}
KNOWN = {name_of(op): op for op in operators() if name_of(op) in BY_REFERENCE | OTHERS}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(BY_REFERENCE | (OTHERS - {"prod", "scatter"})))
def test_of_known_sizes(name: str) -> None:
    outcome = check(KNOWN[name], torch.complex64, 2, "forward")
    assert outcome.status == "native", f"{outcome.status}: {outcome.reason} {outcome.calls}"


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13])
def test_products_of_numbers(n: int) -> None:
    """By halves, whole or not; with infinite numbers beside."""
    x = numbers(3, n, 2)
    assert check_call(lambda x: (x.prod(1), x[0].prod(), x.cumprod(1), x.prod(1, keepdim=True)), (x,)) == []
    x[0, 0] = torch.tensor(complex(float("inf"), 0.0))
    assert check_call(lambda x: (x.prod(1), x.cumprod(1)), (x,)) == []


def test_many_numbers_are_multiplied_by_call() -> None:
    assert check_call(lambda x: x.prod(0), (numbers(65, 2),)) == ["aten.prod.dim_int"]


def test_logaddexp_of_special_values() -> None:
    """As eager, but of denormal sums, of which its log1p is NaN."""
    inf, nan = float("inf"), float("nan")
    values = [0.0, -0.0, 1.0, -1.5, inf, -inf, nan, 1e30]
    x = torch.tensor([complex(a, b) for a in values for b in values], dtype=torch.complex64)
    pairs = torch.cartesian_prod(x, x)
    assert check_call(torch.logaddexp, (pairs[:, 0], pairs[:, 1])) == []


def test_written_in_place() -> None:
    """The floats of an argument are written, after all that its old values are read for."""
    x, y = numbers(5, 4), numbers(4)

    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        before = x * 2
        x.mul_(y).add_(1j)
        return before, x.sum(), x.t()

    for given in (x, x.t().contiguous().t(), numbers(10, 4)[::2]):
        assert check_call(f, (given, y)) == []
    assert check_call(lambda x, y: x.sin_(), (x, y)) == []
    assert check_call(lambda x, y: x.copy_(y.real), (x, y)) == []


def test_nothing() -> None:
    """Results of no elements are the same constants, each in memory of its own; nothing is written into nothing."""
    x, y = numbers(0), numbers()
    assert check_call(lambda x, y: (x * y, y.conj() * x), (x, y)) == []
    assert check_call(lambda x, y: x.mul_(y), (x, y)) == []


def test_norms_are_computed_in_their_dtype() -> None:
    x = numbers(5, 4)
    assert check_call(lambda x: torch.linalg.vector_norm(x, dtype=torch.complex128), (x,)) == []

    def is_largest(x: torch.Tensor) -> torch.Tensor:
        largest = torch.linalg.vector_norm(x, float("inf"), dtype=torch.complex128)
        return largest == x.to(torch.complex128).abs().max()

    assert check_call(is_largest, (x,)) == []
