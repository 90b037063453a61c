builtin.module attributes {lamella.hints = {s0 = 8 : i64, s85 = 2 : i64}, lamella.decisions = []} {
  loop.kernel @fused_mul_neg_add_0(%x0: !sym.t<[4*s0, s1, 64], f32>, %x1: !sym.t<[s1, 64], f32>, %x2: !sym.t<[s1, 64], f32>) outs(%y0: !sym.t<[4*s0, s1, 64], f32>) sizes [s0, s1] grid [d0 = 4*s0, b0 = floordiv(s1 + 63, 64)] attributes {ops = ["aten.mul.Tensor", "aten.neg", "aten.add.Tensor"], bytes = #loop.index<[2048*s0*s1 + 512*s1]>, flops = #loop.index<[1536*s0*s1]>, grain = 1 : i64} {
    %0 = arith.constant 0.000000e+00 : f32
    loop.for [d2 = 64*b0 : min(s1, 64*b0 + 64), d3 = 32] attributes {vector = "d3", lanes = 16 : i64, unroll = 2 : i64} {
      %1 = loop.load %x0[d0, d2, d3] : !sym.t<[4*s0, s1, 64], f32>
      %2 = loop.load %x1[d2, d3] : !sym.t<[s1, 64], f32>
      %3 = arith.mulf %1, %2 : f32
      %4 = loop.load %x0[d0, d2, d3 + 32] : !sym.t<[4*s0, s1, 64], f32>
      %5 = arith.negf %4 : f32
      %6 = loop.load %x2[d2, d3] : !sym.t<[s1, 64], f32>
      %7 = arith.mulf %5, %6 : f32
      %8 = arith.addf %3, %7 : f32
      loop.store %8, %y0[d0, d2, d3] : !sym.t<[4*s0, s1, 64], f32>
      loop.yield
    }
    loop.for [d2 = 64*b0 : min(s1, 64*b0 + 64), d3 = 32 : 64] attributes {vector = "d3", lanes = 16 : i64, unroll = 2 : i64} {
      %9 = loop.load %x0[d0, d2, d3] : !sym.t<[4*s0, s1, 64], f32>
      %10 = loop.load %x1[d2, d3] : !sym.t<[s1, 64], f32>
      %11 = arith.mulf %9, %10 : f32
      %12 = loop.load %x0[d0, d2, d3 - 32] : !sym.t<[4*s0, s1, 64], f32>
      %13 = loop.load %x2[d2, d3] : !sym.t<[s1, 64], f32>
      %14 = arith.mulf %12, %13 : f32
      %15 = arith.addf %11, %14 : f32
      loop.store %15, %y0[d0, d2, d3] : !sym.t<[4*s0, s1, 64], f32>
      loop.yield
    }
    loop.end
  }
  func.func @main(%q: !sym.t<[s85, 4, s0, 64], f32>, %cos: !sym.t<[s0, 64], f32>, %sin: !sym.t<[s0, 64], f32>) -> !sym.t<[s85, 4, s0, 64], f32> {
    %0 = loop.launch @fused_mul_neg_add_0(%q, %cos, %sin) sizes [s85, s0] : (!sym.t<[s85, 4, s0, 64], f32>, !sym.t<[s0, 64], f32>, !sym.t<[s0, 64], f32>) -> !sym.t<[s85, 4, s0, 64], f32>
    func.return %0 : !sym.t<[s85, 4, s0, 64], f32>
  }
}
