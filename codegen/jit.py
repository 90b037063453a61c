"""LLVM IR text to an object file, and an object file to addresses in this process.

LLVM is llvmlite's shared library, called directly: llvmlite's own wrappers hold one global lock, and with a context per
call several threads compile at once. Only code generation runs, as our text has its vectors spelt out: at level 2, and
at level 0 for a text that has nothing but functions which are not to be optimized.
"""

import ctypes
import os
import pickle
import platform
import re
import struct
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import count
from typing import TYPE_CHECKING

from .archive import unpack
from .errors import CodegenError
from .imports import IMPORTS
from .llvm_guard import check_text
from .target import CpuTarget

if TYPE_CHECKING:
    from llvmlite.binding.orcjit import LLJIT, ResourceTracker

_P, _S, _I = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
_ERROR = ctypes.POINTER(ctypes.c_char_p)

_PROTOTYPES: dict[str, tuple[type | None, tuple[type, ...]]] = {
    "LLVMPY_ContextCreate": (_P, ()),
    "LLVMPY_ContextDispose": (None, (_P,)),
    "LLVMPY_ParseAssembly": (_P, (_P, _S, _ERROR)),
    "LLVMPY_VerifyModule": (_I, (_P, _ERROR)),
    "LLVMPY_DisposeModule": (None, (_P,)),
    "LLVMPY_GetTargetFromTriple": (_P, (_S, _ERROR)),
    "LLVMPY_CreateTargetMachine": (_P, (_P, _S, _S, _S, _I, _S, _S, _I, _I, _S)),
    "LLVMPY_DisposeTargetMachine": (None, (_P,)),
    "LLVMPY_CreateTargetMachineData": (_P, (_P,)),
    "LLVMPY_CopyStringRepOfTargetData": (None, (_P, _ERROR)),
    "LLVMPY_DisposeTargetData": (None, (_P,)),
    "LLVMPY_TargetMachineEmitToMemory": (_P, (_P, _P, _I, _ERROR)),
    "LLVMPY_GetBufferStart": (_P, (_P,)),
    "LLVMPY_GetBufferSize": (ctypes.c_size_t, (_P,)),
    "LLVMPY_DisposeMemoryBuffer": (None, (_P,)),
    "LLVMPY_DisposeString": (None, (_S,)),
}


@cache
def _llvm() -> ctypes.CDLL:
    """llvmlite's library with all its targets ready, and none of its locks."""
    import llvmlite.binding as binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    path = binding.ffi.lib._name
    # A call that gives up Python's lock waits for it at the end, for milliseconds where Python code runs meanwhile:
    # only what takes longer than that does.
    library, long = ctypes.PyDLL(path), ctypes.CDLL(path)
    for name, (result, arguments) in _PROTOTYPES.items():
        function = (long if name == "LLVMPY_TargetMachineEmitToMemory" else library)[name]
        function.restype, function.argtypes = result, arguments
        setattr(library, name, function)
    return library


# ------------------------------------------------------------------------------------------------------------ compile


def compile_object(text: str, target: CpuTarget) -> bytes:
    """The object file of LLVM IR text, for `target`. Safe to call from several threads.

    Raises CodegenError with LLVM's message and the line of text for IR that does not parse or verify, and for IR that
    `llvm_guard` says would end the process. Text written by hand is safer with `compile_isolated`.
    """
    check_text(text, target)
    llvm, data_layout = _llvm(), _data_layout(target)
    try:
        encoded = text.encode()
    except UnicodeEncodeError as error:
        raise CodegenError(f"LLVM text is not Unicode: {error}") from error
    header = f'target datalayout = "{data_layout}"\ntarget triple = "{target.triple}"\n'
    error = ctypes.c_char_p()
    context = llvm.LLVMPY_ContextCreate()
    try:
        module = llvm.LLVMPY_ParseAssembly(context, header.encode() + encoded, ctypes.byref(error))
        if not module:
            raise _text_error(_taken(error), text, header.count("\n"))
        try:
            if llvm.LLVMPY_VerifyModule(module, ctypes.byref(error)):
                raise CodegenError(f"LLVM rejects the module: {_taken(error)}")
            with _machine(target, 2 if _OPTIMIZED.search(text) else 0) as machine:
                return _emit_object(machine, module)
        finally:
            llvm.LLVMPY_DisposeModule(module)
    finally:
        llvm.LLVMPY_ContextDispose(context)


