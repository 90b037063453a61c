// RUN: lamella-opt %s | filecheck %s
// RUN: lamella-opt %s --generic | lamella-opt - | filecheck %s
// RUN: lamella-opt %s | lamella-opt - | filecheck %s
// What is checked: the ops of the tt dialect, as Triton prints them, read back from both forms and print the same.


// CHECK: tt.func public @memory(%p: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %n: i32) attributes {noinline = false} {
tt.func public @memory(%p: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %n: i32) attributes {noinline = false} {
  // CHECK-NEXT: %pid = tt.get_program_id x : i32
  %pid = tt.get_program_id x : i32
  // CHECK-NEXT: %programs = tt.get_num_programs z : i32
  %programs = tt.get_num_programs z : i32
  // CHECK-NEXT: %range = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
  %range = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
  // CHECK-NEXT: %bound = tt.splat %n : i32 -> tensor<128xi32>
  %bound = tt.splat %n : i32 -> tensor<128xi32>
  // CHECK-NEXT: %mask = arith.cmpi slt, %range, %bound : tensor<128xi32>
  %mask = arith.cmpi slt, %range, %bound : tensor<128xi32>
  // CHECK-NEXT: %ptrs = tt.splat %p : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
  %ptrs = tt.splat %p : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
  // CHECK-NEXT: %at = tt.addptr %ptrs, %range : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
  %at = tt.addptr %ptrs, %range : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
  // CHECK-NEXT: %other = arith.constant dense<0xff800000> : tensor<128xf32>
  %other = arith.constant dense<0xFF800000> : tensor<128xf32>
  // CHECK-NEXT: %scalar = tt.load %p : !tt.ptr<f32>
  %scalar = tt.load %p : !tt.ptr<f32>
  // CHECK-NEXT: %a = tt.load %at, %mask : tensor<128x!tt.ptr<f32>>
  %a = tt.load %at, %mask : tensor<128x!tt.ptr<f32>>
  // CHECK-NEXT: %b = tt.load %at, %mask, %other cacheModifier = cg evictionPolicy = evict_last {isVolatile = true} : tensor<128x!tt.ptr<f32>>
  %b = tt.load %at, %mask, %other cacheModifier = cg evictionPolicy = evict_last {isVolatile = true} : tensor<128x!tt.ptr<f32>>
  // CHECK-NEXT: tt.store %at, %a : tensor<128x!tt.ptr<f32>>
  tt.store %at, %a : tensor<128x!tt.ptr<f32>>
  // CHECK-NEXT: tt.store %at, %b, %mask cacheModifier = cs evictionPolicy = evict_first : tensor<128x!tt.ptr<f32>>
  tt.store %at, %b, %mask cacheModifier = cs evictionPolicy = evict_first : tensor<128x!tt.ptr<f32>>
  // CHECK-NEXT: %old = tt.atomic_rmw fadd, relaxed, gpu, %at, %a, %mask : (tensor<128x!tt.ptr<f32>>, tensor<128xf32>, tensor<128xi1>) -> tensor<128xf32>
  %old = tt.atomic_rmw fadd, relaxed, gpu, %at, %a, %mask : (tensor<128x!tt.ptr<f32>>, tensor<128xf32>, tensor<128xi1>) -> tensor<128xf32>
  // CHECK-NEXT: %swapped = tt.atomic_cas acq_rel, sys, %p, %scalar, %scalar : (!tt.ptr<f32>, f32, f32) -> f32
  %swapped = tt.atomic_cas acq_rel, sys, %p, %scalar, %scalar : (!tt.ptr<f32>, f32, f32) -> f32
  // CHECK-NEXT: %address = tt.ptr_to_int %at : tensor<128x!tt.ptr<f32>> -> tensor<128xi64>
  %address = tt.ptr_to_int %at : tensor<128x!tt.ptr<f32>> -> tensor<128xi64>
  // CHECK-NEXT: %back = tt.int_to_ptr %address : tensor<128xi64> -> tensor<128x!tt.ptr<i8>>
  %back = tt.int_to_ptr %address : tensor<128xi64> -> tensor<128x!tt.ptr<i8>>
  // CHECK-NEXT: %bits = tt.bitcast %a : tensor<128xf32> -> tensor<128xi32>
  %bits = tt.bitcast %a : tensor<128xf32> -> tensor<128xi32>
  // CHECK-NEXT: tt.print " x: " {hex = false, isSigned = array<i32: 0>} : %a : tensor<128xf32>
  tt.print " x: " {hex = false, isSigned = array<i32: 0>} : %a : tensor<128xf32>
  // CHECK-NEXT: tt.assert %mask, "in bounds" : tensor<128xi1>
  tt.assert %mask, "in bounds" : tensor<128xi1>
  // CHECK-NEXT: tt.return
  tt.return
// CHECK-NEXT: }
}

