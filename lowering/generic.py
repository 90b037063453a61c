"""Any level to itself: xDSL's generic clean-ups, made to keep locations."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.arith import CmpiOp
from xdsl.dialects.builtin import ModuleOp, TensorType, UnknownLoc
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import GreedyRewritePatternApplier, PatternRewriter, PatternRewriteWalker, RewritePattern
from xdsl.transforms.canonicalize import CanonicalizationRewritePattern
from xdsl.transforms.common_subexpression_elimination import cse
from xdsl.transforms.dead_code_elimination import region_dce


@dataclass(frozen=True)
class KeepLocation(RewritePattern):
    """Gives what `pattern` inserts, where it has no location of its own, the location of the op it matched."""

    pattern: RewritePattern

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        location = op.location

        def locate(new: Operation) -> None:
            if isinstance(new.location, UnknownLoc):
                new.location = location

        rewriter.operation_insertion_handler.append(locate)
        self.pattern.match_and_rewrite(op, rewriter)
        rewriter.operation_insertion_handler.remove(locate)


class _Patterns(CanonicalizationRewritePattern):
    """xDSL's patterns of each op; those for compares of integers would make a scalar of a tensor."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if not (isinstance(op, CmpiOp) and isinstance(op.result.type, TensorType)):
            super().match_and_rewrite(op, rewriter)


@dataclass(frozen=True)
class Canonicalize(ModulePass):
    """Apply the canonicalization patterns and folds of all ops, and remove what is dead."""

    name = "canonicalize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        patterns = GreedyRewritePatternApplier([_Patterns()], ctx=ctx, folding_enabled=True)
        PatternRewriteWalker(KeepLocation(patterns), post_walk_func=region_dce).rewrite_module(op)


@dataclass(frozen=True)
class Cse(ModulePass):
    """Replace an op by an equal one that dominates it; the first keeps its location."""

    name = "cse"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        cse(op)


@dataclass(frozen=True)
class Dce(ModulePass):
    """Remove ops and blocks without effect."""

    name = "dce"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        region_dce(op.body)
