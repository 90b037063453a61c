builtin.module attributes {lamella.decisions = []} {
  loop.kernel @sum_0(%x0: !sym.t<[4194304], f32>) outs(%y0: !sym.t<[], f32>) sizes [] grid [] attributes {ops = ["aten.sum"], bytes = #loop.index<[16777220]>, flops = #loop.index<[4194304]>} {
    %0 = loop.for [r0 = 4194304] reduce [add] attributes {vector = "r0", lanes = 16 : i64, unroll = 4 : i64} {
      %1 = loop.load %x0[r0] attributes {prefetch = 4096 : i64} : !sym.t<[4194304], f32>
      loop.yield %1 : f32
    } : f32
    loop.store %0, %y0[] : !sym.t<[], f32>
    loop.end
  }
  func.func @main(%x: !sym.t<[4096, 1024], f32>) -> !sym.t<[], f32> {
    %0 = loop.launch @sum_0(%x) sizes [] : (!sym.t<[4096, 1024], f32>) -> !sym.t<[], f32>
    func.return %0 : !sym.t<[], f32>
  }
}
