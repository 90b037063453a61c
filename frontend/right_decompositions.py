"""Operators that torch says wrongly in terms of others while AOTAutograd traces: what they compute, or how it lies."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey
from torch._decomp.decompositions import upsample_compute_output_size
from torch._prims_common import suggest_memory_format
from torch.fx.experimental.symbolic_shapes import guard_or_true

from ..lowering.margin_losses import MARGIN_LOSSES
from .fake_images import in_format
from .fake_strides import in_order, is_same

_aten: Any = torch.ops.aten
_AUTOGRAD: Any = DispatchKey.Autograd  # pyright: ignore[reportAttributeAccessIssue]
_COMPOSITE: Any = DispatchKey.CompositeImplicitAutograd  # pyright: ignore[reportAttributeAccessIssue]


def _formatted(result: Tensor, strides: Sequence[Any], order: torch.memory_format) -> Tensor:
    same = all(map(is_same, result.stride(), strides))
    return result if same else result.clone(memory_format=order)


def _max_pool1d(input: Tensor, *args: Any, **keywords: Any) -> Tensor:
    """Where no gradient is asked for, ATen's `max_pool1d` is a kernel of its own on CPUs. Its result is contiguous."""
    result = _aten.max_pool1d.default._op_dk(_COMPOSITE, input, *args, **keywords)
    if input.device.type != "cpu" or (input.requires_grad and torch.is_grad_enabled()):
        return result
    if not input.is_floating_point():
        raise RuntimeError("not implemented for a dtype")
    return _formatted(result, in_order(result.shape), torch.contiguous_format)


def _one_hot(self: Tensor, num_classes: int = -1) -> Tensor:
    """ATen's `one_hot` writes ones in zeros; where it is traced it compares, also classes that there are none of, and
    the result lies as the classes do.
    """
    if num_classes != -1:
        classes = torch.arange(num_classes, device=self.device, dtype=self.dtype)
        self = classes.gather(0, self.reshape(-1)).reshape(self.shape)
    result = _aten.one_hot.default._op_dk(_COMPOSITE, self, num_classes)
    return _formatted(result, in_order(result.shape), torch.contiguous_format)


def _dropout(kernel: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """What is no probability raises also where nothing is dropped."""

    def decomposition(input: Tensor, p: float, train: bool | None) -> Tensor:
        if not (guard_or_true(p >= 0) and guard_or_true(p <= 1)):
            raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")
        return kernel(input, p, train)

    return decomposition


def _in_format(kernel: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Images in the format that the input suggests: `upsample_nearest2d` and its like make them so in ATen. torch asks
    for that format, which changes nothing where dims of size one make two formats one, and not for lines. ATen has
    kernels for floats and uint8, torch says what others would be.
    """

    def decomposition(input: Tensor, *args: Any, **keywords: Any) -> Tensor:
        if not input.is_floating_point() and input.dtype is not torch.uint8:
            raise RuntimeError("not implemented for a dtype")
        result = kernel(input, *args, **keywords)
        return _formatted(result, in_format(result, {"input": input}), suggest_memory_format(input))

    return decomposition


def _mixed(operator: Any) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    """Mixtures that are left as they are. Of whole numbers they are ATen's calls: their weights are fixed-point
    numbers, those of torch floats. Of floats of which no gradient is asked for our lowering multiplies each neighbour
    by its weight, as ATen does; torch adds a part of the neighbours' difference, which is NaN beside infinity.
    """
    packet = operator.overloadpacket
    weighted = packet.__name__ in _WEIGHTED

    def wrapper(kernel: Callable[..., Tensor]) -> Callable[..., Tensor]:
        of_floats = _in_format(kernel)

        def decomposition(input: Tensor, *args: Any, **keywords: Any) -> Tensor:
            derived = input.requires_grad and torch.is_grad_enabled()
            left = input.is_floating_point() and weighted and not derived
            if input.dtype is not torch.uint8 and not left:
                return of_floats(input, *args, **keywords)
            with torch._C._AutoDispatchBelowAutograd():
                if operator is packet.vec:  # as ATen, whose own takes no symbolic sizes
                    return _resized(packet.default, input, *args, **keywords)
                return operator(input, *args, **keywords)

        return decomposition

    return wrapper


def _resized(
    operator: Any,
    input: Tensor,
    output_size: Sequence[int] | None,
    align_corners: bool,
    scale_factors: Sequence[float] | None = None,
) -> Tensor:
    size: Any = upsample_compute_output_size(input.shape, output_size, scale_factors)
    return operator(input, size, align_corners, *(scale_factors or [None] * len(size)))


_OF_COMPOSITES: dict[Any, Callable[..., Any]] = {_aten.max_pool1d.default: _max_pool1d, _aten.one_hot.default: _one_hot}
_NEAREST = (
    *("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact1d"),
    *("_upsample_nearest_exact2d", "_upsample_nearest_exact3d"),
)
_WEIGHTED = ("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d")
_MIXED = (*_WEIGHTED, "upsample_bicubic2d")


def _both(names: Sequence[str]) -> list[Any]:
    return [getattr(getattr(_aten, name), which) for name in names for which in ("default", "vec")]


_WRAPPERS: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys(_both(_NEAREST), _in_format),
    **{operator: _mixed(operator) for operator in _both(_MIXED)},
    _aten.dropout.default: _dropout,
}
"""Of what torch says, where that needs little more."""

_OWN = (_aten.softshrink.default, _aten.hardshrink.default)
"""Operators that stay themselves: torch compares halves with a number that it has made one of them, and takes the
derivative at NaN from a selection.
"""


def _decompositions() -> dict[tuple[Any, Any], Callable[..., Any] | None]:
    """By operator and the key under which torch finds its own: that of composites, or the one before autograd."""
    wrapped = {
        (op, key): wrapper(op.py_kernels[key])
        for op, wrapper in _WRAPPERS.items()
        for key in (_COMPOSITE, _AUTOGRAD)
        if key in op.py_kernels
    }
    composites = {(op, _COMPOSITE): decomposition for op, decomposition in _OF_COMPOSITES.items()}
    others = {(op, _AUTOGRAD): f for op, f in MARGIN_LOSSES.items() if _AUTOGRAD in op.py_kernels}
    return wrapped | composites | others | {(op, _AUTOGRAD): None for op in _OWN}


@contextmanager
def right_decompositions() -> Generator[None]:
    """A context in which these are traced in the place of torch's."""
    ours = _decompositions()
    before = {(op, key): op.py_kernels.get(key) for op, key in ours}
    _put(ours)
    try:
        yield
    finally:
        _put(before)


def _put(kernels: Mapping[tuple[Any, Any], Callable[..., Any] | None]) -> None:
    for (op, key), kernel in kernels.items():
        if kernel is None:
            op.py_kernels.pop(key, None)
        else:
            op.py_kernels[key] = kernel
        op._dispatch_cache.clear()  # of what was found in py_kernels
