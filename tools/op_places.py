"""Operators that choose among equal elements as they like: their positions count by what stands there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

DIM_AT = {"sort": 1, "argsort": 1, "topk": 2, "kthvalue": 2, "median": 1, "nanmedian": 1, "mode": 1}
"""Which argument is the dim, by the operator."""

MANY = frozenset({"sort", "argsort", "topk"})
"""Those of which no two positions of a row are the same."""


def settled(name: str, out: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The results with the elements of the first argument in place of their positions, whether these differ, and zeros
    that lie as they do.
    """
    if name not in DIM_AT or kwargs.get("stable") or (isinstance(out, torch.Tensor) and name != "argsort"):
        return out
    x: torch.Tensor = args[0]
    at = DIM_AT[name]
    dim = kwargs.get("dim", args[at] if len(args) > at else -1)
    places: torch.Tensor = out if isinstance(out, torch.Tensor) else out[1]
    layout = torch.zeros_like(places)
    if x.dim() == 0:
        x, places, dim = x.reshape(1), places.reshape(-1), 0
    if places.dim() < x.dim():
        places = places.unsqueeze(dim)
    apart = places.sort(dim).values.diff(dim=dim).ne(0).all() if name in MANY else torch.tensor(True)
    found = x.gather(dim, places)
    return (*(() if isinstance(out, torch.Tensor) else out[:1]), found, apart, layout)
