"""Text to module and back: locations, floats, names; and one message for each way in which text can be wrong."""

from __future__ import annotations

import math

import pytest
from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    CallSiteLoc,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FileLineColLoc,
    FloatAttr,
    FusedLoc,
    IntAttr,
    ModuleOp,
    NameLoc,
    NoneAttr,
    StringAttr,
    TensorType,
    UnknownLoc,
    bf16,
    f16,
    f32,
    f64,
    i32,
)
from xdsl.dialects.test import TestOp as SomeOp
from xdsl.ir import Operation

from lamella.dialects.errors import LamellaSyntaxError
from lamella.dialects.text import parse_module, parse_source, print_module
from lamella.dialects.verify import MAX_NESTING, verify

PROGRAM = """builtin.module {
  func.func @f(%a: i32 loc("x.py":1:2), %b: i32) -> i32 {
    %c = arith.addi %a, %b : i32 loc("x.py":3:4)
    %d, %e = "test.op"(%c) ({
    ^bb0(%z: i32 loc("q":1:1)):
      "test.termop"() : () -> () loc("inner")
    }) {flag, n = 3 : i8} : (i32) -> (i32, f32) loc(fused["x.py":3:4, "layer"("x.py":5:6)])
    cf.br ^bb1(%d : i32)
  ^bb1(%g: i32 loc("block.py":7:8)):
    func.return %g : i32 loc(callsite("a.py":1:1 at "b.py":2:2))
  } loc("whole")
}"""


def only(module: ModuleOp) -> Operation:
    return next(iter(module.body.ops))


def file_loc(file: str, line: int, column: int) -> FileLineColLoc:
    return FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(column))


def test_text_with_locations_is_a_fixed_point() -> None:
    module = parse_module(PROGRAM)
    verify(module)
    assert print_module(module, locations=True) == PROGRAM


def test_generic_form_reads_back_to_the_same_module() -> None:
    generic = print_module(parse_module(PROGRAM), locations=True, generic=True)
    assert '"arith.addi"(%a, %b)' in generic
    assert print_module(parse_module(generic), locations=True) == PROGRAM


def test_without_locations_nothing_says_loc() -> None:
    assert "loc(" not in print_module(parse_module(PROGRAM))


@pytest.mark.parametrize(
    "location",
    [
        file_loc("dir/model.py", 12, 3),
        file_loc('with "quotes" and é', 1, 0),
        NameLoc(StringAttr("layers.0"), NoneAttr()),
        NameLoc(StringAttr("layers.0"), file_loc("m.py", 1, 2)),
        CallSiteLoc(file_loc("m.py", 1, 2), NameLoc(StringAttr("f"), file_loc("n.py", 3, 4))),
        FusedLoc((file_loc("m.py", 1, 2), NameLoc(StringAttr("f"), NoneAttr())), NoneAttr()),
        FusedLoc((file_loc("m.py", 1, 2),), StringAttr("loop-fuse")),
        UnknownLoc(),
    ],
    ids=str,
)
def test_location_round_trips(location: FileLineColLoc) -> None:
    op = SomeOp(result_types=[i32])
    op.location = location
    text = print_module(ModuleOp([op]), locations=True)
    assert only(parse_module(text)).location == location


def test_alias_of_a_location_may_follow_its_use() -> None:
    text = """
#early = loc("a.py":1:1)
"test.op"() : () -> () loc(#early)
"test.op"() : () -> () loc(fused[#late, #named])
#named = loc("name"(#late))
#late = loc("b.py":2:2)
"""
    first, second = parse_module(text).body.ops
    assert first.location == file_loc("a.py", 1, 1)
    late = file_loc("b.py", 2, 2)
    assert second.location == FusedLoc((late, NameLoc(StringAttr("name"), late)), NoneAttr())


