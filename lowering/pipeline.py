"""The passes from aten to llvm, in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from .gpu_target import GpuTarget
    from .options import Options
    from .pass_manager import PassManager, PassRecord
    from .target import CpuTarget


def pipeline(
    options: Options, target: CpuTarget, gpu: GpuTarget | None = None, candidate: int = 0, variant: str = "default"
) -> str:
    """The passes from aten to llvm with their options, as text; `gpu` for a module with tensors of a GPU, `candidate`
    for products in another of the ways there are, `variant` for other kernels.
    """
    device = f" gpu={gpu.name}" if gpu else ""
    threads = str(options.threads).lower()
    invariant = options.batch_invariant
    numerics = "eager" if invariant else options.numerics
    fixed = bool(options.deterministic) and gpu is None and options.products == "auto"
    products = "all" if invariant or fixed else options.products
    other = f" variant={variant}" if variant != "default" else ""
    contract = str(numerics != "eager" and not options.deterministic).lower()
    deterministic = " deterministic=true" if options.deterministic else ""
    told = deterministic + (" profile=true" if options.profile else "")
    rounds = " numerics=eager" if numerics == "eager" else ""
    halves = " halves=true" if gpu and gpu.sm >= 90 else ""
    whole = " parts=false" if invariant else ""
    alike = " invariant=true" if invariant else ""
    alike += " tf32=true" if options.tf32 and numerics != "eager" else ""
    pairs = " pairs=true" if target.has_pairs else ""
    runs = f" runs={target.runs}" if target.runs else ""
    units = f"amx={str(target.has_amx).lower()}{' blocks=true' if target.has_blocks and not target.has_amx else ''}"
    # with torch's threads: which sums are added up again may depend on what else is in a block, so not to the bit
    busy = "" if options.deterministic or target.threads == target.cores else f" busy={target.threads}"
    vectors = f"bits={target.vector_bits} registers={target.registers}"
    return ",".join(
        (
            "aten-inline-flex",
            *(["aten-inline-layers"] if numerics != "eager" else []),
            "aten-canonicalize",
            "aten-patterns",
            *([f"aten-fuse-attention{{target={cpu_name(options)}{device}}}"] if numerics != "eager" else []),
            "aten-attention",
            "aten-cse",
            *([f"aten-unfold-convolutions{{target={cpu_name(options)}}}"] if numerics != "eager" else []),
            *([] if invariant else ["aten-channels-last"]),
            *(["aten-devices"] if gpu else []),
            *(["aten-batch-invariant"] if invariant else []),
            f"aten-choose-products{{choose={products} target={cpu_name(options)}{device}}}",
            *(["aten-pad-products"] if gpu else []),
            f"aten-outline{{reuse={gpu.reuse}}}" if gpu else "aten-outline",
            f"aten-to-prims{{random={options.random}{rounds}{deterministic}{halves}}}",
            f"prims-canonicalize{{numerics={numerics}}}",
            "prims-to-loop",
            f"loop-fuse{{{gpu.machine if gpu else target.machine + runs}{whole}}}",
            "inline-calls",
            *(["upload-numbers"] if gpu else []),
            f"share-kernels{{l2={target.l2} l3={target.l3}}}",
            f"loop-schedule{{{vectors} {target.machine}{busy} {units}{pairs}{whole}{runs}}}",
            f"launch-together{{keep={target.l2}}}",
            "bufferize",
            *([f"loop-tile{{target={gpu.name} candidate={candidate}{other}{deterministic}{alike}}}"] if gpu else []),
            f"kernel-to-llvm{{target={cpu_name(options)} threads={threads} contract={contract}}}",
            *(["kernel-to-tt"] if gpu else []),
            f"host-to-llvm{{{told.strip()}}}" if told else "host-to-llvm",
        )
    )


def freezing_passes(options: Options, target: CpuTarget) -> str:
    """The passes before those of `pipeline` where parameters are frozen, as text."""
    x86 = target.triple.startswith("x86_64")
    fuse = "aten-fuse-convolutions" + ("{bf16=false}" if x86 and not target.has_avx512 else "")
    fast = options.numerics != "eager"
    layers, fold = ["aten-inline-layers"] if fast else [], ["aten-fold-batch-norm"] if fast else []
    return ",".join(
        (
            *("inline-calls", "aten-inline-flex", *layers, "aten-canonicalize", "aten-patterns", *fold),
            *("aten-channels-last", fuse, "aten-freeze"),
        )
    )


def run_passes(
    module: ModuleOp, passes: str, *, verify: bool = True, after: Sequence[Callable[..., None]] = ()
) -> list[PassRecord]:
    """Run a pipeline text over `module`, in place. Raises LamellaError or PassError."""
    return manager(passes, verify=verify, after=after).run(module)


def manager(passes: str, *, verify: bool, after: Sequence[Callable[..., None]]) -> PassManager:
    """A pipeline text as passes."""
    from .pass_manager import PassManager
    from .pipeline_text import parse_passes

    return PassManager(parse_passes(passes), verify=verify, after=after)


def cpu_name(options: Options) -> str:
    """The CPU's name where the host program runs: `host` beside a GPU."""
    if options.target == "host":  # as in most processes, which take what is cached and need no IR
        return "host"
    from .gpu_target import NAMES

    return "host" if options.target in NAMES else options.target
