// RUN: lamella-opt %s --split-input-file -p 'aten-outline{least=2}' | filecheck %s
// RUN: lamella-opt %s --split-input-file -p 'aten-outline{least=2},aten-to-prims,prims-canonicalize,prims-to-loop,loop-fuse,inline-calls' | filecheck %s --check-prefix KERNEL

// Functions begin at products, and have what follows them up to the next layer's: the sum and its relu are one kernel.
// The size that a literal has is that of an argument.
// CHECK: func.func @main
// CHECK-NEXT: %0 = aten.relu(%x)
// CHECK-NEXT: %1, %2 = flow.call(%0, %u, %x, %n) callee @repeated_0
// CHECK-NEXT: %3, %4 = flow.call(%2, %v, %1, %n) callee @repeated_0
// CHECK-NEXT: %5 = aten.mm(%4, %w)
// CHECK: func.func private @repeated_0(%0: {{.*}}, %u: {{.*}}, %x: {{.*}}, %n: !sym.t<[s0, s1], f32>)
// CHECK-NEXT: %1 = aten.mm(%0, %u)
// CHECK-NEXT: %2 = aten.mul.Scalar(%1, s1)
// CHECK-NEXT: %3 = aten.add.Tensor(%x, %2)
// CHECK-NEXT: %4 = aten.relu(%3)
// CHECK-NEXT: func.return %3, %4
// KERNEL: loop.kernel @relu_0
// KERNEL: loop.kernel @fused_mul_add_1
// KERNEL: loop.kernel @fused_mul_add_relu_2
// KERNEL: func.func @main
// KERNEL: aten.mm(%{{.*}}, %u)
// KERNEL-NEXT: {{.*}} = loop.launch @fused_mul_add_relu_2
// KERNEL-NEXT: {{.*}} = aten.mm(%{{.*}}, %v)
// KERNEL-NEXT: {{.*}} = loop.launch @fused_mul_add_relu_2
// KERNEL: func.return
builtin.module {
  func.func @main(%x: !sym.t<[4, 8], f32>, %n: !sym.t<[s0, s1], f32>, %u: !sym.t<[8, 8], f32>, %v: !sym.t<[8, 8], f32>, %w: !sym.t<[8, 8], f32>) -> !sym.t<[4, 8], f32> {
    %0 = aten.relu(%x) : (!sym.t<[4, 8], f32>) -> !sym.t<[4, 8], f32>
    %1 = aten.mm(%0, %u) : (!sym.t<[4, 8], f32>, !sym.t<[8, 8], f32>) -> !sym.t<[4, 8], f32>
    %2 = aten.mul.Scalar(%1, s1) : (!sym.t<[4, 8], f32>) -> !sym.t<[4, 8], f32>
    %3 = aten.add.Tensor(%x, %2) : (!sym.t<[4, 8], f32>, !sym.t<[4, 8], f32>) -> !sym.t<[4, 8], f32>
    %4 = aten.relu(%3) : (!sym.t<[4, 8], f32>) -> !sym.t<[4, 8], f32>
    %5 = aten.mm(%4, %v) : (!sym.t<[4, 8], f32>, !sym.t<[8, 8], f32>) -> !sym.t<[4, 8], f32>
    %6 = aten.mul.Scalar(%5, s1) : (!sym.t<[4, 8], f32>) -> !sym.t<[4, 8], f32>
    %7 = aten.add.Tensor(%3, %6) : (!sym.t<[4, 8], f32>, !sym.t<[4, 8], f32>) -> !sym.t<[4, 8], f32>
    %8 = aten.relu(%7) : (!sym.t<[4, 8], f32>) -> !sym.t<[4, 8], f32>
    %9 = aten.mm(%8, %w) : (!sym.t<[4, 8], f32>, !sym.t<[8, 8], f32>) -> !sym.t<[4, 8], f32>
    %10 = aten.mul.Scalar(%9, s1) : (!sym.t<[4, 8], f32>) -> !sym.t<[4, 8], f32>
    %11 = aten.add.Tensor(%7, %10) : (!sym.t<[4, 8], f32>, !sym.t<[4, 8], f32>) -> !sym.t<[4, 8], f32>
    func.return %11 : !sym.t<[4, 8], f32>
  }
}

