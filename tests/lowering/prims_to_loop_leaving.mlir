// RUN: lamella-opt %s -p 'prims-to-loop' --split-input-file | filecheck %s

// A view that leaves is a strided view of its storage where that gives the strides of its type.

func.func @main(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[16, s0 - 1], f32, strides=[1, 16]> {
  %0 = prims.slice %x {start = [1, 0], stop = [s0, 16], step = [1, 1]} : !sym.t<[s0, 16], f32> -> !sym.t<[s0 - 1, 16], f32>
  %1 = prims.transpose %0 {perm = [1, 0]} : !sym.t<[s0 - 1, 16], f32> -> !sym.t<[16, s0 - 1], f32, strides=[1, 16]>
  func.return %1 : !sym.t<[16, s0 - 1], f32, strides=[1, 16]>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[V:.*]] = loop.view %x offset [16] : !sym.t<[s0, 16], f32> -> !sym.t<[16, s0 - 1], f32, strides=[1, 16]>
// CHECK-NEXT: func.return %[[V]]

// -----
// So is one by an index.

func.func @main(%x: !sym.t<[s0], u8>) -> !sym.t<[s0 - 2, 2], u8, strides=[1, 1]> {
  %0 = prims.slice %x {start = [1], stop = [s0], step = [1]} : !sym.t<[s0], u8> -> !sym.t<[s0 - 1], u8>
  %1 = prims.subview %0 {index = [d0 + d1]} : !sym.t<[s0 - 1], u8> -> !sym.t<[s0 - 2, 2], u8, strides=[1, 1]>
  func.return %1 : !sym.t<[s0 - 2, 2], u8, strides=[1, 1]>
}
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[V:.*]] = loop.view %x offset [1] : !sym.t<[s0], u8> -> !sym.t<[s0 - 2, 2], u8, strides=[1, 1]>
// CHECK-NEXT: func.return %[[V]]

// -----
// Otherwise a nest copies it.

