"""Compiled graphs recorded as CUDA graphs and replayed: one call of the driver in place of one per kernel.

The first call with given sizes runs as it is, a later one is recorded, and those after it are replayed. Inputs that lie
where they have lain before are read there; others are copied to where the recording reads them. What a program gets
from a graph is copied out, what a forward keeps for its backward is not: then a call is not replayed, but made as it
is, while any of that is in use. Recordings share one pool of memory if they are asked for, or give only copies.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any

import torch

from ..lowering.origins import Call
from .cuda_arguments import Arguments
from .cuda_recorder import Recorder, recorder_of
from .cuda_recording import Recording, Results, Unrecordable, is_result, is_shared, record
from .cuda_sizes import WATCHED, Sizes

log = logging.getLogger("lamella")

MOST = 16
"""Sizes that one graph is recorded for, and recordings of each but for those of other layers."""

LAYERS = 128
"""Recordings of one graph for layers that share it, and addresses of an input that are remembered."""

TRIES = 32
"""Calls after which inputs that are other tensors each time are copied: before, they may be parameters of the layers
that share a graph.
"""

SHARE = 0.6
"""How much of the time that the GPU takes for a call its launches take, from which on it waits for them: where the CPU
has other work they take twice as long.
"""

RARE = 100
"""Of how much of the time from one call to the next launches take one part at least, where the GPU is idle before and
after them: so it waits for Python, and for launches as well.
"""

MOVED = 1 << 19
"""Bytes of inputs, which need memory besides, that a recording which nobody has asked for may copy in a call, for each
launch: that takes a twentieth of the time of launches. As much as gradients that an optimizer is given.
"""

SHARED = 1 << 20
"""Bytes of inputs that one which shares memory may: only the first of a step's copy such, where others read what those
before them give. That takes an eighth of the time of launches.
"""

COPIED = 1.5e11
"""Bytes of results that it may copy for each second that the GPU takes for a call: that takes a tenth of it."""

KEPT = 1 << 20
"""Bytes that its forward may keep for a backward, or a backward its gradients, for each launch, with memory of its own:
these stay taken, where else a backward frees what was kept, and gradients come to lie there. With more, or more in all,
recordings share memory, in which a backward spends what was kept.
"""

IDLE = 16
"""Calls for each of several recordings after which one that was not replayed is given up if it keeps memory."""

WORTH = 16 << 20
"""Bytes of inputs that one which is asked for may copy in a call, for each launch: a GPU takes as long for a launch."""

SETTLED = 8
"""Calls after which a recording's copies of inputs are looked at again, and after twice as many each time: what gives
them may have been recorded since.
"""

CROWDED = 3
"""Calls of which a recording is not replayed for results of others where it writes, until it is made again, alone: more
than it takes those to be copied for a program that keeps them.
"""

APART = 2
"""Calls with some sizes that have memory of their own where recordings are asked for: the next is recorded."""

LENT = 1 << 20
"""Bytes of a forward's result from which on it is given as it is, if nobody has it any more at the next call. Of what
is called without derivatives only where recordings are asked for: a result that another stream still copies, which
`Tensor.record_stream` tells the allocator, nobody needs to have any more.
"""

LAUNCHES = 4
"""Launches and calls that such a graph has at least, beside the copies of its results."""

_WAITING = frozenset(
    {"aten._local_scalar_dense", "aten.item", "aten.is_nonzero", "aten.equal", "aten.nonzero", "aten.masked_select"}
    | {"aten.repeat_interleave.Tensor", "aten.bincount", "aten.histc", "aten._linalg_check_errors"}
)
"""Operators that wait for the GPU, to read what it has computed."""

Run = Callable[[list[Any]], Sequence[Any]]


_nothing = nullcontext()
_lock = threading.Lock()
"""Held while a replay and its copies are put into the stream: recordings share memory."""


class GraphedCall:
    """`graph`, a compiled graph on one GPU, recorded and replayed; picklable without the recordings."""

    def __init__(self, graph: Run, arguments: Arguments, launches: int = LAUNCHES) -> None:
        self.graph = graph
        self.arguments = arguments
        self.launches = launches
        """Kernels and calls in a call of it."""
        self.sizes: dict[Hashable, Sizes] = {}
        self.given_up = False
        self.shares = arguments.asked
        """Whether its recordings share memory, as those that are asked for do."""
        self.uploads = frozenset(arguments.uploads)

    def __getstate__(self) -> tuple[Any, ...]:
        return self.graph, self.arguments, self.launches

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.__init__(*state)

    def __call__(self, inputs: list[Any]) -> Sequence[Any]:
        if self.given_up:
            return self.graph(inputs)
        known = self._known(inputs)
        if known is None or known.reason:
            return self.graph(inputs)
        if known.rest:
            known.rest -= 1
            return self.graph(inputs)
        recorder = self.recorder()
        if not recorder.ready():
            return self.graph(inputs)
        if (tell := recorder.tell_next) is not None:
            recorder.tell_next = None
            tell(recorder.idle())
        with _lock, torch.no_grad() if torch.is_grad_enabled() else _nothing:
            recording = self._recording(recorder, known, inputs)
            if recording is not None:
                recorder.order()
                results = recording.run(inputs)
                inputs.clear()
                return results
        if self.shares and known.calls <= APART and not known.reason:
            with recorder.apart():
                return known.noted(self.graph(inputs))
        if self.shares or known.recordings or known.reason:
            return known.noted(self.graph(inputs))
        return self._watched(recorder, known, inputs)

    def recorder(self) -> Recorder:
        return recorder_of(self.arguments.device)

    def _known(self, inputs: Sequence[Any]) -> Sizes | None:
        values = (inputs[i] for i in self.arguments.varying)
        key = tuple((v.shape, v.stride()) if isinstance(v, torch.Tensor) else v for v in values)
        found = self.sizes.get(key)
        if found is None and len(self.sizes) < MOST:
            found = self.sizes[key] = Sizes()
        return found

    def _give_up(self, known: Sizes, reason: str) -> None:
        known.reason = reason
        known.recordings.clear()
        self.given_up = not self.arguments.varying
        log.info("a graph is not recorded as a CUDA graph: %s", reason)

    # Whether it pays

    def _watched(self, recorder: Recorder, known: Sizes, inputs: list[Any]) -> Sequence[Any]:
        """A call as it is, where nobody has asked for recordings: does the GPU wait for it?"""
        if known.calls <= 2:  # what is loaded at the first calls takes time, too
            return known.noted(self.graph(inputs))
        spends = self._spends(inputs)
        # a program that waits for results, which are copied, finds it idle at each call
        idle = (self.arguments.kind != "inference" or not known.largest) and recorder.idle()
        began, start = recorder.moment(), time.perf_counter()
        results = known.noted(self.graph(inputs))
        launched = time.perf_counter() - start
        if not recorder.past(began):
            launched = 0.0  # all were made before the GPU came to the first, or waited for room in its queue
        if idle and RARE * launched >= start - known.begun:
            recorder.tell_next = known.note_idle
        last, known.last, known.begun = known.last, (launched, began, recorder.moment()), start
        if last is not None and recorder.past(last[2]):  # else launches are more than a call ahead
            launching, began, ended = last
            known.span = min(known.span, recorder.seconds(began, ended))
            known.late += launching >= SHARE * known.span
        known.watched += 1
        if known.watched == 1:
            known.keeps = self._keeps(known, results) > KEPT * self.launches
        if spends or (known.keeps and known.waits):
            self._share()
        elif known.watched > 4 * WATCHED and not known.waits:
            known.begin_again()
        return results

    def _share(self) -> None:
        """From now on recordings are made as where they are asked for: memory that one keeps is spent by another."""
        self.shares = True
        self.sizes = {}

    def _spends(self, inputs: Sequence[Any]) -> bool:
        """Whether it is a backward whose forward keeps something in memory that recordings share."""
        backward = self.arguments.kind == "backward"
        return backward and any(is_shared(t) for t in inputs if isinstance(t, torch.Tensor))

    def _keeps(self, known: Sizes, results: Sequence[Any]) -> int:
        """Bytes that a forward has made for its backward, or a backward for its gradients."""
        if self.arguments.kind == "backward":  # these lie where something has gone that was given
            which, given = range(len(results)), set[int]()
        else:
            which, given = self.arguments.kept, {a for addresses in known.seen.values() for a in addresses}
        kept = {r.data_ptr(): r.nbytes for i in which if isinstance(r := results[i], torch.Tensor)}
        return sum(nbytes for address, nbytes in kept.items() if address not in given)

    # Recordings

    def _recording(self, recorder: Recorder, known: Sizes, inputs: list[Any]) -> Recording | None:
        """The recording to replay, made now if it is time; None where the call runs as it is."""
        known.calls += 1
        if known.failures != recorder.failures:
            known.failures = recorder.failures
            known.recordings.clear()
        if (count := len(known.recordings)) > 1 and not known.calls % IDLE:
            since = known.calls - IDLE * count
            known.recordings = [r for r in known.recordings if r.used >= since or not (r.kept or r.lent)]
        for recording in known.recordings:
            if recording.matches(inputs):
                recording.used, recording.times = known.calls, recording.times + 1
                if self.shares and recorder.sharing.is_loose(recording.times):
                    recorder.renew()
                    break
                if self._settles(recorder, recording) and (found := recording.results_among(inputs)):
                    known.copied -= found
                    known.recordings.remove(recording)
                    break
                return self._unless_held(known, recording)
        recording = None  # what is given up has gone before another one is made
        known.recordings = [r for r in known.recordings if not r.stale()]
        addresses = self._addresses(inputs)
        places = self._places(inputs, addresses)
        moved = (recording.moved(inputs) for recording in known.recordings)
        # where these differ it is another layer's
        nearest = min((m for m in moved if places.isdisjoint(m)), key=len, default=None)
        new = any(addresses[i] not in known.seen[i] for i in self.arguments.parameters if i in addresses)
        seen = {i for i, a in addresses.items() if a in known.seen[i] and i not in known.copied}
        if self._is_data(places):  # that of several layers may be anywhere
            seen = {i for i in seen if len(known.seen[i]) == 1 or i in self.arguments.written}
        for i, a in addresses.items():
            if len(known.seen[i]) < LAYERS:
                known.seen[i].add(a)
        fixed = {i: addresses[i] for i in sorted(places | seen)}
        early = self.arguments.kind == "backward" and (known.recordings or known.calls <= TRIES)
        if early and not all(recorder.reads(inputs[i]) for i in addresses):
            return None  # its forward was not replayed: then seeds of random numbers are the CPU's
        if known.calls == 1 or new or not self._is_time(known, inputs, fixed, places, nearest):
            return None
        try:
            recording = self._record(recorder, known, inputs, fixed)
        except (Unrecordable, RuntimeError) as error:
            self._give_up(known, str(error).partition("\n")[0])
            return None
        if recording is not None:
            recording.used, recording.guessed = known.calls, frozenset(seen - places)
            known.recordings.append(recording)
            return self._unless_held(known, recording)
        return None

    def _settles(self, recorder: Recorder, recording: Recording) -> bool:
        """Whether its copies of inputs are to be looked at."""
        times = recording.times
        if not self.shares or times < SETTLED:
            return False
        if times == SETTLED:
            recorder.tidy()
        return times & (times - 1) == 0

    def _places(self, inputs: Sequence[Any], addresses: Collection[int]) -> set[int]:
        """Inputs that lie where they do for this layer each time: its parameters, and what another recording gives."""
        given = {i for i in addresses if is_result(inputs[i])} if self.shares else set[int]()
        return given.union(i for i in self.arguments.parameters if i in addresses)

    def _is_data(self, places: set[int]) -> bool:
        """Whether recordings are asked for, and what does not lie in these places is known to be data: a backward has
        what its forward keeps, which lies elsewhere until that is recorded.
        """
        if self.arguments.kind == "backward" and places <= {*self.arguments.parameters}:
            return False
        return self.shares and bool(places)

    def _unless_held(self, known: Sizes, recording: Recording) -> Recording | None:
        if not recording.held():
            if not recording.crowded():
                return recording
            recording.missed += 1
            if recording.missed == CROWDED:
                known.recordings.remove(recording)
                known.alone = True
        elif recording.lent_held():
            known.held += 1
            if known.held == 2:
                # its results outlive the next call, as gradients that are accumulated do: they are copied from now on
                known.recordings.clear()
        return None

    def _is_time(
        self,
        known: Sizes,
        inputs: Sequence[Any],
        fixed: dict[int, int],
        places: set[int],
        nearest: Sequence[int] | None,
    ) -> bool:
        """Whether this call is recorded. `nearest` are the inputs that have moved since the layer's recording most like
        it.
        """
        if nearest is not None:
            known.strangers += 1
            few = 2 * _bytes(inputs, nearest) < _bytes(inputs, fixed.keys() | {*nearest})
            if few or known.strangers > TRIES or self._is_data(places):
                # these are copied from now on
                known.copied.update(nearest)
                known.recordings = [r for r in known.recordings if not r.guessed & known.copied]
                for i in nearest:
                    fixed.pop(i, None)
        moving = _bytes(inputs, self._addresses(inputs).keys() - fixed.keys())
        if not self.shares:
            if not known.waits or moving <= MOVED * self.launches:
                return known.waits
            known.waited += 1
            if known.waited > WATCHED * (1 + (self.arguments.kind != "inference")):
                known.begin_again()  # what gives them may be recorded by then
            return False
        most = WORTH if self.arguments.asked else SHARED
        if len(known.recordings) >= (LAYERS if places else MOST) or moving > most * self.launches:
            return False
        backward, few = self.arguments.kind == "backward", 2 * moving <= _bytes(inputs, self._addresses(inputs))
        if self._is_data(places) and (few or not backward):
            return True
        if backward and known.calls < 3:
            return False
        # a backward that would copy most has what a forward keeps that may yet be recorded
        return few or (self.arguments.asked and known.calls > TRIES and not known.recordings)

    def _addresses(self, inputs: Sequence[Any]) -> dict[int, int]:
        tensors = {i: v for i, v in enumerate(inputs) if isinstance(v, torch.Tensor) and i not in self.uploads}
        return {i: t.data_ptr() for i, t in tensors.items()}

    def _record(self, recorder: Recorder, known: Sizes, inputs: list[Any], fixed: dict[int, int]) -> Recording | None:
        """A recording; None where copies of results would take longer than it saves, as calls are now."""
        if copied := set(self.arguments.written) - fixed.keys():
            raise Unrecordable(f"input {min(copied)}, which it writes, is another tensor each time")
        kind = self.arguments.kind
        if not self.shares and self._spends(inputs):
            self._share()
            return None
        if not self.arguments.asked and not recorder.roomy():
            raise Unrecordable("little of the GPU's memory is free")
        gives = kind != "inference" or self.shares
        lent = None if known.held >= 2 or not gives else 0 if kind == "backward" else LENT
        if lent is not None and known.largest < lent:
            lent = None  # with nothing to give, it needs no memory of its own
        alone = known.alone or (not self.shares and bool(self.arguments.kept or lent is not None))
        known.alone = False
        kept, backward = frozenset(self.arguments.kept), kind == "backward"
        ends = self.arguments.asked and not backward
        policy = Results(kept, lent, apart=lent == 0, alone=alone, shares=self.shares, backward=backward, ends=ends)
        if self.shares:
            recorder.tidy()
        run: Any = self.graph
        if self.uploads:
            run = run.main()  # numbers lie where it reads them
        # what a forward copies it may keep for its backward
        copies = {} if kept else {i: b for recording in known.recordings for i, b in recording.buffers.items()}
        recording = record(recorder, run, inputs, fixed, policy, self.arguments.uploads, copies)
        if not self.shares:
            if kind != "inference" and recording.taken > KEPT * self.launches:
                self._share()
                return None
            copied = [recording.results[i] for i in recording.copied]
            if self.launches < LAUNCHES + len(copied):
                raise Unrecordable("its results would be copied, which takes as long as it saves")
            if not known.recordings and sum(t.nbytes for t in copied) > COPIED * known.span:
                known.begin_again()
                return None
        return recording


def _bytes(inputs: Sequence[Any], which: Iterable[int]) -> int:
    return sum(inputs[i].nbytes for i in which)


def graphed(run: Run, arguments: Arguments, calls: Iterable[Call], launches: int = LAUNCHES) -> GraphedCall:
    """`run`, which makes `calls`, as part of so many launches, to be recorded. Raises Unrecordable where one of them
    cannot be, or numbers are read in the CPU's memory.
    """
    if set(arguments.uploads) - set(getattr(run, "uploads", ())):
        raise Unrecordable("it reads a number in the CPU's memory")
    for call in calls:
        if call.name in _WAITING or "unique" in call.name or not call.name.startswith(("aten.", "lamella.")):
            raise Unrecordable(f"{call.name} may wait for the GPU, at {call.line}")
    return GraphedCall(run, arguments, launches)
