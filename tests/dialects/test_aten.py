"""The aten level: text of calls, exact literals, and one rejected example for each message."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects import func
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, NoneType, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.traits import Pure

from lamella.dialects import expr
from lamella.dialects.aten import AtenOp, lookup
from lamella.dialects.errors import LamellaSyntaxError, LamellaVerifyError
from lamella.dialects.literal import HOLE, Literal
from lamella.dialects.tensor import SymType, TensorType
from lamella.dialects.text import parse_module, print_module
from lamella.dialects.verify import verify

S0, S1 = expr.symbol("s0"), expr.symbol("s1")
X = "!sym.t<[s0, 16], f32>"
ROUND_TRIP = f"""\
builtin.module {{
  func.func @main(%x: {X}, %b: !sym.t<[16], f32>) {{
    %0 = aten.add.Tensor(%x, %b, alpha = 2) : ({X}, !sym.t<[16], f32>) -> {X}
    %1 = aten.mul.Tensor(%x, 0.5) : ({X}) -> {X}
    %2 = aten.mm(%x, %b) : ({X}, !sym.t<[16], f32>) -> {X}
    %3 = aten.view(%x, [4*s0, floordiv(s0, 2)]) : ({X}) -> !sym.t<[4*s0, 4], f32>
    %4 = aten.cat([%x, %1, %x], -1) : ({X}, {X}, {X}) -> !sym.t<[s0, 48], f32>
    %5, %6 = aten.split.Tensor(%x, 8, 1) : ({X}) -> ({X}, {X})
    %7 = aten._to_copy(%x, dtype = bf16, memory_format = channels_last) : ({X}) -> !sym.t<[s0, 16], bf16>
    %8 = aten.sum.dim_IntList(%x, [1], true) : ({X}) -> {X}
    %9 = aten.index.Tensor(%x, [none, %b]) : ({X}, !sym.t<[16], f32>) -> {X}
    %10 = aten._local_scalar_dense(%x) : ({X}) -> !sym.int<z0, f64>
    %11 = aten.full([s0, 2], -inf, dtype = f32, device = "cuda:0") : () -> !sym.t<[s0, 2], f32, device=cuda:0>
    %12, %13, %14 = aten.native_layer_norm(%x, [16], none, none, 1e-05) : ({X}) -> ({X}, {X}, none)
    %15 = aten.threshold_backward(%x, none, 0) : ({X}) -> {X}
    aten._assert_scalar(gt(s0, 3), "batch of \\"more\\" than 3") : () -> ()
    func.return
  }}
}}"""


def main(block: Block) -> ModuleOp:
    block.add_op(func.ReturnOp())
    return ModuleOp([func.FuncOp("main", (block.arg_types, []), Region(block))])


def only_op(module: ModuleOp) -> Operation:
    function = next(iter(module.ops))
    assert isinstance(function, func.FuncOp) and function.body.block.first_op is not None
    return function.body.block.first_op


def op_class(name: str) -> type[AtenOp]:
    cls = lookup(name)
    assert cls is not None
    return cls


def test_text_is_a_fixed_point() -> None:
    module = parse_module(ROUND_TRIP)
    verify(module)
    assert print_module(module) == ROUND_TRIP
    generic = print_module(module, generic=True)
    assert '"aten.mm"(%x, %b)' in generic
    assert print_module(parse_module(generic)) == ROUND_TRIP


def test_default_overload_and_explicit_defaults_print_short() -> None:
    module = parse_module(f"""
        func.func @main(%x: {X}) {{
          %0 = aten.gelu.default(%x, approximate = "none") : ({X}) -> {X}
          func.return
        }}""")
    assert f"aten.gelu(%x) : ({X}) -> {X}" in print_module(module)
    assert lookup("aten.mm.default") is lookup("aten.mm")


def test_arguments_in_the_order_of_the_schema() -> None:
    module = parse_module(ROUND_TRIP)
    ops = {op.name: op for op in module.walk() if isinstance(op, AtenOp)}
    function = next(iter(module.ops))
    assert isinstance(function, func.FuncOp)
    x, b = function.body.block.args
    assert ops["aten.add.Tensor"].args() == [x, b, 2]
    assert ops["aten.add.Tensor"].arg("alpha") == 2
    assert ops["aten.cat"].args() == [(x, ops["aten.mul.Tensor"].results[0], x), -1]
    assert ops["aten.index.Tensor"].arg("indices") == (None, b)
    assert ops["aten.view"].arg("size") == (4 * S0, expr.floordiv(S0, 2))
    assert ops["aten.sum.dim_IntList"].args() == [x, (1,), True, None]
    with pytest.raises(KeyError):
        ops["aten.view"].arg("shape")


def test_a_number_for_a_fixed_length_list_reads_as_the_list() -> None:
    block = Block(arg_types=[TensorType.get([2, 3, 8, 8], "f32")])
    op = op_class("aten.max_pool2d").call([block.args[0], 3, 2], [TensorType.get([2, 3, 3, 3], "f32")])
    op.verify_()
    assert op.arg("kernel_size") == (3, 3) and op.arg("stride") == (2, 2) and op.arg("padding") == (0, 0)


def test_operand_replacement_keeps_positions() -> None:
    block = Block(arg_types=[TensorType.get([4], "f32")] * 3)
    a, b, c = block.args
    op = op_class("aten.addcmul").call([a, b, c], [a.type])
    op.operands[1] = c
    assert op.args() == [a, c, c, 1]


def test_clone_and_location() -> None:
    block = Block(arg_types=[TensorType.get([4], "f32")])
    where = FileLineColLoc(StringAttr("model.py"), IntAttr(3), IntAttr(0))
    op = op_class("aten.exp").call([block.args[0]], [block.args[0].type], where)
    assert op.clone().location == where
    block.add_op(op)
    text = print_module(main(block), locations=True)
    assert 'loc("model.py":3:0)' in text
    assert only_op(parse_module(text)).location == where


@pytest.mark.parametrize(
    ("name", "mutates", "view", "pure"),
    [
        ("aten.add.Tensor", False, False, True),
        ("aten.add_.Tensor", True, False, False),
        ("aten.add.out", True, False, False),
        ("aten.view", False, True, True),
        ("aten.split.Tensor", False, True, True),
        ("aten.bernoulli", False, False, False),
        ("aten._assert_async", False, False, False),
    ],
)
def test_effects_and_aliases(name: str, mutates: bool, view: bool, pure: bool) -> None:
    cls = op_class(name)
    schema = cls.schema
    assert (schema.mutates, schema.is_view, schema.is_pure) == (mutates, view, pure)
    assert cls.has_trait(Pure) == pure


def test_alias_positions() -> None:
    assert op_class("aten.view").schema.aliases(0) == (0,)
    assert op_class("aten.add_.Tensor").schema.aliases(0) == (0,)
    assert op_class("aten.add.Tensor").schema.aliases(0) == ()
    assert [a.name for a in op_class("aten.add.out").schema.args if a.mutated] == ["out"]


# Literals

dims = st.recursive(
    st.sampled_from([S0, S1, sympy.Integer(3)]),
    lambda e: (
        st.tuples(e, e).map(lambda p: p[0] + p[1])
        | st.tuples(e, e).map(lambda p: p[0] * p[1])
        | st.tuples(e, st.integers(2, 9)).map(lambda p: sympy.sympify(expr.floordiv(p[0], p[1])))
    ),
    max_leaves=6,
).map(expr.normal)
floats = st.floats() | st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan, 1e-300, 1e22, 1.0])
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | floats
    | st.builds(complex, floats, floats)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | dims
    | floats.filter(math.isfinite).map(lambda f: expr.normal(sympy.Float(f) * expr.symbol("z0")))
    | st.just(HOLE)
)
values = st.recursive(scalars, lambda v: st.lists(v, max_size=4).map(tuple), max_leaves=12)


def same(a: Any, b: Any) -> bool:
    """Equal in type and bits; 1, 1.0 and True are not the same, nor are 0.0 and -0.0, and nan is nan."""
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, complex):
        return isinstance(b, complex) and same(a.real, b.real) and same(a.imag, b.imag)
    if type(a) is float:
        return type(b) is float and ((math.isnan(a) and math.isnan(b)) or struct.pack("d", a) == struct.pack("d", b))
    if isinstance(a, sympy.Basic):
        return isinstance(b, sympy.Basic) and a == b
    return type(a) is type(b) and a == b


@given(values)
def test_literals_read_back_exactly(value: Any) -> None:
    literal = Literal.get(value)
    assert same(literal.value, value)
    text = f'"test.op"() {{a = #aten.lit<{literal.data.text}>}} : () -> ()'
    again = next(iter(parse_module(text).ops)).attributes["a"]
    assert again == literal and isinstance(again, Literal) and same(again.value, value)


@given(st.lists(dims, max_size=4), floats)
def test_calls_read_back_exactly(size: list[Any], value: float) -> None:
    block = Block()
    block.add_op(op_class("aten.full").call([tuple(size), value], [TensorType.get([3], "f32")]))
    module = main(block)
    op = only_op(parse_module(print_module(module)))
    assert isinstance(op, AtenOp)
    assert same(op.arg("size"), tuple(size)) and same(op.arg("fill_value"), value)


def test_literals_are_told_apart() -> None:
    group = [Literal.get(v) for v in (1, 1.0, True, 0, 0.0, -0.0, False, None, "none", "1", "s0", S0)]
    assert len(set(group)) == len(group)
    assert Literal.get(math.nan) is Literal.get(float("nan"))
    with pytest.raises(TypeError, match="cannot hold a object"):
        Literal.get(object())


# Rejected modules

BAD_CALLS: list[tuple[str, list[Any], list[Attribute], str]] = [
    ("aten.sum.dim_IntList", ["x", (1.5,)], ["t"], r"argument 'dim': \[1.5\] is not an int\[1\]\?"),
    ("aten.sum.dim_IntList", ["x", (1,), 1], ["t"], "argument 'keepdim': 1 is not a bool"),
    ("aten.mul.Tensor", ["x", "n"], ["t"], "argument 'other': a value of type none cannot stand for a Tensor"),
    ("aten.mul.Tensor", ["x", None], ["t"], "argument 'other': none is not a Tensor"),
    ("aten._to_copy", ["x", "float32"], ["t"], "argument 'dtype': \"float32\" is not a ScalarType"),
    ("aten.view", ["x", 4], ["t"], r"argument 'size': 4 is not an int\[\]"),
    (
        "aten.convolution_backward",
        ["x", "x", "x", (0,), (1,), (0,), (1,), False, (0,), 1, ()],
        ["t", "t", "t"],
        r"argument 'output_mask': \[\] is not a bool\[3\]",
    ),
    ("aten.exp", ["x"], [], "has 0 results, expected 1"),
    ("aten.exp", ["x"], ["t", "t"], "has 2 results, expected 1"),
    ("aten.exp", ["x"], ["i"], "result #0 of type !sym.int<s0> cannot hold Tensor"),
    ("aten._local_scalar_dense", ["x"], ["t"], "result #0 of type .* cannot hold number"),
]


@pytest.mark.parametrize(("name", "args", "results", "message"), BAD_CALLS)
def test_rejected_calls(name: str, args: list[Any], results: list[Any], message: str) -> None:
    types: dict[str, Attribute] = {"t": TensorType.get([S0, 4], "f32"), "i": SymType.get(S0), "n": NoneType()}
    block = Block(arg_types=[types["t"], types["n"]])
    named = {"x": block.args[0], "n": block.args[1]}
    given_args = [named.get(a, a) if isinstance(a, str) else a for a in args]
    block.add_op(op_class(name).call(given_args, [types[r] for r in results]))
    with pytest.raises(LamellaVerifyError, match=message):
        verify(main(block))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (f'"aten.exp"() : () -> {X}', "argument 'self' lacks an operand"),
        (f'"aten.exp"(%x, %x) : ({X}, {X}) -> {X}', "takes 1 operands with these arguments, got 2"),
        (f'"aten.exp"(%x) <{{dim = #aten.lit<1>}}> : ({X}) -> {X}', "has no argument dim"),
        (f'"aten.view"(%x) : ({X}) -> {X}', r"argument 'size: int\[\]' is missing"),
        (f'"aten.view"(%x) <{{size = 4 : i64}}> : ({X}) -> {X}', "argument 'size' must be an #aten.lit"),
    ],
)
def test_rejected_generic_text(call: str, message: str) -> None:
    module = parse_module(f"func.func @main(%x: {X}) {{ %0 = {call} func.return }}")
    with pytest.raises(LamellaVerifyError, match=message):
        verify(module)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (f"aten.exp(%x, 1) : ({X}) -> {X}", "too many arguments"),
        (f"aten.exp(%x, dim = 1) : ({X}) -> {X}", "'aten.exp' has no argument 'dim'"),
        (f"aten.add.Tensor(%x, %x, other = 1) : ({X}, {X}) -> {X}", "argument 'other' is given twice or out of order"),
        (f"aten.sum.dim_IntList(%x, 1.5) : ({X}) -> {X}", r"argument 'dim': 1.5 is not an int\[1\]\?"),
        (f"aten.view(%x, [s0 +]) : ({X}) -> {X}", "unexpected end in symbolic expression"),
        (f"aten.view(%x, [{'[' * 60}]) : ({X}) -> {X}", "nested too deeply"),
        (f"aten.mul.Tensor(%x, 1e999) : ({X}) -> {X}", "float literal out of range"),
        (f"aten.mul.Tensor(%x, ) : ({X}) -> {X}", "expected a literal"),
        (f"aten.nope(%x) : ({X}) -> {X}", "unknown operation 'aten.nope'"),
        (f"aten.mm.nope(%x) : ({X}) -> {X}", "unknown operation 'aten.mm.nope'"),
    ],
)
def test_rejected_text(call: str, message: str) -> None:
    with pytest.raises(LamellaSyntaxError, match=message):
        parse_module(f"func.func @main(%x: {X}) {{ %0 = {call} func.return }}")
