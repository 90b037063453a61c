// RUN: lamella-opt %s -p 'aten-channels-last' | filecheck %s
// Two convolutions: the image between them needs no copy. Weights of one pixel are the same memory in both layouts.
// What is decided is told, a region a line.
// CHECK: lamella.decisions = ["2 convolutions: channels last, 92274688 bytes less to reorder for 25179648 bytes of copies", "1 convolution: not channels last, 32768 bytes less to reorder for 39680 bytes of copies",

// CHECK-LABEL: func.func @chain(
// CHECK-NEXT: [[X:%\w+]] = aten.clone(%x, memory_format = channels_last) : (!sym.t<[s0, 8, 32, 32], f32>) -> !sym.t<[s0, 8, 32, 32], f32, strides=[8192, 1, 256, 8]>
// CHECK-NEXT: [[V:%\w+]] = aten.clone(%v, memory_format = channels_last) : (!sym.t<[16, 8, 3, 3], f32>) -> !sym.t<[16, 8, 3, 3], f32, strides=[72, 1, 24, 8]>
// CHECK-NEXT: [[A:%\w+]] = aten.convolution([[X]], [[V]], none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) {{.*}} -> !sym.t<[s0, 16, 32, 32], f32, strides=[16384, 1, 512, 16]>
// CHECK-NEXT: [[R:%\w+]] = aten.relu([[A]]) {{.*}} -> !sym.t<[s0, 16, 32, 32], f32, strides=[16384, 1, 512, 16]>
// CHECK-NEXT: [[B:%\w+]] = aten.convolution([[R]], %w, %b, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) {{.*}} -> !sym.t<[s0, 4, 32, 32], f32, strides=[4096, 1, 128, 4]>
// CHECK-NEXT: [[C:%\w+]] = aten.clone([[B]], memory_format = contiguous_format) : (!sym.t<[s0, 4, 32, 32], f32, strides=[4096, 1, 128, 4]>) -> !sym.t<[s0, 4, 32, 32], f32>
// CHECK-NEXT: func.return [[C]] : !sym.t<[s0, 4, 32, 32], f32>
func.func @chain(%x: !sym.t<[s0, 8, 32, 32], f32>, %v: !sym.t<[16, 8, 3, 3], f32>, %w: !sym.t<[4, 16, 1, 1], f32>, %b: !sym.t<[4], f32>) -> !sym.t<[s0, 4, 32, 32], f32> {
  %a = aten.convolution(%x, %v, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (!sym.t<[s0, 8, 32, 32], f32>, !sym.t<[16, 8, 3, 3], f32>) -> !sym.t<[s0, 16, 32, 32], f32>
  %r = aten.relu(%a) : (!sym.t<[s0, 16, 32, 32], f32>) -> !sym.t<[s0, 16, 32, 32], f32>
  %c = aten.convolution(%r, %w, %b, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : (!sym.t<[s0, 16, 32, 32], f32>, !sym.t<[4, 16, 1, 1], f32>, !sym.t<[4], f32>) -> !sym.t<[s0, 4, 32, 32], f32>
  func.return %c : !sym.t<[s0, 4, 32, 32], f32>
}

// A single convolution reorders no more than the copies would.
// CHECK-LABEL: func.func @single(
// CHECK-NEXT: [[A:%\w+]] = aten.convolution(%x, %w, none,
// CHECK-NEXT: [[R:%\w+]] = aten.relu([[A]]) : (!sym.t<[2, 8, 16, 16], f32>) -> !sym.t<[2, 8, 16, 16], f32>
// CHECK-NEXT: func.return [[R]]
func.func @single(%x: !sym.t<[2, 8, 16, 16], f32>, %w: !sym.t<[8, 8, 3, 3], f32>) -> !sym.t<[2, 8, 16, 16], f32> {
  %a = aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (!sym.t<[2, 8, 16, 16], f32>, !sym.t<[8, 8, 3, 3], f32>) -> !sym.t<[2, 8, 16, 16], f32>
  %r = aten.relu(%a) : (!sym.t<[2, 8, 16, 16], f32>) -> !sym.t<[2, 8, 16, 16], f32>
  func.return %r : !sym.t<[2, 8, 16, 16], f32>
}

// What reads any layout ends a region without a copy; a view wants the layout that it was made for.
// CHECK-LABEL: func.func @ends(
// CHECK: [[A:%\w+]] = aten.convolution(
// CHECK-NEXT: [[P:%\w+]] = aten._adaptive_avg_pool2d([[A]], [1, 1]) : (!sym.t<[2, 8, 16, 16], f32, strides=[2048, 1, 128, 8]>) -> !sym.t<[2, 8, 1, 1], f32>
// CHECK-NEXT: [[V:%\w+]] = aten.view([[P]], [2, 8]) : (!sym.t<[2, 8, 1, 1], f32>) -> !sym.t<[2, 8], f32>
// CHECK-NEXT: [[M:%\w+]] = aten.mean.dim([[A]], [2, 3])
// CHECK-NEXT: func.return [[V]], [[M]]
func.func @ends(%x: !sym.t<[2, 3, 16, 16], f32>, %w: !sym.t<[8, 3, 3, 3], f32>) -> (!sym.t<[2, 8], f32>, !sym.t<[2, 8], f32>) {
  %a = aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (!sym.t<[2, 3, 16, 16], f32>, !sym.t<[8, 3, 3, 3], f32>) -> !sym.t<[2, 8, 16, 16], f32>
  %p = aten._adaptive_avg_pool2d(%a, [1, 1]) : (!sym.t<[2, 8, 16, 16], f32>) -> !sym.t<[2, 8, 1, 1], f32>
  %v = aten.view(%p, [2, 8]) : (!sym.t<[2, 8, 1, 1], f32>) -> !sym.t<[2, 8], f32>
  %m = aten.mean.dim(%a, [2, 3]) : (!sym.t<[2, 8, 16, 16], f32>) -> !sym.t<[2, 8], f32>
  func.return %v, %m : !sym.t<[2, 8], f32>, !sym.t<[2, 8], f32>
}

// A transposed convolution stays as it is.
// CHECK-LABEL: func.func @transposed(
// CHECK-NEXT: aten.convolution(%x, %w, none
// CHECK-NEXT: aten._adaptive_avg_pool2d
func.func @transposed(%x: !sym.t<[2, 8, 16, 16], f32>, %w: !sym.t<[8, 8, 3, 3], f32>) -> !sym.t<[2, 8, 1, 1], f32> {
  %a = aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], true, [0, 0], 1) : (!sym.t<[2, 8, 16, 16], f32>, !sym.t<[8, 8, 3, 3], f32>) -> !sym.t<[2, 8, 16, 16], f32>
  %p = aten._adaptive_avg_pool2d(%a, [1, 1]) : (!sym.t<[2, 8, 16, 16], f32>) -> !sym.t<[2, 8, 1, 1], f32>
  func.return %p : !sym.t<[2, 8, 1, 1], f32>
}

