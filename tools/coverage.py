"""`python -m lamella.tools.coverage`: torch's operator database through the whole compiler, as a table."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from . import places, workers
from .arguments import names, pattern, shard
from .coverage_report import ALL, DTYPES, TEMPLATE, WITHOUT_FAULT, kinds, parts
from .op_check import MODES, STATUSES, Outcome
from .op_devices import DEVICES

Key = tuple[str, str, str, str]
"""Operator, dtype, mode and device."""


@dataclass(frozen=True)
class Task:
    """An operator of the database, by its place there, with a dtype, a mode and a device."""

    place: int
    operator: str
    dtype: str
    mode: str
    device: str

    @property
    def key(self) -> Key:
        return self.operator, self.dtype, self.mode, self.device


def tasks(pattern: str, columns: Sequence[tuple[str, str]], shard: tuple[int, int], device: str = "cpu") -> list[Task]:
    """Operators whose name the pattern matches as a whole, by those of the columns (dtype and mode) that they support
    on the device. Those come first that kernels are for.

    Shards deal the operators in turn: shard `i` of `n` has every n-th, from the i-th on.
    """
    import torch

    from .op_check import name_of, operators, supports

    chosen: list[Task] = []
    for place, op in enumerate(operators()):
        if place % shard[1] != shard[0] or not re.fullmatch(pattern, name_of(op)):
            continue
        chosen += [
            Task(place, name_of(op), dtype, mode, device)
            for dtype, mode in columns
            if supports(op, getattr(torch, dtype), mode, device)
        ]
    kind = kinds()
    return sorted(chosen, key=lambda task: kind[task.operator] == "other")


def work(connection: Connection, place: int, device: str, samples: int) -> None:
    """Checks the tasks it is sent (`workers.Work`), until its GPU is lost to it."""
    import warnings

    import torch

    from .op_check import check, operators
    from .op_devices import is_lost, prepare

    warnings.simplefilter("ignore")
    prepare(device, place)  # importing the database ends that settings can be made
    ops = operators()
    with open(os.devnull, "w") as silence:
        sys.stdout = sys.stderr = silence
        lost = False
        while not lost and (task := connection.recv()) is not None:
            try:
                outcome = check(ops[task.place], getattr(torch, task.dtype), samples, task.mode, task.device)
            except Exception as error:  # no samples can be made
                outcome = Outcome(*task.key).fail("error", f"{type(error).__name__}: {error}")
            lost = is_lost()
            if lost and outcome.status in WITHOUT_FAULT:
                outcome.fail("error", "the GPU is lost after the call")
            connection.send((outcome, lost))


def failed(task: Task, reason: str) -> Outcome:
    """The outcome of a task whose process has died or takes too long."""
    return Outcome(*task.key).fail("error", reason)


def run(
    todo: Sequence[Task], samples: int, jobs: int, timeout: float, minutes: float
) -> Iterator[tuple[Task, Outcome]]:
    """Outcomes of tasks, all of one device, as they come (`workers.run`)."""
    if todo:
        work_there = partial(work, device=todo[0].device, samples=samples)
        yield from workers.run(todo, work_there, failed, jobs, timeout, minutes)


def read(path: Path) -> dict[Key, Outcome]:
    """Outcomes kept by an earlier run, the last of each task."""
    if not path.exists():
        return {}
    kept = [Outcome(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    return {(o.operator, o.dtype, o.mode, o.device): o for o in kept}


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 where an operator is wrong or fails."""
    parser = argparse.ArgumentParser("lamella.tools.coverage", description=__doc__)
    parser.add_argument("--dtypes", type=names(DTYPES), default="float32,int64,bool,bfloat16", help="comma-separated")
    parser.add_argument(
        "--modes", type=names(MODES), default="forward", help=f"how operators are run: {', '.join(MODES)}"
    )
    parser.add_argument("--all", action="store_true", help="the dtypes and modes of docs/coverage.md instead")
    parser.add_argument("--device", default="cpu", choices=DEVICES, help="where they are run")
    parser.add_argument("--ops", type=pattern, default=".*", help="a regular expression that whole names match")
    parser.add_argument("--samples", type=int, default=3, help="sample inputs per operator and dtype")
    parser.add_argument("--shard", type=shard, default="0/1", help="i/n: every n-th operator, from the i-th on")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--minutes", type=float, default=0.0, help="begin no more tasks after so long; 0: no limit")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for an operator with a dtype")
    parser.add_argument("--resume", type=Path, help="a file to keep outcomes in, and to take them from")
    parser.add_argument("--again", action="store_true", help="run what is a fault in that file once more")
    parser.add_argument("--out", type=Path, help="the document whose tables are written, of all outcomes in the file")
    options = parser.parse_args(argv)
    product = [(dtype, mode) for mode in options.modes for dtype in options.dtypes]
    chosen = tasks(options.ops, ALL if options.all else product, options.shard, options.device)
    if not chosen:
        parser.error(f"argument --ops: no operator of this shard matches {options.ops!r} with these dtypes and modes")
    kept = read(options.resume) if options.resume else {}
    done = {key for key, o in kept.items() if not (options.again and o.status not in WITHOUT_FAULT)}
    todo = [t for t in chosen if t.key not in done]
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description:40.40}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
    ) as progress:
        bar = progress.add_task("starting", total=len(todo))
        for task, outcome in run(todo, options.samples, options.jobs, options.timeout, options.minutes):
            kept[task.key] = outcome
            if options.resume:
                with options.resume.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(outcome.json) + "\n")
            if outcome.status not in WITHOUT_FAULT:
                text = f"{outcome.operator} {outcome.column}: {outcome.status}: {outcome.reason[:300]}"
                console.print(text, markup=False, highlight=False)
            progress.update(bar, advance=1, description=f"{task.operator} {outcome.column}")
    outcomes = [kept[t.key] for t in chosen if t.key in kept]
    if options.out:
        places.write(options.out, TEMPLATE, parts(kept.values(), options.samples))
    counts = Counter(o.status for o in outcomes)
    for o in outcomes:
        if o.status not in WITHOUT_FAULT:
            print(f"{o.operator} {o.column}: {o.status}: {o.reason.partition(chr(10))[0][:300]}")
    totals = ", ".join(f"{s} {counts[s]}" for s in STATUSES if counts[s])
    print(f"{len(outcomes)} of {len(chosen)} operators by dtype: {totals}")
    return int(any(o.status not in WITHOUT_FAULT for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
