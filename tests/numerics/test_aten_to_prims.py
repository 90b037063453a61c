"""Every decomposition against eager: torch's own sample inputs, call by call.

A sample of an operator is run in eager, with its derivative, while every ATen call is recorded with its inputs and
outputs. Each recorded call that the table has a rule for becomes a module of one op, is lowered to prims,
canonicalized and interpreted; the outputs must be eager's within the tolerances of torch.testing, or no further from
float64 than 1.5 times eager's own.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import binary_ufuncs, op_db, unary_ufuncs
from torch.utils._python_dispatch import TorchDispatchMode
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, NoneType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from lamella.codegen.interpreter import run_module
from lamella.dialects.aten import lookup, op_class, op_name
from lamella.dialects.schema import normalize
from lamella.dialects.tensor import DTYPE_OF_TORCH, TensorType
from lamella.dialects.text import parse_module, print_module
from lamella.dialects.verify import verify
from lamella.lowering.aten_to_prims import AtenToPrims
from lamella.lowering.decomposition import RULES
from lamella.lowering.prims_canonicalize import PrimsCanonicalize
from lamella.tools.op_places import settled

WITHOUT_VALUES = {"aten.empty.memory_format", "aten.empty_like", "aten.new_empty", "aten.empty_strided"}
WITHOUT_VALUES |= {"aten.new_empty_strided", "aten.empty_permuted"}
"""What eager leaves in memory is not compared."""

DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool)
BY_REFERENCE = {
    *("aten._chunk_cat", "aten._unsafe_masked_index", "aten.addr", "aten.batch_norm_backward", "aten.block_diag"),
    *("aten.channel_shuffle", "aten.col2im", "aten.dist", "aten.grid_sampler_2d"),
    *("aten.linspace.Tensor_Tensor", "aten.logit_backward", "aten.logspace"),
    *("aten.multi_margin_loss", "aten.pairwise_distance", "aten.prelu", "aten.renorm"),
    *("aten.reflection_pad1d_backward", "aten.soft_margin_loss_backward", "aten.tril_indices", "aten.triu_indices"),
    *("aten.meshgrid.indexing", "aten.upsample_bicubic2d", "aten.upsample_bicubic2d.vec"),
}
"""Without a rule of their own: lowered through torch's decompositions."""

CHECKED = BY_REFERENCE | set(RULES)

SAMPLES = 2
"""Sample inputs taken of each operator and dtype."""


@dataclass
class Recorded:
    """One ATen call of eager: `inputs` are copies made before it, `outputs` its tensors (None where undefined)."""

    overload: Any
    args: tuple[Any, ...]
    outputs: list[Any]


