// RUN: lamella-opt %s -p 'aten-to-prims' | filecheck %s
// Reductions: f16 and bf16 in f32, kept dims by a broadcast.

// CHECK-LABEL: func.func @sum_keepdim(
// CHECK-NEXT: [[V0:%\w+]] = prims.reduce %x {kind = sum, dims = [1]} : !sym.t<[s0, 16], f32> -> !sym.t<[s0], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.broadcast [[V0]] {dims = [0]} : !sym.t<[s0], f32> -> !sym.t<[s0, 1], f32>
// CHECK-NEXT: func.return [[V1]] : !sym.t<[s0, 1], f32>
func.func @sum_keepdim(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 1], f32> {
  %r = aten.sum.dim_IntList(%x, [1], true) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0, 1], f32>
  func.return %r : !sym.t<[s0, 1], f32>
}

// CHECK-LABEL: func.func @sum_bf16(
// CHECK-NEXT: [[V0:%\w+]] = prims.convert %x : !sym.t<[s0, 16], bf16> -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.reduce [[V0]] {kind = sum, dims = [0, 1]} : !sym.t<[s0, 16], f32> -> !sym.t<[], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.convert [[V1]] {rounding} : !sym.t<[], f32> -> !sym.t<[], bf16>
// CHECK-NEXT: func.return [[V2]] : !sym.t<[], bf16>
func.func @sum_bf16(%x: !sym.t<[s0, 16], bf16>) -> !sym.t<[], bf16> {
  %r = aten.sum(%x) : (!sym.t<[s0, 16], bf16>) -> !sym.t<[], bf16>
  func.return %r : !sym.t<[], bf16>
}

// CHECK-LABEL: func.func @sum_bool(
// CHECK-NEXT: [[V0:%\w+]] = prims.convert %x : !sym.t<[s0], i1> -> !sym.t<[s0], i64>
// CHECK-NEXT: [[V1:%\w+]] = prims.reduce [[V0]] {kind = sum, dims = [0]} : !sym.t<[s0], i64> -> !sym.t<[], i64>
// CHECK-NEXT: func.return [[V1]] : !sym.t<[], i64>
func.func @sum_bool(%x: !sym.t<[s0], i1>) -> !sym.t<[], i64> {
  %r = aten.sum(%x) : (!sym.t<[s0], i1>) -> !sym.t<[], i64>
  func.return %r : !sym.t<[], i64>
}

