"""Kernels in Triton's text, run by the interpreter; shared by its tests."""

from collections.abc import Sequence

import torch
from torch import Tensor

from lamella.codegen.interpret_tt import interpret
from lamella.dialects.text import parse_module
from lamella.dialects.tt import FuncOp
from lamella.dialects.verify import verify


def kernel_of(text: str) -> FuncOp:
    module = parse_module(text)
    verify(module)
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    return next(f for f in functions if f.sym_visibility is None or f.sym_visibility.data == "public")


def run(text: str, grid: Sequence[int], *args: Tensor | float | None) -> None:
    interpret(kernel_of(text), grid, args)


TYPES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int8: "i8",
    torch.float8_e4m3fn: "f8E4M3FN",
    torch.float8_e5m2: "f8E5M2",
}


def pointwise(body: str, result: torch.dtype, *inputs: Tensor) -> Tensor:
    """Run `body`, which makes %y of %x0, %x1, …: tensors of 8."""
    types = [*(TYPES[x.dtype] for x in inputs), TYPES[result]]
    parameters = ", ".join(f"%p{i}: !tt.ptr<{t}>" for i, t in enumerate(types))
    lines = ["%r = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>"]
    for i, t in enumerate(types):
        lines += [
            f"%s{i} = tt.splat %p{i} : !tt.ptr<{t}> -> tensor<8x!tt.ptr<{t}>>",
            f"%a{i} = tt.addptr %s{i}, %r : tensor<8x!tt.ptr<{t}>>, tensor<8xi32>",
        ]
        if i < len(inputs):
            lines.append(f"%x{i} = tt.load %a{i} : tensor<8x!tt.ptr<{t}>>")
    n = len(inputs)
    lines += [body, f"tt.store %a{n}, %y : tensor<8x!tt.ptr<{types[n]}>>", "tt.return"]
    out = torch.zeros(8, dtype=result)
    run(f"tt.func public @k({parameters}) {{\n" + "\n".join(lines) + "\n}", (1,), *inputs, out)
    return out


F = torch.tensor([0.0, -0.0, 1.5, -2.5, torch.inf, -torch.inf, torch.nan, 1e-3])

G = torch.tensor([1.0, 2.0, -1.5, 0.5, torch.nan, 3.0, 1.0, 1e3])

K = torch.tensor([0, 1, -1, 7, -8, 2**31 - 1, -(2**31), 5], dtype=torch.int32)

J = torch.tensor([3, -1, 2, -2, 5, 2, 3, 31], dtype=torch.int32)
