"""Complex tensors of a function while it goes from aten to prims: pairs of floats, and tensors where they are needed.

One that is given (an argument, the result of a call) is read through `aten.view_as_real`, which copies nothing; one
that is made and leaves (into a call or a result) is floats with a last dim of 2, seen through `aten.view_as_complex`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import sympy
from xdsl.dialects.builtin import NoneType
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue, Use

from ..dialects.aten import AtenOp, lookup
from ..dialects.tensor import TensorType, is_complex
from .aten_canonicalize import introduces_sizes
from .complex_value import PARTS, Pair, packed_type, with_real
from .decomposition import RULES, Call, decompose, finish, is_like
from .decompositions_complex import COMPLEX, ELEMENTWISE, packed, unpacked
from .float_expressions import float_tensor
from .moves import PARTWISE
from .prims_builder import Builder, Value
from .promotion import COMPUTE_DTYPES
from .reference_decompositions import decompose_by_reference, reference
from .size_code import has_code
from .storage import overlaps

DTYPES = COMPUTE_DTYPES | PARTS.keys()

COPY = "aten.copy_"

AS_THEY_ARE = frozenset({"condition", "mask", "index", "indices"})
"""Arguments that say which elements: they have no parts."""


class Values(dict[SSAValue, SSAValue]):
    """What stands for each value; one that is missing is asked for."""

    def __init__(self, make: Callable[[SSAValue], SSAValue]) -> None:
        self.make = make

    def __missing__(self, value: SSAValue) -> SSAValue:
        made = self[value] = self.make(value)
        return made


class Pairs:
    """The pairs of a function's complex values."""

    def __init__(
        self, b: Builder, remake: Callable[[Operation, Values], Any], refused: Callable[[list[Operation]], bool]
    ) -> None:
        """`refused` says of what was built for a call that this is to stay one."""
        self.b = b
        self._refused = refused
        self.pairs: dict[SSAValue, Pair] = {}
        self._floats: dict[SSAValue, Value] = {}
        """The tensors that pairs are read through."""
        self.values = Values(self.tensor)
        self._remake = remake

    def pair(self, value: SSAValue) -> Pair:
        known = self.pairs.get(value)
        if known is None:
            t = packed_type(cast(TensorType, value.type))
            self._floats[value] = floats = Value(self.b, self._view("aten.view_as_real", self.values[value], t))
            known = self.pairs[value] = unpacked(floats)
        return known

    def tensor(self, value: SSAValue) -> SSAValue:
        """A complex value of which there is only the pair, as a tensor: a view stays one."""
        owner, t = value.owner, cast(TensorType, value.type)
        if isinstance(owner, AtenOp) and _aliases(owner):
            self._remake_view(owner)
            return self.values.pop(value)
        floats = packed(self.b, self.pairs[value], packed_type(t))
        return self._view("aten.view_as_complex", floats.ssa, t)

    def _remake_view(self, op: AtenOp) -> None:
        """An operator that is a view without saying so (`unsafe_split`, `_unsafe_view`) as the view that it is."""
        cls = None if op.schema.is_view else lookup(op.name.replace("unsafe_", "").replace("._view", ".view"))
        if cls is None:
            self._remake(op, self.values)
            return
        said = cls.call(op.args(), [r.type for r in op.results], op.location)
        self._remake(said, self.values)
        self.values.update((r, self.values.pop(made)) for r, made in zip(op.results, said.results, strict=True))
        said.erase()

    def _view(self, name: str, operand: SSAValue, type: TensorType) -> SSAValue:
        cls = lookup(name)
        assert cls is not None
        op = cls.call([operand], [type], self.b.location)
        self.b.ops.append(op)
        return op.results[0]

    # Operators

    def lower(self, op: AtenOp) -> bool:
        """Build prims for a call on complex tensors; False where it is to stay a call."""
        if not _has_pairs(op) or not _one_device(op) or introduces_sizes(op):
            return False
        if op.name == COPY:
            return self._copy_into(op)
        return self._by_rule(op) if takes_pairs(op) else self._by_reference(op)

    def _copy_into(self, op: AtenOp) -> bool:
        """The floats of a tensor are what is written."""
        x, source, non_blocking = op.args()
        t = cast(TensorType, cast(SSAValue, x).type)
        if t.dtype not in PARTS or not all(map(_leaves, op.results[0].uses)) or overlaps(t):
            return False
        if t.numel == 0:
            self.values[op.results[0]] = self.values[cast(SSAValue, x)]
            return True
        self.pair(cast(SSAValue, x))
        floats = self._floats.get(cast(SSAValue, x))
        if floats is None:  # it is none of the caller's
            return False
        value = with_real(self._argument(source), PARTS[t.dtype]).expand(t.shape)
        new = packed(self.b, value, floats.type)
        self.b.ops.append(type(op).call([floats.ssa, new.ssa, non_blocking], [floats.type], op.location))
        self.values[op.results[0]] = self.values[cast(SSAValue, x)]
        return True

    def _by_rule(self, op: AtenOp) -> bool:
        b = self.b
        args = [self._argument(a) for a in op.args()]
        mark, constants = len(b.ops), b.constants
        if not self._with_symbols(op, args):
            result = NotImplemented
        elif op.name in COMPLEX:
            result = COMPLEX[op.name](Call(b, op), *(a.opmath() if isinstance(a, Pair) else a for a in args))
        else:
            result = self._part_by_part(op, args)
        if result is NotImplemented or self._refused(b.ops[mark:]):
            b.rewind(mark, constants)
            return False
        results = (result,) if isinstance(result, (Pair, Value)) else result
        new = set(b.ops[mark:])
        for value, r in zip(results, op.results, strict=True):
            t = cast(TensorType, r.type)
            if isinstance(value, Pair) and t.dtype not in PARTS:
                value = value.re
            if isinstance(value, Pair):
                self.pairs[r] = value.to(PARTS[t.dtype], rounding=True)
                if not _aliases(op) and any(not takes_pairs(use.operation) for use in r.uses):
                    self.values[r] = self.tensor(r)
            else:
                self.values[r] = finish(value, t, new, _aliases(op))
        return True

    def _by_reference(self, op: AtenOp) -> bool:
        """By torch's decomposition, where each call in it has a rule."""
        calls = reference(op, DTYPES)
        if calls is None:
            return False
        b = self.b
        for v in op.operands:
            self._argument(v)  # is read before what may be dropped again
        mark, constants = len(b.ops), b.constants
        *calls, last = calls
        found = all(self.lower(call) or self._of_reals(call) for call in calls if isinstance(call, AtenOp))
        if found and not self._refused(b.ops[mark:]):
            new = set(b.ops[mark:])
            for v, r in zip(last.operands, op.results, strict=True):
                t = cast(TensorType, r.type)
                if t.dtype in PARTS:
                    self.pairs[r] = self.pair(v).to(PARTS[t.dtype], rounding=True)
                else:
                    self.values[r] = finish(Value(b, self.values[v]), t, new, False)
        else:
            b.rewind(mark, constants)
        last.erase()
        for call in reversed(calls):
            for r in call.results:
                self.pairs.pop(r, None)
                self.values.pop(r, None)
            call.erase()
        return found

    def _of_reals(self, op: AtenOp) -> bool:
        """As `lower`, for a call that has no complex tensors."""

        def value(v: SSAValue) -> Value:
            return Value(self.b, self.values[v])

        replaced = decompose(self.b, op, value) or decompose_by_reference(self.b, op, value)
        self.values.update(zip(op.results, replaced or (), strict=False))
        return replaced is not None

    def _argument(self, arg: Any) -> Any:
        if isinstance(arg, SSAValue):
            t = arg.type
            if not isinstance(t, TensorType):
                return cast(Any, t).expr
            return self.pair(arg) if is_complex(t.dtype) else Value(self.b, self.values[arg])
        return tuple(map(self._argument, arg)) if type(arg) is tuple else arg

    def _with_symbols(self, op: AtenOp, args: list[Any]) -> bool:
        """Make tensors of rank 0 of numbers that are expressions; False where that cannot be."""
        device = cast(TensorType, op.results[0].type).device
        elementwise = op.name in ELEMENTWISE if op.name in COMPLEX else RULES[op.name].elementwise
        for i, (a, arg) in enumerate(zip(op.schema.args, args, strict=True)):
            if not isinstance(arg, sympy.Expr) or (has_code(arg) and a.element not in ("number", "Tensor")):
                continue
            args[i] = float_tensor(self.b, arg, device) if elementwise else None
            if args[i] is None:
                return False
        return True

    def _part_by_part(self, op: AtenOp, args: list[Any]) -> Any:
        """The rule of the operator for reals, for the real parts and for the imaginary parts."""
        found: list[Any] = []
        for which in (0, 1):
            call = Call(self.b, op)
            call.types = tuple(_part_type(t) for t in call.types)
            given: list[Any] = []
            for a, arg in zip(op.schema.args, args, strict=True):
                given.append(arg if a.name in AS_THEY_ARE else _part(arg, which, call.type.dtype, a.element))
            result = RULES[op.name].function(call, *given)
            if result is NotImplemented:
                return NotImplemented
            found.append(result if isinstance(result, tuple) else (result,))
        return tuple(Pair(re, im) for re, im in zip(*found, strict=True))


