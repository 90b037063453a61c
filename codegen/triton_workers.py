"""Processes that compile kernels with Triton: started when there is work, kept for more, and gone when idle.

Who asks hands requests out itself, and one thread hears all answers: where another one runs Python, each step of a
thread that waits begins 5 ms late. A process that dies or takes too long fails the kernel it was at, with what it said
last; the others go on.
"""

from __future__ import annotations

import atexit
import os
import pickle
import selectors
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from .triton_stages import HEADER, send

_PROGRAM = Path(__file__).with_name("triton_stages.py")
_SHOWN_LINES = 12


@dataclass(frozen=True)
class Request:
    """One kernel's text, with the compute capability (90) and Triton's options."""

    text: str
    sm: int
    options: dict[str, Any]

    @property
    def effort(self) -> tuple[bool, int]:
        """What takes longer to compile has more: products of matrices, then long texts."""
        return "tt.dot" in self.text, len(self.text)


@dataclass(frozen=True)
class Answer:
    """The cubin with Triton's metadata, or what went wrong."""

    cubin: bytes = b""
    metadata: dict[str, Any] | None = None
    error: str = ""


class Ended(Exception):
    """A process has ended: its words are why, and none where it was for want of work."""


class Worker:
    """One process, for one batch at a time."""

    def __init__(self, program: Path = _PROGRAM) -> None:
        self.said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        # -P: the folder of the script, this one, is not on the path
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
            env=environment,
        )
        self.loaded = False
        """Whether it is known to have loaded Triton."""
        self._received = bytearray()
        self._start = 0

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def fileno(self) -> int:
        """Of what it answers."""
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def ask(self, request: Request) -> None:
        """Gives a process that has loaded Triton something to do. Raises Ended."""
        self._start = os.fstat(self.said.fileno()).st_size
        try:
            send(cast(BinaryIO, self.process.stdin), (request.text, request.sm, request.options))
        except (BrokenPipeError, ConnectionResetError):
            raise self._ended() from None

    def hear(self) -> Any:
        """Its next message, as far as it is there: None where it is not whole. Raises Ended."""
        data = os.read(self.fileno(), 1 << 20)
        if not data:
            raise self._ended()
        self._received += data
        size = HEADER + int.from_bytes(self._received[:HEADER], "little")
        if len(self._received) < size:
            return None
        message = pickle.loads(self._received[HEADER:size])
        del self._received[:size]
        return message

    def answer(self, message: Any) -> Answer:
        """What it says of a request."""
        return Answer(message[1], message[2]) if message[0] == "ok" else Answer(error=message[1] + self.words())

    def _ended(self) -> Ended:
        status = self.process.wait()
        return Ended(f"the compiler's process ended (exit status {status}){self.words()}" if status else "")

    def words(self) -> str:
        """What the process has printed since it was asked, its last lines."""
        size = os.fstat(self.said.fileno()).st_size
        printed = os.pread(self.said.fileno(), size - self._start, self._start)
        lines = printed.decode(errors="replace").strip().splitlines()
        return "".join(f"\n  {line}" for line in lines[-_SHOWN_LINES:])

    def stop(self) -> None:
        """Ends the process."""
        self.process.kill()
        self.process.wait()
        self.said.close()


