// RUN: lamella-opt %s --split-input-file -p 'loop-schedule{bits=512 threads=1}' | filecheck %s
// RUN: lamella-opt %s --split-input-file -p 'loop-schedule{bits=512 threads=2}' | filecheck %s --check-prefix TWO
// RUN: lamella-opt %s --split-input-file -p 'loop-schedule{bits=512 threads=1},kernel-to-llvm{target=avx512}' | filecheck %s --check-prefix LLVM

// Positions that a batch shares are read once: its members come one after the other.

// CHECK: loop.kernel @positions{{.*}}grid [b0 = 384, d0 = 16]
loop.kernel @positions(%x: !sym.t<[16, 1024, 1536], f32>, %p: !sym.t<[1024, 1536], f32>) outs(%y: !sym.t<[16, 1024, 1536], f32>) sizes [] grid [d0 = 16, d1 = 1024, d2 = 1536] {
  %0 = loop.load %x[d0, d1, d2] : !sym.t<[16, 1024, 1536], f32>
  %1 = loop.load %p[d1, d2] : !sym.t<[1024, 1536], f32>
  %2 = arith.addf %0, %1 : f32
  loop.store %2, %y[d0, d1, d2] : !sym.t<[16, 1024, 1536], f32>
  loop.end
}

// -----

// Not where a batch has many, which would be as many streams.

// CHECK: loop.kernel @many{{.*}}grid [d0 = 64, b0 = 384]
loop.kernel @many(%x: !sym.t<[64, 1024, 1536], f32>, %p: !sym.t<[1024, 1536], f32>) outs(%y: !sym.t<[64, 1024, 1536], f32>) sizes [] grid [d0 = 64, d1 = 1024, d2 = 1536] {
  %0 = loop.load %x[d0, d1, d2] : !sym.t<[64, 1024, 1536], f32>
  %1 = loop.load %p[d1, d2] : !sym.t<[1024, 1536], f32>
  %2 = arith.addf %0, %1 : f32
  loop.store %2, %y[d0, d1, d2] : !sym.t<[64, 1024, 1536], f32>
  loop.end
}

// -----

// Where a cache holds the positions and all that comes between, one thread reads them once in any order; of two each
// would read all of them.

// CHECK: loop.kernel @held{{.*}}grid [d0 = 4, d1 = 256]
// TWO:   loop.kernel @held{{.*}}grid [d1 = 256, d0 = 4]
loop.kernel @held(%i: !sym.t<[4, 256], i64>, %w: !sym.t<[8192, 768], bf16>, %p: !sym.t<[256, 768], bf16>) outs(%y: !sym.t<[4, 256, 768], bf16>) sizes [] grid [d0 = 4, d1 = 256, d2 = 768] {
  %0 = loop.load %i[d0, d1] : !sym.t<[4, 256], i64>
  %1 = loop.load %w[v0, d2](%0) : !sym.t<[8192, 768], bf16>
  %2 = arith.extf %1 : bf16 to f32
  %3 = loop.load %p[d1, d2] : !sym.t<[256, 768], bf16>
  %4 = arith.extf %3 : bf16 to f32
  %5 = arith.addf %2, %4 : f32
  %6 = arith.truncf %5 : f32 to bf16
  loop.store %6, %y[d0, d1, d2] : !sym.t<[4, 256, 768], bf16>
  loop.end
}

// -----

// A batch may stand between others. Rows that several loops read are asked for by the last of these, wherever the next
// point's lies, for each of the points that are made at once.

// CHECK:      loop.kernel @masked{{.*}}grid [d0 = 2, d2 = 1024, d1 = 8]
// CHECK:        loop.load %x[d0, d1, d2, d3] : !sym.t
// CHECK:        loop.load %p[d0, d2, d3] : !sym.t
// CHECK:        loop.load %x[d0, d1, d2, d3] attributes {next}
// CHECK:        loop.load %p[d0, d2, d3] attributes {next}
// LLVM-LABEL:   @masked.body
// LLVM-COUNT-12:  llvm.call_intrinsic "llvm.prefetch"
loop.kernel @masked(%x: !sym.t<[2, 8, 1024, 512], f32>, %p: !sym.t<[2, 1024, 512], f32>) outs(%y: !sym.t<[2, 8, 1024], f32>) sizes [] grid [d0 = 2, d1 = 8, d2 = 1024] {
  %m = loop.for [d3 = 512] reduce [max] {
    %1 = loop.load %x[d0, d1, d2, d3] : !sym.t<[2, 8, 1024, 512], f32>
    %2 = loop.load %p[d0, d2, d3] : !sym.t<[2, 1024, 512], f32>
    %3 = arith.addf %1, %2 : f32
    loop.yield %3 : f32
  } : f32
  %s = loop.for [d3 = 512] reduce [add] {
    %1 = loop.load %x[d0, d1, d2, d3] : !sym.t<[2, 8, 1024, 512], f32>
    %2 = loop.load %p[d0, d2, d3] : !sym.t<[2, 1024, 512], f32>
    %3 = arith.addf %1, %2 : f32
    %4 = arith.subf %3, %m : f32
    %5 = math.exp %4 : f32
    loop.yield %5 : f32
  } : f32
  loop.store %s, %y[d0, d1, d2] : !sym.t<[2, 8, 1024], f32>
  loop.end
}

// -----

// What each point reads by itself is read as it lies.

// CHECK: loop.kernel @alone{{.*}}grid [d0 = 16, d1 = 1024]
loop.kernel @alone(%x: !sym.t<[16, 1024, 1536], f32>, %p: !sym.t<[1536], f32>) outs(%y: !sym.t<[16, 1024, 1536], f32, strides=[1572864, 1537, 1]>) sizes [] grid [d0 = 16, d1 = 1024, d2 = 1536] {
  %0 = loop.load %x[d0, d1, d2] : !sym.t<[16, 1024, 1536], f32>
  %1 = loop.load %p[d2] : !sym.t<[1536], f32>
  %2 = arith.addf %0, %1 : f32
  loop.store %2, %y[d0, d1, d2] : !sym.t<[16, 1024, 1536], f32, strides=[1572864, 1537, 1]>
  loop.end
}
