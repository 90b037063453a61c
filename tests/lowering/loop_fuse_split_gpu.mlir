// RUN: lamella-opt %s --split-input-file -p 'loop-fuse{threads=264 rows=512 hold=131072 launch=3.0 fork=0.0}' | filecheck %s
// Columns over two dims, on a GPU: parts are runs of at least 512 rows.

// CHECK:      loop.kernel @sum_0(%x0: !sym.t<[8, 1024, 768], f32>) outs(%y0: !sym.t<[8, 2, 768], f32>)
// CHECK-SAME:   grid [d0 = 8, d1 = 2, d2 = 768]
// CHECK-NEXT:   loop.for [r0 = d0 : d0 + 1, r1 = 512*d1 : 512*d1 + 512] reduce [add]
// CHECK:      loop.kernel @sum_1(%x0: !sym.t<[8, 2, 768], f32>) outs(%y0: !sym.t<[768], f32>)
func.func @main(%x: !sym.t<[8, 1024, 768], f32>) -> !sym.t<[768], f32> {
  %0 = loop.nest [d0 = 768] reduce [r0 = 8, r1 = 1024] combine [add] {
    %a = loop.load %x[r0, r1, d0] : !sym.t<[8, 1024, 768], f32>
    loop.yield %a : f32
  } : !sym.t<[768], f32> loc("aten.sum"("model.py":1:1))
  func.return %0 : !sym.t<[768], f32>
}

// -----

// An image has 3136 points, and 64 images of 64 channels are too few parts for all programs: each is cut in four.

// CHECK:      loop.kernel @sum_0(%x0: !sym.t<[64, 56, 56, 64], f32>) outs(%y0: !sym.t<[64, 4, 64], f32>)
// CHECK-SAME:   grid [d0 = 64, d1 = 4, d2 = 64]
// CHECK-NEXT:   loop.for [r0 = d0 : d0 + 1, r1 = 14*d1 : 14*d1 + 14, r2 = 56] reduce [add]
// CHECK-NEXT:     loop.load %x0[r0, r1, r2, d2]
// CHECK:      loop.kernel @sum_1(%x0: !sym.t<[64, 4, 64], f32>) outs(%y0: !sym.t<[64], f32>)
// CHECK-NEXT:   loop.for [r0 = 64, r1 = 4] reduce [add]
func.func @main(%x: !sym.t<[64, 56, 56, 64], f32>) -> !sym.t<[64], f32> {
  %0 = loop.nest [d0 = 64] reduce [r0 = 64, r1 = 56, r2 = 56] combine [add] {
    %a = loop.load %x[r0, r1, r2, d0] : !sym.t<[64, 56, 56, 64], f32>
    loop.yield %a : f32
  } : !sym.t<[64], f32> loc("aten.sum"("model.py":1:1))
  func.return %0 : !sym.t<[64], f32>
}

// -----

// Of 1024 channels there are enough parts without.

// CHECK:      loop.kernel @sum_0(%x0: !sym.t<[64, 56, 56, 1024], f32>) outs(%y0: !sym.t<[64, 1024], f32>)
func.func @main(%x: !sym.t<[64, 56, 56, 1024], f32>) -> !sym.t<[1024], f32> {
  %0 = loop.nest [d0 = 1024] reduce [r0 = 64, r1 = 56, r2 = 56] combine [add] {
    %a = loop.load %x[r0, r1, r2, d0] : !sym.t<[64, 56, 56, 1024], f32>
    loop.yield %a : f32
  } : !sym.t<[1024], f32> loc("aten.sum"("model.py":1:1))
  func.return %0 : !sym.t<[1024], f32>
}

// -----

// Parts that are not all as long: 13 rows and, of the last, one.

// CHECK:      outs(%y0: !sym.t<[64, 5, 64], f32>)
// CHECK:        loop.for [r0 = d0 : d0 + 1, r1 = 13*d1 : min(53, 13*d1 + 13), r2 = 50] reduce [add]
func.func @main(%x: !sym.t<[64, 53, 50, 64], f32>) -> !sym.t<[64], f32> {
  %0 = loop.nest [d0 = 64] reduce [r0 = 64, r1 = 53, r2 = 50] combine [add] {
    %a = loop.load %x[r0, r1, r2, d0] : !sym.t<[64, 53, 50, 64], f32>
    loop.yield %a : f32
  } : !sym.t<[64], f32> loc("aten.sum"("model.py":1:1))
  func.return %0 : !sym.t<[64], f32>
}

// -----

// The outer dim is cut even where another is longer: parts stay runs of rows.

// CHECK:      outs(%y0: !sym.t<[64, 4, 64], f32>)
// CHECK:        loop.for [r0 = d0 : d0 + 1, r1 = 28*d1 : 28*d1 + 28, r2 = 112] reduce [add]
func.func @main(%x: !sym.t<[64, 112, 112, 64], f32>) -> !sym.t<[64], f32> {
  %0 = loop.nest [d0 = 64] reduce [r0 = 64, r1 = 112, r2 = 112] combine [add] {
    %a = loop.load %x[r0, r1, r2, d0] : !sym.t<[64, 112, 112, 64], f32>
    loop.yield %a : f32
  } : !sym.t<[64], f32> loc("aten.sum"("model.py":1:1))
  func.return %0 : !sym.t<[64], f32>
}

// -----

// Images too small for a part go together, as many in each.

// CHECK:      outs(%y0: !sym.t<[16, 1024], f32>)
// CHECK:        loop.for [r0 = 4*d0 : 4*d0 + 4, r1 = 14, r2 = 14] reduce [add]
func.func @main(%x: !sym.t<[64, 14, 14, 1024], f32>) -> !sym.t<[1024], f32> {
  %0 = loop.nest [d0 = 1024] reduce [r0 = 64, r1 = 14, r2 = 14] combine [add] {
    %a = loop.load %x[r0, r1, r2, d0] : !sym.t<[64, 14, 14, 1024], f32>
    loop.yield %a : f32
  } : !sym.t<[1024], f32> loc("aten.sum"("model.py":1:1))
  func.return %0 : !sym.t<[1024], f32>
}

// -----

// Of very many channels no image is cut.

// CHECK:      outs(%y0: !sym.t<[8, 50304], f32>)
// CHECK:        loop.for [r0 = d0 : d0 + 1, r1 = 1024] reduce [add]
func.func @main(%x: !sym.t<[8, 1024, 50304], f32>) -> !sym.t<[50304], f32> {
  %0 = loop.nest [d0 = 50304] reduce [r0 = 8, r1 = 1024] combine [add] {
    %a = loop.load %x[r0, r1, d0] : !sym.t<[8, 1024, 50304], f32>
    loop.yield %a : f32
  } : !sym.t<[50304], f32> loc("aten.sum"("model.py":1:1))
  func.return %0 : !sym.t<[50304], f32>
}
