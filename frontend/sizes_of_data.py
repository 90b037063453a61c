"""While TorchDynamo traces for this compiler, sizes that are data are what eager makes of them, and what branches
return and loops carry may lie otherwise along dims of size one (`fake_branches`).

In torch's traces a squeeze keeps a dim whose size is data, whatever that turns out to be. Here the graph breaks before
it; one that must not break says when called that the size is not one. Sizes of `pad` that are tensors are in no graph
that AOTAutograd takes: they are read. What TorchDynamo would say in terms of other operators, for the sake of numbers
that are tensors, stays what it is with any other number, which eager checks.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from functools import wraps
from typing import Any
from unittest.mock import patch

import torch
from torch._subclasses import FakeTensorMode
from torch._subclasses.fake_tensor import DynamicOutputShapeException
from torch.fx.experimental.symbolic_shapes import has_free_unbacked_symbols, statically_known_true

from .fake_branches import right_branches
from .known_sizes import known_sizes

_aten: Any = torch.ops.aten
_nn: Any = getattr(torch._C, "_nn")  # noqa: B009 - not declared
_FakeMode: Any = FakeTensorMode
_SQUEEZES = frozenset(
    getattr(packet, name) for packet in (_aten.squeeze, _aten.squeeze_) for name in ("default", "dim", "dims")
)
_SCALED_IN_PLACE = ("method_addcmul_", "method_addcdiv_")


@contextmanager
def sizes_of_data_as_eager(one_graph: bool) -> Generator[None]:
    """A context in which TorchDynamo traces a function, into one graph or several."""
    from torch._dynamo.variables import TensorVariable
    from torch._dynamo.variables.torch import TorchInGraphFunctionVariable

    functions: Any = TorchInGraphFunctionVariable
    run, remembered = _FakeMode._dispatch_impl, _FakeMode._cached_dispatch_impl

    def dispatched(mode: Any, operator: Any, types: Any, args: Sequence[Any], keywords: Any) -> Any:
        if operator not in _SQUEEZES:
            return remembered(mode, operator, types, args, keywords)
        for n in _open_sizes(*args):
            if not one_graph:
                raise DynamicOutputShapeException(operator)
            torch._check(n != 1)
        return run(mode, operator, types, args, keywords)

    handlers = functions._get_handlers()
    addcdiv = handlers[torch.addcdiv]
    scaled: dict[str, Any] = {
        name: _of_tensors(f) for name in _SCALED_IN_PLACE if (f := getattr(TensorVariable, name, None))
    }
    with (
        known_sizes(),
        right_branches(),
        patch.object(FakeTensorMode, "_cached_dispatch_impl", dispatched),
        patch.dict(handlers, {torch.addcdiv: _of_tensors(addcdiv)}),
        patch.dict(handlers, {_nn.pad: _pad}) if not one_graph else nullcontext(),
        patch.multiple(TensorVariable, **scaled),
    ):
        yield


def _open_sizes(x: torch.Tensor, dims: int | Sequence[int] | None = None) -> list[Any]:
    """Sizes of which data says whether a squeeze leaves their dims out."""
    named = range(x.dim()) if dims is None else [dims] if isinstance(dims, int) else dims
    return [n for n in (x.shape[d] for d in named if x.dim()) if _is_open(n)]


def _is_open(n: Any) -> bool:
    known = statically_known_true(n == 1) or statically_known_true(n != 1)
    return isinstance(n, torch.SymInt) and has_free_unbacked_symbols(n) and not known


def _of_tensors(handler: Callable[..., Any]) -> Callable[..., Any]:
    """A handler that leaves alone what is multiplied by a number that is no tensor."""

    @wraps(handler)
    def handled(*args: Any, value: Any = None, **keywords: Any) -> Any:
        return None if value is None or not value.is_tensor() else handler(*args, value=value, **keywords)

    return handled


def _pad(self: Any, tx: Any, *args: Any, **keywords: Any) -> Any:
    """Sizes that are tensors are read, as eager reads them."""
    from torch._dynamo.variables import TensorVariable
    from torch._dynamo.variables.lists import BaseListVariable, TupleVariable

    if len(args) < 2 or not isinstance(args[1], BaseListVariable):
        return None
    sizes = args[1].unpack_var_sequence(tx)
    if not any(isinstance(n, TensorVariable) for n in sizes):
        return None
    read = [n.call_method(tx, "item", [], {}) if isinstance(n, TensorVariable) else n for n in sizes]
    return self.call_function(tx, [args[0], TupleVariable(read), *args[2:]], keywords)
