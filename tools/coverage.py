"""`python -m lamella.tools.coverage`: torch's operator database through the whole compiler, as a table."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from . import workers
from .arguments import names, pattern, shard
from .op_check import MODES, STATUSES, Outcome
from .op_devices import DEVICES

DTYPES = (
    *("float32", "bfloat16", "float16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64"),
    *("complex128", "complex32", "uint16", "uint32", "uint64"),
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"),
)
"""Each that an entry of the database supports on a CPU."""

ALL = (
    *((dtype, "forward") for dtype in DTYPES),
    ("float32", "fused"),
    *((dtype, "inplace") for dtype in ("float32", "bfloat16", "int64", "complex64")),
    *((dtype, "gradient") for dtype in ("float32", "bfloat16", "complex64")),
    *((dtype, "dynamic") for dtype in ("float32", "bfloat16", "int64")),
)
"""The columns of docs/coverage.md, dtype and mode."""

WITHOUT_FAULT = ("native", "calls", "eager", "torch", "refused")
"""Statuses that are no fault of the compiler."""


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


def kinds() -> dict[str, str]:
    """The class of each operator of the database, in its order."""
    from .op_check import name_of, operators
    from .op_classes import class_of

    return {name_of(op): class_of(op, name_of(op)) for op in operators()}


def shares(outcomes: Sequence[Outcome], kind: Mapping[str, str]) -> list[str]:
    """How much of what should be native is: of the classes that kernels are for, and of ATen's core operators."""
    from .op_classes import core_operators

    ran = [o for o in outcomes if o.status in ("native", "calls") and kind[o.operator] != "other"]
    native = sum(o.status == "native" for o in ran)
    core = core_operators()
    lines = ["| native | | share |", "|---|---|---|"]
    if ran:
        what = "outcomes of pointwise, reduction, view, indexing and scan operators"
        lines.append(f"| {what} | {native} of {len(ran)} | {native / len(ran):.1%} |")
    for column in dict.fromkeys(o.column for o in sorted(outcomes, key=_place)):
        left = core & {c for o in outcomes if o.column == column for c in o.calls}
        share = (len(core) - len(left)) / len(core)
        what = f"core ATen operators that are no call in any outcome of {column}"
        lines.append(f"| {what} | {len(core) - len(left)} of {len(core)} | {share:.1%} |")
    return [*lines, ""]


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


def report(outcomes: Iterable[Outcome], samples: int) -> str:
    """The table in Markdown, totals first."""
    from .op_classes import CLASSES

    kind = defaultdict(lambda: "other", kinds())  # another release's database may have more
    order = {name: i for i, name in enumerate(kind)}
    found = sorted(outcomes, key=lambda o: order.get(o.operator, len(order)))
    versions = " and ".join(sorted({o.torch for o in found}))
    columns = list(dict.fromkeys(o.column for o in sorted(found, key=_place)))
    places = {"cpu": "CPU", "cuda": "GPU", "interpreted": "GPU, interpreted"}
    devices = ", ".join(places[device] for device in dict.fromkeys(o.device for o in found))
    lines = [
        "# torch's operators through Lamella",
        "",
        f"Made by `python -m lamella.tools.coverage`: for each entry of torch's operator database (torch "
        f"{versions}, {devices}) and dtype, {samples} of its sample inputs and one that is "
        "not contiguous are compiled to native code and compared with eager: values, dtypes, sizes, strides, what is "
        "left in the inputs, and which results share memory with inputs; of random operators all but the values. "
        "A failing sample ends its operator.",
        "",
        "By mode: the call as it is; **fused**: between negations of its operands and results; **inplace**: its method "
        "that writes the input; **gradient**: with derivatives; **dynamic**: with symbolic sizes; **gradcheck** and "
        "**gradgradcheck**: first and second derivatives against differences of the compiled function.",
        "",
        "- **native**: kernels only. **calls**: right, with calls into ATen among the kernels or instead of them.",
        "- **eager**: right, but the frontend gave the graph back to torch. **refused**: eager takes no sample.",
        "- **torch**: torch's own capture fails, or the graph that it makes differs from eager when torch runs it.",
        "- **wrong**: another result than eager's. **error**: our exception, a crash or a hang.",
        "",
    ]
    lines += _totals("dtype and mode", [(c, [o for o in found if o.column == c]) for c in columns])
    lines += _totals("operators", [(k, [o for o in found if kind[o.operator] == k]) for k in CLASSES])
    lines += shares(found, kind)
    faults = [o for o in found if o.status not in WITHOUT_FAULT]
    lines += _section("Wrong results and errors", faults) + _section(
        "Run eagerly, or torch's own faults", [o for o in found if o.status in ("eager", "torch", "refused")]
    )
    lines += ["## Each operator", "", "| operator | " + " | ".join(columns) + " | calls into ATen |"]
    lines.append("|---" * (len(columns) + 2) + "|")
    rows: dict[str, dict[str, Outcome]] = {}
    for o in found:
        rows.setdefault(o.operator, {})[o.column] = o
    for operator, row in rows.items():
        states = " | ".join(row[c].status if c in row else "" for c in columns)
        calls = ", ".join(dict.fromkeys(c for o in row.values() for c in o.calls))
        lines.append(f"| {operator} | {states} | {calls} |")
    return "\n".join(lines) + "\n"


def _place(outcome: Outcome) -> int:
    """Of its column in the table."""
    key = (outcome.dtype, outcome.mode)
    return ALL.index(key) if key in ALL else len(ALL)


def _totals(first: str, groups: Sequence[tuple[str, list[Outcome]]]) -> list[str]:
    lines = [f"| {first} | total | {' | '.join(STATUSES)} |", "|---" * (len(STATUSES) + 2) + "|"]
    for name, outcomes in groups:
        counts = Counter(o.status for o in outcomes)
        lines.append(f"| {name} | {len(outcomes)} | {' | '.join(str(counts[s]) for s in STATUSES)} |")
    return [*lines, ""]


def _section(title: str, outcomes: Sequence[Outcome]) -> list[str]:
    """A line for each operator and status, with the first reason."""
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for o in outcomes:
        groups.setdefault((o.operator, o.status), []).append(o)
    lines = [f"## {title}", ""] if groups else []
    for (operator, status), group in groups.items():
        reason = " ".join(group[0].reason.split()).replace("|", "\\|").replace("<", "&lt;")
        lines.append(f"- {operator} ({', '.join(o.column for o in group)}): {status}: {reason[:240]}")
    return [*lines, ""] if groups else []


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
    parser.add_argument("--out", type=Path, help="where the table goes: of all outcomes in the file, if there is one")
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
        options.out.write_text(report(kept.values(), options.samples), encoding="utf-8")
    counts = Counter(o.status for o in outcomes)
    for o in outcomes:
        if o.status not in WITHOUT_FAULT:
            print(f"{o.operator} {o.column}: {o.status}: {o.reason.partition(chr(10))[0][:300]}")
    totals = ", ".join(f"{s} {counts[s]}" for s in STATUSES if counts[s])
    print(f"{len(outcomes)} of {len(chosen)} operators by dtype: {totals}")
    return int(any(o.status not in WITHOUT_FAULT for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
