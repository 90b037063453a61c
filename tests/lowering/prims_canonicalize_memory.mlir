// RUN: lamella-opt %s -p 'prims-canonicalize' | filecheck %s
// Results of a function keep memory of their own, whatever is folded.

// A copy that leaves is made.
// CHECK-LABEL: func.func @copy_of_argument(
// CHECK-NEXT: [[V0:%\w+]] = prims.convert %x : !sym.t<[4], f32>
// CHECK-NEXT: func.return [[V0]] : !sym.t<[4], f32>
func.func @copy_of_argument(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  %r = prims.convert %x : !sym.t<[4], f32>
  func.return %r : !sym.t<[4], f32>
}

// CHECK-LABEL: func.func @copy_inside(
// CHECK-NEXT: [[R:%\w+]] = prims.exp %x : !sym.t<[4], f32>
// CHECK-NEXT: func.return [[R]] : !sym.t<[4], f32>
func.func @copy_inside(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  %c = prims.convert %x : !sym.t<[4], f32>
  %r = prims.exp %c : !sym.t<[4], f32>
  func.return %r : !sym.t<[4], f32>
}

// CHECK-LABEL: func.func @layout_for_a_call(
// CHECK-NEXT: [[E:%\w+]] = prims.exp %x : !sym.t<[4, 4], f32, strides=[1, 4]> -> !sym.t<[4, 4], f32>
// CHECK-NEXT: [[V0:%\w+]] = prims.convert %x : !sym.t<[4, 4], f32, strides=[1, 4]> -> !sym.t<[4, 4], f32>
// CHECK-NEXT: [[R:%\w+]] = aten.mm([[V0]], [[E]]) : (!sym.t<[4, 4], f32>, !sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32>
// CHECK-NEXT: func.return [[R]] : !sym.t<[4, 4], f32>
func.func @layout_for_a_call(%x: !sym.t<[4, 4], f32, strides=[1, 4]>) -> !sym.t<[4, 4], f32> {
  %c = prims.convert %x : !sym.t<[4, 4], f32, strides=[1, 4]> -> !sym.t<[4, 4], f32>
  %e = prims.exp %c : !sym.t<[4, 4], f32>
  %r = aten.mm(%c, %e) : (!sym.t<[4, 4], f32>, !sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32>
  func.return %r : !sym.t<[4, 4], f32>
}

// Two results, two tensors.
// CHECK-LABEL: func.func @equal_results(
// CHECK-NEXT: [[A:%\w+]] = prims.exp %x : !sym.t<[4], f32>
// CHECK-NEXT: [[V0:%\w+]] = prims.convert [[A]] : !sym.t<[4], f32>
// CHECK-NEXT: func.return [[A]], [[V0]] : !sym.t<[4], f32>, !sym.t<[4], f32>
func.func @equal_results(%x: !sym.t<[4], f32>) -> (!sym.t<[4], f32>, !sym.t<[4], f32>) {
  %a = prims.exp %x : !sym.t<[4], f32>
  %b = prims.exp %x : !sym.t<[4], f32>
  func.return %a, %b : !sym.t<[4], f32>, !sym.t<[4], f32>
}

// CHECK-LABEL: func.func @view_of_copy(
// CHECK-NEXT: [[R:%\w+]] = prims.reshape %x : !sym.t<[4], f32> -> !sym.t<[2, 2], f32>
// CHECK-NEXT: [[V0:%\w+]] = prims.convert [[R]] : !sym.t<[2, 2], f32>
// CHECK-NEXT: func.return [[V0]] : !sym.t<[2, 2], f32>
func.func @view_of_copy(%x: !sym.t<[4], f32>) -> !sym.t<[2, 2], f32> {
  %c = prims.convert %x : !sym.t<[4], f32>
  %r = prims.reshape %c : !sym.t<[4], f32> -> !sym.t<[2, 2], f32>
  func.return %r : !sym.t<[2, 2], f32>
}

// The copy is of what x was before.
// CHECK-LABEL: func.func @written_later(
// CHECK-NEXT: [[C:%\w+]] = prims.convert %x : !sym.t<[4], f32>
// CHECK-NEXT: [[N:%\w+]] = prims.neg %x : !sym.t<[4], f32>
// CHECK-NEXT: [[W:%\w+]] = aten.copy_(%x, [[N]]) : (!sym.t<[4], f32>, !sym.t<[4], f32>) -> !sym.t<[4], f32>
// CHECK-NEXT: func.return [[C]] : !sym.t<[4], f32>
func.func @written_later(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  %c = prims.convert %x : !sym.t<[4], f32>
  %n = prims.neg %x : !sym.t<[4], f32>
  %w = aten.copy_(%x, %n) : (!sym.t<[4], f32>, !sym.t<[4], f32>) -> !sym.t<[4], f32>
  func.return %c : !sym.t<[4], f32>
}

// What made a value does not say what it is once an op has written to it.
// CHECK-LABEL: func.func @written_value(
// CHECK-NEXT: [[A:%\w+]] = prims.neg %x : !sym.t<[4], f32>
// CHECK-NEXT: aten.copy_([[A]], %x)
// CHECK-NEXT: [[B:%\w+]] = prims.neg [[A]] : !sym.t<[4], f32>
// CHECK-NEXT: func.return [[B]] : !sym.t<[4], f32>
func.func @written_value(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  %a = prims.neg %x : !sym.t<[4], f32>
  %w = aten.copy_(%a, %x) : (!sym.t<[4], f32>, !sym.t<[4], f32>) -> !sym.t<[4], f32>
  %b = prims.neg %a : !sym.t<[4], f32>
  func.return %b : !sym.t<[4], f32>
}

// A copy and a part of it stay a copy and a part of it; what equals the part has memory of its own.
// CHECK-LABEL: func.func @parts_of_a_copy(
// CHECK-NEXT: [[C:%\w+]] = prims.convert %x : !sym.t<[4], f32>
// CHECK-NEXT: [[P:%\w+]] = prims.slice [[C]]
// CHECK-NEXT: [[E:%\w+]] = prims.convert [[P]] : !sym.t<[2], f32>
// CHECK-NEXT: func.return [[E]], [[C]], [[P]]
func.func @parts_of_a_copy(%x: !sym.t<[4], f32>) -> (!sym.t<[2], f32>, !sym.t<[4], f32>, !sym.t<[2], f32>) {
  %c = prims.convert %x : !sym.t<[4], f32>
  %p = prims.slice %c {start = [2], stop = [4], step = [1]} : !sym.t<[4], f32> -> !sym.t<[2], f32>
  %e = prims.convert %p : !sym.t<[2], f32>
  func.return %e, %c, %p : !sym.t<[2], f32>, !sym.t<[4], f32>, !sym.t<[2], f32>
}

// A result that is a part of another one is no copy where what it folds to lies otherwise.
// CHECK-LABEL: func.func @part_that_lies_otherwise(
// CHECK-NEXT: [[A:%\w+]] = prims.exp %x : !sym.t<[3, 4], f32>
// CHECK-NEXT: [[S:%\w+]] = prims.slice [[A]]
// CHECK-NOT: prims.convert
// CHECK: [[V:%\w+]] = prims.reshape {{%\w+}} : {{.*}} -> !sym.t<[3, 1], f32, strides=[4, 1]>
// CHECK-NEXT: func.return [[A]], [[V]]
func.func @part_that_lies_otherwise(%x: !sym.t<[3, 4], f32>) -> (!sym.t<[3, 4], f32>, !sym.t<[3, 1], f32, strides=[4, 1]>) {
  %a = prims.exp %x : !sym.t<[3, 4], f32>
  %s = prims.slice %a {start = [0, 1], stop = [3, 2], step = [1, 1]} : !sym.t<[3, 4], f32> -> !sym.t<[3, 1], f32>
  %r = prims.reshape %s : !sym.t<[3, 1], f32> -> !sym.t<[3], f32, strides=[4]>
  %v = prims.reshape %r : !sym.t<[3], f32, strides=[4]> -> !sym.t<[3, 1], f32, strides=[4, 1]>
  func.return %a, %v : !sym.t<[3, 4], f32>, !sym.t<[3, 1], f32, strides=[4, 1]>
}

// A result in another layout is copied where the program does.
// CHECK-LABEL: func.func @layout_of_a_result(
// CHECK-NEXT: [[E:%\w+]] = prims.exp %x
// CHECK-NEXT: [[C:%\w+]] = prims.convert [[E]]
// CHECK-NEXT: [[R:%\w+]] = aten.mm(
// CHECK-NEXT: func.return [[C]], [[R]]
func.func @layout_of_a_result(%x: !sym.t<[4, 4], f32, strides=[1, 4]>, %y: !sym.t<[4, 4], f32>) -> (!sym.t<[4, 4], f32>, !sym.t<[4, 4], f32>) {
  %e = prims.exp %x : !sym.t<[4, 4], f32, strides=[1, 4]>
  %c = prims.convert %e : !sym.t<[4, 4], f32, strides=[1, 4]> -> !sym.t<[4, 4], f32>
  %r = aten.mm(%y, %y) : (!sym.t<[4, 4], f32>, !sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32>
  func.return %c, %r : !sym.t<[4, 4], f32>, !sym.t<[4, 4], f32>
}

// What two products read is in memory as they read it: others read it so too.
// CHECK-LABEL: func.func @read_by_products(
// CHECK:      [[N:%\w+]] = prims.convert %x {rounding} : !sym.t<[4, 4], f32> -> !sym.t<[4, 4], bf16>
// CHECK:      [[W:%\w+]] = prims.convert [[N]] : !sym.t<[4, 4], bf16> -> !sym.t<[4, 4], f32>
// CHECK-NEXT: prims.reduce [[W]]
func.func @read_by_products(%x: !sym.t<[4, 4], f32>, %w: !sym.t<[4, 4], bf16>) -> (!sym.t<[4, 4], f32>, !sym.t<[4, 4], f32>, !sym.t<[4], f32>) {
  %n = prims.convert %x {rounding} : !sym.t<[4, 4], f32> -> !sym.t<[4, 4], bf16>
  %a = prims.dot %n, %w : !sym.t<[4, 4], bf16>, !sym.t<[4, 4], bf16> -> !sym.t<[4, 4], f32>
  %b = prims.dot %w, %n : !sym.t<[4, 4], bf16>, !sym.t<[4, 4], bf16> -> !sym.t<[4, 4], f32>
  %f = prims.convert %n : !sym.t<[4, 4], bf16> -> !sym.t<[4, 4], f32>
  %s = prims.reduce %f {kind = sum, dims = [0]} : !sym.t<[4, 4], f32> -> !sym.t<[4], f32>
  func.return %a, %b, %s : !sym.t<[4, 4], f32>, !sym.t<[4, 4], f32>, !sym.t<[4], f32>
}

// One may be computed with what it reads.
// CHECK-LABEL: func.func @read_by_a_product(
// CHECK: prims.reduce %x
func.func @read_by_a_product(%x: !sym.t<[4, 4], f32>, %w: !sym.t<[4, 4], bf16>) -> (!sym.t<[4, 4], f32>, !sym.t<[4], f32>) {
  %n = prims.convert %x {rounding} : !sym.t<[4, 4], f32> -> !sym.t<[4, 4], bf16>
  %a = prims.dot %n, %w : !sym.t<[4, 4], bf16>, !sym.t<[4, 4], bf16> -> !sym.t<[4, 4], f32>
  %f = prims.convert %n : !sym.t<[4, 4], bf16> -> !sym.t<[4, 4], f32>
  %s = prims.reduce %f {kind = sum, dims = [0]} : !sym.t<[4, 4], f32> -> !sym.t<[4], f32>
  func.return %a, %s : !sym.t<[4, 4], f32>, !sym.t<[4], f32>
}
