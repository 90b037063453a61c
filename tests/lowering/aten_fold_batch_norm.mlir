// RUN: lamella-opt %s -p 'aten-fold-batch-norm' | filecheck %s
// What the parameters make of the weight and the bias depends on nothing else.

// CHECK-LABEL: func.func @folded(
// CHECK-NEXT: [[E:%\d+]] = aten.add.Scalar(%var, 1e-05) : (!sym.t<[4], f32>) -> !sym.t<[4], f32>
// CHECK-NEXT: [[R:%\d+]] = aten.rsqrt([[E]])
// CHECK-NEXT: [[F:%\d+]] = aten.mul.Tensor([[R]], %gamma)
// CHECK-NEXT: [[S:%\d+]] = aten.sub.Tensor(%mean, %b)
// CHECK-NEXT: [[T:%\d+]] = aten.mul.Tensor([[S]], [[F]])
// CHECK-NEXT: [[B:%\d+]] = aten.sub.Tensor(%beta, [[T]])
// CHECK-NEXT: [[C:%\d+]] = aten.view([[F]], [4, 1, 1, 1])
// CHECK-NEXT: [[W:%\d+]] = aten.mul.Tensor(%w, [[C]]) : (!sym.t<[4, 8, 3, 3], f32>, !sym.t<[4, 1, 1, 1], f32>) -> !sym.t<[4, 8, 3, 3], f32>
// CHECK-NEXT: [[Y:%\w+]] = aten.convolution(%x, [[W]], [[B]], [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
// CHECK-NEXT: func.return [[Y]]
func.func @folded(%x: !sym.t<[s0, 8, 16, 16], f32>, %w: !sym.t<[4, 8, 3, 3], f32> {lamella.frozen}, %b: !sym.t<[4], f32> {lamella.frozen}, %gamma: !sym.t<[4], f32> {lamella.frozen}, %beta: !sym.t<[4], f32> {lamella.frozen}, %mean: !sym.t<[4], f32> {lamella.frozen}, %var: !sym.t<[4], f32> {lamella.frozen}) -> !sym.t<[s0, 4, 16, 16], f32> {
  %c = aten.convolution(%x, %w, %b, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (!sym.t<[s0, 8, 16, 16], f32>, !sym.t<[4, 8, 3, 3], f32>, !sym.t<[4], f32>) -> !sym.t<[s0, 4, 16, 16], f32>
  %n, %i, %j = aten._native_batch_norm_legit_no_training(%c, %gamma, %beta, %mean, %var, 0.1, 1e-5) : (!sym.t<[s0, 4, 16, 16], f32>, !sym.t<[4], f32>, !sym.t<[4], f32>, !sym.t<[4], f32>, !sym.t<[4], f32>) -> (!sym.t<[s0, 4, 16, 16], f32>, !sym.t<[0], f32>, !sym.t<[0], f32>)
  func.return %n : !sym.t<[s0, 4, 16, 16], f32>
}

// Half floats are multiplied in f32. Without gamma and beta there is the factor of the variance and the mean.
// CHECK-LABEL: func.func @half(
// CHECK-NEXT: [[V:%\d+]] = aten._to_copy(%var, dtype = f32)
// CHECK: [[F:%\d+]] = aten.rsqrt(
// CHECK: [[M:%\d+]] = aten._to_copy(%mean, dtype = f32)
// CHECK: [[B:%\d+]] = aten.neg(
// CHECK: aten._to_copy(%w, dtype = f32)
// CHECK: aten._to_copy({{.*}}, dtype = bf16) : (!sym.t<[4, 8, 3, 3], f32>) -> !sym.t<[4, 8, 3, 3], bf16>
// CHECK: aten._to_copy([[B]], dtype = bf16)
// CHECK: aten.convolution(
func.func @half(%x: !sym.t<[2, 8, 16, 16], bf16>, %w: !sym.t<[4, 8, 3, 3], bf16> {lamella.frozen}, %mean: !sym.t<[4], bf16> {lamella.frozen}, %var: !sym.t<[4], bf16> {lamella.frozen}) -> !sym.t<[2, 4, 16, 16], bf16> {
  %c = aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (!sym.t<[2, 8, 16, 16], bf16>, !sym.t<[4, 8, 3, 3], bf16>) -> !sym.t<[2, 4, 16, 16], bf16>
  %n, %i, %j = aten._native_batch_norm_legit_no_training(%c, none, none, %mean, %var, 0.1, 1e-5) : (!sym.t<[2, 4, 16, 16], bf16>, !sym.t<[4], bf16>, !sym.t<[4], bf16>) -> (!sym.t<[2, 4, 16, 16], bf16>, !sym.t<[0], bf16>, !sym.t<[0], bf16>)
  func.return %n : !sym.t<[2, 4, 16, 16], bf16>
}

// A statistic that is no promised constant, and a convolution that something else reads, stay.
// CHECK-LABEL: func.func @changing(
// CHECK: aten._native_batch_norm_legit_no_training(
func.func @changing(%x: !sym.t<[2, 8, 16, 16], f32>, %w: !sym.t<[4, 8, 3, 3], f32> {lamella.frozen}, %mean: !sym.t<[4], f32> {lamella.frozen}, %var: !sym.t<[4], f32>) -> !sym.t<[2, 4, 16, 16], f32> {
  %c = aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (!sym.t<[2, 8, 16, 16], f32>, !sym.t<[4, 8, 3, 3], f32>) -> !sym.t<[2, 4, 16, 16], f32>
  %n, %i, %j = aten._native_batch_norm_legit_no_training(%c, none, none, %mean, %var, 0.1, 1e-5) : (!sym.t<[2, 4, 16, 16], f32>, !sym.t<[4], f32>, !sym.t<[4], f32>) -> (!sym.t<[2, 4, 16, 16], f32>, !sym.t<[0], f32>, !sym.t<[0], f32>)
  func.return %n : !sym.t<[2, 4, 16, 16], f32>
}

// CHECK-LABEL: func.func @read_twice(
// CHECK: aten._native_batch_norm_legit_no_training(
func.func @read_twice(%x: !sym.t<[2, 8, 16, 16], f32>, %w: !sym.t<[4, 8, 3, 3], f32> {lamella.frozen}, %mean: !sym.t<[4], f32> {lamella.frozen}, %var: !sym.t<[4], f32> {lamella.frozen}) -> (!sym.t<[2, 4, 16, 16], f32>, !sym.t<[2, 4, 16, 16], f32>) {
  %c = aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (!sym.t<[2, 8, 16, 16], f32>, !sym.t<[4, 8, 3, 3], f32>) -> !sym.t<[2, 4, 16, 16], f32>
  %n, %i, %j = aten._native_batch_norm_legit_no_training(%c, none, none, %mean, %var, 0.1, 1e-5) : (!sym.t<[2, 4, 16, 16], f32>, !sym.t<[4], f32>, !sym.t<[4], f32>) -> (!sym.t<[2, 4, 16, 16], f32>, !sym.t<[0], f32>, !sym.t<[0], f32>)
  func.return %n, %c : !sym.t<[2, 4, 16, 16], f32>, !sym.t<[2, 4, 16, 16], f32>
}
