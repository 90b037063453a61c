"""The arguments of a host program as one table, by which `lamella_enter` checks them and binds the symbols of their
sizes.

Per argument: its kind (as in codegen/runtime_arguments.py), then for tensors dtype, rank, a code per size and, unless
contiguous, per stride; for scalars one code. A code is a number >= 0: exactly that; -1: anything; -2 - 2k: stored as
word k; -3 - 2k: equal to word k.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import sympy
from xdsl.dialects.builtin import f64, i64
from xdsl.ir import Attribute, SSAValue

from ..dialects import expr
from ..dialects.expr import Dim
from ..dialects.schema import SCALAR_TYPES
from ..dialects.tensor import PACKED, SymType, TensorType
from .address import evaluate
from .host_devices import gpu_index
from .host_frame import BOOL, FLOAT, INT, Frame, HostError
from .llvm_builder import Num

TENSOR, CONTIGUOUS, OBJECT = 0, 1, 5
ANYWHERE = 6
"""A tensor whose type is wrong about its device; the next kind is contiguous."""
CUDA = 16
"""Of this and the next kind are tensors of the first GPU, of the two after them those of the second."""
SCALAR_KINDS = {"i64": INT, "f64": FLOAT, "i1": BOOL}

DTYPE_CODES: dict[str, int] = {
    **{name: i for i, name in enumerate(SCALAR_TYPES)},
    **{"f8e5m2": 23, "f8e4m3fn": 24, "f8e5m2fnuz": 25, "f8e4m3fnuz": 26, "u16": 27, "u32": 28, "u64": 29},
    **{"f8e8m0fnu": 44, "f4e2m1fnx2": 45},
}
"""c10::ScalarType by number."""


class ArgumentTable:
    """Builds the table of some argument types; `check` False keeps only the kinds, dtypes, ranks and bindings;
    `anywhere` True takes tensors of any device.
    """

    def __init__(self, types: Sequence[Attribute], check: Sequence[bool], anywhere: Sequence[bool] = ()):
        self.words: list[int] = []
        self.bound: dict[sympy.Symbol, int] = {}
        self.hidden: list[tuple[Dim, int, bool, tuple[Dim, ...]]] = []
        """Expressions, each with the word of what was given, whether it must agree, and of strides the sizes."""
        self.floats: dict[sympy.Symbol, int] = {}
        self.count = 0
        for i, (type, checked) in enumerate(zip(types, check, strict=True)):
            self._add(type, checked, i < len(anywhere) and anywhere[i])

    def _new(self) -> int:
        self.count += 1
        return self.count - 1

    def _code(self, value: Dim, check: bool, dims: Sequence[Dim] = ()) -> int:
        """`dims`, of a stride: the size of its dim, where 1 says that it is nothing, and all sizes, where 0 does."""
        if isinstance(value, int):
            if not check:
                return -1
            if value >= 0:
                return value
        elif isinstance(value, sympy.Symbol):
            if value in self.bound:
                return -3 - 2 * self.bound[value] if check else -1
            word = self.bound[value] = self._new()
            return -2 - 2 * word
        word = self._new()
        self.hidden.append((value, word, check, tuple(dims)))
        return -2 - 2 * word

    def _add(self, type: Attribute, check: bool, anywhere: bool) -> None:
        if isinstance(type, TensorType) and type.device != PACKED:
            contiguous = type.is_contiguous
            gpu = gpu_index(type)
            place = ANYWHERE if anywhere else TENSOR if gpu is None else CUDA + 2 * gpu
            self.words += [place + CONTIGUOUS * contiguous, DTYPE_CODES[type.dtype], type.rank]
            self.words += [self._code(d, check) for d in type.shape]
            if not contiguous:
                # the stride of a dim of size 1 is whatever it is
                pairs = zip(type.shape, type.strides, strict=True)
                self.words += [
                    self._code(stride, check, (d, *type.shape)) if self._matters(d, stride) else -1
                    for d, stride in pairs
                ]
        elif isinstance(type, SymType):
            self.words += [SCALAR_KINDS[type.dtype], self._scalar(type, check)]
        else:
            self.words += [OBJECT, -1]

    def _matters(self, size: Dim, stride: Dim) -> bool:
        return size != 1 or (isinstance(stride, sympy.Symbol) and stride not in self.bound)

    def _scalar(self, type: SymType, check: bool) -> int:
        if type.dtype != "f64":
            return self._code(type.expr, check)
        if isinstance(type.expr, sympy.Symbol) and type.expr not in self.floats:
            word = self.floats[type.expr] = self._new()
            return -2 - 2 * word
        return -1

    def bind(self, frame: Frame, values: SSAValue) -> list[tuple[SSAValue, SSAValue]]:
        """Loads the symbols into `frame.env`; gives the pairs that must be equal."""
        b = frame.b

        def word(k: int, type: Attribute = i64) -> SSAValue:
            return frame.load(b.gep(values, k, i64), type)

        for symbol, k in self.bound.items():
            frame.env[symbol] = word(k)
        for symbol, k in self.floats.items():
            frame.floats[symbol] = word(k, f64)
        pairs: list[tuple[SSAValue, SSAValue]] = []
        pending = self.hidden
        while pending:
            later: list[tuple[Dim, int, bool, tuple[Dim, ...]]] = []
            for value, k, check, dims in pending:
                unknown = [s for s in expr.symbols(value) if s not in frame.env]
                if not unknown:
                    if check:
                        pairs.append((_given(frame, word(k), value, dims), frame.number(value)))
                elif len(unknown) > 1 or (solved := _solve(frame, value, unknown[0], word(k))) is None:
                    later.append((value, k, check, dims))
                else:
                    frame.env[unknown[0]] = solved
                    pairs.append((word(k), frame.number(value)))
            if len(later) == len(pending):
                raise HostError(f"no argument gives the sizes in {expr.text(later[0][0])}")
            pending = later
        return pairs


def _given(frame: Frame, given: SSAValue, value: Dim, dims: Sequence[Dim]) -> SSAValue:
    """A number that was given; of a stride that is nothing to its tensor, what it should be."""
    b, expected = frame.b, frame.number(value)
    right = b.constant(expected, i64) if isinstance(expected, int) else expected
    if 0 in dims[1:]:
        return right
    for i, size in enumerate(dims):
        if not isinstance(size, int):
            free = b.icmp("eq", frame.number(size), b.constant(int(i == 0), i64))
            given = b.select(free, right, given)
    return given


def _solve(frame: Frame, value: Dim, symbol: sympy.Symbol, given: SSAValue) -> Num | None:
    """The symbol for which `value`, linear in it, is `given`."""
    e = cast(Any, sympy.expand(value))
    factor, rest = e.coeff(symbol, 1), e.coeff(symbol, 0)
    if expr.symbols(factor) or sympy.expand(e - factor * symbol - rest) != 0 or not factor.is_Integer or factor <= 0:
        return None
    b = frame.b
    place = expr.symbol("given")
    env = {**frame.env, place: b.index_sub(given, frame.value(expr.normal(rest)))}
    return evaluate(b, expr.floordiv(place, int(factor)), env)
