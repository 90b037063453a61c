// RUN: lamella-opt %s -p 'aten-to-prims' | filecheck %s
// Writes that are combined, and searches.

// What is written starts from the least number.
// CHECK-LABEL: func.func @scatter_reduce(
// CHECK-NEXT: [[V0:%\w+]] = prims.full {value = -inf} : !sym.t<[4], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.scatter %x[%i], [[V0]] {index = [i0], combine = none, message = "RuntimeError: index is out of bounds for dimension 0"} : !sym.t<[s0], f32>, !sym.t<[4], i64>, !sym.t<[4], f32> -> !sym.t<[s0], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.scatter [[V1]][%i], %y {index = [i0], combine = max, message = "RuntimeError: index is out of bounds for dimension 0"} : !sym.t<[s0], f32>, !sym.t<[4], i64>, !sym.t<[4], f32> -> !sym.t<[s0], f32>
// CHECK-NEXT: func.return [[V2]] : !sym.t<[s0], f32>
func.func @scatter_reduce(%x: !sym.t<[s0], f32>, %i: !sym.t<[4], i64>, %y: !sym.t<[4], f32>) -> !sym.t<[s0], f32> {
  %r = aten.scatter_reduce.two(%x, 0, %i, %y, "amax", include_self = false) : (!sym.t<[s0], f32>, !sym.t<[4], i64>, !sym.t<[4], f32>) -> !sym.t<[s0], f32>
  func.return %r : !sym.t<[s0], f32>
}

// A mean is a sum by a count.
// CHECK-LABEL: func.func @index_reduce(
// CHECK-NEXT: [[V0:%\w+]] = prims.broadcast %i {dims = [0]} : !sym.t<[4], i64> -> !sym.t<[4, 2], i64>
// CHECK-NEXT: [[V1:%\w+]] = prims.scatter %x[[[V0]]], %y {index = [i0, d1], combine = add, message = "index out of range in self"} : !sym.t<[s0, 2], i64>, !sym.t<[4, 2], i64>, !sym.t<[4, 2], i64> -> !sym.t<[s0, 2], i64>
// CHECK-NEXT: [[V2:%\w+]] = prims.full {value = 1} : !sym.t<[s0, 2], i64>
// CHECK-NEXT: [[V3:%\w+]] = prims.full {value = 1} : !sym.t<[4, 2], i64>
// CHECK-NEXT: [[V4:%\w+]] = prims.broadcast %i {dims = [0]} : !sym.t<[4], i64> -> !sym.t<[4, 2], i64>
// CHECK-NEXT: [[V5:%\w+]] = prims.scatter [[V2]][[[V4]]], [[V3]] {index = [i0, d1], combine = add, message = "index out of range in self"} : !sym.t<[s0, 2], i64>, !sym.t<[4, 2], i64>, !sym.t<[4, 2], i64> -> !sym.t<[s0, 2], i64>
// CHECK-NEXT: [[V6:%\w+]] = prims.maximum [[V5]], [[V2]] : !sym.t<[s0, 2], i64>
// CHECK-NEXT: [[V7:%\w+]] = prims.div_floor [[V1]], [[V6]] : !sym.t<[s0, 2], i64>
// CHECK-NEXT: func.return [[V7]] : !sym.t<[s0, 2], i64>
func.func @index_reduce(%x: !sym.t<[s0, 2], i64>, %i: !sym.t<[4], i64>, %y: !sym.t<[4, 2], i64>) -> !sym.t<[s0, 2], i64> {
  %r = aten.index_reduce(%x, 0, %i, %y, "mean") : (!sym.t<[s0, 2], i64>, !sym.t<[4], i64>, !sym.t<[4, 2], i64>) -> !sym.t<[s0, 2], i64>
  func.return %r : !sym.t<[s0, 2], i64>
}

