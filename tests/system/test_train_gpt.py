"""The training example: compiled training follows eager's, and a checkpoint goes on bit for bit."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_gpt.py"
STEPS = 8


@pytest.fixture(scope="module")
def example() -> Any:
    import sys

    spec = importlib.util.spec_from_file_location("train_gpt", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["train_gpt"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def trained(example: Any, backend: str, dropout: float, steps: int, state: Any = None) -> Any:
    c = example.Config(layers=1, heads=2, width=32, context=16, batch=4, dropout=dropout, warmup=2)
    trainer = example.Trainer(c, example.Text(c.context), backend, "cpu")
    if state is not None:
        trainer.load(state)
    trainer.train(steps, lambda step, loss: None, lambda: None, 1000)
    return trainer


def test_losses_are_eagers(example: Any) -> None:
    ours, eager = (trained(example, backend, 0.0, STEPS).run.losses for backend in ("lamella", "eager"))
    assert len(ours) == STEPS
    torch.testing.assert_close(torch.tensor(ours), torch.tensor(eager), rtol=1e-4, atol=1e-4)
    assert ours[-1] < ours[0]


def test_a_checkpoint_goes_on_bit_for_bit(example: Any, tmp_path: Path) -> None:
    """With dropout: the random state is part of it. The schedule is that of the whole run."""
    whole = trained(example, "lamella", 0.1, STEPS)
    path = tmp_path / "half.pt"
    c = whole.c
    half = example.Trainer(c, whole.text, "lamella", "cpu")
    half.train(STEPS, lambda step, loss: None, lambda: example.save(half.state(), path) if half.step == 4 else None, 4)
    torch.manual_seed(99)
    again = trained(example, "lamella", 0.1, STEPS, torch.load(path, weights_only=True))
    assert again.run.losses == whole.run.losses
    for ours, other in zip(again.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(ours, other)
