"""Kernels that reduce and scan, compared with eager torch."""

import pytest
import torch

from lamella.tests.codegen.kernels import DTYPES, TARGETS, close, grid_kernel, row_reduction, run, sample, vector

FOLDS = {
    "add": lambda x: x.sum(1, dtype=x.dtype),
    "mul": lambda x: x.prod(1, dtype=x.dtype),
    "max": lambda x: x.amax(1),
    "min": lambda x: x.amin(1),
    "argmax": lambda x: x.argmax(1),
    "argmin": lambda x: x.argmin(1),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", FOLDS)
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "i64", "i32", "i8", "i1"])
def test_row_reductions(dtype: str, kind: str, target: str) -> None:
    """Every kind on every dtype it has, scalar and vector, static and symbolic lengths with remainders."""
    if dtype == "i1" and kind in ("add", "mul"):
        pytest.skip("sums of bools are sums of integers")
    for n in (1, 5, 16, 83):
        x = sample(dtype, 3, n)
        if kind == "mul":
            x = x % 3 + 1 if not x.is_floating_point() else (x.float() * 0.1 + 1).to(x.dtype)
        expected = FOLDS[kind](x.float() if dtype == "bf16" else x.int() if dtype == "i1" else x)
        for lanes, extent in ((1, "s1"), (8, "s1"), (8, "83"))[: 3 if n == 83 else 2]:
            y = torch.zeros(3, dtype=torch.int64 if kind.startswith("arg") else x.dtype)
            text = row_reduction(kind, dtype, extent, lanes, 2, "i64" if kind.startswith("arg") else None)
            assert run(text, [x, y], [3, n], target) == 0
            if x.is_floating_point() and kind in ("add", "mul"):
                close(y.double(), expected.double(), *((1e-2, 1e-2) if dtype == "bf16" else (1e-5, 1e-5)))
            else:
                assert torch.equal(y, expected.to(y.dtype)), (n, lanes, extent)


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("kind", ["max", "min", "argmax", "argmin", "add"])
def test_nan_and_ties(kind: str, lanes: int) -> None:
    """NaN wins wherever it stands, the first one for positions; the first of equal values wins; -inf rows have a position."""
    text = row_reduction(kind, "f32", "s1", lanes, 2, "i64" if kind.startswith("arg") else None)
    rows = []
    for at in ((), (0,), (3,), (49,), (20, 40), (41, 47)):
        row = torch.randn(50)
        row[list(at)] = float("nan")
        rows.append(row)
    rows += [torch.zeros(50), torch.full((50,), float("-inf")), torch.full((50,), float("inf"))]
    rows.append(torch.tensor([1.0, 2.0] * 25))
    x = torch.stack(rows)
    y = torch.zeros(len(rows), dtype=torch.int64 if kind.startswith("arg") else torch.float32)
    assert run(text, [x, y], [len(rows), 50]) == 0
    close(y, FOLDS[kind](x), 1e-5, 1e-5)


@pytest.mark.parametrize("lanes", [1, 16])
def test_empty_reductions(lanes: int) -> None:
    """A reduction of nothing gives its identity."""
    for kind, expected in (("add", 0.0), ("mul", 1.0), ("max", float("-inf")), ("min", float("inf"))):
        y = torch.zeros(2)
        assert run(row_reduction(kind, "f32", "s1", lanes, 2), [torch.empty(2, 0), y], [2, 0]) == 0
        assert (y == expected).all()


@pytest.mark.parametrize("lanes", [1, 8])
def test_and_or(lanes: int) -> None:
    """all and any."""
    for kind, eager in (("and", torch.all), ("or", torch.any)):
        x = torch.stack([torch.ones(37), torch.zeros(37), torch.arange(37) == 36, torch.arange(37) != 20]).bool()
        y = torch.zeros(4, dtype=torch.bool)
        assert run(row_reduction(kind, "i1", "s1", lanes, 2), [x, y], [4, 37]) == 0
        assert torch.equal(y, eager(x, 1))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("lanes", "unroll"), [(1, 1), (8, 1), (16, 4)])
