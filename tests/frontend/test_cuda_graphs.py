"""Recording and replaying, with a recorder that has no GPU: it runs a call again, into the results of the first."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from lamella.dialects.text import parse_module
from lamella.frontend.backend import Backend
from lamella.frontend.cuda_graphs import MOST, TRIES, WATCHED, Arguments, GraphedCall, graphed
from lamella.frontend.cuda_recording import Unrecordable
from lamella.frontend.explain import GraphReport
from lamella.frontend.outputs import OutputRecipe
from lamella.lowering.options import Options
from lamella.lowering.origins import Call


def at_the_same_place(value: Any) -> Any:
    """A tensor with the memory of another, which does not keep that alive."""
    if not isinstance(value, torch.Tensor) or not value.numel():
        return value
    storage, device = value.untyped_storage(), torch.device("cpu")
    same = torch._C._construct_storage_from_data_pointer(storage.data_ptr(), device, storage.nbytes())
    empty = torch.empty(0, dtype=value.dtype)
    return empty.set_(same, value.storage_offset(), value.shape, value.stride())  # type: ignore[call-overload]


class Recorder:
    def __init__(self) -> None:
        self.recorded = self.replayed = self.ordered = self.failures = 0
        self.owned = 0
        self.capturing = False
        self.waits = self.room = True
        self.written: list[torch.Tensor] = []
        """Tensors that a call writes, which recording it does not."""

    def record(self, run: Callable[[], Sequence[Any]], own: bool) -> tuple[Callable[[], None], Sequence[Any]]:
        self.recorded += 1
        self.owned += own
        before = [t.clone() for t in self.written]
        results = run()
        for t, value in zip(self.written, before, strict=True):
            t.copy_(value)
        for cell in run.__closure__ or ():  # type: ignore[attr-defined]
            if isinstance(cell.cell_contents, list):
                # a recording knows addresses, it does not hold tensors
                cell.cell_contents[:] = map(at_the_same_place, cell.cell_contents)

        def replay() -> None:
            self.replayed += 1
            for old, new in zip(results, run(), strict=True):
                old.copy_(new)

        return replay, results

    def ready(self) -> bool:
        return not self.capturing

    def order(self) -> None:
        self.ordered += 1

    def idle(self) -> bool:
        return self.waits

    def roomy(self) -> bool:
        return self.room

    def reads(self, t: torch.Tensor) -> bool:
        return t.dtype != torch.float64


class Graphed(GraphedCall):
    fake: Recorder

    def recorder(self) -> Recorder:
        return self.fake


def graph_of(run: Callable[[list[Any]], Sequence[Any]], **arguments: Any) -> Graphed:
    def boxed(inputs: list[Any]) -> Sequence[Any]:
        given = list(inputs)
        inputs.clear()
        return run(given)

    call = Graphed(boxed, Arguments(0, **arguments), launches=9)
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
        assert step.replayed[0] == max(i - 1 - WATCHED, 0)
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


def test_only_what_pays() -> None:
    """Where nobody has asked, a graph is recorded that the GPU waits for, if little is copied."""
    call, w, kept = graph_of(lambda v: (v[0] * v[1],), asked=False), torch.randn(5), []
    for i in range(WATCHED + 6):
        kept.append(torch.full((5,), float(i)))  # or the next one may be at its address
        assert torch.equal(call([kept[-1], w])[0], i * w)
    assert (call.fake.recorded, call.fake.replayed) == (1, 4)

    call, kept = graph_of(lambda v: (v[0][:1] + 1,), asked=False), []
    for i in range(2 * WATCHED + 3):
        kept.append(torch.full((8 << 20,), float(i)))
        assert float(call([kept[-1]])[0]) == i + 1
    assert call.given_up and "33554432 bytes are other tensors" in next(iter(call.sizes.values())).reason

    call = graph_of(lambda v: (v[0] + 1,), asked=False)
    call.fake.waits = False
    for _ in range(4 * WATCHED + 2):
        assert torch.equal(call([w])[0], w + 1)
    assert call.given_up and "the GPU longer" in next(iter(call.sizes.values())).reason


def test_inputs_of_the_cpu() -> None:
    call, x = graph_of(lambda v: (v[0] * float(v[1]),)), torch.randn(3)
    for i in range(4):
        assert torch.equal(call([x, torch.tensor(float(i), dtype=torch.float64)])[0], x * i)
    assert next(iter(call.sizes.values())).reason == "input 1 is in the CPU's memory"


def test_sizes() -> None:
    call, inputs = graph_of(lambda v: (v[0] * v[1],), varying=(0, 1)), [torch.ones(n) for n in range(1, MOST + 5)]
    for _ in range(3):
        for n, x in enumerate(inputs, 1):
            assert torch.equal(call([x, n])[0], torch.full((n,), float(n)))
    assert call.fake.recorded == MOST


def test_written_inputs() -> None:
    call, x = graph_of(lambda v: (v[0].add_(1).clone(),), written=(0,)), torch.zeros(3)
    call.fake.written = [x]
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

    def fail(run: Any, own: bool) -> Any:
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
    assert (call.fake.recorded, call.fake.replayed) == (2, 5) and call.fake.ordered == 5


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
    assert graphed(increment, arguments, [Call("aten.mm", "?", "")]).arguments == arguments
    for name in ("aten.nonzero", "aten._unique2", "mine.op"):
        with pytest.raises(Unrecordable, match=rf"{name} may wait for the GPU, at a.py:3"):
            graphed(increment, arguments, [Call(name, "a.py:3", "")])


@pytest.mark.parametrize(
    ("plan", "calls", "told"),
    [
        (Arguments(0), [], "recorded as a CUDA graph at its second call"),
        (Arguments(0, asked=False), [], "recorded as a CUDA graph when the GPU waits for its launches"),
        (
            Arguments(0),
            [Call("aten.nonzero", "model.py:3", "")],
            "not recorded as a CUDA graph: aten.nonzero may wait for the GPU, at model.py:3",
        ),
        (
            "it has tensors of the CPU or of several GPUs",
            [],
            "not recorded as a CUDA graph: it has tensors of the CPU or of several GPUs",
        ),
    ],
)
def test_what_explain_tells(plan: Any, calls: list[Call], told: str) -> None:
    compilation: Any = SimpleNamespace(graph=list, kernels=[{"launches": 9}], calls=calls)
    backend = Backend(Options(), lambda *_: pytest.fail("compiled"))
    _, recording = backend._recorded("inference", compilation, plan, OutputRecipe([]))  # pyright: ignore[reportPrivateUsage]
    assert recording == told
    report = GraphReport("inference", {}, [], [], [], [], "", [], recording)
    assert told in str(report)


def test_sizes_that_data_says() -> None:
    """What follows an operator whose result is as large as data says cannot be recorded: the caller waits there."""
    text = """
    func.func @main(%x: !sym.t<[8], f32, device=cuda:0>, %m: !sym.t<[8], i1, device=cuda:0>) -> !sym.t<[], f32, device=cuda:0> {
      %0 = aten.index.Tensor(%x, [%m]) : (!sym.t<[8], f32, device=cuda:0>, !sym.t<[8], i1, device=cuda:0>) -> !sym.t<[u0], f32, device=cuda:0>
      %1 = aten.sum(%0) : (!sym.t<[u0], f32, device=cuda:0>) -> !sym.t<[], f32, device=cuda:0>
      func.return %1 : !sym.t<[], f32, device=cuda:0>
    }
    """
    with pytest.raises(Unrecordable, match=r"aten.index.Tensor waits for the GPU"):
        Arguments.of(parse_module(text), ["cuda:0"])


@pytest.mark.parametrize("device", ["cuda:0", "cpu"])
def test_random_numbers(device: str) -> None:
    """Recordings know the generator of their GPU, and no other."""
    t = f"!sym.t<[2], f32, device={device}>"
    text = f"""
      func.func @main(%x: !sym.t<[2], f32, device=cuda:0>) -> {t} {{
        %r = aten.rand([2], dtype = f32, device = "{device}") : () -> {t}
        func.return %r : {t}
      }}
    """
    module = parse_module(text)
    if device == "cpu":
        with pytest.raises(Unrecordable, match=r"aten.rand draws from a generator of the CPU"):
            Arguments.of(module, {"cuda:0"})
    else:
        assert Arguments.of(module, {"cuda:0"}) == Arguments(0)
