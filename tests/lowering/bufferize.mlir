// RUN: lamella-opt %s -p bufferize | filecheck %s
// RUN: lamella-opt %s -p bufferize | lamella-opt - | filecheck %s
// What is checked: outputs are tensors, intermediates lie in the arena, `.out` overloads write there, aliases stay aliases.

loop.kernel @twice(%x: !sym.t<[s0], f32>) outs(%y: !sym.t<[s0], f32>) sizes [s0] grid [d0 = s0] {
  %0 = loop.load %x[d0] : !sym.t<[s0], f32>
  %1 = arith.addf %0, %0 : f32
  loop.store %1, %y[d0] : !sym.t<[s0], f32>
  loop.end
}
// Reads what other points write, so that it may not work in place.
loop.kernel @reverse(%x: !sym.t<[s0], f32>) outs(%y: !sym.t<[s0], f32>) sizes [s0] grid [d0 = s0] {
  %0 = loop.load %x[s0 - d0 - 1] : !sym.t<[s0], f32>
  loop.store %0, %y[d0] : !sym.t<[s0], f32>
  loop.end
}

// The first reverse cannot write over its input, the second buffer is free again for the mm.
// CHECK-LABEL: host.func @main(%x: !sym.t<[4, 16], f32> {lamella.name = "the input"}, %w: !sym.t<[16, 16], f32>)
// CHECK-NEXT: host.check %x "the input" : !sym.t<[4, 16], f32>
// CHECK-NEXT: host.check %w "w" : !sym.t<[16, 16], f32>
// CHECK-NEXT: [[ARENA:%\w+]] = host.arena [512]
// CHECK-NEXT: %a = host.view %x [0] : !sym.t<[4, 16], f32> -> !sym.t<[64], f32>
// CHECK-NEXT: %b = host.slot [[ARENA]] [0] : !sym.t<[64], f32>
// CHECK-NEXT: host.launch @twice(%a) outs(%b) sizes [64] : !sym.t<[64], f32>, !sym.t<[64], f32>
// CHECK-NEXT: host.drop %x : !sym.t<[4, 16], f32>
// CHECK-NEXT: %c = host.slot [[ARENA]] [256] : !sym.t<[64], f32>
// CHECK-NEXT: host.launch @reverse(%b) outs(%c) sizes [64] : !sym.t<[64], f32>, !sym.t<[64], f32>
// CHECK-NEXT: %d = host.view %c [0] : !sym.t<[64], f32> -> !sym.t<[4, 16], f32>
// CHECK-NEXT: %e = host.slot [[ARENA]] [0] : !sym.t<[4, 16], f32>
// CHECK-NEXT: aten.mm.out(%d, %w, out = %e) :
// CHECK-NEXT: host.drop %w : !sym.t<[16, 16], f32>
// CHECK-NEXT: %f = host.view %e [0] : !sym.t<[4, 16], f32> -> !sym.t<[64], f32>
// CHECK-NEXT: %g = host.empty : !sym.t<[64], f32>
// CHECK-NEXT: host.launch @twice(%f) outs(%g) sizes [64] : !sym.t<[64], f32>, !sym.t<[64], f32>
// CHECK-NEXT: %h = host.view %g [8] : !sym.t<[64], f32> -> !sym.t<[4, 4], f32>
// CHECK-NEXT: host.return %g, %h : !sym.t<[64], f32>, !sym.t<[4, 4], f32>
func.func @main(%x: !sym.t<[4, 16], f32> {lamella.name = "the input"}, %w: !sym.t<[16, 16], f32>) -> (!sym.t<[64], f32>, !sym.t<[4, 4], f32>) {
  %a = loop.view %x offset [0] : !sym.t<[4, 16], f32> -> !sym.t<[64], f32>
  %b = loop.launch @twice(%a) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %c = loop.launch @reverse(%b) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %d = loop.view %c offset [0] : !sym.t<[64], f32> -> !sym.t<[4, 16], f32>
  %e = aten.mm(%d, %w) : (!sym.t<[4, 16], f32>, !sym.t<[16, 16], f32>) -> !sym.t<[4, 16], f32>
  %f = loop.view %e offset [0] : !sym.t<[4, 16], f32> -> !sym.t<[64], f32>
  %g = loop.launch @twice(%f) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %h = loop.view %g offset [8] : !sym.t<[64], f32> -> !sym.t<[4, 4], f32>
  func.return %g, %h : !sym.t<[64], f32>, !sym.t<[4, 4], f32>
}

