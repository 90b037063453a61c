"""Whole models at every level: text is a fixed point, carries on to the same program, and every level agrees.

The program that comes out of the text of a level is compared as llvm text, of which the same object code is made; that
code is run once from the parsed text and once from the module that never was text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from lamella import driver
from lamella.codegen.interpreter import run_module
from lamella.dialects.text import parse_module, print_module
from lamella.dialects.verify import verify
from lamella.tools import run as tool
from lamella.tools import zoo

OPTIONS = driver.Options()
INTERPRETED = ("aten-canonicalize", "prims-canonicalize", "prims-to-loop", "loop-fuse", "loop-schedule")
QUICK = {"bert": True, "gpt2": False, "llama": True, "t5": False, "vit": True, "whisper": True, "resnet50": False}
"""Each model once, with dynamic shapes or without; the other half is slow."""


def models(*slow: str) -> list[Any]:
    return [
        pytest.param(name, dynamic, marks=[] if QUICK[name] is dynamic and name not in slow else [pytest.mark.slow])
        for name in zoo.NAMES
        for dynamic in (True, False)
    ]


def passes() -> list[str]:
    return driver.pipeline(OPTIONS, driver.target_of(OPTIONS)).split(",")


def copies(values: list[Any]) -> list[Any]:
    """Tensors with the same values, sizes and strides."""
    return [v.detach().clone(memory_format=torch.preserve_format) if isinstance(v, torch.Tensor) else v for v in values]


def stages(text: str) -> list[str]:
    """The text at the aten level and after each pass."""
    module = parse_module(text)
    texts = [text]
    driver.run_passes(
        module, ",".join(passes()), after=[lambda _i, _p, m: texts.append(print_module(m, locations=True))]
    )
    return texts


@pytest.mark.parametrize(("name", "dynamic"), models("t5", "whisper"))
def test_text_of_every_stage(name: str, dynamic: bool, model_graphs: Callable[..., Any]) -> None:
    """Time grows with the square of the passes: the largest graphs are slow."""
    target = driver.target_of(OPTIONS)
    for graph in model_graphs(name, dynamic):
        texts = stages(graph.text)
        for i, text in enumerate(texts):
            parsed = parse_module(text)
            verify(parsed)
            assert print_module(parsed, locations=True) == text, f"stage {i} is not a fixed point"
            if i < len(passes()):
                driver.run_passes(parsed, ",".join(passes()[i:]), verify=False)
                assert print_module(parsed, locations=True) == texts[-1], f"stage {i} carries on to another program"
        direct = parse_module(graph.text)
        driver.run_passes(direct, ",".join(passes()), verify=False)
        functions = [driver.native(m, target) for m in (direct, parse_module(texts[-1]))]
        assert functions[0].code == functions[1].code
        for inputs, interpreted in zip(graph.inputs, graph.outputs, strict=True):
            want, got = (list(f(copies(inputs))) for f in functions)
            assert tool.difference(want, got) == (0.0, True)
            error, _ = tool.difference(interpreted, got)
            assert error < 1e-5, f"native differs from the aten level by {error}"
            assert [o.stride() for o in interpreted] == [o.stride() for o in got]


@pytest.mark.parametrize(("name", "dynamic"), models())
def test_levels_agree(name: str, dynamic: bool, model_graphs: Callable[..., Any]) -> None:
    """The interpreter's answers at each level, at a size that the graph was not compiled with where it is dynamic."""
    for graph in model_graphs(name, dynamic):
        module = parse_module(graph.text)
        errors: dict[str, float] = {}

        def interpret(_index: int, p: Any, m: Any, graph: Any = graph, errors: dict[str, float] = errors) -> None:
            if p.name in INTERPRETED:
                answer = run_module(m, copies(graph.inputs[-1]))
                errors[p.name] = tool.difference(graph.outputs[-1], answer)[0]

        driver.run_passes(module, ",".join(passes()), verify=False, after=[interpret])
        assert tuple(errors) == INTERPRETED
        assert max(errors.values()) < 1e-5, errors
