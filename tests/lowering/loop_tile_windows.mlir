// RUN: lamella-opt %s -p 'loop-tile{target=sm_90}' | filecheck %s
// A window over an image whose channels are neighbours: a tile of channels and columns goes through it point by point.
// CHECK-LABEL: loop.kernel @window(
// CHECK-SAME: tile = {d1 = 64 : i64, d3 = 32 : i64}
// CHECK: loop.for [r0 = 3, r1 = 3] reduce [max] attributes {unroll} {
loop.kernel @window(%x0: !sym.t<[64, 64, 112, 112], bf16, strides=[802816, 1, 7168, 64], device=cuda:0>) outs(%y0: !sym.t<[64, 64, 55, 55], bf16, strides=[193600, 1, 3520, 64], device=cuda:0>) sizes [] grid [d0 = 64, d1 = 64, d2 = 55, d3 = 55] {
  %0 = loop.for [r0 = 3, r1 = 3] reduce [max] attributes {unroll} {
    %1 = loop.load %x0[d0, d1, 2*d2 + r0, 2*d3 + r1] : !sym.t<[64, 64, 112, 112], bf16, strides=[802816, 1, 7168, 64], device=cuda:0>
    loop.yield %1 : bf16
  } : bf16
  loop.store %0, %y0[d0, d1, d2, d3] : !sym.t<[64, 64, 55, 55], bf16, strides=[193600, 1, 3520, 64], device=cuda:0>
  loop.end
}

// The same where columns are neighbours: windows overlap, so that lanes are points of the result all the same.
// CHECK-LABEL: loop.kernel @columns(
// CHECK-SAME: tile = {d2 = 8 : i64, d3 = 64 : i64}, warps = 4
// CHECK: loop.for [r0 = 3, r1 = 3] reduce [add] attributes {unroll} {
loop.kernel @columns(%x0: !sym.t<[64, 64, 112, 112], f32, device=cuda:0>) outs(%y0: !sym.t<[64, 64, 55, 55], f32, device=cuda:0>) sizes [] grid [d0 = 64, d1 = 64, d2 = 55, d3 = 55] {
  %0 = loop.for [r0 = 3, r1 = 3] reduce [add] attributes {unroll} {
    %1 = loop.load %x0[d0, d1, 2*d2 + r0, 2*d3 + r1] : !sym.t<[64, 64, 112, 112], f32, device=cuda:0>
    loop.yield %1 : f32
  } : f32
  loop.store %0, %y0[d0, d1, d2, d3] : !sym.t<[64, 64, 55, 55], f32, device=cuda:0>
  loop.end
}

// Of maxima several rows are written out, which read what they share once; all of it is read before anything is stored.
// CHECK-LABEL: loop.kernel @rows(
// CHECK-SAME: grid [d0 = 4096, d2 = 14, d3 = 55]
// CHECK-SAME: rows = 4 : i64
// CHECK: loop.load %x0[d0, 8*d2 + r0 - 1, 2*d3 + r1] mask [ge(8*d2 + r0, 1)]
// CHECK: loop.load %x0[d0, 8*d2 + r0 + 1, 2*d3 + r1] mask []
// CHECK: loop.store %{{.*}}, %y0[d0, 4*d2, d3]
// CHECK-NEXT: loop.store %{{.*}}, %y0[d0, 4*d2 + 1, d3]
loop.kernel @rows(%x0: !sym.t<[4096, 112, 112], bf16, device=cuda:0>) outs(%y0: !sym.t<[4096, 56, 55], bf16, device=cuda:0>) sizes [] grid [d0 = 4096, d2 = 56, d3 = 55] {
  %0 = loop.for [r0 = 3, r1 = 9] reduce [max] {
    %1 = loop.load %x0[d0, 2*d2 + r0 - 1, 2*d3 + r1] mask [ge(2*d2 + r0, 1)] other 0xff80 : bf16 : !sym.t<[4096, 112, 112], bf16, device=cuda:0>
    loop.yield %1 : bf16
  } : bf16
  loop.store %0, %y0[d0, d2, d3] : !sym.t<[4096, 56, 55], bf16, device=cuda:0>
  loop.end
}

// A dim of one point goes, also from the bounds of a loop.
// CHECK-LABEL: loop.kernel @one_image(
// CHECK-SAME: grid [] attributes
// CHECK: loop.for [r0 = 2] reduce [add]
loop.kernel @one_image(%x: !sym.t<[1, 2, 64], f32, device=cuda:0>) outs(%y: !sym.t<[1, 64], f32, device=cuda:0>) sizes [] grid [d0 = 1] {
  loop.for [d1 = 64] {
    %0 = loop.for [r0 = d0 : d0 + 2] reduce [add] {
      %1 = loop.load %x[d0, r0, d1] : !sym.t<[1, 2, 64], f32, device=cuda:0>
      loop.yield %1 : f32
    } : f32
    loop.store %0, %y[d0, d1] : !sym.t<[1, 64], f32, device=cuda:0>
    loop.yield
  }
  loop.end
}
