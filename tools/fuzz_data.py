"""Steps of random programs that ask more of a compiler: sizes that the data says, random numbers, control flow, and
dtypes with rules of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .fuzz_steps import along, binary, unary
from .fuzz_values import MOVES, ROUGH, ROUNDS, Chooser, Line, Maker, Numbers, Value, choose, choose_any


def chosen(text: str, kinds: str = "fibc") -> Maker:
    """`text` of `{x}`, chosen from by a mask `{m}` of its shape or of its first dims."""

    def make(g: Chooser, values: Sequence[Value]) -> Line | None:
        x = choose(g, values, lambda v: v.kind in kinds and v.tensor.dim() > 0)
        if x is None:
            return None
        whole = g.chance(2)

        def fits(v: Value) -> bool:
            shape, of = v.tensor.shape, x.tensor.shape
            return v.kind == "b" and (
                shape == of or (not whole and v.tensor.dim() > 0 and shape == of[: v.tensor.dim()])
            )

        m = choose(g, values, fits)
        if m is None:
            # one that is made of what every implementation computes alike
            if not x.exact or x.kind not in "fi":
                return None
            return Line(text.replace("{x}", x.name).replace("{m}", f"({x.name} > 0)"), (x,))
        return Line(text.replace("{x}", x.name).replace("{m}", m.name), (x, m))

    return make


def counted(text: str, kinds: str = "fibc") -> Maker:
    """`text` of `{x}` with a number `{k}` that is read from whole numbers, at most the size of `{x}`'s first dim."""

    def make(g: Chooser, values: Sequence[Value]) -> Line | None:
        x = choose(g, values, lambda v: v.kind in kinds and v.tensor.dim() > 0)
        i = choose(g, values, lambda v: v.tensor.dtype in (torch.int64, torch.int32))
        if x is None or i is None:
            return None
        count = f"size_of({i.name}.sum() % ({x.name}.shape[0] + 1), {x.name}.shape[0])"
        return Line(text.replace("{x}", x.name).replace("{k}", count), (x, i), ROUGH)

    return make


def number(text: str, kinds: str, numbers: Numbers) -> Maker:
    """`text` of `{x}` and a number `{k}` that is read from an exact value."""

    def make(g: Chooser, values: Sequence[Value]) -> Line | None:
        x = choose(g, values, lambda v: v.kind in kinds)
        i = choose(g, values, lambda v: v.kind in "fi" and v.exact and v.tensor.numel() > 0 and v.tensor.itemsize > 2)
        if x is None or i is None:
            return None
        return Line(text.replace("{x}", x.name).replace("{k}", f"{i.name}.flatten()[0].item()"), (x, i), numbers)

    return make


def drawn(text: str, kinds: str = "f") -> Maker:
    """Random numbers of the shape of `{x}`, which every implementation that draws as eager does has alike."""

    def make(g: Chooser, values: Sequence[Value]) -> Line | None:
        x = choose(g, values, lambda v: v.kind in kinds and (v.tensor.dim() > 0 or "shape[0]" not in text))
        return None if x is None else Line(text.replace("{x}", x.name), (x,), ROUGH)

    return make


def convert(g: Chooser, values: Sequence[Value]) -> Line | None:
    x = choose_any(g, values)
    if x is None:
        return None
    t = x.tensor
    wide = ["complex64", "complex128"] if x.kind in "fibc" else []
    floats = ["float32", "float64", "bfloat16", "float16"] if x.kind != "c" else []
    small = (
        x.exact and x.kind in "fib8" and bool(((t.to(torch.float64).abs() < 100) & (t.to(torch.float64) >= 0)).all())
    )
    narrow = (
        ["uint16", "uint32", "uint64", "uint8", "int8", "int32", "int64", "bool"] if small or x.kind in "ib" else []
    )
    f8 = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz"] if small else []
    dtype = g.pick([d for d in floats + wide + narrow + f8 if getattr(torch, d) != t.dtype])
    return Line(f"{x.name}.to(torch.{dtype})", (x,), ROUNDS)


def parts(g: Chooser, values: Sequence[Value]) -> Line | None:
    """A complex number of two floats."""
    x = choose(g, values, lambda v: v.tensor.dtype in (torch.float32, torch.float64))
    y = (
        None
        if x is None
        else choose(g, values, lambda v: v.tensor.dtype == x.tensor.dtype and v.tensor.shape == x.tensor.shape)
    )
    return None if x is None or y is None else Line(f"torch.complex({x.name}, {y.name})", (x, y))


def branch(text: str) -> Maker:
    def make(g: Chooser, values: Sequence[Value]) -> Line | None:
        p = choose(g, values, lambda v: v.kind in "ib" and v.tensor.numel() > 0)
        x = choose(g, values, lambda v: v.kind == "f" and v.tensor.dim() > 0 and v.tensor.numel() > 0)
        if p is None or x is None:
            return None
        return Line(text.replace("{p}", f"{p.name}.ne(0).any()").replace("{x}", x.name), (p, x), ROUGH)

    return make


# What the texts call


def put(x: torch.Tensor, index: Any, value: Any) -> torch.Tensor:
    x[index] = value
    return x


def size_of(count: torch.Tensor, most: int) -> int:
    """A number of data that is a size."""
    n: Any = count.item()
    torch._check(n >= 0)
    torch._check(n <= most)
    return n


def is_traced() -> bool:
    return torch.compiler.is_dynamo_compiling()


def cond(p: torch.Tensor, yes: Callable[..., Any], no: Callable[..., Any], *args: torch.Tensor) -> Any:
    if is_traced():
        return torch.cond(p, yes, no, args)
    return (yes if p.item() else no)(*args)


