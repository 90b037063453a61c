"""What torch says wrongly of results when it traces with fake tensors: how they lie (`fake_layouts`, and here what is
indexed or rolled), and the dtype of a bool to the power of one.

And what torch 2.11 does: indices, counts and sums have the dtype of the input there, and of `_unique`, in the
derivative of `index_fill`, it says the size that zeros give. What flash attention keeps for its derivative is f32
there, of f64 too. Norms keep a dim of one element that is counted from the end, and `zero` gives other strides than its
input's.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import _meta_registrations
from torch import _prims_common as _prims
from torch._refs.linalg import vector_norm
from torch._subclasses import FakeTensorMode
from torch._subclasses import fake_impls as _fake_impls
from torch.fx.experimental.symbolic_shapes import guard_or_false

from .fake_layouts import Given, iterated, laid_out, layout_of, with_strides
from .right_decompositions import right_decompositions

_aten: Any = torch.ops.aten
_kernels: Any = _fake_impls
_metas: Any = _meta_registrations
_FakeMode: Any = FakeTensorMode
_IS_OLD = torch.__version__ < "2.13"
_KERNELS: dict[Any, Callable[..., Any]] = _kernels.op_implementations_dict


def _as(t: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return t if t.dtype == dtype else t.new_empty(t.shape, dtype=dtype)


def _values_first(results: Any, given: Given) -> Any:
    values, *rest = results
    return (values, *(_as(t, torch.int64) for t in rest))


def _weighted(result: Any, given: Given) -> Any:
    """Sums of weights are f64, but those of f32; without weights they are counts."""
    if (weights := given.get("weights")) is None:
        return _as(result, torch.int64)
    return _as(result, torch.float32 if weights.dtype == torch.float32 else torch.float64)


def _attention(results: Any, given: Given) -> Any:
    values, logsumexp = results
    return values, torch.empty_like(logsumexp, dtype=torch.float64) if values.dtype == torch.float64 else logsumexp


def _indexed(result: Any, given: Given) -> Any:
    """Its elements lie in the order of x's and of the indices', as those of any elementwise operator do; an index of
    no dims is repeated along those of others.
    """
    x, indices = given["self"], list(given["indices"])
    if any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in indices):
        return result
    indices += [None] * (x.dim() - len(indices))
    places = [d for d, i in enumerate(indices) if i is not None]
    rest = [d for d, i in enumerate(indices) if i is None]
    first = places[0] if places == list(range(places[0], places[0] + len(places))) else 0
    before, after = rest[:first], rest[first:]
    common = torch.broadcast_shapes(*(indices[d].shape for d in places))
    repeated = [indices[d].expand(common) for d in places]
    if x.device.type == "cuda" and len({t.stride() for t in repeated}) > 1:
        repeated = [t.contiguous() for t in repeated]
    shape = [*(x.shape[d] for d in before), *common, *(x.shape[d] for d in after)]
    strides = [*(x.stride(d) for d in before), *[0] * len(common), *(x.stride(d) for d in after)]
    ones = [1] * len(before), [1] * len(after)
    operands = [
        x.as_strided(shape, strides),
        *(t.reshape(ones[0] + [*common] + ones[1]).expand(shape) for t in repeated),
    ]
    return with_strides(result, iterated(shape, operands))


def _rolled(result: Any, given: Given) -> Any:
    """On CPUs it is `cat` of two parts, which keeps the order of images' channels unless one is empty."""
    x, dims = given["self"], given.get("dims", ())
    order = _prims.suggest_memory_format(x)
    if x.device.type != "cpu" or not dims or order is torch.contiguous_format:
        return result
    shifts = zip(given["shifts"], dims, strict=True)
    if any(guard_or_false(shift % x.shape[d] == 0) for shift, d in shifts):
        return result
    return with_strides(result, torch.empty_like(result, memory_format=order).stride())


def _power(result: Any, given: Given) -> Any:
    """A bool to the power of one: a copy, or ones."""
    x, exponent = given["self"], given["exponent"]
    return _as(result, torch.bool) if x.dtype == torch.bool and isinstance(exponent, bool) else result


_MENDS = {
    _aten.pow.Tensor_Scalar: _power,
    _aten._unique.default: _values_first,
    _aten._unique2.default: _values_first,
    _aten.unique_dim.default: _values_first,
    _aten.unique_consecutive.default: _values_first,
    _aten.bincount.default: _weighted,
    _aten._scaled_dot_product_flash_attention_for_cpu.default: _attention,
    _aten.index.Tensor: _indexed,
    _aten._unsafe_index.Tensor: _indexed,
    _aten.roll.default: _rolled,
}
"""What makes the results of a fake kernel right, by operator; it is told the arguments."""


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


def _laid_over(mode: Any, function: Any, x: Any, memory: Any) -> Any:
    """Of memory whose size is a symbol, torch would ask for the number."""
    with mode:
        return x.set_(memory, 0, [memory.nbytes() // x.itemsize], [1])


_INSTEAD = {
    operator: kernel
    for operator, kernel in {
        **({_aten.zero.default: _zero, _aten.linalg_vector_norm.default: _norm} if _IS_OLD else {}),
        _aten._unique.default: _unique,
        _aten.set_.source_Storage: _laid_over,
        _aten._scaled_dot_product_flash_attention_for_cpu.default: _flash_attention,
    }.items()
    if operator not in _KERNELS
}
"""Kernels for operators that have none: theirs would be the real one, of zeros, or one of the meta device."""

_REMEMBERED: dict[Any, Any] = {}
_run: Any = _FakeMode._dispatch_impl
_run_or_remember: Any = _FakeMode._cached_dispatch_impl


def _mended(mode: Any, operator: Any, result: Any, args: Sequence[Any], keywords: Given) -> Any:
    layout = layout_of(operator, result)
    if layout is None and operator not in _MENDS:
        return result
    given = {**dict(zip((a.name for a in operator._schema.arguments), args, strict=False)), **keywords}
    with mode:
        if operator in _MENDS:
            result = _MENDS[operator](result, given)
        return result if layout is None else laid_out(result, layout, given)


def _right(mode: Any, operator: Any, types: Any, args: Sequence[Any], keywords: Given) -> Any:
    if operator in _INSTEAD:
        result = _INSTEAD[operator](mode, operator, *args, **keywords)
    else:
        result = _run(mode, operator, types, args, keywords)
    return _mended(mode, operator, result, args, keywords)


def _right_or_remembered(mode: Any, operator: Any, types: Any, args: Sequence[Any], keywords: Given) -> Any:
    if operator in _INSTEAD or operator in _MENDS:
        return _right(mode, operator, types, args, keywords)
    return _mended(mode, operator, _run_or_remember(mode, operator, types, args, keywords), args, keywords)


@contextmanager
def right_fakes() -> Generator[None]:
    """A context in which operators are traced as they are. What torch remembers is read meanwhile, not added to."""
    remembered: Any = {} if _IS_OLD else ChainMap(_REMEMBERED, FakeTensorMode.cache)
    with (
        right_decompositions(),
        patch.object(FakeTensorMode, "_dispatch_impl", _right),
        patch.object(FakeTensorMode, "_cached_dispatch_impl", _right_or_remembered),
        patch.object(FakeTensorMode, "cache", remembered),
    ):
        yield
