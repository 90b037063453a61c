// RUN: lamella-opt %s -p 'aten-choose-products{choose=all target=avx512},aten-to-prims,prims-canonicalize,prims-to-loop,loop-fuse,loop-schedule{bits=512 threads=2 amx=true}' | filecheck %s

// On matrix units keys and values are packed in pairs along the sum; scores are sums of tiles as they are; weights are
// rounded to bf16 where the sum of their row is made. The quotient comes last.

// CHECK:      grid [d0 = 8] 
// CHECK:      loop.for [d3 = 256, r0 = 64] attributes {pack = "r0"} {
// CHECK-NEXT:   loop.load %x1[d0, d3, r0]
// CHECK-NEXT:   loop.store {{.*}}, [[K:%\w+]][floordiv(d3, 16), floordiv(r0, 2), mod(d3, 16), mod(r0, 2)]
// CHECK:      loop.for [d2 = 256, d3 = 256] attributes {matrix} {
// CHECK-NEXT:   loop.for [r0 = 64] reduce [add] {
// CHECK-NEXT:     loop.load %x0[d0, d2, r0]
// CHECK-NEXT:     arith.extf
// CHECK-NEXT:     loop.load [[K]]
// CHECK:        loop.store {{.*}}, [[S:%\w+]][d2, d3]
// CHECK:      loop.for [d2 = 256] {
// CHECK:        loop.for [d3 = 256] reduce [max]
// CHECK:        loop.for [d3 = 256] reduce [add]
// CHECK:          [[E:%\w+]] = math.exp
// CHECK-NEXT:     [[H:%\w+]] = arith.truncf [[E]]
// CHECK-NEXT:     loop.store [[H]], [[P:%\w+]][d2, d3] : !sym.t<[256, 256], bf16>
// CHECK-NEXT:     loop.yield [[E]]
// CHECK:      loop.for [d4 = 64, d3 = 256] attributes {pack = "d4"} {
// CHECK:      loop.for [d2 = 256, d4 = 64] attributes {matrix} {
// CHECK-NEXT:   loop.for [d3 = 256] reduce [add] {
// CHECK-NEXT:     loop.load [[P]][d2, d3]
// CHECK:      arith.divf
// CHECK:      loop.store {{.*}}, %y0[d0, d2, d4] : !sym.t<[8, 256, 64], bf16>
func.func @main(%q: !sym.t<[2, 4, 256, 64], bf16>, %k: !sym.t<[2, 4, 256, 64], bf16>, %v: !sym.t<[2, 4, 256, 64], bf16>) -> !sym.t<[2, 4, 256, 64], bf16> {
  %y, %l = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %v) : (!sym.t<[2, 4, 256, 64], bf16>, !sym.t<[2, 4, 256, 64], bf16>, !sym.t<[2, 4, 256, 64], bf16>) -> (!sym.t<[2, 4, 256, 64], bf16>, !sym.t<[2, 4, 256], f32>)
  func.return %y : !sym.t<[2, 4, 256, 64], bf16>
}
