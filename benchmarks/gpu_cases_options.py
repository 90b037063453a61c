"""Checks of options and of torch's settings on a GPU; part of `gpu_check.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from gpu_cases import GPU, check, compiled, rand, same


def network(x: Any, w: Any, b: Any, v: Any) -> tuple[torch.Tensor, ...]:
    h = F.gelu(F.linear(x, w, b))
    y = F.layer_norm(F.linear(h, v) + x, [x.shape[-1]])
    return y.softmax(-1), h, y.cumsum(-1), (y * 3 + h.amax(-1, keepdim=True)).exp().sum(-1)


def rows(x: Any) -> tuple[torch.Tensor, ...]:
    return x.sum(-1), x.logsumexp(-1), x.norm(dim=-1), F.rms_norm(x, [x.shape[-1]]), x.var(-1), x.cumsum(-1)


def _invariant(dtype: torch.dtype) -> Callable[[Any], str]:
    def run(_: Any) -> str:
        """Rows of many have the bits that they have alone and among few."""
        times = 0
        for width in (24, 30, 320, 1000, 20_000):
            x = rand(70, width, dtype=dtype)
            w, v = (rand(*s, dtype=dtype) / 8 for s in ((2 * width, width), (width, 2 * width)))
            given = [w, rand(2 * width, dtype=dtype), v] if width <= 1000 else []
            for program in (network, rows) if given else (rows,):
                inputs = given if program is network else []
                torch._dynamo.reset()
                wanted = compiled(program, options={"batch_invariant": True})(x, *inputs)
                for n in (1, 2, 5, 16, 33):
                    torch._dynamo.reset()
                    found = compiled(program, options={"batch_invariant": True})(x[:n], *inputs)
                    for i, (a, e) in enumerate(zip(found, wanted, strict=True)):
                        assert torch.equal(a, e[:n]), f"{program.__name__} {width}, {n} rows: result {i} differs"
                        times += 1
        return f"{times} results"

    return run


for _dtype, _short in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
    check(f"options/batch invariant {_short}")(_invariant(_dtype))


ORDER: dict[str, Callable[[Any, Any], Any]] = {
    "index_add": lambda x, i: torch.zeros(8, 64, device=GPU).index_add(0, i % 8, x),
    "scatter_add": lambda x, i: torch.zeros(8, 64, device=GPU).scatter_add(0, (i % 8)[:, None].expand(-1, 64), x),
    "index_put": lambda x, i: torch.zeros(8, 64, device=GPU).index_put((i % 8,), x),
    "embedding": lambda x, i: torch.ops.aten.embedding_dense_backward(x, i % 8, 8, -1, False),
    "cumsum": lambda x, i: x.cumsum(0),
    "kthvalue": lambda x, i: x.kthvalue(3)[0],
    "median": lambda x, i: x.median(0)[0],
    "histc": lambda x, i: x.histc(10),
    "bincount": lambda x, i: torch.bincount(i % 8, x[:, 0]),
    "put": lambda x, i: x.put(i, x[:, 0]),
    "max_unpool": lambda x, i: F.max_unpool2d(*F.max_pool2d(x[None, None], 2, return_indices=True), 2),
    "upsample": lambda x, i: torch.autograd.grad(
        F.interpolate(x[None, None].requires_grad_(), scale_factor=2, mode="bilinear").sum(), x
    )[0],
}


@check("options/deterministic")
def _(_: Any) -> str:
    """Under torch's setting: the same bits each time, or the error that eager raises."""
    x, i = rand(4096, 64), torch.randint(0, 4096, (4096,), device=GPU)
    raised: list[str] = []
    torch.use_deterministic_algorithms(True)
    try:
        for name, program in ORDER.items():
            torch._dynamo.reset()
            try:
                program(x.clone(), i)
                eager = ""
            except RuntimeError as error:
                eager = str(error)
            try:
                with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
                    fast = compiled(program)
                    first = fast(x.clone(), i)
                    assert all(torch.equal(first, fast(x.clone(), i)) for _ in range(4)), f"{name}: other bits"
            except RuntimeError as error:
                if not eager:
                    raise AssertionError(f"{name}: {error}") from error
                raised.append(name)
    finally:
        torch.use_deterministic_algorithms(False)
    return "raise as eager does: " + ", ".join(raised)


@check("options/memory of results")
def _(_: Any) -> str:
    """Buffers lie in a result that is written last: no more memory than eager's."""
    w = rand(256, 1 << 16)

    def program(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = (x @ w).relu() @ w.t() / 4096
        return (x @ w).softmax(-1)

    fast, x, peaks = compiled(program), rand(512, 256), list[int]()
    with torch.no_grad():
        for f in (program, fast):
            f(x)
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            f(x)
            peaks.append(torch.cuda.max_memory_allocated() - before)
    assert peaks[1] <= 1.05 * peaks[0], f"{peaks[1]} bytes, eager {peaks[0]}"
    return f"{peaks[1] >> 20} MiB, eager {peaks[0] >> 20}"


@check("options/profile")
def _(_: Any) -> str:
    """torch.profiler shows calls and launches by the names of `explain`, beside what ran on the device."""
    w, x = rand(256, 256), rand(64, 256)

    def program(x: torch.Tensor) -> torch.Tensor:
        return (x @ w).softmax(-1)

    fast = compiled(program, options={"profile": True})
    with torch.no_grad():
        fast(x)
        with torch.profiler.profile() as profile:
            found = fast(x)
            torch.cuda.synchronize()
    detail = same(found, program(x), program(x))
    names = [event.name for event in profile.events()]
    for part in ("softmax", "mm"):
        assert any(part in name for name in names), f"no event has {part} in its name: {sorted(set(names))}"
    return f"{detail}; {len(names)} events, " + ", ".join(sorted({n for n in names if "softmax" in n}))[:80]
