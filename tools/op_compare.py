"""Results of a compiled call against eager's: values, dtypes, sizes, strides, and the memory they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree


class Mismatch(Exception):
    """A result that is not eager's."""


Tolerances = Mapping[torch.dtype, tuple[float, float]]
"""Relative and absolute ones."""


def compare(
    actual: Any,
    expected: Any,
    *,
    values: bool,
    exact: Callable[[], list[Any]],
    nearby: Callable[[], Iterable[list[Any]]] = tuple,
    what: str = "result",
    strides: bool = True,
    tolerances: Tolerances | None = None,
) -> None:
    """Raises Mismatch where structure, dtypes, sizes, strides or values differ.

    Values are eager's within the tolerances of torch.testing, or no further from float64 than 1.5 times eager's, or
    eager's on inputs that are off by a rounding; or within `tolerances`, which torch's tests allow the operator.
    """
    ours, theirs = pytree.tree_leaves(actual), pytree.tree_leaves(expected)
    if len(ours) != len(theirs):
        raise Mismatch(f"{len(ours)} {what}s, eager has {len(theirs)}")
    for i, (a, e) in enumerate(zip(ours, theirs, strict=True)):
        name = f"{what} {i}"
        if not isinstance(e, torch.Tensor):
            if type(a) is not type(e) or not (a == e or a != a):
                raise Mismatch(f"{name} is {a!r}, eager's {e!r}")
            continue
        if a.shape != e.shape or a.dtype != e.dtype or a.layout != e.layout:
            raise Mismatch(f"{name} is {shown(a)}, eager's {shown(e)}")
        if a.device != e.device:
            raise Mismatch(f"{name} is on {a.device}, eager's on {e.device}")
        if strides and e.layout is torch.strided and not same_strides(a, e):
            raise Mismatch(f"{name} has strides {a.stride()}, eager's {e.stride()} of {shown(e)}")
        if values:
            _compare_values(name, a, e, i, exact, nearby, (tolerances or {}).get(e.dtype))


def _compare_values(
    name: str,
    a: torch.Tensor,
    e: torch.Tensor,
    i: int,
    exact: Callable[[], list[Any]],
    nearby: Callable[[], Iterable[list[Any]]],
    allowed: tuple[float, float] | None,
) -> None:
    try:
        torch.testing.assert_close(a, e, equal_nan=True)
        return
    except AssertionError as different:
        text = " ".join(str(different).split())
    if not (e.is_floating_point() or e.is_complex()) or not torch.equal(a.isnan(), e.isnan()):
        raise Mismatch(f"{name}: {text}; ours {_some(a)}, eager's {_some(e)}")
    try:
        reference = exact()[i].to(torch.complex128)

        def error(t: torch.Tensor) -> torch.Tensor:
            return (t.to(torch.complex128) - reference).abs().nan_to_num(0.0).max()

        own, eager = error(a), error(e)
        if not own <= 1.5 * eager:
            eager = max([eager, *(error(results[i]) for results in nearby())])
    except Exception:  # torch may lack the operator in float64
        raise Mismatch(f"{name}: {text}") from None
    relative, absolute = allowed or (0.0, 0.0)
    if not own <= 1.5 * eager and not torch.allclose(a, e, relative, absolute, equal_nan=True):
        raise Mismatch(f"{name}: error {own:.3g}, eager's {eager:.3g}: {text}; ours {_some(a)}, eager's {_some(e)}")


def _some(t: torch.Tensor) -> str:
    return str(t.flatten()[:6].tolist())


def same_strides(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Those of dims of size one or zero too, which say nothing of where elements lie."""
    return a.stride() == b.stride()


def aliases(out: Any, inputs: Sequence[torch.Tensor]) -> list[int]:
    """For each result, the first input in whose memory it lies, or -1."""
    memory: dict[int, int] = {}
    for i, t in enumerate(inputs):
        if has_memory(t):
            memory.setdefault(t.untyped_storage().data_ptr(), i)
    tensors = [t for t in pytree.tree_leaves(out) if isinstance(t, torch.Tensor)]
    return [memory.get(t.untyped_storage().data_ptr(), -1) if has_memory(t) else -1 for t in tensors]


def has_memory(t: torch.Tensor) -> bool:
    """Not the zeros that autograd makes without memory, for one."""
    return t.layout is torch.strided and t.numel() > 0 and not t._is_zerotensor()


def copies(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Tensors with values and layout of these in copies of their memory; what shares memory does so again."""
    made: dict[int, torch.Tensor] = {}
    memory: dict[int, torch.UntypedStorage] = {}
    return [made[id(t)] if id(t) in made else made.setdefault(id(t), _copy(t, memory)) for t in tensors]


def _copy(t: torch.Tensor, memory: dict[int, torch.UntypedStorage]) -> torch.Tensor:
    if t.layout is not torch.strided or t.is_quantized or t.is_nested or t.is_conj() or t.is_neg():
        return t.detach().clone().requires_grad_(t.requires_grad)
    storage = t.untyped_storage()
    copied = memory.setdefault(storage.data_ptr(), storage.clone()) if storage.nbytes() else storage.clone()
    made = torch.empty(0, dtype=t.dtype, device=t.device).set_(copied, t.storage_offset(), t.shape, t.stride())
    return made.requires_grad_(t.requires_grad)


def shown(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        strides = "" if value.layout is not torch.strided or value.is_contiguous() else f" strides {value.stride()}"
        return f"{str(value.dtype)[6:]}{list(value.shape)}{strides}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(shown, value))}]"
    return repr(value)
