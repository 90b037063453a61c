// RUN: lamella-opt %s -p kernel-to-tt --split-input-file | filecheck %s

// A block of a vector: the tail is masked, sizes are i32, pointers and what is made of them know their alignment.
builtin.module {
  loop.kernel @exp(%x: !sym.t<[s0], f32, device=cuda:0>) outs(%y: !sym.t<[s0], f32, device=cuda:0>) sizes [s0] grid [d0 = s0] attributes {tile = {d0 = 256 : i64}, warps = 2 : i64} {
    %0 = loop.load %x[d0] : !sym.t<[s0], f32, device=cuda:0>
    %1 = math.exp %0 : f32
    %2 = arith.negf %1 : f32
    loop.store %2, %y[d0] : !sym.t<[s0], f32, device=cuda:0>
    loop.end
  }
}
// CHECK: tt.func public @exp(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %y: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %s0: i32)
// CHECK-SAME: lamella.grid = #loop.index<[floordiv(s0 + 255, 256)]>, lamella.sizes = #loop.index<[s0]>, lamella.warps = 2 : i64
// CHECK: %[[ID:.*]] = tt.get_program_id x : i32
// CHECK: %[[LANES:.*]] = tt.make_range {start = 0 : i32, end = 256 : i32} : tensor<256xi32>
// CHECK: %[[MASK:.*]] = arith.cmpi slt, %{{.*}}, %{{.*}} : tensor<256xi32>
// CHECK: %[[X:.*]] = tt.load %{{.*}}, %[[MASK]] : tensor<256x!tt.ptr<f32>>
// CHECK: %[[EXP:.*]] = tt.extern_elementwise %[[X]] {{.*}}symbol = "__nv_expf"
// CHECK: arith.subf %{{.*}}, %[[EXP]] : tensor<256xf32>
// CHECK: tt.store %{{.*}}, %{{.*}}, %[[MASK]] : tensor<256x!tt.ptr<f32>>

// -----

// A store of a value that is used further comes before the use, behind what is read; not where another store is to be
// there, too.
builtin.module {
  loop.kernel @stored(%x: !sym.t<[256], f32, device=cuda:0>, %w: !sym.t<[256], f32, device=cuda:0>) outs(%y: !sym.t<[256], f32, device=cuda:0>, %z: !sym.t<[256], f32, device=cuda:0>, %t: !sym.t<[256], f32, device=cuda:0>) sizes [] grid [d0 = 256] attributes {tile = {d0 = 256 : i64}} {
    %0 = loop.load %x[d0] : !sym.t<[256], f32, device=cuda:0>
    %1 = math.exp %0 : f32
    %2 = loop.load %w[d0] : !sym.t<[256], f32, device=cuda:0>
    %3 = arith.mulf %1, %2 : f32
    %4 = arith.addf %3, %1 : f32
    loop.store %3, %t[d0] mask [lt(d0, 100)] : !sym.t<[256], f32, device=cuda:0>
    loop.store %4, %t[d0] mask [ge(d0, 100)] : !sym.t<[256], f32, device=cuda:0>
    loop.store %4, %z[d0] : !sym.t<[256], f32, device=cuda:0>
    loop.store %1, %y[d0] : !sym.t<[256], f32, device=cuda:0>
    loop.end
  }
}
// CHECK-LABEL: tt.func public @stored(
// CHECK: %[[E:.*]] = tt.extern_elementwise {{.*}}symbol = "__nv_expf"
// CHECK: tt.load
// CHECK: tt.store %{{.*}}, %[[E]]
// CHECK: %[[P:.*]] = arith.mulf %[[E]]
// CHECK: %[[S:.*]] = arith.addf %[[P]], %[[E]]
// CHECK: tt.store %{{.*}}, %[[P]]
// CHECK: tt.store %{{.*}}, %[[S]]
// CHECK: tt.store %{{.*}}, %[[S]]

// -----

