builtin.module attributes {lamella.hints = {s27 = 8 : i64, s77 = 2 : i64}, lamella.decisions = ["@fused_to_copy_pow_mean_rsqrt_0: fused mul #2 with mean (sum) #1: saves 16.5 KB of 79.1 KB"]} {
  loop.kernel @fused_to_copy_pow_mean_rsqrt_0(%x0: !sym.t<[s0*s1, 512], bf16>, %x1: !sym.t<[512], bf16>) outs(%y0: !sym.t<[s0*s1, 512], bf16>) sizes [s0, s1] grid [d0 = s0*s1] attributes {ops = ["aten._to_copy", "aten.pow.Tensor_Scalar", "aten.mean.dim", "aten.add.Tensor", "aten.rsqrt", "aten.mul.Tensor"], bytes = #loop.index<[2048*s0*s1 + 1024]>, flops = #loop.index<[5123*s0*s1]>, grain = 12 : i64} {
    %0 = loop.for [d2 = 512] reduce [add] attributes {vector = "d2", lanes = 16 : i64, unroll = 4 : i64, apart} {
      %1 = loop.load %x0[d0, d2] : !sym.t<[s0*s1, 512], bf16>
      %2 = arith.extf %1 : bf16 to f32
      %3 = arith.mulf %2, %2 : f32
      loop.yield %3 : f32
    } : f32
    %4 = arith.constant 5.120000e+02 : f32
    %5 = arith.divf %0, %4 : f32
    %6 = arith.constant 1.000000e-06 : f32
    %7 = arith.addf %5, %6 : f32
    %8 = math.rsqrt %7 : f32
    loop.for [d2 = 512] attributes {vector = "d2", lanes = 16 : i64, unroll = 2 : i64, apart} {
      %9 = loop.load %x0[d0, d2] : !sym.t<[s0*s1, 512], bf16>
      %10 = arith.extf %9 : bf16 to f32
      %11 = arith.mulf %10, %8 : f32
      %12 = arith.truncf %11 : f32 to bf16
      %13 = arith.extf %12 : bf16 to f32
      %14 = loop.load %x1[d2] : !sym.t<[512], bf16>
      %15 = arith.extf %14 : bf16 to f32
      %16 = arith.mulf %13, %15 : f32
      %17 = arith.truncf %16 : f32 to bf16
      loop.store %17, %y0[d0, d2] : !sym.t<[s0*s1, 512], bf16>
      loop.yield
    }
    loop.end
  }
  func.func @main(%x: !sym.t<[s77, s27, 512], bf16>, %w: !sym.t<[512], bf16>) -> !sym.t<[s77, s27, 512], bf16> {
    %0 = loop.launch @fused_to_copy_pow_mean_rsqrt_0(%x, %w) sizes [s77, s27] : (!sym.t<[s77, s27, 512], bf16>, !sym.t<[512], bf16>) -> !sym.t<[s77, s27, 512], bf16>
    func.return %0 : !sym.t<[s77, s27, 512], bf16>
  }
}
