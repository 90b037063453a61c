"""`lamella-opt`: read a module at any level, run passes over it, print it.

Exit code 0: done. 1: an error in the input, the pipeline or the command line (one message). 2: a bug of ours (a message
and a reproducer file).
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from xdsl.passes import ModulePass

from ..dialects.errors import LamellaError, LamellaSyntaxError, LamellaVerifyError
from ..dialects.text import Source, decode, parse_source, print_module
from ..lowering.levels import check_goes_down
from ..lowering.pass_manager import IRPrinter, PassError, PassManager, PassRecord, statistics_table, timing_table
from ..lowering.pipeline_text import describe_pass, parse_passes, pipeline_for, pipeline_to
from ..lowering.registry import LEVELS, PASSES, TARGETS, passes_to
from .diagnostics import Diagnostic, check_diagnostics, expectations
from .source import USER_ERROR, Arguments, boundary, check, read, reason

_SEPARATOR = re.compile(r"^// -----[^\n]*\n?", re.MULTILINE)
_WITH_NAMES = ("--print-ir-before", "--print-ir-after")


def main(
    argv: Sequence[str] | None = None,
    stdin: IO[str] | None = None,
    stdout: IO[str] | None = None,
    stderr: IO[str] | None = None,
) -> int:
    """Run the tool on `argv` (without the program's name) and return its exit code."""
    out, err = stdout or sys.stdout, stderr or sys.stderr
    argv = sys.argv[1:] if argv is None else argv
    # `--print-ir-after` alone means every pass; with argparse's optional value it would swallow the file name after it.
    argv = [f"{a}=" if a in _WITH_NAMES else a for a in argv]

    def run() -> int:
        parser = _parser()
        if "-h" in argv or "--help" in argv:
            out.write(parser.format_help())
            return 0
        return _run(parser.parse_args(argv), stdin or sys.stdin, out, err)

    return boundary("lamella-opt", run, out, err, debug="--debug" in argv)


def _parser() -> argparse.ArgumentParser:
    parser = Arguments("lamella-opt", description="Run passes over a module of any level.", allow_abbrev=False)
    parser.add_argument("input", nargs="?", default="-", help="file to read; - or nothing for standard input")
    parser.add_argument("-o", "--output", default="-", metavar="FILE", help="write the module here, not to stdout")
    what = parser.add_argument_group("what to run")
    what.add_argument("-p", "--passes", metavar="PIPELINE", help="such as 'aten-to-prims,prims-to-loop{option=1}'")
    what.add_argument("--to", metavar="LEVEL", help=f"all passes down to a level: {', '.join(LEVELS)}")
    what.add_argument("--target", metavar="TARGET", help=f"all passes down to a target: {', '.join(TARGETS)}")
    what.add_argument("--no-verify", action="store_true", help="do not verify the input, nor after each pass")
    what.add_argument("--list-passes", action="store_true", help="show the passes with their options, and stop")
    show = parser.add_argument_group("what to print")
    show.add_argument("--print-locations", action="store_true", help="print the location of every op")
    show.add_argument("--generic", action="store_true", help="print MLIR's generic form")
    show.add_argument("--print-ir-before", metavar="PASSES", help="print the module before all passes, or =these")
    show.add_argument("--print-ir-after", metavar="PASSES", help="print the module after all passes, or =these")
    show.add_argument("--print-ir-after-change", action="store_true", help="print it after passes that changed it")
    show.add_argument("--timing", action="store_true", help="time and op counts of each pass, on stderr")
    show.add_argument("--statistics", action="store_true", help="what the passes counted, on stderr")
    test = parser.add_argument_group("testing and bugs")
    test.add_argument("--split-input-file", action="store_true", help="treat parts between '// -----' separately")
    test.add_argument("--verify-diagnostics", action="store_true", help="check the 'expected-error {{…}}' comments")
    test.add_argument("--crash-reproducer", metavar="FILE", help="where a failing pass leaves its input")
    test.add_argument("--debug", action="store_true", help="show the traceback of an internal error")
    return parser


def _run(arguments: argparse.Namespace, stdin: IO[str], stdout: IO[str], stderr: IO[str]) -> int:
    if arguments.list_passes:
        stdout.write("".join(f"{describe_pass(name)}\n" for name in PASSES))
        stdout.write("".join(f"--to {level}: {','.join(passes_to(level))}\n" for level in LEVELS))
        return 0
    _check_names(arguments, _passes(arguments))
    name, content = read(arguments.input, stdin)
    text = decode(content, name)
    failed = False
    outputs: list[str] = []
    for line_offset, chunk in _chunks(text) if arguments.split_input_file else [(0, text)]:
        result = _process(chunk, name, line_offset, arguments, stderr)
        messages = [d.message for d in result.diagnostics]
        if arguments.verify_diagnostics:
            messages = check_diagnostics(expectations(chunk, name, line_offset), result.diagnostics, name)
        stderr.write("".join(f"{message}\n" for message in messages))
        failed = failed or bool(messages)
        outputs += [result.text] if result.text else []
        if arguments.timing:
            stderr.write(timing_table(result.records) + "\n")
        if arguments.statistics:
            stderr.write(statistics_table(result.records) + "\n")
    if outputs:
        _write(arguments.output, "\n// -----\n".join(outputs) + "\n", stdout)
    return USER_ERROR if failed else 0


@dataclass
class _Result:
    text: str = ""
    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])
    records: list[PassRecord] = field(default_factory=list[PassRecord])


