"""timm's image classifiers: one of each family, as shallow and of images as small as it takes."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from torch import nn

from .zoo import Case, varied

_NAMES = """bat_resnext26ts beit_base_patch16_224 botnet26t_256 caformer_s18 cait_xxs24_224 coat_lite_tiny
    coatnet_nano_rw_224 convformer_s18 convit_tiny convmixer_768_32 convnext_atto convnextv2_atto crossvit_tiny_240
    cs3darknet_s cspresnet50 davit_tiny deit3_small_patch16_224 deit_tiny_distilled_patch16_224 densenet121 dla34
    dm_nfnet_f0 dpn48b eca_botnext26ts_256 ecaresnet26t edgenext_xx_small efficientformer_l1 efficientformerv2_s0
    efficientnet_b0 efficientvit_b0 efficientvit_m0 ese_vovnet19b_dw eva02_tiny_patch14_224 fasternet_t0 fastvit_t8
    focalnet_tiny_srf gcvit_xxtiny gernet_s ghostnet_050 ghostnetv3_050 gmlp_ti16_224 halonet26t hardcorenas_a
    hgnetv2_b0 hiera_tiny_224 hrnet_w18_small inception_next_atto inception_v3 lambda_resnet26t lcnet_050
    levit_128s maxvit_tiny_rw_224 mixer_s32_224 mnasnet_small mobilenetv2_035 mobilenetv3_small_050
    mobilenetv4_conv_small mobilenetv4_hybrid_medium mobileone_s0 mobilevit_xxs mobilevitv2_050 mvitv2_tiny nest_tiny
    nextvit_small nf_regnet_b0 nf_resnet50 pit_ti_224 poolformer_s12 pvt_v2_b0 rdnet_tiny regnetx_002 regnety_002
    repghostnet_050 repvgg_a0 repvit_m0_9 res2net50_14w_8s resmlp_12_224 resnest14d resnet18 resnetv2_50 resnext26ts
    rexnet_100 selecsls42 sequencer2d_s seresnet18 skresnet18 starnet_s1 swin_tiny_patch4_window7_224
    swinv2_cr_tiny_ns_224 tf_efficientnetv2_b0 tinynet_e tiny_vit_5m_224 tnt_s_patch16_224 tresnet_m
    twins_pcpvt_small twins_svt_small vgg11 visformer_tiny vit_base_patch16_siglip_224 vit_relpos_small_patch16_224
    vit_small_patch16_rope_224 vit_tiny_patch16_224 volo_d1_224 xception41 xcit_nano_12_p16_224"""

_SMALL = 64
_SIDES = (_SMALL, 96, 224, 240, 256)
_WAYS: tuple[dict[str, Any], ...] = (
    {"img_size": _SMALL, "depth": 3},
    {"img_size": _SMALL, "depths": (1, 1, 1, 1)},
    {"img_size": _SMALL},
    {"depth": 4},
    {},
)


def names() -> list[str]:
    return sorted(_NAMES.split())


def load(name: str, seed: int = 0) -> Case:
    """The model with images that it takes. Raises what the library raises."""
    timm: Any = import_module("timm")
    errors: list[Exception] = []
    for way in _WAYS:
        try:
            torch.manual_seed(seed)
            model = varied(timm.create_model(name, num_classes=10, **way).eval())
        except Exception as error:  # what a library raises of arguments that a model does not take
            errors.append(error)
            continue
        for side in _SIDES:
            try:
                with torch.no_grad():
                    model(torch.randn(2, 3, side, side))
                return _case(name, model, side)
            except Exception as error:
                errors.append(error)
    raise errors[-1]


def _case(name: str, model: nn.Module, side: int) -> Case:
    def inputs(k: int) -> dict[str, Any]:
        torch.manual_seed(1000 + k)
        return {"x": torch.randn((3, 4, 6)[k], 3, side, side)}

    return Case(name, model, inputs)
