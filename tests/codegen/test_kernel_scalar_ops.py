"""Every scalar op in a kernel, of one element and of vectors, compared with eager torch."""

from collections.abc import Sequence

import pytest
import torch

from lamella.tests.codegen.kernels import DTYPES, TARGETS, close, grid_kernel, pointwise, run, vector


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_quotients_by_what_all_lanes_share(dtype: str, target: str) -> None:
    """A row over its divisor: as a division rounds, with infinities, NaN, zeros and their signs, and denormals."""
    n = 61
    x_type, y_type = f"!sym.t<[s0, {n}], {dtype}>", f"!sym.t<[s0], {dtype}>"
    text = grid_kernel(
        f"%x: {x_type}, %d: {y_type}",
        f"%y: {x_type}",
        f"""%1 = loop.load %d[d0] : {y_type}
        loop.for [d1 = {n}] {vector("d1", 8, 2)} {{
          %0 = loop.load %x[d0, d1] : {x_type}
          %2 = arith.divf %0, %1 : {dtype}
          loop.store %2, %y[d0, d1] : {x_type}
          loop.yield
        }}""",
        sizes="s0",
        grid="d0 = s0",
    )
    type = DTYPES[dtype]
    info = torch.finfo(type)
    special = torch.tensor([0.0, -0.0, 1.0, -3.0, float("inf"), float("-inf"), float("nan")], dtype=type)
    special = torch.cat([special, torch.tensor([info.max, info.tiny, info.tiny / 8, -info.tiny / 1024], dtype=type)])
    torch.manual_seed(0)
    size = torch.randint(-60, 60, (n - len(special),)).to(type)
    x = torch.cat([special, torch.randn(n - len(special), dtype=type) * 2**size])
    y = torch.empty(n, n, dtype=type)
    assert run(text, [x.expand(n, n).contiguous(), x, y], [n], target) == 0
    expected = x[None] / x[:, None]
    bad = (y != expected) & ~(y.isnan() & expected.isnan())
    assert not bad.any(), [
        (float(x[j]), float(x[i]), float(y[i, j]), float(expected[i, j])) for i, j in bad.nonzero().tolist()
    ]
    assert torch.equal(y.signbit()[~y.isnan()], expected.signbit()[~y.isnan()])


@pytest.mark.parametrize("offset", [-80.0, 0.0, 86.0])
def test_shares_of_a_sum_of_exponentials(offset: float) -> None:
    """e^x / sum(e^x): within the error of an exponential and two roundings, also of small and of large sums."""
    t, row = "!sym.t<[s0, 61], f32>", "!sym.t<[61], f32>"
    text = grid_kernel(
        f"%x: {t}",
        f"%y: {t}",
        f"""%e = loop.scratch : {row}
        %s = loop.for [d1 = 61] reduce [add] {vector("d1", 16, 2)} {{
          %0 = loop.load %x[d0, d1] : {t}
          %1 = math.exp %0 : f32
          loop.store %1, %e[d1] : {row}
          loop.yield %1 : f32
        }} : f32
        loop.for [d1 = 61] {vector("d1", 16, 2)} {{
          %0 = loop.load %e[d1] : {row}
          %1 = arith.divf %0, %s : f32
          loop.store %1, %y[d0, d1] : {t}
          loop.yield
        }}""",
        sizes="s0",
        grid="d0 = s0",
    )
    torch.manual_seed(0)
    x = torch.randn(50, 61) + offset
    x = x.minimum(torch.tensor(84.0))  # a larger sum is inf
    y = torch.empty_like(x)
    assert run(text, [x, y], [50]) == 0
    torch.testing.assert_close(y.double(), x.double().softmax(1), rtol=4e-7, atol=0)


@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_sigmoids_of_all_halves(dtype: str, lanes: int) -> None:
    """x / (1 + e^-x) of each number of 16 bits: rounded as the exact one but next to a tie."""
    type = DTYPES[dtype]
    x = torch.arange(-(2**15), 2**15).to(torch.int16).view(type)
    t = f"!sym.t<[s0], {dtype}>"
    text = grid_kernel(
        f"%x: {t}",
        f"%y: {t}",
        f"""loop.for [d0 = s0] {vector("d0", lanes, 2)} {{
          %0 = loop.load %x[d0] : {t}
          %1 = arith.extf %0 : {dtype} to f32
          %2 = arith.negf %1 : f32
          %3 = math.exp %2 : f32
          %4 = arith.constant 1.0 : f32
          %5 = arith.addf %3, %4 : f32
          %6 = arith.divf %1, %5 : f32
          %7 = arith.truncf %6 : f32 to {dtype}
          loop.store %7, %y[d0] : {t}
          loop.yield
        }}""",
        "s0",
    )
    y = torch.empty_like(x)
    assert run(text, [x, y], [x.numel()]) == 0
    eager = torch.nn.functional.silu(x.float())  # below -88 the exponential is inf
    near = (y.view(torch.int16).int() - eager.to(type).view(torch.int16).int()).abs()
    bad = (near > 1) & ~(y.isnan() & eager.isnan())
    assert not bad.any(), [(float(a), float(b), float(c)) for a, b, c in zip(x[bad], y[bad], eager[bad], strict=True)]
    assert (near > 0).float().mean() < 0.01


