"""Recording and replaying, with a recorder that has no GPU: it runs a call again, into the results of the first."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from lamella.dialects.text import parse_module
from lamella.frontend.cuda_graphs import MOST, Arguments, GraphedCall, Unrecordable, graphed
from lamella.lowering.origins import Call


class Recorder:
    def __init__(self) -> None:
        self.recorded = self.replayed = 0
        self.capturing = False
        self.written: list[torch.Tensor] = []
        """Tensors that a call writes, which recording it does not."""

    def record(self, run: Callable[[], Sequence[Any]]) -> tuple[Callable[[], None], Sequence[Any]]:
        self.recorded += 1
        before = [t.clone() for t in self.written]
        results = run()
        for t, value in zip(self.written, before, strict=True):
            t.copy_(value)

        def replay() -> None:
            self.replayed += 1
            for old, new in zip(results, run(), strict=True):
                old.copy_(new)

        return replay, results

    def ready(self) -> bool:
        return not self.capturing


class Graphed(GraphedCall):
    fake: Recorder

    def recorder(self) -> Recorder:
        return self.fake


def graph_of(
    run: Callable[[list[Any]], Sequence[Any]], varying: Sequence[int] = (), written: Sequence[int] = ()
) -> Graphed:
    def boxed(inputs: list[Any]) -> Sequence[Any]:
        given = list(inputs)
        inputs.clear()
        return run(given)

    call = Graphed(boxed, 0, varying, written)
    call.fake = Recorder()
    return call


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
    assert sizes.recording is not None and list(sizes.recording.buffers) == [0] and list(sizes.recording.fixed) == [1]


def test_results_are_the_callers() -> None:
    call, x = graph_of(lambda v: (v[0] + 1, v[0] * 2)), torch.ones(4)
    kept = [call([x.clone()]) for _ in range(4)]
    for i, (a, b) in enumerate(kept):
        assert torch.equal(a, x + 1) and torch.equal(b, x * 2)
        a.fill_(i)
    assert [int(a[0]) for a, _ in kept] == [0, 1, 2, 3]


def test_an_input_that_moves() -> None:
    """One that was taken to stay is copied once it moves; the graph is recorded again for that, once."""
    call, x, y = graph_of(lambda v: (v[0] - 1,)), torch.randn(3), torch.randn(3)
    for v in (x, x, x, y, x, y, torch.randn(3)):
        assert torch.equal(call([v])[0], v - 1)
    assert call.fake.recorded == 2


def test_sizes() -> None:
    call = graph_of(lambda v: (v[0] * v[1],), varying=[0, 1])
    for _ in range(3):
        for n in range(1, MOST + 5):
            assert torch.equal(call([torch.ones(n), n])[0], torch.full((n,), float(n)))
    assert call.fake.recorded == MOST


def test_written_inputs() -> None:
    call, x = graph_of(lambda v: (v[0].add_(1).clone(),), written=[0]), torch.zeros(3)
    call.fake.written = [x]
    for i in range(5):
        assert torch.equal(call([x])[0], torch.full((3,), i + 1.0)) and float(x[0]) == i + 1
    assert (call.fake.recorded, call.fake.replayed) == (1, 4)
    other = torch.zeros(3)
    call([other])
    assert torch.equal(other, torch.ones(3)) and "which it writes" in next(iter(call.sizes.values())).reason


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

    def fail(run: Any) -> Any:
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    call.fake.record = fail  # type: ignore[method-assign]
    for _ in range(3):
        assert torch.equal(call([x])[0], x + 1)
    assert next(iter(call.sizes.values())).reason == "operation not permitted when stream is capturing"


def test_within_another_capture() -> None:
    call, x = graph_of(lambda v: (v[0] + 1,)), torch.randn(3)
    call.fake.capturing = True
    for _ in range(4):
        assert torch.equal(call([x])[0], x + 1)
    assert call.fake.recorded == 0


def increment(inputs: list[Any]) -> Sequence[Any]:
    return (inputs.pop() + 1,)


def test_pickled() -> None:
    call = pickle.loads(pickle.dumps(GraphedCall(increment, 1, [0], [2])))
    assert (call.graph, call.device, call.varying, call.written, call.sizes) == (increment, 1, (0,), {2}, {})


TEXT = """
func.func @main(%x: !sym.t<[s0, 4], f32, device=cuda:1>, %y: !sym.t<[4], f32, device=cuda:1> {lamella.mutated}, %n: !sym.int<s0>) {
  func.return
}
"""


def test_what_a_module_says() -> None:
    module = parse_module(TEXT)
    arguments = Arguments.of(module, {"cuda:1"})
    assert arguments == Arguments(1, (0, 2), (1,))
    for devices in ({"cuda:0", "cpu"}, {"cuda:0", "cuda:1"}, {"cpu"}, set[str]()):
        with pytest.raises(Unrecordable, match="tensors of the CPU or of several GPUs"):
            Arguments.of(module, devices)
    assert graphed(increment, arguments, [Call("aten.mm", "?", "")]).written == {1}
    for name in ("aten.nonzero", "aten._unique2", "mine.op"):
        with pytest.raises(Unrecordable, match=rf"{name} may wait for the GPU, at a.py:3"):
            graphed(increment, arguments, [Call(name, "a.py:3", "")])


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_random_numbers_are_not_recorded(dropout: float) -> None:
    """Attention is called random by torch, and is so with dropout only."""
    t, n = "!sym.t<[2, 4, 16, 64], bf16, device=cuda:0>", "none, none, !sym.int<16>, !sym.int<16>"
    rows = "!sym.t<[2, 4, 16], f32, device=cuda:0>"
    seeds = "!sym.t<[2], u64, device=cuda:0>, !sym.t<[], u64, device=cuda:0>, !sym.t<[0], bf16, device=cuda:0>"
    text = f"""
      func.func @main(%q: {t}) -> {t} {{
        %r:9 = aten._scaled_dot_product_flash_attention(%q, %q, %q, {dropout}) : ({t}, {t}, {t}) -> ({t}, {rows}, {n}, {seeds})
        func.return %r#0 : {t}
      }}
    """
    module = parse_module(text)
    if dropout:
        with pytest.raises(Unrecordable, match="attention draws from torch's generator, which a replay would not"):
            Arguments.of(module, {"cuda:0"})
    else:
        assert Arguments.of(module, {"cuda:0"}) == Arguments(0, (), ())
