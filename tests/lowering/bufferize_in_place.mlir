// RUN: lamella-opt %s -p bufferize | filecheck %s
// What is checked: a kernel writes over an input that dies only where each point reads before it writes; a kernel whose result is
// copied into an argument writes there at once.

loop.kernel @twice(%x: !sym.t<[s0], f32>) outs(%y: !sym.t<[s0], f32>) sizes [s0] grid [d0 = s0] {
  %0 = loop.load %x[d0] : !sym.t<[s0], f32>
  %1 = arith.addf %0, %0 : f32
  loop.store %1, %y[d0] : !sym.t<[s0], f32>
  loop.end
}
loop.kernel @add(%x: !sym.t<[s0], f32>, %z: !sym.t<[s0], f32>) outs(%y: !sym.t<[s0], f32>) sizes [s0] grid [d0 = s0] {
  %0 = loop.load %x[d0] : !sym.t<[s0], f32>
  %1 = loop.load %z[s0 - d0 - 1] : !sym.t<[s0], f32>
  %2 = arith.addf %0, %1 : f32
  loop.store %2, %y[d0] : !sym.t<[s0], f32>
  loop.end
}
loop.kernel @points(%g: !sym.t<[8, 4, 1, 1], f32, strides=[4, 1, 4, 4]>, %p: !sym.t<[8, 4, 1, 1], f32>) outs(%y: !sym.t<[8, 4, 1, 1], f32, strides=[4, 1, 4, 4]>) sizes [] grid [d0 = 8, d1 = 4] {
  %0 = loop.load %g[d0, d1, 0, 0] : !sym.t<[8, 4, 1, 1], f32, strides=[4, 1, 4, 4]>
  %1 = loop.load %p[d0, d1, 0, 0] : !sym.t<[8, 4, 1, 1], f32>
  %2 = arith.subf %1, %0 : f32
  loop.store %2, %y[d0, d1, 0, 0] : !sym.t<[8, 4, 1, 1], f32, strides=[4, 1, 4, 4]>
  loop.end
}
loop.kernel @images(%g: !sym.t<[8, 4, 3, 1], f32, strides=[12, 1, 4, 4]>, %p: !sym.t<[8, 4, 3, 1], f32>) outs(%y: !sym.t<[8, 4, 3, 1], f32, strides=[12, 1, 4, 4]>) sizes [] grid [d0 = 8, d1 = 4, d2 = 3] {
  %0 = loop.load %g[d0, d1, d2, 0] : !sym.t<[8, 4, 3, 1], f32, strides=[12, 1, 4, 4]>
  %1 = loop.load %p[d0, d1, d2, 0] : !sym.t<[8, 4, 3, 1], f32>
  %2 = arith.subf %1, %0 : f32
  loop.store %2, %y[d0, d1, d2, 0] : !sym.t<[8, 4, 3, 1], f32, strides=[12, 1, 4, 4]>
  loop.end
}
// A row is read whole before it is written.
loop.kernel @center(%x: !sym.t<[s0, 16], f32>) outs(%y: !sym.t<[s0, 16], f32>) sizes [s0] grid [d0 = s0] {
  %m = loop.for [r0 = 16] reduce [max] {
    %0 = loop.load %x[d0, r0] : !sym.t<[s0, 16], f32>
    loop.yield %0 : f32
  } : f32
  loop.for [d1 = 16] {
    %1 = loop.load %x[d0, d1] : !sym.t<[s0, 16], f32>
    %2 = arith.subf %1, %m : f32
    loop.store %2, %y[d0, d1] : !sym.t<[s0, 16], f32>
    loop.yield
  }
  loop.end
}
// The second loop reads what the first has written over.
loop.kernel @late(%x: !sym.t<[s0, 16], f32>) outs(%y: !sym.t<[s0, 16], f32>, %z: !sym.t<[s0], f32>) sizes [s0] grid [d0 = s0] {
  loop.for [d1 = 16] {
    %1 = loop.load %x[d0, d1] : !sym.t<[s0, 16], f32>
    loop.store %1, %y[d0, d1] : !sym.t<[s0, 16], f32>
    loop.yield
  }
  %m = loop.for [r0 = 16] reduce [max] {
    %0 = loop.load %x[d0, r0] : !sym.t<[s0, 16], f32>
    loop.yield %0 : f32
  } : f32
  loop.store %m, %z[d0] : !sym.t<[s0], f32>
  loop.end
}

