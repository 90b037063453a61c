// RUN: lamella-opt %s -p launch-together{keep=16384} | filecheck %s
// RUN: lamella-opt %s -p launch-together{keep=16384},bufferize | filecheck %s --check-prefix HOST
// What is checked: launches that need nothing of each other stand together, the others apart; views, calls and writes that they
// may pass; what of memory that takes.

loop.kernel @exp(%x: !sym.t<[s0], f32>) outs(%y: !sym.t<[s0], f32>) sizes [s0] grid [d0 = s0] {
  %0 = loop.load %x[d0] : !sym.t<[s0], f32>
  %1 = math.exp %0 : f32
  loop.store %1, %y[d0] : !sym.t<[s0], f32>
  loop.end
}
loop.kernel @add(%x: !sym.t<[s0], f32>, %z: !sym.t<[s0], f32>) outs(%y: !sym.t<[s0], f32>) sizes [s0] grid [d0 = s0] {
  %0 = loop.load %x[d0] : !sym.t<[s0], f32>
  %1 = loop.load %z[d0] : !sym.t<[s0], f32>
  %2 = arith.addf %0, %1 : f32
  loop.store %2, %y[d0] : !sym.t<[s0], f32>
  loop.end
}
loop.kernel @checked(%x: !sym.t<[s0], f32>) outs(%y: !sym.t<[s0], f32>) sizes [s0] grid [d0 = s0] {
  %0 = loop.load %x[d0] : !sym.t<[s0], f32>
  %1 = arith.cmpf oeq, %0, %0 : f32
  loop.assert %1, "not a number"
  loop.store %0, %y[d0] : !sym.t<[s0], f32>
  loop.end
}

// Two chains become two groups, in which no buffer takes the place of one that another launch may still read.
// CHECK-LABEL: func.func @chains
// CHECK: %a = loop.launch @exp(%x) sizes [64] attributes {together = [[N:\d+]] : i64}
// CHECK-NEXT: %c = loop.launch @exp(%y) sizes [64] attributes {together = [[N]] : i64}
// CHECK-NEXT: %b = loop.launch @exp(%a) sizes [64] attributes {together = [[M:\d+]] : i64}
// CHECK-NEXT: %d = loop.launch @add(%c, %y) sizes [64] attributes {together = [[M]] : i64}
// CHECK-NEXT: func.return %b, %d
// HOST-LABEL: host.func @chains
// HOST: %a = host.slot [[ARENA:%\w+]] [0]
// HOST-NEXT: %c = host.slot [[ARENA]] [256]
// HOST-NEXT: host.together {
// HOST-NEXT: host.launch @exp(%x) outs(%a)
// HOST-NEXT: host.launch @exp(%y) outs(%c)
// HOST-NEXT: }
// HOST-NEXT: host.drop %x
// HOST: host.together {
// HOST-NEXT: host.launch @exp(%a) outs(%b)
// HOST-NEXT: host.launch @add(%c, %y) outs(%d)
// HOST-NEXT: }
func.func @chains(%x: !sym.t<[64], f32>, %y: !sym.t<[64], f32>) -> (!sym.t<[64], f32>, !sym.t<[64], f32>) {
  %a = loop.launch @exp(%x) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %b = loop.launch @exp(%a) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %c = loop.launch @exp(%y) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %d = loop.launch @add(%c, %y) sizes [64] : (!sym.t<[64], f32>, !sym.t<[64], f32>) -> !sym.t<[64], f32>
  func.return %b, %d : !sym.t<[64], f32>, !sym.t<[64], f32>
}

