"""Steps of random programs that write: into views of earlier values, by `out=`, at indices and where a mask says; and
views that writes are seen through.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..frontend.overlap import overlap, overlaps_itself
from .fuzz_values import MOVES, ROUGH, ROUNDS, Chooser, Line, Maker, Numbers, Value, choose


def writable(v: Value) -> bool:
    t = v.tensor
    repeated = any(s == 0 and n > 1 for s, n in zip(t.stride(), t.shape, strict=True))
    return not (repeated or overlaps_itself(t) or t.is_conj())


def _part(g: Chooser, x: Value) -> tuple[str, torch.Tensor]:
    """A view of it, as text, and what it is."""
    name, t = x.name, x.tensor
    forms = [name]
    if t.dim():
        d = g.below(t.dim())
        start = g.below(t.shape[d] + 1)
        forms += [f"{name}.narrow({d}, {start}, {g.below(t.shape[d] - start + 1)})", f"{name}[..., ::2]", f"{name}[1:]"]
        forms += [f"{name}.transpose(0, -1)", f"{name}.unsqueeze({d})"]
        if t.shape[d]:
            forms.append(f"{name}.select({d}, {g.below(t.shape[d])})")
        if t.is_contiguous():
            forms += [f"{name}.view(-1)", f"{name}.view(-1)[1::3]"]
    if t.dim() > 1:
        forms.append(f"{name}.diagonal()")
    text = g.pick(forms)
    return text, eval(text, {name: t})


def apart(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether writing one while the other is read means one thing."""
    same = x.data_ptr() == y.data_ptr() and x.shape == y.shape and x.stride() == y.stride()
    return same or not overlap(x, y)


def into(text: str, kinds: str, numbers: Numbers = ROUNDS, *, alike: bool = False) -> Maker:
    """`text` with `{p}` for a view to write and `{y}` for a value that broadcasts to it; `alike`: of its kind."""

    def make(g: Chooser, values: Sequence[Value]) -> Line | None:
        x = choose(g, values, lambda v: v.kind in kinds and writable(v))
        if x is None:
            return None
        part, t = _part(g, x)
        if "{y}" not in text:
            return Line(text.replace("{p}", part), (x,), numbers, writes=True)

        def fits(v: Value) -> bool:
            try:
                shape = torch.broadcast_shapes(t.shape, v.tensor.shape)
            except RuntimeError:
                return False
            # what is cast to whole numbers would depend on a rounding
            kind = v.kind == x.kind if alike else v.kind in "fib" if x.kind in "f" else v.kind in "ib" or x.kind == "c"
            return shape == t.shape and kind and v.kind != "8" and apart(t, v.tensor)

        y = choose(g, values, fits)
        return None if y is None else Line(text.replace("{p}", part).replace("{y}", y.name), (x, y), numbers, True)

    return make


def masked(text: str, kinds: str) -> Maker:
    """`{x}` written where the mask `{m}`, of its shape, says."""

    def make(g: Chooser, values: Sequence[Value]) -> Line | None:
        x = choose(g, values, lambda v: v.kind in kinds and writable(v))
        m = (
            None
            if x is None
            else choose(g, values, lambda v: v.kind == "b" and v.tensor.shape == x.tensor.shape and x is not v)
        )
        if x is None or m is None or not apart(x.tensor, m.tensor):
            return None
        return Line(text.replace("{x}", x.name).replace("{m}", m.name), (x, m), MOVES, writes=True)

    return make


def at(text: str, kinds: str, numbers: Numbers) -> Maker:
    """`{x}` written along `{d}` at places `{i}`, one for each of `{y}`'s, which has its shape; no place twice."""

    def make(g: Chooser, values: Sequence[Value]) -> Line | None:
        x = choose(g, values, lambda v: v.kind in kinds and v.tensor.dim() > 0 and v.tensor.numel() > 0 and writable(v))
        if x is None:
            return None
        t = x.tensor
        y = choose(
            g,
            values,
            lambda v: v.tensor.shape == t.shape and v.tensor.dtype == t.dtype and not overlap(t, v.tensor),
        )
        if y is None:
            return None
        d = g.below(t.dim())
        places = f"torch.arange({x.name}.shape[{d}] - 1, -1, -1, device={x.name}.device)"
        filled = text.replace("{x}", x.name).replace("{y}", y.name).replace("{d}", str(d)).replace("{i}", places)
        return Line(filled, (x, y), numbers, writes=True)

    return make


def out(text: str, kinds: str, numbers: Numbers = ROUNDS) -> Maker:
    """`text` of `{x}` and `{y}`, into `{z}` of their shape."""

    def make(g: Chooser, values: Sequence[Value]) -> Line | None:
        x = choose(g, values, lambda v: v.kind in kinds)
        if x is None:
            return None
        same = [v for v in values if v.tensor.shape == x.tensor.shape and v.tensor.dtype == x.tensor.dtype]
        y = choose(g, same, lambda v: True)
        assert y is not None
        filled = text.replace("{x}", x.name).replace("{y}", y.name)
        z = choose(
            g,
            same,
            lambda v: writable(v) and apart(v.tensor, x.tensor) and ("{y}" not in text or apart(v.tensor, y.tensor)),
        )
        if z is None or g.chance(3):
            return Line(filled.replace("{z}", f"torch.empty_like({x.name})"), (x, y), numbers)
        return Line(filled.replace("{z}", z.name), (x, y, z), numbers, writes=True)

    return make


