"""The checks of `gpu_check.py`: functions and models on the GPU against eager in float64, and what they cost."""

from __future__ import annotations

import copy
import os
import statistics
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

os.environ.setdefault("LAMELLA_STRICT", "1")  # what is not compiled is an error here, not a warning

GPU = os.environ.get("GPU_CHECK_DEVICE", "cuda")
"""`cpu` runs what can be run there: to check the checks."""


def wait() -> None:
    if GPU == "cuda":
        torch.cuda.synchronize()


class Skip(Exception):
    """A check that says nothing on this machine."""


@dataclass(frozen=True)
class Check:
    name: str
    body: Callable[[Any], Any]

    def run(self, arguments: Any) -> str:
        torch._dynamo.reset()
        torch.manual_seed(0)
        warnings.simplefilter("ignore")
        detail = self.body(arguments)
        wait()
        return detail or ""


CHECKS: dict[str, Check] = {}


def check(name: str) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    def add(body: Callable[[Any], Any]) -> Callable[[Any], Any]:
        CHECKS[name] = Check(name, body)
        return body

    return add


def list_checks() -> None:
    import triton

    from lamella.codegen.triton_compile import triton_version

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    known = "" if triton_version() else " (not known)"
    print(f"{gpu}, torch {torch.__version__}, triton {triton.__version__}{known}")
    print("\n".join(CHECKS))


def sound() -> bool:
    """Whether the GPU still works for this process."""
    try:
        wait()
        return float(torch.ones(2, device=GPU).sum()) == 2.0
    except Exception:
        return False


def compiled(program: Callable[..., Any], **how: Any) -> Any:
    from lamella.driver import lamella

    return torch.compile(program, backend=lamella, **how)


# ------------------------------------------------------------------------------------------------------------ compare

TOLERANCE = {torch.float32: 2e-6, torch.float64: 1e-12, torch.bfloat16: 1e-2, torch.float16: 1.5e-3}


def flat(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [t for v in value.values() for t in flat(v)]
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in flat(v)]
    return []


