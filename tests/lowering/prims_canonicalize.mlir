// RUN: lamella-opt %s -p 'prims-canonicalize' | filecheck %s
// Constants, neutral operands, conversions and views.

// CHECK-LABEL: func.func @constants(
// CHECK-NEXT: [[C:%\w+]] = prims.full {value = 1.0} : !sym.t<[4], f32>
// CHECK-NEXT: [[R:%\w+]] = prims.sub %x, [[C]] : !sym.t<[4], f32>
// CHECK-NEXT: func.return [[R]] : !sym.t<[4], f32>
func.func @constants(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  %a = prims.full {value = 2.0} : !sym.t<[4], f32>
  %b = prims.full {value = 0.5} : !sym.t<[4], f32>
  %c = prims.mul %a, %b : !sym.t<[4], f32>
  %r = prims.sub %x, %c : !sym.t<[4], f32>
  func.return %r : !sym.t<[4], f32>
}

// CHECK-LABEL: func.func @times_one(
// CHECK-NEXT: [[R:%\w+]] = prims.exp %x : !sym.t<[4], f32>
// CHECK-NEXT: func.return [[R]] : !sym.t<[4], f32>
func.func @times_one(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  %a = prims.full {value = 1.0} : !sym.t<[4], f32>
  %b = prims.mul %x, %a : !sym.t<[4], f32>
  %r = prims.exp %b : !sym.t<[4], f32>
  func.return %r : !sym.t<[4], f32>
}

// x + 0.0 is not x: -0.0 becomes 0.0.
// CHECK-LABEL: func.func @plus_zero(
// CHECK-NEXT: [[A:%\w+]] = prims.full {value = 0.0} : !sym.t<[4], f32>
// CHECK-NEXT: [[R:%\w+]] = prims.add %x, [[A]] : !sym.t<[4], f32>
// CHECK-NEXT: func.return [[R]] : !sym.t<[4], f32>
func.func @plus_zero(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  %a = prims.full {value = 0.0} : !sym.t<[4], f32>
  %r = prims.add %x, %a : !sym.t<[4], f32>
  func.return %r : !sym.t<[4], f32>
}

// CHECK-LABEL: func.func @plus_negative_zero(
// CHECK-NEXT: [[R:%\w+]] = prims.neg %x : !sym.t<[4], f32>
// CHECK-NEXT: func.return [[R]] : !sym.t<[4], f32>
func.func @plus_negative_zero(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  %a = prims.full {value = -0.0} : !sym.t<[4], f32>
  %b = prims.add %x, %a : !sym.t<[4], f32>
  %r = prims.neg %b : !sym.t<[4], f32>
  func.return %r : !sym.t<[4], f32>
}

// Eager's rounding in between is dropped, the last one stays.
// CHECK-LABEL: func.func @rounding(
// CHECK-NEXT: [[A:%\w+]] = prims.convert %x : !sym.t<[4], bf16> -> !sym.t<[4], f32>
// CHECK-NEXT: [[B:%\w+]] = prims.exp [[A]] : !sym.t<[4], f32>
// CHECK-NEXT: [[E:%\w+]] = prims.neg [[B]] : !sym.t<[4], f32>
// CHECK-NEXT: [[R:%\w+]] = prims.convert [[E]] {rounding} : !sym.t<[4], f32> -> !sym.t<[4], bf16>
// CHECK-NEXT: func.return [[R]] : !sym.t<[4], bf16>
func.func @rounding(%x: !sym.t<[4], bf16>) -> !sym.t<[4], bf16> {
  %a = prims.convert %x : !sym.t<[4], bf16> -> !sym.t<[4], f32>
  %b = prims.exp %a : !sym.t<[4], f32>
  %c = prims.convert %b {rounding} : !sym.t<[4], f32> -> !sym.t<[4], bf16>
  %d = prims.convert %c : !sym.t<[4], bf16> -> !sym.t<[4], f32>
  %e = prims.neg %d : !sym.t<[4], f32>
  %r = prims.convert %e {rounding} : !sym.t<[4], f32> -> !sym.t<[4], bf16>
  func.return %r : !sym.t<[4], bf16>
}

