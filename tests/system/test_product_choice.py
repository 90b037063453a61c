"""Products are measured with `max-autotune`, and what was found decides, in this process and in later ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from lamella.codegen import measure_products
from lamella.codegen.cache import default_cache
from lamella.driver import explain


def product(x: Tensor, w: Tensor) -> Tensor:
    return torch.sigmoid(x @ w)


@pytest.mark.parametrize("faster", ["generated", "ATen"])
def test_what_was_measured_decides(faster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMELLA_CACHE_DIR", str(tmp_path))
    measured: list[int] = []

    def times(graphs: list[Callable[..., Any]], sets: list[list[Any]]) -> list[float]:
        for graph in graphs:
            assert torch.equal(graph(list(sets[0]))[0] >= 0, torch.ones(96, 80, dtype=torch.bool))
        measured.append(len(graphs))
        return [1.0, 2.0] if faster == "generated" else [2.0, 1.0]

    monkeypatch.setattr(measure_products, "_times", times)
    torch._dynamo.reset()
    x, w = torch.randn(96, 33), torch.randn(33, 80)
    for _ in range(2):
        torch._dynamo.reset()
        got = torch.compile(product, backend="lamella", options={"autotune": True, "cache": False})(x, w)
        torch.testing.assert_close(got, product(x, w))
    assert measured == [2] and default_cache().stats().entries["product"] == 1
    torch._dynamo.reset()
    text = "\n".join(explain(product, x, w).graphs[0].decisions)  # without measuring
    kinds = {"generated": "a kernel, measured: generated 1.0 us, ATen 2.0 us", "ATen": "ATen, measured: ATen 1.0 us"}
    assert kinds[faster] in text and measured == [2]


def test_halves_may_be_multiplied_in_f32(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMELLA_CACHE_DIR", str(tmp_path))
    x, w = torch.randn(96, 33).bfloat16(), torch.randn(33, 80).bfloat16()

    def times(graphs: list[Callable[..., Any]], sets: list[list[Any]]) -> list[float]:
        for graph in graphs:
            torch.testing.assert_close(graph([x, w])[0].double(), product(x.double(), w.double()), rtol=0, atol=2**-8)
        return [2.0, 3.0, 1.0]

    monkeypatch.setattr(measure_products, "_times", times)
    torch._dynamo.reset()
    told = "\n".join(explain(product, x, w, options={"autotune": True, "cache": False}).graphs[0].decisions)
    assert "in f32, measured: widened 1.0 us, generated 2.0 us, ATen 3.0 us" in told


def test_random_numbers_do_not_follow_from_what_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backward is compiled while the program runs, outside of what AOTAutograd guards."""
    monkeypatch.setenv("LAMELLA_CACHE_DIR", str(tmp_path))
    measured: list[int] = []
    monkeypatch.setattr(measure_products, "_times", lambda graphs, sets: measured.append(1) or [1.0, 2.0])
    torch._dynamo.reset()
    x, w = torch.randn(96, 33), torch.randn(33, 80, requires_grad=True)
    value = torch.compile(product, backend="lamella", options={"autotune": True, "cache": False})(x, w).sum()
    before, random = len(measured), torch.get_rng_state()
    value.backward()
    assert len(measured) > before and torch.equal(torch.get_rng_state(), random)


def test_real_measurements_are_in_microseconds_and_named() -> None:
    a, b = measure_products._times([lambda x: None, lambda x: sum(range(20000))], [[1], [2]])  # pyright: ignore
    assert 0 < a < b < 1e6
