// RUN: lamella-opt %s -p 'aten-to-prims' | filecheck %s
// Views keep the type that the ATen op had, strides included.

// CHECK-LABEL: func.func @view(
// CHECK-NEXT: [[V0:%\w+]] = prims.reshape %x : !sym.t<[s0, 16], f32> -> !sym.t<[16*s0], f32>
// CHECK-NEXT: func.return [[V0]] : !sym.t<[16*s0], f32>
func.func @view(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[16*s0], f32> {
  %r = aten.view(%x, [16*s0]) : (!sym.t<[s0, 16], f32>) -> !sym.t<[16*s0], f32>
  func.return %r : !sym.t<[16*s0], f32>
}

// CHECK-LABEL: func.func @expand(
// CHECK-NEXT: [[V0:%\w+]] = prims.broadcast %x {dims = [1, 2]} : !sym.t<[s0, 1], f32> -> !sym.t<[4, s0, 16], f32, strides=[0, 1, 0]>
// CHECK-NEXT: func.return [[V0]] : !sym.t<[4, s0, 16], f32, strides=[0, 1, 0]>
func.func @expand(%x: !sym.t<[s0, 1], f32>) -> !sym.t<[4, s0, 16], f32, strides=[0, 1, 0]> {
  %r = aten.expand(%x, [4, s0, 16]) : (!sym.t<[s0, 1], f32>) -> !sym.t<[4, s0, 16], f32, strides=[0, 1, 0]>
  func.return %r : !sym.t<[4, s0, 16], f32, strides=[0, 1, 0]>
}

// CHECK-LABEL: func.func @unsqueeze(
// CHECK-NEXT: [[V0:%\w+]] = prims.broadcast %x {dims = [0, 1]} : !sym.t<[s0, 16], f32> -> !sym.t<[s0, 16, 1], f32>
// CHECK-NEXT: func.return [[V0]] : !sym.t<[s0, 16, 1], f32>
func.func @unsqueeze(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16, 1], f32> {
  %r = aten.unsqueeze(%x, -1) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16, 1], f32>
  func.return %r : !sym.t<[s0, 16, 1], f32>
}

// CHECK-LABEL: func.func @permute(
// CHECK-NEXT: [[V0:%\w+]] = prims.transpose %x {perm = [1, 0]} : !sym.t<[s0, 16], f32> -> !sym.t<[16, s0], f32, strides=[1, 16]>
// CHECK-NEXT: func.return [[V0]] : !sym.t<[16, s0], f32, strides=[1, 16]>
func.func @permute(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[16, s0], f32, strides=[1, 16]> {
  %r = aten.permute(%x, [1, 0]) : (!sym.t<[s0, 16], f32>) -> !sym.t<[16, s0], f32, strides=[1, 16]>
  func.return %r : !sym.t<[16, s0], f32, strides=[1, 16]>
}

// A negative start counts from the end.
// CHECK-LABEL: func.func @slice_end(
// CHECK-NEXT: [[V0:%\w+]] = prims.slice %x {start = [0, 12], stop = [s0, 16], step = [1, 1]} : !sym.t<[s0, 16], f32> -> !sym.t<[s0, 4], f32, strides=[16, 1]>
// CHECK-NEXT: func.return [[V0]] : !sym.t<[s0, 4], f32, strides=[16, 1]>
func.func @slice_end(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 4], f32, strides=[16, 1]> {
  %r = aten.slice.Tensor(%x, 1, -4, 9223372036854775807) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 4], f32, strides=[16, 1]>
  func.return %r : !sym.t<[s0, 4], f32, strides=[16, 1]>
}

// CHECK-LABEL: func.func @slice_step(
// CHECK-NEXT: [[V0:%\w+]] = prims.slice %x {start = [0, 1], stop = [s0, 14], step = [1, 3]} : !sym.t<[s0, 16], f32> -> !sym.t<[s0, 5], f32, strides=[16, 3]>
// CHECK-NEXT: func.return [[V0]] : !sym.t<[s0, 5], f32, strides=[16, 3]>
func.func @slice_step(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 5], f32, strides=[16, 3]> {
  %r = aten.slice.Tensor(%x, 1, 1, 16, 3) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 5], f32, strides=[16, 3]>
  func.return %r : !sym.t<[s0, 5], f32, strides=[16, 3]>
}

// The sign of u0 is not known: left as a call.
// CHECK-LABEL: func.func @slice_unknown(
// CHECK-NEXT: [[R:%\w+]] = aten.slice.Tensor(%x, start = u0, end = 9223372036854775807) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0 - u0, 16], f32>
// CHECK-NEXT: func.return [[R]] : !sym.t<[s0 - u0, 16], f32>
func.func @slice_unknown(%x: !sym.t<[s0, 16], f32>, %n: !sym.int<u0>) -> !sym.t<[s0 - u0, 16], f32> {
  %r = aten.slice.Tensor(%x, 0, u0, 9223372036854775807) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0 - u0, 16], f32>
  func.return %r : !sym.t<[s0 - u0, 16], f32>
}

