"""Train a small GPT on Python's own documentation, eagerly and with Lamella, and plot both losses.

python examples/train_gpt.py [--steps 300] [--device cuda] [--out train_gpt]

The text is `pydoc_data.topics`, which comes with Python (about 470,000 characters), read character by character; every
tenth part is kept for validation. Each run writes OUT/NAME.pt after every `--save-every` steps: model, optimizer, step
and random state, so that `--resume` goes on with the same numbers, bit for bit. OUT/loss.png has the curves,
OUT/loss.json their points and the times.
"""

from __future__ import annotations

import argparse
import json
import math
import pydoc_data.topics
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Config:
    """Sizes of the model and of a batch."""

    layers: int = 4
    heads: int = 4
    width: int = 128
    context: int = 128
    batch: int = 16
    dropout: float = 0.1
    rate: float = 1e-3
    warmup: int = 20
    clip: float = 1.0


class Block(nn.Module):
    """Pre-norm attention and MLP (Radford et al., 2019). [B, T, width] -> [B, T, width]."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.heads, self.dropout = c.heads, c.dropout
        self.norm1, self.norm2 = nn.LayerNorm(c.width), nn.LayerNorm(c.width)
        self.qkv, self.out = nn.Linear(c.width, 3 * c.width, bias=False), nn.Linear(c.width, c.width, bias=False)
        self.up, self.down = nn.Linear(c.width, 4 * c.width), nn.Linear(4 * c.width, c.width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (y.unflatten(2, (self.heads, -1)).transpose(1, 2) for y in self.qkv(self.norm1(x)).chunk(3, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + F.dropout(self.out(y), self.dropout, self.training)
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)))), self.dropout, self.training)


class GPT(nn.Module):
    """Characters [B, T] and those that follow to the mean cross entropy, in nats."""

    def __init__(self, c: Config, vocabulary: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, c.width), nn.Embedding(c.context, c.width)
        self.blocks = nn.Sequential(*(Block(c) for _ in range(c.layers)))
        self.norm = nn.LayerNorm(c.width)
        self.head = nn.Linear(c.width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        return F.cross_entropy(self.head(self.norm(self.blocks(x))).flatten(0, 1), targets.flatten())


class Text:
    """Batches of consecutive characters, drawn by a generator of their own."""

    def __init__(self, context: int) -> None:
        text = "\n".join(pydoc_data.topics.topics.values())
        self.characters = sorted(set(text))
        number = {c: i for i, c in enumerate(self.characters)}
        data = torch.tensor([number[c] for c in text])
        parts = data[: len(data) // context * context].view(-1, context)
        held = torch.arange(len(parts)) % 10 == 9
        self.train, self.validation = parts[~held].flatten(), parts[held].flatten()
        self.context = context

    def batch(self, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """[size, context] characters, and those that follow."""
        starts = torch.randint(len(self.train) - self.context - 1, (size,), generator=generator)
        rows = self.train[starts[:, None] + torch.arange(self.context + 1)]
        return rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


@dataclass
class Run:
    """What a run has come to."""

    losses: list[float]
    seconds: list[float]
    """Of each step; the first ones compile."""
    validation: float = math.nan


class Trainer:
    """A model with its optimizer, and how a step is taken."""

    def __init__(self, c: Config, text: Text, backend: str, device: str, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.c, self.text, self.device = c, text, device
        self.model = GPT(c, len(text.characters)).to(device)
        # the rate is a tensor: a compiled step reads it, whatever the schedule makes of it
        rate = torch.tensor(c.rate, device=device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=rate, weight_decay=0.1)
        self.generator = torch.Generator().manual_seed(seed)
        self.step = 0
        self.run = Run([], [])
        eager = backend == "eager"
        self.loss: Callable[..., Tensor] = self.model if eager else torch.compile(self.model, backend=backend)
        self.update: Callable[[], Any] = (
            self.optimizer.step if eager else torch.compile(self.optimizer.step, backend=backend)
        )

    def train(self, steps: int, shown: Callable[[int, float], None], saved: Callable[[], None], every: int) -> None:
        """Go on until `steps` steps are taken."""
        while self.step < steps:
            start = time.perf_counter()
            ids, targets = (t.to(self.device) for t in self.text.batch(self.c.batch, self.generator))
            self._schedule(steps)
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.loss(ids, targets)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), self.c.clip)
            self.update()
            self.step += 1
            self.run.losses.append(loss.item())
            self.run.seconds.append(time.perf_counter() - start)
            shown(self.step, self.run.losses[-1])
            if self.step % every == 0 or self.step == steps:
                saved()

    def _schedule(self, steps: int) -> None:
        """A linear warm-up, then half a cosine down to a tenth."""
        done = (self.step - self.c.warmup) / max(1, steps - self.c.warmup)
        scale = (self.step + 1) / self.c.warmup if done < 0 else 0.55 + 0.45 * math.cos(math.pi * done)
        self.optimizer.param_groups[0]["lr"].fill_(self.c.rate * scale)

    @torch.no_grad()
    def validate(self, batches: int = 20) -> float:
        """The mean loss on text that is not trained on."""
        self.model.eval()
        size, t = self.c.batch * self.c.context, self.text.validation
        losses: list[float] = []
        for start in range(0, min(batches * size, len(t) - size - 1), size):
            ids, targets = t[start : start + size], t[start + 1 : start + 1 + size]
            shape = (self.c.batch, self.c.context)
            losses.append(self.model(ids.view(shape).to(self.device), targets.view(shape).to(self.device)).item())
        self.model.train()
        return statistics.mean(losses)

    def state(self) -> dict[str, Any]:
        """All that the next step depends on."""
        random = {"cpu": torch.get_rng_state(), "batches": self.generator.get_state()}
        if self.device != "cpu":
            random["cuda"] = torch.cuda.get_rng_state()
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step,
            "random": random,
            "run": asdict(self.run),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Be as the trainer was whose `state` this is."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.run = state["step"], Run(**state["run"])
        torch.set_rng_state(state["random"]["cpu"])
        self.generator.set_state(state["random"]["batches"])
        if "cuda" in state["random"]:
            torch.cuda.set_rng_state(state["random"]["cuda"])


def save(state: dict[str, Any], path: Path) -> None:
    """Write a checkpoint, whole or not at all."""
    part = path.with_suffix(".part")
    torch.save(state, part)
    part.replace(path)


def plot(runs: dict[str, Run], path: Path) -> None:
    """Losses over steps, each smoothed over ten."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    styles = (("tab:gray", "-"), ("tab:orange", "--"), ("tab:blue", ":"))
    for (name, run), (color, line) in zip(runs.items(), styles, strict=False):
        smooth = [statistics.mean(run.losses[max(0, i - 9) : i + 1]) for i in range(len(run.losses))]
        axes.plot(run.losses, line, color=color, alpha=0.2)
        axes.plot(smooth, line, color=color, label=f"{name}: validation {run.validation:.3f}")
    axes.set(xlabel="step", ylabel="loss, nats a character")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)


