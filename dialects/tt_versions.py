"""What differs between the versions of Triton, as far as its text goes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TritonVersion:
    """How one version writes what versions write differently."""

    descriptor_of_shape: bool = False
    """`!tt.tensordesc<128x64xbf16>`; before, `!tt.tensordesc<tensor<128x64xbf16>>`."""

    cache_policy: bool = False
    """Loads and stores have one property `cachePolicy`; before, the two properties `cache` and `evict`. Each drops the
    other's without a word."""


VERSIONS: dict[tuple[int, int], TritonVersion] = {
    (3, 6): TritonVersion(),
    (3, 7): TritonVersion(),
    (3, 8): TritonVersion(descriptor_of_shape=True),
    (3, 9): TritonVersion(descriptor_of_shape=True, cache_policy=True),
}
"""The versions that are known, by their first two numbers."""

OLDEST = VERSIONS[3, 6]


def version_of(text: str) -> TritonVersion:
    """The row for a version such as `3.6.0` or `3.7.1+git0123`. Raises KeyError for one that is not known."""
    major, minor = text.split("+")[0].split(".")[:2]
    return VERSIONS[int(major), int(minor)]
