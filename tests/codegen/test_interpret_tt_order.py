"""The interpreter of kernels: atomics, and races, which are what depends on the order of programs or threads."""

from collections.abc import Callable

import pytest
import torch

from lamella.codegen.interpret_tt import KernelError
from lamella.tests.codegen.interpreted_tt import run

ATOMIC = """
tt.func public @k(%p: !tt.ptr<i32>, %x: !tt.ptr<i32>, %y: !tt.ptr<i32>) {{
  %r = tt.make_range {{end = 8 : i32, start = 0 : i32}} : tensor<8xi32>
  %s = tt.splat %x : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
  %a = tt.addptr %s, %r : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
  %v = tt.load %a : tensor<8x!tt.ptr<i32>>
  %two = arith.constant dense<2> : tensor<8xi32>
  %i = arith.remui %r, %two : tensor<8xi32>
  %q = tt.splat %p : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
  %b = tt.addptr %q, %i : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
  %old = tt.atomic_rmw {kind}, relaxed, gpu, %b, %v : (tensor<8x!tt.ptr<i32>>, tensor<8xi32>) -> tensor<8xi32>
  %o = tt.splat %y : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
  %c = tt.addptr %o, %r : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
  tt.store %c, %old : tensor<8x!tt.ptr<i32>>
  tt.return
}}"""


@pytest.mark.parametrize(
    ("kind", "combine"),
    [
        ("add", lambda a, b: a + b),
        ("max", max),
        ("umin", lambda a, b: min(a, b, key=lambda v: v & 0xFFFFFFFF)),
        ("exch", lambda a, b: b),
        ("xor", lambda a, b: a ^ b),
    ],
)
def test_atomics_of_one_address(kind: str, combine: Callable[[int, int], int]) -> None:
    p = torch.tensor([3, -5], dtype=torch.int32)
    x = torch.tensor([1, -2, 9, 4, -7, 0, 2, -1], dtype=torch.int32)
    y = torch.zeros(8, dtype=torch.int32)
    state, old = p.tolist(), list[int]()
    for i, v in enumerate(x.tolist()):
        old.append(state[i % 2])
        state[i % 2] = combine(state[i % 2], v)
    run(ATOMIC.format(kind=kind), (1,), p, x, y)
    assert (p.tolist(), y.tolist()) == (state, old)


def test_compare_and_swap() -> None:
    text = """
    tt.func public @k(%p: !tt.ptr<i32>, %y: !tt.ptr<i32>) {
      %pid = tt.get_program_id x : i32
      %one = arith.constant 1 : i32
      %next = arith.addi %pid, %one : i32
      %old = tt.atomic_cas acq_rel, gpu, %p, %pid, %next : (!tt.ptr<i32>, i32, i32) -> i32
      %q = tt.addptr %y, %pid : !tt.ptr<i32>, i32
      tt.store %q, %old : !tt.ptr<i32>
      tt.return
    }"""
    p, y = torch.tensor([1], dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    run(text, (4,), p, y)
    assert (p.item(), y.tolist()) == (4, [1, 1, 2, 3])


TWO = """
tt.func public @k(%x: !tt.ptr<i32>) {{
  %pid = tt.get_program_id x : i32
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %first = arith.cmpi eq, %pid, %zero : i32
  %q = tt.addptr %x, %pid : !tt.ptr<i32>, i32
  {body}
  tt.return
}}"""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("tt.store %x, %pid : !tt.ptr<i32>", "element 0 is written by two programs"),
        (
            "scf.if %first {\n  tt.store %x, %one : !tt.ptr<i32>\n} else {\n  %v = tt.load %x : !tt.ptr<i32>\n}",
            "element 0 is read, and written by another program",
        ),
        (
            "scf.if %first {\n  %v = tt.load %x : !tt.ptr<i32>\n} else {\n  tt.store %x, %one : !tt.ptr<i32>\n}",
            "element 0 is written, and read by another program",
        ),
        (
            "scf.if %first {\n  tt.store %x, %one : !tt.ptr<i32>\n} else {\n"
            "  %o = tt.atomic_rmw add, relaxed, gpu, %x, %one : (!tt.ptr<i32>, i32) -> i32\n}",
            "element 0 is written by two programs",
        ),
    ],
)
def test_races_of_programs(body: str, message: str) -> None:
    with pytest.raises(KernelError, match=rf"in program \(1, 0, 0\): {message}"):
        run(TWO.format(body=body), (2,), torch.zeros(2, dtype=torch.int32))


