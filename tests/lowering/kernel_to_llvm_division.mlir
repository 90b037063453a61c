// RUN: lamella-opt %s -p 'kernel-to-llvm{target=avx512 threads=false}' --split-input-file | filecheck %s

// Machines have no division of vectors of integers: 16 digits are divided in f32.
// CHECK-LABEL: llvm.func internal @sixteen.body(
// CHECK:         llvm.sext {{.*}} to vector<16xi32>
// CHECK:         [[X:%.*]] = llvm.sitofp {{.*}} to vector<16xf32>
// CHECK:         [[Y:%.*]] = llvm.sitofp {{.*}} to vector<16xf32>
// CHECK:         [[Q:%.*]] = llvm.fdiv [[X]], [[Y]] : vector<16xf32>
// CHECK:         llvm.fptosi [[Q]] : vector<16xf32> to vector<16xi32>
// CHECK:         llvm.trunc {{.*}} to vector<16xi16>
// CHECK-NOT:     llvm.sdiv
// CHECK:         llvm.return
loop.kernel @sixteen(%x: !sym.t<[64], i16>, %y: !sym.t<[64], i16>) outs(%z: !sym.t<[64], i16>) sizes [] grid [] {
  loop.for [d0 = 64] attributes {vector = "d0", lanes = 16 : i64, unroll = 1 : i64} {
    %0 = loop.load %x[d0] : !sym.t<[64], i16>
    %1 = loop.load %y[d0] : !sym.t<[64], i16>
    %2 = arith.divsi %0, %1 : i16
    loop.store %2, %z[d0] : !sym.t<[64], i16>
    loop.yield
  }
  loop.end
}

// -----

// 32 digits are divided in f64, and what is left follows from the quotient.
// CHECK-LABEL: llvm.func internal @rest.body(
// CHECK:         [[Q:%.*]] = llvm.fdiv {{.*}} : vector<16xf64>
// CHECK:         [[I:%.*]] = llvm.fptosi [[Q]] : vector<16xf64> to vector<16xi32>
// CHECK:         [[P:%.*]] = llvm.mul [[I]]
// CHECK:         llvm.sub {{.*}}, [[P]]
// CHECK-NOT:     llvm.srem
// CHECK:         llvm.return
loop.kernel @rest(%x: !sym.t<[64], i32>, %y: !sym.t<[64], i32>) outs(%z: !sym.t<[64], i32>) sizes [] grid [] {
  loop.for [d0 = 64] attributes {vector = "d0", lanes = 16 : i64, unroll = 1 : i64} {
    %0 = loop.load %x[d0] : !sym.t<[64], i32>
    %1 = loop.load %y[d0] : !sym.t<[64], i32>
    %2 = arith.remsi %0, %1 : i32
    loop.store %2, %z[d0] : !sym.t<[64], i32>
    loop.yield
  }
  loop.end
}

// -----

// By a known number LLVM multiplies; of 64 digits there is no float.
// CHECK-LABEL: llvm.func internal @others.body(
// CHECK:         llvm.sdiv {{.*}} : vector<8xi32>
// CHECK:         llvm.sdiv {{.*}} : vector<8xi64>
loop.kernel @others(%x: !sym.t<[64], i32>, %y: !sym.t<[64], i64>) outs(%z: !sym.t<[64], i32>, %w: !sym.t<[64], i64>)
    sizes [] grid [] {
  loop.for [d0 = 64] attributes {vector = "d0", lanes = 8 : i64, unroll = 1 : i64} {
    %0 = loop.load %x[d0] : !sym.t<[64], i32>
    %1 = loop.load %y[d0] : !sym.t<[64], i64>
    %c = arith.constant 7 : i32
    %2 = arith.divsi %0, %c : i32
    %3 = arith.divsi %1, %1 : i64
    loop.store %2, %z[d0] : !sym.t<[64], i32>
    loop.store %3, %w[d0] : !sym.t<[64], i64>
    loop.yield
  }
  loop.end
}
