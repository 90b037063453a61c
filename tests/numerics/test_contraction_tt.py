"""Contractions at tiles compute products of matrices: kernels as text through loop-tile and kernel-to-tt, in the tt
interpreter, with masks at every edge, operands in any order in memory, and code fused before and after the product.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from lamella.codegen.interpret_tt import launch
from lamella.dialects import tt
from lamella.dialects.text import parse_module
from lamella.dialects.verify import verify_op
from lamella.driver import run_passes

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64, "i8": torch.int8}
SUMS = {"bf16": "f32", "f16": "f32", "f32": "f32", "f64": "f64", "i8": "i32"}


@dataclass
class Case:
    """[batch] m x k times k x n; `a`, `b` name the order of dims in memory."""

    m: int = 20
    n: int = 36
    k: int = 50
    batch: int = 0
    dtype: str = "f32"
    a: str = "mk"
    b: str = "nk"
    before: str = ""
    after: str = ""
    symbolic: bool = False
    tiles: str = ""
    loop_tiles: str = ""
    descriptors: bool = False

    def text(self) -> str:
        t, s = self.dtype, SUMS[self.dtype]
        sizes = {"m": "s0", "n": "s1", "k": "s2"} if self.symbolic else {c: str(getattr(self, c)) for c in "mnk"}
        lead, first = ([f"{self.batch}"], "d0, ") if self.batch else ([], "")
        rows, columns = ("d1", "d2") if self.batch else ("d0", "d1")
        dims = {"m": rows, "n": columns, "k": "r0"}

        def tensor(shape: list[str]) -> str:
            return f"!sym.t<[{', '.join([*lead, *shape])}], {t}, device=cuda:0>"

        ta, tb = (tensor([sizes[c] for c in order]) for order in (self.a, self.b))
        ty = tensor([sizes["m"], sizes["n"]])
        grid = ", ".join([*([f"d0 = {self.batch}"] * bool(self.batch)), f"{rows} = {sizes['m']}",
                          f"{columns} = {sizes['n']}"])  # fmt: skip
        attributes = f" attributes {{tile = {{{self.tiles}}}, group = 2 : i64}}" if self.tiles else ""
        inner = (
            f' attributes {{tile = {{{self.loop_tiles}}}, dot = "ieee"{", descriptors" * self.descriptors}}}'
            if self.tiles
            else ""
        )
        extend = "extsi" if t == "i8" else "extf"
        wide = "" if t == s else f"%x1 = arith.{extend} %x : {t} to {s}\n%z1 = arith.{extend} %z : {t} to {s}\n"
        x, z = ("%x", "%z") if t == s else ("%x1", "%z1")
        kind = "i" if t == "i8" else "f"
        names = "[s0, s1, s2]" if self.symbolic else "[]"
        return f"""builtin.module {{
  loop.kernel @product(%a: {ta}, %b: {tb}) outs(%y: {ty if t != "i8" else ty.replace("i8", "i32")}) sizes {names} grid [{grid}]{attributes} {{
    %0 = loop.for [r0 = {sizes["k"]}] reduce [add]{inner} {{
      %x0 = loop.load %a[{first}{", ".join(dims[c] for c in self.a)}] : {ta}
      %z = loop.load %b[{first}{", ".join(dims[c] for c in self.b)}] : {tb}
      {self.before or f"%x = arith.add{kind} %x0, %x0 : {t}"}
      {wide}%p = arith.mul{kind} {x}, {z} : {s}
      loop.yield %p : {s}
    }} : {s}
    {self.after}
    {"" if t in (s, "i8") else f"%1 = arith.truncf %0 : {s} to {t}"}
    loop.store {"%0" if t in (s, "i8") else "%1"}, %y[{first}{rows}, {columns}] : {ty if t != "i8" else ty.replace("i8", "i32")}
    loop.end
  }}
}}"""

    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        generator = torch.Generator().manual_seed(self.m)
        lead = [self.batch] if self.batch else []

        def make(order: str) -> Tensor:
            shape = [*lead, *(getattr(self, c) for c in order)]
            if self.dtype == "i8":
                return torch.randint(-60, 60, shape, generator=generator, dtype=torch.int8)
            return torch.randn(shape, generator=generator).to(DTYPES[self.dtype])

        y = torch.empty([*lead, self.m, self.n], dtype=torch.int32 if self.dtype == "i8" else DTYPES[self.dtype])
        return make(self.a), make(self.b), y


def run(case: Case, options: str = "") -> tuple[Tensor, Tensor, tt.FuncOp]:
    """The kernel's result, that of torch in float64, and the function."""
    module = parse_module(case.text())
    run_passes(module, "kernel-to-tt" if case.tiles else f"loop-tile{options},kernel-to-tt")
    functions = [o for o in module.ops if isinstance(o, tt.FuncOp)]
    for op in module.walk():
        verify_op(op)
    function = functions[0]
    assert any(isinstance(o, tt.DotOp) for o in function.walk())
    a, b, y = case.tensors()
    sizes = [case.m, case.n, case.k] if case.symbolic else []
    launch(function, [a, b, y], sizes)
    for other in functions[1:]:
        other.attributes["lamella.grid"] = function.attributes["lamella.grid"]
        again = torch.empty_like(y)
        launch(other, [a, b, again], sizes)
        assert not any(isinstance(o, tt.DescriptorLoadOp) for o in other.walk())
        assert torch.allclose(again.double(), y.double(), rtol=1e-2, atol=1e-2)
    x = (a if case.a == "mk" else a.mT).double()
    z = (b if case.b == "kn" else b.mT).double()
    return y, 2 * x @ z, function


