"""`python -m lamella.tools.fuzz`: random programs through the whole compiler against eager."""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch._functorch._aot_autograd.utils import make_boxed_func

from ..driver import compile_module
from ..frontend.backend import Backend
from ..lowering.options import Options
from .fuzz_program import Program, Step, generate
from .fuzz_values import Chooser
from .op_compare import Mismatch, aliases, copies, same_strides, shown
from .op_traced import Traced, aot

DISTURBED = 4
"""How often a program is run with errors, to see how large they become."""
MARGIN = 16.0
"""How much larger than these errors a difference from eager may be."""

CRASH = "the process ended"
BATCH = 50
"""Programs of one process."""
SMALLEST = Program("forward", (("x", "torch.ones(3)"),), (Step("v", "x + 1", 0.0, False),), ("v",))


def program_of(seed: int) -> Program:
    return generate(Chooser(random.Random(seed).randrange))


def compiled(program: Program, options: Options | None) -> Callable[..., Any]:
    """The program, compiled at the first call; without options, its graphs are run by torch. A graph that is given back
    to torch is an error.
    """

    def refuse(event: Any) -> None:
        if event.compilation is None:
            raise AssertionError(f"a graph runs eagerly: {event.reason}")

    backend = Backend(options or Options(), compile_module, watch=refuse)
    make_code: Callable[..., Any] = (
        backend.compile_graph if options else lambda graph, _: make_boxed_func(Traced(graph))
    )
    return aot(program.function(), make_code, program.mode == "dynamic")


def check(program: Program, options: Options | None) -> None:
    """Raises Mismatch where the compiled program differs from eager, or what the compiler raises; without options,
    where the graphs that AOTAutograd makes differ by themselves.
    """
    given = program.arguments()
    theirs, ours = copies(given), copies(given)
    expected = program.run(program.function(), theirs)
    found = program.run(compiled(program, options), ours)
    count = len(program.results)  # AOTAutograd gives derivatives strides of its own
    for i, (a, e) in enumerate(zip(found, expected, strict=True)):
        if a.shape != e.shape or a.dtype != e.dtype:
            raise Mismatch(f"result {i} is {shown(a)}, eager's {shown(e)}")
        if i < count and not same_strides(a, e):
            raise Mismatch(f"result {i} has strides {a.stride()}, eager's {e.stride()} of {shown(e)}")
    if (a := aliases(found[:count], ours)) != (e := aliases(expected[:count], theirs)):
        raise Mismatch(f"results share memory with inputs {a}, eager's with {e}")
    _compare_numbers(program, [*found, *ours], [*expected, *theirs], count)


def _compare_numbers(program: Program, found: list[torch.Tensor], expected: list[torch.Tensor], count: int) -> None:
    """Numbers are eager's, within the tolerances of torch.testing or what errors in each step make of them."""
    references: list[list[torch.Tensor]] | None = None
    for i, (a, e) in enumerate(zip(found, expected, strict=True)):
        try:
            torch.testing.assert_close(a.detach(), e.detach(), equal_nan=True)
            continue
        except AssertionError as different:
            text = " ".join(str(different).split())
        if not e.is_floating_point():
            raise Mismatch(f"result {i}: {text}; ours {_some(a)}, eager's {_some(e)}")
        if references is None:
            references = [_reference(program, seed) for seed in (None, *range(DISTURBED))]
        clean, *others = (r[i] for r in references)
        # nothing disturbs the steps of a derivative, whose parts are about 1 where they cancel
        slack = 32 * max((s.rough for s in program.steps), default=0.0) if i >= count else 0.0
        if not _explained(a.detach().double(), e.detach().double(), clean, others, torch.finfo(e.dtype), slack):
            raise Mismatch(f"result {i}: {text}; ours {_some(a)}, eager's {_some(e)}")


def _reference(program: Program, seed: int | None) -> list[torch.Tensor]:
    inputs = program.arguments(torch.float64)
    results = program.run(program.disturbed(seed), inputs)
    return [t.detach().double() for t in (*results, *inputs)]


