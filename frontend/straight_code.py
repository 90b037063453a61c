"""TorchDynamo's code of a whole function in few steps.

What it makes of `x + y` keeps a stack in lists around the graph's call, a twentieth of what a call costs. Where
code does no more than to call one graph with its arguments and to return what that gives, in tuples and lists perhaps,
it is run here by symbols, once, and written as one expression.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any, TypeAlias


@dataclass(frozen=True)
class _Named:
    """A value of the code that is made: an argument, a constant, a graph."""

    text: str


@dataclass(frozen=True)
class _Result:
    """What the graph gives, or one item of that."""

    index: int | None = None


_Value: TypeAlias = "_Named | _Result | list[_Value] | tuple[_Value, ...] | None"
"""Lists are those that the code makes; None is the place that a call leaves."""

_IGNORED = {"RESUME", "NOP", "PRECALL", "CACHE", "EXTENDED_ARG"}


class _Unknown(Exception):
    """The code does something else."""


class _Run:
    """A run of the code by symbols."""

    def __init__(self, code: CodeType, graphs: Mapping[str, Callable[..., Any]]) -> None:
        self.scope: dict[str, Any] = {}
        self.parameters, names = _parameters(code)
        if any(name.startswith("lamella_") for name in names):
            raise _Unknown
        self.locals: dict[str, _Value] = {name: _Named(name) for name in names}
        self.graphs = graphs
        self.stack: list[_Value] = []
        self.call = ""

    def step(self, i: dis.Instruction) -> None:
        stack, n = self.stack, i.arg or 0
        match i.opname:
            case "LOAD_FAST":
                stack.append(self.locals[i.argval])
            case "STORE_FAST":
                self.locals[i.argval] = stack.pop()
            case "DELETE_FAST":
                del self.locals[i.argval]
            case "LOAD_CONST":
                stack.append(self.known("constant", i.argval))
            case "LOAD_GLOBAL" if i.argval in self.graphs and n & 1:
                stack += (None, self.known("graph", self.graphs[i.argval]))
            case "CALL":
                self.calls([stack.pop() for _ in range(n)][::-1])
            case "BINARY_SUBSCR":
                index, of = stack.pop(), stack.pop()
                number = self.scope[index.text] if isinstance(index, _Named) and index.text in self.scope else None
                if of != _Result() or type(number) is not int:
                    raise _Unknown
                stack.append(_Result(number))
            case "BUILD_LIST" | "BUILD_TUPLE":
                items = stack[len(stack) - n :]
                del stack[len(stack) - n :]
                stack.append(items if i.opname == "BUILD_LIST" else tuple(items))
            case "LIST_EXTEND":
                more, into = stack.pop(), stack[-n]
                if not isinstance(more, list | tuple) or not isinstance(into, list):
                    raise _Unknown
                into += more
            case "COPY":
                stack.append(stack[-n])
            case "SWAP":
                stack[-1], stack[-n] = stack[-n], stack[-1]
            case "POP_TOP":
                stack.pop()
            case _:
                raise _Unknown

    def known(self, what: str, value: Any) -> _Named:
        name = f"lamella_{what}_{len(self.scope)}"
        self.scope[name] = value
        return _Named(name)

    def calls(self, arguments: list[_Value]) -> None:
        """3.13 has the place that a call leaves above what is called, earlier ones below."""
        called = [self.stack.pop(), self.stack.pop()]
        called.remove(None)
        if self.call or not all(isinstance(a, _Named) for a in (*called, *arguments)):
            raise _Unknown
        texts = [a.text for a in (*called, *arguments) if isinstance(a, _Named)]
        self.call = f"{texts[0]}({', '.join(texts[1:])})"
        self.stack.append(_Result())

    def function(self, returned: _Value) -> Callable[..., Any]:
        seen: set[int] = set()

        def text(value: _Value) -> str:
            if isinstance(value, _Named):
                return value.text
            if isinstance(value, _Result):
                return "lamella_result" if value.index is None else f"lamella_result[{value.index}]"
            if value is None or (isinstance(value, list) and id(value) in seen):  # the same list twice
                raise _Unknown
            seen.add(id(value))
            inner = "".join(f"{text(v)}, " for v in value)
            return f"[{inner}]" if isinstance(value, list) else f"({inner})"

        result = text(returned)
        if result.count("lamella_result") == 1:
            body = [f"return {result.replace('lamella_result', self.call)}"]
        else:
            body = [f"lamella_result = {self.call}", f"return {result}"]
        exec("\n    ".join([f"def run({self.parameters}):", *body]), self.scope)
        return self.scope["run"]


def straight(code: CodeType, graphs: Mapping[str, Callable[..., Any]]) -> Callable[..., Any] | None:
    """A function that does what `code` does, where that is no more than to call one of `graphs`, which are under the
    names of globals. It has no defaults.
    """
    try:
        run = _Run(code, graphs)
        for instruction in dis.get_instructions(code):
            if instruction.opname == "RETURN_VALUE":
                return run.function(run.stack[-1]) if run.call else None
            if instruction.opname not in _IGNORED:
                run.step(instruction)
        return None
    except (_Unknown, LookupError, ValueError):  # also a value that is not there: something was left out
        return None


def _parameters(code: CodeType) -> tuple[str, list[str]]:
    """As text, without defaults, and their names."""
    by_place, by_name = code.co_argcount, code.co_kwonlyargcount
    names = list(code.co_varnames)
    places, keywords, rest = names[:by_place], names[by_place : by_place + by_name], names[by_place + by_name :]
    declared = list(places)
    if code.co_posonlyargcount:
        declared.insert(code.co_posonlyargcount, "/")
    taken: list[str] = []
    if code.co_flags & inspect.CO_VARARGS:
        taken.append(rest.pop(0))
        declared.append(f"*{taken[-1]}")
    elif keywords:
        declared.append("*")
    declared += keywords
    if code.co_flags & inspect.CO_VARKEYWORDS:
        taken.append(rest.pop(0))
        declared.append(f"**{taken[-1]}")
    return ", ".join(declared), [*places, *keywords, *taken]
