"""Which graphs are recorded, as far as their modules say, and what `explain` tells."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule

from lamella.dialects.text import parse_module
from lamella.frontend.cuda_arguments import Arguments
from lamella.frontend.cuda_graphs import graphed
from lamella.frontend.cuda_recording import Unrecordable
from lamella.frontend.donated import parameters
from lamella.frontend.explain import GraphReport
from lamella.frontend.recording_plan import recorded
from lamella.lowering.origins import Call

from .recorder import Recordable

TEXT = """
func.func @main(%x: !sym.t<[s0, 4], f32, device=cuda:1>, %y: !sym.t<[4], f32, device=cuda:1> {lamella.mutated}, %n: !sym.int<s0>) {
  func.return
}
"""


def test_what_a_module_says() -> None:
    module = parse_module(TEXT)
    arguments = Arguments.of(module, {"cuda:1"})
    assert arguments == Arguments(1, (0, 2), (1,))
    for devices in ({"cuda:0", "cpu"}, {"cuda:0", "cuda:1"}, {"cpu"}, set[str]()):
        with pytest.raises(Unrecordable, match="tensors of the CPU or of several GPUs"):
            Arguments.of(module, devices)
    assert graphed(list, arguments, [Call("aten.mm", "?", "")]).arguments == arguments
    for name in ("aten.nonzero", "aten._unique2", "mine.op"):
        with pytest.raises(Unrecordable, match=rf"{name} may wait for the GPU, at a.py:3"):
            graphed(list, arguments, [Call(name, "a.py:3", "")])


def test_numbers_of_the_cpu() -> None:
    """They are no obstacle where the graph takes them on the GPU, and the CPU has no other tensor."""
    gpu = "!sym.t<[4], f32, device=cuda:0>"
    text = f"""
      func.func @main(%x: {gpu}, %rate: !sym.t<[], f64>, %n: !sym.t<[], f64>) -> {gpu} {{
        %y = aten.mul.Tensor(%x, %rate) : ({gpu}, !sym.t<[], f64>) -> {gpu}
        func.return %y : {gpu}
      }}
    """
    arguments = Arguments.of(parse_module(text), {"cuda:0", "cpu"})
    assert arguments == Arguments(0, uploads=(1, 2))
    for uploads in ((), (1,)):
        with pytest.raises(Unrecordable, match="reads a number in the CPU's memory"):
            graphed(Recordable(list, uploads), arguments, [])
    assert graphed(Recordable(list, (1, 2)), arguments, []).uploads == {1, 2}
    more = text.replace("func.return", "%z = aten.neg(%n) : (!sym.t<[], f64>) -> !sym.t<[], f64>\nfunc.return")
    with pytest.raises(Unrecordable, match="tensors of the CPU"):
        Arguments.of(parse_module(more), {"cuda:0", "cpu"})


@pytest.mark.parametrize(
    ("plan", "calls", "told"),
    [
        (Arguments(0), [], "recorded as a CUDA graph at its second call"),
        (Arguments(0, asked=False), [], "recorded as a CUDA graph when the GPU waits for its launches"),
        (
            Arguments(0),
            [Call("aten.nonzero", "model.py:3", "")],
            "not recorded as a CUDA graph: aten.nonzero may wait for the GPU, at model.py:3",
        ),
        (
            "it has tensors of the CPU or of several GPUs",
            [],
            "not recorded as a CUDA graph: it has tensors of the CPU or of several GPUs",
        ),
    ],
)
def test_what_explain_tells(plan: Any, calls: list[Call], told: str) -> None:
    compilation: Any = SimpleNamespace(graph=list, kernels=[{"launches": 9}], calls=calls)
    _, recording = recorded(compilation, plan)
    assert recording == told
    report = GraphReport("inference", {}, [], [], [], [], "", [], recording)
    assert told in str(report)


def test_sizes_that_data_says() -> None:
    """What follows an operator whose result is as large as data says cannot be recorded: the caller waits there."""
    text = """
    func.func @main(%x: !sym.t<[8], f32, device=cuda:0>, %m: !sym.t<[8], i1, device=cuda:0>) -> !sym.t<[], f32, device=cuda:0> {
      %0 = aten.index.Tensor(%x, [%m]) : (!sym.t<[8], f32, device=cuda:0>, !sym.t<[8], i1, device=cuda:0>) -> !sym.t<[u0], f32, device=cuda:0>
      %1 = aten.sum(%0) : (!sym.t<[u0], f32, device=cuda:0>) -> !sym.t<[], f32, device=cuda:0>
      func.return %1 : !sym.t<[], f32, device=cuda:0>
    }
    """
    with pytest.raises(Unrecordable, match=r"aten.index.Tensor waits for the GPU"):
        Arguments.of(parse_module(text), ["cuda:0"])


@pytest.mark.parametrize("device", ["cuda:0", "cpu"])
def test_random_numbers(device: str) -> None:
    """Recordings know the generator of their GPU, and no other."""
    t = f"!sym.t<[2], f32, device={device}>"
    text = f"""
      func.func @main(%x: !sym.t<[2], f32, device=cuda:0>) -> {t} {{
        %r = aten.rand([2], dtype = f32, device = "{device}") : () -> {t}
        func.return %r : {t}
      }}
    """
    module = parse_module(text)
    if device == "cpu":
        with pytest.raises(Unrecordable, match=r"aten.rand draws from a generator of the CPU"):
            Arguments.of(module, {"cuda:0"})
    else:
        assert Arguments.of(module, {"cuda:0"}) == Arguments(0)


@pytest.mark.parametrize("grad", [False, True])
def test_parameters(grad: bool) -> None:
    """Which inputs stay where they are: a module's parameters and buffers, and of a backward those that were saved."""
    found: dict[str, set[tuple[int, ...]]] = {}

    def compiler(kind: str) -> Any:
        def compile_graph(graph: GraphModule, inputs: Sequence[Any]) -> Any:
            found[kind] = {tuple(inputs[i].shape) for i in parameters(graph, kind)}
            return make_boxed_func(graph.forward)

        return compile_graph

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)
            self.register_buffer("scale", torch.ones(5, 2))

        def forward(self, x: torch.Tensor) -> Any:
            return self.second(self.first(x)) * self.scale

    names = {"fw_compiler": "forward", "bw_compiler": "backward", "inference_compiler": "inference"}
    compilers = {name: compiler(kind) for name, kind in names.items()}
    backend = aot_autograd(**compilers, partition_fn=min_cut_rematerialization_partition)
    x, module = torch.randn(5, 4, requires_grad=True), Module()
    with torch.set_grad_enabled(grad):
        y = torch.compile(module, backend=backend)(x)
    every = {(3, 4), (3,), (2, 3), (2,), (5, 2)}
    assert found == {"forward" if grad else "inference": every}
    if grad:
        y.sum().backward()
        assert found["backward"] == {(3, 4), (2, 3), (5, 2)}
