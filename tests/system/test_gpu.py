"""Graphs with CUDA tensors: to machine code for three generations without a GPU, and on one where it is there."""

from __future__ import annotations

import logging
import pickle
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from lamella import driver
from lamella.codegen import triton_compile
from lamella.codegen.cuda_interpreted import InterpretedGpu
from lamella.codegen.interpreter import run_module
from lamella.dialects.text import parse_module
from lamella.frontend.backend import Backend
from lamella.frontend.compiled import CompiledGraph
from lamella.frontend.import_fx import UnsupportedGraph
from lamella.frontend.outputs import OutputRecipe
from lamella.lowering.options import Options

CORPUS = sorted((Path(__file__).parents[1] / "replay").glob("*.mlir"))
needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="needs triton")


def on_gpu(text: str) -> str:
    """A program on the CPU as one on the first GPU."""
    return re.sub(r"(!sym\.t<\[[^\]]*\], \w+(?:, strides=\[[^\]]*\])?)>", r"\1, device=cuda:0>", text)


@needs_triton
@pytest.mark.parametrize("sm", ["sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("path", CORPUS, ids=lambda p: p.stem)
def test_machine_code(path: Path, sm: str) -> None:
    options = Options(target=sm, cache=False)
    graph: Any = driver.compile_module(parse_module(on_gpu(path.read_text())), options).graph
    assert graph.meta.kernels
    for kernel in graph.meta.kernels:
        assert kernel.code.cubin[:4] == b"\x7fELF" and kernel.code.sm == int(sm[3:])


def inputs_of(module: Any) -> list[torch.Tensor]:
    """Random inputs of small sizes for the symbols, sizes as they stand otherwise."""
    from lamella.dialects import expr
    from lamella.dialects.tensor import TORCH_DTYPES

    (function,) = (op for op in module.ops if op.name == "func.func")
    made: list[torch.Tensor] = []
    for a in function.body.block.args:
        t = a.type
        values = {s.name: 3 for d in (*t.shape, *t.strides) for s in expr.symbols(d)}
        shape, strides = ([int(expr.evaluate(d, values)) for d in dims] for dims in (t.shape, t.strides))
        x = torch.empty_strided(shape, strides, dtype=getattr(torch, TORCH_DTYPES[t.dtype]))
        made.append(x.normal_() if x.is_floating_point() else x.random_(0, 3))
    return made


@pytest.mark.parametrize("name", ["softmax", "layer_norm_residual", "rotary", "swiglu", "argmax", "cat_heads"])
def test_whole_programs(name: str) -> None:
    """Host program and kernels, on a GPU that is not there."""
    text = next(p for p in CORPUS if p.stem == name).read_text()
    module = parse_module(text)
    inputs = inputs_of(module)
    expected = run_module(module, [x.clone() for x in inputs])
    gpu = InterpretedGpu()
    with gpu.used():
        graph = driver.compile_module(parse_module(on_gpu(text)), Options(target="sm_90", cache=False)).graph
        found = gpu.run(graph, inputs)
    assert gpu.launches
    for f, e in zip(found, expected, strict=True):
        torch.testing.assert_close(f, e, rtol=2e-2 if e.dtype in (torch.bfloat16, torch.float16) else 1e-5, atol=1e-5)


@needs_triton
def test_running_sums_of_columns() -> None:
    """Several tiles after each other: Triton takes the kernel, and the numbers are right."""
    t = "!sym.t<[300, 40], f32, device=cuda:0>"
    text = f"func.func @main(%x: {t}) -> {t} {{ %y = aten.cumsum(%x, 0) : ({t}) -> {t} func.return %y : {t} }}"
    options = Options(target="sm_90", cache=False)
    graph: Any = driver.compile_module(parse_module(text), options).graph
    (kernel,) = graph.meta.kernels
    assert kernel.code.cubin[:4] == b"\x7fELF"
    gpu, x = InterpretedGpu(), torch.randn(300, 40)
    with gpu.used():
        (found,) = gpu.run(driver.compile_module(parse_module(text), options).graph, [x])
    torch.testing.assert_close(found, x.cumsum(0))


def test_without_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph runs eagerly, and the warning names what to install."""
    monkeypatch.setattr(triton_compile, "triton_version", lambda: None)
    text = on_gpu(next(p for p in CORPUS if p.stem == "softmax").read_text())
    with pytest.raises(UnsupportedGraph, match="pip install 'triton"):
        driver._compile_or_give_up(parse_module(text), Options(target="sm_90", cache=False))


def test_other_devices_run_eagerly(caplog: pytest.LogCaptureFixture) -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(lambda x: x * 2)(torch.empty(3, device="meta"))
    with caplog.at_level(logging.WARNING, "lamella"):
        compiled = Backend(Options(), lambda *_: pytest.fail("compiled")).compile_graph(graph, "inference")
    assert compiled.reason == "tensors of meta are not compiled"  # type: ignore[attr-defined]


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    def program(x: torch.Tensor, w: torch.Tensor) -> Any:
        return torch.nn.functional.gelu(x @ w).softmax(-1), x.sum(0)

    x, w = torch.randn(50, 64, device="cuda"), torch.randn(64, 100, device="cuda")
    found = torch.compile(program, backend="lamella", options={"strict": True})(x, w)
    for f, e in zip(found, program(x, w), strict=True):
        torch.testing.assert_close(f, e)


def increment(inputs: list[Any]) -> Any:
    return (inputs.pop() + 1,)


def test_constants_on_a_device_are_stored() -> None:
    """AOTAutograd pickles graphs while its modes are on, in which a copy to the CPU would be a fake tensor, and reads
    them while it traces, when torch reads no numbers.
    """
    from torch._guards import TracingContext, tracing
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    graph = CompiledGraph(increment, OutputRecipe([]), [torch.empty(3, device="meta"), torch.arange(3)])
    with FakeTensorMode() as mode, tracing(TracingContext(mode)):
        again = pickle.loads(pickle.dumps(graph))
    first, second = again.constants
    assert first.device.type == "meta" and first.shape == (3,) and not isinstance(first, FakeTensor)
    assert torch.equal(second, torch.arange(3))


@needs_triton
@pytest.mark.parametrize("shape", [(1024, 128), (512, 40)])
def test_scans_of_columns_compile(shape: tuple[int, int]) -> None:
    """Triton's passes had no layout for a sum that a loop carries beside a scan."""
    x = f"!sym.t<[{shape[0]}, {shape[1]}], f32, device=cuda:0>"
    text = f"func.func @main(%x: {x}) -> {x} {{ %0 = aten.cumsum(%x, 0) : ({x}) -> {x} func.return %0 : {x} }}"
    graph: Any = driver.compile_module(parse_module(text), Options(target="sm_90", cache=False)).graph
    assert all(kernel.code.cubin[:4] == b"\x7fELF" for kernel in graph.meta.kernels)


@needs_triton
def test_values_that_are_stored_and_used_compile() -> None:
    """Triton took what it converts to a store's layout for uses before the store: "operand does not dominate"."""
    x = "!sym.t<[1000], f32, device=cuda:0>"
    text = f"func.func @main(%x: {x}, %q: {x}) -> {x} {{ %0 = aten.special_zeta(%x, %q) : ({x}, {x}) -> {x} func.return %0 : {x} }}"
    graph: Any = driver.compile_module(parse_module(text), Options(target="sm_90", cache=False)).graph
    assert all(kernel.code.cubin[:4] == b"\x7fELF" for kernel in graph.meta.kernels)


ATTENTION = """
func.func @main(%q: !sym.t<[64, 256, 64], bf16>, %k: !sym.t<[64, 64, 256], bf16, strides=[16384, 1, 64]>, %v: !sym.t<[64, 256, 64], bf16>, %b: !sym.t<[256, 256], bf16>) -> !sym.t<[64, 256, 64], bf16> {
  %s = aten.bmm(%q, %k) : (!sym.t<[64, 256, 64], bf16>, !sym.t<[64, 64, 256], bf16, strides=[16384, 1, 64]>) -> !sym.t<[64, 256, 256], bf16>
  %m = aten.add.Tensor(%s, %b) : (!sym.t<[64, 256, 256], bf16>, !sym.t<[256, 256], bf16>) -> !sym.t<[64, 256, 256], bf16>
  %p = aten._softmax(%m, -1, false) : (!sym.t<[64, 256, 256], bf16>) -> !sym.t<[64, 256, 256], bf16>
  %y = aten.bmm(%p, %v) : (!sym.t<[64, 256, 256], bf16>, !sym.t<[64, 256, 64], bf16>) -> !sym.t<[64, 256, 64], bf16>
  func.return %y : !sym.t<[64, 256, 64], bf16>
}
"""


@needs_triton
@pytest.mark.parametrize("sm", ["sm_80", "sm_90", "sm_100"])
def test_machine_code_of_attention(sm: str) -> None:
    graph: Any = driver.compile_module(parse_module(on_gpu(ATTENTION)), Options(target=sm, cache=False)).graph
    (kernel,) = graph.meta.kernels
    assert kernel.code.cubin[:4] == b"\x7fELF" and kernel.code.sm == int(sm[3:])
