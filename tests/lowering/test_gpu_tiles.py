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

from lamella import driver
from lamella.dialects.loop_kernel import KernelOp
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
        warps = cast(IntegerAttr, kernel.attributes["warps"]).value.data
        found = [o.attributes["tile"] for o in kernel.walk() if "tile" in o.attributes]
        sizes = (
            ", ".join(f"{d} {cast(IntegerAttr, n).value.data}" for d, n in t.data.items())
            for t in cast(list[DictionaryAttr], found)
        )
        yield f"{name} {dtype}: {warps} warps; {'; '.join(sizes)}"


def test_tiles(kernels: ModuleType, golden: Callable[[str, str], None]) -> None:
    target = GpuTarget.from_name("sm_90")
    lines = (
        line for name in kernels.CASES for dtype in ("bf16", "f32") for line in tiles(kernels, name, dtype, target)
    )
    golden("gpu_tiles.txt", "\n".join(lines) + "\n")
