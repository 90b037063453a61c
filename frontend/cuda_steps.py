"""Results of a step that is over: what a program still has when it says that a new one begins.

`torch.compiler.cudagraph_mark_step_begin()` promises that results of the steps before are read no more ("CUDA Graphs
will free tensors of a prior iteration"). A recording whose results are held is replayed then all the same: what holds
them loses their memory, and whoever reads it gets an error. That is torch's own behaviour in `mode="reduce-overhead"`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import finalize

import torch
from torch.multiprocessing.reductions import StorageWeakRef

_c: Any = torch._C

Counted = Sequence[tuple[int, Any, int]]
"""Where storages lie, these, and how many tensors lie there while nobody has one."""

OVER: Final = (
    "this result of a recorded CUDA graph has been overwritten: it is of a step before the last call of "
    "torch.compiler.cudagraph_mark_step_begin(). Clone what is needed for longer before that call"
)


def step() -> int:
    """How many steps the program has said that it begins."""
    trees: Any = sys.modules.get("torch._inductor.cudagraph_trees")
    return -trees.MarkStepBox.mark_step_counter if trees is not None else 0


@dataclass
class Lease:
    """The memory of a recording that tensors have which do not keep it."""

    owners: dict[int, tuple[Any, list[int]]] = field(default_factory=dict[int, tuple[Any, list[int]]])
    """The storages that do, and which results lie there, by where that is."""
    aliases: list[StorageWeakRef] = field(default_factory=list[StorageWeakRef])

    def in_use(self) -> bool:
        self.aliases = [a for a in self.aliases if not a.expired()]
        return bool(self.aliases)


_left: list[Lease] = []
"""Those of recordings that are gone, while somebody has a result of theirs."""


def forget_unused() -> None:
    """Let go of memory that nobody has any more."""
    _left[:] = [lease for lease in _left if lease.in_use()]


def lease_of(recording: Any) -> Lease:
    """One that outlives the recording while it is in use."""
    forget_unused()
    lease = Lease()
    finalize(recording, _left.append, lease).atexit = False
    return lease


def take_back(results: list[torch.Tensor], lent: Counted, lease: Lease, forbid: Callable[[Any, str], None]) -> Counted:
    """Have other tensors stand for the results of those storages in `lent` that somebody has, who may read them no
    more; what is `lent` now.
    """
    now: list[tuple[int, Any, int]] = []
    device = results[0].device
    for address, storage, n in lent:
        if tensors_in(storage) <= n:
            now.append((address, storage, n))
            continue
        new = _c._construct_storage_from_data_pointer(address, device, storage.nbytes())
        if address not in lease.owners:
            there = [i for i, t in enumerate(results) if t.untyped_storage()._cdata == storage._cdata]
            lease.owners[address] = storage, there
        with torch.inference_mode(False):
            for i in lease.owners[address][1]:
                t, empty = results[i], torch.empty(0, dtype=results[i].dtype, device=device)
                results[i] = empty.set_(new, t.storage_offset(), t.shape, t.stride())
        lease.aliases = [a for a in lease.aliases if not a.expired()] + [StorageWeakRef(new)]
        forbid(storage, OVER)
        now.append((address, new, tensors_in(new)))
    return now


def are_held(storages: Counted) -> bool:
    return any(tensors_in(storage) > n for _, storage, n in storages)


def tensors_in(storage: Any) -> int:
    """How many tensors lie in a storage, and other holders of it."""
    return _c._storage_Use_Count(storage._cdata)