func.func @main(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[16, s0], f32> {
  %0 = prims.transpose %x {perm = [1, 0]} : !sym.t<[s0, 16], f32> -> !sym.t<[16, s0], f32, strides=[1, 16]>
  %1 = prims.convert %0 : !sym.t<[16, s0], f32, strides=[1, 16]> -> !sym.t<[16, s0], f32>
  func.return %1 : !sym.t<[16, s0], f32>
}
// CHECK: %[[C:.*]] = loop.nest [d0 = 16, d1 = s0] {
// CHECK-NEXT: %[[V:.*]] = loop.load %x[d1, d0]
// CHECK-NEXT: loop.yield %[[V]] : f32
// CHECK-NEXT: } : !sym.t<[16, s0], f32>
// CHECK-NEXT: func.return %[[C]]

// -----
// A copy that leaves is a copy, though its strides would allow a view.

func.func @main(%x: !sym.t<[16], f32>) -> !sym.t<[16], f32> {
  %0 = prims.convert %x : !sym.t<[16], f32>
  func.return %0 : !sym.t<[16], f32>
}
// CHECK: loop.nest [d0 = 16] {
// CHECK-NEXT: loop.load %x[d0]

// -----
// A call that only reads may see the view instead of the copy.

func.func @main(%x: !sym.t<[s0, s1, 16], f32>, %w: !sym.t<[16, 4], f32>) -> !sym.t<[s0*s1, 4], f32> {
  %e = prims.exp %x : !sym.t<[s0, s1, 16], f32>
  %0 = prims.reshape %e : !sym.t<[s0, s1, 16], f32> -> !sym.t<[s0*s1, 16], f32>
  %c = prims.convert %0 : !sym.t<[s0*s1, 16], f32>
  %1 = aten.mm(%c, %w) : (!sym.t<[s0*s1, 16], f32>, !sym.t<[16, 4], f32>) -> !sym.t<[s0*s1, 4], f32>
  func.return %1 : !sym.t<[s0*s1, 4], f32>
}
// CHECK: %[[E:.*]] = loop.nest
// CHECK: %[[V:.*]] = loop.view %[[E]] offset [0] : !sym.t<[s0, s1, 16], f32> -> !sym.t<[s0*s1, 16], f32>
// CHECK-NEXT: aten.mm(%[[V]], %w)

// -----
// What expand repeats is written once.

func.func @main(%x: !sym.t<[4], f32>, %y: !sym.t<[4], f32>, %n: !sym.int<s0>) -> !sym.t<[s0, 8], f32, strides=[0, 1]> {
  %0 = prims.cat %x, %y {dim = 0} : !sym.t<[4], f32> -> !sym.t<[8], f32>
  %1 = prims.broadcast %0 {dims = [1]} : !sym.t<[8], f32> -> !sym.t<[s0, 8], f32, strides=[0, 1]>
  func.return %1 : !sym.t<[s0, 8], f32, strides=[0, 1]>
}
// CHECK: %[[C:.*]] = loop.nest [d0 = 1, d1 = 8] {
// CHECK: %[[V:.*]] = loop.view %[[C]] offset [0] : !sym.t<[1, 8], f32{{.*}}> -> !sym.t<[s0, 8], f32, strides=[0, 1]>
// CHECK-NEXT: func.return %[[V]]

// -----
// Views over an argument that is written are copied before; the copy is what later uses see.

func.func @main(%x: !sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32, strides=[1, 4]> {
  %t = prims.transpose %x {perm = [1, 0]} : !sym.t<[4, 4], f32> -> !sym.t<[4, 4], f32, strides=[1, 4]>
  %0 = aten.copy_(%x, %t) : (!sym.t<[4, 4], f32>, !sym.t<[4, 4], f32, strides=[1, 4]>) -> !sym.t<[4, 4], f32>
  func.return %t : !sym.t<[4, 4], f32, strides=[1, 4]>
}
// CHECK: %[[T:.*]] = loop.nest [d0 = 4, d1 = 4] {
// CHECK-NEXT: loop.load %x[d1, d0]
// CHECK: aten.copy_(%x, %[[T]])
// CHECK-NEXT: func.return %[[T]]

// -----
// A view of other memory sees what is written to all of it; a copy of a part does not.

func.func @main(%x: !sym.t<[16], f32>, %y: !sym.t<[16], f32>) -> (!sym.t<[4, 4], f32>, !sym.t<[4], f32>) {
  %n = prims.neg %x : !sym.t<[16], f32>
  %r = prims.reshape %n : !sym.t<[16], f32> -> !sym.t<[4, 4], f32>
  %q = prims.slice %n {start = [0], stop = [4], step = [1]} : !sym.t<[16], f32> -> !sym.t<[4], f32>
  %c = prims.convert %q : !sym.t<[4], f32>
  %w = aten.add_.Tensor(%n, %y) : (!sym.t<[16], f32>, !sym.t<[16], f32>) -> !sym.t<[16], f32>
  func.return %r, %c : !sym.t<[4, 4], f32>, !sym.t<[4], f32>
}
// CHECK: %[[N:.*]] = loop.nest [d0 = 16] {
// CHECK: arith.negf
// CHECK: %[[C:.*]] = loop.nest [d0 = 4] {
// CHECK-NEXT: loop.load %[[N]][d0]
// CHECK: aten.add_.Tensor(%[[N]], %y)
// CHECK-NEXT: %[[R:.*]] = loop.view %[[N]] offset [0]
// CHECK-NEXT: func.return %[[R]], %[[C]]

// -----
// What is written through a view, and read later, has memory of its own; so have results that share theirs.

func.func @main(%x: !sym.t<[4], f32>) -> (!sym.t<[4], f32>, !sym.t<[2], f32>) {
  %c = prims.convert %x : !sym.t<[4], f32>
  %p = prims.slice %c {start = [2], stop = [4], step = [1]} : !sym.t<[4], f32> -> !sym.t<[2], f32>
  %w = aten.zero_(%p) : (!sym.t<[2], f32>) -> !sym.t<[2], f32>
  %n = prims.neg %c : !sym.t<[4], f32>
  %j = prims.cat %x, %x {dim = 0} : !sym.t<[4], f32> -> !sym.t<[8], f32>
  %q = prims.slice %j {start = [4], stop = [6], step = [1]} : !sym.t<[8], f32> -> !sym.t<[2], f32>
  func.return %n, %q : !sym.t<[4], f32>, !sym.t<[2], f32>
}
// CHECK: %[[C:.*]] = loop.nest [d0 = 4] {
// CHECK: %[[P:.*]] = loop.view %[[C]] offset [2] : !sym.t<[4], f32> -> !sym.t<[2], f32>
// CHECK-NEXT: aten.zero_(%[[P]])
// CHECK: loop.load %[[C]][d0] : !sym.t<[4], f32>

// -----

func.func @main(%x: !sym.t<[4], f32>) -> (!sym.t<[8], f32>, !sym.t<[2], f32>) {
  %j = prims.cat %x, %x {dim = 0} : !sym.t<[4], f32> -> !sym.t<[8], f32>
  %q = prims.slice %j {start = [4], stop = [6], step = [1]} : !sym.t<[8], f32> -> !sym.t<[2], f32>
  func.return %j, %q : !sym.t<[8], f32>, !sym.t<[2], f32>
}
// CHECK: %[[J:.*]] = loop.nest [d0 = 8] {
// CHECK: %[[Q:.*]] = loop.view %[[J]] offset [4] : !sym.t<[8], f32> -> !sym.t<[2], f32>
// CHECK-NEXT: func.return %[[J]], %[[Q]]

// -----

// What leaves through a view of ATen's has memory of its own too.

func.func @main(%x: !sym.t<[4, 2], f32>) -> (!sym.t<[4], c64>, !sym.t<[4], c64>) {
  %n = prims.neg %x : !sym.t<[4, 2], f32>
  %a = aten.view_as_complex(%n) : (!sym.t<[4, 2], f32>) -> !sym.t<[4], c64>
  %c = prims.convert %n : !sym.t<[4, 2], f32>
  %b = aten.view_as_complex(%c) : (!sym.t<[4, 2], f32>) -> !sym.t<[4], c64>
  func.return %a, %b : !sym.t<[4], c64>, !sym.t<[4], c64>
}
// CHECK: %[[N:.*]] = loop.nest
// CHECK: aten.view_as_complex(%[[N]])
// CHECK-NEXT: %[[C:.*]] = loop.nest [d0 = 4, d1 = 2] {
// CHECK-NEXT: loop.load %[[N]][d0, d1]
// CHECK: aten.view_as_complex(%[[C]])

// -----
// A write through a part of a copy is seen where the copy is read through another view; a copy of it made before is not.

func.func @main(%x: !sym.t<[20], f32>, %y: !sym.t<[2, 5], f32>) -> (!sym.t<[4, 5], f32>, !sym.t<[20], f32>) {
  %c = prims.convert %x : !sym.t<[20], f32>
  %r = prims.reshape %c : !sym.t<[20], f32> -> !sym.t<[4, 5], f32>
  %p = prims.slice %r {start = [2, 0], stop = [4, 5], step = [1, 1]} : !sym.t<[4, 5], f32> -> !sym.t<[2, 5], f32>
  %before = prims.convert %c : !sym.t<[20], f32>
  %w = aten.copy_(%p, %y) : (!sym.t<[2, 5], f32>, !sym.t<[2, 5], f32>) -> !sym.t<[2, 5], f32>
  %n = prims.neg %r : !sym.t<[4, 5], f32>
  %m = prims.neg %before : !sym.t<[20], f32>
  func.return %n, %m : !sym.t<[4, 5], f32>, !sym.t<[20], f32>
}
// CHECK: %c = loop.nest
// CHECK: %p = loop.view %c offset [10]
// CHECK: %before = loop.nest
// CHECK: aten.copy_(%p, %y)
// CHECK-NEXT: %n = loop.nest
// CHECK-NEXT: loop.load %c[5*d0 + d1]
// CHECK: loop.load %before[d0]

// -----
// A stride is a size of which no expression says that it is positive, and max(1, n) is n where there are elements.

func.func @main(%n: !sym.int<s1>, %x: !sym.t<[s0, s1 - 1], f32>) -> (!sym.t<[s0, s1 - 1], f32>, !sym.t<[s1 - 1, s0], f32, strides=[1, s1 - 1]>) {
  %y = prims.exp %x : !sym.t<[s0, s1 - 1], f32>
  %t = prims.transpose %y {perm = [1, 0]} : !sym.t<[s0, s1 - 1], f32> -> !sym.t<[s1 - 1, s0], f32, strides=[1, s1 - 1]>
  func.return %y, %t : !sym.t<[s0, s1 - 1], f32>, !sym.t<[s1 - 1, s0], f32, strides=[1, s1 - 1]>
}
// CHECK: %y = loop.nest
// CHECK: %t = loop.view %y offset [0] : !sym.t<[s0, s1 - 1], f32> -> !sym.t<[s1 - 1, s0], f32, strides=[1, s1 - 1]>

// -----

func.func @main(%n: !sym.int<s1>, %x: !sym.t<[s0, s1 - 1], f32>) -> (!sym.t<[s0, s1 - 1], f32, strides=[max(1, s1 - 1), 1]>, !sym.t<[s0, s1 - 1, 1], f32>) {
  %y = prims.exp %x : !sym.t<[s0, s1 - 1], f32> -> !sym.t<[s0, s1 - 1], f32, strides=[max(1, s1 - 1), 1]>
  %r = prims.reshape %y : !sym.t<[s0, s1 - 1], f32, strides=[max(1, s1 - 1), 1]> -> !sym.t<[s0, s1 - 1, 1], f32>
  func.return %y, %r : !sym.t<[s0, s1 - 1], f32, strides=[max(1, s1 - 1), 1]>, !sym.t<[s0, s1 - 1, 1], f32>
}
// CHECK: %y = loop.nest
// CHECK: %r = loop.view %y offset [0]

// -----
// Of a size that is not a tensor's own, which may be 0 where there are elements, the two are not the same.

func.func @main(%n: !sym.int<u1>, %y: !sym.t<[s0], f32, strides=[max(1, u1)]>) -> !sym.t<[s0, 1], f32, strides=[u1, 1]> {
  %r = prims.reshape %y : !sym.t<[s0], f32, strides=[max(1, u1)]> -> !sym.t<[s0, 1], f32, strides=[u1, 1]>
  func.return %r : !sym.t<[s0, 1], f32, strides=[u1, 1]>
}
// CHECK: %r = loop.nest

// What was rounded is copied into the layout of a result at once, so that what is wider does not wait.
// CHECK-LABEL: func.func @rounded(
// CHECK: %a = aten.mm(%x, %x)
// CHECK-NEXT: %h = loop.nest
// CHECK: %c = loop.nest
// CHECK: %b = aten.mm(%a, %x)
// CHECK-NEXT: func.return %c, %b
func.func @rounded(%x: !sym.t<[4, 4], f32>) -> (!sym.t<[4, 4], bf16, strides=[1, 4]>, !sym.t<[4, 4], f32>) {
  %a = aten.mm(%x, %x) : (!sym.t<[4, 4], f32>, !sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32>
  %h = prims.convert %a {rounding} : !sym.t<[4, 4], f32> -> !sym.t<[4, 4], bf16>
  %c = prims.convert %h : !sym.t<[4, 4], bf16> -> !sym.t<[4, 4], bf16, strides=[1, 4]>
  %b = aten.mm(%a, %x) : (!sym.t<[4, 4], f32>, !sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32>
  func.return %c, %b : !sym.t<[4, 4], bf16, strides=[1, 4]>, !sym.t<[4, 4], f32>
}
