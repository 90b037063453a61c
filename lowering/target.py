"""What the compiler knows about a CPU: one frozen record, passed in."""

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Final

from ..dialects.user_error import LamellaError

F32_ALONE: Final = "the library has instructions for f32 alone there"
"""Why halves are computed in f32 where the target does not multiply them (`CpuTarget.multiplies`)."""


@dataclass(frozen=True)
class CpuTarget:
    """A CPU to generate code for. Sizes are in bytes, `l1` and `l2` per core, `l3` what all cores may count on.

    `cpu` and `features` are LLVM's own (`-mcpu`, `-mattr`); `vector_bits` is the width that kernels should use.
    """

    name: str
    triple: str
    cpu: str
    features: str
    vector_bits: int
    l1: int = 32 << 10
    l2: int = 1 << 20
    l3: int = 32 << 20
    cores: int = 1
    has_fma: bool = False
    has_f16c: bool = False
    has_avx512: bool = False
    has_avx512_bf16: bool = False
    has_avx512_vbmi: bool = False
    has_avx512_vnni: bool = False
    has_amx: bool = False
    blas_bits: int = 512
    """Of the vectors by which ATen's library multiplies f32: MKL takes half as long ones on processors of AMD's."""

    @property
    def has_blocks(self) -> bool:
        """Whether products of f32 in blocks of ours are faster than ATen's library."""
        return self.has_amx or self.vector_bits > self.blas_bits

    @property
    def runs(self) -> int:
        """Of how many rows sums of columns are made at a time where a few long runs of memory are read faster than many
        short ones: on a Zen 5, and on a Zen 4, whose threads should each read memory as it lies. 0 elsewhere: it is not
        so on processors of Intel's with matrix units, and others were not measured.
        """
        return {"znver4": 1, "znver5": 4}.get(self.cpu, 0)

    @property
    def has_bf16_vectors(self) -> bool:
        """Whether ATen's library multiplies bf16 by vectors: there are instructions, and no matrix units."""
        return self.has_avx512_bf16 and not self.has_amx

    @property
    def has_pairs(self) -> bool:
        """Whether an instruction multiplies pairs of 16 bits and adds the two."""
        return self.triple.startswith("x86_64")

    def multiplies(self, dtype: str) -> bool:
        """Whether there are instructions that multiply f16 or bf16, which ATen's library uses."""
        if dtype == "bf16":
            return self.has_amx or self.has_avx512_bf16 or not self.triple.startswith("x86_64")
        return self.has_amx or "+avx512fp16" in self.features or not self.triple.startswith("x86_64")

    @property
    def threads(self) -> int:
        """Those that run a launch: torch's, as they are now, which may be fewer than there are cores."""
        if self.name != "host":
            return self.cores
        import torch

        return max(1, min(self.cores, torch.get_num_threads()))

    @property
    def machine(self) -> str:
        """What passes are told of it, as their options: caches in bytes, and cores, by which sums may be cut."""
        return f"l1={self.l1} l2={self.l2} l3={self.l3} threads={self.cores}"

    @property
    def registers(self) -> int:
        """Vectors that registers hold."""
        return 32 if self.has_avx512 or self.triple.startswith("aarch64") else 16

    @property
    def key(self) -> str:
        """What machine code depends on; for cache keys."""
        return f"{self.triple}|{self.cpu}|{self.features}"

    def lanes(self, bits: int) -> int:
        """How many elements of `bits` bits a vector holds."""
        return max(self.vector_bits // bits, 1)

    @property
    def lacking(self) -> list[str]:
        """What code for this target needs that this machine has not got."""
        host = _host()
        if (processor := self.triple.partition("-")[0]) != host.triple.partition("-")[0]:
            return [f"processor of {processor}"]
        flags = [f.name for f in fields(self) if f.name.startswith("has_")]
        found = [name.removeprefix("has_") for name in flags if getattr(self, name) and not getattr(host, name)]
        wide = self.vector_bits > host.vector_bits
        return found or ([f"vectors of {self.vector_bits} bits"] if wide else [])

    @staticmethod
    def host() -> "CpuTarget":
        """This machine, by its features: hypervisors name the CPU wrongly. An unknown machine has 128-bit vectors."""
        return _host()

    @staticmethod
    def from_name(name: str) -> "CpuTarget":
        """A fixed target for tests: `avx512`, `amx` and `zen4` (with it), `avx2`, `baseline` (no AVX) or `neon`."""
        if name not in _NAMED:
            raise LamellaError(f"unknown target {name!r}; there are {', '.join(_NAMED)}")
        return _NAMED[name]


L3_PER_CORE = 16 << 20
"""Bytes of the last cache that a core may count on at most: a virtual machine is told the size of a socket's."""

TILE_PERMISSION = (158, 0x1023, 18)
"""arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA), a system call: once per process, and again it does no harm."""

_X86 = "x86_64-unknown-linux-gnu"

_AMX = CpuTarget(
    "amx",
    _X86,
    "sapphirerapids",
    "",
    512,
    has_fma=True,
    has_f16c=True,
    has_avx512=True,
    has_avx512_bf16=True,
    has_avx512_vbmi=True,
    has_avx512_vnni=True,
    has_amx=True,
)
_NAMED = {
    "avx512": CpuTarget("avx512", _X86, "x86-64-v4", "", 512, has_fma=True, has_f16c=True, has_avx512=True),
    "amx": _AMX,
    "zen4": replace(_AMX, name="zen4", cpu="znver4", has_amx=False, blas_bits=256),
    "avx2": CpuTarget("avx2", _X86, "x86-64-v3", "", 256, has_fma=True, has_f16c=True),
    "baseline": CpuTarget("baseline", _X86, "x86-64", "", 128),
    "neon": CpuTarget("neon", "aarch64-unknown-linux-gnu", "generic", "+neon", 128, has_fma=True, has_f16c=True),
}
NAMES = tuple(_NAMED)

# The newest CPU whose every listed feature is there; `sse4a` tells AMD from Intel.
_CPUS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("znver5", ("sse4a", "avx512vp2intersect")),
    ("znver4", ("sse4a", "avx512bf16")),
    ("znver3", ("sse4a", "avx2", "vaes")),
    ("znver2", ("sse4a", "avx2")),
    ("sapphirerapids", ("amx-bf16", "avx512bf16")),
    ("cooperlake", ("avx512bf16",)),
    ("icelake-server", ("avx512vbmi2",)),
    ("cascadelake", ("avx512vnni",)),
    ("skylake-avx512", ("avx512f", "avx512bw", "avx512dq", "avx512vl")),
    ("haswell", ("avx2", "fma", "f16c")),
    ("x86-64", ()),
)


