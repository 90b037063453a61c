"""One module compiled as several parts is the same program."""

import ctypes
import os
import re
import subprocess
from pathlib import Path

import pytest
from xdsl.dialects import llvm
from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr, UnitAttr

from lamella.codegen.archive import pack, unpack
from lamella.codegen.errors import CodegenError
from lamella.codegen.jit import compile_object, compile_objects, elf_symbols, load_object
from lamella.codegen.llvm_ahead import Ahead
from lamella.codegen.llvm_parts import emit_parts
from lamella.codegen.llvm_text import emit
from lamella.dialects.text import parse_module
from lamella.lowering.target import CpuTarget

HOST = CpuTarget.host()


def program(kernels: int, length: int) -> ModuleOp:
    """`@main(x)` = the sum of kernels k(x) = x + k*length + table[0], each with an internal body, a shared helper and table."""
    text = [
        "builtin.module {",
        "llvm.mlir.global private constant @table(dense<[100, 7]> : tensor<2xi64>) {addr_space = 0 : i32} : "
        "!llvm.array<2 x i64>",
        "llvm.func internal @helper(%x: i64) -> i64 {",
        "  %t = llvm.mlir.addressof @table : !llvm.ptr",
        "  %v = llvm.load %t : !llvm.ptr -> i64",
        "  %r = llvm.add %x, %v : i64",
        "  llvm.return %r : i64\n}",
    ]
    for k in range(kernels):
        adds = "\n".join(f"  %x{i + 1} = llvm.add %x{i}, %k : i64" for i in range(length))
        text.append(
            f"llvm.func internal @body{k}(%x0: i64) -> i64 {{\n  %k = llvm.mlir.constant({k} : i64) : i64\n{adds}\n"
            f"  llvm.return %x{length} : i64\n}}\n"
            f"llvm.func @kernel{k}(%x: i64) -> i64 {{\n  %y = llvm.call @body{k}(%x) : (i64) -> i64\n"
            f"  %z = llvm.call @helper(%y) : (i64) -> i64\n  llvm.return %z : i64\n}}"
        )
    calls = "\n".join(
        f"  %y{k} = llvm.call @kernel{k}(%x) : (i64) -> i64\n  %s{k + 1} = llvm.add %s{k}, %y{k} : i64"
        for k in range(kernels)
    )
    text.append(
        f"llvm.func @main(%x: i64) -> i64 {{\n  %s0 = llvm.mlir.constant(0 : i64) : i64\n{calls}\n"
        f"  llvm.return %s{kernels} : i64\n}}\n}}"
    )
    return parse_module("\n".join(text))


def answer(code: bytes, x: int) -> int:
    loaded = load_object(code, ["main"])
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(loaded["main"])(x)


def test_parts_are_the_same_program():
    """Several parts, each external function in one of them, give what the whole gives."""
    module = program(6, 500)
    want = sum(3 + k * 500 + 100 for k in range(6))
    assert answer(compile_object(emit(module), HOST), 3) == want
    texts = emit_parts(module, 4)
    assert len(texts) == 4
    objects = compile_objects(texts, HOST, threads=2)
    defined = [symbol for obj in objects for symbol in elf_symbols(obj)[1]]
    assert sorted(defined) == sorted(["main", *(f"kernel{k}" for k in range(6))])
    assert answer(pack(objects), 3) == want
    assert answer(Ahead(HOST).finish(module), 3) == want


def test_as_many_parts_as_there_is_work_for():
    """More cores than work do not make parts that are not worth it."""
    texts = emit_parts(program(6, 300), 64)
    assert 2 <= len(texts) <= 4


def test_small_module_is_one_part():
    """What compiles in no time is not cut up."""
    module = program(3, 5)
    assert emit_parts(module, 8) == [emit(module)]


@pytest.mark.parametrize("cores", [1, 4])
def test_what_is_not_optimized_is_a_part_by_itself(cores: int):
    """Local functions that it calls stay in the other parts, where they are optimized, and which may lie anywhere."""
    module = program(6, 500)
    main = next(op for op in module.ops if isinstance(op, llvm.FuncOp) and op.sym_name.data == "main")
    main.properties |= {"optimize_none": UnitAttr(), "no_inline": UnitAttr()}
    body = next(op for op in module.ops if isinstance(op, llvm.FuncOp) and op.sym_name.data == "body5")
    for call in [op for op in main.walk() if isinstance(op, llvm.CallOp) and op.callee == SymbolRefAttr("kernel5")]:
        call.properties["callee"] = SymbolRefAttr(body.sym_name.data)
    plain, *others = emit_parts(module, cores)
    assert len(others) == cores
    assert [line for line in plain.splitlines() if line.startswith("define")] == [
        "define i64 @main(i64 %v0) nounwind noinline optnone {"
    ]
    assert "declare i64 @body5" in plain and "optnone" not in "".join(others)
    assert not re.search(r"^(define|declare) hidden", "\n".join([plain, *others]), re.MULTILINE)
    want = sum(3 + k * 500 + 100 for k in range(6)) - 100
    assert answer(pack(compile_objects([plain, *others], HOST)), 3) == want


def test_module_with_a_variable_is_one_part():
    """A local variable that functions share must stay one."""
    module = program(6, 500)
    extra = parse_module(
        "builtin.module {\nllvm.mlir.global internal @count(0 : i64) {addr_space = 0 : i32} : i64\n}"
    ).body.block.first_op
    assert extra is not None
    extra.detach()
    module.body.block.add_op(extra)
    assert len(emit_parts(module, 4)) == 1


def test_archive_round_trip():
    """Odd and even sizes come back; one object is itself; damage is found."""
    assert unpack(pack([b"a", b"", b"bcd", b"ef"])) == [b"a", b"", b"bcd", b"ef"]
    assert pack([b"x"]) == b"x" and unpack(b"x") == [b"x"]
    whole = pack([b"a" * 100, b"b" * 100])
    for damaged in (whole[:-1], whole[:70], whole[:8] + b"x" * 60):
        with pytest.raises(CodegenError, match="damaged archive"):
            unpack(damaged)


def test_archive_links(tmp_path: Path):
    """`ld` makes a shared library of the archive."""
    code = Ahead(HOST).finish(program(6, 500)) if HOST.cores > 1 else None
    if code is None or not os.path.exists("/usr/bin/ld"):
        pytest.skip("no linker, or one core")
    (tmp_path / "k.a").write_bytes(code)
    command = ["ld", "-shared", "-o", "k.so", "--whole-archive", "k.a"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert ctypes.CDLL(str(tmp_path / "k.so")).main(3) == sum(3 + k * 500 + 100 for k in range(6))
