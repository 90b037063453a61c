"""Running values: what they are kept in, and how they come about along the lanes of a vector."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType, f32, f64
from xdsl.ir import Attribute, SSAValue

from ..dialects.loop import ScanOp
from ..dialects.tensor import HALF_TYPES
from .llvm_builder import element_of, lanes_of
from .reductions import combine, identity
from .scalar_to_llvm import ScalarCode


def scan_type(s: ScanOp) -> Attribute:
    """What a running value is kept in: sums and products of floats in f64, as eager does."""
    type = s.value.type
    if isinstance(type, IntegerType):
        return type
    return f64 if s.kind.data in ("add", "mul") else f32 if isinstance(type, HALF_TYPES) else type


def joined(s: ScalarCode, kind: str, a: SSAValue, b: SSAValue) -> SSAValue:
    """The running value after `a` and then `b`. Of equal extremes, as 0 and -0 are, the later one stands."""
    if kind in ("max", "min") and not isinstance(element_of(a), IntegerType):
        a, b = s.b.same_lanes(a, b)
        return s.maximum(b, a, "oge" if kind == "max" else "ole")
    return combine(s, kind, a, b)


def scan_lanes(s: ScalarCode, kind: str, value: SSAValue) -> SSAValue:
    """The running value along the lanes: each joins the one 1, 2, 4, … lanes before."""
    b, lanes, step = s.b, lanes_of(value), 1
    type = element_of(value)
    first = s.same(-0.0, value) if kind == "add" and not isinstance(type, IntegerType) else None
    if first is None:
        first = b.splat(identity(s, "max" if kind == "logaddexp" else kind, type), lanes)
    while step < lanes:
        earlier = b.shuffle(first, value, range(lanes - step, 2 * lanes - step))
        value = joined(s, kind, earlier, value)
        step *= 2
    return value
