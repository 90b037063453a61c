// RUN: lamella-opt %s -p bufferize | filecheck %s

loop.kernel @twice(%x: !sym.t<[524288], f32>) outs(%y: !sym.t<[524288], f32>) sizes [] grid [d0 = 524288] {
  %0 = loop.load %x[d0] : !sym.t<[524288], f32>
  %1 = arith.addf %0, %0 : f32
  loop.store %1, %y[d0] : !sym.t<[524288], f32>
  loop.end
}
loop.kernel @reverse(%x: !sym.t<[524288], f32>) outs(%y: !sym.t<[524288], f32>) sizes [] grid [d0 = 524288] {
  %0 = loop.load %x[524287 - d0] : !sym.t<[524288], f32>
  loop.store %0, %y[d0] : !sym.t<[524288], f32>
  loop.end
}
loop.kernel @total(%x: !sym.t<[524288], f32>) outs(%y: !sym.t<[], f32>) sizes [] grid [] {
  %0 = loop.for [r0 = 524288] reduce [add] {
    %1 = loop.load %x[r0] : !sym.t<[524288], f32>
    loop.yield %1 : f32
  } : f32
  loop.store %0, %y[] : !sym.t<[], f32>
  loop.end
}

// What a call has made is written over where it dies, once and again; then it goes.
// CHECK-LABEL: host.func @over_a_call
// CHECK-NOT: host.empty
// CHECK: %a = aten.cumsum(%x, 0)
// CHECK: host.launch @twice(%a) outs(%a)
// CHECK: host.launch @twice(%a) outs(%a)
// CHECK-NEXT: %d = host.empty : !sym.t<[], f32>
// CHECK-NEXT: host.launch @total(%a) outs(%d)
// CHECK-NEXT: host.return %d
func.func @over_a_call(%x: !sym.t<[524288], f32>) -> !sym.t<[], f32> {
  %a = aten.cumsum(%x, 0) : (!sym.t<[524288], f32>) -> !sym.t<[524288], f32>
  %b = loop.launch @twice(%a) sizes [] : (!sym.t<[524288], f32>) -> !sym.t<[524288], f32>
  %c = loop.launch @twice(%b) sizes [] : (!sym.t<[524288], f32>) -> !sym.t<[524288], f32>
  %d = loop.launch @total(%c) sizes [] : (!sym.t<[524288], f32>) -> !sym.t<[], f32>
  func.return %d : !sym.t<[], f32>
}

// Neither where it is read later, nor where it may lie in an argument.
// CHECK-LABEL: host.func @still_read
// CHECK: host.launch @twice(%a) outs(%b)
// CHECK: host.launch @twice(%e) outs(%f)
func.func @still_read(%x: !sym.t<[524288], f32>) -> (!sym.t<[], f32>, !sym.t<[524288], f32>) {
  %a = aten.cumsum(%x, 0) : (!sym.t<[524288], f32>) -> !sym.t<[524288], f32>
  %b = loop.launch @twice(%a) sizes [] : (!sym.t<[524288], f32>) -> !sym.t<[524288], f32>
  %c = aten.mul.Tensor(%a, %b) : (!sym.t<[524288], f32>, !sym.t<[524288], f32>) -> !sym.t<[524288], f32>
  %d = loop.launch @total(%c) sizes [] : (!sym.t<[524288], f32>) -> !sym.t<[], f32>
  %e = aten.contiguous(%x) : (!sym.t<[524288], f32>) -> !sym.t<[524288], f32>
  %f = loop.launch @twice(%e) sizes [] : (!sym.t<[524288], f32>) -> !sym.t<[524288], f32>
  func.return %d, %f : !sym.t<[], f32>, !sym.t<[524288], f32>
}

