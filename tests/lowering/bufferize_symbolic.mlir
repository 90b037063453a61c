// RUN: lamella-opt %s -p bufferize | filecheck %s
// What is checked: with symbolic sizes buffers take turns in blocks, `max` where no size is surely the largest.

builtin.module attributes {lamella.hints = {s0 = 128 : i64, s1 = 4 : i64}} {
  loop.kernel @reverse(%x: !sym.t<[s0], f32>) outs(%y: !sym.t<[s0], f32>) sizes [s0] grid [d0 = s0] {
    %0 = loop.load %x[s0 - d0 - 1] : !sym.t<[s0], f32>
    loop.store %0, %y[d0] : !sym.t<[s0], f32>
    loop.end
  }

  // %a and %c are of one size and take turns; %b is between them.
  // CHECK-LABEL: host.func @turns
  // CHECK: [[ARENA:%\w+]] = host.arena [128*s0]
  // CHECK: %a = host.slot [[ARENA]] [0]
  // CHECK: %b = host.slot [[ARENA]] [64*s0]
  // CHECK: %c = host.slot [[ARENA]] [0]
  func.func @turns(%x: !sym.t<[16*s0], f32>, %n: !sym.int<s0>) -> !sym.t<[16*s0], f32> {
    %a = loop.launch @reverse(%x) sizes [16*s0] : (!sym.t<[16*s0], f32>) -> !sym.t<[16*s0], f32>
    %b = loop.launch @reverse(%a) sizes [16*s0] : (!sym.t<[16*s0], f32>) -> !sym.t<[16*s0], f32>
    %c = loop.launch @reverse(%b) sizes [16*s0] : (!sym.t<[16*s0], f32>) -> !sym.t<[16*s0], f32>
    %d = loop.launch @reverse(%c) sizes [16*s0] : (!sym.t<[16*s0], f32>) -> !sym.t<[16*s0], f32>
    func.return %d : !sym.t<[16*s0], f32>
  }

  // Sizes are rounded up to 64 bytes; %d does not surely fit where %a was, so that the block is the larger of both.
  // CHECK-LABEL: host.func @largest
  // CHECK: [[ARENA:%\w+]] = host.arena [64*(floordiv(4*s0 + 63, 64)) + max(64*s1, 64*(floordiv(4*s0 + 63, 64)))]
  // CHECK: %a = host.slot [[ARENA]] [0] : !sym.t<[s0], f32>
  // CHECK: %b = host.slot [[ARENA]] [max(64*s1, 64*(floordiv(4*s0 + 63, 64)))] : !sym.t<[s0], f32>
  // CHECK: %d = host.slot [[ARENA]] [0] : !sym.t<[16*s1], f32>
  func.func @largest(%x: !sym.t<[s0], f32>, %y: !sym.t<[16*s1], f32>, %n: !sym.int<s1>) -> (!sym.t<[s0], f32>, !sym.t<[16*s1], f32>) {
    %a = loop.launch @reverse(%x) sizes [s0] : (!sym.t<[s0], f32>) -> !sym.t<[s0], f32>
    %b = loop.launch @reverse(%a) sizes [s0] : (!sym.t<[s0], f32>) -> !sym.t<[s0], f32>
    %d = loop.launch @reverse(%y) sizes [16*s1] : (!sym.t<[16*s1], f32>) -> !sym.t<[16*s1], f32>
    %c = loop.launch @reverse(%b) sizes [s0] : (!sym.t<[s0], f32>) -> !sym.t<[s0], f32>
    %e = loop.launch @reverse(%d) sizes [16*s1] : (!sym.t<[16*s1], f32>) -> !sym.t<[16*s1], f32>
    func.return %c, %e : !sym.t<[s0], f32>, !sym.t<[16*s1], f32>
  }
}
