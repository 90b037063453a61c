"""The functions of a kernel, and the two that all kernels of a module share to run on torch's threads.

```
@k(buffers…, sizes…) -> i32            fills a context and runs @k.body over all points, or through @lamella.launch
@k.prepare(context)                    for launches run as one: the work, points and body of a context with arguments
@k.body(context, lo, hi) -> i32        points lo … hi - 1 of the grid, counted row-major
@lamella.launch(context, grain) -> i32 serial where a thread would get less than `grain` points, else GOMP_parallel
@lamella.thread(context)               one thread's contiguous share of the points, decided by the number of threads
```
A context is eight bytes each of: the error code (of launches run as one, the work in pieces), the number of points, the
body's address, then the kernel's arguments. What runs several kernels as one is `lamella_together`.
GOMP_parallel is torch's own OpenMP runtime: its threads are shared, and their number follows torch.set_num_threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    ArrayAttr,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    StringAttr,
    UnitAttr,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, SSAValue

from ..dialects import llvm_ext
from ..dialects.expr import Dim
from ..dialects.llvm_ext import PTR
from ..dialects.loop import ForOp, IndexAttr, KernelOp, LoadOp, LoopDim, ScratchOp, StoreOp, body_ops
from ..dialects.tensor import itemsize
from .address import evaluate
from .halves_apart import only_bf16
from .kernel_body import KernelBody, Side
from .kernel_split import room_of
from .llvm_builder import FunctionBuilder, Num, Shared
from .llvm_properties import address_of
from .rounded import totals
from .schedule_access import stride
from .schedule_dims import bytes_of
from .schedule_kernel import GRAIN, whole_work
from .schedule_memory import chosen_before
from .softmax_rows import ops_of

STACK_LIMIT = 1 << 19
"""Bytes of scratch that may stand on a thread's stack."""

NO_MEMORY = -1
"""What a kernel returns when it cannot allocate its scratch."""

PIECE = 1 << 10
"""Bytes of work that count as one where kernels share threads; `UNIT` of them are worth a thread."""

UNIT = GRAIN // PIECE

_ERROR, _POINTS, _BODY, _ARGUMENTS = range(4)


def kernel_functions(
    kernel: KernelOp,
    target: Any,
    threads: bool,
    contract: bool,
    shared: Shared,
    *,
    alone: bool = True,
    together: bool = False,
) -> list[llvm.FuncOp]:
    """The llvm functions of a scheduled kernel; they call those that it adds to `shared`.

    `alone` and `together` say how the kernel is launched. KernelError for what has no code.
    """
    grain = _grain(kernel) if threads else None
    body, messages = _body_function(kernel, target, contract, shared)
    functions = [body]
    if together:
        functions.insert(0, _prepare_function(kernel, grain))
    if alone:
        attributes: dict[str, Attribute] = {}
        if messages:
            attributes["lamella.messages"] = ArrayAttr([StringAttr(m) for m in messages])
        functions.insert(0, _entry_function(kernel, grain, attributes, shared))
    return functions


def _grain(kernel: KernelOp) -> Any:
    """The least number of grid points for a thread, as an expression; None for kernels that stay serial."""
    attribute = kernel.attributes.get("grain")
    if isinstance(attribute, IntegerAttr):
        return max(cast("IntegerAttr[IntegerType]", attribute).value.data, 1)
    return attribute[0] if isinstance(attribute, IndexAttr) else None


def _types(kernel: KernelOp) -> Sequence[Attribute]:
    return [PTR] * len(kernel.body.block.args) + [i64] * len(kernel.sizes)


def _sizes(kernel: KernelOp, arguments: Sequence[SSAValue]) -> dict[Any, Num]:
    """Each size symbol's argument."""
    return dict(zip(kernel.sizes, arguments[len(kernel.body.block.args) :], strict=True))


def _slot(b: FunctionBuilder, context: SSAValue, k: int) -> SSAValue:
    return b.gep(context, k, i64)


# --------------------------------------------------------------------------------------------------------------- body


