"""What symbols stand for, by their names; one place, since every level asks."""

from __future__ import annotations

import re
from enum import Enum
from functools import cache


class Kind(Enum):
    """What a symbol stands for: the letters that its name begins with, a number follows."""

    SIZE = "s"
    """A size of an argument, positive; torch has it be 2 or more unless the program is for 0 or 1."""
    NUMBER = "n"
    """Any integer that is an argument."""
    DATA = "u"
    """Any integer that is read from data."""
    FLOAT = "z"
    """A float, of an argument (torch's `zf…`) or read from data (`zuf…`)."""
    INDEX = "v"
    """An index that a kernel reads from memory."""
    DIM = ""
    """Names of all other forms: what counts from 0, a loop's dim."""


PROGRAM = frozenset({Kind.SIZE, Kind.NUMBER, Kind.DATA, Kind.FLOAT})
"""Symbols that stand for one value in all of a program."""
SIGNED = frozenset({Kind.NUMBER, Kind.DATA})
"""Symbols that stand for 0 and negative integers, too."""
INTEGERS = frozenset({Kind.SIZE, Kind.NUMBER, Kind.DATA})
"""Integers of programs."""
FOUND = frozenset({Kind.DATA, Kind.FLOAT})
"""Symbols that operators may give."""

_KINDS = {**{kind.value: kind for kind in Kind if kind.value}, "zf": Kind.FLOAT, "zuf": Kind.FLOAT}


@cache
def symbol_kind(name: str) -> Kind:
    """What the symbol of that name stands for."""
    found = re.fullmatch(r"([a-z]+)\d+", name)
    return _KINDS.get(found[1], Kind.DIM) if found else Kind.DIM