def many(
    dtype: str, calls: Sequence[str], inputs: Sequence[torch.Tensor], lanes: int, result: str = "", target: str = "host"
) -> list[torch.Tensor]:
    """Each call's results on %x (and %y), from one kernel."""
    t, r = f"!sym.t<[s0], {dtype}>", f"!sym.t<[s0], {result or dtype}>"
    names = "xy"[: len(inputs)]
    loads = "\n".join(f"%{n} = loop.load %in_{n}[d0] : {t}" for n in names)
    body = "\n".join(f"%r{i} = {call}\nloop.store %r{i}, %out{i}[d0] : {r}" for i, call in enumerate(calls))
    text = grid_kernel(
        ", ".join(f"%in_{n}: {t}" for n in names),
        ", ".join(f"%out{i}: {r}" for i in range(len(calls))),
        f"loop.for [d0 = s0] {vector('d0', lanes)} {{\n{loads}\n{body}\nloop.yield\n}}",
        "s0",
    )
    outs = [torch.zeros(inputs[0].numel(), dtype=DTYPES[result or dtype]) for _ in calls]
    assert run(text, [*inputs, *outs], [inputs[0].numel()], target) == 0
    return outs


SPECIAL = [0.0, -0.0, 1.0, -1.0, 1.5, -2.5, 0.5, 3.0, 1e30, -1e30, float("inf"), float("-inf"), float("nan"), 1e-40]

