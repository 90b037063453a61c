"""Host programs as native functions: what they compute, what they release, and what they raise."""

from __future__ import annotations

import gc
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from lamella.codegen.runtime import NativeGraph
from lamella.codegen.target import CpuTarget
from lamella.dialects.text import parse_module, print_module
from lamella.driver import native, run_passes

TWICE = """
loop.kernel @twice(%x: !sym.t<[s0], f32>) outs(%y: !sym.t<[s0], f32>) sizes [s0] grid [d0 = s0] {
  %0 = loop.load %x[d0] : !sym.t<[s0], f32>
  %1 = arith.addf %0, %0 : f32
  loop.store %1, %y[d0] : !sym.t<[s0], f32>
  loop.end
}
"""
PICK = """
loop.kernel @pick(%x: !sym.t<[s0], f32>, %i: !sym.t<[s1], i64>) outs(%y: !sym.t<[s1], f32>) sizes [s0, s1] grid [d0 = s1] {
  %0 = loop.load %i[d0] : !sym.t<[s1], i64>
  %n = loop.index [s0]
  %ok = arith.cmpi ult, %0, %n : i64
  loop.assert %ok, "index out of range in pick"
  %z = arith.constant 0 : i64
  %j = arith.select %ok, %0, %z : i64
  %1 = loop.load %x[v0](%j) : !sym.t<[s0], f32>
  loop.store %1, %y[d0] : !sym.t<[s1], f32>
  loop.end
}
"""


def compiled(text: str) -> NativeGraph:
    """The graph of a module at the kernel level. What is run was printed and read back at the llvm level."""
    module = parse_module(text)
    run_passes(module, "bufferize,kernel-to-llvm,host-to-llvm")
    return native(parse_module(print_module(module)), CpuTarget.host())


@pytest.fixture(scope="module")
def twice() -> NativeGraph:
    return compiled(
        TWICE
        + """
        func.func @main(%x: !sym.t<[s0], f32>) -> !sym.t<[s0], f32> {
          %y = loop.launch @twice(%x) sizes [s0] : (!sym.t<[s0], f32>) -> !sym.t<[s0], f32>
          func.return %y : !sym.t<[s0], f32>
        }
        """
    )


@pytest.fixture(scope="module")
def mixed() -> NativeGraph:
    """Kernels, views, calls with and without a C form, symbolic sizes; two results share storage, one is an argument."""
    return compiled(
        TWICE
        + """
        func.func @main(%x: !sym.t<[s0, 16], f32> {lamella.name = "x"}, %w: !sym.t<[16, 16], f32>, %n: !sym.int<s1>)
            -> (!sym.t<[16*s0], f32>, !sym.t<[s0, 16], f32>, !sym.t<[s0, s1], i64>, !sym.t<[16, 16], f32>,
                !sym.t<[s0, 2*s1], f32>) {
          %a = loop.view %x offset [0] : !sym.t<[s0, 16], f32> -> !sym.t<[16*s0], f32>
          %b = loop.launch @twice(%a) sizes [16*s0] : (!sym.t<[16*s0], f32>) -> !sym.t<[16*s0], f32>
          %d = loop.view %b offset [0] : !sym.t<[16*s0], f32> -> !sym.t<[s0, 16], f32>
          %wt = loop.view %w offset [0] : !sym.t<[16, 16], f32> -> !sym.t<[16, 16], f32, strides=[1, 16]>
          %e = aten.mm(%d, %wt) : (!sym.t<[s0, 16], f32>, !sym.t<[16, 16], f32, strides=[1, 16]>)
            -> !sym.t<[s0, 16], f32>
          %k, %i = aten.topk(%e, s1, 1) : (!sym.t<[s0, 16], f32>) -> (!sym.t<[s0, s1], f32>, !sym.t<[s0, s1], i64>)
          %r = aten.repeat(%k, [1, 2]) : (!sym.t<[s0, s1], f32>) -> !sym.t<[s0, 2*s1], f32>
          %f = loop.view %e offset [0] : !sym.t<[s0, 16], f32> -> !sym.t<[16*s0], f32>
          %g = loop.launch @twice(%f) sizes [16*s0] : (!sym.t<[16*s0], f32>) -> !sym.t<[16*s0], f32>
          %h = loop.view %g offset [0] : !sym.t<[16*s0], f32> -> !sym.t<[s0, 16], f32>
          func.return %g, %h, %i, %w, %r
            : !sym.t<[16*s0], f32>, !sym.t<[s0, 16], f32>, !sym.t<[s0, s1], i64>, !sym.t<[16, 16], f32>,
              !sym.t<[s0, 2*s1], f32>
        }
        """
    )


