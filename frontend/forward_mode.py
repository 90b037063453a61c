"""Derivatives in forward mode (`torch.autograd.forward_ad`), which compiled graphs do not make."""

from __future__ import annotations

from typing import Any

from torch._dynamo.guards import GuardBuilder
from torch._dynamo.source import GlobalStateSource
from torch._guards import Guard, TracingContext

from .torch_state import in_forward_mode

_guards: Any = GuardBuilder


def guarded_forward_mode() -> bool:
    """Whether tensors may have such derivatives. What TorchDynamo compiles now is for that answer only: by itself it
    would call a graph for tensors that have some, and their derivatives would be lost.
    """
    if (context := TracingContext.try_get()) is not None:
        context.guards_context.dynamo_guards.add(Guard(GlobalStateSource(), _guards.DUAL_LEVEL))
    return in_forward_mode()
