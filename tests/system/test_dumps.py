"""Dumps: every stage's file goes on through the tools and gives the same bits; kernels.json and the page tell of kernels."""

from __future__ import annotations

import errno
import html
import io
import json
import logging
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import lamella
from lamella import driver
from lamella.dialects.hints import size_hints
from lamella.dialects.text import parse_module
from lamella.tools import opt, run
from lamella.tools.inputs import random_inputs

pytestmark = pytest.mark.usefixtures("fresh")


class Net(nn.Module):
    """[B, T] ids -> [B, T, 6]: a gather, a norm, a matrix product, a softmax, an operator that stays a call."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(2, 24)
        self.norm = nn.LayerNorm(24)
        self.head = nn.Linear(24, 6)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        x = torch.softmax(self.head(self.norm(self.tokens(ids))), -1)
        return x, x.sort(-1).values * 2


@pytest.fixture(params=[False, True], ids=["static", "dynamic"])
def dump(request: pytest.FixtureRequest, tmp_path: Path, fresh: None) -> Path:
    """The folder of the only graph of `Net`."""
    torch.manual_seed(0)
    compiled = torch.compile(Net(), backend="lamella", options={"dump": str(tmp_path / "dump")}, dynamic=request.param)
    with torch.no_grad():
        compiled(torch.randint(0, 2, (3, 7)))
    (folder,) = (tmp_path / "dump").iterdir()
    return folder


def stage_of(folder: Path, name: str) -> Path:
    """The file of the stage of that name."""
    (found,) = (path for path in folder.glob("*.mlir") if path.stem.partition("-")[2] == name)
    return found


def tool(main: Any, *arguments: object) -> str:
    out, err = io.StringIO(), io.StringIO()
    code = main([str(a) for a in arguments], io.StringIO(), out, err)
    assert code == 0, err.getvalue()
    return out.getvalue()


def test_stages(dump: Path) -> None:
    passes = driver.pipeline(driver.Options(), driver.target_of(driver.Options())).split(",")
    names = ["aten", *(p.partition("{")[0] for p in passes)]
    assert sorted(p.name for p in dump.glob("*.mlir")) == [f"{i:02d}-{n}.mlir" for i, n in enumerate(names)]
    assert {p.name for p in dump.iterdir()} - {p.name for p in dump.glob("*.mlir")} == {"kernels.json", "report.html"}


def test_each_file_becomes_the_same_program(dump: Path, tmp_path: Path) -> None:
    """lamella-opt with the rest of the passes gives the last file; lamella-run of each level gives the same bits."""
    passes = driver.pipeline(driver.Options(), driver.target_of(driver.Options())).split(",")
    files = sorted(dump.glob("*.mlir"))
    last = files[-1].read_text()
    outputs: list[list[Tensor]] = []
    symbols = size_hints(parse_module(files[0].read_text()))
    sizes = [word for i, name in enumerate(symbols) for word in ("--size", f"{name}={5 - i}")]
    for i, file in enumerate(files):
        arguments = ["-p", ",".join(passes[i:])] if passes[i:] else []
        text = tool(opt.main, file, "--print-locations", *arguments)
        assert text == last, file.name
        tool(run.main, file, *sizes, "-o", tmp_path / "native.pt", "--native")
        outputs.append(torch.load(tmp_path / "native.pt"))
    for got in outputs:
        assert all(torch.equal(g, w) for g, w in zip(got, outputs[0], strict=True))


def test_each_file_runs_as_it_is(dump: Path, tmp_path: Path) -> None:
    results: list[list[Tensor]] = []
    for file in sorted(dump.glob("*.mlir")):
        said = tool(run.main, file, "--seed", 3, "-o", tmp_path / "out.pt")
        assert said.count("output ") == 2 and "f32" in said.replace("float32", "f32")
        results.append(torch.load(tmp_path / "out.pt"))
    for got in results:
        assert run.difference(results[0], got)[0] < 1e-5


@pytest.mark.parametrize("stage", ["aten", "loop-fuse", "bufferize"])
def test_compare_levels(dump: Path, stage: str) -> None:
    said = tool(run.main, stage_of(dump, stage), "--compare-levels")
    assert "all levels agree" in said and "host-to-llvm" in said


def test_inputs_from_a_file(dump: Path, tmp_path: Path) -> None:
    """The same inputs, by position, for the first and the last file."""
    module = parse_module(stage_of(dump, "aten").read_text())
    inputs = random_inputs(module, sizes={name: 2 + i for i, name in enumerate(size_hints(module))}, seed=1)
    torch.save(inputs, tmp_path / "in.pt")
    results: list[list[Tensor]] = []
    for name in ("aten", "host-to-llvm"):
        tool(run.main, stage_of(dump, name), "-i", tmp_path / "in.pt", "-o", tmp_path / "out.pt")
        results.append(torch.load(tmp_path / "out.pt"))
    assert run.difference(*results)[0] < 1e-5


def test_kernels(dump: Path) -> None:
    kernels = json.loads((dump / "kernels.json").read_text())
    text = stage_of(dump, "loop-schedule").read_text()
    assert [k["name"] for k in kernels] == re.findall(r"loop\.kernel @(\w+)", text) and kernels
    for k in kernels:
        assert k["launches"] >= 1 and k["ops"] and k["bytes"] and k["flops"]
        assert all(k["ops"].values()) and {line for lines in k["ops"].values() for line in lines} <= set(k["lines"])
        assert k["lines"] and all(re.fullmatch(r".+\.py:\d+", line) for line in k["lines"])
    assert any(__file__ in line for k in kernels for line in k["lines"])
    assert any("softmax" in k["name"] for k in kernels) and any("norm" in k["name"] for k in kernels)


class WellFormed(HTMLParser):
    """Fails for a tag that is closed without having been opened."""

    VOID = ("meta", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: set[str] = set()
        self.links: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.ids.add(values.get("id") or "")
        if (values.get("href") or "").startswith("#"):
            self.links.add((values["href"] or "")[1:])
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_report(dump: Path) -> None:
    page = (dump / "report.html").read_text()
    parser = WellFormed()
    parser.feed(page)
    parser.close()
    assert parser.open == [] and parser.links and parser.links <= parser.ids
    assert "aten.sort" in page and "softmax" in page and __file__ in page


def test_explain_saves_a_page(tmp_path: Path) -> None:
    """Graphs, breaks, kernels at every level, calls with their reasons, decisions and guards; every link leads somewhere."""

    def f(x: Tensor) -> Tensor:
        y = torch.softmax(x * 2, -1)
        torch._dynamo.graph_break()
        return (y @ y.t()).exp() * 2

    page = lamella.explain(f, torch.randn(128, 256, dtype=torch.float64)).save(tmp_path / "report.html").read_text()
    parser = WellFormed()
    parser.feed(page)
    parser.close()
    assert parser.open == [] and len(parser.links) == 2 and parser.links <= parser.ids
    text = html.unescape(re.sub("<[^>]*>", "", page))
    assert "2 graphs, 1 graph break" in text and "matrix product" in text and "saves" in text and "L['x']" in text
    for level in (
        "torch.softmax(x * 2, -1)",
        "aten._softmax(",
        "prims.exp ",
        "loop.nest [",
        "loop.kernel @",
        "llvm.func @",
    ):
        assert level in text, level


def test_kernels_made_by_bufferize_are_told_of(tmp_path: Path) -> None:
    """An update of a cache in place launches a variant of its kernel, which the others know nothing of."""

    def f(cache: Tensor, x: Tensor, at: Tensor) -> Tensor:
        cache.index_copy_(0, at, x * 2)
        return cache.sum()

    options = {"dump": str(tmp_path)}
    with torch.no_grad():
        torch.compile(f, backend="lamella", options=options)(
            torch.zeros(64, 8), torch.randn(2, 8), torch.tensor([3, 5])
        )
    kernels = json.loads((tmp_path / "graph_0" / "kernels.json").read_text())
    text = stage_of(tmp_path / "graph_0", "bufferize").read_text()
    assert {k["name"]: k["launches"] for k in kernels} == {
        name: text.count(f"host.launch @{name}(") for name in re.findall(r"host\.launch @(\w+)\(", text)
    }
    (variant,) = (k for k in kernels if "_in_place_" in k["name"])
    assert variant["ops"] and all(
        line.startswith(f"{__file__}:") for lines in variant["ops"].values() for line in lines
    )


def test_environment_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LAMELLA_DUMP does the same, each graph in its folder, and nothing comes from a cache then."""
    monkeypatch.setenv("LAMELLA_DUMP", str(tmp_path / "dump"))
    for count in (2, 4):
        torch._dynamo.reset()

        def f(x: Tensor) -> Tensor:
            y = x.sin() + 1
            torch._dynamo.graph_break()
            return y.exp() * 2

        torch.compile(f, backend="lamella")(torch.randn(4))
        folders = sorted((tmp_path / "dump").iterdir())
        assert [p.name for p in folders] == [f"graph_{i}" for i in range(count)]
        assert all(stage_of(p, "host-to-llvm").exists() for p in folders)


@pytest.mark.parametrize("where", ["file", "full"])
def test_a_folder_that_cannot_be_written(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The graph is compiled as ever; one warning, and nothing is left half-written."""
    folder = tmp_path / "dump"
    if where == "file":
        folder.write_text("")
    else:

        def full(*_args: Any, **_kwargs: Any) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(Path, "write_text", full)
    x = torch.randn(5)
    compiled = torch.compile(lambda x: x.exp() + 1, backend="lamella", options={"dump": str(folder), "strict": True})
    with caplog.at_level(logging.WARNING, "lamella"):
        torch.testing.assert_close(compiled(x), x.exp() + 1)
    (said,) = [r.getMessage() for r in caplog.records if r.name == "lamella"]
    assert said.startswith(f"no dump of a graph in '{folder}' (option dump, or LAMELLA_DUMP): ")
    assert where == "file" or not any(folder.iterdir())
