"""Random complex numbers: each part is random by itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .complex_value import PARTS, Pair
from .decomposition import RULES, Call
from .decompositions_complex import complex_rule
from .decompositions_random import normal_of, uniform_of
from .prims_builder import Value


def _random(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers `function(call, *args)` for one part, which is not asked where a generator is given."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        def lowered(call: Call, *args: Any) -> Any:
            place = call.op.schema.index.get("generator")
            if place is not None and args[place] is not None:
                return NotImplemented
            if call.type.dtype not in PARTS:  # real ones like a complex tensor
                return RULES[call.op.name].function(call, *args)
            return Pair(*(function(call, PARTS[call.type.dtype], *args) for _ in range(2)))

        complex_rule(*names)(lowered)
        return function

    return register


@_random("aten.randn", "aten.randn_like", "aten.randn.generator", "aten.randn_like.generator")
def randn(call: Call, part: str, *rest: Any) -> Value:
    """Of variance 1 together."""
    return normal_of(call, part) * math.sqrt(0.5)


@_random("aten.rand", "aten.rand_like", "aten.rand.generator", "aten.rand_like.generator")
def rand(call: Call, part: str, *rest: Any) -> Value:
    return uniform_of(call, part)


@_random("aten.normal_functional")
def normal(call: Call, part: str, x: Pair, mean: float, std: float, *rest: Any) -> Value:
    """The deviation is that of both parts together, the mean that of each, as in ATen."""
    return normal_of(call, part) * (std * math.sqrt(0.5)) + mean


@_random("aten.uniform")
def uniform(call: Call, part: str, x: Pair, low: float, high: float, *rest: Any) -> Value:
    return uniform_of(call, part) * (high - low) + low
