"""Kernels that users write in Triton's Python are calls of the program around them. Here Triton's interpreter runs
them; what is launched, on what grid and with which arguments, is ours.
"""

# pyright: basic, reportArgumentType=false, reportFunctionMemberAccess=false, reportReturnType=false

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.utils._triton
import triton
import triton.language as tl
from torch import Tensor
from torch.library import triton_op, wrap_triton
from torch.utils.checkpoint import checkpoint
from triton.backends.compiler import GPUTarget
from triton.runtime.interpreter import InterpretedFunction

import lamella
from lamella.dialects import user_kernels

pytestmark = pytest.mark.usefixtures("compiled", "triton_here")

BLOCK = 64


class Driver:
    """A machine with a GPU that nothing is launched on: Triton finds out which arguments a kernel writes."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_benchmarker(self) -> Any:
        return None


launches: list[tuple[str, Any, int]] = []
"""Name, grid and number of positional arguments of each."""


def interpreted(kernel: Any, grid: Any, args: Sequence[Any], keywords: dict[str, Any]) -> None:
    config: dict[str, Any] = {}
    while not hasattr(kernel, "cache_key"):
        config |= kernel.configs[-1].kwargs  # as if the last one were the fastest
        kernel = kernel.fn
    names = [n for n in kernel.arg_names if n not in config][: len(args)]
    given = dict(zip(names, args, strict=True)) | config | keywords
    grid = grid(given) if callable(grid) else grid
    launches.append((kernel.fn.__name__, grid, len(args)))
    InterpretedFunction(kernel.fn)[grid](**given)


@pytest.fixture
def triton_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.utils._triton, "has_triton", lambda *_: True)
    monkeypatch.setattr(triton.runtime.driver, "_active", Driver())
    monkeypatch.setattr(user_kernels, "launch", interpreted)
    launches.clear()


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=inside) + tl.load(y_ptr + i, mask=inside), mask=inside)


@triton.jit
def scale_kernel(x_ptr, factor, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(x_ptr + i, tl.load(x_ptr + i, mask=inside) * factor, mask=inside)


tuned_kernel = triton.autotune([triton.Config({"BLOCK": b}) for b in (16, 32)], key=["n"])(add_kernel)


def grid_of(n: int) -> Callable[[dict[str, Any]], tuple[int, ...]]:
    return lambda meta: (triton.cdiv(n, meta["BLOCK"]),)


def add(x: Tensor, y: Tensor) -> Tensor:
    out = torch.empty_like(x)
    add_kernel[grid_of(x.numel())](x, y, out, x.numel(), BLOCK=BLOCK)
    return out


def check(f: Callable[..., Any], expected: Callable[..., Any], *inputs: Tensor, **options: Any) -> None:
    g = torch.compile(f, backend="lamella", fullgraph=True, **options)
    for _ in range(2):
        ours, theirs = [x.clone() for x in inputs], [x.clone() for x in inputs]
        torch.testing.assert_close(g(*ours), expected(*theirs))
        torch.testing.assert_close(ours, theirs)


def test_a_kernel_between_kernels() -> None:
    check(lambda x, y: add(x.sin(), y) * 2, lambda x, y: (x.sin() + y) * 2, torch.randn(1000), torch.randn(1000))
    assert launches[0] == ("add_kernel", (16, 1, 1), 5)


def test_sizes_are_symbols() -> None:
    g = torch.compile(lambda x: add(x.sin(), x) * 2, backend="lamella", fullgraph=True, dynamic=True)
    for n in (1000, 77, 1, 0, 64):
        x = torch.randn(n)
        torch.testing.assert_close(g(x), (x.sin() + x) * 2)
    assert ("add_kernel", (2, 1, 1), 5) in launches


def test_arguments_that_are_written() -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        scale_kernel[(4,)](x, 3.0, 200, BLOCK=BLOCK)
        before = x.sin()
        scale_kernel[(4,)](x, 0.5, 200, BLOCK=BLOCK)
        return before + x + y

    def expected(x: Tensor, y: Tensor) -> Tensor:
        before = x.mul_(3).sin()
        return before + x.mul_(0.5) + y

    check(f, expected, torch.randn(200), torch.randn(200))


def test_views_that_are_written() -> None:
    def f(x: Tensor) -> Tensor:
        half = x[:, 1]
        y = half.clone()
        scale_kernel[(1,)](x[2], 2.0, 8, BLOCK=16)
        return y + x[:, 1]

    def expected(x: Tensor) -> Tensor:
        y = x[:, 1].clone()
        x[2] *= 2
        return y + x[:, 1]

    check(f, expected, torch.randn(5, 8))


def test_two_results_of_one_kernel_do_not_share_memory() -> None:
    def f(x: Tensor) -> Any:
        a, b = x * 2, x * 2
        scale_kernel[(4,)](a, 3.0, 200, BLOCK=BLOCK)
        return a, b, add(x, x), add(x, b)

    check(f, lambda x: (x * 6, x * 2, x + x, x + x * 2), torch.randn(200))


def test_configurations_have_grids_of_their_own() -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        out = torch.empty_like(x)
        tuned_kernel[grid_of(x.numel())](x, y, out, x.numel())
        return out.cos()

    check(f, lambda x, y: (x + y).cos(), torch.randn(100), torch.randn(100))
    assert launches[0] == ("add_kernel", (4, 1, 1), 4)


@triton_op("lamella_tests::add", mutates_args=())
def add_operator(x: Tensor, y: Tensor) -> Tensor:
    out = torch.empty_like(x)
    wrap_triton(add_kernel)[grid_of(x.numel())](x, y, out, x.numel(), BLOCK)
    return out


@triton_op("lamella_tests::scale", mutates_args=())
def scale_operator(x: Tensor, factor: float) -> Tensor:
    out = x.clone()
    wrap_triton(scale_kernel)[(8,)](out, factor, x.numel(), BLOCK)
    return out


scale_operator.register_autograd(
    lambda ctx, grad: (scale_operator(grad, ctx.factor), None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "factor", inputs[1]),
)


def test_operators_train() -> None:
    def f(x: Tensor) -> Tensor:
        return (scale_operator(x.sin(), 1.5).cos() * x).sum()

    x = torch.randn(300, requires_grad=True)
    expected = ((x.sin() * 1.5).cos() * x).sum()
    ours = torch.compile(f, backend="lamella", fullgraph=True)(x)
    torch.testing.assert_close(ours, expected)
    torch.testing.assert_close(torch.autograd.grad(ours, x), torch.autograd.grad(expected, x))
    assert [name for name, *_ in launches] == ["scale_kernel"] * 2


def test_checkpointed_operators_run_again() -> None:
    def f(x: Tensor) -> Tensor:
        return checkpoint(lambda x: scale_operator(x.sin(), 1.5).cos() * x, x, use_reentrant=False).sum()

    x = torch.randn(300, requires_grad=True)
    expected = ((x.sin() * 1.5).cos() * x).sum()
    ours = torch.compile(f, backend="lamella", fullgraph=True)(x)
    torch.testing.assert_close(torch.autograd.grad(ours, x), torch.autograd.grad(expected, x))
    assert len(launches) == 3


@pytest.mark.eager_part("a graph that a call takes writes to what it is given")
def test_kernels_in_a_branch() -> None:
    def f(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: add_operator(x, x), lambda x: x.cos(), (x,))

    x = torch.rand(100)
    check(f, lambda x: x + x if x.sum() > 0 else x.cos(), x)
    check(f, lambda x: x + x if x.sum() > 0 else x.cos(), -x)


def test_strides_of_arguments_are_kept() -> None:
    def f(x: Tensor) -> Tensor:
        y = (x + 1).t()  # its memory is what the kernel sees
        scale_kernel[(1,)](y, 2.0, 10, BLOCK=16)
        return y.contiguous()

    def expected(x: Tensor) -> Tensor:
        y = x + 1
        y.view(-1)[:10] *= 2
        return y.t().contiguous()

    check(f, expected, torch.randn(4, 5))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.int32, torch.int64, torch.uint8], ids=str)
def test_dtypes(dtype: torch.dtype) -> None:
    x = torch.randint(0, 50, (130,)).to(dtype)
    check(lambda x: add(x + 1, x) + 1, lambda x: x + x + 2, x)


def test_a_call_says_kernel_grid_and_constants(recorder: Any) -> None:
    def f(x: Tensor) -> Tensor:
        return add(x, x)

    x = torch.randn(100)
    g = torch.compile(f, backend=recorder.backend, fullgraph=True, dynamic=True)
    torch.testing.assert_close(g(x), x + x)  # the interpreter has run what was parsed
    call = next(line for line in recorder.texts[0].splitlines() if "triton_kernel" in line)
    assert "test_user_kernels:add_kernel@" in call
    assert '["out_ptr", "x_ptr", "y_ptr", "n"], [%' in call
    said = rf'\[(s\d+)\], grid = \[floordiv\(\1 \+ 63, 64\), 1, 1\], constants = \["BLOCK = {BLOCK}"\]'
    assert re.search(said, call)
    assert "runs eagerly" not in (told := str(lamella.explain(f, x)))
    assert "a kernel that the user wrote in Triton" in told


def test_a_graph_is_compiled_again_in_another_process() -> None:
    from torch._dynamo.utils import counters

    counters["aot_autograd"].clear()
    check(lambda x: scale_operator(x, 2.0).sin(), lambda x: (x * 2).sin(), torch.randn(100))
    assert not counters["aot_autograd"]["autograd_cache_saved"]


def test_names_say_which_kernel() -> None:
    name = user_kernels.name_of(add_kernel)
    place, _, code = name.partition("@")
    assert place == f"{__name__}:add_kernel" and code
    assert user_kernels.find(name) is add_kernel and user_kernels.find(place) is add_kernel
    assert user_kernels.name_of(tuned_kernel) != name
    with pytest.raises(LookupError, match="is not the one that was compiled"):
        user_kernels.find(f"{place}@0000")
    with pytest.raises(LookupError, match="no Triton kernel no_module:f can be imported"):
        user_kernels.find("no_module:f@00")


@pytest.mark.parametrize(
    "value", [None, True, 3, -1.5, float("inf"), "words", torch.bfloat16, tl.float16, (1, 2), add_kernel], ids=str
)
def test_constants_are_read_as_they_were_written(value: Any) -> None:
    text = user_kernels.written_constant("NAME", value)
    assert user_kernels._read_constants((text,)) == {"NAME": value}
