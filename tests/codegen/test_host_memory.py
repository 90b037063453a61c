"""Recycled outputs: their memory is used again only when nothing in the process holds it."""

from __future__ import annotations

import copy
import io
import os
import pickle
import threading
import weakref
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef

import lamella
from lamella.codegen.runtime import NativeGraph
from lamella.codegen.runtime_support import recycle_outputs, recycled_bytes, release_memory
from lamella.codegen.target import CpuTarget
from lamella.dialects.text import parse_module
from lamella.driver import native, run_passes

N = 1 << 18


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    release_memory()
    yield
    recycle_outputs()
    release_memory()


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
        func.func @main(%x: !sym.t<[s0], f32>) -> !sym.t<[s0], f32> {
          %y = loop.launch @twice(%x) sizes [s0] : (!sym.t<[s0], f32>) -> !sym.t<[s0], f32>
          func.return %y : !sym.t<[s0], f32>
        }
        """
    )
    run_passes(module, "bufferize,kernel-to-llvm,host-to-llvm")
    return native(module, CpuTarget.host())


@pytest.fixture(scope="module")
def given() -> NativeGraph:
    """What takes an argument that is there for the call alone."""
    module = parse_module(
        """
        loop.kernel @first(%g: !sym.t<[s0], f32>) outs(%y: !sym.t<[1], f32>) sizes [s0] grid [d0 = 1] {
          %0 = loop.load %g[d0] : !sym.t<[s0], f32>
          loop.store %0, %y[d0] : !sym.t<[1], f32>
          loop.end
        }
        func.func @main(%g: !sym.t<[s0], f32> {lamella.passed}) -> !sym.t<[1], f32> {
          %y = loop.launch @first(%g) sizes [s0] : (!sym.t<[s0], f32>) -> !sym.t<[1], f32>
          func.return %y : !sym.t<[1], f32>
        }
        """
    )
    run_passes(module, "bufferize,kernel-to-llvm,host-to-llvm")
    return native(module, CpuTarget.host())


@pytest.mark.parametrize(("n", "kept"), [(0, 16), (1, 15), (4, 16)])
def test_room_for_what_torch_gives(twice: NativeGraph, given: NativeGraph, n: int, kept: int) -> None:
    """Memory of the size of an argument that torch makes for another call is left to it, if it is little."""
    if n:
        assert given([torch.full((n * N,), 3.0)])[0].tolist() == [3.0]
    held = [twice([torch.zeros(N)]) for _ in range(16)]
    assert recycled_bytes() == 16 * 4 * N
    del held
    twice([torch.zeros(N)])
    assert recycled_bytes() == kept * 4 * N


def test_free_memory_is_used_again(twice: NativeGraph) -> None:
    x = torch.randn(N)
    (y,) = twice([x])
    at = y.data_ptr()
    del y
    (again,) = twice([x])
    assert again.data_ptr() == at and torch.equal(again, 2 * x)
    (other,) = twice([x])
    assert other.data_ptr() != at


@pytest.mark.parametrize(
    "hold",
    [
        lambda y: y[5:],
        lambda y: y.numpy(),
        lambda y: y.untyped_storage(),
        lambda y: y.detach(),
        lambda y: torch.utils.dlpack.to_dlpack(y),
        lambda y: torch.from_dlpack(y),
        lambda y: np.from_dlpack(y),
        lambda y: memoryview(y.numpy()),
        lambda y: y.view(torch.int32).unfold(0, 4, 4),
    ],
)
def test_held_memory_is_left_alone(twice: NativeGraph, hold: object) -> None:
    (y,) = twice([torch.ones(N)])
    at = y.data_ptr()
    held = hold(y)  # pyright: ignore[reportCallIssue]
    del y
    (z,) = twice([torch.zeros(N)])
    assert z.data_ptr() != at
    assert held is not None


def test_saved_for_backward(twice: NativeGraph) -> None:
    """What autograd keeps is held."""
    w = torch.ones(N, requires_grad=True)
    (y,) = twice([torch.full((N,), 3.0)])
    loss = (w * y).sum()
    del y
    twice([torch.zeros(N)])
    loss.backward()
    assert w.grad is not None and torch.equal(w.grad, torch.full((N,), 6.0))


def test_moved_and_resized_storages_are_forgotten(twice: NativeGraph) -> None:
    (shared,) = twice([torch.ones(N)])
    shared.share_memory_()
    at = shared.data_ptr()
    del shared  # another process could still read it
    (y,) = twice([torch.zeros(N)])
    assert y.data_ptr() != at and not y.is_shared()
    y.untyped_storage().resize_(0)
    del y
    assert torch.equal(twice([torch.ones(N)])[0], torch.full((N,), 2.0))


def test_held_by_another_thread(twice: NativeGraph) -> None:
    given, go, found = [twice([torch.ones(N)])[0]], threading.Event(), list[bool]()

    def work() -> None:
        held = given.pop()[3:]
        ready.set()
        go.wait()
        found.append(torch.equal(held, torch.full((N - 3,), 2.0)))

    ready, thread = threading.Event(), threading.Thread(target=work)
    thread.start()
    ready.wait()
    twice([torch.zeros(N)])
    twice([torch.zeros(4 * N)])
    go.set()
    thread.join()
    assert found == [True]


def test_held_by_another_process(twice: NativeGraph) -> None:
    """What another process would map is not written, nor kept by the pool."""
    (y,) = twice([torch.ones(N)])
    y.share_memory_()
    handle, size = y.untyped_storage()._share_fd_cpu_()
    sent = os.dup(handle)  # as a queue of torch.multiprocessing does
    del y
    twice([torch.zeros(N)])
    twice([torch.zeros(4 * N)])
    mapped = torch.UntypedStorage._new_shared_fd_cpu(sent, size)  # pyright: ignore
    os.close(sent)
    assert torch.equal(torch.empty(0).set_(mapped), torch.full((N,), 2.0))
    assert recycled_bytes() <= 20 * N


def test_storages_that_shrink_are_forgotten(twice: NativeGraph) -> None:
    """Shrunk twice, data may lie where it was, as the first time has freed that place."""
    x, resize = torch.ones(4 * N), torch.ops.inductor.resize_storage_bytes_
    for _ in range(3):
        (y,) = twice([x])
        at, before = y.data_ptr(), y.nbytes
        for bytes in (before // 2, before // 4, before // 2 + 64):
            resize(y, bytes)
            if y.data_ptr() == at:
                break
        del y
        (z,) = twice([x])
        assert z.untyped_storage().nbytes() == before
        del z
        release_memory()


def test_copy_on_write(twice: NativeGraph) -> None:
    """A lazy clone shares the data with a storage of its own."""
    (y,) = twice([torch.ones(N)])
    clone = torch._lazy_clone(y)
    del y
    (z,) = twice([torch.zeros(N)])
    assert torch.equal(clone, torch.full((N,), 2.0)) and torch.equal(z, torch.zeros(N))


def test_inference_mode_stays_inside(twice: NativeGraph) -> None:
    with torch.inference_mode():
        assert twice([torch.ones(N)])[0].is_inference()
    assert not twice([torch.ones(N)])[0].is_inference()


def test_limits(twice: NativeGraph) -> None:
    """Small outputs, and all when it is switched off, are torch's own; what is kept stays under the limit."""
    recycle_outputs(most=0)
    x = torch.randn(N)
    (y,) = twice([x])
    assert y.untyped_storage().nbytes() == 4 * N
    recycle_outputs(least=1 << 20, most=3 << 20)
    kept = [twice([torch.randn(N + i)])[0] for i in range(20)]  # a mebibyte each
    assert len({t.data_ptr() for t in kept}) == 20
    for i, t in enumerate(kept):
        assert t.shape == (N + i,)