def _body_function(kernel: KernelOp, target: Any, contract: bool, shared: Shared) -> tuple[llvm.FuncOp, list[str]]:
    b = FunctionBuilder([PTR, i64, i64], contract)
    b.location = kernel.location
    args = kernel.body.block.args
    context, lo, hi = b.arguments
    arguments = [b.load(_slot(b, context, _ARGUMENTS + k), t, 8, True) for k, t in enumerate(_types(kernel))]
    pointers: dict[SSAValue, SSAValue] = dict(zip(args, arguments, strict=False))
    messages: list[str] = []
    leave = b.block([i32])

    def fail(ok: SSAValue, message: str) -> None:
        if message not in messages:
            messages.append(message)
        _unless(b, ok, leave, messages.index(message) + 1)

    written = {op.target for op in body_ops(kernel.body) if isinstance(op, StoreOp)}
    body = KernelBody(b, target, pointers, frozenset(set(args) - written), _sizes(kernel, arguments), fail, shared)
    body.code.apart.tame = only_bf16(kernel)
    if contract:
        body.code.softmax, body.code.totals = ops_of(kernel, target), totals(kernel)
    scratch = [op for op in body_ops(kernel.body) if isinstance(op, ScratchOp)]
    sides = cast("IntegerAttr[Any]", kernel.attributes.get("sides", IntegerAttr(1, i64))).value.data
    buffers = [body.pointers, *(dict(body.pointers) for _ in range(1, sides))]
    heap = [pointer for found in buffers for pointer in _scratch_buffers(body, scratch, found)]
    for op in body_ops(kernel.body):
        if isinstance(op, ForOp) and (size := room_of(op, target)) is not None:
            b.location = op.location
            heap.append(_on_heap(b, size))
            body.rooms[op] = heap[-1]
    for pointer in heap:
        _unless(b, b.icmp("ne", pointer, b.pure(llvm_ext.ZeroOp, (), PTR)), leave, NO_MEMORY)
    _grid(body, kernel, lo, hi, buffers)
    b.location = kernel.location
    if body.has_nontemporal and target.triple.startswith("x86_64"):
        b.effect_intrinsic("x86.sse.sfence", ())
    b.jump(leave, (b.constant(0, i32),))
    b.continue_in(leave)
    for pointer in heap:
        b.call("free", (pointer,))
    b.ret(leave.args[0])
    return b.finish(f"{kernel.sym_name.data}.body", i32), messages


def _unless(b: FunctionBuilder, ok: SSAValue, leave: Block, code: int) -> None:
    """Leave the function with `code` unless `ok`."""
    following = b.block()
    b.branch(ok, following, (), leave, (b.constant(code, i32),))
    b.continue_in(following)


def _scratch_buffers(body: KernelBody, ops: Sequence[ScratchOp], pointers: dict[SSAValue, SSAValue]) -> list[SSAValue]:
    """Gives scratch buffers their memory, on the stack while there is room; the pointers to those on the heap."""
    b, room, heap = body.b, STACK_LIMIT, list[SSAValue]()
    for op in ops:
        b.location = op.location
        numel, size = op.res.type.numel, itemsize(op.res.type.dtype)
        if isinstance(numel, int) and numel * size <= room:
            room -= numel * size
            pointers[op.res] = b.alloca(max(numel * size, 1))
            continue
        heap.append(_on_heap(b, b.index_mul(evaluate(b, numel, body.index), size)))
        pointers[op.res] = heap[-1]
    return heap


def _on_heap(b: FunctionBuilder, size: Num) -> SSAValue:
    """So many bytes, or null."""
    rounded = b.binary(llvm.AndOp, b.number(b.index_add(size, 127)), b.constant(-64, i64))
    return cast(SSAValue, b.call("aligned_alloc", (b.constant(64, i64), rounded), PTR))


