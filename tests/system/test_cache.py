"""The cache on disk between processes: hits without a pass, races, kills, damage; AOTAutograd's cache on top of it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from lamella import driver
from lamella.codegen.cache import Cache, default_cache
from lamella.codegen.cache_artifacts import LamellaCacheArtifact
from lamella.lowering.pipeline_text import parse_passes

COMPILE = """
    import sys, torch
    import lamella.driver as driver
    from lamella.dialects.text import parse_module
    from lamella.lowering.pass_manager import PassManager

    TEXT = '''
    func.func @main(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32> {
      %a = aten.add.Tensor(%x, %x, alpha = 2) : (!sym.t<[s0, 16], f32>, !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
      %b = aten._softmax(%a, -1, false) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
      func.return %b : !sym.t<[s0, 16], f32>
    }
    '''
    passes = []
    apply = PassManager._run_pass
    PassManager._run_pass = lambda self, i, p, m: (passes.append(p.name), apply(self, i, p, m))[1]
    made = driver.compile_module(parse_module(TEXT))
    x = torch.linspace(-1, 1, 48).view(3, 16)
    torch.testing.assert_close(made.graph([x])[0], torch.softmax(3 * x, -1))
    print(made.from_cache, len(passes), len(made.kernels))
"""


class Processes:
    """Runs scripts with a cache of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        self.environment = {
            **os.environ,
            "LAMELLA_CACHE_DIR": str(self.cache),
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "aot"),
            "OMP_NUM_THREADS": "1",
        }

    def start(self, code: str, **environment: str) -> subprocess.Popen[str]:
        arguments = [sys.executable, "-c", textwrap.dedent(code)]
        pipe = subprocess.PIPE
        return subprocess.Popen(arguments, env={**self.environment, **environment}, stdout=pipe, stderr=pipe, text=True)

    def run(self, code: str, **environment: str) -> tuple[str, str]:
        return self.finish(self.start(code, **environment))

    def finish(self, process: subprocess.Popen[str]) -> tuple[str, str]:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        return out.strip(), err

    def entries(self, kind: str) -> list[Path]:
        return [p for p in (self.cache / kind).rglob("*") if p.is_file()]


@pytest.fixture
def processes(tmp_path: Path) -> Processes:
    return Processes(tmp_path)


PASSES = parse_passes(driver.pipeline(driver.Options(), driver.target_of(driver.Options())))
MADE, FOUND = f"False {len(PASSES)} 1", "True 0 1"


def test_the_second_process_runs_no_pass(processes: Processes) -> None:
    assert processes.run(COMPILE)[0] == MADE
    assert processes.run(COMPILE)[0] == FOUND
    assert len(processes.entries("graph")) == 1