// Most is there at the beginning: the buffers at the end are no arena then.
// CHECK-LABEL: host.func @at_the_end
// CHECK-NOT: host.arena
// CHECK: %a = aten.add.Tensor(%x, %y)
// CHECK-NEXT: host.drop %x
// CHECK: %c = host.empty {beside = 2097152 : i64} : !sym.t<[524288], f32>
// CHECK-NEXT: host.launch @reverse(%a) outs(%c)
// CHECK: host.drop %a
// CHECK-NEXT: %d = host.empty : !sym.t<[524288], f32>
// CHECK-NEXT: host.launch @reverse(%c) outs(%d)
// CHECK: host.launch @twice(%d) outs(%d)
func.func @at_the_end(%x: !sym.t<[524288], f32>, %y: !sym.t<[524288], f32>) -> !sym.t<[], f32> {
  %a = aten.add.Tensor(%x, %y) : (!sym.t<[524288], f32>, !sym.t<[524288], f32>) -> !sym.t<[524288], f32>
  %c = loop.launch @reverse(%a) sizes [] : (!sym.t<[524288], f32>) -> !sym.t<[524288], f32>
  %d = loop.launch @reverse(%c) sizes [] : (!sym.t<[524288], f32>) -> !sym.t<[524288], f32>
  %e = loop.launch @twice(%d) sizes [] : (!sym.t<[524288], f32>) -> !sym.t<[524288], f32>
  %f = loop.launch @total(%e) sizes [] : (!sym.t<[524288], f32>) -> !sym.t<[], f32>
  func.return %f : !sym.t<[], f32>
}

// A result that is recycled says what else is held until the next is made, the function what is held before the first. What
// was read last by the op before is gone; smaller results are none of those that are recycled, and count.
// CHECK-LABEL: host.func @beside
// CHECK-SAME: attributes {lamella.beside = 4194304 : i64}
// CHECK: %b = host.empty {beside = 4194304 : i64} : !sym.t<[524288], f32>
// CHECK: host.drop %a
// CHECK: %d = host.empty {beside = 2097156 : i64} : !sym.t<[524288], f32>
// CHECK: %e = host.empty : !sym.t<[], f32>
func.func @beside(%x: !sym.t<[524288], f32> {lamella.name = "x"}) -> (!sym.t<[524288], f32>, !sym.t<[524288], f32>, !sym.t<[], f32>) {
  %a = aten.cumsum(%x, 0) : (!sym.t<[524288], f32>) -> !sym.t<[524288], f32>
  %c = aten.flip(%a, [0]) : (!sym.t<[524288], f32>) -> !sym.t<[524288], f32>
  %b = loop.launch @reverse(%a) sizes [] : (!sym.t<[524288], f32>) -> !sym.t<[524288], f32>
  %d = loop.launch @reverse(%c) sizes [] : (!sym.t<[524288], f32>) -> !sym.t<[524288], f32>
  %e = loop.launch @total(%c) sizes [] : (!sym.t<[524288], f32>) -> !sym.t<[], f32>
  func.return %b, %d, %e : !sym.t<[524288], f32>, !sym.t<[524288], f32>, !sym.t<[], f32>
}

// What is there all the time is not the program's: beside large weights too buffers at the end are no arena. Where the
// first goes, more would be there with its memory than is at the peak, which the drop says.
// CHECK-LABEL: host.func @beside_weights
// CHECK-NOT: host.arena
// CHECK: %c = host.empty
// CHECK: %d = host.empty
// CHECK: host.drop %c {beside = 4194304 : i64}
func.func @beside_weights(%w: !sym.t<[134217728], f32> {lamella.name = "w"}, %x: !sym.t<[524288], f32>, %y: !sym.t<[524288], f32>) -> (!sym.t<[524288], f32>, !sym.t<[], f32>) {
  %a = aten.add.Tensor(%x, %y) : (!sym.t<[524288], f32>, !sym.t<[524288], f32>) -> !sym.t<[524288], f32>
  %c = loop.launch @reverse(%a) sizes [] : (!sym.t<[524288], f32>) -> !sym.t<[524288], f32>
  %d = loop.launch @reverse(%c) sizes [] : (!sym.t<[524288], f32>) -> !sym.t<[524288], f32>
  %e = aten.cumsum(%d, 0) : (!sym.t<[524288], f32>) -> !sym.t<[524288], f32>
  %f = aten.cumsum(%e, 0) : (!sym.t<[524288], f32>) -> !sym.t<[524288], f32>
  %g = loop.launch @total(%f) sizes [] : (!sym.t<[524288], f32>) -> !sym.t<[], f32>
  func.return %d, %g : !sym.t<[524288], f32>, !sym.t<[], f32>
}
