"""torch's operator database through the whole compiler, natively, against eager. `tools/coverage.py` runs all of it;
here is a slice: what is compiled to kernels, between other operators, so that it is fused. `-m slow` runs the rest.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, ReductionOpInfo, UnaryUfuncInfo

from lamella.tools.op_check import check, name_of, operators, supports

VIEWS = {
    *("broadcast_to", "chunk", "diagonal", "expand", "flatten", "flip", "fliplr", "H", "meshgrid-list_of_tensors"),
    *("movedim", "permute", "ravel", "repeat", "reshape", "roll", "rot90", "select", "split-list_args"),
    *("squeeze", "t", "tile", "transpose", "unbind", "unflatten", "unfold", "unsqueeze", "view", "vsplit"),
    *("cat", "stack", "hstack", "block_diag", "diag_embed", "tril", "triu", "nn.functional.pad-constant"),
    *("nn.functional.pad-reflect", "nn.functional.unfold", "nn.functional.pixel_shuffle", "constant_pad_nd"),
}
INDEXING = {
    *("__getitem__", "gather", "index_add", "index_copy", "index_fill", "index_put", "index_select", "masked_fill"),
    *("nn.functional.embedding", "scatter", "scatter_add", "select_scatter", "slice_scatter", "diagonal_scatter"),
    *("take_along_dim", "where", "cumsum", "cumprod", "logcumsumexp", "softmax", "log_softmax", "logsumexp"),
    *("nn.functional.layer_norm", "nn.functional.group_norm", "nn.functional.gelu", "nn.functional.cross_entropy"),
    *("nn.functional.avg_pool2d", "nn.functional.max_pool2d", "nn.functional.interpolate-bilinear", "addmm", "bmm"),
}
INTEGER = {
    "add",
    "mul",
    "div-floor_rounding",
    "remainder",
    "bitwise_xor",
    "pow",
    "sum",
    "amax",
    "any",
    "cumsum",
    "clamp",
}
DTYPES = ("float32", "int64", "bool", "bfloat16")
KNOWN: dict[tuple[str, str, str], str] = {}
"""Faults by operator, dtype and mode, with their reasons."""

Case = tuple[str, str, str]


def is_quick(op: Any, dtype: str, mode: str) -> bool:
    """Whether a case belongs to the slice."""
    if mode != "fused" or name_of(op).startswith(("special.", "jiterator")):
        return False
    if dtype != "float32":
        return dtype != "bfloat16" and name_of(op) in INTEGER
    return isinstance(op, (UnaryUfuncInfo, BinaryUfuncInfo, ReductionOpInfo)) or name_of(op) in VIEWS | INDEXING


OPERATORS = {name_of(op): op for op in operators()}


def cases() -> list[Any]:
    found: list[Any] = []
    for name, op in OPERATORS.items():
        for mode, dtypes in (("fused", DTYPES), ("gradient", DTYPES[:1]), ("inplace", DTYPES[:1])):
            for dtype in dtypes:
                if not supports(op, getattr(torch, dtype), mode):
                    continue
                marks = [] if is_quick(op, dtype, mode) else [pytest.mark.slow]
                if (name, dtype, mode) in KNOWN:
                    marks.append(pytest.mark.xfail(reason=KNOWN[name, dtype, mode], strict=True))
                found.append(pytest.param(name, dtype, mode, id=f"{name}-{dtype}-{mode}", marks=marks))
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "dtype", "mode"), cases())
def test_operator(name: str, dtype: str, mode: str) -> None:
    op = OPERATORS[name]
    outcome = check(op, getattr(torch, dtype), 1, mode)
    if outcome.status == "refused":
        pytest.skip(outcome.reason)
    quick = is_quick(op, dtype, mode)
    right = ("native", "calls") if quick else ("native", "calls", "eager", "torch")
    assert outcome.status in right, f"{outcome.status}: {outcome.reason}"


def test_names() -> None:
    """What the slice lists is there."""
    assert (VIEWS | INDEXING | INTEGER) - OPERATORS.keys() == set()
