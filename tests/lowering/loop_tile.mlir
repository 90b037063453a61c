// RUN: lamella-opt %s -p 'loop-fuse{hold=65536 threads=528 launch=3.0 fork=0.0 speed=9000.0},bufferize,loop-tile' --split-input-file | filecheck %s

// Pointwise: two dims that are one in memory are one, and a program has a block of it.
builtin.module {
  func.func @main(%x: !sym.t<[4096, 1024], f32, device=cuda:0>) -> !sym.t<[4096, 1024], f32, device=cuda:0> {
    %0 = loop.nest [d0 = 4096, d1 = 1024] {
      %1 = loop.load %x[d0, d1] : !sym.t<[4096, 1024], f32, device=cuda:0>
      %2 = arith.addf %1, %1 : f32
      loop.yield %2 : f32
    } : !sym.t<[4096, 1024], f32, device=cuda:0>
    func.return %0 : !sym.t<[4096, 1024], f32, device=cuda:0>
  }
}
// CHECK: loop.kernel @{{.*}} grid [d0 = 4194304] attributes {{.*}}tile = {d0 = 1024 : i64}, warps = 4 : i64, stages = 3 : i64}

// -----

// A row that fits is held whole: each loop has all of it at hand.
builtin.module {
  func.func @main(%x: !sym.t<[s0, 3000], f32, device=cuda:0>) -> !sym.t<[s0], f32, device=cuda:0> {
    %0 = loop.nest [d0 = s0] reduce [r0 = 3000] combine [max] {
      %1 = loop.load %x[d0, r0] : !sym.t<[s0, 3000], f32, device=cuda:0>
      loop.yield %1 : f32
    } : !sym.t<[s0], f32, device=cuda:0>
    func.return %0 : !sym.t<[s0], f32, device=cuda:0>
  }
}
// CHECK: loop.kernel @{{.*}} grid [d0 = s0] attributes {{.*}}warps = 8 : i64
// CHECK: loop.for [r0 = 3000] reduce [max] attributes {tile = {r0 = 4096 : i64}}

// -----

// A row whose length is a symbol is held where it is as short as when it was compiled, and read several elements at a
// time where it is a multiple of 16 as then.
builtin.module attributes {lamella.hints = {s1 = 1008 : i64}} {
  func.func @main(%x: !sym.t<[s0, s1], f32, device=cuda:0>) -> !sym.t<[s0, s1], f32, device=cuda:0> {
    %0 = loop.nest [d0 = s0] reduce [r0 = s1] combine [max] {
      %1 = loop.load %x[d0, r0] : !sym.t<[s0, s1], f32, device=cuda:0>
      loop.yield %1 : f32
    } : !sym.t<[s0], f32, device=cuda:0>
    %2 = loop.nest [d0 = s0, d1 = s1] {
      %3 = loop.load %x[d0, d1] : !sym.t<[s0, s1], f32, device=cuda:0>
      %4 = loop.load %0[d0] : !sym.t<[s0], f32, device=cuda:0>
      %5 = arith.subf %3, %4 : f32
      loop.yield %5 : f32
    } : !sym.t<[s0, s1], f32, device=cuda:0>
    func.return %2 : !sym.t<[s0, s1], f32, device=cuda:0>
  }
}
// CHECK: loop.kernel @{{.*}} grid [d0 = s0] attributes {{.*}}held = {s1 = 1024 : i64}, multiple = {s1 = 16 : i64}

// -----

// Several short rows make up a tile.
builtin.module {
  func.func @main(%x: !sym.t<[1000000, 60], f32, device=cuda:0>) -> !sym.t<[1000000], f32, device=cuda:0> {
    %0 = loop.nest [d0 = 1000000] reduce [r0 = 60] combine [add] {
      %1 = loop.load %x[d0, r0] : !sym.t<[1000000, 60], f32, device=cuda:0>
      loop.yield %1 : f32
    } : !sym.t<[1000000], f32, device=cuda:0>
    func.return %0 : !sym.t<[1000000], f32, device=cuda:0>
  }
}
// CHECK: loop.kernel @{{.*}} grid [d0 = 1000000] attributes {{.*}}tile = {d0 = 16 : i64}
// CHECK: loop.for [r0 = 60] reduce [add] attributes {tile = {r0 = 64 : i64}}

