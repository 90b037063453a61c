"""The float conversions of the runtime against torch and numpy, over every half and a dense sample of floats."""

import ctypes

import numpy as np
import pytest
import torch

from lamella.codegen.jit import compile_object, elf_symbols, load_object
from lamella.lowering.target import CpuTarget

LLVM = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}
BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}


def convert(x: torch.Tensor, source: str, target: str, opcode: str) -> np.ndarray:
    """The bits of each element converted on a CPU without any half float instructions."""
    text = f"""
define void @k(ptr %x, ptr %y, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %p = getelementptr {LLVM[source]}, ptr %x, i64 %i
  %q = getelementptr {LLVM[target]}, ptr %y, i64 %i
  %v = load {LLVM[source]}, ptr %p
  %w = {opcode} {LLVM[source]} %v to {LLVM[target]}
  store {LLVM[target]} %w, ptr %q
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}"""
    obj = compile_object(text, CpuTarget.from_name("baseline"))
    assert elf_symbols(obj)[0], "the conversion is a call"
    loaded = load_object(obj, ["k"])
    out = np.zeros(len(x), f"u{BITS[target] // 8}")
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(loaded["k"])(
        x.data_ptr(), out.ctypes.data, len(x)
    )
    return out


def floats() -> np.ndarray:
    """Every 9973rd float, with all near the halves between two half floats."""
    every = np.arange(0, 2**32, 9973, dtype=np.uint64).astype(np.uint32)
    near = np.arange(0, 2**32, 1 << 15, dtype=np.uint64)[:, None] + np.array([0, 1, 4095], np.uint64)
    return np.concatenate([every, near.ravel().astype(np.uint32)]).view(np.float32)


@pytest.mark.parametrize("target", ["f16", "bf16"])
def test_narrow_f32(target: str):
    """As torch converts, NaN payloads apart."""
    x = torch.from_numpy(floats())
    want = x.to(torch.float16 if target == "f16" else torch.bfloat16)
    got = torch.from_numpy(convert(x, "f32", target, "fptrunc").view(np.int16)).view(want.dtype)
    assert torch.equal(want.isnan(), got.isnan())
    finite = ~want.isnan()
    assert torch.equal(want[finite].view(torch.int16), got[finite].view(torch.int16))


def test_narrow_f64_rounds_once():
    """f64 to f16 as numpy, which rounds once; to bf16 a value that rounding twice gets wrong."""
    with np.errstate(all="ignore"):
        x = np.concatenate([floats()[::7].astype(np.float64) * f for f in (1.0, 1.0 + 2.0**-40, 1.0 - 2.0**-40)])
        want = x.astype(np.float16)
    got = convert(torch.from_numpy(x), "f64", "f16", "fptrunc")
    ok = ~np.isnan(want)
    assert np.array_equal(want.view(np.uint16)[ok], got[ok])
    halfway = torch.tensor([1 + 2.0**-8, 1 + 2.0**-8 + 2.0**-40, -(1 + 2.0**-8 - 2.0**-40)], dtype=torch.float64)
    assert convert(halfway, "f64", "bf16", "fptrunc").tolist() == [0x3F80, 0x3F81, 0xBF80]


def test_widen_every_half():
    """All 65536 halves to f32."""
    halves = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    got = torch.from_numpy(convert(halves, "f16", "f32", "fpext").view(np.float32))
    assert torch.equal(got.nan_to_num(7.0), halves.view(torch.float16).float().nan_to_num(7.0))
