"""Schemas of torch operators, compiled for fast checks: what each argument may be, what is returned, what aliases
what.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import sympy
import torch
from xdsl.ir import Attribute, SSAValue

from . import expr
from .literal import HOLE, Value
from .tensor import DTYPE_OF_TORCH, TORCH_DTYPES, SymType, TensorType

NAMED: Final = frozenset({"ScalarType", "Layout", "MemoryFormat"})
"""Types whose values are enumerations; their literals are names, written without quotes: `bf16`, `channels_last`."""


def _is_int(value: Value) -> bool:
    return type(value) is int or (isinstance(value, sympy.Expr) and not isinstance(value, sympy.Float))


def _is_number(value: Value) -> bool:
    return type(value) in (int, float) or isinstance(value, sympy.Expr)


def _is_bool(value: Value) -> bool:
    return type(value) is bool or isinstance(value, sympy.logic.boolalg.Boolean)


def _is_scalar(value: Value) -> bool:
    return type(value) in (int, float, bool, complex) or isinstance(value, sympy.Basic)


def _is_dtype(value: Value) -> bool:
    return type(value) is str and value in TORCH_DTYPES


def _is_device(value: Value) -> bool:
    return type(value) is str and value.partition(":")[0] in _device_names()


def _is_layout(value: Value) -> bool:
    return type(value) is str and isinstance(getattr(torch, value, None), torch.layout)


def _is_memory_format(value: Value) -> bool:
    return type(value) is str and isinstance(getattr(torch, value, None), torch.memory_format)


_ACCEPTS: Final[dict[str, Callable[[Value], bool]]] = {
    "int": _is_int,
    "float": _is_number,
    "number": _is_scalar,
    "bool": _is_bool,
    "complex": _is_scalar,
    "str": lambda value: type(value) is str,
    "ScalarType": _is_dtype,
    "Device": _is_device,
    "Layout": _is_layout,
    "MemoryFormat": _is_memory_format,
    # torch takes Python numbers where a schema says Tensor
    "Tensor": _is_scalar,
    "Any": lambda value: _is_scalar(value) or type(value) is str,
    "t": _is_scalar,
}

_BINDS: Final[dict[str, tuple[type[Attribute], ...]]] = {
    "Tensor": (TensorType, SymType),
    "int": (SymType,),
    "float": (SymType,),
    "number": (SymType,),
    "bool": (SymType,),
    "complex": (SymType,),
    "Any": (TensorType, SymType),
    "t": (TensorType, SymType),
}


@lru_cache(maxsize=1)
def _device_names() -> frozenset[str]:
    names = "cpu cuda xpu mps meta xla hpu mtia privateuseone vulkan ipu ve maia lazy fpga ort mkldnn opengl opencl hip"
    return frozenset(names.split()) | {torch._C._get_privateuse1_backend_name()}  # pyright: ignore


@dataclass(slots=True)
class Argument:
    """One argument. `element` is the type inside lists and options: "Tensor", "int", "ScalarType", …"""

    name: str
    element: str
    optional: bool
    is_list: bool
    elements_optional: bool
    nested: bool
    """A list of lists."""
    size: int | None
    """Length of a fixed-length list, which may be given as one number; None elsewhere."""
    default: Value
    """The default, or HOLE where there is none."""
    kwarg_only: bool
    mutated: bool
    """The call writes into this argument."""
    alias: frozenset[str]
    """Alias sets of the schema, such as {"a"}; empty for none, {"*"} for views into a list."""
    accepts: Callable[[Value], bool]
    binds: tuple[type[Attribute], ...]
    """Types of SSA values that may stand here."""
    type_text: str

    def allows(self, value: Value) -> bool:
        """Whether a literal value (with holes for operands) may stand here."""
        if value is None:
            return self.optional
        if not self.is_list:
            return bool(self.binds) if value is HOLE else self.accepts(value)
        if type(value) is tuple:
            if self.nested:
                return all(type(items) is tuple and all(map(self._allows_element, items)) for items in value)
            if self.element == "bool" and self.size not in (None, len(value)):  # only torch's lists of bools are arrays
                return False
            return all(map(self._allows_element, value))
        return self.size is not None and value is not HOLE and self.accepts(value)

    def _allows_element(self, value: Value) -> bool:
        if value is HOLE:
            return bool(self.binds)
        return self.elements_optional if value is None else self.accepts(value)

    def accepts_operand(self, value: SSAValue) -> bool:
        """Whether an SSA value of that type may stand here."""
        return isinstance(value.type, self.binds)


@dataclass(slots=True)
class Return:
    """One declared result; a list of tensors becomes several results of the op."""

    element: str
    is_list: bool
    optional: bool
    alias: frozenset[str]
    mutated: bool
    """The result is an argument that the call wrote into."""


@dataclass(slots=True)
class Schema:
    """The compiled schema of one overload."""

    name: str
    """`aten.add.Tensor`, `aten.mm`: as the op is called in text."""
    text: str
    args: tuple[Argument, ...]
    returns: tuple[Return, ...]
    tags: frozenset[str]
    index: dict[str, int] = field(init=False)
    """Position of each argument, by name."""
    mutates: bool = field(init=False)
    """Some argument is written."""
    is_view: bool = field(init=False)
    """Some result shares memory with an argument that is not written."""
    is_pure: bool = field(init=False)
    """A call may be dropped, repeated or merged with an equal one."""
    results: tuple[int, int | None] = field(init=False)
    """The least and the most results an op may have (None: no limit)."""

    def __post_init__(self) -> None:
        self.index = {a.name: i for i, a in enumerate(self.args)}
        self.mutates = any(a.mutated for a in self.args)
        self.is_view = any(r.alias and not r.mutated for r in self.returns)
        self.is_pure = not self.mutates and bool(self.returns) and "nondeterministic_seeded" not in self.tags
        single = sum(not r.is_list for r in self.returns)
        self.results = (single, None if any(r.is_list for r in self.returns) else single)

    def allows(self, argument: Argument, value: Value) -> bool:
        """Whether a literal value may stand for an argument. Torch's derivatives call theirs without tensors that the
        schema does not call optional.
        """
        lacks = value is None and bool(argument.binds) and not argument.is_list and self.name.endswith("_backward")
        return lacks or argument.allows(value)

    def aliases(self, result: int) -> tuple[int, ...]:
        """Positions of the arguments that declared result `result` shares memory with."""
        alias = self.returns[result].alias
        return tuple(i for i, a in enumerate(self.args) if alias & a.alias) if alias else ()


def compile_schema(name: str, overload: Any) -> Schema:
    """The schema of a `torch.ops` overload. Raises ValueError for a type this dialect cannot write."""
    schema = overload._schema
    return Schema(
        name=name,
        text=str(schema),
        args=tuple(_argument(a) for a in schema.arguments),
        returns=tuple(_returns(schema.returns)),
        tags=frozenset(tag.name for tag in overload.tags),
    )


def _argument(a: Any) -> Argument:
    text = str(a.real_type)
    layers, element = _unwrap(text)
    is_list = "List" in layers
    inner = layers[layers.index("List") + 1 :] if is_list else []
    default = normalize(a.default_value, element) if a.has_default_value() else HOLE
    return Argument(
        name=a.name,
        element=element,
        optional=layers[:1] == ["Optional"] or element == "Any",
        is_list=is_list,
        elements_optional="Optional" in inner,
        nested="List" in inner,
        size=a.N if is_list else None,
        default=default,
        kwarg_only=a.kwarg_only,
        mutated=a.alias_info is not None and a.alias_info.is_write,
        alias=_alias(a.alias_info),
        accepts=_ACCEPTS.get(element, _accepts_nothing),
        binds=_BINDS.get(element, ()),
        type_text=_type_text(layers, element, a.N),
    )


def _accepts_nothing(value: Value) -> bool:
    return False


def _returns(returns: Iterable[Any]) -> Iterator[Return]:
    for r in returns:
        layers, element = _unwrap(str(r.real_type))
        if element == "NoneType":
            continue
        mutated = r.alias_info is not None and r.alias_info.is_write
        yield Return(element, "List" in layers, "Optional" in layers, _alias(r.alias_info), mutated)


def _alias(info: Any) -> frozenset[str]:
    if info is None:
        return frozenset()
    # torch does not show the sets of a list's elements
    return frozenset(info.before_set) | frozenset(info.after_set) or frozenset("*")


def _unwrap(text: str) -> tuple[list[str], str]:
    """`Optional[List[int]]` as (["Optional", "List"], "int")."""
    layers: list[str] = []
    while (match := re.fullmatch(r"(Optional|List)\[(.*)\]", text)) is not None:
        layers.append(match[1])
        text = match[2]
    return layers, text


def _type_text(layers: list[str], element: str, size: int | None) -> str:
    """As PyTorch's schemas write it: `int[2]?`."""
    suffix = "".join("?" if layer == "Optional" else f"[{size or ''}]" for layer in reversed(layers))
    return {"number": "Scalar"}.get(element, element) + suffix