// CHECK-LABEL: func.func @select(
// CHECK-NEXT: [[V0:%\w+]] = prims.slice %x {start = [0, 15], stop = [s0, 16], step = [1, 1]} : !sym.t<[s0, 16], f32> -> !sym.t<[s0, 1], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.reshape [[V0]] : !sym.t<[s0, 1], f32> -> !sym.t<[s0], f32, strides=[16]>
// CHECK-NEXT: func.return [[V1]] : !sym.t<[s0], f32, strides=[16]>
func.func @select(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0], f32, strides=[16]> {
  %r = aten.select.int(%x, 1, -1) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0], f32, strides=[16]>
  func.return %r : !sym.t<[s0], f32, strides=[16]>
}

// CHECK-LABEL: func.func @split(
// CHECK-NEXT: [[V0:%\w+]] = prims.slice %x {start = [0, 0], stop = [s0, 10], step = [1, 1]} : !sym.t<[s0, 16], f32> -> !sym.t<[s0, 10], f32, strides=[16, 1]>
// CHECK-NEXT: [[V1:%\w+]] = prims.slice %x {start = [0, 10], stop = [s0, 16], step = [1, 1]} : !sym.t<[s0, 16], f32> -> !sym.t<[s0, 6], f32, strides=[16, 1]>
// CHECK-NEXT: func.return [[V0]], [[V1]] : !sym.t<[s0, 10], f32, strides=[16, 1]>, !sym.t<[s0, 6], f32, strides=[16, 1]>
func.func @split(%x: !sym.t<[s0, 16], f32>) -> (!sym.t<[s0, 10], f32, strides=[16, 1]>, !sym.t<[s0, 6], f32, strides=[16, 1]>) {
  %a, %b = aten.split.Tensor(%x, 10, 1) : (!sym.t<[s0, 16], f32>) -> (!sym.t<[s0, 10], f32, strides=[16, 1]>, !sym.t<[s0, 6], f32, strides=[16, 1]>)
  func.return %a, %b : !sym.t<[s0, 10], f32, strides=[16, 1]>, !sym.t<[s0, 6], f32, strides=[16, 1]>
}

// CHECK-LABEL: func.func @unfold(
// CHECK-NEXT: [[V0:%\w+]] = prims.subview %x {index = [2*d0 + d1]} : !sym.t<[10], f32> -> !sym.t<[4, 4], f32, strides=[2, 1]>
// CHECK-NEXT: func.return [[V0]] : !sym.t<[4, 4], f32, strides=[2, 1]>
func.func @unfold(%x: !sym.t<[10], f32>) -> !sym.t<[4, 4], f32, strides=[2, 1]> {
  %r = aten.unfold(%x, 0, 4, 2) : (!sym.t<[10], f32>) -> !sym.t<[4, 4], f32, strides=[2, 1]>
  func.return %r : !sym.t<[4, 4], f32, strides=[2, 1]>
}

// A new tensor in another layout.
// CHECK-LABEL: func.func @clone(
// CHECK-NEXT: [[V0:%\w+]] = prims.convert %x : !sym.t<[16, s0], f32, strides=[1, 16]> -> !sym.t<[16, s0], f32>
// CHECK-NEXT: func.return [[V0]] : !sym.t<[16, s0], f32>
func.func @clone(%x: !sym.t<[16, s0], f32, strides=[1, 16]>) -> !sym.t<[16, s0], f32> {
  %r = aten.clone(%x, memory_format = contiguous_format) : (!sym.t<[16, s0], f32, strides=[1, 16]>) -> !sym.t<[16, s0], f32>
  func.return %r : !sym.t<[16, s0], f32>
}

