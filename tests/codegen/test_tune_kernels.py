"""Kernels whose tiles are measured: what is timed computes the same, what is remembered is taken. The GPU is interpreted,
and times are given.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp

from lamella import driver
from lamella.codegen import tune_gpu
from lamella.codegen.cache import Cache
from lamella.codegen.choices import Ways
from lamella.codegen.cuda_interpreted import InterpretedGpu
from lamella.codegen.tune_kernels import best, tune_kernels
from lamella.dialects.text import parse_module
from lamella.lowering import tile_variants
from lamella.lowering.options import Options

OPTIONS = Options(target="sm_90", cache=False)
TARGET, GPU = driver.target_of(OPTIONS), driver.gpu_of(OPTIONS)
X = "!sym.t<[600, 40], f32, device=cuda:0>"
TEXT = f"""
  func.func @main(%x: {X}) -> {X} {{
    %0 = aten._softmax(%x, -1, false) : ({X}) -> {X}
    func.return %0 : {X}
  }}
"""


def kernels() -> ModuleOp:
    module = parse_module(TEXT)
    passes = driver.pipeline(OPTIONS, TARGET, GPU)
    driver.run_passes(module, passes[: passes.index(",loop-tile")])
    return module


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(tile_variants, "WORTH", 0)
    monkeypatch.setattr(tune_gpu, "CACHES", 0)
    monkeypatch.setattr(tune_gpu, "compile_kernels", lambda sources, sm, **_: None)

    def run(times: list[float], cache: Cache, **how: Any) -> Any:
        gpu, results = InterpretedGpu(), list[Any]()

        def timer(graph: Any, sets: Any) -> float:
            results.append((sets[0], gpu.run(graph, sets[0])))
            return times[len(results) - 1]

        made, module = torch.empty_strided, kernels()
        with monkeypatch.context() as patch, gpu.used():
            patch.setattr(tune_gpu, "microseconds", timer)
            patch.setattr(torch, "empty_strided", lambda *a, **k: made(*a, **{**k, "device": "cpu"}))
            found = tune_kernels(module, GPU, Ways(OPTIONS, TARGET, GPU), cache, **how)
        return found, module, results

    return run


def test_the_fastest_tile_is_taken_and_remembered(tmp_path: Path, timed: Any) -> None:
    cache = Cache(tmp_path, 1 << 20)
    assert timed([], cache, measure=False)[0] == {}
    found, module, results = timed([10.0, 9.0, 5.0, *[9.0] * 9], cache)
    ((kind, times),) = found.items()
    assert next(iter(times)) == "default" and len(times) == len(results) >= 2
    fastest = min(times, key=lambda name: times[name])
    assert fastest != "default"
    assert best(times) == fastest
    for (x,), (y,) in results:
        torch.testing.assert_close(y, x.softmax(-1))
    driver.run_passes(module, "loop-tile")
    (kernel,) = (o for o in module.ops if "lamella.tiled" in o.attributes)
    tiled = kernel.attributes["lamella.tiled"]
    assert isinstance(tiled, DictionaryAttr) and tiled.data["tile"].data == fastest  # pyright: ignore
    assert "default 10.0 us" in str(module.attributes["lamella.decisions"]) and kind in str(module.attributes)
    again, _, none = timed([], cache, measure=False)
    assert again == found and not none


def test_a_tile_that_is_hardly_faster_is_not_taken() -> None:
    assert best({"default": 10.0, "held": 9.9}) == "default" and best({"default": 10.0, "held": 9.0}) == "held"


def test_small_kernels_are_not_measured(tmp_path: Path, timed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tile_variants, "WORTH", 1 << 20)
    assert timed([], Cache(tmp_path, 1 << 20))[0] == {}
