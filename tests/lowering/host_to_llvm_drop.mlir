// RUN: lamella-opt %s -p host-to-llvm | filecheck %s
// Where a recycled tensor goes whose memory is needed, the pool is told what is held beside it from there on.

// CHECK-DAG: [[N:%\w+]] = llvm.mlir.constant(4194304) : i64
// CHECK-DAG: llvm.call @lamella_begin(
// CHECK: llvm.call @lamella_drop(
// CHECK-NEXT: llvm.call @lamella_room([[N]], {{%\w+}}) : (i64, i64) -> ()
// CHECK: llvm.call @lamella_drop(
// CHECK-NOT: llvm.call @lamella_room
builtin.module {
  host.func @main(%x: !sym.t<[524288], f32>) -> !sym.t<[524288], f32> {
    host.check %x "x" : !sym.t<[524288], f32>
    %a = host.empty : !sym.t<[524288], f32>
    %b = aten.exp.out(%x, out = %a) : (!sym.t<[524288], f32>, !sym.t<[524288], f32>) -> !sym.t<[524288], f32>
    %c = aten.relu(%a) : (!sym.t<[524288], f32>) -> !sym.t<[524288], f32>
    host.drop %a {beside = 4194304 : i64} : !sym.t<[524288], f32>
    %d = aten.neg(%c) : (!sym.t<[524288], f32>) -> !sym.t<[524288], f32>
    host.drop %c : !sym.t<[524288], f32>
    host.return %d : !sym.t<[524288], f32>
  }
}