// CHECK: tt.func private @shapes(%s: f32, %x: tensor<4x8xf32>, %one: tensor<1xf32>, %v: tensor<8xf32>) attributes {noinline = false} {
tt.func private @shapes(%s: f32, %x: tensor<4x8xf32>, %one: tensor<1xf32>, %v: tensor<8xf32>) attributes {noinline = false} {
  // CHECK-NEXT: %splat = tt.splat %s : f32 -> tensor<4x8xf32>
  %splat = tt.splat %s : f32 -> tensor<4x8xf32>
  // CHECK-NEXT: %unsplat = tt.unsplat %one : tensor<1xf32>
  %unsplat = tt.unsplat %one : tensor<1xf32>
  // CHECK-NEXT: %expanded = tt.expand_dims %v {axis = 0 : i32} : tensor<8xf32> -> tensor<1x8xf32>
  %expanded = tt.expand_dims %v {axis = 0 : i32} : tensor<8xf32> -> tensor<1x8xf32>
  // CHECK-NEXT: %broadcast = tt.broadcast %expanded : tensor<1x8xf32> -> tensor<4x8xf32>
  %broadcast = tt.broadcast %expanded : tensor<1x8xf32> -> tensor<4x8xf32>
  // CHECK-NEXT: %flat = tt.reshape %x : tensor<4x8xf32> -> tensor<32xf32>
  %flat = tt.reshape %x : tensor<4x8xf32> -> tensor<32xf32>
  // CHECK-NEXT: %any = tt.reshape %x allow_reorder efficient_layout : tensor<4x8xf32> -> tensor<32xf32>
  %any = tt.reshape %x allow_reorder efficient_layout : tensor<4x8xf32> -> tensor<32xf32>
  // CHECK-NEXT: %t = tt.trans %x {order = array<i32: 1, 0>} : tensor<4x8xf32> -> tensor<8x4xf32>
  %t = tt.trans %x {order = array<i32: 1, 0>} : tensor<4x8xf32> -> tensor<8x4xf32>
  // CHECK-NEXT: %both = tt.cat %v, %v : tensor<8xf32> -> tensor<16xf32>
  %both = tt.cat %v, %v : tensor<8xf32> -> tensor<16xf32>
  // CHECK-NEXT: %pairs = tt.join %x, %splat : tensor<4x8xf32> -> tensor<4x8x2xf32>
  %pairs = tt.join %x, %splat : tensor<4x8xf32> -> tensor<4x8x2xf32>
  // CHECK-NEXT: %lhs, %rhs = tt.split %pairs : tensor<4x8x2xf32> -> tensor<4x8xf32>
  %lhs, %rhs = tt.split %pairs : tensor<4x8x2xf32> -> tensor<4x8xf32>
  // CHECK-NEXT: tt.return
  tt.return
// CHECK-NEXT: }
}

