// RUN: lamella-opt %s -p 'aten-attention' | filecheck %s

// CHECK-LABEL: func.func @repeated(
// CHECK: aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %k) : (!sym.t<[2, 6, 1, 16], f32>, !sym.t<[2, 2, 9, 16], f32>, !sym.t<[2, 2, 9, 16], f32>)
func.func @repeated(%q: !sym.t<[2, 6, 1, 16], f32>, %k: !sym.t<[2, 2, 9, 16], f32>) -> !sym.t<[2, 6, 1, 16], f32> {
  %u = aten.unsqueeze(%k, 2) : (!sym.t<[2, 2, 9, 16], f32>) -> !sym.t<[2, 2, 1, 9, 16], f32>
  %e = aten.expand(%u, [2, 2, 3, 9, 16]) : (!sym.t<[2, 2, 1, 9, 16], f32>) -> !sym.t<[2, 2, 3, 9, 16], f32, strides=[288, 144, 0, 16, 1]>
  %c = aten.clone(%e, memory_format = contiguous_format) : (!sym.t<[2, 2, 3, 9, 16], f32, strides=[288, 144, 0, 16, 1]>) -> !sym.t<[2, 2, 3, 9, 16], f32>
  %v = aten._unsafe_view(%c, [2, 6, 9, 16]) : (!sym.t<[2, 2, 3, 9, 16], f32>) -> !sym.t<[2, 6, 9, 16], f32>
  %y, %l = aten._scaled_dot_product_flash_attention_for_cpu(%q, %v, %v) : (!sym.t<[2, 6, 1, 16], f32>, !sym.t<[2, 6, 9, 16], f32>, !sym.t<[2, 6, 9, 16], f32>) -> (!sym.t<[2, 6, 1, 16], f32>, !sym.t<[2, 6, 1], f32>)
  func.return %y : !sym.t<[2, 6, 1, 16], f32>
}

// A backward will give the gradients of all heads: what it reads is a result.
// CHECK-LABEL: func.func @forward(
// CHECK: aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %k)
func.func @forward(%q: !sym.t<[2, 6, 1, 16], f32>, %k: !sym.t<[2, 2, 9, 16], f32>) -> (!sym.t<[2, 6, 1, 16], f32>, !sym.t<[2, 6, 1], f32>, !sym.t<[2, 6, 9, 16], f32>) {
  %u = aten.unsqueeze(%k, 2) : (!sym.t<[2, 2, 9, 16], f32>) -> !sym.t<[2, 2, 1, 9, 16], f32>
  %e = aten.expand(%u, [2, 2, 3, 9, 16]) : (!sym.t<[2, 2, 1, 9, 16], f32>) -> !sym.t<[2, 2, 3, 9, 16], f32, strides=[288, 144, 0, 16, 1]>
  %c = aten.clone(%e, memory_format = contiguous_format) : (!sym.t<[2, 2, 3, 9, 16], f32, strides=[288, 144, 0, 16, 1]>) -> !sym.t<[2, 2, 3, 9, 16], f32>
  %v = aten._unsafe_view(%c, [2, 6, 9, 16]) : (!sym.t<[2, 2, 3, 9, 16], f32>) -> !sym.t<[2, 6, 9, 16], f32>
  %y, %l = aten._scaled_dot_product_flash_attention_for_cpu(%q, %v, %v) : (!sym.t<[2, 6, 1, 16], f32>, !sym.t<[2, 6, 9, 16], f32>, !sym.t<[2, 6, 9, 16], f32>) -> (!sym.t<[2, 6, 1, 16], f32>, !sym.t<[2, 6, 1], f32>)
  func.return %y, %l, %v : !sym.t<[2, 6, 1, 16], f32>, !sym.t<[2, 6, 1], f32>, !sym.t<[2, 6, 9, 16], f32>
}
