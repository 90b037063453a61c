"""Rates of optimizers are symbols from the first compilation on.

TorchDynamo takes a float for a constant until it has seen a second value. A schedule's second rate, often that of the
second step, would compile every optimizer again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

import torch


def mark_rates(optimizer: torch.optim.Optimizer, seen: MutableMapping[str, Any]) -> None:
    """Tells TorchDynamo that the rates of an optimizer, one of whose methods is compiled, change from call to call.
    `seen` is what it knows of the values that the method was called with, by their sources.
    """
    from torch._dynamo.pgo import FrameStateSizeEntry, auto_dynamic

    for number, group in enumerate(optimizer.param_groups):
        for name in _changing(group):
            seen[f"L['self'].param_groups[{number}]{name}"] = FrameStateSizeEntry(auto_dynamic)


def _changing(group: Mapping[str, Any]) -> Iterator[str]:
    """The floats of a group of parameters that schedules set."""
    if isinstance(group.get("lr"), float):
        yield "['lr']"
    if "max_momentum" in group:  # of a schedule in cycles
        yield "['betas'][0]" if "betas" in group else "['momentum']"
