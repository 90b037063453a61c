"""Attention as one kernel of a GPU: written out in many ways, and calls with masks, by the interpreter of `tt`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from lamella import driver
from lamella.dialects import tt
from lamella.dialects.text import parse_module, print_module
from lamella.frontend.import_fx import import_graph
from lamella.lowering import aten_fuse_attention, attention_call
from lamella.lowering.options import Options

from . import test_kernel_to_tt as tiles

ON_THE_HOST = ("loop-schedule", "launch-together", "kernel-to-llvm", "host-to-llvm")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_call, "GPU_SCORES", 1)
    torch._dynamo.reset()
    torch.manual_seed(0)


class Interpreted:
    """A backend whose graphs run on a GPU that is not there."""

    def __init__(self, **options: Any) -> None:
        wanted = Options(target="sm_90", cache=False, **options)
        pipeline = driver.pipeline(wanted, driver.target_of(wanted), driver.gpu_of(wanted))
        names = re.split(r",(?![^{]*})", pipeline)
        self.passes = ",".join(name for name in names if not name.startswith(ON_THE_HOST))
        self.kernels: list[list[str]] = []
        """For each kernel, the ops of it."""
        self.calls = 0
        """Of torch's kernel."""

    def __call__(self, graph: Any, example: Any) -> Any:
        from functorch.compile import make_boxed_func  # pyright: ignore[reportPrivateImportUsage]
        from torch._dynamo.backends.common import aot_autograd

        def compiled(inner: Any, _: Any) -> Any:
            imported = import_graph(inner)
            module = tiles.on_gpu(imported.module, self.passes)
            self.calls = sum(o.name == attention_call.FUSED for o in module.walk())
            self.kernels = [[o.name for o in f.walk()] for f in module.ops if isinstance(f, tt.FuncOp)]
            return make_boxed_func(lambda *args: imported.wrap(lambda x: tiles.Program(module, x).results)(list(args)))

        return aot_autograd(fw_compiler=compiled, inference_compiler=compiled)(graph, example)

    @property
    def are_attention(self) -> bool:
        """Whether one kernel has both products; what all rows share may be computed once."""
        return [n for ops in self.kernels if (n := ops.count("tt.dot"))] == [2]


def check(model: Callable[..., Any], *inputs: Tensor, attention: bool = True, calls: bool = False) -> None:
    """The result is as near to float64's as twice eager's. `calls`: torch's kernel is called."""
    backend = Interpreted(products="auto" if attention or calls else "all")
    with torch.no_grad():
        ours = torch.compile(model, backend=backend, fullgraph=True, dynamic=False)(*inputs)
        exact = model(*(x.double() if x.is_floating_point() else x for x in inputs))
        theirs = model(*inputs)
    assert backend.are_attention == attention and bool(backend.calls) == calls
    assert ours.dtype is theirs.dtype and ours.shape == theirs.shape
    error = (theirs.double() - exact).nan_to_num().norm()
    slack = 1e-7 if theirs.dtype is torch.float32 else 1e-3
    assert torch.equal(ours.isnan(), exact.isnan())
    assert (ours.double() - exact).nan_to_num().norm() <= 2 * error + slack * exact.nan_to_num().norm()


def inputs(
    batch: int, heads: int, groups: int, queries: int, keys: int, size: int, dtype: torch.dtype = torch.bfloat16
) -> list[Tensor]:
    shapes = [(batch, heads, queries, size), *[(batch, groups, keys, size)] * 2]
    return [torch.randn(shape).to(dtype) for shape in shapes]


def places(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    return torch.arange(q.shape[2])[:, None], torch.arange(k.shape[2])[None]


def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.transpose(-1, -2) * 0.2).softmax(-1) @ v


