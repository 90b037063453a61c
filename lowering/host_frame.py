"""The native function a host program becomes: its frame, the functions it calls, its constant tables, and its way
out.

What a call owns stands in two arrays of the frame, Python objects of the arguments and tensors of our own, so that
one exit releases whatever is there, also after an error.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import sympy
from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    IntegerAttr,
    LocationAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    f64,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..dialects import expr
from ..dialects.errors import LamellaError
from ..dialects.expr import Dim
from ..dialects.llvm_ext import PTR, ConstantOp, ZeroOp
from .address import KernelError, LaneIndex, evaluate, relation
from .llvm_builder import FunctionBuilder, Num
from .llvm_properties import address_of

# name: result and arguments; p pointer, l i64, i i32, d double, v nothing
EXTERNALS: dict[str, str] = {
    "lamella_enter": "ipplplpppppl",
    "lamella_leave": "vplpl",
    "lamella_drop": "vp",
    "lamella_drop_object": "vp",
    "lamella_empty": "ilppillpp",
    "lamella_empty_over": "iplppillpp",
    "lamella_begin": "vlll",
    "lamella_room": "vll",
    "lamella_not_recycled": "lpl",
    "lamella_arena": "ilpp",
    "lamella_arena_done": "vp",
    "lamella_slot": "ipllppip",
    "lamella_view": "ipllppp",
    "lamella_result": "iplplppip",
    "lamella_raise": "v",
    "lamella_assert": "vpli",
    "lamella_call": "iplplplpp",
    "lamella_object": "pp",
    "lamella_wrap": "pp",
    "lamella_detached": "pp",
    "lamella_tuple": "ppl",
    "lamella_disagree": "vppl",
    "lamella_grad_off": "i",
    "lamella_grad_restore": "vi",
    "lamella_one_thread": "l",
    "lamella_threads_restore": "vl",
    "Py_IncRef": "vp",
    "PyErr_CheckSignals": "i",
    "PyEval_SaveThread": "p",
    "PyEval_RestoreThread": "vp",
    "lamella_release": "pll",
    "lamella_retake": "vp",
    "PyLong_FromLongLong": "pl",
    "PyBool_FromLong": "pl",
    "PyFloat_FromDouble": "pd",
    "aoti_torch_get_size": "iplp",
    "aoti_torch_get_stride": "iplp",
    "aoti_torch_copy_": "ippi",
    "aoti_torch_clone": "ipp",
    "aoti_record_function_start": "ippplp",
    "aoti_record_function_end": "ip",
    "lamella_together": "iplpp",
    "lamella_cuda_enter": "iipp",
    "lamella_cuda_use": "iip",
    "lamella_cuda_leave": "vp",
    "lamella_cuda_empty": "ilppiipp",
    "lamella_cuda_launch": "ipppllll",
}
_TYPES: dict[str, Attribute] = {"p": PTR, "l": i64, "i": i32, "d": f64, "v": llvm.LLVMVoidType()}


INT, FLOAT, BOOL = 2, 3, 4
"""Kinds of scalars that Python gives; see `lamella_call`."""

LONG = 500
"""Ops from which on a program is compiled without optimization (`codegen/llvm_parts.py`): it only calls, and LLVM's
time grows with its length.
"""


class HostError(LamellaError):
    """Something a host program cannot express: names it."""


class Frame:
    """One function `main(self, arguments, count) -> tuple` being written, and the module-level things it needs.

    `objects`, and as many tables, are those of programs of the module that are written already.
    """

    def __init__(self, location: LocationAttr, objects: Sequence[Attribute] = (), tables: int = 0) -> None:
        self.b = FunctionBuilder([PTR, PTR, i64], contract=False)
        self.location = location
        self.b.location = location
        self.self_, self.given, self.given_count = self.b.arguments
        self.fail = self.b.block()
        self.env: dict[sympy.Symbol, Num] = {}
        self.floats: dict[sympy.Symbol, SSAValue] = {}
        self.globals: dict[tuple[int, ...], llvm.GlobalOp] = {}
        self.externals: dict[str, llvm.GlobalOp] = {}
        self.declared: dict[str, str] = {}
        self.objects_ = list(objects)
        self._object_index = {spec: i for i, spec in enumerate(objects)}
        self._tables = tables
        self._arrays: dict[tuple[Any, ...], SSAValue] = {}
        self._leaving: dict[Any, Block] = {}
        self._owned_count = 0
        self._symbols = 0
        null = ZeroOp.create(result_types=[PTR], location=location)
        self.b.entry.add_op(null)
        self.null = null.results[0]
        self._owned_size = self._placeholder()
        self.owned = self._alloca(self._owned_size)

    # ------------------------------------------------------------------------------------------------------ the frame

    def _placeholder(self) -> SSAValue:
        """A constant whose value is set when the function is finished."""
        op = ConstantOp.create(properties={"value": IntegerAttr(1, i64)}, result_types=[i64], location=self.b.location)
        self.b.entry.add_op(op)
        return op.results[0]

    def _alloca(self, count: SSAValue) -> SSAValue:
        op = llvm.AllocaOp.create(
            operands=[count],
            result_types=[PTR],
            properties={"alignment": IntegerAttr(8, i64), "elem_type": i64},
            location=self.b.location,
        )
        self.b.entry.add_op(op)
        return op.results[0]

    def words(self, count: int) -> SSAValue:
        """Uninitialized words of the frame."""
        return self.b.alloca(max(count, 1) * 8, 8)

    def own(self, count: int = 1) -> int:
        """The first of `count` new places for tensors that the exit releases."""
        first = self._owned_count
        self._owned_count += count
        return first

    @property
    def places(self) -> int:
        """How many such places there are so far."""
        return self._owned_count

    def symbol(self) -> Any:
        """A new symbol, for a number that only code written here knows."""
        self._symbols += 1
        return expr.symbol(f"known{self._symbols}")

    def known(self) -> tuple[Any, ...]:
        """What has been computed of symbols so far, to be forgotten again."""
        return dict(self.env), dict(self.floats), dict(self._arrays)

    def forget(self, known: tuple[Any, ...]) -> None:
        """Know what was known then, and nothing else: what follows need not have run through what came since."""
        self.env, self.floats, self._arrays = known

    def owned_at(self, index: int) -> SSAValue:
        """The address of such a place."""
        return self.b.gep(self.owned, index, i64)

    @property
    def owned_count(self) -> SSAValue:
        """How many there are in the end."""
        return self._owned_size

    def finish(self, name: str) -> llvm.FuncOp:
        owner = cast(Operation, self._owned_size.owner)
        owner.properties["value"] = IntegerAttr(max(self._owned_count, 1), i64)
        func = self.b.finish(name, PTR, "external")
        if sum(1 for block in self.b.region.blocks for _ in block.ops) > LONG:
            func.properties |= {"optimize_none": UnitAttr(), "no_inline": UnitAttr()}
        return func

    # ---------------------------------------------------------------------------------------------------------- code

    def call(self, name: str, *operands: SSAValue, signature: str | None = None) -> SSAValue | None:
        """A call of an external function, None where it returns nothing."""
        text = signature or EXTERNALS[name]
        self.declared[name] = text
        return self.b.call(name, operands, None if text[0] == "v" else _TYPES[text[0]])

    def get(self, name: str, *operands: SSAValue) -> SSAValue:
        """A call that returns something."""
        result = self.call(name, *operands)
        assert result is not None
        return result

    def succeed(self, ok: SSAValue) -> None:
        """Go on where `ok` holds, else leave with the error that is set."""
        self.otherwise(ok, self.fail)

    def otherwise(self, ok: SSAValue, other: Block, values: Sequence[SSAValue] = ()) -> None:
        """Go on where `ok` holds, else in `other` with what it takes."""
        following = self.b.block()
        self.b.branch(ok, following, (), other, values)
        self.b.continue_in(following)

    def checked(self, name: str, *operands: SSAValue, signature: str | None = None) -> None:
        """A call that returns 0, or sets an error."""
        code = self.call(name, *operands, signature=signature)
        assert code is not None
        self.succeed(self.b.icmp("eq", code, self.b.constant(0, i32)))

    def shim(self, name: str, *operands: SSAValue, signature: str | None = None) -> None:
        """A call of torch's C shim: a nonzero result becomes an exception."""
        code = self.call(name, *operands, signature=signature)
        assert code is not None
        self.succeeded(code)

    def succeeded(self, code: SSAValue) -> None:
        """Go on where a call of the shim returned 0, else raise what it says."""
        self.or_leave(code, (), "raise", lambda _: self.call("lamella_raise"))

    def or_leave(
        self, code: SSAValue, values: Sequence[SSAValue], key: Any, write: Callable[[Sequence[SSAValue]], object]
    ) -> None:
        """Go on where `code` is 0, else do what `write` writes of `values`, which sets an error, and leave. It is
        written once for a `key`.
        """
        block = self._leaving.get(key)
        if block is None:
            with self.b.scope(block := self.b.block([v.type for v in values]), branch=True):
                write(block.args)
                self.b.jump(self.fail)
            if self.b.at_top:  # else it may use what stands in a branch
                self._leaving[key] = block
        self.otherwise(self.b.icmp("eq", code, self.b.constant(0, i32)), block, values)

    @contextmanager
    def aside(self, block: Block) -> Generator[None]:
        """Write in `block`, which sets an error; then it leaves."""
        with self.b.scope(block, branch=True):
            yield
            self.b.jump(self.fail)

    def load(self, pointer: SSAValue, type: Attribute = PTR) -> SSAValue:
        return self.b.load(pointer, type, 8 if type != i32 else 4)

    def store(self, value: SSAValue, pointer: SSAValue) -> None:
        self.b.store(value, pointer, 8 if value.type != i32 else 4)

    # --------------------------------------------------------------------------------------------------------- numbers

    def number(self, value: Dim) -> SSAValue:
        """A size expression as an i64. HostError where a symbol is unknown or there is no code for it."""
        return self.b.number(self.value(value))

    def knows(self, value: Dim) -> bool:
        """Whether the symbols of an expression have values."""
        return not self._missing(value)

    def _missing(self, value: Dim) -> list[sympy.Symbol]:
        return [s for s in expr.symbols(value) if s not in self.env and s not in self.floats]

    def value(self, value: Dim) -> Num:
        """A size expression as code, or as the number it is."""
        if missing := self._missing(value):
            raise HostError(f"size {missing[0].name} in {expr.text(value)} is bound by no argument or result")
        try:
            return evaluate(self.b, _integral(value), self.env)
        except (KernelError, KeyError):
            return self._in_python(value, INT, i64)

    def float(self, value: Any) -> SSAValue:
        """A float expression as an f64."""
        if value in self.floats:
            return self.floats[value]
        if isinstance(value, (int, float)) or value.is_number:
            return self.b.constant(float(value), f64)
        if value.is_integer and all(s in self.env for s in expr.symbols(value)):
            return self.b.cast(llvm.SIToFPOp, self.number(value), f64)
        return self._in_python(value, FLOAT, f64)

    def _in_python(self, value: Any, kind: int, type: Attribute) -> SSAValue:
        """The value of an expression for which there is no code here."""
        symbols = sorted(expr.symbols(value), key=lambda s: s.name)
        names = ArrayAttr([StringAttr(s.name) for s in symbols])
        index = self.object_index(DictionaryAttr({"expression": StringAttr(expr.text(value)), "symbols": names}))
        argv = self.words(len(symbols) + 1)
        for i, s in enumerate(symbols, 1):
            if s in self.floats:
                made = self.get("PyFloat_FromDouble", self.floats[s])
            else:
                made = self.get("PyLong_FromLongLong", self.number(s))
            self.store(made, self.b.gep(argv, i, PTR))
        result = self.words(1)
        operands = (self.self_, index, argv, self.b.constant(len(symbols), i64), self.table([kind]))
        self.checked("lamella_call", *operands, self.b.constant(1, i64), self.null, result)
        return self.load(result, type)

    def condition(self, value: Any) -> SSAValue:
        """A relation between sizes (or a scalar that holds a truth value) as an i64, 0 or 1."""
        if not isinstance(value, (sympy.Rel, sympy.logic.boolalg.BooleanFunction)):
            return self.number(value)
        if any(s in self.floats for s in expr.symbols(value)) or not all(map(_has_64_bits, value.atoms(sympy.Integer))):
            return self._in_python(value, BOOL, i64)
        try:
            return self.b.resize(relation(self.b, value, LaneIndex(self.b, self.env)), i64, signed=False)
        except KernelError:
            return self._in_python(value, BOOL, i64)

    def i32(self, value: int) -> SSAValue:
        return self.b.constant(value, i32)

    def table(self, values: Sequence[int]) -> SSAValue:
        """The address of constant i64s."""
        if not values:
            return self.null
        key = tuple(values)
        known = self.globals.get(key)
        if known is None:
            data = DenseIntOrFPElementsAttr.from_list(TensorType(i64, [len(key)]), list(key))
            known = self.globals[key] = llvm.GlobalOp(
                llvm.LLVMArrayType(len(key), i64),
                f"table_{self._tables + len(self.globals)}",
                "private",
                constant=True,
                value=data,
            )
        name = known.sym_name.data
        return self.b.pure(llvm.AddressOfOp, (), PTR, address_of(name))

    def string(self, text: str) -> SSAValue:
        """The address of constant text with a zero at its end, in words."""
        data = text.encode() + b"\0"
        size = len(data) + -len(data) % 8
        words = struct.unpack(f"<{size // 8}q", data.ljust(size, b"\0"))
        return self.table(words)

    def array(self, dims: Sequence[Dim]) -> SSAValue:
        """The address of i64s: a constant table, or words of the frame filled here."""
        if all(isinstance(d, int) for d in dims):
            return self.table(cast(Sequence[int], dims))
        key = tuple(dims)
        known = self._arrays.get(key)
        if known is None:
            known = self._arrays[key] = self.words(len(dims))
            for i, d in enumerate(dims):
                self.store(self.number(d), self.b.gep(known, i, i64))
        return known

    def external(self, name: str) -> SSAValue:
        """The address of what `name` is given as when the code is loaded."""
        if name not in self.externals:
            self.externals[name] = llvm.GlobalOp(i8, name, "external")
        return self.b.pure(llvm.AddressOfOp, (), PTR, address_of(name))

    # --------------------------------------------------------------------------------------------------------- objects

    def object_index(self, spec: Attribute) -> SSAValue:
        """The place in `self` of a Python object made from `spec` when the code is loaded; equal specs share one."""
        index = self._object_index.get(spec)
        if index is None:
            index = self._object_index[spec] = len(self.objects_)
            self.objects_.append(spec)
        return self.b.constant(index + 1, i64)

    def declarations(self) -> list[Operation]:
        """Every function called, and every table."""
        operations: list[Operation] = [*self.globals.values(), *self.externals.values()]
        for name, text in self.declared.items():
            type = llvm.LLVMFunctionType([_TYPES[c] for c in text[1:]], _TYPES[text[0]])
            operations.append(llvm.FuncOp(name, type, llvm.LinkageAttr("external")))
        for operation in operations:
            operation.location = self.location
        return operations


def _integral(value: Dim) -> Dim:
    """`value` with the products that have a fraction in front written as a floor division."""
    if isinstance(value, int) or not value.has(sympy.Rational):
        return value

    def rewrite(e: Any) -> Any:
        number, rest = e.as_coeff_Mul()
        return expr.floordiv(number.p * rest, int(number.q))

    fractions = [e for e in value.atoms(sympy.Mul) if isinstance(e.args[0], sympy.Rational) and e.args[0].q != 1]
    return expr.normal(value.xreplace({e: rewrite(e) for e in fractions})) if fractions else value


def _has_64_bits(number: sympy.Integer) -> bool:
    return -(2**63) <= int(number) < 2**63