def _process(chunk: str, name: str, line_offset: int, arguments: argparse.Namespace, stderr: IO[str]) -> _Result:
    """Parse, verify, run and print one module; an error in it becomes a diagnostic."""
    result = _Result()
    try:
        source = parse_source(chunk, filename=name, line_offset=line_offset)
    except LamellaSyntaxError as error:
        result.diagnostics.append(Diagnostic(error.line, error.message, str(error)))
        return result
    try:
        if not arguments.no_verify:
            check(source)
        if level := arguments.to or TARGETS.get(arguments.target):
            check_goes_down(source.module, level)
        try:
            result.records = _manager(arguments, name, stderr).run(source.module)
        except PassError as error:
            if arguments.no_verify:  # where the input is at fault, this is no bug
                source = parse_source(chunk, filename=name, line_offset=line_offset)
                _check_after(source, error)
            raise
        result.text = print_module(source.module, locations=arguments.print_locations, generic=arguments.generic)
    except LamellaVerifyError as error:
        result.diagnostics.append(_diagnose(source, error))
    except LamellaError as error:
        result.diagnostics.append(Diagnostic(None, str(error), f"{name}: error: {error}"))
    return result


def _check_after(source: Source, error: PassError) -> None:
    """Of an input that was not verified, which is an error in place of that of a pass and its reproducer."""
    try:
        check(source)
    except LamellaError:
        if error.reproducer is not None:
            error.reproducer.unlink(missing_ok=True)
        raise


def _diagnose(source: Source, error: LamellaVerifyError) -> Diagnostic:
    found = source.locate(error.op)
    return Diagnostic(found[0] if found else None, str(error), source.describe(error))


def _manager(arguments: argparse.Namespace, name: str, stderr: IO[str]) -> PassManager:
    def printer(names: str) -> IRPrinter:
        return IRPrinter(
            stderr,
            frozenset(filter(None, names.split(","))),
            arguments.print_locations,
            arguments.generic,
            arguments.print_ir_after_change,
        )

    # Made anew for each module: the passes of a pipeline hold the statistics of one run.
    manager = PassManager(
        _passes(arguments),
        verify=not arguments.no_verify,
        count_ops=arguments.timing,
        reproducer=Path(arguments.crash_reproducer) if arguments.crash_reproducer else _default_reproducer(name),
    )
    if arguments.print_ir_before is not None:
        manager.before = [printer(arguments.print_ir_before).before]
    if arguments.print_ir_after is not None or arguments.print_ir_after_change:
        after = printer(arguments.print_ir_after or "")
        manager.after = [after.after]
        if arguments.print_ir_after_change:
            manager.before = [*manager.before, after.remember]
    return manager


def _default_reproducer(name: str) -> Path:
    """Beside the input; in the current folder for standard input, and where the input's folder is not writable."""
    if name == "<stdin>":
        return Path("lamella-opt.reproducer.mlir")
    folder = Path(name).parent
    return (folder if os.access(folder, os.W_OK) else Path()) / f"{Path(name).stem}.reproducer.mlir"


def _passes(arguments: argparse.Namespace) -> tuple[ModulePass, ...]:
    if arguments.passes is not None:
        if arguments.to or arguments.target:
            raise LamellaError("-p gives the whole pipeline; leave out --to and --target, or name a level in -p")
        return parse_passes(arguments.passes)
    if arguments.target:
        return pipeline_for(arguments.target, arguments.to)
    return pipeline_to(arguments.to) if arguments.to else ()


def _check_names(arguments: argparse.Namespace, passes: Sequence[ModulePass]) -> None:
    """The passes named for printing must be ones that will run."""
    present = [p.name for p in passes]
    for option in ("print_ir_before", "print_ir_after"):
        for name in filter(None, (getattr(arguments, option) or "").split(",")):
            if name not in present:
                flag = "--" + option.replace("_", "-")
                raise LamellaError(f"{flag}: '{name}' is not in the pipeline ({', '.join(present) or 'empty'})")


def _write(path: str, text: str, stdout: IO[str]) -> None:
    if path == "-":
        stdout.write(text)
        return
    try:
        Path(path).write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise LamellaError(f"cannot write '{path}': {reason(error)}") from None


def _chunks(text: str) -> Iterator[tuple[int, str]]:
    """The parts of `text` between separators that hold more than comments, each with the lines before it."""
    start = 0
    for end, after in [*((m.start(), m.end()) for m in _SEPARATOR.finditer(text)), (len(text), len(text))]:
        chunk = text[start:end]
        if any(line.strip() and not line.strip().startswith("//") for line in chunk.splitlines()):
            yield text.count("\n", 0, start), chunk
        start = after


if __name__ == "__main__":
    sys.exit(main())
