"""`flex_attention` and its gradients: ops with regions, and the numbers of eager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention import flex_attention as torch_flex
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention
from torch.utils import _pytree as pytree

from lamella.dialects.text import parse_module, print_module
from lamella.driver import compile_module, explain
from lamella.frontend.backend import Backend
from lamella.lowering.options import Options

LSE = AuxRequest(lse=True)
Row = tuple[Callable[..., Any], list[Tensor]]


@pytest.fixture(autouse=True)
def gradients_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch itself has gradients on a CPU, but does not let users ask for them."""
    monkeypatch.setattr(torch_flex, "_validate_device", lambda *_: None)
    torch._dynamo.reset()
    torch.manual_seed(0)


def qkv(
    heads: int = 4, groups: int = 4, m: int = 40, n: int = 40, size: int = 16, columns: int = 16, dtype: Any = None
) -> list[Tensor]:
    shapes = [(2, heads, m, size), (2, groups, n, size), (2, groups, n, columns)]
    return [torch.randn(shape).to(dtype or torch.float32).requires_grad_() for shape in shapes]


def table(*shape: int) -> Tensor:
    return torch.randn(shape, requires_grad=True)


def documents(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Any:
    mask = create_block_mask(lambda b, h, i, j: (ids[i] == ids[j]) & (i >= j), None, None, 40, 40, device="cpu")
    return flex_attention(q, k, v, block_mask=mask, return_aux=LSE)


def blind(q: Tensor, k: Tensor, v: Tensor) -> Any:
    """Some queries see nothing."""
    mask = create_block_mask(lambda b, h, i, j: (i >= j) & (i != 5) & (h != b), 2, 4, 40, 40, device="cpu")
    return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s * 2, block_mask=mask, return_aux=LSE)


def shared(q: Tensor, k: Tensor, v: Tensor) -> Any:
    mask = create_block_mask(lambda b, h, i, j: (i >= j) | (b == 1), 2, None, 40, 40, device="cpu")
    return flex_attention(q, k[:1], v[:1], block_mask=mask)


def heads_inside(q: Tensor, k: Tensor, v: Tensor) -> Any:
    return flex_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))


def twice(q: Tensor, k: Tensor, v: Tensor) -> Any:
    inner = flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s * 0.5)
    return flex_attention(inner, k, v, score_mod=lambda s, b, h, i, j: s + b)


