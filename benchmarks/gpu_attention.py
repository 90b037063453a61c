"""Generated attention on one GPU against products of the library with a softmax between them, and torch's own kernels.

    python benchmarks/gpu_attention.py [--cases t5,causal] [--dtypes bf16] [--candidates 6] [--offline]

Times are of runs in one CUDA graph, over as many copies of the arguments as make the caches useless, as in
`gpu_products.py`; `error` is the root of the mean square against float64, beside eager's.
"""

from __future__ import annotations

import argparse
import time
import traceback
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from gpu_kernels import DTYPES, flat, wide
from gpu_products import Variant, compile_all, copies, loaded, made, timed
from harness import table

from lamella import driver
from lamella.codegen.triton_module import kernel_sources
from lamella.codegen.tune_products import tiled
from lamella.dialects.text import parse_module, print_module
from lamella.frontend.capture import capture
from lamella.lowering.gpu_target import GpuTarget


def places(q: Any, k: Any) -> tuple[Any, Any]:
    return torch.arange(q.shape[2], device=q.device)[:, None], torch.arange(k.shape[2], device=q.device)[None]


def plain(q: Any, k: Any, v: Any) -> Any:
    return (q @ k.transpose(-1, -2) * 0.125).softmax(-1) @ v


def biased(q: Any, k: Any, v: Any, bias: Any) -> Any:
    return ((q @ k.transpose(-1, -2)) * 0.125 + bias).softmax(-1) @ v


def t5(q: Any, k: Any, v: Any, bias: Any) -> Any:
    p = F.softmax((q @ k.transpose(-1, -2) + bias).float(), -1).type_as(q)
    return (p @ v).transpose(1, 2).reshape(q.shape[0], q.shape[2], -1)


def causal(q: Any, k: Any, v: Any) -> Any:
    i, j = places(q, k)
    return torch.where(j <= i, q @ k.transpose(-1, -2) * 0.125, -torch.inf).to(q.dtype).softmax(-1) @ v


def window(q: Any, k: Any, v: Any) -> Any:
    i, j = places(q, k)
    s = torch.where((j <= i) & (i - j < 256), q @ k.transpose(-1, -2) * 0.125, -torch.inf)
    return s.to(q.dtype).softmax(-1) @ v


def capped(q: Any, k: Any, v: Any) -> Any:
    s = (q @ k.transpose(-1, -2)).float() * 0.125
    return (50 * torch.tanh(s / 50)).softmax(-1).to(q.dtype) @ v


def alibi(q: Any, k: Any, v: Any) -> Any:
    i, j = places(q, k)
    slope = torch.arange(1, q.shape[1] + 1, device=q.device)[None, :, None, None] * 0.1
    s = (q @ k.transpose(-1, -2)).float() * 0.125 - slope * (i - j).abs()
    return s.softmax(-1).to(q.dtype) @ v


def _same(b: int, h: int, q: int, k: int, d: int) -> tuple[tuple[int, ...], ...]:
    return (b, h, q, d), (b, h, k, d), (b, h, k, d)


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "manual": (biased, (*_same(4, 16, 1024, 1024, 64), (16, 1024, 1024))),
    "t5": (t5, (*_same(8, 8, 512, 512, 64), (1, 8, 512, 512))),
    "plain": (plain, _same(8, 12, 512, 512, 64)),
    "plain_128": (plain, _same(2, 16, 2048, 2048, 128)),
    "causal": (causal, _same(4, 16, 2048, 2048, 64)),
    "window": (window, _same(4, 16, 2048, 2048, 64)),
    "capped": (capped, _same(4, 16, 1024, 1024, 128)),
    "alibi": (alibi, _same(4, 16, 1024, 1024, 64)),
    "short": (plain, _same(16, 12, 128, 128, 64)),
    "few": (plain, _same(1, 8, 64, 1500, 64)),
    "biased_128": (biased, (*_same(4, 16, 1024, 1024, 128), (16, 1024, 1024))),
    "biased_32": (biased, (*_same(64, 12, 197, 197, 32), (12, 197, 197))),
    "long": (plain, _same(1, 16, 8192, 8192, 64)),
    "long_16k": (plain, _same(1, 4, 16384, 16384, 128)),
    "wide": (plain, _same(2, 8, 2048, 2048, 256)),
    "wide_biased": (biased, (*_same(2, 8, 2048, 2048, 256), (8, 2048, 2048))),
    "wide_causal": (causal, _same(2, 8, 2048, 2048, 256)),
}


