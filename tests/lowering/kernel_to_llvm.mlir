// RUN: lamella-opt %s -p 'kernel-to-llvm{target=avx512 threads=false}' --split-input-file | filecheck %s

// A static extent of whole steps: one loop of two vectors, no mask. Rows' addresses are made once a row.
// CHECK:      llvm.func @whole(%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: i64) -> i32
// CHECK:        llvm.call @whole.body
// CHECK:      llvm.func internal @whole.body(%{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64) -> i32
// CHECK:      ^{{.*}}([[ROW:%.*]]: i64):
// CHECK-NEXT:   [[OFFSET:%.*]] = llvm.mul %{{.*}}, [[ROW]] : i64
// CHECK-NEXT:   [[X:%.*]] = llvm.getelementptr %{{.*}}[[[OFFSET]]] : (!llvm.ptr, i64) -> !llvm.ptr, f32
// CHECK-NEXT:   [[Y:%.*]] = llvm.getelementptr %{{.*}}[[[OFFSET]]] : (!llvm.ptr, i64) -> !llvm.ptr, f32
// CHECK-NEXT:   llvm.br
// CHECK-NEXT: ^{{.*}}([[I:%.*]]: i64):
// CHECK-NEXT:   llvm.getelementptr [[X]][[[I]]]
// CHECK-NEXT:   [[A:%.*]] = llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr -> vector<16xf32>
// CHECK:        [[B:%.*]] = llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr -> vector<16xf32>
// CHECK-NEXT:   llvm.fneg [[A]]
// CHECK-NEXT:   llvm.fneg [[B]]
// CHECK:        llvm.store
// CHECK:        llvm.store
// CHECK:        llvm.icmp "slt"
// CHECK-NEXT:   llvm.cond_br
// CHECK-NOT:    vector
// CHECK:        llvm.return
loop.kernel @whole(%x: !sym.t<[s0, 64], f32>) outs(%y: !sym.t<[s0, 64], f32>) sizes [s0] grid [d0 = s0] {
  loop.for [d1 = 64] attributes {vector = "d1", lanes = 16 : i64, unroll = 2 : i64} {
    %0 = loop.load %x[d0, d1] : !sym.t<[s0, 64], f32>
    %1 = arith.negf %0 : f32
    loop.store %1, %y[d0, d1] : !sym.t<[s0, 64], f32>
    loop.yield
  }
  loop.end
}

// -----

// A symbolic extent: a loop of whole steps, then one of single vectors whose mask is on below the end.
// CHECK-LABEL: llvm.func internal @rest.body
// CHECK:         llvm.load {{.*}} -> vector<16xf32>
// CHECK:         llvm.store {{.*}} : vector<16xf32>, !llvm.ptr
// CHECK:         [[MASK:%.*]] = llvm.icmp "slt" {{.*}} : vector<16xi32>
// CHECK:         llvm.intr.masked.load %{{.*}}, [[MASK]]
// CHECK:         llvm.intr.masked.store %{{.*}}, %{{.*}}, [[MASK]]
// CHECK-NOT:     llvm.load
loop.kernel @rest(%x: !sym.t<[s0], f32>) outs(%y: !sym.t<[s0], f32>) sizes [s0] grid [] {
  loop.for [d0 = s0] attributes {vector = "d0", lanes = 16 : i64, unroll = 1 : i64} {
    %0 = loop.load %x[d0] : !sym.t<[s0], f32>
    loop.store %0, %y[d0] : !sym.t<[s0], f32>
    loop.yield
  }
  loop.end
}

// -----

// A short sum keeps one accumulator a copy, joined once at the end.
// CHECK-LABEL: llvm.func internal @sum.body
// CHECK:       ^{{.*}}(%{{.*}}: i64, %{{.*}}: vector<16xf32>, %{{.*}}: vector<16xf32>):
// CHECK-COUNT-3: llvm.fadd {{.*}} : vector<16xf32>
// CHECK-NOT:     llvm.fadd
// CHECK:         llvm.call_intrinsic "llvm.vector.reduce.fadd"
// CHECK:         llvm.store {{.*}} : f32, !llvm.ptr
loop.kernel @sum(%x: !sym.t<[64], f32>) outs(%y: !sym.t<[], f32>) sizes [] grid [] {
  %r = loop.for [r0 = 64] reduce [add] attributes {vector = "r0", lanes = 16 : i64, unroll = 2 : i64} {
    %0 = loop.load %x[r0] : !sym.t<[64], f32>
    loop.yield %0 : f32
  } : f32
  loop.store %r, %y[] : !sym.t<[], f32>
  loop.end
}

