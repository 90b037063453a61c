"""The functions of CUDA's libdevice that kernels call, on torch tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

Function = Callable[..., Tensor]


def _cbrt(x: Tensor) -> Tensor:
    return torch.sign(x) * x.abs().double().pow(1 / 3).to(x.dtype)


def _round_away(x: Tensor) -> Tensor:
    """To the nearest whole number; halves away from 0."""
    rounded = x.abs().add(0.5).floor()
    exact = torch.where(x.abs() - x.abs().floor() == 0.5, x.abs().floor() + 1, rounded)
    large = x.abs() >= 2.0 ** (23 if x.dtype is torch.float32 else 52)  # whole already
    return torch.where(large | ~x.isfinite(), x, torch.copysign(torch.where(x.abs() < 0.5, 0.0, exact), x))


def _fma(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return (x.double() * y.double() + z.double()).to(x.dtype)


def _popcount(x: Tensor) -> Tensor:
    return sum(((x >> i) & 1 for i in range(x.element_size() * 8)), torch.zeros_like(x)).to(torch.int32)


_FLOAT: dict[str, Function] = {
    "fabs": torch.abs,
    "rint": torch.round,
    "nearbyint": torch.round,
    "round": _round_away,
    "fmin": torch.fmin,
    "fmax": torch.fmax,
    "fmod": torch.fmod,
    "pow": torch.pow,
    "cbrt": _cbrt,
    "rcbrt": lambda x: 1 / _cbrt(x),
    "fdim": lambda x, y: torch.where(x > y, x - y, torch.where(x.isnan() | y.isnan(), torch.nan, 0.0)),
    "exp10": lambda x: torch.pow(10.0, x.double()).to(x.dtype),
    "sinpi": lambda x: torch.sin(x.double() * torch.pi).to(x.dtype),
    "cospi": lambda x: torch.cos(x.double() * torch.pi).to(x.dtype),
    "tgamma": lambda x: torch.lgamma(x.double()).exp().to(x.dtype),
    "erfinv": torch.erfinv,
    "erfcinv": lambda x: torch.erfinv(1 - x.double()).to(x.dtype),
    "erfcx": torch.special.erfcx,
    "normcdf": torch.special.ndtr,
    "normcdfinv": torch.special.ndtri,
    "cyl_bessel_i0": torch.special.i0,
    "cyl_bessel_i1": torch.special.i1,
    "j0": torch.special.bessel_j0,
    "j1": torch.special.bessel_j1,
    "y0": torch.special.bessel_y0,
    "y1": torch.special.bessel_y1,
    "fma": _fma,
    "powi": lambda x, n: torch.pow(x.double(), n).to(x.dtype),
    "ldexp": lambda x, n: torch.ldexp(x.double(), n).to(x.dtype),
    "remainder": lambda x, y: x - torch.round(x.double() / y.double()).to(x.dtype) * y,
    "logb": lambda x: (torch.frexp(x)[1] - 1).to(x.dtype),
    **{
        name: getattr(torch, name)
        for name in (
            *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "copysign", "cos", "cosh", "erf"),
            *("erfc", "exp", "exp2", "expm1", "floor", "hypot", "lgamma", "log", "log10", "log1p", "log2"),
            *("nextafter", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"),
        )
    },
}
"""`__nv_<name>` is of f64, `__nv_<name>f` of f32."""

_BITS: dict[str, Function] = {
    "popc": _popcount,
    "popcll": _popcount,
    "fdiv_rn": torch.div,
    "ddiv_rn": torch.div,
    "frcp_rn": torch.reciprocal,
    "fsqrt_rn": torch.sqrt,
    "dsqrt_rn": torch.sqrt,
    "fadd_rn": torch.add,
    "fsub_rn": torch.sub,
    "fmul_rn": torch.mul,
    "fmaf_rn": _fma,
    **{name: lambda x: x.isnan().to(torch.int32) for name in ("isnanf", "isnand")},
    **{name: lambda x: x.isinf().to(torch.int32) for name in ("isinff", "isinfd")},
    **{name: lambda x: x.isfinite().to(torch.int32) for name in ("finitef", "isfinited")},
    **{name: lambda x: torch.signbit(x).to(torch.int32) for name in ("signbitf", "signbitd")},
    "float_as_int": partial(torch.Tensor.view, dtype=torch.int32),
    "int_as_float": partial(torch.Tensor.view, dtype=torch.float32),
}

LIBDEVICE: dict[str, Function] = {
    **{f"__nv_{name}": f for name, f in _FLOAT.items()},
    **{f"__nv_{name}f": f for name, f in _FLOAT.items()},
    **{f"__nv_fast_{name}f": _FLOAT[name] for name in ("sin", "cos", "tan", "exp", "log", "pow")},
    **{f"__nv_{name}": f for name, f in _BITS.items()},
    "llvm.nvvm.ex2.approx.ftz.f": lambda x: torch.where(x < -126, 0.0, torch.exp2(x)),
}
"""Symbol to the function."""