// A launch may write over its own operand, not over what another one of the group reads.
// HOST-LABEL: host.func @in_place
// HOST: %c = host.slot [[ARENA:%\w+]] [0]
// HOST-NEXT: %d = host.slot [[ARENA]] [512]
// HOST-NEXT: %e = host.slot [[ARENA]] [768]
// HOST-NEXT: host.together {
// HOST-NEXT: host.launch @exp(%a) outs(%c)
// HOST-NEXT: host.launch @exp(%b) outs(%d)
// HOST-NEXT: host.launch @add(%b, %b) outs(%e)
func.func @in_place(%x: !sym.t<[64], f32>) -> (!sym.t<[64], f32>, !sym.t<[64], f32>) {
  %a = loop.launch @exp(%x) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %b = loop.launch @add(%x, %x) sizes [64] : (!sym.t<[64], f32>, !sym.t<[64], f32>) -> !sym.t<[64], f32>
  %c = loop.launch @exp(%a) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %d = loop.launch @exp(%b) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %e = loop.launch @add(%b, %b) sizes [64] : (!sym.t<[64], f32>, !sym.t<[64], f32>) -> !sym.t<[64], f32>
  %f = loop.launch @add(%c, %d) sizes [64] : (!sym.t<[64], f32>, !sym.t<[64], f32>) -> !sym.t<[64], f32>
  %g = loop.launch @add(%e, %e) sizes [64] : (!sym.t<[64], f32>, !sym.t<[64], f32>) -> !sym.t<[64], f32>
  func.return %f, %g : !sym.t<[64], f32>, !sym.t<[64], f32>
}

// Updates of arguments: one group, however large they are. A later launch that reads an argument keeps its old value.
// CHECK-LABEL: func.func @updates
// CHECK: loop.launch @add(%p, %g) sizes [4096] attributes {together = [[N:\d+]] : i64}
// CHECK-NEXT: loop.launch @add(%q, %h) sizes [8192] attributes {together = [[N]] : i64}
// CHECK-NEXT: aten.copy_
// HOST-LABEL: host.func @updates
// HOST: host.together {
// HOST-NEXT: host.launch @add(%p, %g) outs(%p)
// HOST-NEXT: host.launch @add(%q, %h) outs(%q)
// HOST-NEXT: }
func.func @updates(%p: !sym.t<[4096], f32>, %g: !sym.t<[4096], f32>, %q: !sym.t<[8192], f32>, %h: !sym.t<[8192], f32>) {
  %a = loop.launch @add(%p, %g) sizes [4096] : (!sym.t<[4096], f32>, !sym.t<[4096], f32>) -> !sym.t<[4096], f32>
  %b = aten.copy_(%p, %a) : (!sym.t<[4096], f32>, !sym.t<[4096], f32>) -> !sym.t<[4096], f32>
  %c = loop.launch @add(%q, %h) sizes [8192] : (!sym.t<[8192], f32>, !sym.t<[8192], f32>) -> !sym.t<[8192], f32>
  %d = aten.copy_(%q, %c) : (!sym.t<[8192], f32>, !sym.t<[8192], f32>) -> !sym.t<[8192], f32>
  func.return
}

// The second launch reads what the first one's result is copied over: that is not written in place.
// HOST-LABEL: host.func @old_value
// HOST: %a = host.slot
// HOST: host.together {
// HOST-NEXT: host.launch @exp(%p) outs(%a)
// HOST-NEXT: host.launch @add(%p, %g) outs(%g)
// HOST-NEXT: }
// HOST: aten.copy_(%p, %a)
func.func @old_value(%p: !sym.t<[64], f32>, %g: !sym.t<[64], f32>) {
  %a = loop.launch @exp(%p) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %b = loop.launch @add(%p, %g) sizes [64] : (!sym.t<[64], f32>, !sym.t<[64], f32>) -> !sym.t<[64], f32>
  %c = aten.copy_(%p, %a) : (!sym.t<[64], f32>, !sym.t<[64], f32>) -> !sym.t<[64], f32>
  %d = aten.copy_(%g, %b) : (!sym.t<[64], f32>, !sym.t<[64], f32>) -> !sym.t<[64], f32>
  func.return
}

// A launch does not pass the write of what it reads.
// CHECK-LABEL: func.func @after_write
// CHECK: loop.launch @exp(%x) sizes [64] :
// CHECK: aten.copy_
// CHECK: loop.launch @exp(%p) sizes [64] :
func.func @after_write(%x: !sym.t<[64], f32>, %p: !sym.t<[64], f32>) -> !sym.t<[64], f32> {
  %a = loop.launch @exp(%x) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %b = aten.copy_(%p, %a) : (!sym.t<[64], f32>, !sym.t<[64], f32>) -> !sym.t<[64], f32>
  %c = loop.launch @exp(%p) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  func.return %c : !sym.t<[64], f32>
}

