"""Kernels generated for another CPU than this one, against ATen and TorchInductor held to the same instructions.

    python benchmarks/targets.py [--targets avx2] [--cases softmax,sort] [--dtypes f32,bf16] [--backends inductor]

One thread's CPU clock. Each target is a process with eager, TorchInductor and Lamella, called in turns: ATen, oneDNN
and MKL are told by their variables which instructions there are, TorchInductor by `cpp.simdlen`, Lamella by its option
`target`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness import geometric_mean, interleaved, results, table

ENVIRONMENTS: Mapping[str, tuple[dict[str, str], int | None]] = {
    "baseline": (
        {"ATEN_CPU_CAPABILITY": "default", "DNNL_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
        1,
    ),
    "avx2": ({"ATEN_CPU_CAPABILITY": "avx2", "DNNL_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}, 256),
    "avx512": (
        {"ATEN_CPU_CAPABILITY": "avx512", "DNNL_MAX_CPU_ISA": "AVX512_CORE", "MKL_ENABLE_INSTRUCTIONS": "AVX512"},
        512,
    ),
    "host": ({}, None),
}
"""What the libraries are told, and bits of TorchInductor's vectors."""


def _cases() -> dict[str, tuple[Callable[..., Any], Callable[[], list[Any]]]]:
    import torch
    import torch.nn.functional as F
    from torch import Tensor, randint, randn

    def rms_norm(x: Tensor, w: Tensor) -> Tensor:
        h = x.float()
        return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w

    def swiglu(x: Tensor) -> Tensor:
        a, b = x.chunk(2, -1)
        return F.silu(a) * b

    def heads(*shape: int) -> list[Tensor]:
        return [randn(1, 8, 256, 64) for _ in range(3)] + ([randn(*shape)] if shape else [])

    def best(x: Tensor) -> tuple[Tensor, Tensor]:
        v, i = x.topk(8, -1)
        return v.softmax(-1), i

    def linear(rows: int, inner: int, columns: int) -> Callable[[], list[Any]]:
        return lambda: [randn(rows, inner), randn(columns, inner) / inner**0.5, randn(columns)]

    def depthwise(x: Tensor, w: Tensor) -> Tensor:
        return F.relu(F.conv2d(x, w, padding=1, groups=x.shape[1]))

    def last(x: Tensor) -> Tensor:
        return x.contiguous(memory_format=torch.channels_last)

    def bytes_(*shape: int) -> Tensor:
        return randint(-127, 127, shape, dtype=torch.int8)

    def rows() -> Tensor:
        return randn(2048, 1024)

    return {
        "gelu_affine": (lambda x, a, b: F.gelu(x * a + b), lambda: [rows(), randn(1024), randn(1024)]),
        "softmax": (lambda x: F.softmax(x, -1), lambda: [rows()]),
        "layernorm_residual": (
            lambda x, r, w, b: F.layer_norm(x + r, x.shape[-1:], w, b),
            lambda: [rows(), rows(), randn(1024), randn(1024)],
        ),
        "rms_norm": (rms_norm, lambda: [rows(), randn(1024)]),
        "sum_dim0": (lambda x: x.sum(0), lambda: [randn(4096, 1024)]),
        "sum_dim1": (lambda x: x.sum(1), lambda: [randn(4096, 1024)]),
        "var_mean": (lambda x: torch.var_mean(x, 1), lambda: [randn(4096, 1024)]),
        "transpose_add": (lambda x, y: x.t() + y, lambda: [randn(1024, 2048), randn(2048, 1024)]),
        "embedding_add": (
            lambda i, w, p: F.embedding(i, w) + p,
            lambda: [randint(0, 8192, (4, 256)), randn(8192, 768), randn(256, 768)],
        ),
        "swiglu": (swiglu, lambda: [randn(1024, 2048)]),
        "linear_gelu": (lambda x, w, b: F.gelu(F.linear(x, w, b)), linear(512, 768, 3072)),
        "linear_1_row": (lambda x, w, b: F.gelu(F.linear(x, w, b)), linear(1, 2048, 2048)),
        "linear_4_rows": (lambda x, w, b: F.gelu(F.linear(x, w, b)), linear(4, 2048, 2048)),
        "linear_16_rows": (lambda x, w, b: F.gelu(F.linear(x, w, b)), linear(16, 2048, 2048)),
        "small_linear": (lambda x, w, b: F.relu(F.linear(x, w, b)), linear(16, 64, 64)),
        "int8_weight_mm": (
            lambda x, w, s: F.linear(x, w.to(x.dtype)) * s, lambda: [randn(16, 2048), bytes_(2048, 2048), randn(2048)]
        ),
        "int8_mm": (
            lambda x, w, s, t: torch._int_mm(x, w.t()).float() * s * t,  # pyright: ignore[reportPrivateImportUsage]
            lambda: [bytes_(64, 1024), bytes_(1024, 1024), randn(64, 1), randn(1024)],
        ),
        "sdpa": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), heads),
        "attention_manual": (
            lambda q, k, v, b: ((q @ k.transpose(-1, -2)) * 0.125 + b).softmax(-1) @ v, lambda: heads(8, 256, 256)
        ),
        "depthwise": (depthwise, lambda: [randn(1, 32, 112, 112), randn(32, 1, 3, 3)]),
        "depthwise_last": (depthwise, lambda: [last(randn(1, 32, 112, 112)), randn(32, 1, 3, 3)]),
        "cumsum": (lambda x: x.cumsum(-1), lambda: [randn(1024, 1024)]),
        "argmax": (lambda x: x.argmax(-1), lambda: [randn(512, 8192)]),
        "topk8": (best, lambda: [randn(1024, 256)]),
        "sort": (lambda x: x.sort(-1), lambda: [randn(1024, 256)]),
        "scatter_add": (
            lambda a, x, i: a.scatter_add(0, i[:, None].expand_as(x), x),
            lambda: [randn(1024, 64), randn(16384, 64), randint(0, 1024, (16384,))],
        ),
        "max_pool": (lambda x: F.max_pool2d(F.relu(x), 3, 2, 1), lambda: [randn(4, 64, 112, 112)]),
    }  # fmt: skip


