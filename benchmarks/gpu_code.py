"""What the machine code of kernels says by itself: registers, spills, the widths of loads and stores, instructions.

    python benchmarks/gpu_code.py [--cases softmax,sum_dim0] [--dtypes bf16] [--target sm_90] [--text FOLDER]

For a machine without a GPU: the tools that read a cubin come with Triton. One line per kernel of the cases of
`gpu_kernels.py`; `--text` also keeps tiles (`.mlir`), Triton's layouts (`.ttgir`) and machine code (`.sass`) of each.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import gpu_kernels
from harness import table

from lamella import driver
from lamella.codegen import triton_stages
from lamella.codegen.triton_module import kernel_sources
from lamella.dialects.loop import KernelOp
from lamella.dialects.text import print_module
from lamella.lowering.gpu_target import GpuTarget

HEADER = ["case", "kernel", "warps", "regs", "spill B", "shared B", "warps/SM", "loads", "stores", "shared", "barriers",
          "instructions", "MUFU", "branches"]  # fmt: skip

_WIDTH = {"": 32, "U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "128": 128}


def stages(text: str, sm: int, options: dict[str, Any]) -> tuple[str, bytes, dict[str, Any]]:
    """Triton's layouts, the cubin and what Triton says about one kernel."""
    from triton._C.libtriton import ir

    backend, context = triton_stages._backend(sm), ir.context()  # pyright: ignore[reportPrivateUsage]
    ir.load_dialects(context)
    backend.load_dialects(context)
    module: Any = triton_stages._parse(text, context)  # pyright: ignore[reportPrivateUsage]
    module.context = context
    metadata: dict[str, Any] = {}
    chosen = backend.parse_options({**triton_stages._OPTIONS, **options})  # pyright: ignore[reportPrivateUsage]
    module = backend.make_ttir(module, metadata, chosen, sm)
    module = backend.make_ttgir(module, metadata, chosen, sm)
    layouts = str(module)
    for stage in (backend.make_llir, backend.make_ptx, backend.make_cubin):
        module = stage(module, metadata, chosen, sm)
    return layouts, module, metadata


def _tool(name: str, *arguments: str) -> str:
    import triton.backends.nvidia

    path = Path(triton.backends.nvidia.__path__[0]) / "bin" / name
    return subprocess.run([str(path), *arguments], capture_output=True, text=True, check=True).stdout


def facts(cubin: bytes) -> tuple[dict[str, int], str]:
    """Registers and bytes on the stack of a thread, and the instructions as text."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        usage = _tool("cuobjdump", "-res-usage", file.name)
        sass = _tool("nvdisasm", "-c", "-hex", file.name)
    return {k: int(v) for k, v in re.findall(r"\b(REG|STACK):(\d+)", usage)}, sass


def _widths(sass: str, op: str) -> str:
    """How often each width of a memory instruction stands there: `4 x 128`."""
    found: Counter[int] = Counter()
    for suffixes in re.findall(rf"\b{op}((?:\.\w+)*) ", sass):
        parts = suffixes.split(".")
        found[next((_WIDTH[p] for p in parts if p in _WIDTH and p), 32)] += 1
    return " ".join(f"{n}x{width}" for width, n in sorted(found.items(), reverse=True))


def line(case: str, name: str, cubin: bytes, metadata: dict[str, Any]) -> tuple[list[str], str]:
    """The row of a kernel in the table, and its instructions."""
    used, sass = facts(cubin)
    warps, shared = metadata["num_warps"], metadata["shared"] or 0
    code = re.findall(r"/\*[0-9a-f]+\*/\s+(?:@!?U?P\d+ )?([A-Z][\w.]*)", sass)
    kinds = Counter(op.partition(".")[0] for op in code if not op.startswith("NOP"))
    threads = 32 * warps
    fit = [65536 // (threads * -(-max(used["REG"], 16) // 8) * 8), 2048 // threads, 32]
    if shared:
        fit.append((227 << 10) // (shared + 1024))
    row = [case, name, str(warps), str(used["REG"]), str(used["STACK"]), str(shared), str(min(fit) * warps),
           _widths(sass, "LDG"), _widths(sass, "STG"), f"{kinds['LDS']}+{kinds['STS']}", str(kinds["BAR"]),
           str(sum(kinds.values())), str(kinds["MUFU"]), str(kinds["BRA"])]  # fmt: skip
    return row, sass


def tiled(case: str, dtype: str, target: GpuTarget) -> str:
    """The kernels of a case with their tiles."""
    f, shapes = gpu_kernels.CASES[case]
    arguments = gpu_kernels.arguments(shapes, gpu_kernels.DTYPES[dtype], "meta")
    module = gpu_kernels.on_gpu(f, arguments)
    driver.run_passes(module, gpu_kernels.passes(target).removesuffix(",kernel-to-tt"), verify=False)
    return "\n".join(print_module(o) for o in module.ops if isinstance(o, KernelOp))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(gpu_kernels.CASES))
    parser.add_argument("--dtypes", default="f32,bf16")
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--set", nargs="*", default=[], help="NAME=value of lowering/tile_choice.py")
    parser.add_argument("--text", type=Path, help="a folder for the text of each kernel")
    options = parser.parse_args()
    gpu_kernels.change(options.set)
    target = GpuTarget.from_name(options.target)
    rows: list[list[str]] = []
    for case in options.cases.split(","):
        for dtype in options.dtypes.split(","):
            f, shapes = gpu_kernels.CASES[case]
            arguments = gpu_kernels.arguments(shapes, gpu_kernels.DTYPES[dtype], "meta")
            try:
                if options.text:
                    options.text.mkdir(exist_ok=True, parents=True)
                    (options.text / f"{case}_{dtype}.mlir").write_text(tiled(case, dtype, target))
                for source in kernel_sources(gpu_kernels.lowered(f, arguments, target)):
                    layouts, cubin, metadata = stages(source.text, target.sm, source.options())
                    row, sass = line(f"{case} {dtype}", source.name, cubin, metadata)
                    rows.append(row)
                    if options.text:
                        stem = options.text / f"{case}_{dtype}_{source.name}"
                        stem.with_suffix(".ttgir").write_text(layouts)
                        stem.with_suffix(".sass").write_text(sass)
            except Exception as e:  # one case must not end the run
                rows.append([f"{case} {dtype}", f"{type(e).__name__}: {str(e)[:80]}", *[""] * (len(HEADER) - 2)])
    print(table(HEADER, rows))


if __name__ == "__main__":
    main()
