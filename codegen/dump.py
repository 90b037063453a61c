"""Dumps of a compilation: one numbered `.mlir` file per stage, `kernels.json`, and a page that ties them together."""

from __future__ import annotations

import itertools
import json
import logging
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..lowering.kernel_story import KernelStory
from ..lowering.origins import Call
from ..lowering.report_page import graph_section, page

log = logging.getLogger("lamella")


def write_dump(
    folder: Path,
    stages: Sequence[tuple[str, str]],
    kernels: Sequence[Mapping[str, Any]],
    decisions: Sequence[str] = (),
    calls: Sequence[Call] = (),
    stories: Sequence[KernelStory] = (),
) -> Path | None:
    """Write one graph's files into a new folder `graph_<n>` below `folder`, and return it.

    A stage is (pass name, module text). The folder appears under its name only when it is whole; where it cannot be
    written, a warning says why, and None comes back.
    """
    unfinished = folder / f".unfinished_{os.getpid()}_{next(_numbers)}"
    try:
        unfinished.mkdir(parents=True)
        return _write(folder, unfinished, stages, kernels, decisions, calls, stories)
    except OSError as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        log.warning("no dump of a graph in '%s' (option dump, or LAMELLA_DUMP): %s", folder, error.strerror or error)
        return None


def _write(
    folder: Path,
    unfinished: Path,
    stages: Sequence[tuple[str, str]],
    kernels: Sequence[Mapping[str, Any]],
    decisions: Sequence[str],
    calls: Sequence[Call],
    stories: Sequence[KernelStory],
) -> Path:
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