def test_welford(lanes: int, unroll: int, target: str) -> None:
    """Mean and sum of squared deviations of values far from 0, as good as eager's; nothing but zeros of nothing."""
    x_type, y_type = "!sym.t<[s0, s1], f32>", "!sym.t<[s0], f32>"
    text = grid_kernel(
        f"%x: {x_type}", f"%m: {y_type}, %v: {y_type}",
        f"""%a, %b = loop.for [r0 = s1] reduce [welford] {vector("r0", lanes, unroll)} {{
          %0 = loop.load %x[d0, r0] : {x_type}
          loop.yield %0 : f32
        }} : f32, f32
        loop.store %a, %m[d0] : {y_type}
        loop.store %b, %v[d0] : {y_type}""",
        "s0, s1", "d0 = s0",
    )  # fmt: skip
    for n in (0, 1, 7, 64, 83, 1000):
        x = torch.randn(4, n) * 3 + 10
        mean, m2 = torch.ones(4), torch.ones(4)
        assert run(text, [x, mean, m2], [4, n], target) == 0
        exact = x.double()
        if n == 0:
            assert (mean == 0).all() and (m2 == 0).all()
            continue
        close(mean.double(), exact.mean(1), 5e-7)
        close(m2.double(), ((exact - exact.mean(1, keepdim=True)) ** 2).sum(1), 2e-6, 2e-6)


def _columns(n: int, kind: str) -> torch.Tensor:
    """[n, 37]: integers for sums, which are exact in any order then."""
    return torch.randint(-9, 10, (n, 37)).float() if kind == "add" else torch.randn(n, 37)


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("kind", ["add", "max", "argmax", "welford"])
def test_column_reductions(kind: str, lanes: int) -> None:
    """The vector dim outside of the reduction: every lane has its own."""
    x_type = "!sym.t<[s0, 37], f32>"
    y_type = f"!sym.t<[37], {'i64' if kind == 'argmax' else 'f32'}>"
    results = "%r, %s" if kind == "welford" else "%r"
    types = {"welford": "f32, f32", "argmax": "i64"}.get(kind, "f32")
    text = grid_kernel(
        f"%x: {x_type}", f"%y: {y_type}",
        f"""loop.for [d1 = 37] {vector("d1", lanes, 2)} {{
          {results} = loop.for [r0 = s0] reduce [{kind}] {{
            %0 = loop.load %x[r0, d1] : {x_type}
            loop.yield %0 : f32
          }} : {types}
          loop.store %r, %y[d1] : {y_type}
          loop.yield
        }}""",
        "s0",
    )  # fmt: skip
    eager = {
        "add": lambda x: x.sum(0),
        "max": lambda x: x.amax(0),
        "argmax": lambda x: x.argmax(0),
        "welford": lambda x: x.mean(0),
    }
    for n in (1, 30, 700):
        x, y = _columns(n, kind), torch.zeros(37, dtype=torch.int64 if kind == "argmax" else torch.float32)
        assert run(text, [x, y], [n]) == 0
        close(y, eager[kind](x), 1e-5, 1e-5)


@pytest.mark.parametrize("inner", [3, 40])
@pytest.mark.parametrize("kind", ["add", "argmax", "welford"])
def test_reductions_over_two_dims(kind: str, inner: int) -> None:
    """Several reduce dims, the inner one vectorized; positions count row-major over all of them."""
    x_type, y_type = f"!sym.t<[4, s0, {inner}], f32>", f"!sym.t<[4], {'i64' if kind == 'argmax' else 'f32'}>"
    results = "%r, %s" if kind == "welford" else "%r"
    types = {"welford": "f32, f32", "argmax": "i64"}.get(kind, "f32")
    text = grid_kernel(
        f"%x: {x_type}", f"%y: {y_type}",
        f"""{results} = loop.for [r0 = s0, r1 = {inner}] reduce [{kind}] {vector("r1", 8, 2)} {{
            %0 = loop.load %x[d0, r0, r1] : {x_type}
            loop.yield %0 : f32
          }} : {types}
          loop.store %r, %y[d0] : {y_type}""",
        "s0", "d0 = 4",
    )  # fmt: skip
    x, y = torch.randn(4, 31, inner), torch.zeros(4, dtype=torch.int64 if kind == "argmax" else torch.float32)
    assert run(text, [x, y], [31]) == 0
    flat = x.reshape(4, -1)
    close(y, {"add": flat.sum(1), "argmax": flat.argmax(1), "welford": flat.mean(1)}[kind], 1e-5, 1e-5)


@pytest.mark.parametrize("lanes", [1, 16])
def test_long_sums_are_as_exact_as_eager(lanes: int) -> None:
    """Sums of a million floats: over eight of them, the error is of the size of eager's, or of half a unit."""
    kernel, ours, eager, half = row_reduction("add", "f32", "s1", lanes, 4), 0.0, 0.0, 0.0
    for _ in range(8):
        x, y = torch.rand(1, 1 << 20), torch.zeros(1)
        assert run(kernel, [x, y], [1, x.numel()]) == 0
        exact = x.double().sum().item()
        ours += (y.item() - exact) ** 2
        eager += (x.sum().item() - exact) ** 2
        half += (2**-24 * exact) ** 2
    assert ours <= 4 * max(eager, half)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("n", [5, 48, 1000])
