// RUN: lamella-opt %s -p 'aten-to-prims' | filecheck %s
// Softmax and norms.

// CHECK-LABEL: func.func @softmax(
// CHECK-NEXT: [[V0:%\w+]] = prims.reduce %x {kind = max, dims = [1]} : !sym.t<[s0, 16], f32> -> !sym.t<[s0], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.broadcast [[V0]] {dims = [0]} : !sym.t<[s0], f32> -> !sym.t<[s0, 1], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.broadcast [[V1]] {dims = [0, 1]} : !sym.t<[s0, 1], f32> -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V3:%\w+]] = prims.sub %x, [[V2]] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V4:%\w+]] = prims.exp [[V3]] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V5:%\w+]] = prims.reduce [[V4]] {kind = sum, dims = [1]} : !sym.t<[s0, 16], f32> -> !sym.t<[s0], f32>
// CHECK-NEXT: [[V6:%\w+]] = prims.broadcast [[V5]] {dims = [0]} : !sym.t<[s0], f32> -> !sym.t<[s0, 1], f32>
// CHECK-NEXT: [[V7:%\w+]] = prims.broadcast [[V6]] {dims = [0, 1]} : !sym.t<[s0, 1], f32> -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V8:%\w+]] = prims.div [[V4]], [[V7]] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: func.return [[V8]] : !sym.t<[s0, 16], f32>
func.func @softmax(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32> {
  %r = aten._softmax(%x, -1, false) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
  func.return %r : !sym.t<[s0, 16], f32>
}

// CHECK-LABEL: func.func @log_softmax_bf16(
// CHECK-NEXT: [[V0:%\w+]] = prims.convert %x : !sym.t<[s0, 16], bf16> -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.reduce [[V0]] {kind = max, dims = [1]} : !sym.t<[s0, 16], f32> -> !sym.t<[s0], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.broadcast [[V1]] {dims = [0]} : !sym.t<[s0], f32> -> !sym.t<[s0, 1], f32>
// CHECK-NEXT: [[V3:%\w+]] = prims.broadcast [[V2]] {dims = [0, 1]} : !sym.t<[s0, 1], f32> -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V4:%\w+]] = prims.sub [[V0]], [[V3]] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V5:%\w+]] = prims.exp [[V4]] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V6:%\w+]] = prims.reduce [[V5]] {kind = sum, dims = [1]} : !sym.t<[s0, 16], f32> -> !sym.t<[s0], f32>
// CHECK-NEXT: [[V7:%\w+]] = prims.broadcast [[V6]] {dims = [0]} : !sym.t<[s0], f32> -> !sym.t<[s0, 1], f32>
// CHECK-NEXT: [[V8:%\w+]] = prims.log [[V7]] : !sym.t<[s0, 1], f32>
// CHECK-NEXT: [[V9:%\w+]] = prims.broadcast [[V8]] {dims = [0, 1]} : !sym.t<[s0, 1], f32> -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V10:%\w+]] = prims.sub [[V4]], [[V9]] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V11:%\w+]] = prims.convert [[V10]] {rounding} : !sym.t<[s0, 16], f32> -> !sym.t<[s0, 16], bf16>
// CHECK-NEXT: func.return [[V11]] : !sym.t<[s0, 16], bf16>
func.func @log_softmax_bf16(%x: !sym.t<[s0, 16], bf16>) -> !sym.t<[s0, 16], bf16> {
  %r = aten._log_softmax(%x, 1, false) : (!sym.t<[s0, 16], bf16>) -> !sym.t<[s0, 16], bf16>
  func.return %r : !sym.t<[s0, 16], bf16>
}

// CHECK-LABEL: func.func @layer_norm(
// CHECK-NEXT: [[V0:%\w+]], [[V1:%\w+]] = prims.var_mean %x {dims = [1]} : !sym.t<[s0, 16], f32> -> !sym.t<[s0], f32>, !sym.t<[s0], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.broadcast [[V1]] {dims = [0]} : !sym.t<[s0], f32> -> !sym.t<[s0, 1], f32>
// CHECK-NEXT: [[V3:%\w+]] = prims.broadcast [[V0]] {dims = [0]} : !sym.t<[s0], f32> -> !sym.t<[s0, 1], f32>
// CHECK-NEXT: [[V4:%\w+]] = prims.full {value = 1.0e-05} : !sym.t<[s0, 1], f32>
// CHECK-NEXT: [[V5:%\w+]] = prims.add [[V2]], [[V4]] : !sym.t<[s0, 1], f32>
// CHECK-NEXT: [[V6:%\w+]] = prims.rsqrt [[V5]] : !sym.t<[s0, 1], f32>
// CHECK-NEXT: [[V7:%\w+]] = prims.broadcast [[V3]] {dims = [0, 1]} : !sym.t<[s0, 1], f32> -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V8:%\w+]] = prims.sub %x, [[V7]] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V9:%\w+]] = prims.broadcast [[V6]] {dims = [0, 1]} : !sym.t<[s0, 1], f32> -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V10:%\w+]] = prims.mul [[V8]], [[V9]] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V11:%\w+]] = prims.broadcast %w {dims = [1]} : !sym.t<[16], f32> -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V12:%\w+]] = prims.mul [[V10]], [[V11]] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V13:%\w+]] = prims.broadcast %b {dims = [1]} : !sym.t<[16], f32> -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V14:%\w+]] = prims.add [[V12]], [[V13]] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V15:%\w+]] = prims.isnan [[V2]] : !sym.t<[s0, 1], f32> -> !sym.t<[s0, 1], i1>
// CHECK-NEXT: [[V16:%\w+]] = prims.full {value = nan} : !sym.t<[s0, 1], f32>
// CHECK-NEXT: [[V17:%\w+]] = prims.select [[V15]], [[V16]], [[V3]] : !sym.t<[s0, 1], i1>, !sym.t<[s0, 1], f32>, !sym.t<[s0, 1], f32> -> !sym.t<[s0, 1], f32>
// CHECK-NEXT: func.return [[V14]], [[V17]], [[V6]] : !sym.t<[s0, 16], f32>, !sym.t<[s0, 1], f32>, !sym.t<[s0, 1], f32>
func.func @layer_norm(%x: !sym.t<[s0, 16], f32>, %w: !sym.t<[16], f32>, %b: !sym.t<[16], f32>) -> (!sym.t<[s0, 16], f32>, !sym.t<[s0, 1], f32>, !sym.t<[s0, 1], f32>) {
  %r, %m, %s = aten.native_layer_norm(%x, [16], %w, %b, 1e-5) : (!sym.t<[s0, 16], f32>, !sym.t<[16], f32>, !sym.t<[16], f32>) -> (!sym.t<[s0, 16], f32>, !sym.t<[s0, 1], f32>, !sym.t<[s0, 1], f32>)
  func.return %r, %m, %s : !sym.t<[s0, 16], f32>, !sym.t<[s0, 1], f32>, !sym.t<[s0, 1], f32>
}

// CHECK-LABEL: func.func @rms_norm(
// CHECK-NEXT: [[V0:%\w+]] = prims.mul %x, %x : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.reduce [[V0]] {kind = sum, dims = [1]} : !sym.t<[s0, 16], f32> -> !sym.t<[s0], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.broadcast [[V1]] {dims = [0]} : !sym.t<[s0], f32> -> !sym.t<[s0, 1], f32>
// CHECK-NEXT: [[V3:%\w+]] = prims.full {value = 16.0} : !sym.t<[s0, 1], f32>
// CHECK-NEXT: [[V4:%\w+]] = prims.div [[V2]], [[V3]] : !sym.t<[s0, 1], f32>
// CHECK-NEXT: [[V5:%\w+]] = prims.full {value = 1.0e-06} : !sym.t<[s0, 1], f32>
// CHECK-NEXT: [[V6:%\w+]] = prims.add [[V4]], [[V5]] : !sym.t<[s0, 1], f32>
// CHECK-NEXT: [[V7:%\w+]] = prims.rsqrt [[V6]] : !sym.t<[s0, 1], f32>
// CHECK-NEXT: [[V8:%\w+]] = prims.broadcast [[V7]] {dims = [0, 1]} : !sym.t<[s0, 1], f32> -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V9:%\w+]] = prims.mul %x, [[V8]] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V10:%\w+]] = prims.broadcast %w {dims = [1]} : !sym.t<[16], f32> -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V11:%\w+]] = prims.mul [[V9]], [[V10]] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: func.return [[V11]] : !sym.t<[s0, 16], f32>
func.func @rms_norm(%x: !sym.t<[s0, 16], f32>, %w: !sym.t<[16], f32>) -> !sym.t<[s0, 16], f32> {
  %r, %s = aten._fused_rms_norm(%x, [16], %w, 1e-6) : (!sym.t<[s0, 16], f32>, !sym.t<[16], f32>) -> (!sym.t<[s0, 16], f32>, !sym.t<[s0, 1], f32>)
  func.return %r : !sym.t<[s0, 16], f32>
}

// Per channel first, then one multiplication and one addition an element.
// CHECK-LABEL: func.func @batch_norm(
// CHECK-NEXT: [[V0:%\w+]] = prims.full {value = 1.0e-05} : !sym.t<[3], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.add %v, [[V0]] : !sym.t<[3], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.sqrt [[V1]] : !sym.t<[3], f32>
// CHECK-NEXT: [[V3:%\w+]] = prims.reciprocal [[V2]] : !sym.t<[3], f32>
// CHECK-NEXT: [[V4:%\w+]] = prims.mul [[V3]], %w : !sym.t<[3], f32>
// CHECK-NEXT: [[V5:%\w+]] = prims.mul %m, [[V4]] : !sym.t<[3], f32>
// CHECK-NEXT: [[V6:%\w+]] = prims.sub %b, [[V5]] : !sym.t<[3], f32>
// CHECK-NEXT: [[V7:%\w+]] = prims.broadcast [[V4]] {dims = [1]} : !sym.t<[3], f32> -> !sym.t<[1, 3, 1, 1], f32>
// CHECK-NEXT: [[V8:%\w+]] = prims.broadcast [[V7]] {dims = [0, 1, 2, 3]} : !sym.t<[1, 3, 1, 1], f32> -> !sym.t<[s0, 3, 8, 8], f32>
// CHECK-NEXT: [[V9:%\w+]] = prims.mul %x, [[V8]] : !sym.t<[s0, 3, 8, 8], f32>
// CHECK-NEXT: [[V10:%\w+]] = prims.broadcast [[V6]] {dims = [1]} : !sym.t<[3], f32> -> !sym.t<[1, 3, 1, 1], f32>
// CHECK-NEXT: [[V11:%\w+]] = prims.broadcast [[V10]] {dims = [0, 1, 2, 3]} : !sym.t<[1, 3, 1, 1], f32> -> !sym.t<[s0, 3, 8, 8], f32>
// CHECK-NEXT: [[V12:%\w+]] = prims.add [[V9]], [[V11]] : !sym.t<[s0, 3, 8, 8], f32>
// CHECK-NEXT: [[V13:%\w+]] = prims.full {value = 0.0} : !sym.t<[0], f32>
// CHECK-NEXT: [[V14:%\w+]] = prims.full {value = 0.0} : !sym.t<[0], f32>
// CHECK-NEXT: [[V15:%\w+]] = prims.full {value = 0.0} : !sym.t<[0], f32>
// CHECK-NEXT: func.return [[V12]] : !sym.t<[s0, 3, 8, 8], f32>
func.func @batch_norm(%x: !sym.t<[s0, 3, 8, 8], f32>, %w: !sym.t<[3], f32>, %b: !sym.t<[3], f32>, %m: !sym.t<[3], f32>, %v: !sym.t<[3], f32>) -> !sym.t<[s0, 3, 8, 8], f32> {
  %r, %1, %2 = aten._native_batch_norm_legit_no_training(%x, %w, %b, %m, %v, 0.1, 1e-5) : (!sym.t<[s0, 3, 8, 8], f32>, !sym.t<[3], f32>, !sym.t<[3], f32>, !sym.t<[3], f32>, !sym.t<[3], f32>) -> (!sym.t<[s0, 3, 8, 8], f32>, !sym.t<[0], f32>, !sym.t<[0], f32>)
  func.return %r : !sym.t<[s0, 3, 8, 8], f32>
}

// Where torch saves the statistics that inference was given (CUDA), these are the results.
// CHECK-LABEL: func.func @batch_norm_on_a_gpu(
// CHECK: [[RSTD:%\w+]] = prims.reciprocal
// CHECK: [[RSTD:%\w+]] = prims.reciprocal
// CHECK-NEXT: [[MEAN:%\w+]] = prims.convert %m
// CHECK: func.return [[MEAN]], [[RSTD]]
func.func @batch_norm_on_a_gpu(%x: !sym.t<[3, 2, 4], f32, device=cuda:0>, %m: !sym.t<[2], f32, device=cuda:0>, %v: !sym.t<[2], f32, device=cuda:0>) -> (!sym.t<[2], f32, device=cuda:0>, !sym.t<[2], f32, device=cuda:0>) {
  %y, %saved, %rstd, %m1, %v1 = aten._native_batch_norm_legit_functional(%x, none, none, %m, %v, false, 0.1, 1e-5) : (!sym.t<[3, 2, 4], f32, device=cuda:0>, !sym.t<[2], f32, device=cuda:0>, !sym.t<[2], f32, device=cuda:0>) -> (!sym.t<[3, 2, 4], f32, device=cuda:0>, !sym.t<[2], f32, device=cuda:0>, !sym.t<[2], f32, device=cuda:0>, !sym.t<[2], f32, device=cuda:0>, !sym.t<[2], f32, device=cuda:0>)
  func.return %saved, %rstd : !sym.t<[2], f32, device=cuda:0>, !sym.t<[2], f32, device=cuda:0>
}

// A result that nobody asks for has a type where sizes are symbols: torch says so.
// CHECK-LABEL: func.func @batch_norm_of_parameters_alone(
// CHECK-NOT: aten.
// CHECK: [[B:%\w+]] = prims.reduce %g {kind = sum, dims = [0]}
// CHECK: func.return {{%\w+}}, [[B]]
func.func @batch_norm_of_parameters_alone(%g: !sym.t<[s0, 5], f32>, %x: !sym.t<[s0, 5], f32>, %w: !sym.t<[5], f32>, %m: !sym.t<[5], f32>, %r: !sym.t<[5], f32>) -> (!sym.t<[5], f32>, !sym.t<[5], f32>) {
  %0, %1, %2 = aten.native_batch_norm_backward(%g, %x, %w, none, none, %m, %r, true, 1e-5, [false, true, true]) : (!sym.t<[s0, 5], f32>, !sym.t<[s0, 5], f32>, !sym.t<[5], f32>, !sym.t<[5], f32>, !sym.t<[5], f32>) -> (!sym.t<[s0, 5], f32>, !sym.t<[5], f32>, !sym.t<[5], f32>)
  func.return %1, %2 : !sym.t<[5], f32>, !sym.t<[5], f32>
}
