"""Inputs that are not what a graph was compiled for: one clear error each, and no crash."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch

from lamella.codegen.runtime import NativeGraph
from lamella.codegen.target import CpuTarget
from lamella.dialects.text import parse_module
from lamella.driver import native, run_passes


@pytest.fixture(scope="module")
def graph() -> NativeGraph:
    """x: [s0, 4] contiguous, y: [2*s0, 3] with strides [1, 2*s0], n: s0 + 1, i: fixed [2] of i64."""
    module = parse_module(
        """
        func.func @main(%x: !sym.t<[s0, 4], f32> {lamella.name = "tokens"},
                        %y: !sym.t<[2*s0, 3], f32, strides=[1, 2*s0]>, %n: !sym.int<s0 + 1>, %i: !sym.t<[2], i64>)
            -> (!sym.t<[s0, 4], f32>, !sym.t<[2], i64>) {
          func.return %x, %i : !sym.t<[s0, 4], f32>, !sym.t<[2], i64>
        }
        """
    )
    run_passes(module, "bufferize,host-to-llvm")
    return native(module, CpuTarget.host())


def good(rows: int = 3) -> list[Any]:
    return [torch.randn(rows, 4), torch.randn(3, 2 * rows).t(), rows + 1, torch.tensor([1, 2])]


@pytest.mark.parametrize("rows", [1, 3, 40])
def test_good_inputs(graph: NativeGraph, rows: int) -> None:
    inputs = good(rows)
    x, i = inputs[0], inputs[3]
    assert [a is b for a, b in zip(graph(inputs), (x, i), strict=True)] == [True, True]


class Subclass(torch.Tensor):
    """A tensor that wants to see every operator."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError("not to be reached")


def wrapped() -> torch.Tensor:
    return torch.Tensor._make_wrapper_subclass(Subclass, (3, 4))


BAD: list[tuple[int, Any, type[Exception], str]] = [
    (0, lambda: None, TypeError, "input 'tokens': expected a tensor, got NoneType"),
    (0, lambda: 3, TypeError, "input 'tokens': expected a tensor, got int"),
    (0, lambda: torch.randn(3, 4).double(), TypeError, "input 'tokens': expected dtype float32, got float64"),
    (
        0,
        lambda: torch.empty(3, 4, device="meta"),
        TypeError,
        "input 'tokens': expected a tensor on the cpu, got one on meta",
    ),
    (
        0,
        lambda: torch.randn(3, 4).to_sparse(),
        TypeError,
        "input 'tokens': expected a strided tensor, got layout torch.sparse",
    ),
    (0, lambda: torch._neg_view(torch.randn(3, 4)), TypeError, "pending conjugation or negation"),
    (0, wrapped, TypeError, "input 'tokens': expected a plain tensor, got a Subclass"),
    (0, lambda: torch.randn(12), ValueError, r"input 'tokens': expected 2 dimensions, got shape \(12,\)"),
    (0, lambda: torch.randn(3, 5), ValueError, r"input 'tokens': expected sizes \[s0 = 3, 4\], got \[3, 5\]"),
    (0, lambda: torch.randn(4, 3).t(), ValueError, r"'tokens': expected contiguous strides \[4, 1\], got \[1, 3\]"),
    (0, lambda: torch.randn(5, 4), ValueError, r"input 'y': expected sizes \[2\*s0 = 10, 3\], got \[6, 3\]"),
    (1, lambda: torch.randn(6, 3), ValueError, r"input 'y': expected strides \[1, 2\*s0 = 6\], got \[3, 1\]"),
    (2, lambda: 5, ValueError, r"input 'n': expected s0 \+ 1 = 4, got 5"),
    (2, lambda: "4", TypeError, "input 'n': expected a number, got str"),
    (3, lambda: torch.tensor([1, 2, 3]), ValueError, r"input 'i': expected sizes \[2\], got \[3\]"),
]


@pytest.mark.parametrize(("position", "make", "error", "message"), BAD)
def test_bad_input(graph: NativeGraph, position: int, make: Any, error: type[Exception], message: str) -> None:
    inputs = good()
    inputs[position] = make()
    with pytest.raises(error, match=message):
        graph(inputs)


