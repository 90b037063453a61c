"""`python -m lamella.tools.sweep`: a library's models, each small and with random weights, against eager; a table."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from . import places, workers
from .arguments import names, pattern, shard
from .model_check import MODES, STATUSES, WITHOUT_FAULT, Outcome

LIBRARIES = {
    "transformers": "zoo_transformers",
    "timm": "zoo_timm",
    "torchvision": "zoo_torchvision",
    "diffusers": "zoo_diffusers",
}
"""The module of each library: `names()` are its models, `load(name)` makes one's `zoo.Case`, or raises."""

DTYPES = ("float32", "bfloat16", "float16", "float64")

SLOW = 1 / 1.1
"""A model whose ratio is below that is named in the report."""

Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Task:
    """A model of a library in a mode with a dtype."""

    library: str
    model: str
    mode: str
    dtype: str

    @property
    def key(self) -> Key:
        return self.library, self.model, self.mode, self.dtype


def library(name: str) -> Any:
    return importlib.import_module(f".{LIBRARIES[name]}", __package__)


def tasks(name: str, models: str, columns: Iterable[tuple[str, str]], part: tuple[int, int]) -> list[Task]:
    """Models whose name the pattern matches as a whole, by columns (mode and dtype), column by column."""
    chosen = [m for m in library(name).names() if re.fullmatch(models, m)][part[0] :: part[1]]
    return [Task(name, m, mode, dtype) for mode, dtype in columns for m in chosen]


def work(connection: Connection, place: int, timed: bool) -> None:
    """Checks the tasks it is sent (`workers.Work`)."""
    import warnings

    import torch

    from .model_check import check

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with open(os.devnull, "w") as silence:
        sys.stdout = sys.stderr = silence
        while (task := connection.recv()) is not None:
            load = partial(library(task.library).load, task.model)
            connection.send((check(Outcome(*task.key), load, timed=timed), False))


def failed(task: Task, reason: str) -> Outcome:
    return Outcome(*task.key).fail("error", reason)


