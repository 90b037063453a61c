builtin.module attributes {lamella.decisions = []} {
  loop.kernel @fused_batch_norm_legit_no_training_relu_0(%x0: !sym.t<[128, 16], f32>, %x1: !sym.t<[16], f32>, %x2: !sym.t<[16], f32>, %x3: !sym.t<[16], f32>, %x4: !sym.t<[16], f32>) outs(%y0: !sym.t<[128, 16], f32>) sizes [] grid [] attributes {ops = ["aten._native_batch_norm_legit_no_training", "aten.relu"], bytes = #loop.index<[16640]>, flops = #loop.index<[18432]>} {
    %0 = arith.constant 1.000000e-05 : f32
    %1 = arith.constant 1.000000e+00 : f32
    %2 = arith.constant 0.000000e+00 : f32
    loop.for [d0 = 128, d1 = 16] attributes {vector = "d1", lanes = 16 : i64, unroll = 2 : i64} {
      %3 = loop.load %x0[d0, d1] : !sym.t<[128, 16], f32>
      %4 = loop.load %x1[d1] : !sym.t<[16], f32>
      %5 = arith.addf %4, %0 : f32
      %6 = math.sqrt %5 : f32
      %7 = arith.divf %1, %6 : f32
      %8 = loop.load %x2[d1] : !sym.t<[16], f32>
      %9 = arith.mulf %7, %8 : f32
      %10 = arith.mulf %3, %9 : f32
      %11 = loop.load %x3[d1] : !sym.t<[16], f32>
      %12 = loop.load %x4[d1] : !sym.t<[16], f32>
      %13 = arith.mulf %12, %9 : f32
      %14 = arith.subf %11, %13 : f32
      %15 = arith.addf %10, %14 : f32
      %16 = arith.cmpf olt, %15, %2 : f32
      %17 = arith.select %16, %2, %15 : f32
      loop.store %17, %y0[d0, d1] : !sym.t<[128, 16], f32>
      loop.yield
    }
    loop.end
  }
  func.func @main(%x: !sym.t<[2, 16, 8, 8], f32, strides=[1024, 1, 128, 16]>, %m: !sym.t<[16], f32>, %v: !sym.t<[16], f32>, %w: !sym.t<[16], f32>, %b: !sym.t<[16], f32>) -> !sym.t<[2, 16, 8, 8], f32, strides=[1024, 1, 128, 16]> {
    %0 = loop.launch @fused_batch_norm_legit_no_training_relu_0(%x, %v, %w, %b, %m) sizes [] : (!sym.t<[2, 16, 8, 8], f32, strides=[1024, 1, 128, 16]>, !sym.t<[16], f32>, !sym.t<[16], f32>, !sym.t<[16], f32>, !sym.t<[16], f32>) -> !sym.t<[2, 16, 8, 8], f32, strides=[1024, 1, 128, 16]>
    func.return %0 : !sym.t<[2, 16, 8, 8], f32, strides=[1024, 1, 128, 16]>
  }
}
