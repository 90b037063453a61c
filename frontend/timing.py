"""Where the time of compiling a graph goes, in milliseconds by step."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager

OTHER = "keys, caches, the rest"


@contextmanager
def timed(times: dict[str, float], step: str) -> Generator[None]:
    """Adds what is done inside to `times[step]`."""
    start = time.perf_counter()
    try:
        yield
    finally:
        times[step] = times.get(step, 0.0) + (time.perf_counter() - start) * 1e3


def with_rest(steps: Mapping[str, float], whole: float) -> dict[str, float]:
    """`steps` with what they leave of the whole."""
    return {**steps, OTHER: max(0.0, whole - sum(steps.values()))}


def table(title: str, times: Mapping[str, float]) -> str:
    """A line for the sum and one for each step, in order."""
    lines = [f"lamella: {title}: {sum(times.values()):.1f} ms"]
    return "\n".join(lines + [f"  {step:<24} {ms:>8.1f} ms" for step, ms in times.items()])


def sentence(times: Mapping[str, float], most: int = 6) -> str:
    """The sum and the longest steps, in one line."""
    longest = sorted(times, key=lambda step: -times[step])[:most]
    return f"{sum(times.values()):.0f} ms: " + ", ".join(f"{step} {times[step]:.0f}" for step in longest)
