"""loop (kernels) to itself: numbers of the CPU that nothing but kernels of one GPU read are arguments on that GPU.

    func.func @main(%rate: !sym.t<[], f64>) { %r = aten._to_copy(%rate, device = "cuda:0"); loop.launch @k(%r) }
    func.func @main(%rate: !sym.t<[], f64, device=cuda:0>) { loop.launch @k(%rate) }

Before: copies that `aten-devices` and `aten-to-prims` have made. After: the caller makes them, of the arguments whose
positions the module's attribute `lamella.uploads` has, as arguments of a kernel that fills memory (codegen/runtime.py),
or writes them to where a recorded graph reads them (frontend/cuda_recording.py). The GPU is not waited for.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, cast

import sympy
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, FunctionType, IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from ..dialects.aten import AtenOp
from ..dialects.flow import all_ops
from ..dialects.loop import LaunchOp
from ..dialects.tensor import SymType, TensorType, is_number
from ..dialects.verify_program import size_names
from .float_expressions import copied

UPLOADS: Final = "lamella.uploads"


@dataclass(frozen=True)
class UploadNumbers(ModulePass):
    """Have the caller copy numbers to the GPU whose kernels read them."""

    name = "upload-numbers"
    statistics: dict[str, int] = field(default_factory=dict[str, int], init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        function = next((f for f in op.ops if isinstance(f, FuncOp) and f.sym_name.data == "main"), None)
        if function is None or function.is_declaration:
            return
        moved = [a.index for a in function.body.block.args if is_number(a.type) and _move(a, function)]
        self.statistics["uploads"] = len(moved)
        if moved:
            op.attributes[UPLOADS] = ArrayAttr([IntegerAttr(i, i64) for i in moved])
            types = [a.type for a in function.body.block.args]
            function.function_type = FunctionType.from_lists(types, list(function.function_type.outputs.data))


def _move(number: BlockArgument, function: FuncOp) -> bool:
    """Whether the argument could be made one of a GPU."""
    users = [use.operation for use in number.uses]
    copies = [o for o in users if _is_upload(o, number)]
    reads = [o for o in users if isinstance(o, AtenOp) and o.name == "aten._local_scalar_dense"]
    if cast(TensorType, number.type).dtype == "u64":  # no number that torch fills memory with
        return False
    if len({c.results[0].type for c in copies}) != 1 or len(copies) + len(reads) < len(users):
        return False
    if any(c.parent is not function.body.block for c in copies) or _are_used(reads, function):
        return False
    for read in reads:
        read.detach()
        read.erase()
    type = copies[0].results[0].type
    for copy in copies:
        copy.results[0].replace_all_uses_with(number)
        copy.detach()
        copy.erase()
    SSAValue.get(number)._type = type  # pyright: ignore[reportPrivateUsage]
    return True


def _is_upload(op: Operation, number: BlockArgument) -> bool:
    """Whether an op is what `copied` makes of the number, and kernels alone read it."""
    if not isinstance(op, AtenOp) or op.name != "aten._to_copy":
        return False
    result = op.results[0]
    if not isinstance(t := result.type, TensorType) or not t.device.startswith("cuda"):
        return False
    alike = copied(number, t.device, None)
    same = alike.args() == op.args() and alike.results[0].type == t
    alike.erase()
    return same and all(isinstance(use.operation, LaunchOp) for use in result.uses)


def _are_used(reads: Collection[Operation], function: FuncOp) -> bool:
    """Whether the program has a number that one of these reads."""
    if not reads:
        return False
    if any(read.results[0].uses for read in reads):
        return True
    types = (read.results[0].type for read in reads)
    names = {t.expr.name for t in types if isinstance(t, SymType) and isinstance(t.expr, sympy.Symbol)}
    return any(_names(op) & names for op in all_ops(function.body.block) if op not in reads)


def _names(op: Operation) -> set[str]:
    """Of the numbers in what an op says."""
    blocks = (block for region in op.regions for block in region.blocks)
    types = (v.type for v in (*op.results, *(a for block in blocks for a in block.args)))
    return {name for attribute in (*op.properties.values(), *types) for name in size_names(attribute)}
