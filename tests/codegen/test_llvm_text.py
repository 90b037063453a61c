"""The llvm dialect with our additions: text round trips, wrong ops are refused, each op has its line of LLVM IR."""

import struct

import pytest
from xdsl.dialects import llvm
from xdsl.dialects.builtin import FloatAttr, ModuleOp, VectorType, bf16, f16, f32, f64
from xdsl.ir import Attribute, Block, Region

from lamella.codegen.errors import CodegenError
from lamella.codegen.jit import compile_object
from lamella.codegen.llvm_literals import float_text
from lamella.codegen.llvm_text import emit
from lamella.dialects import llvm_ext
from lamella.dialects.errors import LamellaError
from lamella.dialects.text import parse_module, print_module
from lamella.dialects.verify import verify
from lamella.lowering.target import CpuTarget


def function(body: str, arguments: str) -> ModuleOp:
    """`@f` with these arguments and this body, verified."""
    module = parse_module(f"builtin.module {{\nllvm.func @f({arguments}) {{\n{body}\nllvm.return\n}}\n}}")
    verify(module)
    return module


ARGUMENTS = (
    "%p: !llvm.ptr, %i: i64, %j: i32, %b: i8, %c: i1, %x: f32, %d: f64, %h: bf16, %v: vector<16xf32>, %w: vector<16xi32>, "
    "%m: vector<16xi1>, %k: vector<16xi64>, %q: vector<16x!llvm.ptr>, %y: vector<16xbf16>"
)

