// RUN: lamella-opt %s --split-input-file -p 'aten-choose-products{target=avx512}' | filecheck %s
// RUN: lamella-opt %s --split-input-file -p 'aten-choose-products{target=avx2}' | filecheck %s --check-prefix AVX2
// RUN: lamella-opt %s --split-input-file -p 'aten-choose-products{target=amx}' | filecheck %s --check-prefix AMX
// RUN: lamella-opt %s --split-input-file -p 'aten-choose-products{target=zen4}' | filecheck %s --check-prefix ZEN4

// A row times a weight, as linear layers keep it, reads the weight once. BLAS does so too where the matrix of f32 lies
// the other way, if it has more to do than the call costs.

// CHECK-LABEL: lamella.decisions = ["aten.mm f32*f32->f32 1x1x1000x512 kk plain: a kernel, one row reads the matrix at the speed of memory", "aten.mm f32*f32->f32 1x1x1000x512 kn plain: ATen, where nothing is known to be faster"]
// CHECK: aten.mm(%x, %w) {lamella.product = "generated"}
// CHECK: aten.mm(%x, %v) :
func.func @main(%x: !sym.t<[1, 512], f32>, %w: !sym.t<[512, 1000], f32, strides=[1, 512]>, %v: !sym.t<[512, 1000], f32>) -> (!sym.t<[1, 1000], f32>, !sym.t<[1, 1000], f32>) {
  %0 = aten.mm(%x, %w) : (!sym.t<[1, 512], f32>, !sym.t<[512, 1000], f32, strides=[1, 512]>) -> !sym.t<[1, 1000], f32>
  %1 = aten.mm(%x, %v) : (!sym.t<[1, 512], f32>, !sym.t<[512, 1000], f32>) -> !sym.t<[1, 1000], f32>
  func.return %0, %1 : !sym.t<[1, 1000], f32>, !sym.t<[1, 1000], f32>
}

// -----

// A call costs more than a small product. Rows and batches may be more in other calls, for which tiles are as good; of
// unknown columns or inner dims only the smallest are kernels.

// CHECK-LABEL: lamella.decisions
// CHECK-SAME: "aten.mm f32*f32->f32 1x13x16x32 kk plain: a kernel, a call costs more than the work"
// CHECK-SAME: "aten.bmm f64*f64->f64 300x5x7x8 kn plain: a kernel, a call costs more than the work"
// CHECK-SAME: "aten.mm f32*f32->f32 1x13x300x13 kn plain: ATen, where nothing is known to be faster"
// CHECK-SAME: "aten.dot f32*f32->f32 1x1x1x300 kk plain: a kernel, one row reads the matrix at the speed of memory"
// CHECK-SAME: "aten.mm c64*c64->c64 1x5x5x8 kn plain: a kernel, a call costs more than the work"
builtin.module attributes {lamella.hints = {s0 = 300 : i64}} {
  func.func @main(%x: !sym.t<[13, 32], f32>, %w: !sym.t<[32, 16], f32, strides=[1, 32]>, %p: !sym.t<[s0, 5, 8], f64>, %q: !sym.t<[s0, 8, 7], f64>, %y: !sym.t<[13, 13], f32>, %z: !sym.t<[13, s0], f32>, %v: !sym.t<[s0], f32>, %c: !sym.t<[5, 8], c64>, %d: !sym.t<[8, 5], c64>) -> (!sym.t<[13, 16], f32>, !sym.t<[s0, 5, 7], f64>, !sym.t<[13, s0], f32>, !sym.t<[], f32>, !sym.t<[5, 5], c64>) {
    %0 = aten.mm(%x, %w) : (!sym.t<[13, 32], f32>, !sym.t<[32, 16], f32, strides=[1, 32]>) -> !sym.t<[13, 16], f32>
    %1 = aten.bmm(%p, %q) : (!sym.t<[s0, 5, 8], f64>, !sym.t<[s0, 8, 7], f64>) -> !sym.t<[s0, 5, 7], f64>
    %2 = aten.mm(%y, %z) : (!sym.t<[13, 13], f32>, !sym.t<[13, s0], f32>) -> !sym.t<[13, s0], f32>
    %3 = aten.dot(%v, %v) : (!sym.t<[s0], f32>, !sym.t<[s0], f32>) -> !sym.t<[], f32>
    %4 = aten.mm(%c, %d) : (!sym.t<[5, 8], c64>, !sym.t<[8, 5], c64>) -> !sym.t<[5, 5], c64>
    func.return %0, %1, %2, %3, %4 : !sym.t<[13, 16], f32>, !sym.t<[s0, 5, 7], f64>, !sym.t<[13, s0], f32>, !sym.t<[], f32>, !sym.t<[5, 5], c64>
  }
}

// -----

// Whole numbers have no library: ATen multiplies one after the other.

// CHECK-LABEL: lamella.decisions = ["aten.mm i64*i64->i64 1x300x300x300 kn plain: a kernel, ATen multiplies whole numbers one after the other"]
func.func @main(%x: !sym.t<[300, 300], i64>) -> !sym.t<[300, 300], i64> {
  %0 = aten.mm(%x, %x) : (!sym.t<[300, 300], i64>, !sym.t<[300, 300], i64>) -> !sym.t<[300, 300], i64>
  func.return %0 : !sym.t<[300, 300], i64>
}