// An alias keeps the memory it lies in: %b lives until %r is read, and is no longer free for %c. What a call
// made is dropped with its aliases.
// CHECK-LABEL: host.func @aliases
// CHECK: [[ARENA:%\w+]] = host.arena [512]
// CHECK: %b = host.slot [[ARENA]] [0]
// CHECK: %r = aten.view(%b, [4, 16])
// CHECK: %c = host.slot [[ARENA]] [256]
// CHECK: %s = aten.relu(%r)
// CHECK-NEXT: %t = aten.view(%s, [64])
// CHECK: host.launch @reverse(%t)
// CHECK-NEXT: host.drop %s, %t :
func.func @aliases(%x: !sym.t<[64], f32>) -> !sym.t<[64], f32> {
  %b = loop.launch @twice(%x) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %r = aten.view(%b, [4, 16]) : (!sym.t<[64], f32>) -> !sym.t<[4, 16], f32>
  %c = loop.launch @twice(%x) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %s = aten.relu(%r) : (!sym.t<[4, 16], f32>) -> !sym.t<[4, 16], f32>
  %t = aten.view(%s, [64]) : (!sym.t<[4, 16], f32>) -> !sym.t<[64], f32>
  %u = loop.launch @reverse(%t) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %v = aten.add.Tensor(%u, %c) : (!sym.t<[64], f32>, !sym.t<[64], f32>) -> !sym.t<[64], f32>
  func.return %v : !sym.t<[64], f32>
}

// An operator that is not torch's own may keep what it is given, and dropout may hand its input back.
// CHECK-LABEL: host.func @kept
// CHECK-NOT: host.slot
// CHECK: %b = host.empty
// CHECK: %d = host.empty
func.func @kept(%x: !sym.t<[64], f32>) -> !sym.t<[64], f32> {
  %b = loop.launch @twice(%x) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %c = torch_prims.clone(%b) : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %d = loop.launch @twice(%c) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %e = aten.dropout(%d, 0.5, false) : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  func.return %e : !sym.t<[64], f32>
}

// Offsets of these are counted from where a storage begins: what they read is no part of an arena, nor written into an argument.
// CHECK-LABEL: host.func @of_storage
// CHECK-NOT: host.slot
// CHECK: %b = host.empty
// CHECK: %c = aten.as_strided(%b
// CHECK: %d = host.empty
// CHECK: aten.copy_(%x, %d)
func.func @of_storage(%x: !sym.t<[64], f32> {lamella.mutated}) -> (!sym.t<[4], f32>, !sym.t<[64], f32>) {
  %b = loop.launch @twice(%x) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %c = aten.as_strided(%b, [4], [2], 1) : (!sym.t<[64], f32>) -> !sym.t<[4], f32, strides=[2]>
  %e = aten.relu(%c) : (!sym.t<[4], f32, strides=[2]>) -> !sym.t<[4], f32>
  %d = loop.launch @twice(%x) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %f = aten.as_strided_scatter(%d, %e, [4], [2], 1) : (!sym.t<[64], f32>, !sym.t<[4], f32>) -> !sym.t<[64], f32>
  %g = aten.copy_(%x, %d) : (!sym.t<[64], f32>, !sym.t<[64], f32>) -> !sym.t<[64], f32>
  func.return %e, %f : !sym.t<[4], f32>, !sym.t<[64], f32>
}

// Sizes that come out of a call are not known when the arena is made.
// CHECK-LABEL: host.func @unbacked
// CHECK-NOT: host.arena
// CHECK: %b = host.empty : !sym.t<[u0], f32>
func.func @unbacked(%x: !sym.t<[64], f32>) -> !sym.t<[u0], f32> {
  %i = aten.masked_select(%x, %x) : (!sym.t<[64], f32>, !sym.t<[64], f32>) -> !sym.t<[u0], f32>
  %b = loop.launch @twice(%i) sizes [u0] : (!sym.t<[u0], f32>) -> !sym.t<[u0], f32>
  %c = aten.add.Tensor(%b, %i) : (!sym.t<[u0], f32>, !sym.t<[u0], f32>) -> !sym.t<[u0], f32>
  func.return %c : !sym.t<[u0], f32>
}