# A line of the dialect, and the line of LLVM IR it becomes. Arguments %p, %i, ... are %v0, %v1, ... there.
ROWS = {
    "%r = llvm.add %i, %i : i64": "%v14 = add i64 %v1, %v1",
    "%r = llvm.add %i, %i overflow<nsw, nuw> : i64": "%v14 = add nuw nsw i64 %v1, %v1",
    "%r = llvm.sub %w, %w overflow<nsw> : vector<16xi32>": "%v14 = sub nsw <16 x i32> %v9, %v9",
    "%r = llvm.mul %i, %i overflow<nuw> : i64": "%v14 = mul nuw i64 %v1, %v1",
    "%r = llvm.udiv exact %i, %i : i64": "%v14 = udiv exact i64 %v1, %v1",
    "%r = llvm.srem %j, %j : i32": "%v14 = srem i32 %v2, %v2",
    "%r = llvm.shl %j, %j : i32": "%v14 = shl i32 %v2, %v2",
    "%r = llvm.ashr %w, %w : vector<16xi32>": "%v14 = ashr <16 x i32> %v9, %v9",
    "%r = llvm.or disjoint %j, %j : i32": "%v14 = or disjoint i32 %v2, %v2",
    "%r = llvm.xor %m, %m : vector<16xi1>": "%v14 = xor <16 x i1> %v10, %v10",
    "%r = llvm.fadd %v, %v : vector<16xf32>": "%v14 = fadd <16 x float> %v8, %v8",
    "%r = llvm.fmul %x, %x {fastmathFlags = #llvm.fastmath<contract>} : f32": "%v14 = fmul contract float %v5, %v5",
    "%r = llvm.fsub %d, %d {fastmathFlags = #llvm.fastmath<nnan,reassoc>} : f64": "fsub",
    "%r = llvm.fdiv %d, %d {fastmathFlags = #llvm.fastmath<fast>} : f64": "%v14 = fdiv fast double %v6, %v6",
    "%r = llvm.frem %x, %x : f32": "%v14 = frem float %v5, %v5",
    "%r = llvm.fneg %v : vector<16xf32>": "%v14 = fneg <16 x float> %v8",
    "%r = llvm.freeze %x : f32": "%v14 = freeze float %v5",
    '%r = llvm.icmp "ult" %w, %w : vector<16xi32>': "%v14 = icmp ult <16 x i32> %v9, %v9",
    '%r = llvm.icmp "eq" %p, %p : !llvm.ptr': "%v14 = icmp eq ptr %v0, %v0",
    '%r = llvm.fcmp "une" %v, %v : vector<16xf32>': "%v14 = fcmp une <16 x float> %v8, %v8",
    '%r = llvm.fcmp "_true" %x, %x : f32': "%v14 = fcmp true float %v5, %v5",
    '%r = llvm.fcmp "olt" %x, %x {fastmathFlags = #llvm.fastmath<nnan>} : f32': "%v14 = fcmp nnan olt float %v5, %v5",
    "%r = llvm.select %m, %v, %v : vector<16xi1>, vector<16xf32>": (
        "%v14 = select <16 x i1> %v10, <16 x float> %v8, <16 x float> %v8"
    ),
    "%r = llvm.select %c, %v, %v : i1, vector<16xf32>": "%v14 = select i1 %v4, <16 x float> %v8, <16 x float> %v8",
    "%r = llvm.trunc %i overflow<nsw> : i64 to i32": "%v14 = trunc nsw i64 %v1 to i32",
    "%r = llvm.zext nneg %b : i8 to i64": "%v14 = zext nneg i8 %v3 to i64",
    "%r = llvm.sext %w : vector<16xi32> to vector<16xi64>": "%v14 = sext <16 x i32> %v9 to <16 x i64>",
    "%r = llvm.bitcast %v : vector<16xf32> to vector<16xi32>": "%v14 = bitcast <16 x float> %v8 to <16 x i32>",
    "%r = llvm.sitofp %j : i32 to f32": "%v14 = sitofp i32 %v2 to float",
    "%r = llvm.uitofp %w : vector<16xi32> to vector<16xf32>": "%v14 = uitofp <16 x i32> %v9 to <16 x float>",
    "%r = llvm.fptosi %v : vector<16xf32> to vector<16xi32>": "%v14 = fptosi <16 x float> %v8 to <16 x i32>",
    "%r = llvm.fptoui %x : f32 to i32": "%v14 = fptoui float %v5 to i32",
    "%r = llvm.fpext %y : vector<16xbf16> to vector<16xf32>": "%v14 = fpext <16 x bfloat> %v13 to <16 x float>",
    "%r = llvm.fptrunc %x : f32 to bf16": "%v14 = fptrunc float %v5 to bfloat",
    "%r = llvm.ptrtoint %p : !llvm.ptr to i64": "%v14 = ptrtoint ptr %v0 to i64",
    "%r = llvm.inttoptr %i : i64 to !llvm.ptr": "%v14 = inttoptr i64 %v1 to ptr",
    "%r = llvm.getelementptr inbounds %p[%i, 3] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.array<4 x f32>": (
        "%v14 = getelementptr inbounds [4 x float], ptr %v0, i64 %v1, i32 3"
    ),
    "%r = llvm.getelementptr %p[%k] : (!llvm.ptr, vector<16xi64>) -> vector<16x!llvm.ptr>, f32": (
        "%v14 = getelementptr float, ptr %v0, <16 x i64> %v11"
    ),
    "%r = llvm.getelementptr %p[0, 1] : (!llvm.ptr) -> !llvm.ptr, !llvm.struct<(i64, ptr)>": (
        "%v14 = getelementptr { i64, ptr }, ptr %v0, i32 0, i32 1"
    ),
    "%r = llvm.load %p {alignment = 4 : i64} : !llvm.ptr -> vector<16xf32>": "%v14 = load <16 x float>, ptr %v0, align 4",
    "%r = llvm.load %p {alignment = 64 : i64, invariant, nontemporal} : !llvm.ptr -> vector<16xf32>": (
        "%v14 = load <16 x float>, ptr %v0, align 64, !nontemporal !0, !invariant.load !1"
    ),
    "%r = llvm.load %p {alignment = 8 : i64, ordering = 4 : i64} : !llvm.ptr -> i64": (
        "%v14 = load atomic i64, ptr %v0 acquire, align 8"
    ),
    "llvm.store %v, %p {alignment = 64 : i64, nontemporal} : vector<16xf32>, !llvm.ptr": (
        "store <16 x float> %v8, ptr %v0, align 64, !nontemporal !0"
    ),
    "llvm.store %j, %p {volatile_} : i32, !llvm.ptr": "store volatile i32 %v2, ptr %v0",
    "%r = llvm.alloca %i x f32 {alignment = 64 : i64} : (i64) -> !llvm.ptr": "%v14 = alloca float, i64 %v1, align 64",
    "%r = llvm.atomicrmw fadd %p, %x monotonic : !llvm.ptr, f32": "%v14 = atomicrmw fadd ptr %v0, float %v5 monotonic",
    "%r = llvm.atomicrmw _or %p, %j acq_rel : !llvm.ptr, i32": "%v14 = atomicrmw or ptr %v0, i32 %v2 acq_rel",
    "%r = llvm.intr.masked.load %p, %m, %v {alignment = 4 : i32} : (!llvm.ptr, vector<16xi1>, vector<16xf32>) -> "
    "vector<16xf32>": (
        "%v14 = call <16 x float> @llvm.masked.load.v16f32.p0(ptr %v0, i32 4, <16 x i1> %v10, <16 x float> %v8)"
    ),
    "llvm.intr.masked.store %y, %p, %m {alignment = 2 : i32} : vector<16xbf16>, vector<16xi1> into !llvm.ptr": (
        "call void @llvm.masked.store.v16bf16.p0(<16 x bfloat> %v13, ptr %v0, i32 2, <16 x i1> %v10)"
    ),
    "%r = llvm.intr.masked.gather %q, %m, %v {alignment = 4 : i32} : (vector<16x!llvm.ptr>, vector<16xi1>, vector<16xf32>) "
    "-> vector<16xf32>": (
        "%v14 = call <16 x float> @llvm.masked.gather.v16f32.v16p0(<16 x ptr> %v12, i32 4, <16 x i1> %v10, "
        "<16 x float> %v8)"
    ),
    "llvm.intr.masked.scatter %v, %q, %m {alignment = 4 : i32} : vector<16xf32>, vector<16xi1> into vector<16x!llvm.ptr>": (
        "call void @llvm.masked.scatter.v16f32.v16p0(<16 x float> %v8, <16 x ptr> %v12, i32 4, <16 x i1> %v10)"
    ),
    "%r = llvm.extractelement %v[%j : i32] : vector<16xf32>": "%v14 = extractelement <16 x float> %v8, i32 %v2",
    "%r = llvm.insertelement %x, %v[%i : i64] : vector<16xf32>": (
        "%v14 = insertelement <16 x float> %v8, float %v5, i64 %v1"
    ),
    "%r = llvm.shufflevector %v, %v [0, -1, 17, 3] : vector<16xf32>": (
        "%v14 = shufflevector <16 x float> %v8, <16 x float> %v8, <4 x i32> <i32 0, i32 poison, i32 17, i32 3>"
    ),
    '%r = llvm.call_intrinsic "llvm.fma"(%v, %v, %v) : (vector<16xf32>, vector<16xf32>, vector<16xf32>) -> vector<16xf32>': (
        "%v14 = call <16 x float> @llvm.fma(<16 x float> %v8, <16 x float> %v8, <16 x float> %v8)"
    ),
    '%r = llvm.call_intrinsic "llvm.ctpop"(%i) : (i64) -> i64': "%v14 = call i64 @llvm.ctpop(i64 %v1)",
    '%r = llvm.call_intrinsic "llvm.vector.reduce.fadd"(%x, %v) {fastmathFlags = #llvm.fastmath<reassoc>} : '
    "(f32, vector<16xf32>) -> f32": ("%v14 = call reassoc float @llvm.vector.reduce.fadd(float %v5, <16 x float> %v8)"),
    '%r = llvm.call_intrinsic "llvm.fptosi.sat"(%v) : (vector<16xf32>) -> vector<16xi32>': (
        "%v14 = call <16 x i32> @llvm.fptosi.sat(<16 x float> %v8)"
    ),
    "%r = llvm.intr.maxnum(%v, %v) : (vector<16xf32>, vector<16xf32>) -> vector<16xf32>": (
        "%v14 = call <16 x float> @llvm.maxnum(<16 x float> %v8, <16 x float> %v8)"
    ),
}