// -----

// A measurement decides, where there is one; of sizes that other calls may change, it is none.

// CHECK-LABEL: lamella.decisions
// CHECK-SAME: "aten.addmm f32*f32->f32 1x300x64x32 kn bias: a kernel, measured: generated 5.0 us, ATen 9.0 us"
// CHECK-SAME: "aten.mm bf16*i8->bf16 1x1x64x32 kk plain: ATen, measured: ATen 3.0 us, generated 4.0 us"
// CHECK: aten.addmm(%b, %x, %v) {lamella.product = "generated"}
// CHECK: aten.mm(%y, %w) :
// CHECK: aten.mm(%z, %v) :
// CHECK: aten.mm(%y, %g) {lamella.product = "widened"}
builtin.module attributes {
    lamella.hints = {s0 = 300 : i64},
    lamella.products = {
      "f32*f32->f32 1x300x64x32 kn bias" = "generated 5.0 us, ATen 9.0 us",
      "f32*f32->f32 1x300x64x32 kn plain" = "generated 5.0 us, ATen 9.0 us",
      "bf16*bf16->bf16 1x1x64x32 kn plain" = "widened 2.0 us, ATen 3.0 us, generated 4.0 us",
      "bf16*i8->bf16 1x1x64x32 kk plain" = "ATen 3.0 us, generated 4.0 us"}} {
  func.func @main(%b: !sym.t<[64], f32>, %x: !sym.t<[300, 32], f32>, %v: !sym.t<[32, 64], f32>, %y: !sym.t<[1, 32], bf16>, %i: !sym.t<[64, 32], i8>, %z: !sym.t<[s0, 32], f32>, %g: !sym.t<[32, 64], bf16>) -> (!sym.t<[300, 64], f32>, !sym.t<[1, 64], bf16>, !sym.t<[s0, 64], f32>, !sym.t<[1, 64], bf16>) {
    %0 = aten.addmm(%b, %x, %v) : (!sym.t<[64], f32>, !sym.t<[300, 32], f32>, !sym.t<[32, 64], f32>) -> !sym.t<[300, 64], f32>
    %c = aten._to_copy(%i, dtype = bf16) : (!sym.t<[64, 32], i8>) -> !sym.t<[64, 32], bf16>
    %w = aten.t(%c) : (!sym.t<[64, 32], bf16>) -> !sym.t<[32, 64], bf16, strides=[1, 32]>
    %1 = aten.mm(%y, %w) : (!sym.t<[1, 32], bf16>, !sym.t<[32, 64], bf16, strides=[1, 32]>) -> !sym.t<[1, 64], bf16>
    %2 = aten.mm(%z, %v) : (!sym.t<[s0, 32], f32>, !sym.t<[32, 64], f32>) -> !sym.t<[s0, 64], f32>
    %3 = aten.mm(%y, %g) : (!sym.t<[1, 32], bf16>, !sym.t<[32, 64], bf16>) -> !sym.t<[1, 64], bf16>
    func.return %0, %1, %2, %3 : !sym.t<[300, 64], f32>, !sym.t<[1, 64], bf16>, !sym.t<[s0, 64], f32>, !sym.t<[1, 64], bf16>
  }
}

// -----

// Attention of many queries of f32 is a kernel; of sizes that are not known it is ATen's.

// CHECK-LABEL: lamella.decisions
// CHECK-SAME: "aten._scaled_dot_product_flash_attention_for_cpu f32 1x8x64x64x32 causal: a kernel, blocks of scores stay in a cache, and larger tiles in registers"
// CHECK-SAME: "aten._scaled_dot_product_flash_attention_for_cpu f32 1x8x512x512x32: ATen, where nothing is known to be faster"
// CHECK: aten._scaled_dot_product_flash_attention_for_cpu(%q, %q, %q, is_causal = true) {lamella.product = "generated"}
// CHECK: aten._scaled_dot_product_flash_attention_for_cpu(%x, %x, %x) :
func.func @main(%q: !sym.t<[1, 8, 64, 32], f32>, %x: !sym.t<[1, 8, s0, 32], f32>) -> (!sym.t<[1, 8, 64, 32], f32>, !sym.t<[1, 8, s0, 32], f32>) {
  %0, %1 = aten._scaled_dot_product_flash_attention_for_cpu(%q, %q, %q, is_causal = true) : (!sym.t<[1, 8, 64, 32], f32>, !sym.t<[1, 8, 64, 32], f32>, !sym.t<[1, 8, 64, 32], f32>) -> (!sym.t<[1, 8, 64, 32], f32>, !sym.t<[1, 8, 64], f32>)
  %2, %3 = aten._scaled_dot_product_flash_attention_for_cpu(%x, %x, %x) : (!sym.t<[1, 8, s0, 32], f32>, !sym.t<[1, 8, s0, 32], f32>, !sym.t<[1, 8, s0, 32], f32>) -> (!sym.t<[1, 8, s0, 32], f32>, !sym.t<[1, 8, s0], f32>)
  func.return %0, %2 : !sym.t<[1, 8, 64, 32], f32>, !sym.t<[1, 8, s0, 32], f32>
}

