// RUN: lamella-opt %s | filecheck %s
// RUN: lamella-opt %s --print-locations | lamella-opt - | filecheck %s
// What is checked: the text of every host op reads back and prints the same.

loop.kernel @exp(%x: !sym.t<[s0, 16], f32>) outs(%y: !sym.t<[s0, 16], f32>) sizes [s0] grid [d0 = s0] {
  loop.end
}
loop.kernel @neg(%x: !sym.t<[s0, 16], f32>) outs(%y: !sym.t<[s0, 16], f32>) sizes [s0] grid [d0 = s0] {
  loop.end
}

// CHECK: host.func @main(%x: !sym.t<[s0, 16], f32> {lamella.name = "x"}, %n: !sym.int<s0>) -> (!sym.t<[s0, 16], f32>, !sym.t<[16], f32>, !sym.int<2*s0>) {
// CHECK-NEXT: host.check %x "x" : !sym.t<[s0, 16], f32>
// CHECK-NEXT: %a = host.arena [64*s0 + 64]
// CHECK-NEXT: %t = host.slot %a [64] : !sym.t<[s0, 16], f32>
// CHECK-NEXT: host.launch @exp(%x) outs(%t) sizes [s0] : !sym.t<[s0, 16], f32>, !sym.t<[s0, 16], f32>
// CHECK-NEXT: host.drop %x : !sym.t<[s0, 16], f32>
// CHECK-NEXT: %y = host.empty : !sym.t<[s0, 16], f32>
// CHECK-NEXT: host.launch @neg(%t) outs(%y) sizes [s0] : !sym.t<[s0, 16], f32>, !sym.t<[s0, 16], f32>
// CHECK-NEXT: %v = host.view %y [16] : !sym.t<[s0, 16], f32> -> !sym.t<[16], f32>
// CHECK-NEXT: host.drop %a : !host.arena
// CHECK-NEXT: %z = host.size : !sym.int<2*s0>
// CHECK-NEXT: host.return %y, %v, %z : !sym.t<[s0, 16], f32>, !sym.t<[16], f32>, !sym.int<2*s0>
host.func @main(%x: !sym.t<[s0, 16], f32> {lamella.name = "x"}, %n: !sym.int<s0>) -> (!sym.t<[s0, 16], f32>, !sym.t<[16], f32>, !sym.int<2*s0>) {
  host.check %x "x" : !sym.t<[s0, 16], f32>
  %a = host.arena [64*s0 + 64]
  %t = host.slot %a [64] : !sym.t<[s0, 16], f32>
  host.launch @exp(%x) outs(%t) sizes [s0] : !sym.t<[s0, 16], f32>, !sym.t<[s0, 16], f32>
  host.drop %x : !sym.t<[s0, 16], f32>
  %y = host.empty : !sym.t<[s0, 16], f32>
  host.launch @neg(%t) outs(%y) sizes [s0] : !sym.t<[s0, 16], f32>, !sym.t<[s0, 16], f32>
  %v = host.view %y [16] : !sym.t<[s0, 16], f32> -> !sym.t<[16], f32>
  host.drop %a : !host.arena
  %z = host.size : !sym.int<2*s0>
  host.return %y, %v, %z : !sym.t<[s0, 16], f32>, !sym.t<[16], f32>, !sym.int<2*s0>
}

// CHECK: host.func @together(%x: !sym.t<[s0, 16], f32>, %y: !sym.t<[4, 16], f32>) {
// CHECK: host.together {
// CHECK-NEXT: host.launch @exp(%x) outs(%a) sizes [s0] : !sym.t<[s0, 16], f32>, !sym.t<[s0, 16], f32>
// CHECK-NEXT: host.launch @neg(%y) outs(%y) sizes [4] : !sym.t<[4, 16], f32>, !sym.t<[4, 16], f32>
// CHECK-NEXT: }
// CHECK-NEXT: host.return
host.func @together(%x: !sym.t<[s0, 16], f32>, %y: !sym.t<[4, 16], f32>) {
  %a = host.empty : !sym.t<[s0, 16], f32>
  host.together {
    host.launch @exp(%x) outs(%a) sizes [s0] : !sym.t<[s0, 16], f32>, !sym.t<[s0, 16], f32>
    host.launch @neg(%y) outs(%y) sizes [4] : !sym.t<[4, 16], f32>, !sym.t<[4, 16], f32>
  }
  host.return
}
