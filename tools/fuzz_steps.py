"""The steps of random programs: a line of Python over earlier values for each, whatever their shapes."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .fuzz_values import (
    MOVES,
    ROUGH,
    ROUNDS,
    Chooser,
    Line,
    Maker,
    Numbers,
    Value,
    choose,
    choose_any,
    of_kinds,
    partner,
)


def unary(text: str, kinds: str, numbers: Numbers = ROUGH, *, jumps: bool = False) -> Maker:
    """`text` with `{x}` for the operand."""

    def make(g: Chooser, values: Sequence[Value]) -> Line | None:
        x = choose(g, values, of_kinds(kinds, jumps))
        return None if x is None else Line(text.replace("{x}", x.name), (x,), MOVES if jumps else numbers)

    return make


def binary(text: str, kinds: str, numbers: Numbers = ROUGH, *, jumps: bool = False, mixed: bool = True) -> Maker:
    """`text` with `{x}` and `{y}` for operands that broadcast; of one dtype unless `mixed`."""

    def make(g: Chooser, values: Sequence[Value]) -> Line | None:
        a = choose(g, values, of_kinds(kinds, jumps))
        b = None if a is None else partner(g, a, values, kinds, jumps)
        if a is None or b is None or (not mixed and a.tensor.dtype != b.tensor.dtype):
            return None
        return Line(text.replace("{x}", a.name).replace("{y}", b.name), (a, b), MOVES if jumps else numbers)

    return make


def along(text: str, kinds: str, numbers: Numbers = ROUGH, *, jumps: bool = False, empty: bool = True) -> Maker:
    """`text` with `{d}` for a dim of the operand and `{k}` for whether it is kept; no `empty` ones if they raise."""

    def make(g: Chooser, values: Sequence[Value]) -> Line | None:
        x = choose(g, values, of_kinds(kinds, jumps, 1))
        if x is None:
            return None
        d = g.below(x.tensor.dim())
        if not empty and x.tensor.shape[d] == 0:
            return None
        filled = text.replace("{x}", x.name).replace("{d}", str(d - x.tensor.dim() * g.below(2)))
        return Line(filled.replace("{k}", str(bool(g.below(2)))), (x,), MOVES if jumps else numbers)

    return make


# Views and moves, of any dtype


def permute(g: Chooser, values: Sequence[Value]) -> Line | None:
    x = choose_any(g, values, 2)
    if x is None:
        return None
    order = list(range(x.tensor.dim()))
    for i in range(len(order) - 1):
        j = i + g.below(len(order) - i)
        order[i], order[j] = order[j], order[i]
    return Line(f"{x.name}.permute({order})", (x,))


def reshape(g: Chooser, values: Sequence[Value]) -> Line | None:
    x = choose_any(g, values)
    if x is None:
        return None
    n = x.tensor.numel()
    shapes = [[-1]] if n else [[n]]
    shapes += [[d, n // d] for d in (2, 3, 4, 5, 6, 8) if n and n % d == 0]
    shapes += [[2, d, n // d // 2] for d in (2, 3) if n and n % (2 * d) == 0]
    return Line(f"{x.name}.reshape({g.pick(shapes)})", (x,))


def slice_(g: Chooser, values: Sequence[Value]) -> Line | None:
    x = choose_any(g, values, 1)
    if x is None:
        return None
    index = [":"] * x.tensor.dim()
    d = g.below(len(index))
    n = x.tensor.shape[d]
    start = g.below(n + 1) - (n if g.chance(3) else 0)
    index[d] = f"{start}:" + (f"{g.below(n + 1)}" if g.chance(3) else "") + f":{1 + g.below(3)}"
    return Line(f"{x.name}[{', '.join(index)}]", (x,))


def select(g: Chooser, values: Sequence[Value]) -> Line | None:
    x = choose_any(g, values, 1)
    if x is None:
        return None
    d = g.below(x.tensor.dim())
    n = x.tensor.shape[d]
    return Line(f"{x.name}.select({d}, {g.below(n) - n * g.below(2)})", (x,)) if n else None


def unsqueeze(g: Chooser, values: Sequence[Value]) -> Line | None:
    x = choose(g, values, lambda v: v.tensor.dim() < 5)
    return None if x is None else Line(f"{x.name}.unsqueeze({g.below(x.tensor.dim() + 1)})", (x,))


def expand(g: Chooser, values: Sequence[Value]) -> Line | None:
    x = choose(g, values, lambda v: v.tensor.dim() < 4 and v.tensor.numel() <= 512)
    return None if x is None else Line(f"{x.name}.expand({[1 + g.below(4), *x.tensor.shape]})", (x,))


def joined(text: str) -> Maker:
    def make(g: Chooser, values: Sequence[Value]) -> Line | None:
        x = choose(g, values, lambda v: 0 < v.tensor.dim() < 5 and v.tensor.numel() <= 2048)
        if x is None:
            return None
        y = choose(g, values, lambda v: v.tensor.shape == x.tensor.shape)
        assert y is not None
        d = g.below(x.tensor.dim())
        numbers = MOVES if x.tensor.dtype == y.tensor.dtype else ROUGH
        return Line(text.format(x=x.name, y=y.name, d=d), (x, y), numbers)

    return make


def pad(g: Chooser, values: Sequence[Value]) -> Line | None:
    x = choose(g, values, lambda v: v.tensor.dim() >= 1 and v.tensor.shape[-1] > 0)
    if x is None:
        return None
    low, high = g.below(3), g.below(4) - 1
    if x.tensor.shape[-1] + low + high <= 0:
        return None
    value = 0 if x.kind == "b" else g.below(3)
    return Line(f"F.pad({x.name}, ({low}, {high}), value={value})", (x,))


def convert(g: Chooser, values: Sequence[Value]) -> Line | None:
    x = choose_any(g, values)
    if x is None:
        return None
    floats = ("float32", "float64", "bfloat16", "float16")
    whole = ("int64", "int32", "int16", "int8", "uint8", "bool")
    # what an integer does not hold is undefined, and what is rough may be on either side of a step
    fits = x.kind != "f" or (x.exact and bool((x.tensor.abs() < 100).all() and (x.tensor >= 0).all()))
    dtype = g.pick(floats + whole if fits else floats)
    return Line(f"{x.name}.to(torch.{dtype})", (x,), ROUNDS)


# Indexing


def _index(g: Chooser, count: int, below: int) -> str:
    """Positions below that number, as text."""
    return f"torch.tensor({[g.below(below) for _ in range(count)]})"


def index_select(g: Chooser, values: Sequence[Value]) -> Line | None:
    x = choose(g, values, lambda v: v.tensor.dim() >= 1 and v.tensor.numel() > 0)
    if x is None:
        return None
    d = g.below(x.tensor.dim())
    return Line(f"{x.name}.index_select({d}, {_index(g, 1 + g.below(5), x.tensor.shape[d])})", (x,))


def index(g: Chooser, values: Sequence[Value]) -> Line | None:
    x = choose(g, values, lambda v: v.tensor.dim() >= 2 and v.tensor.numel() > 0)
    if x is None:
        return None
    n, m = x.tensor.shape[:2]
    count = 1 + g.below(4)
    first, second = _index(g, count, n), _index(g, count, m)
    return Line(f"{x.name}[{g.pick([first, f'{first}, {second}', f':, {second}'])}]", (x,))


def gather(g: Chooser, values: Sequence[Value]) -> Line | None:
    """Positions from data: remainders of integers."""
    x = choose(g, values, lambda v: v.tensor.dim() >= 1 and v.tensor.numel() > 0)
    i = (
        None
        if x is None
        else choose(g, values, lambda v: v.tensor.dtype is torch.int64 and v.tensor.dim() == x.tensor.dim())
    )
    if x is None or i is None:
        return None
    d = g.below(x.tensor.dim())
    if any(a > b for k, (a, b) in enumerate(zip(i.tensor.shape, x.tensor.shape, strict=True)) if k != d):
        return None
    return Line(f"{x.name}.gather({d}, {i.name} % {x.tensor.shape[d]})", (x, i))


def scatter(text: str, kinds: str, numbers: Numbers, *, once: bool = False) -> Maker:
    """Slices of one value written into another of its shape; each place `once` where their order would matter."""

    def make(g: Chooser, values: Sequence[Value]) -> Line | None:
        x = choose(g, values, lambda v: v.kind in kinds and v.tensor.dim() >= 1 and v.tensor.numel() > 0)
        y = (
            None
            if x is None
            else choose(g, values, lambda v: v.tensor.shape == x.tensor.shape and v.tensor.dtype == x.tensor.dtype)
        )
        if x is None or y is None:
            return None
        d = g.below(x.tensor.dim())
        n = x.tensor.shape[d]
        places = f"torch.tensor({list(reversed(range(n)))})" if once else _index(g, n, n)
        return Line(text.format(x=x.name, y=y.name, d=d, i=places), (x, y), numbers)

    return make


def where(g: Chooser, values: Sequence[Value]) -> Line | None:
    c = choose(g, values, of_kinds("b"))
    a = None if c is None else partner(g, c, values, "fi", False)
    b = None if a is None else partner(g, a, values, "fi", False)
    if c is None or a is None or b is None:
        return None
    try:
        shape = torch.broadcast_shapes(c.tensor.shape, a.tensor.shape, b.tensor.shape)
    except RuntimeError:
        return None
    if torch.Size(shape).numel() > 4096:
        return None
    return Line(
        f"torch.where({c.name}, {a.name}, {b.name})", (c, a, b), MOVES if a.tensor.dtype == b.tensor.dtype else ROUGH
    )


def norm(text: str) -> Maker:
    def make(g: Chooser, values: Sequence[Value]) -> Line | None:
        x = choose(g, values, lambda v: v.kind == "f" and v.tensor.dim() >= 1 and v.tensor.shape[-1] > 1)
        return None if x is None else Line(text.format(x=x.name, n=x.tensor.shape[-1]), (x,), ROUGH)

    return make


def product(g: Chooser, values: Sequence[Value]) -> Line | None:
    x = choose(g, values, lambda v: v.kind == "f" and v.tensor.dim() == 2)
    y = (
        None
        if x is None
        else choose(
            g,
            values,
            lambda v: (
                v.tensor.dim() == 2 and v.tensor.dtype == x.tensor.dtype and v.tensor.shape[0] == x.tensor.shape[1]
            ),
        )
    )
    return None if x is None or y is None else Line(f"{x.name} @ {y.name}", (x, y), ROUGH)


def pool(text: str, numbers: Numbers) -> Maker:
    def make(g: Chooser, values: Sequence[Value]) -> Line | None:
        x = choose(
            g,
            values,
            lambda v: (
                v.kind == "f" and v.tensor.dim() in (3, 4) and min(v.tensor.shape) > 0 and min(v.tensor.shape[-2:]) > 2
            ),
        )
        return None if x is None else Line(text.replace("{x}", x.name), (x,), numbers)

    return make


def written(text: str) -> Maker:
    """A step that writes into a part of an earlier value."""

    def make(g: Chooser, values: Sequence[Value]) -> Line | None:
        x = choose(g, values, lambda v: v.tensor.dim() >= 1 and v.kind in "fi" and not has_overlap(v.tensor))
        if x is None:
            return None
        d = g.below(x.tensor.dim())
        n = x.tensor.shape[d]
        start = g.below(n + 1)
        part = f"{x.name}.narrow({d}, {start}, {g.below(n - start + 1)})"
        return Line(text.format(x=part, y=1 + g.below(3)), (x,), ROUNDS, writes=True)

    return make


def has_overlap(t: torch.Tensor) -> bool:
    return any(s == 0 and n > 1 for s, n in zip(t.stride(), t.shape, strict=True))


STEPS: tuple[Maker, ...] = (
    # arithmetic: exact of small whole numbers, where nothing is rounded
    *(binary(f"{{x}} {op} {{y}}", "fi", ROUNDS) for op in "+-*"),
    *(unary(f"{{x}} {op}", "fi", ROUNDS) for op in ("+ 1", "* 2", "- 3", "* -1")),
    binary("torch.maximum({x}, {y})", "fi", MOVES),
    binary("torch.minimum({x}, {y})", "fi", MOVES),
    binary("torch.fmax({x}, {y})", "f", MOVES, mixed=False),
    binary("{x} / ({y}.abs() + 1)", "fi"),
    binary("torch.atan2({x}, {y})", "f"),
    binary("torch.hypot({x}, {y})", "f", mixed=False),
    binary("torch.add({x}, {y}, alpha=3)", "fi"),
    binary("torch.lerp({x}, {y}, 0.25)", "f", mixed=False),
    binary("{x} // ({y}.abs() + 1)", "i", jumps=True),
    binary("{x} % ({y}.abs() + 1)", "i", jumps=True),
    binary("torch.fmod({x}, {y}.abs() + 1)", "fi", jumps=True, mixed=False),
    binary("{x} & {y}", "ib", jumps=True),
    binary("{x} | {y}", "ib", jumps=True),
    binary("{x} ^ {y}", "ib", jumps=True),
    *(binary(f"{{x}} {op} {{y}}", "fi", jumps=True) for op in ("<", "<=", ">", ">=", "==", "!=")),
    binary("torch.logical_xor({x}, {y})", "fib", jumps=True),
    where,
    where,
    unary("-{x}", "fi", MOVES),
    unary("{x}.abs()", "fi", MOVES),
    unary("{x}.relu()", "fi", MOVES),
    unary("{x}.clamp(-2, 5)", "fi", MOVES),
    unary("{x}.clamp_min(0.5)", "f", MOVES),
    unary("~{x}", "ib", jumps=True),
    *(unary(f"{{x}}.{f}()", "f") for f in ("exp", "sin", "cos", "tanh", "sigmoid", "erf", "atan", "expm1", "square")),
    *(
        unary(f"({{x}}.abs() + 1).{f}()", "f")
        for f in ("log", "sqrt", "rsqrt", "log1p", "reciprocal", "lgamma", "log2")
    ),
    *(unary(f"F.{f}({{x}})", "f") for f in ("gelu", "silu", "softplus", "elu", "hardswish", "mish", "leaky_relu")),
    *(unary(f"{{x}}.{f}()", "f", jumps=True) for f in ("floor", "ceil", "round", "trunc", "sign", "isnan", "isinf")),
    unary("{x}.nan_to_num()", "f", MOVES),
    unary("{x} ** 2", "fi"),
    unary("{x} ** 3", "f"),
    unary("{x}.to(torch.float32)", "ib", ROUNDS),
    # reductions and scans
    along("{x}.sum({d}, keepdim={k})", "fib"),
    along("{x}.sum({d}, keepdim={k})", "ib", jumps=True),
    along("{x}.mean({d}, keepdim={k})", "f"),
    along("{x}.amax({d}, keepdim={k})", "fib", MOVES, empty=False),
    along("{x}.amin({d}, keepdim={k})", "fib", MOVES, empty=False),
    along("{x}.prod({d})", "i", jumps=True),
    along("{x}.argmax({d}, keepdim={k})", "fi", jumps=True, empty=False),
    along("{x}.argmin({d})", "fi", jumps=True, empty=False),
    along("{x}.max({d})[1]", "fi", jumps=True, empty=False),
    along("{x}.any({d})", "fib", jumps=True),
    along("{x}.all({d}, keepdim={k})", "fib", jumps=True),
    along("{x}.var({d}, keepdim={k}, correction=0)", "f", empty=False),
    along("{x}.std({d}, correction=0)", "f", empty=False),
    along("{x}.logsumexp({d}, keepdim={k})", "f", empty=False),
    along("{x}.softmax({d})", "f"),
    along("{x}.log_softmax({d})", "f"),
    along("{x}.cumsum({d})", "f"),
    along("{x}.cumsum({d})", "i", jumps=True),
    along("{x}.cumprod({d})", "i", jumps=True),
    along("{x}.cummax({d})[0]", "fi", MOVES, empty=False),
    along("{x}.norm(dim={d})", "f"),
    along("{x}.flip({d})", "fib", MOVES),
    along("{x}.roll(1, {d})", "fib", MOVES),
    along("{x}.sort(dim={d}, stable=True)[0]", "fi", MOVES),  # whose derivative is one where numbers are equal
    unary("{x}.sum()", "fi"),
    unary("{x}.sum()", "i", jumps=True),
    unary("{x}.any()", "ib", jumps=True),
    norm("F.layer_norm({x}, [{n}])"),
    norm("F.rms_norm({x}, [{n}])"),
    # views and moves
    *(permute, reshape, slice_, select, unsqueeze, expand, pad, convert, convert) * 2,
    unary("{x}.contiguous()", "fib", MOVES),
    unary("{x}.clone()", "fib", MOVES),
    unary("{x}.squeeze()", "fib", MOVES),
    joined("torch.cat([{x}, {y}], {d})"),
    joined("torch.cat([{y}, {x}, {y}], {d})"),
    joined("torch.stack([{x}, {y}], {d})"),
    along("{x}.chunk(2, {d})[0]", "fib", MOVES),
    along("{x}.diff(dim={d})", "fi", ROUNDS),
    along("{x}.unfold({d}, 1, 2)", "fib", MOVES),
    # indexing
    *(index_select, index, gather),
    scatter("{x}.index_add({d}, {i}, {y})", "f", ROUGH),
    scatter("{x}.index_add({d}, {i}, {y})", "i", MOVES),
    scatter("{x}.index_copy({d}, {i}, {y})", "fi", MOVES, once=True),
    # products and pools
    product,
    pool("F.max_pool2d({x}, 2)", MOVES),
    pool("F.max_pool2d({x}, 3, 1, 1)", MOVES),
    pool("F.avg_pool2d({x}, 2)", ROUGH),
    # writes
    written("{x}.add_({y})"),
    written("{x}.mul_({y})"),
    written("{x}.fill_({y})"),
    written("{x}.zero_()"),
)
