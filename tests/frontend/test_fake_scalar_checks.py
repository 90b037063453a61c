"""Numbers that leave the range of a dtype raise where eager raises, as constants and as arguments that change."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

X = torch.arange(6.0).view(2, 3)
MASK = X > 2
INDEX = torch.tensor([0, 1])
_foreach_clamp_max: Callable[..., Any] = vars(torch)["_foreach_clamp_max"]


def written(x: Tensor, value: Any) -> Tensor:
    x = x.clone()
    x[0] = value
    return x


PROGRAMS: dict[str, Callable[[Tensor, Any], Tensor]] = {
    "fill": lambda x, v: x.clone().fill_(v),
    "full": lambda x, v: torch.full((3,), v, dtype=x.dtype),
    "full_like": torch.full_like,
    "new_full": lambda x, v: x.new_full((2,), v),
    "masked_fill": lambda x, v: x.masked_fill(MASK, v),
    "index_fill": lambda x, v: x.index_fill(0, INDEX, v),
    "scatter": lambda x, v: x.scatter(0, INDEX[None], v),
    "pad": lambda x, v: F.pad(x, (1, 1), value=v),
    "where": lambda x, v: torch.where(MASK, x, v),
    "clamp": lambda x, v: x.clamp(0, v),
    "clamp in place": lambda x, v: x.clone().clamp_(max=v) + 1,
    "part of a tensor": lambda x, v: torch.cat([x.narrow(0, 0, 1).clone().fill_(v), x]),
    "alpha": lambda x, v: torch.add(x, x, alpha=v),
    "addcmul": lambda x, v: torch.addcmul(x, x, x, value=v),
    "addcmul in place": lambda x, v: x.clone().addcmul_(x, x, value=v),
    "addmm": lambda x, v: torch.addmm(x, x[:, :2], x, alpha=v),
    "index_add": lambda x, v: x.index_add(0, INDEX, x, alpha=v),
    "threshold": lambda x, v: F.threshold(x, 1, v),
    "written": lambda x, v: written(x, v),
    "foreach": lambda x, v: _foreach_clamp_max([x], v)[0],
    "power": lambda x, v: x**v,
}
OF_FLOATS: dict[str, Callable[[Tensor, Any], Tensor]] = {
    "lerp": lambda x, v: torch.lerp(x, x * 2, v),
    "addcdiv": lambda x, v: torch.addcdiv(x, x, x + 1, value=v),
    "addcdiv in place": lambda x, v: x.clone().addcdiv_(x, x + 1, value=v),
    "elu": F.elu,
    "leaky_relu": F.leaky_relu,
    "hardshrink": F.hardshrink,
    "softplus": F.softplus,
    "hardtanh": lambda x, v: F.hardtanh(x, -math.inf, v),
}
FLOATS = (torch.float32, torch.float16)
WHOLE = (torch.uint8, torch.int32)


def outcome(f: Callable[..., Any], *args: Any) -> Any:
    try:
        return f(*args)
    except Exception as error:
        return type(error), str(error)


def assert_same(found: Any, expected: Any) -> None:
    """What TorchDynamo finds while it traces is an error of its own, with eager's message in it."""
    if isinstance(expected, tuple):
        assert issubclass(found[0], expected[0])
        assert expected[1] in found[1]
    else:
        torch.testing.assert_close(found, expected, equal_nan=True)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", [*PROGRAMS, *OF_FLOATS])
def test_a_float_that_does_not_fit(name: str, dtype: torch.dtype) -> None:
    x, program = X.to(dtype), {**PROGRAMS, **OF_FLOATS}[name]
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, v: program(x, v), backend="lamella", options={"cache": False})
    for value in (0.5, 1.5, 70000.0, 1e308, 2.0):
        assert_same(outcome(compiled, x, value), outcome(program, x, value))


