"""The patterns that this process has registered: they become part of every module that is compiled."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a graph that comes from a cache needs no compiler
    from .aten_patterns import Pattern

REGISTERED: list[Pattern] = []
"""In the order in which they are applied."""


def key() -> str:
    """A hash of the registered patterns, for keys of caches; "" where there are none."""
    if not REGISTERED:
        return ""
    from ..dialects.text import print_module

    texts = [print_module(f) for p in REGISTERED for f in (p.search, p.replace)]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:32]
