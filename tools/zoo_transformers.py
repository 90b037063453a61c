"""Every architecture of transformers, made small: from its config's defaults, without its weights or the network.

A config is made smaller by rules about the names of its fields: widths are divided, so that what they must add up to
still holds, layers, experts and tables are few. `_OVERRIDES` has what an architecture needs beside that.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from .zoo import Case, varied

PARAMETERS = 60_000_000
"""More than that is not small: the rules do not fit the config."""

_HEADS = (
    *("SEQ_TO_SEQ_CAUSAL_LM", "SPEECH_SEQ_2_SEQ", "MASKED_LM", "CAUSAL_LM", "CTC", "IMAGE_TEXT_TO_TEXT"),
    *("IMAGE_CLASSIFICATION", "OBJECT_DETECTION", "SEMANTIC_SEGMENTATION", "UNIVERSAL_SEGMENTATION"),
    *("DEPTH_ESTIMATION", "VIDEO_CLASSIFICATION", "AUDIO_CLASSIFICATION", "TEXT_TO_WAVEFORM", "TIME_SERIES_PREDICTION"),
)
"""Of the models of an architecture the first that there is is taken, else the one without a head."""

_FACTOR = 8
_WIDTH = re.compile(
    r"hidden_size|d_model|.*_dim|dim|.*_dims|n_embd|.*intermediate_size|.*_size_per_head|.*channels|.*_rank|width|d_\w+"
    r"|hidden_sizes|.*_width|n_inner|.*hidden_dim|.*_hidden_size|.*embed_size|embedding_size|.*_channel|mrope_section"
    r"|.*lora_rank_\w+|conv_dim|embed_dims|head_width|.*filters|ffn_dim|attn_hidden|planes|q_dim|kv_dim|adapter_input_size"
)
_KEPT = re.compile(
    r"(num|in|out|input|image|sampling|audio|mel|codebook)_channels|.*kernel\w*|.*patch\w*|d_conv|num_\w+"
)
_LAYERS = re.compile(
    r"n_layers?|(num|n)_(?!feat_extract)(\w+_)?(layers|blocks)|(en|de)coder_layers|depth|num_hidden_layers|\w+_depth|num_blocks|n_blocks"
)
_EXPERTS = re.compile(r"(num|n)_(\w+_)?experts|moe_num_experts")
_CHOSEN = re.compile(r"num_experts_per_tok\w*|\w*top_?k|n_group|\w*topk_group|num_selected_experts|num_expert_groups?")
_GROUPS = re.compile(r"num_groups|\w*_groups|group_norm_size")
_VOCAB = re.compile(r"(\w+_)?vocab_size(_\w+)?|(\w+_)?codebook_size")
_POSITIONS = re.compile(r"(\w+_)?max_position_embeddings|n_positions|max_(source|target)_positions|seq_length")
_DROPOUT = re.compile(r".*(dropout|drop_rate|layerdrop|pdrop|drop_prob|drop_path\w*)(_\w+)?")
_TOKEN = re.compile(r".*_token(_id|_index)|.*token_ids?")

_VOCABULARY, _LENGTH = 128, 16

_SERIES = {"prediction_length": 4, "context_length": 12, "lags_sequence": [1, 2, 3]}
_WIDE_HEADS = {"hidden_size": 256, "num_attention_heads": 2, "num_key_value_heads": 1}
_FOUR_HEADS = {"num_attention_heads": 4}
"""Of models whose sections of rotary embeddings are for heads of 128."""

_OVERRIDES: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("autoformer", "informer", "time_series_transformer"), _SERIES),
    **{name: {"vocab_size": 32} for name in ("wav2vec2-bert", "wav2vec2-conformer")},
    **dict.fromkeys(("glm4v_text", "glm_ocr_text", "glm_image_text", "glm4v_moe_text"), _WIDE_HEADS | _FOUR_HEADS),
    **dict.fromkeys(("qwen2_vl_text", "qwen2_5_vl_text", "paddleocr_vl_text"), _WIDE_HEADS),
    "esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
    "gpt_neo": {"num_layers": 2, "attention_types": [[["global", "local"], 1]]},
    "deepseek_v2": {"num_experts_per_tok": 2},
    **{name: {"head_dim": 16} for name in ("hunyuan_v1_dense", "hunyuan_v1_moe", "ministral")},
}


def _smaller(name: str, value: Any) -> Any:
    """A field of a config, made smaller."""
    if isinstance(value, bool) or value is None:
        return value
    if _DROPOUT.fullmatch(name) and isinstance(value, (int, float)):
        return 0.0
    if isinstance(value, (list, tuple)) and value and all(type(v) is int for v in value):
        if _WIDTH.fullmatch(name) and not _KEPT.fullmatch(name):
            return [v // _FACTOR if v % _FACTOR == 0 else v for v in value]
        return [min(v, 2) for v in value] if _LAYERS.fullmatch(name) or name == "depths" else value
    if not isinstance(value, int):
        return value
    if _VOCAB.fullmatch(name):
        return min(value, _VOCABULARY)
    if _TOKEN.fullmatch(name):
        return value % _VOCABULARY if value >= 0 else value
    if _EXPERTS.fullmatch(name):
        return min(value, 8)
    if _CHOSEN.fullmatch(name):
        return min(value, 2)
    if _GROUPS.fullmatch(name):
        return max(1, value // _FACTOR)
    if _POSITIONS.fullmatch(name):
        return min(value, 128)
    if _LAYERS.fullmatch(name):
        return min(value, 2)
    if _WIDTH.fullmatch(name) and not _KEPT.fullmatch(name):
        return max(1, value // _FACTOR) if value % _FACTOR == 0 else value
    return value


def small_fields(config: Any) -> dict[str, Any]:
    """The fields of a config that are smaller, and those of the configs in it."""
    from transformers import PreTrainedConfig

    fields: dict[str, Any] = {}
    before = 0 if getattr(config, "out_features", None) else _layers(config)
    for name, value in vars(config).items():
        if name.startswith("_") or isinstance(getattr(type(config), name, None), property):
            continue
        if isinstance(value, PreTrainedConfig):
            fields[name] = {**value.to_dict(), **small_fields(value)}
        elif name == "rope_parameters" and isinstance(value, dict) and "mrope_section" in value:
            fields[name] = {**value, "mrope_section": [max(1, v // _FACTOR) for v in value["mrope_section"]]}
        elif isinstance(value, dict) and all(type(k) is int for k in value) and name != "id2label":
            fields[name] = {k: v for k, v in value.items() if k < 2}
        elif (made := _smaller(name, value)) != value and not (name in _DEPTHS and not before):
            fields[name] = made
    after = next((fields[n] for n in _DEPTHS if n in fields), before)
    if not before or not after or before == after:
        return fields
    lists = {
        n: v for n, v in vars(config).items() if isinstance(v, list) and len(v) == before and not n.startswith("_")
    }
    kinds = max((list(dict.fromkeys(v)) for n, v in lists.items() if "type" in n), key=len, default=[])
    count = max(after, len(kinds))  # one layer of each kind
    for name, values in lists.items():
        distinct = list(dict.fromkeys(values)) if "type" in name else values
        fields[name] = [*distinct, *[values[-1]] * count][:count]
    return {**fields, **{n: count for n in _DEPTHS if n in fields}}


_DEPTHS = ("num_hidden_layers", "n_layer", "num_layers")


def _layers(config: Any) -> int:
    return next((v for n in _DEPTHS if isinstance(v := vars(config).get(n), int)), 0)


def names() -> list[str]:
    """Types of models that have a model without a head, or one of `_HEADS`."""
    return sorted(_classes())


def _classes() -> dict[str, str]:
    """Each type's class."""
    from transformers.models.auto import modeling_auto as auto

    found: dict[str, str] = {}
    for table in (*(f"MODEL_FOR_{head}_MAPPING_NAMES" for head in _HEADS), "MODEL_MAPPING_NAMES"):
        for name, cls in getattr(auto, table).items():
            found.setdefault(name, cls if isinstance(cls, str) else cls[0])
    return found


