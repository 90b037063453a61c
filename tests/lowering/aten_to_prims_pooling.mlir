// RUN: lamella-opt %s -p 'aten-to-prims' | filecheck %s
// Pooling reads windows by their place and the place within, resampling by scaled places.

// The indices are not used, so they are not computed.
// CHECK-LABEL: func.func @max_pool(
// CHECK-NEXT: [[V0:%\w+]] = prims.pad %x {low = [0, 0, 1, 1], high = [0, 0, 0, 0], value = -inf} : !sym.t<[1, 2, 8, 8], f32> -> !sym.t<[1, 2, 9, 9], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.gather [[V0]][] {index = [d0, d1, 2*d2 + d4, 2*d3 + d5]} : !sym.t<[1, 2, 9, 9], f32> -> !sym.t<[1, 2, 4, 4, 3, 3], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.reduce [[V1]] {kind = max, dims = [4, 5]} : !sym.t<[1, 2, 4, 4, 3, 3], f32> -> !sym.t<[1, 2, 4, 4], f32>
// CHECK-NEXT: [[V3:%\w+]] = prims.full {value = 0} : !sym.t<[1, 2, 4, 4], i64>
// CHECK-NEXT: [[V4:%\w+]] = prims.full {value = 0} : !sym.t<[1, 2, 4, 4], i64>
// CHECK-NEXT: func.return [[V2]] : !sym.t<[1, 2, 4, 4], f32>
func.func @max_pool(%x: !sym.t<[1, 2, 8, 8], f32>) -> !sym.t<[1, 2, 4, 4], f32> {
  %r, %i = aten.max_pool2d_with_indices(%x, [3, 3], [2, 2], [1, 1]) : (!sym.t<[1, 2, 8, 8], f32>) -> (!sym.t<[1, 2, 4, 4], f32>, !sym.t<[1, 2, 4, 4], i64>)
  func.return %r : !sym.t<[1, 2, 4, 4], f32>
}

// CHECK-LABEL: func.func @avg_pool(
// CHECK-NEXT: [[V0:%\w+]] = prims.gather %x[] {index = [d0, d1, 2*d2 + d4, 2*d3 + d5]} : !sym.t<[1, 2, 8, 8], f32> -> !sym.t<[1, 2, 4, 4, 2, 2], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.reduce [[V0]] {kind = sum, dims = [4, 5]} : !sym.t<[1, 2, 4, 4, 2, 2], f32> -> !sym.t<[1, 2, 4, 4], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.full {value = 4.0} : !sym.t<[1, 2, 4, 4], f32>
// CHECK-NEXT: [[V3:%\w+]] = prims.div [[V1]], [[V2]] : !sym.t<[1, 2, 4, 4], f32>
// CHECK-NEXT: func.return [[V3]] : !sym.t<[1, 2, 4, 4], f32>
func.func @avg_pool(%x: !sym.t<[1, 2, 8, 8], f32>) -> !sym.t<[1, 2, 4, 4], f32> {
  %r = aten.avg_pool2d(%x, [2, 2], [2, 2]) : (!sym.t<[1, 2, 8, 8], f32>) -> !sym.t<[1, 2, 4, 4], f32>
  func.return %r : !sym.t<[1, 2, 4, 4], f32>
}

// CHECK-LABEL: func.func @adaptive(
// CHECK-NEXT: [[V0:%\w+]] = prims.reshape %x : !sym.t<[s0, 2, s1, s1], f32> -> !sym.t<[s0, 2, 1, s1, 1, s1], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.reduce [[V0]] {kind = sum, dims = [3, 5]} : !sym.t<[s0, 2, 1, s1, 1, s1], f32> -> !sym.t<[s0, 2, 1, 1], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.full {value = s1**2} : !sym.t<[s0, 2, 1, 1], f32>
// CHECK-NEXT: [[V3:%\w+]] = prims.div [[V1]], [[V2]] : !sym.t<[s0, 2, 1, 1], f32>
// CHECK-NEXT: func.return [[V3]] : !sym.t<[s0, 2, 1, 1], f32>
func.func @adaptive(%x: !sym.t<[s0, 2, s1, s1], f32>) -> !sym.t<[s0, 2, 1, 1], f32> {
  %r = aten._adaptive_avg_pool2d(%x, [1, 1]) : (!sym.t<[s0, 2, s1, s1], f32>) -> !sym.t<[s0, 2, 1, 1], f32>
  func.return %r : !sym.t<[s0, 2, 1, 1], f32>
}

// CHECK-LABEL: func.func @nearest(
// CHECK-NEXT: [[V0:%\w+]] = prims.broadcast %x {dims = [0, 1, 2, 4]} : !sym.t<[1, 2, 4, 4], f32> -> !sym.t<[1, 2, 4, 2, 4, 2], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.reshape [[V0]] : !sym.t<[1, 2, 4, 2, 4, 2], f32> -> !sym.t<[1, 2, 8, 8], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.convert [[V1]] : !sym.t<[1, 2, 8, 8], f32>
// CHECK-NEXT: func.return [[V2]] : !sym.t<[1, 2, 8, 8], f32>
func.func @nearest(%x: !sym.t<[1, 2, 4, 4], f32>) -> !sym.t<[1, 2, 8, 8], f32> {
  %r = aten.upsample_nearest2d(%x, [8, 8]) : (!sym.t<[1, 2, 4, 4], f32>) -> !sym.t<[1, 2, 8, 8], f32>
  func.return %r : !sym.t<[1, 2, 8, 8], f32>
}
