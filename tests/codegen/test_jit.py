"""LLVM text to machine code and back into the process; what LLVM cannot take is an error, never the process's end."""

import ctypes
import gc
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

from lamella.codegen.errors import CodegenError
from lamella.codegen.imports import IMPORTS, WRAP
from lamella.codegen.jit import compile_isolated, compile_object, compile_objects, elf_symbols, load_object
from lamella.dialects.errors import LamellaError
from lamella.lowering.target import CpuTarget, cpu_of

HOST = CpuTarget.host()

DOUBLE = """
define void @double(ptr %x) {
  %v = load float, ptr %x
  %w = fadd float %v, %v
  store float %w, ptr %x
  ret void
}
"""


def test_compile_load_call():
    """A function of text runs, and its object names what it defines."""
    obj = compile_object(DOUBLE, HOST)
    assert elf_symbols(obj) == (set(), {"double"})
    loaded = load_object(obj, ["double"])
    x = np.array([1.5], "f4")
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(loaded["double"])(x.ctypes.data)
    assert x[0] == 3.0


def test_same_text_same_object():
    """Compiling is deterministic: the cache may be keyed by text."""
    assert compile_object(DOUBLE, HOST) == compile_object(DOUBLE, HOST)


def test_many_in_parallel():
    """Objects come back in the order of their texts, each with its own code, from several threads at once."""
    texts = [f"define i32 @f() {{ ret i32 {i} }}" for i in range(40)]
    loaded = [load_object(obj, ["f"]) for obj in compile_objects(texts, HOST, threads=4)]
    assert [ctypes.CFUNCTYPE(ctypes.c_int32)(code["f"])() for code in loaded] == list(range(40))


def test_error_in_parallel():
    """One bad text among many is the error that is raised."""
    with pytest.raises(CodegenError, match="line 1"):
        compile_objects(["define void @f() { ret void }", "nonsense"], HOST, threads=2)


def test_import_given_by_address():
    """An address that is handed in wins over the registry."""
    called: list[int] = []
    callback = ctypes.CFUNCTYPE(None, ctypes.c_int32)(called.append)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    assert address is not None
    text = "declare void @memcpy(i32)\ndefine void @f() {\n  call void @memcpy(i32 7)\n  ret void\n}"
    loaded = load_object(compile_object(text, HOST), ["f"], {"memcpy": address})
    ctypes.CFUNCTYPE(None)(loaded["f"])()
    assert called == [7]


def test_registry_finds_every_family():
    """OpenMP, torch's C shim, SLEEF, CPython, libm and libc; nothing for a name nobody has."""
    names = ["GOMP_parallel", "GOMP_barrier", "omp_get_thread_num", "omp_get_num_threads", "aoti_torch_get_data_ptr"]
    names += ["Sleef_expf8_u10", "PyObject_Vectorcall", "_Py_NoneStruct", "expf", "memcpy", "memset", WRAP]
    assert all(IMPORTS.resolve(names).values())
    assert IMPORTS.find("no_such_function") is None
    with pytest.raises(CodegenError, match="no_such_function, which no library"):
        text = "declare void @no_such_function()\ndefine void @f() {\n  call void @no_such_function()\n  ret void\n}"
        load_object(compile_object(text, HOST), ["f"])


def test_openmp_is_torchs_own():
    """`torch.set_num_threads` is seen through the registry's symbol, so the threads are torch's."""
    address = IMPORTS.find("omp_get_max_threads")
    assert address is not None
    before = torch.get_num_threads()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            assert ctypes.CFUNCTYPE(ctypes.c_int32)(address)() == count
    finally:
        torch.set_num_threads(before)


def test_wrap_makes_a_tensor():
    """The function behind WRAP gives a Python tensor of the at::Tensor it is handed."""
    address = IMPORTS.find(WRAP)
    assert address is not None
    new = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(
        IMPORTS.find("aoti_torch_new_tensor_handle")
    )
    x = torch.arange(3)
    handle, tensor_in_object = ctypes.c_void_p(), id(x) + 16
    assert new(tensor_in_object, ctypes.byref(handle)) == 0
    y = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p)(address)(handle)
    assert torch.equal(x, y)


def test_dropped_object_frees_its_code():
    """Loading and dropping many objects does not keep their memory."""

    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    obj = compile_object("@big = global [262144 x i32] zeroinitializer\n" + DOUBLE, HOST)
    for _ in range(10):
        load_object(obj, ["double"])
    gc.collect()
    before = resident()
    for _ in range(100):
        load_object(obj, ["double"])
    gc.collect()
    assert resident() - before < 50 << 20


def test_load_from_many_threads():
    """Linking is safe from several threads."""
    obj = compile_object(DOUBLE, HOST)
    errors: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(20):
                load_object(obj, ["double"])
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


@pytest.mark.parametrize("damage", ["empty", "short", "text", "machine"])
def test_damaged_object(damage: str):
    """Bytes that are not an object of this machine are refused before LLVM sees them."""
    obj = compile_object(DOUBLE, HOST)
    bad = {"empty": b"", "short": obj[:300], "text": b"\x7fELF", "machine": obj[:18] + b"\x28\0" + obj[20:]}[damage]
    with pytest.raises(CodegenError, match="object file"):
        load_object(bad, ["double"])