// CHECK: tt.func private @pointwise(%x: tensor<8xf32>, %y: tensor<8xf32>, %i: tensor<8xi32>, %s: f32) attributes {noinline = false} {
tt.func private @pointwise(%x: tensor<8xf32>, %y: tensor<8xf32>, %i: tensor<8xi32>, %s: f32) attributes {noinline = false} {
  // CHECK-NEXT: %half = tt.fp_to_fp %x, rounding = rtne : tensor<8xf32> -> tensor<8xf8E4M3FN>
  %half = tt.fp_to_fp %x, rounding = rtne : tensor<8xf32> -> tensor<8xf8E4M3FN>
  // CHECK-NEXT: %back = tt.fp_to_fp %half : tensor<8xf8E4M3FN> -> tensor<8xf32>
  %back = tt.fp_to_fp %half : tensor<8xf8E4M3FN> -> tensor<8xf32>
  // CHECK-NEXT: %clamp = tt.clampf %x, %y, %back, propagateNan = all : tensor<8xf32>
  %clamp = tt.clampf %x, %y, %back, propagateNan = all : tensor<8xf32>
  // CHECK-NEXT: %loose = tt.clampf %s, %s, %s, propagateNan = none : f32
  %loose = tt.clampf %s, %s, %s, propagateNan = none : f32
  // CHECK-NEXT: %root = tt.precise_sqrt %x : tensor<8xf32>
  %root = tt.precise_sqrt %x : tensor<8xf32>
  // CHECK-NEXT: %quotient = tt.precise_divf %x, %y : tensor<8xf32>
  %quotient = tt.precise_divf %x, %y : tensor<8xf32>
  // CHECK-NEXT: %high = tt.mulhiui %i, %i : tensor<8xi32>
  %high = tt.mulhiui %i, %i : tensor<8xi32>
  // CHECK-NEXT: %tanh = tt.extern_elementwise %x {libname = "", libpath = "", pure = true, symbol = "__nv_tanhf"} : (tensor<8xf32>) -> tensor<8xf32>
  %tanh = tt.extern_elementwise %x {libname = "", libpath = "", pure = true, symbol = "__nv_tanhf"} : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK-NEXT: %pow = tt.extern_elementwise %x, %y {libname = "", libpath = "", pure = true, symbol = "__nv_powf"} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %pow = tt.extern_elementwise %x, %y {libname = "", libpath = "", pure = true, symbol = "__nv_powf"} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  // CHECK-NEXT: %asm = tt.elementwise_inline_asm "shf.l.wrap.b32 $0, $1, $2, 3;" {constraints = "=r,r,r", packed_element = 1 : i32, pure = true} %i, %i : tensor<8xi32>, tensor<8xi32> -> tensor<8xi32>
  %asm = tt.elementwise_inline_asm "shf.l.wrap.b32 $0, $1, $2, 3;" {constraints = "=r,r,r", packed_element = 1 : i32, pure = true} %i, %i : tensor<8xi32>, tensor<8xi32> -> tensor<8xi32>
  // CHECK-NEXT: tt.return
  tt.return
// CHECK-NEXT: }
}