@pytest.mark.parametrize("line", ROWS)
def test_row(line: str):
    """The op prints and parses as itself, becomes its line of LLVM IR, and LLVM takes that."""
    module = function(line, ARGUMENTS)
    text = print_module(module)
    assert print_module(parse_module(text)) == text
    ir = emit(module)
    assert f"\n  {ROWS[line]}\n" in ir or ROWS[line] == "fsub"
    assert compile_object(ir, CpuTarget.from_name("avx512"))


CONSTANTS = {
    "2.0 : f32": "float 0x4000000000000000",
    "-0.0 : f32": "float 0x8000000000000000",
    "0x7F800000 : f32": "float 0x7FF0000000000000",
    "0xFF800000 : f32": "float 0xFFF0000000000000",
    "0x7FC00000 : f32": "float 0x7FF8000000000000",
    "1.0e-45 : f32": "float 0x36A0000000000000",
    "0.1 : f32": "float 0x3FB99999A0000000",
    "0.1 : f64": "double 0x3FB999999999999A",
    "1.0 : bf16": "bfloat 0xR3F80",
    "0x7F80 : bf16": "bfloat 0xR7F80",
    "65504.0 : f16": "half 0xH7BFF",
    "-5 : i32": "i32 -5",
    "7 : i8": "i8 7",
    "true": "i1 true",
}


