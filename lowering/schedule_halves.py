"""The largest of f16 or bf16 as f32 is that of the halves, of which vectors hold twice as many; bytes are not
rounded to halves on their way to f32.

%m = for [r0 = 64] reduce [max] { yield extf load %x[r0] } : f32
%h = for [r0 = 64] reduce [max] { yield load %x[r0] } : bf16        %m = extf %h

extf (truncf %f : f32 to bf16) : bf16 to f32  =  %f        where %f = sitofp %i : i8 to f32
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, f32
from xdsl.ir import SSAValue

from ..dialects.loop import ForOp, KernelOp, YieldOp, body_ops
from ..dialects.tensor import HALF_TYPES


def compare_halves(kernel: KernelOp) -> None:
    """Rewrite such loops of a kernel in place."""
    for loop in [o for o in body_ops(kernel.body) if isinstance(o, ForOp)]:
        _compare_halves(loop)


def _compare_halves(loop: ForOp) -> None:
    end = loop.body.block.last_op
    if not isinstance(end, YieldOp) or any(k.data not in ("max", "min") for k in loop.reduce.data):
        return
    wide = [v.owner for v in end.values if isinstance(v.owner, arith.ExtFOp)]
    if len(wide) != len(loop.res) or not all(_is_yielded_half(o) for o in wide):
        return
    block = loop.parent_block()
    assert block is not None
    for k, (op, result) in enumerate(zip(wide, loop.res, strict=True)):
        end.operands[k] = op.input
        result._type = op.input.type  # pyright: ignore[reportPrivateUsage]
        again = arith.ExtFOp(result, f32)
        again.location = op.location
        block.insert_op_after(again, loop)
        result.replace_uses_with_if(again.result, lambda use, new=again: use.operation is not new)
        op.detach()
        op.erase()


def _is_yielded_half(op: arith.ExtFOp) -> bool:
    half = isinstance(op.input.type, HALF_TYPES)
    return half and op.result.type == f32 and op.result.has_one_use()


def convert_bytes(kernel: KernelOp) -> None:
    """Take bytes in f32 as they are, in place, where they are rounded to halves before: these hold each of them."""
    for op in list(body_ops(kernel.body)):
        half = op.input.owner if isinstance(op, arith.ExtFOp) else None
        if not isinstance(half, arith.TruncFOp) or not _is_byte(half.input) or half.input.type != op.results[0].type:
            continue
        op.results[0].replace_all_uses_with(half.input)
        op.detach()
        op.erase()
        if half.result.first_use is None:
            half.detach()
            half.erase()


def _is_byte(value: SSAValue) -> bool:
    """Whether it is a whole number of 8 bits at most."""
    made = value.owner
    if not isinstance(made, arith.SIToFPOp | arith.UIToFPOp):
        return False
    return isinstance(t := made.input.type, IntegerType) and t.width.data <= 8
