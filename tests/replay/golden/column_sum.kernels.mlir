builtin.module attributes {lamella.decisions = []} {
  loop.kernel @sum_0(%x0: !sym.t<[4096, 1024], f32>) outs(%y0: !sym.t<[1024], f32>) sizes [] grid [b0 = 4] attributes {ops = ["aten.sum.dim_IntList"], bytes = #loop.index<[16781312]>, flops = #loop.index<[4194304]>, grain = 1 : i64} {
    loop.for [d0 = 256*b0 : 256*b0 + 256] attributes {vector = "d0", lanes = 16 : i64, unroll = 16 : i64} {
      %0 = loop.for [r0 = 4096] reduce [add] {
        %1 = loop.load %x0[r0, d0] attributes {prefetch = 32768 : i64} : !sym.t<[4096, 1024], f32>
        loop.yield %1 : f32
      } : f32
      loop.store %0, %y0[d0] : !sym.t<[1024], f32>
      loop.yield
    }
    loop.end
  }
  func.func @main(%x: !sym.t<[4096, 1024], f32>) -> !sym.t<[1024], f32> {
    %0 = loop.launch @sum_0(%x) sizes [] : (!sym.t<[4096, 1024], f32>) -> !sym.t<[1024], f32>
    func.return %0 : !sym.t<[1024], f32>
  }
}