// Past calls, while the results that are there longer are few bytes: %c, not %d too. Views go along.
// CHECK-LABEL: func.func @calls
// CHECK: %v = loop.view %y
// CHECK-NEXT: %a = loop.launch @exp(%x) sizes [128] attributes {together = [[N:\d+]] : i64}
// CHECK-NEXT: %c = loop.launch @exp(%v) sizes [128] attributes {together = [[N]] : i64}
// CHECK-NEXT: %b = aten.relu(%a)
// CHECK-NEXT: %d = loop.launch @exp(%z) sizes [256] :
func.func @calls(%x: !sym.t<[128], f32>, %y: !sym.t<[2, 64], f32>, %z: !sym.t<[256], f32>) -> (!sym.t<[128], f32>, !sym.t<[128], f32>, !sym.t<[256], f32>) {
  %a = loop.launch @exp(%x) sizes [128] : (!sym.t<[128], f32>) -> !sym.t<[128], f32>
  %b = aten.relu(%a) : (!sym.t<[128], f32>) -> !sym.t<[128], f32>
  %v = loop.view %y offset [0] : !sym.t<[2, 64], f32> -> !sym.t<[128], f32>
  %c = loop.launch @exp(%v) sizes [128] : (!sym.t<[128], f32>) -> !sym.t<[128], f32>
  %d = loop.launch @exp(%z) sizes [256] : (!sym.t<[256], f32>) -> !sym.t<[256], f32>
  func.return %b, %c, %d : !sym.t<[128], f32>, !sym.t<[128], f32>, !sym.t<[256], f32>
}

// What a kernel finds wrong is told by a launch of its own.
// CHECK-LABEL: func.func @asserts
// CHECK: loop.launch @checked(%x) sizes [64] :
// CHECK-NEXT: loop.launch @checked(%y) sizes [64] :
func.func @asserts(%x: !sym.t<[64], f32>, %y: !sym.t<[64], f32>) -> (!sym.t<[64], f32>, !sym.t<[64], f32>) {
  %a = loop.launch @checked(%x) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %b = loop.launch @checked(%y) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  func.return %a, %b : !sym.t<[64], f32>, !sym.t<[64], f32>
}

