"""Checks of models on a GPU, inference and training; part of `gpu_check.py`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from gpu_cases import GPU, Skip, check, compiled, ints, rand, same
from torch import nn


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
    "four blocks": (lambda: nn.Sequential(*[Block() for _ in range(4)]), lambda: torch.randn(3, 40, 128)),
    "encoder layers": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(128, 4, 256, 0.0, batch_first=True), 3),
        lambda: torch.randn(3, 40, 128),
    ),
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
        # torch lets convolutions of f32 have tf32, and which kernels of cuDNN's take that up depends on the layout
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            want = results(reference, x.double(), reference)
            theirs = results(eager, x.to(dtype), eager)
            found = results(ours, x.to(dtype), compiled(ours))
        return same(found, theirs, want, factor=3.0)

    return run


for _name in MODELS:
    for _dtype, _short in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
        for _train in (False, True):
            check(f"models/{_name} {_short} {'train' if _train else 'infer'}")(_model(_name, _dtype, _train))


def _autotuned(dtype: torch.dtype) -> Callable[[Any], str]:
    """Repeated layers whose products may be kernels, for they are searched for."""

    def run(_: Any) -> str:
        base, x = nn.Sequential(*[Block(256, 4) for _ in range(4)]).to(GPU), rand(8, 64, 256)
        model = copy.deepcopy(base).to(dtype)
        with torch.no_grad():
            want, theirs = copy.deepcopy(base).double()(x.double()), model(x.to(dtype))
            found = compiled(model, mode="max-autotune-no-cudagraphs")(x.to(dtype))
        return same([found], [theirs], [want], factor=3.0)

    return run


for _dtype, _short in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
    check(f"models/four blocks {_short} max-autotune")(_autotuned(_dtype))


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


@check("models/a rate that changes")
def _(_: Any) -> str:
    """The rate is a float, which kernels read from a copy on the GPU once it has changed."""
    start = [rand(64, 33), rand(33)]
    params = [[nn.Parameter(p.clone()) for p in start] for _ in range(2)]
    optimizers = [torch.optim.AdamW(ps, 1e-2, foreach=True, capturable=GPU == "cuda") for ps in params]
    steps = [optimizers[0].step, compiled(optimizers[1].step)]
    for k in range(6):
        gradients = [rand(*p.shape) for p in start]
        for ps, optimizer, step in zip(params, optimizers, steps, strict=True):
            optimizer.param_groups[0]["lr"] = 1e-2 * (1 + k)
            for p, g in zip(ps, gradients, strict=True):
                p.grad = g.clone()
            step()
    difference = max(float((a - b).abs().max()) for a, b in zip(*params, strict=True))
    assert difference < 1e-5, f"parameters differ by {difference:.2e}"
    return f"parameters differ by {difference:.1e}"


def _transformers(name: str) -> Callable[[Any], str]:
    def run(_: Any) -> str:
        try:
            import transformers
        except ImportError:
            raise Skip("no transformers here") from None
        small: dict[str, Any] = {
            "num_hidden_layers": 2,
            "hidden_size": 128,
            "num_attention_heads": 4,
            "vocab_size": 500,
        }
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
