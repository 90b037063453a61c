"""The models that Lamella is tested and measured with: real architectures from their library's configs, random weights.

`tiny` is for tests (seconds), `small` for benchmarks on a CPU.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

_EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@dataclass(frozen=True)
class Case:
    """A model in eval mode and its inputs: `inputs(k)` gives keyword arguments of the k-th size variant."""

    name: str
    model: nn.Module
    inputs: Callable[[int], dict[str, Any]]
    wide: Callable[[nn.Module], nn.Module] = nn.Module.double
    """Makes a copy of the model one in float64."""

    def outputs(self, result: Any) -> list[Tensor]:
        """The tensors of a result, in a fixed order."""
        leaves = tree_leaves(result)
        return [t for t in leaves if isinstance(t, Tensor)]


_BERT = {
    **{"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4},
    **{"intermediate_size": 128, "vocab_size": 128},
}
_TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
_GPT2 = {"n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 128, "n_positions": 64, **_TOKENS}
_LLAMA = {
    **{"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16},
    **{"intermediate_size": 128, "vocab_size": 128, **_TOKENS},
}
_LLAMA_SMALL = {
    **{"hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64},
    **{"intermediate_size": 1408, "vocab_size": 8192, **_TOKENS},
}
_T5 = {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "vocab_size": 128}
_VIT = {
    **{"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128},
    **{"image_size": 32, "patch_size": 8, "num_labels": 64},
}
_WHISPER = {
    **{"d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "vocab_size": 128, "num_mel_bins": 16},
    **{"encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128},
    **{"max_source_positions": 30, "max_target_positions": 64, "decoder_start_token_id": 1, **_TOKENS},
}
_WHISPER_SMALL = {
    **{"d_model": 384, "encoder_layers": 2, "decoder_layers": 2, "vocab_size": 8192, "num_mel_bins": 80},
    **{"encoder_attention_heads": 6, "decoder_attention_heads": 6, "encoder_ffn_dim": 1536, "decoder_ffn_dim": 1536},
    **{"max_source_positions": 300, "decoder_start_token_id": 1, **_TOKENS},
}


def varied(model: nn.Module, seed: int = 0) -> nn.Module:
    """The model with norms, scales and statistics that are not all alike: a scale of 1e-6 hides what it is given."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            if p.numel() and (p.ndim <= 1 or (p == p.flatten()[0]).all()):
                size = max(float(p.abs().max()), 1.0)
                p += (0.1 * size * torch.randn(p.shape, generator=generator)).to(p)
        for name, b in model.named_buffers():
            if name.endswith("running_mean"):
                b += 0.1 * torch.randn(b.shape, generator=generator)
            elif name.endswith("running_var"):
                b *= 0.75 + 0.5 * torch.rand(b.shape, generator=generator)
    return model


# name: class, config class, tiny config, small config
_MODELS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "bert": ("BertForMaskedLM", "BertConfig", _BERT, {"num_hidden_layers": 4, "vocab_size": 8192}),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", _GPT2, {"n_layer": 4, "vocab_size": 8192, **_TOKENS}),
    "llama": ("LlamaForCausalLM", "LlamaConfig", _LLAMA, _LLAMA_SMALL),
    "t5": ("T5ForConditionalGeneration", "T5Config", _T5, {"num_layers": 3, "vocab_size": 8192}),
    "vit": ("ViTForImageClassification", "ViTConfig", _VIT, {"num_hidden_layers": 4}),
    "whisper": ("WhisperForConditionalGeneration", "WhisperConfig", _WHISPER, _WHISPER_SMALL),
}
NAMES = (*_MODELS, "resnet50")
_BATCHES, _LENGTHS = (2, 3, 4), {"tiny": (12, 9, 17), "small": (128, 96, 77)}


def load(name: str, size: str = "tiny", seed: int = 0) -> Case:
    """A model of `NAMES` with its inputs. Raises KeyError for another name."""
    torch.manual_seed(seed)
    if name == "resnet50":
        return _resnet(size)
    import transformers

    model_class, config_class, tiny, small = _MODELS[name]
    config = getattr(transformers, config_class)(**(tiny if size == "tiny" else small))
    config.use_cache = False
    model = getattr(transformers, model_class)(config).eval()
    lengths = _LENGTHS[size]

    def inputs(k: int) -> dict[str, Any]:
        torch.manual_seed(1000 + k)
        n, s = _BATCHES[k], lengths[k]
        ids = {"input_ids": torch.randint(3, config.vocab_size, (n, s))} if hasattr(config, "vocab_size") else {}
        if name == "vit":
            return {"pixel_values": torch.randn(n, 3, config.image_size, config.image_size)}
        if name == "whisper":
            frames = torch.randn(n, config.num_mel_bins, 2 * config.max_source_positions)
            return {"input_features": frames, "decoder_input_ids": ids["input_ids"]}
        return {**ids, "decoder_input_ids": ids["input_ids"].flip(1)} if name == "t5" else ids

    return Case(name, model, inputs)


def _resnet(size: str) -> Case:
    spec = importlib.util.spec_from_file_location("lamella_example_resnet50", _EXAMPLES / "resnet50.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = (module.ResNet((1, 1, 1, 1), 8, 10) if size == "tiny" else module.resnet50()).eval()
    side = 32 if size == "tiny" else 224

    def inputs(k: int) -> dict[str, Any]:
        torch.manual_seed(1000 + k)
        return {"x": torch.randn(_BATCHES[k], 3, side, side)}

    return Case("resnet50", model, inputs)
