"""What an object of Python is, in words that are the same in another process where it is the same."""

from __future__ import annotations

import enum
import hashlib
import inspect
import os
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import torch

_NATIVE = (
    *(BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType, GetSetDescriptorType, MemberDescriptorType),
    *(torch._ops.OpOverload, torch._ops.OpOverloadPacket),
)
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), torch.dtype, torch.device, torch.layout)
_PLAIN_C = (torch.memory_format, torch.Size, slice, range)

_TORCH, _PYTHON = (f"{Path(module.__file__ or '').parent}{os.sep}" for module in (torch, os))


def of_library(path: str) -> bool:
    """Whether the versions of torch and of Python say what is in a file of source."""
    return path.startswith(_TORCH) or (path.startswith(_PYTHON) and not path.startswith(f"{_PYTHON}site-packages"))


class Unknown(Exception):
    """An object that can be told from others by its address only."""


class Identities:
    """Words for objects, each object looked at once: those asked for are kept alive."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, str]] = {}

    def of(self, value: Any) -> str:
        """Words for what an `is` finds: classes, functions, modules, constants. Raises Unknown for other objects."""
        found = self._known.get(id(value))
        if found is None:
            self._known[id(value)] = (value, f"<{type(value).__name__}, again>")  # where it refers to itself
            try:
                found = self._known[id(value)] = (value, self._words(value))
            except Unknown:
                del self._known[id(value)]
                raise
        return found[1]

    def defaults(self, function: FunctionType) -> str:
        """Words for the defaults of its arguments."""
        return f"{self._part(function.__defaults__)} {self._part(function.__kwdefaults__)}"

    def _words(self, value: Any) -> str:
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, CodeType):
            return f"code {code_hash(value)}"
        if isinstance(value, MethodType):
            return f"method {self.of(value.__func__)} of {self.of(type(value.__self__))}"
        if isinstance(value, ModuleType):
            return f"module {value.__name__}"
        if isinstance(value, enum.Enum):
            return f"{self.of(type(value))}.{value.name}"
        if isinstance(value, (*_PLAIN, *_PLAIN_C)):
            return f"{type(value).__name__} {value!r}"
        if isinstance(value, _NATIVE):
            return f"{type(value).__name__} {value!s}".partition(" at 0x")[0]
        raise Unknown(f"{type(value).__name__} at an address")

    def _part(self, value: Any) -> str:
        """Words for what a function or class holds; of data no more than what it is."""
        if isinstance(value, (property, staticmethod, classmethod)):
            parts = [value.fget, value.fset, value.fdel] if isinstance(value, property) else [value.__func__]
            return f"{type(value).__name__}({', '.join(map(self._part, parts))})"
        if type(value) in (tuple, list):
            return f"[{', '.join(map(self._part, value))}]"
        if type(value) is dict:
            return f"{{{', '.join(f'{self._part(k)}: {self._part(v)}' for k, v in value.items())}}}"
        if isinstance(value, type):
            return f"{value.__module__}.{value.__qualname__}"
        try:
            return self.of(value)
        except Unknown:
            return f"<{type(value).__module__}.{type(value).__qualname__}>"

    def _function(self, value: FunctionType) -> str:
        cells = [self._part(_content(cell)) for cell in value.__closure__ or ()]
        held = [self.defaults(value), *cells]
        return f"{value.__module__}.{value.__qualname__} {code_hash(value.__code__)} {_hash(held)}"

    def _class(self, value: type) -> str:
        parts: list[str] = []
        for base in value.__mro__:
            parts.append(f"{base.__module__}.{base.__qualname__}")
            if base.__module__ != "builtins":
                own = vars(base)
                parts += [f"{name} = {self._part(own[name])}" for name in sorted(own) if name not in _UNSTEADY]
        return f"class {parts[0]} {_hash(parts)}"


_UNSTEADY = frozenset(("__dict__", "__weakref__", "__doc__", "_abc_impl", "__annotations__", "__annotate_func__"))


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return "an empty cell"


def _hash(parts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:24]


@cache
def code_hash(code: CodeType) -> str:
    """A hash of what code does: not of the lines it stands in."""
    numbers = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags, code.co_exceptiontable)
    names = (code.co_qualname, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return _hash([code.co_code.hex(), repr(numbers), repr(names), *map(_constant, code.co_consts)])


def _constant(value: Any) -> str:
    if isinstance(value, CodeType):
        return code_hash(value)
    if isinstance(value, (tuple, frozenset)):
        parts = [_constant(v) for v in value]  # pyright: ignore[reportUnknownVariableType]
        return f"{type(value).__name__}({', '.join(parts if isinstance(value, tuple) else sorted(parts))})"  # pyright: ignore[reportUnknownArgumentType]
    return f"{type(value).__name__} {value!r}"


@cache
def file_hash(path: str) -> str:
    """A hash of a file of source as this process found it; "" for one of a library, and where there is none."""
    if of_library(path):
        return ""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:24]
    except OSError:
        return ""


def named(codes: Iterable[CodeType]) -> list[tuple[str, str, str]]:
    """Module, name in it and hash, of those codes that functions of modules have: not of functions in functions."""
    modules: dict[str, list[tuple[str, ModuleType]]] = {}
    for name, module in list(sys.modules.items()):
        if isinstance(path := getattr(module, "__dict__", {}).get("__file__"), str):
            modules.setdefault(path, []).append((name, module))
    found: list[tuple[str, str, str]] = []
    for code in codes:
        for name, module in modules.get(code.co_filename, ()):
            if any(c is code for c in _codes_at(module, code.co_qualname)):
                found.append((name, code.co_qualname, code_hash(code)))
                break
    return found


def still_there(module: str, qualname: str, code: str) -> bool:
    """Whether the function of that name has code with that hash."""
    loaded = sys.modules.get(module)
    return loaded is not None and any(code_hash(c) == code for c in _codes_at(loaded, qualname))


def _codes_at(place: Any, qualname: str) -> list[CodeType]:
    """The code of the function of that name, and of those it wraps."""
    for part in qualname.split("."):
        try:
            place = inspect.getattr_static(place, part)
        except AttributeError:
            return []
    place = getattr(place, "fget", None) or place
    found: list[CodeType] = []
    while place is not None and len(found) < 10:
        place = getattr(place, "__func__", place)
        if isinstance(code := getattr(place, "__code__", None), CodeType):
            found.append(code)
        place = getattr(place, "__wrapped__", None)
    return found
