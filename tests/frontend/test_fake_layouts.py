"""Results have eager's strides of dims of size one or zero, too."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.exc import BackendCompilerFailed
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.nn import functional as F

import lamella
from lamella.frontend import fake_kernels, fake_layouts
from lamella.frontend.fake_kernels import right_fakes

aten: Any = torch.ops.aten

ODD = torch.arange(12.0).as_strided((3, 1, 4), (4, 7, 1))
TURNED = torch.arange(24.0).view(4, 3, 1, 2).transpose(0, 2)
APART = torch.arange(48.0).as_strided((4, 4), (3, 12))
EMPTY = torch.empty_strided((3, 0, 4), (1, 3, 3))
ROW = torch.arange(4.0).view(4, 1).T
IMAGES = torch.arange(480.0).view(2, 4, 6, 10).contiguous(memory_format=torch.channels_last)

GREY = torch.ones(3, 1, 4, 4).as_strided((3, 1, 4, 4), (16, 1, 4, 1))
LAID_IMAGES = [
    torch.ones(50).as_strided((3, 4, 1, 2), (8, 1, 50, 4)),
    torch.ones(50).as_strided((1, 4, 4, 1), (1, 1, 4, 1)),
    torch.ones(3, 4, 1, 2, 5).contiguous(memory_format=torch.channels_last_3d),
    torch.ones(100).as_strided((1, 4, 2, 1, 2), (1, 1, 8, 3, 4)),
    torch.ones(5, 3, 4, 2).transpose(0, 3).transpose(1, 2),
    torch.ones(2, 3, 5, 4).transpose(1, 3),
]
LAID_VOLUMES = [
    torch.ones(4, 6, 5, 2).permute(3, 0, 1, 2),
    torch.ones(2, 4, 5, 6).transpose(0, 3),
    torch.ones(1, 2, 4, 4),
]


def batch_norm(x: torch.Tensor, mean: torch.Tensor, var: torch.Tensor) -> list[torch.Tensor]:
    return [F.batch_norm(x, mean, var, training=training) for training in (False, True)]


CASES: Sequence[tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = [
    (torch.zeros_like, (ODD,)),
    (torch.zeros_like, (EMPTY,)),
    (torch.ones_like, (ROW,)),
    (lambda x: x + 1, (ODD,)),
    (lambda x: x + 1, (ROW,)),
    (lambda x: x + 1, (EMPTY,)),
    (lambda x: 1 - x, (TURNED,)),
    (lambda x, y: x * y, (EMPTY, torch.ones(1, 1, 4))),
    (lambda x, y: x * y, (ROW, torch.arange(3.0).view(3, 1, 1))),
    (lambda x, y: torch.where(x > 1, x, y), (TURNED, torch.tensor(2.0))),
    (F.gelu, (ODD,)),
    (F.hardtanh, (ODD,)),
    (lambda x: x.clamp(0, 1), (ODD,)),
    (lambda x: (x > 2).to(torch.float64), (ROW,)),
    (lambda: torch.ops.aten._to_copy(20, dtype=torch.float64), ()),
    (lambda x: x.flip(0), (ODD,)),
    (lambda x: x.sort(dim=0), (ODD,)),
    (lambda x: x.tril(), (TURNED,)),
    (lambda x: 2.0**x, (TURNED,)),
    (torch.ldexp, (TURNED, torch.ones(2))),
    (lambda x: x.masked_fill(x > 2, 0.0), (TURNED,)),
    (lambda x: (x + 1).unsqueeze(1), (ODD,)),
    (lambda x: x.index_fill(0, torch.zeros(1, dtype=torch.int64), 1.0), (APART,)),
    (lambda x: x.index_put((torch.zeros(1, dtype=torch.int64),), torch.ones(())), (ODD,)),
    (lambda x: x.index_add(0, torch.arange(4), x), (APART[:, :1],)),
    (lambda x: x.index_copy(0, torch.arange(4), x), (APART[:, :1],)),
    (lambda x: x.angle(), (APART.to(torch.complex64),)),
    (lambda x: F.layer_norm(x, (4,)), (torch.arange(24.0).as_strided((1, 2, 4), (3, 4, 1)),)),
    (lambda x: x.view(3, 4), (torch.ones(1, 3, 4).as_strided((1, 3, 4, 1), (4, 4, 1, 4)),)),
    (lambda x: x.view(1, 3, 4), (torch.ones(12).as_strided((1, 3, 4, 1), (4, 4, 1, 4)),)),
    (lambda x: x.view(x.shape), (EMPTY,)),
    (lambda x: x.view(0, 12), (EMPTY,)),
    (lambda x: x.view(1, 1), (torch.tensor(1.0),)),
    (lambda x: x.unflatten(-2, (-1, 3)), (torch.ones(1, 2, 6).transpose(1, 2).as_strided((1, 6, 2), (1, 1, 6)),)),
    (lambda x: x.expand(1, 2, 4), (ROW,)),
    (lambda x: x.expand(1, 2), (torch.tensor(1.0),)),
    (lambda x, y: torch.einsum("aij,ajk->aik", x, y), (torch.ones(1, 2, 3), torch.ones(1, 3, 4))),
    (F.grid_sample, (IMAGES, torch.ones(2, 6, 7, 2))),
    (lambda x: F.layer_norm(x, (1, 4)), (ODD,)),
    (lambda x: F.layer_norm(x, (2, 3)), (torch.ones(6).as_strided((1, 2, 3), (3, 3, 1)),)),
    (lambda x: F.group_norm(x, 2), (torch.ones(18).as_strided((1, 6, 3), (3, 3, 1)),)),
    (lambda x: F.group_norm(x, 2), (IMAGES,)),
    (batch_norm, (torch.ones(5, 5, 5).transpose(0, 2), torch.ones(5), torch.ones(5))),
    (batch_norm, (torch.ones(1, 3).T, torch.ones(1), torch.ones(1))),
    (batch_norm, (IMAGES, torch.ones(4), torch.ones(4))),
    *((batch_norm, (x, torch.ones(4), torch.ones(4))) for x in LAID_IMAGES),
    (batch_norm, (IMAGES, torch.ones(8)[::2], torch.ones(4))),
    (lambda x: F.pad(x, (1, 1, 1, 1, 1, 1), "replicate"), (IMAGES,)),
    (lambda x: F.pad(x, (1, 1, 1, 1, 1, 1), "reflect"), (IMAGES,)),
    (lambda x: F.pad(x, (1, 1, 1, 1), "reflect"), (GREY,)),
    (lambda x: F.pad(x, (1, 1, 1, 1), "replicate"), (GREY,)),
    (lambda x: F.channel_shuffle(x, 2), (IMAGES,)),
    (lambda x: F.unfold(x, 1), (torch.empty_strided((3, 2, 4, 1), (2, 24, 6, 1)).zero_(),)),
    *((lambda x, m=m: F.interpolate(x, scale_factor=2.0, mode=m), (GREY,)) for m in ("bilinear", "bicubic")),
    *((lambda x: F.max_pool3d(x, 2, return_indices=True), (x,)) for x in LAID_VOLUMES),
    *((lambda x, d=d: torch.fft.fft(x, dim=d), (torch.ones(1, 4, 1),)) for d in range(3)),
    (lambda x: torch.fft.fft2(x), (torch.ones(7).as_strided((1, 2, 1, 3), (6, 1, 0, 2)),)),
    (lambda x: torch.fft.rfftn(x), (torch.ones(2, 3, 4).permute(2, 0, 1),)),
    (lambda x: torch.fft.irfft(x, dim=0), (torch.ones(6).as_strided((3, 1, 2), (2, 1, 1)),)),
    (lambda x: torch.fft.irfftn(x), (torch.ones(3, 4, 5).permute(1, 2, 0),)),
    (lambda x, y: x + y, (torch.arange(4).expand(3, 4), torch.ones(4, 3).T)),
    (lambda x, y: torch.where(x > 0, x, y), (torch.arange(4).expand(3, 4), torch.ones(4, 3).T)),
    (lambda x: torch.complex(x, x) + x, (torch.ones(3, 2).as_strided((3, 1), (2, 3)),)),
    (lambda x: x.clone(), (torch.arange(32.0).as_strided((2, 1, 4, 4), (4, 0, 8, 1)),)),
    (lambda x: aten._safe_softmax(x, -1), (torch.ones(0, 1, 3),)),
    (lambda x: aten._safe_softmax(x, -1), (torch.ones(4, 3).T,)),
    (F.rrelu, (torch.ones(3, 4).T,)),
    (F.leaky_relu, (torch.ones(2).as_strided((1, 2, 1, 1), (2, 1, 50, 2)),)),
    (lambda x: x.roll(1), (torch.empty_strided((0,), (0,)),)),
    (lambda x: x.slice_scatter(x[:1], 0, 0, 1), (torch.ones(4).expand(3, 4),)),
    (lambda x, y: F.max_unpool2d(x, y, [2, 2]), (IMAGES, IMAGES.long() % 240)),
    (lambda x: F.glu(x, 2), (ODD,)),
    *((lambda x, k=k: x.rot90(k, (1, -1)), (ODD,)) for k in range(4)),
    (lambda x: aten.index.Tensor(x, [torch.empty(0, dtype=torch.int64)]), (TURNED,)),
    (lambda x, y: torch.normal(x, y), (TURNED, TURNED)),
    (lambda x, y, z: torch.addr(x, y, z), (torch.ones(0, 5).T, torch.ones(5), torch.ones(0))),
    (
        lambda x, y, w: F.binary_cross_entropy_with_logits(x, y, w, reduction="none"),
        (torch.ones(1, 5), torch.ones(5).as_strided((1, 5), (0, 1)), torch.ones(5)),
    ),
    (lambda x: x.roll(2), (EMPTY,)),
    (lambda x: x.roll(-1, 0), (EMPTY,)),
    (lambda x: x.roll((1, 1), (0, 2)), (EMPTY,)),
    (lambda x: (x * 2, (x * 2).mT), (ODD,)),
    (lambda x: x.add_(1) * 2, (ODD,)),
    (lambda x, y: torch.div(x, y, rounding_mode="floor"), (torch.ones(4, 3), torch.ones(3, 4).T)),
    (lambda x, y: F.huber_loss(x, y, reduction="none"), (TURNED, TURNED.expand(1, 3, 4, 2) + 1)),
    (F.smooth_l1_loss, (torch.ones(4, 3), torch.zeros(4, 3))),
    (F.mse_loss, (torch.ones(1, 3), torch.zeros(1, 3))),
    (lambda x, y: F.smooth_l1_loss(x, y, reduction="none"), (TURNED, TURNED + 1)),
    (lambda g, x: torch.ops.aten.threshold_backward(g, x, 0.0), (torch.ones(3, 4), torch.ones(4, 3).T)),
    (lambda g, x: torch.ops.aten.leaky_relu_backward(g, x, 0.1, False), (torch.ones(3, 4), torch.ones(4, 3).T)),
    (lambda g, x: torch.ops.aten.native_dropout_backward(g, x > 0, 2.0), (ROW, torch.ones(1, 4))),
    (
        lambda g, x, y: torch.ops.aten.binary_cross_entropy_backward(g, x, y),
        (torch.tensor(1.0), torch.rand(4, 3).T, torch.rand(3, 4)),
    ),
]


def strides(results: Any) -> list[tuple[int, ...]]:
    return [t.stride() for t in ([results] if isinstance(results, torch.Tensor) else results)]


def hints(results: Any) -> list[tuple[int, ...]]:
    """Strides, of symbols those of the examples."""
    return [tuple(s.node.hint if isinstance(s, torch.SymInt) else s for s in stride) for stride in strides(results)]


def copy(t: torch.Tensor) -> torch.Tensor:
    made = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype)
    shown = t.as_strided((made.untyped_storage().nbytes() // t.itemsize,), (1,))
    made.as_strided(shown.shape, (1,)).copy_(shown)
    return made


def faked(f: Callable[..., Any], args: Sequence[torch.Tensor], dynamic: bool, device: str = "cpu") -> Any:
    """The result for fake tensors that lie on the device as these do."""
    mode = FakeTensorMode(shape_env=ShapeEnv() if dynamic else None)
    given = [mode.from_tensor(copy(t)) for t in args]
    with right_fakes(strict=True), enable_python_dispatcher() if dynamic else nullcontext(), mode:
        return f(*(torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=device) for t in given))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("f", "args"), CASES)
def test_fake_tensors(f: Callable[..., Any], args: tuple[torch.Tensor, ...], dynamic: bool) -> None:
    expected = f(*map(copy, args))
    assert hints(faked(f, args, dynamic)) == strides(expected)


@pytest.mark.parametrize("dynamic", [False, True])
def test_fake_tensors_of_a_gpu(dynamic: bool) -> None:
    square, empty = torch.arange(9).view(3, 3) % 2, torch.empty_strided((0, 0, 0), (2, 2, 2))
    for f, args, expected in [
        (lambda x, i: aten.index.Tensor(x, [i, i.T]), (torch.ones(4, 5), square), (3, 1)),
        (lambda x, i: aten.index.Tensor(x, [i.T, i.T]), (torch.ones(4, 5), square), (1, 3)),
        (lambda x: x.roll(-1, 0), (empty,), (1, 1, 1)),
        (
            lambda x: x.roll(1, 1),
            (torch.ones(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),),
            (60, 20, 5, 1),
        ),
    ]:
        assert hints(faked(f, args, dynamic, "cuda")) == [expected]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: torch.unique_consecutive(x, dim=-1, return_counts=True),
        lambda x: torch.unique(x, dim=-1, return_counts=True),
    ],
)
def test_unique_rows_of_a_dim_from_the_end(f: Callable[..., Any]) -> None:
    x = torch.tensor([[1, 1, 0], [2, 2, 2]])
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        found = torch.compile(f, backend="lamella", fullgraph=True)(x)
    assert all(map(torch.equal, found, f(x)))


def test_views_stay_views() -> None:
    x = torch.ones(12).as_strided((1, 3, 4, 1), (4, 4, 1, 4))
    with right_fakes(strict=True), FakeTensorMode():
        t = torch.empty_strided(x.shape, x.stride())
        assert t.view(1, 3, 4).untyped_storage()._cdata == t.untyped_storage()._cdata

    def f(x: torch.Tensor) -> torch.Tensor:
        return x.view(1, 3, 4).mul_(2)

    ours, theirs = copy(x), copy(x)
    found, expected = torch.compile(f, backend="lamella")(ours), f(theirs)
    assert found.stride() == expected.stride() and found.data_ptr() == ours.data_ptr()
    torch.testing.assert_close(ours, theirs)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def rule(result: Any, given: Any) -> Any:
        raise TypeError("a rule is broken")

    monkeypatch.setitem(fake_kernels._MENDS, torch.ops.aten.sin.default, rule)
    monkeypatch.setitem(fake_layouts._LAYOUTS, "add.Tensor", rule)
    fake_layouts._layout_of.cache_clear()
    yield
    fake_layouts._layout_of.cache_clear()


def test_a_broken_rule_fails_no_program(
    broken: None, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMELLA_STRICT", "0")
    caplog.set_level(logging.DEBUG, "lamella")
    found = lamella.compile(lambda x: (x + 1).sin(), options={"cache": False})(torch.ones(3))
    torch.testing.assert_close(found, torch.ones(3).add(1).sin())
    said = [r.getMessage() for r in caplog.records if "rule" in r.getMessage()]
    assert any("aten.add.Tensor" in line for line in said) and any("aten.sin.default" in line for line in said)
    assert not [r for r in caplog.records if r.levelno > logging.INFO]


def test_a_broken_rule_is_an_error_where_bugs_are(broken: None) -> None:
    with pytest.raises(BackendCompilerFailed, match=r"the rule of aten\.add\.Tensor failed"):
        lamella.compile(lambda x: x + 1, options={"strict": True, "cache": False})(torch.ones(3))


def test_what_is_remembered_goes_with_what_torch_remembers() -> None:
    def remembered() -> tuple[int, int]:
        """How much is remembered, before and after an operator."""
        with right_fakes(strict=True), FakeTensorMode():
            before = len(FakeTensorMode.cache)
            torch.empty_strided((3, 1, 4), (4, 7, 1)).add(1)
            return before, len(FakeTensorMode.cache)

    FakeTensorMode.cache_clear()
    none, once = remembered()
    assert none == 0 and once and remembered()[1] == once
    FakeTensorMode.cache_clear()
    assert not FakeTensorMode.cache
    assert remembered() == (0, once)
    with right_fakes():
        FakeTensorMode.cache_clear()
    assert not FakeTensorMode.cache


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda x: F.max_pool1d(x, 2), torch.randn(2, 6, 4).transpose(1, 2)),
        (lambda x: F.max_pool1d(x, 2), torch.randn(6, 4).T),
        (lambda x: F.max_pool1d(x, 2), torch.randn(2, 6, 4, requires_grad=True).transpose(1, 2)),
        (lambda x: F.one_hot(x, 3), torch.zeros(3, dtype=torch.int64).as_strided((3, 1), (1, 3))),
        (lambda x: F.interpolate(x, size=3), torch.randn(12).as_strided((2, 3, 2), (4, 1, 0))),
        *(
            (lambda x, m=m: F.interpolate(x, scale_factor=2.0, mode=m), GREY)
            for m in ("nearest", "bilinear", "bicubic")
        ),
        (lambda x: torch.fft.fft(x, dim=0).abs(), torch.randn(1, 4, 1)),
        (lambda x: F.multi_margin_loss(x, torch.tensor(1), reduction="none"), torch.randn(5)),
        (lambda x: F.batch_norm(x, torch.zeros(4), torch.ones(4)), LAID_IMAGES[0]),
        (lambda x: F.batch_norm(x, torch.zeros(1), torch.ones(1), training=True), torch.randn(1, 4)[:, ::2].T),
    ],
)
def test_what_torch_says_in_terms_of_others(f: Callable[..., Any], x: torch.Tensor, dynamic: bool) -> None:
    found, expected = torch.compile(f, backend="lamella", dynamic=dynamic)(x), f(x)
    assert found.shape == expected.shape and found.stride() == expected.stride()
    torch.testing.assert_close(found, expected)


def test_sizes_of_data_count_as_large() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.nonzero()[1::3] ** 2

    x = torch.ones(4, 5, 6)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        found = torch.compile(f, backend="lamella", fullgraph=True)(x)
    assert found.stride() == f(x).stride() == (1, 40) and torch.equal(found, f(x))


def test_sizes_of_data_of_which_all_is_known() -> None:
    """A part of one element says that there is one, and that two are more."""

    def f(x: torch.Tensor) -> torch.Tensor:
        found = x.unique()
        rows = torch.maximum(torch.stack([found, found]), found)
        found.narrow(0, 1, 0)
        return rows

    x = torch.tensor(3)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        found = torch.compile(f, backend="lamella", fullgraph=True)(x)
    assert found.stride() == f(x).stride() == (1, 1) and torch.equal(found, f(x))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled(dynamic: bool) -> None:
    def f(odd: torch.Tensor, turned: torch.Tensor, empty: torch.Tensor, row: torch.Tensor) -> list[torch.Tensor]:
        sums = [x + 1 for x in (odd, turned, empty, row)]
        zeros = [torch.zeros_like(x) for x in (odd, turned, empty, row)]
        return [
            *sums,
            *zeros,
            F.gelu(odd),
            odd.flip(0),
            sums[0].unsqueeze(1),
            sums[1].mT,
            row * turned[..., :1],
            2.0**turned,
        ]

    args = ODD, TURNED, EMPTY, ROW
    expected = f(*args)
    found = torch.compile(f, backend="lamella", dynamic=dynamic)(*args)
    assert strides(found) == strides(expected)
    torch.testing.assert_close(found, expected)


def test_entry_without_frames() -> None:
    compiled = lamella.compile(lambda x: (x + 1, torch.zeros_like(x)), fullgraph=True)
    for _ in range(3):
        assert strides(compiled(ODD)) == [(4, 12, 1), (4, 7, 1)]


def test_other_sizes() -> None:
    compiled = torch.compile(lambda x: x + 1, backend="lamella", dynamic=True)
    for n in (3, 5, 8):
        x = torch.arange(4.0 * n).as_strided((n, 1, 4), (4, 7, 1))
        assert compiled(x).stride() == (x + 1).stride() == (4, 4 * n, 1)


@pytest.mark.parametrize("shape", [(1, -1), (-1, 1), (1, 1, -1, 1)])
def test_views_of_other_sizes(shape: tuple[int, ...]) -> None:
    """A dim of one element goes on from the dims after it, whatever its stride was."""
    compiled = torch.compile(lambda x: (x.view(shape), (x + 1).unflatten(1, shape)), backend="lamella", dynamic=True)
    for n in (8, 5):
        x = torch.arange(3.0 * n).as_strided((1, n), (3, 3))
        assert strides(compiled(x)) == strides((x.view(shape), (x + 1).unflatten(1, shape)))


def test_training() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return (x + 1).sin() * 2

    ours, theirs = (copy(ODD).requires_grad_() for _ in range(2))
    found, expected = torch.compile(f, backend="lamella")(ours), f(theirs)
    assert found.stride() == expected.stride()
    found.sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_exported() -> None:
    exported = torch.export.export(Plus(), (ODD,))
    assert "-> !sym.t<[3, 1, 4], f32, strides=[4, 12, 1]>" in str(lamella.capture(exported))


class Plus(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


FFT: Any = torch.ops.aten
CUFFT: list[tuple[Any, tuple[int, ...], list[int], tuple[int, ...], tuple[int, ...]]] = [
    (FFT._fft_c2c, (4, 5), [1, 0], (4, 5), (5, 1)),
    (FFT._fft_c2c, (4, 5, 6), [1, 0], (4, 5, 6), (5, 1, 20)),
    (FFT._fft_c2c, (4, 5, 6, 7), [0, 1, 2, 3], (4, 5, 6, 7), (1, 168, 28, 4)),
    (FFT._fft_c2c, (4, 5, 6, 7, 8, 4), [0, 1, 2, 3, 4, 5], (4, 5, 6, 7, 8, 4), (30, 6, 1, 3840, 480, 120)),
    (FFT._fft_c2c, (4, 5, 6, 7, 8, 4), [0, 1, 2, 3, 4], (4, 5, 6, 7, 8, 4), (5, 1, 1120, 160, 20, 6720)),
    (FFT._fft_c2r, (4, 5, 6, 7, 8, 4), [0, 1, 2, 3, 4, 5], (4, 5, 6, 7, 8, 6), (30, 6, 6720, 960, 120, 1)),
    (FFT._fft_r2c, (4, 5, 6), [1, 0], (3, 5, 6), (1, 3, 15)),
    (FFT._fft_r2c, (4, 5, 6, 7), [1, 0], (3, 5, 6, 7), (1, 3, 105, 15)),
]
"""Operator, sizes, dims, sizes of the result, and its strides as they were found on an H200 with torch 2.11."""


@pytest.mark.parametrize(("operator", "shape", "dim", "sizes", "strides"), CUFFT)
def test_transforms_on_gpus(
    operator: Any, shape: tuple[int, ...], dim: list[int], sizes: tuple[int, ...], strides: tuple[int, ...]
) -> None:
    x, result = torch.empty(shape, device="meta"), torch.empty(sizes, device="meta")
    layout = fake_layouts.layout_of(operator.default, result, (x, dim))
    assert layout is not None and tuple(layout(result, {"self": x, "dim": dim})) == strides
