"""Kernels that users write in Triton's Python, as an operator: a call says the kernel, its arguments and its grid.

    lamella.triton_kernel("model:scale@5f0c…", ["out", "x", "n"], [%out], [%x], [s0], grid = [ceiling(s0/128), 1, 1],
        constants = ["BLOCK = 128"]) : (!sym.t<[s0], f32>, !sym.t<[s0], f32>) -> ()

A kernel is named by where it is defined, and by a hash of what it is made of; text that people write may leave the
hash out. It is launched as Triton launches it, on the stream and the device that torch has current.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, Final

import torch

from .user_error import LamellaError

NAME: Final = "lamella.triton_kernel"

_LIBRARY: Final = torch.library.Library("lamella", "FRAGMENT")
_LIBRARY.define(
    "triton_kernel(str kernel, str[] names, Tensor(a!)[] written, Tensor[] read, Scalar[] numbers, *, SymInt[] grid,"
    " str[] constants) -> ()"
)


class KernelMissing(LamellaError, LookupError):
    """No kernel of that name is at hand."""


_known: dict[str, Any] = {}
"""Kernels by their names: those that graphs of this process call."""


def name_of(kernel: Any) -> str:
    """The name of a kernel as calls give it, from which on `find` knows it. Raises AttributeError for what is no kernel
    of Triton's.
    """
    tuned: list[Any] = []
    function = kernel
    while not hasattr(function, "cache_key"):  # under @autotune and @heuristics
        tuned.append(function)
        function = function.fn
    words = [function.cache_key, *map(_settings, tuned)]
    code = hashlib.sha256("|".join(words).encode()).hexdigest()[:16]
    name = f"{function.fn.__module__}:{function.fn.__qualname__}@{code}"
    _known.setdefault(name, kernel)
    return name


def _settings(tuned: Any) -> str:
    """What a kernel is tuned with. Functions are told apart by identity: then a name is of one process."""
    configs = getattr(tuned, "configs", ())
    hooks = [c.pre_hook for c in configs if getattr(c, "pre_hook", None) is not None]
    if getattr(tuned, "user_defined_pre_hook", False) or getattr(tuned, "user_defined_post_hook", False):
        hooks += [tuned.pre_hook, tuned.post_hook]
    functions = [*hooks, *getattr(tuned, "values", {}).values()]
    restored = [getattr(tuned, n, None) for n in ("keys", "reset_to_zero", "restore_value")]
    return f"{type(tuned).__name__} {[str(c) for c in configs]} {restored} {list(map(id, functions))}"


def find(name: str) -> Any:
    """The kernel of that name: one that a graph of this process calls, or one that can be imported.

    Raises KernelMissing where there is none, or it is another one by now.
    """
    if (kernel := _known.get(name)) is not None:
        return kernel
    place, _, code = name.partition("@")
    module, _, path = place.partition(":")
    try:
        kernel = import_module(module)
        for part in path.split("."):
            kernel = getattr(kernel, part)
        found = name_of(kernel)
    except (ImportError, AttributeError, ValueError) as error:
        raise KernelMissing(f"no Triton kernel {place} can be imported: {error}") from error
    if code and found != name:
        raise KernelMissing(f"the Triton kernel {place} is not the one that was compiled")
    return _known.setdefault(name, kernel)


class Descriptor:
    """A tensor argument that the kernel takes as a descriptor of blocks."""

    def __init__(self, block: Sequence[int]) -> None:
        self.block = list(block)

    def of(self, tensor: torch.Tensor) -> Any:
        from triton.tools.tensor_descriptor import TensorDescriptor

        return TensorDescriptor.from_tensor(tensor, self.block)


def written_constant(name: str, value: Any) -> str:
    """An argument that stands in the text. Raises TypeError for what has no words."""
    return f"{name} = {_words(value)}"


def _words(value: Any) -> str:
    if isinstance(value, Descriptor):
        return f"descriptor {value.block}"
    if isinstance(value, torch.dtype):
        return str(value)
    if value is None or type(value) in (bool, int, float, str):
        return repr(value)
    if type(value).__module__.startswith("triton.") and type(value).__name__ == "dtype":
        return f"tl.{value.name}"
    if type(value).__name__ == "constexpr":
        return _words(value.value)
    if type(value) in (list, tuple) and all(type(v) in (bool, int, float, str) for v in value):
        return repr(value)
    if hasattr(value, "cache_key") and hasattr(value, "fn"):
        return f"kernel {name_of(value)}"
    raise TypeError(f"a {type(value).__name__} has no form in text")


@lru_cache(maxsize=4096)
def _read_constants(constants: tuple[str, ...]) -> dict[str, Any]:
    pairs = (text.partition(" = ") for text in constants)
    return {name: _value(words) for name, _, words in pairs}


def _value(words: str) -> Any:
    kind, _, rest = words.partition(" ")
    if kind == "descriptor":
        return Descriptor(ast.literal_eval(rest))
    if kind == "kernel":
        return find(rest)
    if words.startswith("torch."):
        return getattr(torch, words[6:])
    if words.startswith("tl."):
        from triton.language import core

        return core.dtype(words[3:])
    return float(words) if words in ("inf", "-inf", "nan") else ast.literal_eval(words)


def launch(kernel: Any, grid: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Have Triton launch a kernel on a grid, which may be a function of its configuration."""
    kernel[grid](*args, **keywords)


def call(
    kernel: str,
    names: Sequence[str],
    written: Sequence[Any],
    read: Sequence[Any],
    numbers: Sequence[Any],
    *,
    grid: Sequence[int],
    constants: Sequence[str],
) -> None:
    """Launch a kernel: `names` are those of `written`, `read` and `numbers`, `grid` has three numbers for each
    configuration of the kernel. Raises KernelMissing where it is not found.
    """
    function = find(kernel)
    given = dict(zip(names, (*written, *read, *numbers), strict=True))
    for name, value in _read_constants(tuple(constants)).items():
        given[name] = value.of(given[name]) if isinstance(value, Descriptor) else value
    args: list[Any] = []
    for name in function.arg_names:  # by position as far as possible: hooks take no others
        if name not in given:
            break
        args.append(given.pop(name))
    grids = [tuple(grid[i : i + 3]) for i in range(0, len(grid), 3)]
    launch(function, grids[0] if len(grids) == 1 else _choice(function, grids), args, given)


def _choice(kernel: Any, grids: Sequence[tuple[int, ...]]) -> Any:
    """The grid as a function of the configuration: that with the most arguments which has its values."""
    pairs = sorted(zip(kernel.configs, grids, strict=True), key=lambda pair: -len(pair[0].kwargs))

    def choose(meta: Mapping[str, Any]) -> tuple[int, ...]:
        for config, grid in pairs:
            if all(meta.get(name) == value for name, value in config.kwargs.items()):
                return grid
        raise ValueError(f"no configuration of the kernel has {dict(meta)}")

    return choose


_LIBRARY.impl("triton_kernel", call, "CompositeExplicitAutograd")


_LIBRARY.impl("triton_kernel", lambda *_, **__: None, "Meta")
