"""Random programs through the whole compiler against eager: the first of the nightly set (`lamella.tools.fuzz`), and
some of hypothesis, which makes them smaller where they fail.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lamella.lowering.options import Options
from lamella.tools.fuzz import CALLED_FROM, WHOLE_FROM, WIDE_FROM, apart, program_of
from lamella.tools.fuzz_calls import THREADS, at_once
from lamella.tools.fuzz_check import Notes, _nearby, _reference, check, fault  # pyright: ignore[reportPrivateUsage]
from lamella.tools.fuzz_program import Program, Step, generate, generate_whole
from lamella.tools.fuzz_values import Chooser
from lamella.tools.op_compare import Mismatch

OPTIONS = Options(cache=False, strict=True)
CHUNK = 20


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", range(0, 300, CHUNK))
def test_first_programs(first: int) -> None:
    for seed in range(first, first + CHUNK):
        program = program_of(seed)
        said = fault(program, OPTIONS)
        assert said is None, f"seed {seed}: {said}\n{program}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("first", range(WHOLE_FROM, WHOLE_FROM + 60, CHUNK))
def test_first_whole_programs(first: int) -> None:
    test_first_programs(first)


@pytest.mark.filterwarnings("ignore")
def test_first_wide_programs() -> None:
    test_first_programs(WIDE_FROM)


@pytest.mark.filterwarnings("ignore")
def test_wide_programs_have_what_others_lack() -> None:
    others, wide = ("".join(str(program_of(first + i)) for i in range(60)) for first in (CALLED_FROM, WIDE_FROM))
    for text in (
        "accumulate=True",
        "overlapping(",
        "single(",
        "swapped(",
        "raised(",
        "scatter_reduce_(",
        "torch.empty(0,",
    ):
        assert text in wide and text not in others, text


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_whole_program(data: st.DataObject) -> None:
    program = generate_whole(Chooser(lambda n: data.draw(st.integers(0, n - 1))), 3, 10)
    assert fault(program, OPTIONS) is None, str(program)


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_program(data: st.DataObject) -> None:
    program = generate(Chooser(lambda n: data.draw(st.integers(0, n - 1))), 3, 10)
    assert fault(program, OPTIONS) is None, str(program)


# The tool itself


def program(*lines: str, mode: str = "forward", **inputs: str) -> Program:
    steps = [Step(f"v{i}", line, 0.0, False) for i, line in enumerate(lines)]
    return Program(mode, tuple(inputs.items()), tuple(steps), (steps[-1].name,))


def test_programs_are_the_same_each_time() -> None:
    assert str(program_of(7)) == str(program_of(7)) != str(program_of(8))


def test_calls_have_sizes_and_numbers_of_their_own() -> None:
    x = "torch.randn([n], generator=seeded(1))"
    whole = replace(program("x + 1", x=x, mode="sizes"), sizes=((("n", 3),), (("n", 5),)))
    first, second = (whole.arguments(call)[0] for call in range(2))
    assert first.shape == (3,) and second.shape == (5,) and first[0] != second[0]
    check(whole, OPTIONS)


@pytest.mark.filterwarnings("ignore")
def test_calls_are_made_in_several_ways() -> None:
    ways = ("", "wide", "turned", "derivatives", "inference", "threads")
    whole = replace(program("x * 2", x="torch.ones(3, 4)", mode="compile"), sizes=((),) * len(ways), ways=ways)
    wide, other, derived = (whole.arguments(call)[0] for call in (1, 2, 3))
    assert wide.dtype == torch.float64 and other.stride() == (1, 3) and derived.requires_grad
    results = [whole.called(call).run(whole.function(), whole.arguments(call)) for call in range(len(ways))]
    assert [len(r) for r in results] == [1, 1, 1, 2, 1, 1] and results[4][0].is_inference()
    check(whole, OPTIONS)


def test_settings_of_calls_at_once_are_put_back() -> None:
    """With torch 2.11 those that are set by each call are the process's."""
    inside, over = threading.Barrier(2, timeout=60), threading.Event()

    def made(graph: torch.fx.GraphModule, _: object) -> Callable[..., object]:
        def run(*args: object) -> object:
            if args[-1] is waits:
                first = inside.wait() == 0
                assert first or over.wait(60)
            return graph(*args)

        return run

    waits = torch.ones(3)
    compiled = torch.compile(lambda x: x * 2, backend=made, dynamic=False)
    compiled(torch.zeros(3))

    def call(_: int) -> object:
        found = compiled(waits)
        over.set()
        return found

    at_once(call, 2)
    assert torch._dynamo.config.automatic_dynamic_shapes  # pyright: ignore[reportAttributeAccessIssue]


