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

// CHECK-LABEL: func.func @cross(
// CHECK-NEXT: [[V0:%\w+]] = prims.slice %a {start = [1, 0], stop = [3, s0], step = [1, 1]} : !sym.t<[3, s0], f32> -> !sym.t<[2, s0], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.slice %a {start = [0, 0], stop = [1, s0], step = [1, 1]} : !sym.t<[3, s0], f32> -> !sym.t<[1, s0], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.cat [[V0]], [[V1]] {dim = 0} : !sym.t<[2, s0], f32>, !sym.t<[1, s0], f32> -> !sym.t<[3, s0], f32>
// CHECK-NEXT: [[V3:%\w+]] = prims.slice %b {start = [2, 0], stop = [3, s0], step = [1, 1]} : !sym.t<[3, s0], f32> -> !sym.t<[1, s0], f32>
// CHECK-NEXT: [[V4:%\w+]] = prims.slice %b {start = [0, 0], stop = [2, s0], step = [1, 1]} : !sym.t<[3, s0], f32> -> !sym.t<[2, s0], f32>
// CHECK-NEXT: [[V5:%\w+]] = prims.cat [[V3]], [[V4]] {dim = 0} : !sym.t<[1, s0], f32>, !sym.t<[2, s0], f32> -> !sym.t<[3, s0], f32>
// CHECK-NEXT: [[V6:%\w+]] = prims.mul [[V2]], [[V5]] : !sym.t<[3, s0], f32>
// CHECK-NEXT: [[V7:%\w+]] = prims.slice %a {start = [2, 0], stop = [3, s0], step = [1, 1]} : !sym.t<[3, s0], f32> -> !sym.t<[1, s0], f32>
// CHECK-NEXT: [[V8:%\w+]] = prims.slice %a {start = [0, 0], stop = [2, s0], step = [1, 1]} : !sym.t<[3, s0], f32> -> !sym.t<[2, s0], f32>
// CHECK-NEXT: [[V9:%\w+]] = prims.cat [[V7]], [[V8]] {dim = 0} : !sym.t<[1, s0], f32>, !sym.t<[2, s0], f32> -> !sym.t<[3, s0], f32>
// CHECK-NEXT: [[V10:%\w+]] = prims.slice %b {start = [1, 0], stop = [3, s0], step = [1, 1]} : !sym.t<[3, s0], f32> -> !sym.t<[2, s0], f32>
// CHECK-NEXT: [[V11:%\w+]] = prims.slice %b {start = [0, 0], stop = [1, s0], step = [1, 1]} : !sym.t<[3, s0], f32> -> !sym.t<[1, s0], f32>
// CHECK-NEXT: [[V12:%\w+]] = prims.cat [[V10]], [[V11]] {dim = 0} : !sym.t<[2, s0], f32>, !sym.t<[1, s0], f32> -> !sym.t<[3, s0], f32>
// CHECK-NEXT: [[V13:%\w+]] = prims.mul [[V9]], [[V12]] : !sym.t<[3, s0], f32>
// CHECK-NEXT: [[V14:%\w+]] = prims.sub [[V6]], [[V13]] : !sym.t<[3, s0], f32>
// CHECK-NEXT: func.return [[V14]] : !sym.t<[3, s0], f32>
func.func @cross(%a: !sym.t<[3, s0], f32>, %b: !sym.t<[3, s0], f32>) -> !sym.t<[3, s0], f32> {
  %r = aten.linalg_cross(%a, %b, dim = 0) : (!sym.t<[3, s0], f32>, !sym.t<[3, s0], f32>) -> !sym.t<[3, s0], f32>
  func.return %r : !sym.t<[3, s0], f32>
}

// A negative padding cuts off what the other side has made.
// CHECK-LABEL: func.func @cut_and_reflected(
// CHECK-NEXT: [[V0:%\w+]] = prims.slice %x {start = [0, 1], stop = [s0, 1], step = [1, 1]} : !sym.t<[s0, 6], f32> -> !sym.t<[s0, 0], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.flip [[V0]] {dims = [1]} : !sym.t<[s0, 0], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.slice %x {start = [0, 3], stop = [s0, 5], step = [1, 1]} : !sym.t<[s0, 6], f32> -> !sym.t<[s0, 2], f32>
// CHECK-NEXT: [[V3:%\w+]] = prims.flip [[V2]] {dims = [1]} : !sym.t<[s0, 2], f32>
// CHECK-NEXT: [[V4:%\w+]] = prims.cat %x, [[V3]] {dim = 1} : !sym.t<[s0, 6], f32>, !sym.t<[s0, 2], f32> -> !sym.t<[s0, 8], f32>
// CHECK-NEXT: [[V5:%\w+]] = prims.slice [[V4]] {start = [0, 1], stop = [s0, 8], step = [1, 1]} : !sym.t<[s0, 8], f32> -> !sym.t<[s0, 7], f32>
// CHECK-NEXT: func.return [[V5]] : !sym.t<[s0, 7], f32>
func.func @cut_and_reflected(%x: !sym.t<[s0, 6], f32>) -> !sym.t<[s0, 7], f32> {
  %r = aten.reflection_pad1d(%x, [-1, 2]) : (!sym.t<[s0, 6], f32>) -> !sym.t<[s0, 7], f32>
  func.return %r : !sym.t<[s0, 7], f32>
}