// A GPU runs launches of one kernel as one where its loops add up nothing, or few elements of one tensor.
loop.kernel @counted(%n: !sym.t<[], f32, device=cuda:0>, %x: !sym.t<[8], f32, device=cuda:0>) outs(%m: !sym.t<[], f32, device=cuda:0>, %y: !sym.t<[8], f32, device=cuda:0>) sizes [] grid [] {
  %0 = loop.load %n[] : !sym.t<[], f32, device=cuda:0>
  %1 = arith.addf %0, %0 : f32
  loop.store %1, %m[] : !sym.t<[], f32, device=cuda:0>
  loop.for [d0 = 8] {
    %2 = loop.load %x[d0] : !sym.t<[8], f32, device=cuda:0>
    %3 = arith.divf %2, %1 : f32
    loop.store %3, %y[d0] : !sym.t<[8], f32, device=cuda:0>
    loop.yield
  }
  loop.end
}
loop.kernel @sum(%x: !sym.t<[8], f32, device=cuda:0>) outs(%y: !sym.t<[], f32, device=cuda:0>) sizes [] grid [] {
  %0 = loop.for [r0 = 8] reduce [add] {
    %1 = loop.load %x[r0] : !sym.t<[8], f32, device=cuda:0>
    loop.yield %1 : f32
  } : f32
  loop.store %0, %y[] : !sym.t<[], f32, device=cuda:0>
  loop.end
}
loop.kernel @product(%x: !sym.t<[8], f32, device=cuda:0>, %z: !sym.t<[8], f32, device=cuda:0>) outs(%y: !sym.t<[], f32, device=cuda:0>) sizes [] grid [] {
  %0 = loop.for [r0 = 8] reduce [add] {
    %1 = loop.load %x[r0] : !sym.t<[8], f32, device=cuda:0>
    %2 = loop.load %z[r0] : !sym.t<[8], f32, device=cuda:0>
    %3 = arith.mulf %1, %2 : f32
    loop.yield %3 : f32
  } : f32
  loop.store %0, %y[] : !sym.t<[], f32, device=cuda:0>
  loop.end
}
// CHECK-LABEL: func.func @counts
// CHECK: loop.launch @counted(%n, %x) sizes [] attributes {together = [[N:\d+]] : i64}
// CHECK-NEXT: loop.launch @counted(%k, %z) sizes [] attributes {together = [[N]] : i64}
// CHECK-NEXT: loop.launch @sum(%x) sizes [] attributes {together = [[M:\d+]] : i64}
// CHECK-NEXT: loop.launch @sum(%z) sizes [] attributes {together = [[M]] : i64}
// CHECK-NEXT: loop.launch @product(%x, %z) sizes [] :
// CHECK-NEXT: loop.launch @product(%z, %x) sizes [] :
func.func @counts(%n: !sym.t<[], f32, device=cuda:0>, %x: !sym.t<[8], f32, device=cuda:0>, %k: !sym.t<[], f32, device=cuda:0>, %z: !sym.t<[8], f32, device=cuda:0>) -> (!sym.t<[], f32, device=cuda:0>, !sym.t<[8], f32, device=cuda:0>, !sym.t<[], f32, device=cuda:0>, !sym.t<[8], f32, device=cuda:0>, !sym.t<[], f32, device=cuda:0>, !sym.t<[], f32, device=cuda:0>, !sym.t<[], f32, device=cuda:0>, !sym.t<[], f32, device=cuda:0>) {
  %a, %b = loop.launch @counted(%n, %x) sizes [] : (!sym.t<[], f32, device=cuda:0>, !sym.t<[8], f32, device=cuda:0>) -> (!sym.t<[], f32, device=cuda:0>, !sym.t<[8], f32, device=cuda:0>)
  %c, %d = loop.launch @counted(%k, %z) sizes [] : (!sym.t<[], f32, device=cuda:0>, !sym.t<[8], f32, device=cuda:0>) -> (!sym.t<[], f32, device=cuda:0>, !sym.t<[8], f32, device=cuda:0>)
  %e = loop.launch @sum(%x) sizes [] : (!sym.t<[8], f32, device=cuda:0>) -> !sym.t<[], f32, device=cuda:0>
  %f = loop.launch @sum(%z) sizes [] : (!sym.t<[8], f32, device=cuda:0>) -> !sym.t<[], f32, device=cuda:0>
  %g = loop.launch @product(%x, %z) sizes [] : (!sym.t<[8], f32, device=cuda:0>, !sym.t<[8], f32, device=cuda:0>) -> !sym.t<[], f32, device=cuda:0>
  %h = loop.launch @product(%z, %x) sizes [] : (!sym.t<[8], f32, device=cuda:0>, !sym.t<[8], f32, device=cuda:0>) -> !sym.t<[], f32, device=cuda:0>
  func.return %a, %b, %c, %d, %e, %f, %g, %h : !sym.t<[], f32, device=cuda:0>, !sym.t<[8], f32, device=cuda:0>, !sym.t<[], f32, device=cuda:0>, !sym.t<[8], f32, device=cuda:0>, !sym.t<[], f32, device=cuda:0>, !sym.t<[], f32, device=cuda:0>, !sym.t<[], f32, device=cuda:0>, !sym.t<[], f32, device=cuda:0>
}