def test_threads_that_compute_another_thing_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = replace(program("x * 2", x="torch.ones(3)", mode="compile"), ways=("threads",))
    monkeypatch.setattr("lamella.tools.fuzz_check.at_once", lambda call: [[torch.ones(3)]] * THREADS)
    with pytest.raises(Mismatch, match="of several threads"):
        check(whole, OPTIONS)


def test_references_are_in_double_precision() -> None:
    """Also of whole numbers that become floats; and regions of autocast have the errors of its dtype."""
    whole = program("2.5 - x.int()", "autocast(lambda a: a @ a.mT, v0)", x="torch.ones(3, 3, dtype=torch.uint8)")
    clean, disturbed = (_reference(whole, seed, 0)[0] for seed in (None, 0))
    assert clean.dtype == torch.float64 and 1e-4 < (clean - disturbed).abs().max() < 0.2
    assert torch.get_default_dtype() == torch.float32


def test_a_result_that_should_not_share_memory_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right, wrong = (
        replace(program("x + 1", v, x="torch.ones(3)", mode="compile"), results=("v0", "v1"))
        for v in ("v0.clone()", "v0.view(3)")
    )
    made = iter((right.function(), wrong.function()))
    monkeypatch.setattr(Program, "function", lambda self, device="cpu": next(made))
    with pytest.raises(Mismatch, match="lie in"):
        check(right, OPTIONS)


def test_a_wrong_result_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    check(program("x * 2", x="torch.ones(3)"), OPTIONS)
    # eager's program, and what is compiled, differ
    right, wrong = program("x * 2", x="torch.ones(3)").function(), program("x * 3", x="torch.ones(3)").function()
    made = iter((wrong, right))
    monkeypatch.setattr(Program, "function", lambda self, device="cpu": next(made))
    with pytest.raises(Mismatch, match="not close"):
        check(program("x * 2", x="torch.ones(3)"), OPTIONS)


@pytest.mark.parametrize(
    ("alone", "whose"),
    [
        ("wrong: result 0: Tensor-likes are not close!", "torch's"),
        ("wrong: result 0 has strides (1,)", "ours"),
        ("error: RuntimeError: it does not trace", "ours"),
        (None, "ours"),
    ],
)
def test_what_torch_alone_has_too_is_a_fault_of_that_kind(
    alone: str | None, whose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "wrong: result 1: Tensor-likes are not equal!"
    monkeypatch.setattr(
        "lamella.tools.fuzz_check._said", lambda program, compiler, *_: said if compiler is OPTIONS else alone
    )
    notes = Notes()
    assert fault(program("x + 1", x="torch.ones(3)", mode="compile"), OPTIONS, notes) == (
        said if whose == "ours" else None
    )
    assert bool(notes.torch) == (whose == "torch's")


def test_smaller_programs() -> None:
    whole = program("x + 1", "v0 * 2", "v0.exp()", "v1 + v2", x="torch.ones(3)", y="torch.ones(2)")
    texts = [[s.text for s in p.steps] for p in whole.smaller()]
    assert ["x + 1", "v0 * 2", "v0.exp()"] in texts and ["x + 1", "v0 * 2"] in texts
    assert any([n for n, _ in p.inputs] == ["x"] for p in whole.smaller())


def test_a_process_that_ends_is_a_fault() -> None:
    def work(seed: int) -> dict[str, object]:
        if seed == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"seed": seed}

    records = list(apart([0, 1, 2], work))
    assert [r["seed"] for r in records] == [0, 1, 2] and "ended with code -9" in records[1]["fault"]


@pytest.mark.filterwarnings("ignore")
def test_derivatives_of_what_is_expanded() -> None:
    """How far off eager is, is asked of arguments that repeat themselves, too."""
    text = "torch.linspace(-3, 3, 16).half().expand(16, 16)"
    steps = (Step("v0", "x0.expm1()", 0.0, False), Step("v3", "F.elu(v0)", 0.0, False))
    nearby = _nearby(Program("train", (("x0", text),), steps, ("v3",)), 0, 0)
    assert nearby[-1].stride() == (0, 1) and not torch.equal(nearby[-1], eval(text))