def check_mixed(graph: Callable[[list[Any]], Any], x: torch.Tensor, w: torch.Tensor, n: int) -> None:
    flat, shaped, places, same, repeated = graph([x, w, n])
    e = (2 * x) @ w.t()
    torch.testing.assert_close(shaped, 2 * e)
    assert flat.data_ptr() == shaped.data_ptr() and flat.shape == (16 * len(x),)
    torch.testing.assert_close(e.gather(1, places), e.topk(n, 1).values)
    torch.testing.assert_close(repeated, e.topk(n, 1).values.repeat(1, 2))
    assert same is w


def test_one_launch(twice: NativeGraph) -> None:
    x = torch.randn(100)
    inputs = [x]
    (y,) = twice(inputs)
    assert torch.equal(y, 2 * x)
    assert inputs == []
    assert y.grad_fn is None and not y.requires_grad
    assert twice([torch.empty(0)])[0].shape == (0,)


@pytest.mark.parametrize("rows", [0, 1, 5, 300])
def test_one_program_for_all_sizes(mixed: NativeGraph, rows: int) -> None:
    check_mixed(mixed, torch.randn(rows, 16), torch.randn(16, 16), 3)


def test_parameters_and_modes(mixed: NativeGraph) -> None:
    """Nothing is recorded for autograd, and memory that was made in inference mode does not leak out of it."""
    x, w = torch.randn(4, 16), torch.nn.Parameter(torch.randn(16, 16))
    with torch.inference_mode():
        check_mixed(mixed, x, w.detach(), 2)
    result = mixed([x, w, 2])
    assert result[3] is w and torch.is_grad_enabled()
    assert not any(t.requires_grad or t.is_inference() for t in (*result[:3], result[4]))


def test_nothing_leaks(mixed: NativeGraph) -> None:
    """After many calls, also failing ones, no reference is left, and every tensor of ours is gone."""
    x, w = torch.randn(7, 16), torch.randn(16, 16)

    def failing() -> None:
        with pytest.raises(RuntimeError, match="selected index k out of range"):
            mixed([x, w, 17])

    for run in (lambda: mixed([x, w, 4]), failing):
        run()
        gc.collect()
        before = sys.getrefcount(x), sys.getrefcount(w), _live_tensors()
        for _ in range(500):
            run()
        gc.collect()
        assert (sys.getrefcount(x), sys.getrefcount(w), _live_tensors()) == before


def _live_tensors() -> int:
    return sum(1 for o in gc.get_objects() if type(o) is torch.Tensor)


def test_arguments_are_released_early() -> None:
    """An argument whose last use is past is gone before the program ends, where the caller holds it no more."""
    seen: list[int] = []
    graph = compiled(
        TWICE
        + """
        func.func @main(%x: !sym.t<[s0], f32>) -> !sym.t<[s0], f32> {
          %a = loop.launch @twice(%x) sizes [s0] : (!sym.t<[s0], f32>) -> !sym.t<[s0], f32>
          %b = lamella_test.look(%a) : (!sym.t<[s0], f32>) -> !sym.t<[s0], f32>
          %c = loop.launch @twice(%b) sizes [s0] : (!sym.t<[s0], f32>) -> !sym.t<[s0], f32>
          func.return %c : !sym.t<[s0], f32>
        }
        """
    )
    _LOOK.append(lambda: seen.append(_live_tensors()))
    try:
        gc.collect()
        before = _live_tensors()
        (y,) = graph([torch.ones(10)])
    finally:
        _LOOK.clear()
    assert seen == [before + 1]  # what look was given; the argument is gone
    assert torch.equal(y, torch.full((10,), 8.0))


_LOOK: list[Callable[[], object]] = []


@torch.library.custom_op("lamella_test::look", mutates_args=())
def look(x: torch.Tensor) -> torch.Tensor:
    """Twice x, after whatever a test wants to do there."""
    for action in _LOOK:
        action()
    return x * 2


