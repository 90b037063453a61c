"""diffusers' networks with tiny configs: UNets, autoencoders and transformers."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from .zoo import Case, varied

_CHANNELS = {"block_out_channels": (32, 64), "norm_num_groups": 8}
_UNET = {**_CHANNELS, "layers_per_block": 1, "attention_head_dim": 8}
_CROSS = {**_UNET, "cross_attention_dim": 32}
_AUTOENCODER = {
    **{**_CHANNELS, "in_channels": 3, "out_channels": 3, "latent_channels": 4, "sample_size": 32},
    **{"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2},
}
_HEADS = {"num_attention_heads": 2, "attention_head_dim": 16}
_JOINT = {"attention_head_dim": 8, "num_attention_heads": 4, "joint_attention_dim": 32, "caption_projection_dim": 32}
_SQUARES = {"sample_size": 16, "patch_size": 2, "in_channels": 4, "out_channels": 4}


def _blocks(kind: str, with_attention: str, plain: str) -> dict[str, Any]:
    """Two blocks on the way down and two up, one of each with attention."""
    down, up = ("DownBlock", "UpBlock")
    return {
        "down_block_types": (f"{with_attention}{down}{kind}", f"{plain}{down}{kind}"),
        "up_block_types": (f"{plain}{up}{kind}", f"{with_attention}{up}{kind}"),
    }


_Inputs = Callable[[int], dict[str, Any]]
"""Inputs, of a batch."""


def _steps(n: int) -> Tensor:
    return torch.arange(n) * 7


def _shares(n: int) -> Tensor:
    """Time as these models take it, who multiply it by 1000: of larger ones, sines in f32 tell nothing."""
    return torch.arange(n) / 10


def _sample(*shape: int, text: int = 0, name: str = "sample") -> _Inputs:
    """A sample, its time step and, where it is guided by a text, states of this width."""

    def make(n: int) -> dict[str, Any]:
        states = {"encoder_hidden_states": torch.randn(n, 7, text)} if text else {}
        return {name: torch.randn(n, *shape), "timestep": _steps(n), **states}

    return make


def _hidden(*shape: int, text: int = 0) -> _Inputs:
    return _sample(*shape, text=text, name="hidden_states")


def _image(n: int) -> dict[str, Any]:
    return {"sample": torch.randn(n, 3, 32, 32)}


def _with(inputs: _Inputs, **more: Callable[[int], Any]) -> _Inputs:
    return lambda n: {**inputs(n), **{name: make(n) for name, make in more.items()}}


_MODELS: dict[str, tuple[str, dict[str, Any], _Inputs]] = {
    "auraflow": (
        "AuraFlowTransformer2DModel",
        {**_SQUARES, **_JOINT, "num_mmdit_layers": 1, "num_single_dit_layers": 1, "pos_embed_max_size": 64},
        _with(_hidden(4, 16, 16, text=32), timestep=_shares),
    ),
    "autoencoder_kl": ("AutoencoderKL", _AUTOENCODER, _image),
    "cogvideox": (
        "CogVideoXTransformer3DModel",
        {
            **{**_HEADS, "in_channels": 4, "out_channels": 4, "time_embed_dim": 2, "text_embed_dim": 8},
            **{"num_layers": 1, "sample_width": 8, "sample_height": 8, "sample_frames": 8, "patch_size": 2},
            **{"temporal_compression_ratio": 4, "max_text_seq_length": 7},
        },
        _hidden(1, 4, 8, 8, text=8),
    ),
    "dit": (
        "DiTTransformer2DModel",
        {**_HEADS, **_SQUARES, "num_layers": 2, "sample_size": 8, "norm_num_groups": 8, "num_embeds_ada_norm": 10},
        _with(_hidden(4, 8, 8), class_labels=torch.arange),
    ),
    "flux": (
        "FluxTransformer2DModel",
        {
            **{**_HEADS, "patch_size": 1, "in_channels": 4, "num_layers": 1, "num_single_layers": 2},
            **{"joint_attention_dim": 32, "pooled_projection_dim": 32, "axes_dims_rope": (4, 4, 8)},
        },
        _with(
            _hidden(16, 4, text=32),
            timestep=_shares,
            pooled_projections=lambda n: torch.randn(n, 32),
            img_ids=lambda n: torch.rand(16, 3),
            txt_ids=lambda n: torch.rand(7, 3),
        ),
    ),
    "sana": (
        "SanaTransformer2DModel",
        {
            **{"patch_size": 1, "in_channels": 4, "out_channels": 4, "num_layers": 1, "sample_size": 8},
            **{"attention_head_dim": 8, "num_attention_heads": 2, "num_cross_attention_heads": 2},
            **{"cross_attention_head_dim": 8, "cross_attention_dim": 16, "caption_channels": 8},
        },
        _hidden(4, 8, 8, text=8),
    ),
    "sd3": (
        "SD3Transformer2DModel",
        {**_SQUARES, **_JOINT, "num_layers": 2, "pooled_projection_dim": 64, "pos_embed_max_size": 16},
        _with(_hidden(4, 16, 16, text=32), pooled_projections=lambda n: torch.randn(n, 64)),
    ),
    "unet_2d": (
        "UNet2DModel",
        {**_UNET, **_blocks("2D", "Attn", ""), "sample_size": 16, "in_channels": 3, "out_channels": 3},
        _sample(3, 16, 16),
    ),
    "unet_2d_condition": (
        "UNet2DConditionModel",
        {**_CROSS, **_blocks("2D", "CrossAttn", ""), "sample_size": 16},
        _sample(4, 16, 16, text=32),
    ),
    "unet_3d_condition": (
        "UNet3DConditionModel",
        {**_CROSS, **_blocks("3D", "CrossAttn", ""), "sample_size": 8},
        _sample(4, 2, 8, 8, text=32),
    ),
    "vq": ("VQModel", {**_AUTOENCODER, "num_vq_embeddings": 32}, _image),
    "wan": (
        "WanTransformer3DModel",
        {
            **{"patch_size": (1, 2, 2), "num_attention_heads": 2, "attention_head_dim": 12, "num_layers": 2},
            **{"in_channels": 4, "out_channels": 4, "text_dim": 16, "freq_dim": 32, "ffn_dim": 32},
            "rope_max_seq_len": 32,
        },
        _hidden(4, 2, 8, 8, text=16),
    ),
}


def names() -> list[str]:
    return sorted(_MODELS)


def load(name: str, seed: int = 0) -> Case:
    """The model with inputs that it takes. Raises what the library raises."""
    cls, config, make = _MODELS[name]
    torch.manual_seed(seed)
    model = varied(getattr(import_module("diffusers"), cls)(**config).eval())

    def inputs(k: int) -> dict[str, Any]:
        torch.manual_seed(1000 + k)
        return make((2, 3, 5)[k])

    return Case(name, model, inputs)
