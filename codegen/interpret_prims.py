"""prims by eager PyTorch: a torch expression per op.

Layouts are not kept, except by `convert`, which makes a tensor with the strides its type says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import sympy
import torch
from torch import Tensor
from torch.utils._sympy.functions import FloorDiv, Mod, PythonMod
from xdsl.ir import SSAValue

from ..dialects import prims
from ..dialects.raised import error
from ..dialects.tensor import TORCH_DTYPES, TensorType
from ..lowering.philox import philox, philox32
from ..lowering.prims_to_loop_reduce import KINDS
from .interpret_combine import combine, scan
from .interpreter import Environment, Handler, InterpreterError

ELEMENTWISE: Final[dict[type[prims.PrimsOp], Callable[..., Tensor]]] = {
    prims.NegOp: torch.neg,
    prims.AbsOp: torch.abs,
    prims.SignOp: torch.sign,
    prims.ExpOp: torch.exp,
    prims.Exp2Op: torch.exp2,
    prims.Expm1Op: torch.expm1,
    prims.LogOp: torch.log,
    prims.Log2Op: torch.log2,
    prims.Log10Op: torch.log10,
    prims.Log1pOp: torch.log1p,
    prims.SqrtOp: torch.sqrt,
    prims.RsqrtOp: torch.rsqrt,
    prims.ReciprocalOp: torch.reciprocal,
    prims.SinOp: torch.sin,
    prims.CosOp: torch.cos,
    prims.TanOp: torch.tan,
    prims.AsinOp: torch.asin,
    prims.AcosOp: torch.acos,
    prims.AtanOp: torch.atan,
    prims.SinhOp: torch.sinh,
    prims.CoshOp: torch.cosh,
    prims.TanhOp: torch.tanh,
    prims.AsinhOp: torch.asinh,
    prims.AcoshOp: torch.acosh,
    prims.AtanhOp: torch.atanh,
    prims.ErfOp: torch.erf,
    prims.ErfcOp: torch.erfc,
    prims.ErfinvOp: torch.erfinv,
    prims.LgammaOp: torch.lgamma,
    prims.DigammaOp: torch.digamma,
    prims.FloorOp: torch.floor,
    prims.CeilOp: torch.ceil,
    prims.TruncOp: torch.trunc,
    prims.RoundOp: torch.round,
    prims.IsnanOp: torch.isnan,
    prims.IsinfOp: torch.isinf,
    prims.SignbitOp: torch.signbit,
    prims.NotOp: torch.bitwise_not,
    prims.AddOp: torch.add,
    prims.SubOp: torch.sub,
    prims.MulOp: torch.mul,
    prims.DivOp: torch.div,
    prims.DivTruncOp: lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    prims.DivFloorOp: lambda a, b: torch.div(a, b, rounding_mode="floor"),
    prims.RemOp: torch.fmod,
    prims.PowOp: torch.pow,
    prims.Atan2Op: torch.atan2,
    prims.CopysignOp: torch.copysign,
    prims.NextafterOp: torch.nextafter,
    prims.IgammaOp: torch.special.gammainc,
    prims.IgammacOp: torch.special.gammaincc,
    prims.HermiteHOp: torch.special.hermite_polynomial_h,
    prims.HermiteHeOp: torch.special.hermite_polynomial_he,
    prims.LaguerreOp: torch.special.laguerre_polynomial_l,
    prims.LegendreOp: torch.special.legendre_polynomial_p,
    prims.MaximumOp: torch.maximum,
    prims.MinimumOp: torch.minimum,
    prims.FmaxOp: torch.fmax,
    prims.FminOp: torch.fmin,
    prims.AndOp: torch.bitwise_and,
    prims.OrOp: torch.bitwise_or,
    prims.XorOp: torch.bitwise_xor,
    prims.ShlOp: torch.bitwise_left_shift,
    prims.ShrOp: torch.bitwise_right_shift,
    prims.PhiloxOp: philox,
    prims.Philox32Op: philox32,
    prims.EqOp: torch.eq,
    prims.NeOp: torch.ne,
    prims.LtOp: torch.lt,
    prims.LeOp: torch.le,
    prims.GtOp: torch.gt,
    prims.GeOp: torch.ge,
    prims.FmaOp: lambda a, b, c: (a.double() * b.double() + c.double()).to(a.dtype),
    prims.SelectOp: torch.where,
}


def _elementwise(function: Callable[..., Tensor]) -> Handler:
    return lambda op, operands, env: (function(*operands),)


def _type(value: SSAValue) -> TensorType:
    assert isinstance(value.type, TensorType)
    return value.type


def _dtype(value: SSAValue) -> torch.dtype:
    return getattr(torch, TORCH_DTYPES[_type(value).dtype])


def _shape(value: SSAValue, env: Environment) -> list[int]:
    return [env.evaluate(d) for d in _type(value).shape]


def _convert(op: prims.ConvertOp, operands: Sequence[Tensor], env: Environment) -> tuple[Tensor]:
    strides = [env.evaluate(s) for s in _type(op.result).strides]
    result = torch.empty_strided(operands[0].shape, strides, dtype=_dtype(op.result), device=operands[0].device)
    overlaps = any(s == 0 and n > 1 for s, n in zip(strides, operands[0].shape, strict=True))
    return (operands[0].to(result.dtype) if overlaps else result.copy_(operands[0]),)


def _checked(op: prims.CheckedOp, operands: Sequence[Tensor], env: Environment) -> tuple[Tensor]:
    if not operands[0].all():
        raise error(op.message.data)
    return (operands[1],)


def _bitcast(op: prims.BitcastOp, operands: Sequence[Tensor], env: Environment) -> tuple[Tensor]:
    return (operands[0].view(_dtype(op.result)),)


def _full(op: prims.FullOp, operands: Sequence[Tensor], env: Environment) -> tuple[Tensor]:
    value = op.value.value
    number = env.evaluate(value) if isinstance(value, sympy.Expr) else value
    device = _type(op.result).device
    return (torch.full(_shape(op.result, env), number, dtype=_dtype(op.result), device=device),)


def _iota(op: prims.IotaOp, operands: Sequence[Tensor], env: Environment) -> tuple[Tensor]:
    shape, dim = _shape(op.result, env), op.integer("dim")
    index = torch.arange(shape[dim], device=_type(op.result).device).to(_dtype(op.result))
    return (index.reshape([-1 if d == dim else 1 for d in range(len(shape))]).expand(shape),)


# Views


def _broadcast(op: prims.BroadcastOp, operands: Sequence[Tensor], env: Environment) -> tuple[Tensor]:
    shape = _shape(op.result, env)
    sizes = iter(operands[0].shape)
    kept = set(op.ints("dims"))
    return (operands[0].reshape([next(sizes) if d in kept else 1 for d in range(len(shape))]).expand(shape),)


def _reshape(op: prims.ReshapeOp, operands: Sequence[Tensor], env: Environment) -> tuple[Tensor]:
    return (operands[0].reshape(_shape(op.result, env)),)


def _transpose(op: prims.TransposeOp, operands: Sequence[Tensor], env: Environment) -> tuple[Tensor]:
    return (operands[0].permute(op.ints("perm")),)


def _slice(op: prims.SliceOp, operands: Sequence[Tensor], env: Environment) -> tuple[Tensor]:
    bounds = [[env.evaluate(e) for e in op.exprs(name)] for name in ("start", "stop", "step")]
    return (operands[0][tuple(slice(*b) for b in zip(*bounds, strict=True))],)


def _flip(op: prims.FlipOp, operands: Sequence[Tensor], env: Environment) -> tuple[Tensor]:
    return (operands[0].flip(op.ints("dims")),)


def _pad(op: prims.PadOp, operands: Sequence[Tensor], env: Environment) -> tuple[Tensor]:
    lows, highs = ([env.evaluate(e) for e in op.exprs(name)] for name in ("low", "high"))
    pairs = [n for pair in zip(reversed(lows), reversed(highs), strict=True) for n in pair]
    return (torch.constant_pad_nd(operands[0], pairs, op.value.value),)  # pyright: ignore[reportArgumentType]


def _cat(op: prims.CatOp, operands: Sequence[Tensor], env: Environment) -> tuple[Tensor]:
    return (torch.cat(list(operands), op.integer("dim")),)


# Indexing


def evaluate_index(e: Any, symbols: dict[str, Tensor], env: Environment) -> Any:
    """An index expression on tensors of indices by name; sizes come from `env`."""
    if isinstance(e, (int, sympy.Integer)):
        return int(e)
    if isinstance(e, sympy.Symbol):
        return symbols[e.name] if e.name in symbols else env.evaluate(e)
    args = [evaluate_index(a, symbols, env) for a in e.args]
    if isinstance(e, sympy.Add):
        return sum(args)
    result = args[0]
    for other in args[1:]:
        if isinstance(e, sympy.Mul):
            result = result * other
        elif isinstance(e, sympy.Pow):
            result = result**other
        elif isinstance(e, FloorDiv):
            result = result // other
        elif isinstance(e, (Mod, PythonMod)):
            result = result % other
        elif isinstance(e, (sympy.Max, sympy.Min)):
            choose = torch.maximum if isinstance(e, sympy.Max) else torch.minimum
            result = choose(torch.as_tensor(result), torch.as_tensor(other))
        else:
            raise InterpreterError(f"cannot evaluate {type(e).__name__} in an index expression")
    return result


def _positions(
    op: prims.IndexedOp, operand: Tensor, indices: Sequence[Tensor], shape: Sequence[int], env: Environment
) -> Tensor:
    """The position in the flattened operand of each point of the domain. Raises what the op says outside of it."""
    symbols: dict[str, Tensor] = {f"i{k}": i.to(torch.int64) for k, i in enumerate(indices)}
    for k, n in enumerate(shape):
        symbols[f"d{k}"] = torch.arange(n).reshape([-1 if d == k else 1 for d in range(len(shape))])
    position = torch.zeros(list(shape), dtype=torch.int64)
    for e, size in zip(op.exprs("index"), operand.shape, strict=True):
        index = torch.as_tensor(evaluate_index(e, symbols, env)).expand(list(shape))
        if bool(((index < 0) | (index >= size)).any()):
            raise error(op.word("message") if "message" in op.properties else f"{op.name} leaves its operand")
        position = position * size + index
    return position


def _gather(op: prims.GatherOp | prims.SubviewOp, operands: Sequence[Tensor], env: Environment) -> tuple[Tensor]:
    shape = _shape(op.result, env)
    position = _positions(op, operands[0], operands[1:], shape, env)
    return (operands[0].reshape(-1)[position],)


_SCATTER_REDUCE = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def _scatter(op: prims.ScatterOp, operands: Sequence[Tensor], env: Environment) -> tuple[Tensor]:
    operand, *indices, source = operands
    position = _positions(op, operand, indices, source.shape, env).reshape(-1)
    flat, values = operand.reshape(-1).clone(), source.reshape(-1)
    combine = op.word("combine")
    if combine != "none":
        return (flat.scatter_reduce_(0, position, values, _SCATTER_REDUCE[combine]).reshape(operand.shape),)
    last = torch.full(flat.shape, -1, dtype=torch.int64)
    last.scatter_reduce_(0, position, torch.arange(values.numel()), "amax")
    written = last >= 0
    flat[written] = values[last[written]]
    return (flat.reshape(operand.shape),)


# Reductions


def _reduce(op: prims.ReduceOp, operands: Sequence[Tensor], env: Environment) -> tuple[Tensor, ...]:
    x, kind, dims = operands[0], op.word("kind"), op.ints("dims")
    kept = [d for d in range(x.dim()) if d not in dims]
    return combine(KINDS.get(kind, kind), x.permute([*kept, *dims]), len(dims), None)


def _var_mean(op: prims.VarMeanOp, operands: Sequence[Tensor], env: Environment) -> tuple[Tensor, Tensor]:
    dims = op.ints("dims")
    if not dims:
        return operands[0], operands[0] - operands[0]
    variance, mean = torch.var_mean(operands[0], dims, correction=0)
    return mean, variance


def _scan(op: prims.ScanOp, operands: Sequence[Tensor], env: Environment) -> tuple[Tensor]:
    kind = op.word("kind")
    return (scan(KINDS.get(kind, kind), operands[0], op.integer("dim"), None),)


def _sort(op: prims.SortOp, operands: Sequence[Tensor], env: Environment) -> tuple[Tensor]:
    dim = op.integer("dim")
    return (operands[0].sort(dim).values.narrow(dim, 0, _shape(op.result, env)[dim]),)


def _dot(op: prims.DotOp, operands: Sequence[Tensor], env: Environment) -> tuple[Tensor]:
    dtype = _dtype(op.result)
    wide = torch.promote_types(dtype, torch.float32) if dtype.is_floating_point else torch.int64
    lhs, rhs = (v.to(wide) for v in operands)
    return (torch.matmul(lhs, rhs).to(dtype),)


HANDLERS: Final[dict[type[prims.PrimsOp], Handler]] = {
    **{op: _elementwise(function) for op, function in ELEMENTWISE.items()},
    prims.CheckedOp: _checked,
    prims.ConvertOp: _convert,
    prims.BitcastOp: _bitcast,
    prims.FullOp: _full,
    prims.IotaOp: _iota,
    prims.BroadcastOp: _broadcast,
    prims.ReshapeOp: _reshape,
    prims.TransposeOp: _transpose,
    prims.SliceOp: _slice,
    prims.FlipOp: _flip,
    prims.PadOp: _pad,
    prims.CatOp: _cat,
    prims.GatherOp: _gather,
    prims.SubviewOp: _gather,
    prims.ScatterOp: _scatter,
    prims.ReduceOp: _reduce,
    prims.VarMeanOp: _var_mean,
    prims.ScanOp: _scan,
    prims.SortOp: _sort,
    prims.DotOp: _dot,
}
