"""Any level to itself, without locations: for comparing the text of modules that came from different places."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import UNKNOWN_LOC, ModuleOp
from xdsl.passes import ModulePass


@dataclass(frozen=True)
class StripLocations(ModulePass):
    """Remove the location of every op and block argument."""

    name = "strip-locations"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            inner.location = UNKNOWN_LOC
            for region in inner.regions:
                for block in region.blocks:
                    for argument in block.args:
                        argument.location = UNKNOWN_LOC
