// RUN: lamella-opt %s -p 'aten-to-prims' | filecheck %s
// Pooling reads windows by their place and the place within, resampling by scaled places.

// The indices are not used, so they are not computed.
// CHECK-LABEL: func.func @max_pool(
// CHECK-NEXT: [[V0:%\w+]] = prims.pad %x {low = [0, 0, 1, 1], high = [0, 0, 0, 0], value = -inf} : !sym.t<[1, 2, 8, 8], f32> -> !sym.t<[1, 2, 9, 9], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.gather [[V0]][] {index = [d0, d1, 2*d2 + d4, 2*d3 + d5]} : !sym.t<[1, 2, 9, 9], f32> -> !sym.t<[1, 2, 4, 4, 3, 3], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.reduce [[V1]] {kind = max, dims = [4, 5]} : !sym.t<[1, 2, 4, 4, 3, 3], f32> -> !sym.t<[1, 2, 4, 4], f32>
// CHECK-NEXT: [[V3:%\w+]] = prims.full {value = 0} : !sym.t<[1, 2, 4, 4], i64>
// CHECK-NEXT: [[V4:%\w+]] = prims.full {value = 0} : !sym.t<[1, 2, 4, 4], i64>
// CHECK-NEXT: func.return [[V2]] : !sym.t<[1, 2, 4, 4], f32>
func.func @max_pool(%x: !sym.t<[1, 2, 8, 8], f32>) -> !sym.t<[1, 2, 4, 4], f32> {
  %r, %i = aten.max_pool2d_with_indices(%x, [3, 3], [2, 2], [1, 1]) : (!sym.t<[1, 2, 8, 8], f32>) -> (!sym.t<[1, 2, 4, 4], f32>, !sym.t<[1, 2, 4, 4], i64>)
  func.return %r : !sym.t<[1, 2, 4, 4], f32>
}

// CHECK-LABEL: func.func @avg_pool(
// CHECK-NEXT: [[V0:%\w+]] = prims.gather %x[] {index = [d0, d1, 2*d2 + d4, 2*d3 + d5]} : !sym.t<[1, 2, 8, 8], f32> -> !sym.t<[1, 2, 4, 4, 2, 2], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.reduce [[V0]] {kind = sum, dims = [4, 5]} : !sym.t<[1, 2, 4, 4, 2, 2], f32> -> !sym.t<[1, 2, 4, 4], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.full {value = 4.0} : !sym.t<[1, 2, 4, 4], f32>
// CHECK-NEXT: [[V3:%\w+]] = prims.div [[V1]], [[V2]] : !sym.t<[1, 2, 4, 4], f32>
// CHECK-NEXT: func.return [[V3]] : !sym.t<[1, 2, 4, 4], f32>
func.func @avg_pool(%x: !sym.t<[1, 2, 8, 8], f32>) -> !sym.t<[1, 2, 4, 4], f32> {
  %r = aten.avg_pool2d(%x, [2, 2], [2, 2]) : (!sym.t<[1, 2, 8, 8], f32>) -> !sym.t<[1, 2, 4, 4], f32>
  func.return %r : !sym.t<[1, 2, 4, 4], f32>
}

// A list of one number is for all dims.
// CHECK-LABEL: func.func @avg_pool_of_one_number(
// CHECK-NEXT: [[V0:%\w+]] = prims.gather %x[] {index = [d0, d1, 2*d2 + d4, 2*d3 + d5]} : !sym.t<[1, 2, 8, 8], f32> -> !sym.t<[1, 2, 4, 4, 2, 2], f32>
func.func @avg_pool_of_one_number(%x: !sym.t<[1, 2, 8, 8], f32>) -> !sym.t<[1, 2, 4, 4], f32> {
  %r = aten.avg_pool2d(%x, [2], [2]) : (!sym.t<[1, 2, 8, 8], f32>) -> !sym.t<[1, 2, 4, 4], f32>
  func.return %r : !sym.t<[1, 2, 4, 4], f32>
}

