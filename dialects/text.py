"""Modules to text and back. `parse_module(print_module(m, locations=True))` is `m`, and its errors are for people."""

from __future__ import annotations

from . import lazy_formats as lazy_formats  # before any of xDSL's dialects

# isort: split
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import ParseError, PyRDLError, UnregisteredConstructException, VerifyException
from xdsl.utils.lexer import Input, Span

from .collection import without_collection
from .context import make_context
from .errors import LamellaError, LamellaSyntaxError, LamellaVerifyError, caret
from .printer import FastPrinter

if TYPE_CHECKING:
    from .parser import FastParser  # loaded when a text is read: compiling a graph only prints

# What xDSL's parser and the constructors behind it raise on malformed text, besides ParseError: a literal that does not
# fit its type, a missing property, a construct it does not support. Each means that the text is wrong at this place.
_REJECTED = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    PyRDLError,
    TypeError,
    UnregisteredConstructException,
    ValueError,
    VerifyException,
    struct.error,
)

# Messages of xDSL's that say nothing to who has not read its parser.
_CLEARER = {
    " in block definition": "expected an operation, a block or '}'",
    "Expected suffix identifier after {first_char}": "expected a name after '%', '#', '!' or '^'",
}


def print_module(module: Operation, *, locations: bool = False, generic: bool = False) -> str:
    """The text of `module` (any op), without a final line break; `generic` writes MLIR's generic form of every op."""
    printer = FastPrinter(print_generic_format=generic, print_debuginfo=locations)
    printer.print_op(module)
    return printer.text()


def parse_module(
    text: str | bytes, *, filename: str = "<string>", ctx: Context | None = None, line_offset: int = 0
) -> ModuleOp:
    """The module that `text` holds (several top-level ops are put into one). Not verified.

    Raises `LamellaSyntaxError` for whatever is wrong with the text. `line_offset` is added to the lines it reports.
    """
    return parse_source(text, filename=filename, ctx=ctx, line_offset=line_offset).module


@dataclass(frozen=True)
class Source:
    """A parsed module with the text it came from."""

    module: ModuleOp
    text: str
    filename: str
    line_offset: int
    positions: dict[Operation, int]
    """Offset in `text` at which each parsed op starts."""

    def locate(self, op: Operation) -> tuple[int, int, str] | None:
        """Line, column (both from 1) and source line of the op, or of the innermost op around it that was parsed."""
        at: Operation | None = op
        while at is not None:
            if (offset := self.positions.get(at)) is not None:
                return place(self.text, offset, self.line_offset)
            at = at.parent_op()
        return None

    def describe(self, error: LamellaVerifyError) -> str:
        """The message of `error` with the place in this text where its op was written."""
        if (found := self.locate(error.op)) is None:
            return f"{self.filename}: error: {error}"
        line, column, snippet = found
        return f"{self.filename}:{line}:{column}: error: {error}" + caret(snippet, column)


def parse_source(
    text: str | bytes, *, filename: str = "<string>", ctx: Context | None = None, line_offset: int = 0
) -> Source:
    """As `parse_module`, and remembers where each op was written."""
    from .parser import FastParser

    content = decode(text, filename)
    if not content.strip():
        raise LamellaSyntaxError(filename, 1 + line_offset, 1, "empty file: expected a module")
    parser: FastParser | None = None
    try:
        with without_collection():
            parser = FastParser(ctx or make_context(), content, filename)
            module = parser.parse_module()
    except ParseError as error:
        raise _syntax_error(error.span, error.msg, filename, line_offset) from None
    except RecursionError:
        raise _at_parser(parser, content, filename, line_offset, "nested too deeply") from None
    except MemoryError:
        raise _at_parser(parser, content, filename, line_offset, "too large to hold in memory") from None
    except LamellaError:
        raise
    except _REJECTED as error:
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise _at_parser(parser, content, filename, line_offset, f"malformed: {reason}") from error
    return Source(module, content, filename, line_offset, parser.positions)


def decode(text: str | bytes, filename: str) -> str:
    """`text` as a string. Raises `LamellaSyntaxError` for bytes that are not UTF-8, and for NUL."""
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            before = text[: error.start].decode("utf-8")
            line, column, _ = place(before, len(before))
            raise LamellaSyntaxError(
                filename, line, column, f"byte 0x{text[error.start]:02x} is not UTF-8 text"
            ) from None
    if (nul := text.find("\0")) >= 0:
        line, column, _ = place(text, nul)
        raise LamellaSyntaxError(filename, line, column, "NUL character: this is not a text file")
    return text.removeprefix("\ufeff")


def place(text: str, offset: int, line_offset: int = 0) -> tuple[int, int, str]:
    """Line and column (both from 1) of `offset` in `text`, and the line."""
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    line = text[start:] if end < 0 else text[start:end]
    return text.count("\n", 0, start) + 1 + line_offset, offset - start + 1, line


def _syntax_error(span: Span[str] | Span[bytes], message: str, filename: str, line_offset: int) -> LamellaSyntaxError:
    content = span.input.content
    assert isinstance(content, str)
    message = _CLEARER.get(message, message)
    offset = min(span.start, len(content.rstrip()))  # an error at the end of the file belongs to its last line
    line, column, snippet = place(content, offset, line_offset)
    return LamellaSyntaxError(filename, line, column, " ".join(message.split()), snippet)


def _at_parser(
    parser: FastParser | None, content: str, filename: str, line_offset: int, message: str
) -> LamellaSyntaxError:
    offset = parser.pos if parser is not None else 0
    return _syntax_error(Span(offset, offset, Input(content, filename)), message, filename, line_offset)
