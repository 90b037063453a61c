"""Special functions that take as many steps as their operands say: what `loop.fn` calls lane by lane, as LLVM IR.

Polynomials by their recurrences, as ATen computes them, in the dtype of the operands; the incomplete gamma functions
are in `special_gamma.py`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple

from .cache import cached_objects
from .jit import LoadedObject, load_object
from .special_gamma import gamma
from .target import CpuTarget

PREFIX: Final = "lamella_special_"
"""Of the names; f32 functions end in f, as libm's."""


@cache
def special() -> LoadedObject:
    """The functions in this process: compiled where a program first wants one, then in the cache on disk."""
    names = [f"{PREFIX}{name}{end}" for name in (*POLYNOMIALS, "igamma", "igammac") for end in ("", "f")]
    return load_object(cached_objects([text()], CpuTarget.host())[0], names)


def text() -> str:
    """All of them as one module."""
    polynomials = [_polynomial(name, p, t) for name, p in POLYNOMIALS.items() for t in ("double", "float")]
    return "\n".join((*polynomials, gamma(PREFIX), *map(_single, ("igamma", "igammac")), _DECLARATIONS))


class Polynomial(NamedTuple):
    """P0 = 1, `%first` = P1(x), and `%r` from `%q` = Pk and `%p` = Pk-1, where `%kf` is k; `%value` where `%edge` says
    so. `T` is the type, `I` its name in intrinsics.
    """

    first: str
    edge: str
    step: str


_TOO_MANY: Final = """
  %edge = icmp sgt i64 %n, {limit}
  %value = fadd T 0x7FF8000000000000, 0.0"""

POLYNOMIALS: Final = {
    # Hk+1 = 2 x Hk - 2 k Hk-1; NaN beyond ATen's limit
    "hermite_h": Polynomial(
        "%first = fadd T %x, %x",
        _TOO_MANY,
        """
  %kk = fadd T %kf, %kf
  %b = fmul T %kk, %p
  %minus = fneg T %b
  %r = call T @llvm.fmuladd.I(T %first, T %q, T %minus)""",
    ),
    # Hek+1 = x Hek - k Hek-1
    "hermite_he": Polynomial(
        "%first = fadd T %x, 0.0",
        _TOO_MANY,
        """
  %b = fmul T %kf, %p
  %minus = fneg T %b
  %r = call T @llvm.fmuladd.I(T %x, T %q, T %minus)""",
    ),
    # (k + 1) Lk+1 = (2 k + 1 - x) Lk - k Lk-1; 1 at 0
    "laguerre": Polynomial(
        "%first = fsub T 1.0, %x",
        """
  %edge = fcmp oeq T %x, 0.0
  %value = fadd T 1.0, 0.0""",
        """
  %kk = fadd T %kf, %kf
  %w = fadd T %kk, %first
  %b = fmul T %kf, %p
  %minus = fneg T %b
  %c = call T @llvm.fmuladd.I(T %w, T %q, T %minus)
  %k1 = fadd T %kf, 1.0
  %r = fdiv T %c, %k1""",
    ),
    # (k + 1) Pk+1 = (2 k + 1) x Pk - k Pk-1; 1 at 1, (-1)^n at -1
    "legendre": Polynomial(
        "%first = fadd T %x, 0.0",
        """
  %size = call T @llvm.fabs.I(T %x)
  %edge = fcmp oeq T %size, 1.0
  %bit = and i64 %n, 1
  %odd = icmp ne i64 %bit, 0
  %value = select i1 %odd, T %x, T 1.0""",
        """
  %kk = fadd T %kf, %kf
  %kk1 = fadd T %kk, 1.0
  %w = fmul T %kk1, %x
  %b = fmul T %kf, %p
  %minus = fneg T %b
  %c = call T @llvm.fmuladd.I(T %w, T %q, T %minus)
  %k1 = fadd T %kf, 1.0
  %r = fdiv T %c, %k1""",
    ),
}
"""By the name of the function, of x and n: 0 for negative n, and for an n that is no i64."""

_RECURRENCE: Final = """
define T @{symbol}(T %x, T %order) {{
entry:
  %far = call T @llvm.fabs.I(T %order)
  %fits = fcmp olt T %far, 0x43E0000000000000
  %whole = select i1 %fits, T %order, T -1.0
  %n = fptosi T %whole to i64
  {first}{edge}
  %none = icmp eq i64 %n, 0
  %low = select i1 %none, T 1.0, T %first
  %known = select i1 %edge, T %value, T %low
  %negative = icmp slt i64 %n, 0
  %short = select i1 %negative, T 0.0, T %known
  %few = icmp slt i64 %n, 2
  %done = or i1 %few, %edge
  br i1 %done, label %out, label %next
next:
  %k = phi i64 [ 1, %entry ], [ %k.next, %next ]
  %p = phi T [ 1.0, %entry ], [ %q, %next ]
  %q = phi T [ %first, %entry ], [ %r, %next ]
  %kf = sitofp i64 %k to T{step}
  %k.next = add i64 %k, 1
  %more = icmp slt i64 %k.next, %n
  %number = fcmp ord T %r, %r
  %on = and i1 %more, %number
  br i1 %on, label %next, label %out
out:
  %result = phi T [ %short, %entry ], [ %r, %next ]
  ret T %result
}}"""


def _polynomial(name: str, p: Polynomial, t: str) -> str:
    edge = p.edge.format(limit=512 if t == "double" else 128)
    symbol = f"{PREFIX}{name}{'' if t == 'double' else 'f'}"
    written = _RECURRENCE.format(symbol=symbol, first=p.first, edge=edge, step=p.step)
    return re.sub(r"\bT\b", t, written).replace(".I(", ".f64(" if t == "double" else ".f32(")


def _single(name: str) -> str:
    """The function of f32 by that of f64."""
    return f"""
define float @{PREFIX}{name}f(float %a, float %x) {{
  %wide.a = fpext float %a to double
  %wide.x = fpext float %x to double
  %wide = call double @{PREFIX}{name}(double %wide.a, double %wide.x)
  %y = fptrunc double %wide to float
  ret float %y
}}"""


_DECLARATIONS: Final = """
declare double @exp(double)
declare double @expm1(double)
declare double @log(double)
declare double @log1p(double)
declare double @lgamma(double)
declare double @llvm.fabs.f64(double)
declare float @llvm.fabs.f32(float)
declare float @llvm.fmuladd.f32(float, float, float)
declare double @llvm.fmuladd.f64(double, double, double)
declare double @llvm.fma.f64(double, double, double)
declare double @llvm.sqrt.f64(double)
declare double @llvm.maxnum.f64(double, double)
declare double @llvm.minnum.f64(double, double)
"""
