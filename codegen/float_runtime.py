"""The float conversions LLVM calls where the CPU has no instruction, which no library here has for all types.

Kernels convert half floats with vector code of their own; these functions are for what is left, such as f64 to f16.
All round to nearest even, once, and keep denormals; NaN stays NaN.
"""

from functools import cache

from .jit import LoadedObject, compile_object, load_object
from .target import CpuTarget

_IR = """
; The double as a float whose last bit is set when digits were cut off: to round that float rounds the double once.
define internal i32 @odd_float_bits(double %x) {
  %near = fptrunc double %x to float
  %back = fpext float %near to double
  %bits = bitcast float %near to i32
  %above.p = fcmp ogt double %back, %x
  %above.n = fcmp olt double %back, %x
  %negative = icmp slt i32 %bits, 0
  %above = select i1 %negative, i1 %above.n, i1 %above.p
  %less = sub i32 %bits, 1
  %toward0 = select i1 %above, i32 %less, i32 %bits
  %inexact = fcmp one double %back, %x
  %odd = zext i1 %inexact to i32
  %result = or i32 %toward0, %odd
  ret i32 %result
}
define internal i16 @bfloat_of(i32 %bits) {
  %high = lshr i32 %bits, 16
  %even = and i32 %high, 1
  %more = add i32 %even, 32767
  %sum = add i32 %bits, %more
  %rounded = lshr i32 %sum, 16
  %quiet = or i32 %high, 64
  %size = and i32 %bits, 2147483647
  %nan = icmp ugt i32 %size, 2139095040
  %wide = select i1 %nan, i32 %quiet, i32 %rounded
  %result = trunc i32 %wide to i16
  ret i16 %result
}
define internal i16 @half_of(i32 %bits) {
  %size = and i32 %bits, 2147483647
  %sign.wide = lshr i32 %bits, 16
  %sign = and i32 %sign.wide, 32768
  ; Too small for a normal half: adding 0.5 puts the bits of a denormal at the end of the sum.
  %size.f = bitcast i32 %size to float
  %moved = fadd float %size.f, 0.5
  %moved.i = bitcast float %moved to i32
  %denormal = sub i32 %moved.i, 1056964608
  %last = lshr i32 %size, 13
  %even = and i32 %last, 1
  %rebiased = sub i32 %size, 939524096
  %up = add i32 %rebiased, 4095
  %rounded = add i32 %up, %even
  %normal = lshr i32 %rounded, 13
  %small = icmp ult i32 %size, 947912704
  %finite = select i1 %small, i32 %denormal, i32 %normal
  %huge = icmp uge i32 %size, 1199570944
  %infinite = select i1 %huge, i32 31744, i32 %finite
  %nan = icmp ugt i32 %size, 2139095040
  %unsigned = select i1 %nan, i32 32256, i32 %infinite
  %signed = or i32 %unsigned, %sign
  %result = trunc i32 %signed to i16
  ret i16 %result
}
define bfloat @__truncsfbf2(float %x) {
  %bits = bitcast float %x to i32
  %result = call i16 @bfloat_of(i32 %bits)
  %cast = bitcast i16 %result to bfloat
  ret bfloat %cast
}
define bfloat @__truncdfbf2(double %x) {
  %bits = call i32 @odd_float_bits(double %x)
  %result = call i16 @bfloat_of(i32 %bits)
  %cast = bitcast i16 %result to bfloat
  ret bfloat %cast
}
define half @__truncsfhf2(float %x) {
  %bits = bitcast float %x to i32
  %result = call i16 @half_of(i32 %bits)
  %cast = bitcast i16 %result to half
  ret half %cast
}
define half @__truncdfhf2(double %x) {
  %bits = call i32 @odd_float_bits(double %x)
  %result = call i16 @half_of(i32 %bits)
  %cast = bitcast i16 %result to half
  ret half %cast
}
define float @__extendhfsf2(half %x) {
  %narrow = bitcast half %x to i16
  %wide = zext i16 %narrow to i32
  %size = and i32 %wide, 32767
  %moved = shl i32 %size, 13
  %normal = add i32 %moved, 939524096
  %special = icmp uge i32 %size, 31744
  %infinite = or i32 %moved, 2139095040
  %bits = select i1 %special, i32 %infinite, i32 %normal
  ; A denormal half counts units of 2**-24.
  %count = uitofp i32 %size to float
  %denormal.f = fmul float %count, 0x3E70000000000000
  %denormal = bitcast float %denormal.f to i32
  %small = icmp ult i32 %size, 1024
  %unsigned = select i1 %small, i32 %denormal, i32 %bits
  %sign.narrow = and i32 %wide, 32768
  %sign = shl i32 %sign.narrow, 16
  %signed = or i32 %unsigned, %sign
  %result = bitcast i32 %signed to float
  ret float %result
}
"""

FUNCTIONS = ("__truncsfbf2", "__truncdfbf2", "__truncsfhf2", "__truncdfhf2", "__extendhfsf2")


def runtime_object(target: CpuTarget) -> bytes:
    """An object file with `FUNCTIONS`, to link with compiled code that stands alone."""
    return compile_object(_IR, target)


@cache
def runtime() -> LoadedObject:
    """`FUNCTIONS` in this process."""
    return load_object(runtime_object(CpuTarget.host()), FUNCTIONS)
