"""Kernels that users write in Triton's Python: torch's calls of them as calls of the operator of `dialects`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
from torch._prims_common import clone_preserve_strides

from ..dialects import user_kernels
from .graph_parts import UnsupportedGraph

KERNELS: Final = frozenset({"triton_kernel_wrapper_functional", "triton_kernel_wrapper_mutation"})
"""torch's operators: one gives what was written as new tensors, the other writes to its arguments."""


def launched(
    *,
    kernel_idx: int,
    constant_args_idx: int,
    grid: Sequence[Sequence[int | torch.SymInt]],
    tma_descriptor_metadata: dict[str, Any],
    kwargs: Mapping[str, Any],
    tensors_to_clone: Sequence[str] | None = None,
    copied: Sequence[str] = (),
) -> dict[str, torch.Tensor]:
    """What torch's operators do: what was written, by name of the argument; `copied` are those that are copied first.

    Raises UnsupportedGraph for arguments that have no form in text.
    """
    from torch._higher_order_ops.triton_kernel_wrap import get_mutated_tensors, kernel_side_table

    constants: dict[str, Any] = dict(kernel_side_table.get_constant_args(constant_args_idx))
    if tensors_to_clone is None:
        tensors_to_clone = get_mutated_tensors(kernel_idx, constant_args_idx, dict(kwargs), tma_descriptor_metadata)
    for name, (kind, how) in tma_descriptor_metadata.items():
        if kind != "stable" or not all(type(n) is int for n in how[0]):
            raise UnsupportedGraph(f"a descriptor of {name} is made by hand, or from sizes")
        constants[name] = user_kernels.Descriptor(how[0])
    given = {name: clone_preserve_strides(v) if name in copied else v for name, v in kwargs.items()}
    tensors = {name: v for name, v in given.items() if isinstance(v, torch.Tensor)}
    written = {name: v for name, v in tensors.items() if name in tensors_to_clone}
    read = {name: v for name, v in tensors.items() if name not in written}
    numbers = {name: v for name, v in given.items() if isinstance(v, _NUMBERS)}
    constants |= {name: v for name, v in given.items() if name not in tensors and name not in numbers}
    try:
        kernel = user_kernels.name_of(kernel_side_table.get_kernel(kernel_idx))
        words = [user_kernels.written_constant(name, value) for name, value in constants.items()]
    except (TypeError, AttributeError) as error:
        raise UnsupportedGraph(f"a user's kernel in Triton: {error}") from None
    torch.ops.lamella.triton_kernel.default(
        kernel,
        [*written, *read, *numbers],
        list(written.values()),
        list(read.values()),
        list(numbers.values()),
        grid=[n for dims in grid for n in (*dims, 1, 1)[:3]],
        constants=words,
    )
    return written


_NUMBERS = (bool, int, float, torch.SymInt, torch.SymFloat, torch.SymBool)
