"""Decoding with a key-value cache: the tokens of a compiled Llama are eager's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from lamella.tools import zoo

NEW = 6


def greedy(model: Any, forward: Any, ids: Tensor, cache: Any) -> tuple[Tensor, list[Tensor]]:
    """`NEW` tokens after `ids`, each the most likely one, and the logits they were taken from."""
    position = torch.arange(ids.shape[1])
    tokens, logits = ids, []
    for _ in range(NEW):
        out = forward(input_ids=tokens, past_key_values=cache, cache_position=position, use_cache=True)
        logits.append(out.logits[:, -1])
        tokens = logits[-1].argmax(-1, keepdim=True)
        ids = torch.cat((ids, tokens), 1)
        position = position[-1:] + 1
    return ids, logits


def caches(kind: str, model: Any) -> Any:
    from transformers import DynamicCache, StaticCache

    return (
        DynamicCache(config=model.config) if kind == "dynamic" else StaticCache(config=model.config, max_cache_len=24)
    )


@pytest.mark.parametrize("kind", ["dynamic", "static"])
@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.bfloat16, marks=pytest.mark.slow)])
def test_tokens_are_those_of_eager(kind: str, dtype: torch.dtype, fresh: None) -> None:
    model = zoo.load("llama").model.to(dtype)
    ids = torch.randint(3, 128, (2, 5))
    compiled = torch.compile(model, backend="lamella")
    with torch.no_grad():
        want, expected = greedy(model, model, ids, caches(kind, model))
        got, logits = greedy(model, compiled, ids, caches(kind, model))
    tolerance = 1e-5 if dtype is torch.float32 else 3e-2
    for g, e in zip(logits, expected, strict=True):
        torch.testing.assert_close(g, e, rtol=tolerance, atol=tolerance)
    assert torch.equal(got, want)


def test_decoding_does_not_recompile_for_each_token(fresh: None) -> None:
    """One graph for the prompt, and at most two for single tokens: the first is static, the next is for all lengths."""
    model = zoo.load("llama").model
    counter = torch._dynamo.testing.CompileCounterWithBackend("lamella")
    compiled = torch.compile(model, backend=counter)
    with torch.no_grad():
        greedy(model, compiled, torch.randint(3, 128, (2, 5)), caches("dynamic", model))
    assert counter.frame_count <= 3


def test_generate(fresh: None) -> None:
    """transformers' own loop over a compiled forward."""
    model = zoo.load("llama").model
    ids = torch.randint(3, 128, (2, 5))
    options: dict[str, Any] = {"max_new_tokens": NEW, "do_sample": False, "use_cache": True, "pad_token_id": 0}
    with torch.no_grad():
        want = model.generate(ids, **options)
        model.forward = torch.compile(model.forward, backend="lamella", dynamic=True)
        got = model.generate(ids, **options)
    assert torch.equal(got, want)
