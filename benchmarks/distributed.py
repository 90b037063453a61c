"""Programs of several processes, each held to eager: data parallel, sharded and tensor parallel training, collectives.

    python benchmarks/distributed.py [--device cpu|cuda] [--processes 2] [--only REGEX] [--backend lamella]

A process for each GPU (NCCL), or on the CPU (gloo). Every case runs a program of a few steps eagerly and compiled, from
the same numbers, in all processes; losses, gradients and parameters must be the same within rounding, and no graph may
run eagerly. A case that ends in an error is reported with it, and the other cases still run. The exit status is the
number of cases that are not right.
"""

from __future__ import annotations

import argparse
import copy
import logging
import re
import sys
import tempfile
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

Run = Callable[[Callable[..., Any]], Any]
"""A case with what compiles in it: gives what must be the same."""

CASES: dict[str, Callable[[torch.device], Run]] = {}


def case(f: Callable[[torch.device], Run]) -> Callable[[torch.device], Run]:
    CASES[f.__name__] = f
    return f


class Layer(nn.Module):
    """A layer of a transformer, without dropout."""

    def __init__(self, width: int):
        super().__init__()
        self.norm, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (4, -1)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.after(x))))


class Model(nn.Module):
    def __init__(self, width: int = 32, layers: int = 2):
        super().__init__()
        self.embedding = nn.Embedding(50, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.head = nn.Linear(width, 50)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embedding(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def model(device: torch.device, width: int = 32) -> Model:
    torch.manual_seed(0)
    return Model(width).to(device)


def batch(device: torch.device, step: int) -> Tensor:
    """Other words for each process and step."""
    source = torch.Generator().manual_seed(100 * step + dist.get_rank())
    return torch.randint(50, (3, 9), generator=source).to(device)


def train(net: Callable[[Tensor], Tensor], parameters: list[Tensor], device: torch.device, steps: int = 4) -> list[Any]:
    """Losses, and what the parameters are after these steps."""
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    losses = []
    for step in range(steps):
        x = batch(device, step)
        loss = F.cross_entropy(net(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return [losses, [whole(p.detach()) for p in parameters]]


def whole(x: Tensor) -> Tensor:
    """A tensor without its parts in other processes."""
    from torch.distributed.tensor import DTensor

    return x.full_tensor() if isinstance(x, DTensor) else x


def mesh(device: torch.device) -> Any:
    return dist.device_mesh.init_device_mesh(device.type, (dist.get_world_size(),))


@case
def data_parallel_outside(device: torch.device) -> Run:
    """DistributedDataParallel, compiled: TorchDynamo cuts the graph where buckets end."""

    def run(compile: Callable[..., Any]) -> Any:
        net = nn.parallel.DistributedDataParallel(model(device, 192), bucket_cap_mb=1)
        return train(compile(net), list(net.parameters()), device)

    return run


@case
def data_parallel_inference(device: torch.device) -> Run:
    def run(compile: Callable[..., Any]) -> Any:
        net = nn.parallel.DistributedDataParallel(model(device, 192), bucket_cap_mb=1)
        with torch.no_grad():
            ours = compile(net.eval())
            return [ours(batch(device, step)) for step in range(3)]

    return run


@case
def data_parallel_buffers(device: torch.device) -> Run:
    """Batch norms write their statistics, which the first process gives to the others."""

    def run(compile: Callable[..., Any]) -> Any:
        torch.manual_seed(0)
        sides = [nn.Linear(32, 400), nn.BatchNorm1d(400), nn.ReLU(), nn.Linear(400, 600), nn.BatchNorm1d(600)]
        net: nn.Module = nn.Sequential(*sides, nn.Linear(600, 7)).to(device)
        net = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=1)
        ours, source = compile(net), torch.Generator().manual_seed(dist.get_rank())
        for _ in range(3):
            ours(torch.randn(16, 32, generator=source).to(device)).square().mean().backward()
        return [[p.grad for p in net.parameters()], list(net.buffers())]

    return run


@case
def data_parallel_inside(device: torch.device) -> Run:
    """A compiled module within DistributedDataParallel."""

    def run(compile: Callable[..., Any]) -> Any:
        net = nn.parallel.DistributedDataParallel(compile(model(device)))
        return train(net, list(net.parameters()), device)

    return run


@case
def accumulated_gradients(device: torch.device) -> Run:
    """`no_sync` for the first of two batches."""

    def run(compile: Callable[..., Any]) -> Any:
        net = nn.parallel.DistributedDataParallel(compile(model(device)))
        with net.no_sync():
            net(batch(device, 7)).logsumexp(-1).mean().backward()
        net(batch(device, 8)).logsumexp(-1).mean().backward()
        return [p.grad for p in net.parameters()]

    return run


@case
def synchronized_batch_norm(device: torch.device) -> Run:
    if device.type == "cpu":
        raise NotImplementedError("torch has it for GPUs only")

    def run(compile: Callable[..., Any]) -> Any:
        torch.manual_seed(0)
        net: nn.Module = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 5)
        )
        net = nn.SyncBatchNorm.convert_sync_batchnorm(net).to(device)
        net = nn.parallel.DistributedDataParallel(net)
        ours, source = compile(net), torch.Generator().manual_seed(dist.get_rank())
        for _ in range(3):
            ours(torch.randn(4, 3, 8, 8, generator=source).to(device)).square().mean().backward()
        return [[p.grad for p in net.parameters()], list(net.buffers())]

    return run


@case
def fully_sharded(device: torch.device) -> Run:
    """FSDP2 of each layer and of the whole."""
    from torch.distributed.fsdp import fully_shard

    def run(compile: Callable[..., Any]) -> Any:
        net, over = model(device), mesh(device)
        for layer in net.layers:
            fully_shard(layer, mesh=over)
        fully_shard(net, mesh=over)
        return train(compile(net), list(net.parameters()), device)

    return run


@case
def sharded_compiled_layers(device: torch.device) -> Run:
    """FSDP2 around layers that are compiled each, as large trainings do it."""
    from torch.distributed.fsdp import fully_shard

    def run(compile: Callable[..., Any]) -> Any:
        net, over = model(device), mesh(device)
        for layer in net.layers:
            layer.forward = compile(layer.forward)
            fully_shard(layer, mesh=over)
        fully_shard(net, mesh=over)
        return train(net, list(net.parameters()), device)

    return run


@case
def tensor_parallel(device: torch.device) -> Run:
    """Columns and rows of weights in other processes: DTensors in the graph."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    def run(compile: Callable[..., Any]) -> Any:
        torch.manual_seed(0)
        net: nn.Module = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)).to(device)
        parallelize_module(net, mesh(device), {"0": ColwiseParallel(), "2": RowwiseParallel()})
        ours, found = compile(net), list[Any]()
        for step in range(3):
            x = torch.randn(5, 16, generator=torch.Generator().manual_seed(step)).to(device)
            loss = ours(x).square().mean()
            loss.backward()
            found += [loss.detach()]
        return [found, [whole(p.grad) for p in net.parameters() if p.grad is not None]]

    return run


@case
def distributed_tensors(device: torch.device) -> Run:
    """Arithmetic of DTensors with other placements, redistribution in the graph."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    def program(x: Any, y: Any) -> Any:
        z = (x @ y).relu()
        return z.redistribute(placements=[Replicate()]).softmax(-1), (z + 1).sum(0)

    def run(compile: Callable[..., Any]) -> Any:
        over, ours, found = mesh(device), compile(program), list[Any]()
        for step in range(3):
            source = torch.Generator().manual_seed(step)
            x, y = (torch.randn(8, 8, generator=source).to(device) for _ in range(2))
            results = ours(distribute_tensor(x, over, [Shard(0)]), distribute_tensor(y, over, [Replicate()]))
            found += [whole(r) for r in results]
        return found

    return run


@case
def collectives(device: torch.device) -> Run:
    """Functional collectives among kernels, in one graph, and their gradients."""
    from torch.distributed import _functional_collectives as functional

    group = dist.group.WORLD

    def program(x: Tensor) -> Any:
        total = functional.all_reduce(x.sin() * 2, "sum", group)
        gathered = functional.all_gather_tensor(total.cos() + dist.get_rank(), 0, group)
        parts = functional.reduce_scatter_tensor(gathered * gathered, "sum", 0, group)
        return total + 1, gathered.sum(), parts * 0.5

    def run(compile: Callable[..., Any]) -> Any:
        ours, found = compile(program, fullgraph=True), list[Any]()
        for step in range(3):
            source = torch.Generator().manual_seed(10 * step + dist.get_rank())
            found += ours(torch.randn(6, 5 + step, generator=source).to(device))
        return found

    return run


@case
def collectives_in_place(device: torch.device) -> Run:
    """`torch.distributed.all_reduce` and its kin write into what kernels have made."""

    def program(x: Tensor) -> Any:
        y = x.exp() - 1
        dist.all_reduce(y)
        parts = [torch.empty_like(y) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, y * (dist.get_rank() + 1))
        dist.broadcast(x, 0)
        return y / 2, torch.stack(parts).sum(0), x + 1

    def run(compile: Callable[..., Any]) -> Any:
        ours, found = compile(program), list[Any]()
        for step in range(3):
            x = torch.randn(4, 7, generator=torch.Generator().manual_seed(step + 50 * dist.get_rank())).to(device)
            found += [*ours(x), x]
        return found

    return run


@case
def whole_step(device: torch.device) -> Run:
    """Forward, backward and the optimizer of a data parallel model, compiled in two parts. Some gradients are zero but
    for rounding, as those of the keys' biases: AdamW's `eps` is above that, else it makes whole steps of them.
    """

    def run(compile: Callable[..., Any]) -> Any:
        net = nn.parallel.DistributedDataParallel(model(device))
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2, eps=1e-3, foreach=True)
        forward, update = compile(net), compile(optimizer.step)
        losses = []
        for step in range(4):
            x = batch(device, step)
            loss = F.cross_entropy(forward(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
            loss.backward()
            update()
            optimizer.zero_grad()
            losses.append(loss.detach())
        return [losses, [p.detach() for p in net.parameters()]]

    return run


def same(found: Any, wanted: Any) -> None:
    """Raises AssertionError where the two differ by more than a few steps of training in f32 make of rounding."""
    if isinstance(wanted, Tensor):
        torch.testing.assert_close(found, wanted, rtol=2e-3, atol=2e-4)
        return
    assert len(found) == len(wanted)
    for f, w in zip(found, wanted, strict=True):
        same(f, w)


class EagerGraphs(logging.Handler):
    """What is told of graphs that are not compiled."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def compiler(o: argparse.Namespace) -> Callable[..., Any]:
    options = {"strict": True} if o.backend == "lamella" else {}
    mode = {"options": {**options, "cuda_graphs": True}} if o.graphs else {"options": options}
    return lambda f, **given: torch.compile(f, backend=o.backend, **(mode if options else {}), **given)


def process(rank: int, store: str, o: argparse.Namespace) -> None:
    device = torch.device(o.device, rank) if o.device == "cuda" else torch.device("cpu")
    torch.set_num_threads(1)
    if o.device == "cuda":
        torch.cuda.set_device(device)
    kind = "nccl" if o.device == "cuda" else "gloo"
    wait = timedelta(seconds=o.limit)
    dist.init_process_group(kind, init_method=f"file://{store}", rank=rank, world_size=o.processes, timeout=wait)
    eager = EagerGraphs()
    logging.getLogger("lamella").addHandler(eager)
    wrong = 0
    for name, make in CASES.items():
        if not re.search(o.only, name):
            continue
        torch.compiler.reset()
        eager.said.clear()
        said = "right"
        try:
            run = make(device)
            wanted = run(lambda f, **_: f)
            same(run(compiler(o)), copy.deepcopy(wanted))
            assert not eager.said, "; ".join(eager.said)
        except NotImplementedError as reason:
            said = f"skipped: {reason}"
        except Exception as error:
            traceback.print_exc()
            said = f"WRONG: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
        # One process's error is all processes' error: none waits for the others in the next case.
        answers: list[Any] = [None] * o.processes
        dist.all_gather_object(answers, said)
        bad = sorted({a for a in answers if a.startswith("WRONG")})
        wrong += bool(bad)
        if rank == 0:
            print(f"{name}: {'; '.join(bad) or said}", flush=True)
    dist.destroy_process_group()
    sys.exit(min(wrong, 100))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", default="", help="a regular expression over the names of cases")
    parser.add_argument("--backend", default="lamella")
    parser.add_argument("--graphs", action="store_true", help="with CUDA graphs")
    parser.add_argument("--limit", type=float, default=120, help="seconds that a process waits for another")
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        context = torch.multiprocessing.get_context("spawn")
        children = [context.Process(target=process, args=(i, f"{folder}/store", o)) for i in range(o.processes)]
        for child in children:
            child.start()
        for child in children:
            child.join()
    sys.exit(max(abs(child.exitcode or 0) for child in children))


if __name__ == "__main__":
    main()
