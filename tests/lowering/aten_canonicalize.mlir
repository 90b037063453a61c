// RUN: lamella-opt %s -p 'aten-canonicalize' | filecheck %s
// Calls that do nothing.

// CHECK-LABEL: func.func @aliases(
// CHECK-NEXT: [[R:%\w+]] = aten.relu(%x) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: func.return [[R]] : !sym.t<[s0, 16], f32>
func.func @aliases(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32> {
  %a = aten.alias(%x) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
  %b = aten.view(%a, [s0, 16]) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
  %d = aten.neg(%b) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
  %r = aten.relu(%b) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
  func.return %r : !sym.t<[s0, 16], f32>
}

// A copy is not an alias.
// CHECK-LABEL: func.func @square_transpose(
// CHECK-NEXT: [[R:%\w+]] = aten.clone(%x) : (!sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32>
// CHECK-NEXT: func.return [[R]] : !sym.t<[4, 4], f32>
func.func @square_transpose(%x: !sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32> {
  %r = aten.clone(%x) : (!sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32>
  func.return %r : !sym.t<[4, 4], f32>
}

// A number read from data that only sizes use.
// CHECK-LABEL: func.func @size_from_data(
// CHECK-NEXT: aten._local_scalar_dense(%n)
// CHECK-NEXT: [[R:%\w+]] = aten.slice.Tensor(%x, start = u0, end = u0 + 2)
func.func @size_from_data(%x: !sym.t<[8], f32>, %n: !sym.t<[], i64>) -> !sym.t<[2], f32> {
  %u = aten._local_scalar_dense(%n) : (!sym.t<[], i64>) -> !sym.int<u0>
  %dead = aten.full([u0], 1.0) : () -> !sym.t<[u0], f32>
  %r = aten.slice.Tensor(%x, 0, u0, u0 + 2) : (!sym.t<[8], f32>) -> !sym.t<[2], f32>
  func.return %r : !sym.t<[2], f32>
}

// What a type says needs no check.
// CHECK-LABEL: func.func @metadata(
// CHECK-NEXT: func.return
func.func @metadata(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  aten._assert_tensor_metadata(%x, dtype = f32, device = "cpu", layout = strided) : (!sym.t<[4], f32>) -> ()
  func.return %x : !sym.t<[4], f32>
}