def repeated(x: torch.Tensor, step: Callable[[torch.Tensor], torch.Tensor], times: int) -> torch.Tensor:
    """`step` again and again, by a loop of the graph where there is one."""
    if is_traced():
        from torch._higher_order_ops import while_loop

        count = torch.zeros((), dtype=torch.int64, device=x.device)
        return while_loop(lambda i, a: i < times, lambda i, a: (i + 1, step(a)), (count, x.clone()))[1]
    x = x.clone()
    for _ in range(times):
        x = step(x)
    return x


def scanned(x: torch.Tensor) -> torch.Tensor:
    if is_traced():
        from torch._higher_order_ops import scan

        return scan(lambda c, a: (c * 0.5 + a, c.sin() + a), torch.zeros_like(x[0]), x)[1]
    carry, made = torch.zeros_like(x[0]), list[torch.Tensor]()
    for a in x:
        carry, y = carry * 0.5 + a, carry.sin() + a
        made.append(y)
    return torch.stack(made)


def mapped(x: torch.Tensor, f: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    if is_traced():
        from torch._higher_order_ops.map import map as map_slices

        slices: Any = map_slices
        return slices(lambda a: f(a), x)
    return torch.stack([f(a) for a in x])


DATA: tuple[Maker, ...] = (
    chosen("{x}[{m}]"),
    chosen("{x}[{m}]"),
    chosen("torch.masked_select({x}, {m})"),
    chosen("{m}.nonzero()"),
    chosen("{m}.nonzero(as_tuple=True)[0]"),
    chosen("{x}[{m}].sum()", "i"),
    chosen("torch.where({m})[-1]"),
    chosen("{m}.argwhere()"),
    chosen("{x}.masked_scatter({m}, {x}.flip(0))", "fi"),
    unary("{x}.nonzero()", "fi", jumps=True),
    unary("{x}.unique()", "ib", jumps=True),
    unary("torch.unique({x}, return_inverse=True, return_counts=True)[1]", "ib", jumps=True),
    unary("torch.unique_consecutive({x})", "ib", jumps=True),
    unary("{x}.flatten().repeat_interleave({x}.flatten().long() % 3)", "i", jumps=True),
    unary("torch.bincount({x}.flatten().long() % 5)", "i", jumps=True),
    unary("F.one_hot({x}.long() % 4)", "i", jumps=True),
    counted("{x}[: {k}]"),
    counted("{x}.narrow(0, 0, {k}) * 1", "fic"),
    counted("torch.arange({k}, device={x}.device)"),
    counted("{x}.new_ones({k}, 2)", "fi"),
    counted("{x}[{x}.shape[0] - {k} :]"),
    number("{x} * {k}", "f", ROUGH),
    number("{x} + {k}", "f", ROUGH),
    number("torch.full_like({x}, {k})", "f", ROUGH),
    number("{x}.clamp_min({k})", "f", MOVES),
)
RANDOM: tuple[Maker, ...] = (
    drawn("torch.rand({x}.shape, device={x}.device).to({x}.dtype)"),
    drawn("torch.randn({x}.shape, device={x}.device).to({x}.dtype)"),
    drawn("torch.randint(0, 9, {x}.shape, device={x}.device)", "fib"),
    drawn("{x}[torch.randperm({x}.shape[0], device={x}.device)]", "fibc"),
    drawn("torch.bernoulli(torch.full({x}.shape, 0.5, device={x}.device))", "fib"),
    drawn("F.dropout({x}, 0.3)"),
    drawn("torch.empty({x}.shape, device={x}.device).uniform_(-1, 2)", "fib"),
    drawn("torch.empty({x}.shape, device={x}.device).normal_()", "fib"),
    drawn("torch.empty({x}.shape, device={x}.device).exponential_()", "fib"),
    drawn("torch.rand_like({x}, dtype=None if {x}.dtype.is_floating_point else torch.get_default_dtype())"),
    drawn("torch.normal(torch.zeros({x}.shape, device={x}.device), 2.0)", "fib"),
)
FLOW: tuple[Maker, ...] = (
    branch("cond({p}, lambda a: a.sin() + 1, lambda a: a * 2, {x})"),
    branch("cond({p}, lambda a: a.sum(0), lambda a: a.amax(0) * 3, {x})"),
    branch("repeated({x}, lambda a: a * 0.5 + 1, 3)"),
    branch("scanned({x})"),
    branch("mapped({x}, lambda a: a.cos() * 2)"),
)
DTYPES: tuple[Maker, ...] = (
    *(convert,) * 4,
    parts,
    *(binary(f"{{x}} {op} {{y}}", "fic") for op in "+-*"),
    *(binary(f"{{x}} {op} {{y}}", "c", ROUGH) for op in "+-*"),
    binary("{x} / ({y}.abs() + 1)", "c"),
    binary("{x} == {y}", "c", jumps=True),
    unary("{x}.conj()", "c", MOVES),
    unary("{x}.conj()", "c", MOVES),
    unary("{x}.real", "c", MOVES),
    unary("{x}.imag", "c", MOVES),
    unary("torch.view_as_real({x}.resolve_conj())", "c", MOVES),
    unary("{x}.abs()", "c"),
    unary("({x} / ({x}.abs() + 1)).exp()", "c"),
    unary("{x} * 2j", "c"),
    along("{x}.sum({d}, keepdim={k})", "c"),
    along("{x}.mean({d})", "c"),
    along("{x}.flip({d})", "c", MOVES),
    along("{x}.cumsum({d})", "c"),
    unary("{x}.clone()", "c8", MOVES),
    unary("{x}.contiguous()", "c8", MOVES),
    unary("{x}.to(torch.float32)", "8", ROUNDS),
    unary("{x}.to(torch.bfloat16)", "8", ROUNDS),
)
"""Also of f8, which only moves and conversions take."""
