"""What `torch.compiler.save_cache_artifacts` takes along of our cache, and `load_cache_artifacts` puts into another.

torch keeps the bytes of all that its own caches gave or took in a process in memory, until they are saved. Here that is
the names alone: an entry is read from the disk when it is saved. One that was dropped meanwhile is left out.

`torch.compiler.load_cache_artifacts` refuses all that it is given where it does not know one of the kinds: a process
that loads artifacts has `import lamella` before.
"""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Any

from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactManager

if TYPE_CHECKING:
    from .cache import Cache


class LamellaCacheArtifact(CacheArtifact):
    """An entry of the cache: `kind/key`, and its bytes, or the cache that they are read from when asked for."""

    source: bytes | Cache

    def __init__(self, key: str, source: bytes | Cache) -> None:
        for name, value in (("key", key), ("source", source)):  # torch's class is frozen
            object.__setattr__(self, name, value)

    @staticmethod
    def encode(content: Cache) -> Any:
        """What is recorded in the place of bytes: where they are."""
        return content

    @property
    def content(self) -> bytes:  # pyright: ignore[reportIncompatibleVariableOverride]
        kind, _, key = self.key.partition("/")
        return self.source if isinstance(self.source, bytes) else self.source.peek(kind, key) or b""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LamellaCacheArtifact) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def populate_cache(self) -> None:
        """Keeps it in the cache that the environment asks for, if it is not there."""
        from .cache import default_cache

        kind, _, key = self.key.partition("/")
        cache = default_cache()
        try:
            if (data := self.content) and cache.peek(kind, key) is None:
                cache.put(kind, key, data)
        except ValueError:
            warnings.warn(f"lamella: {self.key!r} is no entry of its cache, and left out", RuntimeWarning, stacklevel=2)

    @staticmethod
    def type() -> str:
        return "lamella"


@functools.cache
def register() -> None:
    """Makes torch know the kind of artifact."""
    if LamellaCacheArtifact.type() not in CacheArtifactFactory._artifact_types:  # nor a module that was reloaded
        CacheArtifactFactory.register(LamellaCacheArtifact)


def note(cache: Cache, kind: str, key: str) -> None:
    """That an entry was used in this process: it is among what torch saves from then on."""
    register()
    CacheArtifactManager.record_artifact(LamellaCacheArtifact.type(), f"{kind}/{key}", cache)