// CHECK-LABEL: func.func @mean(
// CHECK-NEXT: [[V0:%\w+]] = prims.reduce %x {kind = sum, dims = [0]} : !sym.t<[s0, 16], f32> -> !sym.t<[16], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.full {value = s0} : !sym.t<[16], f32>
// CHECK-NEXT: [[V2:%\w+]] = prims.div [[V0]], [[V1]] : !sym.t<[16], f32>
// CHECK-NEXT: func.return [[V2]] : !sym.t<[16], f32>
func.func @mean(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[16], f32> {
  %r = aten.mean.dim(%x, [0]) : (!sym.t<[s0, 16], f32>) -> !sym.t<[16], f32>
  func.return %r : !sym.t<[16], f32>
}

// CHECK-LABEL: func.func @max_dim(
// CHECK-NEXT: [[V0:%\w+]] = prims.reduce %x {kind = max, dims = [1]} : !sym.t<[s0, 16], f32> -> !sym.t<[s0], f32>
// CHECK-NEXT: [[V1:%\w+]] = prims.reduce %x {kind = argmax, dims = [1]} : !sym.t<[s0, 16], f32> -> !sym.t<[s0], i64>
// CHECK-NEXT: func.return [[V0]], [[V1]] : !sym.t<[s0], f32>, !sym.t<[s0], i64>
func.func @max_dim(%x: !sym.t<[s0, 16], f32>) -> (!sym.t<[s0], f32>, !sym.t<[s0], i64>) {
  %v, %i = aten.max.dim(%x, 1) : (!sym.t<[s0, 16], f32>) -> (!sym.t<[s0], f32>, !sym.t<[s0], i64>)
  func.return %v, %i : !sym.t<[s0], f32>, !sym.t<[s0], i64>
}

// CHECK-LABEL: func.func @var(
// CHECK-NEXT: [[V0:%\w+]] = prims.convert %x : !sym.t<[s0, 16], f32> -> !sym.t<[s0, 16], f64>
// CHECK-NEXT: [[V1:%\w+]], [[V2:%\w+]] = prims.var_mean [[V0]] {dims = [1]} : !sym.t<[s0, 16], f64> -> !sym.t<[s0], f64>, !sym.t<[s0], f64>
// CHECK:      [[V3:%\w+]] = prims.full {value = 1.0666666666666667} : !sym.t<[s0], f64>
// CHECK-NEXT: [[V4:%\w+]] = prims.mul [[V2]], [[V3]] : !sym.t<[s0], f64>
// CHECK-NEXT: [[V5:%\w+]] = prims.convert [[V4]] : !sym.t<[s0], f64> -> !sym.t<[s0], f32>
// CHECK-NEXT: func.return [[V5]] : !sym.t<[s0], f32>
func.func @var(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0], f32> {
  %r = aten.var.correction(%x, [1], correction = 1) : (!sym.t<[s0, 16], f32>) -> !sym.t<[s0], f32>
  func.return %r : !sym.t<[s0], f32>
}

// CHECK-LABEL: func.func @any(
// CHECK-NEXT: [[V0:%\w+]] = prims.convert %x : !sym.t<[s0, 4], i64> -> !sym.t<[s0, 4], i1>
// CHECK-NEXT: [[V1:%\w+]] = prims.reduce [[V0]] {kind = any, dims = [0]} : !sym.t<[s0, 4], i1> -> !sym.t<[4], i1>
// CHECK-NEXT: func.return [[V1]] : !sym.t<[4], i1>
func.func @any(%x: !sym.t<[s0, 4], i64>) -> !sym.t<[4], i1> {
  %r = aten.any.dim(%x, 0) : (!sym.t<[s0, 4], i64>) -> !sym.t<[4], i1>
  func.return %r : !sym.t<[4], i1>
}

// CHECK-LABEL: func.func @cumsum(
// CHECK-NEXT: [[V0:%\w+]] = prims.convert %x : !sym.t<[s0], i1> -> !sym.t<[s0], i64>
// CHECK-NEXT: [[V1:%\w+]] = prims.scan [[V0]] {kind = sum, dim = 0} : !sym.t<[s0], i64>
// CHECK-NEXT: func.return [[V1]] : !sym.t<[s0], i64>
func.func @cumsum(%x: !sym.t<[s0], i1>) -> !sym.t<[s0], i64> {
  %r = aten.cumsum(%x, 0) : (!sym.t<[s0], i1>) -> !sym.t<[s0], i64>
  func.return %r : !sym.t<[s0], i64>
}

// The position is the last one where the running extreme stood.
// CHECK-LABEL: func.func @cummax(
// CHECK-NEXT: [[V0:%\w+]] = prims.scan %x {kind = max, dim = 1} : !sym.t<[s0, 16], i64>
// CHECK-NEXT: [[V1:%\w+]] = prims.eq %x, [[V0]] : !sym.t<[s0, 16], i64> -> !sym.t<[s0, 16], i1>
// CHECK-NEXT: [[V2:%\w+]] = prims.iota {dim = 1} : !sym.t<[s0, 16], i64>
// CHECK-NEXT: [[V3:%\w+]] = prims.full {value = 0} : !sym.t<[s0, 16], i64>
// CHECK-NEXT: [[V4:%\w+]] = prims.select [[V1]], [[V2]], [[V3]] : !sym.t<[s0, 16], i1>, !sym.t<[s0, 16], i64>, !sym.t<[s0, 16], i64> -> !sym.t<[s0, 16], i64>
// CHECK-NEXT: [[V5:%\w+]] = prims.scan [[V4]] {kind = max, dim = 1} : !sym.t<[s0, 16], i64>
// CHECK-NEXT: func.return [[V0]], [[V5]] : !sym.t<[s0, 16], i64>, !sym.t<[s0, 16], i64>
func.func @cummax(%x: !sym.t<[s0, 16], i64>) -> (!sym.t<[s0, 16], i64>, !sym.t<[s0, 16], i64>) {
  %v, %i = aten.cummax(%x, 1) : (!sym.t<[s0, 16], i64>) -> (!sym.t<[s0, 16], i64>, !sym.t<[s0, 16], i64>)
  func.return %v, %i : !sym.t<[s0, 16], i64>, !sym.t<[s0, 16], i64>
}

// CHECK-LABEL: func.func @hash(
// CHECK-NEXT: [[W:%\w+]] = prims.convert %x : !sym.t<[s0, 3], f32> -> !sym.t<[s0, 3], f64>
// CHECK-NEXT: [[B:%\w+]] = prims.bitcast [[W]] : !sym.t<[s0, 3], f64> -> !sym.t<[s0, 3], i64>
// CHECK-NEXT: [[X:%\w+]] = prims.reduce [[B]] {kind = xor, dims = [1]} : !sym.t<[s0, 3], i64> -> !sym.t<[s0], i64>
// CHECK-NEXT: [[R:%\w+]] = prims.bitcast [[X]] : !sym.t<[s0], i64> -> !sym.t<[s0], u64>
// CHECK-NEXT: func.return [[R]]
func.func @hash(%x: !sym.t<[s0, 3], f32>) -> !sym.t<[s0], u64> {
  %r = aten.hash_tensor(%x, [1]) : (!sym.t<[s0, 3], f32>) -> !sym.t<[s0], u64>
  func.return %r : !sym.t<[s0], u64>
}

// CHECK-LABEL: func.func @trace(
// CHECK-NEXT: [[D:%\w+]] = prims.gather %x[] {index = [d0, d0]} : !sym.t<[s0, s1], f32> -> !sym.t<[min(s0, s1)], f32>
// CHECK-NEXT: [[R:%\w+]] = prims.reduce [[D]] {kind = sum, dims = [0]} : !sym.t<[min(s0, s1)], f32> -> !sym.t<[], f32>
// CHECK-NEXT: func.return [[R]]
func.func @trace(%x: !sym.t<[s0, s1], f32>) -> !sym.t<[], f32> {
  %r = aten.trace(%x) : (!sym.t<[s0, s1], f32>) -> !sym.t<[], f32>
  func.return %r : !sym.t<[], f32>
}

// The sum of two rows' distances, for rows i < j.
// CHECK-LABEL: func.func @pdist(
// CHECK: prims.gather %x[{{.*}}] {index = [i0, d1]} : !sym.t<[5, 2], f32>, !sym.t<[10, 2], i64> -> !sym.t<[10, 2], f32>
// CHECK: prims.reduce {{.*}} {kind = sum, dims = [1]} : !sym.t<[10, 2], f32> -> !sym.t<[10], f32>
// CHECK: prims.sqrt
func.func @pdist(%x: !sym.t<[5, 2], f32>) -> !sym.t<[10], f32> {
  %r = aten._pdist_forward(%x) : (!sym.t<[5, 2], f32>) -> !sym.t<[10], f32>
  func.return %r : !sym.t<[10], f32>
}

// The gradient of row i is a sum over all rows j.
// CHECK-LABEL: func.func @cdist_backward(
// CHECK: [[D:%\w+]] = prims.sub {{.*}} : !sym.t<[4, 5, 2], f32>
// CHECK: [[N:%\w+]] = prims.eq %f
// CHECK: [[Q:%\w+]] = prims.div %g, %f : !sym.t<[4, 5], f32>
// CHECK: [[S:%\w+]] = prims.select [[N]], {{%\w+}}, [[Q]] :
// CHECK: [[G:%\w+]] = prims.broadcast [[S]] {{.*}} -> !sym.t<[4, 5, 2], f32>
// CHECK: [[P:%\w+]] = prims.mul [[G]], [[D]]
// CHECK: prims.reduce [[P]] {kind = sum, dims = [1]} : !sym.t<[4, 5, 2], f32> -> !sym.t<[4, 2], f32>
func.func @cdist_backward(%g: !sym.t<[4, 5], f32>, %a: !sym.t<[4, 2], f32>, %b: !sym.t<[5, 2], f32>, %f: !sym.t<[4, 5], f32>) -> !sym.t<[4, 2], f32> {
  %r = aten._cdist_backward(%g, %a, %b, 2.0, %f) : (!sym.t<[4, 5], f32>, !sym.t<[4, 2], f32>, !sym.t<[5, 2], f32>, !sym.t<[4, 5], f32>) -> !sym.t<[4, 2], f32>
  func.return %r : !sym.t<[4, 2], f32>
}

// Gradient and distance of rows i and j stand at one place, whichever of them comes first; a row has none of itself.
// CHECK-LABEL: func.func @pdist_backward(
// CHECK: prims.gather %g[{{.*}}] {index = [i0]} : !sym.t<[10], f32>, !sym.t<[5, 5], i64> -> !sym.t<[5, 5], f32>
// CHECK: prims.gather %f[{{.*}}] {index = [i0]} : !sym.t<[10], f32>, !sym.t<[5, 5], i64> -> !sym.t<[5, 5], f32>
// CHECK: prims.reduce {{.*}} {kind = sum, dims = [1]} : !sym.t<[5, 5, 2], f32> -> !sym.t<[5, 2], f32>
func.func @pdist_backward(%g: !sym.t<[10], f32>, %x: !sym.t<[5, 2], f32>, %f: !sym.t<[10], f32>) -> !sym.t<[5, 2], f32> {
  %r = aten._pdist_backward(%g, %x, 2.0, %f) : (!sym.t<[10], f32>, !sym.t<[5, 2], f32>, !sym.t<[10], f32>) -> !sym.t<[5, 2], f32>
  func.return %r : !sym.t<[5, 2], f32>
}

// In f32, of numbers as large as the largest one says; sums of f64 in one pass where more than 2^16 might leave f32, and
// of columns, which are not read twice.
// CHECK-LABEL: func.func @var_of_bf16(
// CHECK: [[P:%\w+]] = prims.mul {{.*}} : !sym.t<[4, 96], f32>
// CHECK: prims.reduce [[P]] {kind = sum, dims = [1]}
// CHECK: [[S:%\w+]] = prims.abs [[P]]
// CHECK: [[I:%\w+]] = prims.bitcast [[S]] : !sym.t<[4, 96], f32> -> !sym.t<[4, 96], i32>
// CHECK: prims.reduce [[I]] {kind = max, dims = [1]}
// CHECK: prims.minimum {{.*}} : !sym.t<[4], f32>
// CHECK: prims.sub [[P]], {{%\w+}} : !sym.t<[4, 96], f32>
// CHECK-NOT: prims.var_mean
// CHECK: func.return
// Of f32 the mean is a sum in f64, squares are f32.
// CHECK-LABEL: func.func @var_of_long_rows(
// CHECK: [[W:%\w+]] = prims.convert %x : !sym.t<[4, 128], f32> -> !sym.t<[4, 128], f64>
// CHECK: prims.reduce [[W]] {kind = sum, dims = [1]}
// CHECK: prims.sub %x, {{%\w+}} : !sym.t<[4, 128], f32>
// CHECK: prims.reduce {{.*}} {kind = sum, dims = [1]} : !sym.t<[4, 128], f32>
// CHECK-NOT: prims.var_mean
// CHECK: func.return
// CHECK-LABEL: func.func @var_of_many_bf16(
// CHECK-NOT: prims.var_mean
// CHECK: prims.reduce {{.*}} : !sym.t<[4, 65537], f64>
// CHECK-LABEL: func.func @var_of_columns_of_bf16(
// CHECK: [[X:%\w+]] = prims.convert {{.*}} : !sym.t<[s0, 96], bf16> -> !sym.t<[s0, 96], f64>
// CHECK: [[T:%\w+]] = prims.reduce [[X]] {kind = sum, dims = [0]}
// CHECK: [[Y:%\w+]] = prims.mul [[X]], [[X]]
// CHECK: [[Q:%\w+]] = prims.reduce [[Y]] {kind = sum, dims = [0]}
// CHECK: [[M:%\w+]] = prims.div [[T]], {{%\w+}}
// CHECK: [[U:%\w+]] = prims.mul [[T]], [[M]]
// CHECK: prims.sub [[Q]], [[U]] : !sym.t<[96], f64>
// CHECK-NOT: [[X]]
// CHECK: func.return
func.func @var_of_bf16(%x: !sym.t<[4, 96], bf16>) -> !sym.t<[4], bf16> {
  %r = aten.var.correction(%x, [1], correction = 1) : (!sym.t<[4, 96], bf16>) -> !sym.t<[4], bf16>
  func.return %r : !sym.t<[4], bf16>
}
func.func @var_of_long_rows(%x: !sym.t<[4, 128], f32>) -> !sym.t<[4], f32> {
  %r = aten.var.correction(%x, [1], correction = 1) : (!sym.t<[4, 128], f32>) -> !sym.t<[4], f32>
  func.return %r : !sym.t<[4], f32>
}
func.func @var_of_many_bf16(%x: !sym.t<[4, 65537], bf16>) -> !sym.t<[4], bf16> {
  %r = aten.var.correction(%x, [1], correction = 1) : (!sym.t<[4, 65537], bf16>) -> !sym.t<[4], bf16>
  func.return %r : !sym.t<[4], bf16>
}
func.func @var_of_columns_of_bf16(%x: !sym.t<[s0, 96], bf16>) -> !sym.t<[96], bf16> {
  %r = aten.var.correction(%x, [0], correction = 1) : (!sym.t<[s0, 96], bf16>) -> !sym.t<[96], bf16>
  func.return %r : !sym.t<[96], bf16>
}
