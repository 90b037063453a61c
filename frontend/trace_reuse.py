"""Before TorchDynamo traces a function for this compiler, what it made of it in another process is looked for.

torch has no place for that: `_compile`, which TorchDynamo calls when no guards hold, is replaced by a function that
looks in the cache first, for backends of ours alone.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import logging
import os
import platform
import re
from collections.abc import Callable
from contextlib import nullcontext
from types import CodeType
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import torch

from ..dialects.call_stack import with_room
from ..dialects.collection import settle, without_collection
from .identities import code_hash
from .rates import mark_rates
from .sizes_of_data import sizes_of_data_as_eager
from .torch_state import nothing_for_nobody, settings_of_traces

# What loads a good part of torch's compiler is imported when something is compiled.
if TYPE_CHECKING:
    from .traces import Frame, Store

log = logging.getLogger("lamella")

_MOST = 4
"""So many traces of a function are kept, and looked at."""

Owner = Callable[[Any], "tuple[Store, str] | None"]
"""Of a backend: where traces are kept, and what they depend on beside the program; None where nothing is kept."""


@functools.cache
def reuse_traces(compiler: Callable[..., Any], owner: Owner) -> None:
    """From now on, functions that `compiler` compiles as torch.compile's backend are not traced again in another
    process.
    """
    from torch._dynamo import convert_frame

    module: Any = convert_frame
    traced = module._compile
    signature = inspect.signature(traced)

    @functools.wraps(traced)
    def compile(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        backend = _inner(given["compiler_fn"])
        if getattr(backend, "compiler_fn", None) is not compiler:
            return traced(*args, **kwargs)
        if isinstance(optimizer := given["locals"].get("self"), torch.optim.Optimizer):
            mark_rates(optimizer, _sizes(given["code"], given["closure"]))
        sizes = sizes_of_data_as_eager(given["one_graph"])
        less = nullcontext() if _are_traced() else nothing_for_nobody()
        with without_collection(), torch._dynamo.config.patch(_SETTINGS), sizes, less:
            # it makes much that stays, and would be looked through again and again
            made = found_or_traced(backend, given, *args, **kwargs)
            if made.guarded_code is not None:
                _shorten(made.guarded_code.code, given["globals"])
            settle("a trace")
        return made

    @with_room
    def found_or_traced(backend: Any, given: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        from .torch_state import cache_entries
        from .traces import Frame, NotKept, kept

        try:
            owned = owner(backend)
        except Exception:  # the backend says what is wrong with an option or a setting
            owned = None
        if owned is None or not _usual(given, module):
            return traced(*args, **kwargs)
        frame = Frame(given["code"], given["globals"], given["locals"])
        store, version = owned
        key = _key(frame, version, given["one_graph"])
        sizes = _sizes(frame.code, given["closure"])
        tried = _tried.setdefault(frame.code, set())
        if not cache_entries(frame.code):
            tried.clear()  # torch has been told to forget what it knows
        free = None
        for number in range(_MOST):
            name = f"{key}{number}"
            if name in tried:
                continue
            data = store.get("trace", name)
            if data is None:
                free = name
                break
            found = _restore(data, frame, given, module, sizes)
            if found is not None:
                tried.add(name)
                return found
        if free is None:
            return traced(*args, **kwargs)
        with _Recording(module) as recording:
            made = traced(*args, **kwargs)
        built = recording.take()
        if made.guarded_code is not None and built is not None:
            try:
                data = kept(frame, made.guarded_code.code, *built, sizes)
            except NotKept as reason:
                log.info("%s is traced in each process: %s", frame.code.co_qualname, reason)
            except Exception:  # what goes wrong here is not the program's affair
                log.info("%s is traced in each process", frame.code.co_qualname, exc_info=True)
            else:
                store.put("trace", free, data)
                tried.add(free)
        return made

    module._compile = compile


def _shorten(code: CodeType, scope: dict[str, Any]) -> None:
    """Have the code that was made call its graph through as little as there can be."""
    from .torch_state import turned_off

    for name in code.co_names:
        if name.startswith("__compiled_fn"):
            scope[name] = turned_off(scope[name])


def _are_traced() -> bool:
    """Whether somebody wants to see what TorchDynamo does."""
    return any(os.environ.get(name) for name in ("TORCH_LOGS", "TORCH_TRACE", "TORCH_COMPILE_DEBUG"))


_SETTINGS = {"record_runtime_overhead": False}
"""Code that TorchDynamo makes for us tells the profiler nothing before the graph: two calls of Python each time it is
run, through wrappers that turn TorchDynamo off and on, for one event of some microseconds.
"""

_tried: dict[CodeType, set[str]] = {}
"""The traces of this process, by the code of the function."""


def _restore(data: bytes, frame: Frame, given: dict[str, Any], module: Any, sizes: Any) -> Any:
    from torch._dynamo.types import GuardedCode, wrap_guarded_code
    from torch._dynamo.utils import counters, dynamo_timed, get_metrics_context, orig_code_map

    from .traces import NotKept, restored

    # Guards that cannot be built on the objects there are now are no error.
    quiet = [
        patch.object(logging.getLogger(name), "disabled", True) for name in ("torch._guards", "torch._dynamo.guards")
    ]
    try:
        timed = dynamo_timed("_compile.compile_inner", phase_name="entire_frame_compile")
        with get_metrics_context(), timed, quiet[0], quiet[1]:
            code, guards, trace = restored(data, frame, module.initial_global_state)
    except NotKept as reason:
        log.info("%s is traced again: %s", frame.code.co_qualname, reason)
        return None
    except Exception:  # a damaged or strange file
        log.info("%s is traced again", frame.code.co_qualname, exc_info=True)
        return None
    orig_code_map[code] = frame.code
    module.output_codes.add(code)
    for name, size in trace.sizes.items():
        sizes[name] |= size
    counters["stats"]["unique_graphs"] += len(trace.graphs)
    counters["lamella"]["traces reused"] += 1
    number = given["compile_id"]
    return wrap_guarded_code(GuardedCode(code, guards, number, f"Torch-Compiled Region: {number}"))


class _Recording:
    """While it is open, the guards that TorchDynamo builds are noted."""

    def __init__(self, module: Any) -> None:
        recording = self
        self.manager: Any = None
        self.built: Any = None
        manager_class = module.CheckFunctionManager

        class Recorded(manager_class):
            def build_guards(
                self, sorted_guards: Any, scope: Any, code: Any, graph: Any, save: Any, **others: Any
            ) -> Any:
                built = super().build_guards(sorted_guards, scope, code, graph, True, **others)
                recording.manager, recording.built = self, (graph, sorted_guards, built[0])
                return built

        self.patch = patch.object(module, "CheckFunctionManager", Recorded)

    def __enter__(self) -> _Recording:
        self.patch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.patch.stop()

    def take(self) -> tuple[Any, Any, Any, Any] | None:
        """TorchDynamo's OutputGraph, what the guards say of symbols, the guards, and what built them; once: a manager
        of guards may live as long as they do, and its class knows this.
        """
        manager, self.manager = self.manager, None
        (graph, guards, builder), self.built = self.built or (None, None, None), None
        return (graph, manager.shape_code_parts, guards, builder) if manager is not None else None


def _inner(backend: Any) -> Any:
    """What torch.compile was given, without what TorchDynamo wraps it in."""
    while (inner := getattr(backend, "_torchdynamo_orig_backend", None)) is not None:
        backend = inner
    return backend


def _usual(given: dict[str, Any], module: Any) -> bool:
    """Whether TorchDynamo is asked for what it is always asked for, in a state that the key describes."""
    from torch._dynamo import compiled_autograd

    from .torch_state import cache_entries, mode_or_transform

    hooks = given["hooks"]
    return (
        not _are_traced()
        and not given["export"]
        and given["package"] is None
        and hooks.guard_export_fn is None
        and hooks.guard_filter_fn is None
        and not module._bytecode_hooks
        and not mode_or_transform()
        and not compiled_autograd.in_compiled_autograd_region
        and not (torch.distributed.is_available() and torch.distributed.is_initialized())
        and not given["code"].co_name.startswith("torch_dynamo_resume_in")
        and not torch.nn.modules.module._has_any_global_hook()
        and len(cache_entries(given["code"])) < _MOST
    )


def _key(frame: Frame, version: str, whole: bool) -> str:
    import torch._functorch.config
    import torch.fx.experimental._config

    configs = (torch._dynamo.config, torch._functorch.config, torch.fx.experimental._config, torch.compiler.config)
    parts = (
        *(version, whole, torch.__version__, torch.version.git_version, platform.python_version()),
        *(frame.code.co_filename, frame.code.co_firstlineno, code_hash(frame.code), frame.kinds()),
        *(_settings(config, config.get_hash()) for config in configs),
        *(torch.is_inference_mode_enabled(), settings_of_traces()),
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()


@functools.cache
def _settings(config: Any, _hash: bytes) -> str:
    """The settings of a module of torch's, in an order that is the same in each process, as that of its hash is not."""
    ignored = config._compile_ignored_keys
    return repr([(name, _steady(v)) for name, v in sorted(config.get_config_copy().items()) if name not in ignored])


def _steady(value: Any) -> str:
    if isinstance(value, (set, frozenset)):
        return repr(sorted(map(repr, value)))  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def _sizes(code: CodeType, closure: Any) -> Any:
    """What TorchDynamo knows of the sizes that a function was called with."""
    from torch._dynamo import pgo

    make: Any = pgo.CodeId.make
    several = len(inspect.signature(make).parameters) > 1
    return pgo.get_code_state()[make(code, closure) if several else make(code)].automatic_dynamic
