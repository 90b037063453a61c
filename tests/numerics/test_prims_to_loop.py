"""prims-to-loop keeps the answer: programs at the prims level and their nests, both interpreted, give the same bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from xdsl.dialects import func
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr, UnknownLoc
from xdsl.ir import Block, Operation, Region, SSAValue

from lamella.codegen.interpreter import run_module
from lamella.dialects import expr, prims
from lamella.dialects.context import make_context
from lamella.dialects.expr import Dim
from lamella.dialects.tensor import TORCH_DTYPES, TensorType
from lamella.dialects.text import parse_module, print_module
from lamella.dialects.verify import verify
from lamella.lowering.prims_to_loop import PrimsToLoop
from lamella.lowering.prims_to_loop_scalar import SCALAR

SIZES = {"s0": 3, "s1": 4}
S0, S1 = expr.symbol("s0"), expr.symbol("s1")
HERE = FileLineColLoc(StringAttr("model.py"), IntAttr(1), IntAttr(1))


def torch_dtype(name: str) -> torch.dtype:
    return getattr(torch, TORCH_DTYPES[name])


class Program:
    """A function at the prims level under construction, with inputs of small integers."""

    def __init__(self) -> None:
        self.inputs: list[Tensor] = []
        self.block = Block()
        self.values: list[SSAValue] = []
        self.generator = torch.Generator().manual_seed(0)

    def argument(self, shape: Sequence[Dim], dtype: str, data: Tensor | None = None) -> SSAValue:
        if data is None:
            sizes = [expr.evaluate(d, SIZES) for d in shape]
            data = torch.randint(-3, 9, sizes, generator=self.generator).abs().to(torch_dtype(dtype))
        self.inputs.append(data)
        v = self.block.insert_arg(TensorType.get(shape, dtype), len(self.block.args))
        self.values.append(v)
        return v

    def add(self, op: Operation) -> SSAValue:
        op.location = HERE
        self.block.add_op(op)
        self.values.append(op.results[0])
        return op.results[0]

    def module(self, results: Sequence[SSAValue]) -> ModuleOp:
        # symbols are bound by arguments of these sizes
        self.argument([S0], "i1")
        self.argument([S1], "i1")
        end = func.ReturnOp(*results)
        end.location = HERE
        self.block.add_op(end)
        types = ([a.type for a in self.block.args], [r.type for r in results])
        function = func.FuncOp("main", types, Region(self.block))
        module = ModuleOp([function])
        verify(module)
        return module


def check(program: Program, results: Sequence[SSAValue], tolerance: float | None = None) -> None:
    """Run both levels and compare; the lowered module verifies, round-trips, and has a location on every op."""
    module = program.module(results)
    wanted = run_module(module, [x.clone() for x in program.inputs])
    before = print_module(module)
    PrimsToLoop().apply(make_context(), module)
    verify(module)
    text = print_module(module)
    assert "prims." not in text
    assert print_module(parse_module(text)) == text
    (function,) = module.body.block.ops
    assert not [op.name for op in function.body.walk() if isinstance(op.location, UnknownLoc)]
    got = run_module(module, [x.clone() for x in program.inputs])
    for k, (g, w) in enumerate(zip(got, wanted, strict=True)):
        assert g.dtype == w.dtype and g.shape == w.shape
        if tolerance is None:
            same = (g == w) | ((g != g) & (w != w))
            assert bool(same.all()), f"result {k}: {g} is not {w}\n{before}\n{text}"
        else:
            torch.testing.assert_close(g, w, rtol=tolerance, atol=tolerance, equal_nan=True)


# Every scalar op in every dtype

FLOATS = ["f32", "f64", "bf16", "f16"]
INTEGERS = ["i8", "i16", "i32", "i64", "u8"]
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, 3.5, 100.0, -7.25, 1e-3, float("inf"), -float("inf"), float("nan")]


def edges(dtype: str, shift: int) -> Tensor:
    """Values that matter for a dtype, in an order that `shift` changes."""
    if dtype == "i1":
        values = torch.tensor([False, True] * 7)
    elif dtype in FLOATS:
        values = torch.tensor(EDGES, dtype=torch_dtype(dtype))
    else:
        info = torch.iinfo(torch_dtype(dtype))
        values = torch.tensor([0, 1, 2, 3, 5, 7, 63, 127, info.max, info.min, info.max - 1, 8, 6, 4]).to(
            torch_dtype(dtype)
        )
    return values.roll(shift)


def defined(op: type[prims.PrimsOp], dtype: str) -> bool:
    row = SCALAR[op]
    if op in (prims.PhiloxOp, prims.Philox32Op):
        return dtype == "i64"
    return bool((row.floats, row.bools, row.unsigned, row.signed)[
        0 if dtype in FLOATS else 1 if dtype == "i1" else 2 if dtype[0] == "u" else 3
    ])  # fmt: skip


POLYNOMIALS = (prims.HermiteHOp, prims.HermiteHeOp, prims.LaguerreOp, prims.LegendreOp)
WITHOUT_HALVES = (prims.NextafterOp, *POLYNOMIALS)
"""What eager does not have for f16 and bf16."""

UNDEFINED_FOR_ZERO = (prims.DivTruncOp, prims.DivFloorOp, prims.RemOp)
CASES = [
    pytest.param(op, dtype, id=f"{op.name}-{dtype}")
    for op in SCALAR
    for dtype in [*FLOATS, *INTEGERS, "i1"]
    if defined(op, dtype)
]


def arity(op: type[prims.PrimsOp]) -> int:
    """How many operands of one dtype an op has."""
    return 3 if op is prims.FmaOp else 2 if issubclass(op, prims.BinaryOp) else 1


@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_scalar_ops(op: Any, dtype: str) -> None:
    if op in WITHOUT_HALVES and dtype in ("bf16", "f16"):
        pytest.skip("eager has none of halves")
    program = Program()
    values = [edges(dtype, 3 * k) for k in range(arity(op))]
    if op in UNDEFINED_FOR_ZERO and dtype not in FLOATS:
        values[1] = torch.where((values[1] == 0) | (values[1] == -1), 3, values[1]).to(values[1].dtype)
    args = [program.argument([14], dtype, v) for v in values]
    if op is prims.SelectOp:
        args = [program.argument([14], "i1", edges("i1", 0)), *args, program.argument([14], dtype, edges(dtype, 5))]
    check(program, [program.add(op.make(*args))])


CONVERTIBLE = [*FLOATS, *INTEGERS, "i1", "u16", "u32"]


@pytest.mark.parametrize("source", CONVERTIBLE)
@pytest.mark.parametrize("target", CONVERTIBLE)
def test_convert(source: str, target: str) -> None:
    values = edges(source, 0)
    if source in FLOATS and target not in FLOATS and target != "i1":  # out of range is undefined
        values = torch.tensor([0.0, -0.0, 1.0, 2.5, 3.5, 100.0, 1e-3, 7.0], dtype=torch_dtype(source))
    program = Program()
    x = program.argument([len(values)], source, values)
    check(program, [program.add(prims.ConvertOp.make(x, TensorType.get([len(values)], target)))])


@pytest.mark.parametrize(("source", "target"), [("f32", "i32"), ("i16", "bf16"), ("u8", "i8"), ("f64", "u64")])
def test_bitcast(source: str, target: str) -> None:
    program = Program()
    x = program.argument([14], source, edges(source, 0))
    check(program, [program.add(prims.BitcastOp.make(x, TensorType.get([14], target)))])


@pytest.mark.parametrize("kind", prims.REDUCTIONS)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "i32", "u8", "i1"])
@pytest.mark.parametrize("dims", [[0], [0, 2], [1], []])
def test_reduce(kind: str, dtype: str, dims: list[int]) -> None:
    if (kind in ("any", "all")) != (dtype == "i1") and not (dtype == "i1" and kind in ("max", "min", "argmax")):
        pytest.skip("not defined")
    if kind == "xor" and dtype in ("f32", "bf16"):
        pytest.skip("not defined")
    program = Program()
    shape: list[Dim] = [S0, 2, S1]
    x = program.argument(shape, dtype)
    result = [n for k, n in enumerate(shape) if k not in dims]
    out = TensorType.get(result, "i64" if kind.startswith("arg") else dtype)
    check(program, [program.add(prims.ReduceOp.make(x, kind, dims, out))], 1e-2 if dtype == "bf16" else None)


@pytest.mark.parametrize("kind", ["max", "min", "argmax", "argmin"])
def test_reduce_of_nan(kind: str) -> None:
    program = Program()
    data = torch.tensor([[1.0, float("nan"), 3.0, float("nan")], [2.0, 2.0, -1.0, -1.0]])
    x = program.argument([2, 4], "f32", data)
    out = TensorType.get([2], "i64" if kind.startswith("arg") else "f32")
    check(program, [program.add(prims.ReduceOp.make(x, kind, [1], out))])


@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min", "any", "all"])
def test_reduce_of_nothing(kind: str) -> None:
    program = Program()
    dtype = "i1" if kind in ("any", "all") else "f32"
    x = program.argument([2, 0], dtype, torch.empty(2, 0, dtype=torch_dtype(dtype)))
    check(program, [program.add(prims.ReduceOp.make(x, kind, [1], TensorType.get([2], dtype)))])


@pytest.mark.parametrize("dims", [[1], [0, 2], []])
def test_var_mean(dims: list[int]) -> None:
    program = Program()
    shape: list[Dim] = [S0, 5, S1]
    x = program.argument(shape, "f32", torch.randn(3, 5, 4) * 3 + 1)
    t = TensorType.get([n for k, n in enumerate(shape) if k not in dims], "f32")
    op = prims.VarMeanOp.make(x, dims, t)
    program.add(op)
    check(program, list(op.results), 1e-5)


def test_var_mean_of_nothing() -> None:
    program = Program()
    op = prims.VarMeanOp.make(program.argument([2, 0], "f32", torch.empty(2, 0)), [1], TensorType.get([2], "f32"))
    program.add(op)
    check(program, list(op.results))


@pytest.mark.parametrize("kind", prims.SCANS)
@pytest.mark.parametrize("dtype", ["f32", "i64", "u8", "i1"])
def test_scan(kind: str, dtype: str) -> None:
    if (dtype == "i1" and kind in ("sum", "prod", "logsumexp")) or (dtype != "f32" and kind == "logsumexp"):
        pytest.skip("not defined")
    program = Program()
    x = program.argument([S0, S1], dtype)
    check(program, [program.add(prims.ScanOp.make(x, kind, 1))], 1e-6 if dtype == "f32" else None)


@pytest.mark.parametrize("combine", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", ["f32", "i64", "u8", "i1"])
def test_scatter(combine: str, dtype: str) -> None:
    if dtype == "i1" and combine in ("add", "mul"):
        pytest.skip("not defined")
    program = Program()
    x = program.argument([S0, 5], dtype)
    i = program.argument([4, 5], "i64", torch.randint(0, 3, (4, 5), generator=program.generator))
    v = program.argument([4, 5], dtype)
    op = prims.ScatterOp.make(x, [i], v, [expr.symbol("i0"), expr.symbol("d1")], combine, "out of range")
    check(program, [program.add(op)])


@pytest.mark.parametrize("bad", [-1, 7])
def test_index_errors(bad: int) -> None:
    program = Program()
    w = program.argument([7, 2], "f32")
    i = program.argument([3, 2], "i64", torch.tensor([[0, 1], [6, bad], [2, 3]]))
    t = TensorType.get([3, 2], "f32")
    g = program.add(prims.GatherOp.make(w, [i], [expr.symbol("i0"), expr.symbol("d1")], t, "index out of range"))
    module = program.module([g])
    PrimsToLoop().apply(make_context(), module)
    with pytest.raises(IndexError, match="index out of range"):
        run_module(module, program.inputs)


# Random programs


@st.composite
def programs(draw: st.DrawFn) -> tuple[Program, list[SSAValue]]:
    """A dozen ops on values of ranks 0 to 4, with static and symbolic sizes; integers, so that results are exact."""
    program = Program()
    dtype = draw(st.sampled_from(["i64", "i32", "f64"]))
    dims: list[Dim] = [S0, S1, 1, 2, 6]
    for _ in range(draw(st.integers(1, 3))):
        program.argument(draw(st.lists(st.sampled_from(dims), min_size=1, max_size=3)), dtype)
    for _ in range(draw(st.integers(2, 12))):
        _grow(draw, program)
    return program, [*program.values[-2:], draw(st.sampled_from(program.values))]


def _type(v: SSAValue) -> TensorType:
    assert isinstance(v.type, TensorType)
    return v.type


def _grow(draw: st.DrawFn, program: Program) -> None:
    """Append one op on a value drawn from those there are."""
    x = draw(st.sampled_from(program.values[-3:]))  # chains of views are what goes wrong
    t = _type(x)
    add, axes = program.add, list(range(t.rank))

    def of(shape: Sequence[Any]) -> TensorType:
        return TensorType.get(shape, t.dtype)

    def same_shape() -> SSAValue:
        return draw(st.sampled_from([v for v in program.values if v.type == t]))

    match draw(st.sampled_from("ubsnwrrrrttfgpcRSGICa")):
        case "u":
            add(prims.NegOp.make(x))
        case "b":
            op = draw(st.sampled_from([prims.AddOp, prims.SubOp, prims.MaximumOp, prims.MinimumOp]))
            add(op.make(x, same_shape()))
        case "s":
            c = add(prims.LtOp.make(x, same_shape()))
            program.values.remove(c)
            add(prims.SelectOp.make(c, x, same_shape()))
        case "n":
            add(prims.FullOp.make(prims.Scalar.get(draw(st.sampled_from([2, S0])) if t.dtype != "f64" else 2.0), t))
        case "w":
            size = draw(st.sampled_from([S1, 2]))
            position = draw(st.integers(0, t.rank))
            shape = [*t.shape[:position], size, *t.shape[position:]]
            add(prims.BroadcastOp.make(x, [k + (k >= position) for k in axes], of(shape)))
        case "r":
            add(prims.ReshapeOp.make(x, of(_reshaped(draw, t.shape))))
        case "t":
            perm = draw(st.permutations(axes))
            add(prims.TransposeOp.make(x, perm, of([t.shape[p] for p in perm])))
        case "f" if axes:
            add(prims.FlipOp.make(x, draw(st.lists(st.sampled_from(axes), unique=True)), t))
        case "g" if axes:
            k = draw(st.sampled_from(axes))
            n = expr.evaluate(t.shape[k], SIZES)
            if isinstance(t.shape[k], int) and n > 1:
                step = draw(st.sampled_from([1, 2]))
                start, stop, size = 1, n, -((1 - n) // step)
            else:
                step, start, stop, size = 1, 0, t.shape[k], t.shape[k]
            spec = [[0] * t.rank, list(t.shape), [1] * t.rank]
            spec[0][k], spec[1][k], spec[2][k] = start, stop, step
            add(prims.SliceOp.make(x, *spec, of([size if j == k else m for j, m in enumerate(t.shape)])))
        case "p" if axes:
            low = [draw(st.sampled_from([0, 0, 1, 2])) for _ in axes]
            high = [draw(st.sampled_from([0, 0, 1])) for _ in axes]
            if isinstance(t.shape[0], int) and t.shape[0] > 2:
                low[0] = draw(st.sampled_from([0, -1]))
            shape = [n + a + b for n, a, b in zip(t.shape, low, high, strict=True)]
            value = 5.0 if t.dtype == "f64" else 5
            add(prims.PadOp.make(x, low, high, value, of(shape)))
        case "c" if axes:
            k = draw(st.sampled_from(axes))
            others = [
                v for v in program.values
                if _type(v).dtype == t.dtype and _type(v).rank == t.rank
                and all(a == b for j, (a, b) in enumerate(zip(_type(v).shape, t.shape, strict=True)) if j != k)
            ]  # fmt: skip
            parts = [x, *draw(st.lists(st.sampled_from(others), min_size=1, max_size=2))]
            shape: list[Any] = list(t.shape)
            shape[k] = sum((_type(v).shape[k] for v in parts), start=0)
            add(prims.CatOp.make(parts, k, of(shape)))
        case "R" if axes:
            dims = sorted(draw(st.lists(st.sampled_from(axes), unique=True, min_size=1)))
            kind = draw(st.sampled_from(["sum", "max", "min"]))
            add(prims.ReduceOp.make(x, kind, dims, of([n for k, n in enumerate(t.shape) if k not in dims])))
        case "S" if axes:
            add(prims.ScanOp.make(x, draw(st.sampled_from(["sum", "max"])), draw(st.sampled_from(axes))))
        case "G" if axes:
            index = program.argument(
                t.shape, "i64", torch.zeros([expr.evaluate(n, SIZES) for n in t.shape], dtype=torch.int64)
            )
            program.values.remove(index)
            k = draw(st.sampled_from(axes))
            where: list[Any] = [expr.symbol(f"d{j}") for j in axes]
            where[k] = t.shape[k] - 1 - expr.symbol("i0") if draw(st.booleans()) else expr.symbol("i0")
            add(prims.GatherOp.make(x, [index], where, t, "out of range"))
        case "I" if axes:
            add(prims.IotaOp.make(draw(st.sampled_from(axes)), t))
        case "C":
            add(prims.ConvertOp.make(x, t))
        case _:
            add(prims.AddOp.make(x, x))


def _reshaped(draw: st.DrawFn, shape: Sequence[Dim]) -> list[Any]:
    """Another shape of as many elements."""
    sizes: list[Any] = list(shape)
    match draw(st.sampled_from("mspf1")):
        case "m" if len(sizes) > 1:
            k = draw(st.integers(0, len(sizes) - 2))
            sizes[k : k + 2] = [sizes[k] * sizes[k + 1]]
        case "s":
            splittable = [k for k, n in enumerate(sizes) if isinstance(n, int) and n in (4, 6, 12)]
            if splittable:
                k = draw(st.sampled_from(splittable))
                sizes[k : k + 1] = [2, sizes[k] // 2]
        case "p":
            sizes = list(draw(st.permutations(sizes)))
        case "f":
            sizes = [expr.product(sizes)]
        case _:
            sizes.insert(draw(st.integers(0, len(sizes))), 1)
    return sizes


@settings(max_examples=200)
@given(programs())
def test_random_programs(drawn: tuple[Program, list[SSAValue]]) -> None:
    program, results = drawn
    check(program, results)


@pytest.mark.parametrize(
    ("dtype", "result"), [("f32", "f32"), ("bf16", "f32"), ("i8", "i32"), ("u8", "u8"), ("f64", "f64")]
)
@pytest.mark.parametrize("m", [S0, 1, 0])
@pytest.mark.parametrize("k", [S1, 1, 0])
@pytest.mark.parametrize("batch", [[], [2], [1, S0]])
def test_dot(dtype: str, result: str, m: Dim, k: Dim, batch: list[Dim]) -> None:
    program = Program()
    lhs, rhs = program.argument([*batch, m, k], dtype), program.argument([*batch, 5, k], dtype)
    rank = len(batch) + 2
    turned = TensorType.get([*batch, k, 5], dtype)
    right = program.add(prims.TransposeOp.make(rhs, [*range(rank - 2), rank - 1, rank - 2], turned))
    check(program, [program.add(prims.DotOp.make(lhs, right, TensorType.get([*batch, m, 5], result)))])
