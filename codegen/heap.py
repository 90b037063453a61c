"""glibc's heap, so that memory which calls take and give back stays mapped."""

from __future__ import annotations

import ctypes

LARGEST = (32 << 20) - (64 << 10)
"""Bytes of the largest block that moves glibc's thresholds (DEFAULT_MMAP_THRESHOLD_MAX is 32 MB)."""


def keep_heap() -> None:
    """Brings glibc where it is anyhow once a program has freed one tensor of that size: blocks up to it come from the
    heap, which is not trimmed below twice of it.

    Before that, temporaries of ATen (a convolution in oneDNN has three) can be unmapped and mapped again in every call,
    which takes longer than writing them. Nothing is touched, so no memory is used. Whoever has set the thresholds
    (mallopt, MALLOC_MMAP_THRESHOLD_) keeps them; other allocators take no notice.
    """
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.restype, libc.free.argtypes = None, [ctypes.c_void_p]
    libc.free(libc.malloc(LARGEST))
