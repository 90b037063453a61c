"""Random numbers of kernels: their distributions, and when they are the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from lamella.codegen.interpreter import run_module
from lamella.dialects.text import parse_module
from lamella.driver import compile_module, lower
from lamella.lowering.options import Options
from lamella.lowering.philox import philox, philox32
from lamella.lowering.report import SEEDS

COUNT = 1 << 17


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(f: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return torch.compile(f, backend="lamella", fullgraph=True, options={"cache": False, **options})


# The bits

KNOWN = [
    (0, 0, 0xFF1DAE59_6CD10DF2),
    (0xFFFFFFFF, -1, 0x2C3F628B_AB4FD7AD),
    (0x13198A2E, 0x85A308D3_243F6A88 - (1 << 64), 0xDD7CE038_F62A4C12),
]
"""Key, counter and bits that the authors of the generator publish."""


@pytest.mark.parametrize(("key", "counter", "expected"), KNOWN)
def test_known_answers(key: int, counter: int, expected: int) -> None:
    """At every level, and natively in vectors and in the rest of a vector."""
    text = (
        "func.func @main(%k: !sym.t<[37], i64>, %c: !sym.t<[37], i64>) -> !sym.t<[37], i64> {"
        "%r = prims.philox %k, %c : !sym.t<[37], i64>"
        "func.return %r : !sym.t<[37], i64> }"
    )
    inputs = [torch.full((37,), key), torch.full((37,), counter)]
    wanted = torch.full((37,), expected - ((expected >> 63) << 64))
    assert torch.equal(philox(*inputs), wanted)
    for level in ("prims", "loop", "kernel"):
        module = lower(text, "prims-to-loop" if level != "prims" else "prims-canonicalize")
        if level == "kernel":
            module = lower(module, "loop-fuse,loop-schedule")
        assert torch.equal(run_module(module, inputs)[0], wanted), level
    native = compile_module(lower(text, "prims-canonicalize"), Options(cache=False)).graph
    assert torch.equal(native(list(inputs))[0], wanted)


def test_neighbours_share_a_counter() -> None:
    """32 bits of a place are half of the 64 of its counter, at every level, and in vectors too."""
    key, place = torch.full((38,), 0x13198A2E_00000007), torch.arange(38) + (1 << 33)
    both = philox(key[:19], place[::2] >> 1)
    wanted = torch.stack((both, both >> 32), 1).flatten() & 0xFFFFFFFF
    assert torch.equal(philox32(key, place), wanted)
    text = (
        "func.func @main(%k: !sym.t<[38], i64>, %c: !sym.t<[38], i64>) -> !sym.t<[38], i64> {"
        "%r = prims.philox32 %k, %c : !sym.t<[38], i64>"
        "func.return %r : !sym.t<[38], i64> }"
    )
    for passes in ("prims-canonicalize", "prims-to-loop"):
        assert torch.equal(run_module(lower(text, passes), [key, place])[0], wanted), passes
    native = compile_module(lower(text, "prims-canonicalize"), Options(cache=False)).graph
    assert torch.equal(native([key, place])[0], wanted)


# Distributions

HALF = (torch.float16, torch.bfloat16)


def uniform(low: float, high: float) -> Callable[[Tensor], Tensor]:
    return lambda x: ((x - low) / (high - low)).clamp(0, 1)


def normal(mean: float, std: float) -> Callable[[Tensor], Tensor]:
    return lambda x: torch.special.ndtr((x - mean) / std)


CONTINUOUS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "rand": (torch.rand_like, uniform(0, 1)),
    "rand of a size": (lambda x: torch.rand(x.shape, dtype=x.dtype), uniform(0, 1)),
    "uniform": (lambda x: torch.empty_like(x).uniform_(-3, 5), uniform(-3, 5)),
    "randn": (torch.randn_like, normal(0, 1)),
    "normal": (lambda x: torch.empty_like(x).normal_(2, 3), normal(2, 3)),
    "normal of tensors": (lambda x: torch.normal(x + 1, torch.full_like(x, 2.0)), normal(1, 2)),
    "log_normal": (lambda x: torch.empty_like(x).log_normal_(0.5, 0.25), lambda x: normal(0.5, 0.25)(x.log())),
    "exponential": (lambda x: torch.empty_like(x).exponential_(2.0), lambda x: 1 - (-2 * x).exp()),
    "cauchy": (lambda x: torch.empty_like(x).cauchy_(1.0, 2.0), lambda x: ((x - 1) / 2).atan() / math.pi + 0.5),
    "rrelu": (lambda x: F.rrelu(x - 1, 0.25, 0.75, True), lambda x: uniform(-0.75, -0.25)(x)),
}
"""What draws, and the distribution function."""


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, *HALF), ids=str)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_distribution(name: str, dtype: torch.dtype) -> None:
    """The largest distance to the distribution function (Kolmogorov and Smirnov) is below its 99.9 % quantile; for
    halves, which have few values, it may be off by half the weight of one.
    """
    draw, cdf = CONTINUOUS[name]
    torch.manual_seed(11)
    x = compiled(draw)(torch.zeros(COUNT, dtype=dtype)).double().sort().values
    assert x.shape == (COUNT,) and not x.isnan().any()
    expected = cdf(x)
    steps = torch.arange(COUNT + 1, dtype=torch.float64) / COUNT
    distance = torch.maximum(steps[1:] - expected, expected - steps[:-1])
    allowed = 1.95 / math.sqrt(COUNT)
    if dtype in HALF:
        last = torch.cat([x[1:] != x[:-1], torch.tensor([True])])
        heaviest = float(torch.cat([torch.zeros(1), steps[1:][last]]).diff().max())
        assert float((steps[1:] - heaviest / 2 - expected)[last].abs().max()) < allowed + heaviest
    else:
        assert float(distance.max()) < allowed


DISCRETE: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "bernoulli": (lambda x: torch.empty_like(x).bernoulli_(0.3), lambda k: torch.tensor([0.7, 0.3])),
    "bernoulli of a tensor": (lambda x: torch.bernoulli(torch.full_like(x, 0.3)), lambda k: torch.tensor([0.7, 0.3])),
    "bernoulli of halves": (
        lambda x: torch.bernoulli(torch.full_like(x, 0.25, dtype=torch.bfloat16)),
        lambda k: torch.tensor([0.75, 0.25]),
    ),
    "never": (lambda x: torch.empty_like(x).bernoulli_(0.0), lambda k: torch.tensor([1.0])),
    "always": (lambda x: torch.empty_like(x).bernoulli_(1.0), lambda k: torch.tensor([0.0, 1.0])),
    "randint": (lambda x: torch.randint(0, 7, x.shape), lambda k: torch.full((7,), 1 / 7)),
    "randint_like": (lambda x: torch.randint_like(x, 3, 5) - 3, lambda k: torch.full((2,), 0.5)),
    "random": (lambda x: torch.ops.aten.random.to(x, 10), lambda k: torch.full((10,), 0.1)),
    "geometric": (lambda x: torch.empty_like(x).geometric_(0.25) - 1, lambda k: 0.25 * 0.75**k),
}
"""What draws integers from 0, and the probabilities."""


@pytest.mark.parametrize("name", DISCRETE)
def test_frequencies(name: str) -> None:
    """Within 4 standard deviations."""
    draw, probabilities = DISCRETE[name]
    torch.manual_seed(11)
    counts = torch.bincount(compiled(draw)(torch.zeros(COUNT)).long())
    expected = probabilities(torch.arange(len(counts))).double()
    assert len(counts) <= len(expected)
    expected = expected[: len(counts)]
    assert ((counts / COUNT - expected).abs() <= 4 * (expected * (1 - expected) / COUNT).sqrt() + 1e-12).all()


def test_integers_of_all_sizes() -> None:
    """Without bounds `random` uses all values that are not negative; a range of 64 bits is ATen's."""
    for dtype, bits in ((torch.uint8, 8), (torch.int8, 7), (torch.int32, 31), (torch.int64, 63)):
        x = compiled(torch.ops.aten.random.default)(torch.empty(COUNT, dtype=dtype)).double()
        assert x.min() >= 0 and x.max() < 2.0**bits
        assert abs(float(x.mean()) / 2.0 ** (bits - 1) - 1) < 0.02
    x = compiled(lambda: torch.randint(-(2**62), 2**62, (64,)))()
    assert x.min() < 0 < x.max()


