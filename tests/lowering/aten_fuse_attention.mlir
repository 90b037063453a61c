// RUN: lamella-opt %s -p 'aten-fuse-attention,aten-canonicalize' | filecheck %s
// RUN: lamella-opt %s -p 'aten-fuse-attention{target=avx512}' | filecheck %s --check-prefix=OURS
// RUN: lamella-opt %s -p 'aten-fuse-attention{target=avx512 gpu=sm_90}' | filecheck %s --check-prefix=TORCH
// RUN: lamella-opt %s -p 'aten-fuse-attention{target=zen4}' | filecheck %s --check-prefix=VECTORS

// CHECK: lamella.decisions = ["attention written out
// CHECK-LABEL: func.func @batched(
// CHECK-NEXT: [[Q:%\w+]] = aten.view(%q, [1, 64, 256, 16]) : (!sym.t<[64, 256, 16], f32>) -> !sym.t<[1, 64, 256, 16], f32>
// CHECK-NEXT: [[T:%\w+]] = aten.transpose.int(%k, 1, 2) : (!sym.t<[64, 16, 256], f32, strides=[4096, 1, 16]>) -> !sym.t<[64, 256, 16], f32>
// CHECK-NEXT: [[K:%\w+]] = aten.view([[T]], [1, 64, 256, 16])
// CHECK-NEXT: [[V:%\w+]] = aten.view(%v, [1, 64, 256, 16])
// CHECK-NEXT: [[Y:%\w+]], %{{\w+}} = aten._scaled_dot_product_flash_attention_for_cpu([[Q]], [[K]], [[V]], scale = 0.125)
// CHECK-NEXT: [[R:%\w+]] = aten.view([[Y]], [64, 256, 16])
// CHECK-NEXT: func.return [[R]]
// Products that are to be one kernel are marked, whatever stands between them.
// OURS: lamella.decisions = ["attention written out is one kernel"
// OURS-LABEL: func.func @batched(
// OURS-NEXT: aten.bmm(%q, %k) {lamella.product = "generated"}
// OURS-NEXT: aten.div.Tensor
// OURS-NEXT: aten._softmax
// OURS-NEXT: aten.bmm({{.*}}, %v) {lamella.product = "generated"}
// OURS-LABEL: func.func @heads(
// OURS: aten._scaled_dot_product_flash_attention_for_cpu(
// Products of bf16 stay apart where vectors multiply it.
// VECTORS-LABEL: func.func @heads(
// VECTORS: aten.bmm(
// VECTORS: aten._softmax(
// VECTORS: aten.bmm(
// VECTORS: func.return
// OURS-LABEL: func.func @read(
// OURS-NOT: generated
func.func @batched(%q: !sym.t<[64, 256, 16], f32>, %k: !sym.t<[64, 16, 256], f32, strides=[4096, 1, 16]>, %v: !sym.t<[64, 256, 16], f32>) -> !sym.t<[64, 256, 16], f32> {
  %s = aten.bmm(%q, %k) : (!sym.t<[64, 256, 16], f32>, !sym.t<[64, 16, 256], f32, strides=[4096, 1, 16]>) -> !sym.t<[64, 256, 256], f32>
  %d = aten.div.Tensor(%s, 8) : (!sym.t<[64, 256, 256], f32>) -> !sym.t<[64, 256, 256], f32>
  %p = aten._softmax(%d, -1, false) : (!sym.t<[64, 256, 256], f32>) -> !sym.t<[64, 256, 256], f32>
  %y = aten.bmm(%p, %v) : (!sym.t<[64, 256, 256], f32>, !sym.t<[64, 256, 16], f32>) -> !sym.t<[64, 256, 16], f32>
  func.return %y : !sym.t<[64, 256, 16], f32>
}