// CHECK-LABEL: func.func @adaptive(
// CHECK-NEXT: [[V0:%\w+]] = prims.reshape %x : !sym.t<[s0, 2, s1, s1], f32> -> !sym.t<[s0, 2, 1, s1, 1, s1], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.reduce [[V0]] {kind = sum, dims = [3, 5]} : !sym.t<[s0, 2, 1, s1, 1, s1], f32> -> !sym.t<[s0, 2, 1, 1], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.full {value = s1**2} : !sym.t<[s0, 2, 1, 1], f32>
// CHECK-NEXT: [[V3:%\w+]] = prims.div [[V1]], [[V2]] : !sym.t<[s0, 2, 1, 1], f32>
// CHECK-NEXT: func.return [[V3]] : !sym.t<[s0, 2, 1, 1], f32>
func.func @adaptive(%x: !sym.t<[s0, 2, s1, s1], f32>) -> !sym.t<[s0, 2, 1, 1], f32> {
  %r = aten._adaptive_avg_pool2d(%x, [1, 1]) : (!sym.t<[s0, 2, s1, s1], f32>) -> !sym.t<[s0, 2, 1, 1], f32>
  func.return %r : !sym.t<[s0, 2, 1, 1], f32>
}

// CHECK-LABEL: func.func @nearest(
// CHECK-NEXT: [[V0:%\w+]] = prims.broadcast %x {dims = [0, 1, 2, 4]} : !sym.t<[1, 2, 4, 4], f32> -> !sym.t<[1, 2, 4, 2, 4, 2], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.reshape [[V0]] : !sym.t<[1, 2, 4, 2, 4, 2], f32> -> !sym.t<[1, 2, 8, 8], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.convert [[V1]] : !sym.t<[1, 2, 8, 8], f32>
// CHECK-NEXT: func.return [[V2]] : !sym.t<[1, 2, 8, 8], f32>
func.func @nearest(%x: !sym.t<[1, 2, 4, 4], f32>) -> !sym.t<[1, 2, 8, 8], f32> {
  %r = aten.upsample_nearest2d(%x, [8, 8]) : (!sym.t<[1, 2, 4, 4], f32>) -> !sym.t<[1, 2, 8, 8], f32>
  func.return %r : !sym.t<[1, 2, 8, 8], f32>
}

