// RUN: lamella-opt %s -p 'aten-to-prims' | filecheck %s
// A result is an operand, or a view of one, only where it is in eager.

// A view of x would share its memory.
// CHECK-LABEL: func.func @repeat_once(
// CHECK-NEXT: [[V0:%\w+]] = prims.reshape %x : !sym.t<[s0, 16], f32> -> !sym.t<[1, s0, 16], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.convert [[V0]] : !sym.t<[1, s0, 16], f32>
// CHECK-NEXT: func.return [[V1]] : !sym.t<[1, s0, 16], f32>
func.func @repeat_once(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[1, s0, 16], f32> {
  %r = aten.repeat(%x, [1, 1, 1]) : (!sym.t<[s0, 16], f32>) -> !sym.t<[1, s0, 16], f32>
  func.return %r : !sym.t<[1, s0, 16], f32>
}

// CHECK-LABEL: func.func @cat_of_one(
// CHECK-NEXT: [[V0:%\w+]] = prims.convert %x : !sym.t<[s0, 16], f32>
// CHECK-NEXT: func.return [[V0]] : !sym.t<[s0, 16], f32>
func.func @cat_of_one(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32> {
  %r = aten.cat([%x]) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
  func.return %r : !sym.t<[s0, 16], f32>
}

// CHECK-LABEL: func.func @alias(
// CHECK-NEXT: func.return %x : !sym.t<[s0, 16], f32>
func.func @alias(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32> {
  %r = aten.alias(%x) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
  func.return %r : !sym.t<[s0, 16], f32>
}

// CHECK-LABEL: func.func @unsafe_view(
// CHECK-NEXT: [[V0:%\w+]] = prims.reshape %x : !sym.t<[s0, 16], f32> -> !sym.t<[16*s0], f32>
// CHECK-NEXT: func.return [[V0]] : !sym.t<[16*s0], f32>
func.func @unsafe_view(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[16*s0], f32> {
  %r = aten._unsafe_view(%x, [16*s0]) : (!sym.t<[s0, 16], f32>) -> !sym.t<[16*s0], f32>
  func.return %r : !sym.t<[16*s0], f32>
}
