"""What torch says wrongly of results when it traces with fake tensors: how they lie (`fake_layouts`, and here what is
indexed or rolled), and the dtype of a bool to the power of one.

And what torch 2.11 does: indices, counts and sums have the dtype of the input there, and of `_unique`, in the
derivative of `index_fill`, it says the size that zeros give. What flash attention keeps for its derivative is f32
there, of f64 too. Norms keep a dim of one element that is counted from the end, and `zero` gives other strides than its
input's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from unittest.mock import patch

import torch
from torch import _meta_registrations
from torch import _prims_common as _prims
from torch._refs.linalg import vector_norm
from torch._subclasses import FakeTensorMode
from torch._subclasses import fake_impls as _fake_impls
from torch._subclasses import fake_tensor as _fake_tensor
from torch.fx.experimental.symbolic_shapes import (
    GuardOnDataDependentSymNode,
    guard_or_false,
)

from .fake_branches import right_branches
from .fake_checks import CHECKS
from .fake_layouts import Given, laid_out, layout_of
from .fake_size_checks import CHANNEL_NORMS
from .fake_strides import has_no_elements, in_order, iterated, like, same_strides, with_strides
from .known_sizes import known_sizes
from .right_decompositions import right_decompositions

log = logging.getLogger("lamella")

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
    if x.device.type == "cuda" and not all(same_strides(repeated[0], t) for t in repeated[1:]):
        repeated = [t.new_empty_strided(common, in_order(common)) for t in repeated]
    shape = [*(x.shape[d] for d in before), *common, *(x.shape[d] for d in after)]
    strides = [*(x.stride(d) for d in before), *[0] * len(common), *(x.stride(d) for d in after)]
    ones = [1] * len(before), [1] * len(after)
    operands = [
        result.new_empty_strided(shape, strides),
        *(t.reshape(ones[0] + [*common] + ones[1]) for t in repeated),
    ]
    strides = iterated(shape, operands)
    if result.dim() != len(shape):  # where an index of no dims is the first, torch says its sizes
        return result.new_empty_strided(shape, strides)
    return with_strides(result, strides)


def _rolled(result: Any, given: Given) -> Any:
    """On CPUs it is `cat` of two parts, which keeps the order of images' channels unless one is empty. Without elements
    it is a copy there. All else is contiguous.
    """
    x, dims = given["self"], given.get("dims", ())
    is_copy = x.device.type == "cpu" and (dims or x.dim() == 1)
    if is_copy and has_no_elements(x):
        return with_strides(result, like(x))
    if x.device.type != "cpu" or not dims:
        return with_strides(result, in_order(x.shape))
    order = _prims.suggest_memory_format(x)
    if order is torch.contiguous_format:
        return result
    shifts = zip(given["shifts"], dims, strict=True)
    if any(guard_or_false(shift % x.shape[d] == 0) for shift, d in shifts):
        return result
    return with_strides(result, torch.empty_like(result, memory_format=order).stride())


def _normalized(results: Any, given: Given) -> Any:
    """Statistics are f32 where parameters or running statistics of an input of f16 or bf16 are, and running statistics
    keep their dtype. Batch and layer norms' on GPUs are f32 anyway.
    """
    x = given["input"]
    values, mean, rstd, *rest = results
    running = [given.get(name) for name in ("running_mean", "running_var")]
    others = (*running, given.get("weight"), given.get("bias"))
    if x.dtype in (torch.float16, torch.bfloat16) and any(t is not None and t.dtype == torch.float32 for t in others):
        mean, rstd = (_as(t, torch.float32) if t.dtype == x.dtype else t for t in (mean, rstd))
    if len(rest) >= 2:  # new running statistics, after what cuDNN keeps
        rest[-2:] = (t if r is None else _as(t, r.dtype) for t, r in zip(rest[-2:], running, strict=True))
    return (values, mean, rstd, *rest)


def _group_derivative(results: Any, given: Given) -> Any:
    """That of the input has its dtype, whichever the statistics have."""
    of_input, *rest = results
    return (None if of_input is None else _as(of_input, given["input"].dtype), *rest)


def _weight_norms(results: Any, given: Given) -> Any:
    """Norms of f16 are f32, as those of bf16 are."""
    values, norms = results
    return values, _as(norms, torch.float32) if norms.dtype == torch.float16 else norms


def _powers(results: Any, given: Given) -> Any:
    """Each as `_power` has it."""
    return [_power(y, {"self": x, "exponent": given["exponent"]}) for y, x in zip(results, given["self"], strict=True)]


def _summed(result: Any, given: Given) -> Any:
    """No dims are all dims."""
    if given.get("dim") or result.dim() == 0:
        return result
    return result.new_empty([1] * given["self"].dim() if given.get("keepdim", False) else [])


def _segments(result: Any, given: Given) -> Any:
    """torch 2.11 adds a dim where the axis is counted from the end."""
    x, lengths = given["data"], given.get("lengths")
    if lengths is None or result.dim() == x.dim():
        return result
    axis = given.get("axis", 0) % x.dim()
    return x.new_empty([*x.shape[:axis], lengths.shape[axis], *x.shape[axis + 1 :]])


def _filled(result: Any, given: Given) -> Any:
    """A complex number without a dtype has parts of f32, where that is narrower by default, too."""
    is_narrow = isinstance(given["fill_value"], complex) and given.get("dtype") is None
    return _as(result, torch.complex64) if is_narrow and result.dtype == torch.complex32 else result


def _bags(results: Any, given: Given) -> Any:
    """Integers have the common dtype of indices and offsets. Sums of bf16 do not need the bag of each element on CPUs,
    as those of f32 and f16 do not.
    """
    weight, indices, weights = given["weight"], given["indices"], given.get("per_sample_weights")
    values, bags, *rest = results
    is_quick = (
        weight.device.type == "cpu"
        and weight.dtype == torch.bfloat16
        and given.get("mode", 0) == 0
        and given.get("padding_idx", -1) < 0
        and guard_or_false(weight.stride(1) == 1)
        and (weights is None or guard_or_false(weights.stride(0) == 1))
    )
    integer = torch.promote_types(indices.dtype, given["offsets"].dtype)
    return (values, *(_as(t, integer) for t in (bags.new_empty(0) if is_quick else bags, *rest)))


def _power(result: Any, given: Given) -> Any:
    """A bool to the power of one: a copy, or ones."""
    x, exponent = given["self"], given["exponent"]
    return _as(result, torch.bool) if x.dtype == torch.bool and isinstance(exponent, bool) else result


_NORMS = (
    *CHANNEL_NORMS,
    _aten._native_batch_norm_legit_functional.default,
    _aten._batch_norm_with_update_functional.default,
    _aten.native_layer_norm.default,
)
_MENDS = {
    _aten.pow.Tensor_Scalar: _power,
    _aten._foreach_pow.Scalar: _powers,
    _aten._unique.default: _values_first,
    _aten._unique2.default: _values_first,
    _aten.unique_dim.default: _values_first,
    _aten.unique_consecutive.default: _values_first,
    _aten.bincount.default: _weighted,
    _aten._scaled_dot_product_flash_attention_for_cpu.default: _attention,
    _aten.index.Tensor: _indexed,
    _aten._unsafe_index.Tensor: _indexed,
    _aten.roll.default: _rolled,
    _aten.full.default: _filled,
    _aten.nansum.default: _summed,
    _aten.segment_reduce.default: _segments,
    **dict.fromkeys(_NORMS, _normalized),
    _aten.native_group_norm_backward.default: _group_derivative,
    _aten._weight_norm_interface.default: _weight_norms,
    **dict.fromkeys((_aten._embedding_bag.default, _aten._embedding_bag_forward_only.default), _bags),
}
"""What makes the results of a fake kernel right, by operator; it is told the arguments. Right ones are left as they
are: what is remembered comes by again.
"""


def _given(operator: Any, args: Sequence[Any], keywords: Given) -> dict[str, Any]:
    return {**dict(zip((a.name for a in operator._schema.arguments), args, strict=False)), **keywords}


def _unique(mode: Any, function: Any, x: Any, sorted: bool = True, return_inverse: bool = False) -> Any:
    """As `_unique2`, whose size is a symbol."""
    values, inverse, _ = _KERNELS[_aten._unique2.default](mode, function, x, sorted, return_inverse, False)
    return values, inverse


def _unique_rows(mode: Any, function: Any, x: Any, *args: Any, **keywords: Any) -> Any:
    """With a dim that is not counted from the end."""
    given = _given(function, (x, *args), keywords)
    del given["self"]
    if given.get("dim") is not None:
        given["dim"] %= max(x.dim(), 1)
    return _KERNELS[function](mode, function, x, **given)


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


def _bicubic_derivative(
    mode: Any, function: Any, gradient: Any, output_size: Any, input_size: Any, *args: Any, **keywords: Any
) -> Any:
    """torch's own takes no symbolic sizes."""
    return gradient.new_empty(input_size)


