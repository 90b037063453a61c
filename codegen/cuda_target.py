"""The GPU of this machine, as torch knows it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from ..lowering.gpu_target import NAMES, GpuTarget
from .errors import CodegenError
from .triton_compile import triton_version

OFFLINE = "sm_90"
"""Compiled for where there is no GPU."""


def code_key(gpu: GpuTarget) -> str:
    """What machine code for it, and the GPUs beside it, depends on; for cache keys."""
    others = "" if len(set(_capabilities())) < 2 else f"|{_capabilities()}"
    return f"{gpu.key}|triton {triton_version()}{others}"


def capability_of(gpu: GpuTarget, device: int) -> int:
    """The compute capability to compile for on a device: that of `gpu`, unless GPUs of several kinds are here and it is
    the first of them.
    """
    here = _capabilities()
    return here[device] if len(set(here)) > 1 and gpu == host_gpu() and device < len(here) else gpu.sm


@cache
def _capabilities() -> tuple[int, ...]:
    """Of the GPUs of this machine."""
    import torch

    found = (torch.cuda.get_device_capability(i) for i in range(torch.cuda.device_count()))
    return tuple(10 * major + minor for major, minor in found)


def has_gpu() -> bool:
    """Whether there is a GPU to run kernels on."""
    import torch

    return torch.cuda.is_available()


@cache
def host_gpu() -> GpuTarget:
    """The first GPU; without one, a fixed target. Raises CodegenError for one that is too old."""
    import torch

    if not torch.cuda.is_available():
        return GpuTarget.from_name(OFFLINE)
    major, minor = torch.cuda.get_device_capability(0)
    return described(10 * major + minor, torch.cuda.get_device_properties(0).multi_processor_count)


def described(sm: int, processors: int) -> GpuTarget:
    """A GPU of that compute capability: the newest target that is not newer, with its own numbers in place."""
    older = [target for target in map(GpuTarget.from_name, NAMES) if target.sm <= sm]
    if not older:
        raise CodegenError(f"GPUs from compute capability 8.0 on are supported, this one has {sm / 10}")
    return replace(max(older, key=lambda target: target.sm), sm=sm, processors=processors)
