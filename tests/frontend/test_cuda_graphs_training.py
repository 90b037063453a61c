"""Training with recorded graphs: what a forward keeps for its backward, and whose gradients are."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from lamella.frontend import cuda_graphs
from lamella.frontend.cuda_sizes import WATCHED

from .recorder import graph_of


class Training:
    """sum((x @ w)^2), its forward and backward recorded; the forward keeps x @ w."""

    def __init__(self, asked: bool = True) -> None:
        forward: Any = lambda v: ((y := v[0] @ v[1]).square().sum(), y)  # noqa: E731
        self.forward = graph_of(forward, kept=(1,), kind="forward", asked=asked)
        self.backward = graph_of(lambda v: (v[0].t() @ (2 * v[1]) * v[2],), kind="backward", asked=asked)
        self.w = torch.randn(4, 3, requires_grad=True)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        training = self

        class Function(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, w: torch.Tensor) -> torch.Tensor:
                loss, y = training.forward([x, w.detach()])
                ctx.save_for_backward(y)
                return loss

            @staticmethod
            def backward(ctx: Any, *grads: Any) -> Any:
                return training.backward([x, ctx.saved_tensors[0], grads[0].clone()])[0]

        return Function.apply(self.w)  # type: ignore[no-any-return]

    def wanted(self, *inputs: torch.Tensor) -> torch.Tensor:
        w = self.w.detach().clone().requires_grad_()
        sum((x @ w).square().sum() for x in inputs).backward()  # type: ignore[union-attr]
        assert w.grad is not None
        return w.grad

    @property
    def replayed(self) -> tuple[int, int]:
        return self.forward.fake.replayed, self.backward.fake.replayed


def test_training() -> None:
    """What the forward keeps is not copied, nor are gradients that die before the next call."""
    step, x = Training(), torch.randn(5, 4)
    for _ in range(6):
        step.w.grad = None
        step(x).backward()
        torch.testing.assert_close(step.w.grad, step.wanted(x))
        with torch.no_grad():
            step.w -= 0.01 * step.w.grad  # type: ignore[operator]
    assert step.replayed[0] == 5 and step.replayed[1] >= 4
    (recording,) = next(iter(step.forward.sizes.values())).recordings
    assert recording.copied == {0}
    (recording,) = next(iter(step.backward.sizes.values())).recordings
    assert not recording.copied and list(recording.buffers) == [2]


def test_training_that_nobody_asked_for() -> None:
    """It is recorded where the GPU waits for it and has room; a backward after its forward, whose results stay then."""
    step, x = Training(asked=False), torch.randn(5, 4)
    for i in range(4 * WATCHED):
        step.w.grad = None
        step(x).backward()
        torch.testing.assert_close(step.w.grad, step.wanted(x))
        assert step.replayed[0] == max(i - 2 - WATCHED, 0)
    assert step.replayed[1] > WATCHED
    for call in (step.forward, step.backward):
        # Gradients may lie at another address in a later call, which is another recording.
        assert call.fake.owned == call.fake.recorded > 0

    step = Training(asked=False)
    step.forward.fake.room = False
    for _ in range(2 * WATCHED + 2):
        step.w.grad = None
        step(x).backward()
        torch.testing.assert_close(step.w.grad, step.wanted(x))
    assert step.forward.given_up and not step.backward.given_up


def test_a_result_that_is_changed_before_its_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result that a backward gets, too, counts changes with what it gets, by which autograd finds them."""
    monkeypatch.setattr(cuda_graphs, "LENT", 0)

    def forward(v: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        return (y := v[0].sigmoid()), v[0].exp(), y, v[0] + 1

    call, x = graph_of(forward, kept=(2, 3), kind="forward"), torch.randn(5, 4)
    for _ in range(4):
        first, other, saved, unseen = call([x])
        version = saved._version
        first.mul_(2)
        other.mul_(2)
        assert saved._version == version + 1 and torch.equal(saved, 2 * x.sigmoid()) and torch.equal(unseen, x + 1)
        del first, other, saved, unseen
    assert call.fake.replayed >= 2


@pytest.mark.parametrize(("often", "idle"), [(True, True), (True, False), (False, True)])
def test_training_that_waits_for_python(often: bool, idle: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU that has nothing to do before and after a call waits for launches, too, if these are no rare thing."""
    monkeypatch.setattr(cuda_graphs, "RARE", math.inf if often else 0)
    step, x = Training(asked=False), torch.randn(5, 4)
    step.backward.fake = step.forward.fake
    step.forward.fake.longer, step.forward.fake.idles = 100.0, idle  # launches take one part of a hundred
    for _ in range(4 * WATCHED):
        step.w.grad = None
        step(x).backward()
        torch.testing.assert_close(step.w.grad, step.wanted(x))
    assert (step.forward.fake.replayed > 0) is (often and idle)


@pytest.mark.parametrize(("most", "gradients"), [(6, False), (5, True)])
def test_memory_that_would_stay_taken(monkeypatch: pytest.MonkeyPatch, most: int, gradients: bool) -> None:
    """What keeps much for its launches, or gives large gradients, shares memory as if somebody had asked for it, and a
    backward does that reads such memory; where there is room, and the GPU waits.
    """
    monkeypatch.setattr(cuda_graphs, "KEPT", most)  # of nine launches: the forward keeps 60 bytes, gradients have 48
    monkeypatch.setattr(cuda_graphs, "MOVED", 1)  # so that the 60 are not copied
    for room, waits in ((True, True), (False, True), (True, False)):
        step, x = Training(asked=False), torch.randn(5, 4)
        for call in (step.forward, step.backward):
            call.fake.room, call.fake.waits, call.fake.longer = room, waits, 0.5
        for _ in range(4 * WATCHED):
            step.w.grad = None
            step(x).backward()
            torch.testing.assert_close(step.w.grad, step.wanted(x))
        assert (step.replayed[0] > 0) is (room and waits)
        assert step.forward.shares is waits and step.forward.fake.owned == 0
        assert step.forward.given_up is not room
        assert step.backward.shares is (waits and (room or gradients))
        assert (step.replayed[1] > 0) is (room and waits)
        # one with few gradients may be recorded before its forward is, if what it reads lies where it lay before
        assert step.backward.fake.owned <= (not gradients)


def test_all_memory_that_would_stay_taken() -> None:
    """What a recording has besides its results counts, too, which is known once it is made."""
    step, x = Training(asked=False), torch.randn(5, 4)
    step.backward.fake.taken = 10 * cuda_graphs.KEPT  # of nine launches
    for _ in range(4 * WATCHED):
        step.w.grad = None
        step(x).backward()
        torch.testing.assert_close(step.w.grad, step.wanted(x))
    assert step.backward.shares and not step.forward.shares
    assert step.backward.fake.recorded > step.backward.fake.owned == 1 and step.backward.fake.replayed
    assert step.forward.fake.replayed


def test_a_recording_that_has_become_idle() -> None:
    """One whose inputs do not come back gives its memory to others; what gives copies has none of its own."""
    weights = [torch.ones(90), torch.full((90,), 2.0)]
    for kept, left in (((0,), 1), ((), 2)):
        call = graph_of(lambda v: (v[0] * 2,), kind="forward", kept=kept)
        for w in [*weights * 4, *[weights[1]] * 3 * cuda_graphs.IDLE]:
            (y,) = call([w])
            assert float(y[5]) == 2 * float(w[0])
            del y
            (known,) = call.sizes.values()
            assert len(known.recordings) == 2 or known.calls < 8 or known.calls > 2 * cuda_graphs.IDLE
        assert len(known.recordings) == left


class Layers:
    """Layers that share a forward, y = x * w with x kept and given on, and a backward."""

    def __init__(self, count: int) -> None:
        forward: Any = lambda v: ((y := v[0] * v[1]), y.clone())  # noqa: E731
        self.forward = graph_of(forward, kept=(1,), kind="forward", parameters=(1,))
        self.backward = graph_of(lambda v: (v[0] * v[1], v[0] * v[2]), kind="backward", parameters=(1,))
        self.weights = [torch.full((1 << 18,), 1.0 + i) for i in range(count)]
        self.ones: list[torch.Tensor] = []

    def __call__(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Gradients of the weights; those of y are ones."""
        given, outputs = [x], list[torch.Tensor]()
        for w in self.weights:
            y, kept = self.forward([given[-1], w])
            given, outputs = [*given, y], [*outputs, kept]
        self.ones.append(g := torch.ones_like(x))
        grads: list[torch.Tensor] = []
        for w, y in zip(reversed(self.weights), reversed(outputs), strict=True):
            g, grad = self.backward([g, w, y])
            grads.append(grad)
        assert torch.equal(g, torch.full_like(x, math.prod(1.0 + i for i in range(len(self.weights)))))
        assert torch.equal(outputs[0], x * self.weights[0])
        return grads


def test_layers_that_share_a_forward_and_a_backward() -> None:
    """All are recorded at the second step: each of them finds what the one before gives where it will be again. Data
    that is new each time is copied, parameters never are.
    """
    layers, kept = Layers(5), []
    for step in range(8):
        kept.append(torch.full((1 << 18,), float(step)))
        layers(kept[-1])
        assert layers.forward.fake.replayed == layers.backward.fake.replayed == 5 * step
    for call in (layers.forward, layers.backward):
        assert (call.fake.recorded, call.fake.owned) == (5, 0)
    (known,) = layers.forward.sizes.values()
    assert [list(r.buffers) for r in known.recordings] == [[0], [], [], [], []]
    (known,) = layers.backward.sizes.values()
    assert [list(r.buffers) for r in known.recordings] == [[0], [], [], [], []]


def test_a_backward_whose_forward_was_not_replayed() -> None:
    """Its random seeds lie in the CPU's memory then: that call is not recorded, others are."""
    call = graph_of(lambda v: (v[0] * v[1],), kind="backward", parameters=(1,))
    w = torch.ones(9)
    for step in range(8):
        seed = torch.tensor(2.0, dtype=torch.float64 if step in (1, 4) else torch.float32)
        assert torch.equal(call([seed, w])[0], w * 2)
    (known,) = call.sizes.values()
    assert not known.reason and known.recordings and call.fake.replayed >= 3


def test_data_that_stayed_at_first() -> None:
    """It is copied once it moves, and what has read a result of the old recording is recorded again, too."""
    layers, x = Layers(1), torch.ones(1 << 18)
    for _ in range(3):
        layers(x)
    kept = [torch.full((1 << 18,), float(step)) for step in range(5)]
    for x in kept:
        layers(x)
    for call in (layers.forward, layers.backward):
        assert call.fake.recorded == 2 and call.fake.replayed == 7
        (known,) = call.sizes.values()
        (recording,) = known.recordings
        assert list(recording.buffers) == [0]


def test_layers_that_write_states() -> None:
    """A state that a layer writes is no data, though it is no parameter."""
    call = graph_of(lambda v: (v[0].add_(v[1]) * v[2],), written=(0,), parameters=(1,))
    weights = [torch.full((9,), 1.0 + i) for i in range(3)]
    states = [torch.zeros(9) for _ in weights]
    kept = []
    for step in range(1, 6):
        for w, state in zip(weights, states, strict=True):
            kept.append(torch.full((9,), float(step)))
            assert torch.equal(call([state, w, kept[-1]])[0], step * w * step)
    assert (call.fake.recorded, call.fake.replayed) == (3, 12)


def test_parameters_that_are_other_tensors() -> None:
    """Nothing is recorded at the first call of a layer."""
    layers, x = Layers(2), torch.ones(1 << 18)
    for _ in range(4):
        layers(x)
    layers.weights[1] = torch.full((1 << 18,), 2.0)
    before = layers.forward.fake.recorded
    for recorded in (0, 1, 1):
        layers(x)
        assert layers.forward.fake.recorded == before + recorded


def test_a_large_result_of_a_forward() -> None:
    """It is not copied, while nobody has it at the next call."""
    call, w = graph_of(lambda v: (v[0] * 2, v[0][:1] + 1), kind="forward"), torch.ones(1 << 20)
    for i in range(6):
        w += 1
        y, z = call([w])
        assert float(y[5]) == 2 * (i + 2) and float(z) == i + 3
        del y
    (recording,) = next(iter(call.sizes.values())).recordings
    assert recording.copied == {1} and call.fake.replayed > 2
    kept = [(float(w[0]), call([w])[0])]
    for _ in range(8):
        w += 1
        kept.append((float(w[0]), call([w])[0]))
    assert all(float(y[7]) == 2 * v for v, y in kept)
    (recording,) = next(iter(call.sizes.values())).recordings
    assert recording.copied == {0, 1}


def test_two_forwards_before_the_backwards() -> None:
    """What the first has kept is in use, so the second is not replayed."""
    step = Training()
    x, y = (torch.randn(5, 4) for _ in range(2))
    for _ in range(6):
        step.w.grad = None
        losses = [step(x), step(y)]
        for loss in reversed(losses):
            loss.backward()
        torch.testing.assert_close(step.w.grad, step.wanted(x, y))
    assert step.replayed[0] > 3


def test_gradients_that_are_added_up() -> None:
    """They are in use at the next call: after two of these, copies are given."""
    step, x = Training(), torch.randn(5, 4)
    for n in range(24):
        if n % 2 == 0:
            step.w.grad = None
        step(x).backward()
        torch.testing.assert_close(step.w.grad, step.wanted(*[x] * (n % 2 + 1)))
    (recording,) = next(iter(step.backward.sizes.values())).recordings
    assert recording.copied == {0} and step.backward.fake.replayed > 4


def test_gradients_of_one_memory() -> None:
    """Of two results with the same memory each is a copy."""
    call, w, g = graph_of(lambda v: ((y := v[0] * v[1]), y), kind="backward"), torch.randn(90), torch.randn(9)
    for _ in range(5):
        a, b = call([w[:9], g])
        assert (torch.equal(a, w[:9] * g) and a.data_ptr() != b.data_ptr()) or call.fake.replayed == 0


def test_a_backward_that_cannot_be_recorded() -> None:
    """What it was to spend is still there, and is written over by no later recording while it is needed."""
    training, x = Training(), torch.randn(5, 4)
    fake = training.backward.fake = training.forward.fake
    record, failed = fake.record, list[bool]()

    def fail(run: Any, inputs: list[Any], own: bool, asked: bool) -> Any:
        if len(inputs) < 3:
            return record(run, inputs, own, asked)
        inputs.clear()
        failed.append(bool(fake.sharing.spent))
        fake.failures += 1
        raise RuntimeError("not permitted")

    fake.record = fail  # type: ignore[method-assign]
    for _ in range(8):
        training.w.grad = None
        training(x).backward()
        torch.testing.assert_close(training.w.grad, training.wanted(x))
    assert failed == [True]
    assert training.backward.given_up
    assert fake.replayed > 2
