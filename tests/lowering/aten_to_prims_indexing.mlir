// RUN: lamella-opt %s -p 'aten-to-prims' | filecheck %s
// Index tensors have the shape of the domain and count from 0.

// CHECK-LABEL: func.func @embedding(
// CHECK-NEXT: [[V0:%\w+]] = prims.broadcast %i {dims = [0, 1]} : !sym.t<[s0, s1], i64> -> !sym.t<[s0, s1, 16], i64>
// CHECK-NEXT: [[V1:%\w+]] = prims.gather %w{{\[}}[[V0]]{{\]}} {index = [i0, d2], message = "index out of range in self"} : !sym.t<[100, 16], f32>, !sym.t<[s0, s1, 16], i64> -> !sym.t<[s0, s1, 16], f32>
// CHECK-NEXT: func.return [[V1]] : !sym.t<[s0, s1, 16], f32>
func.func @embedding(%w: !sym.t<[100, 16], f32>, %i: !sym.t<[s0, s1], i64>) -> !sym.t<[s0, s1, 16], f32> {
  %r = aten.embedding(%w, %i) : (!sym.t<[100, 16], f32>, !sym.t<[s0, s1], i64>) -> !sym.t<[s0, s1, 16], f32>
  func.return %r : !sym.t<[s0, s1, 16], f32>
}

// CHECK-LABEL: func.func @gather(
// CHECK-NEXT: [[V0:%\w+]] = prims.gather %x[%i] {index = [d0, i0], message = "RuntimeError: index is out of bounds for dimension 1 with size 16"} : !sym.t<[s0, 16], f32>, !sym.t<[s0, 4], i64> -> !sym.t<[s0, 4], f32>
// CHECK-NEXT: func.return [[V0]] : !sym.t<[s0, 4], f32>
func.func @gather(%x: !sym.t<[s0, 16], f32>, %i: !sym.t<[s0, 4], i64>) -> !sym.t<[s0, 4], f32> {
  %r = aten.gather(%x, 1, %i) : (!sym.t<[s0, 16], f32>, !sym.t<[s0, 4], i64>) -> !sym.t<[s0, 4], f32>
  func.return %r : !sym.t<[s0, 4], f32>
}

// Negative indices count from the end.
// CHECK-LABEL: func.func @index(
// CHECK-NEXT: [[V0:%\w+]] = prims.full {value = 0} : !sym.t<[4], i64>
// CHECK-NEXT: [[V1:%\w+]] = prims.lt %i, [[V0]] : !sym.t<[4], i64> -> !sym.t<[4], i1>
// CHECK-NEXT: [[V2:%\w+]] = prims.full {value = 16} : !sym.t<[4], i64>
// CHECK-NEXT: [[V3:%\w+]] = prims.add %i, [[V2]] : !sym.t<[4], i64>
// CHECK-NEXT: [[V4:%\w+]] = prims.select [[V1]], [[V3]], %i : !sym.t<[4], i1>, !sym.t<[4], i64>, !sym.t<[4], i64> -> !sym.t<[4], i64>
// CHECK-NEXT: [[V5:%\w+]] = prims.broadcast [[V4]] {dims = [1]} : !sym.t<[4], i64> -> !sym.t<[s0, 4], i64>
// CHECK-NEXT: [[V6:%\w+]] = prims.gather %x{{\[}}[[V5]]{{\]}} {index = [d0, i0], message = "index is out of bounds for a dimension"} : !sym.t<[s0, 16], f32>, !sym.t<[s0, 4], i64> -> !sym.t<[s0, 4], f32>
// CHECK-NEXT: func.return [[V6]] : !sym.t<[s0, 4], f32>
func.func @index(%x: !sym.t<[s0, 16], f32>, %i: !sym.t<[4], i64>) -> !sym.t<[s0, 4], f32> {
  %r = aten.index.Tensor(%x, [none, %i]) : (!sym.t<[s0, 16], f32>, !sym.t<[4], i64>) -> !sym.t<[s0, 4], f32>
  func.return %r : !sym.t<[s0, 4], f32>
}

