"""What must be known of a graph to record it as a CUDA graph, and what of it cannot be."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ..dialects import expr
from ..dialects.aten import AtenOp
from ..dialects.flow import all_ops
from ..dialects.symbol_kinds import Kind, symbol_kind
from ..dialects.tensor import SymType, TensorType, is_number
from .cuda_recording import Unrecordable


@dataclass(frozen=True)
class Arguments:
    """What must be known of a graph to record it."""

    device: int
    varying: tuple[int, ...] = ()
    """Inputs whose sizes (or values, for numbers) may differ between calls."""
    written: tuple[int, ...] = ()
    """Inputs that the graph writes."""
    kept: tuple[int, ...] = ()
    """Results that a backward gets and the program does not."""
    kind: str = "inference"
    """Or "forward", or "backward"."""
    asked: bool = True
    """Whether the user wants recordings; else only what pays is recorded."""
    uploads: tuple[int, ...] = ()
    """Inputs that are numbers of the CPU, and all tensors of it."""
    parameters: tuple[int, ...] = ()
    """Inputs that stay where they are, as parameters and buffers of modules, and differ between layers that share a
    graph.
    """

    @staticmethod
    def of(
        module: ModuleOp,
        devices: Collection[str],
        kind: str = "inference",
        kept: Sequence[int] = (),
        asked: bool = True,
        parameters: Collection[int] = (),
    ) -> Arguments:
        """Those of a module with tensors on `devices`. Raises Unrecordable."""
        function = next(op for op in module.ops if isinstance(op, FuncOp))
        uploads = tuple(a.index for a in function.body.block.args if is_number(a.type))
        others = {*devices} - ({"cpu"} if len(uploads) == _on_cpu(module) > 0 else set[str]())
        device = next(iter(others), "cpu")
        if len(others) != 1 or not device.startswith("cuda"):
            raise Unrecordable("it has tensors of the CPU or of several GPUs")
        for op in (o for f in module.ops if isinstance(f, FuncOp) for o in f.body.block.ops):
            if isinstance(op, AtenOp) and any(map(_is_found, op.results)):
                raise Unrecordable(f"{op.name} waits for the GPU: how large its result is depends on data")
            if _draws_elsewhere(op, device):
                raise Unrecordable(f"{op.name} draws from a generator of the CPU, which a replay would not")
        attributes = function.arg_attrs.data if function.arg_attrs is not None else ()
        written = (i for i, a in enumerate(attributes) if "lamella.mutated" in a.data)
        varying = (i for i, a in enumerate(function.body.block.args) if _varies(a.type))
        index = int(device.partition(":")[2] or 0)
        return Arguments(index, tuple(varying), tuple(written), (), kind, asked, uploads, tuple(sorted(parameters)))


def _on_cpu(module: ModuleOp) -> int:
    """How many tensors of the CPU there are."""
    blocks = [f.body.block for f in module.ops if isinstance(f, FuncOp)]
    ops = [o for block in blocks for o in all_ops(block)]
    values = [*(a for block in blocks for a in block.args), *(r for o in ops for r in o.results)]
    return sum(isinstance(v.type, TensorType) and v.type.device == "cpu" for v in values)


def _is_found(result: SSAValue) -> bool:
    """Whether a size, or a number, is known once an operator has run."""
    t = result.type
    sizes = t.shape if isinstance(t, TensorType) else (t.expr,) if isinstance(t, SymType) else ()
    return any(symbol_kind(s.name) is Kind.DATA for d in sizes for s in expr.symbols(d))


def _draws_elsewhere(op: Operation, device: str) -> bool:
    """Whether an operator draws random numbers from another generator than that of the GPU, which recordings know;
    attention without dropout draws none.
    """
    if not isinstance(op, AtenOp) or torch.Tag.nondeterministic_seeded not in op.overload.tags:
        return False
    if any(a.name == "dropout_p" and op.arg("dropout_p") == 0 for a in op.schema.args):
        return False
    return not any(isinstance(r.type, TensorType) and r.type.device == device for r in op.results)


def _varies(type: Any) -> bool:
    if isinstance(type, SymType):
        return True
    return isinstance(type, TensorType) and any(expr.symbols(d) for d in (*type.shape, *type.strides))
