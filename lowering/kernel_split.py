"""Code for products of f32 in blocks: factors are packed, and sums made a tile at a time.

With matrix units (AMX), each number is three bf16, and six products of these are one of f32:

    x = x0 + x1 + x2, exactly: 8, 8 and 8 of its 24 digits
    x * w = x0 w0 + (x0 w1 + x1 w0) + (x0 w2 + x1 w1 + x2 w0) + at most 2^-23 of it

What is left out is less than what each addition of f32 rounds off, and a tile is added to its sums at once, not number
by number, so that errors are those of f32 and mostly smaller. The products are added up again, by vectors, of sums that
have become no number, and of those below 2^-80, or 2^-98 of the largest number of both factors in a block: parts may
have been too small for the unit, which takes denormals for zero.

Factors are packed a part of the inner dim at a time, as tiles of 16 rows of 64 bytes, three next to each other.

Source: Henry, Tang, Heinecke: Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision
Computations (ARITH 2019).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr, f32, i16, i32
from xdsl.ir import Operation, SSAValue

from ..dialects.loop import AssertOp, ForOp, LoadOp, LoopDim, ScratchOp, StoreOp, YieldOp
from ..dialects.tensor import TensorType
from . import vector_functions
from .address import evaluate, multiple_of
from .contraction import Contraction, contraction_of_loop
from .kernel_matrix import SIDE, Tiles
from .lanes import Lanes
from .llvm_builder import Num
from .schedule_access import stride
from .schedule_blocks import within
from .split_functions import INNER, LANES, PARTS, Again, Packing, Read, Reading, add_again, has_nan, multiply, pack
from .target import CpuTarget

if TYPE_CHECKING:
    from .kernel_body import KernelBody

SPLIT = "split"
"""The attribute of a `matrix` loop of f32: the dims along which vectors of its two factors lie."""


def packed_bytes(width: int) -> int:
    """Bytes that a loop over so many columns packs for matrix units: those of a strip of rows, too."""
    return 2 * (SIDE + width) * INNER * PARTS


def room_of(op: ForOp, target: CpuTarget) -> int | None:
    """Bytes that the code for a loop needs of memory; None where there is none for it."""
    if not (target.has_amx or target.has_avx512) or _contraction(op) is None:
        return None
    rows, columns = cast("tuple[int, int]", _sums(op).shape)
    if rows % (SIDE if target.has_amx else vector_functions.ROWS):
        return None
    return (packed_bytes if target.has_amx else vector_functions.packed_bytes)(columns)


def run_split(body: KernelBody, op: ForOp, room: SSAValue) -> None:
    """Emit a loop, with memory for `room_of` bytes."""
    (TileLoop if body.target.has_amx else VectorLoop)(body, op, room).run()


def _contraction(op: ForOp) -> Contraction | None:
    """The product of a loop that says it is one in parts; its sums lie in a buffer that has room for whole tiles."""
    body = list(op.body.block.ops)
    if not {SPLIT, "matrix"} <= op.attributes.keys() or [o.name for o in body] != _BODY or len(op.dims) != 2:
        return None
    inner, store, (rows, columns) = cast(ForOp, body[0]), cast(StoreOp, body[1]), op.dims
    found = contraction_of_loop(inner, tuple(op.dims))
    if found is None or (found.rows, found.columns) != ((rows,), (columns,)) or len(found.reduce) != 1:
        return None
    along = [cast(StringAttr, a).data for a in cast("ArrayAttr[Any]", op.attributes[SPLIT])]
    fits = (
        [str(v.type) for v in (found.left, found.right, *inner.res)] == ["f32"] * 3,
        isinstance(store.target.owner, ScratchOp) and _sums(op).dtype == "f32" and store.value is inner.res[0],
        store.mask is None and store.ok is None and store.combine is None,
        all(isinstance(n, int) for n in _sums(op).shape) and cast(int, _sums(op).shape[1]) % SIDE == 0,
        list(store.index) == [within(d) for d in op.dims],
        all(name in (d.name, found.reduce[0].name) for name, d in zip(along, op.dims, strict=True)),
        not any(isinstance(o, AssertOp) for o in inner.body.block.ops),
    )
    return found if all(fits) else None


def _sums(op: ForOp) -> TensorType:
    """The buffer of sums."""
    return cast(TensorType, next(o for o in op.body.block.ops if isinstance(o, StoreOp)).target.type)


_BODY = ["loop.for", "loop.store", "loop.yield"]


class SplitLoop:
    """The loop over rows and columns of a block whose sums of products of f32 are made of packed factors: a part of the
    inner dim at a time, for which the columns of the block are packed, and then strip after strip of rows.
    """

    inner: int
    """Points of a part."""

    strip: int
    """Rows of a strip."""

    panel: int
    """Columns of a tile."""

    packing: type[Reading]
    """What packs a factor."""

    def __init__(self, body: KernelBody, op: ForOp, room: SSAValue) -> None:
        """`room` is memory for `room_of` bytes."""
        self.body, self.b, self.room = body, body.b, room
        self.rows, self.columns = op.dims
        inner, store, _ = cast("tuple[ForOp, StoreOp, Operation]", tuple(op.body.block.ops))
        found = cast(Contraction, _contraction(op))
        (self.r,) = found.reduce
        self.terms = [o for o in inner.body.block.ops if not isinstance(o, YieldOp)]
        self.pitch = cast(int, _sums(op).strides[0])
        self.sums = body.pointers[store.target]
        left, right = (cast(StringAttr, a).data == self.r.name for a in cast("ArrayAttr[Any]", op.attributes[SPLIT]))
        self.factors = (
            _Factor(self, found.left, self.rows, left, False),
            _Factor(self, found.right, self.columns, right, True),
        )

    def run(self) -> None:
        """Emit the loop."""
        b, index = self.b, self.body.index
        k = evaluate(b, self.r.hi, index)
        ends = [(evaluate(b, d.lo, index), evaluate(b, d.hi, index)) for d in (self.rows, self.columns)]
        height, width = (b.index_sub(hi, lo) for lo, hi in ends)
        left, right = self.factors
        (m_lo, m_hi), (n_lo, n_hi) = ends
        panels = self._panels()

        def part(first: Num, found: Sequence[SSAValue]) -> list[SSAValue]:
            size = (
                self.inner if multiple_of(self.r.extent, self.inner) else b.index_min(self.inner, b.index_sub(k, first))
            )
            packed = self._pack(right, panels, (n_lo, n_hi), (first, size, k))

            def strip(m: Num, found: Sequence[SSAValue]) -> list[SSAValue]:
                # it stays in the L1 or L2 cache
                at = b.index_add(m_lo, m)
                end = b.index_min(b.index_add(at, self.strip), m_hi)
                packed = self._pack(left, self.room, (at, end), (first, size, k))
                rows = b.index_sub(end, at)

                def columns(n: Num, _: Any) -> list[SSAValue]:
                    self._multiply(panels, m, n, first, size, rows)
                    return []

                b.loop(0, width, self.panel, [], columns)
                return self._joined(found, packed)

            return b.loop(0, height, self.strip, self._joined(found, packed), strip)

        found = b.loop(0, k, self.inner, self._begin(), part)
        self._end(height, width, k, found)

    def _panels(self) -> SSAValue:
        """Where the packed columns begin, behind a strip of rows."""
        raise NotImplementedError

    def _pack(
        self, factor: _Factor, start: SSAValue, ends: tuple[Num, Num], part: tuple[Num, Num, Num]
    ) -> list[SSAValue]:
        """Pack some points of a factor; what is to be known of them. `part`: where it begins, its points, and where the
        inner dim ends.
        """
        b, kind, (lo, hi), (first, size, k) = self.b, self.packing, ends, part
        memory = factor.memory(lo, hi, first, size, k)
        if memory is None:
            found = kind(b, *factor.reading(kind.step)).run(start, lo, hi, first, size, k)
        else:
            found = pack(self.body.shared, b, kind, factor.right, factor.along_inner, (*memory, start))
        return [] if found is None else [found]

    def _multiply(self, panels: SSAValue, m: Num, n: Num, first: Num, size: Num, rows: Num) -> None:
        """A strip's sums over a part of the inner dim, of a tile of columns from `n` on."""
        raise NotImplementedError

    def _begin(self) -> list[SSAValue]:
        """What is known before anything is packed."""
        return []

    def _joined(self, a: Sequence[SSAValue], b: Sequence[SSAValue]) -> list[SSAValue]:
        """What is known of both."""
        return [*a, *b]

    def _end(self, height: Num, width: Num, k: Num, found: Sequence[SSAValue]) -> None:
        """What is left to be done, with what is known of all that was packed."""