// CHECK-LABEL: func.func @index_put_add(
// CHECK-NEXT: [[V0:%\w+]] = prims.full {value = 0} : !sym.t<[4], i64>
// CHECK-NEXT: [[V1:%\w+]] = prims.lt %i, [[V0]] : !sym.t<[4], i64> -> !sym.t<[4], i1>
// CHECK-NEXT: [[V2:%\w+]] = prims.full {value = s0} : !sym.t<[4], i64>
// CHECK-NEXT: [[V3:%\w+]] = prims.add %i, [[V2]] : !sym.t<[4], i64>
// CHECK-NEXT: [[V4:%\w+]] = prims.select [[V1]], [[V3]], %i : !sym.t<[4], i1>, !sym.t<[4], i64>, !sym.t<[4], i64> -> !sym.t<[4], i64>
// CHECK-NEXT: [[V5:%\w+]] = prims.broadcast [[V4]] {dims = [0]} : !sym.t<[4], i64> -> !sym.t<[4, 16], i64>
// CHECK-NEXT: [[V6:%\w+]] = prims.scatter %x{{\[}}[[V5]]{{\]}}, %v {index = [i0, d1], combine = add, message = "index is out of bounds for a dimension"} : !sym.t<[s0, 16], f32>, !sym.t<[4, 16], i64>, !sym.t<[4, 16], f32> -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: func.return [[V6]] : !sym.t<[s0, 16], f32>
func.func @index_put_add(%x: !sym.t<[s0, 16], f32>, %i: !sym.t<[4], i64>, %v: !sym.t<[4, 16], f32>) -> !sym.t<[s0, 16], f32> {
  %r = aten.index_put(%x, [%i], %v, true) : (!sym.t<[s0, 16], f32>, !sym.t<[4], i64>, !sym.t<[4, 16], f32>) -> !sym.t<[s0, 16], f32>
  func.return %r : !sym.t<[s0, 16], f32>
}

// CHECK-LABEL: func.func @mask_put(
// CHECK-NEXT: [[V0:%\w+]] = prims.broadcast %v {dims = []} : !sym.t<[], f32> -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.select %m, [[V0]], %x : !sym.t<[s0, 16], i1>, !sym.t<[s0, 16], f32>, !sym.t<[s0, 16], f32> -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: func.return [[V1]] : !sym.t<[s0, 16], f32>
func.func @mask_put(%x: !sym.t<[s0, 16], f32>, %m: !sym.t<[s0, 16], i1>, %v: !sym.t<[], f32>) -> !sym.t<[s0, 16], f32> {
  %r = aten.index_put(%x, [%m], %v) : (!sym.t<[s0, 16], f32>, !sym.t<[s0, 16], i1>, !sym.t<[], f32>) -> !sym.t<[s0, 16], f32>
  func.return %r : !sym.t<[s0, 16], f32>
}

// The number of elements is not known: left as a call.
// CHECK-LABEL: func.func @mask_index(
// CHECK-NEXT: [[R:%\w+]] = aten.index.Tensor(%x, [%m]) : (!sym.t<[s0, 16], f32>, !sym.t<[s0, 16], i1>) -> !sym.t<[u0], f32>
// CHECK-NEXT: func.return [[R]] : !sym.t<[u0], f32>
func.func @mask_index(%x: !sym.t<[s0, 16], f32>, %m: !sym.t<[s0, 16], i1>) -> !sym.t<[u0], f32> {
  %r = aten.index.Tensor(%x, [%m]) : (!sym.t<[s0, 16], f32>, !sym.t<[s0, 16], i1>) -> !sym.t<[u0], f32>
  func.return %r : !sym.t<[u0], f32>
}

// CHECK-LABEL: func.func @index_copy(
// CHECK-NEXT: [[V0:%\w+]] = prims.broadcast %i {dims = [1]} : !sym.t<[4], i64> -> !sym.t<[s0, 4], i64>
// CHECK-NEXT: [[V1:%\w+]] = prims.scatter %x{{\[}}[[V0]]{{\]}}, %v {index = [d0, i0], combine = none, message = "IndexError: index_copy_(): index is out of bounds for dimension 1 with size 16"} : !sym.t<[s0, 16], f32>, !sym.t<[s0, 4], i64>, !sym.t<[s0, 4], f32> -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: func.return [[V1]] : !sym.t<[s0, 16], f32>
func.func @index_copy(%x: !sym.t<[s0, 16], f32>, %i: !sym.t<[4], i64>, %v: !sym.t<[s0, 4], f32>) -> !sym.t<[s0, 16], f32> {
  %r = aten.index_copy(%x, 1, %i, %v) : (!sym.t<[s0, 16], f32>, !sym.t<[4], i64>, !sym.t<[s0, 4], f32>) -> !sym.t<[s0, 16], f32>
  func.return %r : !sym.t<[s0, 16], f32>
}

