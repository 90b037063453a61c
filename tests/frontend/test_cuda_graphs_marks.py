"""Programs that say where a step begins (`torch.compiler.cudagraph_mark_step_begin`), and still have results of the one
before, with a recorder that has no GPU.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from lamella.frontend import cuda_steps

from .recorder import Graphed, graph_of, two_graphs


@pytest.fixture(autouse=True)
def _marks() -> Iterator[None]:
    yield
    from torch._inductor import cudagraph_trees

    cudagraph_trees.MarkStepBox.mark_step_counter = 0


def mark() -> None:
    torch.compiler.cudagraph_mark_step_begin()


def times(by: float, **arguments: Any) -> Graphed:
    """A graph with one large result."""
    return graph_of(lambda v: (v[0] * by,), asked=True, parameters=(0,), **arguments)


@pytest.mark.parametrize("kind", ["inference", "forward"])
def test_a_result_of_the_step_before(kind: str) -> None:
    """It is written over, and whoever reads it gets an error; that of this step is not."""
    call, w = times(2, kind=kind), torch.ones(1 << 20)
    mark()
    (y,) = call([w])
    for step in range(2, 9):
        mark()
        before = y.untyped_storage()._cdata
        w.fill_(float(step))
        (new,) = call([w])
        assert torch.equal(new, w * 2)
        assert call.fake.replayed == step - 1
        assert (before in call.fake.forbidden) == (step > 2)  # the first is of a call that was made as it is
        y = new
    (known,) = call.sizes.values()
    assert call.fake.recorded == 1 and not known.held and not known.recordings[0].copied


def test_two_results_of_one_step() -> None:
    """The second call of a step leaves what the first gave."""
    call, w = times(2), torch.ones(1 << 20)
    for step in range(1, 6):
        mark()
        w.fill_(float(step))
        (first,) = call([w])
        w.fill_(-float(step))
        (second,) = call([w])
        assert float(first[9]) == 2 * step and float(second[9]) == -2 * step


def test_gradients_are_of_no_step() -> None:
    """What a program adds up over several steps stays as it is."""
    call, w = times(2, kind="backward"), torch.ones(1 << 20)
    total: list[torch.Tensor] = []
    for step in range(1, 8):
        mark()
        w.fill_(float(step))
        total += call([w])
        assert [float(t[7]) for t in total] == [2.0 * k for k in range(1, step + 1)]
    assert not call.fake.forbidden


def test_without_marks() -> None:
    call, w = times(2), torch.ones(1 << 20)
    kept: list[torch.Tensor] = []
    for step in range(1, 8):
        w.fill_(float(step))
        kept += call([w])
        assert [float(t[7]) for t in kept] == [2.0 * k for k in range(1, step + 1)]
    assert not call.fake.forbidden


def test_a_result_of_another_graph() -> None:
    """Of this step, where an earlier recording writes: that one is not replayed. Of the step before, it is."""
    (first, second), w = two_graphs(), torch.ones(1 << 20)
    fake = first.fake
    for _ in range(3):
        mark()
        first([w])
        second([w])
    for step in range(4):
        mark()
        replayed = fake.replayed
        (y,) = second([w])
        assert torch.equal(first([w])[0], w * 2)
        assert torch.equal(y, w * 3)
        assert fake.replayed == replayed + 1 + (step == 3)  # crowded out three times, then it is made alone
        mark()
        assert torch.equal(first([w])[0], w * 2)
        assert fake.replayed >= replayed + 2


@pytest.mark.parametrize("marked", [True, False])
def test_an_input_that_is_a_result(marked: bool) -> None:
    """It is that of the call: the second recording has nothing of the first's, which is replayed when nobody else has.
    What it gives of an input, whole and in part, is of this step, too.
    """
    first = graph_of(lambda v: (v[0] * 2,), asked=True, parameters=(0,), kind="forward")
    second = graph_of(lambda v: (v[0] + 1, v[0], v[0][4:9]), asked=True, kind="forward", kept=(1, 2))
    second.fake = first.fake
    w, kept = torch.ones(1 << 20), list[torch.Tensor]()
    for step in range(1, 9):
        if marked:
            mark()
        else:
            kept.clear()
        w.fill_(float(step))
        kept += first([w])
        z, whole, part = second([y := kept[-1]])
        assert torch.equal(y, w * 2) and float(z[7]) == 2 * step + 1
        assert whole.untyped_storage()._cdata == part.untyped_storage()._cdata == y.untyped_storage()._cdata
        assert torch.equal(whole, y) and torch.equal(part, y[4:9])
        assert y.untyped_storage()._cdata not in first.fake.forbidden
        del y, z, whole, part
    assert bool(first.fake.forbidden) == marked
    assert first.fake.recorded == 2
    assert not any(known.held for known in (*first.sizes.values(), *second.sizes.values()))


def test_a_recording_that_is_gone() -> None:
    """The memory of a result stays while somebody has it, though it has been taken back and given anew before."""
    call, w = times(2), torch.ones(1 << 20)
    y = None
    for _ in range(4):
        mark()
        (y,) = call([w])
    assert y is not None and call.fake.forbidden
    call.sizes.clear()
    call.fake.places.clear()
    gc.collect()
    assert len(cuda_steps.left()) == 1
    others = [torch.full((1 << 20,), 7.0) for _ in range(4)]
    assert torch.equal(y, w * 2)
    del y, others
    cuda_steps.left()
    assert not cuda_steps._left
