"""First and second derivatives of an operator through the compiler, against differences of what it computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd.gradcheck import GradcheckError, gradcheck
from torch.utils import _pytree as pytree

from .op_check import Call, Capture, Refused, TorchFault
from .op_compare import Mismatch
from .op_traced import aot

ORDERS = {"gradcheck": 1, "gradgradcheck": 2}
"""The modes of this module, by the order of the derivatives that they check."""

Function = Callable[..., Any]


def check_derivatives(op: Any, sample: Any, order: int, verify: bool = True) -> list[str]:
    """Derivatives of `op` at a sample of f64 are those of finite differences, taken of the compiled function itself.

    Of the second order: the function compiled is the vector-Jacobian product, so that AOTAutograd sees both backwards.
    Returns the calls that are left. Raises as `check_call` does; Refused where eager's own derivatives fail the check.
    """

    def f(*args: Any, **kwargs: Any) -> Any:
        result = op.gradcheck_wrapper(op, *args, **kwargs)
        return sample.output_process_fn_grad(result) if sample.output_process_fn_grad is not None else result

    call = Call(f, (sample.input, *sample.args), sample.kwargs, "gradient", False, verify)
    inputs: list[torch.Tensor] = [call.flat[i] for i in call.places]
    function: Function = _differentiable(call)
    if order == 2:
        try:
            outputs = function(*inputs)
        except Exception as error:  # whatever eager raises
            raise Refused from error
        function, inputs = _product(function, len(inputs)), inputs + _weights(outputs)

    def check(run: Function) -> None:
        def seeded(*tensors: torch.Tensor) -> Any:
            with torch.random.fork_rng([]):
                torch.manual_seed(1)
                return run(*tensors)

        tolerance = max(op.gradcheck_nondet_tol, 1e-12)  # sums are in another order with every alignment
        fast = op.gradcheck_fast_mode is not False
        gradcheck(seeded, inputs, nondet_tol=tolerance, fast_mode=fast, check_undefined_grad=order == 1)

    capture = Derivatives(function, native=True, verify=verify)
    try:
        check(capture)
        return capture.calls()
    except Exception as ours:  # what any pass may raise is what is looked for
        try:
            check(function)
        except Exception as error:  # whatever eager raises
            raise Refused from error
        try:
            check(Derivatives(function, native=False, verify=False))
        except Exception as theirs:  # whatever torch's own tracing raises
            text = (str(theirs).strip() or "?").splitlines()[0]
            raise TorchFault(f"{type(theirs).__name__}: {text}") from ours
        if isinstance(ours, GradcheckError):
            raise Mismatch(" ".join(str(ours).split())) from ours
        raise


class Derivatives(Capture):
    """A function that is compiled, with its backward by Lamella's own partition, at its first call and then called."""

    def __init__(self, f: Function, native: bool, verify: bool) -> None:
        super().__init__(f, dynamic=False, native=native, verify=verify)
        self.compiled: Function | None = None

    def __call__(self, *inputs: torch.Tensor) -> Any:
        if self.compiled is not None:
            return self.compiled(*inputs)
        run = aot(self.f, self.compiler, partition_fn=self.backend.partition)
        result = run(*inputs)
        self.compiled = run
        return result


def _differentiable(call: Call) -> Function:
    """The results of a call that have derivatives."""

    def f(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        leaves = pytree.tree_leaves(call(*tensors))
        return tuple(t for t in leaves if isinstance(t, torch.Tensor) and t.requires_grad)

    return f


def _product(f: Function, count: int) -> Function:
    """(x, v) -> v^T df/dx, of those of the first `count` arguments for which it depends on x or v."""

    def product(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        inputs, weights = tensors[:count], tensors[count:]
        sources = [t for t in inputs if t.requires_grad]
        found: tuple[Any, ...] = torch.autograd.grad(f(*inputs), sources, weights, create_graph=True, allow_unused=True)
        return tuple(d for d in found if d is not None and d.requires_grad)

    return product


def _weights(outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    real = (torch.rand(t.shape, generator=generator, dtype=torch.float64) for t in outputs)
    return [w.to(t.dtype).requires_grad_() for w, t in zip(real, outputs, strict=True)]