// CHECK-LABEL: func.func @embedding_backward(
// CHECK-NEXT: [[V0:%\w+]] = prims.full {value = 0} : !sym.t<[4], i64>
// CHECK-NEXT: [[V1:%\w+]] = prims.ne %i, [[V0]] : !sym.t<[4], i64> -> !sym.t<[4], i1>
// CHECK-NEXT: [[V2:%\w+]] = prims.broadcast [[V1]] {dims = [0]} : !sym.t<[4], i1> -> !sym.t<[4, 16], i1>
// CHECK-NEXT: [[V3:%\w+]] = prims.full {value = 0.0} : !sym.t<[4, 16], f32>
// CHECK-NEXT: [[V4:%\w+]] = prims.select [[V2]], %g, [[V3]] : !sym.t<[4, 16], i1>, !sym.t<[4, 16], f32>, !sym.t<[4, 16], f32> -> !sym.t<[4, 16], f32>
// CHECK-NEXT: [[V5:%\w+]] = prims.full {value = 0.0} : !sym.t<[100, 16], f32>
// CHECK-NEXT: [[V6:%\w+]] = prims.broadcast %i {dims = [0]} : !sym.t<[4], i64> -> !sym.t<[4, 16], i64>
// CHECK-NEXT: [[V7:%\w+]] = prims.scatter [[V5]]{{\[}}[[V6]]{{\]}}, [[V4]] {index = [i0, d1], combine = add, message = "index out of range in self"} : !sym.t<[100, 16], f32>, !sym.t<[4, 16], i64>, !sym.t<[4, 16], f32> -> !sym.t<[100, 16], f32>
// CHECK-NEXT: func.return [[V7]] : !sym.t<[100, 16], f32>
func.func @embedding_backward(%g: !sym.t<[4, 16], f32>, %i: !sym.t<[4], i64>) -> !sym.t<[100, 16], f32> {
  %r = aten.embedding_dense_backward(%g, %i, 100, 0, false) : (!sym.t<[4, 16], f32>, !sym.t<[4], i64>) -> !sym.t<[100, 16], f32>
  func.return %r : !sym.t<[100, 16], f32>
}

// Few rows of halves in a large table: those of one index are added up in f32 in the first of them, and all write the sum.
// CHECK-LABEL: func.func @embedding_backward_of_few(
// CHECK: [[Z:%\w+]] = prims.full {value = 0.0} : !sym.t<[100, 16], bf16>
// CHECK: [[N:%\w+]] = prims.full {value = 6} : !sym.t<[100], i64>
// CHECK: [[M:%\w+]] = prims.scatter [[N]]{{\[}}[[I:%\w+]]{{\]}}, {{%\w+}} {index = [i0], combine = min, message = "index out of range in self"}
// CHECK: [[F:%\w+]] = prims.gather [[M]]{{\[}}[[I]]{{\]}} {index = [i0]}
// CHECK: [[R:%\w+]] = prims.broadcast [[F]] {dims = [0]} : !sym.t<[6], i64> -> !sym.t<[6, 16], i64>
// CHECK: [[S:%\w+]] = prims.scatter {{%\w+}}{{\[}}[[R]]{{\]}}, {{%\w+}} {index = [i0, d1], combine = add} : !sym.t<[6, 16], f32>
// CHECK: [[G:%\w+]] = prims.gather [[S]]{{\[}}[[R]]{{\]}} {index = [i0, d1]}
// CHECK: [[H:%\w+]] = prims.convert [[G]] {rounding}
// CHECK: prims.scatter [[Z]]{{\[}}{{%\w+}}{{\]}}, [[H]] {index = [i0, d1], combine = none}
// CHECK-NOT: !sym.t<[100, 16], f32>
// CHECK: func.return
func.func @embedding_backward_of_few(%g: !sym.t<[2, 3, 16], bf16>, %i: !sym.t<[2, 3], i64>) -> !sym.t<[100, 16], bf16> {
  %r = aten.embedding_dense_backward(%g, %i, 100, -1, false) : (!sym.t<[2, 3, 16], bf16>, !sym.t<[2, 3], i64>) -> !sym.t<[100, 16], bf16>
  func.return %r : !sym.t<[100, 16], bf16>
}

