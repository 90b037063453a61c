"""Names of torch that are not public. They are the same from 2.11 to 2.13; what a release changes is mended here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from types import CodeType
from typing import Any
from unittest.mock import patch

import torch
from torch._C._dynamo import eval_frame as _c_eval_frame
from torch._dynamo import disable
from torch._dynamo import eval_frame as _eval_frame_module
from torch._dynamo.exc import TorchDynamoException
from torch._dynamo.utils import counters, flatten_graph_inputs
from torch._functorch import config as _functorch_config
from torch._functorch._aot_autograd import graph_compile as _graph_compile
from torch._functorch._aot_autograd.autograd_cache import AOTAutogradCacheDetails, check_cacheable
from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache as BypassCache
from torch._functorch._aot_autograd.descriptors import (
    InputMutationAOTOutput,
    PlainAOTInput,
    PlainAOTOutput,
    TangentAOTInput,
)
from torch._functorch._aot_autograd.schemas import OutputType as _OutputType
from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler as CacheableCompiler
from torch._functorch.aot_autograd import aot_module_simplified
from torch._guards import TracingContext, tracing
from torch._higher_order_ops.effects import with_effects
from torch._inductor.codecache import FxGraphHashDetails
from torch._inductor.output_code import OutputCode
from torch._library import triton as _triton_operators
from torch.fx import _symbolic_trace
from torch.nn.modules import module as _module_names
from torch.utils._python_dispatch import _disable_current_modes

from ..dialects import expr
from .torch_state import settings_of_traces

# Their `patch` is installed at run time.
functorch_config: Any = _functorch_config
# Not all of their names are declared.
_eval_frame: Any = _c_eval_frame
graph_compile: Any = _graph_compile
_frames: Any = _eval_frame_module
_module: Any = _module_names
_library_triton: Any = _triton_operators
_SOURCES_OF_KERNELS = "get_triton_source_codes_from_gm"
_sources_of_kernels: Any = getattr(AOTAutogradCacheDetails, _SOURCES_OF_KERNELS, None)
compiler_config: Any = torch.compiler.config

__all__ = [
    "ALIASES_OF_RESULTS",
    "OWN_RESULTS",
    "BypassCache",
    "CacheableCompiler",
    "InputMutationAOTOutput",
    "OutputCode",
    "OutputType",
    "TangentAOTInput",
    "TorchDynamoException",
    "aot_compile",
    "assumed_floats",
    "autocast_enabled",
    "cached",
    "forward_metadata",
    "hold_cached",
    "is_marked",
    "is_plain_tensor",
    "leaves_nothing_to_do",
    "real_tensors",
    "replayed",
    "says_all",
    "symbol_hints",
    "with_effects",
    "written_versions",
]


def symbol_hints(shape_env: Any) -> dict[str, int]:
    """The sizes seen when tracing, by symbol name."""
    seen = {symbol.name: int(value) for symbol, value in shape_env.backed_var_to_val.items() if value.is_Integer}
    return seen | {expr.number_name(name): value for name, value in seen.items()}


def assumed_floats() -> dict[str, str]:
    """The floats that are symbols in what is being compiled, but of which torch has assumed something, with what they
    are now.
    """
    context = TracingContext.try_get()
    env: Any = getattr(context and context.fake_mode, "shape_env", None)
    if env is None:
        return {}
    expressions = [*(guard.expr for guard in env.guards), *env.replacements]
    symbols = {s for e in expressions for s in e.free_symbols if s.name.startswith("zf")}
    return {s.name: str(env.backed_var_to_val.get(s)) for s in sorted(symbols, key=str)}


def is_plain_tensor(value: torch.Tensor) -> bool:
    """Whether the numbers of a (fake) tensor are described by sizes, strides, dtype and device alone."""
    return value.layout is torch.strided and not value.is_nested


def is_marked(value: torch.Tensor) -> bool:
    """Whether a (fake) tensor stands for the conjugates or negatives of what its memory holds."""
    return value.is_conj() or value.is_neg()


def autocast_enabled() -> bool:
    return torch._C._is_any_autocast_enabled()


def leaves_nothing_to_do(graph: Any) -> bool:
    """Whether a graph for inference that is being compiled takes and returns what TorchDynamo's graph does, and
    AOTAutograd has nothing to do around its calls but to turn off gradients and to count versions
    (`written_versions`).
    """
    context = TracingContext.try_get()
    meta: Any = context and context.fw_metadata
    nodes = list(graph.graph.nodes)
    inputs = [node.meta.get("desc") for node in nodes if node.op == "placeholder"]
    outputs = nodes[-1].meta.get("desc") or ()
    if meta is None or len(meta.input_info) != len(inputs) or len(meta.output_info) != len(outputs):
        return False
    plain = all(
        type(d) is kind and d.idx == i
        for kind, descriptions in ((PlainAOTInput, inputs), (PlainAOTOutput, outputs))
        for i, d in enumerate(descriptions)
    )
    return plain and not any(getattr(meta, name, None) for name in _EFFECTS) and meta.grad_enabled_mutation is None


def written_versions() -> tuple[int, ...]:
    """Positions of the inputs of the graph that is being compiled which it writes where autograd sees it: AOTAutograd
    counts their versions up at each call.
    """
    context = TracingContext.try_get()
    meta: Any = context and context.fw_metadata
    return tuple(getattr(meta, "mutated_graph_handled_indices_seen_by_autograd", ()))


def forward_metadata() -> Any:
    """What AOTAutograd noted about the program whose forward, or graph for inference, is being compiled. None where it
    is asked without TorchDynamo, and where its inputs are not those of the graph: parts of tensor subclasses.
    """
    context = TracingContext.try_get()
    meta: Any = context and context.fw_metadata
    if meta is None or any(type(i).__name__ == "SubclassCreationMeta" for i in meta.subclass_inp_meta):
        return None
    return meta


_c: Any = torch._C._functionalization  # pyright: ignore[reportAttributeAccessIssue]
OutputType: Any = _OutputType
ALIASES_OF_RESULTS = (
    OutputType.alias_of_intermediate,
    OutputType.alias_of_intermediate_save_as_output,
    OutputType.alias_of_intermediate_base_is_user_output,
)
OWN_RESULTS = (OutputType.non_alias, OutputType.unsafe_view_alias, OutputType.custom_function_view)
"""Results that are given back as a graph returns them."""


def replayed(base: torch.Tensor, sequence: Sequence[Any]) -> torch.Tensor:
    """The views that functionalization noted, of another (fake) tensor."""
    return _c.apply_view_meta_sequence(base, sequence)


def says_all(graph: Any) -> bool:
    """Whether all that a graph of TorchDynamo does is said by names that mean the same in another process."""
    try:
        check_cacheable(graph)
    except (BypassCache, AttributeError):  # it asks slots of types, as `Tensor.data`, for their module
        return False
    return True


_EFFECTS = (
    *("num_mutated_inp_runtime_indices", "num_outputs_aliased", "num_intermediate_bases", "dynamic_outputs", "tokens"),
    *("is_rng_op_functionalized", "num_graphsafe_rng_states", "act_input_indices"),
)
"""What AOTAutograd notes about a graph when its calls are not all there is to do."""


# ----------------------------------------------------------------------------- code that TorchDynamo made of a function

ENTRY_NAMES: dict[str, Any] = {
    "callback": _eval_frame.get_eval_frame_callback,
    "frames": _frames,
    "symbolic": _symbolic_trace,
    "profiler": torch.autograd.profiler,
}
ENTRY_CONDITION = (
    "lamella_frames._stance is lamella_ways.stance and lamella_function.__code__ is lamella_code"
    " and lamella_callback() is None and lamella_ways.unobserved()"
    " and not lamella_symbolic._is_fx_tracing_flag and not lamella_profiler._is_profiler_enabled"
)
"""When the code of a cache entry whose guards hold may be run without asking TorchDynamo, over `lamella_` and
`ENTRY_NAMES`, and what fast_entry.py knows.
"""

CompiledModule: Any = _frames.OptimizedModule
"""What `torch.compile` makes of a module."""

MODULE_NAMES: dict[str, Any] = {"hooks": _module, "called": _module.Module.__call__, "calls": _module.Module._call_impl}
MODULE_CONDITION = (
    "lamella_receiver.__class__ is lamella_type and lamella_type.forward is lamella_function"
    " and lamella_type.__call__ is lamella_called and lamella_type._call_impl is lamella_calls"
    " and 'forward' not in lamella_receiver.__dict__ and lamella_receiver._compiled_call_impl is None and not ("
    + " or ".join(
        f"lamella_{owner}{kind}_hooks"
        for owner in ("receiver.", "hooks._global")
        for kind in ("_forward", "_forward_pre", "_backward", "_backward_pre")
    )
    + ")"
)
"""When calling a module is calling the function that its class has as `forward`, no more and no less."""


def calls_forward(method: Any) -> bool:
    """Whether a bound method is `__call__` of a module whose class calls modules as all of them are called."""
    module, kind = method.__self__, _module.Module
    return isinstance(module, kind) and method.__func__ is kind.__call__ and type(module)._call_impl is kind._call_impl


def is_whole(code: CodeType) -> bool:
    """Whether code of TorchDynamo goes to the end of its function: no graph break."""
    return not any(name.startswith("__resume_at") for name in code.co_names)


def compiler_stance() -> Any:
    """The stance of torch.compile in force, where it is the default; else nothing that is ever in force."""
    stance: Any = _frames._stance
    usual = stance.stance == "default" and stance.backend is None and not stance.skip_guard_eval_unsafe
    return stance if usual else object()


def backend_key(backend: Callable[..., Any], options: Any, dynamic: bool | None) -> Any:
    """What is equal to `entry.backend` for cache entries of torch.compile with these arguments."""
    return torch._TorchCompileWrapper(backend, None, options, dynamic)


def undisabled(name: str, scope: dict[str, Any]) -> Any:
    """The compiled graph behind a name in code of TorchDynamo, without the wrapper that turns TorchDynamo off, and
    without the `partial` that `without_wrapper` makes.
    """
    value = scope.get(name) if name.startswith("__compiled_fn") else None
    call = getattr(value, "_torchdynamo_orig_callable", None)
    return call.func if isinstance(call, partial) else call


def real_tensors() -> AbstractContextManager[Any]:
    """A context without the fake-tensor and other modes that are on while AOTAutograd calls a compiler."""
    return _disable_current_modes()


@contextmanager
def saved_tensors() -> Generator[None]:
    """A context to write tensors or read them: while torch traces, `torch.load` makes tensors without memory."""
    with real_tensors(), tracing(None):
        yield


class _Bundling:
    """Counts who needs `bundled_autograd_cache`, a setting of the process: compilations may overlap in threads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holders = 0
        self.before = False

    def acquire(self) -> None:
        with self.lock:
            if self.holders == 0:
                self.before = functorch_config.bundled_autograd_cache
                functorch_config.bundled_autograd_cache = True
            self.holders += 1

    def release(self) -> None:
        with self.lock:
            self.holders -= 1
            if self.holders == 0:
                functorch_config.bundled_autograd_cache = self.before


