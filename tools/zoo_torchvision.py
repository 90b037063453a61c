"""torchvision's models at small sizes: classification, segmentation, videos, detection, optical flow."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import torch

from .zoo import Case, varied

_IMAGES = """alexnet convnext_tiny efficientnet_v2_s googlenet mnasnet0_5 mobilenet_v3_small regnet_y_400mf
    shufflenet_v2_x0_5 squeezenet1_0 squeezenet1_1 swin_v2_t vit_b_32 wide_resnet50_2"""
_SEGMENTS = "deeplabv3_mobilenet_v3_large fcn_resnet50 lraspp_mobilenet_v3_large"
_VIDEOS = "mc3_18 r2plus1d_18 r3d_18 swin3d_t"
_BOXES = "fasterrcnn_mobilenet_v3_large_320_fpn fcos_resnet50_fpn maskrcnn_resnet50_fpn retinanet_resnet50_fpn"
_BOXES_OF_ONE_SIZE = "ssd300_vgg16 ssdlite320_mobilenet_v3_large"
_FLOW = "raft_small"

_BARE = {"weights": None, "weights_backbone": None}
_ARGUMENTS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(_SEGMENTS.split(), _BARE),
    **{name: {**_BARE, "min_size": 96, "max_size": 128} for name in _BOXES.split()},
    **dict.fromkeys(_BOXES_OF_ONE_SIZE.split(), _BARE),
    "googlenet": {"weights": None, "init_weights": False, "aux_logits": False},
    "vit_b_32": {"weights": None, "image_size": 64},
}


def names() -> list[str]:
    return sorted(f"{_IMAGES} {_SEGMENTS} {_VIDEOS} {_BOXES} {_BOXES_OF_ONE_SIZE} {_FLOW}".split())


def load(name: str, seed: int = 0) -> Case:
    """The model with inputs that it takes. Raises what the library raises."""
    models: Any = import_module("torchvision.models")
    torch.manual_seed(seed)
    model = varied(models.get_model(name, **_ARGUMENTS.get(name, {"weights": None})).eval())
    first = next(iter(inspect.signature(model.forward).parameters))

    def inputs(k: int) -> dict[str, Any]:
        torch.manual_seed(1000 + k)
        n = (2, 3, 5)[k]
        if name in f"{_BOXES} {_BOXES_OF_ONE_SIZE}".split():
            return {first: [torch.rand(3, 96, 96 + 16 * k), torch.rand(3, 80, 96)]}
        if name == _FLOW:
            return {f"image{i}": torch.rand(n, 3, 128, 128) for i in (1, 2)} | {"num_flow_updates": 3}
        return {first: torch.rand(n, 3, *((8, 56, 56) if name in _VIDEOS.split() else (64, 64)))}

    return Case(name, model, inputs)
