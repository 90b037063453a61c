// RUN: lamella-opt %s --split-input-file -p 'aten-inline-layers' | filecheck %s

// One product for queries, keys and values, which are views of its result; ATen's attention; one product.

// CHECK-LABEL: func.func @main(
// CHECK-SAME: [[X:%\w+]]: !sym.t<[2, s0, 48], f32>
// CHECK:      [[ROWS:%\w+]] = aten.view([[X]], [2*s0, 48])
// CHECK-NEXT: [[W:%\w+]] = aten.transpose.int(%w, -2, -1)
// CHECK-NEXT: [[QKV:%\w+]] = aten.addmm(%b, [[ROWS]], [[W]])
// CHECK:      [[HEADS:%\w+]] = aten.view({{%\w+}}, [2, s0, 3, 4, 12])
// CHECK-NEXT: [[Q:%\w+]] = aten.select.int([[HEADS]], 2, 0) : (!sym.t<[2, s0, 3, 4, 12], f32>) -> !sym.t<[2, s0, 4, 12], f32, strides=[144*s0, 144, 12, 1]>
// CHECK-NEXT: aten.transpose.int([[Q]], 1, 2) : {{.*}} -> !sym.t<[2, 4, s0, 12], f32, strides=[144*s0, 12, 144, 1]>
// CHECK:      aten._scaled_dot_product_flash_attention_for_cpu({{%\w+}}, {{%\w+}}, {{%\w+}})
// CHECK-SAME: !sym.t<[2, 4, s0, 12], f32, strides=[48*s0, 12, 48, 1]>
// CHECK:      aten.addmm(%pb
// CHECK:      [[Y:%\w+]] = aten.view({{%\w+}}, [2, s0, 48])
// CHECK-NEXT: func.return [[Y]]
// CHECK-NOT:  = aten._native_multi_head_attention
builtin.module {
  func.func @main(%x: !sym.t<[2, s0, 48], f32>, %w: !sym.t<[144, 48], f32>, %b: !sym.t<[144], f32>, %pw: !sym.t<[48, 48], f32>, %pb: !sym.t<[48], f32>) -> !sym.t<[2, s0, 48], f32> {
    %y, %z = aten._native_multi_head_attention(%x, %x, %x, 48, 4, %w, %b, %pw, %pb, need_weights = false) : (!sym.t<[2, s0, 48], f32>, !sym.t<[2, s0, 48], f32>, !sym.t<[2, s0, 48], f32>, !sym.t<[144, 48], f32>, !sym.t<[144], f32>, !sym.t<[48, 48], f32>, !sym.t<[48], f32>) -> (!sym.t<[2, s0, 48], f32>, !sym.t<[0], f32>)
    func.return %y : !sym.t<[2, s0, 48], f32>
  }
}

// -----

// Where the weights are asked for, and on GPUs, it is written out; a GPU's kernels are chosen later.

// CHECK-LABEL: func.func @main(
// CHECK:      [[S:%\w+]] = aten.mul.Scalar({{%\w+}}, 0.2886751345948129)
// CHECK-NEXT: [[P:%\w+]] = aten._softmax([[S]], -1, false)
// CHECK:      [[A:%\w+]] = aten.mean.dim([[P]], [1]) : {{.*}} -> !sym.t<[2, 20, 20], f32>
// CHECK:      [[Y:%\w+]] = aten.view({{%\w+}}, [2, 20, 48])
// CHECK-NEXT: func.return [[Y]], [[A]]
builtin.module {
  func.func @main(%x: !sym.t<[2, 20, 48], f32>, %w: !sym.t<[144, 48], f32>, %b: !sym.t<[144], f32>, %pw: !sym.t<[48, 48], f32>, %pb: !sym.t<[48], f32>) -> (!sym.t<[2, 20, 48], f32>, !sym.t<[2, 20, 20], f32>) {
    %y, %z = aten._native_multi_head_attention(%x, %x, %x, 48, 4, %w, %b, %pw, %pb) : (!sym.t<[2, 20, 48], f32>, !sym.t<[2, 20, 48], f32>, !sym.t<[2, 20, 48], f32>, !sym.t<[144, 48], f32>, !sym.t<[144], f32>, !sym.t<[48, 48], f32>, !sym.t<[48], f32>) -> (!sym.t<[2, 20, 48], f32>, !sym.t<[2, 20, 20], f32>)
    func.return %y, %z : !sym.t<[2, 20, 48], f32>, !sym.t<[2, 20, 20], f32>
  }
}

// -----