// -----

// What a kernel makes and sums up is not parted: no function begins at the products, which come before the sum.
// CHECK: func.func @main
// CHECK-NOT: flow.call
// KERNEL: func.func @main
builtin.module {
  func.func @main(%x: !sym.t<[4, 8], f32>, %u: !sym.t<[8, 8], f32>, %v: !sym.t<[8, 8], f32>, %w: !sym.t<[8, 8], f32>) -> (!sym.t<[4, 8], f32>, !sym.t<[8], f32>, !sym.t<[8], f32>, !sym.t<[8], f32>) {
    %0 = aten.cos(%x) : (!sym.t<[4, 8], f32>) -> !sym.t<[4, 8], f32>
    %1 = aten.mm(%0, %u) : (!sym.t<[4, 8], f32>, !sym.t<[8, 8], f32>) -> !sym.t<[4, 8], f32>
    %2 = aten.sum.dim_IntList(%0, [0]) : (!sym.t<[4, 8], f32>) -> !sym.t<[8], f32>
    %3 = aten.cos(%1) : (!sym.t<[4, 8], f32>) -> !sym.t<[4, 8], f32>
    %4 = aten.mm(%3, %v) : (!sym.t<[4, 8], f32>, !sym.t<[8, 8], f32>) -> !sym.t<[4, 8], f32>
    %5 = aten.sum.dim_IntList(%3, [0]) : (!sym.t<[4, 8], f32>) -> !sym.t<[8], f32>
    %6 = aten.cos(%4) : (!sym.t<[4, 8], f32>) -> !sym.t<[4, 8], f32>
    %7 = aten.mm(%6, %w) : (!sym.t<[4, 8], f32>, !sym.t<[8, 8], f32>) -> !sym.t<[4, 8], f32>
    %8 = aten.sum.dim_IntList(%6, [0]) : (!sym.t<[4, 8], f32>) -> !sym.t<[8], f32>
    func.return %7, %2, %5, %8 : !sym.t<[4, 8], f32>, !sym.t<[8], f32>, !sym.t<[8], f32>, !sym.t<[8], f32>
  }
}

// -----

// Views that layers share are made in the function, those of arguments that leave where it is called.
// CHECK: func.func @main
// CHECK: flow.call(%u, %x, %m)
// CHECK-NEXT: aten.t(%u)
// CHECK-NEXT: flow.call(%v, %{{[0-9]+}}, %m)
// CHECK-NEXT: aten.t(%v)
// CHECK: func.func private @repeated_0(%u: {{.*}}, %x: {{.*}}, %m: !sym.t<[8], f32>)
// CHECK-NEXT: aten.unsqueeze(%m, 0)
// CHECK-NEXT: aten.t(%u)
// CHECK-NEXT: aten.mm
// CHECK-NEXT: aten.add.Tensor
// CHECK-NEXT: func.return
// KERNEL: func.func @main
builtin.module {
  func.func @main(%x: !sym.t<[4, 8], f32>, %m: !sym.t<[8], f32>, %u: !sym.t<[8, 8], f32>, %v: !sym.t<[8, 8], f32>) -> (!sym.t<[4, 8], f32>, !sym.t<[8, 8], f32, strides=[1, 8]>, !sym.t<[8, 8], f32, strides=[1, 8]>) {
    %0 = aten.unsqueeze(%m, 0) : (!sym.t<[8], f32>) -> !sym.t<[1, 8], f32>
    %1 = aten.t(%u) : (!sym.t<[8, 8], f32>) -> !sym.t<[8, 8], f32, strides=[1, 8]>
    %2 = aten.mm(%x, %1) : (!sym.t<[4, 8], f32>, !sym.t<[8, 8], f32, strides=[1, 8]>) -> !sym.t<[4, 8], f32>
    %3 = aten.add.Tensor(%2, %0) : (!sym.t<[4, 8], f32>, !sym.t<[1, 8], f32>) -> !sym.t<[4, 8], f32>
    %4 = aten.t(%v) : (!sym.t<[8, 8], f32>) -> !sym.t<[8, 8], f32, strides=[1, 8]>
    %5 = aten.mm(%3, %4) : (!sym.t<[4, 8], f32>, !sym.t<[8, 8], f32, strides=[1, 8]>) -> !sym.t<[4, 8], f32>
    %6 = aten.add.Tensor(%5, %0) : (!sym.t<[4, 8], f32>, !sym.t<[1, 8], f32>) -> !sym.t<[4, 8], f32>
    func.return %6, %1, %4 : !sym.t<[4, 8], f32>, !sym.t<[8, 8], f32, strides=[1, 8]>, !sym.t<[8, 8], f32, strides=[1, 8]>
  }
}

