// RUN: lamella-opt %s -p 'aten-choose-products{target=amx},aten-to-prims,prims-canonicalize,prims-to-loop,loop-fuse' | filecheck %s
// One query in halves: its weights are rounded and kept in the loop that adds them up. In the loop of the values they
// would be computed again, each by itself.

// CHECK:      [[W:%\w+]] = loop.scratch : !sym.t<[128], bf16>
// CHECK:      math.exp
// CHECK-NEXT: arith.truncf
// CHECK-NEXT: loop.store {{.*}}, [[W]][
// CHECK-NOT:  math.exp
// CHECK:      loop.load [[W]][
func.func @main(%q: !sym.t<[1, 8, 1, 64], bf16>, %k: !sym.t<[1, 8, 128, 64], bf16>, %v: !sym.t<[1, 8, 128, 64], bf16>) -> !sym.t<[1, 8, 1, 64], bf16> {
  %0, %1 = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %v, 0.0, false, none, none) : (!sym.t<[1, 8, 1, 64], bf16>, !sym.t<[1, 8, 128, 64], bf16>, !sym.t<[1, 8, 128, 64], bf16>) -> (!sym.t<[1, 8, 1, 64], bf16>, !sym.t<[1, 8, 1], f32>)
  func.return %0 : !sym.t<[1, 8, 1, 64], bf16>
}
