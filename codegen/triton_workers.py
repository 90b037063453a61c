"""Processes that compile kernels with Triton: started when there is work, kept for more, and gone when idle.

One that dies or takes too long fails the kernel it was at, with what it said last; the others go on.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any, cast

from .triton_stages import receive, send

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
    """One process, for one thread at a time."""

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

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def load(self, seconds: float) -> None:
        """Waits until it has loaded Triton. Raises Ended."""
        if not self.loaded:
            self._answer(None, seconds)
            self.loaded = True

    def run(self, request: Request, seconds: float) -> Answer:
        """The answer of a process that has loaded Triton. Raises Ended."""
        start = os.fstat(self.said.fileno()).st_size
        answer = self._answer((request.text, request.sm, request.options), seconds)
        return Answer(answer[1], answer[2]) if answer[0] == "ok" else Answer(error=answer[1] + self._words(start))

    def _answer(self, message: Any, seconds: float) -> Any:
        """What it sends next, after `message` if there is one."""
        process, start = self.process, os.fstat(self.said.fileno()).st_size
        late = threading.Event()

        def stop() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(seconds, stop)
        timer.start()
        try:
            if message is not None:
                send(cast(Any, process.stdin), message)
            answer = receive(cast(Any, process.stdout))
        except (BrokenPipeError, ConnectionResetError):
            answer = None
        finally:
            timer.cancel()
        if answer is None:
            status = process.wait()
            if late.is_set():
                raise Ended(f"the compiler was stopped after {seconds:g} s{self._words(start)}")
            raise Ended(f"the compiler's process ended (exit status {status}){self._words(start)}" if status else "")
        return answer

    def _words(self, start: int) -> str:
        """What the process has printed from `start` on, its last lines."""
        size = os.fstat(self.said.fileno()).st_size
        printed = os.pread(self.said.fileno(), size - start, start)
        lines = printed.decode(errors="replace").strip().splitlines()
        return "".join(f"\n  {line}" for line in lines[-_SHOWN_LINES:])

    def stop(self) -> None:
        """Ends the process, which does nothing at the moment."""
        self.process.kill()
        self.process.wait()
        self.said.close()


class _Work:
    """Requests that processes take as they are ready for them, and the answers, as they come."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self.requests = requests
        self.left = sorted(range(len(requests)), key=lambda i: requests[i].effort)
        self.answers: SimpleQueue[tuple[int, Answer] | Exception] = SimpleQueue()

    def take(self) -> int | None:
        """The number of one that takes longest."""
        try:
            return self.left.pop()
        except IndexError:
            return None


class Workers:
    """The processes of this process."""

    def __init__(self, start: Callable[[], Worker] = Worker) -> None:
        self._start = start
        self._idle: list[Worker] = []
        self._lock = threading.Lock()

    def run(
        self,
        requests: Sequence[Request],
        processes: int,
        *,
        seconds: float = 300,
        done: Callable[[int], None] | None = None,
    ) -> list[Answer]:
        """The answers to `requests`, by that many processes at most; `done` is told of each as it comes, by number.

        Processes that are still loading Triton when others are ready get no request that these can answer.
        """
        work, answers = _Work(requests), dict[int, Answer]()
        for _ in range(min(processes, max(len(requests), len(self._idle))) if requests else 0):
            threading.Thread(target=self._serve, args=(work, seconds), name="lamella-triton", daemon=True).start()
        while len(answers) < len(requests):
            answer = work.answers.get()
            if isinstance(answer, Exception):
                raise answer
            answers[answer[0]] = answer[1]
            if done is not None:
                done(answer[0])
        return [answers[i] for i in range(len(requests))]

    def start(self, processes: int) -> None:
        """Starts processes ahead of the work, so that they are ready when it comes."""
        with self._lock:
            while len(self._idle) < processes:
                self._idle.append(self._start())

    def _serve(self, work: _Work, seconds: float) -> None:
        """Has one process answer what is left, or another where that ends."""
        try:
            while work.left:
                self._serve_by(self._take(), work, seconds)
        except Exception as error:
            work.answers.put(error)

    def _serve_by(self, worker: Worker, work: _Work, seconds: float) -> None:
        number: int | None = None
        try:
            worker.load(seconds)
            while (number := work.take()) is not None:
                work.answers.put((number, worker.run(work.requests[number], seconds)))
        except Ended as ended:
            if number is None and str(ended):  # one that cannot load Triton
                number = work.take()
            if number is not None:
                if str(ended):
                    work.answers.put((number, Answer(error=str(ended))))
                else:
                    work.left.append(number)
        else:
            with self._lock:
                self._idle.append(worker)

    def _take(self) -> Worker:
        with self._lock:
            self._idle.sort(key=lambda worker: worker.loaded)
            while self._idle:
                worker = self._idle.pop()
                if worker.alive:
                    return worker
        return self._start()

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
