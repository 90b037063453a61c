"""`torch.use_deterministic_algorithms(True)`: the same bits with any number of threads, of results and gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import lamella

Program = Callable[..., Any]


@pytest.fixture(autouse=True)
def deterministic() -> Iterator[None]:
    torch._dynamo.reset()  # it compiles again for each number of threads, and only so often
    threads = torch.get_num_threads()
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(threads)


def randn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


PROGRAMS: dict[str, tuple[Program, tuple[Tensor, ...]]] = {
    "mv": (torch.mv, (randn(33, 100000), randn(100000))),
    "mv of a transpose": (lambda a, b: a.t().mv(b), (randn(1000, 1000), randn(1000))),
    "dot": (torch.dot, (randn(1000000), randn(1000000))),
    "mm": (torch.mm, (randn(33, 2048), randn(2048, 65))),
    "few rows": (torch.mm, (randn(3, 100000), randn(100000, 5))),
    "sum": (lambda x: (x.sum(), x.sum(0), x.std(), x.prod()), (1 + 1e-3 * randn(1000, 1000),)),
    "conv1d": (F.conv1d, (randn(4, 16, 200), randn(8, 16, 5), randn(8))),
    "conv2d": (lambda *a: F.conv2d(*a, padding=1), (randn(8, 16, 32, 32), randn(32, 16, 3, 3), randn(32))),
    "conv3d": (F.conv3d, (randn(2, 4, 8, 8, 8), randn(6, 4, 3, 3, 3), randn(6))),
    "depthwise": (lambda *a: F.conv2d(*a, groups=32), (randn(4, 32, 20, 20), randn(32, 1, 3, 3), randn(32))),
    "conv_transpose2d": (lambda *a: F.conv_transpose2d(*a, stride=2), (randn(4, 16, 16, 16), randn(16, 8, 3, 3))),
    "attention": (F.scaled_dot_product_attention, tuple(randn(2, 4, n, 64) for n in (1000, 1000, 1000))),
    "norms": (
        lambda x, w, b: F.batch_norm(F.layer_norm(x, (256,), w, b).t(), None, None, training=True),
        (randn(1000, 256), randn(256), randn(256)),
    ),
    "embedding": (lambda w: F.embedding(torch.arange(100000) % 50, w), (randn(50, 16),)),
    "linear algebra": (lambda a: torch.linalg.inv(a @ a.t() + 300 * torch.eye(300)), (randn(300, 300),)),
}


def bits(values: Any) -> list[Tensor]:
    return [
        v.detach().contiguous().view(-1).view(torch.uint8) for v in (values if type(values) is tuple else (values,))
    ]


def same_for_threads(run: Callable[[], Any]) -> None:
    expected: list[Tensor] | None = None
    for threads in (2, 1, 3, 5, 8, 1):
        torch.set_num_threads(threads)
        found = bits(run())
        assert torch.get_num_threads() == threads
        expected = expected or found
        assert all(map(torch.equal, found, expected)), threads


@pytest.mark.parametrize("name", PROGRAMS)
def test_any_number_of_threads(name: str) -> None:
    """MKL, oneDNN and ATen give each thread a share of most of these sums."""
    program, args = PROGRAMS[name]
    compiled = lamella.compile(program, options={"traces": False})

    def run() -> tuple[Tensor, ...]:
        given = [a.clone().requires_grad_() for a in args]
        made = compiled(*given)
        outputs = made if isinstance(made, tuple) else (made,)
        gradients = torch.autograd.grad([o.sin().sum() for o in outputs], given)
        return (*outputs, *gradients)

    same_for_threads(run)


def test_a_training_step() -> None:
    def run() -> tuple[Tensor, ...]:
        torch.manual_seed(0)
        model = nn.Sequential(
            *(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
            *(nn.Linear(8 * 16 * 16, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 10)),
        )
        compiled = lamella.compile(lambda x: F.cross_entropy(model(x), torch.arange(16) % 10))
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            compiled(randn(16, 3, 32, 32)).backward()
            optimizer.step()
        return tuple(model.parameters())

    same_for_threads(run)


@pytest.mark.skipif(torch.__version__ < "2.13", reason="torch 2.11 leaves the check out of what it traces")
def test_threads_are_as_they_were_after_an_error() -> None:
    torch.set_num_threads(3)
    compiled = lamella.compile(torch.linalg.cholesky, options={"cache": False})
    with pytest.raises(RuntimeError):
        compiled(-torch.eye(4))
    assert torch.get_num_threads() == 3
