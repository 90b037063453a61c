"""Generated products and convolutions on the CPU against ATen's, by one thread's CPU clock.

    python benchmarks/cpu_products.py [--target avx2] [--cases 100] [--dtypes f32,f64,bf16,i64] [--most 262144]

Random products of at most so many products of numbers, in all four ways that factors may lie, then convolutions. Both
forms are native programs of one operator, called in turns. With `--target`, ATen is held to its instructions too.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from harness import geometric_mean
from targets import ENVIRONMENTS
from xdsl.dialects.builtin import ModuleOp

from lamella import driver
from lamella.codegen.target import CpuTarget
from lamella.dialects.tensor import TORCH_DTYPES
from lamella.frontend.capture import capture
from lamella.lowering.convolution_cost import convolution_of
from lamella.lowering.products import GENERATED, MARK, product_of

SIZES = (1, 2, 3, 4, 5, 7, 8, 13, 16, 24, 31, 32, 48, 64, 96, 100, 128, 200, 256, 512, 1000, 2048)

CONVOLUTIONS: Sequence[tuple[str, Sequence[int], Sequence[int], int, int, bool]] = (
    ("f32", (1, 32, 112, 112), (32, 1, 3, 3), 1, 1, False),
    ("f32", (1, 32, 112, 112), (32, 1, 3, 3), 1, 1, True),
    ("f32", (1, 96, 56, 56), (96, 1, 3, 3), 2, 1, False),
    ("f32", (1, 96, 56, 56), (96, 1, 3, 3), 2, 1, True),
    ("f32", (1, 480, 7, 7), (480, 1, 3, 3), 1, 1, True),
    ("f32", (1, 240, 14, 14), (240, 1, 5, 5), 1, 2, True),
    ("bf16", (1, 96, 56, 56), (96, 1, 3, 3), 1, 1, False),
    ("f32", (4, 256, 100), (256, 1, 7), 1, 3, False),
    ("f32", (1, 3, 8, 8), (8, 3, 3, 3), 1, 1, False),
    ("bf16", (1, 8, 100), (8, 8, 3), 1, 1, False),
)
"""dtype, images, weights, stride, padding, and whether channels are side by side."""


def native(
    function: Callable[..., Any], args: Sequence[Any], generated: bool, name: str = "host"
) -> Callable[[list[Any]], Any]:
    """The program of a function with its products and convolutions as kernels, or as calls."""
    module: ModuleOp = capture(function, *args).module
    for op in module.walk():
        if generated and (product_of(op) or convolution_of(op)) is not None:
            op.attributes[MARK] = GENERATED
    target = CpuTarget.host() if name == "host" else CpuTarget.from_name(name)
    options = driver.Options(products="none", target=name)
    driver.run_passes(module, driver.pipeline(options, target), verify=False)
    return driver.native(module, target)


def compare(function: Callable[..., Any], args: Sequence[Any], target: str) -> tuple[float, float]:
    """Microseconds of a call of ours and of ATen's, the best of some rounds in turns."""
    graphs = [native(function, args, generated, target) for generated in (True, False)]

    def run(graph: Callable[[list[Any]], Any], n: int) -> float:
        start = time.thread_time()
        for _ in range(n):
            graph(list(args))
        return (time.thread_time() - start) / n

    once = max(min(run(g, 3) for g in graphs), 1e-7)
    n = max(1, min(2000, int(0.003 / once)))
    rounds = [[run(g, n) for g in graphs] for _ in range(5)]
    ours, theirs = (1e6 * min(times) for times in zip(*rounds, strict=True))
    return ours, theirs


def numbers(shape: Sequence[int], dtype: str) -> Any:
    x = torch.randint(-4, 5, tuple(shape)) + 0.25 * (dtype[0] in "fb")
    return x.to(getattr(torch, TORCH_DTYPES[dtype]))


def product(rng: random.Random, dtype: str, most: int) -> tuple[str, list[Any]]:
    """A product of at most so many products of numbers."""
    while True:
        batch, m, n, k = rng.choice((1, 1, 4, 64)), *(rng.choice(SIZES) for _ in range(3))
        if batch * m * n * k <= most:
            break
    lead = [batch] * (batch > 1)
    left, right = rng.choice("km"), rng.choice("nk")
    x = numbers([*lead, m, k], dtype) if left == "k" else numbers([*lead, k, m], dtype).mT
    w = numbers([*lead, k, n], dtype) if right == "n" else numbers([*lead, n, k], dtype).mT
    return f"{dtype} {batch}x{m}x{n}x{k} {left}{right}", [x, w]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="host", choices=ENVIRONMENTS)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--dtypes", default="f32,f64,bf16,i64")
    parser.add_argument("--most", type=int, default=1 << 18)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    told = ENVIRONMENTS[options.target][0]
    if any(os.environ.get(name) != value for name, value in told.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **told})
    torch.set_num_threads(1)
    rng = random.Random(options.seed)
    print("| products | cases | ATen / ours | slower than ATen | slowest |\n|---|---|---|---|---|")
    for dtype in options.dtypes.split(","):
        ratios: dict[str, float] = {}
        for _ in range(options.cases):
            name, args = product(rng, dtype, options.most)
            ours, theirs = compare(lambda x, w: x @ w, args, options.target)
            ratios[name] = theirs / ours
        worst = min(ratios, key=lambda name: ratios[name])
        slower = sum(r < 0.95 for r in ratios.values())
        mean = geometric_mean(list(ratios.values()))
        print(f"| {dtype} | {len(ratios)} | {mean:.2f} | {slower} | {worst}: {ratios[worst]:.2f} |", flush=True)
    print("\n| convolution and relu | ours, us | ATen, us | ATen / ours |\n|---|---|---|---|")
    for dtype, image, weight, stride, padding, last in CONVOLUTIONS:
        x, w = numbers(image, dtype), numbers(weight, dtype)
        if last:
            x = x.to(memory_format=torch.channels_last)
        f = F.conv1d if len(image) == 3 else F.conv2d
        groups = image[1] // weight[1]

        def relu(x: Any, w: Any, f: Any = f, stride: int = stride, padding: int = padding, groups: int = groups) -> Any:
            return F.relu(f(x, w, None, stride, padding, 1, groups))

        ours, theirs = compare(lambda x, w, relu=relu: relu(x, w), [x, w], options.target)
        shapes = " * ".join("x".join(map(str, shape)) for shape in (image, weight))
        name = f"{dtype} {shapes}, stride {stride}{', channels last' * last}"
        print(f"| {name} | {ours:.1f} | {theirs:.1f} | {theirs / ours:.2f} |", flush=True)


if __name__ == "__main__":
    main()
