"""Where a module stands among the levels."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from ..dialects.errors import LamellaError
from .registry import LEVELS


def level_of(module: ModuleOp) -> str:
    """The lowest level that the module has ops of; `aten` where it has none."""
    present = {name for op in module.walk() for name in (op.name, op.name.partition(".")[0])}
    present = {"kernel" if name == "loop.kernel" else name for name in present}
    return next((level for level in reversed(LEVELS) if level in present), "aten")


def check_goes_down(module: ModuleOp, level: str) -> None:
    """Raises LamellaError where a module is below a level that it is to be taken to."""
    levels, now = list(LEVELS), level_of(module)
    if levels.index(now) > levels.index(level):
        raise LamellaError(f"the module is at level '{now}' already, below '{level}': passes only go down")
