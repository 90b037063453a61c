"""Whole programs for a machine that is not at hand: AArch64. `benchmarks/emulated.py` runs their kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from lamella.codegen.jit import compile_object
from lamella.codegen.llvm_parts import emit_parts
from lamella.codegen.target import CpuTarget
from lamella.frontend.capture import capture
from lamella.lowering.options import Options
from lamella.lowering.pipeline import pipeline, run_passes

AARCH64 = 183

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "softmax": (lambda x: F.softmax(x, -1), ((5, 131),)),
    "layer_norm": (lambda x, w: F.layer_norm(x, (67,), w), ((9, 67), (67,))),
    "linear": (lambda x, w: F.gelu(F.linear(x, w)), ((19, 70), (45, 70))),
    "bytes": (lambda x, w: F.linear(x, w.to(torch.int8).to(x.dtype)), ((16, 64), (64, 64))),
    "sums of bytes": (lambda x, w: x.to(torch.int8).int() @ w.to(torch.int8).int(), ((16, 64), (64, 64))),
    "attention": (lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), ((1, 2, 40, 32),)),
    "transpose": (lambda x, y: x.t() + y, ((67, 131), (131, 67))),
    "topk": (lambda x: x.topk(8, -1), ((4, 256),)),
    "convolution": (lambda x, w: F.conv2d(x, w, padding=1, groups=8), ((1, 8, 9, 9), (8, 1, 3, 3))),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_an_object_for_the_other_machine(name: str, dtype: torch.dtype) -> None:
    program, shapes = PROGRAMS[name]
    target = CpuTarget.from_name("neon")
    module = capture(program, *(torch.randn(shape).to(dtype) for shape in shapes)).module
    run_passes(module, pipeline(Options(target="neon", products="all"), target))
    for text in emit_parts(module, 1):
        assert "llvm.x86" not in text and "Sleef" not in text
        code = compile_object(text, target)
        assert code[:6] == b"\x7fELF\x02\x01" and int.from_bytes(code[18:20], "little") == AARCH64
