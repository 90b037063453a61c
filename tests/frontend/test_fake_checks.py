"""Dtypes that eager does not take raise, where torch's tracing says nothing of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import lamella

X = torch.arange(12.0).view(4, 3)
WHOLE = X.long()
MASK = X > 4
I16 = torch.tensor([0, 1], dtype=torch.int16)

WRONG: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "mm": (lambda x, y: x @ y.t(), (X, WHOLE)),
    "mv": (lambda x, y: x.mv(y), (X, WHOLE[0])),
    "addmm": (lambda x, y: torch.addmm(y[:, :1], x, x.t()), (X, WHOLE)),
    "linear": (F.linear, (X, X.double())),
    "index_put": (lambda x, i, y: x.index_put((i,), y), (X, I16.long(), WHOLE[:2])),
    "index_put at i16": (lambda x, i: x.index_put((i,), x[:2]), (X, I16)),
    "index_select at i16": (lambda x, i: x.index_select(0, i), (X, I16)),
    "index_fill at i32": (lambda x, i: x.index_fill(0, i, 1.0), (X, I16.int())),
    "put at i32": (lambda x, i: x.put(i, x[0, :2]), (X, I16.int())),
    "put": (lambda x, i, y: x.put(i, y[0, :2]), (X, I16.long(), WHOLE)),
    "searchsorted": (lambda x, i: torch.searchsorted(x[0, :2], x, sorter=i), (X, I16.int())),
    "nll_loss at i32": (F.nll_loss, (X[:2], I16.int())),
    "multilabel_margin_loss at i32": (F.multilabel_margin_loss, (X, WHOLE.int() % 3)),
    "weights of nll_loss": (lambda x, i, w: F.nll_loss(x, i, w), (X[:2], I16.long(), WHOLE[0])),
    "layer_norm": (lambda x, w: F.layer_norm(x, [3], w), (X, X[0].double())),
    "layer_norm of halves": (lambda x, w: F.layer_norm(x, [3], w), (X.half(), X[0].bfloat16())),
    "group_norm": (lambda x, w: F.group_norm(x, 3, w), (X, WHOLE[0])),
    "batch_norm": (lambda x, m: F.batch_norm(x, m, m), (X, WHOLE[1])),
    "grid_sample": (lambda x, g: F.grid_sample(x[None, None], g, align_corners=True), (X, WHOLE.new_zeros(1, 2, 2, 2))),
    "heaviside": (torch.heaviside, (X, WHOLE)),
    "relu of truth values": (F.relu, (MASK,)),
    "gelu of integers": (F.gelu, (WHOLE,)),
    "rrelu of integers": (F.rrelu, (WHOLE,)),
    "a slope for integers": (lambda x: F.rrelu(x, training=True), (WHOLE,)),
    "a probability above 1": (lambda x: torch.bernoulli(x, 1.5), (X,)),
    "a probability below 0": (lambda x: x.bernoulli_(-0.5), (X.clone(),)),
    "dropout above 1": (lambda x: torch.native_dropout(x, 1.5, True), (X,)),
    "a range without numbers": (lambda x: x.uniform_(2.0, 1.0), (X.clone(),)),
    "a range that is too wide": (lambda x: x.uniform_(-3e38, 3e38), (X.clone(),)),
    "a side that is cut by more than there is": (lambda x: F.pad(x, (5, -4)), (X,)),
    "both sides that are cut": (lambda x: F.pad(x, (-2, -2, 4, 0)), (X,)),
    "softmax along no dim": (lambda x: x.softmax(2), (X,)),
    "sort along no dim": (lambda x: x.sort(-3).values, (X,)),
    "a row of no dim": (lambda x: x.select(-3, 0) * 2, (X,)),
    "dilation by 0": (lambda x: F.conv1d(x, x[:, :, None], dilation=0), (X[None, :3],)),
    **{f"{f.__name__} of integers": (f, (WHOLE, WHOLE)) for f in (torch.hypot, torch.logaddexp, torch.nextafter)},
    "frac of integers": (torch.frac, (WHOLE,)),
    "binary_cross_entropy of two dtypes": (F.binary_cross_entropy, (X / 12, X.double() / 12)),
    "abs of truth values": (torch.abs, (MASK,)),
    "softsign of truth values": (F.softsign, (MASK,)),
    "hardshrink of integers": (F.hardshrink, (WHOLE,)),
    "max_pool1d of integers": (lambda x: F.max_pool1d(x, 2), (WHOLE,)),
    "limits of truth values": (lambda m: m.clamp(m, m), (MASK,)),
    "sums that are truth values": (lambda x: x.cumsum(0, dtype=torch.bool), (X,)),
    "the largest truth value": (lambda m: m.argmax(0), (MASK,)),
    "boundaries of two dims": (lambda x: torch.bucketize(x, x), (X,)),
    "mvlgamma of order 0": (lambda x: torch.mvlgamma(x, 0), (X,)),
    "a negative beta": (lambda x: F.smooth_l1_loss(x, x + 1, beta=-1.0), (X,)),
    "dropout by nan": (lambda x: torch.dropout(x, math.nan, False), (X,)),
    "output padding of the stride": (lambda x: F.conv_transpose1d(x, x[:, None], output_padding=1), (X,)),
    "aminmax to another dtype": (lambda x, y: torch.aminmax(x, out=(y, y + 1)), (X, X.double()[0, 0])),
    "sort to another dtype": (lambda x, y, i: torch.sort(x, out=(y, i)), (X, X.double(), WHOLE.clone())),
    "round to another dtype": (lambda x, y: torch.round(x, out=y), (X, X.double())),
    "any to another dtype": (lambda x, y: torch.any(x, out=y), (X, X[0, 0].clone())),
    "gcd of floats": (torch.gcd, (X, X)),
    "topk of truth values": (lambda x: x.topk(2).values, (MASK,)),
    "negative powers": (lambda x: x**-1, (WHOLE,)),
    "a fraction of integers": (lambda x: torch.add(x, x, alpha=1.5), (MASK,)),
    "a number and a fraction of integers": (lambda x: torch.add(2, x, alpha=1.5), (WHOLE,)),
    "an average of i16": (lambda x: F.avg_pool2d(x[None], 2), (X.short(),)),
    **{
        f"{mode} pixels of {images.dtype}": (
            lambda x, m=mode: F.interpolate(x[None, None], size=(5, 5), mode=m),
            (images,),
        )
        for mode in ("nearest", "nearest-exact", "bilinear", "bicubic")
        for images in (MASK, WHOLE, X.short())
    },
    "floats less truth values": (lambda x, m: x - m, (X, MASK)),
    "truth values less a number": (lambda m: m - 1, (MASK,)),
    "a number less truth values": (lambda m: 1 - m, (MASK,)),
    "integers less a truth value": (lambda x: x - True, (WHOLE,)),
    "l1_loss of truth values": (F.l1_loss, (X, MASK)),
    "multilabel_soft_margin_loss of truth values": (F.multilabel_soft_margin_loss, (X, MASK)),
    "triplet_margin_loss of truth values": (F.triplet_margin_loss, (X, X, MASK)),
    "multi_margin_loss at i32": (F.multi_margin_loss, (X[:2], I16.int())),
    "multi_margin_loss of integers": (F.multi_margin_loss, (WHOLE[:2], I16.long())),
    "weights of multi_margin_loss": (
        lambda x, i, w: F.multi_margin_loss(x, i, weight=w),
        (X[:2], I16.long(), WHOLE[0]),
    ),
    "grid_sample of integers": (
        lambda x: F.grid_sample(x[None, None], x.new_zeros(1, 2, 2, 2), align_corners=True),
        (WHOLE,),
    ),
    "conjunction of floats": (torch.bitwise_and, (X, X)),
    "disjunction of floats": (torch.bitwise_or, (X, X)),
    "searchsorted of truth values": (lambda m: torch.searchsorted(m[0], m[0]), (MASK,)),
    "bucketize of truth values": (lambda m: torch.bucketize(m, m[0]), (MASK,)),
    **{
        f"{f.__name__} of truth values": (f, (MASK,))
        for f in (torch.ceil, torch.floor, torch.trunc, torch.round, torch.trace, torch.nanmedian)
    },
    **{f"{f.__name__} of truth values": (f, (MASK,)) for f in (F.hardswish, F.hardsigmoid)},
    "kthvalue of truth values": (lambda m: m.kthvalue(1).values, (MASK,)),
    "lerp of integers": (lambda x: torch.lerp(x, x, 0.5), (WHOLE,)),
    "prelu of integers": (lambda x: F.prelu(x, x[0, :1]), (WHOLE,)),
    "adaptive_max_pool of integers": (lambda x: F.adaptive_max_pool2d(x[None], 2), (WHOLE,)),
    "unfold of integers": (lambda x: F.unfold(x[None, None], 2), (WHOLE,)),
    "fold of integers": (lambda x: F.fold(x[None, :, :2], (2, 3), 2), (WHOLE,)),
    **{
        f"{reduce} of truth values without those that were there": (
            lambda m, i, r=reduce: m.index_reduce(0, i, m[:2], r, include_self=False),
            (MASK, I16.long()),
        )
        for reduce in ("prod", "amax", "amin")
    },
    **{
        f"{name} of {dtype}": (f, (X[:2, :2].to(dtype), I16.long()))
        for dtype in (torch.uint16, torch.uint32, torch.uint64)
        for name, f in {
            "gather": lambda x, i: x.gather(0, i[None]),
            "scatter": lambda x, i: x.scatter(0, i[None], x),
            "scatter_add": lambda x, i: x.scatter_add(0, i[None], x),
            "scatter_reduce": lambda x, i: x.scatter_reduce(0, i[None], x, "amax"),
            "index_add": lambda x, i: x.index_add(0, i, x),
            "index_reduce": lambda x, i: x.index_reduce(0, i, x, "amax"),
            "index_copy": lambda x, i: x.index_copy(0, i, x),
            "index_put": lambda x, i: x.index_put((i,), x),
            "index_fill": lambda x, i: x.index_fill(0, i, 1),
            "masked_fill": lambda x, i: x.masked_fill(i > 0, 1),
            "masked_scatter": lambda x, i: x.masked_scatter(i > 0, x),
            "take": lambda x, i: x.take(i),
            "put": lambda x, i: x.put(i, x[0]),
            "tril": lambda x, i: x.tril(),
        }.items()
    },
    **{
        f"{name} of f8": (f, (X[:2, :2].to(torch.float8_e4m3fn), I16.long()))
        for name, f in {
            "gather": lambda x, i: x.gather(0, i[None]),
            "scatter": lambda x, i: x.scatter(0, i[None], x),
            "take": lambda x, i: x.take(i),
            "index_copy": lambda x, i: x.index_copy(0, i, x),
        }.items()
    },
    **{
        f"{name} of integers": (f, (WHOLE,))
        for name, f in {
            **{f.__name__: f for f in (F.silu, F.mish, F.celu, F.glu, F.softplus, F.logsigmoid)},
            **{f.__name__: f for f in (F.hardsigmoid, F.hardswish, F.hardshrink)},
            "a safe softmax": lambda x: torch.ops.aten._safe_softmax(x, 1),
            "binary_cross_entropy": lambda x: F.binary_cross_entropy(x, x),
            "soft_margin_loss": lambda x: F.soft_margin_loss(x, x),
            "batch_norm": lambda x: F.batch_norm(x, x[1], x[1]),
        }.items()
    },
    "bits of floats": (torch.bitwise_not, (X,)),
    "bits of a float that is a tensor": (lambda x, y: x ^ y[0, 0], (WHOLE, X)),
    "a cross product of two dtypes": (torch.linalg.cross, (X, WHOLE)),
    "a sum of products of two dtypes": (
        lambda x, y: torch.addbmm(x, y[:, :, None], y[:, None, :]),
        (X[:3], X.double()),
    ),
    "an order of dtypes that have none in common": (torch.lt, (X.to(torch.uint32), WHOLE)),
    "rounded quotients of truth values": (lambda x: torch.div(x, x, rounding_mode="trunc"), (MASK,)),
    "a matrix of indices": (lambda x, i: x.index_select(0, i[None]), (X, I16.long())),
    "products at a matrix of indices": (lambda x, i: x.index_reduce(0, i[None], x[:2], "prod"), (X, I16.long())),
    "distances of integers": (F.pdist, (WHOLE,)),
    "a median of nothing": (lambda x: x[:, :0].nanmedian(1), (X,)),
    "a weight for all channels": (lambda x: F.batch_norm(x, None, None, x[0, 0], training=True), (X,)),
    "a weight of too few channels": (lambda x: F.group_norm(x, 3, x[0, :1]), (X,)),
    "a shift that no list of sizes takes": (lambda x: x.roll(-(2**63)), (X,)),
    "a range that wraps around": (lambda x: torch.arange(-(2**63), 0, 2**62) + x[0, 0], (X,)),
    "a line of bytes": (lambda x: F.interpolate(x[None], size=5, mode="linear"), (X.byte(),)),
}
RIGHT: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "layer_norm": (lambda x, w: F.layer_norm(x, [3], w, w), (X.bfloat16(), X[0])),
    "batch_norm": (lambda x, m: F.batch_norm(x, m, m), (X.bfloat16(), X[1])),
    "group_norm": (lambda x: F.group_norm(x, 3), (X.double(),)),
    "nll_loss": (lambda x, i: F.nll_loss(x, i), (X[:2], I16.long())),
    "index_put": (lambda x, i: x.index_put((i,), x[:2]), (X, I16.int())),
    "powers": (lambda x: x**2 + x.double() ** -1, (WHOLE,)),
    "sums": (lambda x, y: torch.add(x, y, alpha=2) + torch.add(x, 1, alpha=2), (WHOLE, MASK)),
    "a number and a fraction of truth values": (lambda x: torch.add(0.25, x, alpha=0.75), (MASK,)),
    "integers and a fraction of a number": (lambda x: torch.add(x, 0.25, alpha=0.75), (WHOLE,)),
    "rounded quotients of a number": (
        lambda x: 9 // (x.abs() + 1) + torch.div(7, x.abs() + 1, rounding_mode="trunc"),
        (WHOLE,),
    ),
    "gcd": (torch.gcd, (WHOLE, WHOLE.int())),
    "differences": (lambda x, y: x - y - 1 - (2 - x), (X, WHOLE)),
    "searchsorted": (lambda x, m: torch.searchsorted(x[0], m[0]), (X, MASK)),
    "unsigned integers that are a number": (lambda x: x == 2, (WHOLE.to(torch.uint16),)),
    "sums at an index that is a number": (lambda x, i: x[0].index_add(0, i[0], x[0, :1]), (X, I16.long())),
    "conjunction": (lambda x, m: (x & m) | 2, (WHOLE, MASK)),
    "unfold of truth values": (lambda m: F.unfold(m[None, None], 2), (MASK,)),
    "multi_margin_loss": (lambda x, i: F.multi_margin_loss(x, i, weight=x[0]), (X[:2], I16.long())),
    "padding": (lambda x: F.pad(F.pad(x, (-3, 1, -1, -3)), ()), (X,)),
    "along a number": (lambda x: x[0, 0].softmax(-1) + x[0, 0].log_softmax(0) + x[0, 0].sort(-1).values, (X,)),
    "results of another dtype": (lambda x: torch.add(x, 1, out=x.new_empty(4, 3, dtype=torch.float64)), (X,)),
    "results": (lambda x: torch.amax(x, 0, out=x.new_empty(3)), (X,)),
    "output padding": (
        lambda x: F.conv_transpose1d(x, x[:, None, :3], stride=2, output_padding=1),
        (X.t().contiguous(),),
    ),
    "losses of two dtypes": (
        lambda x, y: (
            F.mse_loss(x, y) + F.smooth_l1_loss(y, x.bfloat16()) + F.binary_cross_entropy_with_logits(y.float(), x)
        ),
        (X, X.double() / 12),
    ),
    "limits": (lambda m: m.clamp(max=m), (MASK,)),
    "no dropout": (lambda x: torch.dropout(x, 1.0, False) * 2, (X,)),
    "isinf of truth values": (torch.isinf, (MASK,)),
    "triangles without elements": (lambda x: (x.tril(), x.triu()), (X[:0].to(torch.uint16),)),
    "the largest shifts": (lambda x: x.roll(-(2**62)) + x.roll((2**63 - 1, 1), (0, 1)), (X,)),
    "ranges of large numbers": (
        lambda x: (torch.arange(2**63 - 3, 2**63 - 1), torch.arange(-(2**63), 2**63 - 1, 2**62, dtype=x.dtype)),
        (X,),
    ),
    "products": (lambda x, y: torch.addmm(x[0, 0], x, y.t()), (WHOLE, WHOLE)),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_eager_does_not_take_raises(name: str) -> None:
    f, given = WRONG[name]
    with pytest.raises((RuntimeError, IndexError)) as theirs:
        f(*given)
    torch._dynamo.reset()
    with pytest.raises(type(theirs.value)):
        lamella.compile(f)(*given)


@pytest.mark.parametrize("name", RIGHT)
def test_what_eager_takes_is_compiled(name: str) -> None:
    """Not given back to torch as a whole."""
    f, given = RIGHT[name]
    torch._dynamo.reset()
    told = lamella.explain(f, *given)
    assert "eager" not in str(told).split("compiled in")[0], str(told)
    torch.testing.assert_close(lamella.compile(f, fullgraph=True)(*given), f(*given))


def test_a_range_that_wraps_around_to_none() -> None:
    def f(x: Tensor) -> Tensor:
        return torch.arange(-(2**63), 2**63 - 1, 2**62) + x

    x = torch.tensor(1)
    torch._dynamo.reset()
    assert f(x).numel() == 0
    assert torch.equal(lamella.compile(f)(x), f(x))
