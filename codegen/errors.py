"""The error of code generation. Apart, so that loading cached code needs nothing else of the compiler."""

from ..dialects.user_error import LamellaError


class CodegenError(LamellaError):
    """Something that cannot become machine code, or be loaded; the message names the op, symbol or line of text."""


class MissingTriton(CodegenError):
    """Kernels for a GPU cannot be compiled here, as a package is missing; the message says which."""


def note_reproducer(error: Exception, text: str, passes: str) -> None:
    """Write the module that could not be compiled to a file, under the command that runs into the error again."""
    import shlex
    import tempfile

    command = f"// RUN: lamella-opt %s -p {shlex.quote(passes)} | lamella-run -"
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="lamella-", suffix=".mlir", delete=False, encoding="utf-8"
        ) as file:
            file.write(f"{command}\n{text}\n")
    except OSError:  # the error is what matters
        return
    error.add_note(f"the module is in {file.name}, its first line is the command")
