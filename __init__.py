"""Lamella: a PyTorch compiler that can be read."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .driver import compile, explain, lower, release_memory
    from .frontend.capture import capture
    from .frontend.patterns import register_pattern

__all__ = ["capture", "compile", "explain", "lower", "register_pattern", "release_memory"]

_HOMES = {"capture": ".frontend.capture", "register_pattern": ".frontend.patterns"}


if "torch.compiler._cache" in sys.modules:  # `torch.compiler.load_cache_artifacts` takes what it knows
    importlib.import_module(".codegen.cache_artifacts", __name__).register()


def __getattr__(name: str) -> Any:
    # Loaded when first used: `import lamella` is cheap, and the tools do not need torch's compiler.
    if name in __all__:
        home = _HOMES.get(name, ".driver")
        return getattr(importlib.import_module(home, __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
