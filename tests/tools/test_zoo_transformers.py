"""Small models of transformers' architectures: they are small, and eager takes their inputs."""

from __future__ import annotations

import copy

import pytest
import torch

pytest.importorskip("transformers")

from lamella.tools import zoo_transformers as zoo


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("gpt_neo", ["input_ids", "attention_mask"]),
        ("whisper", ["input_features", "decoder_input_ids"]),
        ("chinese_clip", ["input_ids", "attention_mask", "pixel_values"]),
        ("autoformer", ["past_values", "past_time_features", "past_observed_mask"]),
        ("gemma2", ["input_ids", "attention_mask"]),
    ],
)
def test_small(name: str, inputs: list[str]) -> None:
    case = zoo.load(name)
    assert list(case.inputs(0)) == inputs
    assert sum(p.numel() for p in case.model.parameters()) < 10_000_000
    sizes = {next(iter(case.inputs(k).values())).shape for k in range(3)}
    assert len(sizes) == 3


def test_each_kind_of_layer_is_there() -> None:
    from transformers import Gemma3TextConfig

    config = Gemma3TextConfig()
    assert set(zoo.small_fields(config)["layer_types"]) == set(config.layer_types)


def test_experts_in_float64() -> None:
    case = zoo.load("olmoe")
    exact = case.wide(copy.deepcopy(case.model))
    with torch.no_grad():
        wide, narrow = exact(**case.inputs(0)).logits, case.model(**case.inputs(0)).logits
    assert wide.dtype is torch.float64
    torch.testing.assert_close(wide, narrow.double(), atol=1e-4, rtol=1e-4)


def test_what_is_not_small_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoo, "PARAMETERS", 1000)
    with pytest.raises(ValueError, match="million parameters"):
        zoo.load("bert")
