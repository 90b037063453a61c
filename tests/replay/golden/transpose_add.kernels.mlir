builtin.module attributes {lamella.decisions = []} {
  loop.kernel @add_0(%x0: !sym.t<[64, 32], f32>, %x1: !sym.t<[32, 64], f32>) outs(%y0: !sym.t<[32, 64], f32, strides=[1, 32]>) sizes [] grid [] attributes {ops = ["aten.add.Tensor"], bytes = #loop.index<[24576]>, flops = #loop.index<[2048]>} {
    %0 = loop.scratch : !sym.t<[64, 64], f32>
    loop.for [d0 = 32, d1 = 64] attributes {transpose = 16 : i64} {
      %1 = loop.load %x1[d0, d1] attributes {level = 2 : i64, prefetch = 16384 : i64} : !sym.t<[32, 64], f32>
      loop.store %1, %0[d1, d0] : !sym.t<[64, 64], f32>
      loop.yield
    }
    loop.for [d1 = 64, d0 = 32] attributes {vector = "d0", lanes = 16 : i64, unroll = 2 : i64} {
      %2 = loop.load %x0[d1, d0] : !sym.t<[64, 32], f32>
      %3 = loop.load %0[d1, d0] : !sym.t<[64, 64], f32>
      %4 = arith.addf %2, %3 : f32
      loop.store %4, %y0[d0, d1] : !sym.t<[32, 64], f32, strides=[1, 32]>
      loop.yield
    }
    loop.end
  }
  func.func @main(%x: !sym.t<[64, 32], f32>, %y: !sym.t<[32, 64], f32>) -> !sym.t<[32, 64], f32, strides=[1, 32]> {
    %0 = loop.launch @add_0(%x, %y) sizes [] : (!sym.t<[64, 32], f32>, !sym.t<[32, 64], f32>) -> !sym.t<[32, 64], f32, strides=[1, 32]>
    func.return %0 : !sym.t<[32, 64], f32, strides=[1, 32]>
  }
}
