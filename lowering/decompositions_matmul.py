"""Matrix products: those that are marked (`aten-choose-products`) become `prims.dot`, or a call with factors of f32;
any other stays a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dialects import expr, prims
from ..dialects.expr import Dim
from ..dialects.prims import Number
from .complex_value import Pair
from .decomposition import Call, rule
from .decompositions_complex import complex_rule
from .prims_builder import Value
from .products import is_generated, is_widened, read_by_kernels, rounded_again
from .promotion import is_number
from .widened import called, widened

FLATTENING = frozenset({"aten.view", "aten._unsafe_view", "aten.reshape"})


def is_computed(call: Call) -> bool:
    """Whether a product is marked."""
    return is_generated(call.op) or is_widened(call.op)


def product(call: Call, x: Value, matrix: Value) -> Value:
    """x @ matrix, summed in the dtype of computation."""
    return _called(call, widened(x), widened(matrix)) if is_widened(call.op) else _dot(call, x, matrix)


def _called(call: Call, x: Value, matrix: Value) -> Value:
    """x @ matrix, by ATen's library."""
    t = x.type.with_(shape=(*x.shape[:-1], matrix.shape[-1]))
    return called(call, "aten.mm" if x.rank == 2 else "aten.bmm", (x, matrix), [t])[0]


def _dot(call: Call, x: Value, matrix: Value) -> Value:
    """x @ matrix, as a kernel.

    Rows, or a batch, that are a view of several dims, to which the result goes back, keep these dims: what follows has
    them too.
    """
    batch = _batch(call, x)
    if batch is not None:
        return x.reshape((*batch, *x.shape[1:])).dot(matrix.reshape((*batch, *matrix.shape[1:])))
    lead = _rows(call, x)
    if lead is None:
        return x.dot(matrix)
    rows = x.reshape((*lead, x.shape[-1]))
    return rows.dot(_repeated(matrix, lead[:-1]))


def _repeated(matrix: Value, batch: Sequence[Dim]) -> Value:
    """The matrix for each index of `batch`."""
    return matrix.broadcast((*batch, *matrix.shape), range(len(batch), len(batch) + 2)) if batch else matrix


def _rows(call: Call, x: Value) -> Sequence[Dim] | None:
    """The dims that the rows of `x` are a view of, if all uses of the result are views of that shape; else None."""
    owner = x.ssa.owner
    if x.rank != 2 or not isinstance(owner, prims.ReshapeOp):
        return None
    source = Value(x.b, owner.operand)
    if source.rank < 3 or source.shape[-1] != x.shape[-1]:
        return None
    lead = source.shape[:-1]
    return lead if _viewed(call) == (*lead, call.type.shape[-1]) else None


def _batch(call: Call, x: Value) -> Sequence[Dim] | None:
    """The dims that the batch of the result is always viewed as, if these are several; else None."""
    wanted = _viewed(call)
    if x.rank != 3 or wanted is None or len(wanted) < 4 or wanted[-2:] != call.type.shape[-2:]:
        return None
    return wanted[:-2] if expr.normal(expr.product(wanted[:-2])) == x.shape[0] else None


def _viewed(call: Call) -> Sequence[Dim] | None:
    """The shape of which all uses of the result are views, if there is one."""
    users = [use.operation for use in call.op.results[0].uses]
    if any(u.name not in FLATTENING for u in users):
        return None
    shapes = [_shape(u.results[0]) for u in users]
    return shapes[0] if shapes and all(s == shapes[0] for s in shapes) else None


def _shape(v: Any) -> Any:
    return getattr(v.type, "shape", None)


def _with_bias(call: Call, result: Value, bias: Value, beta: Number, alpha: Number) -> Value:
    """beta * bias + alpha * result, where a bias of NaN does not matter if beta is 0."""
    if alpha != 1:
        result = result * alpha
    if beta == 0:
        return result
    bias = bias.to(result.dtype).expand(call.type.shape).reshape(result.shape)
    return result + (bias if beta == 1 else bias * beta)


@rule("aten.mm", "aten.bmm", costly=True, of=is_number)
def mm(call: Call, x: Value, matrix: Value) -> Any:
    return product(call, x, matrix) if is_computed(call) else NotImplemented


@rule("aten.addmm", "aten.baddbmm", costly=True, of=is_number)
def addmm(call: Call, bias: Value, x: Value, matrix: Value, beta: Number, alpha: Number) -> Any:
    if is_computed(call):
        return _with_bias(call, product(call, x, matrix), bias, beta, alpha)
    on_its_own = x.dtype == "f32" or (x.dtype == "bf16" and x.type.device == "cpu" and not call.b.rounds)
    plain = x.rank == 2 and x.dtype == bias.dtype and on_its_own and alpha == beta == 1
    result = call.op.results[0]
    if not plain or not read_by_kernels(result) or (x.dtype == "bf16" and not rounded_again(result)):
        return NotImplemented
    # ATen writes the bias first and adds the product to it: a pass over the result that BLAS alone does not make. What
    # CUDA's library adds it in is slower, of f32. Of bf16 the product is rounded and not its sum with the bias; what
    # reads it is to round again, as it does where ATen rounds the sum.
    return _with_bias(call, _called(call, x, matrix).opmath(), bias, 1, 1)


