"""A short way into a function that was compiled whole: TorchDynamo's guards, asked directly.

`torch.compile` takes microseconds to install its frame evaluation, look for compiled code and leave again. For a
function without graph breaks what matters of it is this: where the guards of a cache entry hold, the code of that
entry computes what the function does. The entry made here asks the same guards (the tree that TorchDynamo built in
C++: types, shapes, strides, dtypes, dispatch keys and gradients of tensors; globals, closures and attributes that the
function read; grad mode, autocast, number of threads, torch functions, functorch) and runs the same code.

Of a module it is `forward` that was compiled, and what stands between a call and `forward` is hooks: where there are
none, the code is run on the module. The guards look at what `forward` read of it: parameters, buffers, submodules, and
whether it trains.

Whenever no guards hold, or something is going on that is not the guards' affair (a dispatch mode, a trace, a profile,
a stance of the compiler, a frame that is itself being evaluated for compilation, a hook of the module), the call goes
the way that `torch.compile` made.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Sequence
from inspect import Parameter
from itertools import count
from types import CodeType, FunctionType, MethodType, SimpleNamespace
from typing import Any, TypeAlias

from .straight_code import straight
from .torch_compat import (
    ENTRY_CONDITION,
    ENTRY_NAMES,
    MODULE_CONDITION,
    MODULE_NAMES,
    CompiledModule,
    calls_forward,
    compiler_stance,
    is_whole,
    undisabled,
)
from .torch_state import cache_entries

MISSING = object()
"""An argument that the caller left out."""

_numbers = count()

_TAKES_RECEIVER = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.VAR_POSITIONAL)

_SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


Look: TypeAlias = Callable[[], Callable[[], bool]]
"""Gives the function that tells whether a thread's operators are unobserved, once something has been compiled."""


class Ways:
    """What is compiled of one function, as far as it is known."""

    def __init__(
        self, function: FunctionType, slow: Callable[..., Any], owns: Callable[[Any], bool], look: Look
    ) -> None:
        self.function = function
        self.code = function.__code__
        self.slow = slow
        self.owns = owns
        self.look = look
        self.unobserved: Callable[[], bool] = bool
        """Whether no dispatch mode is on and nothing is traced; False as long as there are no ways."""
        self.stance: Any = None
        """The compiler's stance in which the ways may be taken."""
        self.ways: tuple[tuple[Any, Callable[[Any], bool], Callable[..., Any]], ...] = ()
        """For each: the guards, the question whether they hold, and the code."""

    def through(self, *args: Any, **kwargs: Any) -> Any:
        """A call as `torch.compile` makes it. What it compiles is known afterwards."""
        result = self.slow(*args, **kwargs)
        entries = [e for e in cache_entries(self.code) if self.owns(e) and is_whole(e.code)]
        known = {id(way[0]): way for way in self.ways}
        self.ways = tuple(known.get(id(e.guard_manager)) or self._way(e) for e in entries)
        self.stance = compiler_stance()
        if self.ways:
            self.unobserved = self.look()
        return result

    def _way(self, entry: Any) -> tuple[Any, Callable[[Any], bool], Callable[..., Any]]:
        guards = entry.guard_manager
        return guards, guards.root.check, self._runnable(entry.code)

    def _runnable(self, code: CodeType) -> Callable[..., Any]:
        """The code as a function. It calls compiled graphs without TorchDynamo's wrapper, which turns off the
        evaluation of frames (it is off here).
        """
        function, scope = self.function, self.function.__globals__
        graphs = {name: graph for name in code.co_names if (graph := undisabled(name, scope)) is not None}
        if (short := straight(code, graphs)) is not None:
            return short
        renamed = {name: f"__lamella_{next(_numbers)}_{name}" for name in graphs}
        scope.update({renamed[name]: graph for name, graph in graphs.items()})
        code = code.replace(co_names=tuple(renamed.get(name, name) for name in code.co_names))
        run = FunctionType(code, scope, function.__name__, None, function.__closure__)
        for name in renamed.values():
            weakref.finalize(run, scope.pop, name, None)
        return run


def fast_entry(slow: Callable[..., Any], owns: Callable[[Any], bool], look: Look) -> Callable[..., Any]:
    """A callable like `slow`, which is `torch.compile(function, fullgraph=True, …)`; `owns` tells the cache entries
    that its backend made, `look` gives what tells whether calls may be made at once. `slow` itself where there is no
    function of Python to enter. What `torch.compile` makes of a module stays what it is, with such an entry for its
    `forward`.
    """
    if not isinstance(slow, CompiledModule):
        return _entry(slow, owns, look)
    module: Any = slow
    module.forward = _entry(module.forward, owns, look)
    return module


def _entry(slow: Callable[..., Any], owns: Callable[[Any], bool], look: Look) -> Callable[..., Any]:
    function: Any = getattr(slow, "_torchdynamo_orig_callable", None)
    if not isinstance(function, MethodType):
        return _enter(slow, owns, look, function, {})
    receiver: Any = function.__self__
    if not calls_forward(function):
        return _enter(slow, owns, look, function.__func__, {"receiver": receiver})
    function = type(receiver).forward
    entry = _enter(slow, owns, look, function, {"receiver": receiver})
    if entry is slow:
        return slow
    names = {"receiver": receiver, "type": type(receiver), "function": function, **MODULE_NAMES}
    return _made(slow, _FORWARD, names | {"entry": entry, "slow": slow}, ())


