"""Launches and calls of a host program as torch.profiler sees them (option `profile`).

Torch tells its profiler of what goes through its dispatcher, which kernels do not, nor do calls of its C shim.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from xdsl.dialects.builtin import i64

from .host_frame import Frame


@contextmanager
def recorded(frame: Frame, name: str, profile: bool) -> Generator[None]:
    """What is written in the context, which does not leave, is an event of this name (`RecordFunction`)."""
    if not profile:
        yield
        return
    guard, none = frame.words(1), frame.b.constant(0, i64)
    frame.shim("aoti_record_function_start", frame.string(name), frame.null, frame.null, none, guard)
    yield
    frame.call("aoti_record_function_end", frame.load(guard))


def event_of(name: str) -> str:
    """The name of an operator's events: `aten::mm.out` of `aten.mm.out`."""
    return name.replace(".", "::", 1)