def cpu_of(features: Mapping[str, bool]) -> str:
    """LLVM's name of the newest x86 CPU with these features."""
    return next(cpu for cpu, needs in _CPUS if all(features.get(f, False) for f in needs))


@cache
def _host() -> CpuTarget:
    import llvmlite.binding as binding

    machine = platform.machine().lower()
    triple = binding.get_process_triple()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    l1, l2, l3 = (_cache_bytes(level) or default for level, default in ((1, 32 << 10), (2, 1 << 20), (3, 32 << 20)))
    l3 = min(l3, cores * L3_PER_CORE)
    if machine in ("x86_64", "amd64"):
        found: Mapping[str, bool] = binding.get_host_cpu_features()

        def has(*names: str) -> bool:
            return all(found.get(n, False) for n in names)

        avx512 = has("avx512f", "avx512bw", "avx512dq", "avx512vl", "fma")
        avx2 = has("avx2", "fma", "f16c")
        return CpuTarget(
            name="host",
            triple=triple,
            cpu=cpu_of(found),
            features=",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(found.items())),
            vector_bits=512 if avx512 else 256 if avx2 else 128,
            l1=l1,
            l2=l2,
            l3=l3,
            cores=cores,
            has_fma=avx512 or avx2,
            has_f16c=has("f16c"),
            has_avx512=avx512,
            has_avx512_bf16=avx512 and has("avx512bf16"),
            has_avx512_vbmi=avx512 and has("avx512vbmi"),
            has_avx512_vnni=avx512 and has("avx512vnni"),
            has_amx=has("amx-bf16", "amx-int8", "amx-tile") and _may_use_tiles(),
            blas_bits=256 if has("sse4a") else 512,
        )
    arm = machine in ("aarch64", "arm64")
    cpu, features = ("generic", "+neon") if arm else ("", "")
    return CpuTarget("host", triple, cpu, features, 128, l1, l2, l3, cores, has_fma=arm, has_f16c=arm)


def _may_use_tiles() -> bool:
    """Whether Linux lets this process use the registers of matrix units; it wants to be asked."""
    import ctypes

    try:
        return ctypes.CDLL(None).syscall(*TILE_PERMISSION) == 0
    except (OSError, AttributeError):
        return False


def _cache_bytes(level: int) -> int | None:
    """Size of the first CPU's data cache of a level, as Linux tells it; None where it does not."""
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            found = int((index / "level").read_text())
            kind, size = (index / "type").read_text().strip(), (index / "size").read_text().strip()
        except (OSError, ValueError):
            continue
        if found == level and kind != "Instruction" and size[-1:] in ("K", "M"):
            return int(size[:-1]) << (10 if size[-1] == "K" else 20)
    return None
