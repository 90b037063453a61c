"""The buffers of a row of scores in a kernel of attention: as few as there can be, and no quotients in them.

    for [d2] { store load %e[d2] / %l, %p[d2] }  …  %o = for [d2] reduce [add] { load %p[d2] * load %v[…] }
    …  %o = for [d2] reduce [add] { load %e[d2] * load %v[…] };  %o / %l

A sum of quotients is a quotient of the sum; values that are written where others were read for the last time, at the
same place, take their place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.ir import Block, Operation, SSAValue

from ..dialects.loop import DimsAttr, ForOp, IndexAttr, KernelOp, LoadOp, LoopDim, ScratchOp, StoreOp, YieldOp, body_ops
from ..dialects.tensor import TensorType, itemsize
from .attention_factors import Factors
from .fuse_cost import Hints, Machine
from .fuse_emit import drop_unused
from .schedule_access import Access, accesses, buffer_of
from .schedule_blocks import copied


def divide_later(kernel: KernelOp, values: Factors) -> SSAValue | None:
    """Make weights that are divided by a sum of their row plain ones, in place, and give the sum; else None."""
    for op in [o for o in values.inner.body.block.ops if isinstance(o, arith.DivfOp)]:
        if op.result.uses.get_length() == 1 and _of_row(op.rhs, kernel) and _is_factor(op.result, values):
            op.result.replace_all_uses_with(op.lhs)
            return op.rhs
    weights = {buffer_of(a) for a in accesses(values.inner.body.block.ops)} & set(_buffers(kernel))
    if len(weights) != 1:
        return None
    (buffer,) = weights
    found = [(top, a) for top, a in _accesses(kernel) if buffer_of(a) is buffer]
    stores = [(top, a) for top, a in found if isinstance(a, StoreOp)]
    if len(stores) != 1 or any(top is not values.outer for top, a in found if isinstance(a, LoadOp)):
        return None
    ((top, store),) = stores
    quotient = store.value
    if not isinstance(quotient.owner, arith.DivfOp) or store.parent_op() is not top:
        return None
    divisor = quotient.owner.rhs
    if not _of_row(divisor, kernel):
        return None
    store.operands[0] = quotient.owner.lhs
    return divisor


def keep_weights(kernel: KernelOp, values: Factors) -> None:
    """Compute the weights once, in the last loop of rows that has what they are made of, in place: as a factor of tiles
    they would be computed again and again.
    """
    wide = values.left
    left = wide.owner.input if isinstance(wide.owner, arith.ExtFOp) else wide
    if isinstance(left.owner, LoadOp) and left.owner.source in set(_buffers(kernel)):
        return
    inner, block = values.inner.body.block, kernel.body.block
    keys = values.reduced
    order = {o: i for i, o in enumerate(block.ops)}
    made = copied(left, {}, inner)
    outside = [v.owner for o in made for v in o.operands if isinstance(v.owner, Operation) and v.owner.parent is block]
    loops = [o for o in block.ops if isinstance(o, ForOp) and list(o.dims) == [keys] and order[o] < order[values.outer]]
    at = IndexAttr.get([keys.symbol])
    scratch = ScratchOp.create(result_types=[TensorType.get([keys.extent], f"{left.type}")], location=kernel.location)
    store = StoreOp.make(made[-1].results[0], scratch.res, at, location=kernel.location)
    first = block.first_op
    assert first is not None
    block.insert_op_before(scratch, first)
    if loops and all(order[o] < order[loops[-1]] for o in outside):
        body, last = loops[-1].body.block, loops[-1].body.block.last_op
        assert last is not None
        body.insert_ops_before([*made, store], last)
        _merge_equal(body)
    else:
        body = Block([*made, store, YieldOp.create(location=kernel.location)])
        block.insert_op_before(ForOp.make(DimsAttr.get([keys]), body, location=kernel.location), values.outer)
    load = LoadOp.make(scratch.res, at, location=kernel.location)
    assert isinstance(left.owner, Operation)
    inner.insert_op_before(load, left.owner)
    left.replace_all_uses_with(load.res)
    drop_unused(inner)


def _merge_equal(block: Block) -> None:
    """Leave out pure ops that are there before, and loads between which nothing is written."""
    there: dict[Any, Operation] = {}
    for op in list(block.ops):
        if op.regions or isinstance(op, StoreOp) or not op.results:
            continue
        key = (type(op), op.operands, tuple(op.properties.items()), tuple(op.result_types))
        known = there.setdefault(key, op)
        if known is not op:
            for old, new in zip(op.results, known.results, strict=True):
                old.replace_all_uses_with(new)
            op.detach()
            op.erase()


def _of_row(v: SSAValue, kernel: KernelOp) -> bool:
    """Whether a value is the same for all of a row."""
    return isinstance(v.owner, Operation) and v.owner.parent is kernel.body.block


def _is_factor(v: SSAValue, values: Factors) -> bool:
    (product,) = cast(YieldOp, values.inner.body.block.last_op).values
    return isinstance(product.owner, arith.MulfOp) and v in product.owner.operands and v is not values.right


def share_buffers(kernel: KernelOp) -> None:
    """Write where something was read for the last time, in place; loops that only copy then are left out."""
    for top in [o for o in kernel.body.block.ops if isinstance(o, ForOp)]:
        for store in [o for o in top.body.block.ops if isinstance(o, StoreOp)]:
            loads = [o for o in top.body.block.ops if isinstance(o, LoadOp) and o.index == store.index]
            for load in loads:
                if _may_share(kernel, top, load, store):
                    store.target.replace_all_uses_with(load.source)
                    if store.value is load.res:
                        store.detach()
                        store.erase()
                    break
        if not top.reduce.data and not any(isinstance(o, StoreOp) or o.regions for o in top.body.block.ops):
            top.detach()
            top.erase()


def _may_share(kernel: KernelOp, top: Operation, load: LoadOp, store: StoreOp) -> bool:
    old, new = load.source, store.target
    if old is new or not {old, new} <= set(_buffers(kernel)) or old.type != new.type:
        return False
    if not load.is_before_in_block(store) or load.indices or store.indices or load.mask is not None:
        return False
    order = {o: i for i, o in enumerate(kernel.body.block.ops)}
    here = order[top]
    for at, a in _accesses(kernel):
        buffer = buffer_of(a)
        if buffer is old and (order[at] > here or (order[at] == here and a.index != load.index)):
            return False
        if buffer is new and (order[at] < here or (order[at] == here and a is not store)):
            return False
    return True


def _buffers(kernel: KernelOp) -> Iterator[SSAValue]:
    return (o.res for o in kernel.body.block.ops if isinstance(o, ScratchOp))


def _accesses(kernel: KernelOp) -> Iterator[tuple[Operation, Access]]:
    """All loads and stores, with the op of the kernel's own block that has them."""
    for top in kernel.body.block.ops:
        for a in accesses([top, *(o for r in top.regions for o in body_ops(r))]):
            yield top, a


def blocks_of_rows(kernel: KernelOp, row: LoopDim, machine: Machine, hints: Hints, most: int) -> int:
    """How many blocks of rows there are: half of the cache holds what a block keeps, all threads have work."""
    rows = cast(int, row.extent)
    kept = [o.res.type for o in kernel.body.block.ops if isinstance(o, ScratchOp)]
    bytes_ = sum(itemsize(t.dtype) * hints.size(t.numel) for t in kept)
    most = max(1, min(most, machine.l2 // 2 // max(bytes_, 1)))
    others = hints.points(tuple(d for d in kernel.grid if d.name != row.name))
    shares = -(-2 * machine.threads // max(others, 1)) if machine.parts else 1
    return max(-(-rows // most), min(shares, -(-rows // 16)))
