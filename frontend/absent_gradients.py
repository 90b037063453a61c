"""Gradients of results that nobody uses, as of logits beside a loss, or of a cache of keys and values.

Autograd would fill memory with zeros for each, and a backward add them up. Here it gives None where sizes are fixed:
the backward is compiled for those that its first call has not got (`aten-absent`), and once more, for all of them, at
the first call that has one of these.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .donated import GRADIENT

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from ..lowering.options import Options
    from .backend import Compilation
    from .cuda_arguments import Arguments

log = logging.getLogger("lamella")

Run = Callable[[list[Any]], Sequence[Any]]


class _Now(threading.local):
    """The inputs of the backward that runs in this thread, when its compiler is called, that are None."""

    absent: frozenset[int] = frozenset()


_now = _Now()
_compiling = threading.RLock()
"""Held where a backward is compiled again."""


def leave_absent(function: Any, graph: GraphModule) -> bool:
    """Whether autograd is to give None to AOTAutograd's class of a graph, as each call must ask for
    (`set_materialize_grads`); `graph` is TorchDynamo's.
    """
    if function.maybe_subclass_metadata is not None or not _is_fixed(graph):
        return False
    run, key = function._backward_impl, function._compiled_autograd_key

    def noting(ctx: Any, inputs: list[Any]) -> Any:
        _now.absent = frozenset(i for i, x in enumerate(inputs) if x is None)
        try:
            return run(ctx, inputs)
        finally:
            _now.absent = frozenset()

    def materializing(ctx: Any) -> Any:
        # Compiled autograd asks for the key, then for the gradients: it puts the graph of the backward into its own.
        ctx.set_materialize_grads(True)
        return key(ctx)

    function._backward_impl, function._compiled_autograd_key = staticmethod(noting), staticmethod(materializing)
    return True


def _is_fixed(graph: GraphModule) -> bool:
    """Whether the sizes of all tensors are numbers, and so those of the gradients."""
    values = (node.meta.get("example_value") for node in graph.graph.nodes)
    tensors = [v for value in values for v in (value if isinstance(value, (tuple, list)) else (value,))]
    return all(_has_numbers(v) for v in tensors if isinstance(v, torch.Tensor))


def _has_numbers(t: torch.Tensor) -> bool:
    return not is_traceable_wrapper_subclass(t) and all(type(n) is int for n in (*t.shape, *t.stride()))


@dataclass(frozen=True)
class Layout:
    """What zeros look like."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    def zeros(self) -> torch.Tensor:
        return torch.empty_strided(self.sizes, self.strides, dtype=self.dtype, device=self.device).zero_()


def gradients_of(graph: GraphModule) -> dict[int, Layout]:
    """The inputs of a backward that are gradients of fixed sizes, by position."""
    found: dict[int, Layout] = {}
    for i, node in enumerate(n for n in graph.graph.nodes if n.op == "placeholder"):
        t = node.meta.get("val")
        if node.name.startswith(GRADIENT) and isinstance(t, torch.Tensor) and _has_numbers(t):
            found[i] = Layout((*t.shape,), (*t.stride(),), t.dtype, t.device)
    return found


def fill(inputs: list[Any], gradients: Mapping[int, Layout], absent: frozenset[int]) -> None:
    """Make zeros for the gradients that are None: not for those that a backward does without, if these all are."""
    missing = [i for i in gradients if inputs[i] is None]
    if len(missing) == len(absent) and absent.issuperset(missing):
        return
    expected = absent if absent.issubset(missing) else ()
    for i in missing:
        if i not in expected:
            inputs[i] = gradients[i].zeros()


class Partial:
    """A backward without the gradients that are `absent`; the `whole` one where a call has them. Picklable."""

    def __init__(self, run: Run, absent: Collection[int], whole: Whole) -> None:
        self.run = run
        self.absent = sorted(absent)
        self.whole = whole

    def __call__(self, inputs: list[Any]) -> Sequence[Any]:
        if inputs[self.absent[0]] is not None:
            return self.whole(inputs)
        for i in reversed(self.absent):
            del inputs[i]
        try:
            return self.run(inputs)
        except BaseException:
            if inputs:  # they are looked at again
                for i in self.absent:
                    inputs.insert(i, None)
            raise


@dataclass
class Whole:
    """A backward with all gradients, compiled at its first call. Picklable."""

    text: str
    """At the aten level."""
    options: Options
    compile: Callable[[ModuleOp, Options], Compilation]
    eagerly: Callable[[str], Run] | None
    """What runs the text if it cannot be compiled."""
    plan: Arguments | str
    """How it is recorded on a GPU."""
    run: Run | None = None

    @staticmethod
    def of(
        module: ModuleOp,
        options: Options,
        compile: Callable[[ModuleOp, Options], Compilation],
        eagerly: Callable[[str], Run] | None,
        plan: Arguments | str,
    ) -> Whole:
        from ..dialects.text import print_module

        return Whole(print_module(module, locations=True), options, compile, eagerly, plan)

    def __call__(self, inputs: list[Any]) -> Sequence[Any]:
        with _compiling:
            self.run = run = self.run or self._made()
        return run(inputs)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "run": None}

    def _made(self) -> Run:
        from ..dialects.text import parse_module
        from .graph_parts import UnsupportedGraph
        from .recording_plan import recorded

        log.info("a backward is compiled again: it is given a gradient that its first call was not")
        try:
            compilation = self.compile(parse_module(self.text), self.options)
        except UnsupportedGraph as error:
            if self.eagerly is None:
                raise
            log.warning("a graph runs eagerly: %s", error)
            return self.eagerly(self.text)
        return recorded(compilation, self.plan)[0]


def absent_now(module: ModuleOp, gradients: Collection[int], passed: Collection[int]) -> frozenset[int]:
    """The `gradients` that the backward which is about to run is not given, but for those that are `passed` on as they
    are.
    """
    from ..lowering.aten_absent import can_be_absent
    from ..lowering.aten_frozen import main_of

    values = main_of(module).body.block.args
    return frozenset(i for i in _now.absent if i in gradients and i not in passed and can_be_absent(values[i]))


def drop_absent(module: ModuleOp, absent: Collection[int], verify: bool) -> None:
    """Rewrite a module for gradients that it is not given; their arguments go."""
    from ..lowering.aten_absent import ABSENT
    from ..lowering.aten_frozen import mark_arguments
    from ..lowering.pipeline import run_passes

    mark_arguments(module, absent, ABSENT)
    run_passes(module, "aten-absent", verify=verify)
