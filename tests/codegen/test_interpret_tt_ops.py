"""The interpreter of kernels against torch: ops element by element, and that none is left out."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from xdsl.dialects.math import Math
from xdsl.traits import IsTerminator

from lamella.codegen.interpret_tt import CONTROL, KernelError
from lamella.codegen.interpret_tt_access import ACCESS
from lamella.codegen.interpret_tt_libdevice import LIBDEVICE
from lamella.codegen.interpret_tt_ops import OPS
from lamella.dialects.arith_tensors import ARITH
from lamella.dialects.tt import TT, ElementwiseInlineAsmOp, FuncOp
from lamella.dialects.tt_block_pointer import AdvanceOp, MakeTensorPtrOp
from lamella.dialects.tt_libdevice import FLOAT_FUNCTIONS
from lamella.dialects.tt_rules import ON_SCALARS_ONLY
from lamella.tests.codegen.interpreted_tt import TYPES, F, G, J, K, pointwise


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("arith.addf", torch.add),
        ("arith.divf", torch.div),
        ("arith.remf", torch.fmod),
        ("arith.maximumf", torch.maximum),
        ("arith.minnumf", torch.fmin),
        ("tt.precise_divf", torch.div),
    ],
)
def test_floats(op: str, expected: Callable[[Tensor, Tensor], Tensor]) -> None:
    result = pointwise(f"%y = {op} %x0, %x1 : tensor<8xf32>", torch.float32, F, G)
    torch.testing.assert_close(result, expected(F, G), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("arith.addi", torch.add),
        ("arith.muli", torch.mul),
        ("arith.divsi", lambda x, y: torch.div(x, y, rounding_mode="trunc")),
        ("arith.remsi", torch.fmod),
        ("arith.maxsi", torch.maximum),
        ("arith.xori", torch.bitwise_xor),
        ("tt.mulhiui", lambda x, y: ((_u(x) * _u(y)) >> 32).to(torch.int32)),
        ("arith.minui", lambda x, y: torch.where(_u(x) < _u(y), x, y)),
    ],
)
def test_integers(op: str, expected: Callable[[Tensor, Tensor], Tensor]) -> None:
    x = torch.where((K == -(2**31)) & (J == -1), 0, K)
    result = pointwise(f"%y = {op} %x0, %x1 : tensor<8xi32>", torch.int32, x, J)
    assert torch.equal(result, expected(x, J))


def _u(x: Tensor) -> Tensor:
    return x.long() & 0xFFFFFFFF


@pytest.mark.parametrize("symbol", ["tanh", "erfc", "expm1", "log1p", "round", "rint", "cbrt", "fmod", "nextafter"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_libdevice(symbol: str, dtype: torch.dtype) -> None:
    t, suffix = TYPES[dtype], "f" if dtype is torch.float32 else ""
    two = symbol in ("fmod", "nextafter")
    operands, types = ("%x0, %x1", f"tensor<8x{t}>, tensor<8x{t}>") if two else ("%x0", f"tensor<8x{t}>")
    body = (
        f'%y = tt.extern_elementwise {operands} {{libname = "", libpath = "", pure = true, '
        f'symbol = "__nv_{symbol}{suffix}"}} : ({types}) -> tensor<8x{t}>'
    )
    x, z = F.to(dtype), G.to(dtype)
    expected = {
        "round": lambda: torch.tensor([0.0, -0.0, 2.0, -3.0, torch.inf, -torch.inf, torch.nan, 0.0], dtype=dtype),
        "rint": lambda: torch.round(x),
        "cbrt": lambda: torch.sign(x) * x.abs() ** (1 / 3),
        "fmod": lambda: torch.fmod(x, z),
        "nextafter": lambda: torch.nextafter(x, z),
    }.get(symbol, lambda: getattr(torch, symbol)(x))()
    inputs = (x, z) if two else (x,)
    torch.testing.assert_close(pointwise(body, dtype, *inputs), expected, equal_nan=True)


def test_all_names_are_known() -> None:
    assert {f"__nv_{name}" for name in FLOAT_FUNCTIONS} <= LIBDEVICE.keys()


def test_compare_select_cast() -> None:
    body = """
    %c = arith.cmpf ult, %x0, %x1 : tensor<8xf32>
    %s = arith.select %c, %x0, %x1 : tensor<8xi1>, tensor<8xf32>
    %w = arith.extui %c : tensor<8xi1> to tensor<8xi32>
    %f = arith.sitofp %w : tensor<8xi32> to tensor<8xf32>
    %t = arith.addf %s, %f : tensor<8xf32>
    %y = arith.truncf %t : tensor<8xf32> to tensor<8xbf16>"""
    less = (F < G) | F.isnan() | G.isnan()
    expected = (torch.where(less, F, G) + less).to(torch.bfloat16)
    torch.testing.assert_close(pointwise(body, torch.bfloat16, F, G), expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_f8_saturates(dtype: torch.dtype) -> None:
    t = TYPES[dtype]
    body = f"""
    %h = tt.fp_to_fp %x0, rounding = rtne : tensor<8xf32> -> tensor<8x{t}>
    %y = tt.fp_to_fp %h : tensor<8x{t}> -> tensor<8xf32>"""
    x = torch.tensor([0.1, -3.7, 1e9, -1e9, torch.inf, torch.nan, 448.0, 2**-9])
    most = torch.finfo(dtype).max
    torch.testing.assert_close(
        pointwise(body, torch.float32, x), x.clamp(-most, most).to(dtype).float(), equal_nan=True
    )


def test_f8_in_memory() -> None:
    x = torch.randn(8).to(torch.float8_e4m3fn)
    result = pointwise("%y = tt.fp_to_fp %x0 : tensor<8xf8E4M3FN> -> tensor<8xf32>", torch.float32, x)
    assert torch.equal(result, x.float())


def test_clamp() -> None:
    body = "%y = tt.clampf %x0, %x1, %x2, propagateNan = {} : tensor<8xf32>"
    low, high = torch.full((8,), -1.0), torch.full((8,), 2.0)
    assert torch.equal(pointwise(body.format("all"), torch.float32, F, low, high).isnan(), F.isnan())
    assert not pointwise(body.format("none"), torch.float32, F, low, high).isnan().any()


def test_not_interpreted() -> None:
    body = (
        '%y = tt.elementwise_inline_asm "mov.b32 $0, $1;" {constraints = "=r,r", packed_element = 1 : i32, pure = true} '
        "%x0 : tensor<8xi32> -> tensor<8xi32>"
    )
    with pytest.raises(KernelError, match="this op is not interpreted"):
        pointwise(body, torch.int32, K)


def test_every_op() -> None:
    """Whatever the dialect has, and what Triton's text has of arith and math, is interpreted. Not assembly, nor pointers
    to blocks: Triton's front end writes these, its first pass makes plain ones of them, and ours has none.
    """
    known = OPS.keys() | ACCESS.keys() | CONTROL.keys()
    left = {op for op in TT.operations if op not in known and not op.has_trait(IsTerminator)}
    assert left == {FuncOp, ElementwiseInlineAsmOp, MakeTensorPtrOp, AdvanceOp}
    text = [*ARITH.operations, *Math.operations]
    assert {op.name for op in text if op not in known} <= ON_SCALARS_ONLY.keys() | RARE


RARE = {
    *("arith.addui_extended", "arith.mulsi_extended", "arith.mului_extended"),
    *("arith.ceildivsi", "arith.ceildivui", "math.cttz", "math.fpowi"),
}
"""Ops that neither Triton's front end nor ours writes."""
