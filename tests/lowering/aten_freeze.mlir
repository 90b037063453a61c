// RUN: lamella-opt %s -p 'aten-freeze' | filecheck %s
// One module has one @main; what is kept is made by @kept. Views are not kept: %t is made where it is used.

// CHECK: builtin.module attributes {lamella.decisions = ["aten.exp of layer.weight is computed once and kept, 256 B"]}
// CHECK-LABEL: func.func @kept(
// CHECK-SAME: %w: !sym.t<[8, 8], f32> {lamella.frozen, lamella.name = "layer.weight", lamella.argument = 1 : i64}) -> !sym.t<[8, 8], f32> {
// CHECK-NEXT: [[T:%\w+]] = aten.t(%w)
// CHECK-NEXT: [[E:%\w+]] = aten.exp([[T]])
// CHECK-NEXT: func.return [[E]]

// CHECK-LABEL: func.func @main(
// CHECK-SAME: %e: !sym.t<[8, 8], f32> {lamella.kept = "aten.exp"})
// CHECK-NEXT: [[U:%\w+]] = aten.t(%w)
// CHECK-NEXT: [[V:%\w+]] = aten.t(%e)
// CHECK-NEXT: [[A:%\w+]] = aten.mm(%x, [[U]])
// CHECK-NEXT: [[B:%\w+]] = aten.mm([[A]], [[V]])
// The caller may write what it gets.
// CHECK-NEXT: [[R:%\w+]] = aten.neg(%w)
// CHECK-NEXT: [[S:%\w+]] = aten.t([[R]])
// A promise about a tensor that the function writes is none.
// CHECK-NEXT: [[N:%\w+]] = aten.add.Tensor(%count, %w)
// Four bytes in place of one are more to read than to compute.
// CHECK-NEXT: [[Q:%\w+]] = aten._to_copy(%q, dtype = f32)
func.func @main(%x: !sym.t<[s0, 8], f32>, %w: !sym.t<[8, 8], f32> {lamella.frozen, lamella.name = "layer.weight"}, %count: !sym.t<[8, 8], f32> {lamella.frozen, lamella.mutated}, %q: !sym.t<[512, 512], i8> {lamella.frozen}, %y: !sym.t<[s0, 512], f32>) -> (!sym.t<[s0, 8], f32>, !sym.t<[8, 8], f32, strides=[1, 8]>, !sym.t<[s0, 512], f32>) {
  %t = aten.t(%w) : (!sym.t<[8, 8], f32>) -> !sym.t<[8, 8], f32, strides=[1, 8]>
  %e = aten.exp(%t) : (!sym.t<[8, 8], f32, strides=[1, 8]>) -> !sym.t<[8, 8], f32>
  %v = aten.t(%e) : (!sym.t<[8, 8], f32>) -> !sym.t<[8, 8], f32, strides=[1, 8]>
  %a = aten.mm(%x, %t) : (!sym.t<[s0, 8], f32>, !sym.t<[8, 8], f32, strides=[1, 8]>) -> !sym.t<[s0, 8], f32>
  %b = aten.mm(%a, %v) : (!sym.t<[s0, 8], f32>, !sym.t<[8, 8], f32, strides=[1, 8]>) -> !sym.t<[s0, 8], f32>
  %r = aten.neg(%w) : (!sym.t<[8, 8], f32>) -> !sym.t<[8, 8], f32>
  %s = aten.t(%r) : (!sym.t<[8, 8], f32>) -> !sym.t<[8, 8], f32, strides=[1, 8]>
  %n = aten.add.Tensor(%count, %w) : (!sym.t<[8, 8], f32>, !sym.t<[8, 8], f32>) -> !sym.t<[8, 8], f32>
  %d = aten._to_copy(%q, dtype = f32) : (!sym.t<[512, 512], i8>) -> !sym.t<[512, 512], f32>
  %m = aten.mm(%y, %d) : (!sym.t<[s0, 512], f32>, !sym.t<[512, 512], f32>) -> !sym.t<[s0, 512], f32>
  %o = aten.copy_(%count, %n) : (!sym.t<[8, 8], f32>, !sym.t<[8, 8], f32>) -> !sym.t<[8, 8], f32>
  func.return %b, %s, %m : !sym.t<[s0, 8], f32>, !sym.t<[8, 8], f32, strides=[1, 8]>, !sym.t<[s0, 512], f32>
}
