"""When a pass or code generation fails: an error that says how to reproduce it, or a warning and the right answer."""

from __future__ import annotations

import gc
import logging
import re
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.exc import BackendCompilerFailed

import lamella
from lamella import driver
from lamella.codegen import llvm_ahead
from lamella.codegen.errors import CodegenError
from lamella.dialects.text import parse_module
from lamella.lowering.loop_fuse import LoopFuse
from lamella.lowering.pass_manager import PassError

pytestmark = pytest.mark.usefixtures("fresh")


def f(x: Tensor) -> Tensor:
    return torch.softmax(x * 2, -1) + 1


def fail(error: Exception) -> Callable[..., Any]:
    def raising(*_args: Any, **_kwargs: Any) -> Any:
        raise error

    return raising


@pytest.fixture(params=["pass", "code"])
def broken(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A compiler with a bug in a pass, or in code generation; the folder where it leaves reproducers."""
    if request.param == "pass":
        monkeypatch.setattr(LoopFuse, "apply", fail(KeyError("nobody thought of this")))
    else:
        monkeypatch.setattr(llvm_ahead, "compile_object", fail(CodegenError("LLVM does not like it")))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("LAMELLA_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def test_the_graph_runs_eagerly(
    broken: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning, with the file that reproduces it; the right answer, from every call."""
    monkeypatch.setenv("LAMELLA_STRICT", "0")
    compiled = torch.compile(f, backend="lamella")
    x = torch.randn(3, 5)
    with caplog.at_level(logging.WARNING, "lamella"):
        assert torch.equal(compiled(x), f(x)) and torch.equal(compiled(x + 1), f(x + 1))
    (said,) = [r.getMessage() for r in caplog.records if r.name == "lamella"]
    assert "a graph runs eagerly: a bug of Lamella's" in said
    found = re.search(r"the module is in (\S+\.mlir), its first line is the command", said)
    assert found is not None and Path(found[1]).parent == broken
    text = Path(found[1]).read_text()
    assert text.startswith("// RUN: lamella-opt %s -p 'aten-inline-flex,") and parse_module(text) is not None
    assert any(op.name == "aten._softmax" for op in parse_module(text).walk())


@pytest.mark.parametrize("options", [{"strict": True}, {"verify": True}, None])
def test_strict_is_an_error(broken: Path, options: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMELLA_STRICT", "0" if options else "1")
    with pytest.raises(BackendCompilerFailed, match=r"nobody thought of this|LLVM does not like it"):
        torch.compile(f, backend="lamella", options=options)(torch.randn(3, 5))


def test_compile_module_always_raises(broken: Path) -> None:
    with pytest.raises((PassError, CodegenError)) as caught:
        driver.compile_module(lamella.capture(f, torch.randn(3, 5)).module, driver.Options(cache=False))
    assert any("the module is in" in note for note in caught.value.__notes__)


def test_a_wrong_option_is_not_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMELLA_STRICT", "0")
    with pytest.raises(BackendCompilerFailed, match="nonesuch"):
        torch.compile(f, backend="lamella", options={"target": "nonesuch"})(torch.randn(3))


def test_explain_tells_of_it(broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMELLA_STRICT", "0")
    assert "a bug of Lamella's" in lamella.explain(f, torch.randn(3, 5)).graphs[0].reason


# Garbage


def test_no_collection_while_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in passes nor in code generation; it is on again after success, failure, and with several threads."""
    seen: list[bool] = []
    native = driver.native
    monkeypatch.setattr(driver, "native", lambda *a: (seen.append(gc.isenabled()), native(*a))[1])
    texts = [str(lamella.capture(lambda x, k=k: (x * k).exp(), torch.randn(3))) for k in (2, 3, 4)]
    assert gc.isenabled()
    options = driver.Options(cache=False)
    threads = [threading.Thread(target=lambda t=t: driver.compile_module(parse_module(t), options)) for t in texts]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert gc.isenabled() and len(seen) == 3 and not seen[0]
    monkeypatch.setattr(LoopFuse, "apply", fail(KeyError("nobody thought of this")))
    with pytest.raises(PassError):
        driver.compile_module(parse_module(texts[0]), options)
    assert gc.isenabled()


def test_the_module_is_not_kept() -> None:
    """What comes back does not hold the IR: it is gone with the next collection, and the graph still runs."""
    captured = lamella.capture(f, torch.randn(3, 5))
    module = parse_module(str(captured))
    gone = weakref.ref(module)
    compilation = driver.compile_module(module, driver.Options(cache=False))
    del module
    gc.collect()
    assert gone() is None
    x = torch.randn(3, 5)
    torch.testing.assert_close(compilation.graph([x])[0], f(x))
