builtin.module attributes {lamella.hints = {s17 = 2 : i64, s27 = 8 : i64}, lamella.decisions = ["@fused_add_layer_norm_0: fused layer_norm (sum) #2 with add #1: saves 49.2 KB of 227 KB", "@fused_add_layer_norm_0: fused layer_norm (sum, sum) #3 with add #1 + layer_norm (sum) #2: saves 49.2 KB of 240 KB", "@fused_add_layer_norm_0: fused layer_norm #4 with add #1 + layer_norm (sum) #2 + layer_norm (sum, sum) #3: saves 123 KB of 345 KB"]} {
  loop.kernel @fused_add_layer_norm_0(%x0: !sym.t<[s0*s1, 768], f32>, %x1: !sym.t<[s0*s1, 768], f32>, %x2: !sym.t<[768], f32>, %x3: !sym.t<[768], f32>) outs(%y0: !sym.t<[s0*s1, 768], f32>) sizes [s0, s1] grid [d0 = s0*s1] attributes {ops = ["aten.add.Tensor", "aten.native_layer_norm"], bytes = #loop.index<[9216*s0*s1 + 6144]>, flops = #loop.index<[7690*s0*s1]>, grain = 3 : i64} {
    %0 = loop.scratch : !sym.t<[768], f32>
    %1 = loop.for [d2 = 768] reduce [add] attributes {vector = "d2", lanes = 16 : i64, unroll = 4 : i64} {
      %2 = loop.load %x0[d0, d2] : !sym.t<[s0*s1, 768], f32>
      %3 = loop.load %x1[d0, d2] : !sym.t<[s0*s1, 768], f32>
      %4 = arith.addf %2, %3 : f32
      loop.store %4, %0[d2] : !sym.t<[768], f32>
      loop.yield %4 : f32
    } : f32
    %5 = arith.constant 7.680000e+02 : f32
    %6 = arith.divf %1, %5 : f32
    %7, %8 = loop.for [d2 = 768] reduce [add, add] attributes {vector = "d2", lanes = 16 : i64, unroll = 4 : i64} {
      %9 = loop.load %0[d2] : !sym.t<[768], f32>
      %10 = arith.subf %9, %6 : f32
      %11 = arith.mulf %10, %10 : f32
      loop.yield %10, %11 : f32, f32
    } : f32, f32
    %12 = arith.constant 3.40282347e+38 : f32
    %13 = arith.constant 0.000000e+00 : f32
    %14 = arith.divf %7, %5 : f32
    %15 = arith.addf %6, %14 : f32
    %16 = arith.mulf %7, %14 : f32
    %17 = arith.minimumf %16, %12 : f32
    %18 = arith.subf %8, %17 : f32
    %19 = arith.maximumf %18, %13 : f32
    %20 = arith.divf %19, %5 : f32
    %21 = arith.constant 1.000000e-05 : f32
    %22 = arith.addf %20, %21 : f32
    %23 = math.rsqrt %22 : f32
    loop.for [d2 = 768] attributes {vector = "d2", lanes = 16 : i64, unroll = 2 : i64} {
      %24 = loop.load %0[d2] : !sym.t<[768], f32>
      %25 = arith.subf %24, %15 : f32
      %26 = arith.mulf %25, %23 : f32
      %27 = loop.load %x2[d2] : !sym.t<[768], f32>
      %28 = arith.mulf %26, %27 : f32
      %29 = loop.load %x3[d2] : !sym.t<[768], f32>
      %30 = arith.addf %28, %29 : f32
      loop.store %30, %y0[d0, d2] : !sym.t<[s0*s1, 768], f32>
      loop.yield
    }
    loop.end
  }
  func.func @main(%x: !sym.t<[s17, s27, 768], f32>, %y: !sym.t<[s17, s27, 768], f32>, %w: !sym.t<[768], f32>, %b: !sym.t<[768], f32>) -> !sym.t<[s17, s27, 768], f32> {
    %0 = loop.launch @fused_add_layer_norm_0(%x, %y, %w, %b) sizes [s17, s27] : (!sym.t<[s17, s27, 768], f32>, !sym.t<[s17, s27, 768], f32>, !sym.t<[768], f32>, !sym.t<[768], f32>) -> !sym.t<[s17, s27, 768], f32>
    func.return %0 : !sym.t<[s17, s27, 768], f32>
  }
}
