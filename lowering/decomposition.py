"""The table of decompositions: a function per ATen overload, from its arguments as values to prims.

    @pointwise("aten.silu")
    def silu(x: Value) -> Value:
        return x / (1.0 + (-x).exp())

Arguments come in the order of the schema, defaults filled in: tensors as `Value`, numbers and everything else as
literals (sizes may be sympy expressions). A function returns a value per result, or `NotImplemented` where it does
not cover the case: then the op stays a call.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar, cast

import sympy
import torch
from xdsl.dialects.builtin import NoneType
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from ..dialects import expr, prims
from ..dialects.aten import AtenOp
from ..dialects.expr import Dim
from ..dialects.prims import Number
from ..dialects.tensor import HALVES, TORCH_DTYPES, SymType, TensorType, itemsize
from .aten_canonicalize import introduces_sizes
from .float_expressions import float_tensor
from .moves import MOVES
from .prims_builder import Builder, Value
from .promotion import COMPUTE_DTYPES, FLOAT8, opmath, result_dtype
from .size_code import has_code

Result: TypeAlias = "Value | tuple[Value | None, ...] | Any"
Function = TypeVar("Function", bound=Callable[..., Any])


class Call:
    """One ATen op while it is decomposed."""

    __slots__ = ("b", "op", "seed", "types")

    def __init__(self, b: Builder, op: AtenOp) -> None:
        self.b = b
        self.op = op
        self.types = tuple(cast(TensorType, r.type) for r in op.results)
        """Types of the results; a result that torch leaves out has type `none`."""
        self.seed: Value | None = None
        """What its random numbers follow from, where that is given."""

    @property
    def type(self) -> TensorType:
        """The type of the first result."""
        return self.types[0]

    def wanted(self, result: int) -> bool:
        """Whether the result exists and is used."""
        r = self.op.results[result]
        return not isinstance(r.type, NoneType) and r.first_use is not None

    def full(self, value: Number) -> Value:
        """A number everywhere, as the first result's type."""
        return self.b.full(value, self.type)

    def empty(self, result: int) -> Value:
        """What stands for a result that holds nothing of meaning."""
        return self.b.full(0, self.types[result])


BITS: Final = MOVES | {"aten._to_copy", "torch_prims.convert_element_type", "aten.copy", "aten.view.dtype"}
"""Ops that have a rule for f8 too: they convert, or take elements as bits."""


class Rule(NamedTuple):
    """`alias`: a result may be an operand itself, as a view is in eager; otherwise results are new tensors.
    `elementwise`: a number that is read from a tensor, or computed from sizes, may come as a tensor.
    `costly`: a kernel of its own, or a call where that is faster; nobody computes it again to save memory.
    `of`: whether the first result may have a dtype; where not, the op stays a call, and ATen refuses it.
    """

    function: Callable[..., Result]
    alias: bool
    elementwise: bool = False
    costly: bool = False
    of: Callable[[str], bool] | None = None


RULES: dict[str, Rule] = {}
"""By name of the ATen op."""


def rule(
    *names: str,
    alias: bool = False,
    elementwise: bool = False,
    costly: bool = False,
    of: Callable[[str], bool] | None = None,
) -> Callable[[Function], Function]:
    """Registers `function(call, *args)`."""

    def register(function: Function) -> Function:
        for name in names:
            assert name not in RULES, f"two rules for {name}"
            RULES[name] = Rule(function, alias, elementwise, costly, of)
        return function

    return register


def view(*names: str) -> Callable[[Function], Function]:
    """Registers `function(call, *args)` for an op whose result aliases an operand."""
    return rule(*names, alias=True)


