"""What fusion decided, in words: which nests went together and what that saves, which stayed apart and why.

Equal layers are decided alike: a line stands once, with the number of times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..dialects.loop import LaunchOp
from .fuse_cost import shown
from .fuse_graph import Node
from .kernel_names import KINDS, origins, word


@dataclass(eq=False, slots=True)
class Decisions:
    """Decisions about the nests of one function, in order."""

    _joined: list[tuple[Node, Sequence[Node], float, float]] = field(default_factory=list)
    _apart: dict[tuple[Node, Node], str] = field(default_factory=dict)

    def joined(self, n: Node, others: Sequence[Node], saved: float, work: float) -> None:
        """`n` went into the kernel of `others`, which saves bytes of the work of both."""
        self._joined.append((n, others, saved, work))

    def kept_apart(self, n: Node, other: Node, reason: str) -> None:
        """`n` is not in the kernel of `other`, as things stood when this was tried."""
        self._apart[n, other] = reason

    def lines(self, launched: Mapping[Node, LaunchOp]) -> Counter[str]:
        """A line each, with how often it was so. `launched` gives the launch of every nest."""
        numbers: dict[Node, int] = {}
        counts: Counter[LaunchOp] = Counter()
        for n, launch in launched.items():
            counts[launch] += 1
            numbers[n] = counts[launch]

        def named(n: Node) -> str:
            return f"{_described(n)} #{numbers[n]}"

        found: Counter[str] = Counter()
        for n, others, saved, work in self._joined:
            into = " + ".join(map(named, others[:3])) + (" …" if len(others) > 3 else "")
            kernel = launched[n].callee
            found[f"@{kernel}: fused {named(n)} with {into}: saves {shown(saved)} of {shown(work)}"] += 1
        for (n, other), reason in self._apart.items():
            if launched[n] is not launched[other]:
                found[f"@{launched[n].callee}: kept apart from @{launched[other].callee}: {reason}"] += 1
        return found


def _described(n: Node) -> str:
    """Operators of a nest, as people know them, and what it does where that is not pointwise."""
    words = list(dict.fromkeys(map(word, origins(n.op))))
    scatters = not n.pointwise and not n.reduce and n.scan is None
    kind = "scatter " if scatters else "cumulative " if n.scan and not n.sorts else ""
    does = "" if n.pointwise else f" ({kind}{', '.join(KINDS.get(k, k) for k in n.combine)})"
    return " + ".join(words[:3]) + does
