"""Kernels that read and write where tensors of indices say."""

import pytest
import torch

from lamella.tests.codegen.kernels import DTYPES, TARGETS, close, grid_kernel, run, sample, vector

GATHER = """
loop.kernel @k(%w: !sym.t<[s0, 24], f32>, %i: !sym.t<[s1], i64>) outs(%y: !sym.t<[s1, 24], f32>)
    sizes [s0, s1] grid [d0 = s1] attributes {grain = 2 : i64} {
  %0 = loop.load %i[d0] : !sym.t<[s1], i64>
  %n = loop.index [s0]
  %zero = arith.constant 0 : i64
  %low = arith.cmpi sge, %0, %zero : i64
  loop.assert %low, "negative index"
  %high = arith.cmpi slt, %0, %n : i64
  loop.assert %high, "index out of range"
  loop.for [d1 = 24] VECTOR {
    %1 = loop.load %w[v0, d1](%0) : !sym.t<[s0, 24], f32>
    loop.store %1, %y[d0, d1] : !sym.t<[s1, 24], f32>
    loop.yield
  }
  loop.end
}"""


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("threads", [1, 2])
def test_embedding(threads: int, lanes: int) -> None:
    """Rows by index, bounds checked before they are read: a bad index gives the number of its message."""
    torch.set_num_threads(threads)
    text = GATHER.replace("VECTOR", vector("d1", lanes))
    w, i, y = torch.randn(50, 24), torch.randint(0, 50, (33,)), torch.zeros(33, 24)
    assert run(text, [w, i, y], [50, 33]) == 0
    assert torch.equal(y, w[i])
    for bad, code in ((-1, 1), (50, 2), (1 << 60, 2)):
        i[17] = bad
        assert run(text, [w, i, y], [50, 33]) == code


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("lanes", [1, 8, 16])
def test_gather_of_elements(lanes: int, target: str) -> None:
    """x[i[d1]] with the vector dim in the index tensor, checked lane by lane; a masked-out index is not followed."""
    text = grid_kernel(
        "%x: !sym.t<[s0], f32>, %i: !sym.t<[s1], i64>, %ok: !sym.t<[s1], i1>", "%y: !sym.t<[s1], f32>, %z: !sym.t<[s1], f32>",
        f"""loop.for [d1 = s1] {vector("d1", lanes, 2)} {{
          %0 = loop.load %i[d1] : !sym.t<[s1], i64>
          %o = loop.load %ok[d1] : !sym.t<[s1], i1>
          %1 = loop.load %x[v0](%0) if %o other 3.0 : f32 : !sym.t<[s0], f32>
          loop.store %1, %y[d1] : !sym.t<[s1], f32>
          loop.store %1, %z[d1] if %o : !sym.t<[s1], f32>
          %n = loop.index [s0]
          %high = arith.cmpi slt, %0, %n : i64
          %t = arith.constant true
          %off = arith.xori %o, %t : i1
          %fine = arith.ori %high, %off : i1
          loop.assert %fine, "out of range"
          loop.yield
        }}""",
        "s0, s1",
    )  # fmt: skip
    for n in (5, 53):
        x, i, ok = torch.randn(50), torch.randint(0, 50, (n,)), torch.rand(n) < 0.7
        i[~ok] = 1 << 40
        y, z = torch.zeros(n), torch.zeros(n)
        assert run(text, [x, i, ok, y, z], [50, n], target) == 0
        assert torch.equal(y, torch.where(ok, x[i.clamp(max=49)], 3.0))
        assert torch.equal(z, torch.where(ok, y, 0.0))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("dtype", ["f32", "i64", "bf16"])
def test_scatter_add(dtype: str, lanes: int, target: str) -> None:
    """Updates that meet on one element are all made, in order; along rows they are vectors."""
    t, n = f"!sym.t<[10, 24], {dtype}>", f"!sym.t<[40, 24], {dtype}>"
    rows = grid_kernel(
        f"%s: {n}, %i: !sym.t<[40], i64>", f"%y: {t}",
        f"""loop.for [d0 = 40] {{
          %0 = loop.load %i[d0] : !sym.t<[40], i64>
          loop.for [d1 = 24] {vector("d1", lanes)} {{
            %1 = loop.load %s[d0, d1] : {n}
            loop.store %1, %y[v0, d1](%0) combine add : {t}
            loop.yield
          }}
          loop.yield
        }}""",
    )  # fmt: skip
    s, i, y = sample(dtype, 40, 24), torch.randint(0, 10, (40,)), torch.zeros(10, 24, dtype=DTYPES[dtype])
    assert run(rows, [s, i, y], (), target) == 0
    expected = torch.zeros_like(y)
    for k in range(40):
        expected[i[k]] += s[k]
    assert torch.equal(y, expected)
    if dtype == "bf16":
        return
    one, many = f"!sym.t<[10], {dtype}>", f"!sym.t<[40], {dtype}>"
    for atomic in ("", " atomic"):
        elements = grid_kernel(
            f"%s: {many}, %i: !sym.t<[40], i64>", f"%y: {one}",
            f"""loop.for [d0 = 40] {vector("d0", lanes)} {{
              %0 = loop.load %i[d0] : !sym.t<[40], i64>
              %1 = loop.load %s[d0] : {many}
              loop.store %1, %y[v0](%0) combine add{atomic} : {one}
              loop.yield
            }}""",
        )  # fmt: skip
        y = torch.zeros(10, dtype=DTYPES[dtype])
        assert run(elements, [s[:, 0].contiguous(), i, y], (), target) == 0
        close(y, torch.zeros_like(y).index_add(0, i, s[:, 0]), 1e-5, 1e-5)


def test_errors_from_threads_are_the_same_every_time() -> None:
    """Two bad rows in the shares of two threads: the code does not depend on who comes first."""
    torch.set_num_threads(2)
    text = GATHER.replace("VECTOR", vector("d1", 16))
    w, i, y = torch.randn(50, 24), torch.zeros(64, dtype=torch.int64), torch.zeros(64, 24)
    i[3], i[60] = -1, 99
    assert {run(text, [w, i, y], [50, 64]) for _ in range(20)} == {2}
