"""aten to aten: numbers in CPU tensors go to the GPU whose tensors they meet, so that kernels there can read them.

Eager takes a tensor of rank 0 on the CPU beside tensors of a GPU. Calls that no kernel replaces are left as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass

from ..dialects.aten import AtenOp
from ..dialects.flow import bodies
from ..dialects.tensor import TensorType, is_number
from .aten_to_prims import RULES
from .float_expressions import copied


@dataclass(frozen=True)
class AtenDevices(ModulePass):
    """Copy tensors of rank 0 from the CPU to the GPU where a call that becomes a kernel reads them."""

    name = "aten-devices"
    statistics: dict[str, int] = field(default_factory=dict[str, int], init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.statistics["copies"] = sum(_move(body.block) for body in bodies(op))


def _move(block: Block) -> int:
    """Puts the copies before the calls that need them first; how many there are."""
    there: dict[tuple[SSAValue, str], SSAValue] = {}
    for op in list(block.ops):
        if not isinstance(op, AtenOp) or op.name not in RULES:
            continue
        numbers = [v for v in op.operands if is_number(v.type)]
        met = {v.type.device for v in op.operands if isinstance(v.type, TensorType) and not is_number(v.type)}
        made = {r.type.device for r in op.results if isinstance(r.type, TensorType)}
        if not numbers or len(met) != 1 or not made <= met or (device := met.pop()) == "cpu":
            continue
        for v in dict.fromkeys(numbers):
            if (v, device) not in there:
                block.insert_op_before(copy := copied(v, device, op.location), op)
                there[v, device] = copy.results[0]
        op.operands = [there.get((v, device), v) for v in op.operands]
    return len(there)
