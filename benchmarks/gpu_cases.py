"""What the checks of `gpu_check.py` are made of; they are in `gpu_cases_*.py`. Eager in float64 is the reference."""

from __future__ import annotations

import copy
import importlib
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

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
    fast, detail = compiled(program, **how), ""
    for _ in range(calls):
        found = fast(*copy.deepcopy(inputs))
        detail = same(found, eager, reference)
    return detail


def rand(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, device=GPU).to(dtype)


def ints(high: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, high, shape, device=GPU)


Case = tuple[Callable[..., Any], Callable[[torch.dtype], Sequence[Any]]]
"""A program, and its inputs of a dtype."""

# The checks, in the order in which they run.
for _part in ("kernels", "host", "models", "costs", "speed", "graphs", "options"):
    importlib.import_module(f"gpu_cases_{_part}")
