"""What a compiled program needs besides its code; picklable, and read without any IR."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .triton_compile import CompiledKernel


@dataclass(frozen=True)
class Argument:
    """What the program expects at one position. `shape` and `strides` are sizes or the text of expressions."""

    name: str
    dtype: str | None
    shape: tuple[int | str, ...] = ()
    strides: tuple[int | str, ...] | None = None
    """None for a contiguous tensor."""
    scalar: str | None = None
    """The text of the expression for a scalar."""
    device: str = "cpu"


class Hole(Enum):
    """What stands for a value that is given at the call."""

    GIVEN = "?"


@dataclass(frozen=True)
class CallSpec:
    """One call, picklable: the operator as IR names it, its name and overload in torch, its arguments as torch takes
    them, by position and by keyword, and how many results.
    """

    operator: str
    name: str
    overload: str
    positional: tuple[Any, ...]
    named: tuple[tuple[str, Any], ...]
    results: int


@dataclass(frozen=True)
class ExpressionSpec:
    """A number computed from the values of symbols; picklable."""

    expression: str
    symbols: tuple[str, ...]


@dataclass(frozen=True)
class GpuKernel:
    """A kernel that the program launches: its symbol, the number of the GPU, how many of its arguments are buffers,
    how many bits each of the others has, and the code.
    """

    symbol: str
    device: int
    buffers: int
    bits: tuple[int, ...]
    code: CompiledKernel


@dataclass(frozen=True)
class Metadata:
    """What a program needs besides its code; picklable."""

    arguments: tuple[Argument, ...]
    objects: tuple[Any, ...]
    """The Python objects it uses: names, tuples of types and texts to raise, and specs of calls and expressions."""
    kernels: tuple[GpuKernel, ...] = ()
    uploads: tuple[int, ...] = ()
    """Arguments that are numbers of the CPU, and are copied to the GPU they are expected on."""
    on_gpu: bool = False
    """Whether it takes or makes tensors of a GPU."""
