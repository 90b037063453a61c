"""Training: what the forward keeps for the backward, and that gradients are eager's whatever is computed again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.utils.checkpoint import checkpoint

from lamella.frontend import partition
from lamella.frontend.joint_graph import JointGraph
from lamella.frontend.options import OptionError, parse_options
from lamella.frontend.partition import Choice


class Block(nn.Module):
    """A transformer's block: products, attention, norms, a residual stream."""

    def __init__(self) -> None:
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(32), nn.LayerNorm(32)
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.up, self.down = nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (z.unflatten(-1, (4, 8)).transpose(1, 2) for z in self.qkv(self.n1(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(-2))
        return x + self.down(F.gelu(self.up(self.n2(x))))


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(Block(), Block())


def gradients(run: Any, parameters: Sequence[torch.Tensor], *inputs: torch.Tensor) -> list[torch.Tensor]:
    return list(torch.autograd.grad(run(*inputs).square().mean(), [*parameters, *inputs]))


def compiled(module: Any, **options: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(module, backend="lamella", options={"cache": False, **options})


def test_no_half_is_compiled_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    halves: list[bool] = []
    split = JointGraph.split

    def noting(*given: Any) -> Any:
        parts = split(*given)
        halves.extend(isinstance(part, _LazyGraphModule) and part._needs_recompile() for part in parts)
        return parts

    monkeypatch.setattr(JointGraph, "split", noting)
    module, x = model(), torch.randn(2, 5, 32, requires_grad=True)
    gradients(compiled(module), list(module.parameters()), x)
    assert halves == [True, True]


@pytest.mark.parametrize("budget", [None, 0.5, 0.0])
def test_gradients_are_eagers_under_any_budget(budget: float | None, choices: list[Choice]) -> None:
    module, x = model(), torch.randn(2, 16, 32, requires_grad=True)
    parameters = list(module.parameters())
    got = gradients(compiled(module, activation_memory_budget=budget), parameters, x)
    for ours, eager in zip(got, gradients(module, parameters, x), strict=True):
        torch.testing.assert_close(ours, eager)
    assert len(choices) == 1


def test_a_budget_is_kept(choices: list[Choice]) -> None:
    module, x = model(), torch.randn(2, 16, 32, requires_grad=True)
    for budget in (1.0, 0.5, 0.0):
        compiled(module, activation_memory_budget=budget)(x)
    whole, half, least = (c.saved_bytes for c in choices)
    assert half <= whole / 2
    assert least < half
    assert len(choices[2].recomputed) > len(choices[1].recomputed) > len(choices[0].recomputed)


def test_what_a_kernel_computes_from_saved_values_is_not_saved(choices: list[Choice]) -> None:
    x, w = torch.randn(8, 64, requires_grad=True), torch.randn(64, 64, requires_grad=True)
    run = lambda x, w: ((x @ w).sin().exp() * 2).tanh()  # noqa: E731
    got = torch.autograd.grad(compiled(run)(x, w).sum(), [x, w])
    for ours, eager in zip(got, torch.autograd.grad(run(x, w).sum(), [x, w]), strict=True):
        torch.testing.assert_close(ours, eager)
    made = [str(n.target) for n in choices[0].saved if n.op != "placeholder"]
    assert made == ["aten.mm.default"]


def test_what_is_costly_is_not_computed_again(choices: list[Choice]) -> None:
    class Images(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm, self.fc = nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = F.relu(self.norm(self.conv(x)))
            return self.fc(y.movedim(1, -1)).sort(-1).values.exp()

    compiled(Images())(torch.randn(4, 8, 12, 12, requires_grad=True)).sum().backward()
    again = {
        n.target.overloadpacket.__name__ for n in choices[0].recomputed if isinstance(n.target, torch._ops.OpOverload)
    }
    assert again and not again & {"convolution", "addmm", "mm", "sort"}, again


def test_memory_of_a_gpu_is_dearer(choices: list[Choice], monkeypatch: pytest.MonkeyPatch) -> None:
    """What gelu gives is read by a product in both halves: a GPU computes it again from what it has got."""
    x = torch.randn(4, 64, 32)
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(32, 256), nn.GELU(), nn.Linear(256, 32))
    found: list[list[torch.Tensor]] = []
    for on_gpu in (False, True):
        monkeypatch.setattr(JointGraph, "on_gpu", on_gpu)
        found.append(gradients(compiled(module), list(module.parameters()), x.requires_grad_()))
    there, on_gpu = choices
    assert "aten.gelu.default" in {str(n.target) for n in on_gpu.recomputed if n.op == "call_function"}
    assert on_gpu.saved_bytes == there.saved_bytes - 4 * 64 * 256 * 4
    for ours, others in zip(*found, strict=True):
        torch.testing.assert_close(ours, others)


def test_weights_in_the_layout_of_convolutions_are_copied_again(choices: list[Choice]) -> None:
    torch.manual_seed(0)
    layers = [m for _ in range(3) for m in (nn.Conv2d(64, 64, 3, padding=1, bias=False), nn.ReLU())]
    module, x = nn.Sequential(*layers), torch.randn(2, 64, 32, 32)
    wanted = gradients(module, list(module.parameters()), x.requires_grad_())
    found = gradients(compiled(module), list(module.parameters()), x)
    for ours, eagers in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, eagers)
    copies = {n for n in choices[0].recomputed if n.target is torch.ops.aten.clone.default}
    assert len(copies) >= 3
    assert not any(n.target is torch.ops.aten.clone.default for n in choices[0].saved)


def test_what_is_returned_is_saved_and_not_what_follows_from_it(
    choices: list[Choice], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logits that the program has anyway cost no memory; their log_softmax, rounded to bf16 as autocast has it, would."""
    monkeypatch.setattr(JointGraph, "on_gpu", True)
    torch.manual_seed(0)
    module, x, target = nn.Linear(16, 64).bfloat16(), torch.randn(32, 16).bfloat16(), torch.randint(64, (32,))

    def loss(x: torch.Tensor, returns: bool) -> Any:
        logits = module(x)
        value = F.nll_loss(F.log_softmax(logits, -1).to(torch.promote_types(x.dtype, torch.float32)), target)
        return (value, logits) if returns else (value,)

    def gradient(run: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(run(x)[0], module.weight)[0].double()

    found = [gradient(compiled(lambda x, returns=r: loss(x, returns)), x) for r in (True, False)]
    eager = gradient(lambda x: loss(x, False), x)
    exact = gradient(lambda x: loss(x, False), (x.double(), module.double())[0])
    for ours in found:
        assert (ours - exact).abs().max() <= 1.5 * (eager - exact).abs().max()
    for choice in choices:
        sizes = [n.meta["val"].numel() for n in choice.saved if isinstance(n.meta.get("val"), torch.Tensor)]
        assert sizes.count(32 * 64) == 1
    (logits,) = [n for n in choices[0].saved if n.meta["val"].numel() == 32 * 64]
    assert logits.target is torch.ops.aten.addmm.default


def test_a_residual_stream_is_not_summed_up_again(choices: list[Choice]) -> None:
    """Each sum needs all products before it: they are saved instead."""
    torch.manual_seed(0)
    layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(6))

    def run(x: torch.Tensor) -> torch.Tensor:
        for layer in layers:
            x = x + layer(F.silu(x))
        return x

    compiled(run)(torch.randn(4, 16, requires_grad=True))
    again = [str(n.target) for n in choices[0].recomputed]
    assert again.count("aten.add.Tensor") <= 1  # the first reads the input and one product


def test_checkpointed_regions_are_computed_again_with_the_same_random_numbers(choices: list[Choice]) -> None:
    weight = torch.randn(64, 64, requires_grad=True)

    def region(x: torch.Tensor) -> torch.Tensor:
        return F.dropout(torch.sin(x @ weight), 0.5)

    x = torch.randn(32, 64, requires_grad=True)
    y = compiled(lambda x: checkpoint(region, x, use_reentrant=False))(x)
    (got,) = torch.autograd.grad(y.sum(), [weight])
    kept = (y != 0).to(y.dtype) * 2
    torch.testing.assert_close(got, x.detach().T @ (torch.cos(x @ weight).detach() * kept))
    assert "aten.mm.default" in {str(n.target) for n in choices[0].recomputed}


@pytest.mark.parametrize("last", ["norm", "view"])
def test_what_a_checkpointed_region_gives_to_the_next_is_saved(last: str, choices: list[Choice]) -> None:
    """Also where both regions see one weight, and where it is one of several results, or a view of what is not saved."""
    w, v = (torch.randn(*shape).div(16).requires_grad_() for shape in ((64, 32), (32, 64)))

    def region(x: torch.Tensor) -> torch.Tensor:
        y = x + F.gelu(x @ w.t()) @ v.t()
        return F.layer_norm(y, (32,)) if last == "norm" else y.sin().view(4, 4, 32).flatten(0, 1)

    def run(x: torch.Tensor, regions: Any = lambda x: checkpoint(region, x, use_reentrant=False)) -> torch.Tensor:
        return regions(regions(x)).exp()

    x = torch.randn(16, 32, requires_grad=True)
    got = gradients(compiled(run), [w, v], x)
    for ours, eager in zip(got, gradients(lambda x: run(x, region), [w, v], x), strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-5)
    made = [n for n in choices[0].saved if n.op != "placeholder"]
    assert sum(n.meta["val"].nbytes for n in made) <= 2 * x.nbytes  # between the regions, and of what follows them
    assert [str(n.target) for n in choices[0].recomputed].count("aten.mm.default") == 4


def test_frozen_and_tied_weights_and_symbolic_sizes() -> None:
    torch.manual_seed(0)
    first, second = nn.Linear(16, 16), nn.Linear(16, 16)
    second.weight = first.weight
    frozen = nn.LayerNorm(16).requires_grad_(False)
    run = lambda x: second(frozen(F.relu(first(x))))  # noqa: E731
    fast = torch.compile(run, backend="lamella", dynamic=True, options={"cache": False})
    parameters: list[torch.Tensor] = [first.weight, first.bias, second.bias]
    for rows in (3, 8, 17):
        x = torch.randn(rows, 16, requires_grad=True)
        for ours, eager in zip(gradients(fast, parameters, x), gradients(run, parameters, x), strict=True):
            torch.testing.assert_close(ours, eager)


@pytest.mark.parametrize("budget", [-0.1, 1.5])
def test_an_impossible_budget_is_an_error(budget: float) -> None:
    with pytest.raises(OptionError, match="between 0 and 1"):
        parse_options({"activation_memory_budget": budget})


def test_explained_choice_names_operators_and_bytes(choices: list[Choice]) -> None:
    x, w = torch.randn(8, 64, requires_grad=True), torch.randn(64, 64, requires_grad=True)
    compiled(lambda x, w: (x @ w).sin().exp())(x, w)
    assert choices[0].lines()[:2] == ["saved for backward: 2048 bytes in 1 value", "  aten.mm.default: 2048 bytes"]


def test_a_graph_without_a_partition_is_split_as_it_stands(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(partition.Costs, "save", lambda self, node: None)
    x, w = torch.randn(4, 8, requires_grad=True), torch.randn(8, 8, requires_grad=True)
    run = lambda x, w: (x @ w).sin()  # noqa: E731
    got = torch.autograd.grad(compiled(run)(x, w).sum(), [x, w])
    for ours, eager in zip(got, torch.autograd.grad(run(x, w).sum(), [x, w]), strict=True):
        torch.testing.assert_close(ours, eager)
    assert "neither saved nor computed again" in caplog.text


def test_explain_tells_what_is_saved() -> None:
    import lamella

    x, w = torch.randn(8, 64, requires_grad=True), torch.randn(64, 64, requires_grad=True)
    found = lamella.explain(lambda x, w: (x @ w).sin().exp(), x, w)
    assert "saved for backward: 2048 bytes in 1 value" in str(found)
    assert "What the forward keeps for the backward" in found.html()