def test_softmax(n: int, target: str) -> None:
    """Three loops over a row with a scratch buffer between, rows spread over threads."""
    t, e = f"!sym.t<[s0, {n}], f32>", f"!sym.t<[{n}], f32>"
    v = vector("r", 16, 4)
    text = grid_kernel(
        f"%x: {t}", f"%y: {t}",
        f"""%e = loop.scratch : {e}
        %m = loop.for [r = {n}] reduce [max] {v} {{
          %0 = loop.load %x[d0, r] : {t}
          loop.yield %0 : f32
        }} : f32
        %s = loop.for [r = {n}] reduce [add] {v} {{
          %0 = loop.load %x[d0, r] : {t}
          %1 = arith.subf %0, %m : f32
          %2 = math.exp %1 : f32
          loop.store %2, %e[r] : {e}
          loop.yield %2 : f32
        }} : f32
        loop.for [r = {n}] {v} {{
          %0 = loop.load %e[r] : {e}
          %1 = arith.divf %0, %s : f32
          loop.store %1, %y[d0, r] : {t}
          loop.yield
        }}""",
        "s0", "d0 = s0", 2,
    )  # fmt: skip
    for rows in (1, 7):
        x, y = torch.randn(rows, n) * 5, torch.zeros(rows, n)
        for threads in (1, 2):
            torch.set_num_threads(threads)
            y.zero_()
            assert run(text, [x, y], [rows], target) == 0
            close(y, x.softmax(1))


SCANS = {
    "add": torch.cumsum, "mul": torch.cumprod, "max": lambda x, d: x.cummax(d).values,
    "min": lambda x, d: x.cummin(d).values, "logaddexp": torch.logcumsumexp,
}  # fmt: skip


@pytest.mark.parametrize("kind", SCANS)
@pytest.mark.parametrize("lanes", [1, 16])
def test_scans(kind: str, lanes: int) -> None:
    """Running values along rows and, with the other dim as vector, along columns."""
    torch.manual_seed(0)
    t = "!sym.t<[s0, 37], f32>"
    for dim, grid, dims in ((1, "d0 = s0", "d1 = 37"), (0, "", "d0 = s0, d1 = 37")):
        text = grid_kernel(
            f"%x: {t}", f"%y: {t}",
            f"""loop.for [{dims}] {vector("d1", lanes, 2)} {{
              %0 = loop.load %x[d0, d1] : {t}
              %1 = loop.scan {kind} %0 along d{dim} : f32
              loop.store %1, %y[d0, d1] : {t}
              loop.yield
            }}""",
            "s0", grid,
        )  # fmt: skip
        x = torch.randn(9, 37)
        x[4, 5] = float("nan")
        x[2, 3] = float("-inf")
        y = torch.zeros(9, 37)
        assert run(text, [x, y], [9]) == 0
        close(y, SCANS[kind](x, dim), 1e-5, 1e-5)
        x = torch.tensor([0.0, -0.0])[torch.randint(2, (9, 37))]
        assert run(text, [x, y], [9]) == 0
        if kind in ("max", "min"):
            assert torch.equal(y.signbit(), SCANS[kind](x, dim).signbit()), "of equals the last stands"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64", "i32", "i64"])
def test_running_sums_of_long_rows(dtype: str, target: str) -> None:
    """Along the lanes, with whole vectors, what is left and nothing at all; floats round once, as eager's do."""
    t = f"!sym.t<[s0, s1], {dtype}>"
    text = grid_kernel(
        f"%x: {t}", f"%y: {t}",
        f"""loop.for [d1 = s1] {vector("d1", 8, 2)} {{
          %0 = loop.load %x[d0, d1] : {t}
          %1 = loop.scan add %0 along d1 : {dtype}
          loop.store %1, %y[d0, d1] : {t}
          loop.yield
        }}""",
        "s0, s1", "d0 = s0",
    )  # fmt: skip
    for n in (0, 1, 8, 31, 1000):
        x, y = sample(dtype, 3, n), torch.zeros(3, n, dtype=DTYPES[dtype])
        assert run(text, [x, y], [3, n], target) == 0
        exact = x.double() if x.is_floating_point() else x
        close(y, exact.cumsum(1).to(x.dtype), 1e-7 if dtype == "f32" else 0.01 if dtype == "bf16" else 1e-12, 1e-12)
