"""What fusion saves, in bytes and microseconds: a roofline of one machine, used to compare, never to promise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.ir import SSAValue

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.loop import LoopDim
from ..dialects.symbol_kinds import INTEGERS, symbol_kind
from ..dialects.tensor import itemsize
from .fuse_graph import Node, Read, tensor_type

BYTES_PER_OP = 0.5
"""Memory traffic that takes as long as one vectorised add of one element."""

BYTES_PER_US = 10_000.0
"""What one core moves."""

LAUNCH_US, FORK_US = 0.5, 4.0
"""A launch by itself, and sharing it among threads."""

LINE = 64
"""Bytes that are fetched together."""

WRITE = 1.5
"""A write also reads the line it goes to, unless it is streamed."""


@dataclass(frozen=True)
class Machine:
    """Cache sizes in bytes, and the number of threads that a launch should keep busy, where all are free for it.

    How sums are cut may depend on `threads`, which is the machine's: results are then the same whatever torch uses.
    `hold` is what a grid point keeps of a row from loop to loop, half of `l2` where it is 0. `rows` is how many a part
    of a reduction to columns has at least. `strips`: in how many, about, rows are cut whose columns a grid point adds
    up as it takes one after the other; 0: it takes no rows in turn. `sums`: how many columns it adds up at most, in
    registers; 0: any, in memory. `one_pass`: the variance of a row that is not at hand reads it once.
    `launch` and `fork` are microseconds, `speed` the bytes that one thread moves in one, `op` those in the time of an
    add of an element. `reuse`: how many rows or columns of a product use an element of the other factor once it is at
    hand. `parts`: sums may be made in parts that depend on how many sums there are, and so may what is fused; else
    bytes alone count. `runs`: of how many rows sums of columns are made at a time where a few long runs of memory are
    read faster than many short ones; 0 where not.
    """

    l1: int = 48 << 10
    l2: int = 2 << 20
    l3: int = 32 << 20
    threads: int = 16
    hold: int = 0
    rows: int = 0
    one_pass: bool = False
    strips: int = 32
    sums: int = 0
    launch: float = LAUNCH_US
    fork: float = FORK_US
    speed: float = BYTES_PER_US
    op: float = BYTES_PER_OP
    reuse: int = 8
    parts: bool = True
    runs: int = 0

    def time(self, work: float, points: int) -> float:
        """Microseconds for a kernel that moves `work` bytes in `points` independent parts."""
        serial = work / self.speed
        if not self.parts:
            return serial
        parallel = self.fork + serial / max(1, min(points, self.threads))
        return self.launch + min(serial, parallel)

    @property
    def in_order(self) -> bool:
        """Whether each thread should read rows of its own, as they lie, to add up columns."""
        return self.runs == 1

    def far(self, read: int, size: int) -> bool:
        """Whether sums of columns wait for memory: `read` bytes, of elements of `size`. Where threads read whole rows,
        sums are read and written with each element, which takes longer than a narrow one of the last cache.
        """
        if not self.in_order:
            return read > self.l2
        return read > (4 * self.l2 if size >= 4 else self.l3 // 2)

    @property
    def row(self) -> int:
        """Bytes of a row that is at hand when it is needed again."""
        return self.hold or self.l2 // 2

    @property
    def scratch(self) -> int:
        """Bytes that a grid point may keep in a buffer of its own."""
        return self.hold or self.l2


class Hints:
    """Sizes as seen when compiling; what is unknown counts as `DEFAULT`."""

    DEFAULT = 512

    def __init__(self, values: dict[str, int]) -> None:
        self.values = values
        self._known: dict[Any, int] = {}

    def size(self, e: Dim) -> int:
        """A guess at the number that `e` is."""
        if isinstance(e, int):
            return e
        n = self._known.get(e)
        if n is None:
            # a part of a dim is taken for the first one: its bounds have the dim that counts parts
            values = {
                s.name: self.values.get(s.name, self.DEFAULT * (symbol_kind(s.name) in INTEGERS))
                for s in expr.symbols(e)
            }
            try:
                n = max(0, int(expr.evaluate(e, values)))
            except ZeroDivisionError:  # by a float of which nothing is known
                n = self.DEFAULT
            self._known[e] = n
        return n

    def points(self, dims: tuple[LoopDim, ...]) -> int:
        """A guess at the number of points of a domain."""
        n = 1
        for d in dims:
            n *= self.size(d.extent)
        return n

    def bytes(self, v: SSAValue) -> int:
        """A guess at the bytes of a tensor."""
        t = tensor_type(v)
        n = itemsize(t.dtype)
        for d in t.shape:
            n *= self.size(d)
        return n

    def traffic(self, n: Node, read: Read) -> int:
        """A guess at the bytes that a read of a nest moves: each element once, and no more than there are points."""
        moving = {s for e in read.index for s in expr.symbols(e)}
        moving |= {s for d in n.domain if d.lo != 0 and d.symbol in moving for s in expr.symbols(d.lo)}
        points = itemsize(tensor_type(read.source).dtype)
        for d in n.runs:
            if d.symbol in moving or not read.whole:
                points *= self.size(d.extent)
        return min(points, self.bytes(read.source))


def shown(n: float) -> str:
    """A number of bytes as people read it: `3.1 MB`."""
    for unit in ("B", "KB", "MB"):
        if n < 1000:
            return f"{n:.3g} {unit}"
        n /= 1000
    return f"{n:.3g} GB"
