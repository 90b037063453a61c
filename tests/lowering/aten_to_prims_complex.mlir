// RUN: lamella-opt %s -p 'aten-to-prims' | filecheck %s
// A complex tensor is a pair of floats from here on; arguments are read, and results made, through views of floats.

// CHECK-LABEL: func.func @scaled(
// CHECK-NEXT: [[X:%\w+]] = aten.view_as_real(%x) : (!sym.t<[s0], c64>) -> !sym.t<[s0, 2], f32>
// CHECK-NEXT: prims.slice [[X]] {start = [0, 0], stop = [s0, 1], step = [1, 1]}
// CHECK-NEXT: [[RE:%\w+]] = prims.reshape
// CHECK-NEXT: prims.slice [[X]] {start = [0, 1], stop = [s0, 2], step = [1, 1]}
// CHECK-NEXT: [[IM:%\w+]] = prims.reshape
// CHECK: [[A:%\w+]] = prims.mul [[RE]],
// CHECK: [[B:%\w+]] = prims.mul [[IM]],
// CHECK: [[P:%\w+]] = prims.cat
// CHECK-NEXT: [[Z:%\w+]] = aten.view_as_complex([[P]]) : (!sym.t<[s0, 2], f32>) -> !sym.t<[s0], c64>
// CHECK-NEXT: func.return [[Z]]
func.func @scaled(%x: !sym.t<[s0], c64>, %r: !sym.t<[s0], f32>) -> !sym.t<[s0], c64> {
  %z = aten.mul.Tensor(%x, %r) : (!sym.t<[s0], c64>, !sym.t<[s0], f32>) -> !sym.t<[s0], c64>
  func.return %z : !sym.t<[s0], c64>
}

// Nothing is put together that only leaves as parts.
// CHECK-LABEL: func.func @parts(
// CHECK-NOT: aten.view_as_complex
// CHECK: func.return
func.func @parts(%x: !sym.t<[2, 3], c64>) -> !sym.t<[3, 2], f32> {
  %t = aten.t(%x) : (!sym.t<[2, 3], c64>) -> !sym.t<[3, 2], c64, strides=[1, 3]>
  %e = aten.exp(%t) : (!sym.t<[3, 2], c64, strides=[1, 3]>) -> !sym.t<[3, 2], c64, strides=[1, 3]>
  %a = aten.abs(%e) : (!sym.t<[3, 2], c64, strides=[1, 3]>) -> !sym.t<[3, 2], f32, strides=[1, 3]>
  %c = aten.clone(%a, memory_format = contiguous_format) : (!sym.t<[3, 2], f32, strides=[1, 3]>) -> !sym.t<[3, 2], f32>
  func.return %c : !sym.t<[3, 2], f32>
}

// A view of an argument that leaves stays a view of it.
// CHECK-LABEL: func.func @alias(
// CHECK-NOT: prims.cat
// CHECK: [[T:%\w+]] = aten.t(%x)
// CHECK-NEXT: func.return [[T]]
func.func @alias(%x: !sym.t<[2, 3], c64>) -> !sym.t<[3, 2], c64, strides=[1, 3]> {
  %t = aten.t(%x) : (!sym.t<[2, 3], c64>) -> !sym.t<[3, 2], c64, strides=[1, 3]>
  func.return %t : !sym.t<[3, 2], c64, strides=[1, 3]>
}

// f8 is bits that are moved, and converted in integers.
// CHECK-LABEL: func.func @f8(
// CHECK-NEXT: prims.bitcast %x : !sym.t<[4], f8e4m3fn> -> !sym.t<[4], u8>
// CHECK-NOT: aten.
// CHECK: func.return
func.func @f8(%x: !sym.t<[4], f8e4m3fn>) -> !sym.t<[4], f32> {
  %r = aten._to_copy(%x, dtype = f32) : (!sym.t<[4], f8e4m3fn>) -> !sym.t<[4], f32>
  func.return %r : !sym.t<[4], f32>
}