// Heads, a mask and symbolic sizes. What softmax makes of a row of -inf is put in.
// CHECK-LABEL: func.func @heads(
// CHECK: [[M:%\w+]] = aten.unsqueeze(%m, 0) : (!sym.t<[s1, s1], bf16>) -> !sym.t<[1, s1, s1], bf16>
// CHECK-NEXT: [[N:%\w+]] = aten.unsqueeze([[M]], 0)
// CHECK-NEXT: [[Y:%\w+]], %{{\w+}} = aten._scaled_dot_product_flash_attention_for_cpu({{.*}}, attn_mask = [[N]], scale = 0.5) : {{.*}} -> (!sym.t<[s0, 4, s1, 16], bf16>, !sym.t<[s0, 4, s1], f32>)
// CHECK-NEXT: [[A:%\w+]] = aten.amax([[N]], [-1], true) : (!sym.t<[1, 1, s1, s1], bf16>) -> !sym.t<[1, 1, s1, 1], bf16>
// CHECK-NEXT: [[B:%\w+]] = aten.eq.Scalar([[A]], -inf)
// CHECK-NEXT: [[W:%\w+]] = aten.where.ScalarSelf([[B]], nan, [[Y]])
// CHECK-NEXT: aten.view([[W]], [4*s0, s1, 16])
func.func @heads(%q: !sym.t<[4*s0, s1, 16], bf16>, %k: !sym.t<[4*s0, 16, s1], bf16, strides=[16*s1, 1, 16]>, %v: !sym.t<[4*s0, s1, 16], bf16>, %m: !sym.t<[s1, s1], bf16>, %n: !sym.int<s0>) -> !sym.t<[4*s0, s1, 16], bf16> {
  %s = aten.bmm(%q, %k) : (!sym.t<[4*s0, s1, 16], bf16>, !sym.t<[4*s0, 16, s1], bf16, strides=[16*s1, 1, 16]>) -> !sym.t<[4*s0, s1, s1], bf16>
  %u = aten.view(%s, [s0, 4, s1, s1]) : (!sym.t<[4*s0, s1, s1], bf16>) -> !sym.t<[s0, 4, s1, s1], bf16>
  %d = aten.mul.Tensor(%u, 0.5) : (!sym.t<[s0, 4, s1, s1], bf16>) -> !sym.t<[s0, 4, s1, s1], bf16>
  %a = aten.add.Tensor(%m, %d) : (!sym.t<[s1, s1], bf16>, !sym.t<[s0, 4, s1, s1], bf16>) -> !sym.t<[s0, 4, s1, s1], bf16>
  %p = aten._softmax(%a, -1, false) : (!sym.t<[s0, 4, s1, s1], bf16>) -> !sym.t<[s0, 4, s1, s1], bf16>
  %e = aten.expand(%p, [s0, 4, s1, s1]) : (!sym.t<[s0, 4, s1, s1], bf16>) -> !sym.t<[s0, 4, s1, s1], bf16>
  %w = aten.view(%e, [4*s0, s1, s1]) : (!sym.t<[s0, 4, s1, s1], bf16>) -> !sym.t<[4*s0, s1, s1], bf16>
  %y = aten.bmm(%w, %v) : (!sym.t<[4*s0, s1, s1], bf16>, !sym.t<[4*s0, s1, 16], bf16>) -> !sym.t<[4*s0, s1, 16], bf16>
  func.return %y : !sym.t<[4*s0, s1, 16], bf16>
}

// Weights that something else reads, as a backward does, and a softmax over queries.
// CHECK-LABEL: func.func @read(
// CHECK-NOT: flash
func.func @read(%q: !sym.t<[64, 256, 16], f32>, %k: !sym.t<[64, 16, 256], f32, strides=[4096, 1, 16]>, %v: !sym.t<[64, 256, 16], f32>) -> (!sym.t<[64, 256, 16], f32>, !sym.t<[64, 256, 256], f32>, !sym.t<[64, 256, 16], f32>) {
  %s = aten.bmm(%q, %k) : (!sym.t<[64, 256, 16], f32>, !sym.t<[64, 16, 256], f32, strides=[4096, 1, 16]>) -> !sym.t<[64, 256, 256], f32>
  %p = aten._softmax(%s, -1, false) : (!sym.t<[64, 256, 256], f32>) -> !sym.t<[64, 256, 256], f32>
  %y = aten.bmm(%p, %v) : (!sym.t<[64, 256, 256], f32>, !sym.t<[64, 256, 16], f32>) -> !sym.t<[64, 256, 16], f32>
  %t = aten.bmm(%q, %k) : (!sym.t<[64, 256, 16], f32>, !sym.t<[64, 16, 256], f32, strides=[4096, 1, 16]>) -> !sym.t<[64, 256, 256], f32>
  %o = aten._softmax(%t, 1, false) : (!sym.t<[64, 256, 256], f32>) -> !sym.t<[64, 256, 256], f32>
  %z = aten.bmm(%o, %v) : (!sym.t<[64, 256, 256], f32>, !sym.t<[64, 256, 16], f32>) -> !sym.t<[64, 256, 16], f32>
  func.return %y, %p, %z : !sym.t<[64, 256, 16], f32>, !sym.t<[64, 256, 256], f32>, !sym.t<[64, 256, 16], f32>
}

