"""Recording and replaying, with a recorder that has no GPU."""

from __future__ import annotations

import pickle
import time
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from lamella.frontend import cuda_graphs
from lamella.frontend.cuda_arguments import Arguments
from lamella.frontend.cuda_graphs import CROWDED, MOST, TRIES, GraphedCall
from lamella.frontend.cuda_sharing import PATIENCE
from lamella.frontend.cuda_sizes import RESTS, WATCHED

from .recorder import graph_of, two_graphs


def test_parameters_are_read_where_they_are() -> None:
    call = graph_of(lambda v: (v[0] * v[1],))
    w = torch.randn(5)
    kept = []
    for i in range(6):
        x = torch.full((5,), float(i))
        kept.append(x)  # or the next one would be at its address
        w += 1
        (y,) = call([x, w])
        assert torch.equal(y, x * w)
    assert (call.fake.recorded, call.fake.replayed) == (1, 5)
    (sizes,) = call.sizes.values()
    (recording,) = sizes.recordings
    assert list(recording.buffers) == [0] and list(recording.fixed) == [1]


def test_inputs_that_are_new_each_time() -> None:
    """They are copied, once that is clear."""
    call, kept = graph_of(lambda v: (v[0] + 1,)), []
    for i in range(TRIES + 4):
        kept.append(torch.full((5,), float(i)))
        assert float(call([kept[-1]])[0][0]) == i + 1
    assert (call.fake.recorded, call.fake.replayed) == (1, 4)


def test_results_are_the_callers() -> None:
    call, x = graph_of(lambda v: (v[0] + 1, v[0] * 2)), torch.ones(4)
    kept = [call([x.clone()]) for _ in range(4)]
    for i, (a, b) in enumerate(kept):
        assert torch.equal(a, x + 1) and torch.equal(b, x * 2)
        a.fill_(i)
    assert [int(a[0]) for a, _ in kept] == [0, 1, 2, 3]


def test_an_input_that_moves() -> None:
    """A graph is recorded for each of the places where all of its inputs lie time and again."""
    call, x, y = graph_of(lambda v: (v[0] - 1,)), torch.randn(3), torch.randn(3)
    for v in (x, x, x, y, x, y, torch.randn(3)):
        assert torch.equal(call([v])[0], v - 1)
    assert call.fake.recorded == 2


def test_an_input_that_moves_beside_others() -> None:
    """One that was taken to stay is copied once it moves; the graph is recorded again for that, once."""
    call, w, places = graph_of(lambda v: (v[0] - v[1],)), torch.randn(3, 3), [torch.randn(3) for _ in range(5)]
    for v in (places[0], *places, *places):
        assert torch.equal(call([v, w])[0], v - w)
    assert (call.fake.recorded, call.fake.replayed) == (2, 10)


def test_layers_of_one_graph() -> None:
    """Each has parameters of its own, for which it is recorded."""
    call = graph_of(lambda v: (v[0] * v[1],))
    layers = [torch.randn(50, 5) for _ in range(4)]
    kept = []
    for _ in range(4):
        x = torch.randn(5)
        for w in layers:
            kept.append(x)
            want, x = x * w, call([x, w])[0][0]
            assert torch.equal(x, want[0])
    assert (call.fake.recorded, call.fake.replayed) == (4, 12)


def test_what_has_a_place_later() -> None:
    """An input that is copied, as its own graph was not recorded at first, is read where it lies from some time on."""
    made, call = graph_of(lambda v: (v[0] + 1,)), graph_of(lambda v: (v[0] * v[1],))
    x, w = torch.randn(cuda_graphs.LENT), torch.randn(cuda_graphs.LENT)
    kept = [torch.randn(cuda_graphs.LENT) for _ in range(4)]
    for y in kept:
        assert torch.equal(call([y, w])[0], y * w)
    (sizes,) = call.sizes.values()
    assert [list(r.buffers) for r in sizes.recordings] == [[0]]
    for _ in range(cuda_graphs.SETTLED + 4):
        assert torch.equal(call([made([x])[0], w])[0], (x + 1) * w)
    assert [list(r.buffers) for r in sizes.recordings] == [[]]
    assert (call.fake.recorded, call.fake.replayed) == (2, 3 + cuda_graphs.SETTLED + 4)


