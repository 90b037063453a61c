"""Generated products of matrices on one GPU, with what is fused into them, against the library with separate kernels.

    python benchmarks/gpu_products.py [--groups square,linear,decode,batched] [--dtypes bf16,tf32,f32] [--candidates 6]
                                      [--offline]

Every case is a function captured from ATen and compiled in several ways: with products as calls, and as kernels with
each of the tiles that `lowering/tile_contraction.py` thinks of. Times are of runs in one CUDA graph, over as many
copies of the arguments as make the caches useless; `error` is the largest one against float64, beside eager's.
"""

from __future__ import annotations

import argparse
import math
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from gpu_kernels import DTYPES, arguments, error, flat, microseconds, wide
from harness import geometric_mean, table
from xdsl.dialects.builtin import ModuleOp

from lamella import driver
from lamella.codegen.target import CpuTarget
from lamella.codegen.triton_compile import compile_kernels
from lamella.codegen.triton_module import kernel_sources
from lamella.codegen.tune_products import tiled
from lamella.dialects.text import parse_module, print_module
from lamella.frontend.capture import capture
from lamella.lowering.gpu_target import GpuTarget

CACHES = 256 << 20
"""Bytes of arguments that no cache holds."""


def plain(x: Any, w: Any) -> Any:
    return x @ w


def only(x: Any, w: Any) -> Any:
    return F.linear(x, w)


def linear(x: Any, w: Any, b: Any) -> Any:
    return F.linear(x, w, b)


def linear_gelu(x: Any, w: Any, b: Any) -> Any:
    return F.gelu(F.linear(x, w, b))


def linear_tanh_gelu(x: Any, w: Any, b: Any) -> Any:
    return F.gelu(F.linear(x, w, b), approximate="tanh")


def linear_residual(x: Any, w: Any, b: Any, r: Any) -> Any:
    return F.linear(x, w, b) + r


def residual(x: Any, w: Any, r: Any) -> Any:
    return F.linear(x, w) + r


def gated(x: Any, w: Any, v: Any) -> Any:
    return F.silu(F.linear(x, w)) * F.linear(x, v)


def quantized(x: Any, w: Any, s: Any) -> Any:
    return F.linear(x, w.to(x.dtype)) * s


def quantized_before(x: Any, w: Any, s: Any) -> Any:
    return F.linear(x, w.to(x.dtype) * s[:, None])


def batched(x: Any, y: Any) -> Any:
    return torch.bmm(x, y)


def scores(q: Any, k: Any) -> Any:
    return torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1)


