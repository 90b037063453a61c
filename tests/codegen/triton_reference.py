"""Run as a program: what Triton's own front end writes, and how Triton reads text. Nothing else imports Triton here.

triton_reference.py write FOLDER     TTIR of the kernels below, before (NAME.raw.ttir) and after Triton's clean-up
triton_reference.py read FILE...     JSON by file: the text without and with locations, as Triton prints it again
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import triton
import triton.language as tl
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import CUDABackend
from triton.compiler import ASTSource
from triton.language.extra import libdevice

TARGET = GPUTarget("cuda", 90, 32)


@triton.jit
def softmax(y, x, stride, rows, columns, block: tl.constexpr):
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=2):
        at = tl.arange(0, block)
        inside = at < columns
        row_of_x = tl.load(x + row * stride + at, mask=inside, other=-float("inf"))
        e = tl.exp(row_of_x - tl.max(row_of_x, axis=0))
        tl.store(y + row * stride + at, e / tl.sum(e, axis=0), mask=inside)


@triton.jit
def matmul(a, b, c, m, n, k, bm: tl.constexpr, bn: tl.constexpr, bk: tl.constexpr):
    tl.assume(m > 0)
    i = (tl.program_id(0) * bm + tl.arange(0, bm)) % m
    j = (tl.program_id(1) * bn + tl.arange(0, bn)) % n
    r = tl.arange(0, bk)
    pa = a + i[:, None] * k + r[None, :]
    pb = b + r[:, None] * n + j[None, :]
    total = tl.zeros((bm, bn), dtype=tl.float32)
    for start in range(0, k, bk):
        x = tl.load(pa, mask=r[None, :] < k - start, other=0.0)
        y = tl.load(pb, mask=r[:, None] < k - start, other=0.0)
        total = tl.dot(x, y, total)
        pa += bk
        pb += bk * n
    total = tl.where(total >= 0, total, 0.1 * total)
    tl.store(c + i[:, None] * n + j[None, :], total.to(tl.float16))


@triton.jit
def layer_norm(y, x, w, b, n, eps, block: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, block)
    inside = at < n
    v = tl.load(x + row * n + at, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(v, axis=0) / n
    centred = tl.where(inside, v - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / n + eps)
    tl.store(
        y + row * n + at, centred * scale * tl.load(w + at, mask=inside) + tl.load(b + at, mask=inside), mask=inside
    )


@triton.jit
def tma(a, b, c, m, n, k, bm: tl.constexpr, bn: tl.constexpr, bk: tl.constexpr):
    da = tl.make_tensor_descriptor(a, shape=[m, k], strides=[k, 1], block_shape=[bm, bk])
    db = tl.make_tensor_descriptor(b, shape=[n, k], strides=[k, 1], block_shape=[bn, bk])
    dc = tl.make_tensor_descriptor(c, shape=[m, n], strides=[n, 1], block_shape=[bm, bn])
    i = tl.program_id(0) * bm
    j = tl.program_id(1) * bn
    total = tl.zeros((bm, bn), dtype=tl.float32)
    for start in range(0, k, bk):
        total = tl.dot(da.load([i, start]), db.load([j, start]).T, total)
    dc.store([i, j], total.to(tl.bfloat16))


@triton.jit(noinline=True)
def apart(x, y):
    return x * 2 + y


@triton.jit
def smaller(a, i, b, j):
    less = a < b
    return tl.where(less, a, b), tl.where(less, i, j)


@triton.jit
def variety(x, o, counts, n, flag, block: tl.constexpr):
    at = tl.program_id(1).to(tl.int64) * block + tl.arange(0, block)
    inside = at < n
    v = tl.load(x + at, mask=inside, eviction_policy="evict_last")
    w = libdevice.tanh(v) + libdevice.pow(v, v) + tl.erf(v) + tl.sigmoid(v) + tl.rsqrt(v) + apart(tl.sum(v), 1.0)
    best, where = tl.reduce((w, tl.arange(0, block)), 0, smaller)
    q = tl.inline_asm_elementwise(
        "add.f32 $0, $1, $2;", "=f,f,f", [tl.cumsum(w, 0), w], dtype=tl.float32, is_pure=True, pack=1
    )
    q = tl.clamp(q, 0.0, 6.0)
    tl.atomic_add(counts + tl.arange(0, 64), tl.histogram(at.to(tl.int32), 64))
    tl.atomic_max(counts + 3, where, sem="relaxed", scope="sys")
    tl.atomic_cas(counts + 4, 0, where)
    tl.atomic_xchg(o + at, q, mask=inside)
    turned = tl.reshape(tl.trans(tl.reshape(q, (block // 32, 32))), (block,))
    left, right = tl.join(turned, q).split()
    picked = tl.gather(left, at.to(tl.int32) % block, 0).to(tl.float8e5).to(tl.float32)
    bits = picked.to(tl.int32, bitcast=True)
    exact = tl.div_rn(picked, left) + tl.sqrt_rn(right) + tl.sort(picked)
    if flag > 0:
        tl.store(o + at, exact, mask=inside)
    elif flag == -1:
        tl.store(o + at, picked + tl.umulhi(bits, bits), mask=inside, cache_modifier=".cs")
    i = 0
    while i < n:
        tl.store(o + i, best)
        i += 1
    tl.device_print("picked", picked, bits)
    tl.debug_barrier()


@triton.jit
def scaled(a, sa, b, sb, c, m: tl.constexpr, n: tl.constexpr, k: tl.constexpr):
    i = tl.arange(0, m)[:, None]
    j = tl.arange(0, n)
    r = tl.arange(0, k)
    s = tl.arange(0, k // 32)[None, :]
    x = tl.load(a + i * k + r[None, :])
    y = tl.load(b + r[:, None] * n + j[None, :])
    scale_x = tl.load(sa + i * (k // 32) + s)
    scale_y = tl.load(sb + j[:, None] * (k // 32) + s)
    tl.store(c + i * n + j[None, :], tl.dot_scaled(x, scale_x, "e4m3", y, scale_y, "e4m3"))


@triton.jit
def blocks(x, y, n, m, block: tl.constexpr):
    """What is pointed to in blocks, and bits that stay what they are."""
    p = tl.make_block_ptr(x, (n, m), (m, 1), (0, 0), (block, block), (1, 0))
    q = tl.make_block_ptr(y, (n, m), (m, 1), (0, 0), (block, block), (1, 0))
    for _ in range(0, m, block):
        v = tl.load(p, boundary_check=(0, 1), padding_option="zero") + tl.rand(n.to(tl.int32), tl.arange(0, block))
        tl.store(q, v, boundary_check=(0, 1), cache_modifier=".cs")
        p, q = tl.advance(p, (0, block)), tl.advance(q, (0, block))


@triton.jit
def both(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def larger(x, y):
    if x > y:
        return x
    return y * 2


@triton.jit
def orders(x, y, counts, h, n, block: tl.constexpr):
    """Scans of pairs backwards, orders of memory, loops that run on, code with two results."""
    at = tl.arange(0, block)
    a, b = tl.load(x + at, mask=at < n, volatile=True), tl.load(y + at, cache_modifier=".cg")
    u, v = tl.associative_scan((a, b), 0, both, reverse=True)
    tl.store(y + tl.arange(0, 2 * block), tl.cat(u, v, can_reorder=True) + tl.interleave(a, b))
    tl.store(x + tl.arange(0, 4), tl.topk(a, 4) + tl.argmin(b, 0, tie_break_left=False))
    tl.atomic_min(counts + at, at, mask=at < n, sem="acquire", scope="gpu")
    tl.atomic_or(counts + at, at, sem="release", scope="cta")
    tl.atomic_add(h + at, tl.full((block,), 1, tl.float16))
    tl.atomic_max(x + at, a)
    i = 0
    while i < n:
        if i % 3 == 0:
            i += 2
        elif i > 5:
            i += tl.load(counts + i)
        else:
            i += 1
    tl.device_assert(i >= 0, "i")
    s, t = tl.inline_asm_elementwise(
        "{ add.f32 $0, $2, $2; mul.f32 $1, $2, $2; }", "=f,=f,f", [a], (tl.float32, tl.float32), is_pure=False, pack=1
    )
    tl.store(x + at, s + tl.map_elementwise(larger, s, t))
    total, whole = tl.zeros((32, 32), tl.float32), tl.zeros((32, 32), tl.int32)
    places = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    for k in tl.range(0, n, num_stages=3, loop_unroll_factor=2, disallow_acc_multi_buffer=True, flatten=True):
        w = tl.load(x + places + k)
        total = tl.dot(w, w, total, input_precision="tf32x3")
        total += tl.dot(w.to(tl.float8e5), w.to(tl.float8e5), max_num_imprecise_acc=32)
        whole = tl.dot(w.to(tl.int8), w.to(tl.int8), whole, out_dtype=tl.int32)
    tl.store(x + places, total + whole)


KERNELS = {
    "blocks": (blocks, "*fp32 *fp32 i64 i64", {"block": 32}),
    "orders": (orders, "*fp32 *fp32 *i32 *fp16 i32", {"block": 128}),
    "softmax": (softmax, "*fp32 *fp32 i32 i32 i32", {"block": 1024}),
    "matmul": (matmul, "*fp16 *fp16 *fp16 i32 i32 i32", {"bm": 64, "bn": 64, "bk": 32}),
    "layer_norm": (layer_norm, "*bf16 *bf16 *bf16 *bf16 i32 fp32", {"block": 512}),
    "tma": (tma, "*bf16 *bf16 *bf16 i32 i32 i32", {"bm": 128, "bn": 64, "bk": 64}),
    "variety": (variety, "*fp32 *fp32 *i32 i32 i32", {"block": 256}),
    "scaled": (scaled, "*fp8e4nv *u8 *fp8e4nv *u8 *fp32", {"m": 128, "n": 64, "k": 64}),
}


def write(folder: str) -> None:
    backend = CUDABackend(TARGET)
    for name, (function, types, constants) in KERNELS.items():
        arguments = types.split()
        signature = dict(zip(function.arg_names, [*arguments, *("constexpr" for _ in constants)], strict=True))
        aligned = {(i,): [["tt.divisibility", 16]] for i, type in enumerate(arguments) if type[0] == "*"}
        options = backend.parse_options({"num_warps": 4})
        source = ASTSource(fn=function, signature=signature, constexprs=constants, attrs=aligned)
        context = _context(backend)
        generate = backend.get_codegen_implementation(options)
        module = source.make_ir(TARGET, options, generate, backend.get_module_map(), context)
        Path(folder, f"{name}.raw.ttir").write_text(str(module))
        Path(folder, f"{name}.ttir").write_text(backend.make_ttir(module, {}, options, 90).str_nodebug())


def read(files: list[str]) -> None:
    backend = CUDABackend(TARGET)
    found: dict[str, tuple[str, str]] = {}
    for file in files:
        context = _context(backend)  # which has to outlive the module
        module = ir.parse_mlir_module(file, context)
        found[file] = (module.str_nodebug(), str(module))
    print(json.dumps(found))


def _context(backend: CUDABackend) -> ir.context:
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    return context


if __name__ == "__main__":
    {"write": lambda: write(sys.argv[2]), "read": lambda: read(sys.argv[2:])}[sys.argv[1]]()