@pytest.fixture(scope="module")
def looking() -> NativeGraph:
    """Two intermediates in the arena around a call that leaves the program."""
    return compiled(
        TWICE
        + """
        func.func @main(%x: !sym.t<[s0], f32>) -> !sym.t<[s0], f32> {
          %a = loop.launch @twice(%x) sizes [s0] : (!sym.t<[s0], f32>) -> !sym.t<[s0], f32>
          %b = lamella_test.look(%x) : (!sym.t<[s0], f32>) -> !sym.t<[s0], f32>
          %c = loop.launch @twice(%a) sizes [s0] : (!sym.t<[s0], f32>) -> !sym.t<[s0], f32>
          %d = aten.add.Tensor(%c, %b) : (!sym.t<[s0], f32>, !sym.t<[s0], f32>) -> !sym.t<[s0], f32>
          func.return %d : !sym.t<[s0], f32>
        }
        """
    )


def test_reentrance(looking: NativeGraph) -> None:
    """A call within a call has an arena of its own: the outer intermediate survives."""
    x, inner = torch.randn(50), torch.randn(50)
    depth: list[int] = []

    def again() -> None:
        if len(depth) < 3:
            depth.append(1)
            torch.testing.assert_close(looking([inner])[0], 6 * inner)

    _LOOK.append(again)
    try:
        torch.testing.assert_close(looking([x])[0], 6 * x)
    finally:
        _LOOK.clear()
    assert len(depth) == 3


def test_exceptions_of_operators(looking: NativeGraph) -> None:
    """An exception raised in a Python operator comes out as it is, and the next call works."""

    class Unusual(Exception):
        pass

    def refuse() -> None:
        raise Unusual("not today")

    _LOOK.append(refuse)
    try:
        for _ in range(20):
            with pytest.raises(Unusual, match="not today"):
                looking([torch.ones(5)])
    finally:
        _LOOK.clear()
    assert torch.is_grad_enabled()
    torch.testing.assert_close(looking([torch.ones(5)])[0], torch.full((5,), 6.0))


def test_threads(mixed: NativeGraph, looking: NativeGraph) -> None:
    """Eight threads on the same graphs; the Python operator lets others run in the middle of a call."""
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        g = torch.Generator().manual_seed(seed)
        try:
            for i in range(40):
                x = torch.randn(1 + (i * 7 + seed) % 40, 16, generator=g)
                check_mixed(mixed, x, torch.randn(16, 16, generator=g), 3)
                y = torch.randn(2000 + seed, generator=g)
                torch.testing.assert_close(looking([y])[0], 6 * y)
        except BaseException as e:  # a failing thread must fail the test
            errors.append(e)

    _LOOK.append(lambda: threading.Event().wait(0.0005))
    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    _LOOK.clear()
    assert not errors


def test_pickled(mixed: NativeGraph) -> None:
    check_mixed(pickle.loads(pickle.dumps(mixed)), torch.randn(3, 16), torch.randn(16, 16), 5)


def test_kernel_asserts() -> None:
    graph = compiled(
        PICK
        + """
        func.func @main(%x: !sym.t<[s0], f32>, %i: !sym.t<[s1], i64>) -> !sym.t<[s1], f32> {
          %y = loop.launch @pick(%x, %i) sizes [s0, s1]
            : (!sym.t<[s0], f32>, !sym.t<[s1], i64>) -> !sym.t<[s1], f32>
          func.return %y : !sym.t<[s1], f32>
        }
        """
    )
    x = torch.arange(5.0)
    assert graph([x, torch.tensor([4, 0, 2])])[0].tolist() == [4.0, 0.0, 2.0]
    for bad in (5, -1):
        with pytest.raises(IndexError, match=r"^index out of range in pick$"):
            graph([x, torch.tensor([0, bad])])


def test_mutated_arguments() -> None:
    """What is copied into an argument is there afterwards, written by the kernel or copied."""
    graph = compiled(
        TWICE
        + """
        func.func @main(%x: !sym.t<[s0], f32>, %a: !sym.t<[s0], f32>, %b: !sym.t<[s0, 2], f32>) -> !sym.t<[s0], f32> {
          %1 = loop.launch @twice(%x) sizes [s0] : (!sym.t<[s0], f32>) -> !sym.t<[s0], f32>
          %2 = loop.launch @twice(%1) sizes [s0] : (!sym.t<[s0], f32>) -> !sym.t<[s0], f32>
          %3 = loop.launch @twice(%2) sizes [s0] : (!sym.t<[s0], f32>) -> !sym.t<[s0], f32>
          %v = loop.view %2 offset [0] : !sym.t<[s0], f32> -> !sym.t<[s0, 2], f32, strides=[1, 0]>
          %4 = aten.copy_(%a, %1) : (!sym.t<[s0], f32>, !sym.t<[s0], f32>) -> !sym.t<[s0], f32>
          %5 = aten.copy_(%b, %v) : (!sym.t<[s0, 2], f32>, !sym.t<[s0, 2], f32, strides=[1, 0]>) -> !sym.t<[s0, 2], f32>
          func.return %3 : !sym.t<[s0], f32>
        }
        """
    )
    x, a, b = torch.randn(9), torch.zeros(9), torch.zeros(9, 2)
    (y,) = graph([x, a, b])
    assert torch.equal(a, 2 * x) and torch.equal(b, (4 * x)[:, None].expand(9, 2)) and torch.equal(y, 8 * x)


