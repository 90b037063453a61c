// RUN: lamella-opt %s -p 'loop-fuse{hold=65536 threads=528 rows=512 one_pass=true launch=3.0 fork=0.0 speed=9000.0},bufferize,loop-tile' --split-input-file | filecheck %s

// Parts of columns are runs of rows, whatever dims they had. Of three images fewer turns are asked for.
builtin.module {
  func.func @main(%x: !sym.t<[64, 112, 112, 64], f32, device=cuda:0>, %y: !sym.t<[64, 112, 112, 64], f32, device=cuda:0>, %z: !sym.t<[64, 112, 112, 64], bf16, device=cuda:0>) -> !sym.t<[64], f32, device=cuda:0> {
    %0 = loop.nest [d0 = 64] reduce [r0 = 64, r1 = 112, r2 = 112] combine [add] {
      %1 = loop.load %x[r0, r1, r2, d0] : !sym.t<[64, 112, 112, 64], f32, device=cuda:0>
      %2 = loop.load %y[r0, r1, r2, d0] : !sym.t<[64, 112, 112, 64], f32, device=cuda:0>
      %3 = loop.load %z[r0, r1, r2, d0] : !sym.t<[64, 112, 112, 64], bf16, device=cuda:0>
      %4 = arith.extf %3 : bf16 to f32
      %5 = arith.mulf %1, %2 : f32
      %6 = arith.mulf %4, %5 : f32
      loop.yield %6 : f32
    } : !sym.t<[64], f32, device=cuda:0>
    func.return %0 : !sym.t<[64], f32, device=cuda:0>
  }
}
// CHECK: loop.kernel @{{.*}} grid [d0 = {{[0-9]+}}, d1 = {{[0-9]+}}, d2 = 64] attributes {{.*}}tile = {d2 = 64 : i64}
// CHECK: loop.for [r0 = d0 : d0 + 1, r1 = {{[0-9]+}}*d1 : {{.*}}] reduce [add] attributes {tile = {r1 = 16 : i64}, stages = 2 : i64}

// -----

// What is read at places that have been read is not asked for before.
builtin.module {
  func.func @main(%i: !sym.t<[4096], i64, device=cuda:0>, %x: !sym.t<[4096, 8192], f32, device=cuda:0>) -> !sym.t<[8192], f32, device=cuda:0> {
    %0 = loop.nest [d0 = 8192] reduce [r0 = 4096] combine [add] {
      %1 = loop.load %i[r0] : !sym.t<[4096], i64, device=cuda:0>
      %2 = loop.load %x[v0, d0](%1) : !sym.t<[4096, 8192], f32, device=cuda:0>
      loop.yield %2 : f32
    } : !sym.t<[8192], f32, device=cuda:0>
    func.return %0 : !sym.t<[8192], f32, device=cuda:0>
  }
}
// CHECK: loop.for [r0 = {{.*}}] reduce [add] attributes {tile = {{{[^}]*}}}} {

// -----

// Nor is what the kernel writes: the loop that reads it waits for all threads.
builtin.module {
  loop.kernel @centered(%x: !sym.t<[4096, 1024], f32, device=cuda:0>) outs(%y: !sym.t<[4096, 1024], f32, device=cuda:0>, %z: !sym.t<[1024], f32, device=cuda:0>) sizes [] grid [d0 = 1024] {
    %m = loop.for [r0 = 4096] reduce [add] {
      %0 = loop.load %x[r0, d0] : !sym.t<[4096, 1024], f32, device=cuda:0>
      loop.yield %0 : f32
    } : f32
    loop.for [d1 = 4096] {
      %1 = loop.load %x[d1, d0] : !sym.t<[4096, 1024], f32, device=cuda:0>
      %2 = arith.subf %1, %m : f32
      loop.store %2, %y[d1, d0] : !sym.t<[4096, 1024], f32, device=cuda:0>
      loop.yield
    }
    %n = loop.for [r0 = 4096] reduce [max] {
      %3 = loop.load %y[4095 - r0, d0] : !sym.t<[4096, 1024], f32, device=cuda:0>
      loop.yield %3 : f32
    } : f32
    loop.store %n, %z[d0] : !sym.t<[1024], f32, device=cuda:0>
    loop.end
  }
  func.func @main(%x: !sym.t<[4096, 1024], f32, device=cuda:0>) -> (!sym.t<[4096, 1024], f32, device=cuda:0>, !sym.t<[1024], f32, device=cuda:0>) {
    %y, %z = loop.launch @centered(%x) sizes [] : (!sym.t<[4096, 1024], f32, device=cuda:0>) -> (!sym.t<[4096, 1024], f32, device=cuda:0>, !sym.t<[1024], f32, device=cuda:0>)
    func.return %y, %z : !sym.t<[4096, 1024], f32, device=cuda:0>, !sym.t<[1024], f32, device=cuda:0>
  }
}
// CHECK: loop.for [r0 = 4096] reduce [add] attributes {tile = {{{[^}]*}}}, stages = 3 : i64} {
// CHECK: loop.for [d1 = 4096] attributes {tile = {{{[^}]*}}}} {
// CHECK: loop.for [r0 = 4096] reduce [max] attributes {tile = {{{[^}]*}}}} {

// -----

// A thread has 32 elements of columns of one variance,
builtin.module {
  func.func @main(%x: !sym.t<[32768, 4096], bf16, device=cuda:0>) -> (!sym.t<[4096], f32, device=cuda:0>, !sym.t<[4096], f32, device=cuda:0>) {
    %r0, %r1 = loop.nest [d0 = 4096] reduce [r0 = 32768] combine [welford] {
      %2 = loop.load %x[r0, d0] : !sym.t<[32768, 4096], bf16, device=cuda:0>
      %3 = arith.extf %2 : bf16 to f32
      loop.yield %3 : f32
    } : !sym.t<[4096], f32, device=cuda:0>, !sym.t<[4096], f32, device=cuda:0>
    func.return %r0, %r1 : !sym.t<[4096], f32, device=cuda:0>, !sym.t<[4096], f32, device=cuda:0>
  }
}
// CHECK: loop.kernel @{{.*}} attributes {{.*}}warps = 2 : i64

// -----

// and 16 of two: it has registers for what is carried for each.
builtin.module {
  func.func @main(%x: !sym.t<[32768, 4096], bf16, device=cuda:0>) -> (!sym.t<[4096], f32, device=cuda:0>, !sym.t<[4096], f32, device=cuda:0>, !sym.t<[4096], f32, device=cuda:0>, !sym.t<[4096], f32, device=cuda:0>) {
    %r0, %r1, %r2, %r3 = loop.nest [d0 = 4096] reduce [r0 = 32768] combine [welford, welford] {
      %2 = loop.load %x[r0, d0] : !sym.t<[32768, 4096], bf16, device=cuda:0>
      %3 = arith.extf %2 : bf16 to f32
      %4 = arith.mulf %3, %3 : f32
      loop.yield %3, %4 : f32, f32
    } : !sym.t<[4096], f32, device=cuda:0>, !sym.t<[4096], f32, device=cuda:0>, !sym.t<[4096], f32, device=cuda:0>, !sym.t<[4096], f32, device=cuda:0>
    func.return %r0, %r1, %r2, %r3 : !sym.t<[4096], f32, device=cuda:0>, !sym.t<[4096], f32, device=cuda:0>, !sym.t<[4096], f32, device=cuda:0>, !sym.t<[4096], f32, device=cuda:0>
  }
}
// CHECK: loop.kernel @{{.*}} attributes {{.*}}warps = 4 : i64
