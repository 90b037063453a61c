"""Python's global lock in host programs: held, but while a launch or a call into torch is long."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager

from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute

from ..dialects.tensor import TensorType
from .host_frame import Frame
from .storage import storage_bytes

LONG = 1 << 19
"""Bytes of the tensors of a launch or call from which on it lets other threads run: it then takes a hundred times as
long as giving the lock away and taking it again.
"""


@contextmanager
def released(frame: Frame, types: Iterable[Attribute]) -> Generator[None]:
    """What is written in the context runs without the lock if tensors of these types are large. It must not touch
    Python or the pools of memory.
    """
    sizes = [storage_bytes(t) for t in types if isinstance(t, TensorType)]
    fixed = sum(s for s in sizes if isinstance(s, int))
    # sizes that the call itself gives are not known before it
    symbolic = list(dict.fromkeys(s for s in sizes if not isinstance(s, int) and frame.knows(s)))
    if fixed >= LONG:
        state = frame.get("PyEval_SaveThread")
        yield
        frame.call("PyEval_RestoreThread", state)
    elif not symbolic:
        yield
    else:
        b = frame.b
        total = frame.number(symbolic[0])
        for size in symbolic[1:]:
            total = b.add(total, frame.number(size))
        state = frame.get("lamella_release", total, b.constant(LONG - fixed, i64))
        yield
        frame.call("lamella_retake", state)
