"""The graphs that torch traces, run by torch, and what tracing said of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._functorch.aot_autograd import aot_function
from torch._guards import TracingContext, tracing
from torch._subclasses import FakeTensorMode
from torch.fx import Interpreter, Node
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils import _pytree as pytree

from ..frontend.fake_kernels import right_fakes
from .op_compare import Mismatch, shown


def aot(
    f: Callable[..., Any], compile: Callable[[Any, str], Any], dynamic: bool = False, **settings: Any
) -> Callable[..., Any]:
    """AOTAutograd on `f`, whose graphs `compile` takes with their kinds, at the first call. TorchDynamo has no part in
    it, which saves its time, but for the context in which AOTAutograd leaves its notes to compilers.
    """
    make: Any = aot_function
    compilers = {
        f"{short}_compiler": lambda graph, _, kind=kind: compile(graph, kind)
        for short, kind in (("fw", "forward"), ("bw", "backward"), ("inference", "inference"))
    }
    run = make(f, **compilers, keep_inference_input_mutations=True, dynamic=dynamic, **settings)
    called = False

    def call(*inputs: torch.Tensor) -> Any:
        nonlocal called
        if called:
            return run(*inputs)
        called = True
        mode = FakeTensorMode(shape_env=ShapeEnv() if dynamic else None)
        with tracing(TracingContext(mode)), right_fakes(strict=True):
            return run(*inputs)

    return call


class Traced(Interpreter):
    """The graph, run by torch; raises Mismatch where a call's results are not what torch said when tracing: other
    dtypes or sizes, and at the end other strides.
    """

    def __call__(self, *inputs: Any) -> Any:
        return self.run(*inputs)

    def run_node(self, n: Node) -> Any:
        made = super().run_node(n)
        said = n.meta.get("val")
        for t, fake in zip(*map(pytree.tree_leaves, (made, said)), strict=False):
            if isinstance(t, torch.Tensor) and isinstance(fake, torch.Tensor) and not is_as_said(t, fake):
                raise Mismatch(f"{n.target} gives {shown(t)}, torch's tracing says {fake.dtype}{list(fake.shape)}")
        return made

    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        nodes: Any = self.module.graph.output_node().args[0]  # pyright: ignore
        for i, (node, t) in enumerate(zip(nodes, args[0], strict=True)):
            fake = node.meta.get("val") if isinstance(node, Node) else None
            if isinstance(fake, torch.Tensor) and not has_strides(t, fake):
                raise Mismatch(f"result {i} has strides {t.stride()}, torch's tracing says {fake.stride()}")
        return super().output(target, args, kwargs)


def is_as_said(t: torch.Tensor, fake: torch.Tensor) -> bool:
    """Whether the dtype is the one that tracing says, and the sizes as far as it says them."""
    if t.dtype != fake.dtype or t.dim() != fake.dim():
        return False
    said: tuple[Any, ...] = tuple(fake.shape)
    return all(not isinstance(n, int) or n == size for n, size in zip(said, t.shape, strict=True))


def has_strides(t: torch.Tensor, fake: torch.Tensor) -> bool:
    given: tuple[Any, ...] = fake.stride()
    return all(not isinstance(s, int) or s == x for x, s in zip(t.stride(), given, strict=True))
