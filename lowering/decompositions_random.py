"""Random numbers: a function of 32 or 64 random bits for each element (`prims.philox`), under a seed from torch's
generator.

Their distributions are eager's, their values are not: those need the generator's own order of draws. Calls that name a
generator, and all of them with `random="eager"`, stay calls into ATen.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..dialects import prims
from ..dialects.expr import Dim
from ..dialects.prims import Number
from ..dialects.tensor import TensorType, is_float, itemsize
from .decomposition import Call, rule
from .prims_builder import Value
from .promotion import opmath
from .random_seeds import RANGE, draw

DIGITS = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}
"""Random binary digits of a number in [0, 1): as many as a dtype can hold."""


def random(*names: str, of: Callable[[str], bool] | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers `function(call, *args)`, which is not asked where a generator is given; and for a given seed."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        def lowered(call: Call, *args: Any) -> Any:
            place = call.op.schema.index.get("generator")
            return NotImplemented if place is not None and args[place] is not None else function(call, *args)

        def from_seed(call: Call, seed: Value, *args: Any) -> Any:
            call.seed = seed
            return NotImplemented if seed.dtype != "i64" else function(call, *args)

        rule(*names, of=of)(lowered)
        rule(*(f"seeded.{name.removeprefix('aten.')}" for name in names if "generator" not in name))(from_seed)
        return function

    return register


def bits(call: Call, count: int, words: int = 1) -> list[Value]:
    """`count` random bits for each element of the first result, as i64; `words` times 64. For no element nothing is
    drawn. Two elements share the work for 32 bits.
    """
    t = TensorType.get(call.type.shape, "i64", None, call.type.device)
    if t.numel == 0:
        return [call.b.full(0, t)] * words
    seed = draw(call.b, t.device) if call.seed is None else call.seed
    key = seed.expand(t.shape)
    index = call.b.iota(0, TensorType.get([t.numel], "i64", None, t.device)).reshape(t.shape)
    counters = [index] if words == 1 else [index * words + i for i in range(words)]
    make = prims.Philox32Op.make if count <= 32 else prims.PhiloxOp.make
    return [key.binary(make, counter) for counter in counters]


def _needed(dtype: str) -> int:
    """Random bits of a number of that dtype."""
    return 64 if dtype == "f64" else 32


def unit(word: Value, dtype: str) -> Value:
    """Uniform in [0, 1), as f64 or f32: a multiple of 2^-digits of the dtype, of 64 bits (f64) or the low 32."""
    digits = DIGITS[dtype]
    wide = dtype == "f64"
    top = _shift(word, 64 - digits) if wide else _shift(word.to("i32"), 32 - digits)
    return top.to("f64" if wide else "f32") * 2.0**-digits + 0.5


def _shift(x: Value, count: int) -> Value:
    return x.binary(prims.ShrOp.make, count)


def _positive(word: Value, dtype: str) -> Value:
    """Uniform in (0, 1], of 53 of 64 bits (f64) or the low 32: its logarithm reaches far."""
    if dtype == "f64":
        return _shift(word, 11).to("f64") * 2.0**-53 + (0.5 + 2.0**-53)
    return word.to("i32").to("f32") * 2.0**-32 + (0.5 + 2.0**-33)


def _positive_of(call: Call, dtype: str) -> Value:
    (word,) = bits(call, _needed(dtype))
    return _positive(word, dtype)


def uniform_of(call: Call, dtype: str) -> Value:
    (word,) = bits(call, _needed(dtype))
    return unit(word, dtype)


def normal_of(call: Call, dtype: str) -> Value:
    """Standard normal numbers by Box and Muller: sqrt(-2 log u) cos(2 pi v)."""
    words = bits(call, 64, 2 if dtype == "f64" else 1)
    u = _positive(words[0] if dtype == "f64" else _shift(words[0], 32), dtype)
    angle = unit(words[-1], opmath(dtype)) * (2 * math.pi)
    return (u.log() * -2.0).sqrt() * angle.unary(prims.CosOp.make)


def integers_below(call: Call, size: int | Any) -> Value:
    """Uniform in [0, size) as i64, for sizes up to 2^32: the upper half of size times 32 random bits."""
    (word,) = bits(call, 32)
    return _shift(word * size, 32) & 0xFFFFFFFF


def bernoulli_of(call: Call, p: Value | float) -> Value:
    """True with probability p: of a number, the nearest multiple of 2^-32. Numbers of data are checked."""
    if isinstance(p, Value):
        p = p.opmath()
        p = p.checked((p >= 0.0) & (p <= 1.0), "RuntimeError: Expected p_in >= 0 && p_in <= 1 to be true")
        return uniform_of(call, p.dtype) < p
    (word,) = bits(call, 32)
    limit = round(p * 2.0**32) - (1 << 31)
    return word.full(p > 0).to("i1") if limit >= 1 << 31 or p <= 0 else word.to("i32") < limit


# Distributions


@random("aten.rand", "aten.rand_like", "aten.rand.generator", "aten.rand_like.generator", of=is_float)
def rand(call: Call, *rest: Any) -> Value:
    return uniform_of(call, call.type.dtype)


@random("aten.uniform")
def uniform(call: Call, x: Value, low: float, high: float, generator: None) -> Any:
    """low + (high - low) u."""
    if not is_float(x.dtype):
        return NotImplemented
    return uniform_of(call, x.dtype) * (high - low) + low


@random("aten.randn", "aten.randn_like", "aten.randn.generator", "aten.randn_like.generator", of=is_float)
def randn(call: Call, *rest: Any) -> Value:
    return normal_of(call, call.type.dtype)


@random("aten.normal_functional")
def normal(call: Call, x: Value, mean: float, std: float, generator: None) -> Value:
    return normal_of(call, call.type.dtype) * std + mean


@random("aten.normal.float_float")
def normal_numbers(call: Call, mean: float, std: float, *rest: Any) -> Value:
    return normal_of(call, call.type.dtype) * std + mean


@random("aten.normal.Tensor_float", "aten.normal.float_Tensor", "aten.normal.Tensor_Tensor")
def normal_tensors(call: Call, mean: Value | float, std: Value | float, generator: None) -> Any:
    """mean + std z."""
    t = call.type
    z = normal_of(call, t.dtype)
    if isinstance(std, Value):
        std = std.to(z.dtype)
        std = std.checked(std >= 0.0, "RuntimeError: normal expects all elements of std >= 0.0")
    scaled = z * std
    return scaled + (mean.to(z.dtype) if isinstance(mean, Value) else mean)


@random("aten.log_normal")
def log_normal(call: Call, x: Value, mean: float, std: float, generator: None) -> Value:
    return (normal_of(call, x.dtype) * std + mean).exp()


@random("aten.exponential")
def exponential(call: Call, x: Value, rate: float, generator: None) -> Any:
    """-log(u) / rate, above 0."""
    if not is_float(x.dtype):
        return NotImplemented
    u = _positive_of(call, x.dtype)
    least = 2.0**-53 if x.dtype == "f64" else 2.0**-24
    return (-u.log()).maximum(least) * (1.0 / rate)


@random("aten.cauchy")
def cauchy(call: Call, x: Value, median: float, sigma: float, generator: None) -> Value:
    """median + sigma tan(pi (u - 1/2))."""
    u = uniform_of(call, opmath(x.dtype))
    return ((u - 0.5) * math.pi).unary(prims.TanOp.make) * sigma + median


@random("aten.geometric")
def geometric(call: Call, x: Value, p: float, generator: None) -> Any:
    """ceil(log(u) / log(1 - p)), at least 1."""
    if x.is_bool or p >= 1.0:
        return NotImplemented
    u = _positive_of(call, "f64" if x.dtype == "f64" else "f32")
    trials = (u.log() * (1.0 / math.log1p(-p))).unary(prims.CeilOp.make)
    return trials.maximum(1.0)


@random("aten.bernoulli")
def bernoulli(call: Call, p: Value, generator: None) -> Any:
    return bernoulli_of(call, p).to(call.type.dtype) if p.is_float else NotImplemented


@random("aten.bernoulli.p")
def bernoulli_number(call: Call, x: Value, p: float, generator: None) -> Value:
    return bernoulli_of(call, p).to(call.type.dtype)


@random("aten.bernoulli.Tensor")
def bernoulli_tensor(call: Call, x: Value, p: Value, generator: None) -> Any:
    return bernoulli_of(call, p.expand(x.shape)).to(call.type.dtype) if p.is_float else NotImplemented


# Integers


def _between(call: Call, low: Dim, high: Dim) -> Any:
    if (low, high) == RANGE:
        return NotImplemented  # a seed
    size = high - low
    if not isinstance(size, int) or not 0 < size <= 1 << 32:
        return NotImplemented
    return integers_below(call, size) + low


@random("aten.randint", "aten.randint.generator")
def randint(call: Call, high: Dim, *rest: Any) -> Any:
    return _between(call, 0, high)


@random("aten.randint.low", "aten.randint.low_generator")
def randint_from(call: Call, low: Dim, high: Dim, *rest: Any) -> Any:
    return _between(call, low, high)


@random("aten.randint_like", "aten.randint_like.generator")
def randint_like(call: Call, x: Value, high: Dim, *rest: Any) -> Any:
    return _between(call, 0, high)


@random("aten.randint_like.low_dtype", "aten.randint_like.low_generator_dtype")
def randint_like_from(call: Call, x: Value, low: Dim, high: Dim, *rest: Any) -> Any:
    return _between(call, low, high)


@random("aten.random.to")
def random_to(call: Call, x: Value, high: int, generator: None) -> Any:
    return _between(call, 0, high)


@random("aten.random.from")
def random_from(call: Call, x: Value, low: int, high: int | None, generator: None) -> Any:
    return NotImplemented if high is None else _between(call, low, high)


@random("aten.random")
def random_(call: Call, x: Value, generator: None) -> Value:
    """All integers that the dtype holds exactly and that are not negative."""
    if is_float(x.dtype):
        return integers_below(call, (1 << DIGITS[x.dtype]) + 1) if x.dtype != "f64" else _below_2_53(call)
    (word,) = bits(call, 8 * itemsize(x.dtype))
    return word & ((1 << (8 * itemsize(x.dtype) - (x.dtype != "u8"))) - 1) if not x.is_bool else word & 1


def _below_2_53(call: Call) -> Value:
    (word,) = bits(call, 64)
    return word & ((1 << 53) - 1)


# Dropout


@random("aten.native_dropout")
def native_dropout(call: Call, x: Value, p: float, train: bool | None) -> tuple[Value, Value]:
    """x / (1 - p) where a coin of probability 1 - p says so, else 0 x; and the mask."""
    if train is False:
        return x, call.b.full(True, call.types[1])
    y = x.opmath()
    if p == 1.0:  # nothing is drawn
        return y * 0.0, call.b.full(False, call.types[1])
    mask = bernoulli_of(call, 1.0 - p)
    return y * mask.where(y.full(1.0 / (1.0 - p)), 0.0), mask


@random("aten.rrelu_with_noise_functional")
def rrelu(
    call: Call, x: Value, noise: Value, lower: Number, upper: Number, training: bool, generator: None
) -> tuple[Value, Value]:
    """x * noise, where the noise is uniform in [lower, upper] below 0 and 1 above; outside of training, the mean."""
    y = x.opmath()
    low, high = float(lower), float(upper)  # pyright: ignore[reportArgumentType]
    if not training:
        return (y <= 0.0).where(y * ((low + high) / 2), y), noise
    slopes = (y <= 0.0).where(uniform_of(call, x.dtype) * (high - low) + low, 1.0)
    return y * slopes, slopes
