"""Machine code of a module's kernels, made while passes go on with others and with what launches them.

The functions of a kernel do not change once `kernel-to-llvm` has made them (`KernelToLlvm.made`). Their text is given
to LLVM in other threads, some kernels at a time, and what is left of the module when all of it is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from .archive import pack
from .jit import compile_object
from .llvm_parts import WORTH_A_PART, closure, emit_parts, public
from .llvm_rows import Names
from .llvm_text import Piece, join, pieces
from .target import CpuTarget

if TYPE_CHECKING:
    from xdsl.dialects import llvm
    from xdsl.dialects.builtin import ModuleOp

_ENOUGH = WORTH_A_PART
"""Characters of text that are given to LLVM at a time: tens of milliseconds, of which a module by itself takes 2."""


class Ahead:
    """The kernels of one module, as LLVM takes them. To be left (`with`) once the code is there, or is not wanted."""

    def __init__(self, target: CpuTarget) -> None:
        self._target = target
        self._pool = ThreadPoolExecutor(target.cores, thread_name_prefix="lamella-llvm")
        self._names = Names({})
        self._known: dict[llvm.FuncOp, Piece] = {}
        self._public: dict[str, Piece] = {}
        """What any part may name, by symbol."""
        self._waiting: list[str] = []
        self._started: dict[str, Piece] = {}
        """What a part has that LLVM has been given, as it is declared to others."""
        self._objects: list[Future[bytes]] = []

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def take(self, functions: Sequence[llvm.FuncOp]) -> None:
        """Functions that are not changed any more; those that they call are among them, or have been taken. Raises
        CodegenError for what has no text.
        """
        found = pieces(functions, self._names)
        self._known |= zip(functions, found, strict=False)
        for piece in found:
            self._public[piece.symbol] = public(piece)
        self._waiting += (p.symbol for p in found if p.text != p.stub)
        if sum(len(self._public[symbol].text) for symbol in self._waiting) >= _ENOUGH:
            self._start(join(closure(self._waiting, self._public)))
            for piece in map(self._public.__getitem__, self._waiting):
                self._started[piece.symbol] = Piece(piece.symbol, piece.stub, piece.stub)
            self._waiting = []

    def finish(self, module: ModuleOp) -> bytes:
        """Machine code of a module of llvm ops, an object or an archive of several. Raises CodegenError."""
        cores, names = self._target.cores, self._names
        for text in emit_parts(module, cores, names=names, known=self._known, elsewhere=self._started):
            self._start(text)
        return pack([made.result() for made in self._objects])

    def _start(self, text: str) -> None:
        self._objects.append(self._pool.submit(compile_object, text, self._target))