def test_what_is_idle_does_not_raise_the_peak(twice: NativeGraph) -> None:
    """Outputs of ever other sizes, each dropped before the next: about one of them is kept, not all."""
    for k in range(1, 9):
        twice([torch.ones(k * N)])
    assert recycled_bytes() <= 4 * 8 * N * 33 // 32
    for k in range(7, 0, -1):
        twice([torch.ones(k * N)])
    assert recycled_bytes() <= 4 * 8 * N * 33 // 32
    held = [twice([torch.ones(k * N)])[0] for k in range(1, 9)]
    assert recycled_bytes() == sum(t.nbytes for t in held)
    del held  # as much was in use at once, so as much may stay
    at = {twice([torch.ones(k * N)])[0].data_ptr() for k in range(1, 9)}
    assert recycled_bytes() == 4 * 36 * N and len(at) == 8


@pytest.fixture(scope="module")
def beside() -> NativeGraph:
    """A call makes 4 MiB of its own, and drops it before the result of 2 MiB is made of the first half."""
    module = parse_module(
        """
        loop.kernel @twice(%x: !sym.t<[1048576], f32>) outs(%y: !sym.t<[524288], f32>) sizes [] grid [d0 = 524288] {
          %0 = loop.load %x[d0] : !sym.t<[1048576], f32>
          %1 = arith.addf %0, %0 : f32
          loop.store %1, %y[d0] : !sym.t<[524288], f32>
          loop.end
        }
        func.func @main(%x: !sym.t<[1048576], f32>) -> !sym.t<[524288], f32> {
          %a = aten.cumsum(%x, 0) : (!sym.t<[1048576], f32>) -> !sym.t<[1048576], f32>
          %y = loop.launch @twice(%a) sizes [] : (!sym.t<[1048576], f32>) -> !sym.t<[524288], f32>
          func.return %y : !sym.t<[524288], f32>
        }
        """
    )
    run_passes(module, "bufferize,kernel-to-llvm,host-to-llvm")
    return native(module, CpuTarget.host())


