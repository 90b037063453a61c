// RUN: lamella-opt %s -p 'aten-to-prims' | filecheck %s
// What is ordered is a whole number with the element's place behind it.

// CHECK-LABEL: func.func @topk(
// The bits of a float in order, largest first, in the upper half.
// CHECK: prims.bitcast %x : !sym.t<[s0, 64], bf16> -> !sym.t<[s0, 64], i16>
// CHECK: [[NUMBER:%\w+]] = prims.not %{{\w+}} : !sym.t<[s0, 64], i32>
// CHECK: [[UPPER:%\w+]] = prims.shl [[NUMBER]], %{{\w+}} : !sym.t<[s0, 64], i32>
// CHECK: [[PLACE:%\w+]] = prims.iota {dim = 1} : !sym.t<[s0, 64], i32>
// CHECK: [[BOTH:%\w+]] = prims.or [[UPPER]], [[PLACE]] : !sym.t<[s0, 64], i32>
// CHECK: [[LEAST:%\w+]] = prims.sort [[BOTH]] {dim = 1} : !sym.t<[s0, 64], i32> -> !sym.t<[s0, 4], i32>
// CHECK: [[LOWER:%\w+]] = prims.and [[LEAST]], %{{\w+}} : !sym.t<[s0, 4], i32>
// CHECK: [[PLACES:%\w+]] = prims.convert [[LOWER]] : !sym.t<[s0, 4], i32> -> !sym.t<[s0, 4], i64>
// CHECK: [[VALUES:%\w+]] = prims.gather %x{{\[}}[[PLACES]]{{\]}} {index = [d0, i0]}
// CHECK: func.return [[VALUES]], [[PLACES]]
func.func @topk(%x: !sym.t<[s0, 64], bf16>) -> (!sym.t<[s0, 4], bf16>, !sym.t<[s0, 4], i64>) {
  %v, %i = aten.topk(%x, 4) : (!sym.t<[s0, 64], bf16>) -> (!sym.t<[s0, 4], bf16>, !sym.t<[s0, 4], i64>)
  func.return %v, %i : !sym.t<[s0, 4], bf16>, !sym.t<[s0, 4], i64>
}

// Of a size that is not known, the place takes 32 bits.
// CHECK-LABEL: func.func @sort(
// CHECK: prims.sort %{{\w+}} {dim = 0} : !sym.t<[s0, 3], i64>
func.func @sort(%x: !sym.t<[s0, 3], i16>) -> (!sym.t<[s0, 3], i16>, !sym.t<[s0, 3], i64>) {
  %v, %i = aten.sort.stable(%x, stable = true, dim = 0) : (!sym.t<[s0, 3], i16>) -> (!sym.t<[s0, 3], i16>, !sym.t<[s0, 3], i64>)
  func.return %v, %i : !sym.t<[s0, 3], i16>, !sym.t<[s0, 3], i64>
}

// 64 bits: by the lower half, then by the upper half.
// CHECK-LABEL: func.func @wide(
// CHECK: [[FIRST:%\w+]] = prims.sort %{{\w+}} {dim = 0} : !sym.t<[9], i64>
// CHECK: prims.gather %x{{\[}}%{{\w+}}{{\]}} {index = [i0]}
// CHECK: prims.sort %{{\w+}} {dim = 0} : !sym.t<[9], i64>
// CHECK-NOT: prims.sort
func.func @wide(%x: !sym.t<[9], i64>) -> (!sym.t<[9], i64>, !sym.t<[9], i64>) {
  %v, %i = aten.sort(%x) : (!sym.t<[9], i64>) -> (!sym.t<[9], i64>, !sym.t<[9], i64>)
  func.return %v, %i : !sym.t<[9], i64>, !sym.t<[9], i64>
}

