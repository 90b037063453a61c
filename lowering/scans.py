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


def scan_lanes(s: ScalarCode, kind: str, state: SSAValue, value: SSAValue) -> SSAValue:
    """The running value along the lanes after `state`: each joins the one 1, 2, 4, … lanes before. Products of floats
    go from lane to lane, as in eager: two that vanish together do not after a large one, and infinity stays it.
    """
    b, lanes, step = s.b, lanes_of(value), 1
    type = element_of(value)
    if kind == "mul" and not isinstance(type, IntegerType):
        last = b.extract(state, 0)
        for i in range(lanes):
            last = joined(s, kind, last, b.extract(value, i))
            value = b.insert(value, last, i)
        return value
    first = s.same(-0.0, value) if kind == "add" and not isinstance(type, IntegerType) else None
    if first is None:
        first = b.splat(identity(s, "max" if kind == "logaddexp" else kind, type), lanes)
    while step < lanes:
        earlier = b.shuffle(first, value, range(lanes - step, 2 * lanes - step))
        value = joined(s, kind, earlier, value)
        step *= 2
    return joined(s, kind, state, value)
