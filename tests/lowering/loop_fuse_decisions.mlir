// RUN: lamella-opt %s --split-input-file -p 'loop-fuse,loop-fuse' | filecheck %s

// What went together and what stayed apart, each side named by itself; a module that is fused already keeps what was
// decided, and equal decisions stand once.

// CHECK:      lamella.decisions =
// CHECK-SAME:   "@fused_exp_max_0: fused exp #2 with exp + max (max) #1: saves 592 B of 2.96 KB (x2)"
func.func @main(%x: !sym.t<[8, 16], f32>, %y: !sym.t<[8, 16], f32>) -> (!sym.t<[8, 16], f32>, !sym.t<[8, 16], f32>) {
  %0 = loop.nest [d0 = 8] reduce [r0 = 16] combine [max] {
    %a = loop.load %x[d0, r0] : !sym.t<[8, 16], f32>
    %b = math.exp %a : f32
    loop.yield %b : f32
  } : !sym.t<[8], f32>
  %1 = loop.nest [d0 = 8, d1 = 16] {
    %a = loop.load %x[d0, d1] : !sym.t<[8, 16], f32>
    %b = loop.load %0[d0] : !sym.t<[8], f32>
    %c = arith.subf %a, %b : f32
    %d = math.exp %c : f32
    loop.yield %d : f32
  } : !sym.t<[8, 16], f32>
  %2 = loop.nest [d0 = 8] reduce [r0 = 16] combine [max] {
    %a = loop.load %y[d0, r0] : !sym.t<[8, 16], f32>
    %b = math.exp %a : f32
    loop.yield %b : f32
  } : !sym.t<[8], f32>
  %3 = loop.nest [d0 = 8, d1 = 16] {
    %a = loop.load %y[d0, d1] : !sym.t<[8, 16], f32>
    %b = loop.load %2[d0] : !sym.t<[8], f32>
    %c = arith.subf %a, %b : f32
    %d = math.exp %c : f32
    loop.yield %d : f32
  } : !sym.t<[8, 16], f32>
  func.return %1, %3 : !sym.t<[8, 16], f32>, !sym.t<[8, 16], f32>
}

// -----

// CHECK:      lamella.decisions =
// CHECK-SAME:   "@exp_1: kept apart from @log_0: something between them needs one and is needed by the other"
func.func @main(%x: !sym.t<[64, 64], f32>) -> !sym.t<[64, 64], f32> {
  %0 = loop.nest [d0 = 64, d1 = 64] {
    %a = loop.load %x[d0, d1] : !sym.t<[64, 64], f32>
    %b = math.log %a : f32
    loop.yield %b : f32
  } : !sym.t<[64, 64], f32>
  %1 = aten.mm(%0, %x) : (!sym.t<[64, 64], f32>, !sym.t<[64, 64], f32>) -> !sym.t<[64, 64], f32>
  %2 = loop.nest [d0 = 64, d1 = 64] {
    %a = loop.load %x[d0, d1] : !sym.t<[64, 64], f32>
    %b = loop.load %1[d0, d1] : !sym.t<[64, 64], f32>
    %c = arith.addf %a, %b : f32
    %d = math.exp %c : f32
    loop.yield %d : f32
  } : !sym.t<[64, 64], f32>
  func.return %2 : !sym.t<[64, 64], f32>
}
