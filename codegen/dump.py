"""Dumps of a compilation: one numbered `.mlir` file per stage, `kernels.json`, and a page that ties them together."""

from __future__ import annotations

import html
import itertools
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 1200px; padding: 0 1em; }
table { border-collapse: collapse; } td, th { padding: .2em .8em; border-bottom: 1px solid #8884; text-align: left; }
pre { overflow: auto; padding: .8em; background: #8881; border-radius: 4px; font-size: 12px; }
summary { cursor: pointer; font-weight: 600; } .n { text-align: right; }
"""


def write_dump(
    folder: Path,
    stages: Sequence[tuple[str, str]],
    kernels: Sequence[Mapping[str, Any]],
    decisions: Sequence[str] = (),
    calls: Sequence[tuple[str, str]] = (),
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
    (unfinished / "report.html").write_text(report_page(stages, kernels, decisions, calls), encoding="utf-8")
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


def report_page(
    stages: Sequence[tuple[str, str]],
    kernels: Sequence[Mapping[str, Any]],
    decisions: Sequence[str],
    calls: Sequence[tuple[str, str]],
) -> str:
    """The page: kernels with source lines and costs, ATen calls, decisions, and the text of kernels and stages."""
    e = html.escape
    rows = [
        f"<tr><td><a href='#k-{e(k['name'])}'>{e(k['name'])}</a></td><td class=n>{k['launches']}</td>"
        f"<td>{e(', '.join(k.get('ops', ())))}</td><td>{'<br>'.join(map(e, k['lines'][:8]))}</td>"
        f"<td>{e(str(k.get('bytes', '')))}</td><td>{e(str(k.get('flops', '')))}</td></tr>"
        for k in kernels
    ]
    parts = [
        f"<!doctype html><meta charset=utf-8><title>Lamella</title><style>{_STYLE}</style><h1>Lamella</h1>",
        "<h2>Kernels</h2><table><tr><th>kernel<th>launches<th>ops<th>source<th>bytes<th>flops</tr>",
        *rows,
        "</table><h2>Calls into ATen</h2><table>",
        *(f"<tr><td>{e(name)}</td><td>{e(line)}</td></tr>" for name, line in calls),
        "</table><h2>Decisions</h2><pre>",
        "\n".join(map(e, decisions)),
        "</pre><h2>Kernel text</h2>",
    ]
    scheduled = dict(stages).get("loop-schedule", "")
    for k in kernels:
        parts.append(f"<details id='k-{e(k['name'])}'><summary>{e(k['name'])}</summary><pre>")
        parts.append(e(_symbol_text(scheduled, k["name"])) + "</pre></details>")
    parts.append("<h2>Stages</h2>")
    parts += [f"<details><summary>{e(n)}</summary><pre>{e(_plain(t))}</pre></details>" for n, t in stages]
    return "\n".join(parts) + "\n"


def _plain(text: str) -> str:
    """A module's text without its locations."""
    return re.sub(r" loc\((?:[^()]|\([^()]*\)|\((?:[^()]|\([^()]*\))*\))*\)", "", text)


def _symbol_text(text: str, name: str) -> str:
    """The lines of the symbol `name` in a module's text."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if re.search(rf"loop\.kernel @{re.escape(name)}\b", line)), None)
    if start is None:
        return ""
    indent = re.match(r" *", lines[start])
    close = (indent[0] if indent else "") + "}"
    end = next((i for i in range(start + 1, len(lines)) if lines[i].startswith(close)), len(lines) - 1)
    return _plain("\n".join(lines[start : end + 1]))
