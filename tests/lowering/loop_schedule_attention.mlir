// RUN: lamella-opt %s --split-input-file -p 'aten-choose-products{choose=all target=avx512},aten-to-prims,prims-canonicalize,prims-to-loop,loop-fuse,loop-schedule{bits=512 threads=2}' | filecheck %s

// Blocks of rows: of the keys a strip at a time with columns as neighbours, tiles of six rows and four vectors, rows of
// scores that stay in a buffer, and of the values a part at a time. The last tile of rows is a whole one.

// CHECK:      grid [d0 = 8, t0 = 2]
// CHECK:      [[S:%\w+]] = loop.scratch : !sym.t<[128, 256], f32>
// CHECK:      loop.for [c0 = 4] {
// CHECK-NEXT:   [[K:%\w+]] = loop.scratch : !sym.t<[64, 64], f32>
// CHECK-NEXT:   loop.for [d3 = 64*c0 : 64*c0 + 64, r0 = 64] attributes {transpose = 16 : i64} {
// CHECK-NEXT:     [[X:%\w+]] = loop.load %x1[d0, d3, r0]
// CHECK-NEXT:     loop.store [[X]], [[K]][r0, -64*c0 + d3]
// CHECK:        loop.for [c1 = 22] {
// CHECK:          loop.for [d3 = 64*c0 : 64*c0 + 64] attributes {vector = "d3", lanes = 16 : i64, unroll = 4 : i64} {
// CHECK:            loop.for [r0 = 64] reduce [add, add, add, add, add, add] {
// CHECK:              loop.load [[K]][r0, -64*c0 + d3]
// CHECK:              loop.load %x0[d0, 128*t0 + min(122, 6*c1) + 5, r0]
// CHECK:            loop.store {{.*}}, [[S]][min(122, 6*c1) + 5, d3]
// CHECK:      loop.for [d2 = 128*t0 : 128*t0 + 128] {
// CHECK:        loop.for [d3 = 256] reduce [max] attributes {vector = "d3", lanes = 16 : i64, unroll = 4 : i64} {
// CHECK:        loop.for [d3 = 256] reduce [add] attributes {vector = "d3", lanes = 16 : i64, unroll = 2 : i64} {
// CHECK:      loop.for [c2 = 2] {
// CHECK-NEXT:   loop.for [c1 = 22] {
// CHECK-NEXT:     loop.for [d4 = 64] attributes {vector = "d4", lanes = 16 : i64, unroll = 4 : i64} {
// CHECK:            loop.for [d3 = 128*c2 : 128*c2 + 128] reduce [add, add, add, add, add, add] {
// CHECK:            loop.load {{.*}}[mod(c2, 2), min(122, 6*c1), d4]
// CHECK:            arith.addf
// CHECK:            loop.store {{.*}}[mod(c2 + 1, 2), min(122, 6*c1), d4]
// CHECK:      arith.divf
func.func @main(%q: !sym.t<[2, 4, 256, 64], f32>, %k: !sym.t<[2, 4, 256, 64], f32>, %v: !sym.t<[2, 4, 256, 64], f32>) -> !sym.t<[2, 4, 256, 64], f32> {
  %y, %l = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %v) : (!sym.t<[2, 4, 256, 64], f32>, !sym.t<[2, 4, 256, 64], f32>, !sym.t<[2, 4, 256, 64], f32>) -> (!sym.t<[2, 4, 256, 64], f32>, !sym.t<[2, 4, 256], f32>)
  func.return %y : !sym.t<[2, 4, 256, 64], f32>
}

// -----

// Keys that no row of a block sees are left out: of scores, of rows, and of the sum.

// CHECK:      grid [d0 = 8, t0 = 4]
// CHECK:      loop.for [c0 = min(4, floordiv(min(256, 64*t0 + 64) + 63, 64))] {
// CHECK:      loop.for [d3 = min(256, 64*t0 + 64)] reduce [max]
// CHECK:      loop.for [d3 = min(256, 64*t0 + 64)] reduce [add]
// CHECK:      loop.for [c2 = min(2, floordiv(min(256, 64*t0 + 64) + 127, 128))] {
// CHECK:        loop.for [d3 = 128*c2 : min(256, 128*c2 + 128, 64*t0 + 64)] reduce [add, {{.*}}] {
func.func @main(%q: !sym.t<[2, 4, 256, 64], f32>, %k: !sym.t<[2, 4, 256, 64], f32>, %v: !sym.t<[2, 4, 256, 64], f32>) -> !sym.t<[2, 4, 256, 64], f32> {
  %y, %l = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %v, 0.0, true) : (!sym.t<[2, 4, 256, 64], f32>, !sym.t<[2, 4, 256, 64], f32>, !sym.t<[2, 4, 256, 64], f32>) -> (!sym.t<[2, 4, 256, 64], f32>, !sym.t<[2, 4, 256], f32>)
  func.return %y : !sym.t<[2, 4, 256, 64], f32>
}

// -----

// Rows of halves become f32 once for all columns, as keys and values do.

// CHECK:      loop.for [d2 = 64*t0 : 64*t0 + 64, r0 = 64]
// CHECK-NEXT:   [[X:%\w+]] = loop.load %x0[d0, d2, r0]
// CHECK-NEXT:   [[Y:%\w+]] = arith.extf [[X]]
// CHECK-NEXT:   loop.store [[Y]], [[Q:%\w+]][d2 - 64*t0, r0]
// CHECK:        loop.for [r0 = 64] reduce [add, {{.*}}] {
// CHECK-NEXT:     loop.load [[Q]][min(58, 6*c1), r0]
func.func @main(%q: !sym.t<[2, 4, 256, 64], bf16>, %k: !sym.t<[2, 4, 256, 64], bf16>, %v: !sym.t<[2, 4, 256, 64], bf16>) -> !sym.t<[2, 4, 256, 64], bf16> {
  %y, %l = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %v, 0.0, true) : (!sym.t<[2, 4, 256, 64], bf16>, !sym.t<[2, 4, 256, 64], bf16>, !sym.t<[2, 4, 256, 64], bf16>) -> (!sym.t<[2, 4, 256, 64], bf16>, !sym.t<[2, 4, 256], f32>)
  func.return %y : !sym.t<[2, 4, 256, 64], bf16>
}