def test_no_correlation() -> None:
    """Neighbours, the two halves of a tensor, the words of one counter, and two tensors of one call."""
    torch.manual_seed(3)
    x, y = compiled(lambda: (torch.rand(COUNT, dtype=torch.float64), torch.rand(COUNT, dtype=torch.float64)))()
    z = philox(torch.tensor(5), torch.arange(COUNT))
    words = ((z >> 32) / 2.0**32, (z & 0xFFFFFFFF) / 2.0**32)
    half = COUNT // 2
    for a, b in ((x[1:], x[:-1]), (x[:half], x[half:]), (x, y), words):
        correlation = float(torch.corrcoef(torch.stack([a.double(), b.double()]))[0, 1])
        assert abs(correlation) < 4 / math.sqrt(half)


# The same, or not


def layers(x: Tensor) -> Tensor:
    return F.dropout(F.dropout(x, 0.5) * 2 + torch.rand_like(x), 0.25)


def test_seeds() -> None:
    """The same after the same seed, and else not; the generator advances, and may be forked."""
    f, x = compiled(layers), torch.ones(1000)
    torch.manual_seed(5)
    first, state, second = f(x), torch.get_rng_state(), f(x)
    assert not torch.equal(first, second)
    torch.manual_seed(5)
    assert torch.equal(f(x), first)
    torch.set_rng_state(state)
    with torch.random.fork_rng():
        assert torch.equal(f(x), second)
    assert torch.equal(f(x), second)


def test_a_draw_is_told_as_what_it_is() -> None:
    text = "func.func @main() -> !sym.t<[4], f32> {"
    text += " %r = aten.rand([4]) : () -> !sym.t<[4], f32> func.return %r : !sym.t<[4], f32> }"
    calls = compile_module(parse_module(text), Options(cache=False)).calls
    assert [(call.name, call.reason) for call in calls] == [("aten.randint.low", SEEDS)]