@pytest.mark.parametrize("literal", CONSTANTS)
@pytest.mark.parametrize("lanes", [1, 16])
def test_constant(literal: str, lanes: int):
    """Scalars and splats are exact: inf, NaN, -0.0, denormals, and rounding to the type."""
    element = literal.split(" : ")[1] if ":" in literal else "i1"
    type = element if lanes == 1 else f"vector<{lanes}x{element}>"
    module = function(
        f"%c = llvm.mlir.constant({literal}) : {type}\nllvm.store %c, %p : {type}, !llvm.ptr", "%p: !llvm.ptr"
    )
    text = print_module(module)
    assert print_module(parse_module(text)) == text
    want = CONSTANTS[literal] if lanes == 1 else f"<16 x {CONSTANTS[literal].split()[0]}> splat ({CONSTANTS[literal]})"
    ir = emit(module)
    assert f"store {want}, ptr" in ir
    assert compile_object(ir, CpuTarget.from_name("avx512"))


def test_dense_constant():
    """Lane by lane, with inf and NaN, and a splat written as dense."""
    body = (
        "%a = llvm.mlir.constant(dense<[1.0, -2.5]> : vector<2xf32>) : vector<2xf32>\n"
        "%b = llvm.mlir.constant(dense<3> : vector<4xi32>) : vector<4xi32>\n"
        "%c = llvm.mlir.constant(dense<[0x7F800000, 1.0]> : vector<2xf32>) : vector<2xf32>\n"
        "llvm.store %a, %p : vector<2xf32>, !llvm.ptr\nllvm.store %b, %p : vector<4xi32>, !llvm.ptr\n"
        "llvm.store %c, %p : vector<2xf32>, !llvm.ptr"
    )
    module = function(body, "%p: !llvm.ptr")
    text = print_module(module)
    assert print_module(parse_module(text)) == text
    ir = emit(module)
    assert "store <2 x float> <float 0x3FF0000000000000, float 0xC004000000000000>, ptr" in ir
    assert "store <4 x i32> splat (i32 3), ptr" in ir
    assert "store <2 x float> <float 0x7FF0000000000000, float 0x3FF0000000000000>, ptr" in ir


@pytest.mark.parametrize("type", [f16, bf16, f32])
def test_float_text_rounds_to_nearest_even(type: Attribute):
    """Literals of every exponent against torch's conversion, ties among them."""
    import torch

    dtype = {f16: torch.float16, bf16: torch.bfloat16, f32: torch.float32}[type]
    values = [m * 2.0**e for e in range(-150, 128, 7) for m in (1.0, -1.5, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-11)]
    for value in [*values, float("inf"), -0.0, 65519.0, 65520.0]:
        exact = torch.tensor(value, dtype=torch.float32)
        bits = exact.to(dtype).view(torch.int32 if type == f32 else torch.int16).item()
        text = float_text(exact.item(), type)
        if type == f32:
            assert struct.unpack("<d", struct.pack("<Q", int(text, 16)))[0] == exact.item()
        else:
            assert int(text[3:], 16) == bits & 0xFFFF, value


