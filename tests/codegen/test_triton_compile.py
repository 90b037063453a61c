"""Triton text to cubins, without a GPU: architectures, the cache, processes that die, hang or reject."""

from __future__ import annotations

import re
import select
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lamella.codegen import triton_compile, triton_workers
from lamella.codegen.cache import Cache
from lamella.codegen.errors import CodegenError
from lamella.codegen.triton_compile import KernelSource, compile_kernels, waiting
from lamella.codegen.triton_stages import rolled
from lamella.codegen.triton_workers import Answer, Batch, Request, Worker, Workers
from lamella.dialects.text import parse_module
from lamella.dialects.tt_text import kernel_text

pytestmark = pytest.mark.skipif(find_spec("triton") is None, reason="needs triton")


def add_one(name: str, value: str = "1.0") -> str:
    return textwrap.dedent(f"""
        module {{
          tt.func public @{name}(%x: !tt.ptr<f32> {{tt.divisibility = 16 : i32}}, %n: i32) attributes {{noinline = false}} {{
            %c = arith.constant 128 : i32
            %one = arith.constant dense<{value}> : tensor<128xf32>
            %p = tt.get_program_id x : i32
            %start = arith.muli %p, %c : i32
            %r = tt.make_range {{start = 0 : i32, end = 128 : i32}} : tensor<128xi32>
            %s = tt.splat %start : i32 -> tensor<128xi32>
            %i = arith.addi %s, %r : tensor<128xi32>
            %ns = tt.splat %n : i32 -> tensor<128xi32>
            %mask = arith.cmpi slt, %i, %ns : tensor<128xi32>
            %xs = tt.splat %x : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
            %at = tt.addptr %xs, %i : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
            %v = tt.load %at, %mask : tensor<128x!tt.ptr<f32>>
            %w = arith.addf %v, %one : tensor<128xf32>
            tt.store %at, %w, %mask : tensor<128x!tt.ptr<f32>>
            tt.return
          }}
        }}
        """)


ABORTS = """
module {
  tt.func public @aborts(%x: !tt.ptr<i1>) attributes {noinline = false} {
    %r = tt.make_range {start = 0 : i32, end = 128 : i32} : tensor<128xi32>
    %xs = tt.splat %x : !tt.ptr<i1> -> tensor<128x!tt.ptr<i1>>
    %at = tt.addptr %xs, %r : tensor<128x!tt.ptr<i1>>, tensor<128xi32>
    %v = tt.load %at : tensor<128x!tt.ptr<i1>>
    tt.store %at, %v : tensor<128x!tt.ptr<i1>>
    tt.return
  }
}
"""


tt_kernel = """
  tt.func public @fill(%x: !tt.ptr<i32> {tt.divisibility = 16 : i32}) attributes {noinline = false} {
    %r = tt.make_range {start = 0 : i32, end = 128 : i32} : tensor<128xi32>
    %xs = tt.splat %x : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>>
    %at = tt.addptr %xs, %r : tensor<128x!tt.ptr<i32>>, tensor<128xi32>
    tt.store %at, %r : tensor<128x!tt.ptr<i32>>
    tt.return
  }
"""


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path, 1 << 30)


@pytest.mark.parametrize("sm", [80, 90, 100])
def test_cubin(sm: int, cache: Cache) -> None:
    (kernel,) = compile_kernels([KernelSource("add_one", add_one("add_one"))], sm, cache=cache)
    assert kernel.cubin[:4] == b"\x7fELF"
    assert (kernel.name, kernel.warps, kernel.shared, kernel.scratch) == ("add_one", 4, 0, 0)


@pytest.mark.parametrize("sm", [80, 90, 100])
def test_programs_wait_for_the_launch_before(sm: int, cache: Cache) -> None:
    """Where launches may overlap, a kernel of ours does nothing before the launch before is over."""
    text = kernel_text(parse_module(tt_kernel).body.block.first_op)  # pyright: ignore
    (kernel,) = compile_kernels([KernelSource("fill", text)], sm, cache=cache)
    assert kernel.overlaps == (sm >= 90) and kernel.source is not None and kernel.source.text == text
    lines = waiting(text).splitlines()
    entry = next(i for i, line in enumerate(lines) if line.startswith("^bb0"))
    assert "griddepcontrol.wait" in lines[entry + 1] and len(lines) == len(text.splitlines()) + 1
    (again,) = compile_kernels([KernelSource("fill", text)], sm, cache=cache)
    assert again == kernel


