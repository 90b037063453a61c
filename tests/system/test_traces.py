"""Functions that another process has traced: used again where nothing has changed, traced where anything has.

Another process is, in most of these, TorchDynamo's caches cleared: what is kept on disk has no addresses in it.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MethodType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.exc import BackendCompilerFailed
from torch._dynamo.utils import counters

from lamella import driver


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("LAMELLA_CACHE_DIR", str(tmp_path / "cache"))
    torch._dynamo.reset()
    yield tmp_path / "cache" / "trace"
    torch._dynamo.reset()


def reused(program: Callable[..., Any], *args: Any, **how: Any) -> int:
    """How many traces a first call of `program` uses again; its result is eager's."""
    torch._dynamo.reset()
    counters.clear()
    with torch.no_grad():
        expected = program(*args)
        found = torch.compile(program, backend=driver.lamella, **how)(*args)
    torch.testing.assert_close(found, expected)
    assert found.stride() == expected.stride()
    return counters["lamella"]["traces reused"]


SCALE = 2.0
TABLE: dict[str, Any] = {"a": 1.5, "b": [1, 2]}
SETTINGS = SimpleNamespace(power=2, name="sin")


class Config:
    bias = 3.0


def helper(x: torch.Tensor, by: float = 1.0) -> torch.Tensor:
    return x * by


def other(x: torch.Tensor, by: float = 1.0) -> torch.Tensor:
    return x - by


class Part(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8, eps=1e-5)
        self.factor = 0.5
        self.sizes = [2, 4]
        self.kind = "tanh"

    def inner(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x) * self.factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return getattr(self.inner(x), self.kind)().reshape(*self.sizes, -1)


