"""Integers that programs are called with are Python's, and so are products of them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

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