def test_loops_around_products_are_not_unrolled() -> None:
    """The place behind the label of a loop's first line is where PTX says so; branches forward begin no loop."""
    ptx = """\
.visible .entry f() {
	@%p0 bra 	$L__BB0_3;
$L__BB0_1:                              // =>This Loop Header: Depth=1
	mov.u32 %r0, 0;
$L__BB0_2:
	@%p1 bra 	$L__BB0_2;
	bra.uni 	$L__BB0_1;
$L__BB0_3:
	ret;
}"""
    wanted = ptx.replace("Depth=1", 'Depth=1\n\t.pragma "nounroll";').replace("_2:", '_2:\n\t.pragma "nounroll";')
    assert rolled(ptx) == wanted


PRODUCT = """
module {
  tt.func public @product(%x: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %n: i32) attributes {noinline = false} {
    %zero = arith.constant dense<0.0> : tensor<64x64xf32>
    %c0 = arith.constant 0 : i32
    %c64 = arith.constant 64 : i32
    %r = tt.make_range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
    %rows = tt.expand_dims %r {axis = 1 : i32} : tensor<64xi32> -> tensor<64x1xi32>
    %columns = tt.expand_dims %r {axis = 0 : i32} : tensor<64xi32> -> tensor<1x64xi32>
    %long = arith.constant dense<64> : tensor<64x1xi32>
    %starts = arith.muli %rows, %long : tensor<64x1xi32>
    %a = tt.broadcast %starts : tensor<64x1xi32> -> tensor<64x64xi32>
    %b = tt.broadcast %columns : tensor<1x64xi32> -> tensor<64x64xi32>
    %i = arith.addi %a, %b : tensor<64x64xi32>
    %sum = scf.for %k = %c0 to %n step %c64 iter_args(%s = %zero) -> (tensor<64x64xf32>) : i32 {
      %from = tt.addptr %x, %k : !tt.ptr<f16>, i32
      %ps = tt.splat %from : !tt.ptr<f16> -> tensor<64x64x!tt.ptr<f16>>
      %at = tt.addptr %ps, %i : tensor<64x64x!tt.ptr<f16>>, tensor<64x64xi32>
      %v = tt.load %at : tensor<64x64x!tt.ptr<f16>>
      %d = tt.dot %v, %v, %s : tensor<64x64xf16> * tensor<64x64xf16> -> tensor<64x64xf32>
      scf.yield %d : tensor<64x64xf32>
    }
    %half = arith.truncf %sum : tensor<64x64xf32> to tensor<64x64xf16>
    %xs = tt.splat %x : !tt.ptr<f16> -> tensor<64x64x!tt.ptr<f16>>
    %to = tt.addptr %xs, %i : tensor<64x64x!tt.ptr<f16>>, tensor<64x64xi32>
    tt.store %to, %half : tensor<64x64x!tt.ptr<f16>>
    tt.return
  }
}
"""