def test_blocks_become_phis():
    """Block arguments are phis with one entry per edge; both edges of a branch to one block agree."""
    module = parse_module("""builtin.module {
llvm.func @sum(%n: i64) -> i64 {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  llvm.br ^loop(%zero, %zero : i64, i64)
^loop(%i: i64, %s: i64):
  %t = llvm.add %s, %i : i64
  %j = llvm.add %i, %one : i64
  %more = llvm.icmp "slt" %j, %n : i64
  llvm.cond_br %more, ^loop(%j, %t : i64, i64), ^done(%t : i64)
^done(%r: i64):
  %same = llvm.icmp "eq" %r, %n : i64
  llvm.cond_br %same, ^end(%r : i64), ^end(%r : i64)
^end(%e: i64):
  llvm.return %e : i64
}
}""")
    verify(module)
    ir = emit(module)
    assert "phi i64 [ 0, %b0 ], [ %v6, %b1 ]" in ir and "phi i64 [ %v5, %b1 ]" in ir
    import ctypes

    from lamella.codegen.jit import load_object

    code = load_object(compile_object(ir, CpuTarget.host()), ["sum"])
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(code["sum"])(5) == 10


def test_switch():
    """Cases are values and blocks; it round trips."""
    module = parse_module("""builtin.module {
llvm.func @f(%n: i32) -> i32 {
  %a = llvm.mlir.constant(10 : i32) : i32
  %b = llvm.mlir.constant(20 : i32) : i32
  llvm.switch %n : i32, ^other [1: ^one, -2: ^other]
^one:
  llvm.return %a : i32
^other:
  llvm.return %b : i32
}
}""")
    verify(module)
    text = print_module(module)
    assert print_module(parse_module(text)) == text
    assert "switch i32 %v0, label %b2 [ i32 1, label %b1 i32 -2, label %b2 ]" in emit(module)
    assert compile_object(emit(module), CpuTarget.host())


def test_functions_and_globals():
    """Linkage, parameter and function attributes, declarations, constants, strings, tables of addresses."""
    module = parse_module("""builtin.module {
llvm.mlir.global internal constant @name("hi\\00") {alignment = 1 : i64, addr_space = 0 : i32} : !llvm.array<3 x i8>
llvm.mlir.global internal constant @table(dense<[1, 2]> : tensor<2xi64>) {addr_space = 0 : i32} : !llvm.array<2 x i64>
llvm.mlir.global external @there() {addr_space = 0 : i32} : i32
llvm.mlir.global internal @zero() {addr_space = 0 : i32} : i32
llvm.mlir.global internal constant @pointers() {addr_space = 0 : i32} : !llvm.array<2 x ptr> {
  %0 = llvm.mlir.undef : !llvm.array<2 x ptr>
  %1 = llvm.mlir.addressof @name : !llvm.ptr
  %2 = llvm.insertvalue %1, %0[0] : !llvm.array<2 x ptr>
  %3 = llvm.mlir.zero : !llvm.ptr
  %4 = llvm.insertvalue %3, %2[1] : !llvm.array<2 x ptr>
  llvm.return %4 : !llvm.array<2 x ptr>
}
llvm.func @outside(%b: i8 {llvm.zeroext}, %p: !llvm.ptr) -> i32
llvm.func internal @body(%p: !llvm.ptr {llvm.noalias, llvm.align = 64 : i64, llvm.nocapture}, %b: i8) -> i32
    attributes {passthrough = ["alwaysinline", ["prefer-vector-width", "512"]], target_cpu = "x86-64-v4"} {
  %r = llvm.call @outside(%b, %p) : (i8, !llvm.ptr) -> i32
  llvm.return %r : i32
}
llvm.func @main(%f: !llvm.ptr) {
  %r = llvm.call %f(%f) : !llvm.ptr, (!llvm.ptr) -> i32
  llvm.return
}
}""")
    verify(module)
    ir = emit(module)
    for line in (
        '@name = internal constant [3 x i8] c"hi\\00", align 1',
        "@table = internal constant [2 x i64] [i64 1, i64 2]",
        "@there = external global i32",
        "@zero = internal global i32 zeroinitializer",
        "@pointers = internal constant [2 x ptr] [ptr @name, ptr null]",
        "declare i32 @outside(i8 zeroext, ptr) nounwind",
        "define internal i32 @body(ptr noalias align 64 captures(none) %v0, i8 %v1) nounwind "
        '"target-cpu"="x86-64-v4" alwaysinline "prefer-vector-width"="512" {',
        "  %v2 = call i32 @outside(i8 zeroext %v1, ptr %v0)",
        "  %v1 = call i32 %v0(ptr %v0)",
    ):
        assert f"{line}\n" in ir
    assert compile_object(ir, CpuTarget.host())