def test_damage_and_options(processes: Processes) -> None:
    """A damaged entry is made again and mended; another target has an entry of its own; the cache can be off."""
    assert processes.run(COMPILE)[0] == MADE
    (entry,) = processes.entries("graph")
    whole = entry.read_bytes()
    entry.write_bytes(whole[: len(whole) // 2])
    assert processes.run(COMPILE)[0] == MADE and processes.run(COMPILE)[0] == FOUND
    options = COMPILE.replace("parse_module(TEXT)", "parse_module(TEXT), driver.Options(threads=False)")
    assert processes.run(options)[0] == MADE and len(processes.entries("graph")) == 2
    off = COMPILE.replace("parse_module(TEXT)", "parse_module(TEXT), driver.Options(cache=False)")
    assert processes.run(off)[0] == MADE


def test_two_processes_at_once(processes: Processes) -> None:
    both = [processes.start(COMPILE) for _ in range(2)]
    said = sorted(processes.finish(p)[0] for p in both)
    assert said in ([MADE, MADE], [MADE, FOUND]) and processes.run(COMPILE)[0] == FOUND
    assert len(processes.entries("graph")) == 1


def test_kill_in_the_middle_of_a_write(processes: Processes) -> None:
    """Half of an entry was written when the process died: the next one compiles, and its entry is whole."""
    slow = """
    import os, time
    from pathlib import Path
    write = Path.write_bytes

    def half(self, data):
        if "graph" in self.parts:
            write(self, data[: len(data) // 2])
            print("half", flush=True)
            time.sleep(300)
        return write(self, data)

    Path.write_bytes = half
    """
    process = processes.start(slow + COMPILE)
    assert process.stdout is not None and process.stdout.readline() == "half\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(processes.entries("graph")) == 1  # the temporary file
    assert processes.run(COMPILE)[0] == MADE and processes.run(COMPILE)[0] == FOUND


@pytest.mark.parametrize("where", ["a file", "a forbidden folder"])
def test_folder_that_cannot_be_written(processes: Processes, where: str) -> None:
    """It compiles, with one warning."""
    if where == "a file":
        processes.cache.write_text("in the way")
    else:
        processes.cache.mkdir()
        processes.cache.chmod(0o500)
        if os.access(processes.cache, os.W_OK):
            pytest.skip("this user may write everywhere")
    said, errors = processes.run(COMPILE)
    assert said == MADE and errors.count("lamella compiles without its disk cache") == 1


TRAIN = """
    import torch
    import lamella.driver as driver

    calls = []
    compile_module = driver.compile_module
    driver.compile_module = lambda *a, **k: (calls.append(1), compile_module(*a, **k))[1]
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.GELU())
    compiled = torch.compile(net, backend="lamella", dynamic=True)
    for n in (3, 5):
        x = torch.randn(n, 8)
        compiled(x).square().sum().backward()
        got = [p.grad.clone() for p in net.parameters()]
        net.zero_grad()
        net(x).square().sum().backward()
        for g, p in zip(got, net.parameters()):
            torch.testing.assert_close(g, p.grad)
        net.zero_grad()
    print(len(calls))
"""


def test_autograd_cache(processes: Processes) -> None:
    """The compiler is not called in the second process, for the forward nor for the backward; but in one that has
    another number of threads, which kernels are made for.
    """
    assert processes.run(TRAIN)[0] == "2"
    assert processes.run(TRAIN)[0] == "0"
    if len(os.sched_getaffinity(0)) > 1:
        assert processes.run(TRAIN, OMP_NUM_THREADS="2")[0] == "2"
    assert processes.run(TRAIN)[0] == "0"


SAVE = """
    import torch
    import lamella

    data, info = torch.compiler.save_cache_artifacts()
    open({path!r}, "wb").write(data)
"""
LOAD = """
    import torch
    import lamella

    print(len(torch.compiler.load_cache_artifacts(open({path!r}, "rb").read()).lamella_artifacts) > 0)
"""
INFER = """
    import torch
    from torch._dynamo.utils import counters

    def program(x):
        return torch.softmax(x * 2, -1)

    with torch.no_grad():
        x = torch.randn(3, 8)
        torch.testing.assert_close(torch.compile(program, backend="lamella")(x), program(x))
    print(1 - counters["lamella"]["traces reused"])
"""


@pytest.mark.parametrize(("program", "made"), [(TRAIN, 2), (INFER, 1)], ids=["training", "inference"])
def test_artifacts_that_torch_saves(processes: Processes, tmp_path: Path, program: str, made: int) -> None:
    """What one process has compiled is saved, and loaded by one with empty caches, which compiles nothing."""
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    lines = "\n" * LOAD.count("\n")  # a function that has moved is traced again
    assert processes.run(lines + program + SAVE.format(path=first))[0] == f"{made}"
    other = Processes(tmp_path / "other")
    assert other.run(LOAD.format(path=first) + program)[0] == "True\n0"
    assert other.run(lines + program + SAVE.format(path=second))[0] == "0"
    third = Processes(tmp_path / "third")  # what was only read is saved, too
    assert third.run(LOAD.format(path=second) + program)[0] == "True\n0"


def test_artifacts_that_are_none_or_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMELLA_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.warns(RuntimeWarning, match="'../../x' is no entry of its cache"):
        LamellaCacheArtifact("../../x", b"1").populate_cache()
    LamellaCacheArtifact("obj/abc", Cache(tmp_path / "empty", 1 << 20)).populate_cache()
    assert not list(tmp_path.rglob("*"))
    LamellaCacheArtifact("obj/abc", b"1").populate_cache()
    assert default_cache().get("obj", "abc") == b"1"


SETTINGS = """
    import torch

    def f(x):
        return x + torch.ones(3)

    x = torch.arange(3)
    compiled = torch.compile(f, backend="lamella")
    for dtype in (torch.float32, torch.float64):
        torch.set_default_dtype(dtype)
        print(compiled(x).dtype)
"""


def test_settings_of_torch(processes: Processes) -> None:
    """A graph that was traced with other settings is another one, though its text says the same."""
    for _ in range(2):
        assert processes.run(SETTINGS)[0].split() == ["torch.float32", "torch.float64"]


def aot_entries(processes: Processes) -> list[Path]:
    """What AOTAutograd has kept."""
    found = [p for p in (processes.folder / "aot" / "aotautograd").rglob("*") if p.is_file()]
    assert found
    return found


@pytest.mark.parametrize("damage", ["code", "end"])
def test_damaged_autograd_cache(processes: Processes, damage: str) -> None:
    """Machine code with a wrong byte is never run, a file cut short never used: both are compiled again."""
    assert processes.run(TRAIN)[0] == "2"
    for path in aot_entries(processes):
        content = bytearray(path.read_bytes())
        if damage == "code":
            starts = [at for at in range(len(content)) if content.startswith(b"\x7fELF", at)]
            assert starts
            for at in starts:
                content[at + 200] ^= 0x10
        else:
            del content[len(content) // 2 :]
        path.write_bytes(content)
    processes.run("import shutil, os; shutil.rmtree(os.environ['LAMELLA_CACHE_DIR'])")
    assert processes.run(TRAIN)[0] == "2"


EVERY_KIND = """
    import torch
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU())
    x = torch.randn(3, 8)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(net, backend="lamella", options={"autotune": True})(x), net(x))
    from torch._dynamo.utils import counters
    print(counters["lamella"]["traces reused"])
"""


@pytest.mark.parametrize("damage", ["bit", "end"])
def test_damaged_entries_of_every_kind(processes: Processes, damage: str) -> None:
    """Objects, graphs, traces and measured choices with a wrong bit, or cut short, are made again, and then used."""
    assert processes.run(EVERY_KIND)[0] == "0" and processes.run(EVERY_KIND)[0] == "1"
    for kind in ("graph", "obj", "product", "trace"):
        assert processes.entries(kind)
        for path in processes.entries(kind):
            content = bytearray(path.read_bytes())
            if damage == "bit":
                content[-len(content) // 3] ^= 0x10
            else:
                del content[-len(content) // 3 :]
            path.write_bytes(content)
    shutil.rmtree(processes.folder / "aot")
    said, errors = processes.run(EVERY_KIND)
    assert said == "0" and "arning" not in errors
    assert Cache(processes.cache, 1 << 30).verify() == []
    assert processes.run(EVERY_KIND)[0] == "1"


def test_two_training_processes_at_once(processes: Processes) -> None:
    both = [processes.start(TRAIN) for _ in range(2)]
    assert {processes.finish(p)[0] for p in both} <= {"0", "1", "2"}
    assert processes.run(TRAIN)[0] == "0"


def test_killed_while_autograd_keeps(processes: Processes) -> None:
    """AOTAutograd's writes are whole or not there, too."""
    slow = """
    import os, time

    def never(*args, **named):
        print("written", flush=True)
        time.sleep(300)

    os.replace = os.rename = never
    import pathlib
    pathlib.Path.rename = pathlib.Path.replace = never
    """
    process = processes.start(slow + TRAIN, LAMELLA_CACHE_SIZE="0")
    assert process.stdout is not None and process.stdout.readline() == "written\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert processes.run(TRAIN)[0] == "2" and processes.run(TRAIN)[0] == "0"


FULL = """
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))  # a write beyond it fails, as on a full disk
"""


def test_full_disk(processes: Processes) -> None:
    """Nothing can be written: forward and backward are compiled and right, with one warning, and nothing half is left."""
    said, errors = processes.run(FULL + TRAIN)
    assert said == "2" and errors.count("lamella compiles without its disk cache") == 1
    assert processes.entries("graph") == processes.entries("obj") == []
    assert processes.run(TRAIN)[0] == "2" and processes.run(TRAIN)[0] == "0"


def test_full_file_system(processes: Processes, tmp_path: Path) -> None:
    """A file system of 16 KB is full before the first entry is whole: ENOSPC from the kernel."""
    for folder in ("cache", "aot"):
        (tmp_path / folder).mkdir()
    mounts = " && ".join(f"mount -t tmpfs -o size=16k none {tmp_path / folder}" for folder in ("cache", "aot"))
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(TRAIN))
    command = ["unshare", "-Urm", "sh", "-c", f"{mounts} && exec {sys.executable} {script}"]
    if shutil.which("unshare") is None or subprocess.run([*command[:-1], mounts], capture_output=True).returncode:
        pytest.skip("this user may not mount")
    done = subprocess.run(command, env=processes.environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "2" and "No space left on device" in done.stderr
    assert done.stderr.count("lamella compiles without its disk cache") == 1


def test_folders_that_cannot_be_written(processes: Processes) -> None:
    """Files where both caches should be: training works, and says so once."""
    processes.cache.write_text("in the way")
    (processes.folder / "aot").mkdir()
    (processes.folder / "aot" / "aotautograd").write_text("in the way")
    said, errors = processes.run(TRAIN)
    assert said == "2" and errors.count("lamella compiles without its disk cache") == 1


WARM = """
    import sys, torch
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.GELU())
    x = torch.randn(3, 8)
    with torch.no_grad():
        expected = net(x)
        torch.testing.assert_close(torch.compile(net, backend="lamella")(x), expected)
    print(*(name for name in ("xdsl", "lamella.dialects.tensor", "lamella.lowering.registry") if name in sys.modules))
"""


def test_a_cached_graph_needs_no_compiler(processes: Processes) -> None:
    """What a second process imports is what loading code takes: no IR, no pass."""
    assert processes.run(WARM)[0] == "xdsl lamella.dialects.tensor lamella.lowering.registry"
    assert processes.run(WARM)[0] == ""
