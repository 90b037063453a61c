"""What the first call of a small function loads: a process that compiles little does not load what it has no use for."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys, torch, lamella

def small(x):
    return torch.nn.functional.gelu(x * 2 + 1)

x = torch.randn(64, 256)
with torch.no_grad():
    torch.testing.assert_close(lamella.compile(small)(x), small(x))
print(*sys.modules)
from lamella.lowering.pass_manager import PassRecord
from torch._dynamo.source import LocalSource
from xdsl.irdl.operations import OpDef
methods = PassRecord.__init__, PassRecord.__eq__, OpDef.__eq__, LocalSource.__delattr__
print(*(method.__code__.co_filename for method in methods))
"""

UNUSED = {
    "lamella.dialects.parser": "text is only printed",
    "lamella.dialects.tt": "no GPU",
    "sympy.combinatorics": "loaded with sympy.tensor",
    "sympy.tensor.tensor": "sympy loads it when it first adds",
    "torch.distributed.tensor.experimental": "TorchDynamo loads it to compare a function with one of its own",
}


def test_a_small_function_loads_what_it_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMELLA_CACHE_DIR", str(tmp_path / "ours"))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "torch's"))  # AOTAutograd keeps compiled graphs
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=300)
    names, files = done.stdout.splitlines()
    loaded = set(names.split())
    assert "lamella.lowering.kernel_to_llvm" in loaded
    assert sorted(loaded & UNUSED.keys()) == []
    if hasattr(dataclasses, "_create_fn"):  # methods of data classes that nobody called are not written
        assert [Path(f).name for f in files.split()] == ["<string>", *["lazy_methods.py"] * 3]
