"""Names for kernels: `fused_add_layer_norm_3` says which operators it computes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from xdsl.dialects.builtin import FusedLoc, NameLoc
from xdsl.ir import Attribute, Operation

from ..dialects.loop import FnOp, LoadOp, NestOp, ScatterOp

MAX_WORDS = 4
"""Operators in a name at most."""

_PLAIN = frozenset(
    [
        "add",
        "sub",
        "mul",
        "div",
        "neg",
        "view",
        "reshape",
        "_to_copy",
        "to",
        "clone",
        "copy",
        "expand",
        "permute",
        "transpose",
        "t",
        "unsqueeze",
        "squeeze",
        "slice",
        "select",
        "convert",
        "convert_element_type",
        "full",
        "scalar_tensor",
        "contiguous",
        "alias",
        "detach",
        "lift_fresh_copy",
        "split",
        "unbind",
        "arange",
    ]
)
"""Operators that tell little; named only where nothing better is there."""


_NAMESPACES = ("aten.", "torch_prims.")
KINDS = {"add": "sum", "mul": "prod", "and": "all", "or": "any", "welford": "var_mean"}


def origins(op: Operation) -> list[str]:
    """The operators that a loop op came from, as its location names them; else what its body does."""
    found = _named(op.location)
    if found:
        return list(found)
    if isinstance(op, ScatterOp):
        return ["scatter"]
    return _described(op) if isinstance(op, NestOp) else [op.name.rpartition(".")[2]]


def _named(location: Attribute | None) -> dict[str, None]:
    """The names in a location that `aten-to-prims` put there, in order."""
    if isinstance(location, FusedLoc):
        return {name: None for part in location.locations.data for name in _named(part)}  # pyright: ignore
    if isinstance(location, NameLoc):
        own = {location.desc.data: None} if location.desc.data.startswith(_NAMESPACES) else {}
        return own | _named(location.location)
    return {}


def _described(op: NestOp) -> list[str]:
    body = list(op.body.block.ops)
    words = [o.name.rpartition(".")[2] for o in body if o.name.startswith("math.")]
    words += [o.fn.data for o in body if isinstance(o, FnOp)]
    if any(isinstance(o, LoadOp) and len(o.operands) > 1 and o.indices for o in body):
        words.append("gather")
    if op.scan is not None and not len(op.reduce):
        words += [f"cum{KINDS.get(k.data, k.data)}" for k in op.combine.data]
    else:
        words += [KINDS.get(k.data, k.data) for k in op.combine.data]
    if not words:
        words = [re.sub(r"(f|i|si|ui)$", "", o.name[6:]) for o in body if o.name.startswith("arith.")]
        words = [w for w in words if w not in ("constant", "ext", "trunc", "cmp", "select")]
    return list(dict.fromkeys(words)) or ["copy"]


def word(origin: str) -> str:
    """`aten.native_layer_norm.default` as `layer_norm`."""
    parts = [p for p in origin.split(".") if p]
    if len(parts) > 1 and parts[0] in ("aten", "torch_prims", "loop"):
        parts = parts[1:]
    name = re.sub(r"\W+", "_", parts[0] if parts else "op").strip("_").lower()
    return re.sub(r"^native_", "", name) or "op"


def kernel_name(ops: Iterable[str], fused: bool) -> str:
    """A name without its number, from the operators in order."""
    words = list(dict.fromkeys(map(word, ops)))
    telling = [w for w in words if w not in _PLAIN]
    chosen = telling[:MAX_WORDS]
    if len(chosen) < MAX_WORDS:
        chosen = [w for w in words if w in chosen or w in words[:MAX_WORDS]][:MAX_WORDS]
    name = "_".join(chosen or ["op"])[:60].rstrip("_")
    return f"fused_{name}" if fused and len(words) > 1 else name
