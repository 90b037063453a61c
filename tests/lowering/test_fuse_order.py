"""The order of kernels and calls after fusion."""

from __future__ import annotations

from lamella.lowering.fuse_groups import Cluster
from lamella.lowering.fuse_order import in_order


def test_what_joins_distant_ops_stands_before_its_first_user() -> None:
    """Else what is ready, and needed late, would come before it: a backward computed again at once what it needed last."""
    ops = {"given": ({0}, set[int]()), "joined": ({1, 9}, {0}), "early": ({2}, {1}), "late": ({5}, set[int]()),
           "last": ({6}, {5, 2})}  # fmt: skip
    clusters = {name: Cluster(sum(1 << i for i in bits), deps, 0, None) for name, (bits, deps) in ops.items()}
    at = {i: clusters[name] for name, (bits, _) in ops.items() for i in bits}
    names = {c: name for name, c in clusters.items()}
    assert [names[c] for c in in_order(at)] == ["given", "joined", "early", "late", "last"]
