"""Masks of attention that hide nothing, or just the future, taken out of TorchDynamo's graph.

Libraries make such masks where they trace, as they cannot look at values then; eagerly they pass none. With a mask,
torch chooses a slower kernel, on a GPU often the unfused one. A mask that depends on no input of the graph is computed
once here, and where all of it is true, or it is the lower triangle, the call gets none, or `is_causal`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from .torch_compat import real_tensors

ATTENTION = torch.nn.functional.scaled_dot_product_attention
PARAMETERS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
MOST_ELEMENTS = 1 << 26
"""Of a mask that is computed when compiling."""


def without_needless_masks(graph: GraphModule) -> int:
    """Change the calls of attention in place; how many lost their mask."""
    changed = 0
    found: dict[Node, str] = {}
    for node in graph.graph.nodes:
        if node.op != "call_function" or node.target is not ATTENTION:
            continue
        given = dict(zip(PARAMETERS, node.args, strict=False)) | dict(node.kwargs)
        mask = given.get("attn_mask")
        if not isinstance(mask, Node) or given.get("is_causal"):
            continue
        kind = found.get(mask)
        if kind is None:
            kind = found[mask] = _kind(mask)
        if not kind:
            continue
        causal = {"is_causal": True} if kind == "causal" else {}
        node.args = tuple(given[name] for name in PARAMETERS[:3])
        node.kwargs = {k: v for k, v in given.items() if k not in PARAMETERS[:4]} | causal
        changed += 1
    if changed:
        graph.graph.eliminate_dead_code()
        graph.recompile()
    return changed


def _kind(mask: Node) -> str:
    """What a mask does: "open" if it hides nothing, "causal" for the lower triangle of a square, else ""."""
    fake = mask.meta.get("example_value")
    if not isinstance(fake, torch.Tensor) or fake.dim() < 2 or not all(type(n) is int for n in fake.shape):
        return ""
    if not 0 < fake.numel() <= MOST_ELEMENTS:
        return ""
    needed = _closure(mask)
    if needed is None:
        return ""
    with real_tensors(), torch.no_grad():
        value = _computed(needed)
    if not isinstance(value, torch.Tensor) or value.shape != fake.shape:
        return ""
    seen = value if value.dtype is torch.bool else value == 0
    if bool(seen.all()):
        return "open"
    rows, columns = seen.shape[-2:]
    if rows != columns:
        return ""
    hidden = ~seen if value.dtype is torch.bool else value == -torch.inf
    lower = torch.ones(rows, rows, dtype=torch.bool, device=seen.device).tril()
    return "causal" if bool((seen == lower).all()) and bool((hidden == ~lower).all()) else ""


def _closure(node: Node) -> list[Node] | None:
    """The calls that make a value, in order; None where an input of the graph or something with effects is needed."""
    needed: set[Node] = set()
    stack = [node]
    while stack:
        n = stack.pop()
        if n in needed:
            continue
        if n.op not in ("call_function", "call_method") or n.is_impure() or _is_random(n):
            return None
        needed.add(n)
        stack.extend(n.all_input_nodes)
    if any(_written(n, needed) for n in node.graph.nodes if n not in needed):
        return None
    return [n for n in node.graph.nodes if n in needed]


def _is_random(node: Node) -> bool:
    name = getattr(node.target, "__name__", str(node.target))
    return name.startswith(("rand", "bernoulli", "multinomial", "normal", "dropout", "empty"))


_IN_PLACE = frozenset(getattr(operator, name) for name in dir(operator) if name.startswith("i") and name != "is_")


def _written(node: Node, values: set[Node]) -> bool:
    """Whether a call writes one of the values, perhaps through a view of it."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    in_place = node.target in _IN_PLACE or node.target is operator.setitem or (name[-1:] == "_" and name[-2:] != "__")
    stack = [n for n in (*(node.args[:1] if in_place else ()), node.kwargs.get("out")) if isinstance(n, Node)]
    seen: set[Node] = set()
    while stack:
        n = stack.pop()
        if n in values:
            return True
        if n not in seen:
            seen.add(n)
            stack.extend(n.all_input_nodes)
    return False


def _computed(nodes: Sequence[Node]) -> Any:
    """The value of the last node; None where a call fails."""
    values: dict[Node, Any] = {}
    for node in nodes:
        args, kwargs = map_arg((node.args, dict(node.kwargs)), values.__getitem__)
        try:
            if node.op == "call_method":
                assert isinstance(node.target, str)
                values[node] = getattr(args[0], node.target)(*args[1:], **kwargs)
            else:
                assert callable(node.target)
                values[node] = node.target(*args, **kwargs)
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
            return None
    return values[nodes[-1]]
