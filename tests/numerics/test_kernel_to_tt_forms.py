"""What GPU kernels compute in forms that are chosen for speed: parts, one pass over rows, windows that share what they
read, rows in turn, sums in place of updates.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from lamella.dialects import tt
from lamella.frontend.capture import capture
from lamella.lowering import fuse_split, fuse_strips, tile_choice, tile_rows

from .test_kernel_to_tt import FROM_LOOP, Program, below, check, compare, normal, on_gpu


@pytest.mark.parametrize("dims", [(0, 2), (0,), (0, 1), (1, 2), (0, 1, 2)])
def test_variance_in_parts(dims: tuple[int, ...]) -> None:
    """Means and deviations of parts, which are not all as long, are those of the whole."""
    passes = FROM_LOOP.replace("hold=65536", "hold=64")
    x = normal(37, 11, 10) * 3 + 100
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"LEAST": 4, "CHUNK": 96, "ROWS": 2}.items():
            patch.setattr(fuse_split, name, value)
        module = on_gpu(
            capture(lambda x: torch.var_mean(x, dims), x).module,
            "aten,prims,loop," + passes.replace("rows=512", "rows=2"),
        )
    compare(Program(module, [x]).results, torch.var_mean(x, dims), scale=10)


def test_one_pass_over_long_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest value and the sum of exponentials in one loop, with infinities and NaN where eager has them."""
    inf, n = float("inf"), 40000
    rows = [torch.full((n,), -inf), normal(n) * 50, normal(n).where(torch.arange(n) > 39000, -inf)]
    rows += [normal(n).where(torch.arange(n) != 9000, inf), normal(n).where(torch.arange(n) != 9000, torch.nan)]
    monkeypatch.setattr(fuse_split, "LEAST", 1 << 40)
    module = check(lambda x: x.log_softmax(-1), torch.stack(rows))
    assert next(len(o.results) for o in module.walk() if o.name == "scf.for") == 2


WINDOWS: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...], bool]] = {
    "max": (lambda x: F.max_pool2d(F.relu(x), 3, 2, 1), (2, 3, 16, 20), True),
    "mean": (lambda x: F.avg_pool2d(x, 3, 2, 1), (2, 3, 16, 20), False),
    "ceiling": (lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), (2, 3, 15, 18), True),
    "least": (lambda x: -F.max_pool2d(-x, 5, 2, 2), (2, 3, 16, 20), True),
    "a step of one": (lambda x: F.max_pool2d(x, 3, 1, 1) + x, (1, 2, 12, 30), True),
    "one row": (lambda x: F.max_pool1d(x, 3, 2, 1), (2, 3, 64), False),
    "a prime number of rows": (lambda x: F.max_pool2d(x, 3, 2, 1), (2, 3, 13, 20), True),
    "more rows than eight": (lambda x: F.max_pool2d(x, 3, 2, 1), (2, 3, 22, 20), False),
    "apart": (lambda x: F.max_pool2d(x, 2), (2, 3, 16, 20), False),
}
"""Windows, what they are of, and whether rows share what they read."""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", WINDOWS)
def test_rows_of_windows(name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are written out are the same; what they share is loaded once."""
    program, shape, shared = WINDOWS[name]
    x = normal(*shape).to(dtype)
    x[..., 3] = torch.nan

    def stores() -> int:
        module = on_gpu(capture(program, x).module, f"aten,prims,loop,{FROM_LOOP}")
        (found,) = Program(module, [x]).results
        torch.testing.assert_close(found, program(x), equal_nan=True)
        return sum(isinstance(o, tt.StoreOp) for o in module.walk())

    alone = stores()
    monkeypatch.setattr(tile_rows, "LEAST", 0)
    assert (stores() > alone) == shared


def _norm_backward(g: Tensor, x: Tensor, mean: Tensor, rstd: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    """Of a layer norm, with the gradient of the bias of a layer before it."""
    n = [x.shape[-1]]
    dx, dw, db = torch.ops.aten.native_layer_norm_backward(g.float(), x, n, mean, rstd, w, w, [True, True, True])
    return dx.to(g.dtype), dw, db, dx.sum((0, 1))


@pytest.mark.parametrize("turn", [1, 64, 2048])
@pytest.mark.parametrize("shape", [(3, 11, 20), (5, 6, 32), (1, 40, 9), (2, 7, 2500), (37, 1, 16)])
def test_rows_in_turn(shape: tuple[int, int, int], turn: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of columns are carried from row to row: of one row or of several in a turn, of tiles that are written out,
    of a last strip and a last turn that are short. Nothing is added up in memory.
    """
    monkeypatch.setattr(fuse_split, "LEAST", 4)
    monkeypatch.setattr(fuse_strips, "LEAST", 3)
    monkeypatch.setattr(tile_choice, "TURN", turn)
    passes = re.sub(r"threads=\d+ rows=\d+ strips=\d+", "threads=4 rows=512 strips=6", FROM_LOOP)
    x, g = normal(*shape), normal(*shape).bfloat16()
    var, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
    inputs = [g, x, mean, (var + 1e-5).rsqrt(), normal(shape[-1])]
    module = on_gpu(capture(_norm_backward, *inputs).module, f"aten,prims,loop,{passes}")
    compare(Program(module, inputs).results, _norm_backward(*inputs), scale=20)
    assert not [o for o in module.walk() if o.name == "tt.atomic_rmw"]
    assert any(o.name == "scf.for" and len(o.results) >= 3 for o in module.walk())


FEW_PLACES: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "embedding": (
        lambda g, i: torch.ops.aten.embedding_dense_backward(g, i, 5, 2, False),
        (normal(30, 40, 7), below(5, 30, 40)),
    ),
    "index_add": (lambda x, i, v: x.index_add(1, i, v), (normal(6, 3, 4), below(3, 700), normal(6, 700, 4))),
    "index_put": (
        lambda x, i, v: x.index_put((i,), v, accumulate=True),
        (below(9, 4, 5), below(8, 300) - 4, below(9, 300, 5)),
    ),
    "scatter_add": (lambda x, i, v: x.scatter_add(0, i, v), (normal(2, 6), below(2, 500, 6), normal(500, 6))),
}


@pytest.mark.parametrize("name", FEW_PLACES)
def test_few_places(name: str) -> None:
    """Where many updates meet, they are summed up, and nothing waits for anything."""
    f, inputs = FEW_PLACES[name]
    module = check(f, *inputs, scale=30)
    assert not [o for o in module.walk() if o.name == "tt.atomic_rmw"]
