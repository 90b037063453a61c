"""`lamella.capture`: functions, modules and exported programs as modules with parameters and buffers as arguments."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import lamella
from lamella.codegen.interpreter import run_module
from lamella.dialects.errors import LamellaError
from lamella.dialects.text import parse_module
from lamella.dialects.verify import verify
from lamella.frontend.capture import CapturedModule, CaptureError, capture


def run(captured: CapturedModule, *args: Any, **kwargs: Any) -> Any:
    """The program's result, computed from the text of its module."""
    verify(captured.module)
    module = parse_module(str(captured))
    inputs = captured.inputs(*args, **kwargs)
    return captured.outputs(inputs, run_module(module, inputs))


def test_function_with_structured_arguments_and_results() -> None:
    def f(pair: tuple[Tensor, Tensor], *, scale: float = 1.0, bias: Tensor) -> dict[str, Any]:
        return {"sum": pair[0] * scale + bias, "rows": pair[1].shape[0] * 2, "none": None}

    shapes = {"pair": ({0: Dim("n")}, {0: Dim("m")}), "scale": None, "bias": None}
    captured = capture(f, (torch.randn(3, 4), torch.randn(5)), scale=0.5, bias=torch.ones(4), dynamic_shapes=shapes)
    args, bias = (torch.randn(7, 4), torch.randn(2)), torch.randn(4)
    got, want = run(captured, args, bias=bias, scale=0.5), f(args, bias=bias, scale=0.5)
    assert torch.equal(got["sum"], want["sum"]) and got["rows"] == 4 and got["none"] is None


def test_parameters_and_buffers_are_named_arguments() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(4)
            self.table = torch.arange(4.0)

        def forward(self, x: Tensor) -> Tensor:
            return self.norm(x) * self.table

    model = Model()
    reference, x = copy.deepcopy(model), torch.randn(8, 4)
    captured = capture(model, x)
    text = str(captured)
    for name in ("norm.weight", "norm.running_mean", "table"):
        assert f'lamella.name = "{name}"' in text
    assert "lamella.mutated" in text and text.count("aten.copy_(") == 3
    assert torch.equal(run(captured, x), reference(x))
    # The buffers are the model's own, and are written.
    for name, buffer in model.named_buffers():
        assert torch.equal(buffer, dict(reference.named_buffers())[name])


def test_same_operators_as_under_torch_compile(recorder: Any) -> None:
    def f(x: Tensor, w: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(x, x, x) @ nn.functional.linear(w, w).softmax(-1)

    x, w = torch.randn(2, 4, 4), torch.randn(4, 4)
    torch.compile(f, backend=recorder.backend)(x, w)
    compiled = [op.name for op in parse_module(recorder.texts[0]).walk()]
    assert [op.name for op in capture(f, x, w).module.walk()] == compiled


def test_exported_programs() -> None:
    class Scale(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.clone().mul_(2)

    exported = torch.export.export(Scale(), (torch.ones(3),))
    x = torch.randn(3)
    for program in (exported, exported.run_decompositions({})):
        assert torch.equal(run(capture(program), x), x * 2)


@pytest.mark.parametrize("name", ["input", "len", "self_", "s0", "output"])
def test_arguments_of_any_name(name: str) -> None:
    """A graph may have to rename what is called like a builtin."""
    names: dict[str, Any] = {}
    exec(f"def f({name}): return {name}.exp() + {name}.shape[0]", names)
    x = torch.randn(3, 4)
    captured = capture(names["f"], x, dynamic_shapes=({0: Dim("n")},))
    inputs = captured.inputs(x)
    torch.testing.assert_close(captured.outputs(inputs, run_module(captured.module, inputs)), names["f"](x))


def test_written_inputs() -> None:
    def f(x: Tensor) -> Tensor:
        x[0].add_(1)
        return x.t()

    captured = capture(f, torch.zeros(2, 3))
    x = torch.zeros(2, 3)
    t = run(captured, x)
    assert torch.equal(x[0], torch.ones(3)) and torch.equal(t, x.t())


def test_errors_are_for_people() -> None:
    captured = lamella.capture(lambda x, y: x + y, torch.ones(2), torch.ones(2))
    with pytest.raises(CaptureError, match="is called with"):
        captured.inputs(torch.ones(2))
    with pytest.raises(CaptureError, match="is called with"):
        captured.inputs(torch.ones(2), torch.ones(2), z=1)
    with pytest.raises(CaptureError, match=r"torch\.export cannot capture"):
        capture(lambda x: x if x.sum() > 0 else -x, torch.ones(2))
    with pytest.raises(CaptureError, match=r"cannot capture this program: IndexError: "):
        capture(lambda x: x, torch.ones(2), dynamic_shapes=({1: torch.export.Dim("b")},))
    with pytest.raises(LamellaError, match="expected the name of a level or a pipeline, got int"):
        lamella.lower(captured, 3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(CaptureError, match="changes the sizes or strides of an input"):
        capture(lambda x: x.t_() + 1, torch.ones(2, 3))


def test_a_failed_capture_leaves_nothing_behind() -> None:
    """Modules that assign to a buffer are still compiled whole."""

    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(2))

        def forward(self, x: Tensor) -> Tensor:
            self.count += 1
            return x * self.count

    hooks = nn.modules.module._global_buffer_registration_hooks
    before = list(hooks)
    with pytest.raises(CaptureError, match=r"torch\.export cannot capture"):
        capture(lambda x: x if x.sum() > 0 else -x, torch.ones(2))
    assert list(hooks) == before
    torch._dynamo.reset()
    assert torch.equal(torch.compile(Counting(), backend="eager", fullgraph=True)(torch.ones(2)), torch.ones(2))
