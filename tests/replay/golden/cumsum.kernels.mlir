builtin.module attributes {lamella.hints = {s77 = 8 : i64}, lamella.decisions = []} {
  loop.kernel @cumsum_0(%x0: !sym.t<[s0, 100], f32>) outs(%y0: !sym.t<[s0, 100], f32>) sizes [s0] grid [d0 = s0] attributes {ops = ["aten.cumsum"], bytes = #loop.index<[800*s0]>, flops = #loop.index<[0]>, grain = 73 : i64} {
    loop.for [d1 = 100] attributes {vector = "d1", lanes = 16 : i64, unroll = 2 : i64} {
      %0 = loop.load %x0[d0, d1] : !sym.t<[s0, 100], f32>
      %1 = loop.scan add %0 along d1 : f32
      loop.store %1, %y0[d0, d1] : !sym.t<[s0, 100], f32>
      loop.yield
    }
    loop.end
  }
  func.func @main(%x: !sym.t<[s77, 100], f32>) -> !sym.t<[s77, 100], f32> {
    %0 = loop.launch @cumsum_0(%x) sizes [s77] : (!sym.t<[s77, 100], f32>) -> !sym.t<[s77, 100], f32>
    func.return %0 : !sym.t<[s77, 100], f32>
  }
}