def held(q: Tensor, k: Tensor, v: Tensor) -> Any:
    def score(s: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return s * torch.tensor([1.5, 2.0, 2.5, 0.5])[h] + torch.tensor(0.5)

    return flex_attention(q, k, v, score_mod=score)


def modified(score: Callable[..., Tensor], enable_gqa: bool = False) -> Callable[..., Any]:
    """Attention with a change of scores that may take a table."""

    def model(q: Tensor, k: Tensor, v: Tensor, *tables: Tensor) -> Any:
        def change(s: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return score(s, b, h, i, j, *tables)

        return flex_attention(q, k, v, score_mod=change, enable_gqa=enable_gqa)

    return model


def rows() -> dict[str, Row]:
    strided = [torch.randn(2, 40, 4, 16, requires_grad=True) for _ in range(3)]
    return {
        "plain": (lambda q, k, v: flex_attention(q, k, v, scale=0.3), qkv(m=24, size=24, columns=8)),
        "shared heads": (lambda q, k, v: flex_attention(q, k, v, enable_gqa=True, return_aux=LSE), qkv(groups=2)),
        "shared batches": (shared, qkv()),
        "strided": (heads_inside, strided),
        "capped": (modified(lambda s, b, h, i, j: 20 * torch.tanh(s / 20)), qkv(dtype=torch.bfloat16)),
        "f64": (modified(lambda s, b, h, i, j: s + (i - j) * 0.1), qkv(dtype=torch.float64)),
        "bias": (modified(lambda s, b, h, i, j, t: s + t[h, i, j] * t[h, j, i]), [*qkv(), table(4, 40, 40)]),
        "places": (modified(lambda s, b, h, i, j, t: s * t[i - j + 39].sigmoid() + t[0]), [*qkv(), table(79)]),
        "halves": (modified(lambda s, b, h, i, j, t: s + t[h]), [*qkv(dtype=torch.float16), table(4).half()]),
        "one of two": (modified(lambda s, b, h, i, j, t, u: s * t[h] + u[j]), [*qkv(), torch.rand(4), table(40)]),
        "documents": (documents, [*qkv(), torch.randint(0, 4, (40,)).sort()[0]]),
        "blind": (blind, qkv()),
        "twice": (twice, qkv()),
        "held": (held, qkv()),
        "table alone": (modified(lambda s, b, h, i, j, t: s + t[h]), [*(x.detach() for x in qkv()), table(4)]),
    }


def tensors(made: Any) -> list[Tensor]:
    return [x for x in pytree.tree_leaves(made) if isinstance(x, Tensor)]


def results(f: Callable[..., Any], args: Sequence[Tensor], weights: Sequence[Tensor]) -> list[Tensor]:
    """What f gives, and the gradients of its weighted sum."""
    made = tensors(f(*args))
    given = [x for x in args if x.requires_grad]
    total = sum(((y * w).nan_to_num(0, 0, 0).sum() for y, w in zip(made, weights, strict=False)), torch.zeros(()))
    return [*made, *torch.autograd.grad(total, given)]


def check(run: Callable[..., Any], model: Callable[..., Any], args: Sequence[Tensor]) -> None:
    """Results and gradients are no further from float64's than thrice eager's."""
    weights = [torch.randn(y.shape) for y in tensors(model(*(x.detach() for x in args)))]
    wide = [x.detach().double().requires_grad_(x.requires_grad) if x.is_floating_point() else x for x in args]
    ours, theirs, exact = (results(f, x, weights) for f, x in ((run, args), (model, args), (model, wide)))
    for a, b, c in zip(ours, theirs, exact, strict=True):
        assert a.stride() == b.stride() and (a.dtype == b.dtype or b.dtype is torch.float64)
        error = float((b.double() - c).detach().nan_to_num(posinf=0, neginf=0).abs().max())
        slack = 3e-6 * max(1.0, float(c.detach().nan_to_num(posinf=0, neginf=0).abs().max()))
        torch.testing.assert_close(a.double(), c, atol=3 * error + slack, rtol=0)


@pytest.mark.parametrize("kind", rows())
def test_numbers_and_gradients(kind: str) -> None:
    model, args = rows()[kind]
    texts: list[str] = []

    def compile(module: Any, options: Any) -> Any:
        texts.append(print_module(module))
        return compile_module(module, options)

    backend = Backend(Options(cache=False), compile=compile)
    check(torch.compile(model, backend=backend, fullgraph=True, dynamic=False), model, args)
    assert ["flex.attention(" in text or "flex.attention_backward(" in text for text in texts] == [True, True]
    assert print_module(parse_module(texts[1])) == texts[1]


def test_sizes() -> None:
    """One program for all sizes, but where they are 1."""
    model = modified(lambda s, b, h, i, j: torch.where(i >= j, s, -torch.inf) + h * 0.1, enable_gqa=True)
    run = torch.compile(model, backend=Backend(Options(), compile=compile_module), fullgraph=True, dynamic=True)
    for m, n in ((40, 40), (17, 33), (64, 20)):
        check(run, model, qkv(groups=2, m=m, n=n))


def test_explained() -> None:
    def model(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s * (h + 1))

    with torch.no_grad():
        (graph,) = explain(model, *qkv(m=96, n=96)).graphs
    assert "flex_attention at" in str(graph) and "attention written out" in str(graph)
    assert [len(graph.kernels), graph.calls] == [1, []]
