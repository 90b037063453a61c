"""Matrix units (AMX) in numpy, for machines without: the instructions of a kernel become calls of what is here.

Source: Intel Architecture Instruction Set Extensions Programming Reference, chapter 3: pairs of bf16 are multiplied and
added up in two sums of f32, which are added to those of the tile; denormals are zero.
"""

import ctypes
import re
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from lamella.codegen.jit import LoadedObject, compile_object, load_object
from lamella.codegen.llvm_text import emit
from lamella.codegen.target import CpuTarget
from lamella.dialects.context import make_context
from lamella.dialects.text import parse_module
from lamella.dialects.verify import verify
from lamella.lowering.kernel_to_llvm import KernelToLlvm
from lamella.lowering.loop_schedule import LoopSchedule

Bytes = np.ndarray[Any, Any]

_REGISTERS: dict[int, list[Bytes]] = {}


def tiles() -> list[Bytes]:
    """The registers of a thread, of 16 rows of 64 bytes."""
    return _REGISTERS.setdefault(threading.get_ident(), [np.zeros((16, 64), np.uint8) for _ in range(8)])


def _rows(pointer: int, pitch: int) -> list[Bytes]:
    return [np.frombuffer((ctypes.c_uint8 * 64).from_address(pointer + i * pitch), np.uint8) for i in range(16)]


def _load(tile: int, pointer: int, pitch: int) -> None:
    tiles()[tile][:] = _rows(pointer, pitch)


def _store(tile: int, pointer: int, pitch: int) -> None:
    for row, place in zip(tiles()[tile], _rows(pointer, pitch), strict=True):
        place[:] = row


def _zero(tile: int) -> None:
    tiles()[tile][:] = 0


def _flushed(x: Bytes) -> Bytes:
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.float32(0), x)


def _numbers(tile: Bytes) -> Bytes:
    """bf16 as f32."""
    return _flushed((tile.view(np.uint16).astype(np.uint32) << 16).view(np.float32))


def _multiply(sums: int, left: int, right: int) -> None:
    x, w = _numbers(tiles()[left]), _numbers(tiles()[right])
    total = tiles()[sums].view(np.float32)
    with np.errstate(all="ignore"):
        halves = np.zeros((2, 16, 16), np.float32)
        for k in range(16):
            for i in (0, 1):
                halves[i] = _flushed(halves[i] + x[:, 2 * k + i, None] * w[None, k, i::2])
        total[:] = _flushed(total + _flushed(halves[0] + halves[1]))


_PLACE = [ctypes.c_int8, ctypes.c_void_p, ctypes.c_int64]
_CALLS: dict[str, tuple[Callable[..., None], list[Any]]] = {
    "ldtilecfg": (lambda pointer: None, [ctypes.c_void_p]),
    "tilerelease": (lambda: None, []),
    "tilezero": (_zero, _PLACE[:1]),
    "tileloadd64": (_load, _PLACE),
    "tilestored64": (_store, _PLACE),
    "tdpbf16ps": (_multiply, [ctypes.c_int8] * 3),
}
_KEPT = {name: ctypes.CFUNCTYPE(None, *types)(f) for name, (f, types) in _CALLS.items()}
_ADDRESSES = {f"emulated.{name}": ctypes.cast(f, ctypes.c_void_p).value or 0 for name, f in _KEPT.items()}

_TYPES = {ctypes.c_int8: "i8", ctypes.c_int64: "i64", ctypes.c_void_p: "ptr"}
_PARAMETERS = {f"emulated.{name}": ", ".join(_TYPES[t] for t in types) for name, (_, types) in _CALLS.items()}


@cache
def compiled(text: str, busy: int = 2) -> LoadedObject:
    """Kernel @k of a text, scheduled and made for matrix units, which this machine need not have."""
    module, context = parse_module(text), make_context()
    LoopSchedule(amx=True, threads=2, busy=busy).apply(context, module)
    KernelToLlvm(target="amx").apply(context, module)
    verify(module)
    code = re.sub(rf"@llvm\.x86\.({'|'.join(_CALLS)})\b", r"@emulated.\1", emit(module))
    assert "@emulated.tdpbf16ps" in code, "no product of tiles"
    used = {name: address for name, address in _ADDRESSES.items() if f"@{name}(" in code}
    declared = "".join(f"declare void @{name}({_PARAMETERS[name]})\n" for name in used)
    return load_object(compile_object(code + declared, CpuTarget.host()), ["k"], used)
