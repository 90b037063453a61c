"""One fused kernel through all the levels: the ops that became it, found by their locations."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation

from ..dialects import host
from ..dialects.aten import AtenOp
from ..dialects.loop import KernelOp, LaunchOp
from ..dialects.printer import FastPrinter
from ..dialects.text import print_module
from .origins import Origin, origins

LEVELS = {
    "aten": "what PyTorch said",
    "prims": "operators of one meaning each",
    "loop": "how each element is made: a nest per operator",
    "kernel": "fused and scheduled: what is vectorized, what moves",
    "llvm": "the code that is translated for this machine",
}
"""What each level of a story says, for people."""


@dataclass
class KernelStory:
    """A kernel's name, the source lines of its first launch, and its text at each level."""

    name: str
    source: list[str]
    levels: list[tuple[str, str]]


@dataclass
class StoryTeller:
    """Follows a compilation: give it the aten module, then call `after` after each pass."""

    module: ModuleOp
    _ops: dict[str, list[tuple[frozenset[Origin], str]]] = field(default_factory=dict, init=False)
    """Level to its ops in order: where each came from, and its text."""
    _kernels: dict[str, str] = field(default_factory=dict, init=False)
    _launched: dict[str, frozenset[Origin]] = field(default_factory=dict, init=False)
    """Kernel to the origins of its first launch."""
    _claimed: set[Origin] = field(default_factory=set, init=False)
    """What became part of some kernel, or stayed a call."""
    _functions: dict[str, str] = field(default_factory=dict, init=False)
    """Text of the llvm functions, by name."""

    def __post_init__(self) -> None:
        self._ops["aten"] = list(_located_ops(self.module))

    def after(self, _index: int, p: Any, module: ModuleOp) -> None:
        match p.name:
            case "prims-canonicalize":
                self._ops["prims"] = list(_located_ops(module))
            case "prims-to-loop":
                self._ops["loop"] = list(_located_ops(module))
            case "loop-schedule":
                self._claimed = {o for op in module.walk() if isinstance(op, (LaunchOp, AtenOp)) for o in _origins(op)}
            case "bufferize":
                self._kernels = {op.sym_name.data: print_module(op) for op in module.ops if isinstance(op, KernelOp)}
                for op in module.walk():
                    if isinstance(op, host.LaunchOp):
                        self._launched.setdefault(op.callee, _origins(op))
            case "host-to-llvm":
                functions = (op for op in module.ops if op.regions and op.regions[0].blocks)
                self._functions = {_name(op): print_module(op) for op in functions}
            case _:
                pass

    def stories(self) -> list[KernelStory]:
        """The story of each kernel that is launched, in order of the first launches."""
        return [self._story(name, wanted) for name, wanted in self._launched.items()]

    def _story(self, name: str, wanted: frozenset[Origin]) -> KernelStory:
        places = {o[1:] for o in wanted}

        def belongs(found: frozenset[Origin]) -> bool:
            """All of it is of these lines, and no other kernel or call has it."""
            return bool(found) and all(o[1:] in places and (o in wanted or o not in self._claimed) for o in found)

        levels = [(level, "\n".join(text for found, text in ops if belongs(found))) for level, ops in self._ops.items()]
        levels.append(("kernel", self._kernels[name]))
        # What is launched hands the work to its `.body`, which is what people look for.
        code = [text for symbol, text in self._functions.items() if symbol.startswith(f"{name}.")]
        # what the body shares with others
        called = dict.fromkeys(re.findall(r"@(lamella\.[\w.]+)\(", self._functions.get(f"{name}.body", "")))
        code += [self._functions[symbol] for symbol in called if symbol in self._functions]
        code += [self._functions[name]] if name in self._functions else []
        levels.append(("llvm", "\n".join(code)))
        source = map(source_line, sorted(wanted, key=lambda o: (o.file, o.line)))
        return KernelStory(name, list(dict.fromkeys(source)), levels)


def source_line(origin: Origin) -> str:
    """The place with the text that stands there, where its file can be read."""
    code = linecache.getline(origin.file, origin.line).strip()
    return origin.place + (f" ({origin.module})" if origin.module else "") + (f"  {code}" if code else "")


def _origins(op: Operation) -> frozenset[Origin]:
    """The lines an op came from, each with the operator that is or was called there."""
    found = (o for o in origins(op.location) if o.file)
    return frozenset(o._replace(operator=op.name) if isinstance(op, AtenOp) else o for o in found)


def _located_ops(module: ModuleOp) -> Iterator[tuple[frozenset[Origin], str]]:
    """The ops of @main but its return, with the names that they have in the text of the module."""
    main = next((op for op in module.ops if _name(op) == "main"), None)
    if main is None:
        return
    printer = FastPrinter()
    for argument in main.regions[0].block.args:
        printer.print_ssa_value(argument)
    for op in main.regions[0].block.ops:
        text = printer.text_of(op)
        if not isinstance(op, ReturnOp):
            yield _origins(op), text


def _name(op: Operation) -> str:
    return str(getattr(op.properties.get("sym_name"), "data", ""))
