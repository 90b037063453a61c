// RUN: lamella-opt %s -p host-to-llvm --verify-diagnostics
// A kernel that kernel-to-llvm has not made a function of cannot be called.

// expected-error@+1 {{is not a function yet: kernel-to-llvm goes before host-to-llvm}}
loop.kernel @double(%x: !sym.t<[4], f32>) outs(%y: !sym.t<[4], f32>) sizes [] grid [d0 = 4] {
  %0 = loop.load %x[d0] : !sym.t<[4], f32>
  %1 = arith.addf %0, %0 : f32
  loop.store %1, %y[d0] : !sym.t<[4], f32>
  loop.end
}
host.func @main(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  %0 = host.empty : !sym.t<[4], f32>
  host.launch @double(%x) outs(%0) sizes [] : !sym.t<[4], f32>, !sym.t<[4], f32>
  host.return %0 : !sym.t<[4], f32>
}
