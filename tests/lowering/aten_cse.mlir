// RUN: lamella-opt %s -p aten-cse | filecheck %s
// What is checked: equal calls, through views; what leaves, is drawn, or is read again after a write is not shared.

// CHECK-LABEL: func.func @products(
// CHECK-NEXT: [[T:%\w+]] = aten.t(%w)
// CHECK-NEXT: [[M:%\w+]] = aten.mm(%x, [[T]])
// CHECK-NEXT: [[S:%\w+]] = aten.sin([[M]])
// CHECK-NEXT: [[C:%\w+]] = aten.cos([[M]])
// CHECK-NEXT: func.return [[S]], [[C]]
func.func @products(%x: !sym.t<[s0, 4], f32>, %w: !sym.t<[5, 4], f32>) -> (!sym.t<[s0, 5], f32>, !sym.t<[s0, 5], f32>) {
  %0 = aten.t(%w) : (!sym.t<[5, 4], f32>) -> !sym.t<[4, 5], f32, strides=[1, 4]>
  %1 = aten.mm(%x, %0) : (!sym.t<[s0, 4], f32>, !sym.t<[4, 5], f32, strides=[1, 4]>) -> !sym.t<[s0, 5], f32>
  %2 = aten.sin(%1) : (!sym.t<[s0, 5], f32>) -> !sym.t<[s0, 5], f32>
  %3 = aten.t(%w) : (!sym.t<[5, 4], f32>) -> !sym.t<[4, 5], f32, strides=[1, 4]>
  %4 = aten.mm(%x, %3) : (!sym.t<[s0, 4], f32>, !sym.t<[4, 5], f32, strides=[1, 4]>) -> !sym.t<[s0, 5], f32>
  %5 = aten.cos(%4) : (!sym.t<[s0, 5], f32>) -> !sym.t<[s0, 5], f32>
  func.return %2, %5 : !sym.t<[s0, 5], f32>, !sym.t<[s0, 5], f32>
}

// CHECK-LABEL: func.func @leaving(
// CHECK-COUNT-2: aten.sin
// CHECK: aten.view
// CHECK-COUNT-2: aten.rand_like
func.func @leaving(%x: !sym.t<[4], f32>) -> (!sym.t<[4], f32>, !sym.t<[2, 2], f32>, !sym.t<[4], f32>) {
  %0 = aten.sin(%x) : (!sym.t<[4], f32>) -> !sym.t<[4], f32>
  %1 = aten.sin(%x) : (!sym.t<[4], f32>) -> !sym.t<[4], f32>
  %2 = aten.view(%1, [2, 2]) : (!sym.t<[4], f32>) -> !sym.t<[2, 2], f32>
  %3 = aten.rand_like(%x) : (!sym.t<[4], f32>) -> !sym.t<[4], f32>
  %4 = aten.rand_like(%x) : (!sym.t<[4], f32>) -> !sym.t<[4], f32>
  %5 = aten.sub.Tensor(%3, %4) : (!sym.t<[4], f32>, !sym.t<[4], f32>) -> !sym.t<[4], f32>
  func.return %0, %2, %5 : !sym.t<[4], f32>, !sym.t<[2, 2], f32>, !sym.t<[4], f32>
}

// CHECK-LABEL: func.func @leaving_as_a_view_that_does_not_say_so(
// CHECK-COUNT-2: aten.clone
func.func @leaving_as_a_view_that_does_not_say_so(%x: !sym.t<[4], f32>) -> (!sym.t<[4], f32>, !sym.t<[2, 2], f32>) {
  %0 = aten.clone(%x) : (!sym.t<[4], f32>) -> !sym.t<[4], f32>
  %1 = aten.clone(%x) : (!sym.t<[4], f32>) -> !sym.t<[4], f32>
  %2 = aten._unsafe_view(%1, [2, 2]) : (!sym.t<[4], f32>) -> !sym.t<[2, 2], f32>
  func.return %0, %2 : !sym.t<[4], f32>, !sym.t<[2, 2], f32>
}

// CHECK-LABEL: func.func @around_a_write(
// CHECK-COUNT-2: aten.sin
func.func @around_a_write(%x: !sym.t<[4], f32>, %y: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  %0 = aten.sin(%x) : (!sym.t<[4], f32>) -> !sym.t<[4], f32>
  %1 = aten.copy_(%x, %y) : (!sym.t<[4], f32>, !sym.t<[4], f32>) -> !sym.t<[4], f32>
  %2 = aten.sin(%x) : (!sym.t<[4], f32>) -> !sym.t<[4], f32>
  %3 = aten.sub.Tensor(%0, %2) : (!sym.t<[4], f32>, !sym.t<[4], f32>) -> !sym.t<[4], f32>
  func.return %3 : !sym.t<[4], f32>
}

// CHECK-LABEL: func.func @in_a_region(
// CHECK: aten.mm
// CHECK-NEXT: aten.add.Tensor
func.func @in_a_region(%p: !sym.t<[], i1>, %x: !sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32> {
  %0 = flow.if(%p, %x) : (!sym.t<[], i1>, !sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32>
  then (%a: !sym.t<[4, 4], f32>) {
    %1 = aten.mm(%a, %a) : (!sym.t<[4, 4], f32>, !sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32>
    %2 = aten.mm(%a, %a) : (!sym.t<[4, 4], f32>, !sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32>
    %3 = aten.add.Tensor(%1, %2) : (!sym.t<[4, 4], f32>, !sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32>
    flow.yield(%3) : !sym.t<[4, 4], f32>
  } else (%a: !sym.t<[4, 4], f32>) {
    flow.yield(%a) : !sym.t<[4, 4], f32>
  }
  func.return %0 : !sym.t<[4, 4], f32>
}
