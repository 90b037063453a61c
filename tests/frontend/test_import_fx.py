"""FX graphs become modules that compute what eager computes, from their text alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

import lamella
from lamella.frontend.import_fx import UnsupportedGraph, import_graph

F = nn.functional


def pointwise(x: Tensor) -> Tensor:
    return (x * 2 + 1.5).relu() / (x.abs() + 1e-5)


def views(x: Tensor) -> Tensor:
    y = x.t().unsqueeze(0).expand(3, -1, -1)[1:, ::2]
    return y.reshape(-1).as_strided((2, 3), (3, 1), 1).flip(0)


def several_results(x: Tensor) -> tuple[Tensor, ...]:
    a, b, c = x.split([1, 2, 1], dim=1)
    values, indices = x.topk(2, dim=1)
    return a * c, b, values, indices, *torch.var_mean(x, dim=0)


def constants(x: Tensor) -> Tensor:
    return x + torch.tensor([1.0, 2.0, 3.0, 4.0]) * torch.tensor(2.5) + torch.tensor(float("-inf")).exp()


def dtypes_and_devices(x: Tensor) -> tuple[Tensor, ...]:
    y = x.to(torch.bfloat16)
    zeros = torch.zeros_like(x, dtype=torch.int32, memory_format=torch.contiguous_format)
    return y, zeros, torch.full((2, 2), True, dtype=torch.bool, device="cpu"), x.to(torch.complex64)


def indexing(x: Tensor) -> Tensor:
    i = torch.tensor([2, 0])
    x = x.index_put((i,), torch.ones(4), accumulate=True)
    return x[i, :][:, None] + x.gather(1, torch.zeros(3, 1, dtype=torch.long)).sum()


def numbers_out(x: Tensor) -> tuple[Any, ...]:
    return x * 2, None, 3, x.shape[0] * 2 + 1, 1.5, x


def list_arguments(x: Tensor) -> Tensor:
    return torch.stack([x, torch.cat([x, x], 1)[:, :4], torch.einsum("ij,kj->ik", x, x)[:, :1].expand(3, 4)])


def normalized(x: Tensor) -> Tensor:
    return F.softmax(F.layer_norm(x, (4,)), -1) + F.gelu(x, approximate="tanh")


def convolved(x: Tensor) -> Tensor:
    image = x.reshape(1, 1, 3, 4)
    return F.max_pool2d(F.conv2d(image, torch.ones(2, 1, 3, 3), padding=1), 2, ceil_mode=True)


def scalar_arguments(x: Tensor) -> Tensor:
    return torch.clamp(x, min=-1.0).masked_fill(x > 0, float("nan")).nan_to_num(0.0) ** 3


PROGRAMS = [
    pointwise,
    views,
    several_results,
    constants,
    dtypes_and_devices,
    indexing,
    numbers_out,
    list_arguments,
    normalized,
    convolved,
    scalar_arguments,
]


def check(f: Callable[..., Any], compiled: Callable[..., Any], *args: Any) -> None:
    """Same values, dtypes and strides as eager."""
    want, got = f(*(a.clone() for a in args)), compiled(*(a.clone() for a in args))
    for w, g in zip(*map(pytree.tree_leaves, (want, got)), strict=True):
        torch.testing.assert_close(g, w, rtol=0, atol=0, equal_nan=True)
        if isinstance(w, Tensor):
            assert g.stride() == w.stride() and g.dtype == w.dtype


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_program(f: Callable[..., Any], dynamic: bool, recorder: Any) -> None:
    compiled = torch.compile(f, backend=recorder.backend, dynamic=dynamic)
    check(f, compiled, torch.randn(3, 4))
    assert recorder.texts and not recorder.eager


def test_one_module_for_all_sizes(recorder: Any) -> None:
    def f(x: Tensor) -> Tensor:
        return x.reshape(x.shape[0] * 2, -1).softmax(-1)[: x.shape[1] // 2]

    compiled = torch.compile(f, backend=recorder.backend, dynamic=True)
    for shape in ((4, 6), (5, 8), (8, 10)):
        check(f, compiled, torch.randn(shape))
    (text,) = recorder.texts
    assert "lamella.hints = {" in text and "= 4 : i64" in text
    assert "aten.sym_size" not in text


def test_numbers_as_inputs(recorder: Any) -> None:
    def f(x: Tensor, n: int, scale: float) -> Tensor:
        return (x * scale)[:n] + n

    compiled = torch.compile(f, backend=recorder.backend, dynamic=True)
    for n, scale in ((3, 0.1), (4, 0.7), (5, 1 / 3)):
        x = torch.randn(8, 2)
        torch.testing.assert_close(compiled(x, n, scale), f(x, n, scale), rtol=0, atol=1e-7)
    assert "!sym.int<s" in recorder.texts[0] and len(recorder.texts) <= 2


# Mutation and aliasing


def test_written_inputs(recorder: Any) -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        x.add_(1)
        y[0].mul_(x[0])
        return y.sum()

    compiled = torch.compile(f, backend=recorder.backend)
    a, b = torch.randn(3, 4), torch.randn(2, 4)
    a2, b2 = a.clone(), b.clone()
    assert torch.equal(compiled(a, b), f(a2, b2))
    assert torch.equal(a, a2) and torch.equal(b, b2)
    assert recorder.texts[0].count("lamella.mutated") == 2 and recorder.texts[0].count("aten.copy_(") == 2


def test_views_of_inputs_keep_their_memory(recorder: Any) -> None:
    compiled = torch.compile(lambda x: (x.t(), x, x[1:]), backend=recorder.backend)
    x = torch.randn(3, 4)
    t, same, part = compiled(x)
    assert t.data_ptr() == x.data_ptr() and same is x and part.data_ptr() == x[1:].data_ptr()


def test_buffers_are_updated_in_order(recorder: Any) -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(2))

        def forward(self, x: Tensor) -> Tensor:
            before = self.count * x
            self.count += 1
            return before + self.count

    model, reference = Counter(), Counter()
    compiled = torch.compile(model, backend=recorder.backend)
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(2)), reference(torch.ones(2)))
    assert torch.equal(model.count, reference.count)


def test_inputs_that_share_memory(recorder: Any) -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        x.mul_(2)
        return y + 1

    compiled = torch.compile(f, backend=recorder.backend)
    base, base2 = torch.arange(6.0), torch.arange(6.0)
    assert torch.equal(compiled(base[:4], base[2:]), f(base2[:4], base2[2:])) and torch.equal(base, base2)


def test_random_numbers_follow_the_generator(recorder: Any) -> None:
    def f(x: Tensor) -> Tensor:
        return F.dropout(x, 0.5) + torch.rand(4) + torch.randn_like(x)

    compiled = torch.compile(f, backend=recorder.backend)
    torch.manual_seed(5)
    want = f(torch.ones(3, 4))
    torch.manual_seed(5)
    assert torch.equal(compiled(torch.ones(3, 4)), want)


# Data-dependent sizes


def test_sizes_read_from_data(recorder: Any) -> None:
    def f(x: Tensor) -> tuple[Tensor, Any]:
        i = x.nonzero()
        n = int(x.sum().item())
        return i * 2 + x.new_ones(n).sum(), n + 1

    with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(f, backend=recorder.backend, fullgraph=True)
        for x in (torch.tensor([0, 2, 3]), torch.tensor([1, 1, 1])):
            check(f, compiled, x)
    assert "!sym.int<u1>" in recorder.texts[0]


# What the text says


def test_locations_are_the_users_lines(recorder: Any) -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 4), nn.LayerNorm(4)])

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = layer(x)  # this line
            return x

    torch.compile(Block(), backend=recorder.backend)(torch.randn(2, 4))
    (text,) = recorder.texts
    with open(__file__, encoding="utf-8") as source:
        line = next(i for i, line in enumerate(source, 1) if "# this line" in line)
    addmm = next(row for row in text.splitlines() if "aten.addmm" in row)
    norm = next(row for row in text.splitlines() if "aten.native_layer_norm" in row)
    assert f'loc("layers.0"("{__file__}":{line}:0))' in addmm
    assert f'loc("layers.1"("{__file__}":{line}:0))' in norm
    assert "%addmm = " in addmm and 'lamella.name = "layers.0.weight"' in text


def test_every_op_has_a_location(recorder: Any) -> None:
    compiled = torch.compile(normalized, backend=recorder.backend)
    x = torch.randn(3, 4, requires_grad=True)
    compiled(x).sum().backward()
    for text in recorder.texts:
        calls = [row for row in text.splitlines() if "aten." in row]
        assert len(calls) > 3 and all(f'loc("{__file__}"' in row for row in calls)


# Graphs that are not taken


def test_what_has_no_type() -> None:
    graph = make_fx(lambda x: x.to_sparse(), tracing_mode="fake")(torch.randn(4, 2))
    with pytest.raises(UnsupportedGraph, match="a tensor of layout"):
        import_graph(graph)


@pytest.mark.skipif(torch.__version__ < "2.13", reason="torch 2.11 does not trace them")
@pytest.mark.filterwarnings("ignore")
def test_quantized_tensors() -> None:
    """Tracing says that they are floats, so that all of a graph with one is left to torch."""

    def program(x: Tensor) -> Tensor:
        rows = torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).reshape(2, 4)
        return rows.dequantize().sum(0) + torch.quantize_per_tensor(x, 0.5, 3, torch.quint8).dequantize()[:4]

    torch._dynamo.reset()
    x = torch.randn(8)
    assert torch.equal(torch.compile(program, backend="lamella", fullgraph=True)(x), program(x))
    assert "a quantized tensor has no type here" in str(lamella.explain(program, x))


def test_higher_order_operators_have_regions(recorder: Any) -> None:
    def f(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda y: y + torch.tensor(1.0), lambda y: y - x.shape[0], (x,))

    compiled = torch.compile(f, backend=recorder.backend)
    check(f, compiled, torch.ones(3))
    check(f, compiled, -torch.ones(3))
    assert not recorder.eager
    assert "flow.if(%gt, %arg0, %_tensor_constant" in recorder.texts[0]
    assert "lamella.constant = " in recorder.texts[0]


def test_custom_operators(recorder: Any) -> None:
    @torch.library.custom_op("lamella_test_import::scale", mutates_args=())
    def scale(x: Tensor, factor: float, dims: list[int]) -> Tensor:
        return x * factor + len(dims)

    @scale.register_fake
    def _(x: Tensor, factor: float, dims: list[int]) -> Tensor:
        return torch.empty_like(x)

    check(
        lambda x: scale(x + 1, 0.5, [1, 2]),
        torch.compile(lambda x: scale(x + 1, 0.5, [1, 2]), backend=recorder.backend),
        torch.ones(3),
    )
    assert "lamella_test_import.scale(%add, 0.5, [1, 2])" in recorder.texts[0]