@pytest.mark.parametrize("type", [f16, bf16, f32, f64], ids=str)
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, -0.0, 1e-7, 1 / 3, 5e-324, 65504.0])
def test_float_round_trips_wherever_it_stands(type: AnyFloat, value: float) -> None:
    attribute = FloatAttr(value, type)
    value = attribute.value.data
    attributes = {
        "scalar": attribute,
        "splat": DenseIntOrFPElementsAttr.from_list(TensorType(type, [4]), [value]),
        "dense": DenseIntOrFPElementsAttr.from_list(TensorType(type, [2]), [value, 1.0]),
        "array": DenseArrayBase.from_list(type, [value, 0.5]),
    }
    text = print_module(ModuleOp([SomeOp(attributes=attributes)]))
    parsed = only(parse_module(text))
    for name in ("splat", "dense", "array"):
        assert parsed.attributes[name] == attributes[name], text
    read = parsed.attributes["scalar"]
    assert isinstance(read, FloatAttr)
    assert repr(read.value.data) == repr(value)


def test_float_of_many_digits_round_trips() -> None:
    """Printed as bits, which xDSL cannot read back inside `array<>` and reads as an integer inside `dense<>`."""
    attribute = DenseArrayBase.from_list(f32, [123456792.0])
    text = print_module(ModuleOp([SomeOp(attributes={"a": attribute})]))
    assert "0x4CEB79A3" in text
    assert only(parse_module(text)).attributes["a"] == attribute


@pytest.mark.parametrize("text", ["", "é", "日本", 'a\\b"c\n\t', "\x7f", "loc(unknown)"])
def test_string_round_trips(text: str) -> None:
    op = SomeOp(attributes={"a": StringAttr(text)})
    assert only(parse_module(print_module(ModuleOp([op])))).attributes["a"] == StringAttr(text)


def test_bytes_that_are_no_text_stay_bytes() -> None:
    op = SomeOp(attributes={"a": BytesAttr(b"\xff\x00")})
    assert only(parse_module(print_module(ModuleOp([op])))).attributes["a"] == BytesAttr(b"\xff\x00")


def test_names_never_collide() -> None:
    """The hints `a`, `a` and `a_1` would all the same print two `%a_1` in xDSL."""
    ops = [SomeOp(result_types=[i32]) for _ in range(4)]
    for op, hint in zip(ops, ["a_1_2", "a", "a", "_3"], strict=True):
        op.results[0].name_hint = hint
    text = print_module(ModuleOp(ops))
    assert [line.split()[0] for line in text.splitlines()[1:-1]] == ["%a", "%a_1", "%a_2", "%0"]
    assert print_module(parse_module(text)) == text


def test_positions_of_ops() -> None:
    source = parse_source('builtin.module {\n  "test.op"() : () -> ()\n}', filename="f.mlir", line_offset=10)
    assert source.locate(only(source.module)) == (12, 3, '  "test.op"() : () -> ()')


DEEP = '"test.op"() ({' * (MAX_NESTING + 1) + "})" * (MAX_NESTING + 1)

