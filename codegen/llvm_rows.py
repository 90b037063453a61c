"""How each llvm-dialect op is written in LLVM IR text: one row per op."""

from collections.abc import Callable, Iterable
from typing import cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, StringAttr, SymbolRefAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..dialects import llvm_ext
from .errors import CodegenError
from .llvm_literals import constant_text, symbol_text, type_text


class ValueNames(dict[SSAValue, str]):
    """The text of each value of a function."""

    def __missing__(self, value: SSAValue) -> str:
        raise CodegenError(f"a value of type {value.type} is used in a function that does not hold it")


class Names:
    """The names and types of what a module has: values and labels of the function at hand, functions, declarations."""

    def __init__(self, functions: dict[str, llvm.FuncOp]) -> None:
        self.functions = functions
        self.values = ValueNames()
        self.labels: dict[Block, str] = {}
        self.declarations: dict[str, str] = {}
        self._types: dict[int, tuple[Attribute, str]] = {}

    def type(self, type: Attribute) -> str:
        # By identity, as hashing a vector type costs more than the line it is written in; kept, so that its id stays.
        entry = self._types.get(id(type))
        if entry is None:
            entry = self._types[id(type)] = (type, type_text(type))
        return entry[1]

    def typed(self, value: SSAValue) -> str:
        return f"{self.type(value.type)} {self.values[value]}"

    def arguments(self, values: Iterable[SSAValue]) -> str:
        return ", ".join([self.typed(v) for v in values])


Row = Callable[[Names, Operation], str]
"""Gives the line of an op, without its result."""


# ------------------------------------------------------------------------------------------------- values in place


def _constant(n: Names, op: Operation) -> str:
    return constant_text(op.properties["value"], op.results[0].type)


def _address(n: Names, op: Operation) -> str:
    return symbol_text(cast(SymbolRefAttr, op.properties["global_name"]).string_value())


def _zero(n: Names, op: Operation) -> str:
    return "null" if isinstance(op.results[0].type, llvm.LLVMPointerType) else "zeroinitializer"


LITERALS: dict[str, Row] = {
    "llvm.mlir.constant": _constant,
    "llvm.mlir.addressof": _address,
    "llvm.mlir.zero": _zero,
    "llvm.mlir.poison": lambda n, op: "poison",
    "llvm.mlir.undef": lambda n, op: "undef",
}


# ------------------------------------------------------------------------------------------------------------ flags

_OVERFLOW = ("", " nsw", " nuw", " nuw nsw")


def _overflow(op: Operation) -> str:
    flags = op.properties.get("overflowFlags")
    if isinstance(flags, llvm.OverflowAttr):
        return _OVERFLOW[flags.to_int()]
    return _OVERFLOW[cast("IntegerAttr", flags).value.data] if flags is not None else ""


def _flag(property: str, word: str) -> Callable[[Operation], str]:
    return lambda op: f" {word}" if property in op.properties else ""


def _fast(op: Operation) -> str:
    flags = op.properties.get("fastmathFlags")
    if flags is None or not (data := cast(llvm.FastMathAttr, flags).data):
        return ""
    return " fast" if len(data) == 7 else "".join([f" {f.value}" for f in data])


def _none(op: Operation) -> str:
    return ""


def _number(op: Operation, property: str) -> int:
    attribute = op.properties.get(property)
    return 0 if attribute is None else cast("IntegerAttr", attribute).value.data


def _numbers(op: Operation, property: str) -> tuple[int, ...]:
    return cast("DenseArrayBase[IntegerType]", op.properties[property]).get_values()


# ------------------------------------------------------------------------------------------------------------- rows


def binary(opcode: str, flags: Callable[[Operation], str] = _none) -> Row:
    """`opcode T a, b`."""

    def row(n: Names, op: Operation) -> str:
        lhs, rhs = op.operands
        return f"{opcode}{flags(op)} {n.type(lhs.type)} {n.values[lhs]}, {n.values[rhs]}"

    return row


def unary(opcode: str, flags: Callable[[Operation], str] = _none) -> Row:
    """`opcode T a`."""
    return lambda n, op: f"{opcode}{flags(op)} {n.typed(op.operands[0])}"


def cast_to(opcode: str, flags: Callable[[Operation], str] = _none) -> Row:
    """`opcode T a to U`."""

    def row(n: Names, op: Operation) -> str:
        return f"{opcode}{flags(op)} {n.typed(op.operands[0])} to {n.type(op.results[0].type)}"

    return row


def compare(opcode: str, predicates: Iterable[str], flags: Callable[[Operation], str] = _none) -> Row:
    """`opcode predicate T a, b`."""
    words = [p.strip("_") for p in predicates]

    def row(n: Names, op: Operation) -> str:
        lhs, rhs = op.operands
        word = words[_number(op, "predicate")]
        return f"{opcode}{flags(op)} {word} {n.type(lhs.type)} {n.values[lhs]}, {n.values[rhs]}"

    return row