class Batch:
    """Requests, which processes get as they are ready for them, and their answers. Begun when it is made."""

    def __init__(self, workers: Workers, requests: Sequence[Request], processes: int, seconds: float) -> None:
        self._workers, self._requests, self._seconds = workers, requests, seconds
        self._left = sorted(range(len(requests)), key=lambda i: requests[i].effort)
        self._answers: dict[int, Answer] = {}
        self._at: dict[Worker, tuple[int | None, float]] = {}
        """For each process the request it is at, if it has loaded Triton, and when it is too late."""
        self._heard = selectors.PollSelector()
        self._processes = processes
        for worker in workers.take(processes) if requests else ():
            self._begin(worker)
        self._hear(0)  # who has loaded Triton since it was started

    def _begin(self, worker: Worker) -> None:
        self._heard.register(worker, selectors.EVENT_READ)
        self._at[worker] = None, time.monotonic() + self._seconds
        if worker.loaded:
            self._hand_out(worker)

    def _end(self, worker: Worker) -> int | None:
        """What a process was at that is no longer of this batch."""
        self._heard.unregister(worker)
        return self._at.pop(worker)[0]

    def _hand_out(self, worker: Worker) -> None:
        """Gives a process the request that takes longest of what is left; it is idle where nothing is."""
        if not self._left:
            self._end(worker)
            self._workers.give_back(worker)
            return
        number = self._left.pop()
        self._at[worker] = number, time.monotonic() + self._seconds
        try:
            worker.ask(self._requests[number])
        except Ended as ended:
            self._lost(worker, str(ended))

    def _lost(self, worker: Worker, why: str) -> None:
        """A process is gone: what it was at has failed, unless it went for want of work, before it got any."""
        number = self._end(worker)
        if number is None and why and self._left:  # one that cannot load Triton
            number = self._left.pop()
        if number is not None:
            if why:
                self._answers[number] = Answer(error=why)
            else:
                self._left.append(number)

    def finish(self, done: Callable[[int], None] | None = None) -> list[Answer]:
        """The answers; `done` is told of each as it comes, by number.

        Processes that are still loading Triton when others are ready get no request that these can answer.
        """
        told: set[int] = set()
        try:
            while True:
                for number in [n for n in self._answers if n not in told]:
                    told.add(number)
                    if done is not None:
                        done(number)
                if len(told) == len(self._requests):
                    break
                while len(self._at) < min(self._processes, len(self._requests) - len(told)):
                    self._begin(self._workers.new())
                self._hear(max(0.0, min(late for _, late in self._at.values()) - time.monotonic()))
        except BaseException:
            for worker in self._at:  # nobody will hear them
                worker.stop()
            raise
        for worker in list(self._at):  # they are loading Triton
            self._end(worker)
            self._workers.give_back(worker)
        return [self._answers[i] for i in range(len(self._requests))]

    def _hear(self, seconds: float) -> None:
        """Waits so long for what processes say, and ends those that are too late."""
        for key, _ in self._heard.select(seconds):
            worker = cast(Worker, key.fileobj)
            try:
                message = worker.hear()
            except Ended as ended:
                self._lost(worker, str(ended))
                continue
            if message is None:
                continue
            number, _ = self._at[worker]
            if number is None:
                worker.loaded = True
            else:
                self._answers[number] = worker.answer(message)
            self._hand_out(worker)
        for worker in [w for w, (_, late) in self._at.items() if late <= time.monotonic()]:
            worker.process.kill()
            worker.process.wait()
            self._lost(worker, f"the compiler was stopped after {self._seconds:g} s{worker.words()}")


class Workers:
    """The processes of this process."""

    def __init__(self, start: Callable[[], Worker] = Worker) -> None:
        self.new = start
        self._idle: list[Worker] = []
        self._lock = threading.Lock()

    def begin(self, requests: Sequence[Request], processes: int, *, seconds: float = 300) -> Batch:
        """Has that many processes at most compile `requests`, each of them that many seconds at most."""
        return Batch(self, requests, processes, seconds)

    def start(self, processes: int) -> None:
        """Starts processes ahead of the work, so that they are ready when it comes."""
        with self._lock:
            while len(self._idle) < processes:
                self._idle.append(self.new())

    def take(self, most: int) -> list[Worker]:
        """Processes that are idle, those that have loaded Triton first."""
        with self._lock:
            self._idle = [worker for worker in self._idle if worker.alive]
            self._idle.sort(key=lambda worker: not worker.loaded)
            taken, self._idle = self._idle[:most], self._idle[most:]
        return taken

    def give_back(self, worker: Worker) -> None:
        """A process has nothing to do."""
        with self._lock:
            self._idle.append(worker)

    def forget(self) -> None:
        """In a forked process: the workers are those of the parent."""
        self._idle, self._lock = [], threading.Lock()

    def stop(self) -> None:
        """Ends the processes that are idle."""
        with self._lock:
            workers, self._idle = self._idle, []
        for worker in workers:
            worker.stop()


WORKERS = Workers()
os.register_at_fork(after_in_child=WORKERS.forget)
atexit.register(WORKERS.stop)
