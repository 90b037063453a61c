// RUN: lamella-opt %s -p 'loop-fuse{threads=264 rows=512 hold=131072 launch=3.0 fork=0.0}' | filecheck %s
// Columns over two dims, on a GPU: parts along the dim that gives most of at least 512 points, 16 of 8 x 64.

// CHECK:      loop.kernel @sum_0(%x0: !sym.t<[8, 1024, 768], f32>) outs(%y0: !sym.t<[16, 768], f32>)
// CHECK-SAME:   grid [d0 = 16, d1 = 768]
// CHECK-NEXT:   loop.for [r0 = 8, r1 = 64*d0 : 64*d0 + 64] reduce [add]
// CHECK:      loop.kernel @sum_1(%x0: !sym.t<[16, 768], f32>) outs(%y0: !sym.t<[768], f32>)
func.func @main(%x: !sym.t<[8, 1024, 768], f32>) -> !sym.t<[768], f32> {
  %0 = loop.nest [d0 = 768] reduce [r0 = 8, r1 = 1024] combine [add] {
    %a = loop.load %x[r0, r1, d0] : !sym.t<[8, 1024, 768], f32>
    loop.yield %a : f32
  } : !sym.t<[768], f32> loc("aten.sum"("model.py":1:1))
  func.return %0 : !sym.t<[768], f32>
}
