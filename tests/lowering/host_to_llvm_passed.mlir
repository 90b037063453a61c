// RUN: lamella-opt %s -p host-to-llvm | filecheck %s
// Large arguments that are there for the call count as what the program holds, where they are not of the pool.

// CHECK-DAG: [[BESIDE:%\w+]] = llvm.mlir.constant(2097152) : i64
// CHECK-DAG: [[BYTES:%\w+]] = llvm.mlir.constant(4194304) : i64
// CHECK: [[GIVEN:%\w+]] = llvm.call @lamella_not_recycled({{%\w+}}, [[BYTES]]) : (!llvm.ptr, i64) -> i64
// CHECK-NOT: llvm.call @lamella_not_recycled
// CHECK: [[HELD:%\w+]] = llvm.add {{%\w+}}, [[GIVEN]]
// CHECK: llvm.call @lamella_begin([[BESIDE]], [[HELD]], {{%\w+}}) : (i64, i64, i64) -> ()
builtin.module {
  host.func @main(%g: !sym.t<[1048576], f32> {lamella.passed}, %small: !sym.t<[4], f32> {lamella.passed}, %x: !sym.t<[1048576], f32>) -> !sym.t<[], f32> attributes {lamella.beside = 2097152 : i64} {
    host.check %g "g" : !sym.t<[1048576], f32>
    host.check %small "small" : !sym.t<[4], f32>
    host.check %x "x" : !sym.t<[1048576], f32>
    %a = aten.sum(%g) : (!sym.t<[1048576], f32>) -> !sym.t<[], f32>
    host.return %a : !sym.t<[], f32>
  }
}