def _grid(
    body: KernelBody, kernel: KernelOp, lo: SSAValue, hi: SSAValue, buffers: Sequence[dict[SSAValue, SSAValue]]
) -> None:
    """The loop over grid points `lo` to `hi`: their indices are found by division once, then counted on. As many points
    are made side by side as there are sets of buffers.
    """
    b, dims = body.b, list(kernel.grid)
    count = len(buffers)
    extents = [evaluate(b, d.extent, body.index) for d in dims]
    starts = [evaluate(b, d.lo, body.index) for d in dims]

    def enter(i: Num, carried: Sequence[SSAValue]) -> list[SSAValue]:
        """Makes `i` the point of the body; the counts of the next one."""
        counts: Sequence[Num] = carried if len(dims) > 1 else [i][: len(dims)]
        for d, n, start in zip(dims, counts, starts, strict=True):
            body.index[d.symbol] = b.index_add(n, start)
        return _count_on(b, carried, extents)

    asking = [o for o in body_ops(kernel.body) if isinstance(o, LoadOp) and "next" in o.attributes]

    def ask_for(i: Num, counts: Sequence[SSAValue], here: Side) -> list[SSAValue]:
        """Finds the rows that point `i` is to read, or the point at hand where there is none; the counts after `i`."""
        more = b.icmp("slt", b.number(i), hi)
        later = Side(dict(here.index), here.pointers)
        for d, n, start in zip(dims, counts if len(dims) > 1 else [b.number(i)], starts, strict=True):
            later.index[d.symbol] = b.select(more, b.number(b.index_add(n, start)), b.number(here.index[d.symbol]))
        body.take(later)
        for op in asking:
            if op.indices:
                body.run(o for o in chosen_before(op, kernel) or () if o.results[0] not in later.values)
                here.ahead[op] = body.operand(op.indices[0], 0)
            else:
                here.ahead[op] = _between(b, op, dims, here.index, later.index)
        body.take(here)
        return _count_on(b, counts, extents)

    def one(i: Num, carried: Sequence[SSAValue]) -> list[SSAValue]:
        following = enter(i, carried)
        if asking and dims:
            ask_for(b.index_add(i, 1), following, Side(body.index, body.pointers, body.values))
        body.block(kernel.body.block)
        b.location = kernel.location
        return following

    def several(i: Num, carried: Sequence[SSAValue]) -> list[SSAValue]:
        sides: list[Side] = []
        for k in range(count):
            carried = enter(b.index_add(i, k), carried)
            sides.append(Side(dict(body.index), buffers[k]))
        counts: Sequence[SSAValue] = carried
        for k, side in enumerate(sides if asking and dims else ()):
            counts = ask_for(b.index_add(i, count + k), counts, side)
        body.side_by_side(kernel.body.block, sides)
        b.location = kernel.location
        return list(carried)

    carried = _decode(b, lo, extents) if len(dims) > 1 else []
    if count > 1:
        whole = b.binary(llvm.AndOp, b.sub(hi, lo), b.constant(-count, i64))
        middle = b.add(lo, whole)
        carried = b.loop(lo, middle, count, carried, several)
        lo = middle
    b.loop(lo, hi, 1, carried, one)


def _between(
    b: FunctionBuilder, op: LoadOp, dims: Sequence[LoopDim], here: dict[Any, Num], later: dict[Any, Num]
) -> Num:
    """Bytes from what a load reads at one point of a grid to what it reads at another."""
    total: Num = 0
    for d in dims:
        step = evaluate(b, cast(Dim, stride(op, d.symbol)), here)
        total = b.index_add(total, b.index_mul(b.index_sub(later[d.symbol], here[d.symbol]), step))
    return b.index_mul(total, bytes_of(op))


def _decode(b: FunctionBuilder, n: SSAValue, extents: Sequence[Num]) -> list[SSAValue]:
    """The counts of point n. A grid without points comes here too: no extent may divide by zero."""
    counts: list[SSAValue] = []
    for extent in reversed(extents[1:]):
        divisor = b.number(extent)
        if not isinstance(extent, int):
            one = b.constant(1, i64)
            divisor = b.select(b.icmp("slt", divisor, one), one, divisor)
        counts.append(b.binary(llvm.URemOp, n, divisor))
        n = b.binary(llvm.UDivOp, n, divisor)
    return [n, *reversed(counts)]


def _count_on(b: FunctionBuilder, counts: Sequence[SSAValue], extents: Sequence[Num]) -> list[SSAValue]:
    """The next point: the last count goes up; one that reaches its extent goes back to 0 and moves the one before."""
    following: list[SSAValue] = []
    zero, step = b.constant(0, i64), b.constant(1, i64)
    for k in range(len(counts) - 1, -1, -1):
        moved = b.add(counts[k], step)
        if k:
            wraps = b.icmp("eq", moved, b.number(extents[k]))
            step = b.cast(llvm.ZExtOp, wraps, i64)
            moved = b.select(wraps, zero, moved)
        following.append(moved)
    return following[::-1]


# ------------------------------------------------------------------------------------------------------------- threads


def _entry_function(kernel: KernelOp, grain: Any, attributes: dict[str, Attribute], shared: Shared) -> llvm.FuncOp:
    name = kernel.sym_name.data
    b = FunctionBuilder(_types(kernel))
    b.location = kernel.location
    index = _sizes(kernel, b.arguments)
    points = _points(b, kernel, index)
    context = b.alloca(8 * (len(b.arguments) + _ARGUMENTS))
    for k, value in enumerate(b.arguments):
        b.store(value, _slot(b, context, _ARGUMENTS + k), 8)
    if grain is not None and not (isinstance(points, int) and isinstance(grain, int) and points < 2 * grain):
        b.store(b.constant(0, i64), context, 8)
        b.store(b.number(points), _slot(b, context, _POINTS), 8)
        b.store(_address(b, f"{name}.body"), _slot(b, context, _BODY), 8)
        launch = shared.use("lamella.launch", partial(_launch_function, kernel.location))
        shared.use("lamella.thread", partial(_thread_function, kernel.location))
        result = b.call(launch, (context, b.number(evaluate(b, cast(Dim, grain), index))), i32)
    else:
        result = b.call(f"{name}.body", (context, b.constant(0, i64), b.number(points)), i32)
    b.ret(result)
    return b.finish(name, i32, "external", attributes)