def _square(n: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    return plain, ((n, n), (n, n))


def _decode(f: Callable[..., Any], m: int, n: int, k: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    more = {residual: ((m, n),), gated: ((n, k),)}.get(f, ())
    return f, ((m, k), (n, k), *more)


GROUPS: dict[str, dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]] = {
    "square": {f"square_{n}": _square(n) for n in (512, 1024, 2048, 4096, 8192)},
    "linear": {
        "bert_ffn_gelu": (linear_gelu, ((4096, 768), (3072, 768), (3072,))),
        "bert_out_residual": (linear_residual, ((4096, 3072), (768, 3072), (768,), (4096, 768))),
        "bert_qkv_bias": (linear, ((4096, 768), (2304, 768), (2304,))),
        "gpt2_ffn_gelu": (linear_tanh_gelu, ((8192, 1024), (4096, 1024), (4096,))),
        "vit_ffn_gelu": (linear_gelu, ((6304, 768), (3072, 768), (3072,))),
        "llama_gated": (gated, ((2048, 2048), (8192, 2048), (8192, 2048))),
        "llama_down_residual": (residual, ((2048, 8192), (2048, 8192), (2048, 2048))),
        "small_64x4096x512": (linear, ((64, 512), (4096, 512), (4096,))),
        "small_256x768x512": (linear_gelu, ((256, 512), (768, 512), (768,))),
        "small_128x2048x256": (linear, ((128, 256), (2048, 256), (2048,))),
        "small_512x512x128": (only, ((512, 128), (512, 128))),
        "small_bias_gelu": (linear_gelu, ((512, 512), (512, 512), (512,))),
    },
    "decode": {
        **{f"decode_{m}x4096x4096": _decode(only, m, 4096, 4096) for m in (1, 2, 4, 8, 16)},
        **{f"decode_residual_{m}x4096x14336": _decode(residual, m, 4096, 14336) for m in (1, 8)},
        **{f"decode_gated_{m}x14336x4096": _decode(gated, m, 14336, 4096) for m in (1, 8)},
        **{f"decode_{m}x6144x4096": _decode(only, m, 6144, 4096) for m in (1, 4)},
        **{f"decode_{m}x8192x8192": _decode(only, m, 8192, 8192) for m in (1, 8)},
        **{f"decode_{m}x4096x2048": _decode(only, m, 4096, 2048) for m in (1, 16)},
        **{f"decode_{m}x11008x4096": _decode(only, m, 11008, 4096) for m in (1, 16)},
        **{
            f"decode_kn_{m}x{n}x{k}": (plain, ((m, k), (k, n)))
            for m, n, k in ((1, 4096, 4096), (1, 3072, 768), (8, 4096, 4096))
        },
        **{f"decode_1x{n}x{k}": _decode(only, 1, n, k) for n, k in ((1024, 4096), (3072, 768), (768, 3072))},
        **{f"decode_8x{n}x{k}": _decode(only, 8, n, k) for n, k in ((1024, 4096), (2048, 2048))},
        "decode_1x2048x2048": _decode(only, 1, 2048, 2048),
        "decode_vocabulary_1": _decode(only, 1, 128256, 4096),
        "decode_vocabulary_4": _decode(only, 4, 128256, 2048),
        "decode_64": _decode(only, 64, 4096, 4096),
    },
    "quantized": {
        **{f"i8_{m}x4096x4096": (quantized, ((m, 4096), ("i8", 4096, 4096), (4096,))) for m in (1, 4, 16, 64)},
        **{f"i8_{m}x4096x14336": (quantized, ((m, 14336), ("i8", 4096, 14336), (4096,))) for m in (1, 8)},
        **{f"i8_{m}x14336x4096": (quantized, ((m, 4096), ("i8", 14336, 4096), (14336,))) for m in (1, 16, 64)},
        "i8_before_8x4096x4096": (quantized_before, ((8, 4096), ("i8", 4096, 4096), (4096,))),
        "i8_2048x4096x4096": (quantized, ((2048, 4096), ("i8", 4096, 4096), (4096,))),
    },
    "vocabulary": {  # rows of results that begin anywhere: the library gets padded operands
        "vocabulary_bert": (linear, ((8192, 768), (30522, 768), (30522,))),
        "vocabulary_gpt2": (only, ((8192, 768), (50257, 768))),
        "vocabulary_gpt2_few": (only, ((2048, 768), (50257, 768))),
        "vocabulary_whisper": (only, ((2048, 384), (51865, 384))),
        "vocabulary_aligned": (only, ((8192, 768), (50304, 768))),
    },
    "batched": {
        "bmm_64x512x512x64": (batched, ((64, 512, 64), (64, 64, 512))),
        "bmm_192x128x128x64": (batched, ((192, 128, 64), (192, 64, 128))),
        "bmm_96x64x64x64": (batched, ((96, 64, 64), (96, 64, 64))),
        "bmm_512x128x128x32": (batched, ((512, 128, 32), (512, 32, 128))),
        "bmm_192x128x64x128": (batched, ((192, 128, 128), (192, 128, 64))),
        "bmm_16x1024": (batched, ((16, 1024, 1024), (16, 1024, 1024))),
    },
}


def made(shapes: Sequence[Any], dtype: torch.dtype, device: str) -> list[Any]:
    """Tensors of a case; a shape that begins with `i8` is one of bytes."""
    found = arguments([s[1:] if s[0] == "i8" else s for s in shapes], dtype, device)
    scaled = [t / t.shape[-1] ** 0.25 for t in found]
    return [(10 * t).to(torch.int8) if s[0] == "i8" else t for s, t in zip(shapes, scaled, strict=True)]


# Compiling


@dataclass
class Variant:
    """A case compiled in one way; `tile` says how, and is empty where products are calls."""

    module: ModuleOp
    tile: str


def variants(f: Callable[..., Any], args: Sequence[Any], target: GpuTarget, tf32: bool, most: int) -> list[Variant]:
    """The case with calls, and with each of at most `most` tiles."""
    module = capture(f, *args).module
    text = print_module(module).replace("device=meta", "device=cuda:0").replace('"meta"', '"cuda:0"')
    upper = "aten-canonicalize,%saten-choose-products{choose=%s},aten-to-prims,prims-canonicalize,prims-to-loop,"
    middle = f"loop-fuse{{{target.machine}}},bufferize"
    called, generated = parse_module(text), parse_module(text)
    first = upper % ("aten-pad-products,", "none")
    driver.run_passes(called, f"{first}{middle},loop-tile{{target={target.name}}},kernel-to-tt", verify=False)
    driver.run_passes(generated, upper % ("", "all") + middle, verify=False)
    found = [Variant(called, "")]
    for i in range(most):
        copy = generated.clone()
        tiling = f"loop-tile{{target={target.name} tf32={str(tf32).lower()} candidate={i}}}"
        driver.run_passes(copy, f"{tiling},kernel-to-tt", verify=False)
        names = tiled(copy)
        tile = names[1] if names is not None else "no dot"
        if tile in {v.tile for v in found}:
            break  # there are no more
        found.append(Variant(copy, tile))
    return found


def compile_all(found: Sequence[Variant], target: GpuTarget) -> float:
    """Have Triton compile the kernels of all variants, side by side; seconds."""
    start = time.perf_counter()
    sources = [s for v in found for s in kernel_sources(v.module)]
    compile_kernels(sources, target.sm)
    return time.perf_counter() - start


def loaded(v: Variant, target: GpuTarget) -> Callable[..., Any]:
    driver.run_passes(v.module, "kernel-to-llvm,host-to-llvm", verify=False)
    graph = driver.native(v.module, CpuTarget.host(), target)
    return lambda args: graph(list(args))


# Measuring


def copies(shapes: Sequence[Any], dtype: torch.dtype) -> list[list[Any]]:
    """Arguments as often as caches need."""
    first = made(shapes, dtype, "cuda")
    size = sum(t.nbytes for t in first)
    return [first, *([t.clone() for t in first] for _ in range(min(15, CACHES // size)))]


def timed(f: Callable[..., Any], sets: list[list[Any]]) -> float:
    """Microseconds of a call."""

    def run() -> Any:
        return [f(args) for args in sets]

    return microseconds(run, rounds=5) / len(sets)


@dataclass
class Case:
    """A case with arguments on the GPU, and all its variants."""

    name: str
    group: str
    dtype: str
    found: list[Variant]
    seconds: float

    def arguments(self) -> list[list[Any]]:
        return copies(GROUPS[self.group][self.name][1], DTYPES.get(self.dtype, torch.float32))

    @property
    def flops(self) -> float:
        f, shapes = GROUPS[self.group][self.name]
        first, second = shapes[:2]
        rows, columns = math.prod(first), second[-1] if f in (plain, batched) else second[-2]
        return 2.0 * rows * columns * (2 if f is gated else 1)


def prepared(name: str, group: str, dtype: str, target: GpuTarget, most: int) -> Case:
    f, shapes = GROUPS[group][name]
    start = time.perf_counter()
    args = made(shapes, DTYPES.get(dtype, torch.float32), "meta")
    found = variants(f, args, target, dtype == "tf32", most)
    return Case(name, group, dtype, found, time.perf_counter() - start)


def run_case(case: Case, target: GpuTarget) -> tuple[list[str], float, float]:
    f = GROUPS[case.group][case.name][0]
    torch.backends.cuda.matmul.allow_tf32 = case.dtype == "tf32"
    sets = case.arguments()
    eager = flat(f(*sets[0]))
    reference = flat(f(*map(wide, sets[0])))
    eager_error = error(eager, reference)
    theirs = timed(lambda args: f(*args), sets)
    worst, times = 0.0, dict[str, float]()
    for v in case.found:
        graph = loaded(v, target)
        worst = max(worst, error(flat(graph(sets[0])), reference))
        times[v.tile] = timed(graph, sets)
    called = times.pop("")
    best = min(times, key=lambda t: times[t])
    first = next(iter(times))
    print("    " + "  ".join(f"{t}: {us:.1f}" for t, us in times.items()), flush=True)
    ok = worst <= 2 * eager_error + (1e-6 if case.dtype == "f32" else 1e-3)
    row = [
        f"{case.name} {case.dtype}", f"{theirs:.1f}", f"{called:.1f}", f"{times[first]:.1f}", f"{times[best]:.1f}",
        f"{called / times[first]:.2f}", f"{called / times[best]:.2f}", best, f"{case.flops / times[best] / 1e6:.0f}",
        f"{worst:.1e}", f"{eager_error:.1e}", "" if ok else "WRONG", f"{case.seconds:.2f}",
    ]  # fmt: skip
    return row, called / times[first], called / times[best]


def described(case: Case) -> str:
    calls = [sorted({o.name for o in v.module.walk() if o.name.startswith("aten.")}) for v in case.found[:2]]
    kernels = [len(kernel_sources(v.module)) for v in case.found]
    tiles = [v.tile for v in case.found[1:]]
    return f"{case.name} {case.dtype}: {tiles} kernels {kernels} calls {calls} {case.seconds:.2f} s of passes"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", default=",".join(GROUPS))
    parser.add_argument("--cases", default="")
    parser.add_argument("--dtypes", default="bf16")
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--candidates", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=1e9, help="after which no further case is begun")
    parser.add_argument("--offline", action="store_true", help="only compile, without a GPU")
    options = parser.parse_args()
    target = GpuTarget.from_name(options.target)
    names = set(filter(None, options.cases.split(",")))
    wanted = [
        (n, g, d)
        for d in options.dtypes.split(",")
        for g in options.groups.split(",")
        for n in GROUPS[g]
        if not names or n in names
    ]
    torch.set_grad_enabled(False)
    started = time.perf_counter()
    cases = [prepared(*w, target, options.candidates) for w in wanted]
    passes = time.perf_counter() - started
    compile_all([v for c in cases for v in c.found], target)
    print(f"{passes:.0f} s of passes, {time.perf_counter() - started - passes:.0f} s of Triton", flush=True)
    if options.offline:
        print("\n".join(map(described, cases)))
        return
    rows: list[list[str]] = []
    ratios: list[tuple[float, float]] = []
    for case in cases:
        if time.perf_counter() - started > options.seconds:
            print(f"no time for {case.name} {case.dtype}")
            continue
        try:
            row, first, best = run_case(case, target)
            ratios.append((first, best))
        except Exception as e:  # one case must not end the run
            traceback.print_exc(limit=-3)
            row = [f"{case.name} {case.dtype}", f"{type(e).__name__}: {str(e)[:80]}", *[""] * 11]
        rows.append(row)
        print("  ".join(row), flush=True)
        torch.cuda.empty_cache()
    header = ["case", "eager us", "library us", "first us", "best us", "ratio", "best", "tile", "TFLOP/s", "error",
              "eager's", "", "s of passes"]  # fmt: skip
    print(table(header, rows))
    first, best = ([r[i] for r in ratios] for i in range(2))
    print(f"geometric means over the library: {geometric_mean(first):.2f}x, best {geometric_mean(best):.2f}x")


if __name__ == "__main__":
    main()
