"""Memory that a program's tensors have and do not keep, as what keeps it is a recording that may be replayed.

`torch.compiler.cudagraph_mark_step_begin()` promises that results of the steps before are read no more ("CUDA Graphs
will free tensors of a prior iteration"). A recording whose results are held is replayed then all the same: what holds
them loses their memory, and whoever reads it gets an error. That is torch's own behaviour in `mode="reduce-overhead"`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final
from weakref import finalize

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .replay_questions import QUESTIONS, table

_c: Any = torch._C


class Counted(dict[int, tuple[Any, int]]):
    """Storages by where they lie, and how many tensors lie there while nobody has one; not changed once made."""

    @cached_property
    def table(self) -> bytes:
        return table((storage._cdata, n) for storage, n in self.values())

    def are_held(self, places: Collection[int] | None = None) -> bool:
        """Whether more tensors lie in one of these storages (in these places) than there were."""
        if places is None:
            return bool(self) and QUESTIONS.more_owners(self.table)
        return Counted({address: c for address, c in self.items() if address in places}).are_held()


OVER: Final = (
    "this result of a recorded CUDA graph has been overwritten: it is of a step before the last call of "
    "torch.compiler.cudagraph_mark_step_begin(). Clone what is needed for longer before that call"
)


def step() -> int:
    """How many steps the program has said that it begins."""
    trees: Any = sys.modules.get("torch._inductor.cudagraph_trees")
    return -trees.MarkStepBox.mark_step_counter if trees is not None else 0


@dataclass(eq=False)
class Lease:
    """The memory of a recording's results that a program may have."""

    pool: Any
    """Keeps shared memory that no storage keeps."""
    given: dict[int, StorageWeakRef]
    """The storages of results that may be read, by where they lie."""
    out: bool = False
    """Whether somebody may have one."""
    owners: dict[int, tuple[Any, list[int]]] = field(default_factory=dict[int, tuple[Any, list[int]]])
    """The storages that keep what others have, and which results lie there, by where that is."""
    spent: set[int] = field(default_factory=set[int])
    """Where nothing keeps it: recordings made since may write there."""

    def in_use(self, places: Collection[int] | None = None) -> bool:
        """Whether somebody has a result (in these places), when the recording itself is gone."""
        return any(
            (places is None or address in places) and not storage.expired() for address, storage in self.given.items()
        )

    def instead(self, results: list[torch.Tensor], address: int, storage: Any) -> tuple[Any, int]:
        """Have another storage, which keeps nothing, stand for one of results; that, as counted."""
        new = _c._construct_storage_from_data_pointer(address, results[0].device, storage.nbytes())
        if address not in self.owners:
            there = [i for i, t in enumerate(results) if t.untyped_storage()._cdata == storage._cdata]
            self.owners[address] = storage, there
        with torch.inference_mode(False):
            for i in self.owners[address][1]:
                t, empty = results[i], torch.empty(0, dtype=results[i].dtype, device=results[i].device)
                results[i] = empty.set_(new, t.storage_offset(), t.shape, t.stride())
        self.given[address] = StorageWeakRef(new)
        return new, tensors_in(new)


_left: list[Lease] = []
"""Those of recordings that are gone, while somebody has a result of theirs."""


def left() -> list[Lease]:
    """These; what nobody has any more is let go."""
    for lease in [*_left]:
        if not lease.in_use():
            _left.remove(lease)
            lease.owners.clear()
            lease.pool = None
    return _left


def leave(lease: Lease) -> None:
    """Note that a recording is gone."""
    lease.out = True
    if lease not in _left:
        _left.append(lease)


def lease_of(recording: Any, pool: Any, results: Counted) -> Lease:
    """One that outlives the recording while it is in use."""
    left()
    lease = Lease(pool, {address: StorageWeakRef(storage) for address, (storage, _) in results.items()})
    finalize(recording, leave, lease).atexit = False
    return lease


def take_back(results: list[torch.Tensor], lent: Counted, lease: Lease, forbid: Callable[[Any, str], None]) -> Counted:
    """Have other tensors stand for the results of those storages in `lent` that somebody has, who may read them no
    more; what is `lent` now.
    """
    now: dict[int, tuple[Any, int]] = {}
    for address, (storage, n) in lent.items():
        now[address] = storage, n
        if tensors_in(storage) > n:
            now[address] = lease.instead(results, address, storage)
            forbid(storage, OVER)
    return Counted(now)


def tensors_in(storage: Any) -> int:
    """How many tensors lie in a storage, and other holders of it."""
    return _c._storage_Use_Count(storage._cdata)
