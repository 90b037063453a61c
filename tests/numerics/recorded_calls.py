"""Calls of ATen as eager makes them, and what becomes of each: lowered to prims, interpreted, compared with eager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, NoneType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from lamella.codegen.interpreter import run_module
from lamella.dialects.aten import lookup, op_class, op_name
from lamella.dialects.schema import normalize
from lamella.dialects.tensor import DTYPE_OF_TORCH, TensorType
from lamella.dialects.text import print_module
from lamella.dialects.verify import verify
from lamella.lowering.aten_to_prims import AtenToPrims
from lamella.lowering.decomposition import RULES
from lamella.lowering.prims_canonicalize import PrimsCanonicalize
from lamella.tools.op_places import settled

WITHOUT_VALUES = {
    *("aten.empty.memory_format", "aten.empty_like", "aten.new_empty", "aten.empty_strided"),
    *("aten.new_empty_strided", "aten.empty_permuted"),
}
"""What eager leaves in memory is not compared."""

BY_REFERENCE = {
    *("aten._chunk_cat", "aten._unsafe_masked_index", "aten.addr", "aten.batch_norm_backward", "aten.block_diag"),
    *("aten.channel_shuffle", "aten.col2im", "aten.dist", "aten.grid_sampler_2d"),
    *("aten.linspace.Tensor_Tensor", "aten.logit_backward", "aten.logspace"),
    *("aten.multi_margin_loss", "aten.pairwise_distance", "aten.prelu", "aten.renorm"),
    *("aten.reflection_pad1d_backward", "aten.tril_indices", "aten.triu_indices"),
    *("aten.meshgrid.indexing", "aten.upsample_bicubic2d", "aten.upsample_bicubic2d.vec"),
}
"""Without a rule of their own: lowered through torch's decompositions."""

CHECKED = BY_REFERENCE | set(RULES)


@dataclass
class Recorded:
    """One ATen call of eager: `inputs` are copies made before it, `outputs` its tensors (None where undefined)."""

    overload: Any
    args: tuple[Any, ...]
    outputs: list[Any]


class Recorder(TorchDispatchMode):
    """Collects the calls of overloads whose names are `wanted`; those that write are recorded nowhere."""

    def __init__(self, wanted: Callable[[str], bool] = CHECKED.__contains__) -> None:
        super().__init__()
        self.calls: list[Recorded] = []
        self.wanted = wanted

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        wanted = self.wanted(op_name(func)) and not func._schema.is_mutable
        before = bind(func, [copied(a) for a in args], {k: copied(v) for k, v in kwargs.items()}) if wanted else ()
        out = func(*args, **kwargs)
        if wanted:
            self.calls.append(Recorded(func, before, [copied(t) for t in flat(out)]))
        return out


def copied(value: Any) -> Any:
    """The value with tensors replaced by copies of the same layout."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.is_quantized:
            return value
        extent = 1 + sum((n - 1) * s for n, s in zip(value.shape, value.stride(), strict=True)) if value.numel() else 0
        memory = torch.as_strided(value, (extent,), (1,)).detach().clone()
        return torch.as_strided(memory, value.shape, value.stride(), 0)
    if isinstance(value, (list, tuple)):
        return [copied(v) for v in value]
    return value


def flat(out: Any) -> list[Any]:
    return [t for item in out for t in flat(item)] if isinstance(out, (list, tuple)) else [out]


def bind(overload: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The arguments in the order of the schema, defaults filled in."""
    positional = iter(args)
    bound: list[Any] = []
    for a in overload._schema.arguments:
        if a.name in kwargs:
            bound.append(kwargs[a.name])
        else:
            bound.append(a.default_value if a.kwarg_only else next(positional, a.default_value))
    return tuple(bound)


def type_of(t: torch.Tensor) -> TensorType:
    return TensorType.get(tuple(t.shape), DTYPE_OF_TORCH[str(t.dtype)[6:]], tuple(t.stride()))


def module_of(call: Recorded) -> tuple[ModuleOp, list[torch.Tensor]]:
    """`func.func @main` with the one call, and its inputs."""
    inputs: list[torch.Tensor] = []
    block = Block()

    def argument(value: Any, element: str) -> Any:
        if isinstance(value, torch.Tensor):
            inputs.append(value)
            return block.insert_arg(type_of(value), len(block.args))
        if isinstance(value, (list, tuple)):
            return tuple(argument(v, element) for v in value)
        return normalize(value, element)

    cls = op_class(call.overload)
    args = [argument(v, a.element) for v, a in zip(call.args, cls.schema.args, strict=True)]
    types = [NoneType() if t is None else type_of(t) for t in call.outputs]
    op = cls.call(args, types)
    kept = [r for r in op.results if not isinstance(r.type, NoneType)]
    block.add_ops([op, ReturnOp(*kept)])
    main = FuncOp("main", ([a.type for a in block.args], [r.type for r in kept]), Region(block))
    return ModuleOp([main]), inputs