// -----

// What does not depend on the vector dim is scalar, and repeated where a vector needs it, outside of the loop.
// CHECK-LABEL: llvm.func internal @uniform.body
// CHECK:         [[S:%.*]] = llvm.load {{.*}} : !llvm.ptr -> f32
// CHECK:         [[E:%.*]] = llvm.fneg [[S]] {{.*}} : f32
// CHECK:         llvm.insertelement [[E]]
// CHECK-NEXT:    [[V:%.*]] = llvm.shufflevector
// CHECK:         llvm.br ^[[LOOP:.*]](
// CHECK:       ^[[LOOP]](
// CHECK-NOT:     shufflevector
// CHECK:         llvm.fmul {{.*}}[[V]]
loop.kernel @uniform(%x: !sym.t<[s0, 64], f32>, %w: !sym.t<[s0], f32>) outs(%y: !sym.t<[s0, 64], f32>)
    sizes [s0] grid [d0 = s0] {
  loop.for [d1 = 64] attributes {vector = "d1", lanes = 16 : i64, unroll = 1 : i64} {
    %0 = loop.load %x[d0, d1] : !sym.t<[s0, 64], f32>
    %1 = loop.load %w[d0] : !sym.t<[s0], f32>
    %2 = arith.negf %1 : f32
    %3 = arith.mulf %0, %2 : f32
    loop.store %3, %y[d0, d1] : !sym.t<[s0, 64], f32>
    loop.yield
  }
  loop.end
}

// -----

// The messages of asserts stand on the entry; a failing one leaves with its number.
// CHECK:       llvm.func @checked({{.*}}) -> i32 attributes {lamella.messages = ["too small", "too large"]}
// CHECK-LABEL: llvm.func internal @checked.body
// CHECK-DAG:     [[ONE:%.*]] = llvm.mlir.constant(1 : i32) : i32
// CHECK-DAG:     [[TWO:%.*]] = llvm.mlir.constant(2 : i32) : i32
// CHECK:       ^[[LEAVE:bb[0-9]+]](%{{.*}}: i32):
// CHECK-NEXT:    llvm.return
// CHECK:         llvm.cond_br %{{.*}}, ^{{.*}}, ^[[LEAVE]]([[ONE]] : i32)
// CHECK:         llvm.cond_br %{{.*}}, ^{{.*}}, ^[[LEAVE]]([[TWO]] : i32)
loop.kernel @checked(%i: !sym.t<[], i64>) outs(%y: !sym.t<[], i64>) sizes [] grid [] {
  %0 = loop.load %i[] : !sym.t<[], i64>
  %zero = arith.constant 0 : i64
  %low = arith.cmpi sge, %0, %zero : i64
  loop.assert %low, "too small"
  %ten = arith.constant 10 : i64
  %high = arith.cmpi slt, %0, %ten : i64
  loop.assert %high, "too large"
  loop.store %0, %y[] : !sym.t<[], i64>
  loop.end
}

// -----

// What all lanes of an aligned vector share, an element and a condition, is another for the vector beside it.
// CHECK-LABEL: llvm.func internal @shared.body
// CHECK:         llvm.load {{.*}} : !llvm.ptr -> f32
// CHECK:         llvm.load {{.*}} : !llvm.ptr -> f32
// CHECK:         [[A:%.*]] = llvm.icmp "sge" {{.*}} : i64
// CHECK:         [[B:%.*]] = llvm.icmp "sge" {{.*}} : i64
// CHECK-COUNT-2: llvm.select {{.*}} : vector<16xi1>, vector<16xf32>
loop.kernel @shared(%x: !sym.t<[33], f32>) outs(%y: !sym.t<[1584], f32>) sizes [] grid [] {
  %zero = arith.constant 0.0 : f32
  loop.for [d0 = 1584] attributes {vector = "d0", lanes = 16 : i64, unroll = 2 : i64} {
    %0 = loop.load %x[floordiv(d0, 48)] : !sym.t<[33], f32>
    %1 = loop.pred [ge(floordiv(d0, 48), 1)]
    %2 = arith.select %1, %0, %zero : f32
    loop.store %2, %y[d0] : !sym.t<[1584], f32>
    loop.yield
  }
  loop.end
}
