"""A training step of every module in torch's database: results, gradients and buffers against eager's."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch.testing._internal.common_modules import ModuleInfo, module_db
from torch.utils._pytree import tree_leaves, tree_map

LEFT_OUT = ("nn.Lazy", "nn.FractionalMaxPool")
"""Those that become others at their first call, and those whose samples eager refuses: some tensors are of f64."""

MODULES = {info.name: info for info in module_db if not info.name.startswith(LEFT_OUT)}


def step(call: Any, module: torch.nn.Module, args: Any, kwargs: Any) -> list[torch.Tensor | None]:
    """All that a step leaves behind: results, arguments, gradients, parameters and buffers."""
    torch.manual_seed(1)
    results = tensors(call(*args, **kwargs))
    roots = [t for t in results if t.requires_grad]
    if roots:
        torch.autograd.backward(roots, [torch.randn_like(t) for t in roots])
    inputs = tensors((args, kwargs))
    gradients = [t.grad for t in (*inputs, *module.parameters())]
    return [*results, *inputs, *gradients, *module.parameters(), *module.buffers()]


def tensors(tree: Any) -> list[torch.Tensor]:
    return [t for t in tree_leaves(tree) if isinstance(t, torch.Tensor)]


def again(t: Any) -> Any:
    return t.detach().clone().requires_grad_(t.requires_grad) if isinstance(t, torch.Tensor) else t


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODULES)
def test_step_of(name: str) -> None:
    info: ModuleInfo = MODULES[name]
    torch._dynamo.reset()
    torch.manual_seed(0)
    given: Any = {"device": "cpu", "dtype": torch.float32, "requires_grad": True, "training": True}
    samples = info.module_inputs_func(info, **given)
    sample = next(s for s in samples if s.forward_input is not None)
    made = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs)
    module, other = made.train(), copy.deepcopy(made).train()
    args, kwargs = sample.forward_input.args, sample.forward_input.kwargs
    options: dict[str, Any] = {"strict": True, "cache": False, "random": "eager"}
    compiled = torch.compile(other, backend="lamella", options=options)
    found = step(compiled, other, *tree_map(again, (args, kwargs)))
    wanted = step(module, module, *tree_map(again, (args, kwargs)))
    assert [t is None for t in found] == [t is None for t in wanted]
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5, equal_nan=True)