def _whole_fields(name: str, config: Any) -> dict[str, Any]:
    fields = {**small_fields(config), **_OVERRIDES.get(name, {})}
    if "text_config" in fields:
        fields["text_config"] |= _OVERRIDES.get(fields["text_config"].get("model_type"), {})
    return fields


def model(name: str, seed: int = 0) -> nn.Module:
    import transformers
    from transformers import CONFIG_MAPPING

    torch.manual_seed(seed)
    config_class = CONFIG_MAPPING[name]
    config = config_class(**_whole_fields(name, config_class()))
    cls = getattr(transformers, _classes()[name])
    with torch.device("meta"):
        count = sum(p.numel() for p in cls(config).parameters())
    if count > PARAMETERS:
        raise ValueError(f"{count / 1e6:.0f} million parameters")
    return varied(cls(config).eval())


def load(name: str, seed: int = 0) -> Case:
    """The model of a type with inputs that it takes. Raises what the library raises."""
    made: Any = model(name, seed)
    made.config.use_cache = False
    errors: list[Exception] = []
    for way in _ways(made):
        case = Case(name, made, partial(_inputs, made, way), _wide)
        try:
            with torch.no_grad():
                made(**case.inputs(0))
            return case
        except Exception as error:  # what a library raises of inputs that it does not take
            errors.append(error)
    raise errors[0]


def _wide(made: Any) -> nn.Module:
    """In float64, which products of many experts at once do not take."""
    if hasattr(made, "set_experts_implementation"):
        made.set_experts_implementation("eager")
    return made.double()


_Maker = Callable[[Any, int, int], Tensor]
"""An input, of a config, a batch and a length."""


def _ids(config: Any, n: int, s: int) -> Tensor:
    return torch.randint(3, min(_field(config, "vocab_size", _VOCABULARY), _VOCABULARY) - 1, (n, s))