def intrinsic(name: str) -> Row:
    """A call of an intrinsic; LLVM completes the overload suffix and declares it."""
    return lambda n, op: f"call{_fast(op)} {_result(n, op)} @{name}({n.arguments(op.operands)})"


def _result(n: Names, op: Operation) -> str:
    return n.type(op.results[0].type) if op.results else "void"


def _call_intrinsic(n: Names, op: Operation) -> str:
    return intrinsic(cast(StringAttr, op.properties["intrin"]).data)(n, op)


def _call(n: Names, op: Operation) -> str:
    assert isinstance(op, llvm.CallOp)
    if op.op_bundle_operands:
        raise CodegenError("llvm.call with operand bundles")
    kind = op.TailCallKind.data
    tail = "" if kind == llvm.TailCallKind.NONE else f"{kind} "
    operands = list(op.args)
    signature = _result(n, op) if op.var_callee_type is None else n.type(op.var_callee_type)
    if op.callee is None:
        callee, operands, extension = n.values[operands[0]], operands[1:], None
    else:
        name = op.callee.string_value()
        callee, extension = symbol_text(name), _extensions(n.functions.get(name))
    if extension is None:
        arguments = n.arguments(operands)
    else:
        # The caller extends small integers only if the call says so too.
        arguments = ", ".join(
            f"{n.type(v.type)}{extension[i] if i < len(extension) else ''} {n.values[v]}"
            for i, v in enumerate(operands)
        )
    return f"{tail}call{_fast(op)} {signature} {callee}({arguments})"


def _extensions(func: llvm.FuncOp | None) -> list[str] | None:
    if func is None or func.arg_attrs is None:
        return None
    return ["".join(f" {w}" for w in ("zeroext", "signext") if f"llvm.{w}" in attrs.data) for attrs in func.arg_attrs]


def _gep(n: Names, op: Operation) -> str:
    pointer, *dynamic = op.operands
    values = iter(dynamic)
    indices = ", ".join(
        [n.typed(next(values)) if i == llvm.GEP_USE_SSA_VAL else f"i32 {i}" for i in _numbers(op, "rawConstantIndices")]
    )
    inbounds = " inbounds" if "inbounds" in op.properties else ""
    return f"getelementptr{inbounds} {n.type(op.properties['elem_type'])}, {n.typed(pointer)}, {indices}"


def _memory_suffix(op: Operation) -> str:
    ordering, alignment = _number(op, "ordering"), _number(op, "alignment")
    order = f" {llvm.ATOMIC_ORDERING_KEYWORDS[ordering]}" if ordering else ""
    align = f", align {alignment}" if alignment else ""
    hint = ", !nontemporal !0" if "nontemporal" in op.properties else ""
    return f"{order}{align}{hint}{', !invariant.load !1' if 'invariant' in op.properties else ''}"


def _memory_prefix(op: Operation) -> str:
    return f"{' atomic' if _number(op, 'ordering') else ''}{' volatile' if 'volatile_' in op.properties else ''}"


def _load(n: Names, op: Operation) -> str:
    return f"load{_memory_prefix(op)} {_result(n, op)}, {n.typed(op.operands[0])}{_memory_suffix(op)}"


def _store(n: Names, op: Operation) -> str:
    return f"store{_memory_prefix(op)} {n.arguments(op.operands)}{_memory_suffix(op)}"


def _alloca(n: Names, op: Operation) -> str:
    return f"alloca {n.type(op.properties['elem_type'])}, {n.typed(op.operands[0])}{_memory_suffix(op)}"


def _atomicrmw(n: Names, op: Operation) -> str:
    word = llvm_ext.ATOMIC_BINARY[_number(op, "bin_op")].strip("_")
    return f"atomicrmw {word} {n.arguments(op.operands)} {llvm.ATOMIC_ORDERING_KEYWORDS[_number(op, 'ordering')]}"


def _mangled(n: Names, type: Attribute) -> str:
    text = n.type(llvm_ext.element_of(type))
    element = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64", "ptr": "p0"}.get(text, text)
    width = llvm_ext.width_of(type)
    return element if width == 1 else f"v{width}{element}"


def masked(kind: str, pointer: int) -> Row:
    """`llvm.masked.*` with the alignment after the pointer, operand `pointer`: the form all LLVM versions read."""

    def row(n: Names, op: Operation) -> str:
        data = op.operands[0].type if not op.results else op.results[0].type
        name = f"llvm.masked.{kind}.{_mangled(n, data)}.{_mangled(n, op.operands[pointer].type)}"
        arguments, types = [n.typed(v) for v in op.operands], [n.type(v.type) for v in op.operands]
        arguments.insert(pointer + 1, f"i32 {max(_number(op, 'alignment'), 1)}")
        types.insert(pointer + 1, "i32")
        n.declarations[name] = f"declare {_result(n, op)} @{name}({', '.join(types)})"
        return f"call {_result(n, op)} @{name}({', '.join(arguments)})"

    return row


