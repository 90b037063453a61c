"""The incomplete gamma functions as LLVM IR, in f64: below a = 200 by the power series or the continued fraction (DLMF
8.7.1, 8.7.3, 8.9.2), above by 32 points of Gauss and Legendre over the part of the integral that counts.
"""

from __future__ import annotations

from typing import Final

NODES: Final = (
    *(0.0483076656877383, 0.1444719615827965, 0.23928736225213706, 0.33186860228212767, 0.42135127613063533),
    *(0.5068999089322294, 0.5877157572407623, 0.6630442669302152, 0.7321821187402897, 0.7944837959679424),
    *(0.84936761373257, 0.8963211557660521, 0.9349060759377397, 0.9647622555875064, 0.9856115115452684),
    0.9972638618494816,
)
WEIGHTS: Final = (
    *(0.09654008851472785, 0.09563872007927485, 0.09384439908080454, 0.0911738786957639, 0.08765209300440374),
    *(0.08331192422694672, 0.07819389578707044, 0.07234579410884862, 0.06582222277636195, 0.05868409347853558),
    *(0.050998059262376154, 0.042835898022226704, 0.03427386291302141, 0.02539206530926214, 0.01627439473090571),
    0.007018610009470136,
)
"""Gauss and Legendre's, of 32 points in [-1, 1]: of each pair the positive one."""