def _key_details(
    details: Any, graph: Any, example_inputs: Sequence[Any], inductor_options: Any, inputs_to_check: Any
) -> None:
    """The base part of AOTAutograd's cache key, for graphs that Inductor does not compile.

    Inductor's own hashes every source file of torch and all of its configuration and backends, for which it loads
    itself: more than a second, several times what a small graph takes to compile.
    """
    details.gm = graph
    details.example_inputs = list(example_inputs)
    details.cache_key_tag = compiler_config.cache_key_tag
    details.torch_version = torch.__version__
    details.settings = settings_of_traces()


def _triton_sources(details: Any, graph: Any) -> list[str]:
    """The sources of a graph's Triton kernels, for AOTAutograd's cache key. Torch loads Inductor's code generators to
    read them, also where no operator has any.
    """
    return _sources_of_kernels(details, graph) if _library_triton.triton_ops_to_kernels else []


_bundling = _Bundling()
_thread = threading.local()


@contextmanager
def cached(tag: str) -> Generator[None]:
    """A context in which AOTAutograd stores what a `CacheableCompiler` returns, under keys that contain `tag`."""
    outer = getattr(_thread, "caching", False)
    _thread.caching = True
    _bundling.acquire()
    tagged = compiler_config.patch(cache_key_tag=f"{compiler_config.cache_key_tag}{tag}")
    keys = patch.object(FxGraphHashDetails, "__init__", _key_details)
    kernels = patch.object(AOTAutogradCacheDetails, _SOURCES_OF_KERNELS, _triton_sources, create=True)
    try:
        with tagged, keys, kernels:
            yield
    finally:
        _bundling.release()
        _thread.caching = outer