// -----

// Numbers that are drawn, and marked products, which are kernels: nothing is done.
// CHECK: func.func @main
// CHECK-NOT: flow.call
// KERNEL: func.func @main
builtin.module {
  func.func @main(%x: !sym.t<[4, 8], f32>, %u: !sym.t<[8, 8], f32>, %v: !sym.t<[8, 8], f32>) -> !sym.t<[4, 8], f32> {
    %0 = aten.mm(%x, %u) : (!sym.t<[4, 8], f32>, !sym.t<[8, 8], f32>) -> !sym.t<[4, 8], f32>
    %1 = aten.rand_like(%0) : (!sym.t<[4, 8], f32>) -> !sym.t<[4, 8], f32>
    %2 = aten.mul.Tensor(%0, %1) : (!sym.t<[4, 8], f32>, !sym.t<[4, 8], f32>) -> !sym.t<[4, 8], f32>
    %3 = aten.mm(%2, %v) : (!sym.t<[4, 8], f32>, !sym.t<[8, 8], f32>) -> !sym.t<[4, 8], f32>
    %4 = aten.rand_like(%3) : (!sym.t<[4, 8], f32>) -> !sym.t<[4, 8], f32>
    %5 = aten.mul.Tensor(%3, %4) : (!sym.t<[4, 8], f32>, !sym.t<[4, 8], f32>) -> !sym.t<[4, 8], f32>
    func.return %5 : !sym.t<[4, 8], f32>
  }
  func.func @marked(%x: !sym.t<[4, 8], f32>, %u: !sym.t<[8, 8], f32>, %v: !sym.t<[8, 8], f32>) -> !sym.t<[4, 8], f32> {
    %0 = aten.mm(%x, %u) {lamella.product = "generated"} : (!sym.t<[4, 8], f32>, !sym.t<[8, 8], f32>) -> !sym.t<[4, 8], f32>
    %1 = aten.relu(%0) : (!sym.t<[4, 8], f32>) -> !sym.t<[4, 8], f32>
    %2 = aten.mm(%1, %v) {lamella.product = "generated"} : (!sym.t<[4, 8], f32>, !sym.t<[8, 8], f32>) -> !sym.t<[4, 8], f32>
    %3 = aten.relu(%2) : (!sym.t<[4, 8], f32>) -> !sym.t<[4, 8], f32>
    func.return %3 : !sym.t<[4, 8], f32>
  }
}

// -----