// CHECK-LABEL: func.func @rounding_through_views(
// CHECK-NEXT: [[D:%\w+]] = prims.reshape %x : !sym.t<[4], f32> -> !sym.t<[2, 2], f32>
// CHECK-NEXT: [[R:%\w+]] = prims.neg [[D]] : !sym.t<[2, 2], f32>
// CHECK-NEXT: func.return [[R]] : !sym.t<[2, 2], f32>
func.func @rounding_through_views(%x: !sym.t<[4], f32>) -> !sym.t<[2, 2], f32> {
  %c = prims.convert %x {rounding} : !sym.t<[4], f32> -> !sym.t<[4], bf16>
  %v = prims.reshape %c : !sym.t<[4], bf16> -> !sym.t<[2, 2], bf16>
  %d = prims.convert %v : !sym.t<[2, 2], bf16> -> !sym.t<[2, 2], f32>
  %r = prims.neg %d : !sym.t<[2, 2], f32>
  func.return %r : !sym.t<[2, 2], f32>
}

// A conversion that the program asks for stays.
// CHECK-LABEL: func.func @asked_for(
// CHECK-NEXT: [[C:%\w+]] = prims.convert %x : !sym.t<[4], f32> -> !sym.t<[4], bf16>
// CHECK-NEXT: [[R:%\w+]] = prims.convert [[C]] : !sym.t<[4], bf16> -> !sym.t<[4], f32>
// CHECK-NEXT: func.return [[R]] : !sym.t<[4], f32>
func.func @asked_for(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  %c = prims.convert %x : !sym.t<[4], f32> -> !sym.t<[4], bf16>
  %r = prims.convert %c : !sym.t<[4], bf16> -> !sym.t<[4], f32>
  func.return %r : !sym.t<[4], f32>
}

// CHECK-LABEL: func.func @widening(
// CHECK-NEXT: [[R:%\w+]] = prims.neg %x : !sym.t<[4], bf16>
// CHECK-NEXT: func.return [[R]] : !sym.t<[4], bf16>
func.func @widening(%x: !sym.t<[4], bf16>) -> !sym.t<[4], bf16> {
  %a = prims.convert %x : !sym.t<[4], bf16> -> !sym.t<[4], f32>
  %b = prims.convert %a : !sym.t<[4], f32> -> !sym.t<[4], bf16>
  %r = prims.neg %b : !sym.t<[4], bf16>
  func.return %r : !sym.t<[4], bf16>
}

