"""Text of a Triton module to a cubin, in a process of its own: an LLVM assertion ends the process that meets it.

This file is the program of such a process (`triton_workers` starts it as a script), so it imports nothing of this
package. It drives Triton's stages itself: `triton.compile` would hash Triton's sources first, which takes longer than
a kernel.

Messages are a header with the length and a pickle: first `("loaded",)`, then for each request `(text, sm, options)` an
answer `("ok", cubin, metadata)` or `("error", message)`.
"""

from __future__ import annotations

import os
import pickle
import re
import select
import sys
from contextlib import suppress
from functools import cache
from typing import Any, BinaryIO

IDLE_SECONDS = 120
"""After which a process that is asked nothing goes."""

HEADER = 8
"""Bytes of a message's length."""

_OPTIONS = {
    "enable_reflect_ftz": False,  # libdevice's functions keep subnormal numbers, as torch's kernels do
}


def main() -> None:
    """Answers requests on stdin until it is closed or nothing comes."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what Triton prints is not an answer
    requests = sys.stdin.buffer
    with suppress(ImportError):  # no Triton, or none that can be loaded: who asks is told
        _load()
    send(answers, ("loaded",))
    while select.select([requests], [], [], IDLE_SECONDS)[0]:
        request = receive(requests)
        if request is None:
            return
        text, sm, options = request
        try:
            answer: Any = ("ok", *compile_text(text, sm, options))
        except Exception as error:
            answer = ("error", f"{type(error).__name__}: {error}")
        send(answers, answer)


def send(stream: BinaryIO, message: Any) -> None:
    data = pickle.dumps(message)
    stream.write(len(data).to_bytes(HEADER, "little") + data)
    stream.flush()


def receive(stream: BinaryIO) -> Any:
    """The next message; None at the end of the stream."""
    header = stream.read(HEADER)
    if len(header) < HEADER:
        return None
    size = int.from_bytes(header, "little")
    data = stream.read(size)
    return pickle.loads(data) if len(data) == size else None


def _load() -> None:
    """Loads Triton, which takes as long as a kernel."""
    from triton._C.libtriton import ir as ir
    from triton.backends.nvidia import compiler as compiler


@cache
def _backend(sm: int) -> Any:
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.compiler import CUDABackend

    return CUDABackend(GPUTarget("cuda", sm, 32))


def compile_text(text: str, sm: int, options: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
    """The cubin of the one kernel in `text`, and what Triton says about it."""
    from triton._C.libtriton import ir

    backend = _backend(sm)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    module = _parse(text, context)
    module.context = context
    metadata: dict[str, Any] = {}
    chosen = backend.parse_options({**_OPTIONS, **options})
    for stage in (backend.make_ttir, backend.make_ttgir, backend.make_llir, backend.make_ptx):
        module = stage(module, metadata, chosen, sm)
    if "tt.dot" in text:
        module = rolled(module)
    return backend.make_cubin(module, metadata, chosen, sm), metadata


def rolled(ptx: str) -> str:
    """PTX whose loops ptxas does not unroll. Unrolling those around products of matrices takes most of its time, 1.0 s
    of 1.1 for a tile of 256 x 128 in three stages, and makes kernels only 0.4 % faster (the mean of 51 on an H200).
    """
    lines, labels, headers = ptx.split("\n"), dict[str, int](), set[int]()
    for i, line in enumerate(lines):
        if found := _LABEL.match(line):
            labels[found[1]] = i
        elif (found := _BRANCH.search(line)) and found[1] in labels:
            headers.add(labels[found[1]])
    return "\n".join(f'{line}\n\t.pragma "nounroll";' if i in headers else line for i, line in enumerate(lines))


_LABEL = re.compile(r"(\$\w+):")
_BRANCH = re.compile(r"\bbra(?:\.uni)?\s+(\$\w+);")


def _parse(text: str, context: Any) -> Any:
    """Triton's parser takes a file name only."""
    from triton._C.libtriton import ir

    file = os.memfd_create("ttir")
    try:
        data = text.encode()
        while data:
            data = data[os.write(file, data) :]
        return ir.parse_mlir_module(f"/proc/self/fd/{file}", context)
    finally:
        os.close(file)


if __name__ == "__main__":
    main()
