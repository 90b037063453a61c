"""What torch takes apart before a graph is compiled: tensor subclasses, function transforms, hooks, autocast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import return_and_correct_aliasing

import lamella

pytestmark = pytest.mark.usefixtures("compiled")


def check(f: Callable[..., Any], *inputs: Any) -> None:
    torch.testing.assert_close(lamella.compile(f, fullgraph=True)(*inputs), f(*inputs))


def double(x: Tensor) -> Tensor:
    return x.sin() * 2


@pytest.mark.parametrize(
    "f",
    [
        lambda x: torch.func.vmap(lambda a: (a @ x).sin().sum())(x),
        lambda x: torch.func.vmap(torch.func.grad(lambda a: (a @ x).sin().sum()))(x),
        lambda x: torch.func.grad(lambda a: double(a).sum())(x),
        lambda x: torch.func.jvp(double, (x,), (x * 2,)),
        lambda x: torch.func.vjp(double, x)[1](x),
        lambda x: torch.func.jacrev(double)(x[0]),
        lambda x: torch.func.jacfwd(double)(x[0]),
        lambda x: torch.func.hessian(lambda a: double(a).sum())(x[0]),
        lambda x: torch.func.functional_call(LINEAR, {"weight": x, "bias": x[0]}, (x,)),
    ],
    ids=["vmap", "vmap-grad", "grad", "jvp", "vjp", "jacrev", "jacfwd", "hessian", "functional_call"],
)
def test_function_transforms(f: Callable[[Tensor], Any]) -> None:
    check(f, torch.randn(4, 4))


LINEAR = nn.Linear(4, 4)


def test_hooks_of_modules_and_tensors() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    model[0].register_forward_hook(lambda module, inputs, output: output * 2)
    model[2].register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))
    check(model, torch.randn(3, 4))

    def f(x: Tensor) -> Tensor:
        y = model(x)
        y.register_hook(lambda gradient: gradient * 3)
        return y.sum()

    x = torch.randn(3, 4, requires_grad=True)
    torch.testing.assert_close(torch.autograd.grad(lamella.compile(f)(x), x), torch.autograd.grad(f(x), x))


def test_autocast_for_a_part_of_a_graph() -> None:
    def f(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = (x @ w).tanh()  # not as steep as what rounds the product would need: kernels do not round it
            with torch.autocast("cpu", enabled=False):
                z = x @ w
        return x @ w, y, z

    check(f, torch.randn(4, 4), torch.randn(4, 4))


def product(x: Any, y: Tensor) -> Any:
    return (x @ y).sin() + x.sum()


def test_a_subclass_of_two_tensors() -> None:
    x, y = TwoTensor(torch.randn(4, 4), torch.randn(4, 4)), torch.randn(4, 4)
    ours, eagers = lamella.compile(product, fullgraph=True)(x, y), product(x, y)
    torch.testing.assert_close((ours.a, ours.b), (eagers.a, eagers.b))
    x = TwoTensor(torch.randn(4, 4), torch.randn(4, 4)).requires_grad_()
    f = lamella.compile(lambda x, y: product(x, y).sum(), fullgraph=True)
    (ours,), (eagers,) = (torch.autograd.grad(g(x, y).sum(), x) for g in (f, product))
    torch.testing.assert_close((ours.a, ours.b), (eagers.a, eagers.b))


class Scaled(Tensor):
    """Eight-bit floats and a scale, as wrappers for quantized weights are."""

    data8: Tensor
    scale: Tensor

    @staticmethod
    def __new__(cls, data8: Tensor, scale: Tensor) -> Scaled:
        return Tensor._make_wrapper_subclass(cls, data8.shape, strides=data8.stride(), dtype=scale.dtype)  # type: ignore

    def __init__(self, data8: Tensor, scale: Tensor) -> None:
        self.data8, self.scale = data8, scale

    def __repr__(self, **_: Any) -> str:  # what a tensor prints itself as looks at its elements
        return f"Scaled({tuple(self.shape)})"

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["data8", "scale"], None

    @staticmethod
    def __tensor_unflatten__(parts: dict[str, Tensor], _: None, size: Any, stride: Any) -> Scaled:
        return Scaled(parts["data8"], parts["scale"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.ops.aten.detach.default, torch.ops.aten.alias.default, torch.ops.aten.t.default):
            made = Scaled(func(args[0].data8), args[0].scale)
            return return_and_correct_aliasing(func, args, kwargs or {}, made)

        def plain(x: Any) -> Any:
            return x.data8.to(x.scale.dtype) * x.scale if isinstance(x, Scaled) else x

        return func(*map(plain, args), **(kwargs or {}))


def test_a_subclass_of_eight_bit_floats() -> None:
    weight = Scaled(torch.randn(8, 16).to(torch.float8_e4m3fn), torch.tensor(0.25))

    def f(x: Tensor, w: Tensor) -> Tensor:
        return torch.nn.functional.linear(x, w).relu()

    x = torch.randn(4, 16)
    torch.testing.assert_close(lamella.compile(f, fullgraph=True)(x, weight), f(x, weight))


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed")
def test_distributed_tensors_of_one_process() -> None:
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        x = distribute_tensor(torch.randn(4, 4), mesh, [Shard(0)])
        y = distribute_tensor(torch.randn(4, 4), mesh, [Replicate()])

        def f(x: Any, y: Any) -> Any:
            return (x @ y).redistribute(mesh, [Replicate()]).sin() + 1

        ours = lamella.compile(f, fullgraph=True)(x, y)
        torch.testing.assert_close(ours.to_local(), f(x, y).to_local())
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("training", [False, True])
def test_nested_tensors(training: bool) -> None:
    """One program for all lengths of rows."""
    layer = torch.nn.Linear(4, 5)

    def f(x: Tensor) -> Tensor:
        return torch.nested.to_padded_tensor(layer(x).sin() * 2, 0.0).sum(1)

    g = lamella.compile(f, fullgraph=True)
    for lengths in ((2, 3, 1), (5, 2), (4, 4, 4, 4)):
        rows = [torch.randn(n, 4) for n in lengths]
        x = torch.nested.nested_tensor(rows, layout=torch.jagged, requires_grad=training)
        ours, eagers = g(x), f(x)
        torch.testing.assert_close(ours, eagers)
        if training:
            torch.testing.assert_close(*(torch.autograd.grad(y.sum(), layer.weight) for y in (ours, eagers)))
