"""A module of LLVM text as several, of about equal work, to be compiled at once and linked together.

What can be named from outside (kernels, the host program) goes to one part each; what it uses that cannot (loop bodies,
tables) is copied into every part that uses it.
"""

import re
from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp

from .llvm_text import Piece, join, pieces

_SYMBOL = re.compile(r'@(?:[-\w.$]+|"(?:[^"\\]|\\.)*")')

_WORTH_A_PART = 20_000
"""Characters of text that take LLVM several times as long as a module costs by itself."""


def emit_parts(module: ModuleOp, parts: int, *, locations: bool = False) -> list[str]:
    """The text of `module` as at most `parts` texts. Raises CodegenError as `emit` does."""
    found = pieces(module, locations=locations)
    by_symbol = {piece.symbol: piece for piece in found}
    work = {p.symbol: _work(p, by_symbol) for p in found if p.text != p.stub and p.stub}
    parts = min(parts, len(work), int(sum(work.values()) / _WORTH_A_PART))
    if parts <= 1 or any(_is_variable(piece) for piece in found):
        return [join(found)]
    loads: list[tuple[float, list[str]]] = [(0, []) for _ in range(parts)]
    for symbol in sorted(work, key=lambda s: work[s], reverse=True):
        load, roots = min(loads, key=lambda entry: entry[0])
        loads[loads.index((load, roots))] = (load + work[symbol], [*roots, symbol])
    return [join(_closure(roots, by_symbol)) for _, roots in loads]


def _is_variable(piece: Piece) -> bool:
    """A variable that copies of a function would no longer share."""
    return not piece.stub and " global " in piece.text.partition("\n")[0]


def _uses(piece: Piece, by_symbol: Mapping[str, Piece]) -> list[Piece]:
    return [by_symbol[s] for s in dict.fromkeys(_SYMBOL.findall(piece.text)) if s in by_symbol and s != piece.symbol]


def _work(piece: Piece, by_symbol: Mapping[str, Piece]) -> float:
    """Characters of text, those compiled without optimization at less, with the local pieces that come along."""
    total, seen, todo = 0.0, {piece.symbol}, [piece]
    while todo:
        current = todo.pop()
        total += len(current.text) * (0.3 if " optnone" in current.text.partition("\n")[0] else 1.0)
        for used in _uses(current, by_symbol):
            if not used.stub and used.symbol not in seen:
                seen.add(used.symbol)
                todo.append(used)
    return total


def _closure(roots: list[str], by_symbol: Mapping[str, Piece]) -> list[Piece | str]:
    """The pieces of these symbols with all local ones they use, and stubs of the others."""
    bodies, stubs = {symbol: by_symbol[symbol] for symbol in roots}, dict[str, str]()
    todo = list(bodies.values())
    while todo:
        for used in _uses(todo.pop(), by_symbol):
            if used.stub and used.symbol not in bodies:
                stubs[used.symbol] = used.stub
            elif not used.stub and used.symbol not in bodies:
                bodies[used.symbol] = used
                todo.append(used)
    return [*stubs.values(), *bodies.values()]
