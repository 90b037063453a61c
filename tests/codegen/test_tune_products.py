"""Products that are measured: what is timed, what is remembered, and what passes make of it. The GPU is interpreted, and
times are given.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from xdsl.dialects.builtin import DictionaryAttr

from lamella import driver
from lamella.codegen import tune_gpu
from lamella.codegen.cache import Cache
from lamella.codegen.choices import Ways
from lamella.codegen.cuda_interpreted import InterpretedGpu
from lamella.codegen.errors import CodegenError
from lamella.codegen.tune_products import Result, tune
from lamella.dialects.text import parse_module
from lamella.lowering.options import Options

OPTIONS = Options(target="sm_90", cache=False)
TARGET, GPU = driver.target_of(OPTIONS), driver.gpu_of(OPTIONS)
X, W, B = (f"!sym.t<[{size}], bf16, device=cuda:0>" for size in ("64, 32", "32, 96", "96"))
Y = "!sym.t<[64, 96], bf16, device=cuda:0>"
TEXT = f"""
  func.func @main(%x: {X}, %w: {W}, %v: {W}, %b: {B}) -> ({Y}, {Y}) {{
    %0 = aten.addmm(%b, %x, %w) : ({B}, {X}, {W}) -> {Y}
    %1 = aten.relu(%0) : ({Y}) -> {Y}
    %2 = aten.add.Tensor(%1, %0) : ({Y}, {Y}) -> {Y}
    %3 = aten.addmm(%b, %x, %v) : ({B}, {X}, {W}) -> {Y}
    func.return %2, %3 : {Y}, {Y}
  }}
"""


class Timer:
    """Runs what is to be timed once, and gives times that the test has set."""

    def __init__(self, gpu: InterpretedGpu, times: list[float]) -> None:
        self.gpu, self.times, self.results = gpu, times, list[Any]()

    def __call__(self, graph: Callable[[list[Any]], Any], sets: Any) -> float:
        self.results.append(self.gpu.run(graph, sets[0]))
        return self.times[(len(self.results) - 1) % len(self.times)]


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    def run(times: list[float], cache: Cache, text: str = TEXT, **how: Any) -> Any:
        gpu = InterpretedGpu()
        timer = Timer(gpu, times)
        monkeypatch.setattr(tune_gpu, "microseconds", timer)
        monkeypatch.setattr(tune_gpu, "CACHES", 0)
        monkeypatch.setattr(tune_gpu, "compile_kernels", lambda sources, sm, **_: None)
        made = torch.empty_strided
        monkeypatch.setattr(torch, "empty_strided", lambda *a, **k: made(*a, **{**k, "device": "cpu"}))
        module = parse_module(text)
        with gpu.used():
            found = tune(module, GPU, Ways(OPTIONS, TARGET, GPU), cache, **how)
        monkeypatch.undo()
        return found, module, timer

    return run


def test_the_fastest_way_is_taken_and_remembered(tmp_path: Path, timed: Any) -> None:
    cache, random = Cache(tmp_path, 1 << 20), torch.get_rng_state()
    found, module, timer = timed([10.0, 8.0, 5.0, *[9.0] * 9], cache)
    assert torch.equal(torch.get_rng_state(), random)
    (kind,) = (k for k in found if k.endswith("bias+more"))
    result = found[kind]
    assert result.library == 10.0 and result.tiles[result.best] == 5.0
    assert result.choice == "generated 5.0 us, ATen 10.0 us"
    # the same numbers in every way
    x = timer.results[0]
    assert all(
        torch.allclose(a, b, rtol=0.05, atol=0.05) for r in timer.results[1:7] for a, b in zip(r, x, strict=True)
    )
    again, _, none = timed([1.0], cache)
    assert again == found and not none.results
    fresh, _, none = timed([1.0], Cache(tmp_path / "other", 1 << 20), measure=False)
    assert not fresh and not none.results
    driver.run_passes(
        module, "aten-choose-products,aten-to-prims,prims-canonicalize,prims-to-loop,loop-fuse,bufferize,loop-tile"
    )
    tiles = [o.attributes["lamella.tiled"] for o in module.ops if "lamella.tiled" in o.attributes]
    assert result.best in [t.data["tile"].data for t in tiles if isinstance(t, DictionaryAttr)]  # pyright: ignore
    decisions = str(module.attributes["lamella.decisions"])
    assert f"{result.best} 5.0 us, 64x" in decisions and "measured: generated 5.0 us, ATen 10.0 us" in decisions


def test_the_library_is_taken_where_it_is_not_slower(tmp_path: Path, timed: Any) -> None:
    _, module, _ = timed([10.0, *[9.9] * 9], Cache(tmp_path, 1 << 20))
    driver.run_passes(module, "aten-choose-products")
    assert not any("lamella.product" in o.attributes for o in module.walk())
    assert Result(10.0, "k", {"a": 9.9}).choice == "ATen 10.0 us, generated 9.9 us"


def test_what_is_computed_from_a_product_is_measured_with_it(tmp_path: Path, timed: Any) -> None:
    """relu, and the sum that reads both; the other product leaves as it is."""
    found, _, timer = timed([1.0], Cache(tmp_path, 1 << 20))
    assert len(found) == 2
    assert {len(r) for r in timer.results} == {1}


def test_products_of_f32_matrices_are_left(tmp_path: Path, timed: Any) -> None:
    assert timed([1.0], Cache(tmp_path, 1 << 20), TEXT.replace("bf16", "f32"))[0] == {}


def test_a_way_that_does_not_work_is_left_out(tmp_path: Path, timed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    native, tried = Ways.native, list[int]()

    def refuse(self: Any, module: Any) -> Any:
        tried.append(1)
        if len(tried) % 7 == 3:
            raise CodegenError("too much shared memory")
        return native(self, module)

    monkeypatch.setattr(Ways, "native", refuse)
    found, _, _ = timed([1.0], Cache(tmp_path, 1 << 20))
    assert found and all(len(r.tiles) == 5 for r in found.values())