def _explained(
    a: torch.Tensor,
    e: torch.Tensor,
    clean: torch.Tensor,
    others: Sequence[torch.Tensor],
    info: torch.finfo,
    slack: float,
) -> bool:
    """Whether errors in each step may be what sets `a` and `e` apart, everywhere."""
    spread = torch.stack([(o - clean).abs() for o in others]).amax(0)
    allowed = MARGIN * spread + 2.0 * (clean - e).abs() + 32 * info.eps * e.abs() + info.tiny + slack
    # inf or NaN for one is a number for the other: at the end, or on the way where eager rounds to half floats
    beyond = ~(clean.abs() < info.max / 16) | (~e.isfinite() & clean.isfinite())
    return bool(((a == e) | (a.isnan() & e.isnan()) | ((a - e).abs() <= allowed) | beyond | ~spread.isfinite()).all())


def _some(t: torch.Tensor) -> str:
    return str(t.detach().flatten()[:6].tolist())


def fault(program: Program, options: Options) -> str | None:
    """What is wrong with the compiled program; None if nothing is."""
    torch.manual_seed(0)
    try:
        check(program, options)
        return None
    except Mismatch as error:
        said = f"wrong: {error}"
    except Exception as error:  # whatever any pass may raise
        where = traceback.extract_tb(error.__traceback__)[-1]
        said = f"error: {type(error).__name__}: {error} ({where.filename.rpartition('/')[2]}:{where.lineno})"
    try:
        check(program, None)
    except Exception:  # torch's own tracing is not to be mended here
        return None
    return said


def fault_apart(program: Program, options: Options) -> str | None:
    """As `fault`, in a process of its own, whose end is a fault too."""
    (record,) = apart([0], lambda _: {"fault": fault(program, options)})
    return record["fault"]


def shrunk(program: Program, said: str, options: Options, tries: int = 200) -> tuple[Program, str]:
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
            if _runs(candidate) and (text := ask(candidate, options)) is not None and text.startswith(kind):
                program, said, again = candidate, text, True
                break
    return program, said


def _runs(program: Program) -> bool:
    try:
        program.run(program.function(), program.arguments())
    except Exception:  # whatever eager raises
        return False
    return True


def apart(seeds: Sequence[int], work: Callable[[int], dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """`work` of each seed in a forked process, which is replaced where it ends; that is the fault of its seed then."""
    left = list(seeds)
    while left:
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            with os.fdopen(writer, "w", encoding="utf-8") as pipe:
                for seed in left:
                    pipe.write(json.dumps(work(seed)) + "\n")
                    pipe.flush()
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


def work(seed: int, options: Options, show: bool) -> dict[str, Any]:
    """What became of a program, as it is kept."""
    program = program_of(seed)
    if show:
        print(f"# seed {seed}\n{program}\n", flush=True)
    said = fault(program, options)
    if said is None:
        return {"seed": seed}
    program, said = shrunk(program, said, options)
    return {"seed": seed, "fault": said[:2000], "program": str(program)}


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 where a program is wrong or fails."""
    parser = argparse.ArgumentParser("lamella.tools.fuzz", description=__doc__)
    parser.add_argument("--programs", type=int, default=300, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first")
    parser.add_argument("--shard", default="0/1", help="i/n: every n-th program, from the i-th on")
    parser.add_argument("--resume", type=Path, help="a file to keep seeds and faults in, and to go on from")
    parser.add_argument("--again", action="store_true", help="run what is a fault in that file once more")
    parser.add_argument("--minutes", type=float, default=0.0, help="begin no more programs after so long; 0: no limit")
    parser.add_argument("--show", action="store_true", help="print each program")
    options = parser.parse_args(argv)
    place, _, shards = options.shard.partition("/")
    seeds = range(options.first + int(place), options.first + options.programs, int(shards))
    kept = {r["seed"]: r for r in _read(options.resume)}
    todo = [s for s in seeds if s not in kept or (options.again and "fault" in kept[s])]
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    asked = Options(cache=False, verify=False, strict=True)
    fault(SMALLEST, asked)  # imports what the processes below share
    end = time.monotonic() + 60 * options.minutes if options.minutes else None
    for start in range(0, len(todo), BATCH):
        if end is not None and time.monotonic() > end:
            break
        for record in apart(todo[start : start + BATCH], lambda seed: work(seed, asked, options.show)):
            if record.get("fault", "").startswith(CRASH):
                program, said = shrunk(program_of(record["seed"]), record["fault"], asked)
                record |= {"fault": said, "program": str(program)}
            if "fault" in record:
                print(f"seed {record['seed']}: {record['fault'][:600]}\n{record['program']}\n", flush=True)
            kept[record["seed"]] = record
            _keep(options.resume, record)
    faults = sum("fault" in r for r in kept.values())
    print(f"{len(kept)} programs, {faults} faults")
    return int(bool(faults))


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