def _position(op: Operation) -> str:
    return "".join(f", {i}" for i in _numbers(op, "position"))


def _shuffle(n: Names, op: Operation) -> str:
    mask = _numbers(op, "mask")
    lanes = ", ".join(f"i32 {i}" if i >= 0 else "i32 poison" for i in mask)
    return f"shufflevector {n.arguments(op.operands)}, <{len(mask)} x i32> <{lanes}>"


def _insertelement(n: Names, op: Operation) -> str:
    return f"insertelement {n.arguments(op.operands)}"


def _br(n: Names, op: Operation) -> str:
    return f"br label %{n.labels[op.successors[0]]}"


def _cond_br(n: Names, op: Operation) -> str:
    then, other = op.successors
    return f"br {n.typed(op.operands[0])}, label %{n.labels[then]}, label %{n.labels[other]}"


def _switch(n: Names, op: Operation) -> str:
    default, *cases = op.successors
    type = n.type(op.operands[0].type)
    values = _numbers(op, "case_values")
    arms = " ".join(f"{type} {v}, label %{n.labels[b]}" for v, b in zip(values, cases, strict=True))
    return f"switch {n.typed(op.operands[0])}, label %{n.labels[default]} [ {arms} ]"


def _return(n: Names, op: Operation) -> str:
    return f"ret {n.typed(op.operands[0])}" if op.operands else "ret void"


ROWS: dict[str, Row] = {
    **{f"llvm.{op}": binary(op, _overflow) for op in ("add", "sub", "mul", "shl")},
    **{f"llvm.{op}": binary(op, _flag("isExact", "exact")) for op in ("udiv", "sdiv", "lshr", "ashr")},
    **{f"llvm.{op}": binary(op) for op in ("urem", "srem", "and", "xor")},
    **{f"llvm.{op}": binary(op, _fast) for op in ("fadd", "fsub", "fmul", "fdiv", "frem")},
    **{f"llvm.{op}": cast_to(op) for op in ("sext", "bitcast", "inttoptr", "ptrtoint", "sitofp", "uitofp")},
    **{f"llvm.{op}": cast_to(op) for op in ("fptosi", "fptoui", "fpext", "fptrunc")},
    "llvm.or": binary("or", _flag("isDisjoint", "disjoint")),
    "llvm.trunc": cast_to("trunc", _overflow),
    "llvm.zext": cast_to("zext", _flag("nonNeg", "nneg")),
    "llvm.fneg": unary("fneg", _fast),
    "llvm.freeze": unary("freeze"),
    "llvm.icmp": compare("icmp", llvm.ALL_ICMP_FLAGS),
    "llvm.fcmp": compare("fcmp", llvm.ALL_FCMP_FLAGS, _fast),
    "llvm.select": lambda n, op: f"select{_fast(op)} {n.arguments(op.operands)}",
    "llvm.getelementptr": _gep,
    "llvm.load": _load,
    "llvm.store": _store,
    "llvm.alloca": _alloca,
    "llvm.atomicrmw": _atomicrmw,
    "llvm.intr.masked.load": masked("load", 0),
    "llvm.intr.masked.store": masked("store", 1),
    "llvm.intr.masked.gather": masked("gather", 0),
    "llvm.intr.masked.scatter": masked("scatter", 1),
    "llvm.extractelement": lambda n, op: f"extractelement {n.arguments(op.operands)}",
    "llvm.insertelement": _insertelement,
    "llvm.shufflevector": _shuffle,
    "llvm.extractvalue": lambda n, op: f"extractvalue {n.typed(op.operands[0])}{_position(op)}",
    "llvm.insertvalue": lambda n, op: f"insertvalue {n.arguments(op.operands)}{_position(op)}",
    "llvm.call": _call,
    "llvm.call_intrinsic": _call_intrinsic,
    **{
        f"llvm.intr.{name}": intrinsic(f"llvm.{name}")
        for name in (
            *("fabs", "ceil", "floor", "sqrt", "exp", "exp2", "log", "log2", "sin", "cos", "pow", "copysign", "fma"),
            *("maxnum", "minnum", "stacksave", "stackrestore", "vector.reduce.fadd", "vector.reduce.fmul"),
        )
    },
    "llvm.br": _br,
    "llvm.cond_br": _cond_br,
    "llvm.switch": _switch,
    "llvm.return": _return,
    "llvm.unreachable": lambda n, op: "unreachable",
}
