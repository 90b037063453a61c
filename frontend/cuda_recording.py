"""One recorded call of a compiled graph: what replays it, where it reads its inputs, and who still has its results.

The results of a recording lie where they lie, and a replay writes them anew. Some are copied for the caller; others are
given as they are, and then nothing is replayed while somebody holds one of them: a result is never overwritten. Nor is
it by another recording: one that gives results away has memory of its own, or shares it, and then no other one that
may write there is replayed either. What a forward has kept for a backward is spent there, unless the graph is retained:
its memory is free for what is recorded from then on.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .cuda_recorder import Recorder, Run
from .cuda_sharing import Guest, Sharing, lies_in
from .cuda_steps import Counted, lease_of, leave, step, take_back, tensors_in
from .donated import keeps_graph
from .replay_questions import QUESTIONS, table

_torch: Any = torch


class Unrecordable(Exception):
    """Why a graph cannot be recorded."""


_results: defaultdict[int, WeakSet[Recording]] = defaultdict(WeakSet)
"""Where the results of recordings lie that are given as they are."""


def is_result(t: torch.Tensor) -> bool:
    """Whether a tensor lies where a recording writes a result each time."""
    return any(not recording.retired for recording in _results.get(_address(t), ()))


def is_shared(t: torch.Tensor) -> bool:
    """Whether that is memory which recordings share."""
    return any(recording.pool is not None for recording in _results.get(_address(t), ()))


def _source(t: Any) -> Recording | None:
    """The recording that has given a tensor."""
    address, storage = _address(t), t.untyped_storage()._cdata
    for recording in _results.get(address, ()):
        given, _ = recording.given().get(address, (None, 0))
        if given is not None and given._cdata == storage:
            return recording
    return None


@dataclass(frozen=True)
class Results:
    """What becomes of results: those `kept` for a backward are given as they are, and those of at least `lent` bytes
    that have memory of their own; others are copied. `apart`: copies stand for what shares memory, too. `alone`: no
    memory is shared with other recordings.

    Where recordings share (`shares`), the memory of what a forward has kept for a backward is free for what is recorded
    from then on. With `ends` what is lent is read no more once the program begins a new step.
    """

    kept: frozenset[int] = frozenset()
    lent: int | None = None
    apart: bool = False
    alone: bool = False
    shares: bool = False
    backward: bool = False
    ends: bool = False


def _nothing() -> None:
    """Replays nothing."""


@dataclass(eq=False)
class Recording:
    """A recorded call."""

    recorder: Recorder
    replay: Callable[[], None]
    results: list[torch.Tensor]
    fixed: Mapping[int, int]
    """Inputs that are read where they are, with their addresses."""
    buffers: Mapping[int, torch.Tensor]
    """What the others are copied to."""
    numbers: Mapping[int, torch.Tensor]
    """What those are written to that are numbers of the CPU."""
    copied: frozenset[int]
    """Results that the caller gets copies of."""
    kept: Counted
    """The memory of those that a backward gets."""
    lent: Counted
    """That of the others that are given as they are."""
    taken: int
    """Bytes of memory that stay taken for it: those that nothing has while it is not replayed, too."""
    sources: WeakSet[Recording]
    """What gives inputs that are read where they are."""
    stated: int
    """How many these were."""
    unseen: frozenset[int] = frozenset()
    """Results in memory of which a backward gets all, and the program nothing, so that it cannot change them."""
    guessed: frozenset[int] = frozenset()
    """Inputs that are read where they are as they had been there before."""
    used: int = 0
    """The call that had its inputs last."""
    times: int = 0
    """How many calls had them."""
    ends: bool = False
    """Whether what is lent is read no more once the program begins a new step."""
    given_in: int = 0
    """The step in which these were given."""
    passed: Mapping[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    """Results that are inputs which are read where they are, or parts of one, so many elements into it: these are those
    of the call. A recording that held them would hold results of another one.
    """
    missed: int = 0
    """Calls of which it was not replayed as somebody had a result of another one where it writes."""
    spent: Counted = field(default_factory=Counted)
    """The memory of inputs where this one may write."""
    guests: list[Guest] = field(default_factory=list["Guest"])
    """Results of other recordings that lie where this one may write."""

    pool: Any = None
    """Keeps the memory that it shares, if any."""
    retired: bool = False
    """Whether it is not to be replayed any more."""

    def __post_init__(self) -> None:
        self.size = max(self.taken, sum(storage.nbytes() for storage, _ in self.given().values()))
        """Bytes of memory that it has."""
        self.lease = lease_of(self, self.pool, self.given())
        self.places = table(self.fixed.items())
        anew = [i for i in range(len(self.results)) if i not in self.passed and i not in self.copied]
        self.seen = [i for i in anew if i not in self.unseen]
        """Results that are given as they are, each time as another tensor: it is counted who has one."""

    def given(self) -> Counted:
        """The memory of all results that are given as they are."""
        return Counted({**self.kept, **self.lent})

    def retire(self) -> None:
        """Leave all memory."""
        self.retired = True
        self.replay, self.results, self.buffers, self.numbers = _nothing, [], {}, {}
        self.kept, self.lent, self.guests, self.spent = Counted(), Counted(), [], Counted()
        self.pool = None
        leave(self.lease)

    def stale(self) -> bool:
        """Whether it is retired, or something that has given it an input is gone: that will not lie there again."""
        return self.retired or len(self.sources) < self.stated

    def matches(self, inputs: list[Any]) -> bool:
        """Whether all inputs are where they were that are read there."""
        return not self.retired and QUESTIONS.same_places(inputs, self.places)

    def moved(self, inputs: Sequence[Any]) -> list[int]:
        """Inputs that are not where they were."""
        return [i for i, address in self.fixed.items() if inputs[i].data_ptr() != address]

    def results_among(self, inputs: Sequence[Any]) -> set[int]:
        """Inputs that are copied, but lie where another recording writes them each time."""
        return {i for i in self.buffers if is_result(inputs[i])}

    def held(self) -> bool:
        """Whether somebody still has a result that was given as it is."""
        self.lease.out = self.lease.out and (self.kept.are_held() or self.lent_held())
        return self.lease.out

    def held_at(self, places: Collection[int]) -> bool:
        """Whether it is one of those that lie there."""
        return self.kept.are_held(places) or self.lent.are_held(places)

    def crowded(self) -> bool:
        """Whether somebody has a result of another recording where this one may write, beside its inputs."""
        if self.spent and (keeps_graph() or self.spent.are_held()):
            return True
        return any(guest.held() for guest in self.guests if guest.lease.out)

    def lent_held(self) -> bool:
        """Whether one of these is the program's, which it may still read."""
        if not self.lent.are_held():
            return False
        if not self.ends or step() <= self.given_in:
            return True
        self.lent = take_back(self.results, self.lent, self.lease, self.recorder.forbid)
        return False

    def spend(self, address: int) -> Any:
        """Leave the memory of what is kept to recordings that are made from now on; the storage that stands for it."""
        storage, _ = self.kept[address]
        new = self.lease.instead(self.results, address, storage)
        self.lease.owners[address] = None, self.lease.owners[address][1]
        self.lease.spent.add(address)
        self.kept = Counted({**self.kept, address: new})
        return new

    def run(self, inputs: Sequence[Any]) -> list[torch.Tensor]:
        if self.buffers:
            _torch._foreach_copy_(list(self.buffers.values()), [inputs[i] for i in self.buffers])
        for i, buffer in self.numbers.items():
            buffer.fill_(inputs[i].item())  # the GPU is not waited for, as a copy of the CPU's memory would
        self.lease.out, self.given_in = True, step()
        self.replay()
        results = [*self.results]
        for i, (which, into) in self.passed.items():
            t, of = results[i], inputs[which]
            if into or t.shape != of.shape or t.stride() != of.stride():
                of = of.detach().as_strided(t.shape, t.stride(), of.storage_offset() + into)
            results[i] = of
        for i in self.copied:
            results[i] = results[i].clone()
        for i in self.seen:
            results[i] = results[i].detach()  # it counts changes with what a backward gets of the same memory
        for i in self.unseen:
            results[i] = results[i].data  # which takes less time, as no dispatcher is asked
        return results