// -----

// A long row is gone through in chunks.
builtin.module {
  func.func @main(%x: !sym.t<[5000, 50304], f32, device=cuda:0>) -> !sym.t<[5000], f32, device=cuda:0> {
    %0 = loop.nest [d0 = 5000] reduce [r0 = 50304] combine [max] {
      %1 = loop.load %x[d0, r0] : !sym.t<[5000, 50304], f32, device=cuda:0>
      loop.yield %1 : f32
    } : !sym.t<[5000], f32, device=cuda:0>
    func.return %0 : !sym.t<[5000], f32, device=cuda:0>
  }
}
// CHECK: loop.for [r0 = 50304] reduce [max] attributes {tile = {r0 = 2048 : i64}}

// -----

// Columns: neighbours in memory are side by side, and what later turns of the loop read is asked for.
builtin.module {
  func.func @main(%x: !sym.t<[100, 262144], f32, device=cuda:0>) -> !sym.t<[262144], f32, device=cuda:0> {
    %0 = loop.nest [d0 = 262144] reduce [r0 = 100] combine [add] {
      %1 = loop.load %x[r0, d0] : !sym.t<[100, 262144], f32, device=cuda:0>
      loop.yield %1 : f32
    } : !sym.t<[262144], f32, device=cuda:0>
    func.return %0 : !sym.t<[262144], f32, device=cuda:0>
  }
}
// CHECK: loop.kernel @{{.*}} grid [d0 = 262144] attributes {{.*}}tile = {d0 = 128 : i64}
// CHECK: loop.for [r0 = 100] reduce [add] attributes {tile = {r0 = 8 : i64}, stages = 4 : i64}

// -----

// A transpose: a tile has both dims.
builtin.module {
  func.func @main(%x: !sym.t<[4096, 4096], f32, device=cuda:0>) -> !sym.t<[4096, 4096], f32, device=cuda:0> {
    %0 = loop.nest [d0 = 4096, d1 = 4096] {
      %1 = loop.load %x[d1, d0] : !sym.t<[4096, 4096], f32, device=cuda:0>
      loop.yield %1 : f32
    } : !sym.t<[4096, 4096], f32, device=cuda:0>
    func.return %0 : !sym.t<[4096, 4096], f32, device=cuda:0>
  }
}
// CHECK: loop.kernel @{{.*}} grid [d0 = 4096, d1 = 4096] attributes {{.*}}tile = {d0 = 64 : i64, d1 = 64 : i64}

// -----

// An update of a copy: the copy is a launch of its own, and updates are points of the grid.
builtin.module {
  func.func @main(%x: !sym.t<[4096, 64], f32, device=cuda:0>, %i: !sym.t<[512], i64, device=cuda:0>, %v: !sym.t<[512, 64], f32, device=cuda:0>) -> !sym.t<[4096, 64], f32, device=cuda:0> {
    %0 = loop.scatter %x [d0 = 512, d1 = 64] combine add {
      %1 = loop.load %i[d0] : !sym.t<[512], i64, device=cuda:0>
      %2 = loop.load %v[d0, d1] : !sym.t<[512, 64], f32, device=cuda:0>
      loop.yield_at %2[v0, d1](%1) : f32
    } : !sym.t<[4096, 64], f32, device=cuda:0> -> !sym.t<[4096, 64], f32, device=cuda:0>
    func.return %0 : !sym.t<[4096, 64], f32, device=cuda:0>
  }
}
// CHECK: loop.kernel @[[NAME:.*]]_part0({{.*}} grid [d2 = {{.*}}] attributes
// CHECK: loop.store %{{.*}}, %y0[d2]
// CHECK: loop.kernel @[[NAME]]_part1({{.*}} grid [d1 = 64, d0 = 512] attributes
// CHECK: loop.store %{{.*}}, %y0[v0, d1](%{{.*}}) combine add
// CHECK: host.launch @[[NAME]]_part0
// CHECK-NEXT: host.launch @[[NAME]]_part1

