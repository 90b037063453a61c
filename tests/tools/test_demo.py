"""What `make demo` shows: one fused kernel at every level after its Python lines, and a table."""

from __future__ import annotations

import io
from argparse import Namespace

import pytest
import torch
from rich.console import Console

from lamella.frontend.capture import capture
from lamella.tools import demo


def test_the_whole_demo() -> None:
    """The small model, without Inductor, which takes a minute."""
    torch._dynamo.reset()
    out = io.StringIO()
    options = Namespace(kernel="layer_norm", lines=40, layers=1, rounds=1, no_inductor=True)
    demo.demonstrate(options, Console(file=out, width=160))
    shown = out.getvalue()
    parts = (
        "Python (",
        "self.ln1(x)",
        "aten what",
        "aten.native_layer_norm(",
        "prims operators",
        "prims.rsqrt ",
        "loop how",
    )
    parts += (
        "loop.nest [",
        "kernel fused",
        "loop.kernel @",
        "llvm the code",
        ".body(",
        "ms per call",
        "results are right",
    )
    positions = [shown.find(part) for part in parts]
    assert -1 not in positions and positions == sorted(positions), dict(zip(parts, positions, strict=True))
    torch._dynamo.reset()


def test_a_kernel_is_chosen_by_its_name() -> None:
    module = capture(torch.nn.LayerNorm(8), torch.randn(2, 8)).module
    assert demo.kernel_story(module).name == demo.kernel_story(module, "layer_norm").name
    with pytest.raises(ValueError, match="no kernel's name contains 'softmax'"):
        demo.kernel_story(module, "softmax")