def record(
    recorder: Recorder,
    graph: Run,
    inputs: list[Any],
    fixed: Mapping[int, int],
    policy: Results,
    uploads: Sequence[int] = (),
    copies: Mapping[int, torch.Tensor] | None = None,
) -> Recording:
    """A call of `graph` with inputs like these, of which those in `fixed` stay, and those of `uploads`, which are
    numbers of the CPU, are read on the GPU. In `copies` is what other recordings copy inputs to, which is free until
    one is replayed. Raises Unrecordable or RuntimeError.
    """
    QUESTIONS.settle()
    recorder.order()
    tensors = {i: v for i, v in enumerate(inputs) if isinstance(v, torch.Tensor) and i not in uploads}
    if elsewhere := [i for i, t in tensors.items() if not recorder.reads(t)]:
        raise Unrecordable(f"input {elsewhere[0]} is in the CPU's memory")
    moving = {i: t for i, t in tensors.items() if i not in fixed}
    with torch.inference_mode(False):
        buffers = {i: _buffer(t, (copies or {}).get(i)) for i, t in moving.items()}
        numbers = {i: recorder.number(inputs[i]) for i in uploads}
    for i, buffer in buffers.items():
        buffer.copy_(inputs[i])  # an error where elements share memory
    static = buffers | numbers
    there = {i: t for i, t in tensors.items() if i in fixed}
    parts = {_part(t): (i, int(t.storage_offset())) for i, t in there.items()}
    givers = {i: giver for i, t in there.items() if (giver := _source(t)) is not None}
    sources, sharing = WeakSet(givers.values()), recorder.sharing
    # no input is read where this recording may have other things: those that have been spent before lie there
    alone = policy.alone or any(sharing.is_spent(_address(t), givers.get(i)) for i, t in there.items())
    before = [] if alone else [*sharing.spent]
    spent = _spent(inputs, givers, sharing) if policy.shares and policy.backward and not alone else {}
    given = [static.get(i, value) for i, value in enumerate(inputs)]
    owners = [StorageWeakRef(t.untyped_storage()) for t in there.values()]
    del tensors, moving, there
    counted_inputs = _leave(inputs, spent, sharing)
    replay, results, taken = recorder.record(graph, given, alone, policy.shares)
    if any(isinstance(t, torch.Tensor) and not recorder.reads(t) for t in results):
        raise Unrecordable("a result is in the CPU's memory")
    # something else may lie now where a storage was that is gone
    same = {owner.cdata for owner in owners if not owner.expired()}
    theirs = {_address(t) for t in results if isinstance(t, torch.Tensor) and t.untyped_storage()._cdata in same}
    copied = _copied(results, theirs | {_address(b) for b in static.values()}, policy)
    own = {i: _address(t) for i, t in enumerate(results) if i not in copied and t.numel() and _address(t) not in theirs}
    first = {address: i for i, address in reversed(own.items())}
    counted = {i: (a, (storage := results[i].untyped_storage(), tensors_in(storage))) for a, i in first.items()}
    passed = {
        i: (parts[part][0], int(t.storage_offset()) - parts[part][1])
        for i, t in enumerate(results)
        if _address(t) in theirs and (part := _part(t)) in parts
    }
    seen = {_address(t) for i, t in enumerate(results) if i not in policy.kept}
    unseen = frozenset(i for i in policy.kept if i not in passed and _address(results[i]) not in seen)
    results = [
        torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta") if i in passed else t
        for i, t in enumerate(results)
    ]
    recording = Recording(
        *(recorder, replay, results, fixed, buffers, numbers, copied),
        kept=Counted(c for i, c in counted.items() if i in policy.kept),
        lent=Counted(c for i, c in counted.items() if i not in policy.kept),
        taken=taken,
        sources=sources,
        stated=len(sources),
        unseen=unseen,
        ends=policy.ends,
        passed=passed,
        spent=counted_inputs,
        pool=None if alone else recorder.keeper,
    )
    for address in [address for address, there in _results.items() if not there]:
        del _results[address]
    for address in first:
        _results[address].add(recording)
    if not alone:
        sharing.add(recording, recorder.shared(), before)
    elif policy.shares and not sharing.renewed:
        sharing.outside.add(recording)
    return recording


