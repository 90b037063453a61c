"""kernel-to-tt: tiled `loop.kernel`s of CUDA tensors to `tt.func`s, which Triton's own compiler takes from there.

In: a module with `loop.kernel`s whose `tile` attributes (loop-tile) say how many points of each dim a program has at
hand; without them a program has one point and its loops run point by point. Out: each kernel replaced by
`tt.func public @name(a pointer per buffer: ins then outs, an integer per size)` with the attributes `lamella.grid` (the
number of programs, over the kernel's sizes), `lamella.sizes` (these), `lamella.warps`, `lamella.stages`,
`lamella.registers` (of a thread at most, where that is said), `lamella.messages` and, where it is not the first one,
`lamella.device`. Kernels of other devices are left.

Buffers begin at multiples of 16 bytes and each has at most 2**31 - 1 elements along a size that is one symbol. Sizes
are i32; a symbol that is any integer and only computed with is i64.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import sympy
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp, StringAttr, i32, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import is_side_effect_free

from ..dialects import expr, tt
from ..dialects.expr import Dim
from ..dialects.host import LaunchOp, TogetherOp
from ..dialects.loop import IndexAttr, IndexOp, KernelOp, LoopDim, StoreOp, body_ops, op_symbols
from ..dialects.symbol_kinds import SIGNED, symbol_kind
from ..dialects.tensor import TensorType
from .address import multiple_of
from .host_devices import PLACES, SEGMENTS, Segments, gpu_index, on_gpu
from .llvm_properties import code_of
from .rounded import rounded, softmax
from .tile_contraction import TILED
from .tile_extent import at_most
from .tile_order import REVERSE
from .tt_access import memory_element
from .tt_body import KernelBody
from .tt_builder import TtBuilder
from .tt_contraction import DESCRIPTORS, DOT
from .tt_forms import UNALIGNED, body_in_forms
from .tt_index import MOST, Index, Number, Place, known
from .tt_loops import tile_of
from .tt_segments import choose, segments_of

ALIGNMENT = 16
_ALIGNED = IntegerAttr(ALIGNMENT, i32)
"""Bytes that buffers begin at multiples of."""


@dataclass(frozen=True)
class KernelToTt(ModulePass):
    """Turn tiled kernels of CUDA tensors into Triton functions."""

    name = "kernel-to-tt"

    statistics: dict[str, int] = field(default_factory=dict, init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        block = op.body.block
        kernels = [k for k in block.ops if isinstance(k, KernelOp) and on_gpu(k)]
        several = segments_of(op, {k.sym_name.data: k for k in kernels})
        launches = [o for o in op.walk() if isinstance(o, LaunchOp)]
        alone = {o.callee for o in launches if not isinstance(o.parent_op(), TogetherOp)}
        for kernel in kernels:
            name = kernel.sym_name.data
            with code_of(kernel):
                if name in several:
                    block.insert_op_before(triton_function(kernel, several[name]), kernel)
                if name not in several or name in alone:
                    block.insert_ops_before(triton_functions(kernel), kernel)
            kernel.detach()
            kernel.erase()
        self.statistics["kernels"] = len(kernels)


ANYWHERE = "lamella.anywhere"
"""The attribute of a function that takes buffers which begin anywhere: the name of the one that it stands in for."""


def triton_functions(kernel: KernelOp) -> list[tt.FuncOp]:
    """The function of one kernel, and one without tensor descriptors, for buffers which these cannot describe."""
    found = [triton_function(kernel)]
    if any(DESCRIPTORS in o.attributes for o in body_ops(kernel.body)):
        plain = kernel.clone()
        plain.sym_name = StringAttr(f"{kernel.sym_name.data}_anywhere")
        for o in body_ops(plain.body):
            o.attributes.pop(DESCRIPTORS, None)
        other = triton_function(plain)
        del other.attributes["lamella.grid"]
        other.attributes[ANYWHERE] = kernel.sym_name
        found.append(other)
    return found


def triton_function(kernel: KernelOp, segments: Segments | None = None) -> tt.FuncOp:
    """The function of a kernel, or of several launches of it (tt_segments). Raises KernelError for what has no code."""
    arguments = kernel.body.block.args
    sizes: list[sympy.Symbol] = list(kernel.sizes)
    pointers: list[Attribute] = [tt.pointer(memory_element(cast(TensorType, a.type))) for a in arguments]
    hints = [a.name_hint for a in arguments]
    name, times = kernel.sym_name.data, 1
    if segments is not None:
        name, times = f"{name}_together", segments.count
        own = [*range(segments.own)] * times
        places = list(map(segments.buffer, [*own, *range(-1, -1 - segments.common, -1)]))
        pointers, hints = [pointers[i] for i in places], [hints[i] for i in places]
    numbers = times * len(sizes) + (times if segments is not None else 0)
    known: dict[str, Attribute] = {} if UNALIGNED in kernel.attributes else {"tt.divisibility": _ALIGNED}
    facts = [*[known] * len(pointers), *[dict[str, Attribute]()] * numbers]
    wide = _numbers(kernel)
    words = [*[i64 if s in wide else i32 for s in sizes] * times, *[i32] * (numbers - times * len(sizes))]
    function = tt.FuncOp.make(name, [*pointers, *words], arg_attrs=facts, location=kernel.location)
    entry = function.body.block
    for hint, new in zip(hints + [s.name for s in sizes] * times, entry.args, strict=False):
        new.name_hint = hint
    b = TtBuilder(entry)
    b.location = kernel.location
    given, start = list(entry.args), None
    if segments is not None:
        *given, start = _segment(b, entry.args, segments, len(sizes))
        function.attributes[SEGMENTS] = IntegerAttr(times, i64)
        function.attributes[PLACES] = ArrayAttr(IntegerAttr(n, i64) for n in segments.places)
    words = zip(sizes, given[len(arguments) :], strict=True)
    env = {s: Place(Number(v, MOST if v.type == i32 else 2**63 - 1)) for s, v in words}
    body = KernelBody(b, dict(zip(arguments, given, strict=False)), env)
    warps = cast("IntegerAttr[Any]", kernel.attributes.get("warps", IntegerAttr(4, i64)))
    stores = [o for o in body_ops(kernel.body) if isinstance(o, StoreOp)]
    body.mutable = {o.target for o in stores}
    body.updated = {o.target for o in stores if o.indices or o.combine is not None}
    body.threads = 32 * warps.value.data
    body.rounded = rounded(kernel)
    body.softmax = softmax(kernel, body.rounded)
    _store_first(kernel.body.block)
    body_in_forms(body, kernel, lambda: _enter_grid(body, kernel, start))
    b.effect(tt.ReturnOp, ())
    function.attributes["lamella.grid"] = IndexAttr.get([_programs(kernel)])
    function.attributes["lamella.sizes"] = kernel.sizes
    function.attributes["lamella.warps"] = warps
    if device := gpu_index(cast(TensorType, arguments[-1].type)):
        function.attributes["lamella.device"] = IntegerAttr(device, i64)
    function.attributes["lamella.stages"] = kernel.attributes.get("stages", IntegerAttr(3, i64))
    if "registers" in kernel.attributes:
        function.attributes["lamella.registers"] = kernel.attributes["registers"]
    if TILED in kernel.attributes:
        function.attributes[TILED] = kernel.attributes[TILED]
    if body.messages:
        function.attributes["lamella.messages"] = ArrayAttr(StringAttr(m) for m in body.messages)
    return function


def _store_first(block: Block) -> None:
    """Have stores of values that later ops use before these, behind the last op that reads memory. Triton (3.6) takes
    what it converts to a store's layout for such a use, also where it converts it later.
    """
    ops = list(block.ops)
    place = {op: i for i, op in enumerate(ops)}
    read = max(
        (i for i, op in enumerate(ops) if not isinstance(op, StoreOp) and not is_side_effect_free(op)), default=-1
    )
    stores = [op for op in ops if isinstance(op, StoreOp)]
    writes = Counter(store.target for store in stores)
    for store in (op for op in stores if writes[op.target] == 1):
        made = max((place.get(cast(Operation, v.owner), -1) for v in store.operands), default=-1)
        uses = [place.get(use.operation, 0) for use in store.value.uses if not isinstance(use.operation, StoreOp)]
        first = min((i for i in uses if i > max(made, read)), default=place[store])
        if first < place[store]:
            store.detach()
            block.insert_op_before(store, ops[first])


def _numbers(kernel: KernelOp) -> set[sympy.Symbol]:
    """Those of the sizes that may be any integers and are computed with, and say of nothing where it lies."""
    types = [cast(TensorType, a.type) for a in kernel.body.block.args]
    bounds = [*(d for t in types for d in (*t.shape, *t.strides)), *(e for d in kernel.grid for e in (d.lo, d.hi))]
    places = {s.name for e in bounds for s in expr.symbols(e)}
    places |= {name for o in body_ops(kernel.body) if not isinstance(o, IndexOp) for name in op_symbols(o)}
    return {s for s in kernel.sizes if symbol_kind(s.name) in SIGNED and s.name not in places}


def _program(b: TtBuilder) -> SSAValue:
    return b.pure(tt.GetProgramIdOp, (), i32, {"axis": IntegerAttr(0, i32)})


def _segment(b: TtBuilder, args: Sequence[SSAValue], segments: Segments, sizes: int) -> list[SSAValue]:
    """The buffers and sizes of this program's launch, and its first program."""
    count, own = segments.count, segments.own
    common = args[count * own :][: segments.common]
    numbers = args[count * own + len(common) :]
    first = numbers[count * sizes :]
    sets = [[*args[k * own : (k + 1) * own], *numbers[k * sizes : (k + 1) * sizes], first[k]] for k in range(count)]
    chosen = choose(b, _program(b), first, sets)
    return [*(chosen[n] if n >= 0 else common[-1 - n] for n in segments.places), *chosen[own:]]