// %c takes the place of %b; %d reads %c twice, once at other indices, and takes a new one.
// CHECK-LABEL: host.func @pointwise
// CHECK: %b = host.slot [[ARENA:%\w+]] [0]
// CHECK: %c = host.slot [[ARENA]] [0]
// CHECK: %d = host.slot [[ARENA]] [256]
func.func @pointwise(%x: !sym.t<[64], f32>) -> !sym.t<[64], f32> {
  %b = loop.launch @twice(%x) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %c = loop.launch @twice(%b) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %d = loop.launch @add(%c, %c) sizes [64] : (!sym.t<[64], f32>, !sym.t<[64], f32>) -> !sym.t<[64], f32>
  %e = loop.launch @twice(%d) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  func.return %e : !sym.t<[64], f32>
}

// CHECK-LABEL: host.func @rows
// CHECK: %b = host.slot [[ARENA:%\w+]] [0]
// CHECK: %c = host.slot [[ARENA]] [0]
// CHECK: %d = host.slot [[ARENA]] [256]
func.func @rows(%x: !sym.t<[4, 16], f32>) -> !sym.t<[4], f32> {
  %b = loop.launch @center(%x) sizes [4] : (!sym.t<[4, 16], f32>) -> !sym.t<[4, 16], f32>
  %c = loop.launch @center(%b) sizes [4] : (!sym.t<[4, 16], f32>) -> !sym.t<[4, 16], f32>
  %d, %z = loop.launch @late(%c) sizes [4] : (!sym.t<[4, 16], f32>) -> (!sym.t<[4, 16], f32>, !sym.t<[4], f32>)
  func.return %z : !sym.t<[4], f32>
}

// %c is still needed after the kernel that could have written over it.
// CHECK-LABEL: host.func @alive
// CHECK: %b = host.slot [[ARENA:%\w+]] [0]
// CHECK: %c = host.slot [[ARENA]] [256]
func.func @alive(%x: !sym.t<[64], f32>) -> !sym.t<[64], f32> {
  %b = loop.launch @twice(%x) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %c = loop.launch @twice(%b) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %e = loop.launch @add(%c, %b) sizes [64] : (!sym.t<[64], f32>, !sym.t<[64], f32>) -> !sym.t<[64], f32>
  func.return %e : !sym.t<[64], f32>
}

// CHECK-LABEL: host.func @mutation
// CHECK: host.launch @twice(%x) outs(%state) sizes [64]
// CHECK-NOT: aten.copy_
// CHECK: [[STATE2:%\w+]] = host.view %state2 [0] : !sym.t<[4, 16], f32> -> !sym.t<[64], f32>
// CHECK-NEXT: host.launch @twice(%state) outs([[STATE2]]) sizes [64]
// CHECK-NOT: aten.copy_
func.func @mutation(%x: !sym.t<[64], f32>, %state: !sym.t<[64], f32> {lamella.mutated}, %state2: !sym.t<[4, 16], f32> {lamella.mutated}) {
  %b = loop.launch @twice(%x) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %c = loop.launch @twice(%b) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %cv = loop.view %c offset [0] : !sym.t<[64], f32> -> !sym.t<[4, 16], f32>
  %1 = aten.copy_(%state, %b) : (!sym.t<[64], f32>, !sym.t<[64], f32>) -> !sym.t<[64], f32>
  %2 = aten.copy_(%state2, %cv) : (!sym.t<[4, 16], f32>, !sym.t<[4, 16], f32>) -> !sym.t<[4, 16], f32>
  func.return
}

