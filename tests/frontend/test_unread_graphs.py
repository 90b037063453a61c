"""AOTAutograd prints its graphs where somebody reads them, and only there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import torch
from torch.fx import GraphModule

printed, print_readable = [], GraphModule.print_readable

def noting(module, *args, **keywords):
    printed.append(module)
    return print_readable(module, *args, **keywords)

GraphModule.print_readable = noting
x = torch.randn(4, 4, requires_grad=True)
f = torch.compile(lambda x: (x.sin() * 2).sum(), backend="lamella", options={"traces": False})
f(x).backward()
torch.testing.assert_close(x.grad, 2 * x.cos())
with torch.no_grad():
    f(x)
print(len(printed))
"""


def run(folder: Path, **settings: str) -> tuple[int, str]:
    """How many graphs a process prints, and what it writes to stderr."""
    places = {"LAMELLA_CACHE_DIR": str(folder / "ours"), "TORCHINDUCTOR_CACHE_DIR": str(folder / "aot")}
    unset = {k: v for k, v in os.environ.items() if k not in ("TORCH_LOGS", "TORCH_TRACE")}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(
        command, env={**unset, **places, **settings}, capture_output=True, text=True, check=True, timeout=300
    )
    return int(done.stdout.split()[-1]), done.stderr


def test_a_graph_that_is_logged_is_printed(tmp_path: Path) -> None:
    assert run(tmp_path)[0] == 0
    # what the first process has kept, without its text, is not taken for it
    printed, told = run(tmp_path, TORCH_LOGS="aot_joint_graph")
    assert printed > 0 and "torch.ops.aten.sin.default" in told


def test_a_trace_has_the_graphs(tmp_path: Path) -> None:
    for folder in ("first", "second"):  # the second has them from what the first has kept
        run(tmp_path, TORCH_TRACE=str(tmp_path / folder))
        (written,) = (tmp_path / folder).iterdir()
        for name in ("aot_joint_graph", "aot_forward_graph", "aot_backward_graph", "aot_inference_graph"):
            assert f'"{name}"' in written.read_text()
