"""Dtypes of tensors that results are written to (`out=`): ATen converts to them in some functions, in others it raises;
where torch traces, it converts in all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
from torch._subclasses import FakeTensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves

_CONVERTING: Final = frozenset((
    "acos", "acosh", "add", "addcdiv", "addcmul", "angle", "asin", "asinh", "atan", "atan2", "atanh", "cat",
    "column_stack", "copysign", "cos", "cosh", "cumprod", "cumsum", "digamma", "div", "dstack", "eq", "erf",
    "erfc", "erfinv", "exp", "exp2", "expm1", "floor_divide", "fmax", "fmin", "fmod", "ge", "gt", "hstack",
    "hypot", "i0", "le", "lerp", "lgamma", "log", "log10", "log1p", "log2", "logaddexp", "logaddexp2",
    "logical_and", "logical_not", "logical_or", "logical_xor", "logit", "logsumexp", "lt", "maximum", "mean",
    "minimum", "mul", "nanmean", "nansum", "ne", "nextafter", "pow", "prod", "reciprocal", "remainder",
    "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "square", "stack", "std", "sub", "sum", "tan", "tanh",
    "true_divide", "var", "vstack", "xlogy"
))  # fmt: skip
"""Functions whose results ATen converts."""


def check_results_given(graph: GraphModule) -> None:
    """Raises RuntimeError where a call of TorchDynamo's graph has an `out=` of a dtype that ATen may refuse."""
    for node in graph.graph.nodes:
        if (given := node.kwargs.get("out")) is None or getattr(node.target, "__name__", "") in _CONVERTING:
            continue
        made, wanted = _dtypes(_made(node)), _dtypes(_value(given))
        if made and made != wanted:
            raise RuntimeError(f"{node.target} may not take results of {wanted} for those of {made}")


def _made(node: Node) -> Any:
    """What the call makes without `out`, of fake tensors."""
    keywords = {name: value for name, value in node.kwargs.items() if name != "out"}
    args: Sequence[Any] = _value(node.args)
    named: Mapping[str, Any] = _value(keywords)
    fakes = [t for t in tree_leaves((args, named)) if isinstance(t, FakeTensor)]
    if not fakes or not callable(node.target):
        return ()
    with fakes[0].fake_mode, torch.no_grad():
        return node.target(*args, **named)


def _value(argument: Any) -> Any:
    return map_arg(argument, lambda n: n.meta.get("example_value", n))


def _dtypes(values: Any) -> list[torch.dtype]:
    return [t.dtype for t in tree_leaves(values) if isinstance(t, torch.Tensor)]