// Two kinds of layers in turns: what one function takes, calls of the other one give.
// CHECK: func.func @main
// CHECK-NEXT: %0 = flow.call(%x, %w0) callee @repeated_0
// CHECK-NEXT: %1 = flow.call(%0, %w1) callee @repeated_1
// CHECK-NEXT: %2 = flow.call(%1, %w2) callee @repeated_0
// CHECK-NEXT: %3 = flow.call(%2, %w3) callee @repeated_1
// CHECK: func.func private @repeated_0(%x: {{.*}}, %w0: {{.*}})
// CHECK-NEXT: %0 = aten.mm(%x, %w0)
// CHECK-NEXT: %1 = aten.relu(%0)
// CHECK: func.func private @repeated_1([[X:%\w+]]: {{.*}}, %w1: {{.*}})
// CHECK-NEXT: [[Y:%\w+]] = aten.mm([[X]], %w1)
// CHECK-NEXT: {{.*}} = aten.tanh([[Y]])
// KERNEL: func.func @main
// KERNEL-COUNT-5: loop.launch
builtin.module {
  func.func @main(%x: !sym.t<[4, 8], f32>, %w0: !sym.t<[8, 8], f32>, %w1: !sym.t<[8, 8], f32>, %w2: !sym.t<[8, 8], f32>, %w3: !sym.t<[8, 8], f32>, %w4: !sym.t<[8, 8], f32>) -> !sym.t<[4, 8], f32> {
    %0 = aten.mm(%x, %w0) : (!sym.t<[4, 8], f32>, !sym.t<[8, 8], f32>) -> !sym.t<[4, 8], f32>
    %1 = aten.relu(%0) : (!sym.t<[4, 8], f32>) -> !sym.t<[4, 8], f32>
    %2 = aten.mm(%1, %w1) : (!sym.t<[4, 8], f32>, !sym.t<[8, 8], f32>) -> !sym.t<[4, 8], f32>
    %3 = aten.tanh(%2) : (!sym.t<[4, 8], f32>) -> !sym.t<[4, 8], f32>
    %4 = aten.mm(%3, %w2) : (!sym.t<[4, 8], f32>, !sym.t<[8, 8], f32>) -> !sym.t<[4, 8], f32>
    %5 = aten.relu(%4) : (!sym.t<[4, 8], f32>) -> !sym.t<[4, 8], f32>
    %6 = aten.mm(%5, %w3) : (!sym.t<[4, 8], f32>, !sym.t<[8, 8], f32>) -> !sym.t<[4, 8], f32>
    %7 = aten.tanh(%6) : (!sym.t<[4, 8], f32>) -> !sym.t<[4, 8], f32>
    %8 = aten.mm(%7, %w4) : (!sym.t<[4, 8], f32>, !sym.t<[8, 8], f32>) -> !sym.t<[4, 8], f32>
    %9 = aten.relu(%8) : (!sym.t<[4, 8], f32>) -> !sym.t<[4, 8], f32>
    func.return %9 : !sym.t<[4, 8], f32>
  }
}

// -----

