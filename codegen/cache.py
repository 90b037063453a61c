"""Results kept on disk between processes: bytes by (kind, key), each file checked when read.

An entry is written to a temporary file and renamed, so that readers and concurrent writers see all of it or none; a
damaged one counts as absent and is removed. Where the disk is full or the directory cannot be written, work goes on
without the cache, with one warning; who asks about the cache itself (`stats`, `clear`, `verify`) gets the error. The
directory is `LAMELLA_CACHE_DIR`, else the user's cache directory; its size is held near `LAMELLA_CACHE_SIZE` (2G) by
dropping what was used longest ago.
"""

import hashlib
import os
import re
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from .errors import CodegenError
from .target import CpuTarget

_MAGIC = b"lamella1"
_HEADER = len(_MAGIC) + 32
_TEMPORARY = ".tmp-"
_ABANDONED_SECONDS = 3600


def cache_key(*parts: str | bytes) -> str:
    """A file name for what was made from `parts`: the hash of all of them, each with its length."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


@cache
def compiler_version() -> str:
    """Hash of this compiler's source and of the versions of what it stands on; part of the key of whatever it made."""
    root = str(Path(__file__).resolve().parents[1])
    files = [f"{root}/driver.py"]
    for folder in ("codegen", "dialects", "frontend", "lowering"):  # `pathlib` takes as long as reading and hashing
        files += (f"{root}/{folder}/{name}" for name in sorted(os.listdir(f"{root}/{folder}")) if name.endswith(".py"))
    sources: list[str | bytes] = []
    for path in files:
        with open(path, "rb", buffering=0) as file:
            sources += (path[len(root) :], file.read())
    return cache_key(*(f"{name} {_version(name)}" for name in ("torch", "xdsl", "llvmlite", "sympy")), *sources)


def _version(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:  # a copy on the path that was never installed
        return "unknown"


@dataclass
class CacheStats:
    """What is on disk: entries and bytes by kind; and what this process asked for."""

    directory: Path
    limit: int
    entries: dict[str, int] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)
    hits: int = 0
    misses: int = 0


class Cache:
    """Entries under one directory, which is made when first written to. A `limit` of 0 bytes keeps nothing."""

    def __init__(self, directory: Path, limit: int) -> None:
        self.directory = directory
        self.limit = limit
        self._hits = 0
        self._misses = 0
        self._warned = False

    def get(self, kind: str, key: str) -> bytes | None:
        """The bytes put under (kind, key), None where there are none that are whole."""
        data = self.peek(kind, key)
        if data is None:
            self._misses += 1
        else:
            self._hits += 1
            self._note(kind, key)
        return data

    def peek(self, kind: str, key: str) -> bytes | None:
        """The same, neither counted nor noted for who saves what this process has used."""
        return self._read(self._path(kind, key)) if self.limit else None

    def _note(self, kind: str, key: str) -> None:
        if "torch.compiler._cache" in sys.modules:  # else nobody can ask for it
            from .cache_artifacts import note

            note(self, kind, key)

    def put(self, kind: str, key: str, data: bytes) -> None:
        """Keeps `data`. Never raises for the disk's sake."""
        if len(data) + _HEADER > self.limit:
            return
        path = self._path(kind, key)
        temporary = path.with_name(f"{_TEMPORARY}{os.getpid()}-{threading.get_ident()}-{uuid.uuid4().hex}")
        digest, made = hashlib.sha256(data).digest(), False
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            made = True
            temporary.write_bytes(_MAGIC + digest + data)
            os.replace(temporary, path)
        except OSError as error:
            if not (made and isinstance(error, FileNotFoundError)):  # else somebody has cleared the cache meanwhile
                self._warn(f"cannot write {path.parent}: {error.strerror or error}")
            with suppress(OSError):
                temporary.unlink()
            return
        self._note(kind, key)
        # On average one sweep per sixteenth of the limit that is written, by whichever processes write it. What is
        # written says when: random numbers are the program's.
        if int.from_bytes(digest[:8], "big") / 2**64 * self.limit < 16 * len(data):
            with suppress(OSError):
                self.evict()

    def evict(self) -> int:
        """Removes what was used longest ago until a tenth of the limit is free, and abandoned files; bytes removed.

        Raises OSError where the directory cannot be read.
        """
        files = sorted(self._files(temporary=True), key=lambda f: f[1])
        total = sum(size for _, _, size in files)
        removed = 0
        for path, used, size in files:
            abandoned = path.name.startswith(_TEMPORARY) and used < time.time() - _ABANDONED_SECONDS
            if abandoned or (total - removed > 0.9 * self.limit and not path.name.startswith(_TEMPORARY)):
                with suppress(OSError):
                    path.unlink()
                    removed += size
        return removed

    def stats(self) -> CacheStats:
        """Entries and bytes by kind. Raises OSError where the directory cannot be read."""
        found = CacheStats(self.directory, self.limit, hits=self._hits, misses=self._misses)
        for path, _, size in self._files():
            kind = path.parents[1].name
            found.entries[kind] = found.entries.get(kind, 0) + 1
            found.bytes[kind] = found.bytes.get(kind, 0) + size
        return found

    def clear(self) -> int:
        """Removes every entry; how many there were. Raises OSError, with the rest removed, if one could not be."""
        count = 0
        failed: OSError | None = None
        for path, _, _ in list(self._files(temporary=True)):
            try:
                path.unlink(missing_ok=True)
                count += not path.name.startswith(_TEMPORARY)
            except OSError as error:
                failed = error
        if failed is not None:
            raise failed
        return count

    def verify(self) -> list[Path]:
        """Reads every entry and removes the damaged ones, which are given. Raises OSError for one that cannot be read
        or removed.
        """
        damaged: list[Path] = []
        for path, used, _ in list(self._files()):
            with suppress(FileNotFoundError):  # another process has dropped it
                if _content(path.read_bytes()) is None:
                    path.unlink()
                    damaged.append(path)
                else:
                    os.utime(path, (used, used))
        return damaged

    def _path(self, kind: str, key: str) -> Path:
        if not re.fullmatch(r"\w+", kind) or not re.fullmatch(r"\w{3,}", key):
            raise ValueError(f"not a kind and a key: {kind!r}, {key!r}")
        return self.directory / kind / key[:2] / key

    def _read(self, path: Path) -> bytes | None:
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(f"cannot read {path}: {error.strerror or error}")
            return None
        data = _content(raw)
        with suppress(OSError):
            if data is None:
                path.unlink()
            else:
                os.utime(path)
        return data

    def _files(self, temporary: bool = False) -> Iterator[tuple[Path, float, int]]:
        """Path, time of last use and size of each entry. Files of others in the directory are let be. Raises OSError
        for a directory that is none or cannot be read; one that is not there is empty.
        """
        try:
            os.scandir(self.directory).close()
        except FileNotFoundError:
            return
        for path in self.directory.glob("*/??/*"):
            if path.name.startswith(_TEMPORARY) and not temporary:
                continue
            with suppress(OSError):
                status = path.stat()
                yield path, status.st_mtime, status.st_size

    def _warn(self, message: str) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(f"lamella compiles without its disk cache: {message}", RuntimeWarning, stacklevel=3)


