// RUN: lamella-opt %s -p 'prims-to-loop' --split-input-file | filecheck %s

// Views are no nests: their users load through them.

func.func @main(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[16, 4], f32> {
  %0 = prims.transpose %x {perm = [1, 0]} : !sym.t<[s0, 16], f32> -> !sym.t<[16, s0], f32, strides=[1, 16]>
  %1 = prims.slice %0 {start = [0, 2], stop = [16, 10], step = [1, 2]} : !sym.t<[16, s0], f32, strides=[1, 16]> -> !sym.t<[16, 4], f32, strides=[1, 32]>
  %2 = prims.flip %1 {dims = [0]} : !sym.t<[16, 4], f32, strides=[1, 32]> -> !sym.t<[16, 4], f32>
  %3 = prims.exp %2 : !sym.t<[16, 4], f32>
  func.return %3 : !sym.t<[16, 4], f32>
}
// CHECK: loop.nest [d0 = 16, d1 = 4] {
// CHECK-NEXT: loop.load %x[2*d1 + 2, 15 - d0] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: math.exp

// -----
// Splitting a dim leaves plain indices.

func.func @main(%a: !sym.t<[s0, 768], f32>) -> !sym.t<[s0, 12, 64], f32> {
  %x = prims.exp %a : !sym.t<[s0, 768], f32>
  %0 = prims.reshape %x : !sym.t<[s0, 768], f32> -> !sym.t<[s0, 12, 64], f32>
  %1 = prims.exp %0 : !sym.t<[s0, 12, 64], f32>
  func.return %1 : !sym.t<[s0, 12, 64], f32>
}
// CHECK: %[[X:.*]] = loop.nest [d0 = s0, d1 = 768] {
// CHECK: loop.nest [d0 = s0, d1 = 12, d2 = 64] {
// CHECK-NEXT: loop.load %[[X]][d0, 64*d1 + d2]

// -----
// Merging dims of a nest's result splits the dims of the user; `out` says where its values go.

func.func @main(%a: !sym.t<[s0, s1, 768], f32>) -> !sym.t<[s0*s1, 768], f32> {
  %x = prims.exp %a : !sym.t<[s0, s1, 768], f32>
  %0 = prims.reshape %x : !sym.t<[s0, s1, 768], f32> -> !sym.t<[s0*s1, 768], f32>
  %1 = prims.exp %0 : !sym.t<[s0*s1, 768], f32>
  func.return %1 : !sym.t<[s0*s1, 768], f32>
}
// CHECK: %[[X:.*]] = loop.nest [d0 = s0, d1 = s1, d2 = 768] {
// CHECK: loop.nest [d0 = s0, d1 = s1, d2 = 768] out [d0*s1 + d1, d2] {
// CHECK-NEXT: loop.load %[[X]][d0, d1, d2]
// CHECK: } : !sym.t<[s0*s1, 768], f32>

// -----
// Merging dims of a tensor that is there anyway is a view of it.

func.func @main(%x: !sym.t<[s0, s1, 768], f32>) -> !sym.t<[s0*s1, 768], f32> {
  %0 = prims.reshape %x : !sym.t<[s0, s1, 768], f32> -> !sym.t<[s0*s1, 768], f32>
  %1 = prims.exp %0 : !sym.t<[s0*s1, 768], f32>
  func.return %1 : !sym.t<[s0*s1, 768], f32>
}
// CHECK: %[[X:.*]] = loop.view %x offset [0] : !sym.t<[s0, s1, 768], f32> -> !sym.t<[s0*s1, 768], f32>
// CHECK: loop.nest [d0 = s0*s1, d1 = 768] {
// CHECK-NEXT: loop.load %[[X]][d0, d1]

// -----
// Padding is a mask on the load.

func.func @main(%x: !sym.t<[s0], f32>) -> !sym.t<[s0 + 3], f32> {
  %0 = prims.pad %x {low = [2], high = [1], value = 1.0} : !sym.t<[s0], f32> -> !sym.t<[s0 + 3], f32>
  %1 = prims.neg %0 : !sym.t<[s0 + 3], f32>
  func.return %1 : !sym.t<[s0 + 3], f32>
}
// CHECK: loop.nest [d0 = s0 + 3] {
// CHECK-NEXT: loop.load %x[d0 - 2] mask [ge(d0, 2), lt(d0, s0 + 2)] other 1.000000e+00 : f32 : !sym.t<[s0], f32>

// -----
// Parts of a cat are masked loads and a choice between them.

func.func @main(%x: !sym.t<[4, s0], f32>, %y: !sym.t<[4, s1], f32>, %z: !sym.t<[4, 2], f32>) -> !sym.t<[4, s0 + s1 + 2], f32> {
  %0 = prims.cat %x, %y, %z {dim = 1} : !sym.t<[4, s0], f32>, !sym.t<[4, s1], f32>, !sym.t<[4, 2], f32> -> !sym.t<[4, s0 + s1 + 2], f32>
  %1 = prims.neg %0 : !sym.t<[4, s0 + s1 + 2], f32>
  func.return %1 : !sym.t<[4, s0 + s1 + 2], f32>
}
// CHECK: %[[Z:.*]] = loop.load %z[d0, d1 - s0 - s1] mask [ge(d1, s0 + s1)] : !sym.t<[4, 2], f32>
// CHECK-NEXT: %[[PY:.*]] = loop.pred [ge(d1, s0), lt(d1, s0 + s1)]
// CHECK-NEXT: %[[Y:.*]] = loop.load %y[d0, d1 - s0] mask [ge(d1, s0), lt(d1, s0 + s1)]
// CHECK-NEXT: %[[YZ:.*]] = arith.select %[[PY]], %[[Y]], %[[Z]] : f32
// CHECK-NEXT: %[[PX:.*]] = loop.pred [lt(d1, s0)]
// CHECK-NEXT: %[[X:.*]] = loop.load %x[d0, d1] mask [lt(d1, s0)]
// CHECK-NEXT: arith.select %[[PX]], %[[X]], %[[YZ]] : f32

// -----
// A slice that stays in one part of a cat knows nothing of the others.

func.func @main(%x: !sym.t<[32], f32>, %y: !sym.t<[32], f32>) -> !sym.t<[16], f32> {
  %0 = prims.cat %x, %y {dim = 0} : !sym.t<[32], f32> -> !sym.t<[64], f32>
  %1 = prims.slice %0 {start = [40], stop = [56], step = [1]} : !sym.t<[64], f32> -> !sym.t<[16], f32>
  %2 = prims.neg %1 : !sym.t<[16], f32>
  func.return %2 : !sym.t<[16], f32>
}
// CHECK: loop.nest [d0 = 16] {
// CHECK-NEXT: loop.load %y[d0 + 8] : !sym.t<[32], f32>
// CHECK-NEXT: arith.negf

// -----
// Nothing is read of a tensor without elements, whatever a size of data is.

func.func @main(%x: !sym.t<[0], f32>, %y: !sym.t<[s0], f32>) -> !sym.t<[s0], f32> {
  %0 = prims.reshape %x : !sym.t<[0], f32> -> !sym.t<[s0], f32>
  %1 = prims.add %0, %y : !sym.t<[s0], f32>
  func.return %1 : !sym.t<[s0], f32>
}
// CHECK: loop.nest [d0 = s0] {
// CHECK-NOT: loop.load %x
// CHECK: loop.load %y[d0]

// -----
// Dims of which a guard of torch's says that they follow one another are one, where there are steps between elements:
// what is copied has none.

func.func @main(%x: !sym.t<[s0, s1], f32>) -> (!sym.t<[s0, floordiv(s1 + 1, 2)], f32, strides=[s1, 2]>, !sym.t<[1, s0*(floordiv(s1 + 1, 2))], f32, strides=[s0*s1, 2]>) {
  %0 = prims.neg %x : !sym.t<[s0, s1], f32>
  %1 = prims.slice %0 {start = [0, 0], stop = [s0, s1], step = [1, 2]} : !sym.t<[s0, s1], f32> -> !sym.t<[s0, floordiv(s1 + 1, 2)], f32, strides=[s1, 2]>
  %2 = prims.reshape %1 : !sym.t<[s0, floordiv(s1 + 1, 2)], f32, strides=[s1, 2]> -> !sym.t<[1, s0*(floordiv(s1 + 1, 2))], f32, strides=[s0*s1, 2]>
  func.return %1, %2 : !sym.t<[s0, floordiv(s1 + 1, 2)], f32, strides=[s1, 2]>, !sym.t<[1, s0*(floordiv(s1 + 1, 2))], f32, strides=[s0*s1, 2]>
}
// CHECK: %[[N:.*]] = loop.nest [d0 = s0, d1 = s1] {
// CHECK: %[[PART:.*]] = loop.view %[[N]]
// CHECK-NOT: loop.nest
// CHECK: loop.view %[[PART]] {{.*}} strides=[s0*s1, 2]

// -----
// What reads a nest that was split point by point is split as it is: then both unify with what reads its parts.

func.func @main(%a: !sym.t<[2, 3, 8], f32>, %b: !sym.t<[8], f32>) -> (!sym.t<[6, 8], f32>, !sym.t<[2, 3, 8], f32>) {
  %e = prims.exp %a : !sym.t<[2, 3, 8], f32>
  %0 = prims.reshape %e : !sym.t<[2, 3, 8], f32> -> !sym.t<[6, 8], f32>
  %x = prims.neg %0 : !sym.t<[6, 8], f32>
  %1 = prims.broadcast %b {dims = [1]} : !sym.t<[8], f32> -> !sym.t<[6, 8], f32>
  %y = prims.add %x, %1 : !sym.t<[6, 8], f32>
  %2 = prims.reshape %y : !sym.t<[6, 8], f32> -> !sym.t<[2, 3, 8], f32>
  %z = prims.exp %2 : !sym.t<[2, 3, 8], f32>
  func.return %y, %z : !sym.t<[6, 8], f32>, !sym.t<[2, 3, 8], f32>
}
// CHECK: %[[X:.*]] = loop.nest [d0 = 2, d1 = 3, d2 = 8] out [3*d0 + d1, d2] {
// CHECK: } : !sym.t<[6, 8], f32>
// CHECK: %[[Y:.*]] = loop.nest [d0 = 2, d1 = 3, d2 = 8] out [3*d0 + d1, d2] {
// CHECK-NEXT: loop.load %[[X]][3*d0 + d1, d2]
// CHECK-NEXT: loop.load %b[d2]
// CHECK: loop.nest [d0 = 2, d1 = 3, d2 = 8] {
// CHECK-NEXT: loop.load %[[Y]][3*d0 + d1, d2]