// -----

// Factors and a result in f32 beside what eager holds at that time are no more than its peak and a tenth; else a kernel converts as
// it reads.

// CHECK-LABEL: lamella.decisions
// CHECK-SAME: "aten.mm bf16*bf16->bf16 1x1024x3072x768 kn plain: a kernel, ATen has no instructions for halves there"
func.func @main(%x: !sym.t<[1024, 768], bf16>, %w: !sym.t<[768, 3072], bf16>) -> !sym.t<[1024, 3072], bf16> {
  %0 = aten.mm(%x, %w) : (!sym.t<[1024, 768], bf16>, !sym.t<[768, 3072], bf16>) -> !sym.t<[1024, 3072], bf16>
  func.return %0 : !sym.t<[1024, 3072], bf16>
}

// -----

// CHECK-LABEL: lamella.decisions
// CHECK-SAME: "aten.mm bf16*bf16->bf16 1x1024x3072x768 kn plain: in f32, the library has instructions for f32 alone there"
func.func @main(%x: !sym.t<[1024, 768], bf16>, %w: !sym.t<[768, 3072], bf16>, %y: !sym.t<[4096, 4096], bf16>) -> (!sym.t<[1024, 3072], bf16>, !sym.t<[4096], bf16>) {
  %a = aten.cumsum(%y, 0) : (!sym.t<[4096, 4096], bf16>) -> !sym.t<[4096, 4096], bf16>
  %b = aten.sum.dim_IntList(%a, [0]) : (!sym.t<[4096, 4096], bf16>) -> !sym.t<[4096], bf16>
  %0 = aten.mm(%x, %w) : (!sym.t<[1024, 768], bf16>, !sym.t<[768, 3072], bf16>) -> !sym.t<[1024, 3072], bf16>
  func.return %0, %b : !sym.t<[1024, 3072], bf16>, !sym.t<[4096], bf16>
}

// -----

// Of what was saved for a backward, that goes after its last use, too: the peak is where the gradient begins.

// CHECK-LABEL: lamella.decisions
// CHECK-SAME: "aten.mm bf16*bf16->bf16 1x1024x3072x768 kn plain: in f32, the library has instructions for f32 alone there"
func.func @main(%x: !sym.t<[1024, 768], bf16>, %w: !sym.t<[768, 3072], bf16>, %y: !sym.t<[4096, 4096], bf16> {lamella.donated}) -> (!sym.t<[1024, 3072], bf16>, !sym.t<[4096], bf16>) {
  %b = aten.sum.dim_IntList(%y, [0]) : (!sym.t<[4096, 4096], bf16>) -> !sym.t<[4096], bf16>
  %0 = aten.mm(%x, %w) : (!sym.t<[1024, 768], bf16>, !sym.t<[768, 3072], bf16>) -> !sym.t<[1024, 3072], bf16>
  func.return %0, %b : !sym.t<[1024, 3072], bf16>, !sym.t<[4096], bf16>
}

// -----

// Of products that are alike, all or none are: what stands in layers has the same way in each. The second is computed where there
// is no memory.

// CHECK-LABEL: lamella.decisions
// CHECK-SAME: "aten.mm bf16*bf16->bf16 1x1024x3072x768 kn plain: a kernel, ATen has no instructions for halves there (x2)"
func.func @main(%x: !sym.t<[1024, 768], bf16>, %v: !sym.t<[768, 3072], bf16>, %w: !sym.t<[768, 3072], bf16>, %y: !sym.t<[4096, 4096], bf16>) -> (!sym.t<[1024, 3072], bf16>, !sym.t<[1024, 3072], bf16>, !sym.t<[4096], bf16>) {
  %0 = aten.mm(%x, %v) : (!sym.t<[1024, 768], bf16>, !sym.t<[768, 3072], bf16>) -> !sym.t<[1024, 3072], bf16>
  %a = aten.cumsum(%y, 0) : (!sym.t<[4096, 4096], bf16>) -> !sym.t<[4096, 4096], bf16>
  %1 = aten.mm(%x, %w) : (!sym.t<[1024, 768], bf16>, !sym.t<[768, 3072], bf16>) -> !sym.t<[1024, 3072], bf16>
  %b = aten.sum.dim_IntList(%a, [0]) : (!sym.t<[4096, 4096], bf16>) -> !sym.t<[4096], bf16>
  func.return %0, %1, %b : !sym.t<[1024, 3072], bf16>, !sym.t<[1024, 3072], bf16>, !sym.t<[4096], bf16>
}

// -----

// Of a program of few bytes nobody counts a MiB beside eager's peak.

