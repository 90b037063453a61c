"""Python's global lock in host programs: held, but while a launch or a call into torch is long."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager

from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute, SSAValue

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
        long = b.icmp("sge", total, b.constant(LONG - fixed, i64))
        [state] = b.when(long, lambda: [frame.get("PyEval_SaveThread")], [frame.null])
        yield
        b.when(b.icmp("ne", state, frame.null), lambda: _restore(frame, state))


def _restore(frame: Frame, state: SSAValue) -> list[SSAValue]:
    frame.call("PyEval_RestoreThread", state)
    return []