def test_missing_symbol():
    """Asking for what the object lacks names it."""
    with pytest.raises(CodegenError, match="defines no triple"):
        load_object(compile_object(DOUBLE, HOST), ["triple"])


REJECTED = {
    "syntax": ("define void @f() {\n  nonsense\n}", r"line 2: .*\n  nonsense"),
    "undefined": ("define i32 @f() {\n  ret i32 %x\n}", "line 2: use of undefined value '%x'"),
    "types": ("define i32 @f(float %x) {\n  %y = add i32 %x, 1\n  ret i32 %y\n}", "line 2"),
    "dominance": (
        "define i32 @f(i1 %c) {\n  br i1 %c, label %a, label %b\na:\n  %x = add i32 1, 2\n  br label %b\nb:\n  ret i32 %x\n}",
        "does not dominate",
    ),
    "unknown intrinsic": ("define void @f() {\n  call void @llvm.nosuch()\n  ret void\n}", "llvm.nosuch"),
    "signature": ("define void @f(float %x) {\n  %y = call i32 @llvm.fma(float %x)\n  ret void\n}", "line 2"),
    "other machine": ("define void @f() {\n  call void @llvm.aarch64.hint(i32 1)\n  ret void\n}", "llvm.aarch64.hint"),
    "scalable": (
        "define <vscale x 4 x float> @f(<vscale x 4 x float> %p) {\n  ret <vscale x 4 x float> %p\n}",
        "vscale",
    ),
    "assembly": ('define void @f() {\n  call void asm "nosuch", ""()\n  ret void\n}', "line 2.*asm"),
    "features": ('define float @f(float %x) "target-features"="-sse" {\n  ret float %x\n}', "target-features"),
    "register": (
        'define i64 @f() {\n  %x = call i64 @llvm.read_register.i64(metadata !0)\n  ret i64 %x\n}\n!0 = !{!"no"}',
        "read_register",
    ),
    "nul": ("define void @f() { ret void }\0", "not supported"),
    "surrogate": ("define void @f\udcff() { ret void }", "not Unicode"),
    "triple": ('target triple = "x"\ndefine void @f() { ret void }', "triple"),
}


@pytest.mark.parametrize("name", REJECTED)
def test_bad_text_is_an_error(name: str):
    """Each kind of wrong text gives one CodegenError that says where or what; many of these end the process in LLVM."""
    text, message = REJECTED[name]
    with pytest.raises(CodegenError, match=message):
        compile_object(text, HOST)


def test_intrinsic_the_target_lacks():
    """AVX-512 intrinsics are an error for a target without, where LLVM would abort."""
    text = (
        "define <16 x float> @f(<16 x float> %x) {\n  %y = call <16 x float> @llvm.x86.avx512.mask.scalef.ps.512("
        "<16 x float> %x, <16 x float> %x, <16 x float> %x, i16 -1, i32 4)\n  ret <16 x float> %y\n}"
    )
    assert compile_object(text, CpuTarget.from_name("avx512"))
    with pytest.raises(CodegenError, match=r"scalef.*avx2, which lacks it"):
        compile_object(text, CpuTarget.from_name("avx2"))


def test_isolated_survives_an_abort():
    """Text that ends LLVM's process ends only the process it was given to."""
    assert compile_isolated(DOUBLE, HOST) == compile_object(DOUBLE, HOST)
    with pytest.raises(CodegenError, match="line 1"):
        compile_isolated("nonsense", HOST)
    with pytest.raises(CodegenError, match="gave up"):
        compile_isolated("define void @f(" + "{" * 100_000 + "}" * 100_000 + " %x) {\n  ret void\n}", HOST)


@pytest.mark.parametrize("name", ["avx512", "avx2", "baseline", "neon"])
def test_named_targets_compile(name: str):
    """Every named target gives an object of its machine, with vectors of its width."""
    target = CpuTarget.from_name(name)
    lanes = target.lanes(32)
    text = f"define <{lanes} x float> @f(<{lanes} x float> %x) {{\n  ret <{lanes} x float> %x\n}}"
    machine = int.from_bytes(compile_object(text, target)[18:20], "little")
    assert machine == (183 if name == "neon" else 62)


def test_unknown_target():
    """The error lists what there is."""
    with pytest.raises(LamellaError, match="unknown target 'z80'; there are avx512, amx, zen4, avx2, baseline, neon"):
        CpuTarget.from_name("z80")


def test_cpu_by_features():
    """The name follows the features, whatever the hypervisor calls the CPU; none at all is plain x86-64."""
    assert cpu_of({"amx-bf16": True, "avx512bf16": True, "avx512vbmi2": True, "avx2": True}) == "sapphirerapids"
    assert cpu_of({"sse4a": True, "avx2": True, "vaes": True}) == "znver3"
    assert cpu_of({}) == "x86-64"


def test_host_is_consistent():
    """The host's flags agree with its vector width, and it is made once."""
    assert HOST is CpuTarget.host()
    assert HOST.vector_bits == (512 if HOST.has_avx512 else 256 if HOST.has_fma and "+avx2" in HOST.features else 128)
    assert HOST.cores >= 1 and HOST.l1 <= HOST.l2 <= HOST.l3


def test_import_is_light():
    """Importing the JIT does not import torch."""
    code = "import sys, lamella.codegen.jit, lamella.codegen.cache; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
