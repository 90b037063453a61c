"""ResNet-50 (He et al., 2016, arXiv:1512.03385) in plain PyTorch, compiled with Lamella and compared with eager.

python examples/resnet50.py [--channels-last] [--batch 4]
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import Tensor, nn


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions with batch norm around a shortcut; the output has 4 * width channels."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out)
        self.relu = nn.ReLU()
        same = stride == 1 and channels == out
        self.shortcut = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        return self.relu(self.bn3(self.conv3(y)) + self.shortcut(x))


class ResNet(nn.Module):
    """Images [N, 3, H, W] to scores [N, classes]; `depths` are the blocks of each stage, `width` that of the first."""

    def __init__(self, depths: tuple[int, ...] = (3, 4, 6, 3), width: int = 64, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        blocks: list[nn.Module] = []
        channels = width
        for stage, depth in enumerate(depths):
            for i in range(depth):
                blocks.append(Bottleneck(channels, width << stage, 2 if i == 0 and stage > 0 else 1))
                channels = 4 * (width << stage)
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.pool(self.blocks(self.stem(x))).flatten(1))


def resnet50(classes: int = 1000) -> ResNet:
    """The 50-layer network, random weights."""
    return ResNet((3, 4, 6, 3), 64, classes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--channels-last", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    model, x = resnet50().eval(), torch.randn(options.batch, 3, 224, 224)
    if options.channels_last:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    with torch.no_grad():
        compiled = torch.compile(model, backend="lamella")
        start = time.perf_counter()
        y = compiled(x)
        print(f"first call {time.perf_counter() - start:.2f} s; largest difference {(y - model(x)).abs().max():.2e}")
        for name, f in (("eager", model), ("lamella", compiled)):
            times: list[float] = []
            for _ in range(5):
                start = time.perf_counter()
                f(x)
                times.append(time.perf_counter() - start)
            print(f"{name:8} {min(times) * 1e3:8.1f} ms")


if __name__ == "__main__":
    main()
