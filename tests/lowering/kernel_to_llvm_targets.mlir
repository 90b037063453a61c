// RUN: lamella-opt %s -p 'kernel-to-llvm{target=baseline}' | filecheck %s

// Without masked instructions what is left over runs element by element. The grain makes it a launch.
// CHECK:       llvm.func internal @lamella.launch(
// CHECK:         llvm.call @lamella_num_threads
// CHECK:         llvm.call @GOMP_parallel
// CHECK:       llvm.func internal @lamella.thread(
// CHECK:         llvm.call @omp_get_thread_num
// CHECK-LABEL: llvm.func @rest(
// CHECK:         llvm.call @lamella.launch
// CHECK-LABEL: llvm.func internal @rest.body(
// CHECK:         llvm.load {{.*}} -> vector<4xf32>
// CHECK-NOT:     masked
// CHECK:         llvm.load {{.*}} -> f32
// CHECK-NOT:     masked
// CHECK:         llvm.return
loop.kernel @rest(%x: !sym.t<[s0, s1], f32>) outs(%y: !sym.t<[s0, s1], f32>) sizes [s0, s1] grid [d0 = s0]
    attributes {grain = 4 : i64} {
  loop.for [d1 = s1] attributes {vector = "d1", lanes = 4 : i64, unroll = 1 : i64} {
    %0 = loop.load %x[d0, d1] : !sym.t<[s0, s1], f32>
    loop.store %0, %y[d0, d1] : !sym.t<[s0, s1], f32>
    loop.yield
  }
  loop.end
}

// bf16 is converted in integer arithmetic: LLVM would call a function.
// CHECK-LABEL: llvm.func internal @half.body(
// CHECK:         llvm.load {{.*}} -> vector<4xi16>
// CHECK-NEXT:    llvm.zext {{.*}} to vector<4xi32>
// CHECK-NOT:     llvm.fptrunc
// CHECK:         llvm.store {{.*}} : vector<4xi16>
loop.kernel @half(%x: !sym.t<[64], bf16>) outs(%y: !sym.t<[64], bf16>) sizes [] grid [] {
  loop.for [d0 = 64] attributes {vector = "d0", lanes = 4 : i64, unroll = 1 : i64} {
    %0 = loop.load %x[d0] : !sym.t<[64], bf16>
    %1 = arith.extf %0 : bf16 to f32
    %2 = arith.addf %1, %1 : f32
    %3 = arith.truncf %2 : f32 to bf16
    loop.store %3, %y[d0] : !sym.t<[64], bf16>
    loop.yield
  }
  loop.end
}
