// RUN: lamella-opt %s -p 'aten-to-prims' | filecheck %s
// Tensors put together, padded and repeated.

// CHECK-LABEL: func.func @cat(
// CHECK-NEXT: [[V0:%\w+]] = prims.cat %x, %y {dim = 1} : !sym.t<[s0, 16], f32>, !sym.t<[s0, 4], f32> -> !sym.t<[s0, 20], f32>
// CHECK-NEXT: func.return [[V0]] : !sym.t<[s0, 20], f32>
func.func @cat(%x: !sym.t<[s0, 16], f32>, %y: !sym.t<[s0, 4], f32>) -> !sym.t<[s0, 20], f32> {
  %r = aten.cat([%x, %y], 1) : (!sym.t<[s0, 16], f32>, !sym.t<[s0, 4], f32>) -> !sym.t<[s0, 20], f32>
  func.return %r : !sym.t<[s0, 20], f32>
}

// CHECK-LABEL: func.func @stack(
// CHECK-NEXT: [[V0:%\w+]] = prims.broadcast %x {dims = [1, 2]} : !sym.t<[s0, 16], f32> -> !sym.t<[1, s0, 16], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.broadcast %y {dims = [1, 2]} : !sym.t<[s0, 16], f32> -> !sym.t<[1, s0, 16], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.cat [[V0]], [[V1]] {dim = 0} : !sym.t<[1, s0, 16], f32> -> !sym.t<[2, s0, 16], f32>
// CHECK-NEXT: func.return [[V2]] : !sym.t<[2, s0, 16], f32>
func.func @stack(%x: !sym.t<[s0, 16], f32>, %y: !sym.t<[s0, 16], f32>) -> !sym.t<[2, s0, 16], f32> {
  %r = aten.stack([%x, %y]) : (!sym.t<[s0, 16], f32>, !sym.t<[s0, 16], f32>) -> !sym.t<[2, s0, 16], f32>
  func.return %r : !sym.t<[2, s0, 16], f32>
}

// CHECK-LABEL: func.func @pad(
// CHECK-NEXT: [[V0:%\w+]] = prims.pad %x {low = [0, 1], high = [0, 2], value = 0.0} : !sym.t<[s0, 16], f32> -> !sym.t<[s0, 19], f32>
// CHECK-NEXT: func.return [[V0]] : !sym.t<[s0, 19], f32>
func.func @pad(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 19], f32> {
  %r = aten.constant_pad_nd(%x, [1, 2], 0.0) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 19], f32>
  func.return %r : !sym.t<[s0, 19], f32>
}

// CHECK-LABEL: func.func @repeat(
// CHECK-NEXT: [[V0:%\w+]] = prims.reshape %x : !sym.t<[4], f32> -> !sym.t<[1, 4], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.broadcast [[V0]] {dims = [1, 3]} : !sym.t<[1, 4], f32> -> !sym.t<[2, 1, 3, 4], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.reshape [[V1]] : !sym.t<[2, 1, 3, 4], f32> -> !sym.t<[2, 12], f32>
// CHECK-NEXT: [[V3:%\w+]] = prims.convert [[V2]] : !sym.t<[2, 12], f32>
// CHECK-NEXT: func.return [[V3]] : !sym.t<[2, 12], f32>
func.func @repeat(%x: !sym.t<[4], f32>) -> !sym.t<[2, 12], f32> {
  %r = aten.repeat(%x, [2, 3]) : (!sym.t<[4], f32>) -> !sym.t<[2, 12], f32>
  func.return %r : !sym.t<[2, 12], f32>
}

// CHECK-LABEL: func.func @roll(
// CHECK-NEXT: [[V0:%\w+]] = prims.slice %x {start = [0, 15], stop = [s0, 16], step = [1, 1]} : !sym.t<[s0, 16], f32> -> !sym.t<[s0, 1], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.slice %x {start = [0, 0], stop = [s0, 15], step = [1, 1]} : !sym.t<[s0, 16], f32> -> !sym.t<[s0, 15], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.cat [[V0]], [[V1]] {dim = 1} : !sym.t<[s0, 1], f32>, !sym.t<[s0, 15], f32> -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: func.return [[V2]] : !sym.t<[s0, 16], f32>
func.func @roll(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32> {
  %r = aten.roll(%x, [1], [1]) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
  func.return %r : !sym.t<[s0, 16], f32>
}

// CHECK-LABEL: func.func @slice_scatter(
// CHECK-NEXT: [[V0:%\w+]] = prims.slice %x {start = [0, 0], stop = [s0, 4], step = [1, 1]} : !sym.t<[s0, 16], f32> -> !sym.t<[s0, 4], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.slice %x {start = [0, 8], stop = [s0, 16], step = [1, 1]} : !sym.t<[s0, 16], f32> -> !sym.t<[s0, 8], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.cat [[V0]], %y, [[V1]] {dim = 1} : !sym.t<[s0, 4], f32>, !sym.t<[s0, 4], f32>, !sym.t<[s0, 8], f32> -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: func.return [[V2]] : !sym.t<[s0, 16], f32>
func.func @slice_scatter(%x: !sym.t<[s0, 16], f32>, %y: !sym.t<[s0, 4], f32>) -> !sym.t<[s0, 16], f32> {
  %r = aten.slice_scatter(%x, %y, 1, 4, 8) : (!sym.t<[s0, 16], f32>, !sym.t<[s0, 4], f32>) -> !sym.t<[s0, 16], f32>
  func.return %r : !sym.t<[s0, 16], f32>
}

// CHECK-LABEL: func.func @slice_backward(
// CHECK-NEXT: [[V0:%\w+]] = prims.pad %g {low = [0, 12], high = [0, 0], value = 0.0} : !sym.t<[s0, 4], f32> -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: func.return [[V0]] : !sym.t<[s0, 16], f32>
func.func @slice_backward(%g: !sym.t<[s0, 4], f32>) -> !sym.t<[s0, 16], f32> {
  %r = aten.slice_backward(%g, [s0, 16], 1, 12, 16, 1) : (!sym.t<[s0, 4], f32>) -> !sym.t<[s0, 16], f32>
  func.return %r : !sym.t<[s0, 16], f32>
}