// Windows of different lengths: 5 elements in 3 places, at most 3 in each.
// CHECK-LABEL: func.func @adaptive_windows(
// CHECK-NEXT: [[V0:%\w+]] = prims.pad %x {low = [0, 0, 0], high = [0, 0, 3], value = 0.0} : !sym.t<[s0, 1, 5], f32> -> !sym.t<[s0, 1, 8], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.gather [[V0]][] {index = [d0, d1, d3 + (floordiv(5*d2, 3))]} : !sym.t<[s0, 1, 8], f32> -> !sym.t<[s0, 1, 3, 3], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.iota {dim = 3} : !sym.t<[s0, 1, 3, 3], i64>
// CHECK-NEXT: [[V3:%\w+]] = prims.iota {dim = 2} : !sym.t<[s0, 1, 3, 3], i64>
// CHECK-NEXT: [[V4:%\w+]] = prims.full {value = 5} : !sym.t<[s0, 1, 3, 3], i64>
// CHECK-NEXT: [[V5:%\w+]] = prims.mul [[V3]], [[V4]] : !sym.t<[s0, 1, 3, 3], i64>
// CHECK-NEXT: [[V6:%\w+]] = prims.full {value = 3} : !sym.t<[s0, 1, 3, 3], i64>
// CHECK-NEXT: [[V7:%\w+]] = prims.div_trunc [[V5]], [[V6]] : !sym.t<[s0, 1, 3, 3], i64>
// CHECK-NEXT: [[V8:%\w+]] = prims.mul [[V3]], [[V4]] : !sym.t<[s0, 1, 3, 3], i64>
// CHECK-NEXT: [[V9:%\w+]] = prims.full {value = 7} : !sym.t<[s0, 1, 3, 3], i64>
// CHECK-NEXT: [[V10:%\w+]] = prims.add [[V8]], [[V9]] : !sym.t<[s0, 1, 3, 3], i64>
// CHECK-NEXT: [[V11:%\w+]] = prims.div_trunc [[V10]], [[V6]] : !sym.t<[s0, 1, 3, 3], i64>
// CHECK-NEXT: [[V12:%\w+]] = prims.sub [[V11]], [[V7]] : !sym.t<[s0, 1, 3, 3], i64>
// CHECK-NEXT: [[V13:%\w+]] = prims.lt [[V2]], [[V12]] : !sym.t<[s0, 1, 3, 3], i64> -> !sym.t<[s0, 1, 3, 3], i1>
// CHECK-NEXT: [[V14:%\w+]] = prims.full {value = 0.0} : !sym.t<[s0, 1, 3, 3], f32>
// CHECK-NEXT: [[V15:%\w+]] = prims.select [[V13]], [[V1]], [[V14]] : !sym.t<[s0, 1, 3, 3], i1>, !sym.t<[s0, 1, 3, 3], f32>, !sym.t<[s0, 1, 3, 3], f32> -> !sym.t<[s0, 1, 3, 3], f32>
// CHECK-NEXT: [[V16:%\w+]] = prims.reduce [[V15]] {kind = sum, dims = [3]} : !sym.t<[s0, 1, 3, 3], f32> -> !sym.t<[s0, 1, 3], f32>
// CHECK-NEXT: [[V17:%\w+]] = prims.iota {dim = 2} : !sym.t<[s0, 1, 3], i64>
// CHECK-NEXT: [[V18:%\w+]] = prims.full {value = 5} : !sym.t<[s0, 1, 3], i64>
// CHECK-NEXT: [[V19:%\w+]] = prims.mul [[V17]], [[V18]] : !sym.t<[s0, 1, 3], i64>
// CHECK-NEXT: [[V20:%\w+]] = prims.full {value = 3} : !sym.t<[s0, 1, 3], i64>
// CHECK-NEXT: [[V21:%\w+]] = prims.div_trunc [[V19]], [[V20]] : !sym.t<[s0, 1, 3], i64>
// CHECK-NEXT: [[V22:%\w+]] = prims.mul [[V17]], [[V18]] : !sym.t<[s0, 1, 3], i64>
// CHECK-NEXT: [[V23:%\w+]] = prims.full {value = 7} : !sym.t<[s0, 1, 3], i64>
// CHECK-NEXT: [[V24:%\w+]] = prims.add [[V22]], [[V23]] : !sym.t<[s0, 1, 3], i64>
// CHECK-NEXT: [[V25:%\w+]] = prims.div_trunc [[V24]], [[V20]] : !sym.t<[s0, 1, 3], i64>
// CHECK-NEXT: [[V26:%\w+]] = prims.sub [[V25]], [[V21]] : !sym.t<[s0, 1, 3], i64>
// CHECK-NEXT: [[V27:%\w+]] = prims.convert [[V26]] : !sym.t<[s0, 1, 3], i64> -> !sym.t<[s0, 1, 3], f32>
// CHECK-NEXT: [[V28:%\w+]] = prims.div [[V16]], [[V27]] : !sym.t<[s0, 1, 3], f32>
// CHECK-NEXT: func.return [[V28]] : !sym.t<[s0, 1, 3], f32>
func.func @adaptive_windows(%x: !sym.t<[s0, 1, 5], f32>) -> !sym.t<[s0, 1, 3], f32> {
  %r = aten.adaptive_avg_pool1d(%x, [3]) : (!sym.t<[s0, 1, 5], f32>) -> !sym.t<[s0, 1, 3], f32>
  func.return %r : !sym.t<[s0, 1, 3], f32>
}

// On a GPU an element looks for itself in the windows that may cover it: here two a dim, compared by places within them.
// CHECK-LABEL: func.func @max_pool_backward_on_a_gpu(
// CHECK: [[O:%\w+]] = prims.pad %o {low = [0, 1, 1], high = [0, 1, 1], value = -1}
// CHECK-NEXT: [[MINE:%\w+]] = prims.gather [[O]][] {index = [d0, -d3 + (floordiv(d1 + 1, 2)) + 1, -d4 + (floordiv(d2 + 1, 2)) + 1]} : !sym.t<[2, 6, 6], i8, device=cuda:0> -> !sym.t<[2, 8, 8, 2, 2], i8, device=cuda:0>
// CHECK: [[HERE:%\w+]] = prims.convert %{{\w+}} : !sym.t<[2, 8, 8, 2, 2], i32, device=cuda:0> -> !sym.t<[2, 8, 8, 2, 2], i8, device=cuda:0>
// CHECK-NEXT: [[P:%\w+]] = prims.pad %g {low = [0, 1, 1], high = [0, 1, 1], value = 0.0}
// CHECK-NEXT: [[G:%\w+]] = prims.gather [[P]][] {index = [d0, -d3 + (floordiv(d1 + 1, 2)) + 1, -d4 + (floordiv(d2 + 1, 2)) + 1]}
// CHECK-NEXT: [[FOUND:%\w+]] = prims.eq [[MINE]], [[HERE]]
// CHECK-NEXT: [[ZERO:%\w+]] = prims.full {value = 0.0}
// CHECK-NEXT: [[V:%\w+]] = prims.select [[FOUND]], [[G]], [[ZERO]]
// CHECK-NEXT: [[SUM:%\w+]] = prims.reduce [[V]] {kind = sum, dims = [3, 4]}
// CHECK-NEXT: func.return [[SUM]]
func.func @max_pool_backward_on_a_gpu(%g: !sym.t<[2, 4, 4], f32, device=cuda:0>, %x: !sym.t<[2, 8, 8], f32, device=cuda:0>, %o: !sym.t<[2, 4, 4], i8, device=cuda:0>) -> !sym.t<[2, 8, 8], f32, device=cuda:0> {
  %i = torch_prims._low_memory_max_pool_offsets_to_indices(%o, [3, 3], [8, 8], [2, 2], [1, 1], [1, 1]) : (!sym.t<[2, 4, 4], i8, device=cuda:0>) -> !sym.t<[2, 4, 4], i64, device=cuda:0>
  %r = aten.max_pool2d_with_indices_backward(%g, %x, [3, 3], [2, 2], [1, 1], [1, 1], false, %i) : (!sym.t<[2, 4, 4], f32, device=cuda:0>, !sym.t<[2, 8, 8], f32, device=cuda:0>, !sym.t<[2, 4, 4], i64, device=cuda:0>) -> !sym.t<[2, 8, 8], f32, device=cuda:0>
  func.return %r : !sym.t<[2, 8, 8], f32, device=cuda:0>
}

