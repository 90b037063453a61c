"""Writes of random programs of the widest kind: at places that repeat, of what is written itself, of other dtypes, into
what `out=` resizes, and several tensors at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..frontend.overlap import overlap
from .fuzz_steps import unary
from .fuzz_values import MOVES, ROUGH, ROUNDS, Chooser, Line, Maker, Numbers, Value, choose
from .fuzz_writes import apart, into, out, writable

_foreach: Any = torch
_ROWS = "torch.tensor([0, -1, 0, 0])"
_ONCE = "torch.tensor([-1])"


def _like(x: Value, others: Sequence[Value], g: Chooser, shape: torch.Size) -> Value | None:
    """One of its dtype, in memory of its own, that broadcasts to that shape."""

    def fits(v: Value) -> bool:
        if v.tensor.dtype != x.tensor.dtype or overlap(x.tensor, v.tensor):
            return False
        try:
            return torch.broadcast_shapes(v.tensor.shape, shape) == shape
        except RuntimeError:
            return False

    return choose(g, others, fits)


def rows(text: str, kinds: str, numbers: Numbers, index: str = _ROWS) -> Maker:
    """`{x}` written at rows `{i}`, of `{y}`, which broadcasts to them, or of no other."""

    def make(g: Chooser, values: Sequence[Value]) -> Line | None:
        x = choose(g, values, lambda v: v.kind in kinds and v.tensor.numel() > 0 < v.tensor.dim() and writable(v))
        if x is None:
            return None
        filled = text.replace("{x}", x.name).replace("{i}", index)
        if "{y}" not in text:
            return Line(filled, (x,), numbers, writes=True)
        y = _like(x, values, g, x.tensor[eval(index)].shape)
        return None if y is None else Line(filled.replace("{y}", y.name), (x, y), numbers, writes=True)

    return make


def spread(text: str, kinds: str, numbers: Numbers) -> Maker:
    """`{x}` written along `{d}` at places `{i}`, several of them the same, for each element of `{y}`, of its shape."""

    def make(g: Chooser, values: Sequence[Value]) -> Line | None:
        x = choose(g, values, lambda v: v.kind in kinds and v.tensor.numel() > 0 < v.tensor.dim() and writable(v))
        y = None if x is None else _like(x, values, g, x.tensor.shape)
        if x is None or y is None or y.tensor.shape != x.tensor.shape:
            return None
        d = g.below(x.tensor.dim())
        places = f"(torch.arange({x.name}.numel()).view({x.name}.shape) * 7 % {x.name}.shape[{d}])"
        filled = text.replace("{x}", x.name).replace("{y}", y.name).replace("{d}", str(d))
        return Line(filled.replace("{i}", places), (x, y), numbers, writes=True)

    return make


def own(text: str, kinds: str, numbers: Numbers = ROUNDS, rank: int = 1, *, jumps: bool = False) -> Maker:
    """`{x}`, and `{d}`, a dim of it, written with what is made of itself."""

    def make(g: Chooser, values: Sequence[Value]) -> Line | None:
        x = choose(
            g,
            values,
            lambda v: v.kind in kinds and v.tensor.dim() >= rank and writable(v) and (v.exact or not jumps),
        )
        if x is None:
            return None
        d = g.below(max(x.tensor.dim(), 1))
        return Line(text.replace("{x}", x.name).replace("{d}", str(d)), (x,), numbers, writes=True)

    return make


def beside(text: str, kinds: str, numbers: Numbers, fits: Callable[[Value, Value], bool]) -> Maker:
    """`{x}` written with `{y}`, one that fits it."""

    def make(g: Chooser, values: Sequence[Value]) -> Line | None:
        x = choose(g, values, lambda v: v.kind in kinds and writable(v))
        y = None if x is None else choose(g, values, lambda v: fits(x, v))
        if x is None or y is None:
            return None
        return Line(text.replace("{x}", x.name).replace("{y}", y.name), (x, y), numbers, writes=True)

    return make


def both(text: str, kinds: str) -> Maker:
    """`{x}` and `{y}` of one shape and dtype, both written."""

    def fits(x: Value, y: Value) -> bool:
        same = x.tensor.shape == y.tensor.shape and x.tensor.dtype == y.tensor.dtype and x.exact == y.exact
        return same and writable(y) and not overlap(x.tensor, y.tensor)

    return beside(text, kinds, MOVES, fits)


def cast(text: str, kinds: str, of: str) -> Maker:
    """`{x}` written with `{y}` of another dtype, of kinds that it takes."""

    def fits(x: Value, y: Value) -> bool:
        try:
            shape = torch.broadcast_shapes(x.tensor.shape, y.tensor.shape)
        except RuntimeError:
            return False
        other = y.kind in of and y.tensor.dtype != x.tensor.dtype
        return other and shape == x.tensor.shape and apart(x.tensor, y.tensor)

    return beside(text, kinds, ROUNDS, fits)


# What the texts call


def raised(x: torch.Tensor, index: Any, by: Any) -> torch.Tensor:
    x[index] += by
    return x


def swapped(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    kept = x.clone()
    x.copy_(y)
    y.copy_(kept)
    return x


def foreach_written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    _foreach._foreach_mul_([x, y], 2)
    _foreach._foreach_neg_([y])
    return x


def accumulated(x: torch.Tensor) -> torch.Tensor:
    """Into parts of a buffer, again and again."""
    buffer = x.new_zeros(2, *x.shape)
    for i in range(3):
        buffer[i % 2] += x * i
    return buffer


def rolled(x: torch.Tensor) -> torch.Tensor:
    """A cache that is moved on in place, and its end replaced."""
    cache = x.clone()
    for i in range(2):
        cache[:-1] = cache[1:].clone()
        cache[-1] = i
    return cache


HELPERS: dict[str, Any] = {f.__name__: f for f in (raised, swapped, foreach_written, accumulated, rolled)}

WIDE_WRITES: tuple[Maker, ...] = (
    # places that repeat
    rows("{x}.index_put_(({i},), {y}, accumulate=True)", "f", ROUGH),
    rows("{x}.index_put_(({i},), {y}, accumulate=True)", "i", MOVES),
    rows("{x}.index_put_(({i},), {y})", "fibc", MOVES, _ONCE),
    rows("{x}.index_add_(0, {i} % {x}.shape[0], {x}[{i}].clone(), alpha=2)", "f", ROUGH),
    rows("{x}.index_add_(0, {i} % {x}.shape[0], {x}[{i}].clone(), alpha=2)", "i", MOVES),
    rows("put({x}, {i}, 2)", "fibc", MOVES),
    rows("raised({x}, {i}, 1)", "fic", ROUNDS),
    rows("raised({x}, {i}, {y})", "fic", ROUNDS, _ONCE),
    rows("{x}.put_({i}.flatten(), {x}.take({i}).clone(), accumulate=True)", "fi", ROUNDS, _ONCE),
    rows("{x}.index_fill_(0, {i} % {x}.shape[0], 3)", "fibc", MOVES),
    rows("{x}.index_reduce_(0, {i} % {x}.shape[0], {x}[{i}].clone(), 'amax')", "fi", MOVES),
    rows("{x}.index_reduce_(0, {i} % {x}.shape[0], {x}[{i}].clone(), 'mean', include_self=False)", "f", ROUGH),
    rows("put({x}, (..., {i}), 1)", "fibc", MOVES),
    spread("{x}.scatter_add_({d}, {i}, {y})", "f", ROUGH),
    spread("{x}.scatter_add_({d}, {i}, {y})", "i", MOVES),
    spread("{x}.scatter_reduce_({d}, {i}, {y}, 'amax')", "fi", MOVES),
    spread("{x}.scatter_reduce_({d}, {i}, {y}, 'amin', include_self=False)", "fi", MOVES),
    spread("{x}.scatter_reduce_({d}, {i}, {y}, 'mean', include_self=False)", "f", ROUGH),
    spread("{x}.scatter_reduce_({d}, {i}, {y}, 'prod')", "i", MOVES),
    spread("{x}.scatter_({d}, {i}, 2)", "fi", MOVES),
    spread("{x}.scatter_({d}, {i}, 1, reduce='add')", "i", MOVES),
    # of what is written itself
    own("{x}.masked_fill_({x} > 0, 2)", "fi", MOVES, jumps=True),
    own("put({x}, {x} < 1, 1)", "fi", MOVES, jumps=True),
    own("{x}.masked_scatter_({x} > 0, {x}.flip(0))", "fi", MOVES, jumps=True),
    own("{x}.copy_({x}.flip({d}))", "fibc", MOVES),
    own("{x}.mul_({x})", "fi", rank=0),
    own("{x}.add_({x}.sum({d}, keepdim=True))", "f", ROUGH),
    own("{x}.sub_({x}.amax({d}, keepdim=True))", "fi"),
    own("put({x}, slice(1, None), {x}[:-1].clone())", "fibc", MOVES),
    own("put({x}, 0, {x}.sum(0))", "f", ROUGH),
    own("put({x}, (..., 0), {x}[..., -1])", "fibc", MOVES),
    own("raised({x}, slice(None, None, 2), 1)", "fic"),
    own("raised({x}, (..., slice(1, None)), 2)", "fic"),
    own("{x}.cumsum_({d})", "f", ROUGH),
    own("{x}.cumsum_({d})", "i", MOVES),
    own("{x}.tril_()", "fi", MOVES, 2),
    own("{x}.triu_(1)", "fi", MOVES, 2),
    own("{x}.fill_diagonal_(2)", "fi", MOVES, 2),
    own("{x}.renorm_(2, {d}, 2.0)", "f", ROUGH, 2),
    own("{x}.view(-1).mul_(2).view({x}.shape)", "fic", ROUNDS, 0),
    own("{x}.flatten().add_(1)", "fic"),
    own("{x}.detach().add_(1)", "fic", ROUNDS, 0),
    own("{x}.unsqueeze(0).squeeze(0).neg_()", "fic", MOVES, 0),
    own("{x}.t_()", "fibc", MOVES, 2),
    own("{x}.swapaxes_(0, -1)", "fibc", MOVES, 2),
    own("{x}.squeeze_({d})", "fibc", MOVES),
    own("{x}.unsqueeze_(-1).add_(1)", "fic"),
    own("torch.relu_({x})", "fi", MOVES, 0),
    own("{x}.real.mul_(2)", "c", ROUNDS, 0),
    own("torch.view_as_real({x}).neg_()", "c", MOVES, 0),
    own("{x}.logical_not_()", "fib", MOVES, 0, jumps=True),
    own("{x}.bitwise_not_()", "ib", MOVES, 0),
    # by functions, and of other dtypes
    *(into(f"{{p}}.{f}", "f", ROUGH) for f in ("exp_()", "tanh_()", "sin_()", "rsqrt_()", "pow_(2)", "div_(3)")),
    into("{p}.abs_().sqrt_()", "f", ROUGH),
    into("{p}.abs_()", "fi", MOVES),
    into("{p}.clamp_min_(0)", "fi", MOVES),
    into("{p}.add_({y}, alpha=2)", "fi"),
    into("{p}.div_({y}.abs() + 1)", "f", ROUGH),
    into("{p}.lerp_({y}, 0.25)", "f", ROUGH, alike=True),
    into("{p}.addcmul_({y}, {y}, value=2)", "f", ROUGH, alike=True),
    into("{p}.floor_divide_(2)", "i", MOVES),
    into("{p}.remainder_(3)", "i", MOVES),
    into("{p}.bitwise_left_shift_(1)", "i", MOVES),
    into("{p}.masked_fill_({p} == 0, 2)", "i", MOVES),
    cast("{x}.copy_({y})", "f", "fib"),
    cast("{x}.copy_({y})", "c", "fib"),
    cast("{x}.copy_({y})", "i", "b"),
    cast("{x}.add_({y})", "f", "fib"),
    cast("{x}.mul_({y})", "f", "fib"),
    cast("{x}.mul_({y})", "i", "ib"),
    cast("put({x}, ..., {y})", "f", "ib"),
    # by `out=`
    out("torch.cat([{x}, {y}], out=torch.empty(0, dtype={x}.dtype))", "fibc", MOVES),
    out("torch.stack([{x}, {y}], out=torch.empty(0, dtype={x}.dtype))", "fibc", MOVES),
    out("torch.mul({x}, {y}, out=torch.empty({x}.shape, dtype=torch.float64))", "fi"),
    out(
        "torch.sub({x}, {y}, out=torch.empty({x}.shape[::-1], dtype={x}.dtype).permute(*range({x}.dim() - 1, -1, -1)))",
        "fi",
    ),
    out("torch.sum({x}, 0, out=torch.empty({x}.shape[1:], dtype={x}.dtype))", "f", ROUGH),
    out("torch.max({x}, 0, out=({x}[0].clone(), torch.empty({x}.shape[1:], dtype=torch.int64)))[0]", "fi", MOVES),
    out("torch.cumsum({x}, 0, out={z})", "f", ROUGH),
    out("torch.clamp({x}, -1, 2, out={z})", "fi", MOVES),
    out("torch.where({x} == {x}, {x}, {y}, out={z})", "i", MOVES),
    out("torch.lerp({x}, {y}, 0.5, out={z})", "f", ROUGH),
    out("torch.sigmoid({x}, out={z})", "f", ROUGH),
    out("torch.div({x}, {y}.abs() + 1, out={z})", "f", ROUGH),
    out("torch.index_select({x}, 0, torch.tensor([0, 0]), out=torch.empty(0, dtype={x}.dtype))", "fibc", MOVES),
    # several
    both("swapped({x}, {y})", "fibc"),
    both("foreach_written({x}, {y})", "f"),
    unary("accumulated({x})", "fic", ROUNDS),
    unary("rolled({x})", "fic", MOVES),
)
