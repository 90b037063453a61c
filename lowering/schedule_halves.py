"""The largest of f16 or bf16 as f32 is that of the halves, of which vectors hold twice as many.

%m = for [r0 = 64] reduce [max] { yield extf load %x[r0] } : f32
%h = for [r0 = 64] reduce [max] { yield load %x[r0] } : bf16        %m = extf %h
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import BFloat16Type, Float16Type, f32

from ..dialects.loop import ForOp, KernelOp, YieldOp, body_ops


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
    half = isinstance(op.input.type, (BFloat16Type, Float16Type))
    return half and op.result.type == f32 and op.result.has_one_use()