def _aliases(op: AtenOp) -> bool:
    """Whether a result may lie in an operand's memory."""
    return op.schema.is_view or (op.name in RULES and RULES[op.name].alias)


def _leaves(use: Use) -> bool:
    return isinstance(use.operation, ReturnOp)


def takes_pairs(op: Operation) -> bool:
    """Whether an op will read the pair of a complex operand rather than the tensor, as far as its name tells."""
    return isinstance(op, AtenOp) and (op.name in COMPLEX or op.name in PARTWISE or op.name == COPY)


def _has_pairs(op: AtenOp) -> bool:
    """Whether there is a complex tensor among operands and results, and nothing that has no parts."""
    types = [v.type for v in (*op.operands, *op.results) if isinstance(v.type, TensorType)]
    if not any(is_complex(t.dtype) for t in types) or any(isinstance(r.type, NoneType) for r in op.results):
        return False
    return all(t.dtype in DTYPES and all(type(d) is int or has_code(d) for d in (*t.shape, *t.strides)) for t in types)


def _one_device(op: AtenOp) -> bool:
    read = () if is_like(op) else op.operands
    return len({v.type.device for v in (*read, *op.results) if isinstance(v.type, TensorType)}) == 1


def _part_type(t: TensorType) -> TensorType:
    return t.with_(dtype=PARTS[t.dtype]) if t.dtype in PARTS else t


def _part(arg: Any, which: int, dtype: str, element: str) -> Any:
    if isinstance(arg, (Pair, Value)):
        return with_real(arg, dtype)[which]
    if type(arg) is tuple and element == "Tensor":
        return tuple(_part(x, which, dtype, element) for x in arg)
    if element == "number" and isinstance(arg, (bool, int, float, complex)):
        return complex(arg).imag if which else complex(arg).real
    return arg