// What products of halves in f32 take is converted by what makes it; functions have the conversions of the next layer's.
// CHECK: func.func @main
// CHECK-NEXT: %0 = aten.tanh(%x)
// CHECK-NEXT: %1 = aten._to_copy(%0, dtype = f32)
// CHECK-NEXT: %2 = aten._to_copy(%u, dtype = f32)
// CHECK-NEXT: %3, %4 = flow.call(%1, %2, %x, %v) callee @repeated_0
// CHECK-NEXT: %5, %6 = flow.call(%3, %4, %x, %w) callee @repeated_0
// CHECK-NEXT: %7 = aten.mm(%5, %6) {lamella.product = "widened"} : (!sym.t<[4, 8], f32>, !sym.t<[8, 8], f32>) -> !sym.t<[4, 8], bf16>
// CHECK: func.func private @repeated_0
// CHECK-NEXT: %{{.*}} = aten.mm(
// KERNEL: func.func @main
// KERNEL: aten.mm
// KERNEL-NEXT: [[T:%\w+]] = loop.launch @fused_mul_tanh_{{.*}} -> !sym.t<[4, 8], f32>
// KERNEL-NEXT: [[V:%\w+]] = loop.launch @to_copy_{{\d}}(%v)
// KERNEL-NEXT: {{.*}} = aten.mm([[T]], [[V]])
// KERNEL-NEXT: [[T:%\w+]] = loop.launch @fused_mul_tanh_{{.*}} -> !sym.t<[4, 8], f32>
// KERNEL-NEXT: [[W:%\w+]] = loop.launch @to_copy_{{\d}}(%w)
// KERNEL-NEXT: {{.*}} = aten.mm([[T]], [[W]])
// KERNEL: func.return
builtin.module {
  func.func @main(%x: !sym.t<[4, 8], bf16>, %u: !sym.t<[8, 8], bf16>, %v: !sym.t<[8, 8], bf16>, %w: !sym.t<[8, 8], bf16>) -> !sym.t<[4, 8], bf16> {
    %0 = aten.tanh(%x) : (!sym.t<[4, 8], bf16>) -> !sym.t<[4, 8], bf16>
    %1 = aten.mm(%0, %u) {lamella.product = "widened"} : (!sym.t<[4, 8], bf16>, !sym.t<[8, 8], bf16>) -> !sym.t<[4, 8], bf16>
    %2 = aten.mul.Tensor(%1, %x) : (!sym.t<[4, 8], bf16>, !sym.t<[4, 8], bf16>) -> !sym.t<[4, 8], bf16>
    %3 = aten.tanh(%2) : (!sym.t<[4, 8], bf16>) -> !sym.t<[4, 8], bf16>
    %4 = aten.mm(%3, %v) {lamella.product = "widened"} : (!sym.t<[4, 8], bf16>, !sym.t<[8, 8], bf16>) -> !sym.t<[4, 8], bf16>
    %5 = aten.mul.Tensor(%4, %x) : (!sym.t<[4, 8], bf16>, !sym.t<[4, 8], bf16>) -> !sym.t<[4, 8], bf16>
    %6 = aten.tanh(%5) : (!sym.t<[4, 8], bf16>) -> !sym.t<[4, 8], bf16>
    %7 = aten.mm(%6, %w) {lamella.product = "widened"} : (!sym.t<[4, 8], bf16>, !sym.t<[8, 8], bf16>) -> !sym.t<[4, 8], bf16>
    %8 = aten.mul.Tensor(%7, %x) : (!sym.t<[4, 8], bf16>, !sym.t<[4, 8], bf16>) -> !sym.t<[4, 8], bf16>
    %9 = aten.tanh(%8) : (!sym.t<[4, 8], bf16>) -> !sym.t<[4, 8], bf16>
    func.return %9 : !sym.t<[4, 8], bf16>
  }
}

// -----

