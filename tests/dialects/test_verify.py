"""Dominance in every shape of control flow, structure, and what an error says."""

from __future__ import annotations

from itertools import pairwise

import pytest
from xdsl.dialects import cf, func
from xdsl.dialects.builtin import ModuleOp, i1, i32
from xdsl.dialects.test import TestOp as SomeOp
from xdsl.dialects.test import TestTermOp as SomeTerminator
from xdsl.ir import Block, Region

from lamella.dialects.errors import LamellaVerifyError
from lamella.dialects.text import parse_module
from lamella.dialects.verify import MAX_NESTING, verify, verify_dominance


def check(body: str) -> None:
    verify(parse_module("func.func @f(%c: i1, %x: i32) {\n" + body + "\n}"))


ACCEPTED = {
    "diamond, defined before": """
      %a = "test.op"() : () -> i32
      cf.cond_br %c, ^l, ^r
    ^l:
      cf.br ^end
    ^r:
      cf.br ^end
    ^end:
      "test.op"(%a) : (i32) -> ()
      func.return""",
    "loop, defined in the header": """
      cf.br ^header
    ^header:
      %a = "test.op"() : () -> i32
      cf.cond_br %c, ^body, ^end
    ^body:
      "test.op"(%a) : (i32) -> ()
      cf.br ^header
    ^end:
      "test.op"(%a) : (i32) -> ()
      func.return""",
    "used in a block written before": """
      cf.br ^later
    ^earlier:
      "test.op"(%a) : (i32) -> ()
      func.return
    ^later:
      %a = "test.op"() : () -> i32
      cf.br ^earlier""",
    "outer value in a nested region": """
      %a = "test.op"() : () -> i32
      "test.op"() ({
        "test.op"(%a, %x) : (i32, i32) -> ()
        "test.termop"() : () -> ()
      }) : () -> ()
      func.return""",
    "unreachable block": """
      func.return
    ^dead:
      %a = "test.op"() : () -> i32
      "test.op"(%a) : (i32) -> ()
      cf.br ^dead""",
}

REJECTED = {
    "before its definition": (
        """
      "test.op"(%a) : (i32) -> ()
      %a = "test.op"() : () -> i32
      func.return""",
        "'test.op' op operand #0 (%a) does not dominate this use",
    ),
    "of itself": (
        """
      %a = "test.op"(%a) : (i32) -> i32
      func.return""",
        "operand #0 (%a) does not dominate",
    ),
    "one arm of a diamond": (
        """
      cf.cond_br %c, ^l, ^r
    ^l:
      %a = "test.op"() : () -> i32
      cf.br ^end
    ^r:
      cf.br ^end
    ^end:
      "test.op"(%x, %a) : (i32, i32) -> ()
      func.return""",
        "operand #1 (%a) does not dominate",
    ),
    "sibling region": (
        """
      "test.op"() ({
        "test.op"(%a) : (i32) -> ()
        "test.termop"() : () -> ()
      }, {
        %a = "test.op"() : () -> i32
        "test.termop"() : () -> ()
      }) : () -> ()
      func.return""",
        "operand #0 (%a) does not dominate",
    ),
    "loop body used after the loop": (
        """
      cf.br ^header
    ^header:
      cf.cond_br %c, ^body, ^end
    ^body:
      %a = "test.op"() : () -> i32
      cf.br ^header
    ^end:
      "test.op"(%a) : (i32) -> ()
      func.return""",
        "operand #0 (%a) does not dominate",
    ),
    "no terminator": ('"test.op"() : () -> ()', "'test.op' op is the last of its block in 'func.func' but is not a"),
    "own rule of the op": ("func.return %x : i32", "'func.return' op"),
}


@pytest.mark.parametrize("body", ACCEPTED.values(), ids=ACCEPTED)
def test_accepted(body: str) -> None:
    check(body)


@pytest.mark.parametrize(("body", "message"), REJECTED.values(), ids=REJECTED)
def test_rejected(body: str, message: str) -> None:
    with pytest.raises(LamellaVerifyError) as caught:
        check(body)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_value_of_another_isolated_op() -> None:
    text = """
      func.func @f(%x: i32) { func.return }
      func.func @g() {
        "test.op"(%x) : (i32) -> ()
        func.return
      }"""
    module = parse_module(text.replace("%x) :", "%y) :").replace("@g() {", "@g() { %y = arith.constant 1 : i32"))
    verify(module)
    outer, inner = module.body.ops
    use = next(op for op in inner.walk() if op.name == "test.op")
    use.operands[0] = next(iter(outer.regions[0].blocks)).args[0]
    with pytest.raises(LamellaVerifyError, match="does not dominate"):
        verify(module)


def test_value_whose_op_was_erased() -> None:
    module = parse_module('%a = "test.op"() : () -> i32\n"test.op"(%a) : (i32) -> ()')
    first, second = module.body.ops
    first.detach()
    first.erase(safe_erase=False)
    with pytest.raises(LamellaVerifyError) as caught:
        verify(module)
    assert caught.value.op is second


def test_branch_into_another_region() -> None:
    module = parse_module('"test.op"() ({ "test.termop"() : () -> () }, { "test.termop"() : () -> () }) : () -> ()')
    op = next(iter(module.body.ops))
    first, second = op.regions
    terminator = next(iter(first.blocks)).last_op
    assert terminator is not None
    terminator.successors = [next(iter(second.blocks))]
    with pytest.raises(LamellaVerifyError, match="branches to a block of another region"):
        verify(module)


def test_empty_block_needs_a_terminator() -> None:
    module = ModuleOp([func.FuncOp("f", ((), ()), Region(Block()))])
    with pytest.raises(LamellaVerifyError, match=r"'func.func' op .*terminator"):
        verify(module)


def test_error_names_the_source_line() -> None:
    with pytest.raises(LamellaVerifyError) as caught:
        check('"test.op"(%a) : (i32) -> () loc("layers.0"("model.py":12:3))\n%a = "test.op"() : () -> i32\nfunc.return')
    assert str(caught.value).endswith("(layers.0 at model.py:12:3)")


def test_nesting_beyond_the_limit_is_an_error_and_no_recursion() -> None:
    op = SomeTerminator()
    for _ in range(3 * MAX_NESTING):
        op = SomeOp(regions=[Region(Block([op] if isinstance(op, SomeTerminator) else [op, SomeTerminator()]))])
    with pytest.raises(LamellaVerifyError, match=f"nested deeper than {MAX_NESTING}"):
        verify(ModuleOp([op]))


def test_thousands_of_blocks() -> None:
    """A chain of blocks as long as this would overflow the stack if anything recursed."""
    blocks = [Block() for _ in range(3000)]
    value = SomeOp(result_types=[i32, i1])
    blocks[0].add_op(value)
    for block, after in pairwise(blocks):
        block.add_op(SomeOp(operands=[value.results[0]]))
        block.add_op(cf.BranchOp(after))
    blocks[-1].add_op(func.ReturnOp())
    verify_dominance(ModuleOp([func.FuncOp("f", ((), ()), Region(blocks))]))
