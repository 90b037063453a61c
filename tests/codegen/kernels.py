"""Kernels written by hand as text, run natively; shared by the tests of kernels."""

import ctypes
from collections.abc import Sequence
from functools import cache

import torch

from lamella.codegen.jit import LoadedObject, compile_object, load_object
from lamella.codegen.llvm_text import emit
from lamella.codegen.target import CpuTarget
from lamella.dialects.context import make_context
from lamella.dialects.text import parse_module, print_module
from lamella.dialects.verify import verify
from lamella.lowering.kernel_to_llvm import KernelToLlvm

HOST = CpuTarget.host()

TARGETS = [
    name
    for name, runs in (("avx512", HOST.has_avx512), ("avx2", HOST.vector_bits >= 256), ("baseline", True))
    if runs and HOST.triple.startswith("x86_64")
] or ["host"]


@cache
def compiled(text: str, target: str) -> LoadedObject:
    module = parse_module(text)
    verify(module)
    KernelToLlvm(target=target).apply(make_context(), module)
    verify(module)
    again = parse_module(print_module(module))
    assert print_module(again) == print_module(module)
    machine = HOST if target == "host" else CpuTarget.from_name(target)
    return load_object(compile_object(emit(module), machine), ["k"])


def run(text: str, tensors: Sequence[torch.Tensor], sizes: Sequence[int] = (), target: str = "host") -> int:
    """Call kernel @k of the text; gives what it returns."""
    code = compiled(text, target)
    types = [ctypes.c_void_p] * len(tensors) + [ctypes.c_int64] * len(sizes)
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(code["k"])
    return function(*(t.data_ptr() for t in tensors), *sizes)


def vector(dim: str, lanes: int, unroll: int = 1) -> str:
    return f'attributes {{vector = "{dim}", lanes = {lanes} : i64, unroll = {unroll} : i64}}' if lanes > 1 else ""


def pointwise(dtype: str, body: str, lanes: int, unroll: int = 2, result: str | None = None) -> str:
    """y = body(x) over one dim of symbolic size; %x is the element, %y what is stored."""
    x, y = f"!sym.t<[s0], {dtype}>", f"!sym.t<[s0], {result or dtype}>"
    return f"""
loop.kernel @k(%a: {x}) outs(%b: {y}) sizes [s0] grid [] {{
  loop.for [d0 = s0] {vector("d0", lanes, unroll)} {{
    %x = loop.load %a[d0] : {x}
    {body}
    loop.store %y, %b[d0] : {y}
    loop.yield
  }}
  loop.end
}}"""


DTYPES = {
    "f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16, "i64": torch.int64,
    "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8, "i1": torch.bool,
}  # fmt: skip


def sample(dtype: str, *shape: int) -> torch.Tensor:
    torch.manual_seed(0)
    type = DTYPES[dtype]
    if type.is_floating_point:
        return torch.randn(shape).to(type)
    return torch.randint(0, 2 if dtype == "i1" else 100, shape).to(type)


def close(actual: torch.Tensor, expected: torch.Tensor, rtol: float = 2e-6, atol: float = 1e-6) -> None:
    torch.testing.assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=True)


SELF_SUM = {
    "f32": "%y = arith.addf %x, %x : f32",
    "f64": "%y = arith.addf %x, %x : f64",
    "bf16": "%w = arith.extf %x : bf16 to f32\n%z = arith.addf %w, %w : f32\n%y = arith.truncf %z : f32 to bf16",
    "f16": "%w = arith.extf %x : f16 to f32\n%z = arith.addf %w, %w : f32\n%y = arith.truncf %z : f32 to f16",
    **{t: f"%y = arith.addi %x, %x : {t}" for t in ("i64", "i32", "i16", "i8")},
    "u8": "%y = arith.addi %x, %x : i8",
    "i1": "%y = arith.ori %x, %x : i1",
}


def grid_kernel(ins: str, outs: str, body: str, sizes: str = "", grid: str = "", grain: int = 0) -> str:
    kept = f"attributes {{grain = {grain} : i64}}" if grain else ""
    return f"loop.kernel @k({ins}) outs({outs}) sizes [{sizes}] grid [{grid}] {kept} {{\n{body}\nloop.end\n}}"


def row_reduction(kind: str, dtype: str, n: str, lanes: int, unroll: int, result: str | None = None) -> str:
    """y[d0] = reduce(x[d0, :])."""
    x, y = f"!sym.t<[s0, {n}], {dtype}>", f"!sym.t<[s0], {result or dtype}>"
    scalar = {"u8": "i8"}.get(dtype, dtype)
    reduced = {"argmax": "i64", "argmin": "i64"}.get(kind, scalar)
    return grid_kernel(
        f"%x: {x}", f"%y: {y}",
        f"""%r = loop.for [r0 = {n}] reduce [{kind}] {vector("r0", lanes, unroll)} {{
          %0 = loop.load %x[d0, r0] : {x}
          loop.yield %0 : {scalar}
        }} : {reduced}
        loop.store %r, %y[d0] : {y}""",
        "s0, s1", "d0 = s0",
    )  # fmt: skip
