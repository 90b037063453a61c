"""A result lies over an argument that is there for the call alone, and over no other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from lamella.codegen.runtime import NativeGraph
from lamella.codegen.target import CpuTarget
from lamella.dialects.text import parse_module
from lamella.driver import native, run_passes

N = 1 << 16


@pytest.fixture(scope="module")
def twice() -> NativeGraph:
    module = parse_module(
        """
        loop.kernel @twice(%x: !sym.t<[s0], f32>) outs(%y: !sym.t<[s0], f32>) sizes [s0] grid [d0 = s0] {
          %0 = loop.load %x[d0] : !sym.t<[s0], f32>
          %1 = arith.addf %0, %0 : f32
          loop.store %1, %y[d0] : !sym.t<[s0], f32>
          loop.end
        }
        func.func @main(%x: !sym.t<[s0], f32> {lamella.passed}) -> !sym.t<[s0], f32> {
          %y = loop.launch @twice(%x) sizes [s0] : (!sym.t<[s0], f32>) -> !sym.t<[s0], f32>
          func.return %y : !sym.t<[s0], f32>
        }
        """
    )
    run_passes(module, "bufferize,kernel-to-llvm,host-to-llvm")
    return native(module, CpuTarget.host())


def placed(graph: NativeGraph, make: Callable[[], Tensor]) -> tuple[int, Tensor]:
    """Where the argument was, and the result; the caller keeps only what `make` does."""
    given = [make()]
    at = given[0].data_ptr()
    return at, graph.function()(given)[0]


def test_what_is_there_for_the_call_alone(twice: NativeGraph) -> None:
    for n in (N, 5, 0):
        at, y = placed(twice, lambda n=n: torch.ones(n))
        assert y.data_ptr() == at and torch.equal(y, torch.full((n,), 2.0))
    with torch.inference_mode():
        at, y = placed(twice, lambda: torch.ones(N))
        assert y.data_ptr() == at and y.is_inference()


held: list[object] = []


def _keep(x: Tensor, what: object) -> Tensor:
    held.append(what)
    return x


@pytest.mark.parametrize(
    "make",
    [
        lambda: _keep(x := torch.ones(N), x),
        lambda: _keep(x := torch.ones(N), x[3:]),
        lambda: _keep(x := torch.ones(N), x.detach()),
        lambda: _keep(x := torch.ones(N), x.numpy()),
        lambda: _keep(x := torch.ones(N), x.untyped_storage()),
        lambda: _keep(x := torch.ones(N), torch.from_dlpack(x)),
        lambda: _keep(x := torch.ones(N), torch.ones(N, requires_grad=True) * x),
        lambda: torch.from_numpy(_array(np.ones(N, np.float32))),
        lambda: torch.frombuffer(_array(bytearray(np.ones(N, np.float32).tobytes())), dtype=torch.float32),
        lambda: torch.ones(N).share_memory_(),
    ],
)
def test_what_others_have_is_left_alone(twice: NativeGraph, make: Callable[[], Tensor]) -> None:
    held.clear()
    at, y = placed(twice, make)
    assert y.data_ptr() != at and torch.equal(y, torch.full((N,), 2.0))
    if held and isinstance(held[0], Tensor):
        assert torch.all(held[0] == 1)
    if held and isinstance(held[0], (np.ndarray, bytearray)):
        assert np.all(np.frombuffer(held[0], np.float32) == 1)


def _array(what: object) -> object:
    held.append(what)
    return what


def test_copy_on_write(twice: NativeGraph) -> None:
    """Taking the address of the data has given the argument a copy of its own."""
    given = [torch.ones(N)]
    clone = torch._lazy_clone(given[0])  # pyright: ignore[reportPrivateImportUsage]
    (y,) = twice.function()(given)
    assert torch.all(y == 2) and torch.all(clone == 1)


@pytest.mark.parametrize("part", [slice(0, N), slice(1, None)])
def test_a_part_of_a_storage(twice: NativeGraph, part: slice) -> None:
    """What lies beside it, or nothing: a result that is held should not hold more than its own bytes."""
    at, y = placed(twice, lambda: torch.ones(N + 1)[part])
    assert y.data_ptr() != at and y.untyped_storage().nbytes() == 4 * N


def test_an_argument_alone(twice: NativeGraph) -> None:
    """Not in a list: the caller has it until the call has returned."""
    x = torch.ones(N)
    (y,) = twice.function()(x)
    assert y.data_ptr() != x.data_ptr() and torch.all(x == 1)