// Three boundaries are halved twice.
// CHECK-LABEL: func.func @bucketize(
// CHECK-NEXT: [[V0:%\w+]] = prims.full {value = 0} : !sym.t<[s0], i64>
// CHECK-NEXT: [[V1:%\w+]] = prims.full {value = 1} : !sym.t<[s0], i64>
// CHECK-NEXT: [[V2:%\w+]] = prims.add [[V0]], [[V1]] : !sym.t<[s0], i64>
// CHECK-NEXT: [[V3:%\w+]] = prims.full {value = 2} : !sym.t<[s0], i64>
// CHECK-NEXT: [[V4:%\w+]] = prims.minimum [[V2]], [[V3]] : !sym.t<[s0], i64>
// CHECK-NEXT: [[V5:%\w+]] = prims.gather %b[[[V4]]] {index = [i0]} : !sym.t<[3], f32>, !sym.t<[s0], i64> -> !sym.t<[s0], f32>
// CHECK-NEXT: [[V6:%\w+]] = prims.ge [[V5]], %x : !sym.t<[s0], f32> -> !sym.t<[s0], i1>
// CHECK-NEXT: [[V7:%\w+]] = prims.not [[V6]] : !sym.t<[s0], i1>
// CHECK-NEXT: [[V8:%\w+]] = prims.full {value = 3} : !sym.t<[s0], i64>
// CHECK-NEXT: [[V9:%\w+]] = prims.lt [[V2]], [[V8]] : !sym.t<[s0], i64> -> !sym.t<[s0], i1>
// CHECK-NEXT: [[V10:%\w+]] = prims.and [[V7]], [[V9]] : !sym.t<[s0], i1>
// CHECK-NEXT: [[V11:%\w+]] = prims.add [[V0]], [[V3]] : !sym.t<[s0], i64>
// CHECK-NEXT: [[V12:%\w+]] = prims.select [[V10]], [[V11]], [[V0]] : !sym.t<[s0], i1>, !sym.t<[s0], i64>, !sym.t<[s0], i64> -> !sym.t<[s0], i64>
// CHECK-NEXT: [[V13:%\w+]] = prims.add [[V12]], [[V0]] : !sym.t<[s0], i64>
// CHECK-NEXT: [[V14:%\w+]] = prims.minimum [[V13]], [[V3]] : !sym.t<[s0], i64>
// CHECK-NEXT: [[V15:%\w+]] = prims.gather %b[[[V14]]] {index = [i0]} : !sym.t<[3], f32>, !sym.t<[s0], i64> -> !sym.t<[s0], f32>
// CHECK-NEXT: [[V16:%\w+]] = prims.ge [[V15]], %x : !sym.t<[s0], f32> -> !sym.t<[s0], i1>
// CHECK-NEXT: [[V17:%\w+]] = prims.not [[V16]] : !sym.t<[s0], i1>
// CHECK-NEXT: [[V18:%\w+]] = prims.lt [[V13]], [[V8]] : !sym.t<[s0], i64> -> !sym.t<[s0], i1>
// CHECK-NEXT: [[V19:%\w+]] = prims.and [[V17]], [[V18]] : !sym.t<[s0], i1>
// CHECK-NEXT: [[V20:%\w+]] = prims.add [[V12]], [[V1]] : !sym.t<[s0], i64>
// CHECK-NEXT: [[V21:%\w+]] = prims.select [[V19]], [[V20]], [[V12]] : !sym.t<[s0], i1>, !sym.t<[s0], i64>, !sym.t<[s0], i64> -> !sym.t<[s0], i64>
// CHECK-NEXT: func.return [[V21]] : !sym.t<[s0], i64>
func.func @bucketize(%x: !sym.t<[s0], f32>, %b: !sym.t<[3], f32>) -> !sym.t<[s0], i64> {
  %r = aten.bucketize.Tensor(%x, %b) : (!sym.t<[s0], f32>, !sym.t<[3], f32>) -> !sym.t<[s0], i64>
  func.return %r : !sym.t<[s0], i64>
}

// What comes in order stands where the mask has counted to.
// CHECK-LABEL: func.func @masked_scatter(
// CHECK-NEXT: [[V0:%\w+]] = prims.convert %m : !sym.t<[s0], i1> -> !sym.t<[s0], i64>
// CHECK-NEXT: [[V1:%\w+]] = prims.scan [[V0]] {kind = sum, dim = 0} : !sym.t<[s0], i64>
// CHECK-NEXT: [[V2:%\w+]] = prims.full {value = 1} : !sym.t<[s0], i64>
// CHECK-NEXT: [[V3:%\w+]] = prims.sub [[V1]], [[V2]] : !sym.t<[s0], i64>
// CHECK-NEXT: [[V4:%\w+]] = prims.full {value = 0} : !sym.t<[s0], i64>
// CHECK-NEXT: [[V5:%\w+]] = prims.select %m, [[V3]], [[V4]] : !sym.t<[s0], i1>, !sym.t<[s0], i64>, !sym.t<[s0], i64> -> !sym.t<[s0], i64>
// CHECK-NEXT: [[V6:%\w+]] = prims.gather %y[[[V5]]] {index = [i0], message = "RuntimeError: Number of elements of source < number of ones in mask"} : !sym.t<[4], f32>, !sym.t<[s0], i64> -> !sym.t<[s0], f32>
// CHECK-NEXT: [[V7:%\w+]] = prims.select %m, [[V6]], %x : !sym.t<[s0], i1>, !sym.t<[s0], f32>, !sym.t<[s0], f32> -> !sym.t<[s0], f32>
// CHECK-NEXT: func.return [[V7]] : !sym.t<[s0], f32>
func.func @masked_scatter(%x: !sym.t<[s0], f32>, %m: !sym.t<[s0], i1>, %y: !sym.t<[4], f32>) -> !sym.t<[s0], f32> {
  %r = aten.masked_scatter(%x, %m, %y) : (!sym.t<[s0], f32>, !sym.t<[s0], i1>, !sym.t<[4], f32>) -> !sym.t<[s0], f32>
  func.return %r : !sym.t<[s0], f32>
}

// CHECK-LABEL: func.func @isin(
// CHECK-NEXT: [[V0:%\w+]] = prims.broadcast %x {dims = [0]} : !sym.t<[s0], i64> -> !sym.t<[s0, 4], i64>
// CHECK-NEXT: [[V1:%\w+]] = prims.broadcast %y {dims = [1]} : !sym.t<[4], i64> -> !sym.t<[s0, 4], i64>
// CHECK-NEXT: [[V2:%\w+]] = prims.eq [[V0]], [[V1]] : !sym.t<[s0, 4], i64> -> !sym.t<[s0, 4], i1>
// CHECK-NEXT: [[V3:%\w+]] = prims.reduce [[V2]] {kind = any, dims = [1]} : !sym.t<[s0, 4], i1> -> !sym.t<[s0], i1>
// CHECK-NEXT: func.return [[V3]] : !sym.t<[s0], i1>
func.func @isin(%x: !sym.t<[s0], i64>, %y: !sym.t<[4], i64>) -> !sym.t<[s0], i1> {
  %r = aten.isin.Tensor_Tensor(%x, %y) : (!sym.t<[s0], i64>, !sym.t<[4], i64>) -> !sym.t<[s0], i1>
  func.return %r : !sym.t<[s0], i1>
}