def _programs(kernel: KernelOp) -> Dim:
    """How many programs run: one for each tile of the grid."""
    count: Any = 1
    for d in kernel.grid:
        count = count * expr.ceildiv(d.extent, tile_of(kernel, d))
    return expr.normal(count)


def _enter_grid(body: KernelBody, kernel: KernelOp, start: SSAValue | None) -> None:
    """The dims of the grid at this program's tile: tiles are counted row-major, from program `start` on."""
    b, dims = body.b, list(kernel.grid)
    index = Index(b, body.env)
    tiles = [tile_of(kernel, d) for d in dims]
    counts: list[Dim] = [expr.ceildiv(d.extent, t) for d, t in zip(dims, tiles, strict=True)]
    moving = [i for i, n in enumerate(counts) if n != 1]
    group = kernel.attributes.get("group")
    program = _program(b) if moving else None
    if program is not None and start is not None:
        program = b.integer(arith.SubiOp, program, start)
    if program is not None and REVERSE in kernel.attributes:
        last = _count(index, expr.normal(_programs(kernel) - 1))  # pyright: ignore[reportOperatorIssue]
        program = b.integer(arith.SubiOp, index.ssa(last, i32), program)
    rest = known(0) if program is None else Number(program, MOST)
    blocks = [known(0)] * len(dims)
    if isinstance(group, IntegerAttr) and moving[-2:] == [len(dims) - 2, len(dims) - 1]:
        rest, *blocks[-2:] = _grouped(index, rest, counts, group.value.data)
        del moving[-2:]
    for i in reversed(moving):
        n = counts[i]
        most = n - 1 if isinstance(n, int) else MOST
        if i == moving[0]:
            blocks[i] = Number(rest.value, most)
            break
        size = _count(index, n) if not isinstance(n, int) else known(n)
        blocks[i] = Number(index.remainder(rest, size).value, most)
        rest = index.divide(rest, size)
    entered = list(zip(dims, tiles, blocks, strict=True))
    # where neither axis is contiguous, Triton has lanes along the first one: the last dim's, which jumps least
    products = any(DOT in o.attributes for o in body_ops(kernel.body))
    for d, tile, block in entered if products else reversed(entered):
        _enter_dim(body, d, tile, block)


