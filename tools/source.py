"""What the tools share: exit codes with their messages, command lines, and modules read from files and checked."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import IO, NoReturn

from ..dialects.errors import LamellaError, LamellaSyntaxError, LamellaVerifyError
from ..dialects.text import Source, parse_source
from ..dialects.verify import verify
from ..lowering.pass_manager import PassError

USER_ERROR = 1
INTERNAL_ERROR = 2


class Arguments(argparse.ArgumentParser):
    """A parser that raises LamellaError instead of leaving the process."""

    def error(self, message: str) -> NoReturn:
        raise LamellaError(f"{message}; --help shows the options")


def boundary(tool: str, run: Callable[[], int], out: IO[str], err: IO[str], *, debug: bool) -> int:
    """The exit code of `run`; whatever it raises becomes one message on `err`, and the exit code for that."""
    try:
        code = run()
        out.flush()
        return code
    except BrokenPipeError:  # the reader left, as `head` does; Python would complain of it once more when it exits
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except LamellaError as error:  # a syntax error begins with its place
        err.write(f"{error}\n" if isinstance(error, LamellaSyntaxError) else f"{tool}: error: {error}\n")
        return USER_ERROR
    except Exception as error:
        message = str(error) if isinstance(error, PassError) else f"{type(error).__name__}: {error}"
        err.write(f"{tool}: internal error: {message}\n")
        if isinstance(error, PassError) and error.reproducer is not None:
            err.write(f"  reproducer: {error.reproducer} (its first line is the command)\n")
        trace = "".join(traceback.format_exception(error)) if debug else "  --debug shows the traceback\n"
        err.write(trace)
        return INTERNAL_ERROR


def read(path: str, stdin: IO[str]) -> tuple[str, str | bytes]:
    """The name to show and the content of a file; "-" is standard input. Raises LamellaError."""
    if path == "-":
        buffer: IO[bytes] | None = getattr(stdin, "buffer", None)
        return "<stdin>", stdin.read() if buffer is None else buffer.read()
    try:
        return path, Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise LamellaError(f"cannot read '{path}': {reason(error)}") from None


def reason(error: Exception) -> str:
    """What an OSError says, without number and file name."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def check(source: Source) -> None:
    """Verify a module that a user wrote, and its calls of ATen as those of traced programs are. Raises
    LamellaVerifyError.
    """
    verify(source.module)
    if any(op.name.startswith("aten.") for op in source.module.walk()):
        from ..codegen.check_calls import check_calls  # needs torch
        from ..frontend.fake_kernels import right_fakes

        with right_fakes():
            check_calls(source.module)


def checked(text: str | bytes, name: str) -> Source:
    """The module in `text`, parsed and checked. Raises LamellaError with the place in the text."""
    source = parse_source(text, filename=name)
    try:
        check(source)
    except LamellaVerifyError as error:
        if (found := source.locate(error.op)) is None:
            raise LamellaError(f"{name}: {error}") from None
        line, column, snippet = found
        raise LamellaSyntaxError(name, line, column, str(error), snippet) from None
    return source
