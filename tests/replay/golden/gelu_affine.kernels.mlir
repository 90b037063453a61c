builtin.module attributes {lamella.hints = {s77 = 4 : i64}, lamella.decisions = []} {
  loop.kernel @fused_mul_add_gelu_0(%x0: !sym.t<[s0, 256], f32>, %x1: !sym.t<[256], f32>, %x2: !sym.t<[256], f32>) outs(%y0: !sym.t<[s0, 256], f32>) sizes [s0] grid [b0 = floordiv(s0 + 15, 16)] attributes {ops = ["aten.mul.Tensor", "aten.add.Tensor", "aten.gelu"], bytes = #loop.index<[2048*s0 + 2048]>, flops = #loop.index<[1792*s0]>, grain = 1 : i64} {
    %0 = arith.constant 5.000000e-01 : f32
    %1 = arith.constant 0.707106769 : f32
    %2 = arith.constant 1.000000e+00 : f32
    loop.for [d0 = 16*b0 : min(s0, 16*b0 + 16), d1 = 256] attributes {vector = "d1", lanes = 16 : i64, unroll = 2 : i64} {
      %3 = loop.load %x0[d0, d1] : !sym.t<[s0, 256], f32>
      %4 = loop.load %x1[d1] : !sym.t<[256], f32>
      %5 = arith.mulf %3, %4 : f32
      %6 = loop.load %x2[d1] : !sym.t<[256], f32>
      %7 = arith.addf %5, %6 : f32
      %8 = arith.mulf %7, %0 : f32
      %9 = arith.mulf %7, %1 : f32
      %10 = math.erf %9 : f32
      %11 = arith.addf %10, %2 : f32
      %12 = arith.mulf %8, %11 : f32
      loop.store %12, %y0[d0, d1] : !sym.t<[s0, 256], f32>
      loop.yield
    }
    loop.end
  }
  func.func @main(%x: !sym.t<[s77, 256], f32>, %a: !sym.t<[256], f32>, %b: !sym.t<[256], f32>) -> !sym.t<[s77, 256], f32> {
    %0 = loop.launch @fused_mul_add_gelu_0(%x, %a, %b) sizes [s77] : (!sym.t<[s77, 256], f32>, !sym.t<[256], f32>, !sym.t<[256], f32>) -> !sym.t<[s77, 256], f32>
    func.return %0 : !sym.t<[s77, 256], f32>
  }
}
