"""loop (kernels) to itself: kernels that do the same with other elements of a tensor become one (`share_places`), and
so do those that do the same to every element of tensors of different lengths, which takes the length.

Before: kernels of one parallel dim of a fixed extent, `grid [d0 = 4096]`, over tensors of that length and single
numbers, beside others, which are left. After: where several differ in that alone, one of them with `sizes [s0]` and
`grid [d0 = 16*s0]`, so that a multiple of 16 is known to be one, or `grid [d0 = s0]`. Lengths that a cache holds are
kept apart from those that it does not: they are scheduled differently.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, SymbolRefAttr
from xdsl.passes import ModulePass

from ..dialects import expr
from ..dialects.hints import size_hints
from ..dialects.loop import DimsAttr, IndexAttr, KernelOp, LaunchOp, LoadOp, LoopDim, StoreOp
from ..dialects.tensor import TensorType, itemsize
from ..dialects.text import print_module
from .decisions import decided, set_decided
from .fuse_cost import Hints
from .kernel_cost import annotate
from .origins import fused_location
from .schedule_access import collapse
from .share_places import share_places

MULTIPLE = 16
"""What lengths are told apart by: memory is moved in pieces of so many elements at most."""

_OPS = ("arith.", "math.", "loop.fn", "loop.load", "loop.store", "loop.end")
"""Ops of bodies in which no length is hidden."""

_Form: TypeAlias = tuple[str, int, int]
"""Text with a symbol for the length, what the length is a multiple of, and the caches that do not hold it."""


@dataclass(frozen=True)
class ShareKernels(ModulePass):
    """Make one kernel of those that differ in a length, or in which elements they read.

    `l2` and `l3` are cache sizes in bytes.
    """

    name = "share-kernels"

    l2: int = 2 << 20
    l3: int = 32 << 20
    statistics: dict[str, int] = field(default_factory=dict[str, int], init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        hints = Hints(size_hints(op))
        named = share_places([k for k in op.ops if isinstance(k, KernelOp)])
        forms: dict[_Form, list[KernelOp]] = {}
        for kernel in [k for k in op.ops if isinstance(k, KernelOp) and not len(k.sizes)]:
            if all(o.name.startswith(_OPS) for o in kernel.body.block.ops):
                collapse(kernel, hints)
                if (form := self._form(kernel)) is not None:
                    forms.setdefault(form, []).append(kernel)
        for (_, multiple, _), kernels in forms.items():
            if len(kernels) > 1:
                for kernel in kernels:
                    named[kernel.sym_name.data] = (kernels[0].sym_name.data, [length(kernel) // multiple])
                _unite(kernels, multiple)
        for launch in op.walk() if named else ():
            if isinstance(launch, LaunchOp) and launch.callee in named:
                name, sizes = named[launch.callee]
                launch.properties["kernel"] = SymbolRefAttr(name)
                launch.properties["sizes"] = IndexAttr.get([*launch.sizes, *sizes])
        self.statistics["kernels dropped"] = len(named) - len({name for name, _ in named.values()})
        if named and (lines := decided(op)):
            renamed = (re.sub(r"@([\w.]+)", lambda m: f"@{named.get(m[1], (m[1],))[0]}", line) for line in lines)
            told = (line for line in renamed if not re.match(r"@(\S+): kept apart from @\1:", line))
            set_decided(op, dict.fromkeys(told))

    def _form(self, kernel: KernelOp) -> _Form | None:
        """What kernels that can be one have in common; None for a kernel that cannot."""
        n = length(kernel)
        if n == 0:
            return None
        types = [cast(TensorType, a.type) for a in kernel.body.block.args]
        whole = [t.shape == (n,) and t.is_contiguous for t in types]
        if not all(w or t.shape == () for w, t in zip(whole, types, strict=True)):
            return None
        for o in kernel.body.block.ops:
            if isinstance(o, (LoadOp, StoreOp)):
                buffer = o.source if isinstance(o, LoadOp) else o.target
                plain = not o.indices and o.mask is None and o.ok is None
                index = () if cast(TensorType, buffer.type).shape == () else (kernel.grid[0].symbol,)
                if not plain or tuple(o.index) != index or (isinstance(o, StoreOp) and o.combine is not None):
                    return None
        multiple = MULTIPLE if n % MULTIPLE == 0 else 1
        size = n * sum(itemsize(t.dtype) for t, w in zip(types, whole, strict=True) if w)
        copy = kernel.clone()
        _generalise(copy, multiple)
        for name in ("bytes", "flops"):
            copy.attributes.pop(name, None)
        copy.properties["sym_name"] = StringAttr("")
        return print_module(copy, generic=True), multiple, (size > self.l2) + (size > self.l3)


def length(kernel: KernelOp) -> int:
    """The extent of a kernel's only dim; 0 where it has none, several, or one that is no number."""
    dims = list(kernel.grid)
    if len(dims) != 1 or dims[0].lo != 0 or not isinstance(dims[0].hi, int):
        return 0
    return dims[0].hi


def _generalise(kernel: KernelOp, multiple: int) -> None:
    """Make the length of a kernel a multiple of its size s0."""
    s0 = expr.symbol("s0")
    extent = expr.normal(multiple * s0)
    for a in kernel.body.block.args:
        t = cast(TensorType, a.type)
        if t.shape != ():
            a._type = t.with_(shape=[extent])  # pyright: ignore[reportPrivateUsage]
    kernel.properties["grid"] = DimsAttr.get([LoopDim(kernel.grid[0].name, 0, extent)])
    kernel.properties["sizes"] = IndexAttr.get([s0])


def _unite(kernels: Sequence[KernelOp], multiple: int) -> None:
    """Make the first kernel that of all of them, and drop the others."""
    first = kernels[0]
    _generalise(first, multiple)
    annotate(first)
    first.location = fused_location(k.location for k in kernels)
    for kernel in kernels[1:]:
        kernel.detach()
        kernel.erase()