def compile_objects(texts: Sequence[str], target: CpuTarget, threads: int | None = None) -> list[bytes]:
    """`compile_object` of each text, in parallel; the first error is raised."""
    threads = min(threads or target.cores, len(texts))
    if threads <= 1:
        return [compile_object(text, target) for text in texts]
    with ThreadPoolExecutor(threads, thread_name_prefix="lamella-llvm") as pool:
        return list(pool.map(compile_object, texts, [target] * len(texts)))


def compile_isolated(text: str, target: CpuTarget) -> bytes:
    """`compile_object` in a process of its own: where LLVM ends that process, CodegenError says what it said."""
    command = [sys.executable, "-c", f"from {__name__} import compile_for_parent; compile_for_parent()"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    sent = pickle.dumps((text.encode(errors="replace"), target))
    child = subprocess.run(command, input=sent, capture_output=True, check=False, env=environment)
    if child.returncode == 0:
        found: bytes | str = pickle.loads(child.stdout)
        if isinstance(found, bytes):
            return found
        raise CodegenError(found)
    said = child.stderr.decode(errors="replace").strip().splitlines() or ["nothing"]
    raise CodegenError(f"LLVM gave up on the module (exit status {child.returncode}): {said[0]}")


def compile_for_parent() -> None:
    """The other end of `compile_isolated`: text and target from stdin, the object or a message to stdout."""
    text, target = pickle.load(sys.stdin.buffer)
    try:
        answer: bytes | str = compile_object(text.decode(), target)
    except CodegenError as error:
        answer = str(error)
    sys.stdout.buffer.write(pickle.dumps(answer))


def _emit_object(machine: int, module: int) -> bytes:
    llvm, error = _llvm(), ctypes.c_char_p()
    buffer = llvm.LLVMPY_TargetMachineEmitToMemory(machine, module, 1, ctypes.byref(error))
    if not buffer:
        raise CodegenError(f"LLVM cannot emit the module: {_taken(error)}")
    try:
        return ctypes.string_at(llvm.LLVMPY_GetBufferStart(buffer), llvm.LLVMPY_GetBufferSize(buffer))
    finally:
        llvm.LLVMPY_DisposeMemoryBuffer(buffer)


_OPTIMIZED = re.compile(r"^define (?!.* optnone\b)", re.MULTILINE)
"""The first line of a function that is to be optimized."""


@contextmanager
def _machine(target: CpuTarget, level: int = 2) -> Generator[int]:
    llvm, error = _llvm(), ctypes.c_char_p()
    triple = target.triple.encode()
    found = llvm.LLVMPY_GetTargetFromTriple(triple, ctypes.byref(error))
    if not found:
        raise CodegenError(f"LLVM has no target {target.triple}: {_taken(error)}")
    machine = llvm.LLVMPY_CreateTargetMachine(
        found, triple, target.cpu.encode(), target.features.encode(), level, b"pic", b"small", 0, 0, b""
    )
    if not machine:
        raise CodegenError(f"LLVM cannot make code for {target.triple}, cpu {target.cpu}")
    try:
        yield machine
    finally:
        llvm.LLVMPY_DisposeTargetMachine(machine)


@cache
def _data_layout(target: CpuTarget) -> str:
    llvm, text = _llvm(), ctypes.c_char_p()
    with _machine(target) as machine:
        data = llvm.LLVMPY_CreateTargetMachineData(machine)
    llvm.LLVMPY_CopyStringRepOfTargetData(data, ctypes.byref(text))
    llvm.LLVMPY_DisposeTargetData(data)
    return _taken(text)


def _taken(message: ctypes.c_char_p) -> str:
    """The string LLVM left in `message`, which is freed."""
    if message.value is None:
        return ""
    text = message.value.decode(errors="replace").strip()
    _llvm().LLVMPY_DisposeString(message)
    return text


def _text_error(message: str, text: str, skipped: int) -> CodegenError:
    """`<string>:LINE:COLUMN: error: WHAT` with the line counted in our text, not under the header."""
    if (found := re.match(r"<string>:(\d+):(\d+): (?:error: )?(.*)", message)) is None:
        return CodegenError(f"LLVM cannot read the text: {message}")
    line, lines = int(found[1]) - skipped, text.splitlines()
    shown = lines[line - 1].strip() if 0 < line <= len(lines) else ""
    return CodegenError(f"LLVM cannot read line {line}: {found[3]}\n  {shown}")


# --------------------------------------------------------------------------------------------------------------- load


class LoadedObject:
    """Code in this process. `addresses` gives where each symbol is; the code is freed when this object is dropped."""

    def __init__(self, tracker: "ResourceTracker", symbols: Sequence[str]) -> None:
        self._tracker = tracker
        self.addresses: dict[str, int] = {name: tracker[name] for name in symbols}

    def __getitem__(self, symbol: str) -> int:
        return self.addresses[symbol]


_load_lock = threading.Lock()
_library_numbers = count()


def load_object(obj: bytes, symbols: Sequence[str], imports: Mapping[str, int] | None = None) -> LoadedObject:
    """Links an object file, or an archive of them (`archive`), and gives the addresses of `symbols`.

    What the object calls is looked up in `imports`, then in the registry `IMPORTS`.
    Raises CodegenError for a symbol found nowhere, or a damaged or foreign object.
    """
    import llvmlite.binding as binding

    builder = binding.JITLibraryBuilder()
    needed: set[str] = set()
    defined: set[str] = set()
    for part in unpack(obj):
        uses, has = elf_symbols(part)
        needed |= uses
        defined |= has
        builder.add_object_img(part)
    if missing := sorted(set(symbols) - defined):
        raise CodegenError(f"the object defines no {', '.join(missing)}")
    for name, address in IMPORTS.resolve(sorted(needed - defined), imports).items():
        builder.import_symbol(name, address)
    for name in symbols:
        builder.export_symbol(name)
    with _load_lock:
        try:
            tracker = builder.link(_engine(), f"lamella{next(_library_numbers)}")
        except RuntimeError as error:
            raise CodegenError(f"LLVM cannot load the object: {error}") from error
    return LoadedObject(tracker, symbols)


@cache
def _engine() -> "LLJIT":
    import llvmlite.binding as binding

    _llvm()
    # JITLink puts an object's sections side by side. RuntimeDyld ends the process where it finds no room for them
    # within 2 GB of each other, as in one that has mapped a GPU's memory.
    return binding.create_lljit_compiler(use_jit_link=True, suppress_errors=True)


_ELF_MACHINES = {"x86_64": 62, "aarch64": 183}
_SYMBOL_TABLE = 2


def elf_symbols(obj: bytes) -> tuple[set[str], set[str]]:
    """Global symbols an ELF object needs, and those it defines. CodegenError unless the object is for this machine."""
    try:
        if obj[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<HH", obj, 16) != (1, _machine_number()):
            here = platform.machine()
            raise CodegenError(f"not an object file for this machine, {here}: code of another target cannot run here")
        sections, (size, number) = struct.unpack_from("<Q", obj, 40)[0], struct.unpack_from("<HH", obj, 58)
        headers = [struct.unpack_from("<IIQQQQIIQQ", obj, sections + i * size) for i in range(number)]
        needed: set[str] = set()
        defined: set[str] = set()
        for _, kind, _, _, offset, length, link, first, _, entry in headers:
            if kind != _SYMBOL_TABLE:
                continue
            strings = headers[link][4]
            for at in range(offset + first * entry, offset + length, entry):
                name, _, _, section = struct.unpack_from("<IBBH", obj, at)
                start = strings + name
                (needed if section == 0 else defined).add(obj[start : obj.index(0, start)].decode())
        return needed, defined
    except (struct.error, ValueError, IndexError) as error:
        raise CodegenError(f"damaged object file: {error}") from error


def _machine_number() -> int:
    return _ELF_MACHINES.get(platform.machine(), -1)
