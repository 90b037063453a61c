"""Dtypes of tensors that results are written to: with `out=` ATen converts to them in some functions, in others it
raises, and what is computed in place it converts within a kind of dtypes; where torch traces, it converts in all.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
from torch._subclasses import FakeTensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves, tree_map_only

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

_IN_PLACE: Final[Mapping[Any, str]] = {
    **{f"{name}_": name for name in ("add", "ldexp", "logit", "mul", "multiply", "sub", "subtract")},
    **{operator.iadd: "add", operator.imul: "mul", operator.isub: "sub"},
}
"""What is computed in place and converted unchecked where torch traces, and the method that makes a new tensor."""


def check_results_given(graph: GraphModule) -> None:
    """Raises RuntimeError where a call of TorchDynamo's graph writes to a dtype that ATen may refuse."""
    for node in graph.graph.nodes:
        _check_in_place(node)
        if (given := node.kwargs.get("out")) is None or getattr(node.target, "__name__", "") in _CONVERTING:
            continue
        made, wanted = _dtypes(_made(node)), _dtypes(_value(given))
        if made and made != wanted:
            raise RuntimeError(f"{node.target} may not take results of {wanted} for those of {made}")


def _check_in_place(node: Node) -> None:
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    if (method := _IN_PLACE.get(node.target) or _IN_PLACE.get(name)) is None or not node.args:
        return
    x, *others = _value(node.args)
    if not isinstance(x, FakeTensor):
        return
    with x.fake_mode, torch.no_grad():
        x, others, named = tree_map_only(torch.Tensor, _smallest, (x, others, _value(node.kwargs)))
        made = getattr(torch.Tensor, method)(x, *others, **named)
    if not torch.can_cast(made.dtype, x.dtype):
        raise RuntimeError(f"result type {made.dtype} can't be cast to the desired output type {x.dtype}")


def _smallest(t: torch.Tensor) -> torch.Tensor:
    """A tensor that dtypes are as much of: its sizes may have been changed in place since the call."""
    return t.new_empty([1] * min(t.dim(), 1))


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