// CHECK-LABEL: lamella.decisions
// CHECK-SAME: "aten.mm bf16*bf16->bf16 1x384x512x128 kn plain: in f32, the library has instructions for f32 alone there"
func.func @main(%x: !sym.t<[384, 128], bf16>, %w: !sym.t<[128, 512], bf16>, %y: !sym.t<[1024, 512], bf16>) -> (!sym.t<[384, 512], bf16>, !sym.t<[512], bf16>) {
  %a = aten.cumsum(%y, 0) : (!sym.t<[1024, 512], bf16>) -> !sym.t<[1024, 512], bf16>
  %b = aten.sum.dim_IntList(%a, [0]) : (!sym.t<[1024, 512], bf16>) -> !sym.t<[512], bf16>
  %0 = aten.mm(%x, %w) : (!sym.t<[384, 128], bf16>, !sym.t<[128, 512], bf16>) -> !sym.t<[384, 512], bf16>
  func.return %0, %b : !sym.t<[384, 512], bf16>, !sym.t<[512], bf16>
}

// -----

// Vectors of 256 bits take half as many rows. Where ATen has no instructions for halves, it is called with f32 if there
// is much to do for each element; else, and where a factor is large, a kernel converts as it reads.

// CHECK-LABEL: lamella.decisions
// CHECK-SAME: "aten.mm f32*f32->f32 1x24x1024x1024 kk plain: a kernel, a few rows
// CHECK-SAME: "aten.mm bf16*bf16->bf16 1x512x1024x1024 kk plain: in f32, the library has instructions for f32 alone there"
// CHECK-SAME: "aten.mm f16*f16->f16 1x32x1024x1024 kk plain: a kernel, ATen has no instructions for halves there"
// CHECK-SAME: "aten.mm bf16*bf16->bf16 1x512x16384x1024 kk plain: a kernel, ATen has no instructions for halves there"
// CHECK: aten.mm(%h, %v) {lamella.product = "widened"}
// AVX2-LABEL: 1x24x1024x1024
// AVX2-SAME:  kk plain: ATen
// AVX2-SAME: "aten.mm bf16*bf16->bf16 1x512x1024x1024 kk plain: in f32, the library
// AVX2-SAME: "aten.mm f16*f16->f16 1x32x1024x1024 kk plain: a kernel, ATen has no instructions for halves there"
// AMX-LABEL: 1x24x1024x1024
// AMX-SAME: "aten.mm bf16*bf16->bf16 1x512x1024x1024 kk plain: ATen
// AMX-SAME: "aten.mm f16*f16->f16 1x32x1024x1024 kk plain: ATen
// AMX-SAME: "aten.mm bf16*bf16->bf16 1x512x16384x1024 kk plain: ATen
func.func @main(%x: !sym.t<[24, 1024], f32>, %w: !sym.t<[1024, 1024], f32, strides=[1, 1024]>, %h: !sym.t<[512, 1024], bf16>, %v: !sym.t<[1024, 1024], bf16, strides=[1, 1024]>, %i: !sym.t<[32, 1024], f16>, %j: !sym.t<[1024, 1024], f16, strides=[1, 1024]>, %l: !sym.t<[1024, 16384], bf16, strides=[1, 1024]>) -> (!sym.t<[24, 1024], f32>, !sym.t<[512, 1024], bf16>, !sym.t<[32, 1024], f16>, !sym.t<[512, 16384], bf16>) {
  %0 = aten.mm(%x, %w) : (!sym.t<[24, 1024], f32>, !sym.t<[1024, 1024], f32, strides=[1, 1024]>) -> !sym.t<[24, 1024], f32>
  %1 = aten.mm(%h, %v) : (!sym.t<[512, 1024], bf16>, !sym.t<[1024, 1024], bf16, strides=[1, 1024]>) -> !sym.t<[512, 1024], bf16>
  %2 = aten.mm(%i, %j) : (!sym.t<[32, 1024], f16>, !sym.t<[1024, 1024], f16, strides=[1, 1024]>) -> !sym.t<[32, 1024], f16>
  %3 = aten.mm(%h, %l) : (!sym.t<[512, 1024], bf16>, !sym.t<[1024, 16384], bf16, strides=[1, 1024]>) -> !sym.t<[512, 16384], bf16>
  func.return %0, %1, %2, %3 : !sym.t<[24, 1024], f32>, !sym.t<[512, 1024], bf16>, !sym.t<[32, 1024], f16>, !sym.t<[512, 16384], bf16>
}

// -----

// Matrix units multiply f32, too, wherever the factors lie, where there is enough to do, and so do vectors that are longer
// than the library's.