def _content(raw: bytes) -> bytes | None:
    """What was put into a file; None for one that is not whole."""
    data = raw[_HEADER:]
    return data if raw[:_HEADER] == _MAGIC + hashlib.sha256(data).digest() else None


@cache
def _cache(directory: str, limit: int) -> Cache:
    return Cache(Path(directory).absolute(), limit)


def default_cache() -> Cache:
    """The cache the environment asks for; one object per directory and size. Raises CodegenError."""
    directory = os.environ.get("LAMELLA_CACHE_DIR")
    if not directory:
        from platformdirs import user_cache_dir

        directory = user_cache_dir("lamella")
    return _cache(directory, parse_size(os.environ.get("LAMELLA_CACHE_SIZE") or "2G"))


def parse_size(text: str) -> int:
    """Bytes of `4096`, `512M` or `1.5G`. Raises CodegenError for anything else."""
    size = r"\s*(\d{1,15})(?:\.(\d{1,15}))?\s*([KMGT]?)i?B?\s*"
    if (found := re.fullmatch(size, text, re.ASCII | re.IGNORECASE)) is None:
        remedy = "set it to a size such as 512M or 2G, to 0 for no cache, or unset it"
        raise CodegenError(f"LAMELLA_CACHE_SIZE is {text!r}, which is no size: {remedy}")
    unit = 1 << {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[found[3].upper()]
    decimals = found[2] or ""
    return int(found[1] + decimals) * unit // 10 ** len(decimals)


def cached_objects(texts: Sequence[str], target: CpuTarget, cache: Cache | None = None) -> list[bytes]:
    """The object file of each text of LLVM IR: from the cache, else compiled (in parallel, each text once) and kept."""
    cache = cache or default_cache()
    keys = [cache_key(text, target.key, _version("llvmlite")) for text in texts]
    found = {key: data for key in set(keys) if (data := cache.get("obj", key)) is not None}
    missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
    if missing:
        from .jit import compile_objects

        for key, data in zip(missing, compile_objects(list(missing.values()), target), strict=True):
            found[key] = data
            cache.put("obj", key, data)
    return [found[key] for key in keys]
