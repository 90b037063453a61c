"""What the compiler takes a machine for."""

from lamella.lowering.target import L3_PER_CORE, CpuTarget


def test_the_last_cache_is_what_the_cores_may_count_on() -> None:
    """However large the socket's is, which a virtual machine shares with others."""
    host = CpuTarget.host()
    assert 0 < host.l3 <= host.cores * L3_PER_CORE
