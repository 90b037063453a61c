"""aten to aten: products, attention and convolutions that are to be kernels are marked, and products of halves that are
to be calls with factors of f32, of convolutions perhaps a part at a time; the others stay calls.

    %c = aten.mm(%a, %b) : …  ->  %c = aten.mm(%a, %b) {lamella.product = "generated"} : …

A measurement decides, where the module's attribute `lamella.products` has one for the kind of a product; else the cost
model, which takes kernels only where they are known to be faster. What was decided and why is told in
`lamella.decisions`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, cast

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from ..dialects.flow import bodies
from ..dialects.hints import size_hints
from ..dialects.tensor import TensorType, itemsize
from .aten_to_prims import TABLES as TABLES  # they fill the table of rules, which tells what becomes kernels
from .attention_call import FLASH, AttentionCall, attention_of
from .attention_call import reason_on_gpu as attention_on_gpu
from .attention_call import reason_to_generate as reason_for_attention
from .attention_call import reason_to_widen as attention_in_f32
from .beside import reordered
from .convolution_cost import Convolution, convolution_of, reason_to_convolve
from .convolution_cost import reason_to_widen as convolution_in_f32
from .convolution_parts import in_parts, parts_of
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
            self.statistics["generated"] += way == "generated"
            where = next(iter(lines(p.op.location)), "")
            parts = memory.parts(p) if way == "widened" and isinstance(p, Convolution) else 1
            cut = f" in {parts} parts" if parts > 1 else ""
            told[f"{p.op.name} {p.kind(hints.size)}{f' at {where}' if where else ''}: {chosen}{cut}, {why}"] += 1
            for op_made in in_parts(p, parts) if isinstance(p, Convolution) and way == "widened" else (p.op,):
                if mark is not None:
                    op_made.attributes[MARK] = mark
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
            if wide is not None and not memory.parts(p):
                wide = None
        elif isinstance(p, AttentionCall) and p.device.startswith("cuda"):
            why = attention_on_gpu(p, GpuTarget.from_name(self.gpu)) if self.choose == "auto" else None
        elif self.choose == "all":
            why = "as all are to be"
        elif isinstance(found := known.get(p.kind(hints.size)), StringAttr):
            # sizes of other calls may be others
            return (found.data.split()[0] if p.is_static else "ATen"), f"measured: {found.data}"
        elif isinstance(p, AttentionCall):
            why, wide = reason_for_attention(p, target, hints.size), attention_in_f32(p, target)
        elif p.device.startswith("cuda"):
            why = reason_on_gpu(p, GpuTarget.from_name(self.gpu))
        else:
            why, wide = reason_to_generate(p, target, hints.size), product_in_f32(p, target, hints.size)
            if wide is not None and why is not None and not memory.parts(p):
                wide = None
        if wide is not None:
            return "widened", wide
        return ("generated", why) if why is not None else ("ATen", UNKNOWN)


class _Memory:
    """In how many parts there is memory for factors and results in f32, as eager's peak goes, 0 where there is none:
    the same for all that are alike in a block, so that layers stay alike wherever they stand (`repeats`).
    """

    def __init__(self, hints: Hints) -> None:
        self._hints = hints
        self._parts: dict[Block, dict[object, int]] = {}

    def parts(self, p: Product | Convolution) -> int:
        block = p.op.parent
        assert block is not None
        if block not in self._parts:
            self._parts[block] = self._of(block)
        return self._parts[block][_alike(p)]

    def _of(self, block: Block) -> dict[object, int]:
        eager = EagerMemory(block, self._hints)
        found: dict[object, int] = {}
        for p in filter(None, (product_of(o) or convolution_of(o) for o in block.ops)):
            tried = parts_of(p) if isinstance(p, Convolution) else (1,)
            fits = next((n for n in tried if eager.admits(p.op, self._more(p, n))), 0)
            before = found.get(_alike(p), fits)
            found[_alike(p)] = max(before, fits) if before and fits else 0
        return found

    def _more(self, p: Product | Convolution, parts: int) -> int:
        """Bytes that are held for a call in f32, beside what eager holds there."""
        if isinstance(p, Product):
            b, m, n, k = p.sizes(self._hints.size)
            return F32 * b * (m * k + k * n + m * n)
        results = [r for r in p.op.results if isinstance(r.type, TensorType)]
        given = [v for v in dict.fromkeys(p.op.operands) if isinstance(v.type, TensorType)]
        weight = cast(SSAValue, p.op.arg("weight"))
        made = sum(map(self._wide, results))
        read = sum(self._wide(v) // (parts if v is weight else 1) for v in (*given, *reordered(p.op)))
        # what is made for the call alone is made in f32, and what is read has gone when results are rounded
        alone = (v for v in given if isinstance(v.owner, Operation) and len(list(v.uses)) == 1)
        halves = sum(map(self._hints.bytes, (*results, *alone)))
        return max(made, made + read - halves)

    def _wide(self, v: SSAValue) -> int:
        """Bytes of a tensor in f32."""
        return self._hints.bytes(v) * F32 // itemsize(cast(TensorType, v.type).dtype)


def _alike(p: Product | Convolution) -> object:
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
