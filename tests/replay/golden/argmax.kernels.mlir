builtin.module attributes {lamella.hints = {s77 = 8 : i64}, lamella.decisions = []} {
  loop.kernel @argmax_0(%x0: !sym.t<[s0, 1000], f32>) outs(%y0: !sym.t<[s0], i64>) sizes [s0] grid [d0 = s0] attributes {ops = ["aten.argmax"], bytes = #loop.index<[4008*s0]>, flops = #loop.index<[1000*s0]>, grain = 17 : i64} {
    %0 = loop.for [r0 = 1000] reduce [argmax] attributes {vector = "r0", lanes = 16 : i64, unroll = 4 : i64} {
      %1 = loop.load %x0[d0, r0] : !sym.t<[s0, 1000], f32>
      loop.yield %1 : f32
    } : i64
    loop.store %0, %y0[d0] : !sym.t<[s0], i64>
    loop.end
  }
  func.func @main(%x: !sym.t<[s77, 1000], f32>) -> !sym.t<[s77], i64> {
    %0 = loop.launch @argmax_0(%x) sizes [s77] : (!sym.t<[s77, 1000], f32>) -> !sym.t<[s77], i64>
    func.return %0 : !sym.t<[s77], i64>
  }
}