class VectorLoop(SplitLoop):
    """That of vectors of 512 bits."""

    inner, strip, panel = vector_functions.INNER, vector_functions.STRIP, vector_functions.PANEL
    packing = vector_functions.Copying

    def _panels(self) -> SSAValue:
        return self.b.gep(self.room, vector_functions.STRIP * vector_functions.PITCH, f32)

    def _multiply(self, panels: SSAValue, m: Num, n: Num, first: Num, size: Num, rows: Num) -> None:
        b = self.b
        columns = b.gep(panels, b.index_mul(n, self.inner), f32)
        sums = b.gep(self.sums, b.index_add(b.index_mul(m, self.pitch), n), f32)
        numbers = (self.pitch, first, size, rows)
        vector_functions.multiply(self.body.shared, b, self.room, columns, sums, *numbers)


class TileLoop(SplitLoop):
    """That of matrix units, in tiles of bf16. What is known is the largest number that was packed."""

    inner, strip, panel = INNER, SIDE, SIDE
    packing = Packing

    def run(self) -> None:
        tiles = Tiles(self.b)
        tiles.configure()
        self.tiles = tiles
        super().run()

    def _panels(self) -> SSAValue:
        return self.b.gep(self.room, SIDE * INNER * PARTS, i16)

    def _multiply(self, panels: SSAValue, m: Num, n: Num, first: Num, size: Num, rows: Num) -> None:
        b = self.b
        columns = b.gep(panels, b.index_mul(n, INNER * PARTS), i16)
        sums = b.gep(self.sums, b.index_add(b.index_mul(m, self.pitch), n), i32)
        multiply(self.body.shared, b, self.room, columns, sums, 4 * self.pitch, first, size)

    def _begin(self) -> list[SSAValue]:
        return [self.b.constant(0, i32)]

    def _joined(self, a: Sequence[SSAValue], b: Sequence[SSAValue]) -> list[SSAValue]:
        return [self.b.intrinsic("umax", (*a, *b), i32)]

    def _end(self, height: Num, width: Num, k: Num, found: Sequence[SSAValue]) -> None:
        self.tiles.release()
        self._check(height, width, k, *found)

    def _check(self, height: Num, width: Num, k: Num, largest: SSAValue) -> None:
        """Add up again the sums that are wrong."""
        b, body, (left, right) = self.b, self.body, self.factors
        starts = [evaluate(b, d.lo, body.index) for d in (self.rows, self.columns)]
        x, w = (factor.in_memory(lo) for factor, lo in zip(self.factors, starts, strict=True))
        if x is not None and w is not None:
            return add_again(body.shared, b, self.sums, (self.pitch, height, width, k), largest, x, w)
        dims = (self.rows, self.columns, self.r)

        def factors(m: Num, n: Num, r: Num, mask: SSAValue | None) -> tuple[SSAValue, SSAValue]:
            for d, i in zip(dims, (b.index_add(starts[0], m), b.index_add(starts[1], n), r), strict=True):
                body.index[d.symbol] = i
            body.lanes = Lanes(self.columns.symbol, LANES, 1, mask, False)
            body.run(self.terms)
            x, w = (b.splat(body.operand(v, 0), LANES) for v in (left.value, right.value))
            body.lanes = None
            for d in dims:
                del body.index[d.symbol]
            return x, w

        def nan(m: Num) -> SSAValue:
            o = b.index_add(starts[0], m)
            return has_nan(b, lambda mask, r: left.lanes(self.r, mask, o, r), k, multiple_of(self.r.extent, LANES))

        whole = multiple_of(self.columns.extent, LANES)
        Again(b, factors, nan, whole).run(self.sums, self.pitch, height, width, k, largest)
        return None


