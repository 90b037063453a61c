"""AOTAutograd's joint graph, as torch's own partitioner classifies and splits it. Names that are not public are used
here only; they are the same from torch 2.11 to 2.13 but for the keywords that `_given` leaves out.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch._functorch import config as _config
from torch._functorch import partitioners as _partitioners
from torch._functorch.compile_utils import raise_getitems
from torch._guards import detect_fake_mode
from torch.fx import Graph, GraphModule, Node
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.experimental.proxy_tensor import is_sym_node
from torch.utils.checkpoint import CheckpointPolicy

from .aliases import NotFunctional
from .joint_batch_norm import drop_running_statistics, part_batch_norm
from .joint_cse import eliminate_common_subexpressions
from .joint_layout import with_channels_last
from .joint_pool import narrow_indices
from .joint_random import with_seeds, without_states
from .joint_softmax import part_log_softmax
from .overlap import overlaps_itself
from .torch_compat import InputMutationAOTOutput, TangentAOTInput

config: Any = _config
partitioners: Any = _partitioners

UNKNOWN_SIZE = 4096
"""What an unbacked size counts as."""


def symbol_like(node: Node) -> bool:
    """Whether a node's value is a symbolic number."""
    return is_sym_node(node) or isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool))


def hinted(size: int | torch.SymInt) -> int:
    """A size as seen when tracing."""
    if isinstance(size, int):
        return size
    node: Any = size.node
    seen = node.expr.xreplace(node.shape_env.backed_var_to_val)
    return int(seen) if seen.is_Integer else UNKNOWN_SIZE


class JointGraph:
    """A joint graph without dead code and common subexpressions, with torch's classes of nodes.

    `forward`: nodes that the forward's results need. `needs_tangents`: nodes that depend on gradients given to the
    backward. `backward`: those, and what the backward returns.
    """

    def __init__(
        self,
        module: GraphModule,
        inputs: Sequence[Any],
        settings: Mapping[str, Any],
        rounds_as_eager: bool = False,
        eagers_numbers: bool = False,
    ) -> None:
        _refuse_overlapping_gradients(module)
        drop_running_statistics(module.graph)
        module.graph.eliminate_dead_code()
        if not rounds_as_eager:
            part_log_softmax(module.graph)
            module.graph = with_channels_last(module.graph)
            part_batch_norm(module.graph)
            narrow_indices(module.graph)
        if config.cse:
            eliminate_common_subexpressions(module.graph)
        module.recompile()
        self._recomputes = partitioners.has_recomputable_ops(module)
        self._replays = False
        if self._recomputes:
            module = partitioners.cleanup_recompute_tags(module, is_default_partition=False)
            again = {n for n in module.graph.nodes if self.must_recompute(n)}
            self._replays = with_seeds(module.graph, again, eagers_numbers)
        for mark in ("force_save_collectives", "force_save_effectful_ops", "force_save_bw_mutation_src"):
            if hasattr(partitioners, mark):
                getattr(partitioners, mark)(module)
        self.module = module
        self.graph = module.graph
        self._inputs = inputs
        self._settings = dict(settings)
        static: list[int] = settings.get("static_lifetime_input_indices") or []
        info = self._info = partitioners.classify_nodes(module, static, settings["num_fwd_outputs"])
        self.forward = frozenset(info.required_fw_nodes)
        self.backward = frozenset(info.required_bw_nodes)
        self.needs_tangents = frozenset(info.tangents_closure)
        self._written = frozenset(n.name for n in _written(module))

    @cached_property
    def on_gpu(self) -> bool:
        """Whether what is saved lies in a GPU's memory."""
        values = (node.meta.get("val") for node in self.graph.nodes if node.op == "placeholder")
        return any(isinstance(value, torch.Tensor) and value.device.type == "cuda" for value in values)

    @property
    def returned(self) -> list[Node]:
        """What the program returns."""
        outputs: Any = self.graph.output_node().args[0]
        return [n for n in outputs[: self._settings["num_fwd_outputs"]] if isinstance(n, Node)]

    @property
    def has_backward(self) -> bool:
        return bool(self.backward)

    @property
    def budget(self) -> float:
        """torch's own setting of the share of activations to keep."""
        return float(config.activation_memory_budget)

    def must_recompute(self, node: Node) -> bool:
        """Whether `torch.utils.checkpoint` asked for it."""
        return bool(partitioners.must_recompute(node))

    def must_save(self, node: Node) -> bool:
        return node.meta.get("recompute") == CheckpointPolicy.MUST_SAVE

    def is_opaque(self, node: Node) -> bool:
        """Whether a value is an object that passes between the halves as it is."""
        known = getattr(partitioners, "is_opaque_node", None)
        return _holds_hooks(node) or (known is not None and bool(known(node)))

    def split(self, saved: Sequence[Node]) -> tuple[GraphModule, GraphModule]:
        """The forward, which also gives `saved`, and the backward, which takes it and computes what else it needs."""
        symbols = [n for n in saved if symbol_like(n)]
        # torch itself takes what holds hooks out of the values, and nowhere else
        opaque = [n for n in saved if n not in symbols and self.is_opaque(n) and not _holds_hooks(n)]
        values = [n for n in saved if n not in symbols and n not in opaque]
        extract = partitioners._extract_fwd_bwd_modules
        forward, backward = extract(
            self.module,
            values,
            **_given(
                extract,
                saved_sym_nodes=symbols,
                saved_opaque_nodes=opaque,
                num_fwd_outputs=self._settings["num_fwd_outputs"],
                static_lifetime_input_nodes=self._info.static_lifetime_input_nodes,
            ),
        )
        if self._recomputes and self._replays:
            forward, backward = partitioners.functionalize_rng_ops(self.module, forward, backward, len(symbols))
        without_states(forward)
        # torch makes a module with Python code of that; nobody calls it, as of the forward
        backward = _LazyGraphModule.from_graphmodule(partitioners.reordering_to_mimic_autograd_engine(backward))
        halves = (raise_getitems(forward), raise_getitems(backward))
        thread = getattr(partitioners, "thread_graphsafe_rng_from_hops", None)
        if thread is not None:
            halves = thread(halves[0], is_backward=False), thread(halves[1], is_backward=True)
        self._save_as_given(halves[0])
        return halves

    def split_by_position(self) -> tuple[GraphModule, GraphModule]:
        """Split a graph whose backward needs no gradients: as the nodes stand."""
        split = partitioners.default_partition
        halves = split(self.module, self._inputs, **_given(split, **self._settings))
        self._save_as_given(halves[0])
        return halves

    def _save_as_given(self, forward: GraphModule) -> None:
        """Copies of what is saved and written: the backward, as the functional graph, is about what an argument was.

        AOTAutograd saves the argument itself, whose write is the last thing that the forward does, or comes after it.
        """
        output, count = forward.graph.output_node(), self._settings["num_fwd_outputs"]
        outputs: list[Any] = list(output.args[0])  # pyright: ignore
        for i, saved in enumerate(outputs[count:], count):
            if isinstance(saved, Node) and saved.op == "placeholder" and saved.name in self._written:
                outputs[i] = _copied(forward.graph, saved)
        output.args = (tuple(outputs),)
        forward.recompile()


