"""What checks derivatives: second ones too, by the compiled function itself, and it finds wrong ones."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from lamella.tools import op_check, op_derivatives

SINE = next(op for op in op_check.operators() if op.name == "sin")


@pytest.mark.parametrize("mode", op_derivatives.ORDERS)
def test_right_derivatives(mode: str) -> None:
    outcome = op_check.check(SINE, torch.float64, 1, mode)
    assert (outcome.status, outcome.samples) == ("native", 2), outcome.reason


@pytest.mark.parametrize("mode", op_derivatives.ORDERS)
def test_a_wrong_backward_is_found(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every graph but the first one, the forward, gives three times its results."""
    compiler = op_derivatives.Derivatives.compiler

    def wrong(self: Any, graph: Any, given: Any) -> Any:
        run = compiler(self, graph, given)
        if len(self.graphs) == 1 or not self.native:
            return run

        def tripled(values: list[Any]) -> list[Any]:
            return [3 * t if isinstance(t, Tensor) else t for t in run(values)]

        tripled._boxed_call = True  # pyright: ignore[reportFunctionMemberAccess]
        return tripled

    monkeypatch.setattr(op_derivatives.Derivatives, "compiler", wrong)
    outcome = op_check.check(SINE, torch.float64, 1, mode)
    assert outcome.status == "wrong" and "Jacobian" in outcome.reason, outcome.reason


def test_what_has_no_second_derivative_by_torch_is_not_run() -> None:
    first_only = next(op for op in op_check.operators() if op.supports_autograd and not op.supports_gradgrad)
    assert op_check.supports(first_only, torch.float64, "gradcheck")
    assert not op_check.supports(first_only, torch.float64, "gradgradcheck")
    assert not op_check.supports(SINE, torch.float32, "gradcheck")
