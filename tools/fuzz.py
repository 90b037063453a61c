"""`python -m lamella.tools.fuzz`: random programs through the whole compiler against eager."""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..lowering.options import Options
from .arguments import shard
from .fuzz_check import Notes, fault
from .fuzz_program import Program, Step, generate, generate_called, generate_whole
from .fuzz_values import Chooser
from .op_devices import is_lost, prepare

CRASH = "the process ended"
BATCH = 50
"""Programs of one process."""
SMALLEST = Program("forward", (("x", "torch.ones(3)"),), (Step("v", "x + 1", 0.0, False),), ("v",))


WHOLE_FROM = 1_000_000
"""The first seed of programs that go through torch.compile; those before are for graphs of AOTAutograd alone."""
CALLED_FROM = 10_000_000
"""The first seed of those that are called in several ways."""
WIDE_FROM = 20_000_000
"""The first seed of those of more functions, ways to write and layouts of arguments."""


def program_of(seed: int) -> Program:
    g = Chooser(random.Random(seed).randrange)
    if seed < CALLED_FROM:
        return (generate if seed < WHOLE_FROM else generate_whole)(g)
    return generate_called(g, wide=seed >= WIDE_FROM)


def fault_apart(program: Program, options: Options, device: str = "cpu") -> str | None:
    """As `fault`, in a process of its own, whose end is a fault too."""
    (record,) = apart([0], lambda _: {"fault": fault(program, options, device=device)})
    return record["fault"]


def shrunk(program: Program, said: str, options: Options, device: str = "cpu", tries: int = 200) -> tuple[Program, str]:
    """A smaller program with a fault of the same kind, and the fault."""
    kind = said.partition(":")[0] if said.startswith(("wrong", CRASH)) else said[:40]
    ask = fault_apart if said.startswith(CRASH) else fault
    again = True
    while again:
        again = False
        for candidate in program.smaller():
            tries -= 1
            if tries < 0:
                return program, said
            if (
                _runs(candidate)
                and (text := ask(candidate, options, device=device)) is not None
                and text.startswith(kind)
            ):
                program, said, again = candidate, text, True
                break
    return program, said


def _runs(program: Program) -> bool:
    try:
        program.run(program.function(), program.arguments())
    except Exception:  # whatever eager raises
        return False
    return True


def apart(
    seeds: Sequence[int], work: Callable[[int], dict[str, Any]], end: float | None = None
) -> Iterator[dict[str, Any]]:
    """`work` of each seed in a forked process, which is replaced where it ends; that is the fault of its seed then.
    None is begun after `end`.
    """
    left = list(seeds)
    while left and (end is None or time.monotonic() < end):
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            with os.fdopen(writer, "w", encoding="utf-8") as pipe:
                for seed in left:
                    pipe.write(json.dumps(work(seed)) + "\n")
                    pipe.flush()
                    if is_lost() or (end is not None and time.monotonic() > end):
                        break
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, encoding="utf-8") as pipe:
            for text in pipe:
                left.pop(0)
                yield json.loads(text)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if left and code:
            seed = left.pop(0)
            yield {"seed": seed, "fault": f"{CRASH} with code {code}"}


def work(seed: int, options: Options, show: bool, device: str, shrink: bool) -> dict[str, Any]:
    """What became of a program, as it is kept."""
    program = program_of(seed)
    if show:
        print(f"# seed {seed}\n{program}\n", flush=True)
    notes = Notes()
    said = fault(program, options, notes, device)
    record: dict[str, Any] = {"seed": seed, "steps": len(program.steps), "graphs": notes.graphs}
    record |= {"calls": dict(notes.calls), "eager": notes.eager}
    if notes.torch:
        record["torch"] = notes.torch[:600]
    if said is None:
        return record
    if shrink and not is_lost():
        program, said = shrunk(program, said, options, device)
    return record | {"fault": said[:2000], "program": str(program)}


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 where a program is wrong or fails."""
    parser = argparse.ArgumentParser("lamella.tools.fuzz", description=__doc__)
    parser.add_argument("--programs", type=int, default=300, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first")
    parser.add_argument("--shard", type=shard, default="0/1", help="i/n: every n-th program, from the i-th on")
    parser.add_argument("--resume", type=Path, help="a file to keep seeds and faults in, and to go on from")
    parser.add_argument("--again", action="store_true", help="run what is a fault in that file once more")
    parser.add_argument("--minutes", type=float, default=0.0, help="begin no more programs after so long; 0: no limit")
    parser.add_argument("--show", action="store_true", help="print each program")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where the arguments are")
    parser.add_argument("--unshrunk", action="store_true", help="leave faults as large as they are")
    options = parser.parse_args(argv)
    device, shrink = options.device, not options.unshrunk
    place, shards = options.shard
    seeds = range(options.first + place, options.first + options.programs, shards)
    kept = {r["seed"]: r for r in _read(options.resume)}
    todo = [s for s in seeds if s not in kept or (options.again and "fault" in kept[s])]
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    prepare(device, place)
    asked = Options(cache=False, verify=False, strict=True)
    if device == "cpu":
        fault(
            SMALLEST, asked
        )  # imports what the processes below share, which CUDA would not let fork once it has begun
    end = time.monotonic() + 60 * options.minutes if options.minutes else None
    for start in range(0, len(todo), BATCH):
        for record in apart(todo[start : start + BATCH], lambda s: work(s, asked, options.show, device, shrink), end):
            if record.get("fault", "").startswith(CRASH):
                program, said = program_of(record["seed"]), record["fault"]
                if shrink:
                    program, said = shrunk(program, said, asked, device)
                record |= {"fault": said, "program": str(program)}
            if "fault" in record:
                print(f"seed {record['seed']}: {record['fault'][:600]}\n{record['program']}\n", flush=True)
            kept[record["seed"]] = record
            _keep(options.resume, record)
    faults = sum("fault" in r for r in kept.values())
    print(f"{len(kept)} programs, {faults} faults")
    for line in summary(kept.values()):
        print(line)
    return int(bool(faults))


def summary(records: Iterable[dict[str, Any]]) -> Iterator[str]:
    """What stays a call or runs eagerly, most frequent first."""
    known = [r for r in records if "graphs" in r]
    yield f"{sum(r['steps'] for r in known)} steps, {sum(r['graphs'] for r in known)} graphs"
    for title, counts in (
        ("calls", sum((Counter(r["calls"]) for r in known), Counter[str]())),
        ("graphs run eagerly", Counter(reason for r in known for reason in r["eager"])),
        ("torch's own faults", Counter(r["torch"].splitlines()[0][:150] for r in known if "torch" in r)),
    ):
        yield f"{sum(counts.values())} {title}"
        yield from (f"  {n} {name}" for name, n in counts.most_common(20))


def _read(path: Path | None) -> list[dict[str, Any]]:
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _keep(path: Path | None, record: dict[str, Any]) -> None:
    if path is not None:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    sys.exit(main())
