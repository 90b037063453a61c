// RUN: lamella-opt %s -p aten-to-prims | filecheck %s
// Several queries of the same keys are a product of matrices; what the backward needs only ATen's kernel gives; bf16
// is multiplied as it is.

// CHECK-LABEL: func.func @queries(
// CHECK-NEXT: aten._scaled_dot_product_flash_attention_for_cpu(
func.func @queries(%q: !sym.t<[2, 4, 2, 16], f32>, %k: !sym.t<[2, 4, 9, 16], f32>) -> !sym.t<[2, 4, 2, 16], f32> {
  %y, %l = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %k) : (!sym.t<[2, 4, 2, 16], f32>, !sym.t<[2, 4, 9, 16], f32>, !sym.t<[2, 4, 9, 16], f32>) -> (!sym.t<[2, 4, 2, 16], f32>, !sym.t<[2, 4, 2], f32>)
  func.return %y : !sym.t<[2, 4, 2, 16], f32>
}

// CHECK-LABEL: func.func @groups(
// CHECK-NEXT: aten._scaled_dot_product_flash_attention_for_cpu(
func.func @groups(%q: !sym.t<[2, 4, 1, 16], bf16>, %k: !sym.t<[2, 2, 9, 16], bf16>) -> !sym.t<[2, 4, 1, 16], bf16> {
  %y, %l = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %k) : (!sym.t<[2, 4, 1, 16], bf16>, !sym.t<[2, 2, 9, 16], bf16>, !sym.t<[2, 2, 9, 16], bf16>) -> (!sym.t<[2, 4, 1, 16], bf16>, !sym.t<[2, 4, 1], f32>)
  func.return %y : !sym.t<[2, 4, 1, 16], bf16>
}

// CHECK-LABEL: func.func @backward(
// CHECK-NEXT: aten._scaled_dot_product_flash_attention_for_cpu(
func.func @backward(%q: !sym.t<[2, 4, 1, 16], f32>, %k: !sym.t<[2, 4, 9, 16], f32>) -> (!sym.t<[2, 4, 1, 16], f32>, !sym.t<[2, 4, 1], f32>) {
  %y, %l = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %k) : (!sym.t<[2, 4, 1, 16], f32>, !sym.t<[2, 4, 9, 16], f32>, !sym.t<[2, 4, 9, 16], f32>) -> (!sym.t<[2, 4, 1, 16], f32>, !sym.t<[2, 4, 1], f32>)
  func.return %y, %l : !sym.t<[2, 4, 1, 16], f32>, !sym.t<[2, 4, 1], f32>
}

// CHECK-LABEL: func.func @halves(
// CHECK-NEXT: aten._scaled_dot_product_flash_attention_for_cpu(
func.func @halves(%q: !sym.t<[2, 8, 1, 64], bf16>, %k: !sym.t<[2, 8, 4096, 64], bf16>) -> !sym.t<[2, 8, 1, 64], bf16> {
  %y, %l = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %k) : (!sym.t<[2, 8, 1, 64], bf16>, !sym.t<[2, 8, 4096, 64], bf16>, !sym.t<[2, 8, 4096, 64], bf16>) -> (!sym.t<[2, 8, 1, 64], bf16>, !sym.t<[2, 8, 1], f32>)
  func.return %y : !sym.t<[2, 8, 1, 64], bf16>
}