// CHECK-LABEL: lamella.decisions = ["aten.mm f32*f32->f32 1x512x768x1024 kk plain: ATen
// AMX-LABEL: lamella.decisions
// AMX-SAME: "aten.mm f32*f32->f32 1x512x768x1024 kk plain: a kernel, matrix units multiply f32 as three bf16 each"
// AMX-SAME: "aten.mm f32*f32->f32 1x768x1024x512 mk plain: a kernel, matrix units
// AMX-SAME: "aten.bmm f32*f32->f32 3x100x75x301 kn plain: a kernel, matrix units
// AMX-SAME: "aten.bmm f32*f32->f32 3x100x75x60 kn plain: ATen
// ZEN4-LABEL: lamella.decisions = ["aten.mm f32*f32->f32 1x512x768x1024 kk plain: a kernel, the library has shorter vectors there"
// ZEN4-SAME: "aten.mm f32*f32->f32 1x768x1024x512 mk plain: a kernel, the library
// ZEN4-SAME: "aten.bmm f32*f32->f32 3x100x75x301 kn plain: a kernel, the library
func.func @main(%x: !sym.t<[512, 1024], f32>, %w: !sym.t<[1024, 768], f32, strides=[1, 1024]>, %g: !sym.t<[768, 512], f32, strides=[1, 768]>, %t: !sym.t<[512, 1024], f32, strides=[1, 512]>, %b: !sym.t<[3, 100, 301], f32>, %c: !sym.t<[3, 301, 75], f32>, %d: !sym.t<[3, 100, 60], f32>, %e: !sym.t<[3, 60, 75], f32>) -> (!sym.t<[512, 768], f32>, !sym.t<[768, 1024], f32>, !sym.t<[3, 100, 75], f32>, !sym.t<[3, 100, 75], f32>) {
  %0 = aten.mm(%x, %w) : (!sym.t<[512, 1024], f32>, !sym.t<[1024, 768], f32, strides=[1, 1024]>) -> !sym.t<[512, 768], f32>
  %1 = aten.mm(%g, %t) : (!sym.t<[768, 512], f32, strides=[1, 768]>, !sym.t<[512, 1024], f32, strides=[1, 512]>) -> !sym.t<[768, 1024], f32>
  %2 = aten.bmm(%b, %c) : (!sym.t<[3, 100, 301], f32>, !sym.t<[3, 301, 75], f32>) -> !sym.t<[3, 100, 75], f32>
  %3 = aten.bmm(%d, %e) : (!sym.t<[3, 100, 60], f32>, !sym.t<[3, 60, 75], f32>) -> !sym.t<[3, 100, 75], f32>
  func.return %0, %1, %2, %3 : !sym.t<[512, 768], f32>, !sym.t<[768, 1024], f32>, !sym.t<[3, 100, 75], f32>, !sym.t<[3, 100, 75], f32>
}

// -----

// There, rows may be any number.

// CHECK-LABEL: lamella.decisions = ["aten.mm f32*f32->f32 1x100x768x1024 kk plain: ATen
// AMX-LABEL: lamella.decisions = ["aten.mm f32*f32->f32 1x100x768x1024 kk plain: a kernel, matrix units
builtin.module attributes {lamella.hints = {s0 = 100 : i64}} {
  func.func @main(%x: !sym.t<[s0, 1024], f32>, %w: !sym.t<[1024, 768], f32, strides=[1, 1024]>) -> !sym.t<[s0, 768], f32> {
    %0 = aten.mm(%x, %w) : (!sym.t<[s0, 1024], f32>, !sym.t<[1024, 768], f32, strides=[1, 1024]>) -> !sym.t<[s0, 768], f32>
    func.return %0 : !sym.t<[s0, 768], f32>
  }
}

// -----

// Attention of halves is a kernel in f32 then, and a convolution a call.

// CHECK-LABEL: lamella.decisions
// CHECK-SAME: "aten._scaled_dot_product_flash_attention_for_cpu bf16 1x8x60x60x30: in f32, the library
// CHECK-SAME: "aten.convolution f16 1x32x56x56 * 32x32x3x3: in f32, the library
// AMX-LABEL: lamella.decisions
// AMX-SAME: "aten._scaled_dot_product_flash_attention_for_cpu bf16 1x8x60x60x30: ATen
// AMX-SAME: "aten.convolution f16 1x32x56x56 * 32x32x3x3: ATen
func.func @main(%q: !sym.t<[1, 8, 60, 30], bf16>, %x: !sym.t<[1, 32, 56, 56], f16>, %w: !sym.t<[32, 32, 3, 3], f16>) -> (!sym.t<[1, 8, 60, 30], bf16>, !sym.t<[1, 32, 56, 56], f16>) {
  %0, %1 = aten._scaled_dot_product_flash_attention_for_cpu(%q, %q, %q) : (!sym.t<[1, 8, 60, 30], bf16>, !sym.t<[1, 8, 60, 30], bf16>, !sym.t<[1, 8, 60, 30], bf16>) -> (!sym.t<[1, 8, 60, 30], bf16>, !sym.t<[1, 8, 60], f32>)
  %2 = aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (!sym.t<[1, 32, 56, 56], f16>, !sym.t<[32, 32, 3, 3], f16>) -> !sym.t<[1, 32, 56, 56], f16>
  func.return %0, %2 : !sym.t<[1, 8, 60, 30], bf16>, !sym.t<[1, 32, 56, 56], f16>
}

// -----

// A weight in f32, and the copy that oneDNN has in its own order, are as large as eager's peak allows: else parts of the result's
// channels are convolved one after the other, and put together.

