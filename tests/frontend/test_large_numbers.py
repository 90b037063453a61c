"""Integers that programs are called with, or read from data, are Python's, and so are products of them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import lamella

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "square": (lambda x, n: x + n * n % 7, (2**40 + 1,)),
    "cube": (lambda x, n: x + n * n * n % 7, (2**21 + 1,)),
    "negative": (lambda x, n: x + (-n * n % 7), (2**40 + 1,)),
    "quotient": (lambda x, n: x + n * n // n, (2**40 + 1,)),
    "shift": (lambda x, n: x + (n << 2) % 5, (2**62,)),
    "two numbers": (lambda x, n, m: x + (n * m) % 11, (2**40 + 1, 2**41 + 3)),
    "with a size": (lambda x, n: x + (x.shape[0] * n) % 5, (2**62,)),
}


@pytest.mark.filterwarnings("ignore:a part of a graph runs eagerly")
@pytest.mark.parametrize("large_first", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_products_of_numbers(program: str, large_first: bool) -> None:
    """Compiled for small ones; large ones are recognized by a guard, and computed by Python."""
    torch._dynamo.reset()
    f, large = PROGRAMS[program]
    small = (3, -4)[: len(large)]
    compiled, x = torch.compile(f, backend="lamella", dynamic=True), torch.arange(3)
    calls = [small, large, tuple(-n for n in large), tuple(-n for n in small)]
    for numbers in reversed(calls) if large_first else calls:
        assert torch.equal(compiled(x, *numbers), f(x, *numbers))


READ: dict[str, Callable[[torch.Tensor], Any]] = {
    "product": lambda x: x + x[0].item() * x[1].item(),
    "beside floats": lambda x: x.double() * (x[0].item() * x[1].item()),
    "square": lambda x: x - x[0].item() ** 2,
    "a value": lambda x: torch.full((2,), x[0].item() * x[1].item()),
    "with a number": lambda x: x + x[0].item() * 2**40,
    "with a size": lambda x: x + x[0].item() * (x.shape[0] * 2**30),
    "remainder": lambda x: x + x[0].item() * x[1].item() % 7,
    "result": lambda x: x[0].item() * x[1].item(),
    "a size": lambda x: torch.zeros(x[0].item() % 5 * (x[1].item() % 7)),
}


@pytest.mark.filterwarnings("ignore:a part of a graph runs eagerly")
@pytest.mark.parametrize("program", READ)
def test_products_of_what_is_read(program: str) -> None:
    """What has 64 bits is computed, what has more is an error where eager has one."""
    torch._dynamo.reset()
    f = READ[program]
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = torch.compile(f, backend="lamella", dynamic=True)
        for large in ((3, -4, 1), (-(2**32), 2**31, 0), (2**31, 2**33, 5), (2**40, 2**41, 2), (3, 4, 5)):
            x = torch.tensor(large)
            try:
                expected = f(x)
            except OverflowError:
                with pytest.raises((OverflowError, RuntimeError)):
                    compiled(x)
                continue
            found = compiled(x)
            assert torch.equal(found, expected) if isinstance(found, torch.Tensor) else found == expected


def test_products_of_what_is_read_in_32_bits_are_not_looked_at() -> None:
    x = torch.tensor([3, 4], dtype=torch.int32)
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        told = lamella.explain(lambda x: x.long() * (x[0].item() * x[1].item()), x)
    assert "_assert_scalar" not in str(told)
