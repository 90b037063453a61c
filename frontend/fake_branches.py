"""What torch asks of results of branches and of values that loops carry: that they lie alike, also along dims of size
one, which `fake_layouts` tells as eager does. There it does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from unittest.mock import patch

import torch
from torch._higher_order_ops import utils as _utils

from .fake_strides import is_same, with_strides

_cond: Any = import_module("torch._higher_order_ops.cond")  # the package has the function under this name
_comparisons: Any = _utils
_merge: Callable[[Any, Any, Any], Any] = _cond._merge_output
_differences: Callable[..., list[str]] = _comparisons.diff_tensor_meta


def _in_line(shape: Sequence[Any], strides: Sequence[Any]) -> list[Any]:
    """The strides with those of dims of size one from the dim that follows, as in contiguous memory."""
    lined = list(strides)
    for d in reversed(range(len(lined))):
        if is_same(shape[d], 1):
            lined[d] = shape[d + 1] * lined[d + 1] if d + 1 < len(lined) else 1
    return lined


def _lined(t: torch.Tensor) -> torch.Tensor:
    return with_strides(t, _in_line(t.shape, t.stride()))


def _merged(a: Any, b: Any, mode: Any) -> Any:
    """What a `cond` returns whose branches return these. Along dims of size one it lies as both do."""
    if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)):
        return _merge(a, b, mode)
    with mode:
        merged = _merge(_lined(a), _lined(b), mode)
        dims = zip(a.shape, b.shape, a.stride(), b.stride(), merged.stride(), strict=True)
        strides = [x if is_same(n, 1) and is_same(m, 1) and is_same(x, y) else s for n, m, x, y, s in dims]
        return with_strides(merged, strides)


def _differences_that_matter(a: Any, b: Any, *others: Any, **keywords: Any) -> list[str]:
    lined = [t._replace(stride=tuple(_in_line(t.shape, t.stride))) for t in (a, b)]
    return _differences(*lined, *others, **keywords)


@contextmanager
def right_branches() -> Generator[None]:
    """A context in which torch does not compare strides along dims of size one."""
    with (
        patch.object(_cond, "_merge_output", _merged),
        patch.object(_comparisons, "diff_tensor_meta", _differences_that_matter),
    ):
        yield