@pytest.mark.parametrize(
    "body",
    [
        "tt.store %x, %one : !tt.ptr<i32>",
        "%v = tt.load %q : !tt.ptr<i32>\n%w = arith.addi %v, %one : i32\ntt.store %q, %w : !tt.ptr<i32>",
        "%o = tt.atomic_rmw add, relaxed, gpu, %x, %one : (!tt.ptr<i32>, i32) -> i32",
        # the last of the programs reads what the others left
        "tt.store %q, %pid : !tt.ptr<i32>\n%o = tt.atomic_rmw add, acq_rel, gpu, %x, %zero : (!tt.ptr<i32>, i32) -> i32\n"
        "%v = tt.load %x : !tt.ptr<i32>",
    ],
    ids=["the same value", "its own element", "atomics", "acquired"],
)
def test_no_races_of_programs(body: str) -> None:
    run(TWO.format(body=body), (2,), torch.zeros(2, dtype=torch.int32))


def test_races_through_two_arguments() -> None:
    text = """
    tt.func public @k(%x: !tt.ptr<i32>, %y: !tt.ptr<i32>) {
      %pid = tt.get_program_id x : i32
      %v = tt.load %x : !tt.ptr<i32>
      %q = tt.addptr %y, %pid : !tt.ptr<i32>, i32
      tt.store %q, %pid : !tt.ptr<i32>
      tt.return
    }"""
    x = torch.full((3,), 7, dtype=torch.int32)
    with pytest.raises(KernelError, match="element 1 is written, and read by another program"):
        run(text, (2,), x[1:], x)


THREADS = """
tt.func public @k(%x: !tt.ptr<i32>) {{
  %r = tt.make_range {{end = 8 : i32, start = 0 : i32}} : tensor<8xi32>
  %s = tt.splat %x : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
  %a = tt.addptr %s, %r : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
  tt.store %a, %r : tensor<8x!tt.ptr<i32>>
  {barrier}
  %seven = arith.constant dense<{seven}> : tensor<8xi32>
  %t = arith.xori %r, %seven : tensor<8xi32>
  %b = tt.addptr %s, %t : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
  %v = tt.load %b : tensor<8x!tt.ptr<i32>>
  {second}
  tt.store %a, %v : tensor<8x!tt.ptr<i32>>
  tt.return
}}"""


def test_races_of_threads() -> None:
    x = torch.zeros(8, dtype=torch.int32)
    with pytest.raises(
        KernelError, match=r"'tt\.load' .*: element 7 is read without a barrier after another lane wrote it"
    ):
        run(THREADS.format(barrier="", second="", seven=7), (1,), x)
    with pytest.raises(KernelError, match=r"'tt\.store' .* is written without a barrier after another lane read it"):
        run(THREADS.format(barrier="gpu.barrier", second="", seven=7), (1,), x)
    run(THREADS.format(barrier="gpu.barrier", second="gpu.barrier", seven=7), (1,), x)
    assert x.tolist() == list(range(7, -1, -1))
    run(THREADS.format(barrier="", second="", seven=0), (1,), x)
    assert x.tolist() == list(range(8)), "a lane reads what it wrote itself"


OVER = """
tt.func public @k(%x: !tt.ptr<i32>) {{
  %r = tt.make_range {{end = 8 : i32, start = 0 : i32}} : tensor<8xi32>
  %s = tt.splat %x : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
  %a = tt.addptr %s, %r : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
  tt.store %a, %r : tensor<8x!tt.ptr<i32>>
  {barrier}
  %seven = arith.constant dense<7> : tensor<8xi32>
  %t = arith.xori %r, %seven : tensor<8xi32>
  %b = tt.addptr %s, %t : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
  tt.store %b, %r : tensor<8x!tt.ptr<i32>>
  tt.return
}}"""


def test_two_threads_that_write() -> None:
    x = torch.full((8,), 9, dtype=torch.int32)
    with pytest.raises(KernelError, match=r"'tt\.store' .* is written without a barrier after another lane wrote it"):
        run(OVER.format(barrier=""), (1,), x)
    run(OVER.format(barrier="gpu.barrier"), (1,), x)
    assert x.tolist() == list(range(7, -1, -1))
