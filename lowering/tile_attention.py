"""Tiles of attention: rows of queries for a program, and keys that it looks at in one turn.

kernel … attributes {tile = {d2 = 128}, attention, warps = 4, stages = 3}, tile = {d3 = 64} on loops over keys
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, StringAttr, UnitAttr, i64
from xdsl.ir import Operation

from ..dialects import expr
from ..dialects.loop import ForOp, KernelOp, LoadOp, LoopDim, body_ops
from ..dialects.tensor import TensorType, itemsize
from .address import multiple_of
from .attention_limit import seen_keys
from .attention_plan import Attention
from .fuse_cost import Hints
from .gpu_target import GpuTarget
from .schedule_access import accesses, type_of
from .tile_choice import power
from .tile_contraction import OWN_SHARED, TILED, Tile, is_product
from .tile_order import REVERSE
from .tt_attention import ATTENTION
from .tt_contraction import DOT, PAIRS, PARTS, SPLIT

LEAST = 16
"""Points of a dim of a tile of a product, at least."""

_NARROW = ((64, 64, 4, 3), (128, 64, 4, 3), (128, 64, 8, 3), (64, 128, 4, 2), (64, 32, 4, 4), (128, 128, 4, 2))
_MASKED = ((128, 64, 4, 3), (64, 64, 4, 3), (128, 64, 8, 3), (64, 32, 4, 4), (128, 128, 4, 2))
_WIDE = ((128, 64, 4, 2), (64, 32, 4, 3), (128, 32, 4, 3), (64, 64, 4, 2), (128, 64, 8, 2), (128, 128, 8, 2))
_WIDEST = ((128, 64, 8, 2), (128, 32, 8, 3), (64, 32, 4, 3), (64, 64, 4, 2))
"""Rows, keys, warps and stages, the best of what was measured on an H200 first: for keys and values of up to 64
elements, these with a mask that is read, longer ones, and those of more than 128, of which a warp holds few rows.
"""

LONG, _LONG = 1 << 13, (128, 64, 4, 3)
"""Keys from which on a tile is better than the first of `_NARROW`."""

_F32 = ((128, 32, 8, 2), (64, 32, 4, 2), (64, 64, 4, 2), (128, 32, 4, 2), (128, 64, 8, 2))
_F32_PAIRS = ((64, 64, 4, 2), (128, 64, 8, 2), (64, 32, 4, 2), (128, 32, 4, 2))
_F32_PAIRS_MASKED = ((64, 32, 4, 2), (128, 32, 4, 2), (64, 64, 4, 2), (128, 64, 8, 2))
_F32_WIDE = ((128, 64, 8, 2), (64, 32, 4, 2), (128, 32, 8, 2), (64, 64, 4, 2))
"""The same for f32, as sums of three bf16 and of two, and longer ones."""

_ODD = (64, 32, 4, 4)
"""The best where rows of a mask do not begin at multiples of 16 bytes: its elements come one by one."""

ALIGNED = 8
"""Elements of 16 bits that 16 bytes have."""


def tile_attention(
    kernel: KernelOp,
    target: GpuTarget,
    hints: Hints,
    candidate: int = 0,
    measured: Mapping[str, str] = {},
    *,
    tf32: bool = False,
) -> bool:
    """Set the attributes of a kernel that is attention: its candidate of that number, unless a measurement says which
    tile is best. False where it is none. `tf32`: as `loop-tile` has it.
    """
    plan = Attention.of(kernel)
    if plan is None:
        return False
    # ATen's attention has no setting for tf32: products have
    precision = "ieee" if not plan.is_f32 else PAIRS if tf32 and is_product(kernel) else SPLIT
    found = list(_candidates(kernel, plan, target, hints, precision))
    if not found:
        return False
    sizes = (plan.row, plan.keys, plan.first.reduced, plan.last.columns)
    others = hints.points(tuple(d for d in kernel.grid if d is not plan.row))
    kind = f"attention {others}x{'x'.join(str(hints.size(d.extent)) for d in sizes)} {len(kernel.body.block.ops)}"
    kind += f" {precision}" if plan.is_f32 else ""
    tile = Tile.parse(measured[kind]) if kind in measured else found[min(candidate, len(found) - 1)]
    columns = power(max(hints.size(plan.last.columns.extent), LEAST))
    tiles = dict(zip((d.name for d in sizes), (tile.rows, tile.columns, tile.depth, columns), strict=True))
    _set(kernel, (plan.row,), tiles)
    for o in body_ops(kernel.body):
        if isinstance(o, ForOp):
            _set(o, tuple(o.dims), tiles)
    for o in (plan.first.inner, plan.last.inner):
        o.attributes[DOT] = StringAttr(precision)
    block = LoopDim(plan.row.name, plan.row.symbol, expr.normal(plan.row.symbol + tile.rows))
    if seen_keys(plan.scores, plan.source, plan.keys, plan.row, block, tile.columns)[1] != plan.keys.extent:
        kernel.attributes[REVERSE] = UnitAttr()  # the last rows look at most keys: they come first
    kernel.attributes |= {
        ATTENTION: UnitAttr(),
        "warps": IntegerAttr(tile.warps, i64),
        "stages": IntegerAttr(tile.stages, i64),
        TILED: DictionaryAttr({"kind": StringAttr(kind), "tile": StringAttr(str(tile))}),
    }
    return True


def _candidates(kernel: KernelOp, plan: Attention, target: GpuTarget, hints: Hints, precision: str) -> Iterator[Tile]:
    """Tiles that a program has room for, those with enough programs for the machine first."""
    sizes = (plan.first.reduced, plan.last.columns, plan.row, plan.keys)
    depth, columns, rows, keys = (power(max(hints.size(d.extent), LEAST)) for d in sizes)
    others = hints.points(tuple(d for d in kernel.grid if d is not plan.row))
    masks = [
        a
        for a in accesses(body_ops(kernel.body))
        if isinstance(a, LoadOp)
        and isinstance(a.source.type, TensorType)
        and {plan.row.name, plan.keys.name} <= _names(a)
    ]
    mask = sum(itemsize(type_of(a).dtype) for a in masks)
    long = max(depth, columns)
    table = _WIDEST if long > 128 else _WIDE if long > 64 else _MASKED if mask else _NARROW
    if plan.is_f32:
        short = (_F32_PAIRS_MASKED if mask else _F32_PAIRS) if precision == PAIRS else _F32
        table = _F32_WIDE if max(depth, columns) > 64 else short
    elif table is _NARROW and hints.size(plan.keys.extent) >= LONG:
        table = (_LONG, *(t for t in table if t != _LONG))
    elif any(not multiple_of(n, ALIGNED) for a in masks for n in type_of(a).strides if n not in (0, 1)):
        table = (_ODD, *table)
    few: list[Tile] = []
    for m, n, w, s in table:
        t = Tile(min(m, rows), min(n, keys), depth, w, s)
        if plan.is_f32:
            parts = 2 * PARTS[precision]
            shared = parts * (m * depth + n * max(depth, columns)) + (s - 1) * n * (4 * (depth + columns) + mask * m)
        else:
            shared = 2 * m * depth + s * n * (2 * (depth + columns) + mask * m)
        if shared > target.shared - OWN_SHARED or max(depth, columns) > 256:
            continue
        if -(-hints.size(plan.row.extent) // t.rows) * others < target.processors:
            few.append(t)
        else:
            yield t
    yield from sorted(few, key=lambda t: t.rows)


def _names(a: LoadOp) -> set[str]:
    return {s.name for e in a.index for s in getattr(e, "free_symbols", ())}


def _set(op: Operation, dims: tuple[LoopDim, ...], sizes: dict[str, int]) -> None:
    given = {d.name: IntegerAttr(sizes[d.name], i64) for d in dims if d.name in sizes}
    if given:
        op.attributes["tile"] = DictionaryAttr(given)
