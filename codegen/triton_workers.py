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
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
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


class Worker:
    """One process. `run` is for one thread at a time."""

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

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def run(self, request: Request, seconds: float) -> Answer | None:
        """The answer; None where the process had gone for want of work."""
        process, start = self.process, os.fstat(self.said.fileno()).st_size
        late = threading.Event()

        def stop() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(seconds, stop)
        timer.start()
        try:
            send(cast(Any, process.stdin), (request.text, request.sm, request.options))
            answer = receive(cast(Any, process.stdout))
        except (BrokenPipeError, ConnectionResetError):
            answer = None
        finally:
            timer.cancel()
        if answer is None:
            status = process.wait()
            if late.is_set():
                return Answer(error=f"the compiler was stopped after {seconds:g} s{self._words(start)}")
            if status == 0:
                return None
            return Answer(error=f"the compiler's process ended (exit status {status}){self._words(start)}")
        if answer[0] == "ok":
            return Answer(answer[1], answer[2])
        return Answer(error=answer[1] + self._words(start))

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
        """The answers to `requests`, by that many processes at most; `done` is told of each as it comes, by number."""
        if not requests:
            return []
        with ThreadPoolExecutor(min(processes, len(requests)), thread_name_prefix="lamella-triton") as pool:
            order = sorted(range(len(requests)), key=lambda i: requests[i].effort, reverse=True)
            futures = {pool.submit(self._one, requests[i], seconds): i for i in order}
            for future in as_completed(futures):
                if done is not None:
                    done(futures[future])
            answers = {i: future.result() for future, i in futures.items()}
            return [answers[i] for i in range(len(requests))]

    def start(self, processes: int) -> None:
        """Starts processes ahead of the work, so that they are ready when it comes."""
        with self._lock:
            while len(self._idle) < processes:
                self._idle.append(self._start())

    def _one(self, request: Request, seconds: float) -> Answer:
        while True:
            worker = self._take()
            answer = worker.run(request, seconds)
            if worker.alive:
                with self._lock:
                    self._idle.append(worker)
            if answer is not None:
                return answer

    def _take(self) -> Worker:
        with self._lock:
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