// CHECK-LABEL: lamella.decisions
// CHECK-SAME: "aten.convolution bf16 2x512x7x7 * 512x512x3x3: in f32 in 4 parts, the library
// CHECK: [[W0:%\w+]] = aten.slice.Tensor(%w, start = 0, end = 128) : {{.*}} -> !sym.t<[128, 512, 3, 3], bf16, strides=[4608, 1, 1536, 512]>
// CHECK: [[B0:%\w+]] = aten.slice.Tensor(%b, start = 0, end = 128) : {{.*}} -> !sym.t<[128], bf16>
// CHECK: [[P0:%\w+]] = aten.convolution(%x, [[W0]], [[B0]], [1, 1], [1, 1], [1, 1], false, [0, 0], 1) {lamella.product = "widened"} : {{.*}} -> !sym.t<[2, 128, 7, 7], bf16, strides=[6272, 1, 896, 128]>
// CHECK: aten.slice.Tensor(%w, start = 384, end = 512)
// CHECK: [[P3:%\w+]] = aten.convolution({{.*}}) {lamella.product = "widened"}
// CHECK: aten.cat([[[P0]], {{.*}}, [[P3]]], 1) : {{.*}} -> !sym.t<[2, 512, 7, 7], bf16, strides=[25088, 1, 3584, 512]>
func.func @main(%x: !sym.t<[2, 512, 7, 7], bf16, strides=[25088, 1, 3584, 512]>, %w: !sym.t<[512, 512, 3, 3], bf16, strides=[4608, 1, 1536, 512]>, %b: !sym.t<[512], bf16>, %y: !sym.t<[1024, 2048], bf16>) -> (!sym.t<[2, 512, 7, 7], bf16, strides=[25088, 1, 3584, 512]>, !sym.t<[2048], bf16>) {
  %a = aten.cumsum(%y, 0) : (!sym.t<[1024, 2048], bf16>) -> !sym.t<[1024, 2048], bf16>
  %s = aten.sum.dim_IntList(%a, [0]) : (!sym.t<[1024, 2048], bf16>) -> !sym.t<[2048], bf16>
  %0 = aten.convolution(%x, %w, %b, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (!sym.t<[2, 512, 7, 7], bf16, strides=[25088, 1, 3584, 512]>, !sym.t<[512, 512, 3, 3], bf16, strides=[4608, 1, 1536, 512]>, !sym.t<[512], bf16>) -> !sym.t<[2, 512, 7, 7], bf16, strides=[25088, 1, 3584, 512]>
  func.return %0, %s : !sym.t<[2, 512, 7, 7], bf16, strides=[25088, 1, 3584, 512]>, !sym.t<[2048], bf16>
}

// -----

// Images in f32 that are more than that: the library's halves. Where eager's are contiguous, it has copies of them at its peak.

// CHECK-LABEL: lamella.decisions
// CHECK-SAME: "aten.convolution bf16 2x64x112x112 * 64x64x3x3: ATen
func.func @main(%x: !sym.t<[2, 64, 112, 112], bf16, strides=[802816, 1, 7168, 64]>, %w: !sym.t<[64, 64, 3, 3], bf16>) -> !sym.t<[2, 64, 112, 112], bf16, strides=[802816, 1, 7168, 64]> {
  %0 = aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) : (!sym.t<[2, 64, 112, 112], bf16, strides=[802816, 1, 7168, 64]>, !sym.t<[64, 64, 3, 3], bf16>) -> !sym.t<[2, 64, 112, 112], bf16, strides=[802816, 1, 7168, 64]>
  func.return %0 : !sym.t<[2, 64, 112, 112], bf16, strides=[802816, 1, 7168, 64]>
}

// -----

// CHECK-LABEL: lamella.decisions
// CHECK-SAME: "aten.convolution bf16 2x64x56x56 * 64x64x3x3: in f32, the library
func.func @main(%x: !sym.t<[2, 64, 56, 56], bf16, strides=[200704, 1, 3584, 64]>, %w: !sym.t<[64, 64, 3, 3], bf16>) -> !sym.t<[2, 64, 56, 56], bf16, strides=[200704, 1, 3584, 64]> {
  %0 = aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1) {lamella.contiguous} : (!sym.t<[2, 64, 56, 56], bf16, strides=[200704, 1, 3584, 64]>, !sym.t<[64, 64, 3, 3], bf16>) -> !sym.t<[2, 64, 56, 56], bf16, strides=[200704, 1, 3584, 64]>
  func.return %0 : !sym.t<[2, 64, 56, 56], bf16, strides=[200704, 1, 3584, 64]>
}

// -----

// Bytes: matrix units take them; with AVX2 the library's instructions saturate, ours do not.

// CHECK-LABEL: lamella.decisions = ["aten._int_mm i8*i8->i32 1x64x1024x1024 kk plain: ATen
// AVX2-LABEL: lamella.decisions = ["aten._int_mm i8*i8->i32 1x64x1024x1024 kk plain: a kernel, sums are exact
// AMX-LABEL: lamella.decisions = ["aten._int_mm i8*i8->i32 1x64x1024x1024 kk plain: a kernel, matrix units
func.func @main(%x: !sym.t<[64, 1024], i8>, %w: !sym.t<[1024, 1024], i8, strides=[1, 1024]>) -> !sym.t<[64, 1024], i32> {
  %0 = aten._int_mm(%x, %w) : (!sym.t<[64, 1024], i8>, !sym.t<[1024, 1024], i8, strides=[1, 1024]>) -> !sym.t<[64, 1024], i32>
  func.return %0 : !sym.t<[64, 1024], i32>
}

