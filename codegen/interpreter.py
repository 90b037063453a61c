"""Runs a module at the aten, prims or loop level on torch tensors, op by op: the oracle of every test.

A dialect's meaning is a table `HANDLERS: dict[type[Operation] | str, Handler]` in `interpret_<dialect>.py`, found
when the first op of the dialect is met. A handler takes the op, the values of its operands and the environment, and
returns a tuple of results.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import sympy
import torch
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ..dialects import expr
from ..dialects.aten import AtenOp
from ..dialects.errors import LamellaError
from ..dialects.flow import YieldOp
from ..dialects.flow_op import WithArguments
from ..dialects.literal import HOLE
from ..dialects.tensor import TORCH_DTYPES, SymType, TensorType

Handler: TypeAlias = "Callable[[Any, Sequence[Any], Environment], tuple[Any, ...]]"

_TABLES = {
    "prims": "interpret_prims",
    "loop": "interpret_loop",
    "flow": "interpret_flow",
    "flex": "interpret_flex",
}


class InterpreterError(LamellaError):
    """Inputs that do not fit the module, or an op that no table knows."""


@dataclass
class Environment:
    """What is known while a function runs."""

    module: ModuleOp
    """The module that is run: `loop.launch` finds its kernel here."""
    values: dict[SSAValue, Any] = field(default_factory=dict)
    symbols: dict[str, int] = field(default_factory=dict)
    """Values of the symbols of sizes, by name."""
    check: bool = False
    """Compare every result with its type."""

    def evaluate(self, e: Any) -> Any:
        """The number an expression has here."""
        return expr.evaluate(e, self.symbols)


def run_module(module: ModuleOp, inputs: Sequence[Any], *, check: bool = False) -> list[Any]:
    """Run `func.func @main` of `module` on tensors (and numbers, for `!sym.int` arguments).

    Raises InterpreterError where number, rank, dtype or a fixed size of an input is not that of its argument, and for
    an op that no table knows. Symbols are read off the inputs. Nothing is copied: what the module returns or writes
    may be an input. With `check` the dtype and sizes of every result must be those of its type, and the strides too
    where an operator of ATen made it.
    """
    main = next((op for op in module.ops if isinstance(op, func.FuncOp) and op.sym_name.data == "main"), None)
    if main is None:
        raise InterpreterError("the module has no func.func @main")
    env = Environment(module, check=check)
    block = main.body.block
    bind_inputs(env, [a.type for a in block.args], inputs)
    env.values.update(zip(block.args, inputs, strict=True))
    with torch.no_grad():
        return list(run_block(block, env))


def run_block(block: Block, env: Environment) -> tuple[Any, ...]:
    """Run the ops of a block; returns the operands of its terminator, or () if it has none."""
    values = env.values
    for op in block.ops:
        if isinstance(op, func.ReturnOp):
            return tuple(values[v] for v in op.operands)
        if isinstance(op, YieldOp):
            return tuple(arguments(op, [values[v] for v in op.operands], env))
        results = handler(op)(op, [values[v] for v in op.operands], env)
        if len(results) != len(op.results):
            raise InterpreterError(f"{op.name} gave {len(results)} results, {len(op.results)} expected")
        for result, value in zip(op.results, results, strict=True):
            values[result] = value
            bind_symbols(env, result.type, value)
            if env.check:
                check_result(env, op, result.type, value)
    return ()


def arguments(op: WithArguments, operands: Sequence[Any], env: Environment) -> list[Any]:
    """The arguments of control flow: the values of the operands, and the numbers among them."""
    given = iter(operands)
    return [
        next(given) if value is HOLE else value if isinstance(value, float) else env.evaluate(value)
        for value in op.arguments.value
    ]


def check_result(env: Environment, op: Operation, type_: Attribute, value: Any) -> None:
    """Raises InterpreterError where a tensor is not what its type says."""
    if not isinstance(type_, TensorType):
        return
    if not isinstance(value, torch.Tensor):
        raise InterpreterError(f"{op.name} gave a {type(value).__name__}, but its type is {type_}")
    sizes = tuple(env.evaluate(d) for d in type_.shape)
    strides = tuple(env.evaluate(d) for d in type_.strides) if isinstance(op, AtenOp) else value.stride()
    same_strides = value.numel() == 0 or all(
        a == b or n == 1 for a, b, n in zip(strides, value.stride(), value.shape, strict=False)
    )
    if sizes != tuple(value.shape) or value.dtype is not torch_dtype(type_) or not same_strides:
        seen = f"sizes {list(value.shape)}, strides {list(value.stride())}, dtype {str(value.dtype)[6:]}"
        raise InterpreterError(f"{op.name} gave a tensor of {seen}, but its type is {type_} at {env.symbols}")


def torch_dtype(type_: TensorType) -> torch.dtype:
    """torch's name for the elements of a type."""
    return getattr(torch, TORCH_DTYPES[type_.dtype])


