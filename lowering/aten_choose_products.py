"""aten to aten: products, attention and convolutions that are to be kernels are marked; the others stay calls.

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
from xdsl.ir import Attribute
from xdsl.passes import ModulePass

from ..dialects.flow import bodies
from ..dialects.hints import size_hints
from .aten_to_prims import TABLES as TABLES  # they fill the table of rules, which tells what becomes kernels
from .attention_call import AttentionCall, attention_of
from .attention_call import reason_on_gpu as attention_on_gpu
from .attention_call import reason_to_generate as reason_for_attention
from .convolution_cost import Convolution, convolution_of, reason_to_convolve
from .decisions import decide_counted
from .fuse_cost import Hints
from .gpu_target import GpuTarget
from .origins import lines
from .product_cost import reason_to_generate
from .product_cost_gpu import reason_on_gpu
from .products import GENERATED, MARK, Product, is_generated, product_of
from .target import CpuTarget

UNKNOWN = "where nothing is known to be faster"

MEASURED = "lamella.products"
"""The module attribute: kind of product to `generated` or `aten`, with times."""


@dataclass(frozen=True)
class AtenChooseProducts(ModulePass):
    """Mark the matrix products, the attention and the convolutions that become kernels.

    `choose`: "auto" by measurement and cost, "all" or "none". `target`: `host` or a name of `CpuTarget.from_name`.
    `gpu`: a name of `GpuTarget.from_name`, for products there.
    """

    name = "aten-choose-products"

    choose: Literal["auto", "all", "none"] = "auto"
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
        for p in products:
            if is_generated(p.op):
                continue  # it is a part of attention
            generated, why = self._reason(p, target, hints, known)
            if generated:
                p.op.attributes[MARK] = GENERATED
                self.statistics["generated"] += 1
            where = next(iter(lines(p.op.location)), "")
            chosen = "a kernel" if generated else "ATen"
            told[f"{p.op.name} {p.kind(hints.size)}{f' at {where}' if where else ''}: {chosen}, {why}"] += 1
        if told:
            decide_counted(op, told)

    def _reason(
        self, p: Product | AttentionCall | Convolution, target: CpuTarget, hints: Hints, known: Mapping[str, Attribute]
    ) -> tuple[bool, str]:
        """Whether a product is generated, and why."""
        if isinstance(p, Convolution):
            why = reason_to_convolve(p, target, hints.size)
            return why is not None, why or UNKNOWN
        if isinstance(p, AttentionCall) and p.device.startswith("cuda"):
            why = attention_on_gpu(p, GpuTarget.from_name(self.gpu)) if self.choose == "auto" else None
            return why is not None, why or UNKNOWN
        if self.choose == "all":
            return True, "as all are to be"
        found = known.get(p.kind(hints.size))
        if isinstance(found, StringAttr):
            generated = found.data.startswith("generated")
            # sizes of other calls may be others
            return generated and p.is_static, f"measured: {found.data}"
        if isinstance(p, AttentionCall):
            why = reason_for_attention(p, target)
        elif p.device.startswith("cuda"):
            why = reason_on_gpu(p, GpuTarget.from_name(self.gpu))
        else:
            why = reason_to_generate(p, target, hints.size)
        return why is not None, why or UNKNOWN


def choices_in(module: ModuleOp) -> list[Product | AttentionCall]:
    """The products of a module, and its calls of attention, in order."""
    ops = (o for body in bodies(module) for o in body.block.ops)
    return [p for o in ops if (p := product_of(o) or attention_of(o)) is not None]


def products_in(module: ModuleOp) -> list[Product]:
    """The products of a module in order."""
    return [p for body in bodies(module) for o in body.block.ops if (p := product_of(o)) is not None]
