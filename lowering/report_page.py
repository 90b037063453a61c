"""The page that tells of a compilation: kernels with their lines, levels and costs, calls, decisions. One HTML file,
which needs nothing beside it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .kernel_story import LEVELS, KernelStory
from .origins import Call

_STYLE = """
:root { color-scheme: light dark; --line: #8883; --soft: #8881; --op: #0b62c4; --dim: #777; }
@media (prefers-color-scheme: dark) { :root { --op: #7db8ff; --dim: #999; } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 1200px; padding: 0 1em; }
h1 { font-size: 1.6em; } h2 { font-size: 1.3em; margin-top: 2em; } h3 { font-size: 1.05em; margin-top: 1.5em; }
table { border-collapse: collapse; width: 100%; }
td, th { padding: .3em .7em .3em 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th { font-weight: 600; } .n { text-align: right; } .dim { color: var(--dim); }
td, code, pre { overflow-wrap: anywhere; } code, pre { font: 12.5px/1.45 ui-monospace, monospace; }
pre { overflow-x: auto; overflow-wrap: normal; margin: 0; padding: .7em; background: var(--soft); border-radius: 5px; }
pre b { font-weight: 400; color: var(--op); }
details { margin: .4em 0; } summary { cursor: pointer; } summary b { font-weight: 600; }
dl { display: grid; grid-template-columns: 8em minmax(0, 1fr); gap: .6em; margin: .6em 0 1.5em; }
dt { font-weight: 600; } .meaning { font: 12.5px/1.3 system-ui; color: var(--dim); } dd { margin: 0; }
"""
_OPERATION = re.compile(r"(?<![\w.@&])((?:aten|prims|loop|arith|math|host|llvm|func)\.[\w.]+)")
_MANY, _LONG = 8, 100
"""Items of a list, and lines of code, beyond which they are folded."""


def page(title: str, sections: Iterable[str]) -> str:
    """The whole document."""
    head = f"<!doctype html><html lang=en><meta charset=utf-8><title>{_text(title)}</title><style>{_STYLE}</style>"
    return "\n".join([head, f"<h1>{_text(title)}</h1>", *sections, "</html>"]) + "\n"


def graph_section(
    title: str,
    kernels: Sequence[Mapping[str, Any]],
    calls: Sequence[Call],
    decisions: Sequence[str],
    stories: Sequence[KernelStory] = (),
    stages: Sequence[tuple[str, str]] = (),
    anchor: str = "g",
    note: str = "",
    partition: Sequence[str] = (),
) -> str:
    """One graph. `anchor` keeps its links apart from those of other graphs on the page; with a `note` that is all
    there is to say.
    """
    if note:
        return f"<h2>{_text(title)}</h2><p>{_text(note)}</p>"
    launches = sum(kernel["launches"] for kernel in kernels)
    parts = [
        f"<h2>{_text(title)}</h2>",
        f"<p>{count(len(kernels), 'kernel')}, launched {count(launches, 'time')}; "
        f"{count(len(calls), 'call')} into ATen.</p>",
        *_kernel_table(kernels, {story.name for story in stories}, anchor),
        *_call_table(calls),
    ]
    if stories:
        parts.append("<h3>Kernels, level by level</h3>")
        parts += [_story(story, anchor) for story in stories]
    parts += listing("Decisions of the cost model", decisions)
    parts += listing("What the forward keeps for the backward", partition)
    if stages:
        parts.append("<h3>The module after each pass</h3>")
        parts += [_details(f"<b>{_text(name)}</b>", _code(plain(text))) for name, text in stages]
    return "\n".join(parts)


def listing(title: str, items: Sequence[str]) -> list[str]:
    """A heading with a list below, folded where it is long; nothing for no items."""
    if not items:
        return []
    shown = "<ul>" + "".join(f"<li><code>{_text(item)}</code></li>" for item in items) + "</ul>"
    folded = _details(count(len(items), "line"), shown) if len(items) > _MANY else shown
    return [f"<h3>{_text(title)}</h3>", folded]


def count(n: int, noun: str) -> str:
    """`1 kernel`, `2 kernels`."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def plain(text: str) -> str:
    """A module's text without its locations."""
    return re.sub(r" loc\((?:[^()]|\([^()]*\)|\((?:[^()]|\([^()]*\))*\))*\)", "", text)


def _kernel_table(kernels: Sequence[Mapping[str, Any]], linked: set[str], anchor: str) -> list[str]:
    if not kernels:
        return []
    rows = ["<table><tr><th>kernel</th><th class=n>launches</th><th>ops</th><th>bytes</th><th>flops</th></tr>"]
    for kernel in kernels:
        name = _text(kernel["name"])
        shown = f"<a href='#{anchor}-{name}'>{name}</a>" if kernel["name"] in linked else name
        rows.append(
            f"<tr><td><code>{shown}</code></td><td class=n>{kernel['launches']}</td>"
            f"<td>{'<br>'.join(_operator(*item) for item in kernel['ops'].items())}</td>"
            f"<td><code>{_text(kernel.get('bytes', ''))}</code></td>"
            f"<td><code>{_text(kernel.get('flops', ''))}</code></td></tr>"
        )
    return [*rows, "</table>"]


def _operator(name: str, lines: Sequence[str]) -> str:
    shown = [line.rpartition("/")[2] for line in lines[:3]] + ["…"] * (len(lines) > 3)
    places = f"<span class=dim title='{_text(', '.join(lines))}'>{_text(', '.join(shown))}</span>"
    return f"{_text(name)} {places}"


def _call_table(calls: Sequence[Call]) -> list[str]:
    if not calls:
        return []
    places: dict[tuple[str, str], list[str]] = {}
    for name, line, reason in calls:
        places.setdefault((name, reason), []).append(line)
    rows = ["<h3>Calls into ATen</h3><table><tr><th>operator</th><th class=n>calls</th><th>why</th><th>lines</th></tr>"]
    for (name, reason), lines in places.items():
        different = "<br>".join(map(_text, dict.fromkeys(lines)))
        rows.append(
            f"<tr><td><code>{_text(name)}</code></td><td class=n>{len(lines)}</td><td>{_text(reason)}</td>"
            f"<td><code>{different}</code></td></tr>"
        )
    return [*rows, "</table>"]


def _story(story: KernelStory, anchor: str) -> str:
    parts = [("Python", _code("\n".join(story.source)))]
    for level, text in story.levels:
        long = len(text.splitlines()) > _LONG
        parts.append((level, _details(count(len(text.splitlines()), "line"), _code(text)) if long else _code(text)))
    # Browsers open what is folded around the target of a link.
    body = (
        f"<dl id='{anchor}-{_text(story.name)}'>"
        + "".join(f"<dt>{level}{_meaning(level)}</dt><dd>{text}</dd>" for level, text in parts)
        + "</dl>"
    )
    return _details(f"<b>{_text(story.name)}</b>", body)


def _meaning(level: str) -> str:
    return f"<div class=meaning>{_text(LEVELS[level])}</div>" if level in LEVELS else ""


def _details(summary: str, body: str) -> str:
    return f"<details><summary>{summary}</summary>{body}</details>"


def _code(text: str) -> str:
    colored = _OPERATION.sub(r"<b>\1</b>", _text(text))
    return f"<pre>{colored}</pre>"


def _text(value: object) -> str:
    return html.escape(str(value))