// The parts of c32 are f16, and what is computed of them is computed in f32.
// CHECK-LABEL: func.func @halves(
// CHECK: aten.view_as_real(%x) : (!sym.t<[4], c32>) -> !sym.t<[4, 2], f16>
// CHECK: prims.convert {{.*}} : !sym.t<[4], f16> -> !sym.t<[4], f32>
// CHECK: prims.add {{.*}} : !sym.t<[4], f32>
// CHECK: prims.convert {{.*}} {rounding} : !sym.t<[4], f32> -> !sym.t<[4], f16>
// CHECK: aten.view_as_complex({{.*}}) : (!sym.t<[4, 2], f16>) -> !sym.t<[4], c32>
func.func @halves(%x: !sym.t<[4], c32>, %y: !sym.t<[4], c32>) -> !sym.t<[4], c32> {
  %r = aten.add.Tensor(%x, %y) : (!sym.t<[4], c32>, !sym.t<[4], c32>) -> !sym.t<[4], c32>
  func.return %r : !sym.t<[4], c32>
}

// What has no rule for pairs is torch's own decomposition, where each call in it has one.
// CHECK-LABEL: func.func @reference(
// CHECK-NOT: aten.sinc
// CHECK: prims.select
// CHECK: func.return
func.func @reference(%x: !sym.t<[4], c64>) -> !sym.t<[4], c64> {
  %r = aten.sinc(%x) : (!sym.t<[4], c64>) -> !sym.t<[4], c64>
  func.return %r : !sym.t<[4], c64>
}

// Nothing is left of it where one has none.
// CHECK-LABEL: func.func @no_reference(
// CHECK-NEXT: [[R:%\w+]] = aten.logcumsumexp(%x, 0)
// CHECK-NEXT: func.return [[R]]
func.func @no_reference(%x: !sym.t<[4], c64>) -> !sym.t<[4], c64> {
  %r = aten.logcumsumexp(%x, 0) : (!sym.t<[4], c64>) -> !sym.t<[4], c64>
  func.return %r : !sym.t<[4], c64>
}

// A copy into a tensor is one into its floats.
// CHECK-LABEL: func.func @written(
// CHECK-NEXT: [[F:%\w+]] = aten.view_as_real(%x)
// CHECK: [[P:%\w+]] = prims.cat
// CHECK-NEXT: aten.copy_([[F]], [[P]]) : (!sym.t<[4, 2], f32>, !sym.t<[4, 2], f32>) -> !sym.t<[4, 2], f32>
func.func @written(%x: !sym.t<[4], c64>) {
  %y = aten.conj_physical(%x) : (!sym.t<[4], c64>) -> !sym.t<[4], c64>
  %r = aten.copy_(%x, %y) : (!sym.t<[4], c64>, !sym.t<[4], c64>) -> !sym.t<[4], c64>
  func.return
}

// An operator that is a view without saying so leaves as the view.
// CHECK-LABEL: func.func @unsafe(
// CHECK: aten.split.Tensor(%x, 2)
// CHECK-NEXT: func.return
func.func @unsafe(%x: !sym.t<[4], c64>) -> (!sym.t<[2], c64>, !sym.t<[2], c64>) {
  %a, %b = aten.unsafe_split.Tensor(%x, 2, 0) : (!sym.t<[4], c64>) -> (!sym.t<[2], c64>, !sym.t<[2], c64>)
  func.return %a, %b : !sym.t<[2], c64>, !sym.t<[2], c64>
}

// What leaves in the caller's memory stays a view of it.
// CHECK-LABEL: func.func @imaginary_part_of_a_view(
// CHECK: [[U:%\w+]] = aten.select.int(%x, 1, 0)
// CHECK-NEXT: [[V:%\w+]] = aten.view_as_real([[U]])
// CHECK-NEXT: prims.slice [[V]] {start = [0, 1]
// CHECK-NOT: prims.cat
// CHECK: func.return
func.func @imaginary_part_of_a_view(%x: !sym.t<[s0, 6], c64>) -> !sym.t<[s0], f32, strides=[12]> {
  %u = aten.select.int(%x, 1, 0) : (!sym.t<[s0, 6], c64>) -> !sym.t<[s0], c64, strides=[6]>
  %v = aten.view_as_real(%u) : (!sym.t<[s0], c64, strides=[6]>) -> !sym.t<[s0, 2], f32, strides=[12, 1]>
  %w = aten.select.int(%v, 1, 1) : (!sym.t<[s0, 2], f32, strides=[12, 1]>) -> !sym.t<[s0], f32, strides=[12]>
  func.return %w : !sym.t<[s0], f32, strides=[12]>
}