// A view waits for the number that says where it begins.
loop.kernel @twice(%x: !sym.t<[6], f32>) outs(%y: !sym.t<[6], f32>) sizes [] grid [d0 = 6] {
  %0 = loop.load %x[d0] : !sym.t<[6], f32>
  %1 = arith.addf %0, %0 : f32
  loop.store %1, %y[d0] : !sym.t<[6], f32>
  loop.end
}
// CHECK-LABEL: func.func @begins_at_a_number
// CHECK-NEXT: aten._local_scalar_dense(%i)
// CHECK-NEXT: [[V:%\w+]] = loop.view %x offset [6*(mod(u0, 5))]
// CHECK-NEXT: [[P:%\w+]] = loop.view [[V]] offset [3]
// CHECK-NEXT: loop.launch @twice([[V]])
// CHECK-NEXT: func.return {{%\w+}}, [[P]]
func.func @begins_at_a_number(%x: !sym.t<[5, 6], f32>, %i: !sym.t<[], i64>) -> (!sym.t<[6], f32>, !sym.t<[3], f32>) {
  %n = aten._local_scalar_dense(%i) : (!sym.t<[], i64>) -> !sym.int<u0>
  %v = loop.view %x offset [6*(mod(u0, 5))] : !sym.t<[5, 6], f32> -> !sym.t<[6], f32>
  %y = loop.launch @twice(%v) sizes [] : (!sym.t<[6], f32>) -> !sym.t<[6], f32>
  %p = loop.view %v offset [3] : !sym.t<[6], f32> -> !sym.t<[3], f32>
  func.return %y, %p : !sym.t<[6], f32>, !sym.t<[3], f32>
}

// What an assertion finds wrong is not read before it.
// CHECK-LABEL: func.func @asserted
// CHECK-NEXT: aten._local_scalar_dense(%i)
// CHECK-NEXT: loop.launch @twice(%x)
// CHECK-NEXT: aten._assert_scalar(lt(u0, 5)
// CHECK-NEXT: [[V:%\w+]] = loop.view %z offset [6*(mod(u0, 5))]
// CHECK-NEXT: loop.launch @twice([[V]])
func.func @asserted(%x: !sym.t<[6], f32>, %z: !sym.t<[5, 6], f32>, %i: !sym.t<[], i64>) -> (!sym.t<[6], f32>, !sym.t<[6], f32>) {
  %n = aten._local_scalar_dense(%i) : (!sym.t<[], i64>) -> !sym.int<u0>
  %y = loop.launch @twice(%x) sizes [] : (!sym.t<[6], f32>) -> !sym.t<[6], f32>
  aten._assert_scalar(lt(u0, 5), "an index") : () -> ()
  %v = loop.view %z offset [6*(mod(u0, 5))] : !sym.t<[5, 6], f32> -> !sym.t<[6], f32>
  %w = loop.launch @twice(%v) sizes [] : (!sym.t<[6], f32>) -> !sym.t<[6], f32>
  func.return %y, %w : !sym.t<[6], f32>, !sym.t<[6], f32>
}

// All that is there earlier counts at any time, also for different groups: %g does not wait beside %e, in no group.
// CHECK-LABEL: func.func @waiting
// CHECK: %a = loop.launch @exp(%x) sizes [128] attributes {together = [[N:\d+]] : i64}
// CHECK-NEXT: %e = loop.launch @exp(%y) sizes [192] attributes {together = [[N]] : i64}
// CHECK-NEXT: %b = aten.relu(%a)
// CHECK-NEXT: %c = loop.launch @exp(%b) sizes [128] :
// CHECK-NEXT: %d = aten.relu(%c)
// CHECK-NEXT: %f = aten.relu(%e)
// CHECK-NEXT: %g = loop.launch @exp(%z) sizes [192] :
func.func @waiting(%x: !sym.t<[128], f32>, %y: !sym.t<[192], f32>, %z: !sym.t<[192], f32>) -> (!sym.t<[128], f32>, !sym.t<[192], f32>, !sym.t<[192], f32>) {
  %a = loop.launch @exp(%x) sizes [128] : (!sym.t<[128], f32>) -> !sym.t<[128], f32>
  %b = aten.relu(%a) : (!sym.t<[128], f32>) -> !sym.t<[128], f32>
  %c = loop.launch @exp(%b) sizes [128] : (!sym.t<[128], f32>) -> !sym.t<[128], f32>
  %d = aten.relu(%c) : (!sym.t<[128], f32>) -> !sym.t<[128], f32>
  %e = loop.launch @exp(%y) sizes [192] : (!sym.t<[192], f32>) -> !sym.t<[192], f32>
  %f = aten.relu(%e) : (!sym.t<[192], f32>) -> !sym.t<[192], f32>
  %g = loop.launch @exp(%z) sizes [192] : (!sym.t<[192], f32>) -> !sym.t<[192], f32>
  %h = aten.relu(%g) : (!sym.t<[192], f32>) -> !sym.t<[192], f32>
  func.return %d, %f, %h : !sym.t<[128], f32>, !sym.t<[192], f32>, !sym.t<[192], f32>
}

