builtin.module attributes {lamella.hints = {s13 = 8 : i64}, lamella.decisions = ["@fused_log_softmax_gather_mean_neg_0: fused log_softmax (sum) #2 with log_softmax (max) #1: saves 32 KB of 100 KB", "@fused_log_softmax_gather_mean_neg_0: fused mean (sum) #3 with log_softmax (max) #1 + log_softmax (sum) #2: saves 192 B of 68.3 KB", "@fused_log_softmax_gather_mean_neg_0: fused neg #4 with log_softmax (max) #1 + log_softmax (sum) #2 + mean (sum) #3: saves 10 B of 68.1 KB"]} {
  loop.kernel @fused_log_softmax_gather_mean_neg_0(%x0: !sym.t<[s0, 1000], f32>, %x1: !sym.t<[s0], i64>) outs(%y0: !sym.t<[], f32>, %y1: !sym.t<[s0], f32>, %y2: !sym.t<[s0], f32>) sizes [s0] grid [] attributes {ops = ["aten._log_softmax", "aten.gather", "aten.mean", "aten.neg"], bytes = #loop.index<[4016*s0 + 4]>, flops = #loop.index<[4005*s0 + 3]>} {
    loop.for [d0 = s0] {
      %0 = loop.for [r0 = 1000] reduce [max] attributes {vector = "r0", lanes = 16 : i64, unroll = 4 : i64} {
        %1 = loop.load %x0[d0, r0] : !sym.t<[s0, 1000], f32>
        loop.yield %1 : f32
      } : f32
      loop.store %0, %y1[d0] : !sym.t<[s0], f32>
      loop.yield
    }
    loop.for [d0 = s0] attributes {vector = "d0", lanes = 16 : i64, unroll = 4 : i64} {
      %2 = loop.load %y1[d0] : !sym.t<[s0], f32>
      %3 = loop.for [r0 = 1000] reduce [add] {
        %4 = loop.load %x0[d0, r0] : !sym.t<[s0, 1000], f32>
        %5 = arith.subf %4, %2 : f32
        %6 = math.exp %5 : f32
        loop.yield %6 : f32
      } : f32
      loop.store %3, %y2[d0] : !sym.t<[s0], f32>
      loop.yield
    }
    %7 = loop.index [1000]
    %8 = arith.constant 0.000000e+00 : f32
    %9 = loop.for [d0 = s0] reduce [add] attributes {vector = "d0", lanes = 16 : i64, unroll = 2 : i64} {
      %10 = loop.load %x1[d0] : !sym.t<[s0], i64>
      %11 = arith.cmpi ult, %10, %7 : i64
      loop.assert %11, "RuntimeError: index is out of bounds for dimension 1 with size 1000"
      %12 = loop.load %x0[d0, v0](%10) if %11 : !sym.t<[s0, 1000], f32>
      %13 = loop.load %y1[d0] if %11 : !sym.t<[s0], f32>
      %14 = arith.subf %12, %13 : f32
      %15 = loop.load %y2[d0] if %11 : !sym.t<[s0], f32>
      %16 = math.log %15 : f32
      %17 = arith.subf %14, %16 : f32
      %18 = arith.select %11, %17, %8 : f32
      loop.yield %18 : f32
    } : f32
    %19 = loop.index [s0]
    %20 = arith.sitofp %19 : i64 to f32
    %21 = arith.divf %9, %20 : f32
    %22 = arith.negf %21 : f32
    loop.store %22, %y0[] : !sym.t<[], f32>
    loop.end
  }
  func.func @main(%x: !sym.t<[s13, 1000], f32>, %t: !sym.t<[s13], i64>) -> !sym.t<[], f32> {
    %0, %1, %2 = loop.launch @fused_log_softmax_gather_mean_neg_0(%x, %t) sizes [s13] : (!sym.t<[s13, 1000], f32>, !sym.t<[s13], i64>) -> (!sym.t<[], f32>, !sym.t<[s13], f32>, !sym.t<[s13], f32>)
    func.return %0 : !sym.t<[], f32>
  }
}