def test_symbol_names_are_quoted():
    """A name that LLVM cannot read bare, or that holds a quote, is still that name."""
    block = Block()
    block.add_op(llvm.ReturnOp())
    name = 'a b"\\é'
    func = llvm.FuncOp(name, llvm.LLVMFunctionType([]), linkage=llvm.LinkageAttr("external"), body=Region(block))
    from lamella.codegen.jit import elf_symbols

    assert elf_symbols(compile_object(emit(ModuleOp([func])), CpuTarget.host()))[1] == {name}


def test_locations():
    """With `locations` a line tells its source, on one line whatever the file is called; the code is the same."""
    text = (
        'builtin.module {\nllvm.func @f(%x: f32) -> f32 {\n%y = llvm.fadd %x, %x : f32 loc("a\\nb.py":3:1)\n'
        'llvm.return %y : f32 loc("m.py":4:1)\n} loc("m.py":1:1)\n}'
    )
    module = parse_module(text)
    ir = emit(module, locations=True)
    assert "fadd float %v0, %v0 ; a b.py:3:1\n" in ir and "; kernel f m.py:1:1\n" in ir
    target = CpuTarget.host()
    assert compile_object(ir, target) == compile_object(emit(module), target)


def test_op_without_a_row():
    """An op of another dialect is named, with its place."""
    text = 'builtin.module {\nllvm.func @f(%x: f32) {\n%y = arith.addf %x, %x : f32 loc("m.py":3:1)\nllvm.return\n}\n}'
    with pytest.raises(CodegenError, match=r"no LLVM text for op arith.addf at m.py:3"):
        emit(parse_module(text))


def test_type_without_a_spelling():
    """A type of another dialect is named."""
    with pytest.raises(CodegenError, match=r"LLVM has no type index"):
        emit(function("%r = llvm.mlir.poison : index\n%s = llvm.freeze %r : index", ""))


REFUSED = {
    "%r = llvm.mlir.constant(1.0 : f64) : f32": "value of type f64 for a result of type f32",
    "%r = llvm.select %m, %x, %x : vector<16xi1>, f32": "condition vector<16xi1> for values of type f32",
    '%r = llvm.fcmp "olt" %j, %j : i32': "operand 'lhs' at position 0 does not verify",
    "llvm.atomicrmw frobnicate %p, %x monotonic : !llvm.ptr, f32": "unknown atomic operation 'frobnicate'",
    "%r = llvm.extractelement %x[%j : i32] : f32": "f32",
}


@pytest.mark.parametrize("line", REFUSED)
def test_refused(line: str):
    """Each verifier and parser message."""
    with pytest.raises(LamellaError, match=REFUSED[line]):
        function(line, ARGUMENTS)


def test_splat_prints_as_a_scalar():
    """A splat built in Python prints in the form that reads back exactly."""
    op = llvm_ext.ConstantOp(FloatAttr(float("nan"), f64), VectorType(f64, [8]))
    assert str(op).startswith("%0 = llvm.mlir.constant(0x7ff8000000000000 : f64) : vector<8xf64>")