// CHECK: tt.func private @casts(%x: tensor<8xf32>, %i: tensor<8xi32>, %c: tensor<8xi1>, %s: i32, %ok: i1) attributes {noinline = false} {
tt.func private @casts(%x: tensor<8xf32>, %i: tensor<8xi32>, %c: tensor<8xi1>, %s: i32, %ok: i1) attributes {noinline = false} {
  // CHECK-NEXT: %f = arith.sitofp %i : tensor<8xi32> to tensor<8xf32>
  %f = arith.sitofp %i : tensor<8xi32> to tensor<8xf32>
  // CHECK-NEXT: %u = arith.uitofp %c : tensor<8xi1> to tensor<8xf16>
  %u = arith.uitofp %c : tensor<8xi1> to tensor<8xf16>
  // CHECK-NEXT: %n = arith.fptosi %x : tensor<8xf32> to tensor<8xi64>
  %n = arith.fptosi %x : tensor<8xf32> to tensor<8xi64>
  // CHECK-NEXT: %m = arith.fptoui %x : tensor<8xf32> to tensor<8xi8>
  %m = arith.fptoui %x : tensor<8xf32> to tensor<8xi8>
  // CHECK-NEXT: %wide = arith.extsi %i : tensor<8xi32> to tensor<8xi64>
  %wide = arith.extsi %i : tensor<8xi32> to tensor<8xi64>
  // CHECK-NEXT: %bool = arith.extui %c : tensor<8xi1> to tensor<8xi32>
  %bool = arith.extui %c : tensor<8xi1> to tensor<8xi32>
  // CHECK-NEXT: %low = arith.trunci %i : tensor<8xi32> to tensor<8xi8>
  %low = arith.trunci %i : tensor<8xi32> to tensor<8xi8>
  // CHECK-NEXT: %b = arith.truncf %x : tensor<8xf32> to tensor<8xbf16>
  %b = arith.truncf %x : tensor<8xf32> to tensor<8xbf16>
  // CHECK-NEXT: %e = arith.extf %b : tensor<8xbf16> to tensor<8xf32>
  %e = arith.extf %b : tensor<8xbf16> to tensor<8xf32>
  // CHECK-NEXT: %less = arith.cmpf ult, %x, %f : tensor<8xf32>
  %less = arith.cmpf ult, %x, %f : tensor<8xf32>
  // CHECK-NEXT: %fast = arith.cmpf oeq, %x, %f fastmath<nnan> : tensor<8xf32>
  %fast = arith.cmpf oeq, %x, %f fastmath<nnan> : tensor<8xf32>
  // CHECK-NEXT: %above = arith.cmpi uge, %s, %s : i32
  %above = arith.cmpi uge, %s, %s : i32
  // CHECK-NEXT: %chosen = arith.select %less, %x, %f : tensor<8xi1>, tensor<8xf32>
  %chosen = arith.select %less, %x, %f : tensor<8xi1>, tensor<8xf32>
  // CHECK-NEXT: %whole = arith.select %ok, %x, %f : tensor<8xf32>
  %whole = arith.select %ok, %x, %f : tensor<8xf32>
  // CHECK-NEXT: %number = arith.select %above, %s, %s : i32
  %number = arith.select %above, %s, %s : i32
  // CHECK-NEXT: %poison = ub.poison : tensor<8xf32>
  %poison = ub.poison : tensor<8xf32>
  // CHECK-NEXT: %true = arith.constant dense<true> : tensor<8xi1>
  %true = arith.constant dense<true> : tensor<8xi1>
  // CHECK-NEXT: %few = arith.constant dense<[1, 2]> : tensor<2xi32>
  %few = arith.constant dense<[1, 2]> : tensor<2xi32>
  // CHECK-NEXT: %rest = arith.remf %x, %f : tensor<8xf32>
  %rest = arith.remf %x, %f : tensor<8xf32>
  // CHECK-NEXT: %exp = math.exp2 %x : tensor<8xf32>
  %exp = math.exp2 %x : tensor<8xf32>
  // CHECK-NEXT: %sum = arith.addi %i, %bool overflow<nsw> : tensor<8xi32>
  %sum = arith.addi %i, %bool overflow<nsw> : tensor<8xi32>
  // CHECK-NEXT: tt.return
  tt.return
// CHECK-NEXT: }
}