// CHECK-LABEL: func.func @max_pool_with_offsets(
// CHECK-NEXT: [[V0:%\w+]] = prims.gather %x[] {index = [d0, d1, 2*d2 + d4, 2*d3 + d5]}
// CHECK-NEXT: [[V1:%\w+]] = prims.reduce [[V0]] {kind = max, dims = [4, 5]}
// CHECK-NEXT: [[V2:%\w+]] = prims.reduce [[V0]] {kind = argmax, dims = [4, 5]}
// CHECK-NEXT: [[V3:%\w+]] = prims.convert [[V2]] : !sym.t<[1, 2, 4, 4], i64> -> !sym.t<[1, 2, 4, 4], i8>
// CHECK-NEXT: func.return [[V3]]
func.func @max_pool_with_offsets(%x: !sym.t<[1, 2, 8, 8], f32>) -> !sym.t<[1, 2, 4, 4], i8> {
  %r, %o = torch_prims._low_memory_max_pool_with_offsets(%x, [2, 2], [2, 2], [0, 0], [1, 1], false) : (!sym.t<[1, 2, 8, 8], f32>) -> (!sym.t<[1, 2, 4, 4], f32>, !sym.t<[1, 2, 4, 4], i8>)
  func.return %o : !sym.t<[1, 2, 4, 4], i8>
}

// What is rounded where it is read lies as the operator's result: channels side by side.
// CHECK-LABEL: func.func @channels_last(
// CHECK:      [[S:%\w+]] = prims.reduce {{.*}} -> !sym.t<[2, 8, 4, 4], f32, strides=[128, 1, 32, 8], device=cuda:0>
// CHECK-NEXT: prims.convert [[S]] {rounding}
func.func @channels_last(%g: !sym.t<[2, 8, 2, 2], bf16, strides=[32, 1, 16, 8], device=cuda:0>, %x: !sym.t<[2, 8, 4, 4], bf16, strides=[128, 1, 32, 8], device=cuda:0>, %i: !sym.t<[2, 8, 2, 2], i64, strides=[32, 1, 16, 8], device=cuda:0>) -> !sym.t<[2, 8, 4, 4], bf16, strides=[128, 1, 32, 8], device=cuda:0> {
  %y = aten.max_pool2d_with_indices_backward(%g, %x, [2, 2], [2, 2], [0, 0], [1, 1], false, %i) : (!sym.t<[2, 8, 2, 2], bf16, strides=[32, 1, 16, 8], device=cuda:0>, !sym.t<[2, 8, 4, 4], bf16, strides=[128, 1, 32, 8], device=cuda:0>, !sym.t<[2, 8, 2, 2], i64, strides=[32, 1, 16, 8], device=cuda:0>) -> !sym.t<[2, 8, 4, 4], bf16, strides=[128, 1, 32, 8], device=cuda:0>
  func.return %y : !sym.t<[2, 8, 4, 4], bf16, strides=[128, 1, 32, 8], device=cuda:0>
}
