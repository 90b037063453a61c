"""Where a loop is along its vector dim."""

from __future__ import annotations

from dataclasses import dataclass

import sympy
from xdsl.ir import SSAValue

from .llvm_builder import Num


@dataclass(frozen=True)
class Lanes:
    """The vector dim at a place: symbol, width, number of copies, which lanes are on (those before `left`), whether it
    starts aligned, whether two copies have the even and the odd elements of a run.
    """

    dim: sympy.Symbol
    lanes: int
    copies: int
    mask: SSAValue | None
    aligned: bool
    left: Num | None = None
    apart: bool = False

    @property
    def run(self) -> int:
        """Neighbours that a load or store takes at once."""
        return 2 * self.lanes if self.apart else self.lanes

    def bytes(self, size: int) -> int:
        """Those of a vector of elements of a size; halves that are apart are stored two by two."""
        return self.lanes * (4 if self.apart else size)
