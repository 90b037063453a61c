// RUN: lamella-opt %s --split-input-file -p 'loop-fuse' | filecheck %s

// Positions in windows of four points, which an update reads, are stored in a byte each.

// CHECK:      loop.kernel @{{.*}}(%x0: !sym.t<[64, 4096], f32>) outs(%y0: !sym.t<[64, 1024], i8>)
// CHECK:        reduce [argmax]
// CHECK:        } : i64
// CHECK:        arith.trunci
// CHECK:      loop.kernel @{{.*}}!sym.t<[64, 1024], i8>, %x
// CHECK:        arith.extsi
// CHECK:        combine add
func.func @main(%x: !sym.t<[64, 4096], f32>, %g: !sym.t<[64, 1024], f32>, %z: !sym.t<[64, 4096], f32>) -> !sym.t<[64, 4096], f32> {
  %p = loop.nest [d0 = 64, d1 = 1024] reduce [r0 = 4] combine [argmax] {
    %0 = loop.load %x[d0, 4*d1 + r0] : !sym.t<[64, 4096], f32>
    loop.yield %0 : f32
  } : !sym.t<[64, 1024], i64>
  %u = loop.scatter %z [d0 = 64, d1 = 1024] combine add {
    %0 = loop.load %p[d0, d1] : !sym.t<[64, 1024], i64>
    %1 = loop.load %g[d0, d1] : !sym.t<[64, 1024], f32>
    loop.yield_at %1[d0, 4*d1 + v0](%0) : f32
  } : !sym.t<[64, 4096], f32> -> !sym.t<[64, 4096], f32>
  func.return %u : !sym.t<[64, 4096], f32>
}

// -----

// Of 129 points two bytes are needed. What is returned stays as it is.

// CHECK:      outs(%y0: !sym.t<[64, 1024], i16>
// CHECK-NOT:  i8
// CHECK-NOT:  i32
// CHECK:      func.func
func.func @main(%x: !sym.t<[64, 4096], f32>, %g: !sym.t<[64, 1024], f32>, %z: !sym.t<[64, 4096], f32>) -> (!sym.t<[64, 4096], f32>, !sym.t<[64, 1024], i64>) {
  %p = loop.nest [d0 = 64, d1 = 1024] reduce [r0 = 129] combine [argmax] {
    %0 = loop.load %x[d0, d1 + r0] : !sym.t<[64, 4096], f32>
    loop.yield %0 : f32
  } : !sym.t<[64, 1024], i64>
  %u = loop.scatter %z [d0 = 64, d1 = 1024] combine add {
    %0 = loop.load %p[d0, d1] : !sym.t<[64, 1024], i64>
    %1 = loop.load %g[d0, d1] : !sym.t<[64, 1024], f32>
    loop.yield_at %1[d0, d1 + v0](%0) : f32
  } : !sym.t<[64, 4096], f32> -> !sym.t<[64, 4096], f32>
  %q = loop.nest [d0 = 64, d1 = 1024] reduce [r0 = 4] combine [argmin] {
    %0 = loop.load %x[d0, 4*d1 + r0] : !sym.t<[64, 4096], f32>
    loop.yield %0 : f32
  } : !sym.t<[64, 1024], i64>
  func.return %u, %q : !sym.t<[64, 4096], f32>, !sym.t<[64, 1024], i64>
}