@pytest.mark.parametrize("sm", [80, 90, 100])
def test_the_loop_of_a_product_is_not_unrolled(sm: int) -> None:
    program = """if True:
        import sys, triton_stages
        made = []
        rolled = triton_stages.rolled
        triton_stages.rolled = lambda ptx: made.append(rolled(ptx)) or made[-1]
        triton_stages.compile_text(sys.argv[1], int(sys.argv[2]), {"num_warps": 4, "num_stages": 3})
        print(*(ptx.count('.pragma "nounroll";') for ptx in made))
    """
    folder = Path(triton_compile.__file__).parent
    ran = subprocess.run(
        [sys.executable, "-c", program, PRODUCT, str(sm)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert ran.stdout.split() == ["1"], ran.stderr[-500:]


def test_each_text_is_compiled_once(cache: Cache) -> None:
    asked: list[Request] = []

    class Counting(Workers):
        def begin(self, requests: Sequence[Request], processes: int, **how: Any) -> Batch:
            asked.extend(requests)
            return super().begin(requests, processes, **how)

    sources = [
        KernelSource("k", add_one("k")),
        KernelSource("k", add_one("k")),
        KernelSource("j", add_one("j"), warps=8),
    ]
    heard: list[tuple[int, int]] = []
    compiled = partial(compile_kernels, sources, 90, cache=cache, workers=Counting())
    found = compiled(progress=lambda done, of, name: heard.append((done, of)))
    assert len(asked) == 2 and heard == [(1, 2), (2, 2)]
    assert found[0] == found[1] and [k.warps for k in found] == [4, 4, 8]
    assert compiled() == found and len(asked) == 2
    compile_kernels(sources, 80, cache=cache, workers=Counting())
    assert len(asked) == 4


def test_rejected_text(cache: Cache) -> None:
    with pytest.raises(CodegenError, match=r"(?s)does not compile the kernel bad for sm_90.*text is in (\S+)") as error:
        compile_kernels([KernelSource("bad", "module { tt.func public @bad( }")], 90, cache=cache)
    file = Path(str(error.value).rpartition(" ")[2])
    assert file.read_text() == "module { tt.func public @bad( }"
    file.unlink()


def test_death_is_of_one_kernel() -> None:
    """The others are compiled, and a later one too."""
    workers = Workers()
    texts = [add_one("a"), ABORTS, add_one("b")]
    answers = workers.begin([Request(text, 90, {"num_warps": 4}) for text in texts], 2).finish()
    assert [bool(a.cubin) for a in answers] == [True, False, True]
    assert "exit status" in answers[1].error and "Assertion" in answers[1].error
    assert workers.begin([Request(add_one("c"), 90, {})], 1).finish()[0].cubin
    workers.stop()


def script(folder: Path, text: str) -> Path:
    path = folder / "worker.py"
    path.write_text(f"import sys\nsys.path.insert(0, {str(Path(triton_compile.__file__).parent)!r})\n" + text)
    return path


def test_process_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second is over when the process has said something: on a busy machine it starts later than that."""
    mark = tmp_path / "mark"
    clock = SimpleNamespace(monotonic=lambda: 10.0 if mark.exists() else 0.0)
    monkeypatch.setattr(triton_workers, "time", clock)
    text = f"""
        import time
        from pathlib import Path
        from triton_stages import receive, send
        send(sys.stdout.buffer, ("loaded",))
        receive(sys.stdin.buffer)
        print("here", file=sys.stderr, flush=True)
        Path({str(mark)!r}).touch()
        time.sleep(60)
        """
    workers = Workers(lambda: Worker(script(tmp_path, textwrap.dedent(text))))
    (answer,) = workers.begin([Request("", 90, {})], 1, seconds=1).finish()
    assert "stopped after 1 s" in answer.error and "here" in answer.error


def test_process_that_went_is_replaced(tmp_path: Path) -> None:
    """One that ended by itself, as idle ones do, costs nothing but a new one."""
    mark = tmp_path / "mark"
    text = f"""
        import os
        from pathlib import Path
        from triton_stages import receive, send
        if not Path({str(mark)!r}).exists():
            Path({str(mark)!r}).touch()
            sys.exit(0)
        send(sys.stdout.buffer, ("loaded",))
        while (request := receive(sys.stdin.buffer)) is not None:
            send(sys.stdout.buffer, ("ok", b"code", {{}}))
        """
    workers = Workers(lambda: Worker(script(tmp_path, textwrap.dedent(text))))
    assert workers.begin([Request("", 90, {})], 1).finish() == [Answer(b"code", {})]
    workers.stop()


def test_who_is_ready_goes_first(tmp_path: Path) -> None:
    """Of two processes one never gets to load Triton: the other answers all, and nobody waits."""
    slow = """
        import time
        time.sleep(600)
        """
    quick = """
        from triton_stages import receive, send
        send(sys.stdout.buffer, ("loaded",))
        while (request := receive(sys.stdin.buffer)) is not None:
            send(sys.stdout.buffer, ("ok", request[0].encode(), {}))
        """
    made: list[Worker] = []

    def start() -> Worker:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(Worker(script(folder, textwrap.dedent(quick if made else slow))))
        return made[-1]

    workers = Workers(start)
    workers.start(2)
    answers = workers.begin([Request(str(i), 90, {}) for i in range(5)], 2).finish()
    assert [a.cubin for a in answers] == [b"0", b"1", b"2", b"3", b"4"]
    made[0].process.kill()
    workers.stop()


ECHO = """
    import os
    from triton_stages import receive, send
    send(sys.stdout.buffer, ("loaded",))
    while (request := receive(sys.stdin.buffer)) is not None:
        print(request[1], file=sys.stderr, flush=True)
        send(sys.stdout.buffer, ("ok", request[0].encode(), {}))
    """


def test_at_work_before_they_are_waited_for(tmp_path: Path) -> None:
    """Processes that have loaded Triton are asked at once, also those that were only started; texts and code may be
    longer than a pipe holds.
    """
    text = "b" * (1 << 21)
    workers = Workers(lambda: Worker(script(tmp_path, textwrap.dedent(ECHO))))
    workers.start(1)
    (worker,) = workers.take(1)
    workers.give_back(worker)
    until = time.monotonic() + 60
    assert worker.process.stdout is not None and select.select([worker.process.stdout], [], [], 60)[0]
    for _ in range(2):
        batch = workers.begin([Request(text, 90, {})], 1)
        while worker.words() != "\n  90":
            assert time.monotonic() < until
            time.sleep(0.01)
        (answer,) = batch.finish()
        assert answer.cubin == text.encode() and workers.take(2) == [worker]
        workers.give_back(worker)
    worker.stop()


def test_who_no_longer_waits(tmp_path: Path) -> None:
    """Processes whose answers nobody will hear end, and later ones are others'."""

    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    workers = Workers(lambda: Worker(script(tmp_path, textwrap.dedent(ECHO))))
    batch = workers.begin([Request("a", 90, {}), Request("b", 90, {})], 1)
    with pytest.raises(KeyboardInterrupt):
        batch.finish(interrupted)
    assert workers.take(1) == []
    assert workers.begin([Request("c", 90, {})], 1).finish() == [Answer(b"c", {})]
    workers.stop()


@pytest.mark.parametrize(
    "raised, said", [("ImportError", "^ImportError: broken"), ("ValueError", "exit status 1.*broken")]
)
def test_triton_that_cannot_be_loaded(tmp_path: Path, raised: str, said: str) -> None:
    """The kernel is told; and of what is no reason to expect, where it came from."""
    text = f"""
        import triton_stages
        def broken(*_: object) -> None:
            raise {raised}("broken")
        triton_stages._load = triton_stages.compile_text = broken
        triton_stages.main()
        """
    workers = Workers(lambda: Worker(script(tmp_path, textwrap.dedent(text))))
    (answer,) = workers.begin([Request("", 90, {})], 1).finish()
    workers.stop()
    assert re.search(f"(?s){said}", answer.error)


def test_without_triton(monkeypatch: pytest.MonkeyPatch, cache: Cache) -> None:
    monkeypatch.setattr(triton_compile, "triton_version", lambda: None)
    with pytest.raises(CodegenError, match="pip install 'triton"):
        compile_kernels([KernelSource("k", add_one("k"))], 90, cache=cache)


def test_nothing_of_triton_is_imported_here(tmp_path: Path) -> None:
    """In a process of its own: other tests import Triton."""
    program = f"""
import sys
from pathlib import Path
from lamella.codegen.cache import Cache
from lamella.codegen.triton_compile import CompiledKernel, KernelSource, compile_kernels
(kernel,) = compile_kernels([KernelSource("k", {add_one("k")!r})], 90, cache=Cache(Path({str(tmp_path)!r}), 1 << 30))
assert isinstance(kernel, CompiledKernel), kernel
assert "triton._C.libtriton" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