// Channels last, a window of one point lies as it does contiguous, whatever the strides of its dims of one; a longer one does not.
// CHECK-LABEL: host.func @windows
// CHECK: [[P:%\w+]] = host.view %p [0] : !sym.t<[8, 4, 1, 1], f32> -> !sym.t<[8, 4, 1, 1], f32, strides=[4, 1, 4, 4]>
// CHECK-NEXT: host.launch @points(%g, %p) outs([[P]]) sizes []
// CHECK-NOT: aten.copy_
// CHECK: host.launch @images(%h, %q) outs(%c) sizes []
// CHECK: aten.copy_(%q
func.func @windows(%g: !sym.t<[8, 4, 1, 1], f32, strides=[4, 1, 4, 4]>, %p: !sym.t<[8, 4, 1, 1], f32> {lamella.mutated}, %h: !sym.t<[8, 4, 3, 1], f32, strides=[12, 1, 4, 4]>, %q: !sym.t<[8, 4, 3, 1], f32> {lamella.mutated}) {
  %b = loop.launch @points(%g, %p) sizes [] : (!sym.t<[8, 4, 1, 1], f32, strides=[4, 1, 4, 4]>, !sym.t<[8, 4, 1, 1], f32>) -> !sym.t<[8, 4, 1, 1], f32, strides=[4, 1, 4, 4]>
  %bv = loop.view %b offset [0] : !sym.t<[8, 4, 1, 1], f32, strides=[4, 1, 4, 4]> -> !sym.t<[8, 4, 1, 1], f32>
  %c = loop.launch @images(%h, %q) sizes [] : (!sym.t<[8, 4, 3, 1], f32, strides=[12, 1, 4, 4]>, !sym.t<[8, 4, 3, 1], f32>) -> !sym.t<[8, 4, 3, 1], f32, strides=[12, 1, 4, 4]>
  %1 = aten.copy_(%p, %bv) : (!sym.t<[8, 4, 1, 1], f32>, !sym.t<[8, 4, 1, 1], f32>) -> !sym.t<[8, 4, 1, 1], f32>
  %2 = aten.copy_(%q, %c) : (!sym.t<[8, 4, 3, 1], f32>, !sym.t<[8, 4, 3, 1], f32, strides=[12, 1, 4, 4]>) -> !sym.t<[8, 4, 3, 1], f32>
  func.return
}

// The old value is read later (%old), at other indices by the same kernel (%shifted), or the new one is returned.
// CHECK-LABEL: host.func @no_mutation
// CHECK-COUNT-3: aten.copy_
func.func @no_mutation(%x: !sym.t<[64], f32>, %old: !sym.t<[64], f32>, %shifted: !sym.t<[64], f32>, %given: !sym.t<[64], f32>) -> (!sym.t<[64], f32>, !sym.t<[64], f32>) {
  %b = loop.launch @twice(%x) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %c = loop.launch @twice(%old) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %d = loop.launch @add(%x, %shifted) sizes [64] : (!sym.t<[64], f32>, !sym.t<[64], f32>) -> !sym.t<[64], f32>
  %e = loop.launch @twice(%x) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %1 = aten.copy_(%old, %b) : (!sym.t<[64], f32>, !sym.t<[64], f32>) -> !sym.t<[64], f32>
  %2 = aten.copy_(%shifted, %d) : (!sym.t<[64], f32>, !sym.t<[64], f32>) -> !sym.t<[64], f32>
  %3 = aten.copy_(%given, %e) : (!sym.t<[64], f32>, !sym.t<[64], f32>) -> !sym.t<[64], f32>
  func.return %c, %e : !sym.t<[64], f32>, !sym.t<[64], f32>
}

