"""aten to aten: products, attention and convolutions that are to be kernels are marked, and products of halves that are
to be calls with factors of f32; the others stay calls.

    %c = aten.mm(%a, %b) : …  ->  %c = aten.mm(%a, %b) {lamella.product = "generated"} : …

A measurement decides, where the module's attribute `lamella.products` has one for the kind of a product; else the cost
model, which takes kernels only where they are known to be faster. What was decided and why is told in
`lamella.decisions`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Block
from xdsl.passes import ModulePass

from ..dialects.flow import bodies
from ..dialects.hints import size_hints
from .aten_to_prims import TABLES as TABLES  # they fill the table of rules, which tells what becomes kernels
from .attention_call import FLASH, AttentionCall, attention_of
from .attention_call import reason_on_gpu as attention_on_gpu
from .attention_call import reason_to_generate as reason_for_attention
from .attention_call import reason_to_widen as attention_in_f32
from .convolution_cost import Convolution, convolution_of, reason_to_convolve
from .convolution_cost import reason_to_widen as convolution_in_f32
from .decisions import decide_counted
from .eager_memory import EagerMemory
from .fuse_cost import Hints
from .gpu_target import GpuTarget
from .origins import lines
from .product_cost import CALLED, reason_to_generate
from .product_cost import reason_to_widen as product_in_f32
from .product_cost_gpu import reason_on_gpu
from .products import GENERATED, MARK, WIDENED, Product, is_generated, product_of
from .promotion import opmath
from .target import CpuTarget

UNKNOWN = "where nothing is known to be faster"

WAYS = {"generated": (GENERATED, "a kernel"), "widened": (WIDENED, "in f32"), "ATen": (None, "ATen")}
"""The mark and the words of each way, by the first word of what was measured."""

F32 = 4
"""Bytes of an element that is widened."""

MEASURED = "lamella.products"
"""The module attribute: kind of product to `generated` or `aten`, with times."""


@dataclass(frozen=True)
class AtenChooseProducts(ModulePass):
    """Mark the matrix products, the attention and the convolutions that become kernels.

    `choose`: "auto" by measurement and cost, "all", "none", or "widened" all that may be.
    `target`: `host` or a name of `CpuTarget.from_name`.
    `gpu`: a name of `GpuTarget.from_name`, for products there.
    """

    name = "aten-choose-products"

    choose: Literal["auto", "all", "none", "widened"] = "auto"
    target: str = "host"
    gpu: str = "sm_90"
    statistics: dict[str, int] = field(default_factory=dict[str, int], init=False, compare=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.statistics["generated"] = 0
        convolutions = [c for body in bodies(op) for o in body.block.ops if (c := convolution_of(o)) is not None]
        products = [*choices_in(op), *convolutions]
        if not products or self.choose == "none":
            return
        hints = Hints(size_hints(op))
        target = CpuTarget.host() if self.target == "host" else CpuTarget.from_name(self.target)
        measured = op.attributes.get(MEASURED)
        known = dict(measured.data) if isinstance(measured, DictionaryAttr) else {}
        told: Counter[str] = Counter()
        memory = _Memory(hints)
        for p in products:
            if is_generated(p.op):
                continue  # it is a part of attention
            way, why = self._way(p, target, hints, known, memory)
            mark, chosen = WAYS[way]
            if mark is not None:
                p.op.attributes[MARK] = mark
            self.statistics["generated"] += way == "generated"
            where = next(iter(lines(p.op.location)), "")
            told[f"{p.op.name} {p.kind(hints.size)}{f' at {where}' if where else ''}: {chosen}, {why}"] += 1
        if told:
            decide_counted(op, told)

    def _way(
        self,
        p: Product | AttentionCall | Convolution,
        target: CpuTarget,
        hints: Hints,
        known: Mapping[str, Attribute],
        memory: _Memory,
    ) -> tuple[str, str]:
        """The way of `WAYS` in which a product is computed, and why."""
        if self.choose == "widened":
            return ("widened" if may_widen(p) else "ATen"), "as all are to be"
        wide: str | None = None
        if isinstance(p, Convolution):
            why = reason_to_convolve(p, target, hints.size)
            wide = None if why else convolution_in_f32(p, target)
        elif isinstance(p, AttentionCall) and p.device.startswith("cuda"):
            why = attention_on_gpu(p, GpuTarget.from_name(self.gpu)) if self.choose == "auto" else None
        elif self.choose == "all":
            why = "as all are to be"
        elif isinstance(found := known.get(p.kind(hints.size)), StringAttr):
            # sizes of other calls may be others
            return (found.data.split()[0] if p.is_static else "ATen"), f"measured: {found.data}"
        elif isinstance(p, AttentionCall):
            why, wide = reason_for_attention(p, target), attention_in_f32(p, target)
        elif p.device.startswith("cuda"):
            why = reason_on_gpu(p, GpuTarget.from_name(self.gpu))
        else:
            why, wide = reason_to_generate(p, target, hints.size), product_in_f32(p, target, hints.size)
            if wide is not None and why is not None and not memory.admits(p):
                wide = None
        if wide is not None:
            return "widened", wide
        return ("generated", why) if why is not None else ("ATen", UNKNOWN)


class _Memory:
    """Whether there is memory for factors and results in f32, as eager's peak goes: for all products of a block that
    are alike, or for none, so that layers stay alike wherever they stand (`repeats`).
    """

    def __init__(self, hints: Hints) -> None:
        self._hints = hints
        self._admitted: dict[Block, dict[object, bool]] = {}

    def admits(self, p: Product) -> bool:
        block = p.op.parent
        assert block is not None
        if block not in self._admitted:
            self._admitted[block] = self._of(block)
        return self._admitted[block][_alike(p)]

    def _of(self, block: Block) -> dict[object, bool]:
        eager = EagerMemory(block, self._hints)
        found: dict[object, bool] = {}
        for p in filter(None, map(product_of, block.ops)):
            b, m, n, k = p.sizes(self._hints.size)
            fits = eager.admits(p.op, F32 * b * (m * k + k * n + m * n))
            found[_alike(p)] = found.get(_alike(p), True) and fits
        return found


def _alike(p: Product) -> object:
    """What products of layers that are alike have in common."""
    return p.op.name, tuple(v.type for v in (*p.op.operands, *p.op.results))


def may_widen(p: Product | AttentionCall | Convolution) -> bool:
    """Whether there is a way in f32, of halves on a CPU."""
    if isinstance(p, Convolution):
        return False  # nobody measures these
    half = p.device == "cpu" and opmath(p.dtype) != p.dtype
    return half and p.op.name in (*CALLED, FLASH)


def choices_in(module: ModuleOp) -> list[Product | AttentionCall]:
    """The products of a module, and its calls of attention, in order."""
    ops = (o for body in bodies(module) for o in body.block.ops)
    return [p for o in ops if (p := product_of(o) or attention_of(o)) is not None]


def products_in(module: ModuleOp) -> list[Product]:
    """The products of a module in order."""
    return [p for body in bodies(module) for o in body.block.ops if (p := product_of(o)) is not None]