@rule("aten.addbmm", costly=True, of=is_number)
def addbmm(call: Call, bias: Value, x: Value, matrix: Value, beta: Number, alpha: Number) -> Any:
    """The sum over the batch is a longer inner dim."""
    if not is_generated(call.op):
        return NotImplemented
    b, m, k = x.shape
    inner = expr.product((b, k))
    result = x.transpose([1, 0, 2]).reshape((m, inner)).dot(matrix.reshape((inner, matrix.shape[-1])))
    return _with_bias(call, result, bias, beta, alpha)


@rule("aten.dot", "aten.vdot", costly=True, of=is_number)
def dot(call: Call, x: Value, other: Value) -> Any:
    """A sum of products; `vdot` conjugates the first factor, which is real here."""
    if not is_generated(call.op):
        return NotImplemented
    return (x.opmath() * other.opmath()).reduce("sum", [0]).to(call.type.dtype)


@rule("aten.mv", costly=True, of=is_number)
def mv(call: Call, matrix: Value, vector: Value) -> Any:
    if not is_generated(call.op):
        return NotImplemented
    return matrix.dot(vector.unsqueeze(1)).reshape(call.type.shape)


@rule("aten.addmv", costly=True, of=is_number)
def addmv(call: Call, bias: Value, matrix: Value, vector: Value, beta: Number, alpha: Number) -> Any:
    if not is_generated(call.op):
        return NotImplemented
    return _with_bias(call, matrix.dot(vector.unsqueeze(1)).reshape(call.type.shape), bias, beta, alpha)


@rule("aten._int_mm", costly=True, of=is_number)
def int_mm(call: Call, x: Value, matrix: Value) -> Any:
    return x.dot(matrix, call.type.dtype) if is_generated(call.op) else NotImplemented


@rule("aten.linear", costly=True, of=is_number)
def linear(call: Call, x: Value, weight: Value, bias: Value | None) -> Any:
    if not is_computed(call) or weight.rank != 2:
        return NotImplemented
    matrix = weight.transpose([1, 0])
    if is_widened(call.op):
        result = product(call, x.reshape((expr.product(x.shape[:-1]), x.shape[-1])), matrix)
    else:
        result = (x if x.rank > 1 else x.unsqueeze(0)).dot(_repeated(matrix, x.shape[:-2]))
    result = result.reshape((*x.shape[:-1], weight.shape[0]))
    return result if bias is None else _with_bias(call, result, bias, 1, 1)


# Of complex numbers: four products of their parts


def _times(x: Pair, matrix: Pair) -> Pair:
    re, im = x.re, x.im
    return Pair(re.dot(matrix.re) - im.dot(matrix.im), re.dot(matrix.im) + im.dot(matrix.re))


@complex_rule("aten.mm", "aten.bmm")
def complex_mm(call: Call, x: Pair, matrix: Pair) -> Any:
    return _times(x, matrix) if is_generated(call.op) else NotImplemented


@complex_rule("aten.addmm", "aten.baddbmm")
def complex_addmm(call: Call, bias: Pair, x: Pair, matrix: Pair, beta: complex, alpha: complex) -> Any:
    return _with_pair(call, _times(x, matrix), bias, beta, alpha) if is_generated(call.op) else NotImplemented


@complex_rule("aten.mv")
def complex_mv(call: Call, matrix: Pair, vector: Pair) -> Any:
    return _times_vector(matrix, vector) if is_generated(call.op) else NotImplemented


@complex_rule("aten.addmv")
def complex_addmv(call: Call, bias: Pair, matrix: Pair, vector: Pair, beta: complex, alpha: complex) -> Any:
    if not is_generated(call.op):
        return NotImplemented
    return _with_pair(call, _times_vector(matrix, vector), bias, beta, alpha)


def _times_vector(matrix: Pair, vector: Pair) -> Pair:
    rows = matrix.shape[:1]
    result = _times(matrix, Pair(vector.re.unsqueeze(1), vector.im.unsqueeze(1)))
    return Pair(result.re.reshape(rows), result.im.reshape(rows))


def _with_pair(call: Call, result: Pair, bias: Pair, beta: complex, alpha: complex) -> Pair:
    """beta * bias + alpha * result."""
    if alpha != 1:
        result = result.times(alpha)
    if beta == 0:
        return result
    bias = bias.expand(call.type.shape)
    return result.plus(bias if beta == 1 else bias.times(beta))


@complex_rule("aten.dot", "aten.vdot")
def complex_dot(call: Call, x: Pair, other: Pair) -> Any:
    if not is_generated(call.op):
        return NotImplemented
    product = (x.conjugate() if call.op.name == "aten.vdot" else x).times(other)
    return Pair(product.re.reduce("sum", [0]), product.im.reduce("sum", [0]))