def hold_cached() -> Callable[[], None] | None:
    """Turn on the storing of `cached` until the function returned is called; None inside that context.

    A backward that is compiled when it is first needed is stored right after its compiler returns and before it runs,
    outside every context that a backend could open.
    """
    if getattr(_thread, "caching", False):
        return None
    _bundling.acquire()
    return _bundling.release


def _tensorify_joint_graphs(tensorify: Callable[..., None]) -> Callable[..., None]:
    """`tensorify_python_scalars` for graphs with a backward only.

    TorchDynamo passes a float that changes as a tensor, and reads it in its graph. The pass calculates with the tensor
    instead, and makes a constant of a float that goes where an operator takes a number only, as the `alpha` of `add`:
    each rate of a schedule would be compiled. A compiled graph reads the number; between a forward and a backward there
    are no floats.
    """

    def run(module: Any, *others: Any) -> None:
        descriptions = [node.meta.get("desc") for node in module.graph.nodes if node.op == "placeholder"]
        if any(isinstance(d, TangentAOTInput) for d in descriptions):
            tensorify(module, *others)

    return run


def aot_compile(
    graph: Any, inputs: Sequence[Any], forward: Any, backward: Any, inference: Any, partition: Callable[..., Any]
) -> Callable[..., Any]:
    """AOTAutograd on a graph of TorchDynamo, with a compiler for each kind of ATen graph and a `partition_fn`.
    `torch._dynamo.backends.common.aot_autograd`, but for the debug files that it writes for Inductor: it loads a good
    part of Inductor for that. It is counted, too: by that TorchDynamo knows, as it compiles a graph of
    DistributedDataParallel bucket by bucket, that the first call gives fake tensors.
    """
    if any(isinstance(value, (list, tuple, dict)) for value in inputs):

        def compile_flat(flat_graph: Any, flat: Any) -> Any:
            return aot_compile(flat_graph, flat, forward, backward, inference, partition)

        return flatten_graph_inputs(graph, inputs, compile_flat)

    def compile_backward(gm: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        return disable(backward(gm, example_inputs), reason="do not trace the compiled backward")

    # It is called when a backward first runs: where that is in a function which TorchDynamo runs, it would be traced.
    keep: Any = disable(compile_backward, reason="do not trace the backward compiler")
    if isinstance(backward, CacheableCompiler):
        keep = CacheableCompiler(OutputCode, keep)  # pyright: ignore[reportArgumentType]
    tensorify = _tensorify_joint_graphs(graph_compile.tensorify_python_scalars)
    with patch.object(graph_compile, "tensorify_python_scalars", tensorify):
        compiled = aot_module_simplified(
            graph,
            inputs,
            forward,
            keep,
            inference_compiler=inference,
            partition_fn=partition,
            keep_inference_input_mutations=True,
        )
    for outcome in ("total", "ok"):
        counters["aot_autograd"][outcome] += 1
    return disable(compiled, reason="do not trace what AOTAutograd compiled")


@contextmanager
def buffer_hooks_kept() -> Generator[None]:
    """Where an export fails, torch 2.11 goes on to watch all modules' buffers: each assignment breaks a graph."""
    hooks: dict[int, Any] = _module._global_buffer_registration_hooks
    before = set(hooks)
    try:
        yield
    finally:
        for key in hooks.keys() - before:
            del hooks[key]
