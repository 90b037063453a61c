"""Random kernels do what their index expressions say, in whatever schedule."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lamella.dialects import expr
from lamella.tests.codegen import kernels

ROWS, COLUMNS = 5, 64


@st.composite
def indices(draw: st.DrawFn) -> str:
    """An expression over d0, d1 and s0, of any value."""
    terms = [
        f"{draw(st.integers(-3, 9))}*{draw(st.sampled_from(('d0', 'd1', 's0', '1')))}"
        for _ in range(draw(st.integers(1, 3)))
    ]
    e = " + ".join(terms)
    match draw(st.integers(0, 4)):
        case 0:
            return f"floordiv({e}, {draw(st.sampled_from((1, 3, 8, 16)))})"
        case 1:
            return f"mod(d1 + 16*d0, {draw(st.sampled_from((5, 8, 16, 32)))}) + {e}"
        case 2:
            return f"max(min({e}, 9), d0)"
        case _:
            return e


@st.composite
def schedules(draw: st.DrawFn) -> str:
    lanes = draw(st.sampled_from((1, 4, 8, 16)))
    dim = draw(st.sampled_from(("d0", "d1")))
    return kernels.vector(dim, lanes, draw(st.integers(1, 3)))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    row=indices(),
    column=indices(),
    relation=st.tuples(st.sampled_from(("lt", "le", "gt", "ge", "eq", "ne")), indices(), indices()),
    schedule=schedules(),
    s0=st.integers(1, 40),
    low=st.integers(0, 3),
    target=st.sampled_from(kernels.TARGETS),
)
def test_loads_at_any_index(
    row: str, column: str, relation: tuple[str, str, str], schedule: str, s0: int, low: int, target: str
) -> None:
    """y[d0, d1] = x[row, column] where the relation holds and the index is inside."""
    x_type, y_type = f"!sym.t<[{ROWS}, {COLUMNS}], f32>", "!sym.t<[4, s0], f32>"
    inside = f"le(0, {row}), lt({row}, {ROWS}), le(0, {column}), lt({column}, {COLUMNS})"
    mask = f"{inside}, {relation[0]}({relation[1]}, {relation[2]})"
    text = kernels.grid_kernel(
        f"%x: {x_type}",
        f"%y: {y_type}",
        f"""loop.for [d0 = {low} : 4, d1 = s0] {schedule} {{
          %0 = loop.load %x[{row}, {column}] mask [{mask}] other -1.0 : f32 : {x_type}
          loop.store %0, %y[d0, d1] : {y_type}
          loop.yield
        }}""",
        "s0",
    )
    x, y = torch.randn(ROWS, COLUMNS), torch.zeros(4, s0)
    assert kernels.run(text, [x, y], [s0], target) == 0
    r, c = expr.parse(row), expr.parse(column)
    holds = expr.parse(f"{relation[0]}({relation[1]}, {relation[2]})")
    for d0 in range(low, 4):
        for d1 in range(s0):
            at = {"d0": d0, "d1": d1, "s0": s0}
            i, j = expr.evaluate(r, at), expr.evaluate(c, at)
            on = 0 <= i < ROWS and 0 <= j < COLUMNS and expr.evaluate(holds, at)
            assert y[d0, d1] == (x[i, j] if on else -1.0)
    assert (y[:low] == 0).all()


KINDS = {"add": torch.sum, "max": torch.amax, "argmin": torch.argmin}


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    kind=st.sampled_from(tuple(KINDS)),
    outer=st.integers(1, 3),
    inner=st.one_of(st.integers(1, 70), st.none()),
    s0=st.integers(1, 300),
    lanes=st.sampled_from((1, 2, 8, 16)),
    unroll=st.integers(1, 4),
    dim=st.sampled_from(("r0", "r1")),
    target=st.sampled_from(kernels.TARGETS),
)
def test_reductions_of_any_shape(
    kind: str, outer: int, inner: int | None, s0: int, lanes: int, unroll: int, dim: str, target: str
) -> None:
    """Over two dims, either of them vectorized, of known and unknown sizes: integers make every order exact."""
    n = s0 if inner is None else inner
    size = "s0" if inner is None else str(inner)
    x_type, y_type = f"!sym.t<[{outer}, {size}], i32>", f"!sym.t<[], {'i64' if kind == 'argmin' else 'i32'}>"
    text = kernels.grid_kernel(
        f"%x: {x_type}",
        f"%y: {y_type}",
        f"""%r = loop.for [r0 = {outer}, r1 = {size}] reduce [{kind}] {kernels.vector(dim, lanes, unroll)} {{
          %0 = loop.load %x[r0, r1] : {x_type}
          loop.yield %0 : i32
        }} : {"i64" if kind == "argmin" else "i32"}
        loop.store %r, %y[] : {y_type}""",
        "s0",
    )
    x = torch.randint(-9, 9, (outer, n), dtype=torch.int32)
    y = torch.zeros((), dtype=torch.int64 if kind == "argmin" else torch.int32)
    assert kernels.run(text, [x, y], [s0], target) == 0
    assert y == KINDS[kind](x.flatten(), 0)
