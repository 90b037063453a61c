"""What the compiler takes a machine for."""

import torch

from lamella.lowering.options import Options
from lamella.lowering.pipeline import pipeline
from lamella.lowering.target import L3_PER_CORE, CpuTarget


def test_the_last_cache_is_what_the_cores_may_count_on() -> None:
    """However large the socket's is, which a virtual machine shares with others."""
    host = CpuTarget.host()
    assert 0 < host.l3 <= host.cores * L3_PER_CORE


def test_kernels_are_made_for_torchs_threads() -> None:
    """As many as there are now, where these are fewer than cores; those of a fixed target stay."""
    before = torch.get_num_threads()
    try:
        for n in (1, 10_000):
            torch.set_num_threads(n)
            host = CpuTarget.host()
            assert host.threads == min(n, host.cores)
            text, fixed = pipeline(Options(), host), pipeline(Options(deterministic=True), host)
            assert (f"busy={n}" in text) == (n < host.cores) and "busy" not in fixed  # else all are
            assert f"threads={host.cores}" in text
            assert CpuTarget.from_name("amx").threads == CpuTarget.from_name("amx").cores
    finally:
        torch.set_num_threads(before)