// On a GPU too, of the dtypes that tensor cores take.
// CHECK-LABEL: func.func @gpu(
// CHECK: aten.relu({{.*}}) : {{.*}} -> !sym.t<[2, 16, 32, 32], bf16, strides=[16384, 1, 512, 16], device=cuda:0>
func.func @gpu(%x: !sym.t<[2, 8, 32, 32], bf16, device=cuda:0>, %v: !sym.t<[16, 8, 3, 3], bf16, device=cuda:0>, %w: !sym.t<[4, 16, 1, 1], bf16, device=cuda:0>) -> !sym.t<[2, 4, 32, 32], bf16, device=cuda:0> {
  %a = aten.convolution(%x, %v, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (!sym.t<[2, 8, 32, 32], bf16, device=cuda:0>, !sym.t<[16, 8, 3, 3], bf16, device=cuda:0>) -> !sym.t<[2, 16, 32, 32], bf16, device=cuda:0>
  %r = aten.relu(%a) : (!sym.t<[2, 16, 32, 32], bf16, device=cuda:0>) -> !sym.t<[2, 16, 32, 32], bf16, device=cuda:0>
  %c = aten.convolution(%r, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : (!sym.t<[2, 16, 32, 32], bf16, device=cuda:0>, !sym.t<[4, 16, 1, 1], bf16, device=cuda:0>) -> !sym.t<[2, 4, 32, 32], bf16, device=cuda:0>
  func.return %c : !sym.t<[2, 4, 32, 32], bf16, device=cuda:0>
}
// CHECK-LABEL: func.func @gpu_f64(
// CHECK-NOT: channels_last
func.func @gpu_f64(%x: !sym.t<[2, 8, 32, 32], f64, device=cuda:0>, %v: !sym.t<[16, 8, 3, 3], f64, device=cuda:0>, %w: !sym.t<[4, 16, 1, 1], f64, device=cuda:0>) -> !sym.t<[2, 4, 32, 32], f64, device=cuda:0> {
  %a = aten.convolution(%x, %v, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (!sym.t<[2, 8, 32, 32], f64, device=cuda:0>, !sym.t<[16, 8, 3, 3], f64, device=cuda:0>) -> !sym.t<[2, 16, 32, 32], f64, device=cuda:0>
  %c = aten.convolution(%a, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1) : (!sym.t<[2, 16, 32, 32], f64, device=cuda:0>, !sym.t<[4, 16, 1, 1], f64, device=cuda:0>) -> !sym.t<[2, 4, 32, 32], f64, device=cuda:0>
  func.return %c : !sym.t<[2, 4, 32, 32], f64, device=cuda:0>
}

// One convolution alone is as fast as it is; with what a kernel computes of it, which writes either layout as fast, not.
// CHECK-LABEL: func.func @gpu_one(
// CHECK: aten.convolution({{.*}}) : {{.*}} -> !sym.t<[2, 16, 32, 32], bf16, strides=[16384, 1, 512, 16], device=cuda:0>
func.func @gpu_one(%x: !sym.t<[2, 8, 32, 32], bf16, device=cuda:0>, %v: !sym.t<[16, 8, 3, 3], bf16, device=cuda:0>) -> !sym.t<[2, 16, 32, 32], bf16, device=cuda:0> {
  %a = aten.convolution(%x, %v, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (!sym.t<[2, 8, 32, 32], bf16, device=cuda:0>, !sym.t<[16, 8, 3, 3], bf16, device=cuda:0>) -> !sym.t<[2, 16, 32, 32], bf16, device=cuda:0>
  %r = aten.relu(%a) : (!sym.t<[2, 16, 32, 32], bf16, device=cuda:0>) -> !sym.t<[2, 16, 32, 32], bf16, device=cuda:0>
  func.return %r : !sym.t<[2, 16, 32, 32], bf16, device=cuda:0>
}
// CHECK-LABEL: func.func @gpu_alone(
// CHECK-NEXT: aten.convolution({{.*}}) : {{.*}} -> !sym.t<[2, 16, 32, 32], bf16, device=cuda:0>
// CHECK-NEXT: func.return
func.func @gpu_alone(%x: !sym.t<[2, 8, 32, 32], bf16, device=cuda:0>, %v: !sym.t<[16, 8, 3, 3], bf16, device=cuda:0>) -> !sym.t<[2, 16, 32, 32], bf16, device=cuda:0> {
  %a = aten.convolution(%x, %v, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (!sym.t<[2, 8, 32, 32], bf16, device=cuda:0>, !sym.t<[16, 8, 3, 3], bf16, device=cuda:0>) -> !sym.t<[2, 16, 32, 32], bf16, device=cuda:0>
  func.return %a : !sym.t<[2, 16, 32, 32], bf16, device=cuda:0>
}

// Of halves on a CPU, one convolution is worth it, unless its weight is large.
// CHECK-LABEL: func.func @halves(
// CHECK: aten.convolution({{.*}}) {lamella.contiguous} : {{.*}} -> !sym.t<[2, 64, 28, 28], bf16, strides=[50176, 1, 1792, 64]>
// CHECK-NEXT: [[R:%\w+]] = aten.relu(
// CHECK-NEXT: aten.clone([[R]], memory_format = contiguous_format)
func.func @halves(%x: !sym.t<[2, 64, 28, 28], bf16>, %w: !sym.t<[64, 64, 3, 3], bf16>) -> !sym.t<[2, 64, 28, 28], bf16> {
  %a = aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (!sym.t<[2, 64, 28, 28], bf16>, !sym.t<[64, 64, 3, 3], bf16>) -> !sym.t<[2, 64, 28, 28], bf16>
  %r = aten.relu(%a) : (!sym.t<[2, 64, 28, 28], bf16>) -> !sym.t<[2, 64, 28, 28], bf16>
  func.return %r : !sym.t<[2, 64, 28, 28], bf16>
}
// CHECK-LABEL: func.func @large_weight(
// CHECK-NEXT: aten.convolution(%x, %w, none
func.func @large_weight(%x: !sym.t<[1, 512, 7, 7], bf16>, %w: !sym.t<[512, 512, 3, 3], bf16>) -> !sym.t<[1, 512, 7, 7], bf16> {
  %a = aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (!sym.t<[1, 512, 7, 7], bf16>, !sym.t<[512, 512, 3, 3], bf16>) -> !sym.t<[1, 512, 7, 7], bf16>
  func.return %a : !sym.t<[1, 512, 7, 7], bf16>
}

// Weights of f32 tell too: here they are larger than the images. Frozen ones are copied once.
// CHECK-LABEL: func.func @large_f32(
// CHECK-NOT: channels_last
// CHECK: func.return
func.func @large_f32(%x: !sym.t<[3, 256, 4, 4], f32>, %v: !sym.t<[256, 256, 3, 3], f32>, %w: !sym.t<[256, 256, 3, 3], f32>) -> !sym.t<[3, 256, 1, 1], f32> {
  %a = aten.convolution(%x, %v, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (!sym.t<[3, 256, 4, 4], f32>, !sym.t<[256, 256, 3, 3], f32>) -> !sym.t<[3, 256, 4, 4], f32>
  %b = aten.convolution(%a, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (!sym.t<[3, 256, 4, 4], f32>, !sym.t<[256, 256, 3, 3], f32>) -> !sym.t<[3, 256, 4, 4], f32>
  %p = aten._adaptive_avg_pool2d(%b, [1, 1]) : (!sym.t<[3, 256, 4, 4], f32>) -> !sym.t<[3, 256, 1, 1], f32>
  func.return %p : !sym.t<[3, 256, 1, 1], f32>
}
// CHECK-LABEL: func.func @large_frozen(
// CHECK-COUNT-3: memory_format = channels_last
// CHECK: func.return
func.func @large_frozen(%x: !sym.t<[3, 256, 4, 4], f32>, %v: !sym.t<[256, 256, 3, 3], f32> {lamella.frozen}, %w: !sym.t<[256, 256, 3, 3], f32> {lamella.frozen}) -> !sym.t<[3, 256, 1, 1], f32> {
  %a = aten.convolution(%x, %v, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (!sym.t<[3, 256, 4, 4], f32>, !sym.t<[256, 256, 3, 3], f32>) -> !sym.t<[3, 256, 4, 4], f32>
  %b = aten.convolution(%a, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (!sym.t<[3, 256, 4, 4], f32>, !sym.t<[256, 256, 3, 3], f32>) -> !sym.t<[3, 256, 4, 4], f32>
  %p = aten._adaptive_avg_pool2d(%b, [1, 1]) : (!sym.t<[3, 256, 4, 4], f32>) -> !sym.t<[3, 256, 1, 1], f32>
  func.return %p : !sym.t<[3, 256, 1, 1], f32>
}
