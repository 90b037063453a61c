"""Kernels for another kind of CPU, run by an emulator, against eager: numbers only, no times.

    python benchmarks/emulated.py --emulator qemu-aarch64-static --cc "aarch64-linux-gnu-gcc -static"

Each case of `emulated_cases.py` is compiled for `--target`, with products, attention and convolutions as kernels. These
become static programs, by a C compiler and a C library for that machine, which the emulator runs; what is no kernel is
done by torch. Tells the error next to eager's, both against float64.
"""

from __future__ import annotations

import argparse
import ctypes
import shlex
import struct
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from emulated_cases import CASES
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp, StringAttr

from lamella.codegen import interpret_loop, special_runtime
from lamella.codegen.float_runtime import runtime_object
from lamella.codegen.interpreter import run_module
from lamella.codegen.jit import compile_object
from lamella.codegen.llvm_text import emit
from lamella.codegen.sorting_runtime import sorting_text
from lamella.codegen.target import CpuTarget
from lamella.dialects.context import make_context
from lamella.dialects.loop import KernelOp
from lamella.frontend.capture import capture
from lamella.lowering.convolution_cost import convolution_of
from lamella.lowering.kernel_to_llvm import KernelToLlvm
from lamella.lowering.options import Options
from lamella.lowering.pipeline import pipeline, run_passes
from lamella.lowering.products import GENERATED, MARK


@dataclass
class Emulated:
    """Runs kernels: `cc` makes a program of objects, `emulator` runs it."""

    target: CpuTarget
    cc: Sequence[str]
    emulator: Sequence[str]
    folder: Path
    programs: dict[str, Path] = field(default_factory=dict[str, Path])

    def run(self, kernel: KernelOp, tensors: Sequence[Tensor], sizes: Sequence[int]) -> None:
        """In place of the interpreter's: the results are among the tensors."""
        spans = [_span(t) for t in tensors]
        program = self.programs.get(key := f"{kernel}")
        if program is None:
            program = self.programs[key] = self._linked(kernel)
        data = self.folder / "data"
        header = struct.pack(f"{2 + len(spans) + len(sizes)}q", len(spans), len(sizes), *spans, *sizes)
        buffers = [ctypes.string_at(t.data_ptr(), n) for t, n in zip(tensors, spans, strict=True)]
        data.write_bytes(b"".join([header, *buffers]))
        code = subprocess.run([*self.emulator, program, data], check=False).returncode
        if code:
            raise RuntimeError(f"kernel {kernel.sym_name.data} ended with {code}")
        made, at = data.read_bytes(), len(header)
        for t, n in zip(tensors, spans, strict=True):
            ctypes.memmove(t.data_ptr(), made[at : at + n], n)
            at += n

    def _linked(self, kernel: KernelOp) -> Path:
        renamed = kernel.clone()
        renamed.properties["sym_name"] = StringAttr("kernel")
        module = ModuleOp([renamed])
        KernelToLlvm(target=self.target.name, threads=False).apply(make_context(), module)
        number = len(self.programs)
        code, program = (self.folder / f"k{number}{end}" for end in (".o", ""))
        code.write_bytes(compile_object(emit(module), self.target))
        subprocess.run([*self.cc, "-o", program, code, *self._support(), "-lm"], check=True)
        return program

    def _support(self) -> list[Path]:
        """Objects of what kernels call, besides C's library."""
        paths = [self.folder / name for name in ("floats.o", "special.o", "sort32.o", "sort64.o")]
        if not paths[0].exists():
            texts = [special_runtime.text(), sorting_text("i32"), sorting_text("i64")]
            objects = [runtime_object(self.target), *(compile_object(text, self.target) for text in texts)]
            for path, code in zip(paths, objects, strict=True):
                path.write_bytes(code)
            source = self.folder / "main.c"
            source.write_text(_MAIN)
            subprocess.run([*self.cc, "-O1", "-c", "-o", self.folder / "main.o", source], check=True)
        return [*paths, self.folder / "main.o"]


