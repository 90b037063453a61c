"""Results have the strides and sizes that operators give, where torch's fake tensors say others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.source import ConstantSource
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from lamella.frontend import fake_kernels
from lamella.frontend.fake_kernels import right_fakes
from lamella.tools.op_compare import same_strides

INDEX = torch.tensor([[0, 1, 2], [2, 1, 0]])
IMAGES = torch.arange(528, dtype=torch.int8).view(2, 33, 4, 2).contiguous(memory_format=torch.channels_last)
ODD = torch.arange(68.0).view(17, 4)[:14].T.unsqueeze(-1)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("f", "args"),
    [
        (lambda x, i: x[i.T], (torch.randn(4, 5), INDEX)),
        (lambda x, i: x[:, i.T, i.T], (torch.randn(4, 5, 3), INDEX)),
        (lambda x, i: x[i.T, :, i], (torch.randn(4, 5, 3), INDEX[:, :2])),
        (lambda x, i: x[:, i[0]], (torch.randn(33, 7).T.unsqueeze(0), INDEX)),
        (lambda x: x.roll(1, -3), (IMAGES,)),
        (lambda x: x.roll(2, 3), (IMAGES,)),
        (lambda x: x.roll((1, 3), (0, 3)), (IMAGES,)),
        (lambda x, y: torch.logical_xor(x, y), (torch.arange(5), ODD)),
        (lambda x, y: torch.logical_and(x, y), (ODD, torch.arange(5))),
        (lambda x, y: torch.logical_or(x, y), (torch.arange(14, dtype=torch.int16), ODD.mT)),
        (lambda x: x.norm(dim=-1), (torch.randn(3, 1),)),
        (lambda x: x.clone(), (torch.ones(4)[1::2][:1],)),
        (lambda x: torch.complex(x, x).abs(), (torch.ones(20).as_strided((5, 1), (3, 7)),)),
        (lambda x: torch.complex(x, x).conj_physical(), (torch.ones(20).as_strided((5, 1), (3, 7)),)),
    ],
)
def test_strides_are_those_of_eager(f: Callable[..., Any], args: tuple[torch.Tensor, ...], dynamic: bool) -> None:
    expected = f(*args)
    found = torch.compile(f, backend="lamella", dynamic=dynamic)(*args)
    assert found.shape == expected.shape and same_strides(found, expected)
    torch.testing.assert_close(found, expected)


def test_an_index_of_no_dims_is_repeated() -> None:
    x, i, j = torch.arange(6).view(3, 1, 2), torch.tensor([0]), torch.tensor(1)

    def f(x: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.index.Tensor(x, [None, i, j])

    assert torch.equal(torch.compile(f, backend="lamella")(x, i, j), x[:, [0], [1]])


def test_derivative_of_softplus() -> None:
    x = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    g = torch.randn(2, 3, 4, 5)
    f = torch.compile(lambda x, g: torch.ops.aten.softplus_backward(g, x, 1.0, 20.0), backend="lamella")
    expected = torch.ops.aten.softplus_backward(g, x, 1.0, 20.0)
    found = f(x, g)
    assert found.stride() == expected.stride()
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("exponent", [True, False, 1])
def test_a_bool_to_the_power_of_one(exponent: int) -> None:
    x = torch.tensor([True, False, True])
    found = torch.compile(lambda x: x**exponent, backend="lamella")(x)
    expected = x**exponent
    assert found.dtype == expected.dtype and torch.equal(found, expected)
    (found,) = torch.compile(lambda x: torch._foreach_pow([x], exponent), backend="lamella")(x)
    (expected,) = torch._foreach_pow([x], exponent)
    assert found.dtype == expected.dtype and torch.equal(found, expected)


NORMS: dict[str, Callable[..., torch.Tensor]] = {
    "batch": lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
    "running": lambda x, w, b: F.batch_norm(x, torch.zeros(8), torch.ones(8), w, b, True),
    "instance": lambda x, w, b: F.instance_norm(x, None, None, w, b),
    "group": lambda x, w, b: F.group_norm(x, 4, w, b),
    "layer": lambda x, w, b: F.layer_norm(x.mT, (8,), w, b).mT,
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("norm", NORMS)
def test_statistics_of_an_input_of_halves_are_as_exact_as_parameters(norm: str, dtype: torch.dtype) -> None:
    """Derivatives for the parameters, which are f32, do not come from rounded statistics."""
    x, g = torch.randn(4, 8, 50).to(dtype), torch.randn(4, 8, 50).to(dtype)
    w, b = torch.randn(8, requires_grad=True), torch.randn(8, requires_grad=True)
    f = torch.compile(NORMS[norm], backend="lamella", options={"strict": True})
    found = torch.autograd.grad(f(x, w, b), (w, b), g)
    y = NORMS["batch" if norm == "running" else norm](x.double(), None, None)
    torch.testing.assert_close(found[0].double(), (y * g).sum((0, 2)), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found[1].double(), g.double().sum((0, 2)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_norms_of_weights(dtype: torch.dtype) -> None:
    v, g = torch.randn(5, 4).to(dtype).requires_grad_(), torch.randn(5, 1).to(dtype).requires_grad_()
    f = torch.compile(lambda v, g: torch._weight_norm(v, g, 0), backend="lamella", options={"strict": True})
    found, expected = f(v, g), torch._weight_norm(v, g, 0)
    torch.testing.assert_close(found, expected)
    derivatives = [torch.autograd.grad(y, (v, g), torch.ones_like(y)) for y in (found, expected)]
    torch.testing.assert_close(*derivatives)


@pytest.mark.parametrize("keepdim", [True, False])
def test_no_dims_are_all_dims(keepdim: bool) -> None:
    x = torch.tensor([[1.0, float("nan")], [2.0, 3.0]])
    f = torch.compile(lambda x: torch.nansum(x, dim=[], keepdim=keepdim) * 2, backend="lamella")
    found = f(x)
    assert found.shape == ((1, 1) if keepdim else ()) and found.sum() == 12


def test_segments_along_an_axis_counted_from_the_end() -> None:
    """Whose sizes torch 2.11 tells wrongly: those of all elements are added."""
    x, lengths = torch.empty(6, device="meta"), torch.empty(4, dtype=torch.int32, device="meta")
    found = fake_kernels._segments(torch.empty(4, 6, device="meta"), {"data": x, "lengths": lengths, "axis": -1})
    assert found.shape == torch.segment_reduce(torch.ones(6), "sum", lengths=torch.tensor([1, 2, 2, 1]), axis=-1).shape


@pytest.mark.parametrize("default", [torch.float16, torch.float32, torch.float64])
def test_complex_numbers_of_no_dtype(default: torch.dtype) -> None:
    before = torch.get_default_dtype()
    torch.set_default_dtype(default)
    try:
        found = torch.compile(lambda: torch.full((2,), 1 + 2j) * 2, backend="lamella")()
        expected = torch.full((2,), 1 + 2j) * 2
    finally:
        torch.set_default_dtype(before)
    assert found.dtype == expected.dtype and torch.equal(found, expected)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("offset", [torch.int32, torch.int64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_bags_of_an_embedding(dtype: torch.dtype, offset: torch.dtype, mode: str, dynamic: bool) -> None:
    i, o = torch.tensor([1, 2, 4, 5, 4, 3]), torch.tensor([0, 3, 3], dtype=offset)
    table = torch.randn(10, 3).to(dtype).requires_grad_()

    def bags(table: torch.Tensor, i: torch.Tensor, o: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.embedding_bag(i, table, o, mode=mode)

    f = torch.compile(bags, backend="lamella", dynamic=dynamic, options={"strict": True})
    expected, found = bags(table, i, o), f(table, i, o)
    torch.testing.assert_close(found, expected)
    g = torch.arange(9).view(3, 3).to(dtype)
    torch.testing.assert_close(*(torch.autograd.grad(y, table, g)[0] for y in (found, expected)))


def test_memory_of_a_symbolic_size() -> None:
    """As AOTAutograd asks for it where a graph writes an argument that shares memory with another one."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    context = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC])
    x = mode.from_tensor(torch.ones(6), symbolic_context=context, source=ConstantSource("x"))
    with right_fakes(), mode:
        whole = torch.empty(0).set_(x.untyped_storage())
    assert whole.shape == x.shape and whole.stride() == (1,)


