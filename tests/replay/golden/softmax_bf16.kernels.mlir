builtin.module attributes {lamella.hints = {s77 = 4 : i64}, lamella.decisions = ["@softmax_0: fused softmax #2 with softmax (max) #1: saves 8.23 KB of 59.4 KB", "@softmax_0: fused softmax (sum) #3 with softmax (max) #1 + softmax #2: saves 16.4 KB of 67.6 KB", "@softmax_0: fused softmax #4 with softmax (max) #1 + softmax #2 + softmax (sum) #3: saves 41 KB of 90.2 KB"]} {
  loop.kernel @softmax_0(%x0: !sym.t<[s0, 1024], bf16>) outs(%y0: !sym.t<[s0, 1024], bf16>) sizes [s0] grid [d0 = s0] attributes {ops = ["aten._softmax"], bytes = #loop.index<[4096*s0]>, flops = #loop.index<[8192*s0]>, sides = 2 : i64, grain = 3 : i64} {
    %0 = loop.scratch : !sym.t<[1024], f32>
    %1 = loop.for [d1 = 1024] reduce [max] attributes {vector = "d1", lanes = 32 : i64, unroll = 4 : i64} {
      %2 = loop.load %x0[d0, d1] : !sym.t<[s0, 1024], bf16>
      loop.yield %2 : bf16
    } : bf16
    %3 = arith.extf %1 : bf16 to f32
    %4 = loop.for [d1 = 1024] reduce [add] attributes {vector = "d1", lanes = 16 : i64, unroll = 2 : i64, apart} {
      %5 = loop.load %x0[d0, d1] : !sym.t<[s0, 1024], bf16>
      %6 = arith.extf %5 : bf16 to f32
      %7 = arith.subf %6, %3 : f32
      %8 = math.exp %7 : f32
      loop.store %8, %0[d1] attributes {apart} : !sym.t<[1024], f32>
      loop.yield %8 : f32
    } : f32
    loop.for [d1 = 1024] attributes {vector = "d1", lanes = 16 : i64, unroll = 2 : i64, apart} {
      %9 = loop.load %0[d1] attributes {apart} : !sym.t<[1024], f32>
      %10 = arith.divf %9, %4 : f32
      %11 = arith.truncf %10 : f32 to bf16
      loop.store %11, %y0[d0, d1] : !sym.t<[s0, 1024], bf16>
      loop.yield
    }
    loop.end
  }
  func.func @main(%x: !sym.t<[s77, 1024], bf16>) -> !sym.t<[s77, 1024], bf16> {
    %0 = loop.launch @softmax_0(%x) sizes [s77] : (!sym.t<[s77, 1024], bf16>) -> !sym.t<[s77, 1024], bf16>
    func.return %0 : !sym.t<[s77, 1024], bf16>
  }
}