def check(case: Case, options: str = "") -> tt.FuncOp:
    y, wanted, function = run(case, options)
    scale = wanted.abs().max() if wanted.numel() else 1
    limit = {"f32": 1e-6, "f64": 1e-14, "bf16": 4e-3, "f16": 5e-4, "i8": 0}[case.dtype]
    assert not y.isnan().any() and ((y.double() - wanted).abs() <= limit * scale).all()
    return function


TILES = "d0 = 16 : i64, d1 = 16 : i64"


@pytest.mark.parametrize("sizes", [(16, 16, 16), (20, 36, 50), (1, 33, 17), (40, 5, 16), (3, 3, 3), (33, 100, 64)])
@pytest.mark.parametrize("order", ["mk nk", "mk kn", "km nk", "km kn"])
def test_masks_are_right_at_every_edge(sizes: tuple[int, int, int], order: str) -> None:
    a, b = order.split()
    check(Case(*sizes, a=a, b=b, tiles=TILES, loop_tiles="r0 = 16 : i64"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_of_factors_has_a_dot(dtype: str) -> None:
    before = "%x = arith.addi %x0, %x0 : i8" if dtype == "i8" else ""
    function = check(Case(dtype=dtype, before=before))
    (dot,) = [o for o in function.walk() if isinstance(o, tt.DotOp)]
    assert str(tt.element_of(dot.a.type)) == dtype


def test_sizes_are_known_at_a_call_only() -> None:
    function = check(Case(37, 50, 70, symbolic=True, tiles=TILES, loop_tiles="r0 = 32 : i64"))
    assert str(tt.element_of(function.function_type.inputs.data[-1])) == "i32"
    check(Case(130, 50, 70, symbolic=True))
    y, _, _ = run(Case(5, 4, 0, symbolic=True))
    assert (y == 0).all()


def test_a_batch_is_a_dim_of_the_grid() -> None:
    check(Case(20, 36, 50, batch=3, tiles="d1 = 16 : i64, d2 = 16 : i64", loop_tiles="r0 = 16 : i64"))
    check(Case(20, 36, 50, batch=3, dtype="bf16"))


def test_what_is_not_zero_for_nothing_is_masked() -> None:
    """1 / x of lanes beyond the end is infinite, and infinity times the zeros of the other factor is NaN."""
    before = "%one = arith.constant 2.0 : f32\n%q = arith.divf %one, %x0 : f32\n%one1 = arith.divf %one, %q : f32\n"
    check(Case(20, 36, 50, before=before + "%x = arith.addf %one1, %one1 : f32", tiles=TILES,
               loop_tiles="r0 = 32 : i64"))  # fmt: skip


@pytest.mark.parametrize("sizes", [(20, 36, 50), (300, 200, 130), (2, 300, 256), (300, 1, 64)])
def test_tiles_of_every_size_are_right(sizes: tuple[int, int, int]) -> None:
    for candidate in range(0, 8, 3):
        check(Case(*sizes, dtype="bf16"), f"{{candidate={candidate}}}") if min(sizes) > 1 else None


@pytest.mark.parametrize("order", ["mk nk", "mk kn", "km nk", "km kn"])
def test_descriptors_read_matrices_in_any_order(order: str) -> None:
    a, b = order.split()
    plain = "%x = arith.addf %z, %z : bf16\n"
    for sizes in ((24, 40, 72), (16, 16, 32)):
        case = Case(*sizes, dtype="bf16", a=a, b=b, tiles=TILES, loop_tiles="r0 = 32 : i64", descriptors=True)
        function = check(case)
        assert sum(isinstance(o, tt.DescriptorLoadOp) for o in function.walk()) == 1
        turned = replace(case, before=plain.replace("%z, %z", "%x0, %x0"), batch=3, tiles=TILES.replace("1 = ", "2 = ")
                         .replace("d0", "d1"))  # fmt: skip
        check(turned)
    unaligned = check(Case(24, 40, 71, dtype="bf16", tiles=TILES, loop_tiles="r0 = 32 : i64", descriptors=True))
    assert not any(isinstance(o, tt.DescriptorLoadOp) for o in unaligned.walk())


def test_tf32_is_for_products_alone() -> None:
    case: Any = Case(20, 36, 50)
    text = case.text()
    for ops, wanted in (('"aten.mm"', "bf16x3"), ('"aten.mul.Tensor", "aten.sum"', "ieee")):
        module = parse_module(text.replace("d1 = 36] {", f"d1 = 36] attributes {{ops = [{ops}]}} {{"))
        run_passes(module, "loop-tile{tf32=true}")
        (loop,) = [o for o in module.walk() if o.name == "loop.for"]
        assert loop.attributes["dot"].data == wanted  # pyright: ignore


@pytest.mark.parametrize(("tf32", "bits", "limit"), [("false", 3, 1e-6), ("true", 2, 1e-4)])
@pytest.mark.parametrize("turned", [False, True])
def test_a_weight_of_bytes(turned: bool, tf32: str, bits: int, limit: float) -> None:
    """A factor of f32 is as many bf16 as tell it; what is infinite or NaN stays so."""
    m, n, k = 20, 36, 50
    loads = ["%1 = loop.load %x[d0, r0]", "%2 = loop.load %w[d1, r0]"]
    text = f"""builtin.module {{
  loop.kernel @product(%x: !sym.t<[{m}, {k}], f32, device=cuda:0>, %w: !sym.t<[{n}, {k}], i8, device=cuda:0>) outs(%y: !sym.t<[{m}, {n}], f32, device=cuda:0>) sizes [] grid [{"d1 = 36, d0 = 20" if turned else "d0 = 20, d1 = 36"}] attributes {{ops = ["aten.mm"]}} {{
    %0 = loop.for [r0 = {k}] reduce [add] {{
      {loads[0]} : !sym.t<[{m}, {k}], f32, device=cuda:0>
      {loads[1]} : !sym.t<[{n}, {k}], i8, device=cuda:0>
      %3 = arith.sitofp %2 : i8 to f32
      %4 = arith.mulf {"%3, %1" if turned else "%1, %3"} : f32
      loop.yield %4 : f32
    }} : f32
    loop.store %0, %y[d0, d1] : !sym.t<[{m}, {n}], f32, device=cuda:0>
    loop.end
  }}
}}"""
    module = parse_module(text)
    run_passes(module, f"loop-tile{{tf32={tf32}}},kernel-to-tt")
    (function,) = [o for o in module.ops if isinstance(o, tt.FuncOp)]
    assert sum(isinstance(o, tt.DotOp) for o in function.walk()) == bits
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(m, k, generator=generator) * torch.logspace(-20, 20, m)[:, None]
    w = torch.randint(-128, 128, (n, k), generator=generator, dtype=torch.int8)
    x[3, 5], x[4, 6], x[5, 7] = torch.inf, -torch.inf, torch.nan
    y = torch.empty(m, n)
    launch(function, [x, w, y], [])
    exact = x.double() @ w.double().T
    assert torch.equal(y.isnan(), exact.isnan()) and torch.equal(y.isinf(), exact.isinf())
    rows = exact.isfinite().all(1)
    assert bool(((y.double() - exact)[rows].norm(dim=1) <= limit * exact[rows].norm(dim=1)).all())