@pytest.mark.parametrize("dtype", WHOLE, ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_an_integer_that_does_not_fit(name: str, dtype: torch.dtype) -> None:
    x, program = X.to(dtype), PROGRAMS[name]
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, v: program(x, v), backend="lamella", options={"cache": False})
    for value in (2, 3, 300, 2**40, 4):
        assert_same(outcome(compiled, x, value), outcome(program, x, value))


@pytest.mark.parametrize("value", [1e308, 300, 2**40])
def test_a_constant_that_does_not_fit(value: float) -> None:
    x = X.to(torch.int8 if isinstance(value, int) else torch.float32)
    for program in PROGRAMS.values():
        torch._dynamo.reset()
        compiled = torch.compile(lambda x, p=program: p(x, value), backend="lamella", options={"cache": False})
        assert_same(outcome(compiled, x), outcome(program, x, value))


STRICT: dict[str, Any] = {"cache": False, "strict": True}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_what_is_converted_without_a_check_is_compiled(dtype: torch.dtype) -> None:
    """A number that becomes a tensor is infinite then; masks by numbers that halves do not hold are used."""

    def f(x: Tensor, v: float) -> tuple[Tensor, ...]:
        return torch.where(MASK, x, v), x + v, x * v, x < v, torch.tensor(v) + x

    x = X.to(dtype)
    torch._dynamo.reset()
    found = torch.compile(f, backend="lamella", fullgraph=True, options=STRICT)
    for value in (-1e9, 3.5e38, 1e308):
        for a, b in zip(found(x, value), f(x, value), strict=True):
            torch.testing.assert_close(a, b, equal_nan=True)


def test_alpha_that_becomes_an_argument() -> None:
    """Truth values are not multiplied by a float at a later call either."""
    program: Callable[..., Tensor] = lambda m, v: torch.add(m, m, alpha=v)  # noqa: E731
    torch._dynamo.reset()
    compiled = torch.compile(program, backend="lamella", options={"cache": False})
    for value in (0.5, 1.5, 2.5):
        assert isinstance(outcome(program, MASK, value), tuple)
        with pytest.raises(RuntimeError, match="alpha must not be a floating point number"):
            compiled(MASK, value)


def test_quotients_of_integers_that_are_added() -> None:
    program: Callable[..., Tensor] = lambda x: torch.addcdiv(x, x, x + 1)  # noqa: E731
    torch._dynamo.reset()
    compiled = torch.compile(program, backend="lamella", options={"cache": False})
    for f in (program, compiled):
        with pytest.raises(RuntimeError, match="Integer division with addcdiv is no longer supported"):
            f(X.long())


_foreach_pow: Callable[..., Any] = vars(torch)["_foreach_pow"]
_foreach_sub: Callable[..., Any] = vars(torch)["_foreach_sub"]
OTHERS: dict[str, Callable[[Tensor], Tensor]] = {
    "powers of lists": lambda x: _foreach_pow([x], 70000.0)[0],
    "powers by lists": lambda x: _foreach_pow([x], [70000.0])[0],
    "differences of lists": lambda x: _foreach_sub([x], True)[0],
    "a limit of probabilities": lambda x: torch.logit(x / 10, eps=70000.0),
    "the inverse of alpha": lambda x: F.celu(x, 1e-45),
    "alpha that is a truth value": lambda x: torch.add(x, x, alpha=True),
    "alpha of a difference from a number": lambda x: torch.rsub(x, 1, alpha=True),
    "zeta": lambda x: torch.special.zeta(x + 1, 2.5),
    "zeta of a number": lambda x: torch.special.zeta(2.5, x + 1),
    "truth values as exponents": lambda x: torch.ldexp(x, MASK),
}


@pytest.mark.parametrize("dtype", [*FLOATS, torch.float64], ids=str)
@pytest.mark.parametrize("name", OTHERS)
def test_what_eager_has_no_kernel_for(name: str, dtype: torch.dtype) -> None:
    program, x = OTHERS[name], X.to(dtype)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: program(x), backend="lamella", options={"cache": False})
    assert_same(outcome(compiled, x), outcome(program, x))