def lies(text: str) -> Maker:
    """An update of sizes and strides in place."""

    def make(g: Chooser, values: Sequence[Value]) -> Line | None:
        x = choose(g, values, lambda v: 0 < v.tensor.dim() < 4) if g.chance(3) else None
        return None if x is None else Line(text.replace("{x}", x.name), (x,), MOVES, writes=True)

    return make


def view(text: str, kinds: str = "fibc8", rank: int = 1) -> Maker:
    def make(g: Chooser, values: Sequence[Value]) -> Line | None:
        x = choose(g, values, lambda v: v.kind in kinds and v.tensor.dim() >= rank)
        if x is None:
            return None
        d, e = (g.below(x.tensor.dim()) if x.tensor.dim() else 0 for _ in range(2))
        return Line(text.replace("{x}", x.name).replace("{d}", str(d)).replace("{e}", str(e)), (x,))

    return make


def as_strided(g: Chooser, values: Sequence[Value]) -> Line | None:
    """Within the elements that a contiguous value has, in its memory."""
    x = choose(g, values, lambda v: v.tensor.is_contiguous() and v.tensor.numel() > 6)
    if x is None or not g.chance(2):
        return None
    sizes, strides = g.pick((([2, 3], [1, 2]), ([3], [2]), ([2, 2], [3, 1]), ([1, 4], [9, 1]), ([3, 2], [0, 1])))
    reach = sum((n - 1) * s for n, s in zip(sizes, strides, strict=True) if n > 1)
    offset = x.tensor.storage_offset() + g.below(x.tensor.numel() - reach)
    return Line(f"{x.name}.as_strided({sizes}, {strides}, {offset})", (x,))


WRITES: tuple[Maker, ...] = (
    into("{p}.add_({y})", "fic"),
    into("{p}.sub_({y})", "fic"),
    into("{p}.mul_({y})", "fic"),
    into("{p}.copy_({y})", "fibc", MOVES, alike=True),
    into("{p}.copy_({y})", "fibc", MOVES, alike=True),
    into("{p}.logical_or_({y})", "b", MOVES, alike=True),
    into("{p}.bitwise_xor_({y})", "ib", MOVES, alike=True),
    into("{p}.add_(1)", "fic"),
    into("{p}.mul_(2)", "fic"),
    into("{p}.neg_()", "fic", MOVES),
    into("{p}.clamp_(-1, 3)", "fi", MOVES),
    into("{p}.relu_()", "fi", MOVES),
    into("{p}.sigmoid_()", "f", ROUGH),
    into("{p}.fill_(3)", "fibc8", MOVES),
    into("{p}.zero_()", "fibc8", MOVES),
    into("put({p}, slice(None, None, 2), 1)", "fibc", MOVES),
    into("put({p}, ..., {y})", "fibc", MOVES, alike=True),
    masked("{x}.masked_fill_({m}, 2)", "fic"),
    masked("put({x}, {m}, 1)", "fibc"),
    masked("{x}.logical_and_({m})", "b"),
    at("{x}.index_copy_({d}, {i}, {y})", "fic", MOVES),
    at("{x}.index_add_({d}, {i}, {y})", "fi", ROUNDS),
    at("{x}.index_fill_({d}, {i}[::2], 2)", "fi", MOVES),
    at("{x}.scatter_({d}, {y}.argsort({d}, stable=True), {y})", "i", MOVES),
    out("torch.add({x}, {y}, out={z})", "fic"),
    out("torch.mul({x}, {y}, out={z})", "fic"),
    out("torch.sub({x}, {y}, alpha=2, out={z})", "fi"),
    out("torch.maximum({x}, {y}, out={z})", "fi", MOVES),
    out("torch.neg({x}, out={z})", "fic", MOVES),
    out("torch.exp({x}, out={z})", "f", ROUGH),
    lies("{x}.unsqueeze_(0)"),
    lies("{x}.transpose_(0, -1)"),
    lies("{x}.squeeze_()"),
)
VIEWS: tuple[Maker, ...] = (
    view("{x}.transpose({d}, {e})"),
    view("{x}.movedim({d}, 0)"),
    view("{x}[..., ::2]"),
    view("{x}[1:]"),
    view("{x}[:-1]"),
    view("{x}.flatten()"),
    view("{x}.view(-1)"),
    view("{x}.reshape(-1, {x}.shape[0])"),
    view("{x}.unflatten({d}, (-1, 1))"),
    view("{x}.diagonal(0, {d}, {e})", rank=2),
    view("{x}.expand(2, *{x}.shape)", rank=0),
    view("{x}.narrow({d}, 0, {x}.shape[{d}] // 2)"),
    view("{x}.unbind({d})[0]"),
    view("{x}.split(2, {d})[-1]"),
    view("{x}.detach()", rank=0),
    view("{x}.view_as({x})", rank=0),
    view("{x}.swapaxes({d}, {e})"),
    view("{x}.T", rank=2),
    view("{x}.repeat_interleave(2, {d})"),
    view("{x}.tile(2)"),
    view("{x}.view(torch.uint8)", "b8"),
    view("{x}.view(torch.int32)", "i"),
    as_strided,
)