X = torch.arange(20.0).view(4, 5)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("f", "source", "wrong"),
    [
        (lambda x, s: x.slice_scatter(s, 0, 1, 3), (2, 5), [(1, 5), (3, 5), (2, 1), (5,)]),
        (lambda x, s: x.select_scatter(s, 0, 1), (5,), [(1,), (4,)]),
        (lambda x, s: x.diagonal_scatter(s, 1), (4,), [(1,), (3,), (5,)]),
        (lambda x, s: x.as_strided_scatter(s, (2, 2), (1, 5)), (2, 2), [(2, 1), (2, 3)]),
    ],
)
def test_what_is_written_must_have_the_sizes_of_the_part(
    f: Callable[..., Any], source: tuple[int, ...], wrong: list[tuple[int, ...]], dynamic: bool
) -> None:
    compiled = torch.compile(f, backend="lamella", dynamic=dynamic)
    for sizes in (*wrong[:1], source, *wrong):  # first, and where right ones are compiled
        values = torch.ones(sizes)
        if sizes == source:
            torch.testing.assert_close(compiled(X, values), f(X, values))
            continue
        with pytest.raises(RuntimeError):
            f(X, values)
        with pytest.raises(RuntimeError, match=r"expected src to have|same size|must match|[Ss]ource|to be equal"):
            compiled(X, values)