// -----

// The running sum is read where another lane wrote it: through memory.
builtin.module {
  func.func @main(%x: !sym.t<[6], f32, device=cuda:0>) -> !sym.t<[3], f32, device=cuda:0> {
    %0 = loop.nest [d0 = 6] scan d0 combine [add] {
      %1 = loop.load %x[d0] : !sym.t<[6], f32, device=cuda:0>
      loop.yield %1 : f32
    } : !sym.t<[6], f32, device=cuda:0>
    %2 = loop.nest [d0 = 3] {
      %3 = loop.load %0[2*d0 + 1] : !sym.t<[6], f32, device=cuda:0>
      loop.yield %3 : f32
    } : !sym.t<[3], f32, device=cuda:0>
    func.return %2 : !sym.t<[3], f32, device=cuda:0>
  }
}
// CHECK: loop.kernel @{{.*}} outs(%y0: !sym.t<[3], f32, device=cuda:0>, %y1: !sym.t<[6], f32, device=cuda:0>)
// CHECK-NOT: loop.scratch
// CHECK: %[[BUFFER:.*]] = host.empty : !sym.t<[6], f32, device=cuda:0>
// CHECK: host.launch @{{.*}} outs(%{{.*}}, %[[BUFFER]])
// CHECK: host.drop %[[BUFFER]]

// -----

// Kernels of the CPU are left.
builtin.module {
  func.func @main(%x: !sym.t<[4096], f32>) -> !sym.t<[4096], f32> {
    %0 = loop.nest [d0 = 4096] {
      %1 = loop.load %x[d0] : !sym.t<[4096], f32>
      loop.yield %1 : f32
    } : !sym.t<[4096], f32>
    func.return %0 : !sym.t<[4096], f32>
  }
}
// CHECK: loop.kernel
// CHECK-NOT: tile
// CHECK: host.func

// -----

// A row that two loops read, of which no power of two is the length, is held in tiles that are written out.
builtin.module {
  func.func @main(%x: !sym.t<[4096, 20000], f32, device=cuda:0>) -> !sym.t<[4096, 20000], f32, device=cuda:0> {
    %0 = loop.nest [d0 = 4096] reduce [r0 = 20000] combine [add] {
      %1 = loop.load %x[d0, r0] : !sym.t<[4096, 20000], f32, device=cuda:0>
      loop.yield %1 : f32
    } : !sym.t<[4096], f32, device=cuda:0>
    %2 = loop.nest [d0 = 4096, d1 = 20000] {
      %3 = loop.load %x[d0, d1] : !sym.t<[4096, 20000], f32, device=cuda:0>
      %4 = loop.load %0[d0] : !sym.t<[4096], f32, device=cuda:0>
      %5 = arith.subf %3, %4 : f32
      loop.yield %5 : f32
    } : !sym.t<[4096, 20000], f32, device=cuda:0>
    func.return %2 : !sym.t<[4096, 20000], f32, device=cuda:0>
  }
}
// CHECK: loop.kernel @{{.*}} grid [d0 = 4096] attributes {{.*}}warps = 8 : i64, registers = 128 : i64
// CHECK: loop.for {{.*}} reduce [add] attributes {unroll, tile = {d1 = 1024 : i64}}
// CHECK: loop.for [d1 = 20000] attributes {unroll, tile = {d1 = 1024 : i64}}

// -----

