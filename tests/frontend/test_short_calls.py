"""What stands between the code that TorchDynamo makes of a function and its graph."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest
import torch
from torch._C._dynamo.eval_frame import get_eval_frame_callback  # pyright: ignore
from torch._dynamo.utils import counters

import lamella
from lamella.frontend.torch_state import cache_entries, nothing_for_nobody

STATES: list[Any] = []
FAIL = [False]


@torch.library.custom_op("lamella_short_calls::looks", mutates_args=())
def looks(x: torch.Tensor) -> torch.Tensor:
    STATES.append(get_eval_frame_callback())
    if FAIL[0]:
        raise ValueError("as asked")
    return x + 1


@looks.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def sine(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2


def looking(x: torch.Tensor) -> torch.Tensor:
    return looks(x.sin()) * 2


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("process", ["first", "second"])
def test_a_graph_is_one_call_of_python_away(process: str) -> None:
    x = torch.randn(8)
    program = lamella.compile(sine)
    with torch.no_grad():
        program(x)
        if process == "second":
            torch._dynamo.reset()
            counters.clear()
            program(x)
            assert counters["lamella"]["traces reused"] == 1
        (entry,) = cache_entries(sine.__code__)
        called: list[str] = []

        def note(frame: FrameType, event: str, _: Any) -> None:
            if event == "call":
                called.append(frame.f_code.co_name)

        names = [name for name in entry.code.co_names if name in sine.__globals__]
        (graph,) = (sine.__globals__[name] for name in names if name.startswith("__compiled_fn"))
        sys.setprofile(note)
        try:
            graph(x)
        finally:
            sys.setprofile(None)
    assert len(called) == 1
    assert not [name for name in entry.code.co_names if "record" in name]


@pytest.mark.parametrize("read", [False, True], ids=["unread", "read"])
def test_guards_are_timed_for_logs_alone(read: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    timed: list[Any] = []
    guards: Any = sys.modules["torch._dynamo.guards"]
    monkeypatch.setattr(guards, "profile_guard_manager", lambda *given: timed.append(given) or 0.0)
    monkeypatch.setattr(guards.guards_log, "level", logging.DEBUG if read else logging.WARNING)
    guards.guards_log.manager._clear_cache()
    x = torch.randn(8)
    with torch.no_grad():
        for _process in ("first", "second"):
            torch._dynamo.reset()
            torch.testing.assert_close(lamella.compile(sine)(x), sine(x))
            assert bool(timed) == read
            timed.clear()
        torch.compile(sine, backend="eager")(x)
    assert timed


@pytest.mark.parametrize("log", ["output_graph.trace_call_log", "symbolic_convert.trace_source_log", None])
def test_sources_are_read_for_logs_alone(
    log: str | None, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    read: list[Any] = []
    convert: Any = sys.modules["torch._dynamo.symbolic_convert"]
    monkeypatch.setattr(convert, "get_funcname", lambda *given: read.append(given))
    if log is not None:
        module, name = log.split(".")
        logger: Any = getattr(sys.modules[f"torch._dynamo.{module}"], name)
        request.addfinalizer(lambda level=logger.level: logger.setLevel(level))
        logger.setLevel(logging.DEBUG)
        monkeypatch.setattr(logger, "propagate", False)
    x = torch.randn(8)
    with torch.no_grad():
        torch._dynamo.reset()
        torch.testing.assert_close(lamella.compile(sine, options={"traces": False})(x), sine(x))
        assert bool(read) == (log is not None)
        read.clear()
        torch._dynamo.reset()
        torch.compile(sine, backend="eager")(x)
    assert read


def test_the_function_of_local_map_is_still_found() -> None:
    from torch._dynamo.variables.higher_order_ops import LocalMapWrappedHigherOrderVariable
    from torch.distributed.tensor.experimental._func_map import _local_map_wrapped

    local_map: Any = LocalMapWrappedHigherOrderVariable
    with nothing_for_nobody(), local_map.enable():
        assert local_map.should_wrap_in_hop(_local_map_wrapped)
        assert not local_map.should_wrap_in_hop(sine)


def test_torchdynamo_is_off_in_a_graph_and_on_behind_it() -> None:
    x = torch.randn(8)
    program = lamella.compile(looking)
    with torch.no_grad():
        torch.testing.assert_close(program(x), looking(x))
        STATES.clear()
        torch.testing.assert_close(program(x), (x.sin() + 1) * 2)
        FAIL[0] = True
        try:
            with pytest.raises(ValueError, match="as asked"):
                program(x)
        finally:
            FAIL[0] = False
        assert STATES == [None, None]
        assert get_eval_frame_callback() is None
        (entry,) = cache_entries(looking.__code__)
        torch.testing.assert_close(program(x[:4]), looking(x[:4]))  # another shape is still compiled
        assert len(cache_entries(looking.__code__)) == 2
        assert entry.code in [e.code for e in cache_entries(looking.__code__)]
