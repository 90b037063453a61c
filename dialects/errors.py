"""Errors that are the user's to mend: one message each, with a place and, where there is one, the remedy."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import ArrayAttr, CallSiteLoc, FileLineColLoc, FusedLoc, NameLoc
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

from .user_error import LamellaError as LamellaError


class LamellaSyntaxError(LamellaError):
    """Text that is not a module.

    `line` and `column` count from 1; `snippet` is the source line (without its line break), or "" where there is none.
    """

    def __init__(self, filename: str, line: int, column: int, message: str, snippet: str = "") -> None:
        super().__init__(message)
        self.filename = filename
        self.line = line
        self.column = column
        self.message = message
        self.snippet = snippet

    def __str__(self) -> str:
        head = f"{self.filename}:{self.line}:{self.column}: error: {self.message}"
        return head + caret(self.snippet, self.column)


class LamellaVerifyError(LamellaError, VerifyException):
    """An op that breaks a rule of its dialect, or of SSA. `op` is that op; `message` does not repeat its name."""

    def __init__(self, op: Operation, message: str) -> None:
        super().__init__(message)
        self.op = op
        self.message = message

    def __str__(self) -> str:
        place = describe_location(self.op.location)
        return f"'{self.op.name}' op {self.message}" + (f" ({place})" if place else "")


def caret(snippet: str, column: int, limit: int = 200) -> str:
    """The lines that show `snippet` with a caret under `column` (from 1), cut to a window around it; "" for none."""
    snippet = snippet.replace("\t", " ").replace("\r", " ")
    if not snippet.strip():
        return ""
    start = max(0, column - 1 - limit // 2) if len(snippet) > limit else 0
    window = snippet[start : start + limit]
    shown = "".join(c if c.isprintable() else "?" for c in window)
    return f"\n  {shown}\n  {' ' * max(0, min(column - 1 - start, len(shown)))}^"


def describe_location(location: Attribute) -> str:
    """The place a location stands for, as people write it: `model.py:12:3`; "" when it says nothing."""
    match location:
        case FileLineColLoc():
            return f"{location.filename.data}:{location.line.data}:{location.column.data}"
        case NameLoc():
            inner = describe_location(location.location)
            return f"{location.desc.data} at {inner}" if inner else location.desc.data
        case CallSiteLoc():
            return describe_location(location.callee)
        case FusedLoc():
            parts = cast("ArrayAttr[Attribute]", location.locations)
            places = [text for part in parts if (text := describe_location(part))]
            return ", ".join(dict.fromkeys(places))
        case _:
            return ""
