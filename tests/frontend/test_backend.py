"""The torch.compile backend: options, training, AOTAutograd's cache, the public functions."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import traceback
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import lamella
from lamella.codegen.target import CpuTarget
from lamella.dialects.errors import LamellaError
from lamella.frontend.backend import with_settings
from lamella.frontend.options import OptionError, parse_options, with_environment
from lamella.lowering.options import Options

ELSEWHERE = "avx2" if CpuTarget.host().triple.startswith("aarch64") else "neon"
"""A target of another kind of processor."""


@pytest.mark.parametrize(
    ("options", "mode", "message"),
    [
        ({"dmup": "x"}, None, r"unknown option 'dmup' \(did you mean 'dump'\?\); the options are dump, numerics"),
        ({"zzz": 1}, None, "unknown option 'zzz'; the options are"),
        ({"dump": 3}, None, r"option 'dump' must be of type str \| None, got 3"),
        ({"verify": "yes"}, None, "option 'verify' must be of type bool, got 'yes'"),
        ({"numerics": "exact"}, None, "option 'numerics' is one of fast, eager, got 'exact'"),
        ({"target": "z80"}, None, "option 'target' is one of host, avx512, amx, zen4, avx2, baseline, neon, sm_80"),
        (
            {"target": ELSEWHERE},
            None,
            f"code for the target '{ELSEWHERE}' cannot run here: this machine has no processor",
        ),
        (["dump"], None, "options must be a dict, got list"),
        (None, "fastest", "unknown mode 'fastest'; the modes are default"),
    ],
)
def test_wrong_options_are_named(options: Any, mode: str | None, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        lamella.compile(lambda x: x, options=options, mode=mode)
    assert issubclass(OptionError, LamellaError)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [({"dynamic": "yes"}, "dynamic is True, False or None"), ({"fullgraph": "no"}, "fullgraph is True or False")],
)
def test_flags_are_truth_values(keywords: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        lamella.compile(lambda x: x, **keywords)


@pytest.mark.parametrize("take", [lamella.compile, lamella.explain])
def test_what_is_no_program(take: Any) -> None:
    with pytest.raises(LamellaError, match="expected a function, a module or an exported program, got Tensor"):
        take(torch.ones(2))


def test_options_have_defaults() -> None:
    assert parse_options() == parse_options({}) == parse_options(None, "default")
    for mode, asked, tuned in [
        ("reduce-overhead", True, False),
        ("max-autotune", True, True),
        ("max-autotune-no-cudagraphs", None, True),
    ]:
        assert (parse_options(None, mode).cuda_graphs, parse_options(None, mode).autotune) == (asked, tuned)
    assert not parse_options({"autotune": False}, "max-autotune").autotune
    assert parse_options({"numerics": "eager"}).numerics == "eager"
    assert parse_options({"activation_memory_budget": 1}) == parse_options({"activation_memory_budget": 1.0})


def frames(error: BaseException) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def test_wrong_options_through_torch_compile() -> None:
    """One line, of the type that `lamella.compile` raises, without TorchDynamo's frames."""
    for expected in (OptionError, torch._dynamo.exc.BackendCompilerFailed):
        with pytest.raises(expected, match=r"^unknown option 'dmup'.*$") as caught:
            torch.compile(lambda x: x + 1, backend="lamella", options={"dmup": "x"})(torch.ones(2))
        assert len(str(caught.value).splitlines()) == 1
        assert frames(caught.value) == [test_wrong_options_through_torch_compile.__name__, "compile_wrapper", "lamella"]


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("LAMELLA_CACHE_SIZE", "lots", "LAMELLA_CACHE_SIZE is 'lots', which is no size: set it to a size such as 512M"),
        ("LAMELLA_CACHE_SIZE", "-1", "LAMELLA_CACHE_SIZE is '-1'"),
        ("LAMELLA_TIMING", "maybe", "LAMELLA_TIMING is 'maybe': set it to 1 or 0, or unset it"),
        ("LAMELLA_STRICT", "2", "LAMELLA_STRICT is '2'"),
    ],
)
def test_wrong_settings_in_the_environment(
    variable: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variable, its value and the remedy, in one line; at once where that is possible."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(LamellaError, match=f"^{message}"):
        lamella.compile(lambda x: x + 1)
    with pytest.raises(LamellaError, match=f"^{message}"):
        lamella.explain(lambda x: x + 1, torch.ones(2))
    with pytest.raises(OptionError, match=f"^{message}") as caught:
        torch.compile(lambda x: x + 1, backend="lamella")(torch.ones(2))
    assert len(str(caught.value).splitlines()) == 1 and frames(caught.value)[1:] == ["compile_wrapper", "lamella"]


@pytest.mark.parametrize(("value", "on"), [("1", True), ("Yes", True), ("", False), ("0", False), ("false", False)])
def test_settings_of_the_environment(value: str, on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMELLA_TIMING", value)
    monkeypatch.setenv("LAMELLA_STRICT", value)
    wanted = with_environment(parse_options())
    assert (wanted.timing, wanted.strict) == (on, on)
    assert with_environment(parse_options({"timing": True})).timing


@pytest.mark.parametrize("dynamic", [False, True])
def test_training(recorder: Any, dynamic: bool) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.GELU(), nn.MaxPool2d(2), nn.Flatten())
            self.head = nn.Linear(36, 5)

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return nn.functional.smooth_l1_loss(self.head(nn.functional.dropout(self.body(x), 0.1)), y)

    model = Net()
    recorder.options = Options(numerics="eager")  # which leaves operators as they are
    compiled = torch.compile(model, backend=recorder.backend, dynamic=dynamic)
    for batch in (3, 4):
        x, y = torch.randn(batch, 1, 8, 8), torch.randn(batch, 5)
        gradients: list[list[Tensor]] = []
        for f in (model, compiled):
            torch.manual_seed(1)
            model.zero_grad()
            f(x, y).backward()
            gradients.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
        for want, got in zip(*gradients, strict=True):
            torch.testing.assert_close(got, want, rtol=0, atol=0)
    assert not recorder.eager and len(recorder.texts) == (2 if dynamic else 4)


def test_graph_breaks_and_reentrance(recorder: Any) -> None:
    def inner(x: Tensor) -> Tensor:
        return x.sin() + 1

    compiled_inner = torch.compile(inner, backend=recorder.backend)

    def f(x: Tensor) -> Tensor:
        y = x * 2
        torch._dynamo.graph_break()
        return compiled_inner(y) * (3 if y.sum() > 0 else 4)

    x = torch.ones(3)
    compiled = torch.compile(f, backend=recorder.backend)
    assert torch.equal(compiled(x), f(x)) and torch.equal(compiled(-x), f(-x))
    assert len(recorder.texts) >= 3


def test_other_devices_run_eagerly(recorder: Any) -> None:
    compiled = torch.compile(lambda x: x + 1, backend=recorder.backend)
    assert compiled(torch.empty(3, device="meta")).device.type == "meta"
    assert recorder.eager == ["tensors of meta are not compiled"]


CACHED = """
    import sys, torch, lamella.driver
    from torch._dynamo.utils import counters

    made = []
    compile_module = lamella.driver.compile_module

    def count(module, options, **kept):
        made.append(module)
        return compile_module(module, options, **kept)

    lamella.driver.compile_module = count
    lamella.driver.fingerprint = lambda: "one compiler"

    def f(x, w):
        n = torch.tensor([1.0, 2.0, 3.0, 4.0])
        return torch.softmax(x @ w * n, -1), x.shape[0] + 1

    compiled = torch.compile(f, backend="lamella", dynamic=True)
    torch.manual_seed(0)
    x, w = torch.randn(3, 4), torch.randn(4, 4, requires_grad=True)
    for n in (3, 3):
        (got, m), (want, _) = compiled(x[:n], w), f(x[:n], w)
        torch.testing.assert_close(got, want)
        (gradient,) = torch.autograd.grad(got.square().sum(), w)
        (expected,) = torch.autograd.grad(want.square().sum(), w)
        torch.testing.assert_close(gradient, expected)
        assert m == n + 1
    with torch.no_grad():
        torch.testing.assert_close(compiled(x, w)[0], f(x, w)[0])
    cached = counters["aot_autograd"]
    print(len(made), cached["autograd_cache_hit"], cached["autograd_cache_saved"], torch._functorch.config.bundled_autograd_cache)
"""


def test_the_next_process_compiles_nothing(tmp_path: Path) -> None:
    """AOTAutograd's cache holds forward, backward and inference graphs."""
    script = tmp_path / "cached.py"
    script.write_text(textwrap.dedent(CACHED))
    environment = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"), "LAMELLA_CACHE_DIR": str(tmp_path / "own")}
    said: list[str] = []
    for _ in range(2):
        done = subprocess.run([sys.executable, script], env=_environment(environment), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout.strip())
    assert said == ["3 0 2 False", "0 2 0 False"]


def _environment(extra: dict[str, str]) -> dict[str, str]:
    import os

    return {**os.environ, **extra}


def test_import_is_cheap() -> None:
    """The package itself is all that is imported, and on top of torch what tells it of our kind of artifacts."""
    told = {"lamella.codegen", "lamella.codegen.cache_artifacts"}
    for first, others in (("sys, typing, importlib, __future__", set[str]()), ("sys, torch, __future__", told)):
        code = f"import {first}; before = set(sys.modules); import lamella; print(*(set(sys.modules) - before))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert {name for name in done.stdout.split() if not name.startswith("__editable__")} == {"lamella", *others}
    assert lamella.__all__ == ["capture", "compile", "explain", "lower", "register_pattern", "release_memory"]
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = lamella.nope


def test_lower_copies() -> None:
    captured = lamella.capture(lambda x: x.relu() + 1, torch.ones(3, 4))
    before = str(captured)
    lowered = lamella.lower(captured, "aten-to-prims")
    assert any(op.name == "prims.add" for op in lowered.walk()) and str(captured) == before
    again = lamella.lower(before, to="aten-to-prims")
    assert lowered.is_structurally_equivalent(again)
    with pytest.raises(LamellaError, match="unknown pass 'nope'"):
        lamella.lower(captured, "nope")
    with pytest.raises(LamellaError, match="the module is at level 'loop' already, below 'prims'"):
        lamella.lower(lamella.lower(captured, "loop"), "prims")
    with pytest.raises(LamellaError, match="expected a module, its text or what capture gives, got int"):
        lamella.lower(3)  # pyright: ignore[reportArgumentType]


def test_explain() -> None:
    def f(x: Tensor) -> Tensor:
        y = torch.softmax(x * 2, -1)
        print("in between")
        return y @ y.t()

    explanation = lamella.explain(f, torch.randn(300, 40))
    first, second = explanation.graphs
    assert first.operators == {"aten.mul.Tensor": 1, "aten._softmax.default": 1}
    assert first.kernels and not first.reason and [call.name for call in second.calls] == ["aten.mm"]
    assert "matrix product" in second.calls[0].reason and [s.name for s in first.stories] == [
        k["name"] for k in first.kernels
    ]
    (found,) = explanation.breaks
    line = f.__code__.co_firstlineno + 2
    assert found.line == f"{__file__}:{line}"
    text = str(explanation)
    assert "2 graphs, 1 graph break, " in text and f"break at {__file__}:{line}" in text and "call aten.mm" in text
    assert "L['x'] is a tensor" in text
    assert {"loading the IR", "import", "loading passes", "loop-fuse", "machine code"} <= first.times.keys() and min(
        first.times.values()
    ) >= 0
    assert list(explanation.times) == ["TorchDynamo and the call", "AOTAutograd", "Lamella"]
    assert explanation.times["Lamella"] == sum(sum(graph.times.values()) for graph in explanation.graphs)
    assert "first call: " in text and "  compiled in " in text


def test_explain_takes_options() -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        return (x @ y).relu()

    x = torch.randn(64, 64)
    (plain,) = lamella.explain(f, x, y=x, options={"products": "none"}).graphs
    (made,) = lamella.explain(f, x, y=x, options={"products": "all"}, mode="default").graphs
    assert [call.name for call in plain.calls] == ["aten.mm"] and not made.calls
    with pytest.raises(LamellaError, match="unknown option 'nope'"):
        lamella.explain(f, x, x, options={"nope": 1})
    with pytest.raises(LamellaError, match="unknown mode"):
        lamella.explain(f, x, x, mode="nope")


@pytest.mark.parametrize("way", ["option", "environment"])
def test_timing_is_told(way: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the time goes, graph by graph; what comes from AOTAutograd's cache has no steps."""
    if way == "environment":
        monkeypatch.setenv("LAMELLA_TIMING", "1")
    options: dict[str, Any] = {"timing": way == "option", "cache": False}
    x = torch.randn(5, 7, requires_grad=True)
    torch.compile(lambda x: x.sin().exp(), backend="lamella", options=options)(x).sum().backward()
    told = capsys.readouterr().err
    for title in ("lamella: forward graph: ", "lamella: backward graph: ", "lamella: a graph of TorchDynamo: "):
        assert told.count(title) == 1
    assert told.count("  machine code ") == 2 and told.count("  AOTAutograd and what it calls ") == 1
    monkeypatch.delenv("LAMELLA_TIMING", raising=False)
    torch._dynamo.reset()
    torch.compile(lambda x: x.sin().exp(), backend="lamella", options={"cache": False})(x)
    assert "lamella" not in capsys.readouterr().err


@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
def test_settings_of_torch(precision: str) -> None:
    """Options that are not given are what torch is set to."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        assert with_settings(Options()).tf32 == (precision != "highest")
        assert with_settings(Options(tf32=True)).tf32 and not with_settings(Options(tf32=False)).tf32
    finally:
        torch.set_float32_matmul_precision(before)
    assert Options(tf32=True).key != Options(tf32=False).key == Options().key


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="needs oneDNN")
def test_tensors_in_a_layout_of_onednn_run_eagerly(caplog: pytest.LogCaptureFixture) -> None:
    x = torch.randn(4, 4)
    torch._dynamo.reset()
    found = lamella.compile(lambda x: x * x)(x.to_mkldnn())
    torch.testing.assert_close(found.to_dense(), x * x)
    assert "a graph runs eagerly: tensors of torch._mkldnn are not compiled" in caplog.text
