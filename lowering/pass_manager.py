"""Runs passes over a module, with what an engineer wants to see: verification, printing, timing, reproducers."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from ..dialects.collection import without_collection
from ..dialects.context import make_context
from ..dialects.errors import LamellaError, LamellaVerifyError
from ..dialects.text import print_module
from ..dialects.verify import verify
from .pipeline_text import pipeline_text

Hook = Callable[[int, ModulePass, ModuleOp], None]
"""Called with the index of a pass in the pipeline, the pass, and the module."""


class PassError(Exception):
    """A pass failed by a bug: it raised, or left a module that does not verify.

    `reproducer` is the file from which `lamella-opt` runs into it again, where one was written.
    """

    def __init__(self, name: str, message: str, reproducer: Path | None = None) -> None:
        super().__init__(f"pass '{name}' {message}")
        self.name = name
        self.reproducer = reproducer


@dataclass(frozen=True)
class PassRecord:
    """What one pass took and did. Milliseconds; the op counts are 0 unless asked for."""

    name: str
    apply_ms: float
    verify_ms: float
    ops_before: int
    ops_after: int
    statistics: dict[str, int]


def record(name: str, start: float) -> PassRecord:
    """What is no pass and was begun at `start` (of `time.perf_counter`), as records say it."""
    return PassRecord(name, (time.perf_counter() - start) * 1e3, 0.0, 0, 0, {})


@dataclass
class PassManager:
    """A pipeline and how to run it.

    `verify` checks the module before the first pass and after each. `before` and `after` are called around each pass.
    `count_ops` fills in the op counts of the records. With `reproducer`, the module is kept before each pass, so that a
    pass that fails leaves the file behind.
    """

    passes: Sequence[ModulePass]
    ctx: Context = field(default_factory=make_context)
    verify: bool = False
    before: Sequence[Hook] = ()
    after: Sequence[Hook] = ()
    count_ops: bool = False
    reproducer: Path | None = None

    def split(self, name: str) -> tuple[PassManager, PassManager]:
        """The passes before the one of this name, and the others."""
        at = next(i for i, p in enumerate(self.passes) if p.name == name)
        return replace(self, passes=self.passes[:at]), replace(self, passes=self.passes[at:])

    def run(self, module: ModuleOp) -> list[PassRecord]:
        """Apply the passes to `module`, in place.

        Raises `LamellaError` for what the user can mend, and `PassError` for what is a bug in a pass.
        """
        with without_collection():
            if self.verify:
                verify(module)
            return [self._run_pass(index, p, module) for index, p in enumerate(self.passes)]

    def _run_pass(self, index: int, p: ModulePass, module: ModuleOp) -> PassRecord:
        for hook in self.before:
            hook(index, p, module)
        ops_before = count_ops(module) if self.count_ops else 0
        snapshot = module.clone() if self.reproducer is not None else None
        start = time.perf_counter()
        self._apply(index, p, module, snapshot)
        applied = time.perf_counter()
        if self.verify:
            self._verify_after(index, p, module, snapshot)
        verified = time.perf_counter()
        for hook in self.after:
            hook(index, p, module)
        return PassRecord(
            p.name,
            (applied - start) * 1e3,
            (verified - applied) * 1e3,
            ops_before,
            count_ops(module) if self.count_ops else 0,
            dict(getattr(p, "statistics", {})),
        )

    def _apply(self, index: int, p: ModulePass, module: ModuleOp, snapshot: ModuleOp | None) -> None:
        try:
            p.apply(self.ctx, module)
        except LamellaError:
            raise
        except PassFailedException as error:
            raise LamellaError(f"pass '{p.name}' cannot go on: {error}") from error
        except Exception as error:  # a pass may fail in any way; whichever it is, name the pass and keep its input
            message = f"raised {type(error).__name__}: {next(iter(str(error).splitlines()), '')}".rstrip(": ")
            raise PassError(p.name, message, self._reproduce(index, snapshot, message)) from error

    def _verify_after(self, index: int, p: ModulePass, module: ModuleOp, snapshot: ModuleOp | None) -> None:
        try:
            verify(module)
        except LamellaVerifyError as error:
            message = f"left a module that does not verify: {error}"
            raise PassError(p.name, message, self._reproduce(index, snapshot, message)) from error

    def _reproduce(self, index: int, snapshot: ModuleOp | None, message: str) -> Path | None:
        """Write the module before pass `index`, under a line that runs it and the passes after it again."""
        if self.reproducer is None or snapshot is None:
            return None
        pipeline = shlex.quote(pipeline_text(self.passes[index:]))
        text = f"// RUN: lamella-opt %s -p {pipeline}\n// {message}\n{print_module(snapshot, locations=True)}\n"
        try:
            self.reproducer.parent.mkdir(parents=True, exist_ok=True)
            self.reproducer.write_text(text, encoding="utf-8")
        except OSError:  # what failed is the pass: say that, without a file
            return None
        return self.reproducer


def count_ops(module: ModuleOp) -> int:
    """Ops in `module`, itself included."""
    return sum(1 for _ in module.walk())


@dataclass
class IRPrinter:
    """Hooks that print the module around passes, each under a line that says where.

    `names` are pass names, or empty for all. With `changed_only`, `after` prints only what differs from the last time.
    """

    stream: IO[str]
    names: frozenset[str] = frozenset()
    locations: bool = False
    generic: bool = False
    changed_only: bool = False
    _last: str = field(default="", init=False)

    def remember(self, index: int, p: ModulePass, module: ModuleOp) -> None:
        """A `before` hook that `changed_only` needs."""
        self._last = self._text(module)

    def before(self, index: int, p: ModulePass, module: ModuleOp) -> None:
        if not self.names or p.name in self.names:
            self._print(f"before {p.name}", self._text(module))

    def after(self, index: int, p: ModulePass, module: ModuleOp) -> None:
        if self.names and p.name not in self.names:
            return
        text = self._text(module)
        if self.changed_only and text == self._last:
            self.stream.write(f"// -----// IR after {p.name}: no change //----- //\n")
        else:
            self._print(f"after {p.name}", text)

    def _text(self, module: ModuleOp) -> str:
        return print_module(module, locations=self.locations, generic=self.generic)

    def _print(self, what: str, text: str) -> None:
        self.stream.write(f"// -----// IR {what} //----- //\n{text}\n")


def timing_table(records: Sequence[PassRecord]) -> str:
    """A table of the passes' times and op counts."""
    lines = [f"{'pass':<24} {'apply ms':>10} {'verify ms':>10} {'ops before':>11} {'ops after':>10}"]
    lines += [
        f"{r.name:<24} {r.apply_ms:>10.2f} {r.verify_ms:>10.2f} {r.ops_before:>11} {r.ops_after:>10}" for r in records
    ]
    apply_ms, verify_ms = sum(r.apply_ms for r in records), sum(r.verify_ms for r in records)
    lines.append(f"{'total':<24} {apply_ms:>10.2f} {verify_ms:>10.2f}")
    return "\n".join(lines)


def statistics_table(records: Sequence[PassRecord]) -> str:
    """A line for each thing that a pass counted."""
    lines = [
        f"{record.name:<24} {count:>8}  {what}"
        for record in records
        for what, count in sorted(record.statistics.items())
    ]
    return "\n".join(lines) or "no pass reported statistics"