def pointwise(
    *names: str,
    operands: bool = False,
    rounded: Sequence[int] = (),
    rounded_on_cpus: Sequence[int] = (),
    steps: bool = False,
    of: Callable[[str], bool] | None = None,
) -> Callable[[Function], Function]:
    """Registers `function(*args)`: tensors come in the shape of the result and the dtype that eager computes in.

    That is the result's dtype, f32 for f16 and bf16; or with `operands=True` the promoted dtype of the operands (as
    it is, for ops that do not round). Numbers in place of tensors become tensors. The operands at the places
    `rounded` are first of the result's dtype, where a digit more would make another result; so are integers, where
    there is more than one. With `steps` the function is also given the result's `dtype`, for its steps.
    """

    def register(function: Function) -> Function:
        def lowered(call: Call, *args: Any) -> Any:
            t = call.type
            if any(isinstance(a, complex) for a in args):
                return NotImplemented
            dtype = operand_dtype(call, args) if operands else opmath(t.dtype)
            if dtype != t.dtype and not operands:
                places = (*rounded, *(rounded_on_cpus if t.device == "cpu" else ()))
                args = tuple([as_half(call, a) if i in places or _are_integers(a) else a for i, a in enumerate(args)])
            elements = call.op.schema.args
            given = (fit(call.b, a, e.element, t, dtype) for a, e in zip(args, elements, strict=True))
            return function(*given, **({"dtype": t.dtype} if steps else {}))

        rule(*names, elementwise=True, of=of)(lowered)
        return function

    return register


def fit(b: Builder, arg: Any, element: str, t: TensorType, dtype: str) -> Any:
    """A tensor argument in the shape of `t`; lists of them too; other arguments as they are."""
    if isinstance(arg, Value):
        return arg.to(dtype).expand(t.shape)
    if element != "Tensor" or arg is None:
        return arg
    return b.full(arg, t.with_(dtype=dtype))


def _are_integers(arg: Any) -> bool:
    """Whether these are integers, more than one."""
    return isinstance(arg, Value) and not arg.is_float and any(d != 1 for d in arg.shape)


def as_half(call: Call, arg: Any) -> Any:
    """A tensor or number with the digits that the result's dtype, a half, has; a symbol becomes a tensor."""
    t = call.type
    if arg is None:
        return None
    if isinstance(arg, Value):
        return arg.to(t.dtype) if itemsize(arg.dtype) > 1 else arg  # bytes have no more digits
    if isinstance(arg, sympy.Expr) and not arg.is_Number:
        return call.b.full(arg, t.with_(dtype="f64")).to(t.dtype)
    number = torch.tensor(float(arg), dtype=torch.float64).to(getattr(torch, TORCH_DTYPES[t.dtype])).item()
    return int(number) if isinstance(arg, int) and math.isfinite(number) else number


def number_dtype(value: Number) -> str:
    """The dtype that stands for a Python number in promotion."""
    if isinstance(value, sympy.Expr):
        return "i64" if value.is_integer else "f32"
    return "i1" if isinstance(value, bool) else "i64" if isinstance(value, int) else "f32"


def operand_dtype(call: Call, args: Sequence[Any]) -> str:
    """torch.result_type of the tensors and numbers among the arguments of the op."""
    tensors: list[str] = []
    zero_dim: list[str] = []
    numbers: list[str] = []
    for arg, a in zip(args, call.op.schema.args, strict=True):
        if isinstance(arg, Value) and a.element == "number":
            numbers.append("f32")
        elif isinstance(arg, Value):
            (tensors if arg.rank else zero_dim).append(arg.dtype)
        elif a.element in ("Tensor", "number") and arg is not None and not isinstance(arg, (str, tuple)):
            numbers.append(number_dtype(arg))
    return result_dtype(tuple(tensors), tuple(zero_dim), tuple(numbers))


def decompose(b: Builder, op: AtenOp, value_of: Callable[[SSAValue], Value]) -> list[SSAValue] | None:
    """Build prims for `op`; the values that replace its results (or None for one of type `none`). None where no rule
    covers it.
    """
    entry = RULES.get(op.name)
    if entry is None or not _computable(op) or introduces_sizes(op):
        return None
    if entry.of is not None and isinstance(t := op.results[0].type, TensorType) and not entry.of(t.dtype):
        return None
    mark, constants = len(b.ops), b.constants
    literals = op.args()
    if entry.elementwise:
        device = next((r.type.device for r in op.results if isinstance(r.type, TensorType)), "cpu")
        missing = [isinstance(a, sympy.Expr) and not has_code(a) for a in literals]
        literals = [(m and float_tensor(b, a, device)) or a for a, m in zip(literals, missing, strict=True)]
    result: Any = NotImplemented
    call = Call(b, op)
    if all(map(_literal_has_code, literals)):
        result = entry.function(call, *[_argument(a, value_of) for a in literals])
    if result is NotImplemented:
        b.rewind(mark, constants)
        return None
    values = result if isinstance(result, tuple) else (result,)
    assert len(values) == len(op.results), f"{op.name}: {len(values)} values for {len(op.results)} results"
    new = set(b.ops[mark:])
    finished: list[SSAValue] = []
    for value, r in zip(values, op.results, strict=True):
        if isinstance(r.type, NoneType) or (value is None and not r.uses):  # nobody asks for it
            finished.append(r)
            continue
        assert isinstance(value, Value), f"{op.name}: no value for a result"
        if _are_others(value.shape, cast(TensorType, r.type).shape):  # torch told what is wrong: the call will see it
            b.rewind(mark, constants)
            return None
        finished.append(finish(value, cast(TensorType, r.type), new, entry.alias))
        if finished[-1].type != r.type and not _is_known(r.type):
            b.rewind(mark, constants)  # only ATen sees whether its elements overlap, to which it does not write
            return None
    return finished


