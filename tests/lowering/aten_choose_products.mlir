// RUN: lamella-opt %s --split-input-file -p 'aten-choose-products{target=avx512}' | filecheck %s

// A row times a weight, as linear layers keep it, reads the weight once. BLAS does so too where the matrix of f32 lies
// the other way.

// CHECK-LABEL: lamella.decisions = ["aten.mm f32*f32->f32 1x1x64x32 kk plain: a kernel, one row reads the matrix at the speed of memory"]
// CHECK: aten.mm(%x, %w) {lamella.product = "generated"}
// CHECK: aten.mm(%x, %v) :
func.func @main(%x: !sym.t<[1, 32], f32>, %w: !sym.t<[32, 64], f32, strides=[1, 32]>, %v: !sym.t<[32, 64], f32>) -> (!sym.t<[1, 64], f32>, !sym.t<[1, 64], f32>) {
  %0 = aten.mm(%x, %w) : (!sym.t<[1, 32], f32>, !sym.t<[32, 64], f32, strides=[1, 32]>) -> !sym.t<[1, 64], f32>
  %1 = aten.mm(%x, %v) : (!sym.t<[1, 32], f32>, !sym.t<[32, 64], f32>) -> !sym.t<[1, 64], f32>
  func.return %0, %1 : !sym.t<[1, 64], f32>, !sym.t<[1, 64], f32>
}

// -----

// A measurement decides, where there is one; of sizes that other calls may change, it is none.

// CHECK-LABEL: lamella.decisions
// CHECK-SAME: "aten.addmm f32*f32->f32 1x300x64x32 kn bias: a kernel, measured: generated 5.0 us, ATen 9.0 us"
// CHECK-SAME: "aten.mm bf16*i8->bf16 1x1x64x32 kk plain: ATen, measured: ATen 3.0 us, generated 4.0 us"
// CHECK: aten.addmm(%b, %x, %v) {lamella.product = "generated"}
// CHECK: aten.mm(%y, %w) :
// CHECK: aten.mm(%z, %v) :
builtin.module attributes {
    lamella.hints = {s0 = 300 : i64},
    lamella.products = {
      "f32*f32->f32 1x300x64x32 kn bias" = "generated 5.0 us, ATen 9.0 us",
      "f32*f32->f32 1x300x64x32 kn plain" = "generated 5.0 us, ATen 9.0 us",
      "bf16*i8->bf16 1x1x64x32 kk plain" = "ATen 3.0 us, generated 4.0 us"}} {
  func.func @main(%b: !sym.t<[64], f32>, %x: !sym.t<[300, 32], f32>, %v: !sym.t<[32, 64], f32>, %y: !sym.t<[1, 32], bf16>, %i: !sym.t<[64, 32], i8>, %z: !sym.t<[s0, 32], f32>) -> (!sym.t<[300, 64], f32>, !sym.t<[1, 64], bf16>, !sym.t<[s0, 64], f32>) {
    %0 = aten.addmm(%b, %x, %v) : (!sym.t<[64], f32>, !sym.t<[300, 32], f32>, !sym.t<[32, 64], f32>) -> !sym.t<[300, 64], f32>
    %c = aten._to_copy(%i, dtype = bf16) : (!sym.t<[64, 32], i8>) -> !sym.t<[64, 32], bf16>
    %w = aten.t(%c) : (!sym.t<[64, 32], bf16>) -> !sym.t<[32, 64], bf16, strides=[1, 32]>
    %1 = aten.mm(%y, %w) : (!sym.t<[1, 32], bf16>, !sym.t<[32, 64], bf16, strides=[1, 32]>) -> !sym.t<[1, 64], bf16>
    %2 = aten.mm(%z, %v) : (!sym.t<[s0, 32], f32>, !sym.t<[32, 64], f32>) -> !sym.t<[s0, 64], f32>
    func.return %0, %1, %2 : !sym.t<[300, 64], f32>, !sym.t<[1, 64], bf16>, !sym.t<[s0, 64], f32>
  }
}
