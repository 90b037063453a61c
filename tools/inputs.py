"""Inputs for a module: from a file, or random ones of the types that its @main takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import ArrayAttr

from ..dialects import expr
from ..dialects.errors import LamellaError
from ..dialects.hints import size_hints
from ..dialects.tensor import TORCH_DTYPES, SymType, TensorType, is_complex, is_float

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation

DIGITS = 18
"""Of sizes and seeds: larger numbers have no place in an int64."""


def first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__


_PROGRAMS = ("func.func", "host.func", "llvm.func")


def main_of(module: ModuleOp) -> Operation:
    """The function that is run. Raises LamellaError where there is none, or nothing is in it."""
    for op in module.ops:
        if op.name in _PROGRAMS and getattr(op.properties.get("sym_name"), "data", None) == "main":
            if not op.regions[0].blocks:
                raise LamellaError("@main is declared, and has no body to run")
            return op
    raise LamellaError("the module has no function @main to run")


def signature(module: ModuleOp) -> list[tuple[str, TensorType | SymType]]:
    """Name and type of every argument of @main, at any level. Raises LamellaError where it cannot be called."""
    main = main_of(module)
    if main.name == "llvm.func":  # a native program takes one list
        described = module.attributes.get("lamella.arguments")
        if not isinstance(described, ArrayAttr):
            raise LamellaError("@main has no 'lamella.arguments' beside it: the module was not made by host-to-llvm")
        words = cast("Sequence[Any]", described.data)
        pairs = [(getattr(name, "data", name), type_) for name, type_ in zip(words[::2], words[1::2], strict=False)]
    else:
        pairs = [(a.name_hint or f"arg{a.index}", a.type) for a in main.regions[0].blocks[0].args]
    for name, type_ in pairs:
        if not isinstance(type_, (TensorType, SymType)):
            raise LamellaError(f"@main takes '{name}' of type {type_}: only tensors and numbers can be given")
    return cast("list[tuple[str, TensorType | SymType]]", pairs)


def random_inputs(module: ModuleOp, *, seed: int = 0, high: int = 2, sizes: dict[str, int] | None = None) -> list[Any]:
    """Seeded inputs of the types that @main takes; sizes not given come from the module's hints, or are 2, 3, 4, …

    Raises LamellaError for sizes of symbols that no input has, and where an input cannot be made.
    """
    import torch

    if abs(seed) >= 10**DIGITS:
        raise LamellaError(f"--seed has at most {DIGITS} digits")
    if not 1 <= high < 1 << 62:
        raise LamellaError(f"--high must be at least 1 and below 2**62, got {high}")
    torch.manual_seed(seed)
    values = dict(sizes or {})
    known = size_hints(module)
    arguments = signature(module)
    symbols = {s.name for _, t in arguments for e in _expressions(t) for s in expr.symbols(e)}
    if unknown := sorted(values.keys() - symbols):
        there = f"they are {', '.join(sorted(symbols))}" if symbols else "all sizes are numbers"
        raise LamellaError(f"--size {unknown[0]}: no input has such a symbol; {there}")
    for name in sorted(symbols):
        values.setdefault(name, known.get(name, 2 + len(values)))
    inputs: list[Any] = []
    for name, type_ in arguments:
        try:
            inputs.append(_random(type_, values, high))
        except (MemoryError, NotImplementedError, OverflowError, RuntimeError) as error:
            raise LamellaError(f"cannot make a random input '{name}' of type {type_}: {first_line(error)}") from None
    return inputs


def _expressions(t: TensorType | SymType) -> Sequence[Any]:
    return (*t.shape, *t.strides) if isinstance(t, TensorType) else (t.expr,)


def _random(t: TensorType | SymType, values: dict[str, int], high: int) -> Any:
    import torch

    if isinstance(t, SymType):
        return expr.evaluate(t.expr, values)
    shape = [expr.evaluate(d, values) for d in t.shape]
    strides = [expr.evaluate(d, values) for d in t.strides]
    dtype = getattr(torch, TORCH_DTYPES[t.dtype])
    # Strides may skip elements, or give one of them several places.
    storage = [1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if all(shape) else 0]
    if is_float(t.dtype) or is_complex(t.dtype):
        data = torch.randn(storage, dtype=torch.float32).to(dtype)
    else:
        data = torch.randint(0, 2 if t.dtype == "i1" else high, storage).to(dtype)
    return data.as_strided(shape, strides)


def load_inputs(module: ModuleOp, path: str) -> list[Any]:
    """The inputs from a `.pt` or `.npz` file, in the order of @main's arguments. Raises LamellaError."""
    import numpy
    import torch

    names = [n for n, _ in signature(module)]
    try:
        if path.endswith(".npz"):
            with numpy.load(path) as arrays:
                stored: Any = {k: torch.from_numpy(arrays[k]) for k in arrays.files}
        else:
            stored = torch.load(path, weights_only=True)
    except OSError as error:
        raise LamellaError(f"cannot read inputs from {path}: {error.strerror or first_line(error)}") from error
    except Exception as error:  # a file that is something else fails in many ways
        ours = "torch.save with tensors and numbers, in a list or a dict"
        wanted = f"a file of {'numpy.savez with arrays of numbers' if path.endswith('.npz') else ours}"
        raise LamellaError(f"cannot read inputs from {path}: this is not {wanted}") from error
    if isinstance(stored, dict):
        table: dict[str, Any] = stored  # pyright: ignore[reportUnknownVariableType]
        if set(names) <= set(table):
            return [table[n] for n in names]
        positional = [f"arr_{i}" for i in range(len(names))]
        if set(positional) == set(table):
            return [table[n] for n in positional]
        raise LamellaError(f"{path} has {sorted(map(str, table))}, @main takes {names}")
    if isinstance(stored, torch.Tensor):
        stored = [stored]
    if not isinstance(stored, (list, tuple)):
        raise LamellaError(f"{path} has a {type(stored).__name__}: expected a list of tensors and numbers, or a dict")
    values: list[Any] = list(stored)  # pyright: ignore[reportUnknownArgumentType]
    if len(values) != len(names):
        raise LamellaError(f"{path} has {len(values)} inputs, @main takes {len(names)}: {', '.join(names)}")
    return values


def check_inputs(module: ModuleOp, inputs: Sequence[Any]) -> None:
    """Raises LamellaError for an input that is not of the type that @main takes, whatever the level."""
    from ..codegen.metadata import Argument
    from ..codegen.wrong_inputs import check_inputs as check

    def text(d: Any) -> int | str:
        return d if isinstance(d, int) else expr.text(d)

    def argument(name: str, t: TensorType | SymType) -> Argument:
        if isinstance(t, SymType):
            return Argument(name, t.dtype, scalar=expr.text(t.expr))
        strides = None if t.is_contiguous else tuple(map(text, t.strides))
        return Argument(name, t.dtype, tuple(map(text, t.shape)), strides, device=t.device)

    expected = [argument(name, t) for name, t in signature(module)]
    try:
        check(expected, inputs)
    except (TypeError, ValueError) as error:
        raise LamellaError(str(error)) from None