// One that is too long is read again, by programs of which a processor has several.
builtin.module {
  func.func @main(%x: !sym.t<[4096, 90000], f32, device=cuda:0>) -> !sym.t<[4096, 90000], f32, device=cuda:0> {
    %0 = loop.nest [d0 = 4096] reduce [r0 = 90000] combine [add] {
      %1 = loop.load %x[d0, r0] : !sym.t<[4096, 90000], f32, device=cuda:0>
      loop.yield %1 : f32
    } : !sym.t<[4096], f32, device=cuda:0>
    %2 = loop.nest [d0 = 4096, d1 = 90000] {
      %3 = loop.load %x[d0, d1] : !sym.t<[4096, 90000], f32, device=cuda:0>
      %4 = loop.load %0[d0] : !sym.t<[4096], f32, device=cuda:0>
      %5 = arith.subf %3, %4 : f32
      loop.yield %5 : f32
    } : !sym.t<[4096, 90000], f32, device=cuda:0>
    func.return %2 : !sym.t<[4096, 90000], f32, device=cuda:0>
  }
}
// CHECK: loop.kernel @{{.*}} grid [d0 = 4096] attributes {{.*}}warps = 32 : i64, registers = 64 : i64
// CHECK: loop.load %{{.*}} attributes {evict = "last"}
// CHECK: loop.load %{{.*}} attributes {evict = "first"}

// -----

// What a launch has just written in order is read from its end on: that is still in the L2 cache.
builtin.module {
  func.func @main(%x: !sym.t<[100000000], f32, device=cuda:0>) -> (!sym.t<[100000000], f32, device=cuda:0>, !sym.t<[1000], f32, device=cuda:0>) {
    %0 = loop.nest [d0 = 100000000] {
      %1 = loop.load %x[d0] : !sym.t<[100000000], f32, device=cuda:0>
      %2 = arith.addf %1, %1 : f32
      loop.yield %2 : f32
    } : !sym.t<[100000000], f32, device=cuda:0>
    %3 = loop.nest [d0 = 1000] reduce [r0 = 100000] combine [add] {
      %4 = loop.load %0[100000*d0 + r0] : !sym.t<[100000000], f32, device=cuda:0>
      loop.yield %4 : f32
    } : !sym.t<[1000], f32, device=cuda:0>
    func.return %0, %3 : !sym.t<[100000000], f32, device=cuda:0>, !sym.t<[1000], f32, device=cuda:0>
  }
}
// CHECK: loop.kernel @{{.*}}grid [d0 = 100000000] attributes {{.*}} stages = 3 : i64} {
// CHECK: loop.kernel @{{.*}}grid [d0 = 1000] attributes {{.*}} stages = 3 : i64, reverse} {

// -----

// Long functions are written out for each element of a thread: more threads have fewer.
builtin.module {
  func.func @main(%x: !sym.t<[4096, 1024], f32, device=cuda:0>) -> (!sym.t<[4096], f32, device=cuda:0>, !sym.t<[4096], f32, device=cuda:0>) {
    %0 = loop.nest [d0 = 4096] reduce [r0 = 1024] combine [max] {
      %1 = loop.load %x[d0, r0] : !sym.t<[4096, 1024], f32, device=cuda:0>
      %2 = math.sin %1 : f32
      loop.yield %2 : f32
    } : !sym.t<[4096], f32, device=cuda:0>
    %3 = loop.nest [d0 = 4096] reduce [r0 = 1024] combine [max] {
      %4 = loop.load %x[d0, r0] : !sym.t<[4096, 1024], f32, device=cuda:0>
      %5 = math.cos %4 : f32
      loop.yield %5 : f32
    } : !sym.t<[4096], f32, device=cuda:0>
    func.return %0, %3 : !sym.t<[4096], f32, device=cuda:0>, !sym.t<[4096], f32, device=cuda:0>
  }
}
// CHECK: loop.kernel @{{.*}} grid [d0 = 4096] attributes {{.*}}warps = 4 : i64
// CHECK: math.sin
// CHECK: math.cos