def _grouped(index: Index, rest: Number, counts: list[Dim], group: int) -> tuple[Number, Number, Number]:
    """What is left of a number of programs, and the tiles along the last two dims, of which programs that run at the
    same time share most: `group` tiles of the first for each one of the second.
    """
    rows, columns = (known(n) if isinstance(n, int) else _count(index, n, MOST // 16) for n in counts[-2:])
    outer = known(0)
    if any(n != 1 for n in counts[:-2]):
        matrix = Number(index.multiply(rows, columns).value, MOST)
        outer, rest = index.divide(rest, matrix), index.remainder(rest, matrix)
    several = index.multiply(columns, known(group))
    turn = Number(index.divide(rest, several).value, rows.bound // group)
    start, within = index.multiply(turn, known(group)), index.remainder(rest, several)
    height = index.extreme(arith.MinSIOp, index.subtract(rows, start), known(group))
    row, column = index.add(start, index.remainder(within, height)), index.divide(within, height)
    return outer, Number(row.value, max(rows.bound - 1, 0)), Number(column.value, max(columns.bound - 1, 0))


def _count(index: Index, n: Dim, most: int = MOST) -> Number:
    """A number of tiles; no launch has more programs than an i32 counts."""
    return Number(index.ssa(index.full(n), i32), most)


def _enter_dim(body: KernelBody, d: LoopDim, tile: int, block: Number) -> None:
    index = Index(body.b, body.env)
    most = at_most(d)
    start = index.multiply(block, known(tile))
    if most is not None:
        start = Number(start.value, min(start.bound, max(most - 1, 0)))
    if tile == 1:
        body.env[d.symbol] = Place(start)
        return
    end = None if multiple_of(d.extent, tile) else index.scalar(d.hi)
    body.add_axis(d, start, tile, end, tile)
