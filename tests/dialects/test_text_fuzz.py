"""Whatever the input, the parser answers: a module that prints and reads back, or one error with a place. Soon."""

from __future__ import annotations

import time
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from lamella.dialects.context import make_context
from lamella.dialects.errors import LamellaSyntaxError, LamellaVerifyError
from lamella.dialects.text import parse_module, print_module
from lamella.dialects.verify import verify

CORPUS = [path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.parent.rglob("*.mlir"))] + [
    """func.func @main(%x: !sym.t<[s0, 16], f32>, %n: !sym.int<2*s0>) -> !sym.t<[s0, 16], f32> {
  %a = aten.add.Tensor(%x, %x, alpha = 2) : (!sym.t<[s0, 16], f32>, !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
  %b = aten.view(%a, [16*s0]) : (!sym.t<[s0, 16], f32>) -> !sym.t<[16*s0], f32> loc("layers.0"("m.py":3:4))
  %c = prims.exp %a : !sym.t<[s0, 16], f32> loc(#l)
  func.return %c : !sym.t<[s0, 16], f32>
}
#l = loc(fused<"x">["m.py":3:4, "m.py":5:6])
""",
    """func.func @main(%x: !sym.t<[s0, 768], f32, strides=[1, s0]>) -> !sym.t<[s0], f32> attributes {a = [1, 2.5, "x"]} {
  %m = loop.nest [d0 = s0] reduce [r0 = 768] combine [max] {
    %0 = loop.load %x[d0, r0] : !sym.t<[s0, 768], f32, strides=[1, s0]>
    %1 = arith.constant dense<[0xFF800000, 1.0]> : vector<2xf32>
    loop.yield %0 : f32
  } : !sym.t<[s0], f32>
  func.return %m : !sym.t<[s0], f32>
}
""",
    """llvm.func @k(%a: !llvm.ptr, %n: i64) -> i32 {
  %0 = llvm.mlir.constant(0x7F800000 : f32) : f32
  llvm.br ^bb1
^bb1:
  %1 = llvm.mlir.constant(0 : i32) : i32
  llvm.return %1 : i32
}
""",
]
TOKENS = [
    *'(){}[]<>,:=%@#!^"-?*.+0',
    *(
        "->",
        "//",
        "\n",
        "\0",
        "é",
        "%x",
        "@f",
        "^bb0",
        "#l",
        "!sym.t<",
        "loc(",
        "dense<",
        "f32",
        "i1",
        "i99999999",
        "0x",
        "1e9",
    ),
    *(
        "9" * 30,
        "99999999999999999999.5e99",
        "-1",
        "true",
        "none",
        "unknown",
        "fused",
        "module",
        "func.func",
        '"test.op"',
    ),
    *(
        "tensor<?x4xf32>",
        "tensor<*xf32>",
        "memref<2xf32>",
        "vector<[4]xf32>",
        "affine_map<(d0) -> (d0)>",
        "array<i8: 1>",
    ),
    *("s0**9", "s0//0", "Mod(s0, 0)", "2**s0", "s0*(1/0)", "builtin.module {", "dense_resource<a>", "{-#", "#-}"),
]
CONTEXT = make_context()


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A module of the corpus with a few spots deleted, doubled, or filled with other tokens."""
    text = draw(st.sampled_from(CORPUS))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        new = draw(st.sampled_from(TOKENS) | st.just(text[start:end] * 2) | st.text(max_size=3))
        text = text[:start] + new + text[end:]
    return text


def check(text: str | bytes) -> None:
    started = time.thread_time()  # others share the machine
    try:
        module = parse_module(text, filename="f.mlir", ctx=CONTEXT)
        verify(module)
    except LamellaSyntaxError as error:
        assert str(error).startswith("f.mlir:")
        assert error.line >= 1 and error.column >= 1
    except LamellaVerifyError as error:
        assert len(str(error).splitlines()) == 1
    else:
        printed = print_module(module, locations=True)
        assert print_module(parse_module(printed, ctx=CONTEXT), locations=True) == printed
        generic = print_module(module, locations=True, generic=True)
        assert print_module(parse_module(generic, ctx=CONTEXT), locations=True) == printed
    assert time.thread_time() - started < 10


@given(st.binary(max_size=200))
def test_bytes(content: bytes) -> None:
    check(content)


@given(st.lists(st.sampled_from(TOKENS), max_size=60).map(" ".join))
def test_tokens(text: str) -> None:
    check(text)


@given(mutated())
@example('"test.op"() : () -> tuple<' + "tuple<" * 300)
@example("(" * 10_000)
@example(" " * 10_000 + '"')
@example("/" * 10_000)
@example('"' + "\\" * 10_001)
@example('"' + "x" * 10_000)
@example('@"' + "x" * 10_000 + "\n")
def test_mutated_modules(text: str) -> None:
    check(text)
