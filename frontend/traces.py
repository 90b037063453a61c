"""TorchDynamo's work on a function kept on disk: what it made of it, and when that is right.

A second process need not trace a function again where a trace would come out the same. That is asked in the frame that
is about to be traced: the guards of the first process are built anew on the objects of the second, and what they say of
them must be the same text, where the address of a class, function or module stands for what that is: its name, its
code, what it holds (`identities.py`). Beside the guards, what TorchDynamo reads and does not guard in one process must
be as it was: the source files and functions that were traced, attributes and hooks of modules, and torch's settings.
Whatever is not understood here is traced as ever: another process may only lose time.

Kept is a frame whose graphs need nothing of AOTAutograd at a call (`DirectGraph`).
"""

from __future__ import annotations

import dis
import importlib
import io
import marshal
import pickle
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from types import CodeType, FunctionType, ModuleType
from typing import Any, Protocol

import torch
from torch._guards import Source

from .direct import DirectGraph
from .identities import Identities, Unknown, code_hash, file_hash, named, of_library, still_there

_HOOKS, _WHOLE = "EMPTY_NN_MODULE_HOOKS_DICT", "__compiled_fn"
_ID = re.compile(r"(check_(?:obj|type)_id\(.*), (\d+)\)")
_NUMBERED = re.compile(r"_(\d{1,6})$")
"""Names that TorchDynamo makes unique by a number alone; others end in 12 digits, hexadecimal ones."""
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_REMARKS = ("  # ", " (HINT: ")
_GUARDS_WITH_OBJECTS = ("value",)
"""Arguments of guards that are the object itself."""


class Store(Protocol):
    """A cache on disk."""

    def get(self, kind: str, key: str) -> bytes | None: ...

    def put(self, kind: str, key: str, data: bytes) -> None: ...


class NotKept(Exception):
    """A frame that is traced in each process, and why."""


@dataclass(frozen=True)
class Frame:
    """A function about to be run."""

    code: CodeType
    scope: dict[str, Any]
    locals: dict[str, Any]

    def kinds(self) -> list[tuple[str, ...]]:
        """What tells apart the functions and objects that the same code is run with."""
        found: list[tuple[str, ...]] = []
        for name, value in self.locals.items():
            code = getattr(value, "__code__", None)
            kind = type(value).__module__, type(value).__qualname__
            found.append((name, *kind, code_hash(code) if isinstance(code, CodeType) else ""))
        return found


@dataclass(frozen=True)
class Trace:
    """What is kept of a frame."""

    code: bytes
    guards: bytes
    words: str
    """What the guards say, of the objects they were made for."""
    functions: tuple[tuple[str, str, str], ...]
    """Of what was traced: module, name in it, hash of the code."""
    files: tuple[tuple[str, str], ...]
    modules: dict[str, str]
    """Globals that the code and the guards need: modules, by name;"""
    objects: dict[str, tuple[str, str, str]]
    """classes and functions, by module, name and identity;"""
    builtins: str | None
    """the name of the dictionary of builtins;"""
    graphs: dict[str, DirectGraph]
    """and compiled graphs."""
    sizes: dict[str, Any]
    """What TorchDynamo has noted of sizes, to tell which of them change."""