def _span(t: Tensor) -> int:
    """Bytes from the first element of a tensor to its last."""
    if t.numel() == 0:
        return 0
    return (1 + sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))) * t.element_size()


_MAIN = """#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define A(i) a[i], a[i + 1], a[i + 2], a[i + 3], a[i + 4], a[i + 5], a[i + 6], a[i + 7]
extern char kernel[];
typedef int (*Kernel)(long, long, long, long, long, long, long, long, long, long, long, long, long, long, long, long,
                      long, long, long, long, long, long, long, long, long, long, long, long, long, long, long, long);
int main(int argc, char **argv) {
  long head[2], given[64] = {0}, a[32] = {0};
  FILE *f = fopen(argv[1], "r+b");
  fread(head, 8, 2, f);
  fread(given, 8, head[0] + head[1], f);
  for (long i = 0; i < head[0]; i++) {
    a[i] = (long)aligned_alloc(64, (given[i] + 127) / 64 * 64);
    fread((void *)a[i], 1, given[i], f);
  }
  memcpy(a + head[0], given + head[0], 8 * head[1]);
  int code = ((Kernel)kernel)(A(0), A(8), A(16), A(24));
  fseek(f, 8 * (2 + head[0] + head[1]), SEEK_SET);
  for (long i = 0; i < head[0]; i++) fwrite((void *)a[i], 1, given[i], f);
  fclose(f);
  return code;
}
"""
"""A program that reads buffers from a file, calls the kernel with them and the sizes, and writes them back: arguments
that a kernel does not have do no harm.
"""


def check(emulated: Emulated, program: Callable[..., Any], args: Sequence[Any]) -> tuple[float, float]:
    """How far a case and eager are from float64, as a share of the largest element."""
    module: ModuleOp = capture(program, *args).module
    for op in module.walk():
        if convolution_of(op) is not None:
            op.attributes[MARK] = GENERATED
    text = pipeline(Options(target=emulated.target.name, products="all"), emulated.target)
    run_passes(module, text[: text.index(",bufferize")], verify=False)
    got, eager = run_module(module, list(args)), _flat(program(*args))
    exact = _flat(program(*[a.double() if a.is_floating_point() else a for a in args]))
    return _error(got, exact), _error(eager, exact)


def _flat(result: Any) -> list[Tensor]:
    return [*result] if isinstance(result, tuple | list) else [result]


def _error(got: Sequence[Tensor], exact: Sequence[Tensor]) -> float:
    worst = 0.0
    for g, e in zip(got, exact, strict=True):
        wanted = e.double()
        if not g.is_floating_point():
            worst = max(worst, float((g.double() != wanted).any()))
        elif g.numel():
            worst = max(worst, float((g.double() - wanted).abs().max() / wanted.abs().max().clamp(min=1e-30)))
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="neon")
    parser.add_argument("--emulator", required=True)
    parser.add_argument("--cc", required=True)
    parser.add_argument("--cases", default="")
    parser.add_argument("--dtypes", default="float32,bfloat16,float16")
    options = parser.parse_args()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        emulated = Emulated(
            CpuTarget.from_name(options.target), shlex.split(options.cc), shlex.split(options.emulator), Path(folder)
        )
        interpret_loop.run_kernel = emulated.run
        for name in options.cases.split(",") if options.cases else CASES:
            program, make = CASES[name]
            for dtype in options.dtypes.split(","):
                torch.manual_seed(0)
                type = getattr(torch, dtype)
                args = [a.to(type) if a.is_floating_point() else a for a in make()]
                before = len(emulated.programs)
                ours, theirs = check(emulated, program, args)
                fine = ours <= 2 * theirs + torch.finfo(type).eps
                if not fine:
                    wrong.append(f"{name} {dtype}")
                kernels = len(emulated.programs) - before
                told = "" if fine else "  WRONG"
                print(f"{name} {dtype}: {kernels} kernels, error {ours:.1e}, eager's {theirs:.1e}{told}", flush=True)
    print(f"wrong: {', '.join(wrong) or 'none'}")


if __name__ == "__main__":
    main()