// A row held whole is loaded once, and what one loop keeps in scratch is a value for the next.
builtin.module {
  loop.kernel @softmax(%x: !sym.t<[64, 128], f32, device=cuda:0>) outs(%y: !sym.t<[64, 128], f32, device=cuda:0>) sizes [] grid [d0 = 64] {
    %0 = loop.scratch : !sym.t<[128], f32>
    %1 = loop.for [d1 = 128] reduce [max] attributes {tile = {d1 = 128 : i64}} {
      %2 = loop.load %x[d0, d1] : !sym.t<[64, 128], f32, device=cuda:0>
      loop.yield %2 : f32
    } : f32
    %3 = loop.for [r0 = 128] reduce [add] attributes {tile = {r0 = 128 : i64}} {
      %4 = loop.load %x[d0, r0] : !sym.t<[64, 128], f32, device=cuda:0>
      %5 = arith.subf %4, %1 : f32
      loop.store %5, %0[r0] : !sym.t<[128], f32>
      loop.yield %5 : f32
    } : f32
    loop.for [d1 = 128] attributes {tile = {d1 = 128 : i64}} {
      %6 = loop.load %0[d1] : !sym.t<[128], f32>
      %7 = arith.divf %6, %3 : f32
      loop.store %7, %y[d0, d1] : !sym.t<[64, 128], f32, device=cuda:0>
      loop.yield
    }
    loop.end
  }
}
// CHECK-LABEL: tt.func public @softmax
// CHECK: %[[X:.*]] = tt.load
// CHECK: %[[MAX:.*]] = "tt.reduce"(%[[X]]) <{axis = 0 : i32}>
// CHECK: arith.maximumf
// CHECK-NOT: tt.load
// CHECK: %[[APART:.*]] = arith.subf %[[X]],
// CHECK: %[[SUM:.*]] = "tt.reduce"(%[[APART]])
// CHECK-NOT: tt.load
// CHECK: %[[ALL:.*]] = tt.splat %[[SUM]]
// CHECK: %[[Y:.*]] = tt.precise_divf %[[APART]], %[[ALL]]
// CHECK: tt.store %{{.*}}, %[[Y]]

// -----

// A longer row: a loop carries a value per lane, which are combined at its end.
builtin.module {
  loop.kernel @sum(%x: !sym.t<[64, s0], bf16, device=cuda:0>) outs(%y: !sym.t<[64], bf16, device=cuda:0>) sizes [s0] grid [d0 = 64] {
    %0 = loop.for [r0 = s0] reduce [add] attributes {tile = {r0 = 512 : i64}} {
      %1 = loop.load %x[d0, r0] : !sym.t<[64, s0], bf16, device=cuda:0>
      loop.yield %1 : bf16
    } : bf16
    loop.store %0, %y[d0] : !sym.t<[64], bf16, device=cuda:0>
    loop.end
  }
}
// CHECK-LABEL: tt.func public @sum
// CHECK: %[[LANES:.*]] = scf.for {{.*}} iter_args(%[[SO_FAR:.*]] = %{{.*}}) -> (tensor<512xf32>)
// CHECK: %[[X:.*]] = tt.load
// CHECK: %[[WIDE:.*]] = arith.extf %[[X]] : tensor<512xbf16> to tensor<512xf32>
// CHECK: %[[IN:.*]] = arith.select %{{.*}}, %[[WIDE]], %{{.*}} : tensor<512xi1>, tensor<512xf32>
// CHECK: arith.addf %[[SO_FAR]], %[[IN]]
// CHECK: "tt.reduce"(%[[LANES]])
// CHECK: arith.truncf %{{.*}} : f32 to bf16

// -----

// Position and value are reduced together; bool is a byte in memory.
builtin.module {
  loop.kernel @argmax(%x: !sym.t<[64, 16], f32, device=cuda:0>) outs(%y: !sym.t<[64], i64, device=cuda:0>, %z: !sym.t<[64], i1, device=cuda:0>) sizes [] grid [d0 = 64] attributes {tile = {d0 = 64 : i64}} {
    %0 = arith.constant 0.0 : f32
    %1, %2 = loop.for [r0 = 16] reduce [argmax, or] attributes {tile = {r0 = 16 : i64}} {
      %3 = loop.load %x[d0, r0] : !sym.t<[64, 16], f32, device=cuda:0>
      %4 = arith.cmpf olt, %3, %0 : f32
      loop.yield %3, %4 : f32, i1
    } : i64, i1
    loop.store %1, %y[d0] : !sym.t<[64], i64, device=cuda:0>
    loop.store %2, %z[d0] : !sym.t<[64], i1, device=cuda:0>
    loop.end
  }
}
// CHECK-LABEL: tt.func public @argmax
// CHECK-SAME: %z: !tt.ptr<i8>
// CHECK: "tt.reduce"(%{{.*}}, %{{.*}}) <{axis = 1 : i32}>
// CHECK: (tensor<64x16xf32>, tensor<64x16xi32>) -> (tensor<64xf32>, tensor<64xi32>)
// CHECK: "tt.reduce"(%{{.*}}) <{axis = 1 : i32}>
// CHECK: arith.ori %{{.*}}, %{{.*}} : i32
// CHECK: tt.store %{{.*}}, %{{.*}} : tensor<64x!tt.ptr<i8>>

