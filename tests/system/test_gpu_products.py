"""Products of matrices as kernels of GPUs, whole programs: machine code for three generations, and numbers by the
interpreter against eager.
"""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch

from lamella import driver
from lamella.codegen.cuda_interpreted import InterpretedGpu
from lamella.codegen.interpreter import run_module
from lamella.codegen.runtime import NativeGraph
from lamella.dialects.tensor import TORCH_DTYPES
from lamella.dialects.text import parse_module
from lamella.lowering.options import Options


def tensor(shape: str, dtype: str = "bf16", strides: str = "") -> str:
    more = f", strides=[{strides}]" if strides else ""
    return f"!sym.t<[{shape}], {dtype}{more}, device=cuda:0>"


X, W, B, Y = tensor("s0, 72"), tensor("40, 72"), tensor("40"), tensor("s0, 40")
WT = tensor("72, 40", strides="1, 72")
LINEAR = f"""
  func.func @main(%x: {X}, %w: {W}, %b: {B}, %r: {Y}) -> {Y} {{
    %t = aten.t(%w) : ({W}) -> {WT}
    %0 = aten.addmm(%b, %x, %t) : ({B}, {X}, {WT}) -> {Y}
    %1 = aten.gelu(%0) : ({Y}) -> {Y}
    %2 = aten.add.Tensor(%1, %r) : ({Y}, {Y}) -> {Y}
    func.return %2 : {Y}
  }}
"""
P, Q, R = tensor("3, 20, 30", "f32"), tensor("3, 30, 24", "f32"), tensor("3, 20, 24", "f32")
BATCHED = f"""
  func.func @main(%p: {P}, %q: {Q}) -> {R} {{
    %0 = aten.bmm(%p, %q) : ({P}, {Q}) -> {R}
    %1 = aten.relu(%0) : ({R}) -> {R}
    func.return %1 : {R}
  }}
"""
ROW, MATRIX, OUT = tensor("1, 96", "f16"), tensor("96, 70", "f16"), tensor("1, 70", "f16")
ONE_ROW = f"""
  func.func @main(%x: {ROW}, %w: {MATRIX}) -> {OUT} {{
    %0 = aten.mm(%x, %w) : ({ROW}, {MATRIX}) -> {OUT}
    func.return %0 : {OUT}
  }}
"""
LEFT, RIGHT, SUMS = tensor("20, 32", "i8"), tensor("32, 24", "i8"), tensor("20, 24", "i32")
INTEGERS = f"""
  func.func @main(%i: {LEFT}, %j: {RIGHT}) -> {SUMS} {{
    %0 = aten._int_mm(%i, %j) : ({LEFT}, {RIGHT}) -> {SUMS}
    func.return %0 : {SUMS}
  }}
"""
QX, QW, QS, QY = tensor("8, 48"), tensor("40, 48", "i8"), tensor("40"), tensor("8, 40")
QB, QT = tensor("40, 48"), tensor("48, 40", strides="1, 48")
QUANTIZED = f"""
  func.func @main(%x: {QX}, %w: {QW}, %s: {QS}) -> {QY} {{
    %c = aten._to_copy(%w, dtype = bf16) : ({QW}) -> {QB}
    %t = aten.t(%c) : ({QB}) -> {QT}
    %0 = aten.mm(%x, %t) : ({QX}, {QT}) -> {QY}
    %1 = aten.mul.Tensor(%0, %s) : ({QY}, {QS}) -> {QY}
    func.return %1 : {QY}
  }}
"""
HEADS, FLAT = tensor("2, 3, 20, 30", "f32"), tensor("6, 20, 30", "f32")
OTHER, FLAT_OTHER = tensor("2, 3, 30, 24", "f32"), tensor("6, 30, 24", "f32")
PRODUCT, FLAT_PRODUCT = tensor("2, 3, 20, 24", "f32"), tensor("6, 20, 24", "f32")
VIEWED = f"""
  func.func @main(%p: {HEADS}, %q: {OTHER}) -> {PRODUCT} {{
    %a = aten.view(%p, [6, 20, 30]) : ({HEADS}) -> {FLAT}
    %b = aten.view(%q, [6, 30, 24]) : ({OTHER}) -> {FLAT_OTHER}
    %0 = aten.bmm(%a, %b) : ({FLAT}, {FLAT_OTHER}) -> {FLAT_PRODUCT}
    %1 = aten.view(%0, [2, 3, 20, 24]) : ({FLAT_PRODUCT}) -> {PRODUCT}
    %2 = aten.relu(%1) : ({PRODUCT}) -> {PRODUCT}
    func.return %2 : {PRODUCT}
  }}
"""
PROGRAMS = {
    "viewed": VIEWED,
    "quantized": QUANTIZED,
    "linear": LINEAR,
    "batched": BATCHED,
    "one row": ONE_ROW,
    "integers": INTEGERS,
}