_FORWARD = f"""
    def entry(*args, **kwargs):
        if {MODULE_CONDITION}:
            return lamella_entry(*args, **kwargs)
        return lamella_slow(*args, **kwargs)
"""


def _enter(
    slow: Callable[..., Any], owns: Callable[[Any], bool], look: Look, function: Any, names: dict[str, Any]
) -> Callable[..., Any]:
    """The entry of a function; of a method, where `names` has its receiver."""
    if not isinstance(function, FunctionType) or function.__code__.co_flags & _SUSPENDS:
        return slow
    if hasattr(function, "__signature__"):
        return slow  # it says something else than how Python binds the arguments
    parameters = list(inspect.signature(function, follow_wrapped=False).parameters.values())
    bound = "receiver" in names
    if bound and (not parameters or parameters[0].kind not in _TAKES_RECEIVER):
        return slow
    ways = Ways(function, slow, owns, look)
    names = {**names, **ENTRY_NAMES, "ways": ways, "function": function, "code": function.__code__, "missing": MISSING}
    entry = _made(slow, _source(function, parameters, bound), names, function.__code__.co_freevars)
    entry.__qualname__ = function.__qualname__
    return entry


def _made(slow: Callable[..., Any], body: str, names: dict[str, Any], cells: Sequence[str]) -> Any:
    """The function that `body` defines as `entry`, like `slow`. It knows `names` as `lamella_NAME` and, as
    `lamella_cell_NAME`, the cells of the function in `names`.
    """
    head = f"def make({', '.join(['lamella_known', *(f'lamella_cell_{name}' for name in cells)])}):"
    known = [f"    lamella_{name} = lamella_known.{name}" for name in names]
    scope: dict[str, Any] = {}
    exec("\n".join([head, *known, body, "    return entry"]), scope)
    entry = scope["make"](SimpleNamespace(**names), *((names["function"].__closure__ or ()) if cells else ()))
    functools.update_wrapper(entry, slow)
    entry._torchdynamo_wrapper_id = id(entry)
    return entry


def _source(function: FunctionType, parameters: list[Parameter], bound: bool) -> str:
    """The text of the entry. Its parameters are the function's (but the first where it is `bound`: `lamella_receiver`),
    so that Python itself binds the arguments.
    """
    declared: list[str] = []
    passed: list[str] = []
    filled: list[str] = []
    values: list[str] = []
    if bound:
        passed.append("lamella_receiver")
        if parameters[0].kind is not Parameter.VAR_POSITIONAL:
            values.append(f"{parameters[0].name!r}: lamella_receiver")
    optional = [p.name for p in parameters if p.default is not Parameter.empty and p.kind is not Parameter.KEYWORD_ONLY]
    kind = Parameter.POSITIONAL_ONLY
    for p in parameters[len(values) :]:
        if p.kind is not kind:
            if kind is Parameter.POSITIONAL_ONLY and declared:
                declared.append("/")
            if p.kind is Parameter.KEYWORD_ONLY and kind is not Parameter.VAR_POSITIONAL:
                declared.append("*")
            kind = p.kind
        stars = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}.get(kind, "")
        given = f"{stars}{p.name}"
        declared.append(given if p.default is Parameter.empty else f"{given}=lamella_missing")
        passed.append(f"{p.name}={p.name}" if kind is Parameter.KEYWORD_ONLY else given)
        all_of_them = bound and not values and kind is Parameter.VAR_POSITIONAL
        values.append(f"{p.name!r}: (lamella_receiver, *{p.name})" if all_of_them else f"{p.name!r}: {p.name}")
        if p.default is not Parameter.empty:
            by_name = kind is Parameter.KEYWORD_ONLY
            place = f"kwdefaults__[{p.name!r}]" if by_name else f"defaults__[{optional.index(p.name) - len(optional)}]"
            filled.append(f"if {p.name} is lamella_missing: {p.name} = lamella_function.__{place}")
    if kind is Parameter.POSITIONAL_ONLY and declared:
        declared.append("/")
    cells = function.__code__.co_freevars
    values += [f"{name!r}: lamella_cell_{name}.cell_contents" for name in cells]
    arguments = ", ".join(passed)
    through = ", ".join(passed[1:] if bound else passed)
    lines = [
        f"    def entry({', '.join(declared)}):",
        *(f"        {line}" for line in filled),
        f"        if {ENTRY_CONDITION}:",
        "            try:",
        f"                lamella_values = {{{', '.join(values)}}}",
        "            except ValueError:",  # a cell that holds nothing
        f"                return lamella_ways.through({through})",
        "            for lamella_guards, lamella_hold, lamella_run in lamella_ways.ways:",
        "                if lamella_guards.cache_entry is not None and lamella_hold(lamella_values):",
        f"                    return lamella_run({arguments})",
        f"        return lamella_ways.through({through})",
    ]
    return "\n".join(lines)
