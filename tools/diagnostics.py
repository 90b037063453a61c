"""What a tool has to say about its input, and MLIR's way to test it: `// expected-error {{text}}` comments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..dialects.errors import LamellaSyntaxError

_EXPECTED = re.compile(r"expected-(\w+)(?:@(above|below|unknown|[+-][0-9]+))?\s*(?:\{\{(.*?)\}\})?")


@dataclass(frozen=True)
class Diagnostic:
    """An error about the input. `text` is the message alone, `message` all that is shown; `line` may be unknown."""

    line: int | None
    text: str
    message: str


@dataclass(frozen=True)
class Expectation:
    """An error that a comment on line `written` says will come: its message on `line` (None: anywhere) holds `text`."""

    written: int
    line: int | None
    text: str

    def meets(self, diagnostic: Diagnostic) -> bool:
        return (self.line is None or self.line == diagnostic.line) and self.text in diagnostic.text


def expectations(text: str, filename: str, line_offset: int = 0) -> list[Expectation]:
    """The `expected-error` comments of `text`, with `@+1`, `@-1`, `@above`, `@below` or `@unknown` after the word.

    Raises `LamellaSyntaxError` for one that is malformed or of another kind.
    """
    found: list[Expectation] = []
    for number, line in enumerate(text.splitlines(), 1 + line_offset):
        comment = line.partition("//")[2]
        for match in _EXPECTED.finditer(comment):
            kind, where, expected = match.groups()
            if kind != "error" or expected is None:
                column = line.index("//") + match.start() + 3
                raise LamellaSyntaxError(filename, number, column, "expected 'expected-error {{text}}'", line)
            found.append(Expectation(number, _target(number, where), expected))
    return found


def _target(number: int, where: str | None) -> int | None:
    match where:
        case None:
            return number
        case "unknown":
            return None
        case "above":
            return number - 1
        case "below":
            return number + 1
        case offset:
            return number + int(offset)


def check_diagnostics(expected: Sequence[Expectation], diagnostics: Sequence[Diagnostic], filename: str) -> list[str]:
    """A message for each diagnostic that was not expected, and for each expected one that did not come."""
    wrong: list[str] = []
    open_expectations = list(expected)
    for diagnostic in diagnostics:
        met = next((e for e in open_expectations if e.meets(diagnostic)), None)
        if met is None:
            wrong.append(f"unexpected: {diagnostic.message}")
        else:
            open_expectations.remove(met)
    wrong += [f"{filename}:{e.written}: error: expected error did not come: '{e.text}'" for e in open_expectations]
    return wrong
