"""Each rule of the loop dialect's verifiers and parsers: one module that breaks it, and what is said."""

from __future__ import annotations

import pytest

from lamella.dialects.errors import LamellaSyntaxError, LamellaVerifyError
from lamella.dialects.text import parse_module
from lamella.dialects.verify import verify

X = "!sym.t<[s0, 8], f32>"


def nest(head: str, body: str = "", types: str = X, value: str = "%c") -> str:
    return f"""
    func.func @main(%x: {X}, %i: !sym.t<[s0], i64>) {{
      {"%r = " if types else ""}loop.nest {head} {{
        %c = arith.constant 1.0 : f32
        {body}
        loop.yield {value}{" : f32" if value else ""}
      }} : {types}
      func.return
    }}"""


def kernel(body: str, sizes: str = "[s0]", grid: str = "[d0 = s0]") -> str:
    return f"""
    loop.kernel @k(%x: {X}) outs(%y: {X}) sizes {sizes} grid {grid} {{
      %c = arith.constant 1.0 : f32
      {body}
      loop.end
    }}"""


def sort(row: str, value: str, first: str = "[8]", loop: str = "r0 = 64") -> str:
    return f"""
      %s = loop.scratch : !sym.t<{row}>
      loop.for [{loop}] {{
        %n = loop.index [{loop[:2]}]
        loop.sort {value} into %s along r0 first {first} : !sym.t<{row}>
        loop.yield
      }}"""


REJECTED = [
    (nest("[d0 = s0, d0 = 8]"), "names a dim twice"),
    (nest("[d0 = s0]"), "does not have the shape of the dims"),
    (nest("[d0 = s0, d1 = 8] combine [add]"), "reduce dims and combine kinds go together"),
    (nest("[d0 = s0, d1 = 8] reduce [r0 = 2] combine [sum]"), "unknown combine kind 'sum'"),
    (nest("[d0 = s0, d1 = 8] reduce [r0 = 2] combine [add, max]"), "2 combine kinds but 1 values are yielded"),
    (nest("[d0 = s0, d1 = 8] reduce [r0 = 2] combine [welford]"), "has 1 results, its body gives 2"),
    (nest("[d0 = s0, d1 = 8] scan r0 combine [add]"), "a scan runs along one of dims"),
    (nest("[d0 = s0, d1 = 8] reduce [r0 = 9] scan d1 combine [add]"), "has a reduce dim where it sorts and only there"),
    (nest("[d0 = s0, d1 = 8] scan d1 combine [sort]"), "has a reduce dim where it sorts and only there"),
    (nest("[d0 = s0, d1 = 8] scan d0 combine [argmax]"), "unknown combine kind 'argmax'"),
    (nest("[d0 = s0, d1 = 2, d2 = 4] out [d0]"), "has not one expression per dimension"),
    (nest("[d0 = s0, d1 = 8]", f"%0 = loop.load %x[d0] : {X}"), "has not one expression per dimension"),
    (nest("[d0 = s0, d1 = 8]", f"%0 = loop.load %x[d0, d7] : {X}"), "symbol d7 is no dim in scope, no size"),
    (nest("[d0 = s0, d1 = 8]", f"%0 = loop.load %x[d0, d1] other 1 : i32 : {X}"), "other must be a f32"),
    (nest("[d0 = s0, d1 = 8]", "%0 = loop.index [d0, d1]"), "takes one expression"),
    (nest("[d0 = s0, d1 = 8]", "%0 = loop.fn nothing(%c) : f32"), "no function 'nothing' of 1 operands"),
    (nest("[d0 = s0, d1 = 8]", "%0 = loop.fn erfc(%c, %c) : f32"), "no function 'erfc' of 2 operands"),
    (kernel("loop.for [d0 = 8] {\n loop.yield\n }"), "redefines dim d0"),
    (kernel("%s = loop.for [d1 = 8] reduce [add] {\n loop.yield\n } : f32"), "1 reduce kinds but 0 values"),
    (kernel(f"loop.store %c, %y[d0] : {X}"), "has not one expression per dimension"),
    (kernel(f"loop.store %c, %y[d0, s9] : {X}"), "symbol s9 is no dim in scope, no size"),
    (kernel(f"loop.store %c, %y[d0, 0] combine sub : {X}"), "unknown combine kind 'sub'"),
    (kernel(sort("[144], f32", "%c")), "takes a row of i32 or i64"),
    (kernel(sort("[2, 72], i64", "%n")), "takes a row of i32 or i64"),
    (kernel(sort("[144], i64", "%n", "[8, 9]")), "takes one number in brackets"),
    (kernel(sort("[144], i64", "%n", loop="r1 = 64")), "stands in a loop over r0 alone"),
    (kernel(sort("[144], i64", "%n", loop="r1 = 2, r0 = 32")), "stands in a loop over r0 alone"),
    (kernel("", sizes="[]"), "size s0 is not among the kernel's sizes"),
]


@pytest.mark.parametrize(("text", "message"), REJECTED, ids=[m for _, m in REJECTED])
def test_rejected(text: str, message: str) -> None:
    module = parse_module(text)
    with pytest.raises(LamellaVerifyError) as error:
        verify(module)
    assert message in str(error.value)


MALFORMED = [
    (kernel(sort("[144], i64", "%c")), "operand is used with type i64"),
    (nest("[d0 = ]"), "unexpected end in symbolic expression"),
    (nest("[d0]"), "expected 'name = extent' or 'name = lo : hi'"),
    (nest("[d0 = s0, d1 = 8", ""), "unterminated '['"),
    (nest("[d0 = s0, d1 = 8]", "%0 = loop.pred [d0 + 1]"), "expected a relation"),
    (nest("[d0 = s0, d1 = 8]", "%0 = loop.load %c[d0] : f32"), "loop.load reads a tensor"),
]


@pytest.mark.parametrize(("text", "message"), MALFORMED, ids=[m for _, m in MALFORMED])
def test_malformed(text: str, message: str) -> None:
    with pytest.raises(LamellaSyntaxError) as error:
        parse_module(text)
    assert message in str(error.value)
