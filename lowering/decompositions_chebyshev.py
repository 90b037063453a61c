"""Chebyshev polynomials: cosines and sines of multiples of an angle, hyperbolic ones beyond 1; in f64.

A polynomial of -x is (-1)^n times one of x, of the same kind (T, U) or of the other (V, W).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..dialects import prims
from .decomposition import pointwise
from .prims_builder import Value

PREFIX = "aten.special_"


@dataclass(frozen=True)
class Point:
    """|x| and n: `angle` is the one whose cosine is |x| (`inside`), or whose hyperbolic cosine."""

    n: Value
    inside: Value
    angle: Value

    def cos(self, factor: Value | float) -> Value:
        y = self.angle * factor
        return self.inside.where(y.unary(prims.CosOp.make), y.unary(prims.CoshOp.make))

    def sin(self, factor: Value | float) -> Value:
        y = self.angle * factor
        return self.inside.where(y.unary(prims.SinOp.make), y.unary(prims.SinhOp.make))

    def ratio(self, factor: Value, unit: float) -> Value:
        """sin(factor * angle) / sin(unit * angle), and its limit where the angle is 0."""
        return self.angle.eq(0.0).where(factor * (1.0 / unit), self.sin(factor) / self.sin(unit))


Formula = Callable[[Point], Value]


def _t(p: Point) -> Value:
    """T_n = cos(n a)."""
    return p.cos(p.n)


def _u(p: Point) -> Value:
    """U_n = sin((n + 1) a) / sin(a)."""
    return p.ratio(p.n + 1.0, 1.0)


def _v(p: Point) -> Value:
    """V_n = cos((n + 1/2) a) / cos(a / 2)."""
    return p.cos(p.n + 0.5) / p.cos(0.5)


def _w(p: Point) -> Value:
    """W_n = sin((n + 1/2) a) / sin(a / 2)."""
    return p.ratio(p.n + 0.5, 0.5)


def _polynomial(x: Value, n: Value, above: Formula, below: Formula) -> Value:
    """`above` for x from 0, (-1)^n times `below` of -x below; infinite far out; 1 for n = 0 and 0 for negative n."""
    n, s = n.trunc(), x.abs()
    inside = s <= 1.0
    angle = inside.where(s, 1.0).unary(prims.AcosOp.make)
    beyond = s.maximum(1.0).unary(prims.AcoshOp.make)
    point = Point(n, inside, inside.where(angle, beyond))
    odd = (n * 0.5).floor().ne(n * 0.5)
    far = s.eq(math.inf)
    mirrored, same = (far.where(s, formula(point)) for formula in (below, above))
    y = (x < 0.0).where(odd.where(-mirrored, mirrored), same)
    return (n < 0.0).where(0.0, n.eq(0.0).where(1.0, y))


def _register(letter: str, above: Formula, below: Formula) -> None:
    def of_values(x: Any, n: Any, shifted: bool) -> Value:
        one = x if isinstance(x, Value) else n
        x, n = (v.to("f64") if isinstance(v, Value) else one.to("f64").full(v) for v in (x, n))
        return _polynomial(x * 2.0 - 1.0 if shifted else x, n, above, below)

    for name, shifted in ((f"chebyshev_polynomial_{letter}", False), (f"shifted_chebyshev_polynomial_{letter}", True)):
        names = [f"{PREFIX}{name}{overload}" for overload in ("", ".x_scalar", ".n_scalar")]
        pointwise(*names)(lambda x, n, shifted=shifted: of_values(x, n, shifted))


for _letter, _above, _below in (("t", _t, _t), ("u", _u, _u), ("v", _v, _w), ("w", _w, _v)):
    _register(_letter, _above, _below)
