builtin.module attributes {lamella.hints = {s77 = 4 : i64}, lamella.decisions = []} {
  loop.kernel @fused_silu_mul_0(%x0: !sym.t<[s0, 2048], f32>) outs(%y0: !sym.t<[s0, 1024], f32>) sizes [s0] grid [d0 = s0] attributes {ops = ["aten.silu", "aten.mul.Tensor"], bytes = #loop.index<[12288*s0]>, flops = #loop.index<[5120*s0]>, grain = 4 : i64} {
    %0 = arith.constant 1.000000e+00 : f32
    loop.for [d1 = 1024] attributes {vector = "d1", lanes = 16 : i64, unroll = 2 : i64} {
      %1 = loop.load %x0[d0, d1] : !sym.t<[s0, 2048], f32>
      %2 = arith.negf %1 : f32
      %3 = math.exp %2 : f32
      %4 = arith.addf %3, %0 : f32
      %5 = arith.divf %1, %4 : f32
      %6 = loop.load %x0[d0, d1 + 1024] : !sym.t<[s0, 2048], f32>
      %7 = arith.mulf %5, %6 : f32
      loop.store %7, %y0[d0, d1] : !sym.t<[s0, 1024], f32>
      loop.yield
    }
    loop.end
  }
  func.func @main(%x: !sym.t<[s77, 2048], f32>) -> !sym.t<[s77, 1024], f32> {
    %0 = loop.launch @fused_silu_mul_0(%x) sizes [s77] : (!sym.t<[s77, 2048], f32>) -> !sym.t<[s77, 1024], f32>
    func.return %0 : !sym.t<[s77, 1024], f32>
  }
}