class Other(Part):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + 1


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv1d(1, 1, 3, padding=1)
        self.part = Part()
        self.weight = nn.Parameter(torch.randn(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x.reshape(x.shape[0], 1, -1))[:, 0, :8] * self.weight
        x = helper(x) * SCALE + TABLE["a"] + Config.bias + SETTINGS.power
        return self.part(x)


def batch() -> torch.Tensor:
    return torch.randn(8, 8, generator=torch.Generator().manual_seed(1))


def test_a_number_in_a_tensor() -> None:
    """torch builds the guard of a tensor without dims from the tensor that is there."""

    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y

    x = torch.randn(3, 5)
    assert reused(program, x, torch.tensor(2.0), dynamic=False) == 0
    assert reused(program, x, torch.randn(5), dynamic=False) == 0
    assert reused(program, x, torch.tensor(3.0), dynamic=False) == 1


def test_what_has_not_changed_is_not_traced() -> None:
    model = Model()
    assert reused(model, batch()) == 0
    assert reused(model, batch()) == 1
    assert reused(Model(), batch() + 1) == 1  # other numbers, other objects of the same kinds
    model.register_forward_hook(_hook)  # it is `forward` that is traced
    assert reused(model, batch()) == 1


def test_what_is_compiled_whole_or_by_name() -> None:
    function = lambda x: helper(x).exp()  # noqa: E731
    assert reused(function, batch(), fullgraph=True) == 0
    assert reused(function, batch(), fullgraph=True) == 1
    torch._dynamo.reset()
    counters.clear()
    compiled = torch.compile(function, backend="lamella", fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(batch()), function(batch()))
    assert counters["lamella"]["traces reused"] == 1


def _hook(_module: Any, _args: Any, result: torch.Tensor) -> torch.Tensor:
    return result + 1


def _before(_module: Any, args: Any) -> Any:
    return tuple(a * 2 for a in args)


def _forward(self: Part, x: torch.Tensor) -> torch.Tensor:
    return x - 1


CHANGES: dict[str, Callable[[Model, pytest.MonkeyPatch], object]] = {
    "number of a layer": lambda m, p: setattr(m.part.norm, "eps", 0.5),
    "numbers of a layer": lambda m, p: setattr(m.conv, "padding", (2,)),
    "step of a layer": lambda m, p: setattr(m.conv, "dilation", (2,)) or setattr(m.conv, "padding", (2,)),
    "attribute": lambda m, p: setattr(m.part, "factor", 0.25),
    "attribute that is a list": lambda m, p: setattr(m.part, "sizes", [4, 2]),
    "attribute that is a name": lambda m, p: setattr(m.part, "kind", "sin"),
    "layer": lambda m, p: setattr(m, "part", Other()),
    "layer that does nothing": lambda m, p: setattr(m.part, "norm", nn.Identity()),
    "parameter there": lambda m, p: setattr(m.conv, "bias", None),
    "shape of a parameter": lambda m, p: setattr(m, "weight", nn.Parameter(m.weight.detach()[:1])),
    "hook": lambda m, p: m.part.norm.register_forward_hook(_hook),
    "hook before": lambda m, p: m.conv.register_forward_pre_hook(_before),
    "forward of an object": lambda m, p: setattr(m.part, "forward", MethodType(_forward, m.part)),
    "forward of a class": lambda m, p: p.setattr(Part, "forward", _forward),
    "method of a class": lambda m, p: p.setattr(Part, "inner", _forward),
    "method of torch's": lambda m, p: p.setattr(nn.LayerNorm, "forward", lambda self, x: x * self.eps),
    "function": lambda m, p: p.setitem(globals(), "helper", other),
    "code of a function": lambda m, p: p.setattr(helper, "__code__", other.__code__),
    "default": lambda m, p: p.setattr(helper, "__defaults__", (3.0,)),
    "global": lambda m, p: p.setitem(globals(), "SCALE", 3.0),
    "item of a global": lambda m, p: p.setitem(TABLE, "a", 2.5),
    "attribute of a global": lambda m, p: p.setattr(SETTINGS, "power", 3),
    "attribute of a class": lambda m, p: p.setattr(Config, "bias", 4.0),
    "whether it trains": lambda m, p: m.eval(),
    "modules of the same kind swapped": lambda m, p: setattr(m, "conv", nn.Conv1d(1, 1, 3, padding=1, bias=False)),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_has_changed_is_traced(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reused(Model(), batch()) == 0
    model = Model()
    CHANGES[what](model, monkeypatch)
    assert reused(model, batch()) == 0


INPUTS: dict[str, Callable[[], torch.Tensor]] = {
    "rows": lambda: batch()[:4],
    "type": lambda: batch().double(),
    "strides": lambda: batch().t(),
    "gradient": lambda: batch().requires_grad_(),
    "class": lambda: nn.Parameter(batch(), requires_grad=False),
    "conjugate": lambda: torch.complex(batch(), batch()).conj().imag,
}


@pytest.mark.parametrize("what", INPUTS)
def test_other_inputs_are_traced(what: str) -> None:
    function = lambda x: (x.t() * 2).sum(0)  # noqa: E731
    assert reused(function, batch()) == 0
    assert reused(function, INPUTS[what]()) == 0


class _deterministic:
    def __enter__(self) -> None:
        torch.use_deterministic_algorithms(True)

    def __exit__(self, *_: object) -> None:
        torch.use_deterministic_algorithms(False)


STATES: dict[str, Callable[[], Any]] = {
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "inference": torch.inference_mode,
    "device": lambda: torch.device("cpu"),
    "settings": lambda: torch._dynamo.config.patch(assume_static_by_default=False),
    "gradients": torch.enable_grad,
    "determinism": _deterministic,
}


@pytest.mark.parametrize("what", STATES)
def test_other_states_are_traced(what: str) -> None:
    function = lambda x: x @ x + 1  # noqa: E731
    assert reused(function, batch()) == 0
    torch._dynamo.reset()
    counters.clear()
    with torch.no_grad(), STATES[what]():
        found = torch.compile(function, backend=driver.lamella)(batch())
        torch.testing.assert_close(found, function(batch()))
    assert counters["lamella"]["traces reused"] == 0


def test_closures_and_arguments() -> None:
    def make(by: float, using: Callable[..., Any]) -> Callable[..., Any]:
        def run(x: torch.Tensor, *, more: float = 1.0) -> torch.Tensor:
            return using(x, by) + more

        return run

    assert reused(make(2.0, helper), batch()) == 0
    assert reused(make(2.0, helper), batch()) == 1
    assert reused(make(3.0, helper), batch()) == 0
    assert reused(make(2.0, other), batch()) == 0


def test_two_inputs_that_are_one() -> None:
    function = lambda x, y: x.sin() + y * 2  # noqa: E731
    x, y = batch(), batch() + 1
    assert reused(function, x, y) == 0
    assert reused(function, x, x) == 0
    assert reused(function, x, y) == 1
    assert reused(function, y, y) == 1


def test_sizes_that_change() -> None:
    function = lambda x: torch.softmax(x * x.shape[0], 1)  # noqa: E731
    for reuses in (0, 1):  # a graph with symbolic sizes tells AOTAutograd which sizes of its results change
        torch._dynamo.reset()
        counters.clear()
        compiled = torch.compile(function, backend=driver.lamella)
        with torch.no_grad():
            for n in (3, 5, 7, 9):
                x = torch.randn(n, 4)
                torch.testing.assert_close(compiled(x), function(x))
        assert counters["lamella"]["traces reused"] == reuses
        assert len(torch._dynamo.eval_frame._debug_get_cache_entry_list(function.__code__)) == 2


def test_a_size_that_changes_in_the_second_process_only() -> None:
    function = lambda x: x.cos() * x.shape[0]  # noqa: E731
    assert reused(function, torch.randn(3, 4)) == 0
    assert reused(function, torch.randn(3, 4)) == 1
    compiled = torch.compile(function, backend=driver.lamella)
    with torch.no_grad():
        for n in (5, 6, 7):
            x = torch.randn(n, 4)
            torch.testing.assert_close(compiled(x), function(x))
    assert len(torch._dynamo.eval_frame._debug_get_cache_entry_list(function.__code__)) == 2


def test_graph_breaks() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        torch._dynamo.graph_break()
        return y * 2

    for _ in range(2):
        reused(function, batch())


def test_what_is_not_kept(folder: Path) -> None:
    """Gradients and effects are AOTAutograd's part, which is not kept."""
    x, y = batch().requires_grad_(), batch()

    def write(a: torch.Tensor) -> torch.Tensor:
        return a.mul_(2)

    torch.compile(lambda a: (a * 2).sum(), backend=driver.lamella)(x).backward()
    with torch.no_grad():
        torch.compile(write, backend=driver.lamella)(y)
        torch.compile(write, backend=driver.lamella, options={"traces": False})(y)
    torch.testing.assert_close(y, batch() * 4)
    assert not list(folder.glob("*/*"))


def test_damaged_files(folder: Path) -> None:
    function = lambda x: x.sin() * 3  # noqa: E731
    assert reused(function, batch()) == 0
    (kept,) = folder.glob("*/*")
    kept.write_bytes(kept.read_bytes()[:-5])
    assert reused(function, batch()) == 0
    assert reused(function, batch()) == 1


def test_wrong_options_are_the_backend_s_to_tell() -> None:
    with pytest.raises(BackendCompilerFailed, match="unknown option 'nope'"):
        torch.compile(lambda x: x + 1, backend=driver.lamella, options={"nope": 1})(batch())


def test_globals_go_with_the_code() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.gelu(x)

    def compiled_names() -> set[str]:
        return {name for name in globals() if name.startswith(("__compiled_fn", "__import_"))}

    before = compiled_names()
    for _ in range(2):
        reused(function, batch())
        torch._dynamo.reset()
        gc.collect()
        assert compiled_names() <= before


PROGRAM = """
import sys, torch, logging
from part import Scaled
from torch._dynamo.utils import counters
torch.manual_seed(0)
model, x = Scaled(), torch.randn(4, 8)
with torch.no_grad():
    torch.testing.assert_close(torch.compile(model, backend="lamella")(x), model(x))
print(counters["lamella"]["traces reused"], counters["aot_autograd"]["total"])
"""
PART = """
import dataclasses
from torch import Tensor, nn
from helper import by
@dataclasses.dataclass
class Result:
    value: Tensor
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8), nn.ReLU(), nn.LayerNorm(8)])
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return Result(x * by(x)).value
"""
HELPER = "def by(x):\n    return x.shape[0] * 2\n"


NEIGHBOURS = """
import sys, torch
def first(x):
    return x.sin() + 1
def second(x):
    return x.cos() + float(sys.argv[1])
for function in (first, second):
    x = torch.randn(4)
    torch.testing.assert_close(torch.compile(function, backend="lamella")(x), function(x))
print(torch._dynamo.utils.counters["lamella"]["traces reused"])
"""


def test_a_function_beside_one_that_is_not_traced(tmp_path: Path) -> None:
    """TorchDynamo numbers what it adds to their globals, from 0 in each process."""
    (tmp_path / "program.py").write_text(NEIGHBOURS)
    for number, reused in (("1", "0"), ("2", "1"), ("3", "1")):
        command = [sys.executable, str(tmp_path / "program.py"), number]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() == [reused]


def test_processes(tmp_path: Path) -> None:
    files = {"program.py": PROGRAM, "part.py": PART, "helper.py": HELPER}
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    def run() -> str:
        command = [sys.executable, str(tmp_path / "program.py")]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]

    assert [run(), run()] == ["0", "1"]
    (tmp_path / "helper.py").write_text(HELPER.replace("2", "3"))
    assert [run(), run()] == ["0", "1"]
    (tmp_path / "part.py").write_text(PART.replace("LayerNorm(8)", "LayerNorm(8, eps=0.1)"))
    assert [run(), run()] == ["0", "1"]
