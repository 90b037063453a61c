builtin.module attributes {lamella.hints = {s48 = 8 : i64, s58 = 2 : i64}, lamella.decisions = []} {
  loop.kernel @fused_embedding_add_0(%x0: !sym.t<[s0, s1], i64>, %x1: !sym.t<[100, 64], f32>, %x2: !sym.t<[s1, 64], f32>) outs(%y0: !sym.t<[s0, s1, 64], f32>) sizes [s0, s1] grid [d0 = s0, b0 = floordiv(s1 + 63, 64)] attributes {ops = ["aten.embedding", "aten.add.Tensor"], bytes = #loop.index<[520*s0*s1 + 256*s1]>, flops = #loop.index<[64*s0*s1]>, grain = 1 : i64} {
    %0 = loop.index [100]
    loop.for [d1 = 64*b0 : min(s1, 64*b0 + 64), d2 = 64] attributes {vector = "d2", lanes = 16 : i64, unroll = 2 : i64} {
      %1 = loop.load %x0[d0, d1] : !sym.t<[s0, s1], i64>
      %2 = arith.cmpi ult, %1, %0 : i64
      loop.assert %2, "index out of range in self"
      %3 = loop.load %x1[v0, d2](%1) if %2 other 0.000000e+00 : f32 : !sym.t<[100, 64], f32>
      %4 = loop.load %x2[d1, d2] : !sym.t<[s1, 64], f32>
      %5 = arith.addf %3, %4 : f32
      loop.store %5, %y0[d0, d1, d2] : !sym.t<[s0, s1, 64], f32>
      loop.yield
    }
    loop.end
  }
  func.func @main(%i: !sym.t<[s58, s48], i64>, %w: !sym.t<[100, 64], f32>, %p: !sym.t<[s48, 64], f32>) -> !sym.t<[s58, s48, 64], f32> {
    %0 = loop.launch @fused_embedding_add_0(%i, %w, %p) sizes [s58, s48] : (!sym.t<[s58, s48], i64>, !sym.t<[100, 64], f32>, !sym.t<[s48, 64], f32>) -> !sym.t<[s58, s48, 64], f32>
    func.return %0 : !sym.t<[s58, s48, 64], f32>
  }
}
