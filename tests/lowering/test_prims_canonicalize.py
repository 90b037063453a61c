"""Random programs of prims: canonicalization keeps their results bit by bit, drops no location, and a second run
changes nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr, UnknownLoc
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from lamella.codegen.interpreter import run_module
from lamella.dialects import prims
from lamella.dialects.tensor import TensorType
from lamella.dialects.text import print_module
from lamella.dialects.verify import verify
from lamella.lowering.prims_builder import Builder, Value
from lamella.lowering.prims_canonicalize import PrimsCanonicalize

LOCATION = FileLineColLoc(StringAttr("model.py"), IntAttr(1), IntAttr(1))
DTYPES = ("f32", "bf16", "i64", "i1")


def _float(x: Value) -> Value:
    return x.to("f32")


def _integer(x: Value) -> Value:
    return x.to("i64")


def _slice(x: Value, n: int) -> Value:
    return x.slice(0, 0, x.shape[0]) if n % 2 else x.slice(x.rank - 1, 0, x.shape[-1], 1)


def _halves(x: Value, n: int) -> Value:
    size: Any = x.shape[0]
    return x.slice(0, 0, (size + 1) // 2, 2).slice(0, 0, 1).expand([size, *x.shape[1:]])


STEPS: dict[str, Callable[[Value, Value, int], Value]] = {
    "add_constant": lambda x, y, n: _float(x) + (0.0, -0.0, 1.0, 2.5)[n % 4],
    "mul_constant": lambda x, y, n: _float(x) * (1.0, 0.0, -1.0, 0.5)[n % 4],
    "sub": lambda x, y, n: _float(x) - _float(y),
    "integers": lambda x, y, n: _integer(x) * (n % 3) + _integer(y),
    "index": lambda x, y, n: x.b.iota(n % 2, x.type.with_(dtype="i64")) + n,
    "wrapped": lambda x, y, n: (_integer(x) < 0).where(_integer(x) + 7, _integer(x)),
    "compare": lambda x, y, n: _float(x) < (0.0 if n % 2 else _float(y)),
    "not": lambda x, y, n: ~~x.to("i1"),
    "and": lambda x, y, n: x.to("i1") & (y.to("i1") if n % 2 else x.to("i1")),
    "select": lambda x, y, n: x.to("i1").where(_float(y), _float(x)),
    "constant": lambda x, y, n: x.b.full(n, x.type.with_(dtype="f32")).expand(x.shape) * 2.0,
    "neg": lambda x, y, n: (-_float(x)).unary(prims.NegOp.make),
    "exp": lambda x, y, n: _float(x).maximum(-3.0).minimum(3.0).exp(),
    "halves": lambda x, y, n: _float(x).to("bf16", rounding=n % 2 == 0),
    "widened": lambda x, y, n: x.to("bf16").to("f32").to("bf16"),
    "copy": lambda x, y, n: x.copy(x.type),
    "transposed": lambda x, y, n: x.transpose([1, 0]).transpose([1, 0]),
    "square": lambda x, y, n: x.transpose([1, 0]),
    "flat": lambda x, y, n: x.reshape([16]).reshape([2, 8]).reshape([4, 4]),
    "unsqueezed": lambda x, y, n: x.unsqueeze(0).reshape([4, 4]),
    "row": lambda x, y, n: x.slice(0, n % 4, 1).expand([4, 4]),
    "sliced": lambda x, y, n: _slice(x, n),
    "sliced_twice": lambda x, y, n: _halves(x, n),
    "flipped": lambda x, y, n: x.flip([n % 2]),
    "padded": lambda x, y, n: x.pad([1, 0], [-1, 0], 0),
    "cat": lambda x, y, n: x.b.cat([x.slice(0, 0, n % 5), x.slice(0, n % 5, 4 - n % 5)], 0, x.type.with_(shape=[4, 4])),
    "reduced": lambda x, y, n: _float(x).slice(1, 0, 1).reduce("sum", [1], keepdim=True).expand([4, 4]),
    "summed": lambda x, y, n: _integer(x).reduce("sum", [n % 2], keepdim=True).expand([4, 4]),
    "gathered": lambda x, y, n: _gathered(x, n),
}


def _gathered(x: Value, n: int) -> Value:
    from lamella.dialects import expr

    index = x.b.iota(n % 2, TensorType.get([4, 4], "i64"))
    return x.gather([index], [expr.symbol("i0"), expr.symbol("d1")], x.type.with_(shape=[4, 4]), "out of bounds")


Program = list[tuple[str, int, int, int]]
PROGRAMS = st.lists(
    st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)),
    min_size=1,
    max_size=12,
)


def module_of(program: Program, returned: int) -> ModuleOp:
    """`@main` of two 4x4 arguments; the last `returned` values are its results."""
    types = [TensorType.get([4, 4], "f32"), TensorType.get([4, 4], "i64")]
    block = Block(arg_types=types)
    b = Builder()
    b.location = LOCATION
    values = [Value(b, a) for a in block.args]
    for name, first, second, n in program:
        values.append(STEPS[name](values[-1 - first % len(values)], values[-1 - second % len(values)], n))
    results = [v.ssa for v in values[-returned:]]
    block.add_ops([*b.ops, ReturnOp(*results)])
    main = FuncOp("main", ([a.type for a in block.args], [r.type for r in results]), Region(block))
    return ModuleOp([main])


def inputs() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 4, generator=generator)
    x[0, 0], x[1, 1], x[2, 2] = -0.0, torch.nan, torch.inf
    return [x, torch.randint(-9, 9, (4, 4), generator=generator)]


@settings(max_examples=150)
@given(PROGRAMS, st.integers(1, 3))
def test_results_stay(program: Program, returned: int) -> None:
    module = module_of(program, min(returned, len(program)))
    verify(module)
    expected = run_module(module, inputs())
    PrimsCanonicalize("eager").apply(Context(), module)
    verify(module)
    given_inputs = inputs()
    actual = run_module(module, given_inputs)
    for a, e in zip(actual, expected, strict=True):
        assert a.dtype == e.dtype
        torch.testing.assert_close(a, e, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(a.signbit(), e.signbit()) or bool(e.isnan().any())
    for op in module.walk():
        if isinstance(op, prims.PrimsOp):
            assert not isinstance(op.location, UnknownLoc), f"{op.name} lost its location"


@settings(max_examples=150)
@given(PROGRAMS, st.integers(1, 3))
def test_twice_is_once(program: Program, returned: int) -> None:
    module = module_of(program, min(returned, len(program)))
    PrimsCanonicalize().apply(Context(), module)
    once = print_module(module)
    again = copy.copy(module.clone())
    PrimsCanonicalize().apply(Context(), again)
    assert print_module(again) == once


@settings(max_examples=100)
@given(PROGRAMS, st.integers(2, 4))
def test_results_are_tensors_of_their_own(program: Program, returned: int) -> None:
    """Writing into a result changes no argument and no other result, unless it did before."""
    module = module_of(program, min(returned, len(program)))
    before = sharing(run_module(module, given := inputs()), given)
    PrimsCanonicalize().apply(Context(), module)
    after = sharing(run_module(module, given := inputs()), given)
    assert after <= before


def sharing(results: list[torch.Tensor], arguments: list[torch.Tensor]) -> set[tuple[int, int]]:
    """Pairs of results and arguments in one memory; arguments are numbered from 100."""
    numbered = [*enumerate(results), *((100 + i, a) for i, a in enumerate(arguments))]
    memory = {i: t.untyped_storage().data_ptr() for i, t in numbered if t.numel()}
    return {(i, j) for i in memory for j in memory if i < j and i < 100 and memory[i] == memory[j]}
