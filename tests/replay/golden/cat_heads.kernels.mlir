builtin.module attributes {lamella.decisions = []} {
  loop.kernel @mul_0(%x0: !sym.t<[2, 5, 16], f32>, %x1: !sym.t<[2, 3, 16], f32>) outs(%y0: !sym.t<[2, 8, 16], f32>) sizes [] grid [] attributes {ops = ["aten.mul.Tensor"], bytes = #loop.index<[2048]>, flops = #loop.index<[512]>} {
    %0 = arith.constant 2.000000e+00 : f32
    loop.for [d0 = 2, d1 = 3, d2 = 16] attributes {vector = "d2", lanes = 16 : i64, unroll = 2 : i64} {
      %1 = loop.load %x1[d0, d1, d2] : !sym.t<[2, 3, 16], f32>
      %2 = arith.mulf %1, %0 : f32
      loop.store %2, %y0[d0, d1, d2] : !sym.t<[2, 8, 16], f32>
      loop.yield
    }
    loop.for [d0 = 2, d1 = 3 : 8, d2 = 16] attributes {vector = "d2", lanes = 16 : i64, unroll = 2 : i64} {
      %3 = loop.load %x0[d0, d1 - 3, d2] : !sym.t<[2, 5, 16], f32>
      %4 = arith.mulf %3, %0 : f32
      loop.store %4, %y0[d0, d1, d2] : !sym.t<[2, 8, 16], f32>
      loop.yield
    }
    loop.end
  }
  func.func @main(%x: !sym.t<[2, 3, 16], f32>, %y: !sym.t<[2, 5, 16], f32>) -> !sym.t<[2, 8, 16], f32> {
    %0 = loop.launch @mul_0(%y, %x) sizes [] : (!sym.t<[2, 5, 16], f32>, !sym.t<[2, 3, 16], f32>) -> !sym.t<[2, 8, 16], f32>
    func.return %0 : !sym.t<[2, 8, 16], f32>
  }
}