# c10::ScalarType, c10::Layout and c10::MemoryFormat by number: schemas give their defaults so
SCALAR_TYPES: Final = (
    *("u8", "i8", "i16", "i32", "i64", "f16", "f32", "f64", "c32", "c64", "c128", "i1", "qi8", "qu8", "qi32", "bf16"),
)
_LAYOUTS: Final = ("strided", "sparse_coo", "sparse_csr", "_mkldnn", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged")
_MEMORY_FORMATS: Final = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
_BY_NUMBER: Final = {"ScalarType": SCALAR_TYPES, "Layout": _LAYOUTS, "MemoryFormat": _MEMORY_FORMATS}


def normalize(value: Any, element: str = "") -> Value:
    """A Python argument of a torch call as a literal value: dtypes, devices and layouts become names, lists tuples,
    symbolic numbers expressions. What is none of these is returned as it is.
    """
    kind = type(value)
    if kind is int:
        return _BY_NUMBER[element][value] if element in _BY_NUMBER else value
    if value is None or kind in (bool, float, str, complex):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(normalize(v, element) for v in value)
    if kind is torch.dtype:
        return DTYPE_OF_TORCH[str(value)[6:]]
    if kind in (torch.layout, torch.memory_format):
        return str(value)[6:]
    if kind is torch.device:
        return str(value)
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return symbolic(value)
    return value


def symbolic(value: torch.SymInt | torch.SymFloat | torch.SymBool) -> Value:
    """The expression of a symbolic number, or the Python number where it is constant."""
    e: Any = expr.dim(value)
    if e is sympy.true or e is sympy.false:
        return bool(e)
    if isinstance(e, sympy.Number) and isinstance(value, torch.SymFloat):
        return float(e)
    return e
