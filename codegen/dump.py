"""Dumps of a compilation: one numbered `.mlir` file per stage, `kernels.json`, and a page that ties them together."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..lowering.kernel_story import KernelStory
from ..lowering.origins import Call
from ..lowering.report_page import graph_section, page


def write_dump(
    folder: Path,
    stages: Sequence[tuple[str, str]],
    kernels: Sequence[Mapping[str, Any]],
    decisions: Sequence[str] = (),
    calls: Sequence[Call] = (),
    stories: Sequence[KernelStory] = (),
) -> Path:
    """Write one graph's files into a new folder `graph_<n>` below `folder`, and return it.

    A stage is (pass name, module text). The folder appears under its name only when it is whole. Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f".unfinished_{os.getpid()}_{next(_numbers)}"
    unfinished.mkdir()
    for i, (name, text) in enumerate(stages):
        (unfinished / f"{i:02d}-{name}.mlir").write_text(text + "\n", encoding="utf-8")
    (unfinished / "kernels.json").write_text(json.dumps(list(kernels), indent=1) + "\n", encoding="utf-8")
    report = page("Lamella: one graph", [graph_section("Graph", kernels, calls, decisions, stories, stages)])
    (unfinished / "report.html").write_text(report, encoding="utf-8")
    for n in itertools.count():
        target = folder / f"graph_{n}"
        if not target.exists():
            try:
                unfinished.rename(target)
            except OSError:  # another process took the name between the two lines
                if target.exists():
                    continue
                raise
            return target
    raise AssertionError("unreachable")


_numbers = itertools.count()
