"""The types of values at the tensor levels, interned by their text.

`!sym.t<[s0, 16], f32>` is a contiguous CPU tensor; `!sym.t<[16, s0], f32, strides=[1, 16], device=cuda:0>` says the
rest. Strides count elements. `!sym.int<2*s0>` is an integer whose value is that expression (`!sym.int<z0, f64>` a
float, `!sym.int<u0, i1>` a truth value).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final

from xdsl.dialects.builtin import BFloat16Type, ComplexType, Float16Type, bf16, f16, f32, f64, i1, i8, i16, i32, i64
from xdsl.ir import Attribute, Data, Dialect, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from . import expr
from . import quick_operations as quick_operations  # every level has these types
from .expr import Dim

# torch's dtype name for ours, and the size of an element in bytes
TORCH_DTYPES: dict[str, str] = {
    "i1": "bool",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "f8e4m3fn": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
    "f8e4m3fnuz": "float8_e4m3fnuz",
    "f8e5m2fnuz": "float8_e5m2fnuz",
    "f8e8m0fnu": "float8_e8m0fnu",
    "f4e2m1fnx2": "float4_e2m1fn_x2",
    "c32": "complex32",
    "c64": "complex64",
    "c128": "complex128",
    "qi8": "qint8",
    "qu8": "quint8",
    "qi32": "qint32",
}
HALVES: Final = frozenset({"f16", "bf16"})
"""What is computed in f32 and rounded."""

HALF_TYPES: Final = (BFloat16Type, Float16Type)
"""The same as types of scalars."""

PACKED = "mkldnn"
"""The device of a tensor on the CPU in a layout of oneDNN's own: an argument that only calls through Python take."""

DTYPE_OF_TORCH: dict[str, str] = {v: k for k, v in TORCH_DTYPES.items()}
_DEVICE = re.compile(r"[a-z]+(?::(?:\d\d?|1[01]\d|12[0-7]))?")
"""What torch takes: the number of a device is a signed byte."""
_BITS = {k: int(re.findall(r"\d+", k)[0]) for k in TORCH_DTYPES}