def train(name: str, c: Config, text: Text, options: argparse.Namespace, bar: Any) -> Run:
    """One run, from its checkpoint where it is to be resumed."""
    trainer = Trainer(c, text, name, options.device)
    path = Path(options.out, f"{name}.pt")
    if options.resume and path.exists():
        trainer.load(torch.load(path, weights_only=True))
    task = bar.add_task(name, total=options.steps, completed=trainer.step, loss=math.nan)
    trainer.train(
        options.steps,
        lambda step, loss: bar.update(task, completed=step, loss=loss),
        lambda: save(trainer.state(), path),
        options.save_every,
    )
    trainer.run.validation = trainer.validate()
    return trainer.run


def main() -> None:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--backends", default="eager,lamella", help="what to train with, in order")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", default="train_gpt", help="folder of checkpoints, curves and times")
    parser.add_argument("--save-every", type=int, default=50, metavar="STEPS")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoints in OUT")
    for size in ("layers", "heads", "width", "context", "batch"):
        parser.add_argument(f"--{size}", type=int, default=getattr(Config, size))
    options = parser.parse_args()
    Path(options.out).mkdir(parents=True, exist_ok=True)
    c = Config(options.layers, options.heads, options.width, options.context, options.batch)
    text = Text(c.context)
    loss = TextColumn("loss {task.fields[loss]:.3f}")
    columns = (TextColumn("{task.description:8}"), BarColumn(), MofNCompleteColumn(), loss)
    with Progress(*columns, TimeElapsedColumn()) as bar:
        runs = {name: train(name, c, text, options, bar) for name in options.backends.split(",")}
    for name, run in runs.items():
        ms, first = statistics.median(run.seconds) * 1e3, run.seconds[0]
        print(f"{name:8} {ms:7.1f} ms a step, first {first:.1f} s; validation loss {run.validation:.3f}")
    Path(options.out, "loss.json").write_text(json.dumps({name: asdict(run) for name, run in runs.items()}))
    plot(runs, Path(options.out, "loss.png"))
    print(f"curves: {Path(options.out, 'loss.png')}")


if __name__ == "__main__":
    main()