// CHECK: tt.func private @products(%a: tensor<16x32xbf16>, %b: tensor<32x16xbf16>, %c: tensor<16x16xf32>, %q: tensor<16x16xi8>, %qs: tensor<16x1xi8>, %p: tensor<8xi32>, %ok: tensor<8xi1>) attributes {noinline = false} {
tt.func private @products(%a: tensor<16x32xbf16>, %b: tensor<32x16xbf16>, %c: tensor<16x16xf32>, %q: tensor<16x16xi8>, %qs: tensor<16x1xi8>, %p: tensor<8xi32>, %ok: tensor<8xi1>) attributes {noinline = false} {
  // CHECK-NEXT: %d = tt.dot %a, %b, %c : tensor<16x32xbf16> * tensor<32x16xbf16> -> tensor<16x16xf32>
  %d = tt.dot %a, %b, %c : tensor<16x32xbf16> * tensor<32x16xbf16> -> tensor<16x16xf32>
  // CHECK-NEXT: %e = tt.dot %a, %b, %c, inputPrecision = tf32 {maxNumImpreciseAcc = 4 : i32} : tensor<16x32xbf16> * tensor<32x16xbf16> -> tensor<16x16xf32>
  %e = tt.dot %a, %b, %c, inputPrecision = tf32 {maxNumImpreciseAcc = 4 : i32} : tensor<16x32xbf16> * tensor<32x16xbf16> -> tensor<16x16xf32>
  // CHECK-NEXT: %f = tt.dot_scaled %q scale %qs, %b, %c lhs = e2m1 rhs = bf16 {fastMath = false} : tensor<16x16xi8>, tensor<16x1xi8> * tensor<32x16xbf16> -> tensor<16x16xf32>
  %f = tt.dot_scaled %q scale %qs, %b, %c lhs = e2m1 rhs = bf16 {fastMath = false} : tensor<16x16xi8>, tensor<16x1xi8> * tensor<32x16xbf16> -> tensor<16x16xf32>
  // CHECK-NEXT: %bins = tt.histogram %p : tensor<8xi32> -> tensor<16xi32>
  %bins = tt.histogram %p : tensor<8xi32> -> tensor<16xi32>
  // CHECK-NEXT: %some = tt.histogram %p, %ok : tensor<8xi32> -> tensor<16xi32>
  %some = tt.histogram %p, %ok : tensor<8xi32> -> tensor<16xi32>
  // CHECK-NEXT: %g = tt.gather %p[%p] {axis = 0 : i32} : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi32>
  %g = tt.gather %p[%p] {axis = 0 : i32} : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi32>
  // CHECK-NEXT: tt.return
  tt.return
// CHECK-NEXT: }
}

// CHECK: tt.func private @descriptors(%p: !tt.ptr<bf16>, %n: i32, %m: i64, %host: !tt.tensordesc<tensor<1x64xf32>>, %rows: tensor<8xi32>) attributes {noinline = false} {
tt.func private @descriptors(%p: !tt.ptr<bf16>, %n: i32, %m: i64, %host: !tt.tensordesc<tensor<1x64xf32>>, %rows: tensor<8xi32>) attributes {noinline = false} {
  // CHECK-NEXT: %one = arith.constant 1 : i64
  %one = arith.constant 1 : i64
  // CHECK-NEXT: %desc = tt.make_tensor_descriptor %p, [%n, %n], [%m, %one] : !tt.ptr<bf16>, !tt.tensordesc<tensor<64x64xbf16>>
  %desc = tt.make_tensor_descriptor %p, [%n, %n], [%m, %one] : !tt.ptr<bf16>, !tt.tensordesc<tensor<64x64xbf16>>
  // CHECK-NEXT: %nan = tt.make_tensor_descriptor %p, [%n, %n], [%m, %one] {padding = 2 : i32} : !tt.ptr<bf16>, !tt.tensordesc<tensor<1x64xbf16>>
  %nan = tt.make_tensor_descriptor %p, [%n, %n], [%m, %one] {padding = 2 : i32} : !tt.ptr<bf16>, !tt.tensordesc<tensor<1x64xbf16>>
  // CHECK-NEXT: %x = tt.descriptor_load %desc[%n, %n] : !tt.tensordesc<tensor<64x64xbf16>> -> tensor<64x64xbf16>
  %x = tt.descriptor_load %desc[%n, %n] : !tt.tensordesc<tensor<64x64xbf16>> -> tensor<64x64xbf16>
  // CHECK-NEXT: %y = tt.descriptor_load %nan[%n, %n] evictionPolicy = evict_first : !tt.tensordesc<tensor<1x64xbf16>> -> tensor<64xbf16>
  %y = tt.descriptor_load %nan[%n, %n] evictionPolicy = evict_first : !tt.tensordesc<tensor<1x64xbf16>> -> tensor<64xbf16>
  // CHECK-NEXT: tt.descriptor_store %desc[%n, %n], %x : !tt.tensordesc<tensor<64x64xbf16>>, tensor<64x64xbf16>
  tt.descriptor_store %desc[%n, %n], %x : !tt.tensordesc<tensor<64x64xbf16>>, tensor<64x64xbf16>
  // CHECK-NEXT: tt.descriptor_reduce add, %desc[%n, %n], %x : !tt.tensordesc<tensor<64x64xbf16>>, tensor<64x64xbf16>
  tt.descriptor_reduce add, %desc[%n, %n], %x : !tt.tensordesc<tensor<64x64xbf16>>, tensor<64x64xbf16>
  // CHECK-NEXT: %g = tt.descriptor_gather %host[%rows, %n] : (!tt.tensordesc<tensor<1x64xf32>>, tensor<8xi32>, i32) -> tensor<8x64xf32>
  %g = tt.descriptor_gather %host[%rows, %n] : (!tt.tensordesc<tensor<1x64xf32>>, tensor<8xi32>, i32) -> tensor<8x64xf32>
  // CHECK-NEXT: tt.descriptor_scatter %host[%rows, %n], %g : !tt.tensordesc<tensor<1x64xf32>>, tensor<8xi32>, i32, tensor<8x64xf32>
  tt.descriptor_scatter %host[%rows, %n], %g : !tt.tensordesc<tensor<1x64xf32>>, tensor<8xi32>, i32, tensor<8x64xf32>
  // CHECK-NEXT: tt.return
  tt.return
// CHECK-NEXT: }
}

