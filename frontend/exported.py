"""Exported programs where functions and modules are expected."""

from __future__ import annotations

import sys
from typing import Any


def callable_of(program: Any) -> Any:
    """The module of a `torch.export.ExportedProgram`, which cannot be called itself; anything else as it is. Its calls
    check what was known of sizes when it was exported, and keep to that.
    """
    exported: Any = sys.modules.get("torch.export.exported_program")  # who has one has loaded its class
    return program.module() if exported is not None and isinstance(program, exported.ExportedProgram) else program