FLOAT_BINARY = {
    "arith.addf": torch.add, "arith.subf": torch.sub, "arith.mulf": torch.mul, "arith.divf": torch.div,
    "arith.maximumf": torch.maximum, "arith.minimumf": torch.minimum, "arith.maxnumf": torch.fmax,
    "arith.minnumf": torch.fmin, "math.powf": torch.pow, "math.atan2": torch.atan2, "math.copysign": torch.copysign,
    "loop.fn fmod": torch.fmod, "loop.fn nextafter": torch.nextafter,
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("lanes", [1, 8])
def test_float_binary(lanes: int, target: str) -> None:
    """Every pair of special values, and ordinary ones, as eager computes them."""
    calls = [f"{n}(%x, %y) : f32" if n.startswith("loop") else f"{n} %x, %y : f32" for n in FLOAT_BINARY]
    pairs = torch.cartesian_prod(torch.tensor(SPECIAL), torch.tensor(SPECIAL))
    x, y = (torch.cat([pairs[:, i], torch.randn(101)]).contiguous() for i in (0, 1))
    for actual, eager in zip(many("f32", calls, [x, y], lanes, target=target), FLOAT_BINARY.values(), strict=True):
        expected = eager(x, y)
        if eager is torch.fmod:
            # Eager's vectors give NaN for denormal divisors, libm does not.
            expected = torch.where(y.abs() == 1e-40, actual, expected)
        close(actual, expected)


@pytest.mark.parametrize("lanes", [1, 8])
def test_float_compares(lanes: int) -> None:
    """All predicates on all pairs of special values."""
    pairs = torch.cartesian_prod(torch.tensor(SPECIAL), torch.tensor(SPECIAL))
    x, y = pairs[:, 0].contiguous(), pairs[:, 1].contiguous()
    nan = x.isnan() | y.isnan()
    ordered = {"eq": x == y, "gt": x > y, "ge": x >= y, "lt": x < y, "le": x <= y, "ne": (x != y) & ~nan, "rd": ~nan}
    predicates = [prefix + name for name in ("eq", "gt", "ge", "lt", "le", "ne") for prefix in "ou"] + ["ord", "uno"]
    results = many("f32", [f"arith.cmpf {p}, %x, %y : f32" for p in predicates], [x, y], lanes, "i1")
    for predicate, actual in zip(predicates, results, strict=True):
        expected = nan if predicate == "uno" else ordered[predicate[1:]] | (nan & (predicate[0] == "u"))
        assert torch.equal(actual, expected), predicate


INT_BINARY = {
    "arith.addi": torch.add, "arith.subi": torch.sub, "arith.muli": torch.mul,
    "arith.andi": torch.bitwise_and, "arith.ori": torch.bitwise_or, "arith.xori": torch.bitwise_xor,
    "arith.maxsi": torch.maximum, "arith.minsi": torch.minimum,
    "arith.divsi": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "arith.floordivsi": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "arith.ceildivsi": lambda x, y: -torch.div(-x.long(), y.long(), rounding_mode="floor").to(x.dtype),
    "arith.remsi": torch.fmod, "math.ipowi": torch.pow,
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", ["i64", "i32", "i8"])
def test_int_binary(dtype: str, lanes: int, target: str) -> None:
    """Signed integers, negative ones too."""
    type = DTYPES[dtype]
    x, y = torch.randint(-50, 50, (203,)).to(type), torch.randint(-9, 9, (203,)).to(type)
    y[y == 0] = 7
    names = [n for n in INT_BINARY if n != "math.ipowi"]
    calls = [f"{n} %x, %y : {dtype}" for n in names]
    for name, actual in zip(names, many(dtype, calls, [x, y], lanes, target=target), strict=True):
        assert torch.equal(actual, INT_BINARY[name](x, y)), name
    power = y.abs() % 4
    assert torch.equal(many(dtype, [f"math.ipowi %x, %y : {dtype}"], [x, power], lanes, target=target)[0], x**power)


QUOTIENTS = ("arith.divsi", "arith.floordivsi", "arith.remsi")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["i32", "i16", "i8"])
def test_quotients_of_integers_in_vectors(dtype: str, target: str) -> None:
    """Next to multiples of the divisor, the least and greatest of the dtype among them; the least by -1 wraps around."""
    type = DTYPES[dtype]
    least, most = torch.iinfo(type).min, torch.iinfo(type).max
    torch.manual_seed(0)
    ends = torch.tensor([least, least + 1, most, most - 1, -1, 1, 2, -3, 7])
    divisors = torch.cat([ends, torch.randint(least, most + 1, (100,)), torch.randint(-200, 200, (100,))]).to(type)
    divisors = divisors[divisors != 0].long()
    multiples = (torch.randint(least, most + 1, (50, 1)) // divisors * divisors).flatten()
    x = torch.cat(
        [torch.stack([multiples + rest for rest in (-1, 0, 1)]).flatten(), ends.repeat_interleave(len(divisors))]
    )
    y = divisors.repeat(len(x) // len(divisors))
    fits = (x >= least) & (x <= most)
    x, y = x[fits].to(type), y[fits].to(type)
    overflows = (x == least) & (y == -1)
    for name, actual in zip(
        QUOTIENTS, many(dtype, [f"{n} %x, %y : {dtype}" for n in QUOTIENTS], [x, y], 16, target=target), strict=True
    ):
        expected = INT_BINARY[name](x.long(), y.long())
        assert torch.equal(actual, torch.where(overflows, 0 if name == "arith.remsi" else least, expected).to(type)), (
            name
        )


@pytest.mark.parametrize("target", TARGETS)
def test_quotients_of_bytes(target: str) -> None:
    """All of them, without sign."""
    x, y = torch.cartesian_prod(torch.arange(256), torch.arange(1, 256)).to(torch.uint8).T.contiguous()
    quotient, rest = many("u8", ["arith.divui %x, %y : i8", "arith.remui %x, %y : i8"], [x, y], 16, target=target)
    assert torch.equal(quotient, x // y)
    assert torch.equal(rest, x % y)


@pytest.mark.parametrize("lanes", [1, 8])
def test_integer_division_never_traps(lanes: int) -> None:
    """Division by zero and of the least integer by -1 end the process if they are made."""
    least = -(2**31)
    x = torch.tensor([5, least, least, 0, -7] * 7, dtype=torch.int32)
    y = torch.tensor([0, -1, 0, 0, -1] * 7, dtype=torch.int32)
    names = ("arith.divsi", "arith.floordivsi", "arith.remsi", "arith.divui", "arith.remui")
    quotient = many("i32", [f"{n} %x, %y : i32" for n in names], [x, y], lanes)[0]
    assert quotient[1] == least and quotient[4] == 7


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["i64", "i32", "i16", "i8", "u8"])
def test_float_to_integer(dtype: str, target: str) -> None:
    """Towards zero, and low bits kept in narrow types; out of range and NaN as eager's instructions give it."""
    x = torch.tensor(
        [0.0, 0.9, -0.9, 1.5, -1.5, 100.7, 127.0, 200.0, -100.2, 255.0, 256.0, 300.0, 40000.0, 70000.0, -33000.0]
    )
    if dtype in ("i64", "i32"):
        x = torch.cat([x, torch.tensor([float("nan"), float("inf"), -float("inf"), 3e9 if dtype == "i32" else 1e19])])
    signless = "i8" if dtype == "u8" else dtype
    cast = f"arith.fpto{'ui' if dtype == 'u8' else 'si'}"
    if dtype == "u8":
        x = x.abs()
    for lanes in (1, 8):
        y = torch.zeros(x.numel(), dtype=DTYPES[dtype])
        text = pointwise("f32", f"%y = {cast} %x : f32 to {signless}", lanes, result=dtype)
        assert run(text, [x, y], [x.numel()], target) == 0
        assert torch.equal(y, x.to(DTYPES[dtype]))


UNARY = {
    name: getattr(torch, name)
    for name in (
        *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos"),
        *("atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "floor", "ceil", "trunc"),
    )
} | {"absf": torch.abs, "roundeven": torch.round}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_float_unary(dtype: str, lanes: int, target: str) -> None:
    """Every function of `math`, special values included, scalar and vector."""
    x = torch.cat([torch.tensor(SPECIAL), torch.randn(40) * 3, torch.rand(40)]).to(DTYPES[dtype])
    rtol, atol = (1e-6, 1e-7) if dtype == "f32" else (1e-14, 1e-15)
    results = many(dtype, [f"math.{name} %x : {dtype}" for name in UNARY], [x], lanes, target=target)
    for name, y in zip(UNARY, results, strict=True):
        eager, expected = UNARY[name](x), UNARY[name](x.double())
        same = (y == eager) | (y.isnan() & eager.isnan())
        torch.testing.assert_close(
            y[~same].double(), expected[~same], rtol=rtol, atol=atol, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("predicate", ["eq", "ne", "slt", "sle", "sgt", "sge", "ult"])
def test_an_index_against_a_number(predicate: str, target: str) -> None:
    """One comparison per row with a number from memory, before, within and behind the row."""
    t = "!sym.t<[s0, 45], i1>"
    text = grid_kernel(
        "%x: !sym.t<[s0], i64>", f"%y: {t}",
        f"""%n = loop.load %x[d0] : !sym.t<[s0], i64>
        loop.for [d1 = 45] {vector("d1", 16, 2)} {{
          %0 = loop.index [d1 + 3]
          %1 = arith.cmpi {predicate}, %0, %n : i64
          loop.store %1, %y[d0, d1] : {t}
          loop.yield
        }}""",
        "s0", "d0 = s0",
    )  # fmt: skip
    x = torch.tensor([-(2**63), -1, 0, 3, 18, 19, 47, 48, 2**40, 2**63 - 1])
    y = torch.zeros(len(x), 45, dtype=torch.bool)
    assert run(text, [x, y], [len(x)], target) == 0
    functions = {"eq": torch.eq, "ne": torch.ne, "slt": torch.lt, "sle": torch.le, "sgt": torch.gt, "sge": torch.ge}
    index = torch.arange(3, 48)
    expected = functions.get(predicate, lambda a, b: (b < 0) | (a < b))(index[None], x[:, None])
    assert torch.equal(y, expected)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("dtype", ["f32", "i32"])
def test_a_scalar_beside_a_vector(dtype: str, swapped: bool) -> None:
    """Every binary op with one operand that all lanes share."""
    table = FLOAT_BINARY if dtype == "f32" else {k: v for k, v in INT_BINARY.items() if k != "math.ipowi"}
    t, one = f"!sym.t<[s0], {dtype}>", f"!sym.t<[], {dtype}>"
    operands = "%y, %x" if swapped else "%x, %y"
    calls = [f"{n}({operands}) : {dtype}" if n.startswith("loop") else f"{n} {operands} : {dtype}" for n in table]
    body = "\n".join(f"%r{i} = {call}\nloop.store %r{i}, %out{i}[d0] : {t}" for i, call in enumerate(calls))
    text = grid_kernel(
        f"%a: {t}, %b: {one}",
        ", ".join(f"%out{i}: {t}" for i in range(len(calls))),
        f"""loop.for [d0 = s0] {vector("d0", 8)} {{
          %x = loop.load %a[d0] : {t}
          %y = loop.load %b[] : {one}
          {body}
          loop.yield
        }}""",
        "s0",
    )
    x, y = (torch.rand(21) + 0.5, torch.tensor(1.25)) if dtype == "f32" else (torch.arange(1, 22), torch.tensor(-3))
    x, y = x.to(DTYPES[dtype]), y.to(DTYPES[dtype])
    outs = [torch.zeros_like(x) for _ in calls]
    assert run(text, [x, y, *outs], [21]) == 0
    for actual, eager in zip(outs, table.values(), strict=True):
        close(actual, eager(y.expand(21), x) if swapped else eager(x, y.expand(21)))