def test_symbols_from_data_and_float_scalars() -> None:
    """Sizes and numbers that come out of calls are bound, and expressions over them have code or go through Python."""
    graph = compiled(
        TWICE
        + """
        func.func @main(%x: !sym.t<[s0], f32>, %f: !sym.int<z0, f64>, %b: !sym.int<s1, i1>)
            -> (!sym.t<[u0], f32>, !sym.int<u1>, !sym.t<[s0], f32>, !sym.int<z0, f64>, !sym.t<[s0], f32>, !sym.int<s1, i1>) {
          %p = aten.gt.Scalar(%x, 0) : (!sym.t<[s0], f32>) -> !sym.t<[s0], i1>
          %m = aten.masked_select(%x, %p) : (!sym.t<[s0], f32>, !sym.t<[s0], i1>) -> !sym.t<[u0], f32>
          %t = loop.launch @twice(%m) sizes [u0] : (!sym.t<[u0], f32>) -> !sym.t<[u0], f32>
          %c = aten.sum(%p) : (!sym.t<[s0], i1>) -> !sym.t<[], i64>
          %i = aten._local_scalar_dense(%c) : (!sym.t<[], i64>) -> !sym.int<u1>
          %y = aten.add.Scalar(%x, %f, 2*u1 + 1) : (!sym.t<[s0], f32>, !sym.int<z0, f64>) -> !sym.t<[s0], f32>
          %z = aten.mul.Scalar(%x, FloatTrueDiv(s0, 4)) : (!sym.t<[s0], f32>) -> !sym.t<[s0], f32>
          func.return %t, %i, %y, %f, %z, %b
            : !sym.t<[u0], f32>, !sym.int<u1>, !sym.t<[s0], f32>, !sym.int<z0, f64>, !sym.t<[s0], f32>, !sym.int<s1, i1>
        }
        """
    )
    x = torch.randn(10)
    twice_positive, count, shifted, f, scaled, flag = graph([x, 1.5, True])
    positive = x[x > 0]
    assert torch.equal(twice_positive, 2 * positive) and count == len(positive) and f == 1.5 and flag is True
    torch.testing.assert_close(shifted, x + 1.5 * (2 * count + 1))
    torch.testing.assert_close(scaled, x * 2.5)


def test_strides_that_differ_from_the_type_are_mended() -> None:
    """A call may return a layout other than the compiler was told; kernels and callers see the one of the type."""
    graph = compiled(
        TWICE
        + """
        func.func @main(%x: !sym.t<[4, 5], f32>) -> (!sym.t<[4, 5], f32>, !sym.t<[20], f32>) {
          %y = lamella_test.transposed(%x) : (!sym.t<[4, 5], f32>) -> !sym.t<[4, 5], f32>
          %f = loop.view %y offset [0] : !sym.t<[4, 5], f32> -> !sym.t<[20], f32>
          %z = loop.launch @twice(%f) sizes [20] : (!sym.t<[20], f32>) -> !sym.t<[20], f32>
          func.return %y, %z : !sym.t<[4, 5], f32>, !sym.t<[20], f32>
        }
        """
    )
    x = torch.randn(4, 5)
    y, z = graph([x])
    assert y.stride() == (5, 1) and torch.equal(y, x) and torch.equal(z, 2 * x.reshape(-1))


@torch.library.custom_op("lamella_test::transposed", mutates_args=())
def transposed(x: torch.Tensor) -> torch.Tensor:
    """x in another layout."""
    return x.t().contiguous().t()


def test_sizes_that_differ_from_the_type_are_refused() -> None:
    graph = compiled(
        """
        func.func @main(%x: !sym.t<[4], f32>) -> !sym.t<[5], f32> {
          %y = aten.relu(%x) : (!sym.t<[4], f32>) -> !sym.t<[5], f32>
          func.return %y : !sym.t<[5], f32>
        }
        """
    )
    with pytest.raises(RuntimeError, match=r"aten\.relu returned a tensor whose sizes are not those"):
        graph([torch.ones(4)])