class Recorder(TorchDispatchMode):
    """Collects the calls of overloads that have a rule."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Recorded] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        wanted = op_name(func) in CHECKED and not func._schema.is_mutable
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


# torch's samples

SKIPPED = ("fft.", "linalg.", "sparse.", "masked.", "jiterator", "signal.", "ops.nvprims", "to_sparse", "special.")
"""Operators whose calls have no rules, or that are many of the same calls."""
OPERATORS = [op for op in op_db if not op.name.startswith(SKIPPED)]
ENOUGH = 8
"""Checks of one ATen op and dtype: many operators make the same calls."""
checked: Counter[tuple[str, torch.dtype]] = Counter()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "operator", OPERATORS, ids=lambda op: f"{op.name}{op.variant_test_name and '-' + op.variant_test_name}"
)
def test_samples(operator: Any) -> None:
    """Calls of sample inputs and their derivatives; in inference mode composite operators are calls of their own."""
    for dtype in DTYPES:
        if not operator.supports_dtype(dtype, "cpu"):
            continue
        grad = dtype.is_floating_point and operator.supports_autograd
        for sample in itertools.islice(operator.sample_inputs("cpu", dtype, requires_grad=grad), SAMPLES):
            for inference in (False, True):
                with torch.inference_mode(inference):
                    calls = record(lambda s=sample: operator.op(s.input, *s.args, **s.kwargs))
                for call in calls:
                    name = op_name(call.overload)
                    if is_covered(call) and checked[name, dtype] < ENOUGH:
                        checked[name, dtype] += check(call, f"{operator.name} {dtype}")


# Inputs that samples leave out


SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40, -1e-40, 1e30, -1e30, 0.5, -0.5, 1.0, -1.0, 2.5, -2.5, 88.0]
ELEMENTWISE = [op for op in unary_ufuncs + binary_ufuncs if not op.name.startswith(("special.", "jiterator"))]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
@pytest.mark.parametrize("operator", ELEMENTWISE, ids=lambda op: op.name)
def test_special_values(operator: Any, dtype: torch.dtype) -> None:
    """NaN, infinities, zeros with signs, denormals and halves; transposed, with one element, and with none."""
    if not operator.supports_dtype(dtype, "cpu"):
        pytest.skip(f"no {dtype}")
    unary = operator in unary_ufuncs
    # Binary ones without denormals: eager's vectorized fmod gives NaN for such divisors, its scalar one does not.
    x = torch.tensor([v if unary or abs(v) != 1e-40 else 3.0 for v in SPECIAL]).to(dtype)
    grid = x.reshape(4, 4).t() if unary else x[:, None].expand(16, 16)
    other = () if unary else (x[None].expand(16, 16),)
    for inputs in ((grid, *other), tuple(t[:1, :1] for t in (grid, *other)), tuple(t[:0] for t in (grid, *other))):
        try:
            calls = record(lambda inputs=inputs: operator.op(*inputs))
        except (RuntimeError, TypeError):
            continue  # the operator wants other arguments
        for call in filter(is_covered, calls):
            check(call, f"{operator.name} of special values")


def f(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Numbers that are the same in each run."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape) + len(shape))).to(dtype)


def i(high: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(high))


BN = (f(3), f(3), f(3), f(3).abs() + 0.5)
CASES: list[tuple[Any, ...]] = [
    ("aten.__and__.Tensor", i(9, 4), i(9, 4)),
    ("aten.__lshift__.Scalar", i(9, 4), 2),
    ("aten.__rshift__.Tensor", i(9, 4), i(3, 4)),
    ("aten.__xor__.Scalar", i(9, 4), 5),
    ("aten._adaptive_avg_pool2d", f(2, 3, 8, 6), [4, 2]),
    ("aten._adaptive_avg_pool2d", f(2, 3, 7, 7), [1, 1]),
    ("aten._adaptive_avg_pool2d_backward", f(2, 3, 4, 2), f(2, 3, 8, 6)),
    ("aten._batch_norm_no_update", f(2, 3, 5), *BN, 0.1, 1e-5),
    ("aten._batch_norm_with_update_functional", f(2, 3, 5), *BN, 0.1, 1e-5),
    ("aten._fused_rms_norm", f(4, 8), [8], f(8), 1e-6),
    ("aten._fused_rms_norm", f(4, 8, dtype=torch.bfloat16), [8], f(8, dtype=torch.bfloat16), None),
    ("aten._native_batch_norm_legit.no_stats", f(2, 3, 4, 5), f(3), f(3), True, 0.1, 1e-5),
    ("aten._native_batch_norm_legit_functional", f(2, 3, 4, 5), *BN, True, 0.1, 1e-5),
    ("aten._native_batch_norm_legit_functional", f(2, 3, 4, 5), *BN, False, 0.1, 1e-5),
    ("aten._native_batch_norm_legit_no_training", f(2, 3, 4, 5), *BN, 0.1, 1e-5),
    ("aten._native_batch_norm_legit_no_training", f(2, 3, 4, 5, dtype=torch.bfloat16), *BN, 0.1, 1e-5),
    ("aten._unsafe_index.Tensor", f(5, 6), [None, i(6, 4)]),
    ("aten._unsafe_index_put", f(5, 6), [i(5, 4)], f(4, 6), False),
    ("aten._upsample_nearest_exact2d", f(1, 2, 5, 6), [7, 9], None, None),
    ("aten.all.dims", i(2, 3, 4).bool(), [0, 1], True),
    ("aten.any.dims", i(2, 3, 4), [1], False),
    ("aten.arange.start_step", 0.5, 4.0, 0.25, torch.float32),
    ("aten.arange.start_step", 7, -3, -2, torch.int64),
    ("aten.avg_pool2d", f(1, 2, 7, 8), [3, 2], [2, 2], [1, 0], True, False),
    ("aten.avg_pool2d", f(1, 2, 7, 8), [3, 3], [], [0, 0], False, True, 5),
    ("aten.bitwise_and.Scalar_Tensor", 6, i(9, 4)),
    ("aten.bitwise_right_shift.Tensor_Scalar", i(99, 4) - 50, 2),
    ("aten.adaptive_max_pool3d", f(2, 3, 5, 4, 7), [2, 3, 4]),
    ("aten._adaptive_avg_pool2d", f(2, 3, 7, 5), [3, 4]),
    ("aten._adaptive_avg_pool2d_backward", f(2, 3, 3, 4), f(2, 3, 7, 5)),
    ("aten.cat", [f(0), f(2, 3), f(1, 3)], 0),
    ("aten.cat", [f(2, 3), i(5, 2, 1)], 1),
    ("aten.clamp_max", f(4), 0.1),
    ("aten.clip.Tensor", f(4), f(1), None),
    ("aten.contiguous", f(3, 4).t()),
    ("aten.copy", f(3, 4), i(5, 4)),
    ("aten.copysign.Scalar", f(4), -1.0),
    ("aten.count_nonzero.dim_IntList", i(2, 3, 4), [1]),
    ("aten.div.Scalar_mode", i(99, 6) - 50, 7, "floor"),
    ("aten.div.Scalar_mode", i(99, 6) - 50, 7, "trunc"),
    ("aten.embedding_dense_backward", f(4, 3), i(5, 4), 5, 2, False),
    ("aten.cummin", torch.tensor([3.0, 1.0, 1.0, math.nan, 0.0, math.nan, 2.0]), 0),
    ("aten.cummax", f(3, 0), 1),
    ("aten.bucketize.Tensor", torch.tensor([0.5, 1.0, math.nan, 9.0]), torch.tensor([1.0, 1.0, 2.0, 5.0, 8.0])),
    ("aten.bucketize.Tensor", f(3, 4), f(0)),
    ("aten.searchsorted.Tensor", f(3, 5).sort().values, f(3, 2), True, True),
    ("aten.searchsorted.Tensor", f(3, 5), f(3, 2), False, False, None, f(3, 5).argsort()),
    ("aten.scatter_reduce.two", f(4, 5), 0, i(4, 6, 5), f(6, 5), "mean", False),
    ("aten.scatter_reduce.two", i(9, 6).bool(), 0, i(6, 4), i(2, 4).bool(), "prod", False),
    ("aten.index_reduce", i(99, 5, 3) - 50, 0, i(5, 4), i(9, 4, 3), "mean", True),
    ("aten.put", i(2, 3, 4).bool(), i(12, 5) - 12, i(2, 5).bool(), True),
    ("aten.diag_embed", f(2, 3), -1, 2, 0),
    ("aten.frexp.Tensor", torch.tensor([0.0, -0.0, 1.0, -3.5, 1e-40, -1e-45, 3e38, math.inf, -math.inf, math.nan])),
    ("aten.frexp.Tensor", torch.tensor([5e-324, 1e-310, -7.0, 1e300, 0.5], dtype=torch.float64)),
    ("aten.frexp.Tensor", f(9, dtype=torch.bfloat16)),
    ("aten.linalg_cross", f(3, 4), f(3, 1), 0),
    ("aten.isin.Tensor_Tensor", i(9, 3, 4), i(9, 5), False, True),
    ("aten.masked_scatter", f(3, 4), i(2, 4).bool(), f(12)),
    ("aten.reflection_pad2d", f(2, 5, 6), [-1, 2, 3, -2]),
    ("aten.replication_pad1d", f(2, 6), [-2, 3]),
    ("aten.fill.Tensor", f(4), torch.tensor(2)),
    ("aten.floor_divide.Scalar", i(99, 6) - 50, 7),
    ("aten.floor_divide", f(40) * 9, f(41)[:40]),
    ("aten.fmod.Scalar", f(4) * 9, 2.5),
    ("aten.group_norm", f(2, 6, 5), 3, f(6), f(6), 1e-5, True),
    ("aten.index.Tensor", f(4, 5, 6), [i(4, 3), None, i(6, 3)]),
    ("aten.index.Tensor", f(4, 5, 6), [None, i(5, 3) - 5, i(6, 2, 1)]),
    ("aten.index.Tensor", f(4, 5), [i(4, 3).int()]),
    ("aten.index_put", f(4, 5), [i(2, 4, 5).bool()], torch.tensor(3.0), False),
    ("aten.index_put", f(4, 5), [i(4, 6), i(5, 6)], f(6), True),
    ("aten.isin.Tensor_Scalar", i(3, 6), 2),
    ("aten.lerp.Tensor", f(3, 4), f(4), f(3, 1)),
    ("aten.linspace", -1.0, 3.0, 7, torch.float32),
    ("aten.max_pool2d", f(1, 2, 7, 8), [3, 3], [2, 2], [1, 1], [1, 2], True),
    ("aten.movedim.int", f(2, 3, 4), 0, -1),
    ("aten.native_dropout", f(3, 4), 0.5, False),
    ("aten.new_full", f(2), [3, 2], 7, torch.int64),
    ("aten.norm.ScalarOpt_dim_dtype", f(3, 4, dtype=torch.bfloat16), 3, [1], True, torch.float32),
    ("aten.reflection_pad2d", f(2, 5, 6), [1, 2, 3, 0]),
    ("aten.replication_pad2d", f(2, 5, 6), [1, 2, 3, 0]),
    ("aten.remainder.Scalar_Tensor", 7, i(5, 4) + 1),
    ("aten.repeat_interleave.self_int", f(3, 4), 2, 1),
    ("aten.scatter.value_reduce", f(3, 5), 1, i(5, 3, 1), 2.0),
    ("aten.slice_copy.Tensor", f(7, 3), 0, -5, -1, 2),
    ("aten.slice_scatter", f(7, 3), f(3, 3), 0, 1, 7, 2),
    ("aten.special_softmax", f(3, 4), -1),
    ("aten.to.dtype_layout", f(4), torch.bfloat16),
    ("aten.tensor_split.sections", f(7, 3), 3, 0),
    ("aten.upsample_nearest2d", f(1, 2, 5, 6), [7, 9], None, None),
    ("aten.upsample_nearest2d", f(1, 2, 5, 6), [10, 12], 2.0, 2.0),
    ("aten.upsample_nearest2d_backward", f(1, 2, 10, 12), [10, 12], [1, 2, 5, 6], 2.0, 2.0),
    ("aten.upsample_bilinear2d.vec", f(1, 2, 5, 6), [9, 7], False, None),
    ("aten.where.ScalarOther", i(2, 4).bool(), f(4), 2.0),
    ("aten.where.ScalarSelf", i(2, 4).bool(), 2.0, f(4)),
    ("aten.xlogy.Scalar_Other", f(4), 2.0),
    ("aten.xlogy.Scalar_Self", 2.0, f(4).abs()),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_cases(case: tuple[Any, ...]) -> None:
    """Calls that no sample makes, each decomposed and equal to eager."""
    name, *args = case
    if name == "aten.scatter.value_reduce":
        args.append("multiply")
    assert check(call_of(name, *args), "a case"), f"{name} was left as a call"


def test_rms_norm_backward() -> None:
    """The CPU has no kernel for it, so the derivative of rms_norm stands for eager."""
    x, weight, grad = f(4, 8).requires_grad_(), f(8).requires_grad_(), f(4, 8)
    y = torch.nn.functional.rms_norm(x, [8], weight, 1e-6)
    outputs = list(torch.autograd.grad(y, (x, weight), grad))
    rstd = (x.detach().square().mean(-1, keepdim=True) + 1e-6).rsqrt()
    overload = torch.ops.aten._fused_rms_norm_backward.default
    args = (grad, x.detach(), [8], rstd, weight.detach(), [True, True])
    assert check(Recorded(overload, args, outputs), "a case")


def test_symbolic_sizes_are_not_traced() -> None:
    """torch's decompositions are traced for numbers only: with symbols the op stays a call."""
    module = parse_module(
        "func.func @main(%x: !sym.t<[s0, 4], f32>) -> !sym.t<[s0, 4], f32> {"
        "%r = aten.logit_backward(%x, %x, 0.1) : (!sym.t<[s0, 4], f32>, !sym.t<[s0, 4], f32>) -> !sym.t<[s0, 4], f32>"
        "func.return %r : !sym.t<[s0, 4], f32> }"
    )
    AtenToPrims().apply(Context(), module)
    assert "aten.logit_backward" in print_module(module)


def test_index_out_of_range_raises() -> None:
    """As in eager: IndexError, for rows of an embedding that do not exist."""
    call = call_of("aten.embedding", f(5, 3), i(5, 4))
    module, (weight, indices) = module_of(call)
    AtenToPrims().apply(Context(), module)
    with pytest.raises(IndexError, match="index out of range in self"):
        run_module(module, [weight, indices + 5])


def test_every_rule_names_an_op() -> None:
    assert [name for name in RULES if lookup(name) is None] == []
