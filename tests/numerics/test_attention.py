"""Attention through the whole compiler: by kernels, and by calls of ATen's, against float64 and eager's rules."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import flex_attention

from lamella.driver import explain, lamella
from lamella.frontend.explain import Explanation
from lamella.lowering import aten_fuse_attention
from lamella.lowering.target import CpuTarget


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def inputs(batch: int, heads: int, groups: int, queries: int, keys: int, size: int, dtype: Any) -> list[Tensor]:
    shapes = [(batch, heads, queries, size), *[(batch, groups, keys, size)] * 2]
    return [torch.randn(shape, dtype=dtype) for shape in shapes]


def check(run: Any, model: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> None:
    """The result is no further from float64's than twice eager's."""
    wide = mask if mask is None or mask.dtype is torch.bool else mask.double()
    exact = model(q.double(), k.double(), v.double(), wide)
    ours, theirs = run(q, k, v, mask), model(q, k, v, mask)
    assert ours.dtype is theirs.dtype and ours.shape == theirs.shape
    error = (theirs.double() - exact).abs().nan_to_num().max() if exact.numel() else 0.0
    torch.testing.assert_close(ours.double(), exact, atol=2 * float(error) + 1e-6, rtol=1e-5, equal_nan=True)


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=q.shape[1] != k.shape[1])


def explained(model: Any, *args: Tensor | None) -> Explanation:
    with torch.no_grad():
        return explain(model, *args)


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("queries", [1, 2, 5])
@pytest.mark.parametrize("groups", [6, 2])
@pytest.mark.parametrize("kind", ["none", "bool", "float", "row"])
def test_masks_heads_and_dtypes(dtype: Any, queries: int, groups: int, kind: str) -> None:
    q, k, v = inputs(2, 6, groups, queries, 37, 20, dtype)
    mask = {
        "none": None,
        "bool": torch.rand(2, 1, queries, 37) < 0.6,
        "float": torch.randn(2, 6, queries, 37, dtype=dtype),
        "row": torch.randn(queries, 37, dtype=dtype),
    }[kind]
    check(torch.compile(attention, backend=lamella, dynamic=False), attention, q, k, v, mask)


@torch.no_grad()
@pytest.mark.parametrize("queries", [1, 3])
def test_causal_and_scale(queries: int) -> None:
    def model(q: Tensor, k: Tensor, v: Tensor, mask: None) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)

    check(torch.compile(model, backend=lamella), model, *inputs(1, 4, 4, queries, 19, 16, torch.float32))


@torch.no_grad()
@pytest.mark.parametrize("queries", [1, 3])
def test_a_query_that_sees_nothing_and_what_is_not_finite(queries: int) -> None:
    q, k, v = inputs(2, 4, 4, queries, 33, 16, torch.float32)
    run = torch.compile(attention, backend=lamella)
    mask = torch.zeros(2, 1, queries, 33)
    mask[0] = -torch.inf
    ours = run(q, k, v, mask)
    assert (ours[0] == 0).all()
    torch.testing.assert_close(ours, attention(q, k, v, mask))
    k[1, 2, 5] = torch.nan
    v[1, 1, 7] = torch.inf
    torch.testing.assert_close(run(q, k, v, mask), attention(q, k, v, mask), equal_nan=True)


@torch.no_grad()
def test_sizes_that_change() -> None:
    run = torch.compile(attention, backend=lamella, dynamic=True)
    for batch, keys in ((2, 64), (3, 5), (1, 301), (2, 1)):
        q, k, v = inputs(batch, 4, 4, 1, keys, 32, torch.float32)
        check(run, attention, q, k, v, torch.rand(batch, 1, 1, keys) < 0.7)
        check(run, attention, q, k, v)


@torch.no_grad()
@pytest.mark.parametrize("queries, options", [(1, {}), (5, {"products": "all"})])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_any_size(queries: int, options: dict[str, str], dtype: Any) -> None:
    """The scale is made of a size that is known when the kernel runs."""
    run = torch.compile(attention, backend="lamella", dynamic=True, options={"strict": True, **options})
    for batch, keys, size in ((2, 64, 32), (3, 50, 64), (4, 7, 5)):
        check(run, attention, *inputs(batch, 4, 4, queries, keys, size, dtype))


@torch.no_grad()
def test_keys_and_values_of_any_layout() -> None:
    q, k, v = (t.transpose(1, 2) for t in inputs(2, 1, 40, 4, 4, 16, torch.float32))
    q = torch.randn(2, 1, 4, 16).transpose(1, 2)
    check(torch.compile(attention, backend=lamella), attention, q, k, v)


def test_one_query_is_one_kernel() -> None:
    """Where there are rows for every core: fewer are cheaper as several kernels on a machine of many."""
    told = explained(attention, *inputs(64, 8, 8, 1, 128, 64, torch.float32), None)
    (graph,) = told.graphs
    assert [len(graph.kernels), graph.calls] == [1, []]


@pytest.mark.parametrize("queries", [1, 40])
@pytest.mark.parametrize("kind", ["plain", "causal", "mask"])
def test_gradients(queries: int, kind: str) -> None:
    def model(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=kind == "causal")

    q, k, v = (t.requires_grad_() for t in inputs(2, 4, 4, queries, 24, 16, torch.float32))
    mask = torch.randn(2, 1, queries, 24) if kind == "mask" else None
    grads = [
        torch.autograd.grad(run(q, k, v, mask).square().sum(), (q, k, v))
        for run in (model, torch.compile(model, backend=lamella))
    ]
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-4, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("queries", [1, 6])
def test_heads_that_were_repeated(queries: int) -> None:
    def model(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        k, v = (t[:, :, None].expand(2, 2, 3, 11, 16).reshape(2, 6, 11, 16) for t in (k, v))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    q, k, v = inputs(2, 6, 2, queries, 11, 16, torch.float32)
    check(torch.compile(model, backend=lamella), model, q, k, v, torch.rand(2, 1, queries, 11) < 0.8)
    (graph,) = explained(model, q, k, v, None).graphs
    assert [len(graph.kernels), len(graph.calls)] == [1, 0]


def plain(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    return attention(q, k, v, mask)


def causal(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])


@torch.no_grad()
@pytest.mark.parametrize("model", [plain, causal])
@pytest.mark.parametrize("groups", [6, 2, 1])
@pytest.mark.parametrize(
    "sizes", [(64, 64, 64), (197, 197, 64), (7, 300, 40), (300, 7, 16), (65, 130, 80), (2, 3, 1), (33, 65, 200)]
)
def test_blocks(model: Any, groups: int, sizes: tuple[int, int, int]) -> None:
    """Rows, keys and elements that do not come out even; more heads than keys have."""
    q, k, v = inputs(2, 6, groups, *sizes, torch.float32)
    check(torch.compile(model, backend=lamella, dynamic=False), model, q, k, v)
    (graph,) = explained(model, q, k, v, None).graphs
    assert [len(graph.kernels), graph.calls] == [1, []]


@torch.no_grad()
@pytest.mark.parametrize("model", [plain, causal])
@pytest.mark.parametrize("groups", [6, 2])
@pytest.mark.parametrize("sizes", [(64, 64, 64), (50, 96, 32), (7, 320, 128), (300, 32, 32), (197, 128, 64)])
def test_blocks_of_halves(model: Any, groups: int, sizes: tuple[int, int, int]) -> None:
    """On matrix units, where the machine has them; keys and values may lie in any way."""
    q, k, v = inputs(2, 6, groups, *sizes, torch.bfloat16)
    k = k.transpose(2, 3).contiguous().transpose(2, 3)
    v = v.transpose(1, 2).contiguous().transpose(1, 2)
    check(torch.compile(model, backend=lamella, dynamic=False), model, q, k, v)


@torch.no_grad()
@pytest.mark.usefixtures("runnable")
@pytest.mark.parametrize("target", ["avx2", "avx512"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("model", [plain, causal])
def test_blocks_of_other_machines(target: str, dtype: Any, model: Any) -> None:
    q, k, v = inputs(2, 6, 2, 70, 150, 64, dtype)
    options: Any = {"target": target, "products": "all"}
    check(torch.compile(model, backend=lamella, dynamic=False, options=options), model, q, k, v)


@torch.no_grad()
@pytest.mark.parametrize("layout", ["heads inside", "expanded", "strided"])
def test_blocks_of_any_layout(layout: str) -> None:
    q, k, v = inputs(2, 4, 4, 70, 70, 32, torch.float32)
    if layout == "heads inside":
        q, k, v = (t.transpose(1, 2).contiguous().transpose(1, 2) for t in (q, k, v))
    elif layout == "expanded":
        k, v = (t[:1, :1].expand(2, 4, 70, 32) for t in (k, v))
    else:
        k, v = (t.repeat_interleave(2, 3)[..., ::2] for t in (k, v))
        q = q.transpose(2, 3).contiguous().transpose(2, 3)
    run = torch.compile(plain, backend=lamella, dynamic=False)
    check(run, plain, q, k, v)
    assert run(q, k, v, None).stride() == plain(q, k, v, None).stride()


@torch.no_grad()
@pytest.mark.parametrize("model", [plain, causal])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_blocks_of_what_is_not_finite_and_of_rows_that_see_nothing(model: Any, dtype: Any) -> None:
    q, k, v = inputs(2, 4, 4, 80, 96, 32, dtype)
    mask = torch.zeros(2, 4, 80, 96, dtype=dtype)
    mask[0, 1, 7] = -torch.inf
    mask[1, :, :, 70:] = -torch.inf
    q[0, 2, 70] = torch.nan
    k[0, 3, 2] = torch.inf
    v[1, 1, 3] = torch.inf
    run = torch.compile(model, backend=lamella, dynamic=False)
    check(run, model, q, k, v, mask)


@torch.no_grad()
def test_blocks_of_any_number_of_batches() -> None:
    run = torch.compile(plain, backend=lamella)
    for batch in (2, 3, 1, 5):
        q, k, v = inputs(batch, 4, 4, 40, 40, 32, torch.float32)
        torch._dynamo.maybe_mark_dynamic(q, 0)
        check(run, plain, q, k, v)


@torch.no_grad()
@pytest.mark.parametrize("sizes", [(0, 4, 20, 20, 16), (2, 4, 0, 20, 16)])
def test_attention_of_nothing(sizes: tuple[int, int, int, int, int]) -> None:
    batch, heads, queries, keys, size = sizes
    q, k, v = inputs(batch, heads, heads, queries, keys, size, torch.float32)
    check(torch.compile(plain, backend=lamella, dynamic=False), plain, q, k, v)


def written_out(kind: str) -> Any:
    """Attention as people write it."""

    def model(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        if kind == "batched":
            scores = torch.bmm(q[0], k[0].transpose(1, 2)) / 4
            scores = scores if mask is None else scores + mask
            return torch.bmm(scores.softmax(-1), v[0])[None]
        scores = q @ k.transpose(-1, -2)
        scores = {"times": scores * 0.25, "over": scores / 4.0, "plain": scores}[kind]
        return (scores if mask is None else mask + scores).softmax(-1) @ v

    return model


def of_hand(q: Tensor, k: Tensor) -> Tensor:
    scores = q @ k.transpose(-1, -2) * 0.2
    e = (scores - scores.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


def capped(q: Tensor, k: Tensor) -> Tensor:
    return (20 * torch.tanh(q @ k.transpose(-1, -2) / 20)).softmax(-1)


def alibi(q: Tensor, k: Tensor) -> Tensor:
    places = torch.arange(k.shape[-2])
    slopes = -0.1 * torch.arange(1, q.shape[1] + 1, dtype=q.dtype)[:, None, None]
    return (q @ k.transpose(-1, -2) + slopes * (places[: q.shape[-2], None] - places).abs()).softmax(-1)


def masked(q: Tensor, k: Tensor) -> Tensor:
    scores = q @ k.transpose(-1, -2)
    behind = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(behind, -torch.inf).softmax(-1)


def nothing_seen(q: Tensor, k: Tensor) -> Tensor:
    scores = q @ k.transpose(-1, -2)
    return torch.where(torch.arange(q.shape[-2])[:, None] == 3, -torch.inf, scores).softmax(-1)


def scaled_after(q: Tensor, k: Tensor) -> Tensor:
    return (q @ k.transpose(-1, -2)).softmax(-1) * torch.linspace(0, 2, k.shape[-2], dtype=q.dtype)


@torch.no_grad()
@pytest.mark.parametrize("weights", [of_hand, capped, alibi, masked, nothing_seen, scaled_after])
@pytest.mark.parametrize("sizes", [(64, 128), (50, 77), (150, 200)])
def test_what_stands_between_the_products(weights: Any, sizes: tuple[int, int]) -> None:
    def model(q: Tensor, k: Tensor, v: Tensor, mask: None) -> Tensor:
        return weights(q, k) @ v

    q, k, v = inputs(2, 3, 3, *sizes, 32, torch.float32)
    told = explained(model, q, k, v, None)
    assert told.graphs[0].calls == [] and "attention written out" in str(told.graphs[0])
    # what all batches or rows share may be computed once
    assert len(told.graphs[0].kernels) == 1 + (weights in (alibi, scaled_after))
    check(torch.compile(model, backend=lamella, dynamic=False), model, q, k, v)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["capped", "causal", "blind"])
def test_flex_attention_is_one_kernel(kind: str) -> None:
    def score(s: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        if kind == "capped":
            return 20 * torch.tanh(s / 20)
        return torch.where(j <= i if kind == "causal" else i != 3, s, -torch.inf)

    def model(q: Tensor, k: Tensor, v: Tensor, mask: None) -> Tensor:
        return flex_attention(q, k, v, score_mod=score)

    q, k, v = inputs(1, 4, 4, 96, 128, 32, torch.float32)
    (graph,) = explained(model, q, k, v, None).graphs
    assert [len(graph.kernels), graph.calls] == [1, []]
    check(torch.compile(model, backend=lamella, dynamic=False), model, q, k, v)


@torch.no_grad()
def test_weights_that_are_a_result_are_stored() -> None:
    def model(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        weights = capped(q, k)
        return weights @ v, weights

    q, k, v = inputs(2, 3, 3, 64, 96, 32, torch.float32)
    assert "attention written out" not in str(explained(model, q, k, v).graphs[0])
    torch.testing.assert_close(torch.compile(model, backend=lamella)(q, k, v), model(q, k, v), atol=1e-5, rtol=1e-5)


def fused_calls(graph: Any) -> int:
    return sum("scaled_dot_product" in call.name for call in graph.calls)


@pytest.mark.parametrize("kind", ["times", "over", "plain", "batched"])
@pytest.mark.parametrize("mask", ["none", "row", "heads"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_that_is_written_out(monkeypatch: pytest.MonkeyPatch, kind: str, mask: str, dtype: Any) -> None:
    monkeypatch.setattr(aten_fuse_attention, "LEAST", {"f32": 1, "bf16": 1})
    q, k, v = inputs(1 if kind == "batched" else 2, 4, 4, 24, 40, 16, dtype)
    masks = {"none": None, "row": torch.randn(24, 40, dtype=dtype), "heads": torch.randn(4, 24, 40, dtype=dtype)}
    model = written_out(kind)
    with torch.no_grad():
        check(torch.compile(model, backend=lamella, options={"cache": False}), model, q, k, v, masks[mask])
    (graph,) = explained(model, q, k, v, masks[mask]).graphs
    target = CpuTarget.host()
    # matrix units take whole blocks of keys, and products by vectors that multiply bf16 are faster than a kernel in f32
    library = dtype is torch.bfloat16 and target.multiplies("bf16")
    apart = library and target.has_bf16_vectors
    assert fused_calls(graph) == (library and not apart)
    assert ("attention written out" in str(graph)) != apart


@torch.no_grad()
def test_a_query_that_sees_nothing_is_nan_where_softmax_is_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aten_fuse_attention, "LEAST", {"f32": 1})
    q, k, v = inputs(2, 4, 4, 24, 40, 16, torch.float32)
    mask = torch.zeros(2, 1, 24, 40)
    mask[0, 0, 3] = -torch.inf
    mask[1, 0, 5, 7:] = -torch.inf
    k[1, 2, 5] = torch.nan
    model = written_out("times")
    run = torch.compile(model, backend=lamella, options={"cache": False})
    torch.testing.assert_close(run(q, k, v, mask), model(q, k, v, mask), equal_nan=True)
    assert run(q, k, v, mask)[0, :, 3].isnan().all()


@torch.no_grad()
def test_sizes_of_attention_that_is_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aten_fuse_attention, "LEAST", {"f32": 1})
    model = written_out("times")
    run = torch.compile(model, backend=lamella, dynamic=True, options={"cache": False})
    for batch, queries, keys in ((2, 24, 40), (3, 17, 5), (1, 64, 64)):
        q, k, v = inputs(batch, 4, 4, queries, keys, 16, torch.float32)
        check(run, model, q, k, v, torch.randn(queries, keys))


def test_attention_that_is_written_out_stays_where_it_is_trained_or_small(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = inputs(1, 2, 2, 24, 24, 16, torch.float32)
    assert not fused_calls(explained(written_out("times"), q, k, v, None).graphs[0])
    monkeypatch.setattr(aten_fuse_attention, "LEAST", {"f32": 1})
    q, k, v = (t.requires_grad_() for t in (q, k, v))
    told = explain(written_out("times"), q, k, v, None)
    assert [graph.kind for graph in told.graphs] == ["forward"]
    assert not any(map(fused_calls, told.graphs))