def _buffer(t: torch.Tensor, there: torch.Tensor | None) -> torch.Tensor:
    """What a tensor is copied to: what is there, if it is like that."""
    if there is not None and (there.shape, there.stride(), there.dtype) == (t.shape, t.stride(), t.dtype):
        return there
    return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device)


def _part(t: torch.Tensor) -> tuple[Any, ...]:
    """What strides make the same results of, but for where they begin."""
    return _address(t), t.dtype, t.is_conj(), t.is_neg()


def _spent(inputs: Sequence[Any], givers: Mapping[int, Recording], sharing: Sharing) -> dict[int, Recording]:
    """The inputs of a backward that a forward has kept for it in memory that recordings share, and nobody else has."""
    if keeps_graph():
        return {}
    copies = {_address(b) for giver in givers.values() for b in giver.buffers.values()}
    counts = Counter(_address(t) for t in {id(t): t for t in inputs if isinstance(t, torch.Tensor)}.values())
    found: dict[int, Recording] = {}
    for i, giver in givers.items():
        t, address = inputs[i], _address(inputs[i])
        shared = lies_in(address, sharing.parts.get(giver, [])) and address not in copies
        if shared and address in giver.kept and not (t.is_conj() or t.is_neg()):
            storage, n = giver.kept[address]
            if tensors_in(storage) <= n + counts[address]:
                found[i] = giver
    return found