class _Factor:
    """One side of the product: `value` for each point of `dim` and of the inner dim."""

    def __init__(self, loop: SplitLoop, value: SSAValue, dim: LoopDim, along_inner: bool, right: bool) -> None:
        self.body, self.b = loop.body, loop.b
        self.value, self.dim, self.r = value, dim, loop.r
        self.along_inner, self.right = along_inner, right
        self.ops = _ops_of(value, loop.terms)

    def memory(self, lo: Num, hi: Num, first: Num, size: Num, k: Num) -> tuple[SSAValue, *tuple[Num, ...]] | None:
        """What functions that pack what is in memory are told of it; None of what is computed."""
        b, along = self.b, self._along()
        load = self._plain()
        if load is None or stride(load, along.symbol) != 1:
            return None
        step = self._step(load, self.dim if self.along_inner else self.r)
        counts = (b.index_sub(hi, lo), b.index_sub(k, first), size)
        return self._address(load, lo, first), step, *counts, self.body.ahead(load) or 0

    def reading(self, step: int) -> tuple[bool, bool, tuple[bool, bool], Read]:
        """What `Reading` is told of a factor that is computed; blocks have `step` points of the inner dim."""
        whole = multiple_of(self.dim.extent, LANES), multiple_of(self.r.extent, step)
        return self.right, self.along_inner, whole, partial(self.lanes, self._along())

    def _along(self) -> LoopDim:
        """The dim along which vectors lie."""
        return self.r if self.along_inner else self.dim

    def in_memory(self, lo: Num) -> tuple[SSAValue, Num, Num] | None:
        """Where a point of the dim is, the first of the inner one, and the elements to the next of either; None of what
        is computed.
        """
        load = self._plain()
        return load and (self._address(load, lo, 0), self._step(load, self.dim), self._step(load, self.r))

    def _plain(self) -> LoadOp | None:
        """The load that the value is, if it is read as it lies in memory."""
        load = self.value.owner
        if not isinstance(load, LoadOp) or load.indices or load.mask is not None or load.ok is not None:
            return None
        steps = [stride(load, d.symbol) for d in (self.dim, self.r)]
        return load if cast(TensorType, load.source.type).dtype == "f32" and None not in steps else None

    def _address(self, load: LoadOp, o: Num, r: Num) -> SSAValue:
        """Of a point."""
        body, source = self.body, cast(TensorType, load.source.type)
        with self._at(o, r):
            return body.lane_index(0).address(body.pointers[load.source], source, tuple(load.index), f32)[0]

    def _step(self, load: LoadOp, d: LoopDim) -> Num:
        return evaluate(self.b, cast(Any, stride(load, d.symbol)), self.body.index)

    @contextmanager
    def _at(self, o: Num, r: Num) -> Generator[None]:
        """Indices of a point of the dim and of the inner one."""
        index = self.body.index
        index[self.dim.symbol], index[self.r.symbol] = o, r
        yield
        for d in (self.dim, self.r):
            del index[d.symbol]

    def lanes(self, along: LoopDim, mask: SSAValue | None, o: Num, r: Num) -> SSAValue:
        """The value at a point of the dim and of the inner one, and at those after it along one of both."""
        body = self.body
        with self._at(o, r):
            body.lanes = Lanes(along.symbol, LANES, 1, mask, False)
            body.run(self.ops)
            value = self.b.splat(body.operand(self.value, 0), LANES)
            body.lanes = None
        return value


def _ops_of(value: SSAValue, terms: Sequence[Operation]) -> list[Operation]:
    """Those of some ops that a value is made by, in order."""
    needed, wanted = set[Operation](), [value]
    while wanted:
        owner = wanted.pop().owner
        if isinstance(owner, Operation) and owner in terms and owner not in needed:
            needed.add(owner)
            wanted += owner.operands
    return [o for o in terms if o in needed]