def is_covered(call: Recorded) -> bool:
    """Tensors that our types can say, on the CPU, and no generator of its own."""
    if any(isinstance(a, torch.Generator) for a in call.args):
        return False
    tensors = [t for t in flat([*call.args, *call.outputs]) if isinstance(t, torch.Tensor)]
    return all(t.layout is torch.strided and not t.is_quantized and not t.is_complex() for t in tensors)


def check(call: Recorded, name: str) -> bool:
    """Whether the call was decomposed; raises AssertionError where the outputs differ."""
    module, inputs = module_of(call)
    AtenToPrims().apply(Context(), module)
    verify(module)
    PrimsCanonicalize().apply(Context(), module)
    verify(module)
    if any(op.name == op_name(call.overload) for op in module.walk()):
        return False
    expected = [t for t in call.outputs if t is not None]
    actual = run_module(module, inputs)
    random = torch.Tag.nondeterministic_seeded in call.overload.tags
    if random and not is_deterministic(call):  # `test_random.py` looks at the numbers
        assert [(t.shape, t.dtype) for t in actual] == [(t.shape, t.dtype) for t in expected]
        return True
    if op_name(call.overload) in WITHOUT_VALUES:
        expected = [torch.zeros_like(t) for t in expected]
    operator = call.overload.overloadpacket.__name__
    named = {a.name: v for a, v in zip(call.overload._schema.arguments, call.args, strict=True)}
    if len(expected) > 1:
        actual, expected = (flat(settled(operator, out, call.args[:1], named)) for out in (actual, expected))
    for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
        compare(call, i, a, e, f"{op_name(call.overload)} result {i} of {name}\n{print_module(module)}")
    return True


def is_deterministic(call: Recorded) -> bool:
    """Whether an operator with a generator does without it: outside of training."""
    named = {a.name: v for a, v in zip(call.overload._schema.arguments, call.args, strict=True)}
    return named.get("train", named.get("training")) is False


def compare(call: Recorded, result: int, actual: torch.Tensor, expected: torch.Tensor, where: str) -> None:
    """Equal within torch.testing, or no further from float64 than 1.5 times eager."""
    try:
        torch.testing.assert_close(actual, expected, equal_nan=True)
    except AssertionError as different:
        if not expected.is_floating_point() or expected.shape != actual.shape or expected.dtype != actual.dtype:
            raise AssertionError(f"{different}\n{where}") from None
        exact = flat(widened(call))[result]
        error = (actual.double() - exact).abs().nan_to_num(0.0).max()
        eager = (expected.double() - exact).abs().nan_to_num(0.0).max()
        same_nans = torch.equal(actual.isnan(), expected.isnan())
        assert same_nans and error <= 1.5 * eager, f"error {error}, eager's {eager}: {different}\n{where}"


def widened(call: Recorded) -> Any:
    """The call in float64."""

    def wide(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            return value.double()
        return [wide(v) for v in value] if isinstance(value, (list, tuple)) else value

    named = dict(zip((a.name for a in call.overload._schema.arguments), map(wide, call.args), strict=True))
    for name in ("dtype", "input_dtype"):
        if isinstance(named.get(name), torch.dtype):
            named[name] = torch.float64
    keywords = {a.name: named.pop(a.name) for a in call.overload._schema.arguments if a.kwarg_only}
    return call.overload(*named.values(), **keywords)


def record(function: Callable[[], Any]) -> list[Recorded]:
    """The calls that `function` and the derivative of what it returns make."""
    with Recorder() as recorder:
        out = function()
        if torch.is_inference_mode_enabled():
            return recorder.calls
        wanted = [t for t in flat(out) if isinstance(t, torch.Tensor) and t.requires_grad and not t.is_complex()]
        generator = torch.Generator().manual_seed(0)
        torch.autograd.backward(wanted, [torch.rand(t.shape, generator=generator).to(t) for t in wanted])
    return recorder.calls


def call_of(name: str, *args: Any) -> Recorded:
    """A call of an op by name, run in eager; arguments left out have their defaults."""
    overload = lookup(name).overload  # type: ignore[union-attr]
    positional = [a for a in overload._schema.arguments if not a.kwarg_only]
    named = overload._schema.arguments[len(positional) :]
    keywords = {a.name: v for a, v in zip(named, args[len(positional) :], strict=False)}
    bound = bind(overload, [copied(a) for a in args[: len(positional)]], {k: copied(v) for k, v in keywords.items()})
    with torch.inference_mode():
        out = overload(*args[: len(positional)], **keywords)
    return Recorded(overload, bound, [copied(t) for t in flat(out)])


def f(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Numbers that are the same in each run."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape) + len(shape))).to(dtype)


def i(high: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(high))
