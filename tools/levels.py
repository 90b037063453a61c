"""One fused kernel through all the levels: the ops that became it, found by their locations."""

from __future__ import annotations

import linecache
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import CallSiteLoc, FileLineColLoc, FusedLoc, NameLoc
from xdsl.ir import Operation

from .. import driver
from ..dialects.text import print_module

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

Place = tuple[str, str, int]
"""Module path, file, line."""


def places(location: Any, path: str = "") -> set[Place]:
    """Where an op came from: every leaf of its location."""
    if isinstance(location, NameLoc):
        return places(location.location, location.desc.data)
    if isinstance(location, CallSiteLoc):
        return places(location.callee, path)
    if isinstance(location, FusedLoc):
        return set().union(*(places(part, path) for part in location.locations.data))  # pyright: ignore
    if isinstance(location, FileLineColLoc):
        return {(path, location.filename.data, location.line.data)}
    return set()


@dataclass
class KernelStory:
    """A kernel's name, its source lines, and its text at each level."""

    name: str
    source: list[str]
    levels: list[tuple[str, str]] = field(default_factory=list)


def kernel_story(module: ModuleOp, choose: str = "", options: driver.Options | None = None) -> KernelStory:
    """Lower a copy of an aten module and follow one kernel: the first whose name contains `choose`, or the largest.

    Raises ValueError where no kernel has such a name.
    """
    options = options or driver.Options()
    kept: dict[str, ModuleOp] = {"aten": module.clone()}
    last_of = {
        "prims-canonicalize": "prims",
        "prims-to-loop": "loop",
        "loop-schedule": "kernel",
        "host-to-llvm": "llvm",
    }

    def keep(_index: int, p: Any, m: ModuleOp) -> None:
        if p.name in last_of:
            kept[last_of[p.name]] = m.clone()

    driver.run_passes(module.clone(), driver.pipeline(options, driver.target_of(options)), verify=False, after=[keep])
    kernels = [op for op in kept["kernel"].ops if op.name == "loop.kernel"]
    named = [k for k in kernels if choose in k.properties["sym_name"].data]  # pyright: ignore
    if not named:
        raise ValueError(f"no kernel's name contains {choose!r}")
    kernel = named[0] if choose else max(named, key=lambda k: sum(1 for _ in k.walk()))
    name: str = kernel.properties["sym_name"].data  # pyright: ignore
    launch = next(op for op in kept["kernel"].walk() if op.name == "loop.launch" and op.callee == name)  # pyright: ignore
    wanted = places(launch.location)
    story = KernelStory(name, [_source_line(p) for p in sorted(wanted, key=lambda p: p[1:])])
    story.source = list(dict.fromkeys(story.source))
    for level in ("aten", "prims", "loop"):
        _name_values(kept[level])
        found = [op for op in _main_ops(kept[level]) if (p := places(op.location)) and p <= wanted]
        story.levels.append((level, "\n".join(map(print_module, found))))
    story.levels.append(("kernel", print_module(kernel)))
    function = [op for op in kept["llvm"].ops if getattr(op.properties.get("sym_name"), "data", "").startswith(name)]
    story.levels.append(("llvm", "\n".join(map(print_module, function))))
    return story


def _name_values(module: ModuleOp) -> None:
    """Names for the values of @main, so that ops printed one by one refer to each other."""
    for i, r in enumerate(r for op in _main_ops(module) for r in op.results):
        r.name_hint = r.name_hint or f"t{i}"


def _main_ops(module: ModuleOp) -> list[Operation]:
    main = next(op for op in module.ops if getattr(op.properties.get("sym_name"), "data", None) == "main")
    return list(main.regions[0].block.ops)


def _source_line(place: Place) -> str:
    path, file, line = place
    code = linecache.getline(file, line).strip()
    return f"{file}:{line}" + (f" ({path})" if path else "") + (f"  {code}" if code else "")
