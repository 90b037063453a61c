"""A recorder that has no GPU: it runs a call again, into the results of the first."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from weakref import ref

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from lamella.frontend.cuda_arguments import Arguments
from lamella.frontend.cuda_graphs import GraphedCall
from lamella.frontend.cuda_sharing import Sharing


def at_the_same_place(value: Any) -> Any:
    """A tensor with the memory of another, which does not keep that alive."""
    if not isinstance(value, torch.Tensor) or not value.numel():
        return value
    storage, device = value.untyped_storage(), torch.device("cpu")
    same = torch._C._construct_storage_from_data_pointer(storage.data_ptr(), device, storage.nbytes())
    empty = torch.empty(0, dtype=value.dtype)
    return empty.set_(same, value.storage_offset(), value.shape, value.stride())  # type: ignore[call-overload]


def overwrite(results: Iterable[torch.Tensor]) -> None:
    for t in results:
        if t.is_floating_point():
            t.fill_(math.nan)


class Keeper:
    """Of memory."""


class Recorder:
    def __init__(self) -> None:
        self.recorded = self.replayed = self.ordered = self.failures = 0
        self.owned = 0
        self.capturing = False
        self.waits = self.room = True
        self.idles = False
        """Whether the GPU has nothing to do when it is asked."""
        self.tell_next: Callable[[bool], None] | None = None
        self.longer = 1.0
        """How many times as long as its launches the GPU takes for a call."""
        self.taken = 0
        """Bytes that a recording keeps."""
        self.behind = 0.0
        """Seconds that the GPU is behind its launches at least."""
        self.tidied = 0
        self.forbidden: list[int] = []
        self.renewed = 0
        self.sharing = Sharing()
        self.places: list[list[tuple[StorageWeakRef, torch.Tensor]]] = []
        """The results of each recording that shares memory, in order."""
        self.blocks: list[torch.Tensor] = []
        """The memory of all results, which stays: what no storage keeps may be written."""
        self.spent = 0
        """Inputs that nothing keeps any more when they have been read."""
        self.before = 0
        self.keeper = Keeper()
        self.keepers: list[ref[Keeper]] = []
        """Those of what is retired."""

    def record(
        self, run: Callable[[list[Any]], Sequence[Any]], inputs: list[Any], own: bool, asked: bool
    ) -> tuple[Callable[[], None], Sequence[Any], int]:
        """Nothing is computed yet: what is given is as it was, and results are NaN. Versions are, too."""
        self.recorded += 1
        self.owned += own
        earlier = [*itertools.chain(*self.places)]
        free = [t for storage, t in earlier if storage.expired()]
        given = [*map(at_the_same_place, inputs)]  # a recording knows addresses, it does not hold tensors
        before = [t.clone() if isinstance(t, torch.Tensor) else t for t in given]
        theirs = {t.untyped_storage().data_ptr() for t in given if isinstance(t, torch.Tensor)}
        results = [*run(inputs)]
        inputs.clear()
        for t, value in zip(given, before, strict=True):
            if isinstance(t, torch.Tensor):
                t.data.copy_(value)
        made = [
            i
            for i, t in enumerate(results)
            if isinstance(t, torch.Tensor) and t.untyped_storage().data_ptr() not in theirs
        ]
        storages: dict[int, Any] = {}
        moved: dict[int, torch.Tensor] = {}  # a tensor that is two results counts its changes once
        for i in made:
            results[i] = moved.setdefault(id(t := results[i]), self._moved(t, storages))
            if results[i].is_floating_point():
                results[i].fill_(math.nan)
        lies = [(i, at_the_same_place(results[i])) for i in made]
        spent = [t for storage, t in earlier if storage.expired() and all(t is not f for f in free)]
        self.spent += len(spent)
        after = len(self.places) + 1
        if not own:
            self.places.append([(StorageWeakRef(results[i].untyped_storage()), t) for i, t in lies])

        def replay() -> None:
            self.replayed += 1
            if not own:  # earlier results that were free, and later ones, may lie where this one has other things
                overwrite(itertools.chain(free, (t for _, t in itertools.chain(*self.places[after:]))))
            new = run([*given])
            if not own:
                overwrite(spent)
            for i, t in lies:
                t.copy_(new[i])

        return replay, results, self.taken

    def _moved(self, t: torch.Tensor, storages: dict[int, Any]) -> torch.Tensor:
        """A result in memory that stays, beside those that share a storage with it."""
        storage = t.untyped_storage()
        if not storage.nbytes():
            return t
        if storage._cdata not in storages:
            self.blocks.append(torch.empty(storage.nbytes(), dtype=torch.uint8))
            address, device = self.blocks[-1].data_ptr(), torch.device("cpu")
            new = torch._C._construct_storage_from_data_pointer(address, device, storage.nbytes())
            storages[storage._cdata] = new
        empty = torch.empty(0, dtype=t.dtype)
        return empty.set_(storages[storage._cdata], t.storage_offset(), t.shape, t.stride())

    def shared(self) -> list[tuple[int, int]]:
        """All of it is: what is recorded later lies where any earlier one may write."""
        return [(0, 1 << 62)]

    def renew(self) -> None:
        self.renewed += 1
        self.sharing.retire()
        self.places.clear()
        self.keepers.append(ref(self.keeper))
        self.keeper = Keeper()

    def apart(self) -> AbstractContextManager[Any]:
        self.before += 1
        return nullcontext()

    def tidy(self) -> None:
        self.tidied += 1

    def ready(self) -> bool:
        return not self.capturing

    def order(self) -> None:
        self.ordered += 1

    def moment(self) -> float:
        return time.perf_counter()

    def idle(self) -> bool:
        return self.idles

    def past(self, moment: float) -> bool:
        return self.waits and time.perf_counter() - moment >= self.behind

    def seconds(self, began: float, ended: float) -> float:
        return self.longer * (ended - began)

    def roomy(self) -> bool:
        return self.room

    def number(self, value: torch.Tensor) -> torch.Tensor:
        return value.clone()

    def forbid(self, storage: Any, why: str) -> None:
        self.forbidden.append(storage._cdata)

    def reads(self, t: torch.Tensor) -> bool:
        return t.dtype != torch.float64


class Graphed(GraphedCall):
    fake: Recorder

    def recorder(self) -> Recorder:
        return self.fake


class Recordable:
    """A graph that takes numbers of the CPU, and its `main`, which takes them on the GPU."""

    def __init__(self, run: Callable[[list[Any]], Sequence[Any]], uploads: Sequence[int]) -> None:
        self.run, self.uploads = run, uploads

    def __call__(self, inputs: list[Any]) -> Sequence[Any]:
        return self.run(inputs)

    def main(self) -> Callable[[list[Any]], Sequence[Any]]:
        return self.run


def graph_of(run: Callable[[list[Any]], Sequence[Any]], **arguments: Any) -> Graphed:
    def boxed(inputs: list[Any]) -> Sequence[Any]:
        given = list(inputs)
        inputs.clear()
        return run(given)

    call = Graphed(Recordable(boxed, arguments.get("uploads", ())), Arguments(0, **arguments), launches=9)
    call.fake = Recorder()
    return call


def two_graphs(**arguments: Any) -> tuple[Graphed, Graphed]:
    """Of one recorder, that give a tensor, a parameter, times 2 and times 3."""
    first, second = (graph_of(lambda v, by=by: (v[0] * by,), asked=True, parameters=(0,), **arguments) for by in (2, 3))
    second.fake = first.fake
    return first, second