def _leave(inputs: list[Any], spent: Mapping[int, Recording], sharing: Sharing) -> Counted:
    """Have tensors that keep nothing stand for inputs that are spent; the memory of these."""
    counted: dict[int, tuple[Any, int]] = {}
    instead: dict[int, torch.Tensor] = {}
    places: defaultdict[Recording, set[int]] = defaultdict(set)
    with torch.inference_mode(False):
        for i, giver in spent.items():
            t, address = inputs[i], _address(inputs[i])
            if address not in counted:
                counted[address] = giver.spend(address)
                places[giver].add(address)
            if id(t) not in instead:
                storage, n = counted[address]
                counted[address] = storage, n + 1
                empty = torch.empty(0, dtype=t.dtype, device=t.device)
                instead[id(t)] = empty.set_(storage, t.storage_offset(), t.shape, t.stride())
            inputs[i] = instead[id(t)]
    sharing.spent += [Guest(giver, where) for giver, where in places.items()]
    return Counted(counted)


def _copied(results: Sequence[Any], inputs: set[int], policy: Results) -> frozenset[int]:
    """The results that are copied. Raises Unrecordable where a copy cannot stand for one."""
    if any(not isinstance(t, torch.Tensor) for t in results):
        raise Unrecordable("a result is a number")
    times = Counter(_address(t) for i, t in enumerate(results) if i not in policy.kept and t.numel())
    copied: set[int] = set()
    for i, t in enumerate(results):
        if i in policy.kept:
            continue
        shared = bool(t.numel()) and (_address(t) in inputs or times[_address(t)] > 1)
        if policy.lent is not None and t.nbytes >= policy.lent and not shared:
            continue
        copied.add(i)
        if shared and not policy.apart:
            raise Unrecordable("a result shares memory with an input or another result")
        if t.numel() and t.clone().stride() != t.stride():
            raise Unrecordable("a result has gaps between its elements")
    return frozenset(copied)


def _address(t: torch.Tensor) -> int:
    return t.untyped_storage().data_ptr()