def kept(
    frame: Frame, made: CodeType, graph: Any, shapes: Any, sorted_guards: Sequence[Any], builder: Any, sizes: Any
) -> bytes:
    """The bytes of a Trace. `made` is the code of TorchDynamo, `graph` its OutputGraph, `shapes` what its guards say of
    symbols, and `builder` has built them. Raises NotKept.
    """
    from torch._dynamo.guards import convert_int_to_concrete_values
    from torch.utils._pytree import tree_map

    for guard in sorted_guards:
        if any(mark in part for mark in _REMARKS for part in (guard.name, *(guard.code_list or ()))):
            raise NotKept("a text that looks like a remark")
    traced = {id(code): code for code in (frame.code, *graph.traced_code)}.values()
    if asking := [code.co_qualname for code in traced if not of_library(code.co_filename) and _asks_id(code)]:
        raise NotKept(f"addresses are looked at in {', '.join(asking)}")
    if any(builder.get(g) for g in sorted_guards if g.create_fn_name() == _HOOKS):
        raise NotKept("modules have hooks")
    modules, objects, graphs = _globals(frame, graph)  # says at once that a function has gradients
    words = _words(str(builder.guard_manager), sorted_guards, builder)
    functions = tuple(named(traced))
    state = replace(
        graph.dump_guards_state(),
        local_scope={},
        global_scope={},
        global_state_guard=None,
        input_source_to_sizes_strides=tree_map(convert_int_to_concrete_values, graph.input_source_to_sizes_strides),
        _guards=None,
        skip_guards_check=False,
    )
    plain = [_plain(guard) for guard in sorted_guards]
    try:
        trace = Trace(
            code=marshal.dumps(made),
            guards=_dumped((state, plain, shapes)),
            words=words,
            functions=functions,
            files=tuple({c.co_filename: file_hash(c.co_filename) for c in traced}.items()),
            modules=modules,
            objects=objects,
            builtins=graph.name_of_builtins_dict_key_in_fglobals,
            graphs=graphs,
            sizes=dict(sizes),
        )
        return pickle.dumps(trace)
    except Exception as error:  # whatever it is that pickle does not take
        raise NotKept(f"{type(error).__name__}: {error}") from error


def restored(data: bytes, frame: Frame, state: Any) -> tuple[CodeType, Any, Trace]:
    """The code, the guards on this process's objects, and what was kept of a frame where it is what would be traced
    now; the code's globals are there. `state` is torch's global state. Raises NotKept.
    """
    trace: Trace = pickle.loads(data)
    if any(file_hash(path) != known for path, known in trace.files):
        raise NotKept("a file has changed")
    for function in trace.functions:
        if not still_there(*function):
            raise NotKept(f"{function[0]}.{function[1]} is another function")
    installed = _install(trace, frame)
    try:
        guards = _guards(trace, frame, state)
    except BaseException:
        for name in installed:
            del frame.scope[name]
        raise
    code: CodeType = marshal.loads(trace.code)
    _keep_until(code, frame.scope, installed)
    return code, guards, trace


def _guards(trace: Trace, frame: Frame, state: Any) -> Any:
    """The guards of a trace where they say of the objects in `frame` what they said when it was kept."""
    from torch._dynamo.guards import CheckFunctionManager
    from torch._dynamo.output_graph import OutputGraphCommon
    from torch._guards import GuardsSet
    from torch.utils._ordered_set import OrderedSet

    kept_state, guards, shapes = pickle.loads(trace.guards)
    kept_state.local_scope, kept_state.global_scope = frame.locals, frame.scope
    kept_state.global_state_guard = state
    kept_state._guards = GuardsSet(OrderedSet(guards))
    builders: list[Any] = []

    class Compared(CheckFunctionManager):
        def build_guards(self, sorted_guards: Any, *others: Any, **settings: Any) -> Any:
            built = super().build_guards(sorted_guards, *others, **settings)
            builders.append(built[0])
            return built

    try:
        manager = Compared(
            frame.code, OutputGraphCommon(kept_state), shape_code_parts=shapes, runtime_global_scope=frame.scope
        )
    except Exception as error:  # guards of an object that is not there, or that do not hold
        builders.clear()
        raise NotKept(f"{type(error).__name__}: {error}") from error
    builder = builders.pop()
    # a guard of no dims is built with those of the tensor that is there
    sizes = kept_state.input_source_to_sizes_strides
    for g in guards:
        known = sizes.get(g.originating_source) if g.create_fn_name() == "TENSOR_MATCH" else None
        if known is not None and not known["size"] and builder.get(g).dim():
            raise NotKept(f"{g.name} had no dims")
    # Guards just built on new objects take the tensors in their dictionaries for known: torch 2.11's `check` passes
    # over them, this one does not.
    if not (held := manager.guard_manager.check_verbose(frame.locals)).result:
        raise NotKept(f"guards do not hold: {held.verbose_code_parts}")
    words = _words(str(manager.guard_manager), guards, builder)
    if words != trace.words:
        raise NotKept(_difference(trace.words, words))
    if any(builder.get(g) for g in guards if g.create_fn_name() == _HOOKS):
        raise NotKept("modules have hooks")
    return manager.guard_manager


