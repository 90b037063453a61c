"""Behind `make demo`: a GPT-2-style language model compiled, checked, shown level by level and timed."""

from __future__ import annotations

import argparse
import copy
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.syntax import Syntax
from rich.table import Table
from torch import Tensor, nn
from torch.nn import functional as F
from xdsl.dialects.builtin import ModuleOp

from .. import driver
from ..frontend.capture import capture
from ..lowering.kernel_story import LEVELS, KernelStory, StoryTeller


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


@dataclass
class Contender:
    """One way to run the model: eager, or compiled by a backend."""

    name: str
    call: Callable[[Tensor], Tensor]
    first_call: float | None
    """Seconds of the first call, which compiles."""
    error: float
    """Root mean square, against float64."""
    times: list[float] = field(default_factory=list)
    """Milliseconds of each call that was timed."""

    @property
    def milliseconds(self) -> float:
        return statistics.median(self.times)


def kernel_story(module: ModuleOp, choose: str = "") -> KernelStory:
    """Lower a copy of an aten module and follow one kernel: the first whose name contains `choose`, or the largest.

    Raises ValueError where no kernel has such a name.
    """
    copy = module.clone()
    teller = StoryTeller(copy)
    options = driver.Options()
    driver.run_passes(copy, driver.pipeline(options, driver.target_of(options)), verify=False, after=[teller.after])
    named = [story for story in teller.stories() if choose in story.name]
    if not named:
        raise ValueError(f"no kernel's name contains {choose!r}")
    return named[0] if choose else max(named, key=lambda story: len(dict(story.levels)["kernel"]))


def show_levels(console: Console, story: KernelStory, most: int) -> None:
    """Print one fused kernel at every level, after the Python lines it came from."""
    console.rule(f"[bold]One fused kernel, level by level: {story.name}")
    console.print("[bold]Python[/] (file:line, module, source)")
    for line in story.source:
        console.print("  " + line, markup=False, highlight=False)
    for level, text in story.levels:
        lines = text.splitlines()
        console.print(f"\n[bold]{level}[/] {LEVELS[level]}")
        console.print(Syntax("\n".join(lines[:most]), "llvm", background_color="default", word_wrap=True))
        if len(lines) > most:
            console.print(f"… {len(lines) - most} more lines (--lines {len(lines)} shows them)", style="dim")


def compile_with(backend: str, model: nn.Module, ids: Tensor, reference: Tensor) -> Contender:
    """The model compiled by its first call."""
    compiled: Any = torch.compile(model, backend=backend)
    start = time.perf_counter()
    result = compiled(ids)
    return Contender(backend, compiled, time.perf_counter() - start, error(result, reference))


def measure(contenders: Sequence[Contender], ids: Tensor, rounds: int, advance: Callable[[], object]) -> None:
    """Time calls, the contenders taking turns: what else this machine does then disturbs all of them alike."""
    for _ in range(rounds):
        for contender in contenders:
            start = time.perf_counter()
            contender.call(ids)
            contender.times.append((time.perf_counter() - start) * 1e3)
            advance()


def results(contenders: Sequence[Contender], title: str) -> Table:
    table = Table(title=title)
    for column in ("", "ms per call", "speed against eager", "first call, s", "error (rms, against float64)"):
        table.add_column(column, justify="right")
    eager = contenders[0].milliseconds
    for c in contenders:
        first = "" if c.first_call is None else f"{c.first_call:.2f}"
        table.add_row(c.name, f"{c.milliseconds:.2f}", f"{eager / c.milliseconds:.2f}x", first, f"{c.error:.2e}")
    return table


def error(result: Tensor, reference: Tensor) -> float:
    return (result.double() - reference).square().mean().sqrt().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernel", default="layer_norm", help="show the first kernel whose name contains this")
    parser.add_argument("--lines", type=int, default=40, help="lines of each level to show at most")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=15, help="timed calls of each")
    parser.add_argument("--no-inductor", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:  # compile times are those from empty caches
        os.environ |= {"LAMELLA_CACHE_DIR": f"{folder}/lamella", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}
        demonstrate(options, Console())


def demonstrate(options: argparse.Namespace, console: Console) -> None:
    torch.manual_seed(0)
    model = LanguageModel(layers=options.layers).eval()
    ids = torch.randint(0, 8192, (4, 128))
    size = sum(p.numel() for p in model.parameters()) / 1e6
    console.print(f"A language model as GPT-2: {options.layers} layers, {size:.1f} million parameters, random weights.")
    with torch.no_grad(), Progress(*_COLUMNS, console=console, transient=True) as progress:
        reference = copy.deepcopy(model).double()(ids)
        contenders = [Contender("eager", model, None, error(model(ids), reference))]
        backends = ["lamella"]
        if not options.no_inductor and any(map(shutil.which, ("g++", "clang++"))):
            backends.append("inductor")
        for backend in backends:
            patience = " (with a C++ compiler: a minute perhaps)" if backend == "inductor" else ""
            task = progress.add_task(f"compiling with {backend}{patience}", total=None)
            contenders.append(compile_with(backend, model, ids, reference))
            progress.remove_task(task)
        task = progress.add_task("timing", total=options.rounds * len(contenders))
        measure(contenders, ids, options.rounds, lambda: progress.advance(task))
        progress.remove_task(task)
        progress.add_task("following one kernel through the levels", total=None)
        story = kernel_story(capture(model, ids).module, options.kernel)
    show_levels(console, story, options.lines)
    console.rule("[bold]Speed and accuracy")
    console.print(results(contenders, f"batch 4 x 128 tokens, {torch.get_num_threads()} threads"))
    if "inductor" not in backends and not options.no_inductor:
        console.print("No C++ compiler was found, so TorchInductor could not take part.", style="dim")
    limit = 1.5 * contenders[0].error
    if not contenders[1].error <= limit:
        raise SystemExit(f"Lamella's error {contenders[1].error:.2e} is above 1.5 times eager's ({limit:.2e})")
    console.print(
        f"Lamella's results are right: its error is {contenders[1].error / contenders[0].error:.2f} of eager's."
    )
    console.print("More: README.md, and lamella.explain(model, *inputs).save('report.html') for a model of your own.")


_COLUMNS = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())


if __name__ == "__main__":
    main()