def biased(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    return (q @ k.transpose(-1, -2) * 0.2 + bias).softmax(-1) @ v


def in_f32(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = (q @ k.transpose(-1, -2) / 5).softmax(-1, dtype=torch.float32).to(q.dtype)
    return (weights @ v).transpose(1, 2).reshape(q.shape[0], q.shape[2], -1)


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    hidden = ~torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril()
    return (q @ k.transpose(-1, -2) * 0.2).masked_fill(hidden, -torch.inf).softmax(-1) @ v


def window(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    i, j = places(q, k)
    scores = torch.where((j <= i) & (i - j < 50), q @ k.transpose(-1, -2) * 0.2, -torch.inf)
    return scores.to(q.dtype).softmax(-1) @ v


def late(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Only keys from a place on, which is past the end for the last rows."""
    i, j = places(q, k)
    return (q @ k.transpose(-1, -2) * 0.2).masked_fill(j < i + 3, -torch.inf).softmax(-1) @ v


def alibi(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    i, j = places(q, k)
    slope = torch.arange(1, q.shape[1] + 1)[None, :, None, None] * 0.1
    scores = (q @ k.transpose(-1, -2)).to(slope.dtype) * 0.2 - slope * (i - j).abs()
    return scores.softmax(-1).to(q.dtype) @ v


def capped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (5 * torch.tanh(q @ k.transpose(-1, -2) * 0.05)).softmax(-1) @ v


def shared(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    times = q.shape[1] // k.shape[1]
    return plain(q, k.repeat_interleave(times, 1), v.repeat_interleave(times, 1))


def projected(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Heads as linear layers give them."""
    q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v))
    return plain(q, k, v).transpose(1, 2).reshape(q.shape[0], q.shape[2], -1)


def three(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.bmm((torch.bmm(q, k.transpose(1, 2)) / 5).softmax(-1), v)


@pytest.mark.parametrize("model", [plain, in_f32, causal, window, late, alibi, capped])
def test_written_out(model: Callable[..., Any]) -> None:
    check(model, *inputs(2, 3, 3, 150, 150, 32))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("queries", "keys", "size"), [(64, 72, 20), (130, 333, 64), (64, 64, 80), (200, 64, 128)])
def test_sizes(queries: int, keys: int, size: int, dtype: torch.dtype) -> None:
    check(biased, *inputs(1, 2, 2, queries, keys, size, dtype), torch.randn(2, queries, keys).to(dtype))


@pytest.mark.parametrize("model", [plain, causal, late, capped])
def test_f32(model: Callable[..., Any]) -> None:
    check(model, *inputs(1, 2, 2, 100, 100, 32, torch.float32))


@pytest.mark.parametrize(("queries", "keys", "size"), [(64, 72, 20), (130, 200, 64), (64, 64, 80)])
def test_sizes_of_f32(queries: int, keys: int, size: int) -> None:
    check(biased, *inputs(1, 2, 2, queries, keys, size, torch.float32), torch.randn(2, queries, keys))


def test_f32_where_tf32_is_allowed() -> None:
    """16 bits, where tf32 has 11."""
    args = inputs(1, 2, 2, 64, 80, 32, torch.float32)
    backend = Interpreted(tf32=True)
    with torch.no_grad():
        ours = torch.compile(plain, backend=backend, fullgraph=True, dynamic=False)(*args)
    exact = plain(*(x.double() for x in args))
    assert backend.are_attention
    assert 1e-7 < (ours.double() - exact).norm() / exact.norm() < 2e-5


@pytest.mark.parametrize("groups", [1, 2])
def test_heads_share_keys(groups: int) -> None:
    check(shared, *inputs(2, 6, groups, 64, 80, 32))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("value", [-torch.inf, torch.nan, torch.inf])
def test_scores_that_are_not_finite(value: float, dtype: torch.dtype) -> None:
    """A row that sees nothing, or has a NaN, is NaN; one that sees something is not."""
    bias = torch.zeros(64, 80, dtype=dtype)
    bias[3], bias[5, 7], bias[9, :60] = value, value, -torch.inf
    check(biased, *inputs(1, 2, 2, 64, 80, 32, dtype), bias)


@pytest.mark.parametrize(("keys", "dtype"), [(80, torch.bfloat16), (200, torch.bfloat16), (200, torch.float32)])
def test_masks_of_the_least_number(keys: int, dtype: torch.dtype) -> None:
    """A row of nothing else has equal weights; one whose first keys are hidden has those of the others."""
    least = torch.finfo(dtype).min
    mask = torch.zeros(64, keys, dtype=dtype)
    mask[3], mask[:, :70] = least, least
    check(biased, *inputs(1, 2, 2, 64, keys, 32, dtype), mask)

    def filled(q: Tensor, k: Tensor, v: Tensor, hidden: Tensor) -> Tensor:
        return (q @ k.transpose(-1, -2) * 0.2).masked_fill(hidden, least).softmax(-1) @ v

    check(filled, *inputs(1, 2, 2, 64, keys, 32, dtype), mask < 0)


@pytest.mark.parametrize("kind", ["capped", "causal", "blind", "masked", "heads"])
def test_flex_attention(kind: str) -> None:
    """What is defined for rows that see nothing is 0."""

    def score(s: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        if kind == "capped":
            return 20 * torch.tanh(s / 20)
        return torch.where(i != 3 if kind == "blind" else j <= i, s, -torch.inf)

    def model(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if kind == "masked":
            mask = create_block_mask(lambda b, h, i, j: (j <= i) & (i - j < 40), None, None, 128, 128, device="cpu")
            return flex_attention(q, k, v, block_mask=mask)
        return flex_attention(q, k, v, score_mod=score, enable_gqa=kind == "heads")

    check(model, *inputs(2, 4, 2 if kind == "heads" else 4, 128, 128, 32))


def test_call_with_a_mask() -> None:
    """A query that sees nothing gives 0."""

    def model(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        if q.dtype is torch.double:
            return F.scaled_dot_product_attention(q, k, v, mask, scale=0.2)
        call = torch.ops.aten._scaled_dot_product_efficient_attention
        return call(q, k, v, mask, False, 0.0, False, scale=0.2)[0]

    q, k, v = inputs(2, 3, 3, 80, 72, 32)
    mask = torch.randn(2, 3, 80, 72).bfloat16().masked_fill(torch.rand(80, 72) < 0.3, -torch.inf)
    mask[:, :, 5] = -torch.inf
    captured = print_module(tiles.capture(model, *(x.to("meta") for x in (q, k, v, mask))).module)
    module = parse_module(captured.replace("device=meta", "device=cuda:0"))
    driver.run_passes(module, Interpreted().passes)
    ours = tiles.Program(module, (q, k, v, mask)).results[0]
    exact = model(*(x.double() for x in (q, k, v, mask)))
    assert (ours[:, :, 5] == 0).all() and (ours.double() - exact).norm() <= 4e-3 * exact.norm()


@pytest.mark.parametrize("is_causal", [False, True])
def test_call_in_f32(is_causal: bool) -> None:
    """Without a mask too."""

    def model(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        call = torch.ops.aten._scaled_dot_product_efficient_attention
        return call(q, k, v, None, False, 0.0, is_causal)[0]

    args = inputs(2, 3, 3, 80, 80, 32, torch.float32)
    captured = print_module(tiles.capture(model, *(x.to("meta") for x in args)).module)
    module = parse_module(captured.replace("device=meta", "device=cuda:0"))
    driver.run_passes(module, Interpreted().passes)
    ours = tiles.Program(module, args).results[0]
    q, k, v = (x.double() for x in args)
    exact = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
    assert (ours.double() - exact).norm() <= 1e-6 * exact.norm()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("model", [plain, in_f32, projected, three])
def test_torchs_kernel(model: Callable[..., Any], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is faster, with nothing but softmax between the products, it is called, in whatever layout."""
    monkeypatch.setattr(aten_fuse_attention, "is_torchs", lambda *_: True)
    args = inputs(2, 3, 3, 80, 72, 32, dtype)
    if model is three:
        args = [x.flatten(0, 1) for x in args]
    check(model, *args, attention=False, calls=True)


def test_what_is_no_such_kernel() -> None:
    """In f64, and where weights are something else than a softmax."""
    check(plain, *inputs(1, 2, 2, 64, 64, 32, torch.float64), attention=False)
    q, k, v = inputs(1, 2, 2, 64, 64, 32)
    check(lambda q, k, v: (q @ k.transpose(-1, -2) * 0.2).softmax(-1).square() @ v, q, k, v, attention=False)
    check(lambda q, k, v: (q @ k.transpose(-1, -2) * 0.2).sigmoid() @ v, q, k, v, attention=False)


def test_eagers_roundings() -> None:
    """With `numerics="eager"`, scores and weights are rounded where eager does: not in one loop."""
    backend = Interpreted(numerics="eager", products="all")
    q, k, v = inputs(1, 2, 2, 64, 64, 32)
    with torch.no_grad():
        ours = torch.compile(plain, backend=backend, fullgraph=True, dynamic=False)(q, k, v)
    assert not backend.are_attention
    torch.testing.assert_close(ours, plain(q, k, v), rtol=1e-2, atol=4e-3)


@pytest.mark.parametrize("scale", [1.0, 0.2])
def test_computed_in_f32(scale: float) -> None:
    """What torch's attention is without kernels of its own: all in f32, rounded at last."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def model(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, mask, scale=scale).transpose(1, 2).reshape(2, 80, 96)

    mask = torch.randn(1, 3, 80, 72).bfloat16().masked_fill(torch.rand(80, 72) < 0.3, -torch.inf)
    mask[:, :, 5] = -torch.inf
    with sdpa_kernel(SDPBackend.MATH):
        check(model, *inputs(2, 3, 3, 80, 72, 32), mask)