def _written(module: GraphModule) -> list[Node]:
    """The arguments that a joint graph writes, and those that AOTAutograd writes after it."""
    described = module.graph.output_node().meta.get("desc") or ()
    after = [d.mutated_input for d in described if isinstance(d, InputMutationAOTOutput)]

    def is_written(node: Node) -> bool:
        return any(user.target is torch.ops.aten.copy_.default and user.args[0] is node for user in node.users)

    places = [n for n in module.graph.nodes if n.op == "placeholder"]
    return [n for n in places if is_written(n) or n.meta.get("desc") in after]


def _refuse_overlapping_gradients(module: GraphModule) -> None:
    """AOTAutograd gives a gradient the strides of its result, and copies it into memory where elements overlap."""
    for node in module.graph.nodes:
        value = node.meta.get("val")
        if node.op != "placeholder" or not isinstance(node.meta.get("desc"), TangentAOTInput):
            continue
        if isinstance(value, torch.Tensor) and overlaps_itself(value):
            raise NotFunctional("elements of a result that has a gradient overlap in memory")


def _copied(graph: Graph, node: Node) -> Node:
    value: torch.Tensor = node.meta["val"]
    with detect_fake_mode([value]):  # pyright: ignore
        copied = value.clone()
    if copied.stride() != value.stride():
        raise NotFunctional("its backward needs an argument that it writes, which has gaps or overlaps in memory")
    with graph.inserting_before(next(n for n in graph.nodes if n.op != "placeholder")):
        copy = graph.call_function(torch.ops.aten.clone.default, (node,))
    copy.meta = {**node.meta, "val": copied}
    copy.meta.pop("desc", None)
    return copy


def _holds_hooks(node: Node) -> bool:
    """Whether a value is where TorchDynamo keeps hooks that compiled autograd is to call."""
    return isinstance(node.meta.get("val"), partitioners.BackwardState)


def _given(function: Callable[..., Any], **keywords: Any) -> dict[str, Any]:
    """The keywords that this version of torch knows."""
    known = inspect.signature(function).parameters
    return {name: value for name, value in keywords.items() if name in known}