def test_what_calls_make_counts(twice: NativeGraph, beside: NativeGraph) -> None:
    """What is idle goes where a call takes memory of its own, as far as more would be there than ever was in use."""
    x = torch.ones(4 * N)
    (y,) = beside([x])
    at, value = y.data_ptr(), torch.arange(1, 2 * N + 1) * 2.0
    del y
    assert beside([x])[0].data_ptr() == at and recycled_bytes() == 8 * N  # 6 MiB were in use at once
    twice([torch.ones(8 * N)])
    twice([torch.ones(9 * N)])
    assert recycled_bytes() == 36 * N  # 9 MiB in use at once at most: what else there was has gone
    held = beside([x])[0]
    assert recycled_bytes() == 8 * N and torch.equal(held, value)  # 9 and 4 and 2 would be more than ever
    (again,) = beside([torch.zeros(4 * N)])
    assert recycled_bytes() == 16 * N and torch.equal(held, value) and torch.equal(again, torch.zeros(2 * N))


def test_what_is_given_for_the_call_counts(twice: NativeGraph) -> None:
    """A gradient that torch has made is as memory that the call takes, and one of the pool is counted there."""
    module = parse_module(
        """
        func.func @main(%x: !sym.t<[1048576], f32> {lamella.passed}) -> !sym.t<[], f32> {
          %y = aten.sum(%x) : (!sym.t<[1048576], f32>) -> !sym.t<[], f32>
          func.return %y : !sym.t<[], f32>
        }
        """
    )
    run_passes(module, "bufferize,kernel-to-llvm,host-to-llvm")
    total = native(module, CpuTarget.host())
    held = [twice([torch.ones(4 * N)])[0] for _ in range(2)]
    assert total(held[1:])[0] == 8 * N and recycled_bytes() == 32 * N  # 8 MiB in use at once
    del held[0]
    assert total(held[:])[0] == 8 * N and recycled_bytes() == 32 * N  # 4 MiB, and 4 MiB idle
    assert total([torch.ones(4 * N)])[0] == 4 * N and recycled_bytes() == 16 * N  # 4 MiB more: what is idle goes
    assert torch.equal(held[0], torch.full((4 * N,), 2.0))


def outer(x: torch.Tensor) -> torch.Tensor:
    return (x[:, None] + x[None, :]).exp()


