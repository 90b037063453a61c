"""Exported programs where functions are expected: compiled, kept in a file before, and explained."""

from __future__ import annotations

import io

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

import lamella


@pytest.fixture
def model() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16))


def exported(model: nn.Module, kept: bool) -> ExportedProgram:
    program = export(model, (torch.randn(3, 8),), dynamic_shapes=({0: Dim("n", min=2, max=64)},))
    if not kept:
        return program
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("fullgraph", [False, True])
def test_compiled(model: nn.Module, kept: bool, fullgraph: bool) -> None:
    compiled = lamella.compile(exported(model, kept), fullgraph=fullgraph)
    with torch.no_grad():
        for n in (3, 5, 64):
            x = torch.randn(n, 8)
            torch.testing.assert_close(compiled(x), model(x))


def test_sizes_that_it_does_not_take(model: nn.Module) -> None:
    compiled = lamella.compile(exported(model, False))
    with pytest.raises(AssertionError, match="64"):
        compiled(torch.randn(65, 8))


def test_gradients(model: nn.Module) -> None:
    program, x = exported(model, False), torch.randn(4, 8)
    lamella.compile(program)(x).sum().backward()
    model(x).sum().backward()
    found: dict[str, Tensor] = dict(program.named_parameters())
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(found[name].grad, parameter.grad)


def test_explained(model: nn.Module) -> None:
    with torch.no_grad():
        assert "kernel" in str(lamella.explain(exported(model, False), torch.randn(3, 8)))
