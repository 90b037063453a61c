// RUN: lamella-opt %s -p kernel-to-tt --split-input-file --verify-diagnostics
// A kernel for which there is no code is named, with its place.

// expected-error@+1 {{'loop.kernel' op cannot be turned into code: kernels have no elements of type c64}}
loop.kernel @k(%x: !sym.t<[4], c64, device=cuda:0>) outs(%y: !sym.t<[4], c64, device=cuda:0>) sizes [] grid [d0 = 4] {
  %0 = loop.load %x[d0] : !sym.t<[4], c64, device=cuda:0>
  loop.store %0, %y[d0] : !sym.t<[4], c64, device=cuda:0>
  loop.end
}

// -----

builtin.module {
  // expected-error@+1 {{there is no product of matrices of i16 that adds up in i16}}
  loop.kernel @short(%a: !sym.t<[64, 64], i16, device=cuda:0>, %b: !sym.t<[64, 64], i16, device=cuda:0>) outs(%y: !sym.t<[64, 64], i16, device=cuda:0>) sizes [] grid [d0 = 64, d1 = 64] attributes {tile = {d0 = 32 : i64, d1 = 32 : i64}, warps = 4 : i64, stages = 1 : i64} {
    %0 = loop.for [r0 = 64] reduce [add] attributes {tile = {r0 = 16 : i64}, dot = "ieee"} {
      %1 = loop.load %a[d0, r0] : !sym.t<[64, 64], i16, device=cuda:0>
      %2 = loop.load %b[r0, d1] : !sym.t<[64, 64], i16, device=cuda:0>
      %3 = arith.muli %1, %2 : i16
      loop.yield %3 : i16
    } : i16
    loop.store %0, %y[d0, d1] : !sym.t<[64, 64], i16, device=cuda:0>
    loop.end
  }
}
