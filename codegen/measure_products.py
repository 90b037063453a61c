"""Products of matrices and attention timed on this CPU, as calls of ATen, as kernels of ours and, of halves, as calls
with factors of f32, each with what is computed from it.

What is found is kept on disk, by the kind of product, the machine, the number of threads and this compiler, and given
to `aten-choose-products` as the module's attribute `lamella.products`. A weight that is converted first is left to the
cost model: the conversion is not part of what is measured.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp

from ..dialects.hints import size_hints
from ..dialects.tensor import TORCH_DTYPES, TensorType
from ..lowering.aten_choose_products import MEASURED, choices_in, may_widen
from ..lowering.attention_call import AttentionCall
from ..lowering.fuse_cost import Hints
from ..lowering.product_part import part_of
from ..lowering.products import Product
from .cache import Cache, cache_key, compiler_version
from .target import CpuTarget

Build: TypeAlias = Callable[[ModuleOp, str], Callable[[list[Any]], Any]]
"""`build(program, products)`: the program as native code, with "all" or "none" of its products as kernels, or all
"widened".
"""

BUILDS = {"generated": "all", "ATen": "none", "widened": "widened"}
"""What to ask for, by the way of `aten_choose_products.WAYS`."""

ROUNDS, MOST_ROUNDS, SAME = 7, 28, 3
"""At least and at most; and how many in a row that bring nothing new end it: others may use the machine."""

ROUND_SECONDS = 0.01

FRESH_BYTES = 64 << 20
"""Bytes of arguments that calls go round: a model has other weights between two uses of one."""

GAIN = 1.05
"""How much faster than ATen a kernel must be."""


def recall(
    module: ModuleOp,
    target: CpuTarget,
    cache: Cache,
    build: Build | None = None,
    tell: Callable[[str, int, int], None] = lambda what, done, of: None,
) -> None:
    """Set the module's attribute for the kinds of products that have been measured; with `build`, measure the others.

    `tell(what, done, of)` hears of the progress.
    """
    import torch

    size = Hints(size_hints(module)).size
    products: dict[str, Product | AttentionCall] = {}
    for p in choices_in(module):
        if p.is_static and p.device.startswith("cpu") and p.stored == p.dtype and 0 not in p.sizes(size):
            products.setdefault(p.kind(size), p)
    if not products:
        return
    known: dict[str, str] = {}
    missing: dict[str, Product | AttentionCall] = {}
    machine = (target.key, str(torch.get_num_threads()), compiler_version())
    for kind, p in products.items():
        data = cache.get("product", cache_key("cpu", kind, *machine))
        if data is not None:
            known[kind] = data.decode()
        else:
            missing[kind] = p
    for i, (kind, p) in enumerate(missing.items() if build is not None else ()):
        assert build is not None
        found = _measured(p, build)
        tell("products measured", i + 1, len(missing))
        if found is not None:
            known[kind] = found
            cache.put("product", cache_key("cpu", kind, *machine), found.encode())
    if known:
        before = module.attributes.get(MEASURED)
        others = dict(before.data) if isinstance(before, DictionaryAttr) else {}
        module.attributes[MEASURED] = DictionaryAttr(others | {k: StringAttr(v) for k, v in known.items()})


def _measured(p: Product | AttentionCall, build: Build) -> str | None:
    """`generated 10.1 us, ATen 12.3 us`: the way that is to be taken first; None for what cannot be by itself."""
    part = part_of(p)
    if part is None:
        return None
    (main,) = [o for o in part.ops if isinstance(o, FuncOp)]
    types = [a.type for a in main.body.block.args]
    if not all(isinstance(t, TensorType) for t in types):
        return None
    ways = [way for way in BUILDS if way != "widened" or may_widen(p)]
    graphs = [build(part.clone(), BUILDS[way]) for way in ways]
    times = dict(zip(ways, _times(graphs, _arguments(types)), strict=True))  # pyright: ignore[reportArgumentType]
    order = sorted(times, key=lambda way: times[way] * (1 if way == "ATen" else GAIN))
    return ", ".join(f"{way} {times[way]:.1f} us" for way in order)


def _arguments(types: Sequence[TensorType]) -> list[list[Any]]:
    """Arguments, as often as it takes for caches to be of little use."""
    import torch

    numbers = torch.Generator()  # the program's own is left as it is

    def make(t: TensorType) -> Any:
        x = torch.empty_strided(t.shape, t.strides, dtype=getattr(torch, TORCH_DTYPES[t.dtype]))  # pyright: ignore
        return x.normal_(generator=numbers) if x.is_floating_point() else x.zero_()

    first = [make(t) for t in types]
    more = min(15, FRESH_BYTES // max(sum(x.nbytes for x in first), 1))
    return [first, *([x.clone() for x in first] for _ in range(more))]


def _times(graphs: Sequence[Callable[[list[Any]], Any]], sets: Sequence[list[Any]]) -> list[float]:
    """Microseconds of a call of each where nothing else runs: the least of several rounds, in turns, until it is the
    least for some rounds. One thread is timed by its own clock.
    """
    import torch

    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter

    def run(graph: Callable[[list[Any]], Any], n: int) -> float:
        start = clock()
        for i in range(n):
            graph(list(sets[i % len(sets)]))
        return (clock() - start) / n

    once = max(min(run(g, 2) for g in graphs), 1e-7)
    n = max(1, min(1000, int(ROUND_SECONDS / once)))
    least, rounds, same = [math.inf] * len(graphs), 0, 0
    while rounds < ROUNDS or (same < SAME and rounds < MOST_ROUNDS):
        order = range(len(graphs))[:: 1 if rounds % 2 == 0 else -1]
        times = dict((k, run(graphs[k], n)) for k in order)
        same = 0 if any(times[k] < 0.98 * least[k] for k in order) else same + 1
        least = [min(t, times[k]) for k, t in enumerate(least)]
        rounds += 1
    return [1e6 * t for t in least]
