"""Outputs are recycled, and let go where a program takes memory beside them, never while somebody holds them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lamella.codegen.runtime_support import recycled_bytes, release_memory


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    torch._dynamo.reset()
    release_memory()
    yield
    release_memory()


class Net(nn.Module):
    """Saved tensors, gradients and results of 1 MiB and more, with calls that make tensors of their own between them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(64, 128, 3, padding=1)
        self.up, self.down = nn.Linear(256, 1024), nn.Linear(1024, 256)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = F.gelu(self.conv(x))
        return self.down(F.gelu(self.up(h)).cumsum(-1) * 0.01), h


def _gradients(net: nn.Module) -> list[Tensor]:
    return [p.grad for p in net.parameters() if p.grad is not None]


def test_steps_whose_results_are_held() -> None:
    torch.manual_seed(0)
    net, held = Net(), list[tuple[Tensor, Tensor]]()
    compiled = torch.compile(net, backend="lamella")
    for step in range(4):
        x = torch.randn(4, 64, 256, requires_grad=True)
        net.zero_grad(set_to_none=True)
        y, h = compiled(x)
        y.square().mean().backward(retain_graph=True)
        y.square().mean().backward()  # adds the same again to what the first one has made
        assert x.grad is not None
        ours = [y.detach(), h.detach()[1:], x.grad, *_gradients(net)]
        net.zero_grad(set_to_none=True)
        given = x.detach().clone().requires_grad_()
        y, h = net(given)
        (2 * y.square().mean()).backward()
        assert given.grad is not None
        for a, b in zip(ours, [y, h[1:], given.grad, *_gradients(net)], strict=True):
            torch.testing.assert_close(a, b)
        held += [(t, t.clone()) for t in ours[step % 2 :: 2]]  # the others are recycled
    assert recycled_bytes() > 0
    for t, before in held:
        assert torch.equal(t, before)


def test_threads_that_share_the_pool() -> None:
    def twice(x: Tensor) -> Tensor:
        return F.gelu(x.cumsum(0) * 0.0) + x * 2

    compiled, wrong = torch.compile(twice, backend="lamella"), list[object]()
    compiled(torch.ones(512, 512))

    def work(k: int) -> None:
        last = compiled(torch.full((512, 512), float(k)))
        for i in range(1, 40):
            value = float(k * 1000 + i)
            now = compiled(torch.full((512, 512), value))
            before = 2.0 * (k if i == 1 else k * 1000 + i - 1)
            if not (torch.all(now == 2 * value) and torch.all(last == before)):
                wrong.append((k, i))
            last = now if i % 3 else now[:]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_arenas_count_beside_outputs() -> None:
    """An arena that is kept for the next call is memory too: no outputs are kept as if it were not there, nor is it kept
    beside them.
    """
    release_memory()
    with torch.no_grad():
        wide = torch.compile(lambda x, w: (x * 2) @ w, backend="lamella")
        wide(torch.ones(2048, 2048), torch.ones(2048, 16))  # 16 MiB in an arena
        plus = torch.compile(lambda x: x + 1, backend="lamella", dynamic=True)
        for k in range(8):
            plus(torch.ones(1 << 20, 4)[: (1 << 18) + k])  # 4 MiB, of other sizes each time
    assert 0 < recycled_bytes() <= 16.2 * (1 << 20)  # in use at once at most


def test_room_beside_an_output_that_is_recycled() -> None:
    """What a program makes beside an output is made room for where that lies on an earlier one, too."""
    with torch.no_grad():
        first = torch.compile(lambda x: x + 1, backend="lamella", dynamic=True)
        small = torch.compile(lambda x, w: (x * 2, *(x[:1000] @ (w + i) for i in range(16))), backend="lamella")
        x, w = torch.ones(1 << 12, 256), torch.ones(256, 250)  # results of 4 MiB, and of almost 1
        small(x, w)
        for k in range(1, 3):
            first(torch.ones((1 << 12) + k, 256))
        before = recycled_bytes()
        held = small(x, w)
    assert len(held) == 17 and recycled_bytes() < before


def test_an_arena_that_is_much_larger_is_left() -> None:
    """A program with a small arena does not hold the large one of another, which goes where both are too much."""
    with torch.no_grad():
        release_memory()
        wide = torch.compile(lambda x, w: (x * 2) @ w, backend="lamella")
        wide(torch.ones(2048, 2048), torch.ones(2048, 16))  # 16 MiB in an arena
        assert recycled_bytes() == 16 << 20
        small = torch.compile(lambda x, w: x @ w + (x * 2) @ w[:, :8].sum(1, keepdim=True), backend="lamella")
        small(torch.ones(1024, 512), torch.ones(512, 4096))  # 2 MiB in one, 16 of a result
        assert recycled_bytes() <= 20 << 20