_GAMMA: Final = """
@nodes = private constant [32 x double] [{nodes}]
@weights = private constant [32 x double] [{weights}]
; 1 / 12a - 1 / 360a^3 + ...: how log(gamma(a)) differs from Stirling's, for a from 20 on
define internal double @stirling(double %a) {{
  %i = fdiv double 1.0, %a
  %z = fmul double %i, %i
  %s0 = call double @llvm.fma.f64(double %z, double 0xBF5F6AB0D9993C7D, double 0x3F4B951E2B18FF23)
  %s1 = call double @llvm.fma.f64(double %s0, double %z, double 0xBF43813813813814)
  %s2 = call double @llvm.fma.f64(double %s1, double %z, double 0x3F4A01A01A01A01A)
  %s3 = call double @llvm.fma.f64(double %s2, double %z, double 0xBF66C16C16C16C17)
  %s4 = call double @llvm.fma.f64(double %s3, double %z, double 0x3FB5555555555555)
  %s = fmul double %s4, %i
  ret double %s
}}
; log(1 + u) - u
define internal double @log_rest(double %u) {{
entry:
  %size = call double @llvm.fabs.f64(double %u)
  %tiny = fcmp olt double %size, 0.0009765625
  br i1 %tiny, label %small, label %usual
small:
  %c0 = call double @llvm.fma.f64(double %u, double 0xBFC2492492492492, double 0x3FC5555555555555)
  %c1 = call double @llvm.fma.f64(double %u, double %c0, double 0xBFC999999999999A)
  %c2 = call double @llvm.fma.f64(double %u, double %c1, double 0x3FD0000000000000)
  %c3 = call double @llvm.fma.f64(double %u, double %c2, double 0xBFD5555555555555)
  %c4 = call double @llvm.fma.f64(double %u, double %c3, double 0x3FE0000000000000)
  %square = fmul double %u, %u
  %minus = fneg double %c4
  %y = fmul double %square, %minus
  ret double %y
usual:
  %l = call double @log1p(double %u)
  %lu = fsub double %l, %u
  ret double %lu
}}
; x^a e^-x / gamma(a + 1)
define internal double @factor(double %a, double %x) {{
entry:
  %d = fsub double %x, %a
  %u = fdiv double %d, %a
  %size = call double @llvm.fabs.f64(double %u)
  %near = fcmp olt double %size, 0.5
  %large = fcmp oge double %a, 20.0
  %both = and i1 %near, %large
  br i1 %both, label %close, label %plain
close:
  %lu = call double @log_rest(double %u)
  %e0 = fmul double %a, %lu
  %s = call double @stirling(double %a)
  %e1 = fsub double %e0, %s
  %e = call double @exp(double %e1)
  %part = fmul double %a, 0x401921FB54442D18
  %root = call double @llvm.sqrt.f64(double %part)
  %y = fdiv double %e, %root
  ret double %y
plain:
  %log = call double @log(double %x)
  %alog = fmul double %a, %log
  %a1 = fadd double %a, 1.0
  %gamma = call double @lgamma(double %a1)
  %f0 = fsub double %alog, %x
  %f1 = fsub double %f0, %gamma
  %f = call double @exp(double %f1)
  ret double %f
}}
; P = x^a e^-x / gamma(a + 1) (1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + ...)
define internal double @lower_series(double %a, double %x) {{
entry:
  br label %next
next:
  %r = phi double [ %a, %entry ], [ %r1, %next ]
  %term = phi double [ 1.0, %entry ], [ %term1, %next ]
  %sum = phi double [ 1.0, %entry ], [ %sum1, %next ]
  %r1 = fadd double %r, 1.0
  %ratio = fdiv double %x, %r1
  %term1 = fmul double %term, %ratio
  %sum1 = fadd double %sum, %term1
  %least = fmul double %sum1, 0x3CA0000000000000
  %on = fcmp ogt double %term1, %least
  br i1 %on, label %next, label %out
out:
  %f = call double @factor(double %a, double %x)
  %y = fmul double %sum1, %f
  ret double %y
}}
; Q for x up to 1.1, where it is no difference of large numbers:
; 1 - x^a / gamma(a + 1) - x^a / gamma(a) (-x / (a + 1) + x^2 / (2 (a + 2)) - ...)
define internal double @upper_series(double %a, double %x) {{
entry:
  %log = call double @log(double %x)
  %alog = fmul double %a, %log
  %tiny = fcmp olt double %a, 0x3F1A36E2EB1C432D
  br i1 %tiny, label %small, label %usual
small:
  %g0 = call double @llvm.fma.f64(double %a, double 0x3FD151322AC7D848, double 0xBFD9A4D55BEAB2D7)
  %g1 = call double @llvm.fma.f64(double %a, double %g0, double 0x3FEA51A6625307D3)
  %g2 = call double @llvm.fma.f64(double %a, double %g1, double 0xBFE2788CFC6FB619)
  %g3 = fmul double %a, %g2
  br label %begin
usual:
  %a1 = fadd double %a, 1.0
  %g4 = call double @lgamma(double %a1)
  br label %begin
begin:
  %gamma = phi double [ %g3, %small ], [ %g4, %usual ]
  %e = fsub double %alog, %gamma
  %first = call double @expm1(double %e)
  br label %next
next:
  %n = phi double [ 1.0, %begin ], [ %n1, %next ]
  %power = phi double [ 1.0, %begin ], [ %power1, %next ]
  %sum = phi double [ 0.0, %begin ], [ %sum1, %next ]
  %xn = fdiv double %x, %n
  %minus = fneg double %xn
  %power1 = fmul double %power, %minus
  %an = fadd double %a, %n
  %term = fdiv double %power1, %an
  %sum1 = fadd double %sum, %term
  %n1 = fadd double %n, 1.0
  %size = call double @llvm.fabs.f64(double %term)
  %total = call double @llvm.fabs.f64(double %sum1)
  %least = fmul double %total, 0x3CA0000000000000
  %on = fcmp ogt double %size, %least
  br i1 %on, label %next, label %out
out:
  %grown = call double @exp(double %e)
  %scaled = fmul double %grown, %a
  %rest = fmul double %scaled, %sum1
  %both = fadd double %first, %rest
  %y = fneg double %both
  ret double %y
}}
; Q = x^a e^-x / gamma(a) / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / (x + 5 - a - ...))), by Lentz
define internal double @upper_fraction(double %a, double %x) {{
entry:
  %x1 = fadd double %x, 1.0
  %b0 = fsub double %x1, %a
  %d0 = fdiv double 1.0, %b0
  br label %next
next:
  %i = phi double [ 1.0, %entry ], [ %i1, %next ]
  %b = phi double [ %b0, %entry ], [ %b1, %next ]
  %c = phi double [ 0x7E37E43C8800759C, %entry ], [ %c1, %next ]
  %d = phi double [ %d0, %entry ], [ %d1, %next ]
  %h = phi double [ %d0, %entry ], [ %h1, %next ]
  %ai = fsub double %a, %i
  %an = fmul double %i, %ai
  %b1 = fadd double %b, 2.0
  %and = fmul double %an, %d
  %below = fadd double %and, %b1
  %d1 = fdiv double 1.0, %below
  %anc = fdiv double %an, %c
  %c1 = fadd double %b1, %anc
  %change = fmul double %c1, %d1
  %h1 = fmul double %h, %change
  %i1 = fadd double %i, 1.0
  %off = fsub double %change, 1.0
  %size = call double @llvm.fabs.f64(double %off)
  %more = fcmp ogt double %size, 0x3CB0000000000000
  %few = fcmp olt double %i, 2000.0
  %on = and i1 %more, %few
  br i1 %on, label %next, label %out
out:
  %f = call double @factor(double %a, double %x)
  %fa = fmul double %f, %a
  %y = fmul double %fa, %h1
  ret double %y
}}
; The smaller of P and Q for a from 200 on: the integral of the density to the right of x, or to the left, as far as it
; is of any weight. With m = a - 1 it is (t / m)^m e^(m - t) / sqrt(2 pi m), of an offset t - m.
define internal double @tail(double %a, double %x) {{
entry:
  %m = fsub double %a, 1.0
  %root = call double @llvm.sqrt.f64(double %m)
  %off.a = fsub double %x, %a
  %off = fadd double %off.a, 1.0
  %right = fcmp ogt double %off, 0.0
  %away = call double @llvm.fabs.f64(double %off)
  %centre = select i1 %right, double 11.5, double 9.0
  %wide.0 = fmul double %centre, %root
  %wide.1 = fsub double %wide.0, %away
  %wide.2 = fmul double %root, 6.0
  %wide.3 = call double @llvm.maxnum.f64(double %wide.1, double %wide.2)
  ; it falls by e^-38 over 38 x / |x - m| at most
  %slope = fdiv double %x, %away
  %steep = fmul double %slope, 38.0
  %wide.4 = call double @llvm.minnum.f64(double %wide.3, double %steep)
  %wide.5 = call double @llvm.minnum.f64(double %wide.4, double %x)
  %wide = select i1 %right, double %wide.4, double %wide.5
  %positive = fmul double %wide, 0.5
  %negative = fneg double %positive
  %half = select i1 %right, double %positive, double %negative
  %middle = fadd double %off, %half
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k1, %next ]
  %sum = phi double [ 0.0, %entry ], [ %sum1, %next ]
  %node.p = getelementptr [32 x double], ptr @nodes, i64 0, i64 %k
  %node = load double, ptr %node.p
  %weight.p = getelementptr [32 x double], ptr @weights, i64 0, i64 %k
  %weight = load double, ptr %weight.p
  %t = call double @llvm.fma.f64(double %node, double %half, double %middle)
  %u = fdiv double %t, %m
  %lu = call double @log_rest(double %u)
  %e0 = fmul double %m, %lu
  %e = call double @exp(double %e0)
  %sum1 = call double @llvm.fma.f64(double %e, double %weight, double %sum)
  %k1 = add i64 %k, 1
  %on = icmp slt i64 %k1, 32
  br i1 %on, label %next, label %out
out:
  %area = fmul double %sum1, %positive
  %s = call double @stirling(double %m)
  %minus = fneg double %s
  %scale = call double @exp(double %minus)
  %part = fmul double %m, 0x401921FB54442D18
  %unit = call double @llvm.sqrt.f64(double %part)
  %y0 = fdiv double %area, %unit
  %y = fmul double %y0, %scale
  ret double %y
}}
define internal double @gamma_share(double %a, double %x, i1 %upper) {{
entry:
  %a.low = fcmp olt double %a, 0.0
  %x.low = fcmp olt double %x, 0.0
  %outside = or i1 %a.low, %x.low
  %a.zero = fcmp oeq double %a, 0.0
  %x.none = fcmp ule double %x, 0.0
  %zeros = and i1 %a.zero, %x.none
  %a.far = fcmp oeq double %a, 0x7FF0000000000000
  %x.far = fcmp oeq double %x, 0x7FF0000000000000
  %fars = and i1 %a.far, %x.far
  %either = or i1 %zeros, %fars
  %undefined = or i1 %outside, %either
  br i1 %undefined, label %nowhere, label %defined
nowhere:
  ret double 0x7FF8000000000000
defined:
  %x.zero = fcmp oeq double %x, 0.0
  %all = or i1 %a.zero, %x.far
  %none = or i1 %x.zero, %a.far
  %edge = or i1 %all, %none
  br i1 %edge, label %known, label %open
known:
  %is.all = xor i1 %all, %upper
  %share = uitofp i1 %is.all to double
  ret double %share
open:
  %numbers = fcmp ord double %a, %x
  br i1 %numbers, label %plain, label %nowhere
plain:
  %many = fcmp oge double %a, 200.0
  br i1 %many, label %wide, label %narrow
wide:
  %off.a = fsub double %x, %a
  %off = fadd double %off.a, 1.0
  %is.upper.w = fcmp ogt double %off, 0.0
  %t = call double @tail(double %a, double %x)
  br label %out
narrow:
  %low = fcmp ole double %x, 1.1
  br i1 %low, label %near, label %beyond
near:
  ; Q by its own series where a is small beside x
  %half = fcmp ole double %x, 0.5
  %log = call double @log(double %x)
  %bound.0 = fdiv double -0.4, %log
  %bound.1 = fmul double %x, 1.1
  %bound = select i1 %half, double %bound.0, double %bound.1
  %mostly = fcmp olt double %bound, %a
  %lower.wanted = xor i1 %upper, true
  %single = fcmp ole double %x, 1.0
  %lower.fine = and i1 %lower.wanted, %single
  %by.lower = or i1 %mostly, %lower.fine
  br i1 %by.lower, label %power, label %small
small:
  %q0 = call double @upper_series(double %a, double %x)
  br label %out
beyond:
  %left = fcmp olt double %x, %a
  br i1 %left, label %power, label %continued
power:
  %p = call double @lower_series(double %a, double %x)
  br label %out
continued:
  %q1 = call double @upper_fraction(double %a, double %x)
  br label %out
out:
  %found = phi double [ %t, %wide ], [ %q0, %small ], [ %p, %power ], [ %q1, %continued ]
  %is.upper = phi i1 [ %is.upper.w, %wide ], [ true, %small ], [ false, %power ], [ true, %continued ]
  %other = fsub double 1.0, %found
  %same = icmp eq i1 %is.upper, %upper
  %y = select i1 %same, double %found, double %other
  ret double %y
}}
define double @{prefix}igamma(double %a, double %x) {{
  %y = call double @gamma_share(double %a, double %x, i1 false)
  ret double %y
}}
define double @{prefix}igammac(double %a, double %x) {{
  %y = call double @gamma_share(double %a, double %x, i1 true)
  ret double %y
}}"""


def gamma(prefix: str) -> str:
    """`prefix` begins the names of both functions."""
    nodes = ", ".join(f"double {x!r}" for v in NODES for x in (v, -v))
    weights = ", ".join(f"double {w!r}" for v in WEIGHTS for w in (v, v))
    return _GAMMA.format(nodes=nodes, weights=weights, prefix=prefix)
