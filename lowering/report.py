"""What a module of kernels tells its user: kernels with source lines and costs, and the calls that stay in ATen."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument

from ..dialects import expr, host
from ..dialects.aten import AtenOp
from ..dialects.loop import IndexAttr, KernelOp, LaunchOp
from ..dialects.tensor import TensorType
from .decisions import decided
from .host_calls import is_read
from .origins import Call, lines, origins
from .out_variants import OUT_VARIANTS
from .promotion import COMPUTE_DTYPES
from .random_seeds import is_draw

SEEDS = "the seeds of random numbers in kernels are drawn from torch's generator"
"""Why a call stays that is no part of the operator it comes from."""

VIEW = "a view, which computes nothing"
"""Why a call stays that only makes an alias."""

READ = "a number is read from memory"
"""Why an operator stays that no call is made of."""

_LIBRARY = {
    "matrix product: ATen's library is called": frozenset(
        {"mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "_int_mm", "linear"}
    ),
    "convolution: ATen's library is called": frozenset(
        {"convolution", "convolution_backward", "_convolution", "mkldnn_convolution"}
    ),
    "sorting: ATen's is called": frozenset({"sort", "argsort", "topk", "kthvalue", "msort", "unique_dim", "_unique2"}),
    "how large the result is depends on the data": frozenset({"nonzero", "masked_select", "_local_scalar_dense"}),
}


def why(op: AtenOp) -> str:
    """Why an operator stays a call."""
    if is_draw(op):
        return SEEDS
    if is_read(op):
        return READ
    from .aten_to_prims import RULES  # with all its tables: only whoever asks has to load them

    if op.schema.name.startswith("mkldnn."):
        return "convolution: oneDNN is called, with what follows and weights in its layout"
    if op.name == "lamella.triton_kernel":
        return f"a kernel that the user wrote in Triton: {op.arg('kernel').partition('@')[0]}"
    if (custom := op.schema.name.partition(".")[0]) not in ("aten", "torch_prims"):
        return f"a custom operator of '{custom}'"
    if op.schema.is_view and not op.schema.mutates:
        return VIEW
    name = op.schema.name.split(".")[1]
    if "scaled_dot_product" in name or "attention" in name:
        return "attention: ATen's fused kernel is called"
    for reason, names in _LIBRARY.items():
        if name in names:
            return reason
    tensors = [v.type for v in (*op.operands, *op.results) if isinstance(v.type, TensorType)]
    if elsewhere := sorted({t.device for t in tensors} - {"cpu"}):
        return f"its tensors are on {elsewhere[0]}"
    if op.schema.mutates:
        return "it writes into an argument of the program" if _writes_argument(op) else "it writes in place"
    if other := sorted({t.dtype for t in tensors} - COMPUTE_DTYPES):
        return f"kernels do not compute with {other[0]}"
    if "nondeterministic_seeded" in op.schema.tags:
        return "random numbers: torch's generator is called, so that seeds give eager's numbers"
    return "its lowering does not cover these arguments" if op.name in RULES else "it has no lowering"


def _writes_argument(op: AtenOp) -> bool:
    return any(a.mutated and isinstance(v, BlockArgument) for a, v in zip(op.schema.args, op.args(), strict=True))


def _value(attribute: Any) -> Any:
    if isinstance(attribute, IndexAttr):
        return ", ".join(expr.text(e) for e in attribute)
    if isinstance(attribute, ArrayAttr):
        return [_value(a) for a in attribute.data]
    if isinstance(attribute, StringAttr):
        return attribute.data
    return getattr(getattr(attribute, "value", None), "data", str(attribute))


def take_notes(done: str, module: ModuleOp, notes: dict[str, Any]) -> None:
    """What is visible after one pass only, the pass that is `done`, and told to the user later."""
    if done == "launch-together":
        notes["decisions"] = decided(module)
    elif done == "bufferize":  # makes variants of kernels, and copies superfluous
        notes["calls"] = calls(module)
        notes["kernels"] = kernels(module)


def kernels(module: ModuleOp) -> list[dict[str, Any]]:
    """One record per kernel: name, launches, ops, source lines, bytes and flops as expressions of its sizes.

    `ops` maps each operator to the lines it is written in, `lines` are those of all of them.
    """
    launches: dict[str, int] = {}
    for op in module.walk():
        if isinstance(op, (LaunchOp, host.LaunchOp)):
            launches[op.callee] = launches.get(op.callee, 0) + 1
    return [
        {
            "name": op.sym_name.data,
            "launches": launches.get(op.sym_name.data, 0),
            "ops": _operators(op),
            "lines": lines(op.location),
            **{k: _value(op.attributes[k]) for k in ("bytes", "flops") if k in op.attributes},
        }
        for op in module.ops
        if isinstance(op, KernelOp)
    ]


def _operators(kernel: KernelOp) -> dict[str, list[str]]:
    """The operators that a kernel computes, each with its lines."""
    named = kernel.attributes.get("ops")
    found: dict[str, dict[str, None]] = {name: {} for name in (_value(named) if named is not None else ())}
    for origin in origins(kernel.location):
        if origin.operator and origin.file:
            found.setdefault(origin.operator, {})[origin.place] = None
    return {name: list(places) for name, places in found.items()}


def calls(module: ModuleOp) -> list[Call]:
    """The operators that stay calls into ATen, in order: of a host program those that it calls, without the copies that
    kernels make superfluous.
    """
    named = {variant: name for name, variant in OUT_VARIANTS.items()}
    return [
        Call(named.get(op.name, op.name), next((o.place or o.module for o in origins(op.location)), "?"), why(op))
        for f in module.ops
        if isinstance(f, (FuncOp, host.FuncOp))
        for op in f.body.walk()
        if isinstance(op, AtenOp)
    ]