@pytest.mark.skipif(find_spec("triton") is None, reason="needs triton")
@pytest.mark.parametrize("sm", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_machine_code(name: str, sm: str) -> None:
    options = Options(target=sm, cache=False, products="all")
    graph = driver.compile_module(parse_module(PROGRAMS[name]), options).graph
    assert isinstance(graph, NativeGraph) and graph.meta.kernels
    for kernel in graph.meta.kernels:
        assert kernel.code.cubin[:4] == b"\x7fELF" and kernel.code.sm == int(sm[3:])


@pytest.mark.parametrize("name", PROGRAMS)
def test_whole_programs(name: str) -> None:
    module = parse_module(PROGRAMS[name].replace(", device=cuda:0", ""))
    (function,) = (op for op in module.ops if op.name == "func.func")
    inputs: list[torch.Tensor] = []
    for a in function.body.block.args:  # pyright: ignore
        shape = [37 if str(n) == "s0" else int(n) for n in a.type.shape]
        dtype = getattr(torch, TORCH_DTYPES[a.type.dtype])
        inputs.append(
            torch.randn(shape).to(dtype) if dtype.is_floating_point else torch.randint(-9, 9, shape, dtype=dtype)
        )
    expected = run_module(module, [x.clone() for x in inputs])
    gpu, options = InterpretedGpu(), Options(target="sm_90", cache=False, products="all")
    with gpu.used():
        graph = driver.compile_module(parse_module(PROGRAMS[name]), options).graph
        outputs = gpu.run(graph, inputs)
    assert len(gpu.launches) == 1
    for got, wanted in zip(outputs, expected, strict=True):
        assert torch.allclose(got.double(), wanted.double(), rtol=2e-2, atol=2e-2)
        assert got.dtype == wanted.dtype


def test_by_default_only_what_was_measured_is_generated() -> None:
    """A few rows, small matrices of constant sizes, and large results whose rows begin anywhere; not f32, nor what
    another GPU may be faster at.
    """
    x, w, y = (tensor(shape) for shape in ("M, 4096", "N, 4096", "M, N"))
    wt = tensor("4096, N", strides="1, 4096")
    text = f"""
      func.func @main(%x: {x}, %w: {w}) -> {y} {{
        %t = aten.t(%w) : ({w}) -> {wt}
        %0 = aten.mm(%x, %t) : ({x}, {wt}) -> {y}
        func.return %0 : {y}
      }}
    """

    def generated(rows: str, gpu: str = "sm_90", dtype: str = "bf16", columns: str = "4096") -> bool:
        module = parse_module(text.replace("M", rows).replace("N", columns).replace("bf16", dtype))
        driver.run_passes(module, f"aten-choose-products{{gpu={gpu}}}")
        return any("lamella.product" in o.attributes for o in module.walk())

    def from_bytes(rows: str, dtype: str = "bf16", columns: str = "4096") -> bool:
        w8 = w.replace("bf16", "i8")
        bytes_ = text.replace(f"%w: {w})", f"%v: {w8})").replace(
            "%t = ", f"%w = aten._to_copy(%v, dtype = bf16) : ({w8}) -> {w}\n%t = "
        )
        module = parse_module(bytes_.replace("M", rows).replace("N", columns).replace("bf16", dtype))
        driver.run_passes(module, "aten-choose-products")
        return any("lamella.product" in o.attributes for o in module.walk())

    assert from_bytes("1") and from_bytes("64") and not from_bytes("128") and from_bytes("16", columns="14336")
    assert from_bytes("16", dtype="f32") and not from_bytes("64", dtype="f32") and not from_bytes("16", dtype="f64")
    assert generated("1") and generated("8") and generated("1", dtype="f32")
    assert not generated("8", columns="14336")
    assert generated("8192", columns="50257") and not generated("8192", columns="50304")
    assert not generated("8192", columns="50257", dtype="f32")
    assert not (generated("64") or generated("s0") or generated("8", dtype="f32") or generated("8", "sm_80"))
