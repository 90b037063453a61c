// RUN: lamella-opt %s | filecheck %s
// RUN: lamella-opt %s | lamella-opt - | filecheck %s

// CHECK-LABEL: loop.kernel @softmax_0(%x: !sym.t<[s0, 1024], f32>) outs(%y: !sym.t<[s0, 1024], f32>) sizes [s0] grid [d0 = s0] attributes {grain = 4 : i64} {
// CHECK-NEXT:    %m = loop.for [r0 = 1024] reduce [max] {
// CHECK-NEXT:      %0 = loop.load %x[d0, r0] : !sym.t<[s0, 1024], f32>
// CHECK-NEXT:      loop.yield %0 : f32
// CHECK-NEXT:    } : f32
// CHECK-NEXT:    %e = loop.scratch : !sym.t<[1024], f32>
// CHECK-NEXT:    %s = loop.for [r0 = 1024] reduce [add] attributes {lanes = 16 : i64, vector = "r0"} {
// CHECK:           loop.store %{{.*}}, %e[r0] : !sym.t<[1024], f32>
// CHECK:         loop.for [b = floordiv(s0 + 63, 64), d1 = 64*b : min(s0, 64*b + 64)] {
// CHECK:           loop.yield
// CHECK:           loop.sort %{{.*}} into %o along d1 first [8] : !sym.t<[136], i64>
// CHECK:         loop.for [d1 = 1024] {
// CHECK:           loop.store %{{.*}}, %y[d0, d1] mask [lt(d1, 1000)] if %{{.*}} combine add atomic : !sym.t<[s0, 1024], f32>
// CHECK:         loop.end
loop.kernel @softmax_0(%x: !sym.t<[s0, 1024], f32>) outs(%y: !sym.t<[s0, 1024], f32>) sizes [s0] grid [d0 = s0] attributes {grain = 4 : i64} {
  %m = loop.for [r0 = 1024] reduce [max] {
    %0 = loop.load %x[d0, r0] : !sym.t<[s0, 1024], f32>
    loop.yield %0 : f32
  } : f32
  %e = loop.scratch : !sym.t<[1024], f32>
  %s = loop.for [r0 = 1024] reduce [add] attributes {lanes = 16 : i64, vector = "r0"} {
    %0 = loop.load %x[d0, r0] : !sym.t<[s0, 1024], f32>
    %1 = arith.subf %0, %m : f32
    %2 = math.exp %1 : f32
    loop.store %2, %e[r0] : !sym.t<[1024], f32>
    loop.yield %2 : f32
  } : f32
  loop.for [b = floordiv(s0 + 63, 64), d1 = 64*b : min(s0, 64*b + 64)] {
    loop.yield
  }
  %o = loop.scratch : !sym.t<[136], i64>
  loop.for [d1 = 1024] {
    %k = loop.index [d1]
    loop.sort %k into %o along d1 first [8] : !sym.t<[136], i64>
    loop.yield
  }
  loop.for [d1 = 1024] {
    %3 = loop.load %e[d1] : !sym.t<[1024], f32>
    %4 = arith.divf %3, %s : f32
    %5 = loop.scan add %4 along d1 : f32
    %ok = loop.pred [ge(d1, 1)]
    loop.store %5, %y[d0, d1] mask [lt(d1, 1000)] if %ok combine add atomic : !sym.t<[s0, 1024], f32>
    loop.yield
  }
  loop.end
}

// CHECK-LABEL: func.func @main
func.func @main(%x: !sym.t<[s77, 1024], f32>, %i: !sym.t<[s77], i64>) -> !sym.t<[s77, 1024], f32> {
  // CHECK: %y = loop.launch @softmax_0(%x) sizes [s77] : (!sym.t<[s77, 1024], f32>) -> !sym.t<[s77, 1024], f32>
  %y = loop.launch @softmax_0(%x) sizes [s77] : (!sym.t<[s77, 1024], f32>) -> !sym.t<[s77, 1024], f32>
  // CHECK: %g = loop.nest [d0 = s77, d1 = 2, d2 = 512] out [d0, 512*d1 + d2] {
  %g = loop.nest [d0 = s77, d1 = 2, d2 = 512] out [d0, 512*d1 + d2] {
    // CHECK: loop.index [2*d0 + s77]
    // CHECK: loop.assert %{{.*}}, "index out of range"
    // CHECK: loop.load %y[v0, 512*d1 + d2](%{{.*}}) mask [lt(d1, 1)] if %{{.*}} other 1.000000e+00 : f32 : !sym.t<[s77, 1024], f32>
    // CHECK: loop.fn erfinv(%{{.*}}) : f32
    %0 = loop.load %i[d0] : !sym.t<[s77], i64>
    %1 = loop.index [2*d0 + s77]
    %2 = arith.cmpi ult, %0, %1 : i64
    loop.assert %2, "index out of range"
    %3 = loop.load %y[v0, 512*d1 + d2](%0) mask [lt(d1, 1)] if %2 other 1.0 : f32 : !sym.t<[s77, 1024], f32>
    %4 = loop.fn erfinv(%3) : f32
    loop.yield %4 : f32
  } : !sym.t<[s77, 1024], f32>
  // CHECK: %mean, %m2 = loop.nest [d0 = s77] reduce [r0 = 1024] combine [welford] {
  %mean, %m2 = loop.nest [d0 = s77] reduce [r0 = 1024] combine [welford] {
    %0 = loop.load %g[d0, r0] : !sym.t<[s77, 1024], f32>
    loop.yield %0 : f32
  } : !sym.t<[s77], f32>, !sym.t<[s77], f32>
  // CHECK: %c = loop.nest [d0 = s77] scan d0 combine [add] {
  %c = loop.nest [d0 = s77] scan d0 combine [add] {
    %0 = loop.load %mean[d0] : !sym.t<[s77], f32>
    loop.yield %0 : f32
  } : !sym.t<[s77], f32>
  // CHECK: %l = loop.nest [d0 = s77, d1 = 4] reduce [r0 = 1024] scan d1 combine [sort] {
  %l = loop.nest [d0 = s77, d1 = 4] reduce [r0 = 1024] scan d1 combine [sort] {
    %0 = loop.index [r0]
    loop.yield %0 : i64
  } : !sym.t<[s77, 4], i64>
  // CHECK: %t = loop.scatter %g [d0 = s77] combine add {
  // CHECK: loop.yield_at %{{.*}}[v0, 3](%{{.*}}) : f32
  // CHECK: } : !sym.t<[s77, 1024], f32> -> !sym.t<[s77, 1024], f32>
  %t = loop.scatter %g [d0 = s77] combine add {
    %0 = loop.load %i[d0] : !sym.t<[s77], i64>
    %1 = loop.load %c[d0] : !sym.t<[s77], f32>
    loop.yield_at %1[v0, 3](%0) : f32
  } : !sym.t<[s77, 1024], f32> -> !sym.t<[s77, 1024], f32>
  // CHECK: loop.view %t offset [1] : !sym.t<[s77, 1024], f32> -> !sym.t<[s77, 512], f32, strides=[1024, 2]>
  %v = loop.view %t offset [1] : !sym.t<[s77, 1024], f32> -> !sym.t<[s77, 512], f32, strides=[1024, 2]>
  func.return %t : !sym.t<[s77, 1024], f32>
}
