// RUN: lamella-opt %s -p kernel-to-tt --split-input-file --verify-diagnostics
// A kernel for which there is no code is named, with its place.

// expected-error@+1 {{'loop.kernel' op cannot be turned into code: kernels have no elements of type c64}}
loop.kernel @k(%x: !sym.t<[4], c64, device=cuda:0>) outs(%y: !sym.t<[4], c64, device=cuda:0>) sizes [] grid [d0 = 4] {
  %0 = loop.load %x[d0] : !sym.t<[4], c64, device=cuda:0>
  loop.store %0, %y[d0] : !sym.t<[4], c64, device=cuda:0>
  loop.end
}