// Marks of a module that has been here before are made anew.
// CHECK-LABEL: func.func @marked
// CHECK: %a = loop.launch @exp(%x) sizes [64] :
// CHECK: %b = loop.launch @exp(%a) sizes [64] :
func.func @marked(%x: !sym.t<[64], f32>) -> !sym.t<[64], f32> {
  %a = loop.launch @exp(%x) sizes [64] attributes {together = 7 : i64} : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %b = loop.launch @exp(%a) sizes [64] attributes {together = 8 : i64} : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  func.return %b : !sym.t<[64], f32>
}

// Nothing is made earlier across the step at which the program holds most: %c stays behind it.
// CHECK-LABEL: func.func @at_the_peak
// CHECK: %a = loop.launch @exp(%x) sizes [1024] :
// CHECK-NEXT: %p = aten.relu(%z)
// CHECK-NEXT: %q = aten.relu(%p)
// CHECK-NEXT: %c = loop.launch @exp(%y) sizes [1024] :
func.func @at_the_peak(%x: !sym.t<[1024], f32>, %y: !sym.t<[1024], f32>, %z: !sym.t<[65536], f32>) -> (!sym.t<[1024], f32>, !sym.t<[1024], f32>, !sym.t<[65536], f32>) {
  %a = loop.launch @exp(%x) sizes [1024] : (!sym.t<[1024], f32>) -> !sym.t<[1024], f32>
  %p = aten.relu(%z) : (!sym.t<[65536], f32>) -> !sym.t<[65536], f32>
  %q = aten.relu(%p) : (!sym.t<[65536], f32>) -> !sym.t<[65536], f32>
  %c = loop.launch @exp(%y) sizes [1024] : (!sym.t<[1024], f32>) -> !sym.t<[1024], f32>
  %d = aten.relu(%c) : (!sym.t<[1024], f32>) -> !sym.t<[1024], f32>
  func.return %a, %d, %q : !sym.t<[1024], f32>, !sym.t<[1024], f32>, !sym.t<[65536], f32>
}

loop.kernel @rows(%x: !sym.t<[s0, 4096], f32>) outs(%y: !sym.t<[s0], f32>) sizes [s0] grid [d0 = s0] {
  %0 = loop.for [r0 = 4096] reduce [add] {
    %1 = loop.load %x[d0, r0] : !sym.t<[s0, 4096], f32>
    loop.yield %1 : f32
  } : f32
  loop.store %0, %y[d0] : !sym.t<[s0], f32>
  loop.end
}

// Threads take one piece after the other: those that take longest come first.
// CHECK-LABEL: func.func @order
// CHECK: %b = loop.launch @rows(%y) sizes [2] attributes {together = [[N:\d+]] : i64}
// CHECK-NEXT: %a = loop.launch @exp(%x) sizes [64] attributes {together = [[N]] : i64}
// CHECK-NEXT: %c = loop.launch @exp(%z) sizes [64] attributes {together = [[N]] : i64}
func.func @order(%x: !sym.t<[64], f32>, %y: !sym.t<[2, 4096], f32>, %z: !sym.t<[64], f32>) -> (!sym.t<[64], f32>, !sym.t<[2], f32>, !sym.t<[64], f32>) {
  %a = loop.launch @exp(%x) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  %b = loop.launch @rows(%y) sizes [2] : (!sym.t<[2, 4096], f32>) -> !sym.t<[2], f32>
  %c = loop.launch @exp(%z) sizes [64] : (!sym.t<[64], f32>) -> !sym.t<[64], f32>
  func.return %a, %b, %c : !sym.t<[64], f32>, !sym.t<[2], f32>, !sym.t<[64], f32>
}
