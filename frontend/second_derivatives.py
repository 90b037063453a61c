"""Derivatives of compiled backwards (`create_graph=True`), which AOTAutograd has none of.

A compiled backward is about values that its forward has saved, and what these are made of is lost: by itself torch
raises where one of them is an argument, and takes the others for constants. So where a backward is recorded, it is so
as a function of the arguments and gradients that it is in truth, whose derivatives are those of TorchDynamo's graph.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from operator import attrgetter
from typing import Any, TypeAlias
from unittest.mock import patch
from weakref import ref

import torch
from torch import Tensor
from torch._dynamo import disable
from torch._dynamo.eval_frame import skip_code
from torch._functorch._aot_autograd.runtime_wrappers import RuntimeWrapper
from torch._ops import HigherOrderOperator
from torch.fx import GraphModule
from torch.nn import Parameter

from .absent_gradients import leave_absent
from .batched import is_batched
from .torch_compat import ALIASES_OF_RESULTS, OutputType

_REMEDY = (
    "torch.func.grad or torch.func.hessian in the function that is compiled differentiates it twice; "
    "what torch.compiler.disable wraps is eager's"
)
_untraced: Any = disable(reason="do not trace a backward that is recorded")
_ONCE: dict[str, str] = dict.fromkeys(
    ("cond", "while_loop", "scan", "map_impl", "associative_scan", "flex_attention"), "torch.{0}"
)
_ONCE["autograd_function_apply"] = "a torch.autograd.Function in a graph"
"""Operators whose gradients have none in eager."""
_versions = attrgetter("_version")
_PLAIN = (OutputType.non_alias, OutputType.unsafe_view_alias, OutputType.custom_function_view)


@contextmanager
def twice_differentiable(graph: GraphModule, inputs: Sequence[Any]) -> Generator[None]:
    """A context in which AOTAutograd's functions are so; `graph` is TorchDynamo's, `inputs` are examples."""
    post_compile: Any = RuntimeWrapper.post_compile

    def extended(self: Any, compiled: Any, *others: Any, runtime_metadata: Any) -> Any:
        function: Any = getattr(compiled, "__self__", None)
        if isinstance(function, type) and issubclass(function, torch.autograd.Function):
            _extend(function, Differentiable(graph, inputs, runtime_metadata), leave_absent(function, graph))
        return post_compile(self, compiled, *others, runtime_metadata=runtime_metadata)

    with patch.object(RuntimeWrapper, "post_compile", extended):
        yield


def _extend(function: Any, program: Differentiable, absent: bool) -> None:
    """Have AOTAutograd's class of a graph note its arguments, and its backward recorded by `Backward`. `absent`: None
    is what it gets for gradients of results that nobody uses.
    """
    forward, backward = function.forward, function.backward
    boxed = getattr(function, "boxed_grads_call", False)

    def noting(ctx: Any, *args: Any) -> Any:
        program.note(ctx, args)
        if absent:
            ctx.set_materialize_grads(False)
        return forward(ctx, *args)

    def recorded(ctx: Any, gradients: Sequence[Any]) -> Any:
        def run(*gradients: Any) -> Any:
            return backward(ctx, [*gradients]) if boxed else backward(ctx, *gradients)

        args, reason = program.noted(ctx)
        if not reason and any(map(is_batched, gradients)):
            return program.gradients(args, gradients)
        # What is lost is an error wherever it is asked for.
        reached = [x for x in (*args, *_leaves(ctx)) if isinstance(x, Tensor) and x.requires_grad] if reason else args
        return Backward.apply(program, run, reason, len(gradients), *gradients, *reached)  # pyright: ignore

    def either(ctx: Any, *given: Any) -> Any:
        if not torch.is_grad_enabled():
            return backward(ctx, *given)
        return recorded(ctx, given[0] if boxed else given)

    # A backward may run while TorchDynamo is on, which is to trace none of it.
    recorded = _untraced(recorded)
    skip_code(either.__code__)
    function.forward, function.backward = staticmethod(noting), staticmethod(either)


Given: TypeAlias = tuple[list[Any], list[int]]
"""Tensors among the arguments of a call, by weak references, and the versions of all tensors."""


class Differentiable:
    """A graph of TorchDynamo, to be differentiated eagerly as AOTAutograd's function of it is."""

    def __init__(self, graph: GraphModule, inputs: Sequence[Any], meta: Any) -> None:
        self.graph = graph.forward
        self.outputs = meta.output_info
        self.bases = meta.num_intermediate_bases
        self.lost = ""
        """Why its derivatives are lost in any case."""
        if any(info.mutates_data or info.mutates_metadata for info in meta.input_info) or meta.tokens:
            self.lost = "it writes its arguments, or has effects"
        for part in graph.modules():
            for node in part.graph.nodes if isinstance(part, GraphModule) else ():
                if isinstance(node.target, HigherOrderOperator) and (name := node.target.name()) in _ONCE:
                    self.lost = f"eager has none of {_ONCE[name].format(name)}"
        self.count = len(inputs)
        self.tensors = [i for i, x in enumerate(inputs) if isinstance(x, Tensor)]
        self.parameters = {i for i in self.tensors if isinstance(inputs[i], Parameter) and inputs[i].requires_grad}
        """Which the autograd graph holds."""
        self.others = [i for i in self.tensors if i not in self.parameters]
        self.only_tensors = len(self.tensors) == self.count
        if len(meta.input_info) != self.count or any(isinstance(x, (list, tuple, dict)) for x in inputs):
            self.lost = "it takes other arguments than its graph"
            self.tensors = self.others = []
        self.autocast = [
            (kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in ("cpu", "cuda")
        ]

    def note(self, ctx: Any, args: Sequence[Any]) -> None:
        """Note what is to be known of the arguments of a call: they themselves are not kept."""
        tensors = args if self.only_tensors else [args[i] for i in self.tensors]
        try:
            versions = [*map(_versions, tensors)]
        except RuntimeError:  # inference tensors have none
            versions = []
        ctx.lamella_given = [ref(args[i]) for i in self.others], versions
        if not self.only_tensors:
            ctx.lamella_numbers = [None if isinstance(x, Tensor) else x for x in args]

    def noted(self, ctx: Any) -> tuple[list[Any], str]:
        """The arguments of that call; those that are left, and why its derivatives are lost."""
        args: list[Any] = [None] * self.count if self.only_tensors else [*ctx.lamella_numbers]
        references, versions = ctx.lamella_given
        for i, reference in zip(self.others, references, strict=True):
            if (x := reference()) is not None:
                x._fix_weakref()
            args[i] = x
        for i in self.parameters if self.tensors else ():
            args[i] = getattr(ctx.next_functions[i][0], "variable", None)
        if self.lost:
            return args, self.lost
        if len(versions) != len(self.tensors):
            return args, "an argument is an inference tensor"
        if any(args[i] is None for i in self.tensors):
            return args, "an argument is gone"
        return args, "" if versions == [args[i]._version for i in self.tensors] else "an argument was written since"

    def gradients(self, args: Sequence[Any], tangents: Sequence[Any]) -> list[Tensor | None]:
        """What its backward makes of gradients of its results, with a graph."""
        states = _random_states(args)
        with ExitStack() as contexts:
            for kind, enabled, dtype in self.autocast:
                contexts.enter_context(torch.autocast(kind, dtype, enabled, False))
            results = self.graph(*args)
        if not all(map(torch.equal, states, _random_states(args))):
            raise RuntimeError(f"double backward of a compiled function: it draws random numbers. {_REMEDY}")
        pairs: list[tuple[Any, Any]] = []
        bases: dict[int, Any] = {}
        for info, result, tangent in zip(self.outputs, results, tangents, strict=False):
            if info.output_type in _PLAIN:
                pairs.append((result, tangent))
            elif info.output_type in ALIASES_OF_RESULTS[:2]:
                bases[info.base_idx] = result._base
        pairs += [(bases[i], tangents[len(self.outputs) + i]) for i in range(self.bases)]
        pairs = [(r, t) for r, t in pairs if isinstance(t, Tensor) and isinstance(r, Tensor) and r.requires_grad]
        wanted = [i for i, x in enumerate(args) if isinstance(x, Tensor) and x.requires_grad]
        found: list[Tensor | None] = [None] * len(args)
        if pairs:
            made = torch.autograd.grad(
                [r for r, _ in pairs],
                [args[i] for i in wanted],
                [t for _, t in pairs],
                create_graph=True,
                allow_unused=True,
            )
            for i, gradient in zip(wanted, made, strict=True):
                found[i] = gradient
        return found


class Backward(torch.autograd.Function):
    """A backward that is `run` on gradients, so many, as a function of these and the arguments of its forward."""

    @staticmethod
    def forward(ctx: Any, program: Any, run: Any, reason: str, count: int, *values: Any) -> Any:
        ctx.program, ctx.reason, ctx.count = program, reason, count
        ctx.set_materialize_grads(False)
        ctx.tensors = [isinstance(x, Tensor) for x in values]
        ctx.others = [None if isinstance(x, Tensor) else x for x in values]
        if not reason:
            ctx.save_for_backward(*(x for x in values if isinstance(x, Tensor)))
        return run(*values[:count])

    @staticmethod
    @_untraced
    def backward(ctx: Any, *given: Any) -> Any:
        if ctx.reason:
            raise RuntimeError(f"double backward of a compiled function: {ctx.reason}. {_REMEDY}")
        saved, again = iter(ctx.saved_tensors), torch.is_grad_enabled()
        wanted = ctx.needs_input_grad[4:]
        values = [next(saved) if tensor else other for tensor, other in zip(ctx.tensors, ctx.others, strict=True)]
        with torch.enable_grad():
            for i, x in enumerate(values):
                if isinstance(x, Tensor):
                    values[i] = x.view_as(x) if again and wanted[i] else x.detach().requires_grad_(wanted[i])
            made = ctx.program.gradients(values[ctx.count :], values[: ctx.count])
            pairs = [
                (m, g) for m, g in zip(made, given, strict=True) if g is not None and m is not None and m.requires_grad
            ]
        places = [i for i, w in enumerate(wanted) if w]
        found: list[Any] = [None] * len(wanted)
        if pairs:
            outputs, gradients = zip(*pairs, strict=True)
            inputs = [values[i] for i in places]
            second = torch.autograd.grad(outputs, inputs, gradients, create_graph=again, allow_unused=True)
            for i, gradient in zip(places, second, strict=True):
                found[i] = gradient
        return None, None, None, None, *found


def _leaves(node: Any) -> list[Tensor]:
    """What the results of a node are differentiated to in the end."""
    found: dict[int, Tensor] = {}
    seen, todo = {node}, [node]
    while todo:
        for before, _ in todo.pop().next_functions:
            if before is None or before in seen:
                continue
            seen.add(before)
            todo.append(before)
            if (leaf := getattr(before, "variable", None)) is not None:
                found[id(leaf)] = leaf
    return [*found.values()]


def _random_states(args: Sequence[Any]) -> list[Tensor]:
    """Of the generators that operators on such arguments may draw from."""
    devices = {x.device for x in args if isinstance(x, Tensor) and x.device.type == "cuda"}
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state(d) for d in sorted(devices, key=str))]
