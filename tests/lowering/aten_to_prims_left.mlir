// RUN: lamella-opt %s -p 'aten-to-prims' | filecheck %s
// What has no rule, or no rule for the case, stays where it is, in order.

// CHECK-LABEL: func.func @mixed(
// CHECK-NEXT: [[V0:%\w+]] = prims.full {value = 0.0} : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[LOW:%\w+]] = prims.lt %x, [[V0]] : !sym.t<[s0, 16], f32> -> !sym.t<[s0, 16], i1>
// CHECK-NEXT: [[V1:%\w+]] = prims.select [[LOW]], [[V0]], %x : !sym.t<[s0, 16], i1>, !sym.t<[s0, 16], f32>, !sym.t<[s0, 16], f32> -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[M:%\w+]] = aten.mm([[V1]], %w) : (!sym.t<[s0, 16], f32>, !sym.t<[16, 4], f32>) -> !sym.t<[s0, 4], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.neg [[M]] : !sym.t<[s0, 4], f32>
// CHECK-NEXT: func.return [[V2]] : !sym.t<[s0, 4], f32>
func.func @mixed(%x: !sym.t<[s0, 16], f32>, %w: !sym.t<[16, 4], f32>) -> !sym.t<[s0, 4], f32> {
  %a = aten.relu(%x) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
  %m = aten.mm(%a, %w) : (!sym.t<[s0, 16], f32>, !sym.t<[16, 4], f32>) -> !sym.t<[s0, 4], f32>
  %b = aten.neg(%m) : (!sym.t<[s0, 4], f32>) -> !sym.t<[s0, 4], f32>
  func.return %b : !sym.t<[s0, 4], f32>
}

// Writes into an argument stay.
// CHECK-LABEL: func.func @mutation(
// CHECK-NEXT: [[V0:%\w+]] = prims.neg %x : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[C:%\w+]] = aten.copy_(%x, [[V0]]) : (!sym.t<[s0, 16], f32>, !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: func.return [[V0]] : !sym.t<[s0, 16], f32>
func.func @mutation(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32> {
  %a = aten.neg(%x) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
  %c = aten.copy_(%x, %a) : (!sym.t<[s0, 16], f32>, !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
  func.return %a : !sym.t<[s0, 16], f32>
}

// CHECK-LABEL: func.func @f8(
// CHECK-NEXT: [[R:%\w+]] = aten.neg(%x) : (!sym.t<[4], f8e4m3fn>) -> !sym.t<[4], f8e4m3fn>
// CHECK-NEXT: func.return [[R]] : !sym.t<[4], f8e4m3fn>
func.func @f8(%x: !sym.t<[4], f8e4m3fn>) -> !sym.t<[4], f8e4m3fn> {
  %r = aten.neg(%x) : (!sym.t<[4], f8e4m3fn>) -> !sym.t<[4], f8e4m3fn>
  func.return %r : !sym.t<[4], f8e4m3fn>
}

// A size that nothing else gives: the slice at a number read from data says how long it is.
// CHECK-LABEL: func.func @size_of_slice(
// CHECK: aten.slice.Tensor(%x, end = u0)
func.func @size_of_slice(%x: !sym.t<[8], f32>, %n: !sym.t<[], i64>) -> !sym.t<[u1], f32> {
  %u = aten._local_scalar_dense(%n) : (!sym.t<[], i64>) -> !sym.int<u0>
  %r = aten.slice.Tensor(%x, 0, none, u0) : (!sym.t<[8], f32>) -> !sym.t<[u1], f32>
  func.return %r : !sym.t<[u1], f32>
}

// Whether rows of that stride overlap only the memory says.
// CHECK-LABEL: func.func @symbolic_stride(
// CHECK: [[R:%\w+]] = aten.slice_scatter(%x, %y, end = 8)
// CHECK-NEXT: func.return [[R]] : !sym.t<[8, s1], f32, strides=[s0, 1]>
func.func @symbolic_stride(%n: !sym.int<s0>, %x: !sym.t<[8, s1], f32, strides=[s0, 1]>, %y: !sym.t<[8, s1], f32>) -> !sym.t<[8, s1], f32, strides=[s0, 1]> {
  %r = aten.slice_scatter(%x, %y, end = 8) : (!sym.t<[8, s1], f32, strides=[s0, 1]>, !sym.t<[8, s1], f32>) -> !sym.t<[8, s1], f32, strides=[s0, 1]>
  func.return %r : !sym.t<[8, s1], f32, strides=[s0, 1]>
}
