"""The operator database on devices: graphs as on a GPU, interpreted; processes that lose their GPU."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

from lamella.tools import coverage, workers
from lamella.tools.op_check import Outcome, check, check_call, operators, tolerances
from lamella.tools.op_compare import Mismatch, compare
from lamella.tools.op_devices import on_gpu
from lamella.tools.op_traced import Traced


def test_interpreted() -> None:
    add = next(op for op in operators() if op.name == "add")
    outcome = check(add, torch.float32, 1, device="interpreted")
    assert (outcome.status, outcome.column, outcome.samples) == ("native", "float32 interpreted", 2)


def test_tensors_on_the_gpu() -> None:
    text = "(!sym.t<[s0, 2], f32, strides=[1, s0]>, !sym.t<[], i64, device=cuda:1>, !sym.int<s0>)"
    moved = "(!sym.t<[s0, 2], f32, strides=[1, s0], device=cuda:0>, !sym.t<[], i64, device=cuda:1>, !sym.int<s0>)"
    assert on_gpu(text) == moved


@pytest.mark.parametrize(
    "call",
    [lambda: (torch.roll, (torch.empty(0, 0, 0), -1, 0))],
    ids=["roll_of_nothing"],
)
def test_kernels_for_gpus(call: Any) -> None:
    """Samples that kernels for GPUs were wrong for, or could not be made of."""
    f, args = call()
    assert check_call(f, args, device="interpreted") == []


def test_results_on_another_device() -> None:
    with pytest.raises(Mismatch, match="result 0 is on meta, eager's on cpu"):
        compare([torch.empty(2, device="meta")], [torch.empty(2)], values=False, exact=lambda: [])


@pytest.mark.parametrize("lost", [False, True])
def test_a_process_that_loses_its_gpu_is_replaced(lost: bool) -> None:
    starts: list[int] = []

    class Answers:
        def send(self, task: coverage.Task) -> None:
            self.task = task

        def recv(self) -> tuple[Outcome, bool]:
            return Outcome(*self.task.key), lost

    class Worker(workers.Worker[coverage.Task, Outcome]):
        def start(self) -> None:
            starts.append(self.place)
            self.connection: Any = Answers()

        def stop(self) -> None:
            pass

    worker = Worker(3, lambda connection, place: None, coverage.failed)
    worker.run(coverage.Task(0, "add", "float32", "forward", "cuda"))
    assert worker.outcome(True).column == "float32 cuda"
    assert starts == [3] * (1 + lost) and worker.task is None


def test_a_process_for_gpus_starts() -> None:
    """Its settings are made before the database ends that they can be; without a GPU, it says that there is none."""
    (task,) = coverage.tasks("abs", [("float32", "forward")], (0, 1), "cuda")
    ((_, outcome),) = coverage.run([task], 1, 1, 300.0, 0.0)
    assert outcome.column == "float32 cuda"
    if torch.cuda.is_available():
        assert outcome.status == "native"
    else:  # a torch for CPUs only says the one, another the other
        assert "CUDA" in outcome.reason or "NVIDIA driver" in outcome.reason


def test_what_tracing_says_is_compared() -> None:
    """A call that gives other sizes or dtypes than tracing said is torch's fault, seen where torch runs the graph."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(torch.ops.aten.sum.dim_IntList, (x, [1]))
    graph.output((y,))
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    x.meta["val"], y.meta["val"] = torch.ones(2, 3), torch.ones(2)
    assert Traced(module)(torch.ones(2, 3))[0].shape == (2,)
    for said in (torch.ones(2, 1), torch.ones(2, dtype=torch.float64)):
        y.meta["val"] = said
        with pytest.raises(Mismatch, match="torch's tracing says"):
            Traced(module)(torch.ones(2, 3))


def test_ill_conditioned_results() -> None:
    """As inexact as eager is on inputs that are off by a rounding, and no more."""
    x, exact = torch.tensor([1.0]), [torch.tensor([0.0], dtype=torch.float64)]
    near = [torch.tensor([2e-5])]
    compare(x * 2.5e-5, x * 0, values=True, exact=lambda: exact, nearby=lambda: [near])
    with pytest.raises(Mismatch):
        compare(x * 4e-5, x * 0, values=True, exact=lambda: exact, nearby=lambda: [near])


def test_torchs_own_tolerances() -> None:
    """What the database allows all tests of an operator, for its dtypes alone."""
    op = next(op for op in operators() if op.name == "linalg.householder_product")
    allowed = tolerances(op, torch.complex64)
    assert allowed[torch.complex64] == (1e-3, 1e-3) and torch.float32 not in allowed
    for dtype in (torch.complex64, torch.float32):
        x = torch.ones(3, dtype=dtype)
        check = partial(compare, x * 1.0005, x, values=True, exact=lambda x=x: [x.double()], tolerances=allowed)
        if dtype == torch.float32:
            with pytest.raises(Mismatch, match="error 0"):
                check()
        else:
            check()
    for name in ("exp", "special.i0e"):  # the second has an absolute tolerance of 0.3
        assert not tolerances(next(op for op in operators() if op.name == name), torch.bfloat16)