def _words(text: str, guards: Sequence[Any], builder: Any) -> str:
    """What the guards say, without addresses and remarks, and what guards may pass over: what modules are made of,
    and defaults of functions (torch 2.11 guards none that is a constant).
    """
    identities = Identities()
    objects: dict[int, Any] = {}
    unguarded: dict[str, str] = {}
    for guard in guards:
        if not guard.name:
            continue
        try:
            value = builder.get(guard)
        except Exception:  # guards may say that something is not there
            continue
        if hasattr(value, "_dynamo_marked_constant"):
            raise NotKept(f"{guard.name} is said to be constant")
        if isinstance(value, torch.nn.Module):
            unguarded[guard.name] = _made_of(value)
        elif isinstance(value, FunctionType):
            unguarded[guard.name] = identities.defaults(value)
        for one in (value, type(value), getattr(value, "__code__", None), *(value if type(value) is dict else ())):
            objects[id(one)] = one

    def word(match: re.Match[str]) -> str:
        try:
            return f"{match[1]}, {identities.of(objects[int(match[2])])})"
        except KeyError:
            raise NotKept(f"an address of nothing known: {match[0]}") from None
        except Unknown as error:
            raise NotKept(f"{match[0]}: {error}") from None

    lines: list[str] = []
    for line in text.splitlines():
        for mark in _REMARKS:
            line = line.partition(mark)[0]
        lines.append(_ADDRESS.sub("", _ID.sub(word, line.rstrip())))
    return "\n".join(lines + [f"{name}: {of}" for name, of in unguarded.items()])


def _made_of(module: torch.nn.Module) -> str:
    """The numbers and words among a module's attributes, and what it has of tensors and modules."""
    own = vars(module)
    simple = [f"{name} = {value!r}" for name, value in own.items() if _is_simple(value)]
    there = {kind: [name for name, v in own[kind].items() if v is not None] for kind in ("_parameters", "_buffers")}
    inner = [(name, type(m).__qualname__) for name, m in own["_modules"].items()]
    return f"{simple} {there} {inner}"


def _is_simple(value: Any) -> bool:
    if type(value) in (tuple, list):
        return all(map(_is_simple, value))
    return value is None or type(value) in (bool, int, float, complex, str, torch.dtype, torch.device)


def _difference(before: str, after: str) -> str:
    for a, b in zip(before.splitlines(), after.splitlines(), strict=False):
        if a != b:
            return f"guards differ: {a.strip()} != {b.strip()}"
    return "guards differ in number"


def _plain(guard: Any) -> Any:
    """A guard without what it has of objects and of the source."""
    create = guard.create_fn
    if isinstance(create, partial):
        keywords = {name: value for name, value in create.keywords.items() if name not in _GUARDS_WITH_OBJECTS}
        create = partial(create.func, *create.args, **keywords)
    nothing = dict.fromkeys(("guard_types", "code_list", "obj_weakref", "guarded_class_weakref", "stack", "user_stack"))
    return replace(guard, create_fn=create, **nothing, _hash=None)