// A scatter into an argument that it is copied to: nothing else of the argument is moved.
// CHECK-LABEL: loop.kernel @update_in_place_0_0
// CHECK-NEXT: %{{\w+}} = loop.load %i[0]
// CHECK-NOT: loop.load %x
// CHECK: loop.end
// CHECK-LABEL: host.func @cache
// CHECK-NOT: host.arena
// CHECK: host.launch @update_in_place_0_0(%x, %i, %k) outs(%x)
// CHECK-NOT: aten.copy_
loop.kernel @update(%x: !sym.t<[s0, 16], f32>, %i: !sym.t<[1], i64>, %k: !sym.t<[16], f32>) outs(%y: !sym.t<[s0, 16], f32>) sizes [s0] grid [] {
  loop.for [d0 = s0, d1 = 16] {
    %0 = loop.load %x[d0, d1] : !sym.t<[s0, 16], f32>
    loop.store %0, %y[d0, d1] : !sym.t<[s0, 16], f32>
    loop.yield
  }
  %1 = loop.load %i[0] : !sym.t<[1], i64>
  loop.for [d1 = 16] {
    %2 = loop.load %k[d1] : !sym.t<[16], f32>
    loop.store %2, %y[v0, d1](%1) : !sym.t<[s0, 16], f32>
    loop.yield
  }
  loop.end
}
func.func @cache(%x: !sym.t<[s0, 16], f32>, %i: !sym.t<[1], i64>, %k: !sym.t<[16], f32>) {
  %y = loop.launch @update(%x, %i, %k) sizes [s0] : (!sym.t<[s0, 16], f32>, !sym.t<[1], i64>, !sym.t<[16], f32>) -> !sym.t<[s0, 16], f32>
  %1 = aten.copy_(%x, %y) : (!sym.t<[s0, 16], f32>, !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 16], f32>
  func.return
}

// Rows in turn: a row is read in one loop and written in the next, and no other row is. Where the next row's elements
// are read too, it is not written over.
// CHECK-LABEL: host.func @turns
// CHECK: %b = host.slot %0 [0]
// CHECK-NEXT: host.launch @in_turn(%v) outs(%b)
// CHECK-NEXT: %c = host.slot %0 [512]
// CHECK-NEXT: host.launch @in_turn_next(%b) outs(%c)
loop.kernel @in_turn(%x: !sym.t<[8, 16], f32>) outs(%y: !sym.t<[8, 16], f32>) sizes [] grid [d0 = 2] {
  loop.for [d1 = 4*d0 : 4*d0 + 4] {
    %s = loop.for [d2 = 16] reduce [add] {
      %0 = loop.load %x[d1, d2] : !sym.t<[8, 16], f32>
      loop.yield %0 : f32
    } : f32
    loop.for [d2 = 16] {
      loop.store %s, %y[d1, d2] : !sym.t<[8, 16], f32>
      loop.yield
    }
    loop.yield
  }
  loop.end
}
loop.kernel @in_turn_next(%x: !sym.t<[8, 16], f32>) outs(%y: !sym.t<[8, 16], f32>) sizes [] grid [d0 = 2] {
  loop.for [d1 = 4*d0 : 4*d0 + 4] {
    %s = loop.for [d2 = 16] reduce [add] {
      %0 = loop.load %x[mod(d1 + 7, 8), d2] : !sym.t<[8, 16], f32>
      loop.yield %0 : f32
    } : f32
    loop.for [d2 = 16] {
      loop.store %s, %y[d1, d2] : !sym.t<[8, 16], f32>
      loop.yield
    }
    loop.yield
  }
  loop.end
}
func.func @turns(%x: !sym.t<[128], f32>) -> !sym.t<[8, 16], f32> {
  %a = loop.launch @twice(%x) sizes [128] : (!sym.t<[128], f32>) -> !sym.t<[128], f32>
  %v = loop.view %a offset [0] : !sym.t<[128], f32> -> !sym.t<[8, 16], f32>
  %b = loop.launch @in_turn(%v) sizes [] : (!sym.t<[8, 16], f32>) -> !sym.t<[8, 16], f32>
  %c = loop.launch @in_turn_next(%b) sizes [] : (!sym.t<[8, 16], f32>) -> !sym.t<[8, 16], f32>
  %d = loop.launch @in_turn(%c) sizes [] : (!sym.t<[8, 16], f32>) -> !sym.t<[8, 16], f32>
  func.return %d : !sym.t<[8, 16], f32>
}
