builtin.module attributes {lamella.hints = {s77 = 4 : i64}, lamella.decisions = ["@softmax_0: fused softmax #2 with softmax (max) #1: saves 16.4 KB of 75.8 KB", "@softmax_0: fused softmax (sum) #3 with softmax (max) #1 + softmax #2: saves 16.4 KB of 75.8 KB", "@softmax_0: fused softmax #4 with softmax (max) #1 + softmax #2 + softmax (sum) #3: saves 41 KB of 109 KB"]} {
  loop.kernel @softmax_0(%x0: !sym.t<[s0, 1024], f32>) outs(%y0: !sym.t<[s0, 1024], f32>) sizes [s0] grid [d0 = s0] attributes {ops = ["aten._softmax"], bytes = #loop.index<[8192*s0]>, flops = #loop.index<[5120*s0]>, grain = 3 : i64} {
    %0 = loop.scratch : !sym.t<[1024], f32>
    %1 = loop.for [d1 = 1024] reduce [max] attributes {vector = "d1", lanes = 16 : i64, unroll = 4 : i64} {
      %2 = loop.load %x0[d0, d1] : !sym.t<[s0, 1024], f32>
      loop.yield %2 : f32
    } : f32
    %3 = loop.for [d1 = 1024] reduce [add] attributes {vector = "d1", lanes = 16 : i64, unroll = 2 : i64} {
      %4 = loop.load %x0[d0, d1] : !sym.t<[s0, 1024], f32>
      %5 = arith.subf %4, %1 : f32
      %6 = math.exp %5 : f32
      loop.store %6, %0[d1] : !sym.t<[1024], f32>
      loop.yield %6 : f32
    } : f32
    loop.for [d1 = 1024] attributes {vector = "d1", lanes = 16 : i64, unroll = 2 : i64} {
      %7 = loop.load %0[d1] : !sym.t<[1024], f32>
      %8 = arith.divf %7, %3 : f32
      loop.store %8, %y0[d0, d1] : !sym.t<[s0, 1024], f32>
      loop.yield
    }
    loop.end
  }
  func.func @main(%x: !sym.t<[s77, 1024], f32>) -> !sym.t<[s77, 1024], f32> {
    %0 = loop.launch @softmax_0(%x) sizes [s77] : (!sym.t<[s77, 1024], f32>) -> !sym.t<[s77, 1024], f32>
    func.return %0 : !sym.t<[s77, 1024], f32>
  }
}