def _globals(frame: Frame, graph: Any) -> tuple[dict[str, str], dict[str, tuple[str, str, str]], dict[str, Any]]:
    """What TorchDynamo has put among the globals: modules, objects with names, and compiled graphs."""
    modules: dict[str, str] = dict(graph.import_sources)
    objects: dict[str, tuple[str, str, str]] = {}
    graphs: dict[str, Any] = {}
    for name in sorted(graph.installed_globals):
        value = frame.scope.get(name)
        if name == graph.name_of_builtins_dict_key_in_fglobals:
            continue
        if name.startswith(_WHOLE):
            compiled = getattr(_innermost(frame.scope[name]), "lamella_graph", None)
            if not isinstance(compiled, DirectGraph):
                raise NotKept("a graph of which more than its kernels is needed")
            graphs[name] = compiled
        elif isinstance(value, ModuleType):
            modules[name] = value.__name__
        else:
            home = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
            if not isinstance(home[0], str) or not isinstance(home[1], str) or _find(home[0], home[1]) is not value:
                raise NotKept(f"a global {name} of type {type(value).__name__}")
            try:
                objects[name] = (home[0], home[1], Identities().of(value))
            except Unknown as error:
                raise NotKept(str(error)) from None
    if not graphs:
        raise NotKept("no graph")
    return modules, objects, graphs


def _asks_id(code: CodeType) -> bool:
    """Whether the function `id` is called."""
    return "id" in code.co_names and any(
        i.opname in ("LOAD_GLOBAL", "LOAD_NAME") and i.argval == "id" for i in dis.get_instructions(code)
    )


def _innermost(function: Any) -> Any:
    while (inner := getattr(function, "_torchdynamo_orig_callable", None)) is not None:
        function = inner
    return function


def _install(trace: Trace, frame: Frame) -> list[str]:
    """Give the code its globals; the names of those that were not there. Raises NotKept."""
    from torch._dynamo.output_graph import get_builtins_dict

    wanted: dict[str, Any] = {}
    for name, module in trace.modules.items():
        try:
            wanted[name] = importlib.import_module(module)
        except ImportError as error:
            raise NotKept(f"no module {module}") from error
    for name, (module, qualname, identity) in trace.objects.items():
        value = _find(module, qualname)
        try:
            if value is None or Identities().of(value) != identity:
                raise NotKept(f"{module}.{qualname} is another object")
        except Unknown as error:
            raise NotKept(str(error)) from None
        wanted[name] = value
    if trace.builtins is not None:
        wanted[trace.builtins] = get_builtins_dict(frame.scope)
    if any(name in frame.scope and frame.scope[name] is not value for name, value in wanted.items()):
        raise NotKept("a name is taken")
    if any(name in frame.scope for name in trace.graphs):
        raise NotKept("the graph is there")
    wanted |= {
        name: torch.compiler.disable(graph.entry(), reason="do not trace a compiled graph")
        for name, graph in trace.graphs.items()
    }
    installed = [name for name in wanted if name not in frame.scope]
    frame.scope.update(wanted)
    _pass_over(installed)
    return installed


def _pass_over(names: Sequence[str]) -> None:
    """Have TorchDynamo, which numbers the globals it adds, give none of these names itself."""
    from torch._dynamo.bytecode_transformation import unique_id

    most = max((int(found[1]) for name in names if (found := _NUMBERED.search(name))), default=-1)
    while int(unique_id("").removeprefix("_")) < most:
        pass


def _find(module: str, qualname: str) -> Any:
    try:
        place: Any = importlib.import_module(module)
        for part in qualname.split("."):
            place = getattr(place, part)
    except (ImportError, AttributeError):
        return None
    return place


def _keep_until(code: CodeType, scope: dict[str, Any], names: Sequence[str]) -> None:
    """Remove the globals of these names when the code is gone, as TorchDynamo does."""
    from torch._dynamo.utils import CleanupHook, CleanupManager

    values: Mapping[str, Any] = {name: scope.pop(name) for name in names}
    CleanupManager.instance[code] = [CleanupHook.create(scope, name, value) for name, value in values.items()]


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, torch.Tensor):
            raise NotKept("guards hold a tensor")
        if isinstance(obj, Source):  # torch 2.11 would have the fields given that it makes itself
            return type(obj), tuple(getattr(obj, f.name) for f in fields(obj) if f.init)
        return NotImplemented


def _dumped(value: Any) -> bytes:
    file = io.BytesIO()
    _Pickler(file).dump(value)
    return file.getvalue()
