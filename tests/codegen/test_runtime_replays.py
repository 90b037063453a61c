"""What is asked before a recorded graph is replayed: where its inputs lie, and whether somebody has its results."""

import pytest
import torch
from torch import Tensor, nn

from lamella.codegen.runtime_replays import native_questions
from lamella.frontend.replay_questions import Questions, table


def questions(natively: bool) -> Questions:
    made = Questions(native=native_questions if natively else None)
    made.settle()
    return made


@pytest.mark.parametrize("natively", [True, False])
def test_same_places(natively: bool) -> None:
    same = questions(natively).same_places
    inputs = [torch.randn(3), 4, nn.Parameter(torch.randn(2)), torch.empty(0), torch.randn(5)[2:]]
    where = {i: t.data_ptr() for i, t in enumerate(inputs) if isinstance(t, Tensor)}
    assert same(inputs, table(where.items())) is True and same(inputs, b"") is True
    assert same(inputs, table([(4, inputs[4].untyped_storage().data_ptr())])) is False  # type: ignore[union-attr]
    for i in where:
        assert same(inputs, table((where | {i: where[i] + 4}).items())) is False
    assert not natively or same(inputs, table([(1, 4)])) is False  # no tensor
    with pytest.raises(IndexError):
        same(inputs, table([(5, 0)]))


@pytest.mark.parametrize("natively", [True, False])
def test_more_owners(natively: bool) -> None:
    more, t, other = questions(natively).more_owners, torch.randn(3), torch.randn(4)
    storages = [t.untyped_storage(), other.untyped_storage()]
    known = table((s._cdata, torch._C._storage_Use_Count(s._cdata)) for s in storages)
    assert more(known) is False and more(b"") is False
    for make in (other.detach, lambda: other[1:].view(3), other.numpy):
        held = make()
        assert more(known) is True
        del held
        assert more(known) is False
