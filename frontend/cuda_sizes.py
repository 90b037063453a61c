"""What is known of the calls of a compiled graph with some sizes, by which it is recorded or not."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .cuda_recording import Recording

WATCHED = 4
"""Calls that the GPU must wait for, among four times as many, where nobody has asked for recordings."""

RESTS = 16, 1024
"""Calls until a graph that the GPU did not wait for is watched again, at first and at most: twice as many each time."""


@dataclass
class Sizes:
    """What is known of the calls with some sizes."""

    calls: int = 0
    seen: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Addresses that each input has had."""
    copied: set[int] = field(default_factory=set[int])
    """Inputs that are other tensors each time."""
    recordings: list[Recording] = field(default_factory=list[Recording])
    watched: int = 0
    """Calls that have been looked at."""
    late: int = 0
    """Those of them that the GPU has waited for."""
    idle: int = 0
    """Those before and after which it had nothing to do."""
    begun: float = -math.inf
    """When the last one began, in seconds."""
    span: float = math.inf
    """The fewest seconds that the GPU has taken for one of them."""
    last: tuple[float, Any, Any] | None = None
    """The seconds of the last one's launches, and when the GPU comes to its begin and its end."""
    rest: int = 0
    """Calls to come that are not looked at."""
    rests: int = RESTS[0]
    """How many there are next time."""
    held: int = 0
    """Calls that could not be replayed, as results of an earlier one were in use."""
    alone: bool = False
    """Whether the next recording is to share no memory."""
    failures: int = 0
    """How many recordings, of whatever graph, had failed when these were made."""
    waited: int = 0
    """Calls that the GPU has waited for, but whose inputs moved."""
    strangers: int = 0
    """Calls with inputs unlike those of any recording of the same layer."""
    keeps: bool = False
    """Whether a recording would keep much that is free after a part of a step else."""
    largest: int = 0
    """Bytes of the largest result so far."""
    reason: str = ""
    """Why nothing is recorded."""

    @property
    def waits(self) -> bool:
        """Whether the GPU waits for these calls."""
        return max(self.late, self.idle) >= WATCHED

    def note_idle(self, idle: bool) -> None:
        self.idle += idle

    def noted(self, results: Sequence[Any]) -> Sequence[Any]:
        """The results of a call as it is."""
        self.largest = max([self.largest, *(r.nbytes for r in results if isinstance(r, torch.Tensor))])
        return results

    def begin_again(self) -> None:
        """Looks at calls again, after a rest."""
        self.watched, self.late, self.idle, self.waited, self.span, self.last = 0, 0, 0, 0, math.inf, None
        self.rest, self.rests = self.rests, min(2 * self.rests, RESTS[1])
