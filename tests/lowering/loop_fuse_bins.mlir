// RUN: lamella-opt %s --split-input-file -p 'loop-fuse{threads=528 rows=512}' | filecheck %s
// RUN: lamella-opt %s --split-input-file -p 'loop-fuse' | filecheck %s --check-prefix=CPU

// Updates of a GPU that would meet in few places are summed up, for each place once; a CPU makes them one by one.

// CHECK:      loop.kernel @sum_0(%x0: !sym.t<[8192], i64>, %x1: !sym.t<[8192, 768], f32>) outs(%y0: !sym.t<[16, 2, 768], f32>) sizes [] grid [d0 = 16, d1 = 2, d2 = 768]
// CHECK:        %[[ROW:.*]] = loop.index [d1]
// CHECK:        loop.for [r0 = 512*d0 : 512*d0 + 512] reduce [add] {
// CHECK:          %[[HERE:.*]] = arith.cmpi eq, %{{.*}}, %[[ROW]] : i64
// CHECK-NEXT:     arith.select %[[HERE]], %{{.*}}, %{{.*}} : f32
// CHECK:      loop.kernel @fused_sum_add_1(%x0: !sym.t<[16, 2, 768], f32>, %x1: !sym.t<[2, 768], f32>)
// CPU-NOT:    arith.cmpi
// CPU:        combine add
func.func @main(%b: !sym.t<[2, 768], f32>, %g: !sym.t<[8192, 768], f32>, %i: !sym.t<[8192], i64>) -> !sym.t<[2, 768], f32> {
  %0 = loop.scatter %b [d0 = 8192, d1 = 768] combine add {
    %1 = loop.load %i[d0] : !sym.t<[8192], i64>
    %2 = loop.load %g[d0, d1] : !sym.t<[8192, 768], f32>
    loop.yield_at %2[v0, d1](%1) : f32
  } : !sym.t<[2, 768], f32> -> !sym.t<[2, 768], f32>
  func.return %0 : !sym.t<[2, 768], f32>
}

// -----

// Not where there are many places,

// CHECK:      loop.kernel @scatter_0
// CHECK:        combine add
// CPU:        combine add
func.func @main(%b: !sym.t<[65, 768], f32>, %g: !sym.t<[8192, 768], f32>, %i: !sym.t<[8192], i64>) -> !sym.t<[65, 768], f32> {
  %0 = loop.scatter %b [d0 = 8192, d1 = 768] combine add {
    %1 = loop.load %i[d0] : !sym.t<[8192], i64>
    %2 = loop.load %g[d0, d1] : !sym.t<[8192, 768], f32>
    loop.yield_at %2[v0, d1](%1) : f32
  } : !sym.t<[65, 768], f32> -> !sym.t<[65, 768], f32>
  func.return %0 : !sym.t<[65, 768], f32>
}

// -----

// or few updates.

// CHECK:      loop.kernel @scatter_0
// CHECK:        combine add
// CPU:        combine add
func.func @main(%b: !sym.t<[2, 768], f32>, %g: !sym.t<[100, 768], f32>, %i: !sym.t<[100], i64>) -> !sym.t<[2, 768], f32> {
  %0 = loop.scatter %b [d0 = 100, d1 = 768] combine add {
    %1 = loop.load %i[d0] : !sym.t<[100], i64>
    %2 = loop.load %g[d0, d1] : !sym.t<[100, 768], f32>
    loop.yield_at %2[v0, d1](%1) : f32
  } : !sym.t<[2, 768], f32> -> !sym.t<[2, 768], f32>
  func.return %0 : !sym.t<[2, 768], f32>
}