// -----

// A running sum: along the tile, and from tile to tile.
builtin.module {
  loop.kernel @cumsum(%x: !sym.t<[64, 3000], f32, device=cuda:0>) outs(%y: !sym.t<[64, 3000], f32, device=cuda:0>) sizes [] grid [d0 = 64] {
    loop.for [d1 = 3000] attributes {tile = {d1 = 1024 : i64}} {
      %0 = loop.load %x[d0, d1] : !sym.t<[64, 3000], f32, device=cuda:0>
      %1 = loop.scan add %0 along d1 : f32
      loop.store %1, %y[d0, d1] : !sym.t<[64, 3000], f32, device=cuda:0>
      loop.yield
    }
    loop.end
  }
}
// CHECK-LABEL: tt.func public @cumsum
// CHECK: scf.for {{.*}} iter_args(%[[BEFORE:.*]] = %{{.*}}) -> (f32)
// CHECK: %[[RUNNING:.*]] = "tt.scan"(%[[X:.*]]) <{axis = 0 : i32, reverse = false}>
// CHECK: %[[TOTAL:.*]] = "tt.reduce"(%[[X]])
// CHECK: %[[START:.*]] = tt.splat %[[BEFORE]]
// CHECK: %[[Y:.*]] = arith.addf %[[START]], %[[RUNNING]]
// CHECK: %[[AFTER:.*]] = arith.addf %[[BEFORE]], %[[TOTAL]]
// CHECK: tt.store %{{.*}}, %[[Y]]
// CHECK: scf.yield %[[AFTER]]

// -----

// An index from memory is checked, and read where it holds; updates are atomic.
builtin.module {
  loop.kernel @add_at(%i: !sym.t<[512], i64, device=cuda:0>, %v: !sym.t<[512], f32, device=cuda:0>) outs(%y: !sym.t<[100], f32, device=cuda:0>) sizes [] grid [d0 = 512] attributes {tile = {d0 = 256 : i64}} {
    %0 = loop.load %i[d0] : !sym.t<[512], i64, device=cuda:0>
    %1 = loop.index [100]
    %2 = arith.cmpi ult, %0, %1 : i64
    loop.assert %2, "index out of range"
    %3 = loop.load %v[v0](%0) if %2 : !sym.t<[512], f32, device=cuda:0>
    loop.store %3, %y[v0](%0) combine add : !sym.t<[100], f32, device=cuda:0>
    loop.end
  }
}
// CHECK-LABEL: tt.func public @add_at
// CHECK-SAME: lamella.messages = ["index out of range"]
// CHECK: %[[I:.*]] = tt.load
// CHECK: %[[OK:.*]] = arith.cmpi ult, %[[I]],
// CHECK: tt.assert %[[OK]], "index out of range"
// CHECK: %[[V:.*]] = tt.load %{{.*}}, %[[OK]], %{{.*}} : tensor<256x!tt.ptr<f32>>
// CHECK: tt.atomic_rmw fadd, relaxed, gpu, %{{.*}}, %[[V]]

// -----

// What is written and read again through memory: the program's threads wait in between.
builtin.module {
  loop.kernel @twice(%x: !sym.t<[9], f32, device=cuda:0>) outs(%y: !sym.t<[9], f32, device=cuda:0>, %z: !sym.t<[8], f32, device=cuda:0>) sizes [] grid [] {
    loop.for [d0 = 9] attributes {tile = {d0 = 16 : i64}} {
      %0 = loop.load %x[d0] : !sym.t<[9], f32, device=cuda:0>
      loop.store %0, %y[d0] : !sym.t<[9], f32, device=cuda:0>
      loop.yield
    }
    loop.for [d1 = 8] attributes {tile = {d1 = 8 : i64}} {
      %1 = loop.load %y[d1 + 1] : !sym.t<[9], f32, device=cuda:0>
      loop.store %1, %z[d1] : !sym.t<[8], f32, device=cuda:0>
      loop.yield
    }
    loop.end
  }
}
// CHECK-LABEL: tt.func public @twice
// CHECK: tt.store
// CHECK: gpu.barrier
// CHECK: tt.load