def _laid_over(mode: Any, function: Any, x: Any, memory: Any) -> Any:
    """Of memory whose size is a symbol, torch would ask for the number."""
    with mode:
        return x.set_(memory, 0, [memory.nbytes() // x.itemsize], [1])


_MISSING: dict[Any, Callable[..., Any]] = {
    **({_aten.zero.default: _zero, _aten.linalg_vector_norm.default: _norm} if _IS_OLD else {}),
    _aten._unique.default: _unique,
    _aten._upsample_bicubic2d_aa_backward.default: _bicubic_derivative,
    _aten.set_.source_Storage: _laid_over,
    _aten._scaled_dot_product_flash_attention_for_cpu.default: _flash_attention,
}
"""Kernels for operators that may have none: theirs would be the real one, of zeros, or one of the meta device."""
_INSTEAD: dict[Any, Callable[..., Any]] = {
    **{operator: kernel for operator, kernel in _MISSING.items() if operator not in _KERNELS},
    **dict.fromkeys((_aten.unique_consecutive.default, _aten.unique_dim.default), _unique_rows),
}

_run: Any = _FakeMode._dispatch_impl
_run_or_remember: Any = _FakeMode._cached_dispatch_impl


class RuleFailed(Exception):
    """A bug in a rule of this file or of `fake_layouts`."""


_is_strict: ContextVar[bool] = ContextVar("is_strict", default=False)


def _mended(mode: Any, operator: Any, result: Any, args: Sequence[Any], keywords: Given) -> Any:
    """The result with what is wrong of it mended; where a rule raises, the result as torch has it, unless strict."""
    try:
        layout = layout_of(operator, result, args)
        if layout is None and operator not in _MENDS:
            return result
        given = _given(operator, args, keywords)
        with mode:
            mended = _MENDS[operator](result, given) if operator in _MENDS else result
            return mended if layout is None else laid_out(operator, mended, layout, given)
    except GuardOnDataDependentSymNode:  # it depends on sizes that no one knows yet
        return result
    except Exception as error:  # a wrong stride is better than no program
        if _is_strict.get():
            raise RuleFailed(f"the rule of {operator} failed") from error
        log.debug("the rule of %s failed, its results are as torch says: %r", operator, error)
        return result


def _right(mode: Any, operator: Any, types: Any, args: Sequence[Any], keywords: Given) -> Any:
    if operator in _INSTEAD:
        result = _INSTEAD[operator](mode, operator, *args, **keywords)
    else:
        result = _run(mode, operator, types, args, keywords)
    return _mended(mode, operator, result, args, keywords)


def _right_or_remembered(mode: Any, operator: Any, types: Any, args: Sequence[Any], keywords: Given) -> Any:
    if operator in CHECKS:
        with mode:
            CHECKS[operator](_given(operator, args, keywords))
    if operator in _INSTEAD:
        return _right(mode, operator, types, args, keywords)
    return _mended(mode, operator, _run_or_remember(mode, operator, types, args, keywords), args, keywords)


class _Remembered:
    """torch's cache of fake results, with ours in it under keys that only we ask for, so that it is emptied of both."""

    def __init__(self, cache: dict[Any, Any]) -> None:
        self.cache = cache

    def get(self, key: Any, default: Any = None) -> Any:
        return self.cache.get((_OURS, key)) or self.cache.get(key, default)

    def __setitem__(self, key: Any, entry: Any) -> None:
        self.cache[_OURS, key] = entry

    def __contains__(self, key: object) -> bool:
        return (_OURS, key) in self.cache or key in self.cache

    def __len__(self) -> int:
        return len(self.cache)

    def pop(self, key: Any, default: Any = None) -> None:
        self.cache.pop((_OURS, key), None)
        self.cache.pop(key, None)

    def clear(self) -> None:
        self.cache.clear()


_OURS = object()


@contextmanager
def right_fakes(strict: bool = False) -> Generator[None]:
    """A context in which operators are traced as they are. What torch remembers is read meanwhile, and what we do lies
    beside it. With `strict`, a rule of ours that raises is an error.
    """
    cache: Any = FakeTensorMode.cache
    remembered: Any = {} if _IS_OLD else _Remembered(getattr(cache, "cache", cache))

    def forget(key: Any) -> None:  # an object whose address is in the key is gone
        remembered.pop(key, None)

    token = _is_strict.set(strict)
    try:
        with (
            right_decompositions(),
            right_branches(),
            known_sizes(),
            patch.object(FakeTensorMode, "_dispatch_impl", _right),
            patch.object(FakeTensorMode, "_cached_dispatch_impl", _right_or_remembered),
            patch.object(FakeTensorMode, "cache", remembered),
            patch.object(_fake_tensor, "evict_fake_tensor_cache_key", forget),
        ):
            yield
    finally:
        _is_strict.reset(token)
