"""LLVM IR text of a module of llvm-dialect ops (xDSL's `llvm` with `dialects/llvm_ext.py`).

In: a `builtin.module` of `llvm.func` and `llvm.mlir.global`. Out: text for LLVM's own parser, an op at a time by the
table in `llvm_rows.py`. Constants, poison and addresses make no line, they are written where they are used; block
arguments become phis. An op without a row is a `CodegenError` that names it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..dialects.errors import describe_location
from .errors import CodegenError
from .llvm_literals import constant_text, quoted, string_text, symbol_text
from .llvm_rows import LITERALS, ROWS, Names, ValueNames


def emit(module: ModuleOp, *, locations: bool = False) -> str:
    """LLVM IR text of `module`; with `locations`, a `; file:line` after each line that has one.

    Raises CodegenError for an op, type or constant that has no text. No triple or data layout is written: see `jit`.
    """
    return join(pieces(list(module.ops), locations=locations))


@dataclass(frozen=True)
class Piece:
    """A function or global of a module. `stub` declares it to another module; "" for what no other module can name."""

    symbol: str
    text: str
    stub: str


def pieces(
    ops: Sequence[Operation],
    names: Names | None = None,
    *,
    locations: bool = False,
    known: Mapping[llvm.FuncOp, Piece] | None = None,
) -> list[Piece]:
    """Functions and globals, each as text, and what they use of LLVM itself; raises what `emit` does. `names` are those
    of functions that were there before, and then of all; `known` is the text of some.
    """
    names, known = names or Names({}), known or {}
    names.functions |= {op.sym_name.data: op for op in ops if isinstance(op, llvm.FuncOp)}
    found: list[Piece] = []
    for op in ops:
        match op:
            case llvm.FuncOp() if op in known:
                found.append(known[op])
                continue
            case llvm.FuncOp():
                lines: list[str] = []
                _function(names, op, lines, locations)
                stub = f"declare {_signature(names, op, None)}"
            case llvm.GlobalOp():
                lines = [_global(names, op)]
                kind = "constant" if op.constant is not None else "global"
                stub = f"{symbol_text(op.sym_name.data)} = external {kind} {names.type(op.global_type)}"
            case _:
                raise CodegenError(f"{op.name} cannot stand at the top of an LLVM module")
        local = op.linkage.linkage.data in ("internal", "private")
        found.append(Piece(symbol_text(op.sym_name.data), "\n".join(lines), "" if local else stub))
    found += (Piece(f"@{name}", text, text) for name, text in names.declarations.items())
    return found


def join(texts: Iterable[Piece | str]) -> str:
    """A module of pieces and stubs."""
    lines = [piece if isinstance(piece, str) else piece.text for piece in texts]
    # The two nodes are named by the nontemporal and the invariant memory ops.
    return "\n".join([*lines, "!0 = !{i32 1}", "!1 = !{}", ""])


def _function(names: Names, func: llvm.FuncOp, out: list[str], locations: bool) -> None:
    if not func.body.blocks:
        out.append(f"declare {_signature(names, func, None)}")
        return
    blocks = list(func.body.blocks)
    names.values, names.labels = ValueNames(), {block: f"b{i}" for i, block in enumerate(blocks)}
    edges: dict[Block, list[tuple[str, tuple[SSAValue, ...]]]] = {block: [] for block in blocks}
    for block in blocks:
        _name(names, block)
        for successor, values in _edges(block):
            edges[successor].append((names.labels[block], values))
    if edges[blocks[0]]:
        raise CodegenError(f"llvm.func @{func.sym_name.data}: a branch to the entry block")
    if locations and (place := _place(func)):
        out.append(f"; kernel {_one_line(func.sym_name.data)} {place}")
    out.append(f"define {_signature(names, func, blocks[0])} {{")
    for block in blocks:
        out.append(f"{names.labels[block]}:")
        if block.args and block is not blocks[0]:
            out += _phis(names, block, edges[block])
        for op in block.ops:
            if op.name not in LITERALS:
                out.append(_line(names, op, locations))
    out.append("}")


def _name(names: Names, block: Block) -> None:
    values = names.values
    for arg in block.args:
        values[arg] = f"%v{len(values)}"
    for op in block.ops:
        if (literal := LITERALS.get(op.name)) is not None:
            values[op.results[0]] = literal(names, op)
        else:
            for result in op.results:
                values[result] = f"%v{len(values)}"


def _phis(names: Names, block: Block, incoming: list[tuple[str, tuple[SSAValue, ...]]]) -> Iterable[str]:
    for i, arg in enumerate(block.args):
        pairs = ", ".join([f"[ {names.values[values[i]]}, %{label} ]" for label, values in incoming])
        yield f"  {names.values[arg]} = phi {names.type(arg.type)} {pairs}"


def _line(names: Names, op: Operation, locations: bool) -> str:
    row = ROWS.get(op.name)
    if row is None:
        raise CodegenError(f"no LLVM text for op {op.name}{_at(op)}")
    try:
        line = row(names, op)
    except KeyError as error:
        raise CodegenError(f"{op.name}{_at(op)} lacks the property {error}") from error
    result = f"{names.values[op.results[0]]} = " if op.results else ""
    place = f" ; {_place(op)}" if locations and _place(op) else ""
    return f"  {result}{line}{place}"


def _edges(block: Block) -> Iterable[tuple[Block, tuple[SSAValue, ...]]]:
    """The blocks a terminator may jump to, each with the values of its arguments."""
    op = block.last_op
    if op is None:
        raise CodegenError("a block without a terminator")
    match op.name:
        case "llvm.br":
            yield op.successors[0], tuple(op.operands)
        case "llvm.cond_br":
            values = tuple(op.operands)[1:]
            split = len(op.successors[0].args)
            yield op.successors[0], values[:split]
            if op.successors[0] is op.successors[1] and values[:split] != values[split:]:
                raise CodegenError("llvm.cond_br to one block with two sets of arguments: use llvm.select")
            yield op.successors[1], values[split:]
        case _:
            for successor in op.successors:
                yield successor, ()


def _place(op: Operation) -> str:
    return _one_line(describe_location(op.location))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _at(op: Operation) -> str:
    return f" at {place}" if (place := _place(op)) else ""


# ------------------------------------------------------------------------------------------- functions and globals

_PARAMETER_FLAGS = ("noalias", "nonnull", "readonly", "writeonly", "noundef", "signext", "zeroext", "readnone")
_PARAMETER_NUMBERS = {"align": "align {}", "dereferenceable": "dereferenceable({})"}
_UNIT_ATTRIBUTES = {"no_inline": "noinline", "always_inline": "alwaysinline", "optimize_none": "optnone"}
_STRING_ATTRIBUTES = {"target_cpu": "target-cpu", "tune_cpu": "tune-cpu", "prefer_vector_width": "prefer-vector-width"}


def _parameter(attributes: DictionaryAttr) -> str:
    words: list[str] = []
    for key, value in attributes.data.items():
        name = key.removeprefix("llvm.")
        if name in _PARAMETER_FLAGS:
            words.append(f" {name}")
        elif name == "nocapture":
            words.append(" captures(none)")
        elif name in _PARAMETER_NUMBERS and isinstance(value, IntegerAttr):
            words.append(" " + _PARAMETER_NUMBERS[name].format(value.value.data))
        else:
            raise CodegenError(f"no LLVM text for the parameter attribute {key}")
    return "".join(words)


def _signature(names: Names, func: llvm.FuncOp, entry: Block | None) -> str:
    type = func.function_type
    linkage = func.linkage.linkage.data
    convention = func.CConv.convention.data
    arg_attrs = func.arg_attrs.data if func.arg_attrs is not None else ()
    arguments = [
        names.type(input)
        + (_parameter(arg_attrs[i]) if i < len(arg_attrs) else "")
        + ("" if entry is None else f" {names.values[entry.args[i]]}")
        for i, input in enumerate(type.inputs)
    ] + (["..."] if type.is_variadic else [])
    res_attrs = func.res_attrs.data if func.res_attrs is not None else ()
    parts = [
        *([linkage] if linkage != "external" else []),
        *([convention] if convention != "ccc" else []),
        *(_parameter(attributes).strip() for attributes in res_attrs),
        names.type(type.output),
        f"{symbol_text(func.sym_name.data)}({', '.join(arguments)})",
        *_function_attributes(func),
    ]
    return " ".join(p for p in parts if p)


def _function_attributes(func: llvm.FuncOp) -> list[str]:
    # xDSL's parser leaves MLIR's properties in `attributes`. Nothing unwinds: exceptions end in torch's C shims.
    found = {**func.attributes, **func.properties}
    words = ["nounwind"] + [word for key, word in _UNIT_ATTRIBUTES.items() if key in found]
    for key, word in _STRING_ATTRIBUTES.items():
        if isinstance(value := found.get(key), StringAttr):
            words.append(f'"{word}"={quoted(value.data)}')
    if isinstance(features := found.get("target_features"), llvm.TargetFeaturesAttr):
        words.append(f'"target-features"={quoted(",".join(f.data for f in features.features))}')
    if isinstance(passthrough := found.get("passthrough"), ArrayAttr):
        words += [_passthrough(attribute) for attribute in cast(ArrayAttr[Attribute], passthrough)]
    return words


def _passthrough(attribute: Attribute) -> str:
    match attribute:
        case StringAttr():
            return attribute.data
        case ArrayAttr(data=(StringAttr(data=key), StringAttr(data=value))):
            return f"{quoted(key)}={quoted(value)}"
        case _:
            raise CodegenError(f"no LLVM text for the function attribute {attribute}")


def _global(names: Names, op: llvm.GlobalOp) -> str:
    linkage = op.linkage.linkage.data
    type = op.global_type
    if op.body.blocks:
        value = _initializer(names, op)
    elif isinstance(op.value, StringAttr):
        value = string_text(op.value.data.encode("utf-8", "surrogateescape"))
    elif op.value is not None:
        value = constant_text(op.value, type)
    else:
        value = "" if linkage == "external" else "zeroinitializer"
    words = [
        "external" if linkage == "external" and not value else linkage if linkage != "external" else "",
        "thread_local" if op.thread_local_ is not None else "",
        ("", "local_unnamed_addr", "unnamed_addr")[op.unnamed_addr.value.data if op.unnamed_addr is not None else 0],
        "constant" if op.constant is not None else "global",
        names.type(type),
        value,
    ]
    align = f", align {op.alignment.value.data}" if op.alignment is not None else ""
    return f"{symbol_text(op.sym_name.data)} = {' '.join(w for w in words if w)}{align}"


def _initializer(names: Names, op: llvm.GlobalOp) -> str:
    """The constant a global's region returns: literals, and aggregates built by `llvm.insertvalue`."""
    values: dict[SSAValue, str | list[str]] = {}
    for inner in op.body.block.ops:
        if (literal := LITERALS.get(inner.name)) is not None:
            values[inner.results[0]] = literal(names, inner)
        elif isinstance(inner, llvm.InsertValueOp) and len(inner.position) == 1:
            old, fields = values[inner.container], _fields(names, inner.container.type)
            parts = list(old) if isinstance(old, list) else [f"{t} {old}" for t in fields]
            index = inner.position.get_values()[0]
            parts[index] = f"{fields[index]} {_joined(values[inner.value], inner.value.type)}"
            values[inner.res] = parts
        elif isinstance(inner, llvm.ReturnOp):
            return _joined(values[inner.operands[0]], op.global_type)
        else:
            raise CodegenError(f"{inner.name} in the initializer of llvm.mlir.global @{op.sym_name.data}")
    raise CodegenError(f"llvm.mlir.global @{op.sym_name.data}: its region returns nothing")


def _fields(names: Names, type: Attribute) -> list[str]:
    if isinstance(type, llvm.LLVMArrayType):
        return [names.type(type.type)] * type.size.data
    assert isinstance(type, llvm.LLVMStructType)
    return [names.type(t) for t in type.types]


def _joined(value: str | list[str], type: Attribute) -> str:
    if isinstance(value, str):
        return value
    return f"[{', '.join(value)}]" if isinstance(type, llvm.LLVMArrayType) else f"{{ {', '.join(value)} }}"