_handlers: dict[str, Mapping[Any, Handler]] = {}


def handler(op: Operation) -> Handler:
    """The function that gives `op` its meaning. Raises InterpreterError."""
    if isinstance(op, AtenOp):
        from .interpret_aten import run_aten

        return run_aten
    dialect = op.name.partition(".")[0]
    table = _handlers.get(dialect)
    if table is None:
        table = _handlers[dialect] = _load(dialect)
    found = table.get(type(op)) or table.get(op.name)
    if found is None:
        raise InterpreterError(f"cannot run {op.name}: no meaning is given for it at this level")
    return found


def _load(dialect: str) -> Mapping[Any, Handler]:
    name = f"{__package__}.{_TABLES.get(dialect, '')}"
    if dialect not in _TABLES or importlib.util.find_spec(name) is None:
        return {}
    return importlib.import_module(name).HANDLERS


def bind_inputs(env: Environment, types: Sequence[Attribute], inputs: Sequence[Any]) -> None:
    """Check `inputs` against the types of the arguments and read the symbols off them."""
    if len(types) != len(inputs):
        raise InterpreterError(f"@main takes {len(types)} inputs, got {len(inputs)}")
    for i, (type_, value) in enumerate(zip(types, inputs, strict=True)):
        if isinstance(type_, TensorType):
            _check_tensor(i, type_, value)
        elif isinstance(type_, SymType) and not isinstance(value, (int, float)):
            raise InterpreterError(f"input #{i} must be a number, got {type(value).__name__}")
        bind_symbols(env, type_, value)
    for i, (type_, value) in enumerate(zip(types, inputs, strict=True)):
        if isinstance(type_, TensorType):
            sizes = tuple(_value(env, d, n) for d, n in zip(type_.shape, value.shape, strict=True))
            if sizes != tuple(value.shape):
                raise InterpreterError(f"input #{i} has shape {list(value.shape)}, but {type_} says {list(sizes)}")


def _value(env: Environment, d: Any, seen: int) -> Any:
    """The value of a size, or what was seen where a symbol in it has none."""
    return env.evaluate(d) if all(s.name in env.symbols for s in expr.symbols(d)) else seen


def _check_tensor(i: int, type_: TensorType, value: Any) -> None:
    if not isinstance(value, torch.Tensor):
        raise InterpreterError(f"input #{i} must be a tensor, got {type(value).__name__}")
    if value.dim() != type_.rank:
        raise InterpreterError(f"input #{i} has rank {value.dim()}, but {type_} has rank {type_.rank}")
    if value.dtype is not torch_dtype(type_):
        raise InterpreterError(f"input #{i} has dtype {str(value.dtype)[6:]}, but {type_} wants {type_.dtype}")


def bind_symbols(env: Environment, type_: Attribute, value: Any) -> None:
    """Give the symbols that stand alone in `type_` their value, unless they have one."""
    if isinstance(type_, TensorType) and isinstance(value, torch.Tensor) and value.layout is torch.strided:
        for d, n in (*zip(type_.shape, value.shape, strict=False), *zip(type_.strides, value.stride(), strict=False)):
            if isinstance(d, sympy.Symbol):
                env.symbols.setdefault(d.name, n)
    elif isinstance(type_, SymType):
        e = type_.expr
        if isinstance(e, sympy.Symbol):
            env.symbols.setdefault(e.name, cast(int, value))
        elif isinstance(e, sympy.Eq) and isinstance(e.lhs, sympy.Symbol) and e.rhs == 1:
            env.symbols.setdefault(e.lhs.name, int(value))  # how torch writes a truth value read from data