def test_a_backward_before_its_forward_is_recorded() -> None:
    """It waits for that where it would copy most of what it reads, even if a gradient has a place."""
    made = graph_of(lambda v: (v[0] + 1,))
    call = graph_of(lambda v: (v[0].sum() + v[1] * v[2],), kind="backward", parameters=(2,))
    x, w, kept = torch.randn(cuda_graphs.LENT), torch.randn(cuda_graphs.LENT), []
    for _ in range(6):
        kept.append(torch.randn(4 * cuda_graphs.LENT))
        torch.testing.assert_close(call([kept[-1], made([x])[0], w])[0], kept[-1].sum() + (x + 1) * w)
    assert made.fake.recorded and not call.fake.recorded
    forward = graph_of(lambda v: (v[0] * 2,))
    for _ in range(4):
        y = forward([kept[0]])[0]
        torch.testing.assert_close(call([y, made([x])[0], w])[0], 2 * kept[0].sum() + (x + 1) * w)
        del y
    assert (call.fake.recorded, call.fake.replayed) == (1, 3)


def test_what_is_too_large_for_few_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not copied for them, even if recordings are asked for."""
    monkeypatch.setattr(cuda_graphs, "WORTH", 2)
    call, w, kept = graph_of(lambda v: (v[0] * v[1],)), torch.randn(8, 5), []
    for i in range(TRIES + 4):
        kept.append(torch.full((5,), float(i)))
        assert torch.equal(call([kept[-1], w])[0], i * w)
    assert not call.fake.recorded
    for _ in range(3):
        assert torch.equal(call([kept[-1], w])[0], i * w)
    assert (call.fake.recorded, call.fake.replayed) == (1, 3)


def test_only_what_pays() -> None:
    """Where nobody has asked, a graph is recorded that the GPU waits for, if little is copied, also later on: what
    gives its inputs may be recorded by then.
    """
    call, w, kept = graph_of(lambda v: (v[0] * v[1],), asked=False), torch.randn(5), []
    call.fake.longer = 0.5
    for i in range(WATCHED + 7):
        kept.append(torch.full((5,), float(i)))  # or the next one may be at its address
        assert torch.equal(call([kept[-1], w])[0], i * w)
    assert (call.fake.recorded, call.fake.replayed) == (1, 4)

    call, kept = graph_of(lambda v: (v[0][:1] + 1,), asked=False), []
    call.fake.longer = 0.5
    for i in range(2 * WATCHED + 4):
        kept.append(torch.full((8 << 20,), float(i)))
        assert float(call([kept[-1]])[0]) == i + 1
    assert not call.given_up and not call.fake.recorded
    for _ in range(RESTS[0] + 2 * WATCHED):
        assert float(call([kept[-1]])[0]) == i + 1
    assert call.fake.recorded == 1 and call.fake.replayed


@pytest.mark.parametrize("busy", [True, False])
def test_what_did_not_pay_is_watched_again(busy: bool) -> None:
    """Another load of the CPU makes launches late: what was seen at first does not stand."""
    call, w = graph_of(lambda v: (v[0] + 1,), asked=False), torch.randn(5)
    call.fake.waits, call.fake.longer = not busy, 100.0
    for _ in range(2 + 4 * WATCHED + RESTS[0] + 2 * WATCHED):
        assert torch.equal(call([w])[0], w + 1)
    (known,) = call.sizes.values()
    assert not call.given_up and not known.reason and not call.fake.recorded
    call.fake.waits, call.fake.longer = True, 0.5
    for _ in range(WATCHED + 3):
        assert torch.equal(call([w])[0], w + 1)
    assert call.fake.recorded == 1


@pytest.mark.parametrize("behind", [0.0, 0.02])
def test_launches_that_wait_for_the_gpu(behind: float) -> None:
    """Those of a call that the GPU has not come to when all are made take long because its queue is full."""
    call, w = graph_of(lambda v: (v[0] + 1,), asked=False), torch.randn(5)
    call.fake.behind = behind
    for _ in range(2 + 2 * WATCHED):
        time.sleep(0.03)  # the GPU is through with the call before
        assert torch.equal(call([w])[0], w + 1)
    assert call.fake.recorded == (not behind)


def test_results_that_a_program_waits_for() -> None:
    """It finds the GPU idle at each call, which tells nothing where results would be copied."""
    for writes in (False, True):
        call, w = graph_of(lambda v: (v[0].mul_(2),)[1:] if writes else (v[0] + 1,), asked=False), torch.ones(5)  # noqa: B023
        call.fake.longer, call.fake.idles = 100.0, True
        for _ in range(2 * WATCHED):
            call([w])
        assert (call.fake.recorded == 1) is writes
        assert float(w[0]) == (2 ** (2 * WATCHED) if writes else 1)


def test_large_results() -> None:
    """They are copied where that takes little of what a call does; that may be so later."""
    pause, w, calls = 0.0, torch.randn(1 << 17), 0

    def run(v: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        time.sleep(pause)
        return (v[0] + 1,)

    call = graph_of(run, asked=False)
    call.fake.longer = 1e-6
    while not call.fake.recorded and (calls := calls + 1) < 4 * WATCHED:
        assert torch.equal(call([w])[0], w + 1)
    (known,) = call.sizes.values()
    assert not known.recordings and not known.reason and known.rest == RESTS[0]
    pause, call.fake.longer = 0.002, 1.0
    for _ in range(RESTS[0] + 2 * WATCHED):
        assert torch.equal(call([w])[0], w + 1)
    assert len(known.recordings) == 1 and call.fake.replayed


def test_large_results_that_are_given() -> None:
    """Where recordings are asked for, they are not copied while nobody has them at the next call, and not written over."""
    for asked in (True, False):
        call, w = graph_of(lambda v: (v[0] * 2, v[0][:1] + 1), asked=asked), torch.ones(1 << 20)
        for i in range(WATCHED + 6):
            w += 1
            y, z = call([w])
            assert float(y[5]) == 2 * (i + 2) and float(z) == i + 3
            del y
        (known,) = call.sizes.values()
        assert (
            [r.copied for r in known.recordings] == [{1}]
            if asked
            else all(r.copied == {0, 1} for r in known.recordings)
        )
        kept = [(float(w[0]), call([w])[0])]
        for _ in range(8):
            w += 1
            kept.append((float(w[0]), call([w])[0]))
        assert all(float(y[7]) == 2 * v for v, y in kept)
        assert all(r.copied == {0, 1} for r in known.recordings) and bool(known.recordings) >= asked


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("kind", ["inference", "backward"])
def test_who_shares_memory(asked: bool, kind: str) -> None:
    """Where nobody has asked for recordings, one that gives its results as they are has memory of its own. Memory that
    calls before have left is given back where they are asked for.
    """
    call, w = graph_of(lambda v: (v[0] * 2,), asked=asked, kind=kind), torch.ones(1 << 20)
    for _ in range(WATCHED + 8):
        assert torch.equal(call([w])[0], w * 2)
    assert (call.fake.recorded, call.fake.owned, call.fake.tidied) == (1, kind == "backward" and not asked, 2 * asked)


@pytest.mark.parametrize("outlives", [False, True])
def test_a_result_where_another_recording_writes(outlives: bool) -> None:
    """While somebody has it, that one is not replayed, whether or not the recording that gave it is still there; after
    a while it is recorded alone.
    """
    (first, second), w = two_graphs(), torch.ones(1 << 20)
    fake = first.fake
    for _ in range(3):
        assert torch.equal(first([w])[0], w * 2)
        assert torch.equal(second([w])[0], w * 3)
    (y,) = second([w])
    if outlives:
        second.sizes.clear()
    before = fake.replayed
    for _ in range(CROWDED):
        assert torch.equal(first([w])[0], w * 2)
        assert torch.equal(y, w * 3)
    assert (fake.replayed, fake.recorded, fake.owned) == (before, 2, 0)
    for _ in range(3):
        assert torch.equal(first([w])[0], w * 2)
        assert torch.equal(y, w * 3)
    assert (fake.replayed, fake.recorded, fake.owned) == (before + 3, 3, 1)


def test_a_result_that_is_gone() -> None:
    """Nobody has it: the earlier recording is replayed."""
    (first, second), w = two_graphs(), torch.ones(1 << 20)
    fake = first.fake
    for _ in range(8):
        assert torch.equal(first([w])[0], w * 2)
        assert torch.equal(second([w])[0], w * 3)
    assert (fake.recorded, fake.replayed) == (2, 14)


def test_all_are_made_again() -> None:
    """Once some are gone, whose memory others have between what they use; what is still held stays as it is."""
    (first, second), w = two_graphs(), torch.ones(1 << 20)
    fake = first.fake
    for _ in range(3):
        first([w]), second([w])
    first.sizes.clear()
    kept, recorded = second([w])[0], fake.recorded
    for _ in range(PATIENCE[0] + 4):
        assert torch.equal(first([w])[0], w * 2)
    assert torch.equal(kept, w * 3)
    del kept
    for _ in range(PATIENCE[0] + 4):
        assert torch.equal(first([w])[0], w * 2)
        assert torch.equal(second([w])[0], w * 3)
    assert (fake.renewed, fake.recorded) == (1, recorded + 3)
    assert fake.replayed > 2 * PATIENCE[0]


def test_what_was_crowded_out_is_made_again() -> None:
    """What was alone as others had results where it writes shares memory with them the first time that all are made
    again. What is crowded out after that stays alone.
    """
    (first, second), w = two_graphs(), torch.ones(1 << 20)
    fake = first.fake
    for owned in (1, 2):
        for _ in range(3):
            assert torch.equal(first([w])[0], w * 2)
            assert torch.equal(second([w])[0], w * 3)
        (y,) = second([w])
        for _ in range(CROWDED + 1):
            assert torch.equal(first([w])[0], w * 2)
        assert torch.equal(y, w * 3)
        assert fake.owned == owned
        del y
        recorded = fake.recorded
        fake.renew()
        for _ in range(2):
            assert torch.equal(first([w])[0], w * 2)
            assert torch.equal(second([w])[0], w * 3)
        assert fake.recorded == recorded + (2 if owned == 1 else 1)


def test_inputs_of_the_cpu() -> None:
    call, x = graph_of(lambda v: (v[0] * float(v[1]),)), torch.randn(3)
    for i in range(4):
        assert torch.equal(call([x, torch.tensor(float(i), dtype=torch.float64)])[0], x * i)
    assert next(iter(call.sizes.values())).reason == "input 1 is in the CPU's memory"


def test_numbers_of_the_cpu() -> None:
    """One that kernels read is written to where the recording reads it, before each replay."""
    call, x = graph_of(lambda v: (v[0] * v[1],), uploads=(1,)), torch.randn(3)
    kept: list[torch.Tensor] = []
    for i in range(5):
        kept.append(torch.tensor(0.1 * i, dtype=torch.float64))  # or the next one may be at its address
        torch.testing.assert_close(call([x, kept[-1]])[0], x * (0.1 * i))
    assert (call.fake.recorded, call.fake.replayed) == (1, 4)
    (recording,) = next(iter(call.sizes.values())).recordings
    assert list(recording.numbers) == [1] and list(recording.fixed) == [0] and not recording.buffers


def test_sizes() -> None:
    call, inputs = graph_of(lambda v: (v[0] * v[1],), varying=(0, 1)), [torch.ones(n) for n in range(1, MOST + 5)]
    for _ in range(3):
        for n, x in enumerate(inputs, 1):
            assert torch.equal(call([x, n])[0], torch.full((n,), float(n)))
    assert call.fake.recorded == MOST


def test_written_inputs() -> None:
    call, x = graph_of(lambda v: (v[0].add_(1).clone(),), written=(0,)), torch.zeros(3)
    for i in range(5):
        assert torch.equal(call([x])[0], torch.full((3,), i + 1.0)) and float(x[0]) == i + 1
    assert (call.fake.recorded, call.fake.replayed) == (1, 4)
    kept = [torch.zeros(3) for _ in range(TRIES + 3)]
    for other in kept:
        call([other])
        assert torch.equal(other, torch.ones(3))
    assert "which it writes" in next(iter(call.sizes.values())).reason


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (lambda v: (v[0].view(-1),), "shares memory"),
        (lambda v: (y := v[0] + 1, y.t()), "shares memory"),
        (lambda v: (v[0] + 1, 3), "is a number"),
        (lambda v: ((v[0] + 1).repeat(1, 2)[:, :3],), "gaps"),
    ],
)
def test_what_is_not_recorded(run: Any, reason: str) -> None:
    """It runs as it is, and the reason is kept."""
    call, x = graph_of(run), torch.randn(3, 3)
    for _ in range(3):
        want = run([x])
        for a, b in zip(call([x]), want, strict=True):
            assert torch.equal(torch.as_tensor(a), torch.as_tensor(b))
    assert reason in next(iter(call.sizes.values())).reason


def test_recording_fails() -> None:
    call, x = graph_of(lambda v: (v[0] + 1,)), torch.randn(3)

    def fail(run: Any, inputs: list[Any], own: bool, asked: bool) -> Any:
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    call.fake.record = fail  # type: ignore[method-assign]
    for _ in range(3):
        assert torch.equal(call([x])[0], x + 1)
    assert next(iter(call.sizes.values())).reason == "operation not permitted when stream is capturing"


def test_another_recording_fails() -> None:
    """What was recorded before is recorded again."""
    call, x = graph_of(lambda v: (v[0] + 1,)), torch.randn(3)
    for i in range(6):
        call.fake.failures += i == 3
        assert torch.equal(call([x])[0], x + 1)
    assert (call.fake.recorded, call.fake.replayed) == (2, 5) and call.fake.ordered == 7


def test_within_another_capture() -> None:
    call, x = graph_of(lambda v: (v[0] + 1,)), torch.randn(3)
    call.fake.capturing = True
    for _ in range(4):
        assert torch.equal(call([x])[0], x + 1)
    assert call.fake.recorded == 0


def increment(inputs: list[Any]) -> Sequence[Any]:
    return (inputs.pop() + 1,)


def test_pickled() -> None:
    arguments = Arguments(1, (0,), (2,), (3,), "forward", False)
    call = pickle.loads(pickle.dumps(GraphedCall(increment, arguments, 5)))
    assert (call.graph, call.arguments, call.launches, call.sizes) == (increment, arguments, 5, {})


def test_recordings_copy_an_input_to_one_place() -> None:
    """Of one graph one is replayed at a time; it is not the place of a forward's input, which may be kept."""
    for kind in ("inference", "forward"):
        call, x = graph_of(lambda v: (v[0] + v[1],), kept=(0,) * (kind == "forward"), kind=kind, parameters=(1,)), None
        parameters = [torch.full((5,), float(i)) for i in range(3)]
        kept: list[torch.Tensor] = []
        for _ in range(2 * TRIES):
            for w in parameters:
                kept.append(x := torch.randn(5))
                assert torch.equal(call([x, w])[0], x + w)
        (known,) = call.sizes.values()
        places = [r.buffers[0].data_ptr() for r in known.recordings if 0 in r.buffers]
        assert len(places) == 3 and len({*places}) == (1 if kind == "inference" else 3)