// On a GPU a few are found by reductions.
// CHECK-LABEL: func.func @gpu(
// CHECK: [[ONE:%\w+]] = prims.reduce [[X:%\w+]] {kind = min, dims = [1]}
// CHECK: [[MORE:%\w+]] = prims.gt [[X]], %{{\w+}}
// CHECK: prims.select [[MORE]], [[X]], %{{\w+}}
// CHECK: prims.reduce %{{\w+}} {kind = min, dims = [1]}
// CHECK: prims.cat
// CHECK-NOT: aten.topk
func.func @gpu(%x: !sym.t<[8, 64], f32, device=cuda:0>) -> (!sym.t<[8, 2], f32, device=cuda:0>, !sym.t<[8, 2], i64, device=cuda:0>) {
  %v, %i = aten.topk(%x, 2) : (!sym.t<[8, 64], f32, device=cuda:0>) -> (!sym.t<[8, 2], f32, device=cuda:0>, !sym.t<[8, 2], i64, device=cuda:0>)
  func.return %v, %i : !sym.t<[8, 2], f32, device=cuda:0>, !sym.t<[8, 2], i64, device=cuda:0>
}

// Left to ATen: the middle of a long row, and rows on a GPU that are sorted whole.
// CHECK-LABEL: func.func @left(
// CHECK: aten.median.dim(%x
// CHECK: aten.sort(%y)
func.func @left(%x: !sym.t<[2, 100000], f32>, %y: !sym.t<[64], f32, device=cuda:0>) -> (!sym.t<[2], f32>, !sym.t<[64], f32, device=cuda:0>) {
  %v, %i = aten.median.dim(%x, 1) : (!sym.t<[2, 100000], f32>) -> (!sym.t<[2], f32>, !sym.t<[2], i64>)
  %w, %j = aten.sort(%y) : (!sym.t<[64], f32, device=cuda:0>) -> (!sym.t<[64], f32, device=cuda:0>, !sym.t<[64], i64, device=cuda:0>)
  func.return %v, %w : !sym.t<[2], f32>, !sym.t<[64], f32, device=cuda:0>
}

// Many elements are looked for in order.
// CHECK-LABEL: func.func @isin(
// CHECK: prims.sort
// CHECK: prims.eq
// CHECK-NOT: aten.isin
func.func @isin(%x: !sym.t<[s0], i32>, %y: !sym.t<[100], i32>) -> !sym.t<[s0], i1> {
  %r = aten.isin.Tensor_Tensor(%x, %y) : (!sym.t<[s0], i32>, !sym.t<[100], i32>) -> !sym.t<[s0], i1>
  func.return %r : !sym.t<[s0], i1>
}

// What is zero goes behind the end.
// CHECK-LABEL: func.func @nonzero_static(
// CHECK: [[BEFORE:%\w+]] = prims.scan %{{\w+}} {kind = sum, dim = 0} : !sym.t<[15], i64>
// CHECK: prims.scatter %{{\w+}}[%{{\w+}}], %{{\w+}} {index = [i0], combine = none} : !sym.t<[5], i64>
// CHECK: prims.rem
// CHECK: prims.cat
func.func @nonzero_static(%x: !sym.t<[3, 5], i1>) -> !sym.t<[4, 2], i64> {
  %r = aten.nonzero_static(%x, size = 4) : (!sym.t<[3, 5], i1>) -> !sym.t<[4, 2], i64>
  func.return %r : !sym.t<[4, 2], i64>
}

// CHECK-LABEL: func.func @histc(
// CHECK: prims.scatter %{{\w+}}[%{{\w+}}], %{{\w+}} {index = [i0], combine = add} : !sym.t<[9], f32>
// The range of the data is ATen's to find, and to refuse.
// CHECK: aten.histc(%x, 8)
func.func @histc(%x: !sym.t<[s0], f32>) -> (!sym.t<[8], f32>, !sym.t<[8], f32>) {
  %a = aten.histc(%x, 8, -1, 1) : (!sym.t<[s0], f32>) -> !sym.t<[8], f32>
  %b = aten.histc(%x, 8) : (!sym.t<[s0], f32>) -> !sym.t<[8], f32>
  func.return %a, %b : !sym.t<[8], f32>, !sym.t<[8], f32>
}