// On a GPU, with nothing else between the products: what they were copied for is not, and dtypes between them are the kernel's.
// TORCH: attention written out calls torch's fused kernel
// TORCH-LABEL: func.func @on_gpu(
// TORCH-NEXT: [[K:%\w+]] = aten.transpose.int(%k, 2, 3) : {{.*}} -> !sym.t<[2, 16, 2048, 128], bf16, strides=[4194304, 128, 2048, 1], device=cuda:0>
// TORCH-NEXT: [[Y:%\w+]] = aten.scaled_dot_product_attention(%q, [[K]], %v, scale = 0.1) : {{.*}} -> !sym.t<[2, 16, 2048, 128], bf16, strides=[4194304, 128, 2048, 1], device=cuda:0>
// TORCH-NEXT: [[C:%\w+]] = aten.clone([[Y]], memory_format = contiguous_format) : {{.*}} -> !sym.t<[2, 16, 2048, 128], bf16, device=cuda:0>
// TORCH-NEXT: [[R:%\w+]] = aten.view([[C]], [32, 2048, 128])
// TORCH-NEXT: func.return [[R]]
func.func @on_gpu(%q: !sym.t<[2, 16, 2048, 128], bf16, strides=[4194304, 128, 2048, 1], device=cuda:0>, %k: !sym.t<[2, 16, 128, 2048], bf16, strides=[4194304, 128, 1, 2048], device=cuda:0>, %v: !sym.t<[2, 16, 2048, 128], bf16, device=cuda:0>) -> !sym.t<[32, 2048, 128], bf16, device=cuda:0> {
  %qc = aten.clone(%q, memory_format = contiguous_format) : (!sym.t<[2, 16, 2048, 128], bf16, strides=[4194304, 128, 2048, 1], device=cuda:0>) -> !sym.t<[2, 16, 2048, 128], bf16, device=cuda:0>
  %qv = aten._unsafe_view(%qc, [32, 2048, 128]) : (!sym.t<[2, 16, 2048, 128], bf16, device=cuda:0>) -> !sym.t<[32, 2048, 128], bf16, device=cuda:0>
  %kc = aten.clone(%k, memory_format = contiguous_format) : (!sym.t<[2, 16, 128, 2048], bf16, strides=[4194304, 128, 1, 2048], device=cuda:0>) -> !sym.t<[2, 16, 128, 2048], bf16, device=cuda:0>
  %kv = aten._unsafe_view(%kc, [32, 128, 2048]) : (!sym.t<[2, 16, 128, 2048], bf16, device=cuda:0>) -> !sym.t<[32, 128, 2048], bf16, device=cuda:0>
  %vv = aten.view(%v, [32, 2048, 128]) : (!sym.t<[2, 16, 2048, 128], bf16, device=cuda:0>) -> !sym.t<[32, 2048, 128], bf16, device=cuda:0>
  %s = aten.bmm(%qv, %kv) : (!sym.t<[32, 2048, 128], bf16, device=cuda:0>, !sym.t<[32, 128, 2048], bf16, device=cuda:0>) -> !sym.t<[32, 2048, 2048], bf16, device=cuda:0>
  %u = aten.view(%s, [2, 16, 2048, 2048]) : (!sym.t<[32, 2048, 2048], bf16, device=cuda:0>) -> !sym.t<[2, 16, 2048, 2048], bf16, device=cuda:0>
  %w = aten._to_copy(%u, dtype = f32) : (!sym.t<[2, 16, 2048, 2048], bf16, device=cuda:0>) -> !sym.t<[2, 16, 2048, 2048], f32, device=cuda:0>
  %d = aten.mul.Tensor(%w, 0.1) : (!sym.t<[2, 16, 2048, 2048], f32, device=cuda:0>) -> !sym.t<[2, 16, 2048, 2048], f32, device=cuda:0>
  %p = aten._softmax(%d, -1, false) : (!sym.t<[2, 16, 2048, 2048], f32, device=cuda:0>) -> !sym.t<[2, 16, 2048, 2048], f32, device=cuda:0>
  %h = aten._to_copy(%p, dtype = bf16) : (!sym.t<[2, 16, 2048, 2048], f32, device=cuda:0>) -> !sym.t<[2, 16, 2048, 2048], bf16, device=cuda:0>
  %x = aten.view(%h, [32, 2048, 2048]) : (!sym.t<[2, 16, 2048, 2048], bf16, device=cuda:0>) -> !sym.t<[32, 2048, 2048], bf16, device=cuda:0>
  %y = aten.bmm(%x, %vv) : (!sym.t<[32, 2048, 2048], bf16, device=cuda:0>, !sym.t<[32, 2048, 128], bf16, device=cuda:0>) -> !sym.t<[32, 2048, 128], bf16, device=cuda:0>
  func.return %y : !sym.t<[32, 2048, 128], bf16, device=cuda:0>
}

// 64 elements are ours as long as keys are few.
// TORCH-LABEL: func.func @few_keys(
// TORCH: aten.bmm(%q, %k) {lamella.product = "generated"}
// TORCH-NOT: scaled_dot_product
func.func @few_keys(%q: !sym.t<[16, 1024, 64], f16, device=cuda:0>, %k: !sym.t<[16, 64, 1024], f16, strides=[65536, 1, 64], device=cuda:0>, %v: !sym.t<[16, 1024, 64], f16, device=cuda:0>) -> !sym.t<[16, 1024, 64], f16, device=cuda:0> {
  %s = aten.bmm(%q, %k) : (!sym.t<[16, 1024, 64], f16, device=cuda:0>, !sym.t<[16, 64, 1024], f16, strides=[65536, 1, 64], device=cuda:0>) -> !sym.t<[16, 1024, 1024], f16, device=cuda:0>
  %p = aten._softmax(%s, -1, false) : (!sym.t<[16, 1024, 1024], f16, device=cuda:0>) -> !sym.t<[16, 1024, 1024], f16, device=cuda:0>
  %y = aten.bmm(%p, %v) : (!sym.t<[16, 1024, 1024], f16, device=cuda:0>, !sym.t<[16, 1024, 64], f16, device=cuda:0>) -> !sym.t<[16, 1024, 64], f16, device=cuda:0>
  func.return %y : !sym.t<[16, 1024, 64], f16, device=cuda:0>
}
