// RUN: lamella-opt %s | filecheck %s
// RUN: lamella-opt %s --print-locations | lamella-opt - | filecheck %s
// What is checked: the text of control flow reads back and prints the same; numbers stand among the arguments.

func.func @main(%p: !sym.t<[], i1>, %x: !sym.t<[s0, 4], f32>) -> (!sym.t<[s0, 4], f32>, !sym.int<u1>, !sym.t<[4], f32>) {
  // CHECK: flow.if(%p, %x) : (!sym.t<[], i1>, !sym.t<[s0, 4], f32>) -> !sym.t<[s0, 4], f32>
  // CHECK-NEXT: then (%a: !sym.t<[s0, 4], f32>) {
  // CHECK: flow.yield(%{{.*}}) : !sym.t<[s0, 4], f32>
  // CHECK-NEXT: } else (%{{.*}}: !sym.t<[s0, 4], f32>) {
  %0 = flow.if(%p, %x) : (!sym.t<[], i1>, !sym.t<[s0, 4], f32>) -> !sym.t<[s0, 4], f32>
  then (%a: !sym.t<[s0, 4], f32>) {
    %1 = aten.sin(%a) : (!sym.t<[s0, 4], f32>) -> !sym.t<[s0, 4], f32>
    flow.yield(%1) : !sym.t<[s0, 4], f32>
  } else (%a: !sym.t<[s0, 4], f32>) {
    // CHECK: flow.if(gt(s0, 2), %{{.*}}) : (!sym.t<[s0, 4], f32>) -> !sym.t<[s0, 4], f32>
    %1 = flow.if(gt(s0, 2), %a) : (!sym.t<[s0, 4], f32>) -> !sym.t<[s0, 4], f32>
    then (%b: !sym.t<[s0, 4], f32>) {
      flow.yield(%b) : !sym.t<[s0, 4], f32>
    } else (%b: !sym.t<[s0, 4], f32>) {
      %2 = aten.cos(%b) : (!sym.t<[s0, 4], f32>) -> !sym.t<[s0, 4], f32>
      flow.yield(%2) : !sym.t<[s0, 4], f32>
    }
    flow.yield(%1) : !sym.t<[s0, 4], f32>
  }
  // CHECK: flow.while(0, %{{.*}}) : (!sym.t<[s0, 4], f32>) -> (!sym.int<u1>, !sym.t<[s0, 4], f32>)
  // CHECK-NEXT: while (%i: !sym.int<u0>, %{{.*}}: !sym.t<[s0, 4], f32>) {
  // CHECK-NEXT: flow.yield(lt(u0, s0))
  // CHECK-NEXT: } do (
  %n, %3 = flow.while(0, %0) : (!sym.t<[s0, 4], f32>) -> (!sym.int<u1>, !sym.t<[s0, 4], f32>)
  while (%i: !sym.int<u0>, %a: !sym.t<[s0, 4], f32>) {
    flow.yield(lt(u0, s0))
  } do (%i: !sym.int<u0>, %a: !sym.t<[s0, 4], f32>) {
    %1 = aten.mul.Scalar(%a, u0) : (!sym.t<[s0, 4], f32>) -> !sym.t<[s0, 4], f32>
    // CHECK: flow.yield(u0 + 1, %{{.*}}) : !sym.t<[s0, 4], f32>
    flow.yield(u0 + 1, %1) : !sym.t<[s0, 4], f32>
  }
  // CHECK: flow.scan(%{{.*}}, %x) carried 1 over 1 : (!sym.t<[4], f32>, !sym.t<[s0, 4], f32>) -> (!sym.t<[4], f32>, !sym.t<[s0, 4], f32>)
  // CHECK-NEXT: do (%c: !sym.t<[4], f32>, %r: !sym.t<[4], f32>) {
  %z = aten.sum.dim_IntList(%x, [0]) : (!sym.t<[s0, 4], f32>) -> !sym.t<[4], f32>
  %4, %5 = flow.scan(%z, %x) carried 1 over 1 : (!sym.t<[4], f32>, !sym.t<[s0, 4], f32>) -> (!sym.t<[4], f32>, !sym.t<[s0, 4], f32>)
  do (%c: !sym.t<[4], f32>, %r: !sym.t<[4], f32>) {
    %1 = aten.add.Tensor(%c, %r) : (!sym.t<[4], f32>, !sym.t<[4], f32>) -> !sym.t<[4], f32>
    flow.yield(%1, %1) : !sym.t<[4], f32>, !sym.t<[4], f32>
  }
  func.return %3, %n, %4 : !sym.t<[s0, 4], f32>, !sym.int<u1>, !sym.t<[4], f32>
}

// CHECK-LABEL: func.func @stacked(
// CHECK: %i, %y = flow.while_stack(%n, %x) : (!sym.t<[], i64>, !sym.t<[s0, 4], f32>) -> (!sym.t<[u0], i64>, !sym.t<[u0, s0, 4], f32>)
// CHECK-NEXT: while (%a: !sym.t<[], i64>, %b: !sym.t<[s0, 4], f32>) {
// CHECK: } do (
func.func @stacked(%n: !sym.t<[], i64>, %x: !sym.t<[s0, 4], f32>) -> (!sym.t<[u0], i64>, !sym.t<[u0, s0, 4], f32>) {
  %i, %y = flow.while_stack(%n, %x) : (!sym.t<[], i64>, !sym.t<[s0, 4], f32>) -> (!sym.t<[u0], i64>, !sym.t<[u0, s0, 4], f32>)
  while (%a: !sym.t<[], i64>, %b: !sym.t<[s0, 4], f32>) {
    %0 = aten.lt.Scalar(%a, 3) : (!sym.t<[], i64>) -> !sym.t<[], i1>
    flow.yield(%0) : !sym.t<[], i1>
  } do (%a: !sym.t<[], i64>, %b: !sym.t<[s0, 4], f32>) {
    %0 = aten.add.Scalar(%a, 1) : (!sym.t<[], i64>) -> !sym.t<[], i64>
    %1 = aten.sin(%b) : (!sym.t<[s0, 4], f32>) -> !sym.t<[s0, 4], f32>
    flow.yield(%0, %1) : !sym.t<[], i64>, !sym.t<[s0, 4], f32>
  }
  func.return %i, %y : !sym.t<[u0], i64>, !sym.t<[u0, s0, 4], f32>
}
