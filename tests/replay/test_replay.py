"""Process replay: a fixed corpus of ATen programs becomes the same kernels, to the byte, until someone means to change them.

`pytest tests/replay --update-golden` rewrites the kernels after a change that is meant; the diff then shows what it does.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lamella import driver
from lamella.dialects.text import parse_module, print_module
from lamella.lowering.options import Options

CORPUS = sorted(Path(__file__).parent.glob("*.mlir"))


@pytest.mark.parametrize("path", CORPUS, ids=lambda p: p.stem)
def test_kernels_are_the_same(path: Path, golden: Callable[[str, str], None]) -> None:
    options = Options(target="avx512")
    passes = driver.pipeline(options, driver.target_of(options)).split(",")
    module = parse_module(path.read_text(encoding="utf-8"), filename=path.name)
    driver.run_passes(module, ",".join(passes[: passes.index("bufferize")]))
    golden(f"{path.stem}.kernels.mlir", print_module(module) + "\n")
