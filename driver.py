"""The journey on one screen: a graph comes in, goes down level by level, and comes out as a native function."""

from __future__ import annotations

import os
import pickle
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .codegen.errors import note_reproducer
from .codegen.native import machines, started
from .codegen.native import native as native
from .dialects import lazy_methods as lazy_methods  # before the classes of what is imported below
from .dialects.call_stack import with_room
from .lowering.options import Options as Options
from .lowering.pipeline import cpu_name, freezing_passes, manager
from .lowering.pipeline import pipeline as pipeline
from .lowering.pipeline import run_passes as run_passes

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import GraphModule
    from xdsl.dialects.builtin import ModuleOp

    from .codegen.frozen import FrozenGraph
    from .codegen.runtime import NativeGraph
    from .codegen.triton_module import Kernels
    from .frontend.capture import CapturedModule
    from .frontend.explain import Explanation
    from .lowering.gpu_target import GpuTarget
    from .lowering.kernel_story import KernelStory, StoryTeller
    from .lowering.origins import Call
    from .lowering.pass_manager import PassRecord
    from .lowering.target import CpuTarget


# What users call. Imports are inside functions: the command line needs no torch, a cached graph no compiler.


def lamella(
    graph: GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """The backend of `torch.compile(model, backend="lamella", options=…)`. Raises OptionError."""
    from .codegen.runtime_support import loading_support
    from .dialects.collection import settle, without_collection
    from .dialects.user_error import LamellaError
    from .frontend.backend_error import BackendOptionError

    settle("TorchDynamo")
    _reuse_traces()
    try:
        wanted = _asked(options, mode)
    except LamellaError as error:
        raise BackendOptionError(error) from None
    with without_collection(), loading_support():
        from .codegen.frozen import EagerModule
        from .frontend.backend import Backend

        _give_questions()
        kept = wanted.cache and not _dump_folder(wanted)  # a graph from AOTAutograd's cache leaves no dump
        target = target_of(wanted)
        cpu = f"{target.key}|{target.machine}|{target.threads}"  # AOTAutograd's key knows none
        version = f"{_version()}|{cpu}" if kept else None
        return Backend(wanted, _compile_or_give_up, version=version, eagerly=EagerModule)(graph, example_inputs)


def compile(
    model: Callable[..., Any] | ExportedProgram | None = None,
    *,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """`torch.compile` with this compiler: a callable like `model`, or a decorator where that is left out. Of an
    exported program its module is compiled.

    `options` are the fields of `Options`; `mode` is one of torch.compile's. Raises OptionError at once, and
    NoProgramError.
    With `fullgraph`, calls of functions enter compiled code by TorchDynamo's guards alone (frontend/fast_entry.py).
    """
    import torch

    from .dialects.collection import settle, without_collection
    from .frontend.exported import callable_of
    from .frontend.options import check_flags, check_program

    wanted, model = _asked(options, mode), callable_of(model)
    check_flags(dynamic, fullgraph)
    if model is not None:
        check_program(model)
    given: dict[str, Any] = {**(options or {}), "cuda_graphs": wanted.cuda_graphs, "autotune": wanted.autotune}
    with without_collection():  # loading torch's compiler is a quarter collection
        compiled = torch.compile(model, fullgraph=fullgraph, dynamic=dynamic, backend=lamella, options=given)
        settle("torch.compile")
    _reuse_traces()
    if not fullgraph:
        return compiled
    from .frontend.fast_entry import fast_entry
    from .frontend.torch_compat import backend_key

    backend = backend_key(lamella, given, dynamic)

    def enter(function: Any) -> Any:
        return fast_entry(function, lambda entry: entry.backend == backend, _unobserved)

    return enter(compiled) if model is not None else lambda f: enter(compiled(f))


def _asked(options: Mapping[str, Any] | None, mode: str | None) -> Options:
    """What is asked for, in the environment too. Raises OptionError, and CodegenError for settings of the cache."""
    from .codegen.cache import default_cache
    from .frontend.options import OptionError, parse_options, with_environment

    default_cache()  # what is wrong with it is said here, not where it is first used
    wanted = with_environment(parse_options(options, mode))
    if cpu_name(wanted) != "host" and (lacking := target_of(wanted).lacking):
        raise OptionError(
            f"code for the target {wanted.target!r} cannot run here: this machine has no {' and no '.join(lacking)}. "
            "'host' is this machine; lamella-opt compiles for others"
        )
    return wanted


def _give_questions() -> None:
    """Let recordings ask natively what is asked before each replay, once there are any."""
    from .codegen.runtime_replays import native_questions
    from .frontend.replay_questions import QUESTIONS

    QUESTIONS.native = native_questions


def _unobserved() -> Callable[[], bool]:
    from .codegen.runtime import unobserved

    return unobserved()


def explain(
    program: Callable[..., Any] | ExportedProgram,
    *args: Any,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
    **kwargs: Any,
) -> Explanation:
    """Compile and call `program` once on these arguments (what it changes is changed), and tell what became of it.

    `options` and `mode` are those of `compile`, but nothing comes from a cache. A program with arguments of these names
    is given in a lambda. Raises OptionError and NoProgramError.
    A backward graph is there when the call makes a result that requires gradients and torch compiles it at once.
    """
    from .frontend.explain import explain_with
    from .frontend.exported import callable_of
    from .frontend.options import check_program

    wanted, program = replace(_asked(options, mode), cache=False), callable_of(program)
    check_program(program)
    return explain_with(partial(_compile_or_give_up, stories=True), wanted, program, *args, **kwargs)


def lower(module: ModuleOp | CapturedModule | str, to: str = "loop") -> ModuleOp:
    """A copy of `module` (or of its text) taken down to a level (`prims`, `loop`, `kernel`, `host`, `llvm`) or
    through a pipeline text (`aten-to-prims,prims-to-loop`). Raises LamellaError.
    """
    from xdsl.dialects.builtin import ModuleOp

    from .dialects.errors import LamellaError
    from .dialects.text import parse_module
    from .lowering.levels import check_goes_down
    from .lowering.registry import LEVELS

    source: Any = parse_module(module) if isinstance(module, str) else module
    source = getattr(source, "module", source)
    if not isinstance(source, ModuleOp):
        raise LamellaError(f"expected a module, its text or what capture gives, got {type(source).__name__}")
    if not isinstance(to, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise LamellaError(f"expected the name of a level or a pipeline, got {type(to).__name__}")
    if to in LEVELS:
        check_goes_down(source, to)
    copy = source.clone()
    run_passes(copy, to)
    return copy


def release_memory() -> None:
    """Give back the memory that compiled graphs keep for their next calls: arenas, and results that nobody holds any
    more. Safe at any time, as nothing in use is touched.
    """
    from .codegen.runtime_support import release_memory

    release_memory()


@dataclass
class Compilation:
    """What one graph became, with what `explain` and the dumps tell about it."""

    graph: NativeGraph | FrozenGraph
    records: list[PassRecord] = field(default_factory=list)
    from_cache: bool = False
    stages: list[tuple[str, str]] = field(default_factory=list)
    kernels: list[dict[str, Any]] = field(default_factory=list)
    decisions: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    stories: list[KernelStory] = field(default_factory=list)

    @property
    def times(self) -> dict[str, float]:
        """Milliseconds by pass, and of the machine code; empty for what came from the cache."""
        found: dict[str, float] = {}
        for record in self.records:
            found[record.name] = found.get(record.name, 0.0) + record.apply_ms + record.verify_ms
        return found


def target_of(options: Options) -> CpuTarget:
    """The CPU to compile for. Raises LamellaError for an unknown name."""
    from .codegen.target import CpuTarget

    name = cpu_name(options)
    return CpuTarget.host() if name == "host" else CpuTarget.from_name(name)


def gpu_of(options: Options) -> GpuTarget:
    """The GPU to compile for where a module has tensors of one. Raises LamellaError for one that is not supported."""
    from .codegen.cuda_target import host_gpu
    from .lowering.gpu_target import NAMES, GpuTarget

    return GpuTarget.from_name(options.target) if options.target in NAMES else host_gpu()


@with_room
def compile_module(module: ModuleOp, options: Options | None = None, *, stories: bool = False) -> Compilation:
    """Native code for an aten-level module, from the cache on disk where it has been compiled before.

    The key is the module's text, the compiler's own source, the options and the machine. `module` is used up. With
    `stories`, nothing comes from the cache, and each kernel is kept as text at every level. Raises LamellaError for bad
    IR, and PassError or CodegenError, with the file that reproduces it, for a bug of ours.
    """
    from .dialects.collection import without_collection

    options = options or Options()
    with without_collection():
        compile = _compile_frozen if options.freezing else _compile_module
        return compile(module, options, stories)


def _compile_frozen(module: ModuleOp, options: Options, tell: bool) -> Compilation:
    """A module in two: what depends on frozen arguments alone, and the rest."""
    from .codegen.frozen import EagerModule, FrozenGraph
    from .dialects.text import print_module
    from .lowering.aten_freeze import take_kept

    text = print_module(module, locations=True)
    passes = freezing_passes(options, target_of(options))
    try:
        records = run_passes(module, passes, verify=options.verify)
    except Exception as error:
        note_reproducer(error, text, passes)
        raise
    taken = take_kept(module)
    if taken is None:
        return _compile_module(module, options, tell)
    main = _compile_module(module, options, tell)
    frozen = FrozenGraph(main.graph, EagerModule(taken[0]), taken[1])
    return replace(main, graph=frozen, records=[*records, *main.records])


def _compile_module(module: ModuleOp, options: Options, tell: bool) -> Compilation:
    from .codegen.cache import cache_key, compiler_version, default_cache
    from .dialects.text import print_module

    target = target_of(options)
    dumping = _dump_folder(options)
    _add_patterns(module)
    text = print_module(module, locations=True)
    gpu = gpu_of(options) if "device=cuda" in text else None
    passes = pipeline(options, target, gpu)  # with what they are told of the machine: caches, threads
    key = ""
    if options.cache and not dumping and not tell:
        key = cache_key(text, compiler_version(), options.key, passes, *machines(target, gpu))
        found = default_cache().get("graph", key)
        if found is not None:
            return Compilation(**pickle.loads(found), from_cache=True)
    from .lowering.report import take_notes  # not needed for what is kept

    stages: list[tuple[str, str]] = []
    notes: dict[str, Any] = {}
    after: list[Callable[..., None]] = [lambda _i, p, m: take_notes(p.name, m, notes)]
    teller: StoryTeller | None = None
    if dumping or tell:
        from .lowering.kernel_story import StoryTeller

        teller = StoryTeller(module)
        after.append(teller.after)
    if dumping:
        stages.append(("aten", text))
        after.append(lambda _i, p, m: stages.append((p.name, print_module(m, locations=True))))
    if gpu:
        from .codegen.triton_module import expect_kernels

        expect_kernels(sum(1 for _ in module.walk()))
    try:
        graph, records = _native(module, passes, options, target, gpu, after)
        stories = teller.stories() if teller is not None else []
        compilation = Compilation(graph, records, stages=stages, stories=stories, **notes)
    except Exception as error:  # whatever it is, what led to it is kept
        note_reproducer(error, text, passes)
        raise
    if dumping:
        from .codegen.dump import write_dump

        write_dump(Path(dumping), stages, compilation.kernels, compilation.decisions, compilation.calls, stories)
    if key:
        kept = {"graph": compilation.graph, **notes}
        default_cache().put("graph", key, pickle.dumps(kept))
    return compilation


def _native(
    module: ModuleOp,
    passes: str,
    options: Options,
    target: CpuTarget,
    gpu: GpuTarget | None,
    after: Sequence[Callable[..., None]],
) -> tuple[NativeGraph, list[PassRecord]]:
    """All passes and machine code. Kernels are compiled while later passes go on."""
    start = time.perf_counter()
    from .codegen.choices import remember_kernels, remember_products
    from .codegen.llvm_ahead import Ahead
    from .dialects.collection import settle

    whole = manager(passes, verify=options.verify, after=after)
    settle("passes")
    from .lowering.kernel_to_llvm import KernelToLlvm
    from .lowering.pass_manager import record

    records = [record("loading passes", start)]
    kernels: Kernels | None = None
    with Ahead(target) as ahead:
        for p in whole.passes if not options.verify else ():  # else they are verified before
            if isinstance(p, KernelToLlvm):
                p.made.append(ahead.take)
        before, rest = whole.split("aten-choose-products")
        records += before.run(module)
        if options.products == "auto":
            remember_products(module, options, target, gpu)
        if gpu:
            middle, rest = rest.split("loop-tile")
            records += middle.run(module)
            if not options.batch_invariant:
                remember_kernels(module, options, target, gpu)
            middle, rest = rest.split("host-to-llvm")
            records += middle.run(module)
            kernels = started(module, gpu)
        records += rest.run(module)
        start = time.perf_counter()
        graph = native(module, target, gpu, kernels, ahead)
        return graph, [*records, record("machine code", start)]


def _compile_or_give_up(module: ModuleOp, options: Options, *, stories: bool = False) -> Compilation:
    """`compile_module`; where that meets a bug of ours, UnsupportedGraph, so that the graph runs eagerly and a warning
    says so, unless the user wants an error (`strict`, `verify`).
    """
    from .codegen.cache import default_cache
    from .codegen.errors import MissingTriton
    from .frontend.import_fx import UnsupportedGraph

    target_of(options)  # what is wrong with this or the next line is the user's to mend, not a bug
    default_cache()
    try:
        return compile_module(module, options, stories=stories)
    except MissingTriton as error:
        raise UnsupportedGraph(str(error)) from error
    except Exception as error:  # the user's program goes on, whatever it is
        if options.strict or options.verify:
            raise
        notes = getattr(error, "__notes__", [])
        raise UnsupportedGraph("; ".join([f"a bug of Lamella's: {type(error).__name__}: {error}", *notes])) from error


def _dump_folder(options: Options) -> str:
    return options.dump or os.environ.get("LAMELLA_DUMP") or ""


def _add_patterns(module: ModuleOp) -> None:
    """Make the patterns that users have registered part of the module."""
    from .lowering.registered_patterns import REGISTERED

    if REGISTERED:
        from .lowering.aten_patterns import add_patterns

        add_patterns(module, REGISTERED)


def _version() -> str:
    """What a stored graph depends on beside the program, the options and the machine."""
    from .lowering.registered_patterns import key

    return fingerprint() + key()


def fingerprint() -> str:
    """A hash of this compiler's source and of the libraries that decide what it makes."""
    from .codegen.cache import compiler_version

    return compiler_version()


# Functions that another process has compiled are not traced again.


def _reuse_traces() -> None:
    """Needs torch's compiler loaded; the first call counts."""
    from .frontend.trace_reuse import reuse_traces

    reuse_traces(lamella, _traces)


def _traces(backend: Any) -> tuple[Any, str] | None:
    """Where traces for a backend of ours are kept, and what they depend on; None where they are not."""
    from .codegen.cache import default_cache
    from .codegen.target import CpuTarget

    wanted = _asked(backend.kwargs.get("options"), backend.kwargs.get("mode"))
    if not (wanted.cache and wanted.traces) or wanted.freezing or _dump_folder(wanted):
        return None
    wanted = replace(wanted, timing=False)
    return default_cache(), f"{_version()}|{wanted!r}|{backend.dynamic}|{CpuTarget.host().key}"


if "torch._dynamo.convert_frame" in sys.modules:  # torch.compile looks the backend up
    _reuse_traces()
