"""What torch 2.11 says wrongly of results when it traces with fake tensors: indices, counts and sums have the dtype
of the input there, and of `_unique`, in the derivative of `index_fill`, it says the size that zeros give. What flash
attention keeps for its derivative is f32 there, of f64 too. Norms keep a dim of one element that is counted from the
end, and `zero` gives other strides than its input's. torch 2.13 says what the operators give.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import _meta_registrations
from torch._refs.linalg import vector_norm
from torch._subclasses import FakeTensorMode
from torch._subclasses import fake_impls as _fake_impls

_aten: Any = torch.ops.aten
_kernels: Any = _fake_impls
_metas: Any = _meta_registrations
_IS_WRONG = torch.__version__ < "2.13"
_KERNELS: dict[Any, Callable[..., Any]] = _kernels.op_implementations_dict


def _as(t: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return t if t.dtype == dtype else t.new_empty(t.shape, dtype=dtype)


def _values_first(results: Any, weights: Any) -> Any:
    values, *rest = results
    return (values, *(_as(t, torch.int64) for t in rest))


def _weighted(result: Any, weights: Any) -> Any:
    """Sums of weights are f64, but those of f32; without weights they are counts."""
    if weights is None:
        return _as(result, torch.int64)
    return _as(result, torch.float32 if weights.dtype == torch.float32 else torch.float64)


def _attention(results: Any, weights: Any) -> Any:
    values, logsumexp = results
    return values, torch.empty_like(logsumexp, dtype=torch.float64) if values.dtype == torch.float64 else logsumexp


def _as_it_is(result: Any, weights: Any) -> Any:
    return result


_MENDS = {
    **{operator: _as_it_is for operator in (_aten.zero.default, _aten.linalg_vector_norm.default) if _IS_WRONG},
    _aten._unique.default: _values_first,
    _aten._unique2.default: _values_first,
    _aten.unique_dim.default: _values_first,
    _aten.unique_consecutive.default: _values_first,
    _aten.bincount.default: _weighted,
    _aten._scaled_dot_product_flash_attention_for_cpu.default: _attention,
}
"""What makes the results of a fake kernel right, by operator; it is told the weights, if the operator has any."""


def _unique(mode: Any, function: Any, x: Any, sorted: bool = True, return_inverse: bool = False) -> Any:
    """As `_unique2`, whose size is a symbol."""
    values, inverse, _ = _KERNELS[_aten._unique2.default](mode, function, x, sorted, return_inverse, False)
    return values, inverse


def _flash_attention(mode: Any, function: Any, *args: Any, **keywords: Any) -> Any:
    with mode:
        return _metas.meta__scaled_dot_product_flash_attention_for_cpu(*args, **keywords)


def _zero(mode: Any, function: Any, x: Any) -> Any:
    with mode:
        return torch.empty_like(x)


def _norm(
    mode: Any, function: Any, x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    with mode:
        return vector_norm(x, ord, dim and [d % max(x.dim(), 1) for d in dim], keepdim, dtype=dtype)


_MISSING = {
    _aten.zero.default: _zero,
    _aten.linalg_vector_norm.default: _norm,
    _aten._unique.default: _unique,
    _aten._scaled_dot_product_flash_attention_for_cpu.default: _flash_attention,
}
"""Kernels for operators that have none: theirs would be the real one, of zeros, or one of the meta device."""


def _mended(operator: Any, mend: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    kernel = _KERNELS.get(operator) or _MISSING[operator]
    names = [a.name for a in operator._schema.arguments]

    def run(mode: Any, function: Any, *args: Any, **keywords: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **keywords}
        return mend(kernel(mode, function, *args, **keywords), given.get("weights"))

    return run


@contextmanager
def right_dtypes() -> Generator[None]:
    """A context in which these operators are traced as they are. What torch remembers of them is left alone meanwhile:
    TorchDynamo has asked before.
    """
    known = _KERNELS.keys() | _MISSING.keys()
    remembered: Any = {} if _IS_WRONG else FakeTensorMode.cache
    with (
        patch.dict(_KERNELS, {o: _mended(o, mend) for o, mend in _MENDS.items() if o in known}),
        patch.object(FakeTensorMode, "cache", remembered),
    ):
        yield
