"""Decoding with a small Llama, a token at a time over a static cache of keys and values: tokens per second, and what
share of memory's bandwidth that is.

    python benchmarks/decode.py [--dtypes f32,bf16] [--rounds 9] [--cpu-clock] [--no-inductor] [--out results.json]

A step looks a token up, runs all layers, and takes the most probable next token: one graph. Backends are interleaved in
one process, sequences of `TOKENS` steps; `entry` is `lamella.compile(model, fullgraph=True)`, the others are
torch.compile's. `bandwidth` is what a token reads (weights, and the cache as long as it is) by the time of a step, over
what the sum of a tensor of as many bytes reaches in the same run.
"""

from __future__ import annotations

import argparse
import copy
import shutil
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from harness import interleaved, median_ratio, results, table
from torch import Tensor, nn

import lamella

LAYERS, SIZE, INNER, HEADS, GROUPS, HEAD, VOCABULARY, CACHE = 4, 512, 1408, 8, 4, 64, 8192, 512
TOKENS = 16
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


class Layer(nn.Module):
    keys: Tensor
    values: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.RMSNorm(SIZE), nn.RMSNorm(SIZE)
        self.q, self.o = (nn.Linear(SIZE, HEADS * HEAD, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(SIZE, GROUPS * HEAD, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(SIZE, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, SIZE, bias=False)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, GROUPS, CACHE, HEAD))

    def forward(self, x: Tensor, at: Tensor, turn: tuple[Tensor, Tensor], seen: Tensor) -> Tensor:
        h = self.before(x)
        q, k, v = (w(h).view(1, 1, -1, HEAD).transpose(1, 2) for w in (self.q, self.k, self.v))
        self.keys.index_copy_(2, at, turned(k, turn))
        self.values.index_copy_(2, at, v)
        y = F.scaled_dot_product_attention(turned(q, turn), self.keys, self.values, attn_mask=seen, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(1, 1, -1))
        h = self.between(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def turned(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary positions."""
    first, second = x.chunk(2, -1)
    return x * turn[0] + torch.cat((-second, first), -1) * turn[1]


class Llama(nn.Module):
    frequencies: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, SIZE)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.last, self.head = nn.RMSNorm(SIZE), nn.Linear(SIZE, VOCABULARY, bias=False)
        self.register_buffer("frequencies", 10000.0 ** (-torch.arange(0, HEAD, 2) / HEAD))

    def forward(self, token: Tensor, at: Tensor) -> Tensor:
        """The token after `token` [1, 1], which stands at `at` [1]."""
        x = self.embedding(token)
        angle = (at.float() * self.frequencies.float()).repeat(2)
        turn = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        seen = (torch.arange(CACHE) <= at)[None, None, None]
        for layer in self.layers:
            x = layer(x, at, turn, seen)
        return self.head(self.last(x)).argmax(-1)

    @property
    def bytes(self) -> int:
        """What a step reads."""
        caches = sum(t.nbytes for layer in self.layers for t in (layer.keys, layer.values))  # pyright: ignore
        return sum(p.nbytes for p in self.parameters()) - self.embedding.weight.nbytes + caches


def sequence(step: Callable[[Tensor, Tensor], Tensor]) -> Callable[[], list[int]]:
    """Decodes `TOKENS` tokens."""
    places = [torch.tensor([CACHE // 2 + i]) for i in range(TOKENS)]
    start = torch.tensor([[1]])

    def run() -> list[int]:
        token, found = start, list[int]()
        for at in places:
            token = step(token, at)
            found.append(int(token))
        return found

    return run


def measure(dtype: str, rounds: int, clock: Callable[[], float], backends: list[str]) -> dict[str, Any]:
    torch.manual_seed(0)
    model = Llama().to(DTYPES[dtype]).eval()
    programs = {"eager": model} | {b: torch.compile(copy.deepcopy(model), backend=b, fullgraph=True) for b in backends}
    programs["entry"] = lamella.compile(copy.deepcopy(model), fullgraph=True)
    runs: dict[str, Callable[[], Any]] = {name: sequence(program) for name, program in programs.items()}
    tokens = {name: run() for name, run in runs.items()}
    read = torch.randn(model.bytes // 4)
    runs["read"] = lambda: [read.sum() for _ in range(TOKENS)]
    times = interleaved(runs, rounds=rounds, block_ms=200, clock=clock)
    row: dict[str, Any] = {"dtype": dtype, "bytes": model.bytes}
    row |= {f"{name}, tokens/s": TOKENS / statistics.median(t) for name, t in times.items() if name != "read"}
    better = min((n for n in times if n in ("eager", "inductor")), key=lambda n: statistics.median(times[n]))
    for name, suffix in (("lamella", ""), ("entry", ", entry")):
        row[f"over the better{suffix}"] = median_ratio(times[better], times[name])
        row[f"bandwidth{suffix}"] = median_ratio(times["read"], times[name])
    row["read, GB/s"] = model.bytes * TOKENS / statistics.median(times["read"]) / 1e9
    row["same tokens as eager"] = sum(a == b for a, b in zip(tokens["eager"], tokens["lamella"], strict=True)) / TOKENS
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cpu-clock", action="store_true", help="CPU time of one thread: others use the machine")
    parser.add_argument("--no-inductor", action="store_true")
    parser.add_argument("--out", help="file for the results")
    options = parser.parse_args()
    if options.cpu_clock:
        torch.set_num_threads(1)
    clock = time.thread_time if options.cpu_clock else time.perf_counter
    backends = ["lamella"] + ([] if options.no_inductor or shutil.which("g++") is None else ["inductor"])
    with torch.no_grad():
        rows = [measure(dtype, options.rounds, clock, backends) for dtype in options.dtypes.split(",")]
    print(shown(rows))
    results(options.out, "decode", rows)


def shown(rows: list[dict[str, Any]]) -> str:
    """The rows as a table."""

    def text(name: str, value: Any) -> str:
        if name.startswith("bandwidth") or name == "same tokens as eager":
            return f"{value:.0%}"
        return str(value) if isinstance(value, str) else f"{value / 1e6:.1f} MB" if name == "bytes" else f"{value:.4g}"

    return table(list(rows[0]), [[text(k, v) for k, v in row.items()] for row in rows])


if __name__ == "__main__":
    main()