def _are_others(shape: Sequence[Dim], wanted: Sequence[Dim]) -> bool:
    """Whether these shapes have different numbers of elements, as far as they are known."""
    if shape == wanted or not all(isinstance(d, int) for d in (*shape, *wanted)):
        return False
    return expr.product(shape) != expr.product(wanted)


def _is_known(t: Attribute) -> bool:
    return isinstance(t, TensorType) and all(isinstance(d, int) for d in (*t.shape, *t.strides))


def is_like(op: AtenOp) -> bool:
    """Whether tensors are made of the shape of others, whose elements are not read."""
    name = op.name.split(".")[1]
    return name.endswith("_like") or name.startswith("new_")


def _computable(op: AtenOp) -> bool:
    """Dtypes that prims compute with; on one device, but for results that nobody uses, and operands of which only the
    shape is; no use of a result that torch leaves out; types with sizes that kernels can compute.
    """
    device: str | None = None
    like = is_like(op)
    for v in (*op.operands, *op.results):
        t = v.type
        if isinstance(t, TensorType):
            known = t.dtype in COMPUTE_DTYPES or (t.dtype in FLOAT8 and op.name in BITS)
            if not known or not all(type(d) is int or has_code(d) for d in (*t.shape, *t.strides)):
                return False
            if (isinstance(v, OpResult) and v.first_use is None) or (like and v in op.operands):
                continue
            if device not in (None, t.device):
                return False
            device = t.device
        elif isinstance(v, OpResult) and (not isinstance(t, NoneType) or v.first_use is not None):
            return False
    return device is not None


def _literal_has_code(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_literal_has_code, value))
    return not isinstance(value, sympy.Basic) or (isinstance(value, sympy.Expr) and has_code(value))


def _argument(arg: Any, value_of: Callable[[SSAValue], Value]) -> Any:
    if isinstance(arg, SSAValue):
        return arg.type.expr if isinstance(arg.type, SymType) else value_of(arg)
    if type(arg) is tuple:
        return tuple([_argument(a, value_of) for a in arg])
    return arg


def finish(value: Value, t: TensorType, new: set[Operation], alias: bool) -> SSAValue:
    """The value with exactly the type that the ATen op had, and in memory of its own unless it may be an alias.

    `new`: the ops of this decomposition; the result of each is finished once.
    """
    if value.shape != t.shape:
        value = value.reshape(t.shape)
        new.add(cast(Operation, value.ssa.owner))
    if value.dtype != t.dtype:
        rounding = t.dtype in HALVES and value.dtype == "f32"
        if value.ssa.owner in new and _root(value.ssa).owner in new:
            # what is rounded where it is read is stored before, and lies as it would after that
            value.ssa._type = value.type.with_(strides=t.strides)  # pyright: ignore[reportPrivateUsage]
        return value.b.add(prims.ConvertOp.make(value.ssa, t, rounding=rounding)).ssa
    owner = value.ssa.owner
    if isinstance(owner, prims.FullOp):
        return value.b.add(prims.FullOp.make(owner.value, t)).ssa
    if owner in new and (alias or _root(value.ssa).owner in new):
        new.discard(cast(Operation, owner))
        value.ssa._type = t  # pyright: ignore[reportPrivateUsage]
        return value.ssa
    return value.ssa if alias and value.type == t else value.copy(t).ssa


def _root(value: SSAValue) -> SSAValue:
    """The value whose memory a view may share."""
    owner = value.owner
    while isinstance(owner, prims.ALIASING):
        value = owner.operands[0]
        owner = value.owner
    return value