// CHECK-LABEL: func.func @main(
// CHECK-NOT:  flash_attention
// CHECK:      aten._softmax({{.*}} -> !sym.t<[2, 4, 20, 20], f16, device=cuda:0>
// CHECK-NOT:  = aten._native_multi_head_attention
builtin.module {
  func.func @main(%x: !sym.t<[2, 20, 48], f16, device=cuda:0>, %w: !sym.t<[144, 48], f16, device=cuda:0>, %b: !sym.t<[144], f16, device=cuda:0>, %pw: !sym.t<[48, 48], f16, device=cuda:0>, %pb: !sym.t<[48], f16, device=cuda:0>) -> !sym.t<[2, 20, 48], f16, device=cuda:0> {
    %y, %z = aten._native_multi_head_attention(%x, %x, %x, 48, 4, %w, %b, %pw, %pb, need_weights = false) : (!sym.t<[2, 20, 48], f16, device=cuda:0>, !sym.t<[2, 20, 48], f16, device=cuda:0>, !sym.t<[2, 20, 48], f16, device=cuda:0>, !sym.t<[144, 48], f16, device=cuda:0>, !sym.t<[144], f16, device=cuda:0>, !sym.t<[48, 48], f16, device=cuda:0>, !sym.t<[48], f16, device=cuda:0>) -> (!sym.t<[2, 20, 48], f16, device=cuda:0>, !sym.t<[0], f16, device=cuda:0>)
    func.return %y : !sym.t<[2, 20, 48], f16, device=cuda:0>
  }
}

// -----

// With a mask, or of other keys, it stays a call.

// CHECK-LABEL: func.func @main(
// CHECK-NEXT: aten._native_multi_head_attention(%x, %x, %x
// CHECK-NEXT: aten._native_multi_head_attention(%x, %k, %k
builtin.module {
  func.func @main(%x: !sym.t<[2, 20, 48], f32>, %k: !sym.t<[2, 20, 48], f32>, %m: !sym.t<[20, 20], i1>, %w: !sym.t<[144, 48], f32>, %b: !sym.t<[144], f32>, %pw: !sym.t<[48, 48], f32>, %pb: !sym.t<[48], f32>) -> (!sym.t<[2, 20, 48], f32>, !sym.t<[2, 20, 48], f32>) {
    %y, %z = aten._native_multi_head_attention(%x, %x, %x, 48, 4, %w, %b, %pw, %pb, mask = %m, need_weights = false, mask_type = 0) : (!sym.t<[2, 20, 48], f32>, !sym.t<[2, 20, 48], f32>, !sym.t<[2, 20, 48], f32>, !sym.t<[144, 48], f32>, !sym.t<[144], f32>, !sym.t<[48, 48], f32>, !sym.t<[48], f32>, !sym.t<[20, 20], i1>) -> (!sym.t<[2, 20, 48], f32>, !sym.t<[0], f32>)
    %u, %v = aten._native_multi_head_attention(%x, %k, %k, 48, 4, %w, %b, %pw, %pb, need_weights = false) : (!sym.t<[2, 20, 48], f32>, !sym.t<[2, 20, 48], f32>, !sym.t<[2, 20, 48], f32>, !sym.t<[144, 48], f32>, !sym.t<[144], f32>, !sym.t<[48, 48], f32>, !sym.t<[48], f32>) -> (!sym.t<[2, 20, 48], f32>, !sym.t<[0], f32>)
    func.return %y, %u : !sym.t<[2, 20, 48], f32>, !sym.t<[2, 20, 48], f32>
  }
}

// -----

// A layer: norms before or after, what is added is what went in.

// CHECK-LABEL: func.func @main(
// CHECK:      [[N:%\w+]], {{.*}} = aten.native_layer_norm(%x, [48], %n1, %m1, 1e-05)
// CHECK-NEXT: aten.view([[N]], [40, 48])
// CHECK:      aten._scaled_dot_product_flash_attention_for_cpu
// CHECK:      [[A:%\w+]] = aten.add.Tensor({{%\w+}}, %x)
// CHECK-NEXT: {{%\w+}}, {{.*}} = aten.native_layer_norm([[A]], [48], %n2, %m2, 1e-05)
// CHECK:      aten.gelu(
// CHECK:      [[Y:%\w+]] = aten.add.Tensor({{%\w+}}, [[A]])
// CHECK-NEXT: func.return [[Y]]
builtin.module {
  func.func @main(%x: !sym.t<[2, 20, 48], f32>, %w: !sym.t<[144, 48], f32>, %b: !sym.t<[144], f32>, %pw: !sym.t<[48, 48], f32>, %pb: !sym.t<[48], f32>, %n1: !sym.t<[48], f32>, %m1: !sym.t<[48], f32>, %n2: !sym.t<[48], f32>, %m2: !sym.t<[48], f32>, %f1: !sym.t<[96, 48], f32>, %g1: !sym.t<[96], f32>, %f2: !sym.t<[48, 96], f32>, %g2: !sym.t<[48], f32>) -> !sym.t<[2, 20, 48], f32> {
    %y = aten._transformer_encoder_layer_fwd(%x, 48, 4, %w, %b, %pw, %pb, true, true, 1e-05, %n1, %m1, %n2, %m2, %f1, %g1, %f2, %g2) : (!sym.t<[2, 20, 48], f32>, !sym.t<[144, 48], f32>, !sym.t<[144], f32>, !sym.t<[48, 48], f32>, !sym.t<[48], f32>, !sym.t<[48], f32>, !sym.t<[48], f32>, !sym.t<[48], f32>, !sym.t<[48], f32>, !sym.t<[96, 48], f32>, !sym.t<[96], f32>, !sym.t<[48, 96], f32>, !sym.t<[48], f32>) -> !sym.t<[2, 20, 48], f32>
    func.return %y : !sym.t<[2, 20, 48], f32>
  }
}
