"""Where the workspaces of cuBLAS lie as graphs are recorded and others drop them, with what stands for torch.cuda."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch

from lamella.frontend.cuda_recorder import CudaRecorder


class Cuda:
    """torch.cuda and cuBLAS with one workspace, which is allocated where memory comes from when it is first used."""

    def __init__(self, allocator: str) -> None:
        self.allocator = allocator
        self.places: list[Any] = ["torch's"]
        """Where memory comes from, the last of them."""
        self.workspace: Any = None
        """Where it lies."""

    def multiply(self, *factors: torch.Tensor) -> torch.Tensor:
        self.workspace = self.workspace or self.places[-1]
        return factors[0]

    def drop(self) -> None:
        self.workspace = None

    @contextmanager
    def use_mem_pool(self, pool: Any, device: int) -> Generator[None]:
        self.places.append(pool)
        yield
        self.places.pop()

    def graph(self) -> Any:
        cuda = self

        class Graph:
            def capture_begin(self, pool: str = "the recording's", capture_error_mode: str = "") -> None:
                cuda.places.append(pool)

            def capture_end(self) -> None:
                cuda.places.pop()

            def replay(self) -> None: ...

        return Graph()

    def __getattr__(self, name: str) -> Any:
        """What only has to be there."""
        return lambda *_: nullcontext()


@pytest.fixture
def cuda(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Cuda:
    made: Any = Cuda(getattr(request, "param", "native"))
    made.get_allocator_backend = lambda: made.allocator
    made.MemPool, made.CUDAGraph = object, made.graph
    made.graph_pool_handle, made.memory_reserved = lambda: "what recordings share", lambda _: 0
    made.mem_get_info = lambda _: (1, 1)
    zeros = torch.zeros(2, 2)
    monkeypatch.setattr(torch, "cuda", made)
    monkeypatch.setattr(torch, "zeros", lambda *_, **__: zeros)
    for name in ("mm", "addmm"):
        monkeypatch.setattr(torch, name, made.multiply)
    monkeypatch.setattr(torch._C, "_cuda_clearCublasWorkspaces", made.drop, raising=False)
    return made


def record(recorder: CudaRecorder, cuda: Cuda, own: bool = True, asked: bool = False) -> Any:
    """Where the workspace lies that a recording uses."""
    used: list[Any] = []

    def run(inputs: Sequence[Any]) -> Sequence[Any]:
        cuda.multiply(torch.empty(()))
        used.append(cuda.workspace)
        return ()

    recorder.record(run, [], own, asked)
    return used[0]


def test_workspaces_that_others_drop(cuda: Cuda) -> None:
    """They are in memory of their own, then as before, for recordings that are asked for, too."""
    recorder = CudaRecorder(0)
    pool = record(recorder, cuda)
    assert pool is recorder.workspaces and pool is not None
    for asked in (False, True):
        cuda.drop()
        assert record(recorder, cuda, asked=asked) is pool
    assert cuda.workspace is pool, "recordings drop none that stays"


def test_workspaces_of_what_is_asked_for(cuda: Cuda) -> None:
    """They are among what recordings share, and free for others after that."""
    recorder = CudaRecorder(0)
    cuda.multiply(torch.empty(()))
    assert record(recorder, cuda, own=False, asked=True) == "what recordings share"
    assert cuda.workspace is None


@pytest.mark.parametrize("cuda", ["cudaMallocAsync"], indirect=True)
def test_allocators_without_pools(cuda: Cuda) -> None:
    """Each recording has its own workspace, which nobody else has."""
    recorder = CudaRecorder(0)
    cuda.multiply(torch.empty(()))
    assert record(recorder, cuda) == "the recording's"
    assert cuda.workspace is None
