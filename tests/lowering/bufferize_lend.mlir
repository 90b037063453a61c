// RUN: lamella-opt %s -p bufferize | filecheck %s
// RUN: lamella-opt %s -p bufferize | lamella-opt - | filecheck %s
// What is checked: buffers lie in results that are written later, where that lowers the peak.

loop.kernel @twice(%x: !sym.t<[s0], f32>) outs(%y: !sym.t<[s0], f32>) sizes [s0] grid [d0 = s0] {
  %0 = loop.load %x[d0] : !sym.t<[s0], f32>
  %1 = arith.addf %0, %0 : f32
  loop.store %1, %y[d0] : !sym.t<[s0], f32>
  loop.end
}
loop.kernel @reverse(%x: !sym.t<[s0], f32>) outs(%y: !sym.t<[s0], f32>) sizes [s0] grid [d0 = s0] {
  %0 = loop.load %x[s0 - d0 - 1] : !sym.t<[s0], f32>
  loop.store %0, %y[d0] : !sym.t<[s0], f32>
  loop.end
}

// %c is written over %b, which lies in its tensor; %a dies before that, but %b is alive with it.
// CHECK-LABEL: host.func @over
// CHECK: [[ARENA:%\w+]] = host.arena [131072]
// CHECK: %a = host.slot [[ARENA]] [0] : !sym.t<[32768], f32>
// CHECK: %c = host.empty : !sym.t<[32768], f32>
// CHECK-NEXT: [[LENT:%\w+]] = host.lend %c : !sym.t<[32768], f32>
// CHECK-NEXT: %b = host.slot [[LENT]] [0] : !sym.t<[32768], f32>
// CHECK-NEXT: host.launch @reverse(%a) outs(%b)
// CHECK: host.launch @twice(%b) outs(%c)
// CHECK-NEXT: host.return %c
func.func @over(%x: !sym.t<[32768], f32>) -> !sym.t<[32768], f32> {
  %a = loop.launch @twice(%x) sizes [32768] : (!sym.t<[32768], f32>) -> !sym.t<[32768], f32>
  %b = loop.launch @reverse(%a) sizes [32768] : (!sym.t<[32768], f32>) -> !sym.t<[32768], f32>
  %c = loop.launch @twice(%b) sizes [32768] : (!sym.t<[32768], f32>) -> !sym.t<[32768], f32>
  func.return %c : !sym.t<[32768], f32>
}

// %b is read where %c is written, and not at the same places: only %a lies in %c. (%x is alive
// anyway: if it went with %a, no more would be alive in the end than in the beginning.)
// CHECK-LABEL: host.func @before
// CHECK: [[ARENA:%\w+]] = host.arena [131072]
// CHECK: %c = host.empty : !sym.t<[32768], f32>
// CHECK-NEXT: [[LENT:%\w+]] = host.lend %c : !sym.t<[32768], f32>
// CHECK-NEXT: %a = host.slot [[LENT]] [0] : !sym.t<[32768], f32>
// CHECK: %b = host.slot [[ARENA]] [0] : !sym.t<[32768], f32>
// CHECK: host.launch @reverse(%b) outs(%c)
func.func @before(%x: !sym.t<[32768], f32>) -> (!sym.t<[32768], f32>, !sym.t<[32768], f32>) {
  %a = loop.launch @twice(%x) sizes [32768] : (!sym.t<[32768], f32>) -> !sym.t<[32768], f32>
  %b = loop.launch @reverse(%a) sizes [32768] : (!sym.t<[32768], f32>) -> !sym.t<[32768], f32>
  %c = loop.launch @reverse(%b) sizes [32768] : (!sym.t<[32768], f32>) -> !sym.t<[32768], f32>
  func.return %c, %x : !sym.t<[32768], f32>, !sym.t<[32768], f32>
}

// A result as small as that lends nothing.
// CHECK-LABEL: host.func @small
// CHECK-NOT: host.lend
// CHECK: host.return
func.func @small(%x: !sym.t<[64], f32>) -> !sym.t<[64], f32> {
  %a = loop.launch @twice(%x) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %b = loop.launch @reverse(%a) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %c = loop.launch @reverse(%b) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  func.return %c : !sym.t<[64], f32>
}

loop.kernel @widen(%x: !sym.t<[s0], f32>) outs(%y: !sym.t<[4*s0], f32>) sizes [s0] grid [d0 = 4*s0] {
  %0 = loop.load %x[mod(d0, s0)] : !sym.t<[s0], f32>
  loop.store %0, %y[d0] : !sym.t<[4*s0], f32>
  loop.end
}

