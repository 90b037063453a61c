"""What a kernel counts for where several share the threads."""

from __future__ import annotations

from lamella.dialects.loop import KernelOp
from lamella.dialects.text import parse_module
from lamella.driver import run_passes
from lamella.lowering.schedule_kernel import PACKED, whole_work

PRODUCT = """
loop.kernel @product(%x: !sym.t<[788, 768], f32>, %w: !sym.t<[3072, 768], f32>) outs(%y: !sym.t<[788, 3072], f32>)
    sizes [] grid [d0 = 788, d1 = 3072] {
  %0 = loop.for [r0 = 768] reduce [add] {
    %1 = loop.load %x[d0, r0] : !sym.t<[788, 768], f32>
    %2 = loop.load %w[d1, r0] : !sym.t<[3072, 768], f32>
    %3 = arith.mulf %1, %2 : f32
    loop.yield %3 : f32
  } : f32
  loop.store %0, %y[d0, d1] : !sym.t<[788, 3072], f32>
  loop.end
}
"""


def work(options: str) -> int:
    module = parse_module(PRODUCT)
    run_passes(module, f"loop-schedule{{bits=512 threads=2 l2=1048576 {options}}}")
    (kernel,) = (o for o in module.ops if isinstance(o, KernelOp))
    found = whole_work(kernel)
    assert isinstance(found, int)
    return found


def test_products_of_packed_factors_are_faster() -> None:
    """Factors are read once for many products. What is done with the sums counts as everywhere."""
    products, sums = 788 * 3072 * 768, 788 * 3072
    each = work("") / products
    assert 4 <= each <= 10  # numbers that are read, and what is done with them
    packed = work("blocks=true")
    assert products * each / PACKED < packed < products * 10 / PACKED + 16 * sums
