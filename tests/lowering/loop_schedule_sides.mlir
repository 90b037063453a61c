// RUN: lamella-opt %s --split-input-file -p 'loop-schedule{bits=512}' | filecheck %s

// Short rows whose loops wait for two reductions are made two at a time; what is fetched ahead is two more rows away.

// CHECK:      loop.kernel @softmax{{.*}}sides = 2 : i64
// CHECK:        loop.load %x[d0, d1] attributes {prefetch = 8192 : i64}
loop.kernel @softmax(%x: !sym.t<[4096, 1024], bf16>) outs(%y: !sym.t<[4096, 1024], bf16>) sizes [] grid [d0 = 4096] {
  %m = loop.for [d1 = 1024] reduce [max] {
    %1 = loop.load %x[d0, d1] : !sym.t<[4096, 1024], bf16>
    %2 = arith.extf %1 : bf16 to f32
    loop.yield %2 : f32
  } : f32
  %s = loop.for [d1 = 1024] reduce [add] {
    %1 = loop.load %x[d0, d1] : !sym.t<[4096, 1024], bf16>
    %2 = arith.extf %1 : bf16 to f32
    %3 = arith.subf %2, %m : f32
    %4 = math.exp %3 : f32
    loop.yield %4 : f32
  } : f32
  loop.for [d1 = 1024] {
    %1 = loop.load %x[d0, d1] : !sym.t<[4096, 1024], bf16>
    %2 = arith.extf %1 : bf16 to f32
    %3 = arith.divf %2, %s : f32
    %4 = arith.truncf %3 : f32 to bf16
    loop.store %4, %y[d0, d1] : !sym.t<[4096, 1024], bf16>
    loop.yield
  }
  loop.end
}

// -----

// Not so long rows, nor where there is nothing to compute but what memory is waited for.

// CHECK-NOT: sides
loop.kernel @long(%x: !sym.t<[64, 4096], f32>) outs(%y: !sym.t<[64], f32>) sizes [] grid [d0 = 64] {
  %m = loop.for [d1 = 4096] reduce [max] {
    %1 = loop.load %x[d0, d1] : !sym.t<[64, 4096], f32>
    loop.yield %1 : f32
  } : f32
  %s = loop.for [d1 = 4096] reduce [add] {
    %1 = loop.load %x[d0, d1] : !sym.t<[64, 4096], f32>
    %2 = arith.subf %1, %m : f32
    %3 = math.exp %2 : f32
    loop.yield %3 : f32
  } : f32
  loop.store %s, %y[d0] : !sym.t<[64], f32>
  loop.end
}

// -----

// CHECK-NOT: sides
loop.kernel @light(%x: !sym.t<[64, 256], f32>) outs(%y: !sym.t<[64], f32>) sizes [] grid [d0 = 64] {
  %m = loop.for [d1 = 256] reduce [max] {
    %1 = loop.load %x[d0, d1] : !sym.t<[64, 256], f32>
    loop.yield %1 : f32
  } : f32
  %s = loop.for [d1 = 256] reduce [add] {
    %1 = loop.load %x[d0, d1] : !sym.t<[64, 256], f32>
    %2 = arith.subf %1, %m : f32
    loop.yield %2 : f32
  } : f32
  loop.store %s, %y[d0] : !sym.t<[64], f32>
  loop.end
}
