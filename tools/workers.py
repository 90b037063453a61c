"""Processes that do tasks one after another: a crash or a hang ends a process, and not the tool that runs many."""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Generic, TypeVar

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")

Work = Callable[[Connection, int], None]
"""What a process does: for each task that it is sent, until it is sent None, it sends back the outcome, and whether it
is of no more use. It is told its place among the processes.
"""


class Worker(Generic[Task, Outcome]):
    """A process and the task it is at. `failed` makes the outcome of a task that has none, with the reason."""

    def __init__(self, place: int, work: Work, failed: Callable[[Task, str], Outcome]) -> None:
        self.place = place
        self.work = work
        self.failed = failed
        self.task: Task | None = None
        self.begun = 0.0
        self.start()

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, far = context.Pipe()
        self.process = context.Process(target=self.work, args=(far, self.place), daemon=True)
        self.process.start()
        far.close()

    def run(self, task: Task) -> None:
        self.task, self.begun = task, time.monotonic()
        self.connection.send(task)

    def outcome(self, finished: bool) -> Outcome:
        """Of the task; where the process has died, takes too long or is of no more use, it is replaced."""
        assert self.task is not None
        task, self.task = self.task, None
        if not finished:
            found, lost = self.failed(task, "takes too long"), True
        else:
            try:
                found, lost = self.connection.recv()
            except EOFError:
                self.process.join()
                found, lost = self.failed(task, f"the process ended with code {self.process.exitcode}"), True
        if lost:
            self.stop()
            self.start()
        return found

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def run(
    todo: Sequence[Task],
    work: Work,
    failed: Callable[[Task, str], Outcome],
    jobs: int,
    timeout: float,
    minutes: float,
) -> Iterator[tuple[Task, Outcome]]:
    """Outcomes of tasks as they come; none is begun after so many `minutes`, if there are any."""
    end = time.monotonic() + 60 * minutes if minutes else math.inf
    workers = [Worker(place, work, failed) for place in range(min(jobs, len(todo)))]
    waiting = list(reversed(todo))
    try:
        for worker in workers:
            worker.run(waiting.pop())
        while busy := [w for w in workers if w.task is not None]:
            late = time.monotonic() - timeout
            ready = wait([w.connection for w in busy], max(0.0, min(w.begun for w in busy) - late))
            late = time.monotonic() - timeout
            for worker in [w for w in busy if w.connection in ready or w.begun <= late]:
                assert worker.task is not None
                task = worker.task
                yield task, worker.outcome(worker.connection in ready)
                if waiting and time.monotonic() < end:
                    worker.run(waiting.pop())
    finally:
        for worker in workers:
            worker.stop()
