"""Higher-order operators are compiled as control flow: same results and gradients as eager, nothing runs eagerly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._higher_order_ops import associative_scan, scan, while_loop
from torch._higher_order_ops.invoke_subgraph import mark_compile_region as _mark_compile_region
from torch._higher_order_ops.map import map as map_slices

import lamella
from lamella.dialects.text import print_module
from lamella.driver import Options, compile_module
from lamella.frontend.backend import Backend

pytestmark = pytest.mark.usefixtures("compiled")
mark_compile_region: Any = _mark_compile_region


def check(f: Callable[..., Any], *inputs: torch.Tensor, **options: Any) -> None:
    g = lamella.compile(f, fullgraph=True, **options)
    for _ in range(2):
        torch.testing.assert_close(g(*inputs), f(*inputs), equal_nan=True)


def check_gradients(f: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> None:
    g = lamella.compile(f, fullgraph=True)
    given = [x.requires_grad_() for x in inputs]
    torch.testing.assert_close(torch.autograd.grad(g(*given), given), torch.autograd.grad(f(*given), given))


def branches(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda a, b: a.sin() @ b, lambda a, b: (a @ b).cos() * 2, (x, w)) + 1


def nested(x: torch.Tensor) -> torch.Tensor:
    def inner(a: torch.Tensor) -> torch.Tensor:
        return torch.cond(a.max() > 1, lambda b: b * 2 + torch.tensor(3.0), lambda b: b / 2, (a,))

    return torch.cond(x.sum() > 0, inner, lambda a: a.exp() + torch.tensor([1.0]), (x,)) * 3


@pytest.mark.parametrize("sign", [1, -1])
def test_cond_takes_the_branch_that_the_data_says(sign: int) -> None:
    x, w = sign * torch.rand(8, 8), torch.randn(8, 8)
    check(branches, x, w)
    check_gradients(branches_sum, x, w)


def branches_sum(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return branches(x, w).sum()


@pytest.mark.parametrize("x", [[2.0, 1.0], [0.5, 0.1], [-1.0, 0.5], [float("nan"), 1.0]], ids=str)
def test_cond_within_cond_with_constants(x: list[float]) -> None:
    check(nested, torch.tensor(x))


def test_cond_of_sizes() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.shape[0] > 4, lambda a: a.sin(), lambda a: a.cos() * a.shape[0], (x,))

    g = lamella.compile(f, fullgraph=True, dynamic=True)
    for n in (3, 8, 4, 5):
        x = torch.randn(n, 3)
        torch.testing.assert_close(g(x), f(x))


def test_branches_keep_strides() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda a: a.t().contiguous() * 1, lambda a: (a * 2).t().contiguous(), (x,))

    for x in (torch.rand(3, 5), -torch.rand(3, 5).t().contiguous().t()):
        check(f, x)
        assert lamella.compile(f)(x).stride() == f(x).stride()


def test_while_loop_carries_tensors_and_numbers() -> None:
    def tensors(x: torch.Tensor) -> Any:
        return while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, (a * 1.5).sin()), (torch.tensor(0), x))

    def numbers(x: torch.Tensor) -> Any:
        return while_loop(lambda i, a: i < a.shape[0], lambda i, a: (i + 1, a * i + x), (0, x + 1))

    def never(x: torch.Tensor) -> Any:
        return while_loop(lambda i, a: i < 0, lambda i, a: (i + 1, a * 2), (torch.tensor(0), x))

    for f in (tensors, numbers, never):
        check(f, torch.randn(4, 4))


def test_while_loop_of_no_rounds_gives_copies() -> None:
    """Of an argument, and of what is a result too; as torch's does."""

    def f(x: torch.Tensor, n: torch.Tensor) -> Any:
        y = x * 2
        i, a, b = while_loop(lambda i, a, b: i < n, lambda i, a, b: (i + 1, a + 1, b * 3), (torch.tensor(0), x, y))
        return y, i, a, b

    x = torch.randn(3, 4)
    for n in (0, 2):
        results = [x, *lamella.compile(f, fullgraph=True)(x, torch.tensor(n))]
        torch.testing.assert_close(results[1:], list(f(x, torch.tensor(n))))
        assert len({t.untyped_storage().data_ptr() for t in results}) == len(results), n


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_while_loop_has_gradients(n: int, dynamic: bool) -> None:
    """Of a loop that never runs, torch gives those of one that runs once."""

    def f(x: torch.Tensor, w: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        def body(i: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> Any:
            return i + 1, (a @ w).sin() + b, b * 0.5

        _, y, z = while_loop(lambda i, a, b: i < n, body, (torch.tensor(0), x, x.exp()))
        return y.sum() + (z * z).sum()

    def unrolled(x: torch.Tensor, w: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        y, z = x, x.exp()
        for _ in range(int(n)):
            y, z = (y @ w).sin() + z, z * 0.5
        return y.sum() + (z * z).sum()

    texts: list[str] = []

    def compile(module: Any, asked: Any) -> Any:
        texts.append(print_module(module))
        return compile_module(module, asked)

    g = torch.compile(f, backend=Backend(Options(), compile=compile), fullgraph=True, dynamic=dynamic)
    for rows in (4, 3):
        x, w = (torch.randn(k, 8, dtype=torch.float64, requires_grad=True) for k in (rows, 8))
        ours, theirs = g(x, w, torch.tensor(n)), unrolled(x, w, torch.tensor(n))
        torch.testing.assert_close(ours, theirs)
        torch.testing.assert_close(torch.autograd.grad(ours, (x, w)), torch.autograd.grad(theirs, (x, w)))
    assert "flow.while_stack(" in texts[0] and "flow.while(" in texts[1] and len(texts) == 2 * (2 - dynamic)


def test_gradients_of_a_while_loop_in_other_dtypes_and_layouts() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        def body(i: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> Any:
            return i + 1, (a.float() * b.mean()).to(a.dtype), b + a.float().sum() * 0.01

        _, a, b = while_loop(lambda i, a, b: i < 3, body, (torch.tensor(0), x, y.t().clone()))
        return a.float().sum() + b.sin().sum()

    check_gradients(f, torch.randn(3, 7).bfloat16(), torch.randn(4, 5))


def test_while_loop_with_a_matrix_product_frees_what_it_made() -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> Any:
        return while_loop(lambda i, a: a.norm() < 1e6, lambda i, a: (i + 1, a @ w * 3), (torch.tensor(0), x))

    check(f, torch.rand(64, 64), torch.rand(64, 64) + torch.eye(64))


def test_while_loop_is_interrupted() -> None:
    import signal

    def f(x: torch.Tensor) -> Any:
        return while_loop(lambda a: a.sum() > 0, lambda a: (a + 1,), (x,))

    g = lamella.compile(f, fullgraph=True)
    g(torch.tensor([-3.0]))

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    try:
        with pytest.raises(KeyboardInterrupt):  # wherever it comes: the machine may be slow to begin
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            g(torch.tensor([1.0]))
    finally:
        signal.signal(signal.SIGALRM, before)


def step(carry: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    following = (carry + x).tanh()
    return following, following * 2


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dim", [0, 1])
def test_scan(dim: int, reverse: bool) -> None:
    def f(x: torch.Tensor) -> Any:
        return scan(step, torch.zeros(5), x, dim=dim, reverse=reverse)

    check(f, torch.randn(5, 5))


def test_scan_of_a_recurrent_layer() -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        def cell(carry: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return step(carry @ w, x)

        last, outputs = scan(cell, torch.zeros(3, 8), x)
        return last.sum() + (outputs * outputs).sum()

    check(f, torch.randn(5, 3, 8), torch.randn(8, 8))
    check_gradients(f, torch.randn(5, 3, 8), torch.randn(8, 8))


def test_map() -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return map_slices(lambda a, b: (a @ b).relu(), x, w).sum()

    check(f, torch.randn(5, 3, 8), torch.randn(8, 8))
    check_gradients(f, torch.randn(5, 3, 8), torch.randn(8, 8))


@pytest.mark.parametrize("n", [1, 2, 17])
def test_associative_scan(n: int) -> None:
    def one(x: torch.Tensor) -> Any:
        return associative_scan(lambda a, b: a * b, x, 0, combine_mode="generic")

    def two(a: torch.Tensor, b: torch.Tensor) -> Any:
        return associative_scan(
            lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (a, b), 1, reverse=True, combine_mode="generic"
        )

    check(one, torch.rand(n, 4))
    check(two, torch.rand(4, n), torch.rand(4, n))


def test_regions_that_are_compiled_once() -> None:
    @mark_compile_region
    def layer(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x @ w).sin() + x

    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = layer(x, w)
        return x.sum()

    # in float64, as each of the layers makes more of what products were rounded by
    x, w = torch.randn(4, 8, dtype=torch.float64), torch.randn(8, 8, dtype=torch.float64)
    check(f, x, w)
    check_gradients(f, x, w)


def functions(f: Callable[..., Any], *inputs: torch.Tensor, **options: Any) -> list[list[str]]:
    """For each graph, the lines that call functions and begin them."""
    texts: list[str] = []

    def compile(module: Any, asked: Any) -> Any:
        texts.append(print_module(module))
        return compile_module(module, asked)

    g = torch.compile(f, backend=Backend(Options(**options), compile=compile), fullgraph=True)
    torch.testing.assert_close(g(*inputs), f(*inputs))
    lines = ([line.split(":")[0].strip() for line in text.splitlines()] for text in texts)
    return [[line for line in found if "flow.call" in line or "func.func private" in line] for found in lines]


def test_equal_regions_are_one_function() -> None:
    constant = torch.randn(8)

    @mark_compile_region
    def layer(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x @ w).sin() + x * constant

    @mark_compile_region
    def once(x: torch.Tensor) -> torch.Tensor:
        return x.cos() + 1

    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = layer(x, w)
        return once(x)

    (found,) = functions(f, torch.randn(4, 8), torch.randn(8, 8))
    assert [line.partition("callee ")[2] for line in found if "callee" in line] == ["@region_0"] * 3
    assert sum("func.func private @region_0" in line for line in found) == 1 and len(found) == 4


def test_regions_of_other_types_stand_in_place() -> None:
    @mark_compile_region
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * 2 + 1

    def f(x: torch.Tensor) -> Any:
        return scaled(x), scaled(x[:, :3]), scaled(x.t()), scaled(scaled(x) + 1)

    (found,) = functions(f, torch.randn(4, 8))
    assert 2 <= sum("callee" in line for line in found) <= 3


def test_regions_with_dropout_and_within_regions() -> None:
    @mark_compile_region
    def inner(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5)

    @mark_compile_region
    def outer(x: torch.Tensor) -> torch.Tensor:
        return inner(inner(x) + 1).sin() + x

    def f(x: torch.Tensor) -> torch.Tensor:
        return outer(outer(x))

    g = lamella.compile(f, fullgraph=True)
    x = torch.ones(50, 50)
    torch.manual_seed(0)
    first = g(x)
    torch.manual_seed(0)
    assert torch.equal(g(x), first) and not torch.equal(g(x), first)


def test_repeated_regions_train() -> None:
    @mark_compile_region
    def layer(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.layer_norm((x @ w).sin() + x, (8,))

    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        for _ in range(5):
            x = layer(x, w)
        return (x * x).mean() + x.sin().sum()

    check_gradients(f, torch.randn(4, 8, dtype=torch.float64), torch.randn(8, 8, dtype=torch.float64))
    x, w = (torch.randn(n, 8, dtype=torch.float64, requires_grad=True) for n in (4, 8))
    forward = functions(f, x, w)[0]
    assert sum("callee" in line for line in forward) >= 4


def test_sizes_read_from_data_in_a_branch() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda a: a.nonzero().sum(0), lambda a: a.nonzero().sum(0) + 1, (x,)) * 2

    for x in (torch.tensor([1.0, 0, 2]), -torch.tensor([1.0, 0, 2])):
        check(f, x)


def test_control_flow_within_control_flow() -> None:
    def scanned(x: torch.Tensor) -> Any:
        def step(carry: torch.Tensor, a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            n = while_loop(lambda i, b: i < 3, lambda i, b: (i + 1, (b + a).sin()), (torch.tensor(0), carry))[1]
            return n, n * 2

        return scan(step, torch.zeros(4), x)

    def mapped(x: torch.Tensor) -> Any:
        return map_slices(lambda a: torch.cond(a.sum() > 0, lambda b: b.sin(), lambda b: b.cos(), (a,)), x)

    def repeated(x: torch.Tensor) -> Any:
        def body(i: torch.Tensor, a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return i + 1, torch.cond(a.max() > 2, lambda b: b / 2, lambda b: (b @ b.t()) * 1.5, (a,))

        return while_loop(lambda i, a: i < 6, body, (torch.tensor(0), x))

    for f in (scanned, mapped, repeated):
        check(f, torch.randn(4, 4))


def test_results_of_sizes_that_differ_between_branches() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda a: a[:2].clone(), lambda a: a[:3] + 1, (x,)) * 2

    for x in (torch.rand(5), -torch.rand(5)):
        check(f, x)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.int64, torch.complex64], ids=str)
def test_dtypes_strides_and_no_elements(dtype: torch.dtype) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.abs().sum() > 10, lambda a: a * 2, lambda a: a + 1, (x,)) + 1

    def stepped(x: torch.Tensor) -> Any:
        first = x[0].clone(memory_format=torch.contiguous_format)
        return scan(lambda c, a: (c + a, c * a), first, x)

    x = (torch.randn(5, 4) * 4).to(dtype)
    for y in (x, x.t(), x[:, ::2], x[:, :1] * 0, x[:, :0]):
        check(f, y)
    for y in (x, x.t(), x[:, ::2]):
        check(stepped, y)


def test_random_numbers_in_a_branch_follow_the_seed() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda a: a + torch.rand_like(a), lambda a: a * 2, (x,))

    g = lamella.compile(f, fullgraph=True)
    x = torch.rand(100)
    first, second = g(x), g(x)
    torch.manual_seed(0)
    third = g(x)
    assert not torch.equal(first, second)
    assert torch.equal(g(-x), -2 * x)
    torch.manual_seed(0)
    assert torch.equal(g(x), third)


@pytest.mark.parametrize("masked", [False, True])
def test_flex_attention_is_what_it_is_defined_as(masked: bool) -> None:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    table = torch.randn(2)
    mask = create_block_mask(lambda b, h, i, j: i >= j, 1, 2, 128, 128, device="cpu") if masked else None

    def f(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        def bias(score: torch.Tensor, b: Any, h: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
            return score + (i - j) * 0.1 * table[h]

        return flex_attention(q, k, v, score_mod=bias, block_mask=mask)

    check(f, *(torch.randn(1, 2, 128, 16) for _ in range(3)))
