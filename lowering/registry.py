"""Which passes there are, and in which order they take a module down."""

from __future__ import annotations

from typing import cast

from xdsl.passes import ModulePass

from ..dialects.context import load_object
from . import gpu_target

_HERE = __name__.rpartition(".")[0]

PASSES: dict[str, str] = {
    "aten-canonicalize": f"{_HERE}.aten_canonicalize:AtenCanonicalize",
    "aten-absent": f"{_HERE}.aten_absent:AtenAbsent",
    "aten-inline-flex": f"{_HERE}.aten_inline_flex:AtenInlineFlex",
    "aten-patterns": f"{_HERE}.aten_patterns:AtenPatterns",
    "aten-attention": f"{_HERE}.aten_attention:AtenAttention",
    "aten-inline-layers": f"{_HERE}.aten_inline_layers:AtenInlineLayers",
    "aten-fuse-attention": f"{_HERE}.aten_fuse_attention:AtenFuseAttention",
    "aten-fold-batch-norm": f"{_HERE}.aten_fold_batch_norm:AtenFoldBatchNorm",
    "aten-fuse-convolutions": f"{_HERE}.aten_fuse_convolutions:AtenFuseConvolutions",
    "aten-freeze": f"{_HERE}.aten_freeze:AtenFreeze",
    "aten-cse": f"{_HERE}.aten_cse:AtenCse",
    "aten-devices": f"{_HERE}.aten_devices:AtenDevices",
    "aten-batch-invariant": f"{_HERE}.aten_batch_invariant:AtenBatchInvariant",
    "aten-pad-products": f"{_HERE}.aten_pad_products:AtenPadProducts",
    "aten-unfold-convolutions": f"{_HERE}.aten_unfold_convolutions:AtenUnfoldConvolutions",
    "aten-channels-last": f"{_HERE}.aten_channels_last:AtenChannelsLast",
    "aten-choose-products": f"{_HERE}.aten_choose_products:AtenChooseProducts",
    "aten-outline": f"{_HERE}.aten_outline:AtenOutline",
    "aten-to-prims": f"{_HERE}.aten_to_prims:AtenToPrims",
    "prims-canonicalize": f"{_HERE}.prims_canonicalize:PrimsCanonicalize",
    "prims-to-loop": f"{_HERE}.prims_to_loop:PrimsToLoop",
    "loop-fuse": f"{_HERE}.loop_fuse:LoopFuse",
    "inline-calls": f"{_HERE}.inline_calls:InlineCalls",
    "upload-numbers": f"{_HERE}.upload_numbers:UploadNumbers",
    "share-kernels": f"{_HERE}.share_kernels:ShareKernels",
    "loop-schedule": f"{_HERE}.loop_schedule:LoopSchedule",
    "launch-together": f"{_HERE}.launch_together:LaunchTogether",
    "bufferize": f"{_HERE}.bufferize:Bufferize",
    "loop-tile": f"{_HERE}.loop_tile:LoopTile",
    "kernel-to-tt": f"{_HERE}.kernel_to_tt:KernelToTt",
    "kernel-to-llvm": f"{_HERE}.kernel_to_llvm:KernelToLlvm",
    "host-to-llvm": f"{_HERE}.host_to_llvm:HostToLlvm",
    "strip-locations": f"{_HERE}.strip_locations:StripLocations",
    "canonicalize": f"{_HERE}.generic:Canonicalize",
    "cse": f"{_HERE}.generic:Cse",
    "dce": f"{_HERE}.generic:Dce",
}
"""Pass name to `module:class`, imported when the pass is named.

A pass is a frozen dataclass deriving from `xdsl.passes.ModulePass`: `name`, options as typed fields with defaults, a
docstring whose first line says what it does. One that counts things has a field
`statistics: dict[str, int] = field(default_factory=dict, init=False, compare=False)`.
"""

LEVELS: dict[str, tuple[str, ...]] = {
    "aten": (
        "aten-inline-flex",
        "aten-inline-layers",
        "aten-canonicalize",
        "aten-patterns",
        "aten-fuse-attention",
        "aten-attention",
        "aten-cse",
        "aten-channels-last",
        "aten-choose-products",
        "aten-outline",
    ),
    "prims": ("aten-to-prims", "prims-canonicalize"),
    "loop": ("prims-to-loop",),
    "kernel": ("loop-fuse", "inline-calls", "share-kernels", "loop-schedule", "launch-together"),
    "host": ("bufferize",),
    "tt": ("loop-tile", "kernel-to-tt"),
    "llvm": ("kernel-to-llvm", "host-to-llvm"),
}
"""Level to the passes that make it from the level above, in order. At `tt`, kernels of GPUs are there; others stay."""

TARGETS: dict[str, str] = {"cpu": "llvm", **dict.fromkeys(gpu_target.NAMES, "tt")}
"""Target to its lowest level."""


def load_pass(name: str) -> type[ModulePass]:
    """The class of the pass `name`, which is in `PASSES`."""
    return cast("type[ModulePass]", load_object(PASSES[name]))


def passes_to(level: str) -> tuple[str, ...]:
    """The names of the passes that take a module from the top to `level`, which is in `LEVELS`."""
    names: list[str] = []
    for name, passes in LEVELS.items():
        names.extend(passes)
        if name == level:
            return tuple(names)
    raise KeyError(level)


def options_for(target: str) -> dict[str, str]:
    """Pass name to the options that a target gives it, as text."""
    if target not in gpu_target.NAMES:
        return {}
    return {"loop-fuse": gpu_target.GpuTarget.from_name(target).machine, "loop-tile": f"target={target}"}