// More than half as many rows, and a GPU.
// CHECK-LABEL: func.func @embedding_backward_of_many(
// CHECK-COUNT-2: prims.scatter {{.*}} combine = add, message
// CHECK-NOT: combine = min
// CHECK: func.return
func.func @embedding_backward_of_many(%g: !sym.t<[6, 16], bf16>, %i: !sym.t<[6], i64>, %h: !sym.t<[6, 16], bf16, device=cuda:0>, %j: !sym.t<[6], i64, device=cuda:0>) -> (!sym.t<[11, 16], bf16>, !sym.t<[100, 16], bf16, device=cuda:0>) {
  %r = aten.embedding_dense_backward(%g, %i, 11, -1, false) : (!sym.t<[6, 16], bf16>, !sym.t<[6], i64>) -> !sym.t<[11, 16], bf16>
  %s = aten.embedding_dense_backward(%h, %j, 100, -1, false) : (!sym.t<[6, 16], bf16, device=cuda:0>, !sym.t<[6], i64, device=cuda:0>) -> !sym.t<[100, 16], bf16, device=cuda:0>
  func.return %r, %s : !sym.t<[11, 16], bf16>, !sym.t<[100, 16], bf16, device=cuda:0>
}

// Rows that are looked up and too long.
// CHECK-LABEL: func.func @embedding_renorm(
// CHECK: prims.scatter {{.*}} {index = [i0], combine = none, message = "index out of range in self"}
// CHECK: prims.select
// CHECK: prims.mul
func.func @embedding_renorm(%w: !sym.t<[10, 4], f32>, %i: !sym.t<[s0], i64>) -> !sym.t<[10, 4], f32> {
  %r = aten.embedding_renorm(%w, %i, 1.0, 2.0) : (!sym.t<[10, 4], f32>, !sym.t<[s0], i64>) -> !sym.t<[10, 4], f32>
  func.return %r : !sym.t<[10, 4], f32>
}

// Tracing does not compare the sizes of what is written with those of the places: what one of them may be else is asked,
// or, where it may be 1, left to ATen.
// CHECK-LABEL: func.func @put_of_other_sizes(
// CHECK: aten._assert_scalar(eq(s2, s1), "shape mismatch
// CHECK: prims.scatter %x
// CHECK: aten.index_put(%x, [%j], %w)
// CHECK: aten.index_put(%x, [%k]
func.func @put_of_other_sizes(%x: !sym.t<[s0], f32>, %i: !sym.t<[s1], i64>, %v: !sym.t<[s2], f32>, %j: !sym.t<[u0], i64>, %w: !sym.t<[u1], f32>, %k: !sym.t<[3], i64>) -> (!sym.t<[s0], f32>, !sym.t<[s0], f32>, !sym.t<[s0], f32>) {
  %0 = aten.index_put(%x, [%i], %v) : (!sym.t<[s0], f32>, !sym.t<[s1], i64>, !sym.t<[s2], f32>) -> !sym.t<[s0], f32>
  %1 = aten.index_put(%x, [%j], %w) : (!sym.t<[s0], f32>, !sym.t<[u0], i64>, !sym.t<[u1], f32>) -> !sym.t<[s0], f32>
  %c = aten.slice.Tensor(%v, 0, 0, 2) : (!sym.t<[s2], f32>) -> !sym.t<[2], f32>
  %2 = aten.index_put(%x, [%k], %c) : (!sym.t<[s0], f32>, !sym.t<[3], i64>, !sym.t<[2], f32>) -> !sym.t<[s0], f32>
  func.return %0, %1, %2 : !sym.t<[s0], f32>, !sym.t<[s0], f32>, !sym.t<[s0], f32>
}