@pytest.mark.parametrize("name", ["index_copy", "index_add", "index_reduce"])
@pytest.mark.parametrize(
    ("index", "source"),
    [
        (torch.tensor([0, 1]), torch.ones(2, 5, dtype=torch.float64)),
        (torch.tensor([0.0, 1.0]), torch.ones(2, 5)),
        (torch.tensor([0, 1]), torch.ones(2, 4)),
        (torch.tensor([0, 1]), torch.ones(2, 1)),
        (torch.tensor([0, 1]), torch.ones(3, 5)),
        (torch.tensor([0, 1]), torch.ones(5)),
    ],
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_what_is_written_at_an_index(name: str, index: torch.Tensor, source: torch.Tensor, dynamic: bool) -> None:
    rest = ("prod",) if name == "index_reduce" else ()
    with pytest.raises((RuntimeError, IndexError)):
        getattr(X, name)(0, index, source, *rest)
    compiled = torch.compile(lambda x, i, s: getattr(x, name)(0, i, s, *rest), backend="lamella", dynamic=dynamic)
    with pytest.raises((RuntimeError, IndexError)):
        compiled(X, index, source)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("x", "dim", "index", "source"),
    [
        (X, -1, torch.tensor([3, 0]), torch.ones(4, 2)),
        (X, 0, torch.tensor(2), torch.ones(1, 5)),
        (torch.zeros(4), 0, torch.tensor(2), torch.ones(())),
        (torch.zeros(()), 0, torch.tensor([0]), torch.ones(1)),
    ],
)
def test_what_may_be_copied_to_an_index(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, dynamic: bool
) -> None:
    def f(x: torch.Tensor, i: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        return x.index_copy(dim, i, s)

    compiled = torch.compile(f, backend="lamella", dynamic=dynamic, fullgraph=True)
    torch.testing.assert_close(compiled(x, index, source), f(x, index, source))


def _updated(x: torch.Tensor) -> torch.Tensor:
    i = x.nonzero().flatten() % x.shape[0]
    return torch.zeros_like(x).index_add(0, i, x[i]).index_copy(0, i, x[i])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x[torch.nonzero(x > 0).squeeze(-1)[:, :1]].exp(),
        lambda x: x[torch.nonzero(x > 0).flatten() % x.shape[0]].exp(),
        lambda x: x.nonzero() // (x.nonzero().sum(-2).abs() + 1),
        lambda x: torch.logical_xor(x.nonzero().T, x.nonzero().T > 1),
        _updated,
    ],
)
def test_sizes_from_data_are_not_asked_for(f: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Rules that ask for them fail, and with them the compilation: it is strict here."""
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(f, backend="lamella", fullgraph=True)
        for x in (torch.arange(6.0).view(6, 1), torch.ones(6, 1)):
            torch.testing.assert_close(compiled(x), f(x))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.usefixtures("compiled")
def test_derivative_of_smooth_bicubic_sampling_of_any_size(layout: torch.memory_format) -> None:
    """torch's fake kernel takes no symbolic sizes."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(x, size=(4, 3), mode="bicubic", antialias=True)

    x = torch.randn(1, 2, 8, 9).to(memory_format=layout).requires_grad_()
    y, expected = torch.compile(f, backend="lamella", dynamic=True)(x), f(x)
    torch.testing.assert_close(y, expected)
    (found,) = torch.autograd.grad(y, x, g := torch.randn_like(y))
    (expected,) = torch.autograd.grad(expected, x, g)
    torch.testing.assert_close(found, expected)
    assert same_strides(found, expected)


HALVES, WIDE, aten = torch.ones(3, 4, dtype=torch.float16), torch.ones(4), torch.ops.aten


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(
    ("operator", "args"),
    [
        (aten.native_layer_norm.default, (HALVES, [4], WIDE, None, 1e-5)),
        (aten.index.Tensor, (torch.randn(4, 5), [INDEX.T])),
        (aten.roll.default, (IMAGES, [1], [-3])),
        (aten.pow.Tensor_Scalar, (WIDE > 0, True)),
        (aten._weight_norm_interface.default, (HALVES, torch.ones(3, 1, dtype=torch.float16), 0)),
        (aten._embedding_bag.default, (WIDE.view(2, 2).bfloat16(), INDEX[0] % 2, torch.tensor([0, 2]))),
    ],
)
def test_what_is_mended_is_right_again_when_it_is_remembered(
    operator: Any, args: tuple[Any, ...], symbolic: bool
) -> None:
    """Rules are asked of what torch has remembered before, of a new result, and of one that they have made."""
    FakeTensorMode.cache_clear()
    mode = FakeTensorMode(shape_env=ShapeEnv() if symbolic else None)
    shapes = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] * 2) if symbolic else None

    def fake(x: Any) -> Any:
        context = shapes if isinstance(x, torch.Tensor) and x.dim() == 2 else None
        return mode.from_tensor(x, symbolic_context=context, source=ConstantSource(f"x{id(x)}"))

    given = torch.utils._pytree.tree_map_only(torch.Tensor, fake, args)
    with mode:
        operator(*given)
    expected = described(operator(*args))
    for _ in range(3):
        with right_fakes(strict=True), mode:
            assert described(operator(*given)) == expected
    assert symbolic or FakeTensorMode.cache_hits


def described(results: Any) -> list[tuple[Any, ...]]:
    tensors = [results] if isinstance(results, torch.Tensor) else results
    hints = [[getattr(getattr(n, "node", None), "hint", n) for n in (*t.shape, *t.stride())] for t in tensors]
    return [(t.dtype, *numbers) for t, numbers in zip(tensors, hints, strict=True)]