// -----

// Depthwise, channels side by side: of halves oneDNN is slow where it has no instructions for them.

// AMX-LABEL: lamella.decisions = ["aten.convolution bf16 1x32x56x56 * 32x1x3x3 in 32 groups: ATen
// CHECK-LABEL: lamella.decisions = ["aten.convolution bf16 1x32x56x56 * 32x1x3x3 in 32 groups: a kernel, a channel at a time
// AVX2-LABEL: lamella.decisions = ["aten.convolution bf16 1x32x56x56 * 32x1x3x3 in 32 groups: a kernel, a channel at a time
func.func @main(%x: !sym.t<[1, 32, 56, 56], bf16, strides=[100352, 1, 1792, 32]>, %w: !sym.t<[32, 1, 3, 3], bf16>) -> !sym.t<[1, 32, 56, 56], bf16, strides=[100352, 1, 1792, 32]> {
  %0 = aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 32) : (!sym.t<[1, 32, 56, 56], bf16, strides=[100352, 1, 1792, 32]>, !sym.t<[32, 1, 3, 3], bf16>) -> !sym.t<[1, 32, 56, 56], bf16, strides=[100352, 1, 1792, 32]>
  func.return %0 : !sym.t<[1, 32, 56, 56], bf16, strides=[100352, 1, 1792, 32]>
}

// -----

// Attention of one query of halves is computed in f32 where there are no instructions for halves, whatever the keys;
// where there are, a kernel is sooner done with few keys alone. In f32 it is a kernel anyway, and no choice.

// CHECK: builtin.module
// CHECK-SAME: "aten._scaled_dot_product_flash_attention_for_cpu bf16 1x8x1x512x64 groups 4: in f32, the library has instructions for f32 alone there"
// CHECK-SAME: "aten._scaled_dot_product_flash_attention_for_cpu bf16 2x8x1x512x64: in f32, the library
// CHECK-NOT: f32 1x8x1
// AMX: builtin.module
// AMX-SAME: "aten._scaled_dot_product_flash_attention_for_cpu bf16 1x8x1x512x64 groups 4: ATen, where nothing is known to be faster"
// AMX-SAME: "aten._scaled_dot_product_flash_attention_for_cpu bf16 2x8x1x512x64: a kernel, keys of one query are read sooner than ATen has begun"
builtin.module {
  func.func @main(%q: !sym.t<[1, 8, 1, 64], bf16>, %k: !sym.t<[1, 4, 512, 64], bf16>, %x: !sym.t<[2, 8, 1, 64], bf16>, %y: !sym.t<[2, 8, s0, 64], bf16>, %z: !sym.t<[1, 8, 1, 64], f32>) -> (!sym.t<[1, 8, 1, 64], bf16>, !sym.t<[2, 8, 1, 64], bf16>, !sym.t<[1, 8, 1, 64], f32>) {
    %0, %1 = aten._scaled_dot_product_flash_attention_for_cpu(%q, %k, %k) : (!sym.t<[1, 8, 1, 64], bf16>, !sym.t<[1, 4, 512, 64], bf16>, !sym.t<[1, 4, 512, 64], bf16>) -> (!sym.t<[1, 8, 1, 64], bf16>, !sym.t<[1, 8, 1], f32>)
    %2, %3 = aten._scaled_dot_product_flash_attention_for_cpu(%x, %y, %y) : (!sym.t<[2, 8, 1, 64], bf16>, !sym.t<[2, 8, s0, 64], bf16>, !sym.t<[2, 8, s0, 64], bf16>) -> (!sym.t<[2, 8, 1, 64], bf16>, !sym.t<[2, 8, 1], f32>)
    %4, %5 = aten._scaled_dot_product_flash_attention_for_cpu(%z, %z, %z) : (!sym.t<[1, 8, 1, 64], f32>, !sym.t<[1, 8, 1, 64], f32>, !sym.t<[1, 8, 1, 64], f32>) -> (!sym.t<[1, 8, 1, 64], f32>, !sym.t<[1, 8, 1], f32>)
    func.return %0, %2, %4 : !sym.t<[1, 8, 1, 64], bf16>, !sym.t<[2, 8, 1, 64], bf16>, !sym.t<[1, 8, 1, 64], f32>
  }
}

// -----

