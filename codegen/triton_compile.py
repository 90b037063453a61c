"""Kernels as Triton text to machine code for NVIDIA GPUs: in parallel, each distinct text once, kept on disk.

Needs the package `triton` (3.6 to 3.9), and neither a GPU nor a C compiler.
"""

from __future__ import annotations

import os
import pickle
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import count

from ..dialects.tt_versions import version_of
from .cache import Cache, cache_key, default_cache
from .errors import CodegenError, MissingTriton
from .triton_workers import WORKERS, Request, Workers

REMEDY = "pip install 'triton>=3.6,<3.10'"


@dataclass(frozen=True)
class KernelSource:
    """One kernel: its symbol, the text of a module that holds it alone, and how it is to be run."""

    name: str
    text: str
    warps: int = 4
    stages: int = 3
    registers: int | None = None
    """The most registers that a thread may use."""
    anywhere: str = ""
    """The text for buffers that begin anywhere, where it is another one."""

    def options(self) -> dict[str, int]:
        """As Triton names them."""
        found = {"num_warps": self.warps, "num_stages": self.stages}
        return found if self.registers is None else {**found, "maxnreg": self.registers}


@dataclass(frozen=True)
class CompiledKernel:
    """Machine code of one kernel, and what a launch needs to know; picklable."""

    name: str
    cubin: bytes
    warps: int
    """Of a program, those that Triton adds for itself included."""
    shared: int
    """Bytes of shared memory of a program."""
    scratch: int = 0
    """Bytes of global memory that each program needs for itself."""
    sm: int = 0
    source: KernelSource | None = None
    overlaps: bool = False
    """Whether its programs wait for the launch before to be over, so that they may be made ready meanwhile."""


@cache
def triton_version() -> str | None:
    """The version of Triton here; None where there is none, or one that is not known."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = version("triton")
    except PackageNotFoundError:
        return None
    try:
        version_of(found)
    except (KeyError, ValueError):
        return None
    return found


Progress = Callable[[int, int, str], None]
Begun = Callable[..., list[CompiledKernel]]
"""Kernels that are being compiled, to be waited for once; a Progress may be given."""


def compile_kernels(
    sources: Sequence[KernelSource],
    sm: int,
    *,
    cache: Cache | None = None,
    workers: Workers = WORKERS,
    progress: Progress | None = None,
) -> list[CompiledKernel]:
    """Machine code of each source for compute capability `sm` (90 for sm_90), from the cache or from Triton.

    `progress(done, all, name)` is called as kernels are ready. Raises MissingTriton without a Triton that is known, and
    CodegenError for a kernel that Triton does not compile, with its name, the file that its text is in and Triton's
    words.
    """
    return begin_kernels(sources, sm, cache=cache, workers=workers)(progress)


def begin_kernels(
    sources: Sequence[KernelSource], sm: int, *, cache: Cache | None = None, workers: Workers = WORKERS
) -> Begun:
    """The same in two: processes are at work when this returns. Raises MissingTriton; what it gives raises the rest."""
    version = triton_version()
    if version is None:
        raise MissingTriton(f"kernels for a GPU need Triton: {REMEDY}")
    cache = cache or default_cache()
    keys = [cache_key(s.text, repr(s.options()), str(sm), version, FORMAT) for s in sources]
    found: dict[str, CompiledKernel] = {}
    missing: dict[str, KernelSource] = {}
    for key, source in zip(keys, sources, strict=True):
        if key in found or key in missing:
            continue
        if (data := cache.get("cubin", key)) is not None:
            found[key] = pickle.loads(data)
        else:
            missing[key] = source
    texts = {key: waiting(s.text) if sm >= OVERLAP else s.text for key, s in missing.items()}
    requests = [Request(texts[key], sm, s.options()) for key, s in missing.items()]
    batch = workers.begin(requests, processors())
    names, waited = dict(zip(keys, (s.name for s in sources), strict=True)), list(missing)

    def finish(progress: Progress | None = None) -> list[CompiledKernel]:
        tell, ready = progress or (lambda _done, _all, _name: None), count(1)
        for key in found:
            tell(next(ready), len(names), names[key])
        answers = batch.finish(lambda i: tell(next(ready), len(names), names[waited[i]]))
        for (key, source), answer in zip(missing.items(), answers, strict=True):
            if answer.metadata is None:
                raise CodegenError(_report(source, sm, answer.error))
            m = answer.metadata
            found[key] = CompiledKernel(
                name=m["name"],
                cubin=answer.cubin,
                warps=m.get("num_warps", source.warps),
                shared=m["shared"] or 0,
                scratch=m.get("global_scratch_size") or 0,
                sm=sm,
                source=source,
                overlaps=texts[key] != source.text,
            )
            cache.put("cubin", key, pickle.dumps(found[key]))
        return [found[key] for key in keys]

    return finish


OVERLAP = 90
"""Compute capability from which on a launch may begin before the one before it is over."""

_WAIT = (
    '  %before = "tt.elementwise_inline_asm"() <{asm_string = "griddepcontrol.wait; // $0", '
    'constraints = "=r,~{memory}", packed_element = 1 : i32, pure = false}> : () -> i32\n'
)
_ENTRY = re.compile(r"(sym_visibility = \"public\"[^\n]*\n\^bb0\([^\n]*\):\n)")


def waiting(text: str) -> str:
    """A kernel that first waits for the launch before, all of whose memory is written then."""
    return _ENTRY.sub(lambda found: found.group(1) + _WAIT, text, count=1)


FORMAT = "4"
"""Changes with CompiledKernel, and with what triton_stages does."""


@cache
def processors() -> int:
    """How many processes of this machine's may compile at a time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _report(source: KernelSource, sm: int, error: str) -> str:
    """The message for a kernel that was not compiled; its text is written to a file for whoever looks into it."""
    message = f"Triton does not compile the kernel {source.name} for sm_{sm}: {error}"
    try:
        with tempfile.NamedTemporaryFile("w", prefix=f"lamella-{source.name[:40]}-", suffix=".ttir", delete=False) as f:
            f.write(source.text)
    except OSError:
        return message
    return f"{message}\n  its text is in {f.name}"


_DIVISIBILITY = re.compile(r"\{tt\.divisibility = \d+ : i32\}")


def for_any_address(source: KernelSource) -> KernelSource:
    """The same kernel for buffers that begin anywhere."""
    return replace(source, text=_DIVISIBILITY.sub("{}", source.anywhere or source.text), anywhere="")
