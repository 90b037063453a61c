"""A function, module or exported program as a module at the aten level; parameters and buffers are arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch._dynamo.exc import UserError
from torch._functorch.aot_autograd import aot_module_simplified
from torch._guards import TracingContext, detect_fake_mode, tracing
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import GraphModule
from torch.utils import _pytree as pytree
from xdsl.dialects.builtin import ModuleOp

from ..dialects.call_stack import with_room
from ..dialects.errors import LamellaError
from ..dialects.text import print_module
from ..lowering.options import Options
from .fake_kernels import right_fakes
from .import_fx import ImportedGraph, UnsupportedGraph, import_graph
from .options import with_environment
from .torch_compat import buffer_hooks_kept

_HELD = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
_MUTATIONS = (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION)


class CaptureError(LamellaError):
    """A program that torch.export does not take, or arguments that do not fit the captured program."""


@dataclass
class CapturedModule:
    """A captured program. `str()` is its text; `inputs` and `outputs` translate its calling convention.

    Inputs that the program writes are written; a result that shares memory with such an input is a copy of its own.
    """

    module: ModuleOp
    held: list[torch.Tensor]
    """Parameters, buffers and constants: the values of the first arguments of `@main`."""
    imported: ImportedGraph
    keywords: list[str]
    """Names of the keyword arguments it was captured with, in order."""
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec
    taken: list[int]
    """Which of the flattened call arguments are arguments of `@main`; the others were fixed when capturing."""

    def __str__(self) -> str:
        return print_module(self.module)

    def inputs(self, *args: Any, **kwargs: Any) -> list[Any]:
        """The arguments of `@main` for a call of the program. Raises CaptureError for another structure."""
        ordered = {name: kwargs[name] for name in self.keywords if name in kwargs} | kwargs
        flat, spec = pytree.tree_flatten((args, ordered))
        if spec != self.in_spec:
            raise CaptureError(f"the program was captured with arguments {self.in_spec}, but is called with {spec}")
        return [*self.held, *(flat[i] for i in self.taken), *self.imported.constants]

    def outputs(self, inputs: Sequence[Any], results: Sequence[Any]) -> Any:
        """What the program returns, from the inputs and results of `@main`."""
        return pytree.tree_unflatten(self.imported.wrap(lambda _: results)(list(inputs)), self.out_spec)


@with_room
def capture(
    program: Callable[..., Any] | nn.Module | ExportedProgram,
    *args: Any,
    dynamic_shapes: Any = None,
    **kwargs: Any,
) -> CapturedModule:
    """Trace `program` with torch.export on these arguments; `dynamic_shapes` is torch.export's. Not executed on data.

    Raises CaptureError with torch's reason where the program cannot be exported or imported.
    """
    if isinstance(program, ExportedProgram):
        exported = program
    else:
        exported = _export(_as_module(program), args, kwargs, dynamic_shapes)
    graph, taken = _callable_graph(exported)
    graph = _functional_graph(graph)
    names = {spec.arg.name: spec.target for spec in exported.graph_signature.input_specs if spec.target is not None}
    try:
        imported = import_graph(graph, names)
    except UnsupportedGraph as error:
        raise CaptureError(f"cannot import the exported program: {error}") from error
    held = [_held_value(exported, s) for s in exported.graph_signature.input_specs if s.kind in _HELD]
    spec = exported.call_spec
    assert spec.in_spec is not None and spec.out_spec is not None
    keywords = list(pytree.tree_unflatten([None] * spec.in_spec.num_leaves, spec.in_spec)[1])
    return CapturedModule(imported.module, held, imported, keywords, spec.in_spec, spec.out_spec, taken)


def _export(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any) -> ExportedProgram:
    try:
        with buffer_hooks_kept():
            return torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False)
    except LamellaError:
        raise
    except Exception as error:  # torch's and the program's own, in whatever way they fail
        plain = isinstance(error, (RuntimeError, ValueError, TypeError, AssertionError, UserError))
        said = str(error) if plain else f"{type(error).__name__}: {error}"
        raise CaptureError(f"torch.export cannot capture this program: {said}") from error


def _functional_graph(graph: GraphModule) -> GraphModule:
    """The graph that AOTAutograd makes for inference, as under torch.compile: ATen without composite operators, writes
    only as `aten.copy_` into inputs. `ExportedProgram.run_decompositions` takes longer and goes another way.
    """
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    values = [node.meta["val"] for node in placeholders]
    made: list[GraphModule] = []

    def keep(gm: GraphModule, example_inputs: Sequence[Any]) -> GraphModule:
        made.append(gm)
        return gm

    strict = with_environment(Options()).strict
    with torch.no_grad(), tracing(TracingContext(detect_fake_mode(values))), right_fakes(strict):
        aot_module_simplified(graph, values, keep, keep, inference_compiler=keep, keep_inference_input_mutations=True)
    (functional,) = made
    renamed = [node for node in functional.graph.nodes if node.op == "placeholder"]
    results, expected = (_outputs(g) for g in (functional, graph))
    if len(renamed) != len(placeholders) or len(results) != len(expected):
        raise CaptureError("the program changes the sizes or strides of an input in place, which is not supported")
    for node, original in zip(renamed, placeholders, strict=True):
        node._rename(original.name)
    return functional


def _outputs(graph: GraphModule) -> tuple[Any, ...]:
    outputs: Any = graph.graph.output_node().args[0]
    return tuple(outputs)


def _as_module(program: Callable[..., Any] | nn.Module) -> nn.Module:
    if isinstance(program, nn.Module):
        return program
    module = nn.Module()
    module.forward = program  # so that its signature names the dynamic shapes
    return module


def _held_value(exported: ExportedProgram, spec: Any) -> torch.Tensor:
    state: dict[str, Any] = exported.constants | exported.state_dict
    return state[spec.target]


def _callable_graph(exported: ExportedProgram) -> tuple[GraphModule, list[int]]:
    """The graph with mutations as `aten.copy_` instead of outputs, and without inputs that are no tensors or sizes."""
    signature = exported.graph_signature
    graph = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    output: Any = graph.graph_copy(exported.graph, copies)
    nodes = {node.name: copy for node, copy in copies.items()}  # a copy may have another name
    kept: list[Any] = []
    for spec, value in zip(signature.output_specs, output, strict=True):
        if spec.kind not in _MUTATIONS:
            kept.append(value)
            continue
        written = nodes[_argument_of(signature, spec)]
        copy = graph.call_function(torch.ops.aten.copy_.default, (written, value))
        copy.meta = {**value.meta, "val": written.meta["val"]}
    graph.output(tuple(kept))
    taken: list[int] = []
    users = [spec for spec in signature.input_specs if spec.kind is InputKind.USER_INPUT]
    for i, spec in enumerate(users):
        node = nodes[spec.arg.name]
        if isinstance(node.meta.get("val"), (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)):
            taken.append(i)
        elif not node.users:
            graph.erase_node(node)
        else:
            raise CaptureError(f"input {spec.arg.name} is used as a {type(node.meta.get('val')).__name__}")
    return GraphModule(exported.graph_module, graph), taken


def _argument_of(signature: Any, spec: Any) -> str:
    """The name of the placeholder that a mutation writes."""
    if spec.kind is OutputKind.USER_INPUT_MUTATION:
        return spec.target
    return next(s.arg.name for s in signature.input_specs if s.kind is InputKind.BUFFER and s.target == spec.target)
