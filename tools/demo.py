"""Behind `make demo`: a GPT-2-style language model compiled, checked, shown level by level and timed."""

from __future__ import annotations

import argparse
import copy
import shutil
import statistics
import time
from typing import Any

import torch
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from torch import Tensor, nn
from torch.nn import functional as F

from .levels import kernel_story


class Block(nn.Module):
    """Pre-norm attention and MLP, as in GPT-2 (Radford et al., 2019). [B, T, d] -> [B, T, d]."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.fc, self.out = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x: Tensor) -> Tensor:
        b, t, d = x.shape
        q, k, v = (y.view(b, t, self.heads, d // self.heads).transpose(1, 2) for y in self.qkv(self.ln1(x)).split(d, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.out(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class LanguageModel(nn.Module):
    """Token ids [B, T] to logits [B, T, vocab]."""

    def __init__(self, vocab: int = 8192, length: int = 256, layers: int = 4, heads: int = 8, d: int = 512) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, d), nn.Embedding(length, d)
        self.blocks = nn.Sequential(*(Block(d, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, vocab, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.norm(self.blocks(x)))


def _first_call(f: Any, ids: Tensor) -> tuple[float, Tensor]:
    start = time.perf_counter()
    result = f(ids)
    return time.perf_counter() - start, result


def _interleaved(functions: dict[str, Any], ids: Tensor, rounds: int = 15) -> dict[str, float]:
    """Median milliseconds of a call, the functions taking turns."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, f in functions.items():
            start = time.perf_counter()
            f(ids)
            times[name].append((time.perf_counter() - start) * 1e3)
    return {name: statistics.median(t) for name, t in times.items()}


def show_levels(console: Console, model: nn.Module, ids: Tensor, choose: str, llvm_lines: int) -> None:
    """Print one fused kernel at every level, after the Python lines it came from."""
    from ..frontend.capture import capture

    story = kernel_story(capture(model, ids).module, choose)
    console.rule(f"[bold]kernel {story.name}")
    for line in story.source:
        console.print(line, markup=False, highlight=False)
    for level, text in story.levels:
        lines = text.splitlines()
        shown = lines[:llvm_lines] if level == "llvm" else lines
        console.rule(level, align="left")
        console.print(Syntax("\n".join(shown), "llvm", background_color="default", word_wrap=True))
        if len(shown) < len(lines):
            console.print(f"… {len(lines) - len(shown)} more lines", style="dim")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernel", default="layer_norm", help="show the first kernel whose name contains this")
    parser.add_argument("--llvm-lines", type=int, default=40, help="lines of the llvm level to show")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--no-inductor", action="store_true")
    options = parser.parse_args()
    console = Console()
    torch.manual_seed(0)
    model = LanguageModel(layers=options.layers).eval()
    ids = torch.randint(0, 8192, (4, 128))
    with torch.no_grad():
        show_levels(console, model, ids, options.kernel, options.llvm_lines)
        reference = copy.deepcopy(model).double()(ids)
        eager = model(ids)
        functions: dict[str, Any] = {"eager": model}
        rows: dict[str, tuple[float, float]] = {"eager": (float("nan"), error(eager, reference))}
        backends = ["lamella"]
        if not options.no_inductor and any(map(shutil.which, ("g++", "clang++"))):
            backends.append("inductor")
        for backend in backends:
            f = torch.compile(model, backend=backend)
            seconds, result = _first_call(f, ids)
            functions[backend] = f
            rows[backend] = (seconds, error(result, reference))
        times = _interleaved(functions, ids)
    table = Table(title=f"{options.layers}-layer language model, batch 4 x 128, {torch.get_num_threads()} threads")
    for column in ("", "ms per call", "speed against eager", "first call, s", "error (rms, against float64)"):
        table.add_column(column, justify="right")
    for name, (seconds, rms) in rows.items():
        first = "" if name == "eager" else f"{seconds:.2f}"
        table.add_row(name, f"{times[name]:.2f}", f"{times['eager'] / times[name]:.2f}x", first, f"{rms:.2e}")
    console.print(table)
    limit = 1.5 * rows["eager"][1]
    if not rows["lamella"][1] <= limit:
        raise SystemExit(f"Lamella's error {rows['lamella'][1]:.2e} is above 1.5 times eager's ({limit:.2e})")


def error(result: Tensor, reference: Tensor) -> float:
    return (result.double() - reference).square().mean().sqrt().item()


if __name__ == "__main__":
    main()