def variants(f: Callable[..., Any], args: Any, target: GpuTarget, most: int) -> list[Variant]:
    """The case with calls, and as one kernel with each of at most `most` tiles."""
    text = print_module(capture(f, *args).module).replace("device=meta", "device=cuda:0").replace('"meta"', '"cuda:0"')
    lower = "aten-to-prims{halves=true},prims-canonicalize,prims-to-loop,"
    lower += f"loop-fuse{{{target.machine}}},bufferize"
    found: list[Variant] = []
    for choose in ("none", "all"):
        module = parse_module(text)
        driver.run_passes(module, f"aten-canonicalize,aten-cse,aten-choose-products{{choose={choose}}},{lower}")
        for i in range(most if choose == "all" else 1):
            copy = module.clone()
            driver.run_passes(copy, f"loop-tile{{target={target.name} candidate={i}}},kernel-to-tt")
            names = tiled(copy)
            tile = "" if choose == "none" else names[1] if names is not None and "attention" in names[0] else "none"
            if tile not in {v.tile for v in found}:
                found.append(Variant(copy, tile))
    return found


def error(got: Any, exact: Any) -> float:
    return float((got.double() - exact).norm() / exact.norm())


def run_case(name: str, dtype: str, found: list[Variant], target: GpuTarget) -> list[str]:
    f, shapes = CASES[name]
    sets = copies(shapes, DTYPES[dtype])
    (eager,), (exact,) = flat(f(*sets[0])), flat(f(*map(wide, sets[0])))
    before, theirs = error(eager, exact), timed(lambda args: f(*args), sets)
    mask = [a.expand(*sets[0][0].shape[:2], -1, -1) for a in sets[0][3:4]]
    other = timed(lambda args: F.scaled_dot_product_attention(*args[:3], *mask), sets)
    worst, times = 0.0, dict[str, float]()
    for v in found:
        graph = loaded(v, target)
        worst = max(worst, error(flat(graph(sets[0]))[0], exact))
        times[v.tile] = timed(graph, sets)
    called = times.pop("")
    best = min(times, key=lambda t: times[t])
    first = next(iter(times))
    print(f"    {name} " + "  ".join(f"{t}: {us:.1f}" for t, us in times.items()), flush=True)
    return [f"{name} {dtype}", f"{theirs:.1f}", f"{other:.1f}", f"{called:.1f}", f"{times[first]:.1f}",
            f"{times[best]:.1f}", f"{called / times[first]:.2f}", best, f"{worst:.1e}", f"{before:.1e}",
            "" if worst <= 1.5 * before else "WRONG"]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--dtypes", default="bf16")
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--candidates", type=int, default=6)
    parser.add_argument("--offline", action="store_true", help="only compile, without a GPU")
    options = parser.parse_args()
    target = GpuTarget.from_name(options.target)
    torch.set_grad_enabled(False)
    started = time.perf_counter()
    wanted = [(n, d) for d in options.dtypes.split(",") for n in options.cases.split(",")]
    cases = {
        (n, d): variants(CASES[n][0], made(CASES[n][1], DTYPES[d], "meta"), target, options.candidates)
        for n, d in wanted
    }
    compile_all([v for found in cases.values() for v in found], target)
    print(f"{time.perf_counter() - started:.0f} s of compilation", flush=True)
    rows: list[list[str]] = []
    for (name, dtype), found in cases.items():
        if options.offline:
            print(name, dtype, [v.tile for v in found], [len(kernel_sources(v.module)) for v in found])
            continue
        try:
            rows.append(run_case(name, dtype, found, target))
        except Exception:  # one case must not end the run
            traceback.print_exc(limit=-3)
    head = [
        "case",
        "eager, us",
        "torch's kernel",
        "library",
        "model",
        "best",
        "library / model",
        "tile",
        "error",
        "eager's",
    ]
    print(table([*head, ""], rows))


if __name__ == "__main__":
    main()
