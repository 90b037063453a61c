"""Layers that nobody has marked are lowered once, and become what they would each by itself."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from typing import Any

import pytest
import torch

from lamella import driver
from lamella.dialects.text import parse_module, print_module
from lamella.frontend.capture import capture
from lamella.lowering import report
from lamella.lowering.pass_manager import PassRecord


class Layer(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        h = torch.nn.functional.gelu(self.up(self.norm(x)))
        return x + self.down(h) * mask.unsqueeze(-1)


class Model(torch.nn.Module):
    def __init__(self, layers: int, width: int = 128) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer(width) for _ in range(layers))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, mask)
        return x.softmax(-1)


def _lowered(text: str, outline: bool, products: str = "auto") -> tuple[Any, list[PassRecord]]:
    module = parse_module(text)
    options = driver.Options(target="avx512", products=products)
    passes = driver.pipeline(options, driver.target_of(options))
    assert ",aten-outline," in passes
    if not outline:
        passes = passes.replace(",aten-outline", "")
    records = driver.run_passes(module, passes[: passes.index(",kernel-to-llvm")])
    return module, records


def _told(module: Any) -> tuple[str, list[str], list[str]]:
    """The host program, its calls and its kernels with their lines; kernels are called by what they do."""
    text = print_module(module)
    kernels = re.findall(r"^  loop\.kernel @(\S+?)(\(.*?)^  }$", text, re.S | re.M)
    plain = {name: re.sub(r"ops = \[.*?\], ", "", body) for name, body in kernels}
    names = {name: hashlib.sha256(body.encode()).hexdigest()[:16] for name, body in plain.items()}

    def renamed(s: str) -> str:
        return re.sub(r"[\w.]+", lambda m: names.get(m[0], m[0]), s)

    numbers: dict[str, str] = {}
    host = re.sub(r"%[\w.]+", lambda m: numbers.setdefault(m[0], f"%{len(numbers)}"), text[text.index("host.func") :])
    return renamed(host), sorted(map(str, report.calls(module))), sorted(map(renamed, map(str, report.kernels(module))))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_host_programs_are_as_without_functions(dtype: torch.dtype, dynamic: bool) -> None:
    model = Model(5).eval().to(dtype)
    x, mask = torch.randn(6, 64, 128, dtype=dtype), torch.randn(6, 64, dtype=dtype)
    shapes = {0: torch.export.Dim("b", min=2), 1: torch.export.Dim("n", min=2)} if dynamic else None
    module = capture(model, x, mask, dynamic_shapes=(shapes, shapes) if dynamic else None).module
    text = print_module(module, locations=True)
    assert "layers.3.down" in text
    (whole, _), (outlined, records) = _lowered(text, False), _lowered(text, True)
    (counts,) = [r.statistics for r in records if r.name == "aten-outline"]
    assert counts["functions"] == 1 and counts["calls"] >= 3
    (host, calls, kernels), (wanted, wanted_calls, wanted_kernels) = _told(outlined), _told(whole)
    assert host == wanted and calls == wanted_calls
    # Of bf16, a conversion of the mask is told as of the operator that asks for it first, and those of factors that are
    # widened for a product (where the machine does not multiply bf16) as `aten._to_copy`.
    if dtype == torch.float32:
        assert kernels == wanted_kernels


def test_layers_of_products_that_are_kernels() -> None:
    """As many launches of each kernel; of what is multiplied a function may have a view as an argument."""
    text = print_module(capture(Model(5, 256).eval(), torch.randn(6, 64, 256), torch.randn(6, 64)).module)
    launched: list[Counter[str]] = []
    for outline in (False, True):
        module, records = _lowered(text, outline, "all")
        found = re.findall(r"host\.launch @(\w+?)_\d+\(", print_module(module))
        launched.append(Counter(found))
    (counts,) = [r.statistics for r in records if r.name == "aten-outline"]
    assert counts["functions"] == 1 and counts["calls"] >= 3
    assert launched[0] == launched[1] and launched[0].total() >= 5 * 3 and not report.calls(module)


@pytest.mark.parametrize("products", ["auto", "all"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_numbers_and_gradients(dynamic: bool, products: str) -> None:
    torch.manual_seed(0)
    width = 256 if products == "all" else 128
    model = Model(4, width)
    x, mask = torch.randn(6, 64, width, requires_grad=True), torch.randn(6, 64)
    options = {"strict": True, "products": products}
    compiled = torch.compile(model, backend="lamella", dynamic=dynamic, options=options)
    weights = torch.randn(6, 64, width)
    given = [x, *model.parameters()]
    wanted = torch.autograd.grad((model(x, mask) * weights).sum(), given)
    found = torch.autograd.grad((compiled(x, mask) * weights).sum(), given)
    torch.testing.assert_close(compiled(x, mask), model(x, mask))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
