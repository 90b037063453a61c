"""Kernels that LLVM is given while passes go on: the same program, each function in one part, and none changed since."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import pytest
import torch
from xdsl.dialects import llvm
from xdsl.dialects.builtin import ModuleOp

import lamella
from lamella import driver
from lamella.codegen import llvm_ahead
from lamella.codegen.archive import unpack
from lamella.codegen.errors import CodegenError
from lamella.codegen.jit import elf_symbols
from lamella.codegen.llvm_ahead import Ahead
from lamella.codegen.llvm_text import pieces
from lamella.dialects.context import make_context
from lamella.dialects.text import parse_module
from lamella.lowering.kernel_to_llvm import KernelToLlvm, Made
from lamella.lowering.options import Options
from lamella.lowering.pass_manager import PassManager
from lamella.lowering.pipeline import pipeline
from lamella.lowering.pipeline_text import parse_passes
from lamella.lowering.target import CpuTarget

HOST = CpuTarget.host()


def network(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = torch.nn.functional.gelu(x @ w)
    return y.softmax(-1), y.sum(0), y.cumsum(1), torch.lgamma(y.abs() + 1), y.sort(-1).values


ARGUMENTS = (torch.randn(128, 96), torch.randn(96, 160))


def lowered(target: CpuTarget, tell: Sequence[Made], options: Options | None = None) -> ModuleOp:
    """`network` down to llvm, and each of `tell` told of its kernels."""
    module = lamella.capture(network, *ARGUMENTS).module
    passes = parse_passes(pipeline(options or Options(products="all"), target))
    for p in passes:
        if isinstance(p, KernelToLlvm):
            p.made.extend(tell)
    PassManager(passes).run(module)
    return module


@pytest.mark.parametrize("target", ["host", "amx"])
def test_nothing_changes_the_functions_of_a_kernel(target: str) -> None:
    """What is told has the text that the module has of it in the end, and is all but the host program and its callees."""
    told: dict[str, str] = {}

    def note(functions: Sequence[llvm.FuncOp]) -> None:
        told.update({p.symbol: p.text for p in pieces(functions)})

    machine = HOST if target == "host" else CpuTarget.from_name(target)
    module = lowered(machine, [note], Options(products="all", target=target))
    whole = {p.symbol: p.text for p in pieces(list(module.ops))}
    assert told.items() <= whole.items()
    kernels = [f for f in module.ops if isinstance(f, llvm.FuncOp) and f.sym_name.data.endswith(".body")]
    assert len(kernels) == 3 and all(f"@{f.sym_name.data}" in told for f in kernels)


@pytest.mark.parametrize("enough", [1, 6_000, 1 << 30])
@pytest.mark.parametrize("target", ["host", "amx"])
def test_each_function_is_in_one_part(enough: int, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And each that a part uses and has not is in another, or is torch's or the runtime's; however many there are."""
    monkeypatch.setattr(llvm_ahead, "_ENOUGH", enough)
    machine = HOST if target == "host" else CpuTarget.from_name(target)
    with Ahead(machine) as ahead:
        module = lowered(machine, [ahead.take], Options(products="all", target=target))
        objects = unpack(ahead.finish(module))
    uses, has = zip(*map(elf_symbols, objects), strict=True)
    defined = Counter(name for names in has for name in names)
    assert max(defined.values()) == 1 and "main" in defined
    functions = {f.sym_name.data for f in module.ops if isinstance(f, llvm.FuncOp) and f.body.blocks}
    assert not functions & set().union(*uses) - defined.keys()
    started = {1: 3, 6_000: 1, 1 << 30: 0}[enough]
    assert started < len(objects) <= 3 + machine.cores + 1


@pytest.mark.parametrize("enough", [1, 6_000])
def test_numbers(enough: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm_ahead, "_ENOUGH", enough)
    found = torch.compile(network, backend="lamella", options={"cache": False, "products": "all"})(*ARGUMENTS)
    for got, wanted in zip(found, network(*ARGUMENTS), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("enough", [1, 6_000, 1 << 30])
def test_each_part_declares_what_it_uses_of_llvm(enough: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one of kernels that wait until the program is there."""
    texts: list[str] = []

    def note(text: str, target: CpuTarget) -> bytes:
        texts.append(text)
        return b""

    monkeypatch.setattr(llvm_ahead, "_ENOUGH", enough)
    monkeypatch.setattr(llvm_ahead, "compile_object", note)
    target = CpuTarget.from_name("avx512")
    with Ahead(target) as ahead:
        ahead.finish(lowered(target, [ahead.take], Options(products="all", target="avx512")))
    used = [set(re.findall(r" call [^@]*(@llvm\.masked\.[\w.]+)", text)) for text in texts]
    assert any(used)
    for symbols, text in zip(used, texts, strict=True):
        assert symbols <= set(re.findall(r"^declare [^@]*(@[\w.]+)", text, re.MULTILINE))


def test_errors_come_when_the_code_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm_ahead, "_ENOUGH", 1)

    def fails(text: str, target: CpuTarget) -> bytes:
        raise CodegenError("no code")

    monkeypatch.setattr(llvm_ahead, "compile_object", fails)
    with Ahead(HOST) as ahead, pytest.raises(CodegenError, match="no code"):
        ahead.finish(lowered(HOST, [ahead.take]))


def test_a_pass_that_fails_leaves_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """What LLVM has not begun is not begun then."""
    left: list[Ahead] = []
    leave = Ahead.__exit__

    def note(self: Ahead, *error: object) -> None:
        left.append(self)
        leave(self, *error)

    monkeypatch.setattr(Ahead, "__exit__", note)
    monkeypatch.setattr(llvm_ahead, "_ENOUGH", 1)
    monkeypatch.setattr("lamella.lowering.host_to_llvm.HostToLlvm.apply", lambda *_: 1 / 0)
    with pytest.raises(Exception, match="host-to-llvm"):
        driver.compile_module(lamella.capture(network, *ARGUMENTS).module, Options(cache=False))
    (ahead,) = left
    for thread in ahead._pool._threads:
        thread.join(30)
        assert not thread.is_alive()


def test_functions_before_are_told_of_nothing() -> None:
    """Kernels may call such functions, and LLVM has to see them together."""
    told: list[object] = []
    p = KernelToLlvm()
    p.made.append(told.append)
    kernel = """
      loop.kernel @k(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[64], f32>) sizes [] grid [d0 = 64] {
        %0 = loop.load %x[d0] : !sym.t<[64], f32>
        loop.store %0, %y[d0] : !sym.t<[64], f32>
        loop.end
      }"""
    before = "llvm.func @f(%x: i64) -> i64 {\n  llvm.return %x : i64\n}"
    for text, expected in ((before + kernel, 0), (kernel, 1)):
        p.apply(make_context(), parse_module(text))
        assert len(told) == expected