def exact(value: Any) -> Any:
    """A copy in float64 of what is floating point."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone().double() if value.is_floating_point() else value.clone()
    return type(value)(exact(v) for v in value) if isinstance(value, (list, tuple)) else value


def error_of(found: torch.Tensor, reference: torch.Tensor) -> float:
    """Root mean square of the difference, over that of the reference; not-a-numbers must be in the same places."""
    a, b = found.detach().double().flatten(), reference.detach().double().flatten()
    assert bool((a.isnan() == b.isnan()).all()), "NaN where the reference has none, or the other way around"
    a, b = a.nan_to_num(0.0, 1e30, -1e30), b.nan_to_num(0.0, 1e30, -1e30)
    scale = b.square().mean().sqrt().clamp_min(1e-30) if b.numel() else torch.ones(())
    return float(((a - b).square().mean().sqrt() / scale) if b.numel() else 0.0)


def same(found: Any, eager: Any, reference: Any, factor: float = 2.0) -> str:
    """That what was found is about as near to the reference as eager is. What is said: the worst of both errors."""
    worst = (0.0, 0.0)
    found, eager, reference = flat(found), flat(eager), flat(reference)
    assert len(found) == len(eager) == len(reference), f"{len(found)} results, {len(eager)} expected"
    for i, (f, e, r) in enumerate(zip(found, eager, reference, strict=True)):
        assert f.dtype == e.dtype and f.shape == e.shape, f"result {i}: {f.dtype} {tuple(f.shape)}"
        assert f.stride() == e.stride() or f.numel() < 2, f"result {i}: strides {f.stride()}, eager {e.stride()}"
        assert f.device == e.device, f"result {i} is on {f.device}, eager's on {e.device}"
        if not f.is_floating_point():
            assert torch.equal(f, e), f"result {i}: {int((f != e).sum())} of {f.numel()} differ"
            continue
        ours, theirs = error_of(f, r), error_of(e, r)
        worst = max(worst, (ours, theirs))
        limit = factor * theirs + TOLERANCE.get(f.dtype, 1e-2)
        assert ours <= limit, f"result {i}: error {ours:.2e}, eager {theirs:.2e}"
    return f"error {worst[0]:.1e}, eager {worst[1]:.1e}"


def agree(program: Callable[..., Any], *inputs: Any, calls: int = 2, **how: Any) -> str:
    """`program` compiled against itself, eager and in float64, on the same inputs."""
    reference = program(*exact(list(inputs)))
    eager = program(*copy.deepcopy(inputs))
    fast = compiled(program, **how)
    for _ in range(calls):
        found = fast(*copy.deepcopy(inputs))
        detail = same(found, eager, reference)
    return detail


def rand(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, device=GPU).to(dtype)


def ints(high: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, high, shape, device=GPU)


# ------------------------------------------------------------------------------------------------------------- kernels

Case = tuple[Callable[..., Any], Callable[[torch.dtype], Sequence[Any]]]
KERNELS: dict[str, Case] = {
    "add": (lambda x, y: x + y, lambda t: (rand(1000, dtype=t), rand(1000, dtype=t))),
    "gelu": (lambda x: F.gelu(x * 1.5 + 0.5), lambda t: (rand(257, 129, dtype=t),)),
    "silu mul": (lambda x, y: F.silu(x) * y, lambda t: (rand(64, 1024, dtype=t), rand(64, 1024, dtype=t))),
    "unary": (
        lambda x: (x.exp(), x.sin(), x.cos(), x.tanh(), x.sigmoid(), x.abs().log1p(), x.abs().sqrt(), x.erf()),
        lambda t: (rand(4096, dtype=t),),
    ),
    "more unary": (
        lambda x: (x.expm1(), x.abs().rsqrt(), x.floor(), x.round(), x.atan(), x.asinh(), x.sinh(), x.tan(), x.exp2()),
        lambda t: (rand(4096, dtype=t),),
    ),
    "binary": (
        lambda x, y: (x / y, x.abs().pow(y), torch.maximum(x, y), torch.atan2(x, y), torch.fmod(x, y), x.copysign(y)),
        lambda t: (rand(4096, dtype=t), rand(4096, dtype=t)),
    ),
    "special values": (
        lambda x: (x.exp(), x.log(), x.sqrt(), x.tanh(), x.relu(), x.clamp(-1, 1), x.isnan(), x > 0, x.sigmoid()),
        lambda t: (
            torch.tensor([0.0, -0.0, 1, -1, 1e30, -1e30, float("inf"), -float("inf"), float("nan")] * 9).to(GPU, t),
        ),
    ),
    "broadcast": (lambda x, y: x * y + y, lambda t: (rand(33, 1, 65, dtype=t), rand(17, 1, dtype=t))),
    "where": (lambda x, y: torch.where(x > y, x, y * 2), lambda t: (rand(100, 100, dtype=t), rand(100, dtype=t))),
    "convert": (
        lambda x: (x.to(torch.int32), x.to(torch.float64), x.bool(), x.to(torch.float16), x.to(torch.uint8)),
        lambda t: (rand(1000, dtype=t).abs() * 20,),
    ),
    "softmax": (lambda x: x.softmax(-1), lambda t: (rand(128, 1000, dtype=t),)),
    "softmax long": (lambda x: x.softmax(-1), lambda t: (rand(4, 100_000, dtype=t),)),
    "softmax dim 0": (lambda x: x.softmax(0), lambda t: (rand(300, 70, dtype=t),)),
    "log_softmax": (lambda x: x.log_softmax(-1), lambda t: (rand(60, 513, dtype=t),)),
    "layer_norm": (
        lambda x, w, b: F.layer_norm(x, (768,), w, b),
        lambda t: (rand(200, 768, dtype=t), rand(768, dtype=t), rand(768, dtype=t)),
    ),
    "rms_norm": (
        lambda x, w: x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(x.dtype) * w,
        lambda t: (rand(200, 1024, dtype=t), rand(1024, dtype=t)),
    ),
    "group_norm": (lambda x: F.group_norm(x, 4), lambda t: (rand(3, 16, 9, 9, dtype=t),)),
    "batch_norm": (
        lambda x, m, v: F.batch_norm(x, m, v),
        lambda t: (rand(4, 8, 7, 7, dtype=t), rand(8), rand(8).abs()),
    ),
    "sum all": (lambda x: x.sum(), lambda t: (rand(1000, 333, dtype=t),)),
    "sum rows": (lambda x: x.sum(-1), lambda t: (rand(500, 3000, dtype=t),)),
    "sum columns": (lambda x: x.sum(0), lambda t: (rand(3000, 500, dtype=t),)),
    "sum middle": (lambda x: x.sum(1), lambda t: (rand(10, 300, 70, dtype=t),)),
    "max min": (lambda x: (x.amax(-1), x.amin(0), x.max()), lambda t: (rand(100, 300, dtype=t),)),
    "argmax": (lambda x: (x.argmax(-1), x.argmin(0), x.max(-1)), lambda t: (rand(100, 300, dtype=t),)),
    "var std": (lambda x: (x.var(-1), x.std(0), torch.var_mean(x, 1)), lambda t: (rand(100, 300, dtype=t) + 10,)),
    "prod any all": (lambda x: (x.prod(-1), (x > 2).any(-1), (x > -4).all(0)), lambda t: (rand(50, 20, dtype=t),)),
    "cumsum": (lambda x: (x.cumsum(-1), x.cumsum(0)), lambda t: (rand(100, 300, dtype=t),)),
    "transpose": (lambda x, y: x.t() + y, lambda t: (rand(300, 200, dtype=t), rand(200, 300, dtype=t))),
    "permute": (lambda x: x.permute(2, 0, 1).contiguous() * 2, lambda t: (rand(30, 40, 50, dtype=t),)),
    "cat": (lambda x, y: torch.cat([x, y * 2, x[:, :5]], 1), lambda t: (rand(30, 70, dtype=t), rand(30, 20, dtype=t))),
    "pad": (lambda x: F.pad(x, (1, 2, 3, 4), value=0.5) + 1, lambda t: (rand(30, 40, dtype=t),)),
    "slices": (lambda x: x[::2, 1:] + x[1::2, :-1], lambda t: (rand(100, 80, dtype=t),)),
    "flip roll": (lambda x: x.flip(0) + x.roll(3, 1), lambda t: (rand(30, 40, dtype=t),)),
    "embedding": (lambda w, i: F.embedding(i, w) * 2, lambda t: (rand(1000, 64, dtype=t), ints(1000, 7, 33))),
    "index": (lambda x, i: x[i] + x[:, None, 0][i], lambda t: (rand(100, 30, dtype=t), ints(100, 50))),
    "gather": (lambda x, i: x.gather(1, i), lambda t: (rand(100, 30, dtype=t), ints(30, 100, 7))),
    "scatter_add": (
        lambda x, i, s: x.scatter_add(0, i, s),
        lambda t: (rand(10, 30, dtype=t), ints(10, 100, 30), rand(100, 30, dtype=t)),
    ),
    "index_add": (
        lambda x, i, s: x.index_add(0, i, s),
        lambda t: (rand(50, 30, dtype=t), ints(50, 1000), rand(1000, 30, dtype=t)),
    ),
    "scatter": (
        lambda x, i, s: x.scatter(1, i, s),
        lambda t: (
            rand(20, 64, dtype=t),
            torch.stack([torch.randperm(64)[:9] for _ in range(20)]).to(GPU),
            rand(20, 9, dtype=t),
        ),
    ),
    "triu": (lambda x: (x.triu(1), x.tril(-2)), lambda t: (rand(70, 80, dtype=t),)),
    "cross_entropy": (lambda x, i: F.cross_entropy(x, i), lambda t: (rand(200, 1000, dtype=t), ints(1000, 200))),
    "interpolate": (lambda x: F.interpolate(x, scale_factor=2.0), lambda t: (rand(2, 3, 17, 19, dtype=t),)),
    "arange full": (
        lambda x: x + torch.arange(64, device=x.device) + torch.full((64,), 3.0, device=x.device).to(x.dtype),
        lambda t: (rand(10, 64, dtype=t),),
    ),
    "zero sizes": (lambda x: (x * 2, x.sum(0), x.sum(1)), lambda t: (rand(0, 5, dtype=t),)),
    "scalars": (lambda x: (x * 2 + 1, x.sum()), lambda t: (rand(dtype=t),)),
    "mm bias gelu": (
        lambda x, w, b: F.gelu(F.linear(x, w, b)),
        lambda t: (rand(64, 256, dtype=t), rand(128, 256, dtype=t) / 16, rand(128, dtype=t)),
    ),
    "bmm": (lambda x, y: torch.bmm(x, y) + 1, lambda t: (rand(4, 33, 65, dtype=t), rand(4, 65, 20, dtype=t))),
    "conv2d relu": (
        lambda x, w, b: F.conv2d(x, w, b, padding=1).relu(),
        lambda t: (rand(2, 8, 20, 20, dtype=t), rand(16, 8, 3, 3, dtype=t) / 8, rand(16, dtype=t)),
    ),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda t: (rand(2, 4, 64, 64, dtype=t), rand(2, 4, 64, 64, dtype=t), rand(2, 4, 64, 64, dtype=t)),
    ),
    "sort topk": (lambda x: (x.sort(-1)[0] + 1, x.topk(3, -1)[0]), lambda t: (rand(20, 64, dtype=t),)),
    "max_pool": (lambda x: F.max_pool2d(x, 2) + F.avg_pool2d(x, 2), lambda t: (rand(2, 3, 20, 20, dtype=t),)),
}


def _kernel(name: str, dtype: torch.dtype) -> Callable[[Any], str]:
    program, make = KERNELS[name]
    return lambda _: agree(program, *make(dtype))


for _name in KERNELS:
    for _dtype, _short in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
        check(f"kernels/{_name} {_short}")(_kernel(_name, _dtype))


@check("kernels/integers")
def _(_: Any) -> str:
    x, y = ints(1000, 5000) - 500, ints(50, 5000) + 1
    return agree(lambda x, y: (x + y, x * y, x // y, x % y, x & y, x << 2, x.sum(), x.max(), x > y), x, y)


@check("kernels/f16")
def _(_: Any) -> str:
    return agree(lambda x: (F.gelu(x), x.softmax(-1), x.sum(0)), rand(100, 200, dtype=torch.float16))


@check("kernels/f64")
def _(_: Any) -> str:
    return agree(lambda x: (x.exp(), x.softmax(-1), x.sum(0), x.tanh()), rand(100, 200, dtype=torch.float64))


# ---------------------------------------------------------------------------------------------------------------- host


@check("host/dynamic sizes")
def _(_: Any) -> str:
    def program(x: torch.Tensor) -> Any:
        return (x.softmax(-1) * 2).sum(0), x.t().contiguous()

    fast = compiled(program, dynamic=True)
    for n, m in ((7, 13), (128, 64), (1, 5), (33, 2000), (0, 4)):
        x = rand(n, m)
        same(fast(x), program(x), program(x.double()))
    return ""


@check("host/misaligned inputs")
def _(_: Any) -> str:
    fast = compiled(lambda x, y: (x * 2 + y).relu())
    base = rand(4100)
    for offset in (0, 1, 2, 3, 4):
        x, y = base[offset : offset + 4096], base[:4096]
        same(fast(x, y), (x * 2 + y).relu(), (x.double() * 2 + y.double()).relu())
    return ""


@check("host/strided inputs")
def _(_: Any) -> str:
    x = rand(64, 128)
    details = [agree(lambda x: x.exp() + 1, v) for v in (x.t(), x[:, ::2], x[::3], x[:1].expand(8, 128))]
    return details[-1]


@check("host/changed inputs")
def _(_: Any) -> str:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        y[3:5] = 0
        return x * y

    a, b = rand(100), rand(100)
    c, d = a.clone(), b.clone()
    same((compiled(program)(a, b), a, b), (program(c, d), c, d), (c * d, c, d))
    return ""


@check("host/aliases")
def _(_: Any) -> str:
    x = rand(10, 20)
    found = compiled(lambda x: (x.view(200), x.t(), x + 1, x))(x)
    assert found[0].data_ptr() == x.data_ptr() and found[1].data_ptr() == x.data_ptr() and found[3] is x
    return ""


@check("host/streams")
def _(_: Any) -> str:
    """Kernels run on the stream that is current: behind a long wait there, and not before."""
    fast = compiled(lambda x: x * 2 + 1)
    x = torch.zeros(1 << 20, device=GPU)
    fast(x)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)
        x.fill_(3.0)
        y = fast(x)
        done = torch.cuda.Event()
        done.record()
    early = done.query()
    torch.cuda.current_stream().wait_stream(side)
    assert not early and bool((y == 7).all())
    return ""


@check("host/threads")
def _(_: Any) -> str:
    """A thread that has not used CUDA yet, and several at once."""
    fast = compiled(lambda x: (x.sin() * 2).sum(-1))
    x = rand(100, 100)
    want = fast(x)
    wrong: list[str] = []

    def call() -> None:
        try:
            for _ in range(50):
                if not torch.equal(fast(x), want):
                    wrong.append("another result")
        except Exception as error:
            wrong.append(str(error))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[0]
    return ""


@check("host/cpu and gpu")
def _(_: Any) -> str:
    """Tensors of both, numbers in CPU tensors, and transfers."""
    x, y = rand(50, 60), torch.randn(50, 60)

    def program(x: torch.Tensor, y: torch.Tensor, s: torch.Tensor) -> Any:
        return x * s + 1, y.exp() * 2, (y * 2).to(x.device) + x, x.cpu() + y

    return agree(program, x, y, torch.tensor(2.5))


@check("host/inference mode")
def _(_: Any) -> str:
    fast, x = compiled(lambda x: (x * 2, x.view(-1))), rand(10, 10)
    with torch.inference_mode():
        same(fast(x)[0], x * 2, x.double() * 2)
    with torch.no_grad():
        same(fast(x)[0], x * 2, x.double() * 2)
    return ""


@check("host/wrong inputs")
def _(_: Any) -> str:
    from lamella.codegen.runtime import NativeGraph

    graphs: list[NativeGraph] = []
    init = NativeGraph.__init__

    def noted(self: NativeGraph, *given: Any) -> None:
        init(self, *given)
        graphs.append(self)

    NativeGraph.__init__ = noted  # type: ignore[method-assign]
    try:
        compiled(lambda x: x * 2)(rand(10))
    finally:
        NativeGraph.__init__ = init  # type: ignore[method-assign]
    for wrong in (torch.randn(10), rand(11), rand(10).double()):
        try:
            graphs[0]([wrong])
        except (TypeError, ValueError):
            continue
        raise AssertionError("a wrong input was taken")
    return ""


@check("host/memory")
def _(_: Any) -> str:
    """Calls leave nothing behind."""
    fast, x = compiled(lambda x: ((x.sin() @ x.t()).softmax(-1) @ x).sum(-1)), rand(512, 512)
    for _ in range(20):  # recordings keep what they need
        fast(x)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(100):
        fast(x)
    torch.cuda.synchronize()
    after = torch.cuda.memory_allocated()
    assert after <= before, f"{after - before} bytes more after 100 calls"
    return ""


@check("host/several gpus")
def _(_: Any) -> str:
    if torch.cuda.device_count() < 2:
        raise Skip("one GPU here")
    x, y = torch.randn(100, device="cuda:0"), torch.randn(100, device="cuda:1")

    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x * 2, y.exp() + 1, x.to(y.device) + y, x.sin()

    before = torch.cuda.current_device()
    detail = agree(program, x, y)
    assert torch.cuda.current_device() == before
    with torch.cuda.device(1):
        agree(program, x, y)
    return detail


# -------------------------------------------------------------------------------------------------------------- models


class Block(nn.Module):
    """A block of a transformer."""

    def __init__(self, width: int = 128, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(self.before(x)).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, c))
        return x + self.down(F.gelu(self.up(self.after(x))))


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1, bias=False)
        self.norm, self.head = nn.BatchNorm2d(16), nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.a(x))
        x = F.relu(self.norm(self.b(x)) + x)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor]]] = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 32)),
        lambda: torch.randn(50, 64),
    ),
    "transformer block": (Block, lambda: torch.randn(3, 40, 128)),
    "convolutions": (Convolutions, lambda: torch.randn(4, 3, 24, 24)),
}


def _model(name: str, dtype: torch.dtype, train: bool) -> Callable[[Any], str]:
    def run(_: Any) -> str:
        make, inputs = MODELS[name]
        base, x = make().to(GPU), inputs().to(GPU)

        def results(model: nn.Module, x: torch.Tensor, forward: Any) -> list[Any]:
            if not train:
                with torch.no_grad():
                    return [forward(x)]
            y = forward(x)
            (y.float() ** 2).mean().backward()
            return [y, *[p.grad for p in model.parameters()]]

        reference = copy.deepcopy(base).double().train(train)
        eager = copy.deepcopy(base).to(dtype).train(train)
        ours = copy.deepcopy(base).to(dtype).train(train)
        want = results(reference, x.double(), reference)
        theirs = results(eager, x.to(dtype), eager)
        found = results(ours, x.to(dtype), compiled(ours))
        return same(found, theirs, want, factor=3.0)

    return run


for _name in MODELS:
    for _dtype, _short in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
        for _train in (False, True):
            check(f"models/{_name} {_short} {'train' if _train else 'infer'}")(_model(_name, _dtype, _train))


@check("models/training steps")
def _(_: Any) -> str:
    """Losses of ten steps of AdamW, as eager's."""
    losses: list[list[float]] = []
    torch.manual_seed(0)
    base, x, y = Block().to(GPU), rand(4, 32, 128), rand(4, 32, 128)
    for fast in (False, True):
        model = copy.deepcopy(base)
        forward = compiled(model) if fast else model
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        losses.append([])
        for _ in range(10):
            loss = F.mse_loss(forward(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[-1].append(float(loss))
    difference = max(abs(a - b) for a, b in zip(*losses, strict=True))
    assert difference < 1e-3, f"losses differ by {difference:.2e}"
    return f"losses differ by {difference:.1e}"


def _transformers(name: str) -> Callable[[Any], str]:
    def run(_: Any) -> str:
        try:
            import transformers
        except ImportError:
            raise Skip("no transformers here") from None
        small = {"num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 4, "vocab_size": 500}
        if name == "gpt2":
            config = transformers.GPT2Config(n_layer=2, n_embd=128, n_head=4, vocab_size=500)
            model: Any = transformers.GPT2LMHeadModel(config)
        elif name == "bert":
            model = transformers.BertModel(transformers.BertConfig(intermediate_size=256, **small))
        else:
            config = transformers.LlamaConfig(intermediate_size=256, num_key_value_heads=2, **small)
            model = transformers.LlamaForCausalLM(config)
        model = model.to(GPU).eval()
        ids = ints(500, 2, 48)
        with torch.no_grad():
            want = copy.deepcopy(model).double()(ids)[0]
            return same(compiled(model)(ids)[0], model(ids)[0], want, factor=3.0)

    return run


for _name in ("gpt2", "bert", "llama"):
    check(f"models/{_name}")(_transformers(_name))


# --------------------------------------------------------------------------------------------------------------- costs


def microseconds(f: Callable[[], Any], calls: int = 200, rounds: int = 11) -> float:
    """Of the calling thread: the GPU is waited for between rounds only."""
    for _ in range(20):
        f()
    torch.cuda.synchronize()
    times: list[float] = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            f()
        times.append((time.perf_counter() - start) / calls * 1e6)
        torch.cuda.synchronize()
    return statistics.median(times)


def gpu_microseconds(f: Callable[[], Any], rounds: int = 15) -> float:
    """Of the GPU, with work queued ahead so that it never waits for the caller."""
    for _ in range(3):
        f()
    torch.cuda.synchronize()
    start = time.perf_counter()
    f()
    torch.cuda.synchronize()
    calls = max(5, min(200, int(0.02 / max(time.perf_counter() - start, 1e-6))))
    times: list[float] = []
    for _ in range(rounds):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(4_000_000)
        a.record()
        for _ in range(calls):
            f()
        b.record()
        torch.cuda.synchronize()
        times.append(a.elapsed_time(b) / calls * 1e3)
    return statistics.median(times)


LAUNCHES = 100
_TYPE = "!sym.t<[1024], f32, device=cuda:0>"


def launch_program(launches: int) -> str:
    """A host program that launches a kernel of one program so many times, from one buffer to another and back."""
    lines = [
        f"host.launch @step(%{'ab'[i % 2]}) outs(%{'ba'[i % 2]}) sizes [] : {_TYPE}, {_TYPE}" for i in range(launches)
    ]
    body = "\n".join(lines)
    return f"""
        loop.kernel @step(%x: {_TYPE}) outs(%y: {_TYPE}) sizes [] grid [d0 = 1024] {{
          %c = arith.constant 1.0 : f32
          %v = loop.load %x[d0] : {_TYPE}
          %w = arith.addf %v, %c : f32
          loop.store %w, %y[d0] : {_TYPE}
          loop.end
        }}
        host.func @main(%x: {_TYPE}) -> {_TYPE} {{
          host.check %x "x" : {_TYPE}
          %a = host.empty : {_TYPE}
          %b = host.empty : {_TYPE}
          {body}
          host.return %a : {_TYPE}
        }}
        """


@check("cost/launch of a kernel")
def _(_: Any) -> str:
    from lamella import driver
    from lamella.dialects.text import parse_module

    options = driver.Options()
    target, gpu = driver.target_of(options), driver.gpu_of(options)
    passes = driver.pipeline(options, target, gpu).split(",")
    x, times = torch.zeros(1024, device=GPU), {}
    for launches in (0, LAUNCHES):
        module = parse_module(launch_program(launches))
        driver.run_passes(module, ",".join(passes[passes.index("bufferize") + 1 :]))
        function = driver.native(module, target, gpu).function()
        times[launches] = microseconds(lambda function=function: function([x]), calls=20)
    each = (times[LAUNCHES] - times[0]) / LAUNCHES
    assert each < 8, f"{each:.2f} us"
    return f"{each:.2f} us each; a call that allocates two tensors and launches nothing {times[0]:.1f} us"


@check("cost/call of a small graph")
def _(_: Any) -> str:
    x = rand(1024)
    fast = compiled(lambda x: (x * 2 + 1).relu())
    return f"compiled {microseconds(lambda: fast(x)):.1f} us, eager {microseconds(lambda: (x * 2 + 1).relu()):.1f} us"


@check("cost/cuda graphs")
def _(_: Any) -> str:
    """A forward of a small model of many kernels."""
    model, x = nn.Sequential(*(Block() for _ in range(6))).to(GPU).eval(), rand(1, 16, 128)
    with torch.no_grad():
        plain, graphs = compiled(model), compiled(model, options={"cuda_graphs": True})
        texts = [f"{name} {microseconds(lambda f=f: f(x), calls=30):.0f} us"
                 for name, f in (("eager", model), ("compiled", plain), ("recorded", graphs))]  # fmt: skip
    return ", ".join(texts)


@check("cost/call of a small graph, inductor")
def _(arguments: Any) -> str:
    if not arguments.inductor:
        raise Skip("without --inductor")
    x = rand(1024)
    fast = torch.compile(lambda x: (x * 2 + 1).relu())
    return f"{microseconds(lambda: fast(x)):.1f} us"


@check("cost/matmul through the shim")
def _(_: Any) -> str:
    x, y = rand(64, 64), rand(64, 64)
    fast, out = compiled(lambda x, y: x @ y @ y @ y @ y), torch.empty(64, 64, device=GPU)

    def eager() -> None:
        for _ in range(4):
            torch.mm(x, y, out=out)

    ours, theirs = microseconds(lambda: fast(x, y)), microseconds(eager)
    return f"four in a graph {ours:.1f} us, four of eager's mm(out=) {theirs:.1f} us"


@check("cost/compiling")
def _(_: Any) -> str:
    """A block of a transformer: from nothing, and from the cache on disk."""
    model, x = Block().to(GPU), rand(2, 32, 128)
    times: list[float] = []
    with torch.no_grad():
        for _ in range(2):
            torch._dynamo.reset()
            start = time.perf_counter()
            compiled(model)(x)
            torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
    return f"cold {times[0]:.2f} s, warm {times[1]:.2f} s"


def bandwidth() -> float:
    """TB/s of a copy."""
    source = torch.empty(1 << 28, dtype=torch.uint8, device=GPU)
    target = torch.empty_like(source)
    return 2 * source.numel() / gpu_microseconds(lambda: target.copy_(source)) / 1e6


def _bytes(*tensors: Any) -> int:
    return sum(t.numel() * t.element_size() for t in flat(tensors))


SPEED: dict[str, Case] = {
    "add 64M": (lambda x, y: x + y, lambda t: (rand(1 << 26, dtype=t), rand(1 << 26, dtype=t))),
    "gelu 64M": (lambda x: F.gelu(x * 1.5 + 0.5), lambda t: (rand(1 << 26, dtype=t),)),
    "softmax 16384x1008": (lambda x: x.softmax(-1), lambda t: (rand(16384, 1008, dtype=t),)),
    "softmax 16384x4096": (lambda x: x.softmax(-1), lambda t: (rand(16384, 4096, dtype=t),)),
    "layer_norm 16384x4096": (
        lambda x, w, b: F.layer_norm(x, (4096,), w, b),
        lambda t: (rand(16384, 4096, dtype=t), rand(4096, dtype=t), rand(4096, dtype=t)),
    ),
    "sum rows 16384x4096": (lambda x: x.sum(-1), lambda t: (rand(16384, 4096, dtype=t),)),
    "sum columns 16384x4096": (lambda x: x.sum(0), lambda t: (rand(16384, 4096, dtype=t),)),
    "sum all 64M": (lambda x: x.sum(), lambda t: (rand(1 << 26, dtype=t),)),
    "transpose 8192": (lambda x, y: x.t() + y, lambda t: (rand(8192, 8192, dtype=t), rand(8192, 8192, dtype=t))),
    "embedding 64Kx1024": (
        lambda w, i: F.embedding(i, w) * 2,
        lambda t: (rand(50000, 1024, dtype=t), ints(50000, 65536)),
    ),
    "cumsum 16384x1024": (lambda x: x.cumsum(-1), lambda t: (rand(16384, 1024, dtype=t),)),
}


def _speed(name: str, dtype: torch.dtype) -> Callable[[Any], str]:
    def run(arguments: Any) -> str:
        program, make = SPEED[name]
        inputs = make(dtype)
        copy_rate = bandwidth()
        fast = compiled(program, dynamic=False)
        results = fast(*inputs)
        read = [i for i in inputs if i.shape[0] != 50000]
        moved = _bytes(*read, results) + (_bytes(results) if len(read) < len(inputs) else 0)
        ours, eager = gpu_microseconds(lambda: fast(*inputs)), gpu_microseconds(lambda: program(*inputs))
        text = f"{ours:.1f} us, {moved / ours / 1e6:.2f} of {copy_rate:.2f} TB/s; eager {eager / ours:.2f}x"
        if arguments.inductor:
            other = torch.compile(program, dynamic=False)
            text += f", inductor {gpu_microseconds(lambda: other(*inputs)) / ours:.2f}x"
        return text

    return run


for _name in SPEED:
    for _dtype, _short in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
        check(f"speed/{_name} {_short}")(_speed(_name, _dtype))

import gpu_cases_graphs  # noqa: E402, F401  (checks of their own)
import gpu_cases_options  # noqa: E402, F401