def test_no_memory() -> None:
    """The error is eager's, in every version of torch, what was idle has gone, and the program goes on."""
    program = torch.compile(outer, backend="lamella", dynamic=True)
    program(torch.randn(1024))
    assert recycled_bytes() == 4 << 20
    large = torch.randn(1 << 23)  # more than there are addresses
    with pytest.raises(RuntimeError) as expected:
        outer(large)
    with pytest.raises(
        type(expected.value), match="can't allocate memory: you tried to allocate 281474976710656 bytes"
    ):
        program(large)
    assert recycled_bytes() == 0
    assert program(torch.zeros(5)).sum() == 25


@pytest.mark.gpu
@pytest.mark.parametrize("mode", [None, "reduce-overhead"])
def test_no_memory_on_the_gpu(mode: str | None) -> None:
    program = torch.compile(outer, backend="lamella", dynamic=True, mode=mode)
    for _ in range(3):
        program(torch.randn(64, device="cuda"))
    for n in (1 << 19, 1 << 22):
        with pytest.raises(torch.OutOfMemoryError):
            program(torch.zeros(n, device="cuda"))
    assert program(torch.zeros(5, device="cuda")).sum() == 25


@pytest.mark.parametrize("hold", [lambda y: y, lambda y: y[5:], lambda y: y.numpy(), lambda y: y.untyped_storage()])
def test_what_is_held_stays_where_room_is_made(twice: NativeGraph, beside: NativeGraph, hold: object) -> None:
    (y,) = twice([torch.ones(N)])
    at = y.data_ptr()
    held = hold(y)  # pyright: ignore[reportCallIssue]
    del y
    for _ in range(3):
        assert beside([torch.zeros(4 * N)])[0].data_ptr() != at
    assert recycled_bytes() == 12 * N and held is not None
    (z,) = twice([torch.zeros(N)])
    assert z.data_ptr() != at and torch.equal(z, torch.zeros(N))


@pytest.mark.parametrize(
    "ask",
    [
        lambda y: y.untyped_storage().nbytes(),
        lambda y: copy.deepcopy(y).sum(),
        lambda y: torch.save(y, io.BytesIO()),
        lambda y: pickle.dumps(y)[:1],
        lambda y: weakref.ref(y.untyped_storage()),
        lambda y: StorageWeakRef(y.untyped_storage()),
        lambda y: y.share_memory_().sum(),
    ],
)
def test_what_is_left_to_the_pool_goes(twice: NativeGraph, ask: object) -> None:
    """A storage that Python has asked for is not used again. It is in use until nobody has it, and then gone."""
    (y,) = twice([torch.ones(N)])
    kept, asked = y[5:], ask(y)  # pyright: ignore[reportCallIssue]
    del y
    twice([torch.ones(2 * N)])
    assert recycled_bytes() == 12 * N and torch.equal(kept, torch.full((N - 5,), 2.0))
    del kept
    held = twice([torch.zeros(N)])
    assert recycled_bytes() == 4 * N == held[0].nbytes
    if isinstance(asked, weakref.ref):
        assert asked() is None
    if isinstance(asked, StorageWeakRef):
        assert asked.expired()


def test_all_is_given_back(twice: NativeGraph) -> None:
    """What is held stays its holder's."""
    kept = twice([torch.ones(N)])[0]
    twice([torch.ones(2 * N)])
    assert recycled_bytes() > 0
    lamella.release_memory()
    assert recycled_bytes() == 0 and torch.equal(kept, torch.full((N,), 2.0))
    (y,) = twice([torch.zeros(N)])
    assert y.data_ptr() != kept.data_ptr() and torch.equal(kept, torch.full((N,), 2.0))


def test_many_are_held(twice: NativeGraph) -> None:
    """As many as a step of training saves are counted while they are held, and recycled after."""
    lamella.release_memory()
    held = [twice([torch.ones(N)])[0] for _ in range(100)]
    assert recycled_bytes() == 100 * 4 * N
    places = {t.data_ptr() for t in held}
    del held
    held = [twice([torch.ones(N)])[0] for _ in range(100)]
    assert {t.data_ptr() for t in held} == places
