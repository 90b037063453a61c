"""No pass drops a location: after each, every op of a whole model leads to a line of a source file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import UNKNOWN_LOC, ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from lamella import driver
from lamella.dialects.text import parse_module
from lamella.lowering import registry, report

OPTIONS = driver.Options()
PASSES = driver.pipeline(OPTIONS, driver.target_of(OPTIONS))


def unlocated(module: ModuleOp) -> Iterator[Operation]:
    """Ops that lead to no line. Declarations of what the native program uses from outside come from none."""
    for op in module.walk():
        declares = op.name in ("llvm.func", "llvm.mlir.global") and not any(r.blocks for r in op.regions)
        if op is not module and not declares and not report.lines(op.location):
            yield op


def names(module: ModuleOp) -> list[str]:
    """What leads to no line: ops by name, and arguments of the program."""
    arguments = [
        f"argument {a.index}"
        for op in module.ops
        if op.name in ("func.func", "host.func")
        for a in op.regions[0].block.args
        if not report.lines(a.location)
    ]
    return [*arguments, *sorted({op.name for op in unlocated(module)})]


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_every_op_leads_to_a_line(name: str, dynamic: bool, model_graphs: Callable[..., Any]) -> None:
    for graph in model_graphs(name, dynamic):
        module = parse_module(graph.text)
        found = {"aten": names(module)}
        driver.run_passes(module, PASSES, after=[lambda _i, p, m, found=found: found.update({p.name: names(m)})])
        assert {stage: ops for stage, ops in found.items() if ops} == {}


def test_lines_are_those_of_the_model(model_graphs: Callable[..., Any]) -> None:
    """Files exist and have that many lines, module paths are those of the model, and fused kernels have several lines."""
    (graph,) = model_graphs("gpt2", False)
    module = parse_module(graph.text)
    kernels: list[dict[str, Any]] = []

    def note(_index: int, p: ModulePass, m: ModuleOp) -> None:
        if p.name == "loop-schedule":
            kernels.extend(report.kernels(m))

    driver.run_passes(module, PASSES, after=[note])
    places = {line for op in module.walk() for line in report.lines(op.location)}
    assert len(places) > 10 and any(
        file.endswith("modeling_gpt2.py") for file in (p.rpartition(":")[0] for p in places)
    )
    for place in places:
        file, _, line = place.rpartition(":")
        assert 0 < int(line) <= len(Path(file).read_text().splitlines()), place
    assert all(k["lines"] for k in kernels) and any(len(k["lines"]) > 2 for k in kernels)
    assert set(re.findall(r'loc\("(transformer\.h\.\d+)\.', graph.text)) == {"transformer.h.0", "transformer.h.1"}


def test_a_pass_that_drops_them_is_found(model_graphs: Callable[..., Any]) -> None:
    """The test above can fail: one op without a location is one op found, nested or not."""
    (graph,) = model_graphs("bert", False)
    module = parse_module(graph.text)
    driver.run_passes(module, ",".join(registry.passes_to("kernel")))
    nested = next(op for op in module.walk() if op.name == "loop.load")
    nested.location = UNKNOWN_LOC
    assert list(unlocated(module)) == [nested]
