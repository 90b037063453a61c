// RUN: lamella-opt %s --no-verify -p aten-to-prims | filecheck %s
// Of dtypes and sizes that ATen refuses when it is called, there are no prims: the call stays, and says so. The tool
// itself would refuse some of them.

// CHECK-LABEL: func.func @softmax(
// CHECK-NEXT: aten._softmax(
func.func @softmax(%x: !sym.t<[4, 4], i32>) -> !sym.t<[4, 4], i32> {
  %r = aten._softmax(%x, 1, false) : (!sym.t<[4, 4], i32>) -> !sym.t<[4, 4], i32>
  func.return %r : !sym.t<[4, 4], i32>
}

// CHECK-LABEL: func.func @log_softmax(
// CHECK-NEXT: aten._log_softmax(
func.func @log_softmax(%x: !sym.t<[4, 4], i32>) -> !sym.t<[4, 4], i32> {
  %r = aten._log_softmax(%x, 1, false) : (!sym.t<[4, 4], i32>) -> !sym.t<[4, 4], i32>
  func.return %r : !sym.t<[4, 4], i32>
}

// CHECK-LABEL: func.func @gelu(
// CHECK-NEXT: aten.gelu(
func.func @gelu(%x: !sym.t<[4, 4], i32>) -> !sym.t<[4, 4], i32> {
  %r = aten.gelu(%x) : (!sym.t<[4, 4], i32>) -> !sym.t<[4, 4], i32>
  func.return %r : !sym.t<[4, 4], i32>
}

// CHECK-LABEL: func.func @mm(
// CHECK-NEXT: aten.mm(
func.func @mm(%x: !sym.t<[4, 4], i1>) -> !sym.t<[4, 4], i1> {
  %r = aten.mm(%x, %x) {lamella.product = "generated"} : (!sym.t<[4, 4], i1>, !sym.t<[4, 4], i1>) -> !sym.t<[4, 4], i1>
  func.return %r : !sym.t<[4, 4], i1>
}

// CHECK-LABEL: func.func @rand_like(
// CHECK-NEXT: aten.rand_like(
func.func @rand_like(%x: !sym.t<[4, 4], i32>) -> !sym.t<[4, 4], i32> {
  %r = aten.rand_like(%x) : (!sym.t<[4, 4], i32>) -> !sym.t<[4, 4], i32>
  func.return %r : !sym.t<[4, 4], i32>
}

// CHECK-LABEL: func.func @cross(
// CHECK-NEXT: aten.linalg_cross(
func.func @cross(%x: !sym.t<[3, 3], i1>) -> !sym.t<[3, 3], i1> {
  %r = aten.linalg_cross(%x, %x) : (!sym.t<[3, 3], i1>, !sym.t<[3, 3], i1>) -> !sym.t<[3, 3], i1>
  func.return %r : !sym.t<[3, 3], i1>
}

// CHECK-LABEL: func.func @attention_of_integers(
// CHECK-NEXT: aten._scaled_dot_product_flash_attention_for_cpu(
func.func @attention_of_integers(%q: !sym.t<[1, 2, 8, 4], i32>, %k: !sym.t<[1, 2, 8, 4], i32>) -> !sym.t<[1, 2, 8, 4], i32> {
  %r, %l = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %k) {lamella.product = "generated"} : (!sym.t<[1, 2, 8, 4], i32>, !sym.t<[1, 2, 8, 4], i32>, !sym.t<[1, 2, 8, 4], i32>) -> (!sym.t<[1, 2, 8, 4], i32>, !sym.t<[1, 2, 8], i32>)
  func.return %r : !sym.t<[1, 2, 8, 4], i32>
}

// CHECK-LABEL: func.func @attention_of_odd_heads(
// CHECK-NEXT: aten._scaled_dot_product_flash_attention_for_cpu(
func.func @attention_of_odd_heads(%q: !sym.t<[1, 7, 8, 4], f32>, %k: !sym.t<[1, 2, 8, 4], f32>) -> !sym.t<[1, 7, 8, 4], f32> {
  %r, %l = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %k) {lamella.product = "generated"} : (!sym.t<[1, 7, 8, 4], f32>, !sym.t<[1, 2, 8, 4], f32>, !sym.t<[1, 2, 8, 4], f32>) -> (!sym.t<[1, 7, 8, 4], f32>, !sym.t<[1, 7, 8], f32>)
  func.return %r : !sym.t<[1, 7, 8, 4], f32>
}

// CHECK-LABEL: func.func @attention_of_nothing(
// CHECK-NEXT: aten._scaled_dot_product_flash_attention_for_cpu(
func.func @attention_of_nothing(%q: !sym.t<[1, 2, 8, 0], f32>, %k: !sym.t<[1, 2, 8, 0], f32>) -> !sym.t<[1, 2, 8, 0], f32> {
  %r, %l = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %k) {lamella.product = "generated"} : (!sym.t<[1, 2, 8, 0], f32>, !sym.t<[1, 2, 8, 0], f32>, !sym.t<[1, 2, 8, 0], f32>) -> (!sym.t<[1, 2, 8, 0], f32>, !sym.t<[1, 2, 8], f32>)
  func.return %r : !sym.t<[1, 2, 8, 0], f32>
}