def itemsize(dtype: str) -> int:
    """Bytes of one element in memory (a bool takes one)."""
    return max(1, _BITS[dtype] // 8)


def is_float(dtype: str) -> bool:
    return dtype[0] == "f" or dtype == "bf16"


def is_complex(dtype: str) -> bool:
    return dtype[0] == "c"


def is_unsigned(dtype: str) -> bool:
    return dtype[0] == "u"


def is_integer(dtype: str) -> bool:
    """Integers without bool."""
    return dtype[0] in "iu" and dtype != "i1"


SHARED_TYPES: dict[str, TypeAttribute] = {
    **{"i1": i1, "i8": i8, "i16": i16, "i32": i32, "i64": i64},
    **{"f16": f16, "bf16": bf16, "f32": f32, "f64": f64},
}
"""One object of each type, in all modules and in what the parser reads: passes may tell types apart by identity."""

_COMPLEX: dict[str, Attribute] = {"c64": ComplexType(f32), "c128": ComplexType(f64)}


def scalar_type(dtype: str) -> Attribute:
    """The builtin type of one element in a loop body: integers are signless, f8 is i8 in memory."""
    return SHARED_TYPES.get(dtype) or _COMPLEX.get(dtype) or SHARED_TYPES[f"i{_BITS[dtype]}"]


class Payload:
    """What a type says; interned, so equality is identity."""

    __slots__ = ("device", "dtype", "expr", "shape", "strides", "text")
    text: str
    shape: tuple[Dim, ...]
    dtype: str
    strides: tuple[Dim, ...] | None
    device: str
    expr: Any

    def __repr__(self) -> str:
        return self.text


def split_commas(source: str) -> list[str]:
    """The parts between top-level commas."""
    parts: list[str] = []
    depth, start = 0, 0
    for i, c in enumerate(source):
        if c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(source[start:i].strip())
            start = i + 1
    last = source[start:].strip()
    return [*parts, last] if last or parts else []


def raw_angle(parser: AttrParser) -> str:
    """Consume `<…>` as text; the text holds no `>`."""
    content = parser._parser_state.lexer.input.content  # pyright: ignore[reportPrivateUsage]
    start = parser._parser_state.current_token.span.start  # pyright: ignore[reportPrivateUsage]
    if content[start] != "<":
        parser.raise_error("expected '<'")
    end = content.find(">", start)
    if end < 0:
        parser.raise_error("unterminated '<'")
    parser._resume_from(end + 1)  # pyright: ignore[reportPrivateUsage]
    return content[start + 1 : end]


def contiguous_strides(shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """Row-major strides in elements, as torch computes them (a size of 0 or 1 counts as 1)."""
    return _contiguous_strides(tuple(shape))


@lru_cache(maxsize=1 << 14)
def _contiguous_strides(shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    strides: list[Dim] = []
    n: Any = 1
    for d in reversed(shape):
        strides.append(expr.normal(n))
        n = n * (max(d, 1) if isinstance(d, int) else d)
    return tuple(reversed(strides))


@irdl_attr_definition
class TensorType(Data[Payload], TypeAttribute):
    """`!sym.t<[shape], dtype, strides=[…], device=…>`; strides default to contiguous, the device to cpu."""

    name = "sym.t"
    _table: ClassVar[dict[str, TensorType]] = {}

    @staticmethod
    def get(  # pyright: ignore[reportIncompatibleMethodOverride]
        shape: Sequence[Dim], dtype: str, strides: Sequence[Dim] | None = None, device: str = "cpu"
    ) -> TensorType:
        """The one type with these properties. Raises ValueError for an unknown dtype or strides of another rank."""
        dims = tuple(expr.normal(d) for d in shape)
        steps = None if strides is None else tuple(expr.normal(s) for s in strides)
        if steps is not None and steps == contiguous_strides(dims):
            steps = None
        text = f"[{', '.join(map(expr.text, dims))}], {dtype}"
        if steps is not None:
            text += f", strides=[{', '.join(map(expr.text, steps))}]"
        if device != "cpu":
            text += f", device={device}"
        t = TensorType._table.get(text)
        if t is None:
            if dtype not in TORCH_DTYPES:
                raise ValueError(f"unknown dtype {dtype!r}; known: {', '.join(TORCH_DTYPES)}")
            if steps is not None and len(steps) != len(dims):
                raise ValueError(f"{len(steps)} strides for a tensor of rank {len(dims)}")
            if any(isinstance(d, int) and not 0 <= d < 1 << 63 for d in dims):
                raise ValueError(f"a size that is negative or beyond 64 bits in {text}")
            if any(isinstance(s, int) and not -(1 << 63) <= s < 1 << 63 for s in steps or ()):
                raise ValueError(f"a stride beyond 64 bits in {text}")
            p = Payload()
            p.text, p.shape, p.dtype, p.strides, p.device, p.expr = text, dims, dtype, steps, device, None
            t = TensorType._table[text] = TensorType(p)
        return t

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Payload:
        start = parser.pos
        source = raw_angle(parser)
        known = cls._table.get(source)
        if known is not None:
            return known.data
        try:
            return cls._parse(source).data
        except ValueError as e:
            parser.raise_error(f"malformed tensor type: {e}", start, start + len(source) + 2)

    @classmethod
    def _parse(cls, source: str) -> TensorType:
        parts = split_commas(source)
        if len(parts) < 2:
            raise ValueError("expected '[sizes], dtype'")

        def dims(text: str) -> list[Dim]:
            if not (text.startswith("[") and text.endswith("]")):
                raise ValueError(f"expected a list in brackets, got {text!r}")
            return [expr.parse_integer(d) for d in split_commas(text[1:-1])]

        options: dict[str, str] = {}
        for part in parts[2:]:
            key, eq, value = part.partition("=")
            if not eq or key.strip() not in ("strides", "device"):
                raise ValueError(f"unexpected {part!r}")
            options[key.strip()] = value.strip()
        device = options.get("device", "cpu")
        if not _DEVICE.fullmatch(device):
            raise ValueError(f"a device is a name with a number below 128 or none, such as cuda:0, not {device!r}")
        strides = dims(options["strides"]) if "strides" in options else None
        return cls.get(dims(parts[0]), parts[1], strides, device)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data.text}>")

    @property
    def shape(self) -> tuple[Dim, ...]:
        return self.data.shape

    @property
    def rank(self) -> int:
        return len(self.data.shape)

    @property
    def dtype(self) -> str:
        return self.data.dtype

    @property
    def device(self) -> str:
        return self.data.device

    @property
    def strides(self) -> tuple[Dim, ...]:
        """Strides in elements, also where the text leaves them out."""
        return contiguous_strides(self.data.shape) if self.data.strides is None else self.data.strides

    @property
    def is_contiguous(self) -> bool:
        return self.data.strides is None

    def lies_as(self, other: TensorType) -> bool:
        """Whether elements of one index are at one place in both: dims of one element may have any stride."""
        alike = (self.shape, self.dtype, self.device) == (other.shape, other.dtype, other.device)
        strides = zip(self.shape, self.strides, other.strides, strict=True) if alike else ()
        return alike and all(n == 1 or s == t for n, s, t in strides)

    @property
    def is_in_order(self) -> bool:
        """Whether elements lie in order without gaps, as torch's `is_contiguous` says."""
        return self.lies_as(self.with_(shape=self.shape))

    @property
    def numel(self) -> Dim:
        return expr.product(self.data.shape)

    @property
    def element(self) -> Attribute:
        """The scalar type an element has in a loop body."""
        return scalar_type(self.data.dtype)

    def with_(
        self, *, shape: Sequence[Dim] | None = None, dtype: str | None = None, strides: Sequence[Dim] | None = None
    ) -> TensorType:
        """A copy with another shape (then contiguous), dtype (layout kept) or strides."""
        if shape is None and strides is None:
            strides = self.data.strides
        return TensorType.get(self.shape if shape is None else shape, dtype or self.dtype, strides, self.device)


@irdl_attr_definition
class SymType(Data[Payload], TypeAttribute):
    """`!sym.int<expression>`: an integer known as an expression; `!sym.int<z0, f64>`, `!sym.int<u0, i1>` for others."""

    name = "sym.int"
    _table: ClassVar[dict[str, SymType]] = {}

    @staticmethod
    def get(value: Any, dtype: str = "i64") -> SymType:  # pyright: ignore[reportIncompatibleMethodOverride]
        text = expr.text(value) + ("" if dtype == "i64" else f", {dtype}")
        t = SymType._table.get(text)
        if t is None:
            if dtype not in ("i64", "f64", "i1"):
                raise ValueError(f"a symbolic scalar is i64, f64 or i1, not {dtype!r}")
            p = Payload()
            p.text, p.expr, p.shape, p.dtype, p.strides, p.device = text, value, (), dtype, None, "cpu"
            t = SymType._table[text] = SymType(p)
        return t

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Payload:
        start = parser.pos
        source = raw_angle(parser)
        try:
            parts = split_commas(source)
            if len(parts) not in (1, 2):
                raise ValueError("expected an expression and perhaps a dtype")
            return cls.get(expr.normal(expr.parse(parts[0])), *parts[1:]).data
        except ValueError as e:
            parser.raise_error(f"malformed symbolic scalar type: {e}", start, start + len(source) + 2)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data.text}>")

    @property
    def expr(self) -> Any:
        return self.data.expr

    @property
    def dtype(self) -> str:
        return self.data.dtype


SYM = Dialect("sym", [], [TensorType, SymType])


def elements_spanned(t: TensorType) -> Any:
    """Elements of memory from the first of a tensor to its last, with both."""
    return sum(((n - 1) * s for n, s in zip(t.shape, t.strides, strict=True)), 1)  # pyright: ignore


def is_number(t: Attribute) -> bool:
    """Whether values of a type are tensors of rank 0 in the CPU's memory, which eager takes beside tensors of a GPU."""
    return isinstance(t, TensorType) and t.rank == 0 and t.device == "cpu"
