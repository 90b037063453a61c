"""Tiles, threads and programs that are chosen for the kernels which `benchmarks/gpu_kernels.py` measures on a GPU.

A choice that changes by accident, as by a rule that is meant for other kernels, takes a fifth longer, and no number of
a result says so. Where one is changed on purpose, `--update-golden` writes it down; measure these kernels then.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import cast

import pytest
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr
from xdsl.ir import Attribute, Operation

from lamella import driver
from lamella.dialects.loop_kernel import ForOp, KernelOp
from lamella.lowering.gpu_target import GpuTarget

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("gpu_kernels", BENCHMARKS / "gpu_kernels.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "gpu_kernels", module)
    spec.loader.exec_module(module)
    yield module


def tiles(kernels: ModuleType, name: str, dtype: str, target: GpuTarget) -> Iterator[str]:
    """A line for each kernel of a case: its warps, its tile and those of its loops."""
    f, shapes = kernels.CASES[name]
    module = kernels.on_gpu(f, kernels.arguments(shapes, kernels.DTYPES[dtype], "meta"))
    driver.run_passes(module, kernels.passes(target).removesuffix(",kernel-to-tt"), verify=False)
    for kernel in (o for o in module.walk() if isinstance(o, KernelOp)):
        warps = number(kernel.attributes["warps"])
        sizes = (shown(o) for o in kernel.walk() if "tile" in o.attributes)
        yield f"{name} {dtype}: {warps} warps; {'; '.join(sizes)}"


def shown(op: Operation) -> str:
    """The tile of a kernel or a loop, and how many turns of the loop are under way where it says so."""
    text = ", ".join(f"{d} {number(n)}" for d, n in cast(DictionaryAttr, op.attributes["tile"]).data.items())
    return text + (
        f" x {number(op.attributes['stages'])}" if isinstance(op, ForOp) and "stages" in op.attributes else ""
    )


def number(a: Attribute) -> int:
    return cast(IntegerAttr, a).value.data


def test_tiles(kernels: ModuleType, golden: Callable[[str, str], None]) -> None:
    target = GpuTarget.from_name("sm_90")
    lines = (
        line for name in kernels.CASES for dtype in ("bf16", "f32") for line in tiles(kernels, name, dtype, target)
    )
    golden("gpu_tiles.txt", "\n".join(lines) + "\n")
