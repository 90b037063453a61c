"""What ops cannot check alone: sizes that no argument gives, launches that do not fit their kernel or each other, slots
outside of their arena, bytes that are lost before they are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, cast

import sympy
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from . import expr, flow, host, loop
from .errors import LamellaVerifyError
from .hints import size_hints
from .literal import Literal
from .loop_attrs import DimsAttr, IndexAttr, PredAttr
from .prims_base import Exprs, Scalar
from .symbol_kinds import FOUND, PROGRAM, symbol_kind
from .tensor import SymType, TensorType, elements_spanned, itemsize
from .verify_memory import verify_memory
from .verify_together import verify_marks, verify_together

Names = Callable[[Attribute], frozenset[str]]


def symbol_table(module: ModuleOp) -> dict[str, Operation]:
    """The ops of `module` by their symbol. Raises LamellaVerifyError for one that two ops have."""
    symbols: dict[str, Operation] = {}
    for op in module.ops:
        if isinstance(name := op.properties.get("sym_name"), StringAttr):
            if name.data in symbols:
                raise LamellaVerifyError(op, f"defines @{name.data} a second time")
            symbols[name.data] = op
    return symbols


def verify_program(module: ModuleOp, symbols: dict[str, Operation]) -> None:
    """Check the functions of `module` as programs. Raises LamellaVerifyError."""
    for op in module.ops:
        if op.name in ("func.func", "host.func") and len(op.regions[0].blocks) == 1:
            _verify_sizes(op)
            for inner in flow.all_ops(op.regions[0].block):
                if isinstance(inner, (loop.LaunchOp, host.LaunchOp)):
                    _verify_launch(inner, symbols)
                elif isinstance(inner, host.TogetherOp):
                    for launch in inner.launches:
                        _verify_launch(launch, symbols)
                    verify_together(inner, symbols)
                elif isinstance(inner, flow.CallOp):
                    _verify_call(inner, symbols)
                elif isinstance(inner, host.SlotOp):
                    _verify_slot(inner)
            if isinstance(op, host.FuncOp):
                verify_memory(op, _all_sizes(op), size_hints(module))
            verify_marks(op.regions[0].block.ops)


def _verify_call(op: flow.CallOp, symbols: dict[str, Operation]) -> None:
    try:
        op.function(symbols)
    except VerifyException as error:
        raise LamellaVerifyError(op, str(error)) from None


# Sizes


def _verify_sizes(function: Operation) -> None:
    """Each symbol of a size is given by an argument, or by a result above its use."""
    block = function.regions[0].block
    known = set(given_sizes(a.type for a in block.args))
    _expect_known(function, (a.type for a in block.args), known)
    _verify_block(block, known)


def _verify_block(block: Block, known: set[str]) -> None:
    """Check the sizes in a block; those that it gives join `known`."""
    for op in block.ops:
        types = [r.type for r in op.results]
        _expect_known(op, op.properties.values(), known)
        # What is read from data; torch may give it as a part of a sum.
        known |= {s for t in types for s in size_names(t) if symbol_kind(s) in FOUND}
        _expect_known(op, types, known)
        if not op.regions:  # which has no dims
            _expect_known(op, (a for a in op.properties.values() if isinstance(a, IndexAttr)), known, _names)
        for region in op.regions:
            if isinstance(op, flow.FlowOp):  # what a region gives is not known outside
                args = [a.type for a in region.block.args]
                inside = known | {s for t in args for s in size_names(t) if symbol_kind(s) in FOUND}
                _expect_known(op, args, inside)
                _verify_block(region.block, inside)
                continue
            for inner in region.walk():
                _expect_known(inner, (*inner.properties.values(), *(r.type for r in inner.results)), known)


def _expect_known(op: Operation, attributes: Iterable[Attribute], known: set[str], names: Names | None = None) -> None:
    for attribute in attributes:
        for name in (names or size_names)(attribute):
            if name not in known:
                raise LamellaVerifyError(
                    op,
                    f"uses the size {name}, which nothing above gives: an argument must have it as a size or stride "
                    f"by itself, or be of type !sym.int<{name}>",
                )


def given_sizes(types: Iterable[Attribute]) -> Iterator[str]:
    """The symbols that values of these types give: those that stand alone."""
    for t in types:
        if isinstance(t, TensorType):
            yield from (d.name for d in (*t.shape, *t.strides) if isinstance(d, sympy.Symbol))
        elif isinstance(t, SymType):
            yield from (t.expr.name,) if isinstance(t.expr, sympy.Symbol) else ()


def _all_sizes(function: Operation) -> set[str]:
    """Names of the sizes in what a function says of memory: tensors, and where they lie."""
    found = {s for region in function.regions for a in region.block.args for s in size_names(a.type)}
    for op in function.walk():
        values = [a for region in op.regions for block in region.blocks for a in block.args]
        types = [v.type for v in (*op.results, *values)]
        attributes = op.properties.values() if isinstance(op, (host.ArenaOp, host.SlotOp, host.ViewOp)) else ()
        found |= {s for attribute in (*types, *attributes) for s in size_names(attribute)}
    return found


@lru_cache(maxsize=1 << 14)
def size_names(attribute: Attribute) -> frozenset[str]:
    """Names of the sizes and other numbers of the program in an attribute or type."""
    names = _names(attribute)
    if isinstance(attribute, (IndexAttr, PredAttr, DimsAttr, Exprs)):  # dims are bound where they are used
        return frozenset(name for name in names if symbol_kind(name) in PROGRAM)
    return names


def _names(attribute: Attribute) -> frozenset[str]:
    return frozenset(s.name for e in _expressions(attribute) for s in expr.symbols(e))


def _expressions(attribute: Any) -> Iterator[Any]:
    match attribute:
        case TensorType():
            yield from (*attribute.shape, *attribute.strides)
        case SymType():
            yield attribute.expr
        case IndexAttr() | PredAttr():
            yield from attribute
        case DimsAttr():
            for d in attribute:
                yield from (d.lo, d.hi)
        case Exprs():
            yield from attribute.data
        case Scalar():
            yield from _in_literal(attribute.value)
        case Literal():
            yield from _in_literal(attribute.value)
        case _:
            return


def _in_literal(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple):
        for item in cast("tuple[Any, ...]", value):
            yield from _in_literal(item)
    elif isinstance(value, sympy.Basic):
        yield value


# Launches and slots


def _verify_launch(op: loop.LaunchOp | host.LaunchOp, symbols: dict[str, Operation]) -> None:
    names = (op.callee, f"{op.callee}.prepare", f"{op.callee}_together")  # the latter two where it runs with others
    kernel = next((symbols[name] for name in names if name in symbols), None)
    if kernel is None:
        known = ", ".join(f"@{name}" for name, s in symbols.items() if isinstance(s, loop.KernelOp)) or "none"
        raise LamellaVerifyError(op, f"launches @{op.callee}, which is not here; the kernels are {known}")
    if not isinstance(kernel, loop.KernelOp):  # native code already
        taken = kernel.attributes.get("lamella.sizes")
        if isinstance(taken, IndexAttr) and len(op.sizes) != len(taken):
            raise LamellaVerifyError(op, f"gives sizes {op.sizes.text}, @{op.callee} takes {taken.text}")
        return
    if len(op.sizes) != len(kernel.sizes):
        raise LamellaVerifyError(op, f"gives sizes {op.sizes.text}, @{op.callee} takes {kernel.sizes.text}")
    sizes = {expr.symbol(expr.text(s)): value for s, value in zip(kernel.sizes, op.sizes, strict=True)}
    outs: Iterable[SSAValue] = op.outs if isinstance(op, host.LaunchOp) else op.results
    ins: Iterable[SSAValue] = op.ins if isinstance(op, host.LaunchOp) else op.args
    for what, given, taken in (("inputs", ins, kernel.ins), ("outputs", outs, kernel.outs)):
        values = tuple(given)
        if len(values) != len(taken):
            raise LamellaVerifyError(op, f"has {len(values)} {what}, @{op.callee} takes {len(taken)}")
        for value, argument in zip(values, taken, strict=True):
            _verify_operand(op, cast(TensorType, value.type), cast(TensorType, argument.type), sizes)
    device = next((cast(TensorType, v.type).device for v in outs), "cpu")
    for value in ins:
        if (t := cast(TensorType, value.type)).device != device:
            raise LamellaVerifyError(op, f"has @{op.callee} read {t}, but it runs on {device}")


def _verify_operand(op: Operation, given: TensorType, taken: TensorType, sizes: dict[sympy.Symbol, Any]) -> None:
    """Whether a kernel finds in memory what it expects. Dims that lie in one piece may have been joined or split."""
    shape = [expr.substitute(d, sizes) for d in taken.shape]
    if given.dtype != taken.dtype or _differ(given.numel, expr.product(shape)):
        at = f" with sizes [{', '.join(map(expr.text, sizes.values()))}]" if sizes else ""
        raise LamellaVerifyError(op, f"passes {given} where @{cast(Any, op).callee} takes {taken}{at}")


def _differ(a: Any, b: Any) -> bool:
    """Whether two sizes are known to differ."""
    difference = expr.normal(sympy.expand(a - b))
    return isinstance(difference, int) and difference != 0


def _verify_slot(op: host.SlotOp) -> None:
    arena = op.arena.owner
    if isinstance(arena, host.LendOp):
        room, whose = _end(cast(TensorType, arena.source.type)), "tensor"
    elif isinstance(arena, host.ArenaOp):
        room, whose = arena.bytes[0], "arena"
    else:
        raise LamellaVerifyError(op, "takes its bytes from something that is no host.arena")
    type_ = op.res.type
    left = expr.normal(sympy.expand(room - op.offset[0] - _end(type_)))
    if isinstance(left, int) and left < 0 and 0 not in type_.shape:
        raise LamellaVerifyError(op, f"ends {-left} bytes after the {whose} of [{expr.text(room)}] bytes")


def _end(type_: TensorType) -> Any:
    """Bytes from a tensor's first element to the end of its last."""
    return elements_spanned(type_) * itemsize(type_.dtype)
