builtin.module attributes {lamella.decisions = []} {
  loop.kernel @sum_0(%x0: !sym.t<[4096, 1024], f32>) outs(%y0: !sym.t<[1024], f32>) sizes [] grid [] attributes {ops = ["aten.sum.dim_IntList"], bytes = #loop.index<[16781312]>, flops = #loop.index<[4194304]>} {
    %0 = loop.scratch : !sym.t<[1024], f32>
    loop.for [d0 = 1024] attributes {vector = "d0", lanes = 16 : i64, unroll = 2 : i64} {
      %1 = arith.constant 0.000000e+00 : f32
      loop.store %1, %0[d0] : !sym.t<[1024], f32>
      loop.yield
    }
    loop.for [b1 = 16, d0 = 1024] attributes {vector = "d0", lanes = 16 : i64, unroll = 4 : i64} {
      %2 = loop.for [r0 = 256*b1 : 256*b1 + 256] reduce [add] {
        %3 = loop.load %x0[r0, d0] attributes {prefetch = 32768 : i64} : !sym.t<[4096, 1024], f32>
        loop.yield %3 : f32
      } : f32
      loop.store %2, %0[d0] combine add : !sym.t<[1024], f32>
      loop.yield
    }
    loop.for [d0 = 1024] attributes {vector = "d0", lanes = 16 : i64, unroll = 2 : i64} {
      %4 = loop.load %0[d0] : !sym.t<[1024], f32>
      loop.store %4, %y0[d0] : !sym.t<[1024], f32>
      loop.yield
    }
    loop.end
  }
  func.func @main(%x: !sym.t<[4096, 1024], f32>) -> !sym.t<[1024], f32> {
    %0 = loop.launch @sum_0(%x) sizes [] : (!sym.t<[4096, 1024], f32>) -> !sym.t<[1024], f32>
    func.return %0 : !sym.t<[1024], f32>
  }
}