// Distances that reach all of new memory are another order of its elements: torch 2.11 gives the result of
// flex_attention its strides so.
// CHECK-LABEL: func.func @all_of_new_memory(
// CHECK: [[V0:%\w+]] = prims.transpose %x {perm = [0, 2, 1]} : !sym.t<[s0, 8, 4], f32> -> !sym.t<[s0, 4, 8], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.reshape [[V0]] : !sym.t<[s0, 4, 8], f32> -> !sym.t<[s0, 8, 4], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.convert [[V1]] : !sym.t<[s0, 8, 4], f32>
// CHECK-NEXT: [[V3:%\w+]] = prims.reshape [[V2]] : !sym.t<[s0, 8, 4], f32> -> !sym.t<[s0, 4, 8], f32>
// CHECK-NEXT: [[V4:%\w+]] = prims.transpose [[V3]] {perm = [0, 2, 1]} : !sym.t<[s0, 4, 8], f32> -> !sym.t<[s0, 8, 4], f32, strides=[32, 1, 8]>
// CHECK-NEXT: func.return [[V4]]
func.func @all_of_new_memory(%x: !sym.t<[s0, 8, 4], f32>) -> !sym.t<[s0, 8, 4], f32, strides=[32, 1, 8]> {
  %e = aten.new_empty(%x, [s0, 8, 4]) : (!sym.t<[s0, 8, 4], f32>) -> !sym.t<[s0, 8, 4], f32>
  %w = aten.as_strided_scatter(%e, %x, [s0, 8, 4], [32, 1, 8]) : (!sym.t<[s0, 8, 4], f32>, !sym.t<[s0, 8, 4], f32>) -> !sym.t<[s0, 8, 4], f32>
  %r = aten.as_strided(%w, [s0, 8, 4], [32, 1, 8]) : (!sym.t<[s0, 8, 4], f32>) -> !sym.t<[s0, 8, 4], f32, strides=[32, 1, 8]>
  func.return %r : !sym.t<[s0, 8, 4], f32, strides=[32, 1, 8]>
}

// CHECK-LABEL: func.func @part_of_new_memory(
// CHECK: aten.as_strided_scatter
func.func @part_of_new_memory(%x: !sym.t<[2, 4], f32>) -> !sym.t<[4, 4], f32> {
  %e = aten.new_zeros(%x, [4, 4]) : (!sym.t<[2, 4], f32>) -> !sym.t<[4, 4], f32>
  %w = aten.as_strided_scatter(%e, %x, [2, 4], [8, 1]) : (!sym.t<[4, 4], f32>, !sym.t<[2, 4], f32>) -> !sym.t<[4, 4], f32>
  func.return %w : !sym.t<[4, 4], f32>
}

// What surely lies within new memory is at hand; what may lie outside of it ATen says, and what an argument is a part of.
// CHECK-LABEL: func.func @within_new_memory(
// CHECK: %[[Y:.*]] = prims.neg %x
// CHECK: prims.subview %[[Y]] {index = [d0 + d1]}
// CHECK: aten.as_strided(%[[Y]], [s0, 2], [1, 1])
// CHECK: aten.as_strided(%[[Y]], [2], [1], n0)
// CHECK: aten.as_strided(%x, [2], [1], 1)
func.func @within_new_memory(%x: !sym.t<[s0], f32>, %n: !sym.int<n0>) -> (!sym.t<[s0 - 1, 2], f32, strides=[1, 1]>, !sym.t<[s0, 2], f32, strides=[1, 1]>, !sym.t<[2], f32>, !sym.t<[2], f32>) {
  %y = aten.neg(%x) : (!sym.t<[s0], f32>) -> !sym.t<[s0], f32>
  %a = aten.as_strided(%y, [s0 - 1, 2], [1, 1]) : (!sym.t<[s0], f32>) -> !sym.t<[s0 - 1, 2], f32, strides=[1, 1]>
  %b = aten.as_strided(%y, [s0, 2], [1, 1]) : (!sym.t<[s0], f32>) -> !sym.t<[s0, 2], f32, strides=[1, 1]>
  %c = aten.as_strided(%y, [2], [1], n0) : (!sym.t<[s0], f32>) -> !sym.t<[2], f32>
  %d = aten.as_strided(%x, [2], [1], 1) : (!sym.t<[s0], f32>) -> !sym.t<[2], f32>
  func.return %a, %b, %c, %d : !sym.t<[s0 - 1, 2], f32, strides=[1, 1]>, !sym.t<[s0, 2], f32, strides=[1, 1]>, !sym.t<[2], f32>, !sym.t<[2], f32>
}

// A view as another dtype is another look at the bits of a value; of the caller's memory, only ATen's is one.
// CHECK-LABEL: func.func @view_dtype(
// CHECK: %[[Y:.*]] = prims.neg %x
// CHECK: %[[BITS:.*]] = prims.bitcast %[[Y]] : !sym.t<[4], f32> -> !sym.t<[4], i32>
// CHECK: %[[OWN:.*]] = aten.view.dtype(%x, i32)
// CHECK: func.return %[[BITS]], %[[OWN]]
func.func @view_dtype(%x: !sym.t<[4], f32>) -> (!sym.t<[4], i32>, !sym.t<[4], i32>) {
  %y = aten.neg(%x) : (!sym.t<[4], f32>) -> !sym.t<[4], f32>
  %r = aten.view.dtype(%y, i32) : (!sym.t<[4], f32>) -> !sym.t<[4], i32>
  %s = aten.view.dtype(%x, i32) : (!sym.t<[4], f32>) -> !sym.t<[4], i32>
  func.return %r, %s : !sym.t<[4], i32>, !sym.t<[4], i32>
}
