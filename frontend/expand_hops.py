"""Higher-order operators that are said in terms of ATen: each call is replaced by what torch's own definition calls.

`auto_functionalized` around an operator that writes becomes copies and the operator itself; a copy is left out where
nobody reads what it would keep, and so for kernels that users write in Triton (`user_kernels.py`).
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch._C import DispatchKey
from torch._guards import detect_fake_mode
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from .graph_parts import parts_of
from .user_kernels import KERNELS, launched

log = logging.getLogger("lamella")

WRITING: Final = frozenset({"auto_functionalized", "auto_functionalized_v2"}) | KERNELS
"""Operators around one that writes, which writes to copies."""

FUNCTIONAL: Final = frozenset({"out_dtype"})
"""Operators whose definition is traced without writes."""


def expanded(graph: GraphModule) -> GraphModule:
    """The graph without calls of these operators, but those that cannot be traced; itself where there are none."""
    called = {n.target for n in graph.graph.nodes if isinstance(n.target, HigherOrderOperator)}
    if not called:
        return graph
    held = parts_of(graph).held
    inner = {v: expanded(v) for v in held.values() if isinstance(v, GraphModule)}
    held = {n: inner[v] if isinstance(v, GraphModule) else v for n, v in held.items()}
    same = all(held[n] is v for n, v in parts_of(graph).held.items())
    if same and not {op.__name__ for op in called} & (WRITING | FUNCTIONAL):
        return graph
    return _Expansion(graph, held).run()


class _Expansion:
    """A copy of a graph, node by node."""

    def __init__(self, graph: GraphModule, held: Mapping[Node, Any]) -> None:
        self.old = graph
        self.held = held
        self.graph = Graph()
        self.env: dict[Node, Any] = {}
        self.root = torch.nn.Module()
        self.mode: Any = detect_fake_mode([n.meta.get("val") for n in graph.graph.nodes])

    def run(self) -> GraphModule:
        for node, value in self.held.items():
            _set(self.root, str(node.target), value)
        for node in self.old.graph.nodes:
            target = node.target
            name = getattr(target, "__name__", "")
            if isinstance(target, HigherOrderOperator) and name in WRITING | FUNCTIONAL:
                self.env[node] = self.expand(node, target)
            elif target is _COPY and self.env[node.args[0]] is self.env.get(node.args[1]):
                self.env[node] = self.env[node.args[0]]  # what is written is the argument itself
            elif target is operator.getitem and isinstance(source := self.env[node.args[0]], (tuple, dict)):
                self.env[node] = source[node.args[1]]
            else:
                self.env[node] = self.graph.node_copy(node, self.env.__getitem__)
        return GraphModule(self.root, self.graph)

    def expand(self, node: Node, target: HigherOrderOperator) -> Any:
        """Trace torch's definition of the call, and insert what it calls; the new nodes of the results.

        The call itself where that fails.
        """
        kwargs = dict(node.kwargs)
        if target.__name__ in WRITING:
            kwargs |= _spared(node, self.held)
        flat, spec = pytree.tree_flatten((node.args, kwargs))
        given = list(dict.fromkeys(v for v in flat if isinstance(v, Node) and v not in self.held))
        own = target.__name__ in KERNELS
        dense: Any = launched if own else target.py_kernels[DispatchKey.CompositeExplicitAutograd]

        def call(*values: Any) -> Any:
            known = dict(zip(given, values, strict=True))
            leaves = [(known[v] if v in known else self.held[v]) if isinstance(v, Node) else v for v in flat]
            args, keywords = pytree.tree_unflatten(leaves, spec)
            return dense(*args, **keywords)

        traced = call if target.__name__ in WRITING else torch.func.functionalize(call)
        try:
            with self.mode, torch.no_grad():
                inner = make_fx(traced)(*(v.meta["val"] for v in given))
        except Exception as error:  # whatever torch's own definition meets: then torch runs it
            log.info("node %s: %s cannot be traced: %s: %s", node.name, target, type(error).__name__, error)
            return self.graph.node_copy(node, self.env.__getitem__)
        return self.insert(inner, [self.env[v] for v in given], node)

    def insert(self, inner: GraphModule, given: list[Any], at: Node) -> Any:
        """The calls of a traced graph, on these arguments."""
        env: dict[Node, Any] = dict(zip((n for n in inner.graph.nodes if n.op == "placeholder"), given, strict=True))
        held = parts_of(inner).held
        for node in inner.graph.nodes:
            if node.op == "placeholder":
                continue
            if node.op == "output":
                return pytree.tree_map_only(Node, env.__getitem__, _as_tuple(node.args[0]))
            copy = env[node] = self.graph.node_copy(node, env.__getitem__)
            for key in ("stack_trace", "nn_module_stack", "seq_nr"):
                if key in at.meta:
                    copy.meta[key] = at.meta[key]
            if node in held:
                copy.target = f"_held_{at.name}_{node.name}"
                _set(self.root, copy.target, held[node])
        raise AssertionError("a graph has an output")


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _set(root: torch.nn.Module, path: str, value: Any) -> None:
    """Set an attribute of an attribute, and so on."""
    *parents, name = path.split(".")
    for parent in parents:
        if not hasattr(root, parent):
            setattr(root, parent, torch.nn.Module())
        root = getattr(root, parent)
    setattr(root, name, value)


def _spared(node: Node, held: Mapping[Node, Any]) -> dict[str, Any]:
    """Which of the tensors that a call writes it need not copy: those that are made for it, and arguments that get what
    was written.
    """
    if node.target.__name__ in KERNELS:  # pyright: ignore
        named: Any = node.kwargs["kwargs"]
        asked: Any = node.kwargs.get("tensors_to_clone", ())
        return {"copied": tuple(name for name in asked if not _is_free(named[name], node, name))}
    schema: Any = _schema(node, held)
    first = max(1, len(schema.returns))  # of the results, where what is written begins
    if node.target.__name__ == "auto_functionalized_v2":  # pyright: ignore
        bases: Any = node.kwargs.get("_all_bases", ())
        return {"_only_clone_these_bases": tuple(i for i, x in enumerate(bases) if not _is_free(x, node, first + i))}
    written = [a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    copied = [name for i, name in enumerate(written) if not _is_free(node.kwargs.get(name), node, first + i)]
    return {"_only_clone_these_tensors": tuple(copied)}


def _schema(node: Node, held: Mapping[Node, Any]) -> Any:
    """What the operator that writes takes and gives; a graph that writes says so at each call of it."""
    if isinstance(called := node.args[0], OpOverload):
        return called._schema
    said: Any = node.kwargs["_op_schema"]
    return pytree.tree_unflatten([], held[said] if isinstance(said, Node) else said).schema


def _is_free(base: Any, node: Node, result: int | str) -> bool:
    """Whether nobody but `node` sees the memory of a value, or it is an argument that is given what was written to it:
    that result of `node`.
    """
    if not isinstance(base, Node):
        return False
    others = [u for u in base.users if u is not node]
    if base.op == "placeholder":
        return bool(others) and all(_is_copied_back(u, base, node, result) for u in others)
    return base.op == "call_function" and not others and _makes_memory(base.target)


_COPY = torch.ops.aten.copy_.default


def _is_copied_back(user: Node, base: Node, node: Node, result: int | str) -> bool:
    """Whether a use of an argument is that this result of `node` is copied to it."""
    if user.target is not _COPY or user.args[0] is not base or not isinstance(source := user.args[1], Node):
        return False
    return source.target is operator.getitem and source.args == (node, result)


def _makes_memory(target: Callable[..., Any] | str) -> bool:
    """Whether what an operator returns is new memory."""
    if not isinstance(target, OpOverload) or target.namespace != "aten":
        return False
    aliases = any(r.alias_info is not None for r in target._schema.returns)
    return not aliases and not target.has_kernel_for_dispatch_key(DispatchKey.CompositeImplicitAutograd)
