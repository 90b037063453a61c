"""Arguments two of whose elements are one place in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import lamella
from lamella.frontend.overlap import overlaps_itself


def _doubled(x: Tensor) -> None:
    x.select(1, 0).mul_(2)


def _cleared(x: Tensor) -> Tensor:
    part = x.select(1, 2)
    return part.sub_(part)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("f", [_doubled, _cleared])
def test_a_part_that_does_not_overlap_is_written(f: Callable[[Tensor], Any], dynamic: bool) -> None:
    """AOTAutograd writes the whole argument, with old values of what is written."""
    torch._dynamo.reset()
    compiled = lamella.compile(f, dynamic=dynamic, options={"cache": False})
    for n in (18, 40):
        ours, theirs = (torch.arange(float(n)).unfold(0, 3, 1) for _ in range(2))
        assert str(compiled(ours)) == str(f(theirs)) and torch.equal(ours, theirs)


def test_one_that_is_only_read_is_compiled() -> None:
    x = torch.arange(9.0).unfold(0, 3, 1)
    assert "1 kernel" in str(lamella.explain(lambda x: x.select(1, 0) * 2, x))


def test_symbolic_sizes_are_of_two_elements_or_more() -> None:
    found: list[bool] = []

    def look(graph: torch.fx.GraphModule, _: object) -> Callable[..., Any]:
        values = [n.meta["example_value"] for n in graph.graph.find_nodes(op="placeholder")]
        found.extend(overlaps_itself(t) for t in values if isinstance(t, Tensor))
        return graph

    torch._dynamo.reset()
    windows, rows = torch.arange(9.0).unfold(0, 3, 1), torch.ones(4, 3)
    torch.compile(lambda x, y: x.sum() + y.sum(), backend=look, dynamic=True)(windows, rows)
    assert found == [True, False]