// CHECK-LABEL: func.func @views(
// CHECK-NEXT: [[D:%\w+]] = prims.reshape %x : !sym.t<[s0, 16], f32> -> !sym.t<[16, s0], f32>
// CHECK-NEXT: [[R:%\w+]] = prims.neg [[D]] : !sym.t<[16, s0], f32>
// CHECK-NEXT: func.return [[R]] : !sym.t<[16, s0], f32>
func.func @views(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[16, s0], f32> {
  %a = prims.transpose %x {perm = [1, 0]} : !sym.t<[s0, 16], f32> -> !sym.t<[16, s0], f32, strides=[1, 16]>
  %b = prims.transpose %a {perm = [1, 0]} : !sym.t<[16, s0], f32, strides=[1, 16]> -> !sym.t<[s0, 16], f32>
  %c = prims.reshape %b : !sym.t<[s0, 16], f32> -> !sym.t<[s0, 4, 4], f32>
  %d = prims.reshape %c : !sym.t<[s0, 4, 4], f32> -> !sym.t<[16, s0], f32>
  %r = prims.neg %d : !sym.t<[16, s0], f32>
  func.return %r : !sym.t<[16, s0], f32>
}

// CHECK-LABEL: func.func @slices(
// CHECK-NEXT: [[B:%\w+]] = prims.slice %x {start = [4], stop = [23], step = [6]} : !sym.t<[32], f32> -> !sym.t<[4], f32, strides=[6]>
// CHECK-NEXT: [[R:%\w+]] = prims.neg [[B]] : !sym.t<[4], f32, strides=[6]> -> !sym.t<[4], f32>
// CHECK-NEXT: func.return [[R]] : !sym.t<[4], f32>
func.func @slices(%x: !sym.t<[32], f32>) -> !sym.t<[4], f32> {
  %a = prims.slice %x {start = [2], stop = [30], step = [2]} : !sym.t<[32], f32> -> !sym.t<[14], f32, strides=[2]>
  %b = prims.slice %a {start = [1], stop = [12], step = [3]} : !sym.t<[14], f32, strides=[2]> -> !sym.t<[4], f32, strides=[6]>
  %r = prims.neg %b : !sym.t<[4], f32, strides=[6]> -> !sym.t<[4], f32>
  func.return %r : !sym.t<[4], f32>
}

// CHECK-LABEL: func.func @equal(
// CHECK-NEXT: [[A:%\w+]] = prims.exp %x : !sym.t<[4], f32>
// CHECK-NEXT: [[R:%\w+]] = prims.add [[A]], [[A]] : !sym.t<[4], f32>
// CHECK-NEXT: func.return [[R]] : !sym.t<[4], f32>
func.func @equal(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  %a = prims.exp %x : !sym.t<[4], f32>
  %b = prims.exp %x : !sym.t<[4], f32>
  %r = prims.add %a, %b : !sym.t<[4], f32>
  func.return %r : !sym.t<[4], f32>
}

// CHECK-LABEL: func.func @dead(
// CHECK-NEXT: [[R:%\w+]] = prims.log %x : !sym.t<[4], f32>
// CHECK-NEXT: func.return [[R]] : !sym.t<[4], f32>
func.func @dead(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  %a = prims.exp %x : !sym.t<[4], f32>
  %b = prims.neg %a : !sym.t<[4], f32>
  %r = prims.log %x : !sym.t<[4], f32>
  func.return %r : !sym.t<[4], f32>
}

// An index that is known is an expression, and surely within bounds.
// CHECK-LABEL: func.func @index_is_iota(
// CHECK-NEXT: [[R:%\w+]] = prims.gather %x[] {index = [d0, d1]} : !sym.t<[s0, 16], f32> -> !sym.t<[s0, 4], f32>
// CHECK-NEXT: func.return [[R]] : !sym.t<[s0, 4], f32>
func.func @index_is_iota(%x: !sym.t<[s0, 16], f32>) -> !sym.t<[s0, 4], f32> {
  %i = prims.iota {dim = 0} : !sym.t<[4], i64>
  %z = prims.full {value = 0} : !sym.t<[4], i64>
  %n = prims.full {value = 16} : !sym.t<[4], i64>
  %lt = prims.lt %i, %z : !sym.t<[4], i64> -> !sym.t<[4], i1>
  %e = prims.add %i, %n : !sym.t<[4], i64>
  %w = prims.select %lt, %e, %i : !sym.t<[4], i1>, !sym.t<[4], i64>, !sym.t<[4], i64> -> !sym.t<[4], i64>
  %b = prims.broadcast %w {dims = [1]} : !sym.t<[4], i64> -> !sym.t<[s0, 4], i64>
  %r = prims.gather %x[%b] {index = [d0, i0], message = "index out of bounds"} : !sym.t<[s0, 16], f32>, !sym.t<[s0, 4], i64> -> !sym.t<[s0, 4], f32>
  func.return %r : !sym.t<[s0, 4], f32>
}

// What is chosen is not rounded where what it is chosen from is not.
// CHECK-LABEL: func.func @choice_of_rounded(
// CHECK-NEXT: [[C:%\w+]] = prims.full {value = 0.5} : !sym.t<[4], f32>
// CHECK-NEXT: [[M:%\w+]] = prims.maximum %x, [[C]] : !sym.t<[4], f32>
// CHECK-NEXT: [[R:%\w+]] = prims.sub %x, [[M]] : !sym.t<[4], f32>
// CHECK-NEXT: func.return [[R]] : !sym.t<[4], f32>
func.func @choice_of_rounded(%x: !sym.t<[4], f32>) -> !sym.t<[4], f32> {
  %h = prims.convert %x {rounding} : !sym.t<[4], f32> -> !sym.t<[4], bf16>
  %c = prims.full {value = 0.5} : !sym.t<[4], bf16>
  %m = prims.maximum %h, %c : !sym.t<[4], bf16>
  %a = prims.convert %h : !sym.t<[4], bf16> -> !sym.t<[4], f32>
  %b = prims.convert %m : !sym.t<[4], bf16> -> !sym.t<[4], f32>
  %r = prims.sub %a, %b : !sym.t<[4], f32>
  func.return %r : !sym.t<[4], f32>
}

// What is read after a call that it does not wait for is in memory, rounded: so it is for all who read it.
// CHECK-LABEL: func.func @rounded_in_memory(
// CHECK-NEXT: [[H:%\w+]] = prims.convert %x {rounding} : !sym.t<[4, 4], f32> -> !sym.t<[4, 4], bf16>
// CHECK-NEXT: [[A:%\w+]] = prims.convert [[H]] : !sym.t<[4, 4], bf16> -> !sym.t<[4, 4], f32>
// CHECK-NEXT: [[E:%\w+]] = prims.exp [[A]] : !sym.t<[4, 4], f32>
// CHECK-NEXT: [[Y:%\w+]] = aten.mm([[E]], [[E]])
// CHECK-NEXT: [[R:%\w+]] = prims.add [[A]], [[Y]] : !sym.t<[4, 4], f32>
// CHECK-NEXT: func.return [[R]] : !sym.t<[4, 4], f32>
func.func @rounded_in_memory(%x: !sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32> {
  %h = prims.convert %x {rounding} : !sym.t<[4, 4], f32> -> !sym.t<[4, 4], bf16>
  %a = prims.convert %h : !sym.t<[4, 4], bf16> -> !sym.t<[4, 4], f32>
  %e = prims.exp %a : !sym.t<[4, 4], f32>
  %y = aten.mm(%e, %e) : (!sym.t<[4, 4], f32>, !sym.t<[4, 4], f32>) -> !sym.t<[4, 4], f32>
  %b = prims.convert %h : !sym.t<[4, 4], bf16> -> !sym.t<[4, 4], f32>
  %r = prims.add %b, %y : !sym.t<[4, 4], f32>
  func.return %r : !sym.t<[4, 4], f32>
}

// So are a choice that is returned, and what it is made from.
// CHECK-LABEL: func.func @rounded_result(
// CHECK-NEXT: [[H:%\w+]] = prims.convert %x {rounding} : !sym.t<[4], f32> -> !sym.t<[4], bf16>
// CHECK-NEXT: [[C:%\w+]] = prims.full {value = 0.5} : !sym.t<[4], bf16>
// CHECK-NEXT: [[M:%\w+]] = prims.maximum [[H]], [[C]] : !sym.t<[4], bf16>
// CHECK-NEXT: [[A:%\w+]] = prims.convert [[H]] : !sym.t<[4], bf16> -> !sym.t<[4], f32>
// CHECK-NEXT: [[B:%\w+]] = prims.convert [[M]] : !sym.t<[4], bf16> -> !sym.t<[4], f32>
// CHECK-NEXT: [[R:%\w+]] = prims.sub [[A]], [[B]] : !sym.t<[4], f32>
// CHECK-NEXT: func.return [[M]], [[R]]
func.func @rounded_result(%x: !sym.t<[4], f32>) -> (!sym.t<[4], bf16>, !sym.t<[4], f32>) {
  %h = prims.convert %x {rounding} : !sym.t<[4], f32> -> !sym.t<[4], bf16>
  %c = prims.full {value = 0.5} : !sym.t<[4], bf16>
  %m = prims.maximum %h, %c : !sym.t<[4], bf16>
  %a = prims.convert %h : !sym.t<[4], bf16> -> !sym.t<[4], f32>
  %b = prims.convert %m : !sym.t<[4], bf16> -> !sym.t<[4], f32>
  %r = prims.sub %a, %b : !sym.t<[4], f32>
  func.return %m, %r : !sym.t<[4], bf16>, !sym.t<[4], f32>
}

// Updates of zeros that are added to a product are made in it; added to anything else, -0.0 would stay.
// CHECK-LABEL: func.func @tied(
// CHECK-NEXT: [[M:%\w+]] = aten.mm(%a, %b)
// CHECK-NEXT: [[R:%\w+]] = prims.scatter [[M]][%i], %v {index = [i0, d1], combine = add}
// CHECK-NEXT: func.return [[R]]
func.func @tied(%a: !sym.t<[8, 4], f32>, %b: !sym.t<[4, 6], f32>, %i: !sym.t<[3, 6], i64>, %v: !sym.t<[3, 6], f32>) -> !sym.t<[8, 6], f32> {
  %m = aten.mm(%a, %b) : (!sym.t<[8, 4], f32>, !sym.t<[4, 6], f32>) -> !sym.t<[8, 6], f32>
  %z = prims.full {value = 0.0} : !sym.t<[8, 6], f32>
  %s = prims.scatter %z[%i], %v {index = [i0, d1], combine = add} : !sym.t<[8, 6], f32>, !sym.t<[3, 6], i64>, !sym.t<[3, 6], f32> -> !sym.t<[8, 6], f32>
  %r = prims.add %s, %m : !sym.t<[8, 6], f32>
  func.return %r : !sym.t<[8, 6], f32>
}

// CHECK-LABEL: func.func @not_tied(
// CHECK: prims.full
// CHECK: prims.scatter
// CHECK: prims.add
func.func @not_tied(%m: !sym.t<[8, 6], f32>, %i: !sym.t<[3, 6], i64>, %v: !sym.t<[3, 6], f32>) -> !sym.t<[8, 6], f32> {
  %z = prims.full {value = 0.0} : !sym.t<[8, 6], f32>
  %s = prims.scatter %z[%i], %v {index = [i0, d1], combine = add} : !sym.t<[8, 6], f32>, !sym.t<[3, 6], i64>, !sym.t<[3, 6], f32> -> !sym.t<[8, 6], f32>
  %r = prims.add %s, %m : !sym.t<[8, 6], f32>
  func.return %r : !sym.t<[8, 6], f32>
}

// A number other than 0 divides whatever there is, a size too; of narrow integers a size may be 0.
// CHECK-LABEL: func.func @divided_by_number(
// CHECK: prims.div_floor %x, {{%\w+}} : !sym.t<[4], i64>
// CHECK: prims.rem %x, {{%\w+}} : !sym.t<[4], i64>
// CHECK: prims.div_trunc %y, {{%\w+}} {message = "RuntimeError: ZeroDivisionError"} : !sym.t<[4], i8>
// CHECK: prims.rem %x, {{%\w+}} {message = "RuntimeError: ZeroDivisionError"} : !sym.t<[4], i64>
func.func @divided_by_number(%x: !sym.t<[4], i64>, %y: !sym.t<[4], i8>, %n: !sym.int<s0>) -> (!sym.t<[4], i64>, !sym.t<[4], i64>, !sym.t<[4], i8>, !sym.t<[4], i64>) {
  %seven = prims.full {value = 7} : !sym.t<[4], i64>
  %size = prims.full {value = s0} : !sym.t<[4], i64>
  %narrow = prims.full {value = s0} : !sym.t<[4], i8>
  %zero = prims.full {value = 0} : !sym.t<[4], i64>
  %a = prims.div_floor %x, %seven {message = "RuntimeError: ZeroDivisionError"} : !sym.t<[4], i64>
  %b = prims.rem %x, %size {message = "RuntimeError: ZeroDivisionError"} : !sym.t<[4], i64>
  %c = prims.div_trunc %y, %narrow {message = "RuntimeError: ZeroDivisionError"} : !sym.t<[4], i8>
  %d = prims.rem %x, %zero {message = "RuntimeError: ZeroDivisionError"} : !sym.t<[4], i64>
  func.return %a, %b, %c, %d : !sym.t<[4], i64>, !sym.t<[4], i64>, !sym.t<[4], i8>, !sym.t<[4], i64>
}

// CHECK-LABEL: func.func @checked(
// CHECK-NEXT: [[R:%\w+]] = prims.checked %c, %x {message = "no"} : !sym.t<[4], i1>, !sym.t<[4], f32> -> !sym.t<[4], f32>
// CHECK-NEXT: func.return [[R]] : !sym.t<[4], f32>
func.func @checked(%x: !sym.t<[4], f32>, %c: !sym.t<[4], i1>) -> !sym.t<[4], f32> {
  %t = prims.full {value = true} : !sym.t<[4], i1>
  %a = prims.checked %t, %x {message = "never"} : !sym.t<[4], i1>, !sym.t<[4], f32> -> !sym.t<[4], f32>
  %r = prims.checked %c, %a {message = "no"} : !sym.t<[4], i1>, !sym.t<[4], f32> -> !sym.t<[4], f32>
  func.return %r : !sym.t<[4], f32>
}

// A tensor that is read both ways is converted once; a copy in another order stays one.
// CHECK-LABEL: func.func @transposed(
// CHECK-NEXT: [[V:%\w+]] = prims.transpose %x {perm = [1, 0]}
// CHECK-NEXT: [[X:%\w+]] = prims.convert %x : !sym.t<[s0, 16], bf16> -> !sym.t<[s0, 16], f32>
// CHECK-NEXT: [[T:%\w+]] = prims.transpose [[X]] {perm = [1, 0]} : !sym.t<[s0, 16], f32> -> !sym.t<[16, s0], f32, strides=[1, 16]>
// CHECK-NEXT: [[A:%\w+]] = aten.mm([[T]], [[X]])
// CHECK-NEXT: [[C:%\w+]] = prims.convert [[V]] : {{.*}} -> !sym.t<[16, s0], f32>
// CHECK-NEXT: func.return [[A]], [[C]]
func.func @transposed(%x: !sym.t<[s0, 16], bf16>) -> (!sym.t<[16, 16], f32>, !sym.t<[16, s0], f32>) {
  %t = prims.transpose %x {perm = [1, 0]} : !sym.t<[s0, 16], bf16> -> !sym.t<[16, s0], bf16, strides=[1, 16]>
  %a = prims.convert %t : !sym.t<[16, s0], bf16, strides=[1, 16]> -> !sym.t<[16, s0], f32, strides=[1, 16]>
  %b = prims.convert %x : !sym.t<[s0, 16], bf16> -> !sym.t<[s0, 16], f32>
  %c = aten.mm(%a, %b) : (!sym.t<[16, s0], f32, strides=[1, 16]>, !sym.t<[s0, 16], f32>) -> !sym.t<[16, 16], f32>
  %d = prims.convert %t : !sym.t<[16, s0], bf16, strides=[1, 16]> -> !sym.t<[16, s0], f32>
  func.return %c, %d : !sym.t<[16, 16], f32>, !sym.t<[16, s0], f32>
}

// What eager rounds is not rounded in between, unless it may be stored there: what a reduction gives, and what is summed
// up and read again.
// CHECK-LABEL: func.func @rounded(
// CHECK:       [[A:%\w+]] = prims.add %x, %x
// CHECK-NEXT:  [[H:%\w+]] = prims.convert [[A]] {rounding} : !sym.t<[8, 64], f32> -> !sym.t<[8, 64], bf16>
// CHECK-NEXT:  [[W:%\w+]] = prims.convert [[H]] : !sym.t<[8, 64], bf16> -> !sym.t<[8, 64], f32>
// CHECK-NEXT:  [[S:%\w+]] = prims.reduce [[W]] {kind = sum, dims = [0]}
// CHECK-NEXT:  [[R:%\w+]] = prims.convert [[S]] {rounding}
// CHECK-NEXT:  [[Q:%\w+]] = prims.convert [[R]]
// CHECK-NEXT:  [[B:%\w+]] = prims.broadcast [[Q]]
// CHECK-NEXT:  [[Y:%\w+]] = prims.sub [[W]], [[B]]
// CHECK-NEXT:  [[M:%\w+]] = prims.mul %x, %x
// CHECK-NEXT:  [[Z:%\w+]] = prims.mul [[M]], [[M]]
// CHECK-NEXT:  func.return [[Y]], [[Z]]
func.func @rounded(%x: !sym.t<[8, 64], f32>) -> (!sym.t<[8, 64], f32>, !sym.t<[8, 64], f32>) {
  %a = prims.add %x, %x : !sym.t<[8, 64], f32>
  %h = prims.convert %a {rounding} : !sym.t<[8, 64], f32> -> !sym.t<[8, 64], bf16>
  %w = prims.convert %h : !sym.t<[8, 64], bf16> -> !sym.t<[8, 64], f32>
  %s = prims.reduce %w {kind = sum, dims = [0]} : !sym.t<[8, 64], f32> -> !sym.t<[64], f32>
  %r = prims.convert %s {rounding} : !sym.t<[64], f32> -> !sym.t<[64], bf16>
  %q = prims.convert %r : !sym.t<[64], bf16> -> !sym.t<[64], f32>
  %b = prims.broadcast %q {dims = [1]} : !sym.t<[64], f32> -> !sym.t<[8, 64], f32>
  %y = prims.sub %w, %b : !sym.t<[8, 64], f32>
  %m = prims.mul %x, %x : !sym.t<[8, 64], f32>
  %n = prims.convert %m {rounding} : !sym.t<[8, 64], f32> -> !sym.t<[8, 64], bf16>
  %o = prims.convert %n : !sym.t<[8, 64], bf16> -> !sym.t<[8, 64], f32>
  %z = prims.mul %o, %o : !sym.t<[8, 64], f32>
  func.return %y, %z : !sym.t<[8, 64], f32>, !sym.t<[8, 64], f32>
}
