// RUN: lamella-opt %s -p 'aten-to-prims{deterministic=true}' | filecheck %s

// Sums of floats on a GPU whose order data says are ATen's, those of integers and of the CPU are not.
func.func @main(%x: !sym.t<[9], f32, device=cuda:0>, %i: !sym.t<[5], i64, device=cuda:0>, %v: !sym.t<[5], f32, device=cuda:0>, %n: !sym.t<[9], i64, device=cuda:0>, %c: !sym.t<[9], f32>, %j: !sym.t<[5], i64>, %w: !sym.t<[5], f32>) -> (!sym.t<[9], f32, device=cuda:0>, !sym.t<[9], i64, device=cuda:0>, !sym.t<[9], f32>) {
  // CHECK: aten.index_add(%x
  %0 = aten.index_add(%x, 0, %i, %v) : (!sym.t<[9], f32, device=cuda:0>, !sym.t<[5], i64, device=cuda:0>, !sym.t<[5], f32, device=cuda:0>) -> !sym.t<[9], f32, device=cuda:0>
  // CHECK: prims.scatter %n
  %1 = aten.index_add(%n, 0, %i, %i) : (!sym.t<[9], i64, device=cuda:0>, !sym.t<[5], i64, device=cuda:0>, !sym.t<[5], i64, device=cuda:0>) -> !sym.t<[9], i64, device=cuda:0>
  // CHECK: prims.scatter %c
  %2 = aten.index_add(%c, 0, %j, %w) : (!sym.t<[9], f32>, !sym.t<[5], i64>, !sym.t<[5], f32>) -> !sym.t<[9], f32>
  func.return %0, %1, %2 : !sym.t<[9], f32, device=cuda:0>, !sym.t<[9], i64, device=cuda:0>, !sym.t<[9], f32>
}
