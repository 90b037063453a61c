"""Steps of random programs as models have them: numbers beside tensors, sizes in arithmetic, division and shifts by
what is negative, regions of other modes, and functions of `torch.nn`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from .fuzz_steps import along, binary, unary
from .fuzz_values import MOVES, ROUGH, ROUNDS, Chooser, Line, Maker, Value, choose


def chosen(text: str, kinds: str, numbers: Any = MOVES) -> Maker:
    """`text` of `{x}` and a mask `{m}` that broadcasts to it."""

    def make(g: Chooser, values: Sequence[Value]) -> Line | None:
        x = choose(g, values, lambda v: v.kind in kinds)
        m = None if x is None else choose(g, values, lambda v: v.kind == "b" and _broadcasts(v.tensor, x.tensor))
        if x is None or m is None:
            return None
        return Line(text.replace("{x}", x.name).replace("{m}", m.name), (x, m), numbers)

    return make


def _broadcasts(t: torch.Tensor, to: torch.Tensor) -> bool:
    try:
        return torch.broadcast_shapes(t.shape, to.shape) == to.shape
    except RuntimeError:
        return False


def ranked(text: str, ranks: Sequence[int], kinds: str = "f", numbers: Any = ROUGH) -> Maker:
    """`text` of `{x}`, which has so many dims and no empty one."""

    def make(g: Chooser, values: Sequence[Value]) -> Line | None:
        x = choose(g, values, lambda v: v.kind in kinds and v.tensor.dim() in ranks and v.tensor.numel() > 0)
        return None if x is None else Line(text.replace("{x}", x.name), (x,), numbers)

    return make


def looked_up(text: str) -> Maker:
    """`text` of rows `{x}` and whole numbers `{i}`."""

    def make(g: Chooser, values: Sequence[Value]) -> Line | None:
        x = choose(g, values, lambda v: v.kind == "f" and v.tensor.dim() == 2 and v.tensor.numel() > 0)
        i = choose(g, values, lambda v: v.tensor.dtype == torch.int64 and v.tensor.dim() < 3)
        if x is None or i is None:
            return None
        return Line(text.replace("{x}", x.name).replace("{i}", i.name), (x, i), ROUGH)

    return make


# What the texts call


def autocast(f: Callable[..., torch.Tensor], *tensors: torch.Tensor) -> torch.Tensor:
    with torch.autocast(tensors[0].device.type, dtype=torch.bfloat16):
        return f(*tensors)


def without_grad(f: Callable[..., torch.Tensor], *tensors: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return f(*tensors)


def checkpointed(f: Callable[..., torch.Tensor], *tensors: torch.Tensor) -> Any:
    return checkpoint(f, *tensors, use_reentrant=False)


def batch_normed(x: torch.Tensor, training: bool) -> torch.Tensor:
    """With statistics, which are written in training; they are seen in the result."""
    mean, var = x.new_zeros(x.shape[1]), x.new_ones(x.shape[1])
    result = F.batch_norm(x, mean, var, training=training)
    dims = [1, -1] + [1] * (x.dim() - 2)
    return result + mean.view(dims) * var.view(dims)


def written_slices(x: torch.Tensor) -> torch.Tensor:
    """A result that is filled in parts, as decoders and masks are."""
    y = torch.zeros(x.shape[0] + 1, *x.shape[1:], dtype=x.dtype, device=x.device)
    y[1:] = x
    y[0] += 1
    y[::2] *= 2
    return y


def shape_branch(x: torch.Tensor) -> torch.Tensor:
    """A branch that a size decides."""
    if x.shape[0] > 4:
        return x[:4] * 2
    return torch.cat([x, x], 0)


def packed(x: torch.Tensor) -> torch.Tensor:
    """Through a dict, a tuple and a list."""
    held: dict[str, Any] = {"one": (x, x * 2), "rest": [x + 1]}
    held["rest"].append(held["one"][1].flip(0))
    first, second = held["one"]
    return first + second * held["rest"][-1]


_SIZES = ("{x}.shape[0]", "{x}.shape[0] // 2", "{x}.numel()", "(1 - {x}.shape[0])", "len({x})", "{x}.size(-1)")

USED: tuple[Maker, ...] = (
    # by what is negative, and shifts, whose numbers eager defines beyond the width too
    *(
        unary(f"{{x}} {op} {n}", "fi", jumps=True)
        for op, n in (("//", -3), ("%", -3), ("//", 2), ("%", 5), ("%", 2.5), ("//", -1.5))
    ),
    *(unary(f"{n} {op} ({{x}}.abs() + 1)", "i", jumps=True) for op, n in (("//", -7), ("%", -7), ("//", 9), ("%", 9))),
    binary("{x} // (-{y}.abs() - 1)", "i", jumps=True),
    binary("{x} % (-{y}.abs() - 1)", "i", jumps=True),
    binary("{x} // ({y} * 2 + 1)", "i", jumps=True),
    binary("{x} % ({y} * 2 + 1)", "fi", jumps=True),
    *(
        binary(f"torch.div({{x}}, {{y}} * 2 + 1, rounding_mode='{mode}')", "fi", jumps=True)
        for mode in ("floor", "trunc")
    ),
    binary("torch.fmod({x}, {y} * 2 + 1)", "fi", jumps=True),
    binary("{x} << {y}", "i", jumps=True),
    binary("{x} >> {y}", "i", jumps=True),
    *(
        unary(f"{{x}} {op}", "i", jumps=True)
        for op in ("<< 3", ">> 1", ">> 63", "<< 9", "** 3", "** 0", "& -2", "^ -1")
    ),
    unary("2 ** ({x} % 5)", "i", jumps=True),
    binary("{x} ** ({y} % 4)", "i", jumps=True),
    binary("torch.gcd({x}, {y})", "i", jumps=True, mixed=False),
    # numbers beside tensors, and dtypes that differ
    *(unary(text, "ib", ROUNDS) for text in ("{x} + 1.5", "{x} * 0.5", "{x} / 4", "2.5 - {x}.int()", "{x} * True")),
    *(unary(text, "fi") for text in ("1 / ({x}.abs() + 1)", "{x} * 0.1", "{x}.abs() ** 0.5", "2.0 ** -{x}.abs()")),
    *(binary(f"{{x}} {op} {{y}}", "fib", ROUNDS) for op in "+*"),
    binary("torch.maximum({x}, {y})", "fib", MOVES),
    binary("torch.clamp({x}, min={y})", "fi", MOVES),
    binary("torch.clamp({x}, max={y}, min={y} - 2)", "i", jumps=True),
    binary("{x}.to({y}.dtype) + {y}", "f"),
    binary("{x}.type_as({y})", "f", ROUNDS),
    chosen("torch.where({m}, {x}, 2.5)", "f"),
    chosen("torch.where({m}, {x}, 2)", "fi"),
    chosen("torch.where({m}, -1, {x})", "fi"),
    chosen("torch.where({m}, 1.5, {x})", "i"),
    unary("torch.where({x}, 1.0, 0.0)", "b", MOVES),
    unary("torch.where({x}, 3, -2)", "b", MOVES),
    chosen("{x}.masked_fill({m}, float('-inf'))", "f"),
    chosen("{x}.masked_fill({m}, -2)", "fi"),
    chosen("{x} * {m}", "fi", ROUNDS),
    chosen("{x}.masked_fill({m}, float('-inf')).softmax(-1)", "f", ROUGH),
    # sizes in arithmetic
    *(unary(f"{{x}} + {size}", "fi", ROUNDS) for size in _SIZES),
    *(unary(f"{{x}} / ({size}) ** 0.5", "f") for size in ("{x}.shape[-1]", "{x}.shape[0] + 1")),
    *(unary(f"{{x}}[{index}]", "fibc", MOVES) for index in (": {x}.shape[0] // 2", "{x}.shape[0] // 3 :", "..., None")),
    *(unary(f"{{x}}[{index}]", "fibc", MOVES) for index in ("-({x}.shape[0] // 2) :", "..., -1", "None, 0", "1::3")),
    unary("{x}.reshape({x}.shape[0], -1)", "fibc", MOVES),
    unary("{x}.view(*{x}.shape[:-1], -1, 1)", "fibc", MOVES),
    unary("torch.arange({x}.shape[0], device={x}.device) * 2 - {x}.shape[0]", "fib", MOVES),
    unary("torch.ones({x}.shape[::-1], device={x}.device).cumsum(0)", "fib", MOVES),
    unary("torch.full(({x}.shape[0], 2), {x}.shape[-1], device={x}.device)", "fib", MOVES),
    unary("torch.eye({x}.shape[0], device={x}.device)", "fib", MOVES),
    unary("{x}.new_full({x}.shape, 3)", "fi", MOVES),
    unary("torch.stack({x}.unbind(0)[::-1])", "fib", MOVES),
    unary("sum({x}.unbind(0), {x}.new_zeros(()))", "fi", ROUNDS),
    along("torch.cat({x}.split(2, {d})[::-1], {d})", "fib", MOVES),
    along("{x}.chunk(3, {d})[-1]", "fib", MOVES),
    along("{x}.unfold({d}, 2, 1)", "fib", MOVES),
    along("torch.atleast_2d({x}).mT", "fib", MOVES),
    unary("shape_branch({x})", "fi", ROUNDS),
    unary("written_slices({x})", "fi", ROUNDS),
    unary("packed({x})", "fi", ROUNDS),
    unary("{x}.tril(-1)", "fi", MOVES),
    unary("{x}.triu()", "fib", MOVES),
    unary("{x}[:, None] - {x}[None]", "fi", ROUNDS),
    unary("torch.einsum('...i,...j->...ij', {x}, {x})", "f"),
    # regions of other modes
    *(
        ranked(f"{mode}({f}, {{x}})", (1, 2, 3, 4))
        for mode in ("autocast", "without_grad", "checkpointed")
        for f in ("lambda a: a.mT @ a", "lambda a: (a.sin() * 2).softmax(-1)", "lambda a: a.sum(0) + a")
    ),
    ranked("autocast(lambda a: F.layer_norm(a @ a.mT, a.shape[-2:-1]), {x})", (2, 3)),
    # functions of torch.nn
    ranked("batch_normed({x}, True)", (2, 3, 4)),
    ranked("batch_normed({x}, False)", (2, 3, 4)),
    ranked("F.group_norm({x}, 1)", (3, 4)),
    ranked("F.instance_norm({x})", (3, 4)),
    ranked("F.linear({x}, {x}.reshape(-1, {x}.shape[-1])[:3])", (1, 2, 3, 4)),
    ranked("F.scaled_dot_product_attention({x}, {x} * 0.5, {x} + 1)", (3, 4)),
    ranked("F.scaled_dot_product_attention({x}, {x}, {x}, is_causal=True)", (3, 4)),
    ranked("F.cross_entropy({x}, {x}.new_zeros({x}.shape[0]).long())", (2,)),
    ranked("F.nll_loss({x}.log_softmax(1), {x}.new_ones({x}.shape[0]).long() * ({x}.shape[1] - 1))", (2,)),
    ranked("F.mse_loss({x}, {x}.flip(0))", (1, 2, 3)),
    ranked("F.normalize({x}, dim=-1)", (1, 2, 3)),
    ranked("F.cosine_similarity({x}, {x}.flip(0), dim=-1)", (1, 2, 3)),
    ranked("F.interpolate({x}, scale_factor=2)", (3, 4)),
    ranked("F.interpolate({x}, scale_factor=2, mode='bilinear')", (4,)),
    ranked("F.pad({x}, (1, 1), mode='reflect')", (2, 3)),
    ranked("F.pad({x}, (2, 0), mode='replicate')", (2, 3)),
    ranked("F.conv1d({x}, {x}.reshape(-1)[:1].expand(2, {x}.shape[1], 2))", (3,)),
    ranked("F.conv2d({x}, {x}.reshape(-1)[:1].expand(2, {x}.shape[1], 2, 1), padding=1)", (4,)),
    ranked("F.glu(torch.cat([{x}, {x}], -1))", (1, 2, 3)),
    ranked("{x}.nansum(-1)", (1, 2, 3), "f"),
    ranked("{x}.aminmax(dim=-1)[1]", (1, 2, 3), "fi", MOVES),
    ranked("{x}.bmm({x}.mT)", (3,)),
    ranked("torch.cdist({x}, {x} + 1)", (2, 3)),
    ranked("torch.outer({x}, {x})", (1,)),
    looked_up("F.embedding({i} % {x}.shape[0], {x})"),
    looked_up("{x}[{i} % {x}.shape[0]]"),
    looked_up("{x}[:, {i} % {x}.shape[1]]"),
    looked_up("F.embedding({i} % {x}.shape[0], {x}).mean(-2)"),
    looked_up("torch.zeros_like({x}).index_add(0, {i}.flatten() % {x}.shape[0], {x}[{i}.flatten() % {x}.shape[0]])"),
)
"""Of programs that go through torch.compile."""

HELPERS: dict[str, Any] = {
    f.__name__: f
    for f in (
        *(autocast, without_grad, checkpointed),
        *(batch_normed, written_slices, shape_branch, packed),
    )
}
"""What the texts call, by name."""
