"""A module of LLVM text as several, of about equal work, to be compiled at once and linked together.

What can be named from outside (kernels, the host program) goes to one part each; what it uses that cannot (loop bodies,
tables) is copied into every part that uses it. What is not to be optimized is a part by itself, as LLVM's quick
allocation of registers is for a whole module: the other takes a time that grows with the square of a long program.
"""

import re
from collections.abc import Mapping, Sequence

from xdsl.dialects import llvm
from xdsl.dialects.builtin import ModuleOp

from .llvm_rows import Names
from .llvm_text import Piece, join, pieces

_SYMBOL = re.compile(r'@(?:[-\w.$]+|"(?:[^"\\]|\\.)*")')

WORTH_A_PART = 20_000
"""Characters of text that take LLVM several times as long as a module costs by itself."""


def emit_parts(
    module: ModuleOp,
    parts: int,
    *,
    names: Names | None = None,
    known: Mapping[llvm.FuncOp, Piece] | None = None,
    elsewhere: Mapping[str, Piece] | None = None,
) -> list[str]:
    """The text of `module` as at most `parts` texts, and one of what is not optimized. `known` is the text of some of
    its functions, which was made with `names`; `elsewhere` has the declarations of those that a part has which is not
    among these. Raises CodegenError as `emit` does.
    """
    there = elsewhere or {}
    found = [there.get(piece.symbol, piece) for piece in pieces(list(module.ops), names, known=known)]
    if any(_is_variable(piece) for piece in found):
        return [join(found)]
    by_symbol = {piece.symbol: piece for piece in found}
    plain = [p.symbol for p in found if _is_plain(p)]
    for piece in [used for symbol in plain for used in _uses(by_symbol[symbol], by_symbol)]:
        if not piece.stub:
            by_symbol[piece.symbol] = public(piece)
    roots = [p.symbol for p in by_symbol.values() if p.text != p.stub and p.stub and not _is_plain(p)]
    work = {symbol: _work(by_symbol[symbol], by_symbol) for symbol in roots}
    parts = max(min(parts, len(work), sum(work.values()) // WORTH_A_PART), min(len(work), 1))
    if not plain and parts <= 1:
        return [join(found)]
    loads: list[tuple[int, list[str]]] = [(0, []) for _ in range(parts)]
    for symbol in sorted(work, key=lambda s: work[s], reverse=True):
        load, symbols = min(loads, key=lambda entry: entry[0])
        loads[loads.index((load, symbols))] = (load + work[symbol], [*symbols, symbol])
    return [join(closure(s, by_symbol)) for s in ([plain] if plain else []) + [symbols for _, symbols in loads]]


_LOCAL = "define internal "


def public(piece: Piece) -> Piece:
    """A local function as one that other parts can name; anything else as it is. It is not `hidden`: what is must lie
    within 2 GB of those that name it, and parts need not, as in a process that has mapped a GPU's memory.
    """
    if piece.stub or not piece.text.startswith(_LOCAL):
        return piece
    text = f"define {piece.text.removeprefix(_LOCAL)}"
    signature = text.partition("\n")[0].removeprefix("define").removesuffix("{")
    return Piece(piece.symbol, text, f"declare{signature}")


def _is_plain(piece: Piece) -> bool:
    return " optnone" in piece.text.partition("\n")[0]


def _is_variable(piece: Piece) -> bool:
    """A variable that copies of a function would no longer share."""
    return not piece.stub and " global " in piece.text.partition("\n")[0]


def _uses(piece: Piece, by_symbol: Mapping[str, Piece]) -> list[Piece]:
    return [by_symbol[s] for s in dict.fromkeys(_SYMBOL.findall(piece.text)) if s in by_symbol and s != piece.symbol]


def _work(piece: Piece, by_symbol: Mapping[str, Piece]) -> int:
    """Characters of text, with the local pieces that come along."""
    total, seen, todo = 0, {piece.symbol}, [piece]
    while todo:
        current = todo.pop()
        total += len(current.text)
        for used in _uses(current, by_symbol):
            if not used.stub and used.symbol not in seen:
                seen.add(used.symbol)
                todo.append(used)
    return total


def closure(roots: Sequence[str], by_symbol: Mapping[str, Piece]) -> list[Piece | str]:
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