def _padded(config: Any, n: int, s: int) -> Tensor:
    """The last row is shorter."""
    mask = torch.ones(n, s, dtype=torch.int64)
    mask[-1, s - s // 3 :] = 0
    return mask


def _image(side: int, *frames: int) -> _Maker:
    def make(config: Any, n: int, s: int) -> Tensor:
        size = side or _field(config, "image_size", 32)
        height, width = size if isinstance(size, (list, tuple)) else (size, size)
        return torch.randn(n, *frames, _field(config, "num_channels", 3), height, width)

    return make


def _sound(*shape: str | int) -> _Maker:
    def make(config: Any, n: int, s: int) -> Tensor:
        return torch.randn(n, *(_field(config, d, 80) if isinstance(d, str) else d for d in shape))

    return make


def _mel(config: Any, n: int, s: int) -> Tensor:
    """Of whisper and its like, which take one length."""
    length = 2 * _field(config, "max_source_positions", 128)
    return torch.randn(n, _field(config, "num_mel_bins", 80), length)


def _boxes(config: Any, n: int, s: int) -> Tensor:
    corners = torch.randint(0, 40, (n, s, 2))
    return torch.cat([corners, corners + 20], -1)


def _series(config: Any, n: int, s: int) -> Tensor:
    length = _field(config, "context_length", 32) + max(_field(config, "lags_sequence", [0]))
    channels = () if hasattr(config, "lags_sequence") else (_field(config, "num_input_channels", 1),)
    return torch.randn(n, length, *channels)


def _times(length: int) -> _Maker:
    def make(config: Any, n: int, s: int) -> Tensor:
        whole = config.context_length + max(config.lags_sequence)
        return torch.randn(n, length or whole, config.num_time_features)

    return make


def _whole(config: Any, n: int, s: int) -> Tensor:
    return torch.ones_like(_series(config, n, s))


_TEXT: tuple[_Maker, ...] = (_ids,)
_IMAGES = (_image(0), _image(32), _image(64), _image(224), _image(0, 8), _image(224, 2))
_FRAMES = (_image(0, 8), _image(224, 8), _image(0))
_FEATURES = (
    *(
        _sound("num_mel_bins", 60),
        _sound("num_mel_bins", 3000),
        _sound(40, "num_mel_bins"),
        _sound(32, "input_feat_per_channel"),
    ),
    *(_sound(40, "feature_projection_input_dim"), _sound("feature_size", 60), _mel, _sound(40, "input_dim")),
)
_WAVES = (_sound(4000), _sound(1, 4000), _sound("max_length", "num_mel_bins"), _sound(16000))
_MAKERS: dict[str, tuple[_Maker, ...]] = {
    "input_ids": _TEXT,
    "decoder_input_ids": _TEXT,
    "attention_mask": (_padded,),
    "pixel_values": _IMAGES,
    "pixel_values_videos": _FRAMES,
    "input_features": _FEATURES,
    "input_values": _WAVES,
    "bbox": (_boxes,),
    "past_values": (_series,),
    "past_time_features": (_times(0),),
    "past_observed_mask": (_whole,),
    "future_time_features": (_times(4),),
    "future_values": (lambda config, n, s: torch.randn(n, 4),),
}
_GIVEN = ("attention_mask", "decoder_input_ids")
"""Inputs that a model is given where it takes them."""


def _field(config: Any, name: str, default: Any) -> Any:
    """Of a config, or of one that is part of it."""
    if (value := getattr(config, name, None)) is not None:
        return value
    parts = (getattr(config, part, None) for part in ("text_config", "vision_config", "audio_config", "encoder"))
    return next((v for p in parts if p is not None and (v := getattr(p, name, None)) is not None), default)


def _ways(made: Any) -> Iterator[tuple[tuple[str, _Maker], ...]]:
    """The ways to make what a model needs: what it must be given, and then with what else it takes."""
    parameters = inspect.signature(made.forward).parameters
    needed = [made.main_input_name] if made.main_input_name in parameters else []
    needed += [n for n, p in parameters.items() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    if needed and needed[0] == "input_ids":
        needed += [n for n in _GIVEN if n in parameters]
    elif made.config.is_encoder_decoder and "decoder_input_ids" in parameters:
        needed.append("decoder_input_ids")
    if unknown := [n for n in dict.fromkeys(needed) if n not in _MAKERS]:
        raise NotImplementedError(f"inputs {', '.join(unknown)}")
    for chosen in (needed, [*needed, *(n for n in _MAKERS if n in parameters)]):
        yield from product(*([(n, make) for make in _MAKERS[n]] for n in dict.fromkeys(chosen)))


def _inputs(made: Any, way: Sequence[tuple[str, _Maker]], k: int) -> dict[str, Any]:
    torch.manual_seed(1000 + k)
    n, s = ((2, 12), (3, 9), (4, 17))[k]
    return {name: make(made.config, n, s) for name, make in way}