def measure(target: str, name: str, dtype: str, backends: Sequence[str], rounds: int) -> dict[str, Any]:
    """One case: milliseconds of each backend, and how much further off than eager's our result is."""
    import torch

    from lamella.dialects.tensor import TORCH_DTYPES

    program, make = _cases()[name]
    torch.manual_seed(0)
    made = make()
    args = [a.to(getattr(torch, TORCH_DTYPES[dtype])) if a.is_floating_point() else a for a in made]
    programs: dict[str, Callable[..., Any]] = {"eager": program}
    for backend in backends:
        # code of its own, so that no backend finds what TorchDynamo keeps of another
        own = types.FunctionType(
            program.__code__.replace(co_name=f"{backend}_{name}"), program.__globals__, closure=program.__closure__
        )
        options: Any = {"target": target} if backend == "lamella" else None
        programs[backend] = torch.compile(own, backend=backend, options=options, dynamic=False)
    wide = [a.double() if a.is_floating_point() else a for a in args]
    with torch.no_grad():
        wanted = [w.double() for w in _flat(program(*(args if name == "int8_mm" else wide)))]
        errors = {n: _error(_flat(f(*args)), wanted) for n, f in programs.items()}
        steps = {n: (lambda f=f: f(*args)) for n, f in programs.items()}
        times = interleaved(steps, rounds=rounds, clock=time.thread_time)
    best = {n: 1e3 * sorted(t)[len(t) // 2] for n, t in times.items()}
    worse = errors["lamella"] / max(errors["eager"], 1e-30) if errors["lamella"] else 0.0
    return {"target": target, "case": name, "dtype": dtype, "ms": best, "error": worse}


def _flat(result: Any) -> list[Any]:
    return [*result] if isinstance(result, tuple | list) else [result]


def _error(got: Sequence[Any], wanted: Sequence[Any]) -> float:
    """Of what floats there are: places of equal numbers may be others."""
    pairs = [(g.double(), w) for g, w in zip(got, wanted, strict=True) if g.is_floating_point()]
    return max((float((g - w).square().mean().sqrt()) for g, w in pairs), default=0.0)


def shown(rows: list[dict[str, Any]]) -> str:
    """A table for each target and dtype, under what it comes to."""
    parts: list[str] = []
    for target, dtype in dict.fromkeys((r["target"], r["dtype"]) for r in rows):
        found = [r for r in rows if (r["target"], r["dtype"]) == (target, dtype)]
        names = [n for n in ("eager", "inductor", "lamella") if all(n in r["ms"] for r in found)]
        bases = [n for n in names if n != "lamella"]
        ratios = {base: [r["ms"][base] / r["ms"]["lamella"] for r in found] for base in bases}
        means = ", ".join(f"{geometric_mean(ratios[b]):.2f} over {b}" for b in bases)
        lines = [
            [r["case"], *(f"{r['ms'][n]:.3f}" for n in names), *(f"{ratios[b][i]:.2f}" for b in bases)]
            for i, r in enumerate(found)
        ]
        better = {r["case"]: min(of) for r, *of in zip(found, *ratios.values(), strict=True)}
        behind = [f"{name} ({ratio:.2f})" for name, ratio in better.items() if ratio < 0.95]
        text = f"{target}, {dtype}: {len(found)} cases, geometric mean {means}."
        if behind:
            text += f" Below 0.95 of the better: {', '.join(behind)}."
        header = ["case", *(f"{n}, ms" for n in names), *(f"over {b}" for b in bases)]
        parts.append(f"{text}\n\n{table(header, lines)}")
    return "\n\n".join(parts)


def _child(options: argparse.Namespace) -> None:
    import torch
    import torch._inductor.config as config

    bits = ENVIRONMENTS[options.child][1]
    if bits is not None:
        config.cpp.simdlen = bits
    torch.set_num_threads(1)
    backends = [*filter(None, options.backends.split(",")), "lamella"]
    for dtype in options.dtypes.split(","):
        for name in options.cases.split(",") if options.cases else _cases():
            try:
                row = measure(options.child, name, dtype, backends, options.rounds)
            except Exception as e:  # a case that fails is told, the others go on
                print(f"{name} {dtype}: {type(e).__name__}: {e}", file=sys.stderr)
                continue
            torch.compiler.reset()
            print(json.dumps(row), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default="avx2")
    parser.add_argument("--cases", default="", help="all of them, or names")
    parser.add_argument("--dtypes", default="f32,bf16")
    parser.add_argument("--backends", default="inductor", help="beside eager and Lamella")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return _child(options)
    rows: list[dict[str, Any]] = []
    for target in options.targets.split(","):
        command = [sys.executable, __file__, *sys.argv[1:], "--child", target]
        env = {**os.environ, "OMP_NUM_THREADS": "1", **ENVIRONMENTS[target][0]}
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as child:
            for line in child.stdout or ():
                if line.startswith("{"):
                    row = json.loads(line)
                    rows.append(row)
                    times = "  ".join(f"{n} {t:.3f}" for n, t in row["ms"].items())
                    print(f"{target} {row['dtype']} {row['case']}: {times}  error {row['error']:.2f}", flush=True)
    import torch

    torch.set_num_threads(1)  # as the processes have
    print(shown(rows))
    results(options.out, "targets", rows)


if __name__ == "__main__":
    main()
