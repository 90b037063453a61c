"""Where operators of torch's database run: on the CPU, on a GPU, or on one that is interpreted on the CPU's memory."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from xdsl.dialects.builtin import ModuleOp

from ..codegen.cuda_interpreted import InterpretedGpu
from ..dialects.text import parse_module, print_module
from ..driver import Compilation, compile_module
from ..lowering.options import Options

DEVICES = ("cpu", "cuda", "interpreted")
"""The last compiles for a GPU and needs none: each launch runs the kernel's text (`codegen/cuda_interpreted.py`)."""

ELEMENTS = 4096
"""How many a sample may have to be interpreted: each program of a grid is run by itself, in Python."""

_TENSOR = re.compile(r"!sym\.t<(\[[^<>]*)>")


def torch_device(device: str) -> str:
    """Where the tensors of samples are."""
    return "cuda" if device == "cuda" else "cpu"


def prepare(device: str, worker: int) -> None:
    """Says of a process, one of several that share a GPU, how it is to compute.

    Without TF32, in eager either. It has one of the cores, so that it starts one process for Triton.
    """
    import os

    torch.set_num_threads(1)
    if device != "cuda":
        return
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[worker % len(cores)]})
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


def is_lost() -> bool:
    """Whether an error has left the GPU of no use to this process, as an access outside of any memory does."""
    if not torch.cuda.is_initialized():
        return False
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def compiler(device: str) -> Callable[[ModuleOp, Options], Compilation]:
    """What compiles a graph whose tensors are where `torch_device` says."""
    return compile_interpreted if device == "interpreted" else compile_round_tripped


def compile_round_tripped(module: ModuleOp, options: Options) -> Compilation:
    """Compile a module whose text, where it is verified, must give it back."""
    if not options.verify:
        return compile_module(module, options)
    text = print_module(module)
    if print_module(parse_module(text)) != text:
        raise AssertionError(f"the text of the module is not that of the module it gives:\n{text}")
    return compile_module(module, options)


def compile_interpreted(module: ModuleOp, options: Options) -> Compilation:
    """Compile a graph of the CPU as if its tensors were on a GPU; the graph takes and gives tensors on the CPU."""
    gpu = InterpretedGpu()
    with gpu.used():
        made = compile_module(parse_module(on_gpu(print_module(module))), replace(options, target="sm_90"))
        graph: Any = made.graph
        graph.function()
    return replace(made, graph=partial(gpu.run, graph))


def on_gpu(text: str) -> str:
    """The text of a module with its tensors on the GPU."""
    return _TENSOR.sub(lambda t: t[0] if "device=" in t[1] else f"!sym.t<{t[1]}, device=cuda:0>", text)