// Buffers that are alive at once lie at different places of the result: %b is made of %a, not in its place.
// CHECK-LABEL: host.func @side_by_side
// CHECK: [[LENT:%\w+]] = host.lend %c : !sym.t<[131072], f32>
// CHECK-NEXT: %a = host.slot [[LENT]] [0] : !sym.t<[32768], f32>
// CHECK: %b = host.slot [[LENT]] [131072] : !sym.t<[32768], f32>
// CHECK: %d = host.slot [[ARENA:%\w+]] [0] : !sym.t<[32768], f32>
// CHECK: host.launch @widen(%d) outs(%c)
func.func @side_by_side(%x: !sym.t<[32768], f32>) -> (!sym.t<[131072], f32>, !sym.t<[32768], f32>) {
  %a = loop.launch @twice(%x) sizes [32768] : (!sym.t<[32768], f32>) -> !sym.t<[32768], f32>
  %b = loop.launch @reverse(%a) sizes [32768] : (!sym.t<[32768], f32>) -> !sym.t<[32768], f32>
  %d = loop.launch @reverse(%b) sizes [32768] : (!sym.t<[32768], f32>) -> !sym.t<[32768], f32>
  %c = loop.launch @widen(%d) sizes [32768] : (!sym.t<[32768], f32>) -> !sym.t<[131072], f32>
  func.return %c, %x : !sym.t<[131072], f32>, !sym.t<[32768], f32>
}

loop.kernel @widen_gpu(%x: !sym.t<[32768], f32, device=cuda:0>) outs(%y: !sym.t<[131072], f32, device=cuda:0>) sizes [] grid [d0 = 131072] {
  %0 = loop.load %x[mod(d0, 32768)] : !sym.t<[32768], f32, device=cuda:0>
  loop.store %0, %y[d0] : !sym.t<[131072], f32, device=cuda:0>
  loop.end
}
loop.kernel @reverse_gpu(%x: !sym.t<[32768], f32, device=cuda:0>) outs(%y: !sym.t<[32768], f32, device=cuda:0>) sizes [] grid [d0 = 32768] {
  %0 = loop.load %x[32767 - d0] : !sym.t<[32768], f32, device=cuda:0>
  loop.store %0, %y[d0] : !sym.t<[32768], f32, device=cuda:0>
  loop.end
}

// The same on a GPU, whose arena is a tensor too.
// CHECK-LABEL: host.func @on_a_gpu
// CHECK: [[ARENA:%\w+]] = host.arena [131072] "cuda:0"
// CHECK: %c = host.empty : !sym.t<[131072], f32, device=cuda:0>
// CHECK-NEXT: [[LENT:%\w+]] = host.lend %c : !sym.t<[131072], f32, device=cuda:0>
// CHECK-NEXT: %a = host.slot [[LENT]] [0] : !sym.t<[32768], f32, device=cuda:0>
// CHECK: %b = host.slot [[ARENA]] [0] : !sym.t<[32768], f32, device=cuda:0>
// CHECK: host.launch @widen_gpu(%b) outs(%c)
func.func @on_a_gpu(%x: !sym.t<[32768], f32, device=cuda:0>) -> !sym.t<[131072], f32, device=cuda:0> {
  %a = loop.launch @reverse_gpu(%x) sizes [] : (!sym.t<[32768], f32, device=cuda:0>) -> !sym.t<[32768], f32, device=cuda:0>
  %b = loop.launch @reverse_gpu(%a) sizes [] : (!sym.t<[32768], f32, device=cuda:0>) -> !sym.t<[32768], f32, device=cuda:0>
  %c = loop.launch @widen_gpu(%b) sizes [] : (!sym.t<[32768], f32, device=cuda:0>) -> !sym.t<[131072], f32, device=cuda:0>
  func.return %c : !sym.t<[131072], f32, device=cuda:0>
}

loop.kernel @first(%x: !sym.t<[8*s0], f32>) outs(%y: !sym.t<[s0], f32>) sizes [s0] grid [d0 = s0] {
  %0 = loop.load %x[d0] : !sym.t<[8*s0], f32>
  loop.store %0, %y[d0] : !sym.t<[s0], f32>
  loop.end
}

// What is written over an argument is there once: counted twice, %w would be the peak, and %b would not lie in %c.
// CHECK-LABEL: host.func @written
// CHECK-NOT: host.arena
// CHECK: [[LENT:%\w+]] = host.lend %c : !sym.t<[32768], f32>
// CHECK-NEXT: %b = host.slot [[LENT]] [0] : !sym.t<[32768], f32>
// CHECK-NOT: host.arena
// CHECK: host.return
func.func @written(%w: !sym.t<[262144], f32> {lamella.donated}, %x: !sym.t<[32768], f32>) -> (!sym.t<[32768], f32>, !sym.t<[32768], f32>, !sym.t<[131072], f32>, !sym.t<[32768], f32>) {
  %r = loop.launch @twice(%w) sizes [262144] : (!sym.t<[262144], f32>) -> !sym.t<[262144], f32>
  %a = loop.launch @twice(%x) sizes [32768] : (!sym.t<[32768], f32>) -> !sym.t<[32768], f32>
  %b = loop.launch @reverse(%a) sizes [32768] : (!sym.t<[32768], f32>) -> !sym.t<[32768], f32>
  %e = loop.launch @first(%r) sizes [32768] : (!sym.t<[262144], f32>) -> !sym.t<[32768], f32>
  %c = loop.launch @twice(%b) sizes [32768] : (!sym.t<[32768], f32>) -> !sym.t<[32768], f32>
  %f = loop.launch @widen(%c) sizes [32768] : (!sym.t<[32768], f32>) -> !sym.t<[131072], f32>
  func.return %c, %e, %f, %x : !sym.t<[32768], f32>, !sym.t<[32768], f32>, !sym.t<[131072], f32>, !sym.t<[32768], f32>
}