// Layers that count from the beginning of a storage which is not made in them are no function: an argument has another.
// CHECK: func.func @main
// CHECK-NOT: flow.call
// KERNEL: func.func @main
builtin.module {
  func.func @main(%x: !sym.t<[4, 4], f32>, %u: !sym.t<[4, 4], f32>, %v: !sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32> {
    %0 = aten.relu(%x) : (!sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32>
    %1 = aten.mm(%0, %u) : (!sym.t<[4, 4], f32>, !sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32>
    %2 = aten.as_strided(%x, [4, 4], [1, 4]) : (!sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32, strides=[1, 4]>
    %3 = aten.mul.Tensor(%1, %2) : (!sym.t<[4, 4], f32>, !sym.t<[4, 4], f32, strides=[1, 4]>) -> !sym.t<[4, 4], f32>
    %4 = aten.mm(%3, %v) : (!sym.t<[4, 4], f32>, !sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32>
    %5 = aten.as_strided(%x, [4, 4], [1, 4]) : (!sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32, strides=[1, 4]>
    %6 = aten.mul.Tensor(%4, %5) : (!sym.t<[4, 4], f32>, !sym.t<[4, 4], f32, strides=[1, 4]>) -> !sym.t<[4, 4], f32>
    func.return %6 : !sym.t<[4, 4], f32>
  }
}

// -----

// Functions begin at a product that becomes a kernel, too, where its kernel finds in memory what it multiplies: the cosine
// would be computed for each eight of 512 columns again. Nothing is cut before the first of them, which multiplies what
// is only moved, nor before the relu, which its kernel has.
// CHECK: func.func @main
// CHECK: aten.mm(%0, %u)
// CHECK: %[[A:.*]] = aten.cos(%{{.*}})
// CHECK-NEXT: %[[B:.*]] = flow.call(%[[A]], %v) callee @repeated_0
// CHECK-NEXT: %[[C:.*]] = flow.call(%[[B]], %w) callee @repeated_0
// CHECK-NEXT: func.return %[[C]]
// CHECK: func.func private @repeated_0
// CHECK-NEXT: aten.mm
// CHECK-NEXT: aten.relu
// CHECK-NEXT: aten.cos
// KERNEL: loop.kernel @fused_mm_relu_cos_0
// KERNEL-NOT: loop.kernel
// KERNEL: func.func @main
// KERNEL-NEXT: %0 = loop.launch @fused_mm_relu_cos_0(%x, %u)
// KERNEL-NEXT: %1 = loop.launch @fused_mm_relu_cos_0(%0, %v)
// KERNEL-NEXT: %2 = loop.launch @fused_mm_relu_cos_0(%1, %w)
// KERNEL-NEXT: func.return %2
builtin.module {
  func.func @main(%x: !sym.t<[512, 512], f32>, %u: !sym.t<[512, 512], f32>, %v: !sym.t<[512, 512], f32>, %w: !sym.t<[512, 512], f32>) -> !sym.t<[512, 512], f32> {
    %0 = aten.clone(%x) : (!sym.t<[512, 512], f32>) -> !sym.t<[512, 512], f32>
    %1 = aten.mm(%0, %u) {lamella.product = "generated"} : (!sym.t<[512, 512], f32>, !sym.t<[512, 512], f32>) -> !sym.t<[512, 512], f32>
    %2 = aten.relu(%1) : (!sym.t<[512, 512], f32>) -> !sym.t<[512, 512], f32>
    %3 = aten.cos(%2) : (!sym.t<[512, 512], f32>) -> !sym.t<[512, 512], f32>
    %4 = aten.mm(%3, %v) {lamella.product = "generated"} : (!sym.t<[512, 512], f32>, !sym.t<[512, 512], f32>) -> !sym.t<[512, 512], f32>
    %5 = aten.relu(%4) : (!sym.t<[512, 512], f32>) -> !sym.t<[512, 512], f32>
    %6 = aten.cos(%5) : (!sym.t<[512, 512], f32>) -> !sym.t<[512, 512], f32>
    %7 = aten.mm(%6, %w) {lamella.product = "generated"} : (!sym.t<[512, 512], f32>, !sym.t<[512, 512], f32>) -> !sym.t<[512, 512], f32>
    %8 = aten.relu(%7) : (!sym.t<[512, 512], f32>) -> !sym.t<[512, 512], f32>
    %9 = aten.cos(%8) : (!sym.t<[512, 512], f32>) -> !sym.t<[512, 512], f32>
    func.return %9 : !sym.t<[512, 512], f32>
  }
}

// -----

// Of few columns what costs little is computed where it is read: no function begins there.
// CHECK: func.func @main
// CHECK-NOT: flow.call
// KERNEL: func.func @main
// KERNEL: {{.*}} = loop.launch @mm_
// KERNEL-NEXT: {{.*}} = loop.launch @fused_neg_mm_
// KERNEL-NEXT: {{.*}} = loop.launch @fused_neg_mm_
// KERNEL-NEXT: func.return
builtin.module {
  func.func @main(%x: !sym.t<[512, 64], f32>, %u: !sym.t<[64, 64], f32>, %v: !sym.t<[64, 64], f32>, %w: !sym.t<[64, 64], f32>) -> !sym.t<[512, 64], f32> {
    %0 = aten.cos(%x) : (!sym.t<[512, 64], f32>) -> !sym.t<[512, 64], f32>
    %1 = aten.mm(%0, %u) {lamella.product = "generated"} : (!sym.t<[512, 64], f32>, !sym.t<[64, 64], f32>) -> !sym.t<[512, 64], f32>
    %2 = aten.neg(%1) : (!sym.t<[512, 64], f32>) -> !sym.t<[512, 64], f32>
    %3 = aten.mm(%2, %v) {lamella.product = "generated"} : (!sym.t<[512, 64], f32>, !sym.t<[64, 64], f32>) -> !sym.t<[512, 64], f32>
    %4 = aten.neg(%3) : (!sym.t<[512, 64], f32>) -> !sym.t<[512, 64], f32>
    %5 = aten.mm(%4, %w) {lamella.product = "generated"} : (!sym.t<[512, 64], f32>, !sym.t<[64, 64], f32>) -> !sym.t<[512, 64], f32>
    func.return %5 : !sym.t<[512, 64], f32>
  }
}

// -----

// Attention of GPUs gives sizes and seeds beside tensors: it is part of a layer where nobody uses them.
// CHECK: func.func @main
// CHECK: flow.call(%{{.*}}, %u) callee @repeated_0
// CHECK: flow.call(%{{.*}}, %v) callee @repeated_0
// CHECK: func.func @used
// CHECK-NOT: flow.call
// CHECK: func.func private @repeated_0
// CHECK-NEXT: aten.mm
// CHECK-NEXT: aten.view
// CHECK-NEXT: aten._scaled_dot_product_flash_attention
// CHECK-NEXT: aten.view
// CHECK-NEXT: aten.relu
// KERNEL: func.func @main
builtin.module {
  func.func @main(%x: !sym.t<[s0, 64], f16, device=cuda:0>, %u: !sym.t<[64, 64], f16, device=cuda:0>, %v: !sym.t<[64, 64], f16, device=cuda:0>) -> !sym.t<[s0, 64], f16, device=cuda:0> {
    %0 = aten.mm(%x, %u) : (!sym.t<[s0, 64], f16, device=cuda:0>, !sym.t<[64, 64], f16, device=cuda:0>) -> !sym.t<[s0, 64], f16, device=cuda:0>
    %1 = aten.view(%0, [1, 1, s0, 64]) : (!sym.t<[s0, 64], f16, device=cuda:0>) -> !sym.t<[1, 1, s0, 64], f16, device=cuda:0>
    %2, %3, %4, %5, %6, %7, %8, %9, %10 = aten._scaled_dot_product_flash_attention(%1, %1, %1) : (!sym.t<[1, 1, s0, 64], f16, device=cuda:0>, !sym.t<[1, 1, s0, 64], f16, device=cuda:0>, !sym.t<[1, 1, s0, 64], f16, device=cuda:0>) -> (!sym.t<[1, 1, s0, 64], f16, device=cuda:0>, !sym.t<[1, 1, s0], f32, device=cuda:0>, none, none, !sym.int<s0>, !sym.int<s0>, !sym.t<[2], u64, device=cuda:0>, !sym.t<[], u64, device=cuda:0>, !sym.t<[0], f16, device=cuda:0>)
    %11 = aten.view(%2, [s0, 64]) : (!sym.t<[1, 1, s0, 64], f16, device=cuda:0>) -> !sym.t<[s0, 64], f16, device=cuda:0>
    %12 = aten.relu(%11) : (!sym.t<[s0, 64], f16, device=cuda:0>) -> !sym.t<[s0, 64], f16, device=cuda:0>
    %13 = aten.mm(%12, %v) : (!sym.t<[s0, 64], f16, device=cuda:0>, !sym.t<[64, 64], f16, device=cuda:0>) -> !sym.t<[s0, 64], f16, device=cuda:0>
    %14 = aten.view(%13, [1, 1, s0, 64]) : (!sym.t<[s0, 64], f16, device=cuda:0>) -> !sym.t<[1, 1, s0, 64], f16, device=cuda:0>
    %15, %16, %17, %18, %19, %20, %21, %22, %23 = aten._scaled_dot_product_flash_attention(%14, %14, %14) : (!sym.t<[1, 1, s0, 64], f16, device=cuda:0>, !sym.t<[1, 1, s0, 64], f16, device=cuda:0>, !sym.t<[1, 1, s0, 64], f16, device=cuda:0>) -> (!sym.t<[1, 1, s0, 64], f16, device=cuda:0>, !sym.t<[1, 1, s0], f32, device=cuda:0>, none, none, !sym.int<s0>, !sym.int<s0>, !sym.t<[2], u64, device=cuda:0>, !sym.t<[], u64, device=cuda:0>, !sym.t<[0], f16, device=cuda:0>)
    %24 = aten.view(%15, [s0, 64]) : (!sym.t<[1, 1, s0, 64], f16, device=cuda:0>) -> !sym.t<[s0, 64], f16, device=cuda:0>
    %25 = aten.relu(%24) : (!sym.t<[s0, 64], f16, device=cuda:0>) -> !sym.t<[s0, 64], f16, device=cuda:0>
    func.return %25 : !sym.t<[s0, 64], f16, device=cuda:0>
  }
  func.func @used(%x: !sym.t<[s0, 64], f16, device=cuda:0>, %u: !sym.t<[64, 64], f16, device=cuda:0>, %v: !sym.t<[64, 64], f16, device=cuda:0>) -> (!sym.t<[s0, 64], f16, device=cuda:0>, !sym.int<s0>) {
    %0 = aten.mm(%x, %u) : (!sym.t<[s0, 64], f16, device=cuda:0>, !sym.t<[64, 64], f16, device=cuda:0>) -> !sym.t<[s0, 64], f16, device=cuda:0>
    %1 = aten.view(%0, [1, 1, s0, 64]) : (!sym.t<[s0, 64], f16, device=cuda:0>) -> !sym.t<[1, 1, s0, 64], f16, device=cuda:0>
    %2, %3, %4, %5, %6, %7, %8, %9, %10 = aten._scaled_dot_product_flash_attention(%1, %1, %1) : (!sym.t<[1, 1, s0, 64], f16, device=cuda:0>, !sym.t<[1, 1, s0, 64], f16, device=cuda:0>, !sym.t<[1, 1, s0, 64], f16, device=cuda:0>) -> (!sym.t<[1, 1, s0, 64], f16, device=cuda:0>, !sym.t<[1, 1, s0], f32, device=cuda:0>, none, none, !sym.int<s0>, !sym.int<s0>, !sym.t<[2], u64, device=cuda:0>, !sym.t<[], u64, device=cuda:0>, !sym.t<[0], f16, device=cuda:0>)
    %11 = aten.view(%2, [s0, 64]) : (!sym.t<[1, 1, s0, 64], f16, device=cuda:0>) -> !sym.t<[s0, 64], f16, device=cuda:0>
    %12 = aten.relu(%11) : (!sym.t<[s0, 64], f16, device=cuda:0>) -> !sym.t<[s0, 64], f16, device=cuda:0>
    %13 = aten.mm(%12, %v) : (!sym.t<[s0, 64], f16, device=cuda:0>, !sym.t<[64, 64], f16, device=cuda:0>) -> !sym.t<[s0, 64], f16, device=cuda:0>
    %14 = aten.view(%13, [1, 1, s0, 64]) : (!sym.t<[s0, 64], f16, device=cuda:0>) -> !sym.t<[1, 1, s0, 64], f16, device=cuda:0>
    %15, %16, %17, %18, %19, %20, %21, %22, %23 = aten._scaled_dot_product_flash_attention(%14, %14, %14) : (!sym.t<[1, 1, s0, 64], f16, device=cuda:0>, !sym.t<[1, 1, s0, 64], f16, device=cuda:0>, !sym.t<[1, 1, s0, 64], f16, device=cuda:0>) -> (!sym.t<[1, 1, s0, 64], f16, device=cuda:0>, !sym.t<[1, 1, s0], f32, device=cuda:0>, none, none, !sym.int<s0>, !sym.int<s0>, !sym.t<[2], u64, device=cuda:0>, !sym.t<[], u64, device=cuda:0>, !sym.t<[0], f16, device=cuda:0>)
    %24 = aten.view(%15, [s0, 64]) : (!sym.t<[1, 1, s0, 64], f16, device=cuda:0>) -> !sym.t<[s0, 64], f16, device=cuda:0>
    %25 = aten.relu(%24) : (!sym.t<[s0, 64], f16, device=cuda:0>) -> !sym.t<[s0, 64], f16, device=cuda:0>
    func.return %25, %19 : !sym.t<[s0, 64], f16, device=cuda:0>, !sym.int<s0>
  }
}