def _points(b: FunctionBuilder, kernel: KernelOp, index: dict[Any, Num]) -> Num:
    """How many points the grid has."""
    points: Num = 1
    for d in kernel.grid:
        points = b.index_mul(points, evaluate(b, d.extent, index))
    return points


def _prepare_function(kernel: KernelOp, grain: Any) -> llvm.FuncOp:
    b = FunctionBuilder([PTR])
    b.location = kernel.location
    context, types = b.arguments[0], _types(kernel)
    buffers = len(types) - len(kernel.sizes)
    sizes = [b.load(_slot(b, context, _ARGUMENTS + k), i64, 8, True) for k in range(buffers, len(types))]
    index: dict[Any, Num] = dict(zip(kernel.sizes, sizes, strict=True))
    points = _points(b, kernel, index)
    work: Num = 0
    if grain is not None:
        moved = evaluate(b, whole_work(kernel), index)
        work = b.binary(llvm.UDivOp, b.number(b.index_add(moved, PIECE - 1)), b.constant(PIECE, i64))
    b.store(b.number(work), context, 8)
    b.store(b.number(points), _slot(b, context, _POINTS), 8)
    b.store(_address(b, f"{kernel.sym_name.data}.body"), _slot(b, context, _BODY), 8)
    b.ret()
    return b.finish(f"{kernel.sym_name.data}.prepare", llvm.LLVMVoidType())


def _address(b: FunctionBuilder, name: str) -> SSAValue:
    return b.pure(llvm.AddressOfOp, (), PTR, address_of(name))


def _call_body(b: FunctionBuilder, context: SSAValue, lo: SSAValue, hi: SSAValue) -> SSAValue:
    body = b.load(_slot(b, context, _BODY), PTR, 8)
    return cast(SSAValue, b.call(None, (body, context, lo, hi), i32))


def _launch_function(location: LocationAttr, name: str) -> llvm.FuncOp:
    b = FunctionBuilder([PTR, i64])
    b.location = location
    context, grain = b.arguments
    points = b.load(_slot(b, context, _POINTS), i64, 8)

    def serial() -> list[SSAValue]:
        return [_call_body(b, context, b.constant(0, i64), points)]

    def fork(threads: SSAValue) -> list[SSAValue]:
        function = _address(b, "lamella.thread")
        b.call("GOMP_parallel", (function, context, b.resize(threads, i32), b.constant(0, i32)))
        return [b.load(context, i32, 8)]

    def parallel() -> list[SSAValue]:
        most = b.resize(cast(SSAValue, b.call("lamella_num_threads", (), i32)), i64)
        wanted = b.binary(llvm.UDivOp, points, grain)
        threads = b.select(b.icmp("slt", wanted, most), wanted, most)
        return b.when(b.icmp("sgt", threads, b.constant(1, i64)), lambda: fork(threads), serial)

    enough = b.icmp("sge", points, b.mul(grain, b.constant(2, i64)))
    b.ret(b.when(enough, parallel, serial)[0])
    # Inlined, its stack and branches would be compiled again for every kernel.
    return b.finish(name, i32, attributes={"no_inline": UnitAttr()})


def _thread_function(location: LocationAttr, name: str) -> llvm.FuncOp:
    b = FunctionBuilder([PTR])
    b.location = location
    context = b.arguments[0]
    points = b.load(_slot(b, context, _POINTS), i64, 8)
    number, count = (
        b.resize(cast(SSAValue, b.call(call, (), i32)), i64) for call in ("omp_get_thread_num", "omp_get_num_threads")
    )
    share = b.binary(llvm.UDivOp, b.add(points, b.sub(count, b.constant(1, i64))), count)
    lo = b.mul(number, share)
    hi = b.add(lo, share)
    hi = b.select(b.icmp("slt", hi, points), hi, points)

    def run() -> list[SSAValue]:
        result = _call_body(b, context, lo, hi)
        b.when(b.icmp("ne", result, b.constant(0, i32)), lambda: report(result))
        return []

    def report(result: SSAValue) -> list[SSAValue]:
        # The highest code is the same whatever the order in which threads come here.
        umax = IntegerAttr(llvm_ext.ATOMIC_BINARY.index("umax"), i64)
        b.effect(llvm_ext.AtomicRMWOp, (context, result), (i32,), {"bin_op": umax, "ordering": IntegerAttr(2, i64)})
        return []

    b.when(b.icmp("slt", lo, hi), run)
    b.ret()
    return b.finish(name, llvm.LLVMVoidType())