// The backward of a weight that is larger than its images is that of contiguous tensors, which oneDNN copies once less, of a
// part of the channels that it takes at a time.
// CHECK: func.func
// CHECK: [[G:%\w+]] = aten.clone(%g, memory_format = contiguous_format)
// CHECK-NEXT: [[X:%\w+]] = aten.slice.Tensor(%x, 1, 0, 128)
// CHECK-NEXT: [[W:%\w+]] = aten.slice.Tensor(%w, 1, 0, 128)
// CHECK-NEXT: [[X0:%\w+]] = aten.clone([[X]], memory_format = contiguous_format)
// CHECK-NEXT: [[W0:%\w+]] = aten.clone([[W]], memory_format = contiguous_format)
// CHECK-NEXT: [[DX:%\w+]], [[DW:%\w+]], {{%\w+}} = aten.convolution_backward([[G]], [[X0]], [[W0]], {{.*}}{lamella.product = "widened"} : {{.*}} -> (!sym.t<[2, 128, 7, 7], bf16>, !sym.t<[512, 128, 3, 3], bf16>, none)
// CHECK: aten.slice.Tensor(%w, 1, 384, 512)
// CHECK: [[DX3:%\w+]], [[DW3:%\w+]], {{%\w+}} = aten.convolution_backward([[G]], {{.*}}{lamella.product = "widened"}
// CHECK-NEXT: [[C:%\w+]] = aten.cat([[[DX]], {{.*}}, [[DX3]]], 1)
// CHECK-NEXT: [[A:%\w+]] = aten.clone([[C]], memory_format = channels_last)
// CHECK-NEXT: [[D:%\w+]] = aten.cat([[[DW]], {{.*}}, [[DW3]]], 1)
// CHECK-NEXT: [[B:%\w+]] = aten.clone([[D]], memory_format = channels_last)
// CHECK-NEXT: func.return {{.*}}, [[A]], [[B]]
func.func @main(%q: !sym.t<[16777216], f32>, %g: !sym.t<[2, 512, 7, 7], bf16, strides=[25088, 1, 3584, 512]>, %x: !sym.t<[2, 512, 7, 7], bf16, strides=[25088, 1, 3584, 512]>, %w: !sym.t<[512, 512, 3, 3], bf16, strides=[4608, 1, 1536, 512]>) -> (!sym.t<[], f32>, !sym.t<[2, 512, 7, 7], bf16, strides=[25088, 1, 3584, 512]>, !sym.t<[512, 512, 3, 3], bf16, strides=[4608, 1, 1536, 512]>) {
  %r = aten.relu(%q) : (!sym.t<[16777216], f32>) -> !sym.t<[16777216], f32>
  %s = aten.sum(%r) : (!sym.t<[16777216], f32>) -> !sym.t<[], f32>
  %0, %1, %2 = aten.convolution_backward(%g, %x, %w, [0], [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [true, true, false]) : (!sym.t<[2, 512, 7, 7], bf16, strides=[25088, 1, 3584, 512]>, !sym.t<[2, 512, 7, 7], bf16, strides=[25088, 1, 3584, 512]>, !sym.t<[512, 512, 3, 3], bf16, strides=[4608, 1, 1536, 512]>) -> (!sym.t<[2, 512, 7, 7], bf16, strides=[25088, 1, 3584, 512]>, !sym.t<[512, 512, 3, 3], bf16, strides=[4608, 1, 1536, 512]>, none)
  func.return %s, %0, %1 : !sym.t<[], f32>, !sym.t<[2, 512, 7, 7], bf16, strides=[25088, 1, 3584, 512]>, !sym.t<[512, 512, 3, 3], bf16, strides=[4608, 1, 1536, 512]>
}

// -----

// In f32, where no copies are made for it, it stays as it is.
// CHECK: func.func
// CHECK-NOT: aten.clone
// CHECK: aten.convolution_backward(%g, %x, %w,
// CHECK-NOT: aten.clone
// CHECK: func.return
func.func @main(%q: !sym.t<[16777216], f32>, %g: !sym.t<[2, 512, 7, 7], f32, strides=[25088, 1, 3584, 512]>, %x: !sym.t<[2, 512, 7, 7], f32, strides=[25088, 1, 3584, 512]>, %w: !sym.t<[512, 512, 3, 3], f32, strides=[4608, 1, 1536, 512]>) -> (!sym.t<[], f32>, !sym.t<[2, 512, 7, 7], f32, strides=[25088, 1, 3584, 512]>, !sym.t<[512, 512, 3, 3], f32, strides=[4608, 1, 1536, 512]>) {
  %r = aten.relu(%q) : (!sym.t<[16777216], f32>) -> !sym.t<[16777216], f32>
  %s = aten.sum(%r) : (!sym.t<[16777216], f32>) -> !sym.t<[], f32>
  %0, %1, %2 = aten.convolution_backward(%g, %x, %w, [0], [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [true, true, false]) : (!sym.t<[2, 512, 7, 7], f32, strides=[25088, 1, 3584, 512]>, !sym.t<[2, 512, 7, 7], f32, strides=[25088, 1, 3584, 512]>, !sym.t<[512, 512, 3, 3], f32, strides=[4608, 1, 1536, 512]>) -> (!sym.t<[2, 512, 7, 7], f32, strides=[25088, 1, 3584, 512]>, !sym.t<[512, 512, 3, 3], f32, strides=[4608, 1, 1536, 512]>, none)
  func.return %s, %0, %1 : !sym.t<[], f32>, !sym.t<[2, 512, 7, 7], f32, strides=[25088, 1, 3584, 512]>, !sym.t<[512, 512, 3, 3], f32, strides=[4608, 1, 1536, 512]>
}