// -----

// What one loop writes over what another wrote, by other threads: it waits for them.
builtin.module {
  loop.kernel @over(%x: !sym.t<[4, 4], f32, device=cuda:0>) outs(%y: !sym.t<[4, 4], f32, device=cuda:0>) sizes [] grid [] {
    loop.for [d0 = 4, d1 = 4] attributes {tile = {d0 = 4 : i64, d1 = 4 : i64}} {
      %0 = loop.load %x[d0, d1] : !sym.t<[4, 4], f32, device=cuda:0>
      loop.store %0, %y[d0, d1] : !sym.t<[4, 4], f32, device=cuda:0>
      loop.yield
    }
    %1 = arith.constant 0.0 : f32
    loop.for [d2 = 4] attributes {tile = {d2 = 4 : i64}} {
      loop.store %1, %y[d2, d2] : !sym.t<[4, 4], f32, device=cuda:0>
      loop.yield
    }
    loop.end
  }
}
// CHECK-LABEL: tt.func public @over
// CHECK: tt.store
// CHECK: gpu.barrier
// CHECK: tt.store

// -----

// A difference of one value, even as its mean over one element: ptxas would make x * y - x * y what rounding takes from
// the product.
builtin.module {
  loop.kernel @same(%x: !sym.t<[s0], f32, device=cuda:0>) outs(%y: !sym.t<[s0], f32, device=cuda:0>) sizes [s0] grid [d0 = s0] attributes {tile = {d0 = 256 : i64}, warps = 2 : i64} {
    %0 = loop.load %x[d0] : !sym.t<[s0], f32, device=cuda:0>
    %1 = arith.constant 1.0 : f32
    %2 = arith.mulf %0, %0 : f32
    %3 = arith.divf %2, %1 : f32
    %4 = arith.subf %2, %3 : f32
    loop.store %4, %y[d0] : !sym.t<[s0], f32, device=cuda:0>
    loop.end
  }
}
// CHECK: tt.func public @same
// CHECK: %[[SQUARE:.*]] = arith.mulf
// CHECK-NOT: arith.subf
// CHECK: %[[NONE:.*]] = arith.mulf %[[SQUARE]], %{{.*}}
// CHECK: %[[ZERO:.*]] = arith.addf %[[NONE]], %{{.*}}
// CHECK: tt.store %{{.*}}, %[[ZERO]]

// -----

// A remainder of what may not fit an i32 is made one before it is compared with a limit that is.
builtin.module {
  loop.kernel @below(%x: !sym.t<[s0, s1], f32, device=cuda:0>) outs(%y: !sym.t<[4], f32, device=cuda:0>) sizes [s0, s1] grid [d0 = 4] attributes {tile = {d0 = 4 : i64}, warps = 1 : i64} {
    %0 = loop.load %x[0, 0] mask [lt(mod(s0*s1*d0, 5), s0*s1)] : !sym.t<[s0, s1], f32, device=cuda:0>
    loop.store %0, %y[d0] : !sym.t<[4], f32, device=cuda:0>
    loop.end
  }
}
// CHECK-LABEL: tt.func public @below
// CHECK: %[[LIMIT:.*]] = arith.trunci %{{.*}} : i64 to i32
// CHECK: %[[LIMITS:.*]] = tt.splat %[[LIMIT]] : i32 -> tensor<4xi32>
// CHECK: arith.cmpi slt, %{{.*}}, %[[LIMITS]] : tensor<4xi32>

// -----

// Any integer that is only computed with has 64 bits; one that says where something lies has 32, as sizes.
builtin.module {
  loop.kernel @numbers(%x: !sym.t<[s0], f64, device=cuda:0>) outs(%y: !sym.t<[s0], f64, device=cuda:0>) sizes [s0, n0, n1] grid [d0 = s0] attributes {tile = {d0 = 256 : i64}, warps = 2 : i64} {
    %0 = loop.load %x[mod(d0 + n1, s0)] : !sym.t<[s0], f64, device=cuda:0>
    %1 = loop.index [n0 * n1]
    %2 = arith.sitofp %1 : i64 to f64
    %3 = arith.addf %0, %2 : f64
    loop.store %3, %y[d0] : !sym.t<[s0], f64, device=cuda:0>
    loop.end
  }
}
// CHECK: tt.func public @numbers({{.*}}, %s0: i32, %n0: i64, %n1: i32)