// CHECK: tt.func private @helper(%x: f32, %y: f32) -> f32 attributes {noinline = true} {
tt.func private @helper(%x: f32, %y: f32) -> f32 attributes {noinline = true} {
  // CHECK-NEXT: %sum = arith.addf %x, %y : f32
  %sum = arith.addf %x, %y : f32
  // CHECK-NEXT: tt.return %sum : f32
  tt.return %sum : f32
// CHECK-NEXT: }
}

// CHECK: tt.func private @regions(%x: tensor<4x8xf32>, %v: tensor<8xf32>, %i: tensor<8xi32>, %n: i32) attributes {noinline = false} {
tt.func private @regions(%x: tensor<4x8xf32>, %v: tensor<8xf32>, %i: tensor<8xi32>, %n: i32) attributes {noinline = false} {
  // CHECK-NEXT: %rows = "tt.reduce"(%x) <{axis = 1 : i32}> ({
  %rows = "tt.reduce"(%x) <{axis = 1 : i32}> ({
  // CHECK-NEXT: ^bb0(%a: f32, %b: f32):
  ^bb0(%a: f32, %b: f32):
    // CHECK-NEXT: %max = arith.maxnumf %a, %b : f32
    %max = arith.maxnumf %a, %b : f32
    // CHECK-NEXT: tt.reduce.return %max : f32
    tt.reduce.return %max : f32
  // CHECK-NEXT: }) : (tensor<4x8xf32>) -> tensor<4xf32>
  }) : (tensor<4x8xf32>) -> tensor<4xf32>
  // CHECK-NEXT: %best, %at = "tt.reduce"(%v, %i) <{axis = 0 : i32}> ({
  %best, %at = "tt.reduce"(%v, %i) <{axis = 0 : i32}> ({
  // CHECK-NEXT: ^bb0(%u: f32, %k: i32, %w: f32, %l: i32):
  ^bb0(%u: f32, %k: i32, %w: f32, %l: i32):
    // CHECK-NEXT: %larger = arith.cmpf ogt, %u, %w : f32
    %larger = arith.cmpf ogt, %u, %w : f32
    // CHECK-NEXT: %value = arith.select %larger, %u, %w : f32
    %value = arith.select %larger, %u, %w : f32
    // CHECK-NEXT: %index = arith.select %larger, %k, %l : i32
    %index = arith.select %larger, %k, %l : i32
    // CHECK-NEXT: tt.reduce.return %value, %index : f32, i32
    tt.reduce.return %value, %index : f32, i32
  // CHECK-NEXT: }) : (tensor<8xf32>, tensor<8xi32>) -> (f32, i32)
  }) : (tensor<8xf32>, tensor<8xi32>) -> (f32, i32)
  // CHECK-NEXT: %running = "tt.scan"(%v) <{axis = 0 : i32, reverse = false}> ({
  %running = "tt.scan"(%v) <{axis = 0 : i32, reverse = false}> ({
  // CHECK-NEXT: ^bb0(%c: f32, %d: f32):
  ^bb0(%c: f32, %d: f32):
    // CHECK-NEXT: %sum = tt.call @helper(%c, %d) : (f32, f32) -> f32
    %sum = tt.call @helper(%c, %d) : (f32, f32) -> f32
    // CHECK-NEXT: tt.scan.return %sum : f32
    tt.scan.return %sum : f32
  // CHECK-NEXT: }) : (tensor<8xf32>) -> tensor<8xf32>
  }) : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK-NEXT: %mapped = "tt.map_elementwise"(%v) <{pack = 1 : i32}> ({
  %mapped = "tt.map_elementwise"(%v) <{pack = 1 : i32}> ({
  // CHECK-NEXT: ^bb0(%e: f32):
  ^bb0(%e: f32):
    // CHECK-NEXT: %twice = arith.addf %e, %e : f32
    %twice = arith.addf %e, %e : f32
    // CHECK-NEXT: tt.map_elementwise.return %twice : f32
    tt.map_elementwise.return %twice : f32
  // CHECK-NEXT: }) : (tensor<8xf32>) -> tensor<8xf32>
  }) : (tensor<8xf32>) -> tensor<8xf32>
  // CHECK-NEXT: %zero = arith.constant 0 : i32
  %zero = arith.constant 0 : i32
  // CHECK-NEXT: %one = arith.constant 1 : i32
  %one = arith.constant 1 : i32
  // CHECK-NEXT: %total, %count = scf.for %j = %zero to %n step %one iter_args(%acc = %v, %from = %zero) -> (tensor<8xf32>, i32) : i32 {
  %total, %count = scf.for %j = %zero to %n step %one iter_args(%acc = %v, %from = %zero) -> (tensor<8xf32>, i32) : i32 {
    // CHECK-NEXT: %more = arith.addf %acc, %v : tensor<8xf32>
    %more = arith.addf %acc, %v : tensor<8xf32>
    // CHECK-NEXT: %next = arith.addi %from, %one : i32
    %next = arith.addi %from, %one : i32
    // CHECK-NEXT: scf.yield %more, %next : tensor<8xf32>, i32
    scf.yield %more, %next : tensor<8xf32>, i32
  // CHECK-NEXT: } {tt.num_stages = 3 : i32}
  } {tt.num_stages = 3 : i32}
  // CHECK-NEXT: tt.return
  tt.return
// CHECK-NEXT: }
}

// CHECK-LABEL: tt.func private @blocks(
tt.func private @blocks(%x: !tt.ptr<f32>, %n: i64, %i: i32) attributes {noinline = false} {
  // CHECK-NEXT: %p = tt.make_tensor_ptr %x, [%n, %n], [%n, %n], [%i, %i] {order = array<i32: 1, 0>} : !tt.ptr<tensor<8x8xf32>>
  %p = tt.make_tensor_ptr %x, [%n, %n], [%n, %n], [%i, %i] {order = array<i32: 1, 0>} : <tensor<8x8xf32>>
  // CHECK-NEXT: %q = tt.advance %p, [%i, %i] : !tt.ptr<tensor<8x8xf32>>
  %q = tt.advance %p, [%i, %i] : <tensor<8x8xf32>>
  // CHECK-NEXT: %v = tt.load %q {boundaryCheck = array<i32: 0, 1>, padding = 1 : i32} : !tt.ptr<tensor<8x8xf32>>
  %v = tt.load %q {boundaryCheck = array<i32: 0, 1>, padding = 1 : i32} : !tt.ptr<tensor<8x8xf32>>
  // CHECK-NEXT: %same = arith.bitcast %v : tensor<8x8xf32> to tensor<8x8xf32>
  %same = arith.bitcast %v : tensor<8x8xf32> to tensor<8x8xf32>
  // CHECK-NEXT: tt.store %p, %same {boundaryCheck = array<i32: 0>} : !tt.ptr<tensor<8x8xf32>>
  tt.store %p, %same {boundaryCheck = array<i32: 0>} : !tt.ptr<tensor<8x8xf32>>
  tt.return
}
