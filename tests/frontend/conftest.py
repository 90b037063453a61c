"""Fixtures of the frontend's tests."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from xdsl.dialects.builtin import ModuleOp

from lamella.codegen.interpreter import run_module
from lamella.dialects.text import parse_module, print_module
from lamella.dialects.verify import verify
from lamella.driver import Options
from lamella.frontend import partition
from lamella.frontend.backend import Backend
from lamella.frontend.fast_entry import Ways
from lamella.frontend.partition import Choice


@dataclass
class Interpreted:
    """Stands for `driver.Compilation`."""

    graph: Callable[[list[Any]], list[Any]]
    kernels: list[Any] = field(default_factory=list)
    calls: list[Any] = field(default_factory=list)
    decisions: list[Any] = field(default_factory=list)
    times: dict[str, float] = field(default_factory=dict[str, float])


@dataclass
class Recorder:
    """A backend that keeps the text of every module it is given."""

    texts: list[str] = field(default_factory=list)
    eager: list[str] = field(default_factory=list)
    """Why graphs ran eagerly."""
    options: Options = field(default_factory=Options)

    def compile(self, module: ModuleOp, options: Options) -> Any:
        verify(module)
        text = print_module(module, locations=True)
        again = parse_module(text)
        verify(again)
        assert print_module(again, locations=True) == text
        self.texts.append(text)
        return Interpreted(lambda inputs: run_module(again, inputs, check=True))

    @property
    def backend(self) -> Callable[..., Any]:
        def note(event: Any) -> None:
            if event.reason:
                self.eager.append(event.reason)

        return Backend(self.options, compile=self.compile, watch=note)


@pytest.fixture
def recorder() -> Recorder:
    """A backend that runs modules from their text and keeps it: `torch.compile(f, backend=recorder.backend)`."""
    torch.manual_seed(0)
    return Recorder()


@pytest.fixture
def choices(monkeypatch: pytest.MonkeyPatch) -> list[Choice]:
    """What is saved and computed again in each joint graph that is parted."""
    seen: list[Choice] = []
    choose = partition.choose

    def noting(*given: Any) -> Choice:
        seen.append(choose(*given))
        return seen[-1]

    monkeypatch.setattr(partition, "choose", noting)
    torch._dynamo.reset()
    return seen


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug of the compiler is an error."""
    monkeypatch.setenv("LAMELLA_STRICT", "1")


@pytest.fixture
def compiled(strict: None, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No graph runs eagerly, nor does a part of one but for the reason that the mark `eager_part` gives."""
    yield
    # `caplog.records` is of the phase that runs: here, of what comes after the test.
    records = [r for r in caplog.get_records("call") if r.name == "lamella" and r.levelno >= logging.WARNING]
    mark: pytest.Mark | None = request.node.get_closest_marker("eager_part")
    expected = {f"a part of a graph runs eagerly: {mark.args[0]}"} if mark else set[str]()
    assert {r.getMessage() for r in records} == expected


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts the calls of fast entries that go through torch.compile."""
    calls = [0]
    through = Ways.through

    def counted(self: Ways, *args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        return through(self, *args, **kwargs)

    monkeypatch.setattr(Ways, "through", counted)
    return calls
