"""The sweep over models of libraries: what is said of a model that is right, that torch or we fail, and the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lamella.tools import model_check, sweep
from lamella.tools.model_check import Outcome, check
from lamella.tools.zoo import Case, varied


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).relu().softmax(-1)


class Differs(Small):
    """Under TorchDynamo it is another program."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (2.0 if torch.compiler.is_compiling() else 1.0)


def case(model: nn.Module) -> Case:
    return Case("small", model, lambda k: {"x": torch.ones(3 + k, 8).cumsum(0)})


def checked(model: nn.Module, mode: str = "infer", dtype: str = "float32") -> Outcome:
    return check(Outcome("none", "small", mode, dtype), lambda: case(model), timed=False)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("mode", model_check.MODES)
def test_a_right_model(mode: str, dtype: str) -> None:
    outcome = checked(Small(), mode, dtype)
    assert (outcome.status, outcome.graphs, outcome.recompiled, outcome.breaks) == ("right", 1, 0, []), outcome.reason
    assert outcome.kernels and outcome.operators


def test_what_torch_makes_is_not_ours() -> None:
    outcome = checked(Differs())
    assert outcome.status == "torch" and "result 0" in outcome.reason


def test_our_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise AssertionError("no code")

    monkeypatch.setattr(model_check, "compile_module", broken)
    outcome = checked(Small())
    assert outcome.status == "error" and "no code" in outcome.reason


def test_another_result(monkeypatch: pytest.MonkeyPatch) -> None:
    compile = model_check.compile_module

    def off(*args: Any) -> Any:
        made: Any = compile(*args)
        graph = made.graph
        made.graph = lambda inputs: tuple(t + 1 for t in graph(inputs))
        return made

    monkeypatch.setattr(model_check, "compile_module", off)
    outcome = checked(Small())
    assert outcome.status == "wrong" and "error 1" in outcome.reason


def test_a_model_that_eager_refuses() -> None:
    assert checked(nn.Linear(8, 8)).status == "refused"


def test_scales_that_hide_what_they_are_given() -> None:
    norm, conv = nn.BatchNorm2d(3), nn.Conv2d(3, 4, 1)
    nn.init.constant_(norm.weight, 1e-6)
    before = conv.weight.clone()
    varied(nn.Sequential(norm, conv))
    assert norm.weight.abs().max() > 1e-2
    assert norm.running_mean is not None and norm.running_mean.std() > 0
    assert torch.equal(conv.weight, before)


@pytest.mark.parametrize(
    ("library", "model"), [("diffusers", "sana"), ("timm", "lcnet_050"), ("torchvision", "alexnet")]
)
def test_libraries(library: str, model: str) -> None:
    pytest.importorskip(library)
    case = sweep.library(library).load(model)
    with torch.no_grad():
        results = [case.outputs(case.model(**case.inputs(k))) for k in range(3)]
    assert [len(r[0]) for r in results] == sorted({len(r[0]) for r in results})


def test_tool(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    kept, table = tmp_path / "kept", tmp_path / "table"
    words = ["--filter", "bert", "--untimed", "--resume", str(kept), "--report", str(table)]
    assert sweep.main(words) == 0
    assert sweep.main(words) == 0
    assert len(kept.read_text().splitlines()) == 1
    assert "| transformers, infer, float32 | 1 | 1 | 0 | 0 | 0 | 0 | 0 | 1 |" in table.read_text()


def test_a_library_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sweep, "find_spec", lambda name: None)  # pyright: ignore
    with pytest.raises(SystemExit):
        sweep.main(["--library", "timm"])
    assert "argument --library: timm is not installed: pip install timm" in capsys.readouterr().err
