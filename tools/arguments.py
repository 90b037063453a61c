"""Types of command-line arguments that several tools have: what is said of a wrong one names it and the remedy."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Callable, Collection


def names(allowed: Collection[str]) -> Callable[[str], tuple[str, ...]]:
    """Of comma-separated names, each one of `allowed`."""

    def read(text: str) -> tuple[str, ...]:
        found = tuple(text.split(","))
        if unknown := [name for name in found if name not in allowed]:
            raise ArgumentTypeError(f"unknown {unknown[0]!r}; choose from {', '.join(allowed)}")
        return found

    return read


def pattern(text: str) -> str:
    """A regular expression."""
    try:
        re.compile(text)
    except re.error as error:
        raise ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None
    return text


def bound(text: str) -> float:
    """A number that is not negative."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not value >= 0:
        raise ArgumentTypeError(f"{text!r} is not a number from 0 on, such as 1e-4")
    return value


def shard(text: str) -> tuple[int, int]:
    """Of `i/n`: which, from 0 on, and of how many."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if match is None or int(match[1]) >= int(match[2]):
        raise ArgumentTypeError(f"{text!r} is not i/n with i from 0 to n - 1, such as 0/4")
    return int(match[1]), int(match[2])