@pytest.mark.parametrize("inputs", [[], good()[:3], [*good(), 1]])
def test_wrong_count(graph: NativeGraph, inputs: list[Any]) -> None:
    with pytest.raises(TypeError, match=f"expected 4 inputs, got {len(inputs)}"):
        graph(inputs)


@pytest.mark.parametrize("inputs", [None, (1, 2), torch.ones(4)])
def test_not_a_list(graph: NativeGraph, inputs: Any) -> None:
    with pytest.raises(TypeError, match="expected 4 inputs, got 1"):
        graph(inputs)


def test_a_call_with_the_inputs_themselves(graph: NativeGraph) -> None:
    inputs = good()
    counted = [x for x in inputs if isinstance(x, torch.Tensor)]  # small numbers are everybody's
    counts = [sys.getrefcount(x) for x in counted]
    torch.testing.assert_close(graph.function()(*inputs), graph(list(inputs)))
    assert [sys.getrefcount(x) for x in counted] == counts
    for missing in (4, 1):
        with pytest.raises(TypeError, match=f"expected 4 inputs, got {4 - missing}"):
            graph.function()(*inputs[missing:])
    with pytest.raises(TypeError, match="expected 4 inputs, got 5"):
        graph.function()(*inputs, 1)
    with pytest.raises(TypeError, match="input 'i'"):
        graph.function()(*inputs[:3], "no tensor")
    assert [sys.getrefcount(x) for x in counted] == counts


def test_a_list_is_emptied_by_one_input_too() -> None:
    module = parse_module(
        "func.func @main(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> { func.return %x : !sym.t<[4], f32> }"
    )
    run_passes(module, "bufferize,host-to-llvm")
    graph, x = native(module, CpuTarget.host()), torch.ones(4)
    inputs = [x]
    assert graph(inputs)[0] is x and not inputs
    assert graph.function()(x)[0] is x


def test_plain_subclasses_and_modes(graph: NativeGraph) -> None:
    """Subclasses without behaviour of their own, parameters and tensors of inference mode are tensors."""

    class Named(torch.Tensor):
        pass

    for x in (torch.nn.Parameter(torch.randn(3, 4)), torch.randn(3, 4).as_subclass(Named)):
        assert graph([x, *good()[1:]])[0] is x
    with torch.inference_mode():
        inputs = good()
    graph(inputs)


def test_strides_of_single_and_empty_dims_do_not_matter(graph: NativeGraph) -> None:
    graph([torch.randn(1, 9)[:, :4], torch.randn(3, 2).t(), 2, torch.tensor([1, 2])])


def test_strides_of_what_is_empty_do_not_matter() -> None:
    """A gradient that is expanded has none."""
    module = parse_module(
        """
        func.func @main(%x: !sym.t<[s0, 1, 0, s1], f32, strides=[s1**2, s1, s1, 1]>) {
          func.return
        }
        """
    )
    run_passes(module, "bufferize,host-to-llvm")
    graph = native(module, CpuTarget.host())
    for strides in ((25, 5, 5, 1), (0, 0, 0, 0)):
        graph([torch.empty_strided((3, 1, 0, 5), strides)])


def test_strides_of_a_fixed_single_dim_do_not_matter() -> None:
    module = parse_module(
        """
        func.func @main(%x: !sym.t<[1, 4, s0], f32, strides=[4*s0, 1, 4]>) -> !sym.t<[1, 4, s0], f32, strides=[4*s0, 1, 4]> {
          func.return %x : !sym.t<[1, 4, s0], f32, strides=[4*s0, 1, 4]>
        }
        """
    )
    run_passes(module, "bufferize,host-to-llvm")
    graph = native(module, CpuTarget.host())
    for stride in (20, 7):
        graph([torch.empty_strided((1, 4, 5), (stride, 1, 4))])
    with pytest.raises(ValueError, match="expected strides"):
        graph([torch.empty_strided((1, 4, 5), (20, 5, 1))])
