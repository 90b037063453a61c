// RUN: lamella-opt %s -p host-to-llvm | filecheck %s
// What is checked: calls on a GPU go through the shim for it; numbers and tensors that come back, and those that do not.

// CHECK-LABEL: llvm.func @main
// CHECK: llvm.call @aoti_torch_cuda__scaled_dot_product_flash_attention([[Q:%\w+]], [[Q]], [[Q]],
// CHECK: llvm.call @lamella_result
// CHECK: llvm.call @aoti_torch_cuda_bmm_out
// CHECK-NOT: llvm.call @lamella_result
// A tensor of the CPU beside those of the GPU: the operator decides what becomes of it.
// CHECK: llvm.call @lamella_call
host.func @main(%q: !sym.t<[2, 4, 64, 64], bf16, device=cuda:0>, %m: !sym.t<[8, 64, 64], bf16, device=cuda:0>, %i: !sym.t<[3], i64>) -> (!sym.t<[2, 4, 64, 64], bf16, device=cuda:0>, !sym.t<[8, 64, 64], bf16, device=cuda:0>, !sym.t<[3, 64, 64], bf16, device=cuda:0>) {
  %o, %l, %cq, %ck, %mq, %mk, %r, %u, %d = aten._scaled_dot_product_flash_attention(%q, %q, %q, 0.0, true) : (!sym.t<[2, 4, 64, 64], bf16, device=cuda:0>, !sym.t<[2, 4, 64, 64], bf16, device=cuda:0>, !sym.t<[2, 4, 64, 64], bf16, device=cuda:0>) -> (!sym.t<[2, 4, 64, 64], bf16, device=cuda:0>, !sym.t<[2, 4, 64], f32, device=cuda:0>, none, none, !sym.int<64>, !sym.int<64>, !sym.t<[2], u64, device=cuda:0>, !sym.t<[], u64, device=cuda:0>, !sym.t<[0], bf16, device=cuda:0>)
  %y = host.empty : !sym.t<[8, 64, 64], bf16, device=cuda:0>
  %p = aten.bmm.out(%m, %m, out = %y) : (!sym.t<[8, 64, 64], bf16, device=cuda:0>, !sym.t<[8, 64, 64], bf16, device=cuda:0>, !sym.t<[8, 64, 64], bf16, device=cuda:0>) -> !sym.t<[8, 64, 64], bf16, device=cuda:0>
  %e = aten.index.Tensor(%y, [%i]) : (!sym.t<[8, 64, 64], bf16, device=cuda:0>, !sym.t<[3], i64>) -> !sym.t<[3, 64, 64], bf16, device=cuda:0>
  host.return %o, %y, %e : !sym.t<[2, 4, 64, 64], bf16, device=cuda:0>, !sym.t<[8, 64, 64], bf16, device=cuda:0>, !sym.t<[3, 64, 64], bf16, device=cuda:0>
}