def read(path: Path) -> dict[Key, Outcome]:
    """Outcomes kept by an earlier run, the last of each task."""
    if not path.exists():
        return {}
    kept = [Outcome(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    return {o.key: o for o in kept}


TEMPLATE = """# Models through Lamella

<!-- table: run -->
<!-- end -->

- **right**: as eager. **eager**: right, but a graph was given back to torch. **wrong**: another result.
- **error**: our exception, a crash or a hang.
- **torch**: torch's own capture fails, or is wrong, without our compiler too (`backend="aot_eager"`).
- **refused**: the library does not build it so, or eager does not run.

<!-- table: models -->
<!-- end -->

*Compile*: median CPU seconds of the first call. *Ratio*: eager's CPU time by ours, one thread, geometric mean; sizes
are so small that it is mostly the cost of calls.

## Not right

<!-- table: not right -->
<!-- end -->

## Slower than eager

<!-- table: slower -->
<!-- end -->

## Several graphs, and why TorchDynamo ended the first

<!-- table: breaks -->
<!-- end -->

## Compiled more often than torch alone would

<!-- table: compiled again -->
<!-- end -->

## Calls into ATen, by how many models have them

<!-- table: calls -->
<!-- end -->

## Which models

<!-- table: names -->
<!-- end -->
"""
"""The document where there is none: places, and what its words mean."""


def parts(outcomes: Iterable[Outcome]) -> dict[str, str]:
    """The text of each place."""
    found = sorted(outcomes, key=lambda o: (o.library, o.model))
    faults = [o for o in found if o.status not in ("right", "refused")]
    slow = [o for o in found if o.status == "right" and 0 < o.ratio < SLOW]
    calls: dict[str, set[str]] = {}
    for o in found:
        for name in o.calls:
            calls.setdefault(name, set()).add(o.model)
    most = sorted(calls.items(), key=lambda item: -len(item[1]))
    right = sorted({o.model for o in found if o.status in ("right", "eager")})
    refused = sorted({o.model for o in found if o.status == "refused"})
    return {
        "run": f"torch {' and '.join(sorted({o.torch for o in found}))}, CPU, one thread.",
        "models": _columns(found),
        "not right": _lines(f"- {_named(o)}: {o.status}: {_text(o.reason)}" for o in faults),
        "slower": _lines(f"- {_named(o)}: {o.ratio}" for o in slow),
        "breaks": _lines(f"- {_named(o)}, {o.graphs} graphs: {_text(_short(o.breaks[0]))}" for o in found if o.breaks),
        "compiled again": _lines(f"- {_named(o)}: {o.recompiled} graphs" for o in found if o.recompiled),
        "calls": ", ".join(f"{name} {len(models)}" for name, models in most) or "None.",
        "names": f"Right in some column, {len(right)}: {', '.join(right) or 'none'}.\n\n"
        f"Refused in some column, {len(refused)}: {', '.join(refused) or 'none'}.",
    }


def _columns(found: Sequence[Outcome]) -> str:
    columns = sorted({(o.library, o.mode, o.dtype) for o in found}, key=lambda c: (c[0], MODES.index(c[1]), c[2]))
    lines = [
        f"| library, mode, dtype | models | {' | '.join(STATUSES)} | one graph | no calls | compile s | ratio |",
        "|---" * (len(STATUSES) + 6) + "|",
    ]
    for column in columns:
        group = [o for o in found if (o.library, o.mode, o.dtype) == column]
        counts = Counter(o.status for o in group)
        ran = [o for o in group if o.status == "right"]
        cells = [", ".join(column), len(group), *(counts[s] for s in STATUSES)]
        cells += [sum(o.graphs == 1 for o in ran), sum(not o.calls for o in ran)]
        cells += [f"{statistics.median(o.compile_s for o in ran):.1f}" if ran else ""]
        cells += [f"{statistics.geometric_mean(r):.2f}" if (r := [o.ratio for o in ran if o.ratio]) else ""]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _lines(lines: Iterable[str]) -> str:
    return "\n".join(lines) or "None."


def _named(outcome: Outcome) -> str:
    return f"{outcome.model} ({outcome.mode}, {outcome.dtype})"


def _short(reason: str) -> str:
    """Without the folders of a place in a file."""
    return re.sub(r"[^\s(]*/([^/\s]+\.py)", r"\1", reason)


def _text(reason: str) -> str:
    """A line that is no Markdown."""
    return f"`{' '.join(reason.split()).replace('`', chr(39))[:160]}`"


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 where a model is wrong or fails."""
    parser = argparse.ArgumentParser("lamella.tools.sweep", description=__doc__)
    parser.add_argument("--library", default="transformers", choices=LIBRARIES)
    parser.add_argument("--filter", type=pattern, default=".*", help="a regular expression that whole names match")
    parser.add_argument("--modes", type=names(MODES), default="infer", help=f"comma-separated: {', '.join(MODES)}")
    parser.add_argument("--dtype", type=names(DTYPES), default="float32", help=f"comma-separated: {', '.join(DTYPES)}")
    parser.add_argument("--shard", type=shard, default="0/1", help="i/n: every n-th model, from the i-th on")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--minutes", type=float, default=0.0, help="begin no more models after so long; 0: no limit")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for a model in a mode")
    parser.add_argument("--untimed", action="store_true", help="do not compare times")
    parser.add_argument("--resume", type=Path, help="a file to keep outcomes in, and to take them from")
    parser.add_argument("--again", action="store_true", help="run what is a fault in that file once more")
    parser.add_argument(
        "--report",
        type=Path,
        help="the document whose tables are written, of all outcomes in the file",
    )
    options = parser.parse_args(argv)
    if find_spec(options.library) is None:
        parser.error(f"argument --library: {options.library} is not installed: pip install {options.library}")
    columns = [(mode, dtype) for mode in options.modes for dtype in options.dtype]
    chosen = tasks(options.library, options.filter, columns, options.shard)
    if not chosen:
        parser.error(f"argument --filter: no model of this shard matches {options.filter!r}")
    kept = read(options.resume) if options.resume else {}
    done = {key for key, o in kept.items() if not (options.again and o.status not in WITHOUT_FAULT)}
    todo = [t for t in chosen if t.key not in done]
    do = partial(work, timed=not options.untimed)
    for task, outcome in workers.run(todo, do, failed, options.jobs, options.timeout, options.minutes):
        kept[task.key] = outcome
        if options.resume:
            with options.resume.open("a", encoding="utf-8") as file:
                file.write(json.dumps(outcome.json) + "\n")
        print(_line(outcome), flush=True)
    outcomes = [kept[t.key] for t in chosen if t.key in kept]
    if options.report:
        places.write(options.report, TEMPLATE, parts(kept.values()))
    counts = Counter(o.status for o in outcomes)
    print(f"{len(outcomes)} of {len(chosen)}: {', '.join(f'{s} {counts[s]}' for s in STATUSES if counts[s])}")
    return int(any(o.status not in WITHOUT_FAULT for o in outcomes))


def _line(o: Outcome) -> str:
    if o.status not in ("right", "eager"):
        return f"{_named(o)}: {o.status}: {o.reason[:300]}"
    breaks, calls = len(o.breaks), sum(o.calls.values())
    told = (
        f"{o.graphs} graphs, {breaks} breaks, {o.kernels} kernels, {calls} calls, {o.compile_s} s, {o.ratio} of eager"
    )
    return f"{_named(o)}: {o.status}: {told}" + (f", {o.recompiled} recompiled" if o.recompiled else "")


if __name__ == "__main__":
    sys.exit(main())
