// RUN: lamella-opt %s -p 'aten-choose-products{choose=all},aten-to-prims,prims-to-loop' | filecheck %s
// Heads that share keys: on a GPU a program has one matrix, whose number need not be in parts.

// CHECK-LABEL: func.func @on_a_gpu(
// CHECK:       loop.nest [d0 = 12, d1 = 64, d2 = 64] reduce [r0 = 32] combine [add] {
// CHECK:         loop.load %k[floordiv(d0, 6), mod(floordiv(d0, 3), 2), d2, r0]
func.func @on_a_gpu(%q: !sym.t<[12, 64, 32], bf16, device=cuda:0>, %k: !sym.t<[2, 2, 64, 32], bf16, device=cuda:0>) -> !sym.t<[12, 64, 64], bf16, device=cuda:0> {
  %0 = aten.unsqueeze(%k, 2) : (!sym.t<[2, 2, 64, 32], bf16, device=cuda:0>) -> !sym.t<[2, 2, 1, 64, 32], bf16, device=cuda:0>
  %1 = aten.expand(%0, [2, 2, 3, 64, 32]) : (!sym.t<[2, 2, 1, 64, 32], bf16, device=cuda:0>) -> !sym.t<[2, 2, 3, 64, 32], bf16, strides=[4096, 2048, 0, 32, 1], device=cuda:0>
  %2 = aten.clone(%1, memory_format = contiguous_format) : (!sym.t<[2, 2, 3, 64, 32], bf16, strides=[4096, 2048, 0, 32, 1], device=cuda:0>) -> !sym.t<[2, 2, 3, 64, 32], bf16, device=cuda:0>
  %3 = aten.view(%2, [12, 64, 32]) : (!sym.t<[2, 2, 3, 64, 32], bf16, device=cuda:0>) -> !sym.t<[12, 64, 32], bf16, device=cuda:0>
  %4 = aten.transpose.int(%3, 1, 2) : (!sym.t<[12, 64, 32], bf16, device=cuda:0>) -> !sym.t<[12, 32, 64], bf16, strides=[2048, 1, 32], device=cuda:0>
  %5 = aten.bmm(%q, %4) : (!sym.t<[12, 64, 32], bf16, device=cuda:0>, !sym.t<[12, 32, 64], bf16, strides=[2048, 1, 32], device=cuda:0>) -> !sym.t<[12, 64, 64], bf16, device=cuda:0>
  func.return %5 : !sym.t<[12, 64, 64], bf16, device=cuda:0>
}

// CHECK-LABEL: func.func @on_a_cpu(
// CHECK:       loop.nest [d0 = 4, d1 = 3, d2 = 64, d3 = 64] out [3*d0 + d1, d2, d3] reduce [r0 = 32] combine [add]
func.func @on_a_cpu(%q: !sym.t<[12, 64, 32], bf16>, %k: !sym.t<[4, 64, 32], bf16>) -> !sym.t<[12, 64, 64], bf16> {
  %0 = aten.unsqueeze(%k, 1) : (!sym.t<[4, 64, 32], bf16>) -> !sym.t<[4, 1, 64, 32], bf16>
  %1 = aten.expand(%0, [4, 3, 64, 32]) : (!sym.t<[4, 1, 64, 32], bf16>) -> !sym.t<[4, 3, 64, 32], bf16, strides=[2048, 0, 32, 1]>
  %2 = aten.clone(%1, memory_format = contiguous_format) : (!sym.t<[4, 3, 64, 32], bf16, strides=[2048, 0, 32, 1]>) -> !sym.t<[4, 3, 64, 32], bf16>
  %3 = aten.view(%2, [12, 64, 32]) : (!sym.t<[4, 3, 64, 32], bf16>) -> !sym.t<[12, 64, 32], bf16>
  %4 = aten.transpose.int(%3, 1, 2) : (!sym.t<[12, 64, 32], bf16>) -> !sym.t<[12, 32, 64], bf16, strides=[2048, 1, 32]>
  %5 = aten.bmm(%q, %4) : (!sym.t<[12, 64, 32], bf16>, !sym.t<[12, 32, 64], bf16, strides=[2048, 1, 32]>) -> !sym.t<[12, 64, 64], bf16>
  func.return %5 : !sym.t<[12, 64, 64], bf16>
}
