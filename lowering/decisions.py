"""What passes decided, a readable line each, kept at the module until `explain` prints it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr

DECISIONS = "lamella.decisions"


def decided(module: ModuleOp) -> list[str]:
    """The lines so far, in the order of the passes."""
    found = module.attributes.get(DECISIONS)
    return [line.data for line in found if isinstance(line, StringAttr)] if isinstance(found, ArrayAttr) else []


def decide(module: ModuleOp, lines: Iterable[str]) -> None:
    """Add lines to those that are there."""
    set_decided(module, [*decided(module), *lines])


def decide_counted(module: ModuleOp, lines: Mapping[str, int]) -> None:
    """Add lines, each with how often it holds."""
    decide(module, (f"{line} (x{n})" if n > 1 else line for line, n in lines.items()))


def set_decided(module: ModuleOp, lines: Iterable[str]) -> None:
    """Put lines in the place of those that are there."""
    module.attributes[DECISIONS] = ArrayAttr(map(StringAttr, lines))