def test_two_draws_of_one_graph_differ() -> None:
    x, y = compiled(lambda: (torch.rand(64), torch.rand(64)))()
    assert not torch.equal(x, y)


def test_threads() -> None:
    """Numbers do not depend on how many threads draw them."""
    f, x = compiled(layers), torch.ones(512, 1024)
    threads, found = torch.get_num_threads(), list[Tensor]()
    try:
        for n in (1, 2, 3):
            torch.set_num_threads(n)
            torch.manual_seed(5)
            found.append(f(x))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


def test_symbolic_sizes() -> None:
    """One compilation; a longer tensor begins with the numbers of a shorter one."""
    f = torch.compile(lambda x: torch.rand_like(x), backend="lamella", dynamic=True, options={"cache": False})
    found: list[Tensor] = []
    for n in (5, 100, 1000):
        torch.manual_seed(5)
        found.append(f(torch.empty(n)))
    assert torch.equal(found[2][:100], found[1]) and torch.equal(found[1][:5], found[0])


def test_derivative_has_the_mask_of_the_result() -> None:
    x = torch.rand(4096).add_(1).requires_grad_()
    y = compiled(lambda x: F.dropout(x, 0.5))(x)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, torch.where(y == 0, 0.0, 2.0))


def test_checkpoint_draws_again_what_it_drew() -> None:
    x = torch.rand(4096).add_(1).requires_grad_()

    def block(x: Tensor) -> Tensor:
        return F.dropout(x.sin().exp(), 0.5).cos()

    f = torch.compile(lambda x: checkpoint(block, x, use_reentrant=False), backend="lamella", options={"cache": False})
    torch.manual_seed(5)
    y = f(x)
    y.sum().backward()
    assert x.grad is not None
    dropped = y == 1
    assert 1800 < int(dropped.sum()) < 2300
    z = 2 * x.detach().sin().exp()
    wanted = torch.where(dropped, 0.0, -z.sin() * z * x.detach().cos())
    torch.testing.assert_close(x.grad, wanted)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
def test_eagers_numbers(dtype: torch.dtype) -> None:
    """`random="eager"`."""
    x = torch.ones(1000, dtype=dtype)
    torch.manual_seed(5)
    expected = layers(x)
    state = torch.get_rng_state()
    torch.manual_seed(5)
    torch.testing.assert_close(compiled(layers, random="eager")(x), expected)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("p", (0.0, 1.0))
def test_dropout_of_nothing_and_all(p: float) -> None:
    """As eager, where zero times infinity is NaN."""
    x = torch.tensor([1.0, -2.0, math.inf, math.nan, 0.0])
    torch.testing.assert_close(compiled(lambda x: F.dropout(x, p))(x), F.dropout(x, p), equal_nan=True)


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    torch.manual_seed(5)
    x = compiled(lambda x: F.alpha_dropout(x, 0.3, True))(torch.randn(COUNT))
    assert abs(float(x.mean())) < 0.02 and abs(float(x.var()) - 1) < 0.03


def test_channels_are_dropped_as_a_whole() -> None:
    y = compiled(lambda x: F.dropout2d(x, 0.5))(torch.ones(16, 16, 4, 4))
    assert set(y.sum((2, 3)).flatten().tolist()) == {0.0, 32.0}


NOTHING_TO_DRAW: dict[str, Any] = {
    "dropout of all": lambda x: F.dropout(x, 1.0),
    "dropout of none": lambda x: F.dropout(x, 0.0),
    "dropout of nothing": lambda x: F.dropout(x[:0], 0.5),
    "rand": lambda x: torch.rand(0),
    "randn_like": lambda x: torch.randn_like(x[:0]),
    "randint": lambda x: torch.randint(5, (3, 0)),
    "bernoulli": lambda x: torch.bernoulli(x[:0]),
    "exponential": lambda x: torch.empty(0).exponential_(),
    "rrelu": lambda x: F.rrelu(x[:0], training=True),
    "a probability of 1": lambda x: torch.bernoulli(x, 1.0),
    "one element": lambda x: torch.rand(1),
}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", NOTHING_TO_DRAW)
def test_the_generator_advances_where_eager_s_does(name: str, training: bool) -> None:
    f = NOTHING_TO_DRAW[name]
    x = torch.tensor([1.0, math.inf, math.nan]).requires_grad_(training)
    advanced: list[bool] = []
    results: list[Tensor] = []
    for g in (f, compiled(f)):
        torch.manual_seed(0)
        state = torch.get_rng_state()
        results.append(g(x))
        advanced.append(not torch.equal(torch.get_rng_state(), state))
    assert advanced[0] == advanced[1] == (name in ("a probability of 1", "one element"))
    assert results[0].shape == results[1].shape and results[0].dtype == results[1].dtype
    if "dropout" in name:
        torch.testing.assert_close(results[1], results[0], equal_nan=True)
