"""The largest value of a row and the sum of exponentials below it in one pass, where a row is too long to be held.

    m = for [r] reduce [max] { x[r] }    s = for [r] reduce [add] { exp(x[r] - m) }
    m, s = for [r] reduce [expsum] { x[r] }

The sum so far is scaled down when a larger value comes (Milakov and Gimelshein, 2018).
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects import arith, math
from xdsl.ir import Operation, SSAValue
from xdsl.traits import Pure

from ..dialects.loop import ForOp, KernelOp, LoadOp, YieldOp
from .fuse_emit import drop_unused
from .tile_extent import at_most


def one_pass(kernel: KernelOp, held: int, again: int) -> None:
    """Rewrite the pairs of loops of a kernel whose rows have more than `held` elements, or more than `again` if a third
    loop reads them.
    """
    loops = [o for o in kernel.body.block.ops if isinstance(o, ForOp)]
    for i, first in enumerate(loops):
        if [k.data for k in first.reduce.data] != ["max"] or _held(first, held) or len(first.body.block.ops) > 32:
            continue
        for second in loops[i + 1 :]:
            if _is_sum_below(first, second):
                third = [o for o in loops if o is not first and o is not second and _reads(o) & _reads(first)]
                if third and _held(first, again):
                    break
                _merge(first, second)
                break


def _reads(loop: ForOp) -> set[SSAValue]:
    return {o.source for o in loop.body.block.ops if isinstance(o, LoadOp)}


def _held(loop: ForOp, most: int) -> bool:
    points = 1
    for d in loop.dims:
        n = at_most(d)
        if n is None:
            return False
        points *= n
    return points <= most


def _is_sum_below(first: ForOp, second: ForOp) -> bool:
    """Whether `second` is the sum over the same points of exp(x - m), with x and m the values of `first`."""
    if second.dims != first.dims or [k.data for k in second.reduce.data] != ["add"]:
        return False
    if not all(isinstance(o, (LoadOp, YieldOp)) or o.has_trait(Pure) for o in second.body.block.ops):
        return False
    grown = cast(YieldOp, second.body.block.last_op).values[0].owner
    apart = grown.operands[0].owner if isinstance(grown, math.ExpOp) else None
    if not isinstance(apart, arith.SubfOp) or apart.rhs is not first.res[0]:
        return False
    return alike(apart.lhs, cast(YieldOp, first.body.block.last_op).values[0])


def alike(a: SSAValue, b: SSAValue) -> bool:
    """Whether two values of loops over the same dims are computed alike."""
    x, y = a.owner, b.owner
    if a is b:
        return True
    if not isinstance(x, Operation) or type(x) is not type(y) or not isinstance(y, Operation):
        return False
    same = x.properties == y.properties and [r.type for r in x.results] == [r.type for r in y.results]
    known = isinstance(x, LoadOp) or x.has_trait(Pure)
    return same and known and len(x.operands) == len(y.operands) and all(map(alike, x.operands, y.operands))


def _merge(first: ForOp, second: ForOp) -> None:
    around, body = first.parent_block(), first.body.detach_block(0)
    assert around is not None
    types = [first.res[0].type] * 2
    new = ForOp.make(first.dims, body, reduce=["expsum"], result_types=types, location=first.location)
    around.insert_op_before(new, first)
    first.res[0].replace_all_uses_with(new.res[0])
    second.res[0].replace_all_uses_with(new.res[1])
    second.detach()
    second.erase()
    first.detach()
    first.drop_all_references()
    drop_unused(around)
