"""Generated kernels on one GPU, without torch.compile: correctness against float64, time, and share of the bandwidth.

    python benchmarks/gpu_kernels.py [--cases softmax,sum] [--dtypes f32,bf16] [--set CHUNK=2048 …] [--offline]

Every case is a function captured from ATen, taken down to Triton functions, compiled, and launched through the CUDA
driver in a CUDA graph of many runs. `copy` is the bandwidth of a large copy in the same process, `share` what the least
traffic of a case (arguments and results once) is of it; `error` is the largest one against float64, beside eager's.
`--set` changes a number of `lowering/tile_choice.py`, `--also softmax:CHUNK=2048,ROW=4096` measures a case once more
with others; `--offline` only compiles, on a machine without a GPU.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from harness import geometric_mean, table
from xdsl.dialects.builtin import ModuleOp

from lamella import driver
from lamella.codegen.cuda_driver import Cuda
from lamella.codegen.triton_compile import CompiledKernel, compile_kernels
from lamella.codegen.triton_module import kernel_sources
from lamella.dialects import expr, host, tt
from lamella.dialects.tensor import TORCH_DTYPES, TensorType
from lamella.dialects.text import parse_module, print_module
from lamella.frontend.capture import capture
from lamella.lowering import tile_choice
from lamella.lowering.gpu_target import GpuTarget

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
RUNS = 20
"""Of a case in one CUDA graph."""


# Cases: a function, and its arguments as shapes; `int:n` are indices below n


def rms_norm(x: Any, w: Any) -> Any:
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w


def swiglu(x: Any) -> Any:
    a, b = x.chunk(2, -1)
    return F.silu(a) * b


def rotary(q: Any, c: Any, s: Any) -> Any:
    a, b = q.chunk(2, -1)
    return q * c + torch.cat((-b, a), -1) * s


def layer_norm_backward(g: Any, x: Any, mean: Any, rstd: Any, w: Any, b: Any) -> Any:
    """With the sum of the gradient of its input over rows, which is that of the bias of a layer before."""
    mean, rstd = mean.float(), rstd.float()
    x, dw, db = torch.ops.aten.native_layer_norm_backward(
        g.float(), x.float(), [x.shape[-1]], mean, rstd, w.float(), b.float(), [True, True, True]
    )
    x = x.to(g.dtype)
    return x, dw, db, x.sum(0)


def gelu_backward(g: Any, x: Any) -> Any:
    """With the gradient of a bias."""
    y = torch.ops.aten.gelu_backward(g, x)
    return y, y.sum(0)


def adamw(p: Any, g: Any, m: Any, v: Any) -> Any:
    m = m.lerp(g, 0.1)
    v = v * 0.999 + g * g * 0.001
    return p - 1e-3 * m / (v.sqrt() + 1e-8), m, v


ROWS = (32768, 4096)
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "copy_relu": (lambda x: torch.relu(x), (ROWS,)),
    "gelu_affine": (lambda x, a, b: F.gelu(x * a + b), (ROWS, (4096,), (4096,))),
    "tanh_gelu": (lambda x: F.gelu(x, approximate="tanh"), (ROWS,)),
    "softmax": (lambda x: F.softmax(x, -1), (ROWS,)),
    "softmax_short": (lambda x: F.softmax(x, -1), ((1 << 20, 64),)),
    "softmax_odd": (lambda x: F.softmax(x, -1), ((16384, 1008),)),
    "softmax_long": (lambda x: F.softmax(x, -1), ((4096, 50304),)),
    "softmax_20000": (lambda x: F.softmax(x, -1), ((8192, 20000),)),
    "softmax_1008": (lambda x: F.softmax(x, -1), ((65536, 1008),)),
    "log_softmax": (lambda x: F.log_softmax(x, -1), (ROWS,)),
    "layer_norm": (lambda x, r, w, b: F.layer_norm(x + r, x.shape[-1:], w, b), (ROWS, ROWS, (4096,), (4096,))),
    "layer_norm_768": (lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b), ((65536, 768), (768,), (768,))),
    "layer_norm_backward": (layer_norm_backward, ((16384, 768), (16384, 768), (16384, 1), (16384, 1), (768,), (768,))),
    "layer_norm_backward_384": (
        layer_norm_backward,
        ((12000, 384), (12000, 384), (12000, 1), (12000, 1), (384,), (384,)),
    ),
    "layer_norm_backward_4096": (layer_norm_backward, (ROWS, ROWS, (32768, 1), (32768, 1), (4096,), (4096,))),
    "gelu_backward": (gelu_backward, ((16384, 3072), (16384, 3072))),
    "rms_norm": (rms_norm, (ROWS, (4096,))),
    "cross_entropy": (lambda x, t: F.cross_entropy(x, t), ((8192, 50304), "int:50304", (8192,))),
    "sum_dim0": (lambda x: x.sum(0), (ROWS,)),
    "sum_dim0_16384": (lambda x: x.sum(0), ((16384, 4096),)),
    "sum_dim1": (lambda x: x.sum(1), (ROWS,)),
    "sum_all": (lambda x: x.sum(), (ROWS,)),
    "amax_dim0": (lambda x: x.amax(0), (ROWS,)),
    "var_mean": (lambda x: torch.var_mean(x, 1), (ROWS,)),
    "transpose_add": (lambda x, y: x.t() + y, ((8192, 8192), (8192, 8192))),
    "permute_copy": (lambda x: x.permute(0, 2, 1, 3).contiguous(), ((32, 1024, 16, 128),)),
    "channels_last": (lambda x: x.contiguous(memory_format=torch.channels_last), ((64, 256, 56, 56),)),
    "embedding_add": (lambda i, w, p: F.embedding(i, w) + p, ("int:50304", (32, 1024), (50304, 1024), (1024, 1024))),
    "swiglu": (swiglu, ((8192, 16384),)),
    "rotary": (rotary, ((32, 16, 1024, 128), (1024, 128), (1024, 128))),
    "cumsum": (lambda x: x.cumsum(-1), ((8192, 4096),)),
    "cumsum_1024": (lambda x: x.cumsum(-1), ((65536, 1024),)),
    "argmax": (lambda x: x.argmax(-1), ((4096, 50304),)),
    "scatter_add": (
        lambda a, x, i: a.scatter_add(0, i[:, None].expand_as(x), x),
        ((16384, 256), (262144, 256), "int:16384", (262144,)),
    ),
    "index_select": (lambda x, i: x[i], ((50304, 1024), "int:50304", (32768,))),
    "batch_norm": (
        lambda x, w, b: F.relu(F.batch_norm(x, None, None, w, b, True)),
        ((128, 256, 28, 28), (256,), (256,)),
    ),
    "group_norm": (lambda x, w, b: F.group_norm(x, 32, w, b), ((64, 256, 56, 56), (256,), (256,))),
    "max_pool": (lambda x: F.max_pool2d(F.relu(x), 3, 2, 1), ((64, 64, 112, 112),)),
    "avg_pool": (lambda x: F.avg_pool2d(x, 3, 2, 1), ((64, 64, 112, 112),)),
    "max_pool_last": (lambda x: F.max_pool2d(F.relu(x.permute(0, 3, 1, 2)), 3, 2, 1), ((64, 112, 112, 64),)),
    "adamw": (adamw, ((4096, 8192), (4096, 8192), (4096, 8192), (4096, 8192))),
    "small_add": (lambda x, y: x * 2 + y, ((1024, 1024), (1024, 1024))),
    "small_softmax": (lambda x: F.softmax(x, -1), ((2048, 1024),)),
}


def change(items: Iterable[str]) -> dict[str, int]:
    """Set numbers of `lowering/tile_choice.py`, given as NAME=value; what they were."""
    before: dict[str, int] = {}
    for item in items:
        name, _, value = item.partition("=")
        before[name] = getattr(tile_choice, name)
        setattr(tile_choice, name, int(value))
    return before


def arguments(shapes: Sequence[Any], dtype: torch.dtype, device: str) -> list[Any]:
    """Tensors of a case."""
    generator = None if device == "meta" else torch.Generator(device).manual_seed(0)
    found: list[Any] = []
    below = 0
    for s in shapes:
        if isinstance(s, str):
            below = int(s.partition(":")[2])
            continue
        if below:
            found.append(torch.randint(0, below, s, device=device, generator=generator))
        else:
            found.append(torch.randn(s, device=device, generator=generator).to(dtype))
        below = 0
    return found


# Compiling and running


def on_gpu(f: Callable[..., Any], args: Sequence[Any]) -> ModuleOp:
    """A function captured from ATen, its tensors on the first GPU."""
    text = print_module(capture(f, *args).module)
    return parse_module(text.replace("device=meta", "device=cuda:0").replace('"meta"', '"cuda:0"'))


def passes(target: GpuTarget) -> str:
    """From ATen to Triton functions."""
    return (
        f"aten-canonicalize,aten-to-prims{{halves={str(target.sm >= 90).lower()}}},prims-canonicalize,prims-to-loop,"
        f"loop-fuse{{{target.machine}}},bufferize,loop-tile{{target={target.name}}},kernel-to-tt"
    )


def lowered(f: Callable[..., Any], args: Sequence[Any], target: GpuTarget) -> ModuleOp:
    """The host program of a function and its Triton functions."""
    module = on_gpu(f, args)
    driver.run_passes(module, passes(target), verify=False)
    return module


class Attribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_int), ("rest", ctypes.c_char * 60)]


class Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        *((name, ctypes.c_uint) for name in ("gx", "gy", "gz", "bx", "by", "bz", "shared")),
        *(("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(Attribute)), ("count", ctypes.c_uint)),
    ]


OVERLAPPED = Attribute(6, 0, 1, b"")
"""Programs of a launch are made ready before the launch before is over."""


@dataclass
class Launch:
    """One launch: the kernel's handle, programs, threads, shared memory, its arguments as the driver wants them, and
    whether its programs wait for the launch before.
    """

    function: int
    grid: tuple[int, int, int]
    threads: int
    shared: int
    values: list[Any]
    overlaps: bool = False
    pointers: Any = field(init=False)

    def __post_init__(self) -> None:
        addresses = [ctypes.cast(ctypes.pointer(v), ctypes.c_void_p) for v in self.values]
        self.pointers = (ctypes.c_void_p * len(addresses))(*addresses)


class Program:
    """The host program of a module on one GPU, its buffers made once."""

    def __init__(self, module: ModuleOp, kernels: dict[str, CompiledKernel], cuda: Cuda, inputs: Sequence[Any]) -> None:
        self.cuda, self.kernels = cuda, kernels
        self.functions = {o.sym_name.data: o for o in module.ops if isinstance(o, tt.FuncOp)}
        self.launches: list[Launch] = []
        self.kept: list[Any] = []
        self.results: list[Any] = []
        (main,) = [o for o in module.ops if isinstance(o, host.FuncOp)]
        self.values: dict[Any, Any] = dict(zip(main.body.block.args, inputs, strict=True))
        for op in main.body.block.ops:
            self._op(op)

    def _op(self, op: Any) -> None:
        values = self.values
        match op:
            case host.CheckOp() | host.DropOp():
                pass
            case host.ArenaOp():
                values[op.res] = torch.empty(int(op.bytes[0]), dtype=torch.uint8, device="cuda")
            case host.LendOp():
                storage = values[op.source].untyped_storage()
                values[op.res] = torch.empty(0, dtype=torch.uint8, device="cuda").set_(storage)
            case host.EmptyOp():
                t, layout = op.res.type, layout_of(op.res.type)
                values[op.res] = torch.empty_strided(*layout, dtype=dtype_of(t), device="cuda")
            case host.SlotOp():
                t, start = op.res.type, int(op.offset[0])
                values[op.res] = torch.as_strided(values[op.arena][start:].view(dtype_of(t)), *layout_of(t))
            case host.ViewOp():
                x = values[op.source]
                values[op.res] = torch.as_strided(x, *layout_of(op.res.type), x.storage_offset() + int(op.offset[0]))
            case host.LaunchOp():
                self._launch(op)
            case host.ReturnOp():
                self.results = [values[v] for v in op.values]
            case _:
                raise NotImplementedError(f"{op.name} in the host program")

    def _launch(self, op: host.LaunchOp) -> None:
        kernel, function = self.kernels[op.callee], self.functions[op.callee]
        sizes = {expr.text(s): int(v) for s, v in zip(function.attributes["lamella.sizes"], op.sizes, strict=True)}  # pyright: ignore
        grid = [int(expr.evaluate(e, sizes)) for e in function.attributes["lamella.grid"]]  # pyright: ignore
        if 0 in grid:
            return
        buffers = [self.values[v] for v in (*op.ins, *op.outs)]
        self.kept += buffers
        scratch = torch.empty(max(kernel.scratch * grid[0], 1), dtype=torch.uint8, device="cuda")
        self.kept.append(scratch)
        values: list[Any] = [ctypes.c_void_p(b.data_ptr()) for b in buffers]
        values += [ctypes.c_int32(n) for n in sizes.values()]
        values += [ctypes.c_void_p(scratch.data_ptr()), ctypes.c_void_p(0)]
        x, y, z = (*grid, 1, 1)[:3]
        handle, threads = self.cuda.load(kernel, 0), 32 * kernel.warps
        self.launches.append(Launch(handle, (x, y, z), threads, kernel.shared, values, kernel.overlaps))

    def __call__(self) -> list[Any]:
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        for k in self.launches:
            config = Config(*k.grid, k.threads, 1, 1, k.shared, stream, ctypes.pointer(OVERLAPPED), int(k.overlaps))
            code = self.cuda.library.cuLaunchKernelEx(
                ctypes.byref(config), ctypes.c_void_p(k.function), k.pointers, None
            )
            if code:
                raise RuntimeError(f"cuLaunchKernel: CUDA error {code}")
        return self.results


def layout_of(t: TensorType) -> tuple[list[int], list[int]]:
    return [int(n) for n in t.shape], [int(n) for n in t.strides]


def dtype_of(t: TensorType) -> torch.dtype:
    return getattr(torch, TORCH_DTYPES[t.dtype])


# Measuring


def microseconds(f: Callable[[], Any], rounds: int = 7) -> float:
    """Of one call, in a CUDA graph of many; the median of several rounds."""
    f()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(RUNS):
            f()
    times: list[float] = []
    for _ in range(rounds):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e3 / RUNS)
    return statistics.median(times)


def bandwidth() -> float:
    """Bytes per microsecond of a large copy."""
    x = torch.zeros(1 << 26, dtype=torch.float32, device="cuda")
    y = torch.empty_like(x)
    return 2 * x.nbytes / min(microseconds(f) for f in (lambda: y.copy_(x), lambda: torch.neg(x, out=y)))


def flat(value: Any) -> list[Any]:
    return [value] if isinstance(value, torch.Tensor) else [t for v in value for t in flat(v)]


def wide(t: Any) -> Any:
    return t.double() if t.is_floating_point() else t


def error(got: Sequence[Any], wanted: Sequence[Any]) -> float:
    """The largest difference, relative to the largest value; infinite where NaNs differ."""
    worst = 0.0
    for g, w in zip(got, wanted, strict=True):
        g, w = g.double(), w.double()
        if bool((g.isnan() != w.isnan()).any()):
            return float("inf")
        scale = float(w.nan_to_num().abs().max()) if w.numel() else 0.0
        worst = max(worst, float((g - w).nan_to_num().abs().max()) / (scale or 1.0)) if w.numel() else worst
    return worst


def run_case(name: str, dtype: str, cuda: Cuda, target: GpuTarget, copy: float) -> tuple[list[str], float, float]:
    f, shapes = CASES[name]
    args = arguments(shapes, DTYPES[dtype], "cuda")
    start = time.perf_counter()
    module = lowered(f, args, target)
    lowering = time.perf_counter() - start
    compiled = {k.name: k for k in compile_kernels(kernel_sources(module), target.sm)}
    whole = time.perf_counter() - start
    program = Program(module, compiled, cuda, args)
    got = program()
    torch.cuda.synchronize()
    eager = flat(f(*args))
    reference = flat(f(*map(wide, args)))
    ours_error, eager_error = error(got, reference), error(eager, reference)
    traffic = sum(t.nbytes for t in (*args, *eager))
    del reference, eager
    ours, theirs = microseconds(program), microseconds(lambda: f(*args))
    ok = ours_error <= 2 * eager_error + (1e-6 if dtype == "f32" else 1e-3)
    row = [
        f"{name} {dtype}", f"{ours:.1f}", f"{theirs:.1f}", f"{theirs / ours:.2f}", f"{traffic / ours / 1e3:.0f}",
        f"{100 * traffic / ours / copy:.0f}", f"{ours_error:.1e}", f"{eager_error:.1e}", "" if ok else "WRONG",
        f"{len(program.launches)}", f"{lowering * 1e3:.0f}+{(whole - lowering) * 1e3:.0f}",
    ]  # fmt: skip
    return row, theirs / ours, traffic / ours / copy


def compiled_only(name: str, dtype: str, target: GpuTarget) -> str:
    """The kernels of a case."""
    f, shapes = CASES[name]
    start = time.perf_counter()
    module = lowered(f, arguments(shapes, DTYPES[dtype], "meta"), target)
    lowering = time.perf_counter() - start
    calls = [o.name for o in module.walk() if o.name.startswith("aten.")]
    compiled = compile_kernels(kernel_sources(module), target.sm)
    shown = [f"{k.name} ({k.warps} warps, {k.shared} B)" for k in compiled]
    return ", ".join([f"{lowering * 1e3:.0f} ms of passes", *shown, *calls])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--dtypes", default="f32,bf16")
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--set", nargs="*", default=[], help="NAME=value of lowering/tile_choice.py")
    parser.add_argument("--also", nargs="*", default=[], help="CASE:NAME=value,NAME=value")
    parser.add_argument("--offline", action="store_true")
    options = parser.parse_args()
    change(options.set)
    target = GpuTarget.from_name(options.target)
    names = options.cases.split(",")
    wanted = [(n, d) for n in names for d in options.dtypes.split(",")]
    if options.offline:
        for name, dtype in wanted:
            try:
                print(f"{name} {dtype}: {compiled_only(name, dtype, target)}", flush=True)
            except Exception as e:  # one case must not end the run
                print(f"{name} {dtype}: {type(e).__name__}: {e}")
        return
    torch.set_grad_enabled(False)
    cuda, copy = Cuda(), bandwidth()
    print(f"copy: {copy / 1e3:.0f} GB/s on {torch.cuda.get_device_name()}", flush=True)
    rows: list[list[str]] = []
    ratios: list[float] = []
    shares: list[float] = []
    others = [(i.partition(":")[0], d, i.partition(":")[2]) for i in options.also for d in options.dtypes.split(",")]
    for name, dtype, changes in [*((n, d, "") for n, d in wanted), *others]:
        before = change(filter(None, changes.split(",")))
        try:
            row, ratio, share = run_case(name, dtype, cuda, target, copy)
            if changes:
                row[0] += f" {changes}"
            else:
                ratios.append(ratio)
                shares.append(share)
        except Exception as e:  # one case must not end the run
            traceback.print_exc(limit=-3)
            row = [f"{name} {dtype}", f"{type(e).__name__}: {str(e)[:80]}", *[""] * 9]
        change([f"{k}={v}" for k, v in before.items()])
        rows.append(row)
        print("  ".join(row), flush=True)
        torch.cuda.empty_cache()
    header = ["case", "us", "eager us", "ratio", "GB/s", "share %", "error", "eager's", "", "launches", "ms to compile"]
    print(table(header, rows))
    print(f"geometric means: {geometric_mean(ratios):.2f}x eager, {100 * geometric_mean(shares):.0f} % of the copy")


if __name__ == "__main__":
    main()
