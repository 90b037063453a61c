"""Long work in a host program lets other threads of Python run; short work does not give the lock away."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading

import pytest
import torch

from lamella.codegen.imports import IMPORTS
from lamella.codegen.jit import compile_object, load_object
from lamella.codegen.runtime import NativeGraph
from lamella.codegen.target import CpuTarget
from lamella.dialects.text import parse_module
from lamella.driver import native, run_passes

PASSES = "aten-to-prims,prims-canonicalize,prims-to-loop,loop-fuse,loop-schedule,bufferize,kernel-to-llvm,host-to-llvm"


def compiled(rows: str, columns: int) -> tuple[NativeGraph, str]:
    """take(exp(x), i) @ w, with rows from an index: a kernel and a call of ATen."""
    x, i, w = f"!sym.t<[{rows}, {columns}], f32>", f"!sym.t<[{rows}], i64>", f"!sym.t<[{columns}, {columns}], f32>"
    y = z = x
    module = parse_module(
        f"""
        func.func @main(%x: {x}, %i: {i}, %w: {w}) -> {z} {{
          %e = aten.exp(%x) : ({x}) -> {x}
          %y = aten.index_select(%e, 0, %i) : ({x}, {i}) -> {y}
          %z = aten.mm(%y, %w) : ({y}, {w}) -> {z}
          func.return %z : {z}
        }}
        """
    )
    run_passes(module, PASSES)
    return native(module, CpuTarget.host()), str(module)


def inputs(rows: int, columns: int, generator: torch.Generator) -> list[torch.Tensor]:
    x = torch.randn(rows, columns, generator=generator)
    return [x, torch.randint(0, rows, (rows,), generator=generator), torch.randn(columns, columns, generator=generator)]


def expected(x: torch.Tensor, i: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x.exp()[i] @ w


def test_short_work_keeps_the_lock() -> None:
    _, text = compiled("8", 16)
    assert "PyEval_SaveThread" not in text and "lamella_release" not in text


@pytest.mark.parametrize("rows", ["2048", "s0"])
def test_threads_at_once(rows: str) -> None:
    graph, text = compiled(rows, 256)
    assert ("PyEval_SaveThread" if rows == "2048" else "lamella_release") in text
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        try:
            for n in (2048, 2048, 2048 if rows == "2048" else 16, 2048):
                given = inputs(n, 256, generator)
                torch.testing.assert_close(graph(list(given))[0], expected(*given), rtol=1e-4, atol=1e-4)
                given[1][3] = n  # what a kernel raises, after it has run without the lock
                with pytest.raises(IndexError):
                    graph(list(given))
        except BaseException as e:  # a failing thread must fail the test
            errors.append(e)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, errors


WATCH = r"""
@real = global ptr null
@held = global i32 -1
declare i32 @PyGILState_Check()
define i32 @watched(ptr %out, ptr %a, ptr %b) {
  %held = call i32 @PyGILState_Check()
  store i32 %held, ptr @held
  %f = load ptr, ptr @real
  %r = call i32 %f(ptr %out, ptr %a, ptr %b)
  ret i32 %r
}
"""
"""A product that notes whether its thread holds Python's lock."""


@pytest.mark.parametrize(("rows", "held"), [("2048", 0), ("8", 1)])
def test_products_leave_the_lock_to_others(rows: str, held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = load_object(compile_object(WATCH, CpuTarget.host()), ["watched", "real", "held"])
    name = "aoti_torch_cpu_mm_out"
    ctypes.c_void_p.from_address(watch["real"]).value = IMPORTS.resolve([name])[name]
    monkeypatch.setitem(IMPORTS._known, name, watch["watched"])
    columns = 256 if rows == "2048" else 16
    graph, _ = compiled(rows, columns)
    given = inputs(int(rows), columns, torch.Generator().manual_seed(0))
    torch.testing.assert_close(graph(list(given))[0], expected(*given), rtol=1e-4, atol=1e-4)
    assert ctypes.c_int32.from_address(watch["held"]).value == held


FRESH = """
import os, threading
import torch
from lamella.codegen.target import CpuTarget
from lamella.dialects.text import parse_module
from lamella.driver import native, run_passes
module = parse_module('''
    func.func @main(%x: !sym.t<[8388608], f32>) -> !sym.t<[8388608], f32> {
      %y = aten.tanh(%x) : (!sym.t<[8388608], f32>) -> !sym.t<[8388608], f32>
      func.return %y : !sym.t<[8388608], f32>
    }
''')
run_passes(module, "PASSES")
graph = native(module, CpuTarget.host()).function()
torch.set_num_threads(1)
x = torch.zeros(8388608)
counts = []

def work():
    before = len(os.listdir("/proc/self/task"))
    graph([x])
    counts.append(len(os.listdir("/proc/self/task")) - before)

thread = threading.Thread(target=work)
thread.start()
thread.join()
print(counts)
""".replace("PASSES", PASSES)


@pytest.mark.skipif(sys.platform != "linux", reason="counts the threads of the process in /proc")
def test_a_new_thread_follows_set_num_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    done = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[0]"