WRONG = {
    "builtin.module {": "f.mlir:1:17: error: expected an operation, a block or '}'",
    "builtin.module { ) }": "expected an operation, a block or '}'",
    "builtin.module { % }": "expected a name after '%', '#', '!' or '^'",
    "": "f.mlir:1:1: error: empty file: expected a module",
    " \n\n": "f.mlir:1:1: error: empty file: expected a module",
    "// only a comment\n": "f.mlir:1:18: error: no operation here: expected a module",
    "import torch": "f.mlir:1:1: error: unknown operation 'import'",
    "builtin.modul {}": "f.mlir:1:1: error: unknown operation 'builtin.modul'; did you mean builtin.module?",
    "arith.adi": "f.mlir:1:1: error: unknown operation 'arith.adi'; did you mean arith.",
    "arit.addi": "f.mlir:1:1: error: unknown operation 'arit.addi'; dialect 'arith' exists",
    "(((": "f.mlir:1:1: error: expected an operation",
    "builtin.module {\n  func.return": "f.mlir:2:14: error:",
    "%0 = arith.addi %x, %y : i32": "f.mlir:1:17: error: value %x is used but never defined",
    '%0 = "test.op"() : () -> i32\n%0 = "test.op"() : () -> i32': "f.mlir:2:1: error: SSA value %0 is already defined",
    '%0, %1 = "test.op"() : () -> i32': "f.mlir:1:1: error: Operation has 1 results, but was given 2 to bind.",
    '%0 = "test.op"() : () -> i32\n"test.op"(%0) : (f32) -> ()': "f.mlir:2:11: error: operand is used with type f32",
    '"test.op"() : () -> !sym.t<[s0, ], f32>': "f.mlir:1:",
    '"test.op"() : () -> !nope.t': "f.mlir:1:22: error: unknown type 'nope.t'; the dialects are",
    '"test.op"() : () -> !sym.tensor<f32>': "f.mlir:1:22: error: unknown type 'sym.tensor'",
    '"test.op"() {a = #arith.fast<none>} : () -> ()': "1:19: error: unknown attribute 'arith.fast'; did you mean arith.fastmath?",
    '"test.op"() : () -> i99999999': "f.mlir:1:21: error: integer types have at most 16777215 bits",
    f'"test.op"() {{a = {"9" * 5000}}} : () -> ()': "f.mlir:1:18: error: number of 5000 characters",
    f'"test.op"() {{a = 0x{"F" * 5000}}} : () -> ()': "f.mlir:1:18: error: number of 5002 characters",
    '"test.op"() {a = 1.0e9999} : () -> ()': "f.mlir:1:18: error: float literal out of range",
    '"test.op"() {a = 1.0e39 : f32} : () -> ()': "f.mlir:1:30: error: malformed: float too large",
    '"test.op"() {a = 300 : i8} : () -> ()': "f.mlir:1:26: error: malformed: Integer value 300 is out of range",
    '"test.op"() {a = dense<0> : tensor<999999999xi8>} : () -> ()': "error: dense literals have at most 16777216",
    '"test.op"() {a = dense<0xFF80> : tensor<1xf32>} : () -> ()': "f.mlir:1:24: error: the bits of f32 are 0x and 8",
    '"test.op"() {a = dense<-0xFF800000> : tensor<1xf32>} : () -> ()': "error: the bits of f32 are 0x and 8",
    '"test.op"() {a = dense<[1, 2]> : tensor<3xi32>} : () -> ()': "error: Shape mismatch in dense literal",
    '"test.op"() : () -> () loc(#nope)': "f.mlir:1:28: error: location alias #nope is never defined",
    '"test.op"() : () -> () loc(#a)\n#a = loc(#a)': "error: location alias #a is defined by itself",
    '"test.op"() : () -> () loc(7)': "f.mlir:1:28: error: Unexpected location syntax.",
    '"test.op"() {a = "unclosed} : () -> ()': "error: End of file reached before closing string literal.",
    DEEP: f"error: regions are nested deeper than {MAX_NESTING}",
    '"test.op"() {a = ' + "[" * 5000: "error: nested too deeply",
    "{-# external_resources: {} #-}": "error: malformed: Currently only dialect resources are supported",
    "builtin.module {} \0": "f.mlir:1:19: error: NUL character: this is not a text file",
}


@pytest.mark.parametrize(("text", "message"), WRONG.items(), ids=[t[:40] for t in WRONG])
def test_wrong_text_gets_one_message_with_its_place(text: str, message: str) -> None:
    with pytest.raises(LamellaSyntaxError) as caught:
        parse_module(text, filename="f.mlir")
    shown = str(caught.value)
    assert message in shown
    assert len(shown.splitlines()) <= 3
    assert max(map(len, shown.splitlines())) < 400


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x7fELF\xff", "f.mlir:1:5: error: byte 0xff is not UTF-8 text"),
        (b"builtin.module {}\n\xc3", "f.mlir:2:1: error: byte 0xc3 is not UTF-8 text"),
    ],
)
def test_bytes_that_are_no_text(content: bytes, message: str) -> None:
    with pytest.raises(LamellaSyntaxError, match=message):
        parse_module(content, filename="f.mlir")


def test_byte_order_mark_is_ignored() -> None:
    assert print_module(parse_module(b"\xef\xbb\xbfbuiltin.module {\n}")) == "builtin.module {\n}"


def test_error_shows_the_line_with_a_caret() -> None:
    with pytest.raises(LamellaSyntaxError) as caught:
        parse_module("builtin.module {\n\tfunc.fun @f()\n}", filename="f.mlir")
    assert str(caught.value).splitlines()[1:] == ["   func.fun @f()", "   ^"]


def test_deepest_allowed_nesting_parses() -> None:
    text = '"test.op"() ({\n' * (MAX_NESTING - 1) + '"test.termop"() : () -> ()' + "}) : () -> ()" * (MAX_NESTING - 1)
    module = parse_module(text)
    assert print_module(parse_module(print_module(module))) == print_module(module)
